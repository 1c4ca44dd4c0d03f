"""Bytes that other instructions write than the stores that machine code is followed for.

These are copies by the async proxy, operations on mbarriers, stmatrix, and stores to other blocks of a cluster.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gemm_lessons.engine.events import Access, LaunchInfo, Placed, Record, Touch
from gemm_lessons.engine.records.arrays import Array
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
                self._inside(record.access, record.addresses[record.active_lanes])
            elif type(record) is Placed and record.touch.access.is_bulk and record.touch.access.effect in WRITES:
                self._outside(record.touch.access, record.touch.addresses[record.touch.active_lanes] + record.base)

    def _inside(self, access: Access, where: Array) -> None:
        special = access.is_bulk or access.is_mbarrier or access.is_matrix
        if access.effect == "load" or not (special or access.effect in WRITES):
            return
        if not special:
            where = where[(where < 0) | (where >= self._window)]
        for first in np.unique(where % self._window).tolist():
            self._shared[self._origin + first : self._origin + first + access.width] = True

    def _outside(self, access: Access, where: Array) -> None:
        if where.size:
            first, end = int(where.min()), int(where.max()) + access.width
            known = self._ranges.get(access.index, (first, end))
            self._ranges[access.index] = min(first, known[0]), max(end, known[1])

    def result(self) -> Unfollowed:
        """Return all of them."""
        return Unfollowed(self._shared, tuple(self._ranges.values()))
