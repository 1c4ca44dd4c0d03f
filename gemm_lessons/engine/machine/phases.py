"""Barriers in shared memory (``mbarrier``): the current phase of each, and what that phase still waits for.

A phase completes when the expected number of arrivals and the announced number of bytes have arrived; the next phase
begins at once. Shared memory holds an encoding of the barrier's state, so that a store over a barrier is detected.
Source: NVIDIA, "PTX ISA" 9.0, 9.7.13.15. The encoding of the 64 bits is not documented; this one is the kit's own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gemm_lessons.engine.records.arrays import Array

BYTES = 8  # size of one barrier
MAX_COUNT = (1 << 20) - 1  # largest number of arrivals that a phase may expect, and of pending bytes
PHASE = np.uint64(1) << np.uint64(63)


class MbarrierMisused(Exception):
    """An illegal use of a barrier. ``case`` is that of a finding ``mbarrier``; ``value`` is the number given and
    ``limit`` the largest one allowed. ``position``: index of the lane among those passed in."""

    def __init__(self, position: int, case: str, value: int = 0, limit: int = 0) -> None:
        super().__init__(case)
        self.position, self.case = position, case
        self.value, self.limit = value, limit


class Phases:
    """All barriers of a batch, by cell: a cell is 8 bytes of all blocks' shared memory, one block after the other.
    ``phase``, ``pending`` and ``expected`` are int32 (cells,), ``bytes`` is int64 (cells,), and so is ``flying``: bytes
    of copies that have begun and not reported."""

    def __init__(self, shared: NDArray[np.uint8]) -> None:
        self._words = shared.view(np.uint64)
        count = self._words.size
        self._valid = np.zeros(count, np.bool_)
        self.phase = np.zeros(count, np.int32)
        self.pending = np.zeros(count, np.int32)
        self.expected = np.zeros(count, np.int32)
        self.bytes = np.zeros(count, np.int64)
        self.flying = np.zeros(count, np.int64)
        self.changes = 0  # number of updates of any barrier
        self.completions = 0

    def begin(self) -> None:
        """Remove all barriers, for a new batch."""
        self._valid[:] = False
        self.flying[:] = 0

    def init(self, cell: Array, count: Array) -> None:
        """Create barriers at ``cell`` whose every phase expects ``count`` arrivals. Raise ``MbarrierMisused``."""
        bad = (count < 1) | (count > MAX_COUNT)
        if bad.any():
            position = int(bad.argmax())
            raise MbarrierMisused(position, "arrivals", int(count[position]), MAX_COUNT)
        self._valid[cell] = True
        self.phase[cell], self.bytes[cell] = 0, 0
        self.expected[cell] = self.pending[cell] = count
        self._changed(cell)

    def invalidate(self, cell: Array) -> None:
        """Remove the barriers at ``cell``. Raise ``MbarrierMisused``."""
        self.check(cell)
        self._valid[cell] = False
        self.changes += 1

    def check(self, cell: Array) -> None:
        """Raise ``MbarrierMisused`` if a cell holds no barrier, or if a store has overwritten it."""
        valid = self._valid[cell]
        if not valid.all():
            raise MbarrierMisused(int((~valid).argmax()), "not made")
        intact = self._words[cell] == self._encoded(cell)
        if not intact.all():
            raise MbarrierMisused(int((~intact).argmax()), "overwritten")

    def arrive(self, cell: Array, count: Array, announced: Array, drops: bool, completes: bool) -> Array:
        """Announce bytes and then arrive ``count`` times per lane. Return the phase in which each lane arrived.

        ``drops``: later phases expect ``count`` fewer arrivals. ``completes`` False: the arrival may not end the
        phase. Raise ``MbarrierMisused``.
        """
        self.check(cell)
        places, which = np.unique(cell, return_inverse=True)
        total = np.bincount(which, count).astype(np.int64)
        if completes and (count >= 1).all() and (total <= self.pending[places]).all():
            found: Array = self.phase[cell]
            self._announce(cell, announced)
            self.pending[places] -= total.astype(np.int32)
            if drops:
                self.expected[places] -= total.astype(np.int32)
            self._complete(places)
            return found
        found = np.zeros(cell.size, np.int32)
        for position, (place, times) in enumerate(zip(cell.tolist(), count.tolist(), strict=True)):
            missing = int(self.pending[place])
            if not 1 <= times <= missing:
                raise MbarrierMisused(position, "arrived", int(times), missing)
            if not completes and times == missing and not self.bytes[place] + announced[position]:
                raise MbarrierMisused(position, "completed")
            found[position] = self.phase[place]
            one = cell[position : position + 1]
            self._announce(one, announced[position : position + 1])
            self.pending[place] -= times
            if drops:
                self.expected[place] -= times
            self._complete(one)
        return found

    def announce(self, cell: Array, count: Array) -> Array:
        """Expect ``count`` more bytes; negative: bytes have arrived. Return the current phase of each cell. Raise
        ``MbarrierMisused``, also if the phase may have ended before: it waits for copies alone, all of which have
        begun."""
        self.check(cell)
        late = (count > 0) & (self.pending[cell] == 0) & (self.flying[cell] >= self.bytes[cell])
        if late.any():
            raise MbarrierMisused(int(late.argmax()), "late", int(count[late.argmax()]))
        found: Array = self.phase[cell]
        self._announce(cell, count)
        self._complete(np.unique(cell))
        return found

    def _announce(self, cell: Array, count: Array) -> None:
        if not np.any(count):
            return
        np.add.at(self.bytes, cell, count)
        bad = np.abs(self.bytes[cell]) > MAX_COUNT
        if bad.any():
            position = int(bad.argmax())
            raise MbarrierMisused(position, "bytes", int(self.bytes[cell[position]]), MAX_COUNT)

    def _complete(self, places: Array) -> None:
        """End the phases that wait for nothing. ``places`` are distinct cells."""
        done = places[(self.pending[places] == 0) & (self.bytes[places] == 0)]
        if done.size:
            self.phase[done] += 1
            self.pending[done] = self.expected[done]
            self.completions += 1
        self._changed(places)

    def _changed(self, cell: Array) -> None:
        self._words[cell] = self._encoded(cell)
        self.changes += 1

    def _encoded(self, cell: Array) -> Array:
        parts = (self.pending[cell], self.expected[cell], self.bytes[cell] & 0x3FFFFF)
        pending, expected, some = (part.astype(np.uint64) for part in parts)
        odd = (self.phase[cell] & 1).astype(np.uint64)
        word: Array = pending | expected << np.uint64(20) | some << np.uint64(40) | odd << np.uint64(63)
        return word

    def token(self, cell: Array, count: Array) -> Array:
        """Return the state that each lane's arrival returns, as it is before that arrival."""
        order = np.argsort(cell, kind="stable")
        places, times = cell[order], count[order].astype(np.int64)
        before = np.cumsum(times) - times
        first = np.concatenate(([True], places[1:] != places[:-1]))
        before -= before[np.flatnonzero(first)][np.cumsum(first) - 1]
        word = np.zeros(cell.size, np.uint64)
        word[order] = self._encoded(places) - before.astype(np.uint64)
        return word


def pending_count(token: Array) -> Array:
    """Return the result of ``mbarrier.pending_count``: the arrivals pending before that which returned ``token``."""
    return (token & np.uint64(MAX_COUNT)).astype(np.uint32)
