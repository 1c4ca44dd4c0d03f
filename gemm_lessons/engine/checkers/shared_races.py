"""Races in shared memory: two threads of a block access the same bytes, one of them writes, and nothing orders them.

In an epoch without inner synchronisation no two threads are ordered, whatever order they ran in. In an epoch with
inner barriers (named barriers, ``__syncwarp``, barriers of single blocks), ``warp_clocks`` gives the order
(C. Flanagan, S. Freund: "FastTrack: efficient and precise dynamic race detection", 2009). Unordered threads of one warp
are a warning: ``__syncwarp`` is missing, even where current hardware runs them in lock step. Of the readers of a
granule only the lowest and the highest lane are kept; a lane between them that a partial ``__syncwarp`` leaves out may
be missed. Of the threads that update a granule by atomics, the last one is kept, and one other for the case that the
last one itself reads.

Atomics of one kind commute, such as additions or maxima. Atomics of two kinds do not: the final value, or the value
that one returns, depends on the order. A tile filled by ``atomicExch`` and read by ``atomicAdd(p, 0)`` needs a barrier.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemm_lessons.engine.checkers.barrier_order import BarrierOrder, SharedBarrier
from gemm_lessons.engine.checkers.collector import Example, FindingCollector, Key, Names
from gemm_lessons.engine.checkers.epochs import Cells, Epoch, Flag, Segment, Windows
from gemm_lessons.engine.checkers.warp_clocks import RemoteUses, WarpClocks, WarpOrder
from gemm_lessons.engine.events import WARP, Access, Barrier, Batch, Boundary, Phase, Touch
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.facts import OfMbarrier, Race
from gemm_lessons.engine.records.findings import Severity

BIG = np.iinfo(np.int32).max


BLOCK_BARRIER = Epoch((Segment((), Barrier("block")),), False)
OPERATIONS = frozenset("add and or xor min max inc dec exch cas".split())


def operation(access: Access) -> str:
    """Return the operation of an atomic. Exchanges and comparisons in different lines count as different operations."""
    name = access.text.split(None, 1)[0] if not access.text.startswith("@") else access.text.split(None, 2)[1]
    kind = next((part for part in name.split(".") if part in OPERATIONS), name)
    return f"{kind} {access.line}" if kind in ("exch", "cas") else kind


def makes_mbarrier(access: Access) -> bool:
    """Return whether the access is an ``mbarrier.init`` or ``mbarrier.inval``."""
    return access.is_mbarrier and access.effect == "store"


def writes(access: Access) -> bool:
    """Return whether the access changes (shared) memory."""
    return access.effect != "load"


@dataclass
class Hazard:
    """Two racing accesses, with one example: byte offset, lanes of the earlier and the later access."""

    earlier: Access
    later: Access
    same_warp: bool
    offset: int
    lanes: tuple[int, int]
    count: int = 0


class Analysis:
    """Shadow memory of the blocks' shared windows: per granule the last writer and the readers since.

    ``blocks``: number of blocks analysed (one if the epoch is uniform). The lowest and the highest reading lane are
    kept: per block, or per warp once clocks distinguish warps.
    """

    def __init__(self, blocks: int, windows: Windows, optimistic: frozenset[int], flags: frozenset[int]) -> None:
        self.optimistic = optimistic | flags  # loads (instruction indices) that may race with atomics
        self.flags = flags  # accesses by which threads synchronise: they may race with each other
        self.blocks, self.windows, cluster = blocks, windows, windows.cluster
        self.padded, self.stride, self.granule = windows.padded, windows.shared, windows.shared_granule
        self.lanes = blocks * self.padded
        self.warps = self.padded // WARP
        self.cluster, self.peers = cluster, cluster * self.warps  # blocks and warps of a cluster
        count = blocks * self.stride // self.granule
        self.writer = np.full(count, -1, np.int32)
        self.writer_touch = np.zeros(count, np.int32)
        self.writer_atomic = np.zeros(count, np.bool_)
        self.writer_stamp = np.zeros(0, np.int32)
        # Allocated with the first atomic: one updater of a granule besides its last writer.
        self.updater: Array | None = None
        self.updater_touch = self.updater_stamp = self.updater_count = np.zeros(0, np.int32)
        self.columns = 1
        self.low = np.full(count, BIG, np.int32)
        self.high = np.full(count, -1, np.int32)
        self.reader_touch = np.zeros(count, np.int32)
        self.reader_stamp = np.zeros(0, np.int32)
        self.clocks: WarpClocks | None = None
        self.order: BarrierOrder | None = None
        self.inside: WarpOrder | None = None  # once some lanes of a warp have synchronised without the others
        self.writer_count = self.low_count = self.high_count = np.zeros(0, np.int32)  # counts of ``inside``
        self.seen: list[Access] = []
        self.hazards: dict[tuple[int, int, bool], Hazard] = {}
        self.remote = RemoteUses(blocks * self.warps, cluster) if cluster > 1 else None
        if self.remote is not None:
            self._allocate_clocks()

    @property
    def found(self) -> tuple[Hazard | SharedBarrier, ...]:
        """The hazards and shared barriers found so far."""
        return *self.hazards.values(), *(self.order.found.values() if self.order is not None else ())

    def feed(self, epoch: Epoch) -> None:
        """Analyse an epoch, after those fed before."""
        if self.clocks is None and any(isinstance(s.mark, (Barrier, Flag, Phase)) for s in epoch.segments):
            self._allocate_clocks()
        for segment in epoch.segments:
            for touch in segment.touches:
                if touch.access.space == "shared":
                    self._touch(touch)
            if isinstance(segment.mark, Barrier):
                self._barrier(segment.mark)
            elif isinstance(segment.mark, Flag):
                self._flag(segment.mark.touch)
            elif isinstance(segment.mark, Phase) and self.clocks is not None:
                self.clocks.phase(segment.mark)

    # -- clocks -------------------------------------------------------------------------------------------------------

    def _allocate_clocks(self) -> None:
        count = self.writer.size
        self.clocks = WarpClocks(self.blocks, self.padded, self.stride, self.cluster)
        self.order = BarrierOrder(self.clocks.itself[2])
        self.writer_stamp = np.ones(count, np.int32)
        self.updater_stamp = np.ones(count, np.int32)
        low, high, touch = self.low, self.high, self.reader_touch
        self.columns = self.peers
        self.low = np.full(count * self.peers, BIG, np.int32)
        self.high = np.full(count * self.peers, -1, np.int32)
        read = np.flatnonzero(high >= 0)  # readers so far: the lowest and the highest lane each belong to some warp
        # Only granules that were read need these values, and zeroed memory costs nothing until it is used.
        self.reader_touch = np.repeat(touch, self.peers) if read.size else np.zeros(self.low.size, touch.dtype)
        self.reader_stamp = (np.ones if read.size else np.zeros)(self.low.size, np.int32)
        for lane in (low[read], high[read]):
            column = read * self.peers + lane // WARP % self.peers
            self.low[column] = np.minimum(self.low[column], lane)
            self.high[column] = np.maximum(self.high[column], lane)

    def _barrier(self, mark: Barrier) -> None:
        assert self.clocks is not None
        assert self.order is not None
        if mark.groups is not None:
            if self.inside is None:
                self.inside = WarpOrder(self.lanes)
                self.writer_count, self.updater_count = (np.zeros(self.writer.size, np.int32) for _ in range(2))
                self.low_count, self.high_count = (np.zeros(self.low.size, np.int32) for _ in range(2))
            self.inside.meet(mark.groups[: self.lanes])
            return
        if mark.kind in ("named", "arrive"):
            self.order.meet(mark, self.clocks.participants(mark), self.clocks.known, self.clocks.own)
        self.clocks.barrier(mark)

    def _flag(self, touch: Touch) -> None:
        assert self.clocks is not None
        where = self.windows.cells(touch, self.lanes)
        uses = dict.fromkeys(zip((where.lane // WARP).tolist(), where.cell.tolist(), strict=True))
        effect = touch.access.effect
        self.clocks.flag(uses, acquires=effect != "store", releases=effect != "load")

    # -- accesses -----------------------------------------------------------------------------------------------------

    def _touch(self, touch: Touch) -> None:
        access = touch.access
        number = len(self.seen)
        self.seen.append(access)
        where = self.windows.cells(touch, self.lanes)
        lane, cell = where.lane, where.cell
        if self.remote is not None and self.clocks is not None:
            rank = cell * self.granule // self.stride % self.cluster
            away = rank != lane // self.padded % self.cluster
            if away.any():
                self.remote.note(access, lane[away], rank[away], self.clocks.known, self.clocks.own)
        writer = self.writer[cell]
        bad = (writer >= 0) & (writer != lane)
        if self._counts_as_atomic(access) or access.index in self.optimistic:
            bad &= ~self.writer_atomic[cell] | self._other_kind(access, cell)
        if self.clocks is not None:
            bad &= self.clocks.unordered(lane, writer, self.writer_stamp[cell])
            if self.inside is not None:
                bad &= ~self.inside.ordered(lane, writer, self.writer_count[cell])
        if np.count_nonzero(bad):
            self._report(self.writer_touch[cell[bad]], writer[bad], touch, lane[bad], cell[bad])
        if self.updater is not None and not (self._counts_as_atomic(access) or access.index in self.optimistic):
            self._check_updaters(self.updater, touch, where, bad)
        if access.is_bulk and access.effect == "copy":
            self._check_readers(touch, where)
            self._hand_over(cell)
        elif writes(access):
            self._check_readers(touch, where)
            self._write(touch, number, where)
        elif access.index not in self.optimistic and not access.is_bulk:  # ``bulk_copies`` tracks their completion
            self._read(number, where)

    def _hand_over(self, cell: Array) -> None:
        """Forget accesses to bytes that a bulk copy writes: ``bulk_copies`` follows them until their phase ends."""
        self.writer[cell] = -1
        self.low.reshape(-1, self.columns)[cell], self.high.reshape(-1, self.columns)[cell] = BIG, -1
        if self.updater is not None:
            self.updater[cell] = -1

    def _other_kind(self, access: Access, cell: Array) -> Array | bool:
        """Return where the last updater was an atomic of another kind."""
        if access.effect != "atomic" or access.index in self.flags:
            return False
        mine = operation(access)
        kinds = [it.effect == "atomic" and it.index not in self.flags and operation(it) != mine for it in self.seen]
        return np.asarray(np.array(kinds, np.bool_)[self.writer_touch[cell]])

    def _counts_as_atomic(self, access: Access) -> bool:
        return access.effect == "atomic" or access.index in self.flags

    def _check_updaters(self, updater: Array, touch: Touch, where: Cells, known: Array) -> None:
        """Check a plain access by the last updater of a granule against the other updaters.

        ``known``: already reported.
        """
        lane, cell = where.lane, where.cell
        other = updater[cell]
        bad = (other >= 0) & (other != lane) & ~known
        if self.clocks is not None:
            bad &= self.clocks.unordered(lane, other, self.updater_stamp[cell])
            if self.inside is not None:
                bad &= ~self.inside.ordered(lane, other, self.updater_count[cell])
        if bad.any():
            self._report(self.updater_touch[cell[bad]], other[bad], touch, lane[bad], cell[bad])

    def _note_updaters(self, where: Cells, atomic: bool) -> None:
        """Before a write: keep each granule's last updater as the other one, unless the same lane updates again."""
        lane, cell = where.lane, where.cell
        if self.updater is None:
            if not atomic:
                return
            self.updater, self.updater_touch = np.full(self.writer.size, -1, np.int32), np.zeros_like(self.writer)
        if not atomic:
            self.updater[cell] = -1
            return
        old = cell[self.writer_atomic[cell] & (self.writer[cell] != lane)]
        self.updater[old], self.updater_touch[old] = self.writer[old], self.writer_touch[old]
        if self.clocks is not None:
            self.updater_stamp[old] = self.writer_stamp[old]
        if self.inside is not None:
            self.updater_count[old] = self.writer_count[old]

    def _check_readers(self, touch: Touch, where: Cells) -> None:
        lane, cell = where.lane, where.cell
        last_readers = self.high.reshape(-1, self.columns)[cell]
        for column in np.flatnonzero((last_readers >= 0).any(axis=0)).tolist():
            place = cell * self.columns + column
            low, high = self.low[place], last_readers[:, column]
            bad = (high >= 0) & ((low != lane) | (high != lane))
            if self.clocks is not None:
                bad &= self.clocks.unordered(lane, np.full(lane.shape, column * WARP), self.reader_stamp[place])
            if self.inside is not None:
                first, last = (
                    (reader != lane) & ~self.inside.ordered(lane, np.clip(reader, 0, self.lanes - 1), count[place])
                    for reader, count in ((low, self.low_count), (high, self.high_count))
                )
                bad &= first | last
                low, high = np.where(first, low, high), np.where(last, high, low)
            if not np.count_nonzero(bad):
                continue
            mine, low, high = lane[bad], low[bad], high[bad]
            # Name a reader of another warp if there is one.
            reader = np.where(low != mine, low, high)
            reader = np.where(high // WARP != mine // WARP, high, reader)
            reader = np.where(low // WARP != mine // WARP, low, reader)
            self._report(self.reader_touch[place[bad]], reader, touch, mine, cell[bad])

    def _write(self, touch: Touch, number: int, where: Cells) -> None:
        lane, cell = where.lane, where.cell
        atomic = self._counts_as_atomic(touch.access)
        self._note_updaters(where, atomic)
        self.writer[cell] = lane
        self.writer_touch[cell] = number
        self.writer_atomic[cell] = atomic
        if self.clocks is not None:
            self.writer_stamp[cell] = self.clocks.stamp(lane)
        if self.inside is not None:
            self.writer_count[cell] = self.inside.counts[lane]
        if atomic and self.updater is not None:
            # Several lanes of this instruction update the same bytes: in reverse, the lowest is assigned last.
            beside = np.flatnonzero(self.writer[cell] != lane)[::-1]
            place, other = cell[beside], lane[beside]
            self.updater[place], self.updater_touch[place] = other, number
            if self.clocks is not None:
                self.updater_stamp[place] = self.clocks.stamp(other)
            if self.inside is not None:
                self.updater_count[place] = self.inside.counts[other]
        if not atomic:
            winner = self.writer[cell]
            overwritten = winner != lane
            if np.count_nonzero(overwritten):  # several lanes of this instruction write the same bytes
                self._report(
                    self.writer_touch[cell[overwritten]],
                    winner[overwritten],
                    touch,
                    lane[overwritten],
                    cell[overwritten],
                )

    def _read(self, number: int, where: Cells) -> None:
        lane, cell = where.lane, where.cell
        if self.clocks is None:
            place = cell
            low, high = self.low[place], self.high[place]
        else:
            place = cell * self.columns + lane // WARP % self.peers
            stamp = self.clocks.stamp(lane)
            same = self.reader_stamp[place] == stamp
            low = np.where(same, self.low[place], BIG)
            high = np.where(same, self.high[place], -1)
            self.reader_stamp[place] = stamp
        if self.inside is not None:
            now = self.inside.counts[lane]
            self.high_count[place] = np.where(lane >= high, now, self.high_count[place])
            self.low_count[place[::-1]] = np.where(lane <= low, now, self.low_count[place])[::-1]
        # For duplicate cells the last assignment remains: lanes ascend, so it is the maximum, in reverse the minimum.
        self.high[place] = np.maximum(high, lane)
        self.low[place[::-1]] = np.minimum(low, lane)[::-1]
        self.reader_touch[place] = number

    def _report(self, earlier: Array, lanes: Array, touch: Touch, mine: Array, cell: Array) -> None:
        later = touch.access
        same = lanes // WARP == mine // WARP
        for number in np.unique(earlier).tolist():
            access = self.seen[number]
            if access.is_async and later.effect == "load":
                continue  # ``async_copies`` tracks these through commit, wait and barrier
            for same_warp in (False, True):
                chosen = (earlier == number) & (same == same_warp)
                count = int(np.count_nonzero(chosen))
                if not count:
                    continue
                key = (access.index, later.index, same_warp)
                hazard = self.hazards.get(key)
                if hazard is None:
                    first = int(chosen.argmax())
                    offset = int(cell[first]) * self.granule % self.stride
                    pair = int(lanes[first]), int(mine[first])
                    hazard = self.hazards[key] = Hazard(access, later, same_warp, offset, pair)
                hazard.count += count


class SharedRaces:
    """Analyses each distinct epoch once and counts its hazards at every occurrence."""

    def __init__(
        self,
        collector: FindingCollector,
        names: Names,
        windows: Windows,
        optimistic: frozenset[int],
        flags: frozenset[int],
    ) -> None:
        self._collector, self._names, self._windows = collector, names, windows
        self._optimistic, self._flags = optimistic, flags
        self._known: dict[Epoch, tuple[Hazard | SharedBarrier, ...]] = {}
        self._open: Analysis | None = None  # analysis of an epoch that was delivered in parts
        self.suspects: set[tuple[int, int]] = set()  # pairs of racing stores or copies, for ``SameValue``

    def forget(self) -> None:
        """Drop the memoised epochs."""
        self._known.clear()

    def begin_batch(self) -> None:
        """Start new blocks: drop the unfinished epoch."""
        self._open = None

    def epoch(self, batch: Batch, epoch: Epoch, boundary: Boundary, lanes: int) -> None:
        """Report the hazards of an epoch. ``lanes``: of the batch's state."""
        blocks = lanes // self._windows.padded
        if self._windows.cluster > 1:
            self._of_clusters(batch, epoch, boundary, blocks)
            return
        if self._open is None and boundary != "none":
            hazards = self._known.get(epoch)
            if hazards is None and epoch.silent:
                hazards = ()
            if hazards is None:
                analysis = self._analysis(1 if epoch.uniform else blocks)
                analysis.feed(epoch)
                hazards = self._known[epoch] = analysis.found
            if hazards:
                self._count(batch, hazards, batch.blocks if epoch.uniform else 1)
            return
        if self._open is None:
            self._open = self._analysis(blocks)
        self._open.feed(epoch)
        if boundary != "none":
            self._count(batch, self._open.found, 1)
            self._open = None

    def _of_clusters(self, batch: Batch, epoch: Epoch, boundary: Boundary, blocks: int) -> None:
        """Analyse the batch as one epoch: a barrier of each block does not order blocks of a cluster."""
        if self._open is None:
            self._open = self._analysis(blocks)
        self._open.feed(epoch)
        if boundary == "barrier":
            self._open.feed(BLOCK_BARRIER)
        elif boundary != "none":
            self._count(batch, self._open.found, 1)
            if boundary == "end" and self._open.remote is not None and self._open.clocks is not None:
                self._open.remote.report(self._collector, self._names, batch, self._open.clocks.known)
            self._open = None

    def _analysis(self, blocks: int) -> Analysis:
        return Analysis(blocks, self._windows, self._optimistic, self._flags)

    def _count(self, batch: Batch, hazards: tuple[Hazard | SharedBarrier, ...], times: int) -> None:
        for hazard in hazards:
            if isinstance(hazard, SharedBarrier):
                hazard.report(self._collector, self._names, batch)
                continue
            earlier, later = hazard.earlier, hazard.later
            if earlier.effect == later.effect == "store" or (earlier.is_async and later.is_async):
                self.suspects.add((earlier.index, later.index))
            one = earlier.index == later.index and writes(later)  # the final value is undefined, in lock step or not
            severity: Severity = "warning" if hazard.same_warp and not one else "error"
            both = makes_mbarrier(earlier) and makes_mbarrier(later)
            detail = "mbarriers" if both else f"shared {earlier.effect} {later.effect}"
            key = Key.between("race", severity, earlier, later, detail)
            count = hazard.count * times
            self._collector.add(key, lambda h=hazard: self._example(batch, h), count)  # type: ignore[misc]

    def _example(self, batch: Batch, hazard: Hazard) -> Example:
        earlier, later = hazard.earlier, hazard.later
        blocks = {lane // self._windows.padded for lane in hazard.lanes}
        if len(blocks) > 1:
            case = "cluster"
        elif earlier.index == later.index and writes(later):
            case = "owner"
        elif hazard.same_warp:
            case = "warp"
        elif not writes(earlier) and (earlier.line or 0) >= (later.line or 0):
            case = "next round"
        elif earlier.effect == later.effect == "store":
            case = "stores"
        else:
            case = "order"
        first, second = hazard.lanes
        actors = self._names.actor(batch, first, earlier), self._names.actor(batch, second, later)
        if makes_mbarrier(earlier) and makes_mbarrier(later):
            return Example("mbarriers", None, actors, OfMbarrier(self._names.mbarrier(hazard.offset)))
        return Example(f"shared {case}", self._names.shared(hazard.offset), actors, Race())
