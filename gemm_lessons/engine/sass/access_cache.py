"""Accesses that come again, moved by a multiple of some bytes: they cost the same, and are worked out once."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from gemm_lessons.engine.costs.copies import LINE, NOWHERE
from gemm_lessons.engine.costs.footprint import Footprint, moved, pattern
from gemm_lessons.engine.costs.tally import Shot, Tally, shot
from gemm_lessons.engine.events import Access
from gemm_lessons.engine.sass.lanes import Geometry
from gemm_lessons.engine.sass.operand_fetch import Array

TOLD_BY = 64  # lanes whose addresses tell most patterns apart: to look all up by their bytes costs more than to compare
REMEMBERED = 64  # address patterns of one instruction


class _Pattern(NamedTuple):
    """An access: its addresses, those of the first lane taken off, who makes it, of a copy the other side's addresses,
    its cost, and the first lane's addresses so far."""

    shape: Array
    mask: Array | None
    other: Array | None
    shot: Shot
    bases: list[int]

    def matches(self, shape: Array, mask: Array | None, other: Array | None) -> bool:
        """Whether it is this one. The first ``TOLD_BY`` lanes' addresses are known to be."""
        more = shape.size > TOLD_BY and not (shape == self.shape).all()
        return not more and _same(mask, self.mask) and _same(other, self.other)


def _same(one: Array | None, other: Array | None) -> bool:
    if one is other:
        return True
    return one is not None and other is not None and bool((one == other).all())


class Remembered:
    """What one instruction's accesses cost, remembered: moved by a multiple of ``period`` bytes they cost the same."""

    def __init__(self, access: Access, period: int) -> None:
        self.access = access
        self.period = period
        # By where in a period the first lane's address lies, and the bytes of the first ``TOLD_BY`` of a pattern.
        self.known: dict[int, dict[bytes, list[_Pattern]]] = {}
        self.places: dict[bytes, tuple[_Pattern, int]] = {}  # of shared memory: a pattern by its true addresses
        self.footprint = Footprint()

    def look(self, where: Array, mask: Array | None, geometry: Geometry, other: Array | None = None) -> Shot | None:
        """What an access at these addresses costs, None if it is remembered for ``left``. ``other``: of a copy, the
        addresses of its other side."""
        addresses = b""
        if mask is None and other is None and self.access.space == "shared" and where.size <= TOLD_BY:
            addresses = where.tobytes()
            if addresses in self.places:
                known, first = self.places[addresses]
                known.bases.append(first)
                return None
        first = where.item(0)
        shape = where - np.array(first)
        found = self.known.setdefault(first % self.period, {})
        beside = None if other is None else np.where(other == NOWHERE, NOWHERE, other - other.max() // LINE * LINE)
        alike = found.setdefault(shape[:TOLD_BY].tobytes(), [])
        for known in alike:
            if known.matches(shape, mask, beside):
                known.bases.append(first)
                if addresses and len(self.places) < REMEMBERED:
                    self.places[addresses] = known, first
                return None
        one = shot(self.access, where, mask, other)
        if sum(map(len, found.values())) < REMEMBERED:
            alike.append(_Pattern(shape, mask, beside, one, [first]))
        else:
            self.footprint.add(
                pattern(where, mask, geometry.padded, geometry.by_warps), 1, 1, self.access.width, geometry.first
            )
        return one

    def left(self, geometry: Geometry, tally: Tally) -> Footprint:
        """Every byte that was looked at; what came again goes into ``tally``."""
        for found in self.known.values():
            for known in itertools.chain(*found.values()):
                tally.add(known.shot, len(known.bases) - 1, known.shape, known.mask)
                one = pattern(known.shape, known.mask, geometry.padded, geometry.by_warps)
                self.footprint.add(one, len(known.bases), moved(known.bases), self.access.width, geometry.first)
        return self.footprint
