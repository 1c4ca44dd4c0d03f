"""Check a launch while it runs: races, uninitialised reads, premature reads of cp.async, barriers, array ends.

    machine --records--> Checks --Epoch-----> shared_races, initialised, async_copies, array_ends (per distinct epoch)
                                --records---> bulk_copies                                         (per record)
                                --Placed----> global_memory                                       (per epoch)
                                --MapAccess-> map_proxy                                           (per record)
                                --Irregular-> barrier_order
    every checker --Key, Example--> FindingCollector --> Finding, most severe first

State held, one entry per granule (the narrowest access width of the kernel, in bytes) unless said otherwise:

    shared_races    writer, low, high          lane of the last writer, lowest and highest reader    one epoch
                    WarpClocks                 vector clocks, once some threads synchronise          one epoch
                                               without the whole block
    initialised     bool                       whether the granule has been written                  one batch
    async_copies    stage uint8, owner int32, age int16, waited bool, copy int32                     one batch
    bulk_copies     HappensBefore, by lane: finished phases and groups; PendingCopies, by granule    one batch
    global_memory   Shadow per buffer: last writer (thread + 1), and its visitors                    the launch
    map_proxy       by tensor map: its writer, and the blocks that have fenced                       the launch

- ``epochs``: touches between two block barriers, interned; ``static_analysis``: facts read from the PTX
- ``shared_races``, ``global_memory`` with ``shadow``: races; ``same_value``: second run that finds harmless races
- ``barrier_order``: irregular barriers, and named barriers that two roles share
- ``warp_clocks``: vector clocks by warp and by lane, and what they say of blocks of a cluster that have not started, or
  may have ended; ``happens_before``: by mbarrier phase and bulk-copy group
- ``async_copies``, ``bulk_copies``: cp.async and cp.async.bulk; ``alike``: of batches that do the same, one is analysed
- ``initialised``: uninitialised reads; ``array_ends``: accesses past an array
- ``product_tiles``: on request, wgmma that reads other elements than a tile; ``box_contents``: the boxes that tensor
  copies have put into shared memory
- ``product_registers``: registers of wgmma; ``map_proxy``: tensor maps that the kernel writes
- ``collector``: findings, deduplicated by source line

The machine raises a ``Fault`` where it cannot continue (out of bounds, misaligned, deadlock, trap, timeout).

Limits: a read of an input buffer before the kernel first stores into it is not checked. ``machine/unset.py`` checks
registers.
In a kernel with fences, any atomic or volatile store in global memory counts as a release, and any later atomic or
volatile load as an acquire. A named barrier counts for its whole block. Both rules may miss a race, so that no working
kernel is reported.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gemm_lessons.engine.checkers.array_ends import ArrayEnds
from gemm_lessons.engine.checkers.async_copies import AsyncCopies
from gemm_lessons.engine.checkers.barrier_order import irregular
from gemm_lessons.engine.checkers.bulk_copies import BulkCopies
from gemm_lessons.engine.checkers.collector import FindingCollector, Key, Names
from gemm_lessons.engine.checkers.epochs import Epochs, Windows
from gemm_lessons.engine.checkers.global_memory import GlobalRaces
from gemm_lessons.engine.checkers.initialised import Initialised
from gemm_lessons.engine.checkers.map_proxy import MapProxy
from gemm_lessons.engine.checkers.shared_races import SharedRaces
from gemm_lessons.engine.checkers.static_analysis import facts
from gemm_lessons.engine.events import WARP, Batch, Boundary, Irregular, LaunchInfo, Observer, Record
from gemm_lessons.engine.records.facts import Race
from gemm_lessons.engine.records.findings import Finding

__all__ = ["Checks"]


class Checks(Observer):
    """Observer of one launch that feeds every checker. ``result`` returns the findings, most severe first."""

    def begin(self, launch: LaunchInfo) -> None:
        """Set up the checkers for a launch. See ``events.Observer``, also for the methods below."""
        self._collector = FindingCollector()
        self._names = Names(launch)
        code = facts(launch.kernel, frozenset(array.name for array in launch.shared_arrays))
        self._static = code.products
        padded = -(-launch.grid.threads // WARP) * WARP
        self._lanes, self._cluster = launch.lanes, math.prod(launch.grid.cluster or (1,))
        shared, local = _stride(launch.shared_bytes), _stride(launch.local_bytes) if launch.local_bytes else 0
        granules = code.granules
        zeroed = next((range(it.offset, it.offset + it.zeroed) for it in launch.shared_arrays if it.zeroed), range(0))
        windows = Windows(
            self._lanes, padded, shared, granules["shared"], local, granules["local"], self._cluster, zeroed
        )
        collector, names = self._collector, self._names
        by_warps = padded == WARP and self._cluster == 1 and not (code.has_async or code.has_phases or code.flags)
        self._races = SharedRaces(collector, names, windows, code.optimistic, code.flags)
        self._initialised = Initialised(collector, names, windows, code.unused)
        self._copies = AsyncCopies(collector, names, windows) if code.has_async else None
        memoising = [it for it in (self._races, self._initialised, self._copies) if it is not None]
        self._epochs = Epochs(padded, [it.forget for it in memoising], code.flags, by_warps)
        self._bulk = BulkCopies(collector, names, windows) if code.has_phases else None
        self._global = GlobalRaces(collector, names, windows, granules["global"], launch, code.protocol)
        self._maps = MapProxy(collector, names, self._global.last_writer)
        self._ends = ArrayEnds(collector, names, windows, launch.shared_arrays, code.arrays, code.own)

    def begin_batch(self, batch: Batch) -> None:
        """Start new blocks."""
        self._races.begin_batch()
        self._initialised.begin_batch()
        if self._copies is not None:
            self._copies.begin_batch()
        if self._bulk is not None:
            self._bulk.begin_batch()
        self._global.begin_batch(batch)

    def epoch(self, batch: Batch, records: Sequence[Record], boundary: Boundary) -> None:
        """Pass the records of an epoch to the checkers."""
        (*rounds, epoch), others = self._epochs.split(records, batch.blocks)
        for one in rounds:
            self._races.epoch(batch, one, "barrier", self._lanes)
        if boundary != "none" or not epoch.silent or self._cluster > 1:
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
        self._maps.records(batch, others)
        for record in others:
            if type(record) is Irregular:
                irregular(self._collector, self._names, batch, record)

    @property
    def suspects(self) -> set[tuple[int, int]]:
        """Pairs of racing stores or copies (instruction indices), whose values ``SameValue`` compares."""
        return self._races.suspects | self._global.suspects

    def settle(
        self, differing: set[tuple[int, int]], rounded: set[tuple[int, int]], lines: dict[int, int | None]
    ) -> None:
        """Turn races of stores that always stored the same value into notes. Turn races of values that differed by
        rounding, and of threads that initialise an mbarrier in the same way, into warnings. ``lines``: instruction ->
        source line."""
        bad, near = ({frozenset((lines[a], lines[b])) for a, b in pairs} for pairs in (differing, rounded))

        def alike(key: Key, *details: str) -> bool:
            return key.kind == "race" and key.detail in details and frozenset((key.line, key.other)) not in bad

        def harmless(key: Key) -> bool:
            return alike(key, "shared store store", "global store store", "shared copy copy")

        def is_near(key: Key) -> bool:
            return harmless(key) and frozenset((key.line, key.other)) in near

        self._collector.downgrade(lambda key: alike(key, "mbarriers"), "warning")
        self._collector.downgrade(is_near, "warning", Race(rounded=True))
        self._collector.downgrade(lambda key: harmless(key) and not is_near(key), "note", Race(same_value=True))

    @property
    def blanks(self) -> frozenset[int]:
        """Instructions that have read unwritten shared or local memory. ``keep_blanks`` drops those without effect."""
        return frozenset(self._initialised.readers)

    def keep_blanks(self, decisive: frozenset[int]) -> None:
        """Drop the findings about uninitialised memory on lines without an instruction in ``decisive``."""
        readers = self._initialised.readers
        kept = {(access.line, access.file, access.space) for index, access in readers.items() if index in decisive}
        places = {(access.line, access.file, access.space) for access in readers.values()} - kept
        self._collector.drop(lambda key: key.kind == "uninitialised" and (key.line, key.file, key.detail) in places)

    def unstored(self, name: str, width: int) -> int:
        """Count the elements of ``width`` bytes in global buffer ``name`` that no store reached, whatever they hold."""
        return self._global.unstored(name, width)

    @property
    def stored(self) -> frozenset[str]:
        """Return the global buffers that a store or an atomic reached."""
        return self._global.stored

    def result(self) -> Sequence[Finding]:
        """Return the findings so far."""
        return [*self._static, *self._collector.result()]


def _stride(size: int) -> int:
    """Return the bytes from one window to the next, as ``state.State`` lays them out."""
    return int(np.ceil(max(size, 16) / 16)) * 16
