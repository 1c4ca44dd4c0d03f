"""Copies by the async proxy (``cp.async.bulk``): bytes touched before they have arrived, or while the copy reads them.

``HappensBefore`` holds, for each lane, how many phases of each mbarrier and how many copy groups of each thread have
completed. A lane learns of a completion by its own wait, or by synchronising with a thread that has waited: a barrier,
``__syncwarp``, or an arrival at an mbarrier whose phase it sees complete. ``PendingCopies`` holds, for each granule of
shared memory, what must complete before an access. A ``cp.async`` whose completion an mbarrier tracks
(``cp.async.mbarrier.arrive``) is checked here, too.

A copy out of shared memory sees a thread's store only if a ``fence.proxy.async`` is between the store and the copy.
The storing thread may execute the fence, or a thread that has synchronised with it afterwards. The same holds for
``mbarrier.init`` and a copy that reports to this mbarrier, and for products (``wgmma``): they read their tiles by the
async proxy, too, until a warp of the warpgroup has waited for their group. Source: NVIDIA, "PTX ISA" 9.0, 8.6 (proxies)
and 9.7.13.15.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from gemm_lessons.engine.checkers.alike import AlikeClusters, PathsWithoutFindings
from gemm_lessons.engine.checkers.collector import Example, FindingCollector, Key, Names
from gemm_lessons.engine.checkers.epochs import Windows
from gemm_lessons.engine.checkers.happens_before import HappensBefore, PendingCopies, Source, participants, present
from gemm_lessons.engine.events import (
    WARP,
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
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.facts import (
    Details,
    LastWait,
    LeftRunning,
    Location,
    Mbarrier,
    MbarrierMisuse,
    OfMbarrier,
)

WARPGROUP = 128  # lanes
NOT_YET = np.iinfo(np.int32).max
# ``cuda::memcpy_async`` with a ``cuda::barrier``, whose documentation asks for no fence after the initialisation.
MEMCPY_ASYNC = "/cuda/__memcpy_async/memcpy_async.h"


@dataclass
class _Stores:
    """Time and lane of the last store to each granule. Time 0: no store yet, or a copy has overwritten it."""

    time: Array
    lane: Array


class BulkCopies:
    """Tracks the bulk copies and mbarriers of one launch, record by record. Created only for kernels with any."""

    def __init__(self, collector: FindingCollector, names: Names, windows: Windows) -> None:
        self._collector, self._names, self._windows = collector, names, windows
        self._padded, self._stride, self._granule = windows.padded, windows.shared, windows.shared_granule
        self._cluster, self._together = windows.cluster, windows.padded * windows.cluster  # blocks and lanes of one
        self._lanes = 0  # those that are analysed
        self._quiet = PathsWithoutFindings()
        self._found_any = self._again = False  # of the current epoch: has a finding; was processed before

    def begin_batch(self) -> None:
        """Start new blocks."""
        self._quiet.begin()
        self._epochs: list[tuple[Sequence[Record], Boundary]] = []
        self._processed = 0  # epochs
        # None: clusters do different things.
        self._alike: AlikeClusters | None = AlikeClusters(self._padded, self._cluster)
        self._times = 1  # clusters that do what the analysed one does

    def epoch(self, batch: Batch, records: Sequence[Record], boundary: Boundary) -> None:
        """Process the records in order, unless an earlier batch did the same and there was nothing to report. Analyse
        only the first cluster while all do the same."""
        self._epochs.append((records, boundary))
        if self._quiet.knows(records, boundary):
            return
        new, clusters = self._processed, batch.blocks // self._cluster
        if self._alike is not None and not all(self._alike.is_same(it, clusters) for it, _ in self._epochs[new:]):
            self._alike, self._processed = None, 0
        if self._processed == 0:
            self._times = 1 if self._alike is None else clusters
            self._start(self._windows.lanes if self._alike is None else self._together)
        for number, (of_epoch, end) in enumerate(self._epochs[self._processed :], self._processed):
            self._found_any, self._again = False, number < new
            self._process(batch, of_epoch if self._alike is None else self._alike.first(of_epoch), end)
        self._processed = len(self._epochs)
        if not self._found_any:
            self._quiet.add()

    def _start(self, lanes: int) -> None:
        """Set up for a batch, of which the first ``lanes`` lanes are analysed: no copy is in flight."""
        self._lanes = lanes
        count = self._lanes // self._padded * self._stride // self._granule
        self._happens_before = HappensBefore(self._lanes, self._padded, self._cluster)
        self._sources: list[Source] = []
        self._copies: list[Bulk] = []
        self._in_flight: dict[Bulk, int] = {}  # copies that have not landed -> position in ``copies``
        # Copies into shared memory; copies out of it and products, which read it.
        self._coming, self._going = PendingCopies(count), PendingCopies(count)
        self._committed = np.zeros(self._lanes, np.int32)
        self._committed_products = np.zeros(self._lanes, np.int32)
        # Mbarrier (offset) -> (2, lanes), of the last wait: 2 + the complete phase (0: no wait), line.
        self._waits: dict[int, Array] = {}
        self._known: dict[tuple[int, int], Array] = {}  # (copy, mbarrier) -> phases complete when it was issued
        # Of the last wait for products: groups committed, groups left running, line.
        self._products_awaited = np.zeros((3, self._lanes), np.int32)
        self._stores = _Stores(np.zeros(count, np.int32), np.zeros(count, np.int32))
        self._inits: dict[int, Array] = {}  # mbarrier (offset) -> (3, clusters): time, lane and line of its init
        # Lane whose cp.async filled a granule, until an mbarrier tracks it; else -1.
        self._copied = np.full(count, -1, np.int32)
        self._time = 1
        self._met = np.zeros(self._lanes, np.int32)
        # Last fence for all accesses; last fence for mbarriers alone.
        self._fenced = np.zeros((2, self._lanes), np.int32)
        self._met_before_fence = np.zeros((2, self._lanes), np.int32)
        self._seen: set[Touch] = set()  # touches since the last synchronisation
        self._last: Touch | None = None

    def _process(self, batch: Batch, records: Sequence[Record], boundary: Boundary) -> None:
        for record in records:
            kind = type(record)
            if kind is Touch:
                self._touch(batch, record)  # type: ignore[arg-type]
            elif kind is Barrier and record.kind != "arrive":  # type: ignore[union-attr]
                self._meet(record)  # type: ignore[arg-type]
            elif kind is Barrier:
                self._happens_before.meet(record)  # type: ignore[arg-type]
            elif kind is Phase:
                self._phase(batch, record)  # type: ignore[arg-type]
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
        self._happens_before.meet(mark)
        if mark is None or (mark.lanes is None and mark.blocks is None):
            self._met[:] = self._time
        else:
            self._met[participants(mark, self._padded)] = self._time
        if mark is None or mark.kind != "warp":
            for pending in (self._coming, self._going):
                if pending.anything:
                    pending.land(self._sources, self._happens_before)

    def _phase(self, batch: Batch, mark: Phase) -> None:
        self._next()
        if mark.kind == "init":
            for lane, offset in zip(mark.lanes.tolist(), mark.offsets.tolist(), strict=True):
                made = self._inits.setdefault(offset, np.zeros((3, self._lanes // self._together), np.int32))
                made[:, lane // self._together] = self._time - 1, lane, mark.line or 0
                self._reinitialise(("mbarrier", offset), lane // self._together)
        elif mark.kind == "copies":
            self._complete_with(mark)
        elif mark.kind == "parity":
            self._parity(batch, mark)
        else:
            self._happens_before.phase(mark)
            if mark.kind == "arrive":
                self._spilled(batch, mark)
            if mark.kind == "wait":
                self._met[mark.lanes] = self._time
                for offset in np.unique(mark.offsets).tolist():
                    here = mark.offsets == offset
                    last = self._waits.setdefault(offset, np.zeros((2, self._lanes), np.int32))
                    last[0, mark.lanes[here]] = mark.phases[here] + 2
                    last[1, mark.lanes[here]] = mark.line or 0
                if self._coming.anything:
                    self._coming.land(self._sources, self._happens_before)

    def _reinitialise(self, source: Source, cluster: int) -> None:
        """Restart the phases of a reinitialised mbarrier at 0; reset the lanes' clocks of it."""
        known = self._happens_before.number(source).reshape(-1, self._together)
        if source in self._sources:
            pending, number = self._coming, self._sources.index(source) + 1
            cell = np.flatnonzero(pending.source == number)
            cell = cell[pending.owner[cell] // self._together == cluster]
            pending.source[cell[pending.need[cell] <= known[cluster].max()]] = 0
        self._happens_before.forget(source, cluster)
        if source[1] in self._waits:
            self._waits[source[1]].reshape(2, -1, self._together)[:, cluster] = 0

    def _complete_with(self, mark: Phase) -> None:
        """Let the phase complete every ``cp.async`` that these lanes have issued so far."""
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
        """Mark the lanes' own ``cp.async`` copies as waited for; no mbarrier needs to track them any more."""
        cell = np.flatnonzero(self._copied >= 0)
        self._copied[cell if lanes is None else cell[lanes[self._copied[cell]]]] = -1

    def _group(self, mark: BulkGroup) -> None:
        self._next()
        lanes = np.arange(self._lanes) if mark.lanes is None else np.flatnonzero(mark.lanes)
        committed = self._committed_products if mark.products else self._committed
        if mark.kind == "commit":
            committed[lanes] += 1
            return
        if mark.products:
            self._products_awaited[0, lanes] = committed[lanes]
            self._products_awaited[1:, lanes] = [[mark.pending], [mark.line or 0]]
        of = "products" if mark.products else "groups"
        each = WARPGROUP if mark.products else 1  # lanes of a source
        for source in [source for source in self._sources if source[0] == of]:
            mine = lanes[self._first(lanes, each) == source[1]]
            known = self._happens_before.number(source)
            known[mine] = np.maximum(known[mine], committed[mine] - mark.pending)
        if mark.products and self._going.anything:
            self._going.land(self._sources, self._happens_before)

    def _first(self, lane: Array, each: int) -> Array:
        """Return the first thread, in the cluster, of a lane's group of ``each`` threads of a block."""
        return np.asarray(lane % self._together - lane % self._padded % each)

    def _fence(self, mark: ProxyFence) -> None:
        self._next()
        lanes = slice(None) if mark.lanes is None else mark.lanes
        for kind in (1,) if mark.only_mbarriers else (0, 1):
            self._fenced[kind, lanes] = self._time
            self._met_before_fence[kind, lanes] = self._met[lanes]

    def _unfenced(self, kind: int, time: Array, lane: Array) -> Array:
        """Return whether copies of the cluster do not yet see what ``lane`` did at ``time``."""
        met = self._met_before_fence[kind].reshape(-1, self._together).max(axis=1)
        return np.asarray((time > 0) & (self._fenced[kind, lane] <= time) & (met[lane // self._together] <= time))

    # -- accesses -----------------------------------------------------------------------------------------------------

    def _touch(self, batch: Batch, touch: Touch) -> None:
        access = touch.access
        if access.space != "shared" or access.is_mbarrier or touch in self._seen:
            return
        if access.is_bulk:
            return  # its ``Bulk`` record follows
        self._seen.add(touch)
        where = self._windows.cells(touch, self._lanes)
        self._check(batch, access, where.lane, where.cell)
        if access.effect != "load":
            self._copied[where.cell] = where.lane if access.is_async else -1
            self._stores.time[where.cell] = self._time
            self._stores.lane[where.cell] = where.lane

    def _check(self, batch: Batch, access: Access, lane: Array, cell: Array, bulk: Bulk | None = None) -> None:
        writes = access.effect != "load"
        for pending in (self._coming, self._going) if writes else (self._coming,):
            if not pending.anything:
                continue
            premature = pending.premature(lane, cell, self._sources, self._happens_before)
            if premature.any():
                self._found(batch, pending, access, lane[premature], cell[premature], bulk)

    def _bulk(self, batch: Batch, record: Bulk) -> None:
        touch = record.touch
        access = touch.access
        where = self._windows.cells(touch, self._lanes)
        lane, cell = where.lane, where.cell
        self._check(batch, access, lane, cell, record)
        number = len(self._copies)
        self._copies.append(record)
        if record.offsets is None:
            self._order(batch, access, lane, cell, "product" if access.is_product else "store")
            if access.is_product:
                for group, reading, read in self._by_warpgroup(touch, lane, cell):
                    need = self._committed_products[reading] + 1
                    self._begin(self._going, read, ("products", group), need, reading, number)
                return
            for thread in np.unique(lane % self._together).tolist():
                here = lane % self._together == thread
                need = self._committed[lane[here]] + 1
                self._begin(self._going, cell[here], ("groups", thread), need, lane[here], number)
            return
        pending = self._coming
        if record.reads:
            self._order(batch, access, lane, cell, "store")
            pending = self._going
        else:
            self._stores.time[cell] = 0
        pending.source[cell] = 0
        self._in_flight[record] = number
        offset = np.zeros(self._lanes, np.int64)
        offset[record.lanes] = record.offsets
        for one in np.unique(record.offsets).tolist():
            here = offset[lane] == one
            self._begin(pending, cell[here], ("mbarrier", one), NOT_YET, lane[here], number)
            known = self._happens_before.number(("mbarrier", one)).reshape(-1, self._together)
            self._known[number, one] = known.max(axis=1)
            self._check_init(access, batch, one, record.lanes[record.offsets == one])

    def _by_warpgroup(self, touch: Touch, lane: Array, cell: Array) -> list[tuple[int, Array, Array]]:
        """Return the lanes and granules of each warpgroup, by its first thread in the cluster."""
        key = f"warpgroups {self._lanes}"
        if key not in touch.memo:
            groups = self._first(lane, WARPGROUP)
            parts = [(group, groups == group) for group in np.unique(groups).tolist()]
            touch.memo[key] = [(group, lane[here], cell[here]) for group, here in parts]
        found: list[tuple[int, Array, Array]] = touch.memo[key]
        return found

    def _land(self, record: Landed) -> None:
        """Record that the bytes of a copy have arrived; a wait for the phase they count for may now succeed."""
        number = self._in_flight.pop(record.bulk)
        phase = np.zeros(self._lanes, np.int32)
        phase[record.bulk.lanes] = record.phases
        pending = self._going if record.bulk.reads else self._coming
        cell = np.flatnonzero((pending.source > 0) & (pending.copy == number))
        pending.need[cell] = phase[pending.owner[cell]] + 1
        pending.changed(present(pending.source[cell]))

    def _begin(
        self, pending: PendingCopies, cell: Array, source: Source, need: Array | int, lane: Array, number: int | None
    ) -> None:
        if source not in self._sources:
            self._sources.append(source)
            self._happens_before.number(source)
        place = self._sources.index(source) + 1
        pending.source[cell] = place
        pending.changed((place,))
        pending.need[cell], pending.owner[cell] = need, lane
        pending.copy[cell] = -1 if number is None else number
        pending.anything = True

    def _report(self, key: Key, example: Callable[[], Example], count: int | None = None) -> None:
        """Add a finding: once, or ``count`` times for each cluster that does the same."""
        self._found_any = True
        if not self._again:
            self._collector.add(key, example, 1 if count is None else count * self._times)

    def _place(self, cell: int) -> Location:
        return self._names.shared(cell * self._granule % self._stride)

    def _mbarrier(self, offset: int) -> Mbarrier:
        return self._names.mbarrier(offset % self._stride)

    # -- findings ------------------------------------------------------------------------------------------------------

    def _found(
        self, batch: Batch, pending: PendingCopies, access: Access, lane: Array, cell: Array, bulk: Bulk | None
    ) -> None:
        coming = pending is self._coming
        for number in np.unique(pending.copy[cell]).tolist():
            chosen = pending.copy[cell] == number
            first = int(cell[chosen][0])
            copy = self._copies[number].touch.access if number >= 0 else None
            going = "product" if copy is not None and copy.is_product else "bulk store"
            pair = int(pending.owner[first]), int(lane[chosen][0])
            key = Key.between("async_in_flight", "error", copy, access, "bulk load" if coming else going)

            def example(
                pair: tuple[int, int] = pair, copy: Access | None = copy, first: int = first, number: int = number
            ) -> Example:
                actors = self._names.actor(batch, pair[0], copy), self._names.actor(batch, pair[1], access)
                case, facts = self._unseen(first, number, pair[1]) if coming else self._still_read(first, number, bulk)
                return Example(case, self._place(first), actors, facts)

            self._report(key, example, int(np.count_nonzero(chosen)))

    def _unseen(self, cell: int, number: int, lane: int) -> tuple[str, Details]:
        """Return why a lane has not seen a copy into a granule arrive: case and facts."""
        _, offset = self._sources[int(self._coming.source[cell]) - 1]
        mbarrier = self._mbarrier(offset)
        if number < 0:
            return "reported load", OfMbarrier(mbarrier)
        last = self._last_wait(offset, lane)
        if last is None:
            return "bulk load", OfMbarrier(mbarrier)
        known = self._known[number, offset][int(self._coming.owner[cell]) // self._together]
        return "ended without" if last.phase >= known else "ended before", last

    def _still_read(self, cell: int, number: int, bulk: Bulk | None) -> tuple[str, Details]:
        """Return why a copy or product may still read a granule: case, facts. ``bulk``: the copy that overwrites it."""
        (_, which), copy = self._sources[int(self._going.source[cell]) - 1], self._copies[number]
        owner, need = int(self._going.owner[cell]), int(self._going.need[cell])
        if not copy.touch.access.is_product:
            if copy.reads:
                return "sent", OfMbarrier(self._mbarrier(which))
            return "no bulk group" if need > self._committed[owner] else "bulk store", Details()
        for offset in () if bulk is None or bulk.offsets is None or bulk.reads else np.unique(bulk.offsets).tolist():
            last = self._last_wait(offset, owner)
            if last is not None and last.phase < 0:
                return "not filled", last
        committed, pending, line = self._products_awaited[:, owner].tolist()
        if committed - pending < need <= committed:
            return "left running", LeftRunning(pending, line or None)
        return "product", Details()

    def _last_wait(self, offset: int, lane: int) -> LastWait | None:
        """Return the phase and line of a lane's last wait at an mbarrier; None if it has not waited there."""
        seen, line = self._waits[offset][:, lane].tolist() if offset in self._waits else (0, 0)
        return LastWait(self._mbarrier(offset), seen - 2, line or None) if seen > 0 else None

    def _order(self, batch: Batch, access: Access, lane: Array, cell: Array, case: str) -> None:
        """Report a copy out of shared memory, or a product, that does not see a thread's store."""
        bad = self._unfenced(0, self._stores.time[cell], self._stores.lane[cell])
        if not bad.any():
            return
        first = int(bad.argmax())
        # Public kernels leave the fence out before wgmma, and run: it is no error.
        key = Key("async_proxy", "warning" if access.is_product else "error", access.line, None, access.file, case)
        storing, copying = int(self._stores.lane[cell[first]]), int(lane[first])

        def example() -> Example:
            actors = self._names.actor(batch, storing), self._names.actor(batch, copying, access)
            return Example(case, self._place(int(cell[first])), actors)

        self._report(key, example, int(np.count_nonzero(bad)))

    def _spilled(self, batch: Batch, mark: Phase) -> None:
        """Report lanes of one warp that arrive at an mbarrier together, but in two phases: more come than it expects,
        and later phases end before all threads have arrived."""
        if (mark.phases == mark.phases[0]).all():
            return
        keys = np.stack((mark.offsets, mark.lanes // WARP))
        for offset, warp in np.unique(keys, axis=1).T.tolist():
            here = np.flatnonzero((keys[0] == offset) & (keys[1] == warp))
            first, last = here[mark.phases[here].argmin()], here[mark.phases[here].argmax()]
            if mark.phases[first] == mark.phases[last]:
                continue
            lanes = int(mark.lanes[first]), int(mark.lanes[last])
            where = self._mbarrier(offset)
            (one, file), (other, _) = (self._names.at_mbarrier(batch, lane, mark) for lane in lanes)
            key = Key("mbarrier", "error", mark.line, None, file, f"spilled {where.array}")
            self._report(key, partial(Example, "spilled", None, (one, other), OfMbarrier(where)))

    def _parity(self, batch: Batch, mark: Phase) -> None:
        """Report a parity other than 0 and 1, which PTX does not define. GPUs take its lowest bit."""
        where = self._mbarrier(int(mark.offsets[0]))
        actor, file = self._names.at_mbarrier(batch, int(mark.lanes[0]), mark)
        key = Key("mbarrier", "warning", mark.line, None, file, f"parity {where.array}")
        facts = MbarrierMisuse(where, "", int(mark.phases[0]))
        self._report(key, partial(Example, "parity", None, (actor,), facts))

    def _check_init(self, access: Access, batch: Batch, offset: int, lanes: Array) -> None:
        """Report a copy that does not see the ``mbarrier.init`` of the mbarrier it reports to."""
        made = self._inits.get(offset)
        if made is None or MEMCPY_ASYNC in access.header:
            return
        cluster = lanes // self._together
        bad = self._unfenced(1, made[0][cluster], made[1][cluster])
        if not bad.any():
            return
        first = int(bad.argmax())
        _, making, made_in = made[:, cluster[first]].tolist()
        copying, made_in = int(lanes[first]), made_in or None
        key = Key("async_proxy", "warning", made_in, access.line, access.file, "init")

        def example() -> Example:
            actors = self._names.actor(batch, making, line=made_in), self._names.actor(batch, copying, access)
            return Example("init", None, actors, OfMbarrier(self._mbarrier(offset)))

        self._report(key, example, int(np.count_nonzero(bad)))

    def _end(self, batch: Batch) -> None:
        """Report the copies that are unfinished when the blocks end."""
        for pending in (self._coming, self._going):
            cell = np.flatnonzero(pending.source)
            for number in np.unique(pending.source[cell]).tolist():
                here = cell[pending.source[cell] == number]
                most = self._happens_before.number(self._sources[number - 1]).reshape(-1, self._together).max(axis=1)
                bad = most[pending.owner[here] // self._together] < pending.need[here]
                if bad.any():
                    self._never(batch, pending, int(here[bad][0]), self._sources[number - 1])

    def _never(self, batch: Batch, pending: PendingCopies, cell: int, source: Source) -> None:
        number, owner = int(pending.copy[cell]), int(pending.owner[cell])
        if number < 0:
            return
        access = self._copies[number].touch.access
        key = Key("async_unfinished", "warning", access.line, None, access.file)

        def example() -> Example:
            who = (self._names.actor(batch, owner, access),)
            if source[0] != "mbarrier":
                return Example("product" if source[0] == "products" else "store", None, who)
            return Example("load", None, who, OfMbarrier(self._mbarrier(source[1])))

        self._report(key, example)
