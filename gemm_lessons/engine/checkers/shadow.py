"""Shadow memory of one global buffer. Threads are numbered through the grid from 1; 0 means none."""

from __future__ import annotations

import numpy as np

from gemm_lessons.engine.records.arrays import Array

BIG = np.iinfo(np.int32).max


class Shadow:
    """The last plain store to each granule, and its other visitors."""

    def __init__(self, size: int, granule: int, fresh: bool) -> None:
        count = -(-size // granule)
        self.granule = granule
        self.fresh = fresh
        self.writer = np.zeros(count, np.int32)
        self.writer_epoch = np.zeros(count, np.int32)
        self.writer_access = np.zeros(count, np.int16)
        self.writer_strong = np.zeros(count, np.bool_)
        self.writer_time = np.zeros(0, np.int64)  # only where blocks may pass data to each other
        self.visitors: dict[str, Visitors] = {}  # by kind of visit, see ``global_memory``

    def written(self, cell: Array | slice) -> Array:
        """Return whether any thread has stored into or updated each of ``cell``."""
        written: Array = self.writer[cell] != 0
        for how in ("atomic", "block_scoped"):
            if how in self.visitors:
                written = written | (self.visitors[how].high[cell] != 0)
        return written


class LatestVisits:
    """Per granule: the last visitor and its time, and the same for the last visitor other than that one."""

    def __init__(self, count: int) -> None:
        self._last, self._before = np.zeros(count, np.int32), np.zeros(count, np.int32)
        self._time, self._time_before = np.zeros(count, np.int64), np.zeros(count, np.int64)

    def note(self, cell: Array, who: Array, time: int) -> None:
        """Record that threads or blocks ``who`` visit ``cell`` at ``time``."""
        new = cell[self._last[cell] != who]
        self._before[new], self._time_before[new] = self._last[new], self._time[new]
        self._last[cell], self._time[cell] = who, time
        beside = self._last[cell] != who  # several at once
        self._before[cell[beside]], self._time_before[cell[beside]] = who[beside], time

    def of_others(self, cell: Array, who: Array) -> tuple[Array, Array]:
        """Return the last visitor other than ``who``, and its time."""
        own = self._last[cell] == who
        return (
            np.where(own, self._before[cell], self._last[cell]),
            np.where(own, self._time_before[cell], self._time[cell]),
        )


class Visitors:
    """Lowest and highest visiting thread: ever, and since the last barrier of its block.

    The latest visits of threads and blocks are kept only if fences and flags may order them.
    """

    def __init__(self, count: int, latest: bool) -> None:
        self.low = np.full(count, BIG, np.int32)
        self.high = np.zeros(count, np.int32)
        self.recent_low = np.full(count, BIG, np.int32)
        self.recent_high = np.zeros(count, np.int32)
        self.epoch = np.full(count, -1, np.int32)
        self.access = np.zeros(count, np.int16)
        self.threads = LatestVisits(count) if latest else None
        self.blocks = LatestVisits(count) if latest else None

    def note(self, number: int | Array, cell: Array, thread: Array, epoch: Array, padded: int) -> None:
        """Record that ``thread``, in ascending order, visits ``cell`` with access ``number``."""
        low, high = self.recent_low[cell], self.recent_high[cell]
        same = (self.epoch[cell] == epoch) & ((high - 1) // padded == (thread - 1) // padded)
        # Threads ascend: for duplicate granules the last assignment is the maximum, and in reverse the minimum.
        self.recent_high[cell] = np.maximum(np.where(same, high, 0), thread)
        self.recent_low[cell[::-1]] = np.minimum(np.where(same, low, BIG), thread)[::-1]
        self.high[cell] = np.maximum(self.high[cell], thread)
        self.low[cell[::-1]] = np.minimum(self.low[cell], thread)[::-1]
        self.epoch[cell] = epoch
        self.access[cell] = number
