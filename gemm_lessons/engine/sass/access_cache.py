"""Memoise the cost of accesses: shifted by a multiple of the period, an access pattern costs the same."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from gemm_lessons.engine.costs.copies import LINE, NOWHERE
from gemm_lessons.engine.costs.footprint import Footprint, moved, pattern
from gemm_lessons.engine.costs.tally import Shot, Tally, shot
from gemm_lessons.engine.events import Access
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.sass.lanes import Geometry

KEY_LANES = 64  # leading lanes whose addresses identify a pattern: hashing all lanes costs more than comparing them
MOST_PATTERNS = 64  # address patterns of one instruction


class _Pattern(NamedTuple):
    """An access pattern: addresses relative to the first lane, active lanes, the other side's addresses of a copy, its
    cost, and the first lane's addresses so far.
    """

    shape: Array
    mask: Array | None
    other: Array | None
    shot: Shot
    bases: list[int]

    def matches(self, shape: Array, mask: Array | None, other: Array | None) -> bool:
        """Return whether the access has this pattern.

        The addresses of the first ``KEY_LANES`` lanes are known to match.
        """
        more = shape.size > KEY_LANES and not (shape == self.shape).all()
        return not more and _same(mask, self.mask) and _same(other, self.other)


def _same(one: Array | None, other: Array | None) -> bool:
    if one is other:
        return True
    return one is not None and other is not None and bool((one == other).all())


class AccessCosts:
    """Memoised costs of one instruction's accesses. Shifted by a multiple of ``period`` bytes they cost the same."""

    def __init__(self, access: Access, period: int) -> None:
        self.access = access
        self.period = period
        # Key: the first lane's address modulo the period, and the bytes of the first ``KEY_LANES`` addresses.
        self.known: dict[int, dict[bytes, list[_Pattern]]] = {}
        self.places: dict[bytes, tuple[_Pattern, int]] = {}  # shared memory: a pattern by its absolute addresses
        self.footprint = Footprint()

    def look(self, where: Array, mask: Array | None, geometry: Geometry, other: Array | None = None) -> Shot | None:
        """Return the cost of an access at these addresses; None for a repeated pattern, which ``left`` adds at the end.

        ``other``: addresses of the other side of a copy.
        """
        addresses = b""
        if mask is None and other is None and self.access.space == "shared" and where.size <= KEY_LANES:
            addresses = where.tobytes()
            if addresses in self.places:
                known, first = self.places[addresses]
                known.bases.append(first)
                return None
        first = where.item(0)
        shape = where - np.array(first)
        found = self.known.setdefault(first % self.period, {})
        beside = None if other is None else np.where(other == NOWHERE, NOWHERE, other - other.max() // LINE * LINE)
        alike = found.setdefault(shape[:KEY_LANES].tobytes(), [])
        for known in alike:
            if known.matches(shape, mask, beside):
                known.bases.append(first)
                if addresses and len(self.places) < MOST_PATTERNS:
                    self.places[addresses] = known, first
                return None
        one = shot(self.access, where, mask, other)
        if sum(map(len, found.values())) < MOST_PATTERNS:
            alike.append(_Pattern(shape, mask, beside, one, [first]))
        else:
            self.footprint.add(
                pattern(where, mask, geometry.padded, geometry.by_warps), 1, 1, self.access.width, geometry.first
            )
        return one

    def left(self, geometry: Geometry, tally: Tally) -> Footprint:
        """Return the footprint of all accesses, and add the repeated ones to ``tally``."""
        for found in self.known.values():
            for known in itertools.chain(*found.values()):
                tally.add(known.shot, len(known.bases) - 1, known.shape, known.mask)
                one = pattern(known.shape, known.mask, geometry.padded, geometry.by_warps)
                self.footprint.add(one, len(known.bases), moved(known.bases), self.access.width, geometry.first)
        return self.footprint
