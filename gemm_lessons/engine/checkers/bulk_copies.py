"""Copies by the async proxy, ``cp.async.bulk``: bytes that are touched before they have come or while they are read.

Every thread knows of how many phases of each mbarrier, and of how many groups of each thread's copies, that they are
over: because it has waited itself, or met a thread that had (a barrier, ``__syncwarp``, an arrival at an mbarrier
whose phase it saw end). Each granule of shared memory knows what must be over before it may be touched. ``cp.async``
whose end is told by an mbarrier (``cp.async.mbarrier.arrive``) is followed here, too.

A copy out of shared memory sees what threads stored only behind a ``fence.proxy.async`` on the way from the store to
the copy: by the thread that stored, or by one that met it afterwards. So does a copy that reports to an mbarrier see
its ``mbarrier.init``. Source: NVIDIA, "PTX ISA" 9.0, 8.6 (proxies) and 9.7.13.15.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemm_lessons.engine.checkers.collector import Example, Key, Ledger, Names
from gemm_lessons.engine.checkers.epochs import cells
from gemm_lessons.engine.checkers.happens_before import Flights, Knowledge, Source, taking
from gemm_lessons.engine.events import (
    Access,
    AsyncGroup,
    Barrier,
    Batch,
    Boundary,
    Bulk,
    BulkGroup,
    Landed,
    Phase,
    ProxyFence,
    Record,
    Touch,
)
from gemm_lessons.engine.records.examples import Location
from gemm_lessons.engine.records.facts import OfMbarrier

Array = NDArray[Any]
NOT_YET = np.iinfo(np.int32).max


@dataclass
class _Stores:
    """When each granule was stored into last by a thread, and by which. 0: never, or a copy brought it."""

    time: Array
    lane: Array


class BulkCopies:
    """Follows one launch's bulk copies and mbarriers, record by record. Only made for kernels that have any."""

    def __init__(self, ledger: Ledger, names: Names, lanes: int, padded: int, stride: int, granule: int) -> None:
        self._ledger, self._names = ledger, names
        self._lanes, self._padded, self._stride, self._granule = lanes, padded, stride, granule

    def begin_batch(self) -> None:
        """Fresh blocks: nothing is under way."""
        count = self._lanes // self._padded * self._stride // self._granule
        self._knowledge = Knowledge(self._lanes, self._padded)
        self._sources: list[Source] = []
        self._copies: list[Bulk] = []
        self._flying: dict[Bulk, int] = {}  # those that have not landed: position in ``copies``
        self._coming, self._going = Flights(count), Flights(count)
        self._committed = np.zeros(self._lanes, np.int32)
        self._stores = _Stores(np.zeros(count, np.int32), np.zeros(count, np.int32))
        self._made: dict[int, Array] = {}  # mbarrier (offset) -> (3, blocks): time, lane and line of its init
        self._copied = np.full(count, -1, np.int32)  # lane whose cp.async brought a granule that nobody reported yet
        self._time = 1
        self._met = np.zeros(self._lanes, np.int32)
        self._fenced = np.zeros((2, self._lanes), np.int32)  # all accesses; mbarriers alone, too
        self._met_before_fence = np.zeros((2, self._lanes), np.int32)
        self._seen: set[Touch] = set()  # since the last synchronisation
        self._last: Touch | None = None

    def epoch(self, batch: Batch, records: Sequence[Record], boundary: Boundary) -> None:
        """Take what happened, in order."""
        for record in records:
            kind = type(record)
            if kind is Touch:
                self._touch(batch, record)  # type: ignore[arg-type]
            elif kind is Barrier and record.kind != "arrive":  # type: ignore[union-attr]
                self._meet(record)  # type: ignore[arg-type]
            elif kind is Barrier:
                self._knowledge.meet(record)  # type: ignore[arg-type]
            elif kind is Phase:
                self._phase(record)  # type: ignore[arg-type]
            elif kind is Bulk:
                self._bulk(batch, record)  # type: ignore[arg-type]
            elif kind is Landed:
                self._land(record)  # type: ignore[arg-type]
            elif kind is BulkGroup:
                self._group(record)  # type: ignore[arg-type]
            elif kind is AsyncGroup and record.kind == "wait" and record.pending <= 0:  # type: ignore[union-attr]
                self._waited(record.lanes)  # type: ignore[union-attr]
            elif kind is ProxyFence:
                self._fence(record)  # type: ignore[arg-type]
        if boundary == "barrier":
            self._meet(None)
        if boundary == "end":
            self._end(batch)

    # -- order --------------------------------------------------------------------------------------------------------

    def _next(self) -> None:
        self._time += 1
        self._seen.clear()

    def _meet(self, mark: Barrier | None) -> None:
        self._next()
        self._knowledge.meet(mark)
        if mark is None or (mark.lanes is None and mark.blocks is None):
            self._met[:] = self._time
        else:
            self._met[taking(mark, self._padded)] = self._time
        if mark is None or mark.kind != "warp":
            for flights in (self._coming, self._going):
                if flights.anything:
                    flights.land(self._sources, self._knowledge)

    def _phase(self, mark: Phase) -> None:
        self._next()
        if mark.kind == "init":
            for lane, offset in zip(mark.lanes.tolist(), mark.offsets.tolist(), strict=True):
                made = self._made.setdefault(offset, np.zeros((3, self._lanes // self._padded), np.int32))
                made[:, lane // self._padded] = self._time - 1, lane, mark.line or 0
                self._made_anew(("mbarrier", offset), lane // self._padded)
        elif mark.kind == "copies":
            self._report(mark)
        else:
            self._knowledge.phase(mark)
            if mark.kind == "wait":
                self._met[mark.lanes] = self._time
                if self._coming.anything:
                    self._coming.land(self._sources, self._knowledge)

    def _made_anew(self, source: Source, block: int) -> None:
        """Phases of an mbarrier count from 0 again; what somebody has seen arrive by it before has."""
        known = self._knowledge.number(source).reshape(-1, self._padded)
        if source in self._sources:
            flights, number = self._coming, self._sources.index(source) + 1
            cell = np.flatnonzero(flights.source == number)
            cell = cell[flights.owner[cell] // self._padded == block]
            flights.source[cell[flights.need[cell] <= known[block].max()]] = 0
        self._knowledge.forget(source, block)

    def _report(self, mark: Phase) -> None:
        """What lanes have copied by ``cp.async`` so far has come when the phase ends."""
        phase = np.full(self._lanes, -1, np.int32)
        phase[mark.lanes] = mark.phases
        offset = np.zeros(self._lanes, np.int64)
        offset[mark.lanes] = mark.offsets
        cell = np.flatnonzero(self._copied >= 0)
        lane = self._copied[cell]
        chosen = phase[lane] >= 0
        cell, lane = cell[chosen], lane[chosen]
        for one in np.unique(offset[lane]).tolist():
            here = offset[lane] == one
            self._begin(self._coming, cell[here], ("mbarrier", one), phase[lane[here]] + 1, lane[here], None)
        self._copied[cell] = -1

    def _waited(self, lanes: Array | None) -> None:
        """These have waited for their own copies by ``cp.async``, which no mbarrier need report any more."""
        cell = np.flatnonzero(self._copied >= 0)
        self._copied[cell if lanes is None else cell[lanes[self._copied[cell]]]] = -1

    def _group(self, mark: BulkGroup) -> None:
        self._next()
        lanes = np.arange(self._lanes) if mark.lanes is None else np.flatnonzero(mark.lanes)
        if mark.kind == "commit":
            self._committed[lanes] += 1
            return
        for thread in {which for what, which in self._sources if what == "groups"}:
            mine = lanes[lanes % self._padded == thread]
            known = self._knowledge.number(("groups", thread))
            known[mine] = np.maximum(known[mine], self._committed[mine] - mark.pending)

    def _fence(self, mark: ProxyFence) -> None:
        self._next()
        lanes = slice(None) if mark.lanes is None else mark.lanes
        for kind in (1,) if mark.only_mbarriers else (0, 1):
            self._fenced[kind, lanes] = self._time
            self._met_before_fence[kind, lanes] = self._met[lanes]

    def _unfenced(self, kind: int, time: Array, lane: Array) -> Array:
        """Whether what ``lane`` did at ``time`` is not yet seen by copies of its block."""
        met = self._met_before_fence[kind].reshape(-1, self._padded).max(axis=1)
        return np.asarray((time > 0) & (self._fenced[kind, lane] <= time) & (met[lane // self._padded] <= time))

    # -- accesses -----------------------------------------------------------------------------------------------------

    def _touch(self, batch: Batch, touch: Touch) -> None:
        access = touch.access
        if access.space != "shared" or access.is_mbarrier or touch in self._seen:
            return
        if access.is_bulk:
            return  # its ``Bulk`` follows
        self._seen.add(touch)
        where = cells(touch, self._lanes, self._padded, self._stride, self._granule)
        self._check(batch, access, where.lane, where.cell)
        if access.effect != "load":
            self._copied[where.cell] = where.lane if access.is_async else -1
            self._stores.time[where.cell] = self._time
            self._stores.lane[where.cell] = where.lane

    def _check(self, batch: Batch, access: Access, lane: Array, cell: Array) -> None:
        writes = access.effect != "load"
        for flights in (self._coming, self._going) if writes else (self._coming,):
            if not flights.anything:
                continue
            early = flights.early(lane, cell, self._sources, self._knowledge)
            if early.any():
                self._found(batch, flights, access, lane[early], cell[early])

    def _bulk(self, batch: Batch, record: Bulk) -> None:
        touch = record.touch
        access = touch.access
        where = cells(touch, self._lanes, self._padded, self._stride, self._granule)
        lane, cell = where.lane, where.cell
        self._check(batch, access, lane, cell)
        number = len(self._copies)
        self._copies.append(record)
        if record.offsets is None:
            self._order(batch, access, lane, cell)
            for thread in np.unique(lane % self._padded).tolist():
                here = lane % self._padded == thread
                need = self._committed[lane[here]] + 1
                self._begin(self._going, cell[here], ("groups", thread), need, lane[here], number)
            return
        self._stores.time[cell] = 0
        self._coming.source[cell] = 0
        self._flying[record] = number
        offset = np.zeros(self._lanes, np.int64)
        offset[record.lanes] = record.offsets
        for one in np.unique(record.offsets).tolist():
            here = offset[lane] == one
            self._begin(self._coming, cell[here], ("mbarrier", one), NOT_YET, lane[here], number)
            self._made_known(access, batch, one, record.lanes[record.offsets == one])

    def _land(self, record: Landed) -> None:
        """The bytes of a copy have come, and somebody may wait for the phase that they count for."""
        number = self._flying.pop(record.bulk)
        phase = np.zeros(self._lanes, np.int32)
        phase[record.bulk.lanes] = record.phases
        cell = np.flatnonzero((self._coming.source > 0) & (self._coming.copy == number))
        self._coming.need[cell] = phase[self._coming.owner[cell]] + 1

    def _begin(
        self, flights: Flights, cell: Array, source: Source, need: Array | int, lane: Array, number: int | None
    ) -> None:
        if source not in self._sources:
            self._sources.append(source)
            self._knowledge.number(source)
        flights.source[cell] = self._sources.index(source) + 1
        flights.need[cell], flights.owner[cell] = need, lane
        flights.copy[cell] = -1 if number is None else number
        flights.anything = True

    def _place(self, cell: int) -> Location:
        return self._names.shared(cell * self._granule % self._stride)

    # -- what is found ------------------------------------------------------------------------------------------------

    def _found(self, batch: Batch, flights: Flights, access: Access, lane: Array, cell: Array) -> None:
        coming = flights is self._coming
        for number in np.unique(flights.copy[cell]).tolist():
            chosen = flights.copy[cell] == number
            first = int(cell[chosen][0])
            copy = self._copies[number].touch.access if number >= 0 else None
            _, which = self._sources[int(flights.source[first]) - 1]
            pair = int(flights.owner[first]), int(lane[chosen][0])
            key = Key.between("async_in_flight", "error", copy, access, f"bulk {'load' if coming else 'store'}")

            def example(
                pair: tuple[int, int] = pair, copy: Access | None = copy, first: int = first, which: int = which
            ) -> Example:
                actors = self._names.actor(batch, pair[0], copy), self._names.actor(batch, pair[1], access)
                if not coming:
                    return Example("bulk store", self._place(first), actors)
                case = "bulk load" if copy else "reported load"
                return Example(case, self._place(first), actors, OfMbarrier(self._names.mbarrier(which)))

            self._ledger.add(key, example, int(np.count_nonzero(chosen)))

    def _order(self, batch: Batch, access: Access, lane: Array, cell: Array) -> None:
        """A copy out of shared memory must see what threads stored there."""
        bad = self._unfenced(0, self._stores.time[cell], self._stores.lane[cell])
        if not bad.any():
            return
        first = int(bad.argmax())
        key = Key("async_proxy", "error", access.line, None, access.file, "store")
        storing, copying = int(self._stores.lane[cell[first]]), int(lane[first])

        def example() -> Example:
            actors = self._names.actor(batch, storing), self._names.actor(batch, copying, access)
            return Example("store", self._place(int(cell[first])), actors)

        self._ledger.add(key, example, int(np.count_nonzero(bad)))

    def _made_known(self, access: Access, batch: Batch, offset: int, lanes: Array) -> None:
        """A copy that reports to an mbarrier must see that it was made."""
        made = self._made.get(offset)
        if made is None:
            return
        block = lanes // self._padded
        bad = self._unfenced(1, made[0][block], made[1][block])
        if not bad.any():
            return
        first = int(bad.argmax())
        making, made_in, copying = int(made[1][block[first]]), int(made[2][block[first]]) or None, int(lanes[first])
        key = Key("async_proxy", "warning", made_in, access.line, access.file, "init")

        def example() -> Example:
            actors = self._names.actor(batch, making, line=made_in), self._names.actor(batch, copying, access)
            return Example("init", None, actors, OfMbarrier(self._names.mbarrier(offset)))

        self._ledger.add(key, example, int(np.count_nonzero(bad)))

    def _end(self, batch: Batch) -> None:
        """The blocks are over: is every copy?"""
        for flights in (self._coming, self._going):
            cell = np.flatnonzero(flights.source)
            for number in np.unique(flights.source[cell]).tolist():
                here = cell[flights.source[cell] == number]
                most = self._knowledge.number(self._sources[number - 1]).reshape(-1, self._padded).max(axis=1)
                bad = most[flights.owner[here] // self._padded] < flights.need[here]
                if bad.any():
                    self._never(batch, flights, int(here[bad][0]), self._sources[number - 1])

    def _never(self, batch: Batch, flights: Flights, cell: int, source: Source) -> None:
        number, owner = int(flights.copy[cell]), int(flights.owner[cell])
        if number < 0:
            return
        access = self._copies[number].touch.access
        key = Key("async_unfinished", "warning", access.line, None, access.file)

        def example() -> Example:
            who = (self._names.actor(batch, owner, access),)
            if source[0] != "mbarrier":
                return Example("store", None, who)
            return Example("load", None, who, OfMbarrier(self._names.mbarrier(source[1])))

        self._ledger.add(key, example)
