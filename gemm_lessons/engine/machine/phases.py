"""Barriers in shared memory (``mbarrier``): in which phase each of a batch's is, and what that phase still waits for.

A phase is over when as many arrivals have come as are expected, and as many bytes as were announced; the next one
begins at once. Memory holds a picture of it, so that a barrier that somebody stores over is noticed. Source: NVIDIA,
"PTX ISA" 9.0, 9.7.13.15; what the 64 bits mean is not documented, and is our own here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

BYTES = 8  # of one barrier
MOST = (1 << 20) - 1  # arrivals that a phase may expect, and bytes that it may still wait for
PHASE = np.uint64(1) << np.uint64(63)


class Misused(Exception):
    """A barrier is used as none may be (``case`` of a finding ``mbarrier``): a number that it was given, and what that
    may be. ``position``: which of the lanes that were given does it."""

    def __init__(self, position: int, case: str, value: int = 0, limit: int = 0) -> None:
        super().__init__(case)
        self.position, self.case = position, case
        self.value, self.limit = value, limit


class Phases:
    """Every barrier of a batch by its cell: 8 bytes of all blocks' shared memory, one block after the other."""

    def __init__(self, shared: NDArray[np.uint8]) -> None:
        self._words = shared.view(np.uint64)
        count = self._words.size
        self._valid = np.zeros(count, np.bool_)
        self.phase = np.zeros(count, np.int32)
        self.pending = np.zeros(count, np.int32)
        self.expected = np.zeros(count, np.int32)
        self.bytes = np.zeros(count, np.int64)
        self.changes = 0  # how often anything happened to any
        self.completions = 0

    def begin(self) -> None:
        """A new batch: there is none."""
        self._valid[:] = False

    def init(self, cell: Array, count: Array) -> None:
        """Make barriers whose every phase expects ``count`` arrivals."""
        bad = (count < 1) | (count > MOST)
        if bad.any():
            position = int(bad.argmax())
            raise Misused(position, "arrivals", int(count[position]), MOST)
        self._valid[cell] = True
        self.phase[cell], self.bytes[cell] = 0, 0
        self.expected[cell] = self.pending[cell] = count
        self._changed(cell)

    def invalidate(self, cell: Array) -> None:
        """They are barriers no more."""
        self.check(cell)
        self._valid[cell] = False
        self.changes += 1

    def check(self, cell: Array) -> None:
        """Raises ``Misused`` for what is no barrier, or was stored over."""
        valid = self._valid[cell]
        if not valid.all():
            raise Misused(int((~valid).argmax()), "not made")
        intact = self._words[cell] == self._picture(cell)
        if not intact.all():
            raise Misused(int((~intact).argmax()), "overwritten")

    def arrive(self, cell: Array, count: Array, announced: Array, leaving: bool, completes: bool) -> Array:
        """Lanes announce bytes and then arrive, ``count`` times each; ``leaving``: later phases expect as many fewer.
        The phase in which each arrived. ``completes`` False: it may not end the phase."""
        self.check(cell)
        places, which = np.unique(cell, return_inverse=True)
        total = np.bincount(which, count).astype(np.int64)
        if completes and (count >= 1).all() and (total <= self.pending[places]).all():
            found: Array = self.phase[cell]
            self._announce(cell, announced)
            self.pending[places] -= total.astype(np.int32)
            if leaving:
                self.expected[places] -= total.astype(np.int32)
            self._complete(places)
            return found
        found = np.zeros(cell.size, np.int32)
        for position, (place, times) in enumerate(zip(cell.tolist(), count.tolist(), strict=True)):
            missing = int(self.pending[place])
            if not 1 <= times <= missing:
                raise Misused(position, "arrived", int(times), missing)
            if not completes and times == missing and not self.bytes[place] + announced[position]:
                raise Misused(position, "completed")
            found[position] = self.phase[place]
            one = cell[position : position + 1]
            self._announce(one, announced[position : position + 1])
            self.pending[place] -= times
            if leaving:
                self.expected[place] -= times
            self._complete(one)
        return found

    def announce(self, cell: Array, count: Array) -> Array:
        """``count`` more bytes are expected, or fewer: they have come. The phase that waits for them."""
        self.check(cell)
        found: Array = self.phase[cell]
        self._announce(cell, count)
        self._complete(np.unique(cell))
        return found

    def _announce(self, cell: Array, count: Array) -> None:
        if not np.any(count):
            return
        np.add.at(self.bytes, cell, count)
        bad = np.abs(self.bytes[cell]) > MOST
        if bad.any():
            position = int(bad.argmax())
            raise Misused(position, "bytes", int(self.bytes[cell[position]]), MOST)

    def _complete(self, places: Array) -> None:
        """Phases that wait for nothing any more end. ``places`` are distinct."""
        done = places[(self.pending[places] == 0) & (self.bytes[places] == 0)]
        if done.size:
            self.phase[done] += 1
            self.pending[done] = self.expected[done]
            self.completions += 1
        self._changed(places)

    def _changed(self, cell: Array) -> None:
        self._words[cell] = self._picture(cell)
        self.changes += 1

    def _picture(self, cell: Array) -> Array:
        parts = (self.pending[cell], self.expected[cell], self.bytes[cell] & 0x3FFFFF)
        pending, expected, some = (part.astype(np.uint64) for part in parts)
        odd = (self.phase[cell] & 1).astype(np.uint64)
        picture: Array = pending | expected << np.uint64(20) | some << np.uint64(40) | odd << np.uint64(63)
        return picture

    def token(self, cell: Array, count: Array) -> Array:
        """What an arrival gives each lane, before all of them arrive: the state that it finds."""
        order = np.argsort(cell, kind="stable")
        places, times = cell[order], count[order].astype(np.int64)
        before = np.cumsum(times) - times
        first = np.concatenate(([True], places[1:] != places[:-1]))
        before -= before[np.flatnonzero(first)][np.cumsum(first) - 1]
        word = np.zeros(cell.size, np.uint64)
        word[order] = self._picture(places) - before.astype(np.uint64)
        return word


def pending_count(token: Array) -> Array:
    """``mbarrier.pending_count``: arrivals that were missing before the one that gave ``token``."""
    return (token & np.uint64(MOST)).astype(np.uint32)
