"""Who touched each granule of one global buffer. Threads are numbered through the grid, from 1; 0 is nobody."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
BIG = np.iinfo(np.int32).max


class Shadow:
    """The last plain store of each granule, and who visited it otherwise."""

    def __init__(self, size: int, granule: int, fresh: bool) -> None:
        count = -(-size // granule)
        self.granule = granule
        self.fresh = fresh
        self.writer = np.zeros(count, np.int32)
        self.writer_epoch = np.zeros(count, np.int32)
        self.writer_access = np.zeros(count, np.int16)
        self.writer_strong = np.zeros(count, np.bool_)
        self.writer_time = np.zeros(0, np.int64)  # only where blocks may hand data to each other
        self.visitors: dict[str, Visitors] = {}  # by how they visit, see ``global_memory``

    def written(self, cell: Array | slice) -> Array:
        """Whether anybody has stored into or updated each of ``cell``."""
        written: Array = self.writer[cell] != 0
        for how in ("atomic", "narrow"):
            if how in self.visitors:
                written = written | (self.visitors[how].high[cell] != 0)
        return written


class Turns:
    """Who came last to each granule and when, and the same of the last that was somebody else."""

    def __init__(self, count: int) -> None:
        self._last, self._before = np.zeros(count, np.int32), np.zeros(count, np.int32)
        self._time, self._time_before = np.zeros(count, np.int64), np.zeros(count, np.int64)

    def note(self, cell: Array, who: Array, time: int) -> None:
        """``who`` comes to ``cell`` at ``time``."""
        new = cell[self._last[cell] != who]
        self._before[new], self._time_before[new] = self._last[new], self._time[new]
        self._last[cell], self._time[cell] = who, time
        beside = self._last[cell] != who  # several at once
        self._before[cell[beside]], self._time_before[cell[beside]] = who[beside], time

    def of_others(self, cell: Array, who: Array) -> tuple[Array, Array]:
        """The last one that is not ``who``, and when it came."""
        own = self._last[cell] == who
        return (
            np.where(own, self._before[cell], self._last[cell]),
            np.where(own, self._time_before[cell], self._time[cell]),
        )


class Visitors:
    """Lowest and highest visiting thread: ever, and since the last barrier of its block. The turns of threads and
    blocks are noted where they may order themselves by fences and flags."""

    def __init__(self, count: int, turns: bool) -> None:
        self.low = np.full(count, BIG, np.int32)
        self.high = np.zeros(count, np.int32)
        self.recent_low = np.full(count, BIG, np.int32)
        self.recent_high = np.zeros(count, np.int32)
        self.epoch = np.full(count, -1, np.int32)
        self.access = np.zeros(count, np.int16)
        self.threads = Turns(count) if turns else None
        self.blocks = Turns(count) if turns else None

    def note(self, number: int | Array, cell: Array, thread: Array, epoch: Array, padded: int) -> None:
        """``thread``, in ascending order, visits ``cell`` with access ``number``."""
        low, high = self.recent_low[cell], self.recent_high[cell]
        same = (self.epoch[cell] == epoch) & ((high - 1) // padded == (thread - 1) // padded)
        # Threads ascend: of entries for the same granule the last assigned is the maximum, reversed the minimum.
        self.recent_high[cell] = np.maximum(np.where(same, high, 0), thread)
        self.recent_low[cell[::-1]] = np.minimum(np.where(same, low, BIG), thread)[::-1]
        self.high[cell] = np.maximum(self.high[cell], thread)
        self.low[cell[::-1]] = np.minimum(self.low[cell], thread)[::-1]
        self.epoch[cell] = epoch
        self.access[cell] = number
