"""Reads of shared or local memory that has never been written, to the byte.

The initialised set only grows while a batch runs, and batches repeat: each transition (state, epoch) -> state is
memoised, so that only new transitions cost NumPy work.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gemm_lessons.engine.checkers.collector import Example, FindingCollector, Key, Names
from gemm_lessons.engine.checkers.epochs import Epoch, Windows, cells
from gemm_lessons.engine.events import Access, Batch
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.facts import Location
from gemm_lessons.engine.records.frozen import dataclass


@dataclass(frozen=True)
class UninitialisedRead:
    """An access that read uninitialised memory: its count, and one example (byte offset, lane).

    ``each``: the count is that of one block in a batch whose blocks all do the same.
    """

    access: Access
    offset: int
    lane: int
    count: int
    each: bool


@dataclass(frozen=True, eq=False)
class _State:
    """Granules written so far: of the first block or of all blocks (shared), of all threads (local)."""

    shared: Array
    local: Array


class Initialised:
    """Tracks what a batch has written. ``unused``: load -> for each of its bytes, whether its value is not used."""

    def __init__(
        self, collector: FindingCollector, names: Names, windows: Windows, unused: Mapping[int, Array]
    ) -> None:
        self._collector, self._names, self._windows, self._unused = collector, names, windows, unused
        self.readers: dict[int, Access] = {}  # instructions that have read uninitialised memory
        self._steps: dict[tuple[_State, Epoch], tuple[_State, tuple[UninitialisedRead, ...]]] = {}
        self._start = _State(
            np.zeros(windows.shared // windows.shared_granule, np.bool_),
            np.zeros(windows.lanes * windows.local // windows.local_granule if windows.local else 0, np.bool_),
        )
        zeroed, granule = windows.zeroed, windows.shared_granule
        self._start.shared[zeroed.start // granule : zeroed.stop // granule] = True
        self._state = self._start

    def forget(self) -> None:
        """Drop the memoised epochs. Keep the current state."""
        self._steps.clear()

    def begin_batch(self) -> None:
        """Start new blocks: nothing is written."""
        self._state = self._start

    def epoch(self, batch: Batch, epoch: Epoch) -> None:
        """Advance the state by one epoch and report its uninitialised reads."""
        key = (self._state, epoch)
        step = self._steps.get(key)
        if step is None:
            step = self._steps[key] = self._step(self._state, epoch)
        self._state, blanks = step
        for blank in blanks:
            times = batch.blocks if blank.each else 1
            access = blank.access
            self.readers[access.index] = access
            found = Key("uninitialised", "warning", access.line, None, access.file, access.space)
            self._collector.add(found, lambda b=blank: self._example(batch, b), blank.count * times)  # type: ignore[misc]

    def _step(self, before: _State, epoch: Epoch) -> tuple[_State, tuple[UninitialisedRead, ...]]:
        windows = self._windows
        shared, local = before.shared, before.local
        per_block = windows.shared // windows.shared_granule
        blocks = windows.lanes // windows.padded
        whole = shared.size > per_block or not epoch.uniform or blocks == 1
        if whole and shared.size == per_block:
            shared = np.tile(shared, blocks)
        lanes = windows.lanes if whole else windows.padded
        blanks: list[UninitialisedRead] = []
        changed = False
        for touch in epoch.touches():
            is_shared = touch.access.space == "shared"
            bits = shared if is_shared else local
            granule = windows.shared_granule if is_shared else windows.local_granule
            stride = windows.shared if is_shared else windows.local
            where = cells(
                touch, lanes if is_shared else windows.lanes, windows.padded if is_shared else 1, stride, granule
            )
            known = bits[where.cell]
            wrong = ~known
            if touch.access.index in self._unused and not known.all():
                unused = self._unused[touch.access.index].reshape(-1, granule).all(axis=1)
                wrong &= ~np.tile(unused, wrong.size // unused.size)
            if touch.access.effect in ("load", "atomic") and wrong.any() and not touch.access.is_clipped:
                lane, offset = where.lane[wrong], int(where.cell[wrong][0]) * granule % stride
                count, each = int(np.unique(lane).size), is_shared and not whole
                blanks.append(UninitialisedRead(touch.access, offset, int(lane[0]), count, each))
            if touch.access.effect != "load" and not known.all():
                if not changed:
                    shared, local, changed = shared.copy(), local.copy(), True
                    bits = shared if is_shared else local
                bits[where.cell] = True
        if not changed and shared.size == before.shared.size:
            return before, tuple(blanks)
        return _State(shared, local), tuple(blanks)

    def _example(self, batch: Batch, blank: UninitialisedRead) -> Example:
        is_local = blank.access.space == "local"
        place = Location("local", "", blank.offset) if is_local else self._names.shared(blank.offset)
        return Example(place.space, place, (self._names.actor(batch, blank.lane, blank.access),))
