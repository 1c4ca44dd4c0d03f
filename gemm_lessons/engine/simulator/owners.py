"""Finds which blocks of a launch store into given words of buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gemm_lessons.engine.events import Batch, Boundary, LaunchInfo, Observer, Placed, Record
from gemm_lessons.engine.records.arrays import Array

WORD = 4  # bytes


class StoreOwners(Observer):
    """Observer that collects the blocks that store into ``wanted``: buffer -> which of its words of 4 bytes, bool (n,).
    It needs the true address of each access (``Setting.placed``)."""

    def __init__(self, wanted: Mapping[str, Array]) -> None:
        self._wanted = wanted
        self._found: set[int] = set()

    @property
    def blocks(self) -> tuple[int, ...]:
        """Return the blocks, in order."""
        return tuple(sorted(self._found))

    def begin(self, launch: LaunchInfo) -> None:
        """Set up for a launch. See ``events.Observer``, also for the other methods."""
        self._places = [
            (start, size, self._wanted[name]) for name, start, size in launch.buffers if name in self._wanted
        ]

    def epoch(self, batch: Batch, records: Sequence[Record], boundary: Boundary) -> None:
        """Note the blocks of stores into wanted places."""
        for record in records:
            if isinstance(record, Placed) and record.touch.access.effect == "store":
                self._note(batch, record)

    def _note(self, batch: Batch, record: Placed) -> None:
        touch = record.touch
        lanes = touch.active_lanes
        addresses = touch.addresses[lanes] + record.base
        for start, size, wanted in self._places:
            offsets = addresses - start
            inside = (offsets >= 0) & (offsets < size)
            if not inside.any():
                continue
            first, last = offsets[inside] // WORD, (offsets[inside] + touch.access.width - 1) // WORD
            hit = np.zeros(first.size, np.bool_)
            for word in range(int((last - first).max()) + 1):
                hit |= wanted[np.minimum(first + word, last)]
            self._found.update(batch.numbers[np.unique(lanes[inside][hit] // batch.padded_threads)].tolist())
