"""Checks a launch while it runs: races, uninitialised reads, early reads of cp.async, barriers, array ends.

    machine --records--> Checks --epochs.Epochs--> shared_races, initialised, async_copies   (once per distinct epoch)
                                ------------>      bulk_copies                                (record by record)
                                --Placed-->        global_memory                              (once per epoch)
                                --Irregular-->     meetings                                   --> ledger --> Findings

What the machine cannot carry on with (out of bounds, misaligned, deadlock, trap, timeout) is a ``Fault`` instead.

Not seen: reads of a buffer that was given as an input before the kernel first stores into it. Registers are watched by
``unset.py``. In kernels with fences any atomic or volatile store in global memory counts as a signal to whoever looks
at an atomic or volatile value later, and a named barrier counts for its whole block: there a race may be missed, so
that no working kernel is accused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemm_lessons.engine.checkers.array_ends import ArrayEnds
from gemm_lessons.engine.checkers.async_copies import AsyncCopies
from gemm_lessons.engine.checkers.barrier_misuse import irregular
from gemm_lessons.engine.checkers.bulk_copies import BulkCopies
from gemm_lessons.engine.checkers.collector import Key, Ledger, Names
from gemm_lessons.engine.checkers.epochs import Epochs
from gemm_lessons.engine.checkers.global_memory import GlobalRaces
from gemm_lessons.engine.checkers.initialised import Initialised, Windows
from gemm_lessons.engine.checkers.shared_races import SharedRaces
from gemm_lessons.engine.checkers.static_analysis import facts
from gemm_lessons.engine.events import WARP, Batch, Boundary, Irregular, LaunchInfo, Record
from gemm_lessons.engine.records.facts import Race
from gemm_lessons.engine.records.findings import Finding

__all__ = ["Checks"]


class Checks:
    """The observer of one launch that feeds every checker. ``result`` holds the findings, most severe first."""

    def begin(self, launch: LaunchInfo) -> None:
        """See ``events.Observer``, also for the methods below."""
        self._ledger = Ledger()
        self._names = Names(launch)
        code = facts(launch.kernel, frozenset(array.name for array in launch.shared_arrays))
        self._padded = -(-launch.grid.threads // WARP) * WARP
        self._lanes = launch.lanes
        shared, local = _stride(launch.shared_bytes), _stride(launch.local_bytes) if launch.local_bytes else 0
        granules = code.granules
        windows = Windows(self._lanes, self._padded, shared, granules["shared"], local, granules["local"])
        ledger, names = self._ledger, self._names
        by_warps = self._padded == WARP and not (code.has_async or code.has_phases or code.flags)
        self._epochs = Epochs(self._padded, self._forget, code.flags, by_warps)
        self._races = SharedRaces(ledger, names, self._padded, shared, granules["shared"], code.optimistic, code.flags)
        self._initialised = Initialised(ledger, names, windows)
        self._copies = None
        if code.has_async:
            self._copies = AsyncCopies(ledger, names, self._lanes, self._padded, shared, granules["shared"])
        self._bulk = None
        if code.has_phases:
            self._bulk = BulkCopies(ledger, names, self._lanes, self._padded, shared, granules["shared"])
        self._global = GlobalRaces(
            ledger, names, self._padded, launch.buffers, launch.fresh, granules["global"], code.protocol
        )
        self._ends = ArrayEnds(ledger, names, self._padded, launch.shared_arrays, code.arrays, code.own)

    def _forget(self) -> None:
        self._races.forget()
        self._initialised.forget()
        if self._copies is not None:
            self._copies.forget()

    def begin_batch(self, batch: Batch) -> None:
        """New blocks."""
        self._races.begin_batch()
        self._initialised.begin_batch()
        if self._copies is not None:
            self._copies.begin_batch()
        if self._bulk is not None:
            self._bulk.begin_batch()
        self._global.begin_batch(self._lanes)

    def epoch(self, batch: Batch, records: Sequence[Record], boundary: Boundary) -> None:
        """Hand what happened to the checkers."""
        (*rounds, epoch), others = self._epochs.split(records)
        for one in rounds:
            self._races.epoch(batch, one, "barrier", self._lanes)
        if boundary != "none" or not epoch.silent:
            self._races.epoch(batch, epoch, boundary, self._lanes)
        noisy = [one for one in (*rounds, epoch) if not one.silent]
        for one in noisy:
            self._initialised.epoch(batch, one)
        for one in noisy:
            self._ends.epoch(batch, one)
        if self._copies is not None:
            self._copies.epoch(batch, epoch, boundary)
        if self._bulk is not None:
            self._bulk.epoch(batch, records, boundary)
        self._global.records(batch, others, boundary)
        for record in others:
            if type(record) is Irregular:
                irregular(self._ledger, self._names, batch, record)

    def end_batch(self, batch: Batch, executions: NDArray[Any], lane_executions: NDArray[Any]) -> None:
        """Nothing left to do."""

    @property
    def suspects(self) -> set[tuple[int, int]]:
        """Pairs of stores that race (instruction indices): whether they store the same decides how bad it is."""
        return self._races.suspects | self._global.suspects

    def settle(self, differing: set[tuple[int, int]], lines: dict[int, int | None]) -> None:
        """Turn races of stores that always stored the same value into notes. ``lines`` of the instructions."""
        bad = {frozenset((lines[a], lines[b])) for a, b in differing}

        def harmless(key: Key) -> bool:
            return (
                key.kind == "race"
                and key.detail in ("shared store store", "global store store")
                and frozenset((key.line, key.other)) not in bad
            )

        self._ledger.downgrade(harmless, "note", Race(same_value=True))

    def unstored(self, name: str, width: int) -> int:
        """Elements of ``width`` bytes in global buffer ``name`` that no store reached, whatever they hold."""
        return self._global.unstored(name, width)

    def result(self) -> Sequence[Finding]:
        """The findings so far."""
        return self._ledger.result()


def _stride(size: int) -> int:
    """Bytes from one window to the next, as ``state.State`` lays them out."""
    return int(np.ceil(max(size, 16) / 16)) * 16
