"""Bytes that other instructions write than the stores that machine code is followed for.

These are copies by the async proxy, operations on mbarriers, stmatrix, and stores to other blocks of a cluster.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gemm_lessons.engine.events import LaunchInfo, Placed, Record, Touch
from gemm_lessons.engine.sass.memory_contents import Unfollowed

WRITES = ("store", "atomic")


class OtherWriters:
    """Collects the bytes over a launch. ``origin``: first address of a block's shared memory in machine code."""

    def __init__(self, launch: LaunchInfo, origin: int) -> None:
        self._window = -(-max(launch.shared_bytes, 16) // 16) * 16  # as ``state.State`` places the blocks of a cluster
        self._origin = origin
        self._shared = np.zeros(origin + self._window, np.bool_)
        self._ranges: dict[int, tuple[int, int]] = {}  # by instruction
        self._seen: set[Touch] = set()

    def follow(self, records: Sequence[Record]) -> None:
        """Collect from the records of an epoch."""
        for record in records:
            if type(record) is Touch and record.access.space == "shared" and record not in self._seen:
                self._seen.add(record)
                self._inside(record)
            elif type(record) is Placed and record.touch.access.is_bulk and record.touch.access.effect in WRITES:
                self._outside(record.touch, record.base)

    def _inside(self, touch: Touch) -> None:
        access = touch.access
        special = access.is_bulk or access.is_mbarrier or access.is_matrix
        if access.effect == "load" or not (special or access.effect in WRITES):
            return
        where = touch.addresses[touch.active_lanes]
        if not special:
            where = where[(where < 0) | (where >= self._window)]
        for first in np.unique(where % self._window).tolist():
            self._shared[self._origin + first : self._origin + first + access.width] = True

    def _outside(self, touch: Touch, base: int) -> None:
        where = touch.addresses[touch.active_lanes]
        if where.size:
            first, end = int(where.min()) + base, int(where.max()) + base + touch.access.width
            known = self._ranges.get(touch.access.index, (first, end))
            self._ranges[touch.access.index] = min(first, known[0]), max(end, known[1])

    def result(self) -> Unfollowed:
        """Return all of them."""
        return Unfollowed(self._shared, tuple(self._ranges.values()))
