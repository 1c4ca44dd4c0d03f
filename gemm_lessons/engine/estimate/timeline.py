"""A multiprocessor at work: plays the traced warps of its resident blocks, clock by clock, and says when they end.

    schedulers   each issues one instruction a clock: of the warps that can go, the one whose last turn is longest ago
                 (``fair``), or the same again; ``together``: of many, those of the block that began first
    a warp       goes on in order: after the stall that ptxas wrote, and when the loads it waits for are there
    code         loops longer than the instruction cache are fetched again and again (``fetching``)
    fp32, ...    each unit of a scheduler takes its clocks per warp instruction, plus register bank conflicts
    registers    where there is a multiply-add every clock, their file gives it two a clock; what a load brings into
                 them takes its share of that
    tensor cores the next product with the same sums waits until the one before is done; ptxas does not write that down.
                 Those of warpgroups queue up, and a warp goes on until it waits for a group of them
    load-store   one for the whole multiprocessor, first come first served: wavefronts (shared), lines (global). Copies
                 past L1 pass beside it, and wait for each other; what a scheduler issues starts in its order
    L1           a sector is fetched once; later requests for it wait for the same fetch; the load-store unit is
                 busy while it is written. Blocks that are apart find none of each other's tiles. With ``levels``, loads
                 are read from banks, as those of shared memory. Loads return after earlier stores of parts of sectors.
                 Volatile loads find nothing in L1, and what is stored to local memory goes on to L2
    L2           a port that brings the sectors one after the other, each ``l2`` clocks after it was asked for
    barrier      the last warp to arrive releases all: those of its block, or as many as a named barrier is for
    mbarrier     a waiting warp continues when its phase is over: threads have arrived, and boxes that the TMA copies
    blocks       where there are more than fit, the next starts when one's warps have ended and its stores have left
    clusters     each block of a cluster has a multiprocessor. They are played together: a box copied for several blocks
                 takes the port of each, arrivals at mbarriers of others and the cluster's barrier take longer.
                 st.async and red.async leave one after the other

What it leaves out: the first fetch of code, and, without ``levels`` (see ``traffic``), L1's capacity. ``play`` also
leaves out what loads wait for DRAM where blocks with barriers are resident together: they are at different places of
their K tiles, so one multiplies while another waits, but ``play`` lets them begin together. ``play_apart`` plays the
main loop from such places.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import field
from typing import Any, TypeVar

from gemm_lessons.engine.costs.banks import SECTOR, WARP
from gemm_lessons.engine.estimate.fetching import NO_LINE, InstructionCache
from gemm_lessons.engine.estimate.items import (
    ASYNCHRONOUS,
    BOX_OUT,
    COMMITTED,
    FP32,
    FP64,
    GROUPS,
    INTEGER,
    MEMORY,
    OTHER,
    SPECIAL,
    TENSOR,
    Item,
    streams_of,
)
from gemm_lessons.engine.estimate.phases import ClusterBarrier, MbarrierPhases
from gemm_lessons.engine.estimate.traffic import Levels, missed_in_l1
from gemm_lessons.engine.hardware.sheets import GpuSpec, pipes_of
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.sass.operands import Uncountable
from gemm_lessons.engine.sass.reach import SLOT
from gemm_lessons.engine.sass.textures import FETCHES
from gemm_lessons.engine.sass.trace import LOCAL, Signal, Touch, Trace, Traffic

NEVER = 1e18
LINE = 128  # bytes of a line and of a wavefront
SECTORS = 4  # of these
MATRICES = ("LDSM", "STSM")
# Read on an H200 (checks/readings/estimate/traffic_h200.json), in clocks of the port to L2: beside ``levels``, for each
# line that a load asks for besides its sectors; and for a round of atomics.
LINE_CLOCKS, ATOMIC_ROUND = 0.5, 2.6
RETURNED = (
    0.55  # and of the load-store unit, for each register of a warp that L1 returns, as shared memory does (h200.json)
)
LONE = 0.65  # and for a line of which a volatile load asks for one sector only (volatile_h200.json)
# Of the same readings, of threads that own a row each: lines of a load that L1 looks up in a clock, and clocks until a
# load returns after earlier stores of less than whole sectors have left.
TAGS, BEHIND = 2.0, 170.0
COPIED = 1.5  # lines of a copy past L1 in a clock, where each has several sectors (lines_h200.json, copies_h200.json)
# L1 merges a store with the last lines that any warps have stored. Schedulers do not take turns as strictly as here:
# what goes to few lines is merged beyond that, too, half as often for each so many lines more (parts_h200.json and
# bursts_h200.json). Products' warps store their tiles together: what goes to more lines is not merged
# (lines_h200.json).
MERGED, FEW, BEYOND = 24, 4, 16
APART = (1 / 8, 3 / 8, 5 / 8, 7 / 8)  # of a K tile: from one block of a later wave to the next one
SPREAD, ONE = 40503, 1 << 16  # which lines come from DRAM: spread evenly
AnyWarp = TypeVar("AnyWarp")
ARITHMETIC = (FP32, INTEGER)
PRIVATE = ("LDC", *LOCAL)  # no memory that other threads see


@dataclass
class Played:
    """Duration and busy times in clocks; of the busiest scheduler where there are several."""

    clocks: float
    busy: dict[str, float] = field(default_factory=dict)  # issue, fp32, tensor, fp64, shared, l1, l2


def play(
    trace: Trace,
    blocks: int,
    gpu: GpuSpec,
    waves: int = 1,
    *,
    together: bool = False,
    ended_arrive: bool = False,
    from_dram: bool = False,
    asked: float = 0.0,
    levels: Levels | None = None,
) -> Played:
    """Simulate the first ``blocks`` of a trace, resident together, from the launch until the last result is in flight.
    With clusters, simulate as many multiprocessors as a cluster has blocks, each with ``blocks`` of them.

    ``waves``: how often each block is replaced by a new one. ``together``: no wave came before. ``ended_arrive``: a
    warp that has ended counts as arrived at every barrier of its block. The model of products leaves it off: the traces
    of two_warps' warps differ in length, and its times agree with measured ones only without. ``from_dram``: boxes
    and copies past L1 come from there, as they do where L2 does not hold the matrices: even one of many blocks' is then
    waited for by all. So do loads where no other block hides their latency: those of a block that is alone, or of
    warps that never wait for each other.
    ``levels``: where other accesses are served; without, L1 never runs full, and L2 holds everything.
    """
    hidden = blocks > 1 and trace.waits_at_barriers
    return run(
        [
            Multiprocessor(
                [stream.of(warp) for stream, warp in streams] * waves,
                trace.warps_per_block,
                gpu,
                blocks,
                together=together,
                ended_arrive=ended_arrive,
                from_dram=from_dram,
                asked=asked,
                loads_from_dram=from_dram and not hidden,
                levels=levels,
                spilled=missed_in_l1(trace, blocks, gpu),
            )
            for streams in by_rank(streams_of(trace, blocks * trace.cluster, gpu), trace)
        ]
    )


def play_apart(
    longer: Trace,
    shorter: Trace,
    tiles: float,
    blocks: int,
    gpu: GpuSpec,
    tile_clocks: float,
    *,
    from_dram: bool = False,
) -> float:
    """Return the clocks of the main loop for what the ``longer`` trace has more than the ``shorter`` one.

    The first ``blocks`` of the trace are at different places of a K tile, as those of later waves are: each is a
    fraction of its clocks behind the one before. ``tile_clocks`` are a first guess of these. Blocks share nothing in
    L1. ``tiles``: K tiles that the longer trace has more. The result is the average over fractions and warps; a warp's
    clocks count from the middle of its shorter trace on. ``from_dram``: loads come from there.
    """
    items, parts = [], []
    ways = zip(streams_of(longer, blocks, gpu), streams_of(shorter, blocks, gpu), strict=True)
    for (stream, warp), (fewer, _) in ways:
        items.append(stream.of(warp))
        middle = len(fewer.items) // 2
        parts.append(range(middle, middle + len(stream.items) - len(fewer.items)))
    found, spilled = [], missed_in_l1(longer, blocks, gpu)
    for fraction in APART:
        starts = [block * fraction % 1 * tile_clocks for block in range(blocks)]
        loop = MainLoop(parts, starts, items, longer.warps_per_block, gpu, loads_from_dram=from_dram, spilled=spilled)
        found.append(run([loop]).clocks)
        tile_clocks = found[-1] / tiles
    return sum(found) / len(found)


def by_rank(warps: Sequence[AnyWarp], trace: Trace) -> list[list[AnyWarp]]:
    """Distribute the warps of whole clusters over as many multiprocessors as a cluster has blocks."""
    each = trace.warps_per_block
    return [
        [it for first in range(rank * each, len(warps), trace.cluster * each) for it in warps[first : first + each]]
        for rank in range(trace.cluster)
    ]


def uneven(blocks: int, gpu: GpuSpec) -> bool:
    """Return whether it matters for so many resident blocks that they start together: one begins before the other."""
    return blocks > 1 and bool(pipes_of(gpu).apart or pipes_of(gpu).older)


def run(peers: Sequence[Multiprocessor]) -> Played:
    """Simulate the multiprocessors of a cluster, by rank, until all of their streams end; the slowest counts."""
    for multiprocessor in peers:
        multiprocessor.peers, multiprocessor.clusters = peers, peers[0].clusters
        multiprocessor.start()
    schedulers = [(one, number) for one in peers for number in range(len(one.members))]
    following = [(*one.next(number), at) for at, (one, number) in enumerate(schedulers)]
    while True:
        time, scheduler, warp, at = min(following)
        if time == NEVER:
            break
        one = schedulers[at][0]
        one.woken = False
        if one.execute(time, scheduler, warp) or one.woken:
            following = [(*one.next(number), at) for at, (one, number) in enumerate(schedulers)]
        else:
            best, _, chosen = one.next(scheduler)
            following[at] = best, scheduler, chosen, at
    played = [multiprocessor.played() for multiprocessor in peers]
    names = dict.fromkeys(name for it in played for name in it.busy)
    busy = {name: max(it.busy.get(name, 0.0) for it in played) for name in names}
    return Played(max(it.clocks for it in played), busy)


class Multiprocessor:
    """The schedulers of a multiprocessor and their shared units.

    ``streams``: the items of each warp, in the order of blocks; ``resident`` blocks run at once (None: all).
    ``together``: these start one after the other as the launch does, and where there are many warps, those of the block
    that began first have priority.
    """

    def __init__(
        self,
        streams: Sequence[Sequence[tuple[Item, Touch | None]]],
        warps_per_block: int,
        gpu: GpuSpec,
        resident: int | None = None,
        *,
        together: bool = False,
        ended_arrive: bool = False,
        from_dram: bool = False,
        asked: float = 0.0,
        loads_from_dram: bool = False,
        levels: Levels | None = None,
        spilled: float = 0.0,
    ) -> None:
        self.levels = levels
        self.spilled = spilled  # of loads from local memory, the share that L1 does not hold
        self.dram = self.atomics = 0.0  # its share of DRAM, and of the slice where most atomics meet, is free from
        self.flying: deque[float] = deque()  # when sectors arrive from DRAM
        # Where ``levels`` are known: sectors that L2 was asked for, and lines of L1, the oldest first, both by wave.
        self.asked: set[tuple[int, int]] = set()
        self.lines: dict[tuple[int, int], None] = {}
        self.streams = streams
        self.peers: Sequence[Multiprocessor] = [self]
        self.grouped = any(item.unit == ASYNCHRONOUS for stream in streams for item, _ in stream)
        packed = any(item.name == "IDP" for stream in streams for item, _ in stream)
        # Who waits while results of loads are written. Products of packed bytes write every second clock only.
        self.delayed = (TENSOR,) if packed else (FP32, TENSOR)
        self.warps_per_block, self.ended_arrive = warps_per_block, ended_arrive
        self.begun = len(streams) if resident is None else resident * warps_per_block  # warps; the others wait
        self.alive = Counter(warp // warps_per_block for warp, stream in enumerate(streams) if stream)
        self.over = [0.0] * len(self.alive)  # of each block: when its warps have ended and its stores are complete
        self.woken = False  # warps of other schedulers
        self.pipes = pipes_of(gpu)
        self.beyond = self.pipes.dram * from_dram  # clocks
        self.box = self.pipes.box + self.beyond
        self.box_asked = asked * self.pipes.box_ns * gpu.clock_hz / 1e9  # clocks of L2 for a sector of a box
        # Clocks of a load that misses L1.
        self.missed = max(self.pipes.alone, self.pipes.l2) if loads_from_dram else self.pipes.l2
        share = levels.working if levels is not None else 1.0  # of L2 that others do not take
        self.per_sector = max(SECTOR / (gpu.l2_bytes_per_s / gpu.sms / gpu.clock_hz), self.pipes.port)
        self.line_clocks, self.atomic_round = LINE_CLOCKS * share, ATOMIC_ROUND * share
        stored = self.pipes.stored_line_ns, self.pipes.stored_sector_ns, self.pipes.stored_part_ns
        self.stored_line, self.stored_sector, self.stored_part = (ns * gpu.clock_hz / 1e9 for ns in stored)
        self.stored_sector = self.stored_sector or self.per_sector
        self.wavefront = LINE / gpu.bytes_per_clock  # clocks
        count, schedulers = len(streams), gpu.schedulers
        self.members = [range(s, count, schedulers) for s in range(schedulers)]
        self.position = [0] * count
        self.ready = [0.0] * count  # when the warp's next item can issue, units aside
        self.unit = [OTHER] * count  # that this item goes to
        self.boards: list[list[list[float]]] = [[[] for _ in range(GROUPS + 1)] for _ in range(count)]
        self.copies: list[float] = [0.0] * count  # when the last cp.async arrives
        self.read_out: list[float] = [0.0] * count  # when the last box that is copied out has been read
        self.units = [[0.0] * 8 for _ in range(schedulers)]  # free from
        self.products: list[dict[int, float]] = [{} for _ in range(count)]  # when the sums in a register are complete
        self.issue = [0.0] * schedulers  # free from
        self.queues: list[deque[float]] = [deque() for _ in range(schedulers)]
        self.apart = self.pipes.apart if together else 0.0
        many = together and 0 < self.pipes.older * gpu.schedulers <= self.begun
        self.order = [list(it) for it in self.members]  # of the warps that can issue, the first does
        # The place in it of a warp that had its turn: the last, or the last of its block's.
        self.last = [len(self.members[warp % schedulers]) - 1 for warp in range(count)]
        if many:
            places = {(warp % schedulers, warp // warps_per_block): warp // schedulers for warp in range(count)}
            self.last = [places[warp % schedulers, warp // warps_per_block] for warp in range(count)]
        self.load_store = self.tags = 0.0  # free from: the second for copies past L1
        self.sending = 0.0  # as the next one: st.async and red.async
        self.barriers = 0.0  # and what notes arrivals at barriers, one after the other
        self.port = self.l2 = 0.0  # free from: its own, and its share of L2, for boxes
        # All stores, those that threads execute, and those of less than whole sectors have left by:
        self.stores = self.executed = self.partly = 0.0
        self.stored_lines, self.latest = 0, dict[int, int]()  # and how many there were after each sector's last store
        self.wave = max(self.begun, 1)  # warps that are resident together
        # In L1 or in flight: from when; of the warps that share tiles and asked last.
        self.sectors: dict[int, float] = {}
        self.which = 0  # of these groups of warps
        self.share_l1(self.wave)
        self.code = InstructionCache(self.pipes, count, self.wave / schedulers)
        # Warps at a barrier: block, number -> warp and from when on it can continue; -1: does not wait.
        self.waiting: dict[tuple[int, int], list[tuple[int, float]]] = {}
        self.phases: dict[tuple[int, int], MbarrierPhases] = {}  # block, address -> its mbarrier
        self.asleep: dict[tuple[int, int], list[tuple[int, Item, float]]] = {}  # warps that wait there
        self.arrivals = [0] * count  # of each warp at the barrier of its cluster
        # Of each block, shared with the other blocks of its cluster: who waits is (multiprocessor, warp, clock).
        self.clusters = [ClusterBarrier[tuple[Multiprocessor, int, float]]() for _ in self.alive]
        self.end = 0.0
        self.issued = [0.0] * schedulers  # clocks in which it was busy
        self.multiplied = [0.0] * schedulers  # and its fp32 pipe
        self.others = {TENSOR: [0.0] * schedulers, FP64: [0.0] * schedulers}
        self.moved = {"shared": 0.0, "l1": 0.0, "l2": 0.0}

    def share_l1(self, warps: int) -> None:
        """Let so many consecutive warps find each other's sectors in L1; others have other tiles."""
        self.sharing = warps
        self.caches = [self.sectors, *({} for _ in range(warps, len(self.streams), warps))]

    def start(self) -> None:
        """Let the warps of the first blocks begin."""
        for warp, stream in enumerate(self.streams):
            begins = warp // self.warps_per_block * self.apart
            self.ready[warp] = self._ready(warp, begins) if stream and warp < self.wave else NEVER

    def played(self) -> Played:
        """Return what the simulation has found; all streams have ended."""
        if self.asleep:
            raise Uncountable("mbarriers whose phases do not end as far as they are followed")
        if any(number and there for (_, number), there in self.waiting.items()):
            raise Uncountable("a named barrier that too few warps reach")
        end = max(
            self.end,
            self.stores,
            self.atomics,
            self.load_store,
            *(max(units[FP32], units[TENSOR]) for units in self.units),
        )
        others = {"tensor": max(self.others[TENSOR]), "fp64": max(self.others[FP64])}
        busy = {"issue": max(self.issued), "fp32": max(self.multiplied), **self.moved}
        return Played(end, busy | {unit: clocks for unit, clocks in others.items() if clocks})

    def next(self, scheduler: int) -> tuple[float, int, int]:
        """Return when this scheduler issues next, and for which warp.

        Only its own instructions and barriers change that.
        """
        free, units = self.issue[scheduler], self.units[scheduler]
        ready, unit = self.ready, self.unit
        best, chosen = NEVER, -1
        for warp in self.order[scheduler]:
            time = ready[warp]
            if time < best:
                other = units[unit[warp]]
                if other > time:
                    time = other
                if time <= free:  # none goes earlier
                    return free, scheduler, warp
                if time < best:
                    best, chosen = time, warp
        return best, scheduler, chosen

    def _had_its_turn(self, scheduler: int, warp: int) -> None:
        order = self.order[scheduler]
        if self.pipes.fair:
            order.remove(warp)
            order.insert(self.last[warp], warp)
        elif warp != order[0]:  # it goes on, then the others in their order
            recent = order.pop(0)
            order.insert(recent // len(self.order), recent)
            order.remove(warp)
            order.insert(0, warp)

    def _ready(self, warp: int, time: float) -> float:
        """Return when the warp's next item can issue: after ``time`` and its dependences. ``NEVER`` at the end."""
        stream, at = self.streams[warp], self.position[warp]
        if at >= len(stream):
            self.end = max(self.end, time)
            self._ended(warp, time)
            return NEVER
        item = stream[at][0]
        self.unit[warp] = item.unit
        if item.waits:
            boards = self.boards[warp]
            for number in item.waits:
                if board := boards[number]:
                    time = max(time, *board)
                    board.clear()
        if item.sums is not None:
            time = max(time, self.products[warp].get(item.sums[1], 0.0))
        if item.at_most:
            number, allowed = item.at_most
            under_way = sorted(self.boards[warp][number])
            if len(under_way) > allowed:
                time = max(time, under_way[len(under_way) - allowed - 1])
        if item.line != NO_LINE:
            time = self.code.have(warp, item.line, time)
        return time

    def _ended(self, warp: int, time: float) -> None:
        """Start the next block after a block's last warp has ended and its stores are complete."""
        block = warp // self.warps_per_block
        self.alive[block] -= 1
        self.over[block] = max(self.over[block], time)
        if self.ended_arrive and self.alive[block] and len(self.waiting.get((block, 0), ())) == self.alive[block]:
            self._release((block, 0), time)
            self.woken = True
            return
        cluster = self.clusters[block]
        cluster.arrived -= self.arrivals[warp] > cluster.number
        self.woken |= self._met_cluster(block, time)
        if any(peer.alive[block] for peer in self.peers):
            return
        over = max(peer.over[block] for peer in self.peers)
        for peer in self.peers:
            peer.begin_next(over)
        self.woken = True

    def begin_next(self, over: float) -> None:
        """Let the next block begin, if there is one, in the place of one that is ``over``."""
        if self.begun >= len(self.streams):
            return
        first = self.begun
        self.begun += self.warps_per_block
        for other in range(first, self.begun):
            self.ready[other] = self._ready(other, over + self.pipes.move_up)

    def execute(self, time: float, scheduler: int, warp: int) -> bool:
        """Issue the warp's next item. Return whether it released a barrier. ``woken``: others continue as well."""
        at = self.position[warp]
        self.position[warp] = at + 1
        item, touch = self.streams[warp][at]
        unit = item.unit
        self._had_its_turn(scheduler, warp)
        if unit != MEMORY or not self.pipes.dual:
            self.issue[scheduler] = time + item.slots
        self.issued[scheduler] += item.slots
        after = time + item.stall
        if unit in ARITHMETIC:
            units = self.units[scheduler]
            if item.fp32:
                free = units[FP32]
                units[FP32] = (free if free > time else time) + item.fp32
                self.multiplied[scheduler] += item.fp32
            if item.integer:
                free = units[INTEGER]
                units[INTEGER] = (free if free > time else time) + item.integer
            if item.sets is not None:  # an arithmetic instruction without a fixed latency
                self.boards[warp][item.sets].append(time + item.later)
            self.ready[warp] = self._ready(warp, after)
            return False
        if isinstance(touch, Signal):
            if touch.kind in ("met", "passed"):
                return self._arrive(warp, time, after, touch)
            return self._signalled(item, touch, time, warp)
        if unit == MEMORY and touch is not None and touch.barrier is not None:
            released = self._copied(touch, touch.barrier, time, scheduler, warp)
            self.ready[warp] = self._ready(warp, after)
            return released
        if item.name == BOX_OUT:
            self._copied_out(touch, time, scheduler, warp)
        elif item.name == COMMITTED:
            self.boards[warp][item.sets or 0].append(self.read_out[warp])
        elif unit == MEMORY:
            self._access(item, touch, time, scheduler, warp)
        elif unit in (TENSOR, FP64):
            self.units[scheduler][unit] = max(self.units[scheduler][unit], time) + item.other
            self.others[unit][scheduler] += item.other
            if item.sets is not None:
                self.boards[warp][item.sets].append(time + item.later)
            elif item.sums is not None:
                self.products[warp][item.sums[0]] = time + item.later
        elif unit == ASYNCHRONOUS:
            units = self.units[scheduler]
            units[TENSOR] = max(units[TENSOR], time) + item.other
            units[ASYNCHRONOUS] = max(time + 1, units[TENSOR] - self.pipes.grouped_ahead * item.other)
            self.others[TENSOR][scheduler] += item.other
            if item.sets is not None:
                self.boards[warp][item.sets].append(units[TENSOR] + item.later)
        elif unit == SPECIAL:
            self.units[scheduler][SPECIAL] = time + self.pipes.special
            if item.sets is not None:
                self.boards[warp][item.sets].append(time + self.pipes.special_latency)
        elif item.name == "BAR":
            return self._arrive(warp, time, after)
        elif item.name == "UCGABAR_ARV":
            block = warp // self.warps_per_block
            self.arrivals[warp] += 1
            self.clusters[block].arrived += 1
            self.ready[warp] = self._ready(warp, after)
            return self._met_cluster(block, time)
        elif item.name == "UCGABAR_WAIT":
            self._meet_cluster(warp, after)
            return False
        elif item.name == "BRA":
            stream = self.streams[warp]
            if at + 1 < len(stream) and stream[at + 1][0].place < item.place:
                after = max(after, time + self.pipes.branch)
        elif item.name == "MEMBAR":  # copies in flight are accesses before the fence
            after = max(after, self.copies[warp])
        elif item.name == "LDGDEPBAR":
            self.boards[warp][item.sets or 0].append(self.copies[warp])
        self.ready[warp] = self._ready(warp, after)
        return False

    def _arrive(self, warp: int, time: float, after: float, named: Signal | None = None) -> bool:
        """Let a warp arrive at its block's barrier or a ``named`` one. Return whether waiting warps continue."""
        block = warp // self.warps_per_block
        key = block, named.barrier if named else 0
        there = self.waiting.setdefault(key, [])
        waits = named is None or named.kind == "met"
        self.barriers = max(self.barriers, time) + self.pipes.barrier_warp
        there.append((warp if waits else -1, after))
        self.ready[warp] = NEVER if waits else self._ready(warp, after)
        wanted = self.alive[block] if self.ended_arrive else self.warps_per_block
        if named:
            wanted = -(-named.arrivals // WARP)
        if len(there) < wanted:
            return False
        self._release(key, time)
        return True

    def _release(self, key: tuple[int, int], time: float) -> None:
        """Release a barrier: all of its warps have arrived or ended."""
        release = max(self.barriers, time) + self.pipes.barrier
        for other, earliest in self.waiting.pop(key):
            if other >= 0:
                self.ready[other] = self._ready(other, max(release, earliest))

    def _signalled(self, item: Item, signal: Signal, time: float, warp: int) -> bool:
        """Let a warp initialise an mbarrier, arrive or wait. Return whether waiting warps continue."""
        key, after, released = (warp // self.warps_per_block, signal.barrier), time + item.stall, False
        if signal.kind == "made":
            self.phases[key] = MbarrierPhases(signal.arrivals)
        elif key not in self.phases:
            raise Uncountable("an mbarrier that is used before it is made")
        elif signal.kind == "arrived":
            for peer, threads in zip(self.peers, signal.to, strict=True) if signal.to else ((self, signal.arrivals),):
                if threads:
                    arrives = time + (self.pipes.signal if peer is self else self.pipes.remote_signal)
                    released |= peer.arrived(key, threads, signal.bytes, arrives)
        elif signal.kind == "sent":
            rate = self.pipes.reduced if item.name == "REDAS" else self.pipes.sent
            least = self.pipes.send_least * signal.bytes / signal.arrivals
            self.sending = max(self.sending, time) + max(signal.bytes / rate, least)
            for peer, count in zip(self.peers, signal.to, strict=True):
                if count:
                    released |= peer.received(key, count, self.sending + self.pipes.remote_store)
        else:
            over = self.phases[key].since(signal.parity, time)
            if over is None:
                self.asleep.setdefault(key, []).append((warp, item, after))
                self.ready[warp] = NEVER
                return False
            self._knows(warp, item, max(time, over))
        self.ready[warp] = self._ready(warp, after)
        return released

    def _copied(self, box: Traffic, barrier: int, time: float, scheduler: int, warp: int) -> bool:
        """Issue a TMA copy of a box. Return whether the phase's completion time is now known."""
        key = warp // self.warps_per_block, barrier
        self.units[scheduler][MEMORY] = time + 1
        receivers = [self.peers[rank] for rank in box.to] or [self]
        latency = self.box + self.pipes.multicast * (len(receivers) > 1)
        woken = False
        for peer in receivers:
            woken |= peer.brought(key, box, time, latency)
        return woken

    def arrived(self, key: tuple[int, int], threads: int, announced: int, time: float) -> bool:
        """Let threads arrive at an mbarrier of this multiprocessor. Return whether waiting warps continue."""
        if key not in self.phases:
            raise Uncountable("an mbarrier that is used before it is made")
        return self.phases[key].arrived(threads, announced, time) and self._wake(key)

    def received(self, key: tuple[int, int], count: int, time: float) -> bool:
        """Let bytes arrive that a block of the cluster has sent. Return whether waiting warps continue."""
        if key not in self.phases:
            raise Uncountable("an mbarrier that is used before it is made")
        return self.phases[key].brought(count, time) and self._wake(key)

    def brought(self, key: tuple[int, int], box: Traffic, time: float, latency: float) -> bool:
        """Let a box arrive that was requested at ``time``. Return whether waiting warps continue."""
        taken, asked = (clocks * len(box.sectors) for clocks in (self.pipes.box_sector, self.box_asked))
        begins = max(self.port, self.l2, time)
        self.port, self.l2 = begins + taken, begins + asked
        self.moved["l2"] += max(taken, asked)
        written = box.passes * self.wavefront * self.pipes.arrival
        self.moved["shared"] += written
        self.load_store = max(self.load_store, time) + written
        return self.received(key, len(box.sectors) * SECTOR, self.port + latency)

    def _meet_cluster(self, warp: int, after: float) -> None:
        """Let a warp wait for the barrier of its cluster."""
        cluster = self.clusters[warp // self.warps_per_block]
        if self.arrivals[warp] <= cluster.number:
            self.ready[warp] = self._ready(warp, max(after, cluster.over))
        else:
            cluster.waiting.append((self, warp, after))
            self.ready[warp] = NEVER

    def _met_cluster(self, block: int, time: float) -> bool:
        """Complete a cluster barrier's phase if all warps have arrived or ended: after the stores that these have
        executed. Return whether warps continue."""
        cluster, alive = self.clusters[block], sum(peer.alive[block] for peer in self.peers)
        if not cluster.arrived or cluster.arrived < alive:
            return False
        time = max(time, *(peer.executed for peer in self.peers))
        waiting = cluster.complete(time + self.pipes.cluster + self.pipes.cluster_warp * alive / len(self.peers))
        for peer, warp, after in waiting:
            peer.ready[warp] = peer._ready(warp, max(cluster.over, after))
        return bool(waiting)

    def _copied_out(self, box: Touch | None, time: float, scheduler: int, warp: int) -> None:
        """Issue a TMA copy of a box out of shared memory."""
        assert isinstance(box, Traffic)
        read = box.passes * self.wavefront
        self.moved["shared"] += read
        self.load_store = max(self.load_store, time) + read
        self.units[scheduler][MEMORY] = time + 1
        self._stored(box, self.load_store)
        self.read_out[warp] = self.load_store + self.pipes.shared
        block = warp // self.warps_per_block
        self.over[block] = max(self.over[block], self.stores)

    def _stored(self, touch: Traffic, start: float) -> None:
        """Let the port to L2 take stores: L2's own time for lines and sectors, while all multiprocessors store."""
        # Rows of a product's traced C are padded: unless lanes have rows of their own, sectors may be whole at other N.
        own = touch.partial and 2 * touch.passes > len(touch.sectors)
        if touch.atomic:
            rounds = sum(touch.rounds)
            taken = max(self.atomic_round * rounds, self.pipes.port_stored * (rounds + touch.passes))
            if self.levels is not None:
                busiest = self.levels.atomic.get(touch.sectors[0] // SLOT, 0.0)
                self.atomics = max(self.atomics, start) + busiest * rounds
        else:
            taken = (self.stored_line + self.stored_part * own) * touch.passes
            taken = (taken + self.stored_sector * len(touch.sectors)) * (1 - self._merged(touch))
        self.stores = max(self.stores, start) + taken
        if (own or (touch.partial and self.levels is not None)) and not touch.atomic:
            self.partly = self.stores
        self.moved["l2"] += taken

    def _wake(self, key: tuple[int, int]) -> bool:
        """Let the warps that wait for a phase continue at its completion time."""
        woken = self.asleep.pop(key, [])
        for warp, item, after in woken:
            self._knows(warp, item, max(after, self.phases[key].over))
            self.ready[warp] = self._ready(warp, after)
        return bool(woken)

    def _knows(self, warp: int, item: Item, time: float) -> None:
        """Tell the warp, at this time, that a phase is complete."""
        if item.sets is not None:
            self.boards[warp][item.sets].append(time + self.pipes.look)

    def _access(self, item: Item, touch: Traffic | None, time: float, scheduler: int, warp: int) -> None:
        pipes, units = self.pipes, self.units[scheduler]
        queue = self.queues[scheduler]
        past = touch is not None and touch.past
        start = max(self.tags if past else self.load_store, time, queue[-1] if queue else 0.0)
        if touch is not None and item.name not in PRIVATE:
            if touch.space == "shared":
                clocks = (touch.passes if pipes.conflicts else touch.ideal) * self.wavefront
                if pipes.conflicts and touch.ideal > 1 and item.name not in MATRICES:
                    clocks += pipes.replay * min(touch.passes - touch.ideal, touch.ideal) * self.wavefront
                self.moved["shared"] += clocks
                self.load_store = through = start + clocks
                done = through + pipes.shared
                if touch.load:
                    written = pipes.write_port * item.registers
                    for unit in self.delayed:
                        free = units[unit]
                        units[unit] = (free if free > time else time) + written
                    done = done + item.registers - 1
            elif touch.space == "remote":
                self.load_store = start + max(touch.passes * self.wavefront, pipes.request)
                done = self.load_store + pipes.remote
            else:
                clocks = max(self._lines(touch) * self.wavefront, pipes.request)
                if self.levels is not None and touch.load:
                    if touch.banked:
                        taken = max(touch.banked, touch.passes / TAGS) * self.wavefront
                        clocks = max(taken, pipes.request)
                    clocks = max(clocks, RETURNED * item.registers)
                if touch.written and not past:
                    written = (touch.written if pipes.conflicts else touch.even) * self.wavefront
                    clocks = max(clocks, written + pipes.request)
                self.moved["l1"] += clocks
                if past:
                    self.tags = start + clocks
                else:
                    self.load_store = start + clocks
                self.which = warp // self.sharing
                self.sectors = self.caches[self.which]
                done = self._fetched(touch, start) + (pipes.texture if item.name in FETCHES else 0.0)
                if not touch.load:
                    block = warp // self.warps_per_block
                    self.over[block] = max(self.over[block], self.stores)
        elif item.name == "LDC":
            start = time
            done = time + pipes.constant
        elif item.name in LOCAL:  # in L1, a line for each register of the warp
            lines, sectors = item.registers, SECTORS * item.registers
            if isinstance(touch, Traffic):  # lanes have indices of their own
                lines, sectors = touch.passes, touch.written
            self.load_store = start + max(pipes.local * lines, pipes.request)
            self.moved["l1"] += self.load_store - start
            done = self.load_store + pipes.l1
            # L1 sends every store on to L2, and what it has to fetch takes as long.
            if beyond := 1.0 if item.name == "STL" else self.spilled:
                taken = beyond * (self.stored_line * lines + self.stored_sector * sectors)
                self.stores = max(self.stores, start) + taken
                self.moved["l2"] += taken
                block = warp // self.warps_per_block
                self.over[block] = max(self.over[block], self.stores)
                if item.name == "LDL":
                    done = max(done, self.stores + pipes.l2)
        else:  # a shuffle, or all lanes predicated off
            self.load_store = start + 1
            done = start + pipes.shared
        queue.append(start)
        units[MEMORY] = max(time + 1, queue.popleft()) if len(queue) > pipes.queue else time + 1
        if item.name == "LDGSTS":
            self.copies[warp] = max(self.copies[warp], done)
        if item.sets is not None:
            self.boards[warp][item.sets].append(done)
        if item.reads is not None:
            self.boards[warp][item.reads].append(start + pipes.read)

    def _lines(self, touch: Traffic) -> float:
        """Return the clocks in which L1 looks up the lines of an access to global memory: of a copy past it, wavefronts
        where banks conflict, else at most four sectors in a clock."""
        if not touch.past:
            return touch.passes
        if self.pipes.conflicts and touch.written > touch.passes:
            return touch.written
        sectors = len(touch.sectors)
        return max(touch.passes / (COPIED if sectors >= 2 * touch.passes else 1.0), sectors / SECTORS)

    def _fetched(self, touch: Traffic, start: float) -> float:
        """Return when an access to global memory that began at ``start`` is complete."""
        done, per_sector = (self.tags if touch.past else self.load_store) + self.pipes.l1, self.per_sector
        if not touch.load:
            self._stored(touch, start)
            self.executed = self.stores
            if self.levels is not None and touch.atomic:
                done = max(self.stores, self.atomics) + self.pipes.l2
            if self.grouped:
                self.load_store = max(self.load_store, self.stores - self.pipes.stored_ahead)
            return done
        fetched = 0
        taken = per_sector * (self.pipes.past if touch.past else 1.0)
        if self.partly > start:
            done = max(done, self.partly + BEHIND)
        if touch.strong:
            self.port = max(self.port, start) + LONE * max(0, 2 * touch.passes - len(touch.sectors))
        elif self.levels is not None and not touch.past:
            self.port = max(self.port, start) + self.line_clocks * self._absent(touch)
        for sector in touch.sectors:
            there = None if touch.past else self.sectors.get(sector)
            if there is None or touch.strong:
                fetched += 1
                self.port = max(self.port, start) + taken
                self.moved["l2"] += taken
                there = self.port + (self.pipes.l2 + self.beyond if touch.past else self.missed)
                if self.levels is not None:
                    there = self._beyond(sector, start, there)
                self.sectors[sector] = there
            if there > done:
                done = there
        if fetched and not touch.past:
            written = fetched * self.wavefront / SECTORS
            self.load_store += written
            self.moved["l1"] += written
        return done

    def _merged(self, touch: Traffic) -> float:
        """Return the share of a store that L1 adds to what it has not sent yet."""
        if touch.box:
            return 0.0
        self.stored_lines += touch.passes
        share = 0.0
        for sector in touch.sectors:
            beyond = self.stored_lines - self.latest.get(sector, -LINE * MERGED) - MERGED
            self.latest[sector] = self.stored_lines
            if touch.passes <= FEW or (beyond <= 0 and self.levels is not None):
                share += 0.5 ** (max(beyond, 0) / BEYOND)
        return share / len(touch.sectors)

    def _absent(self, touch: Traffic) -> int:
        """Return how many lines of a load L1 has to ask for."""
        return len({sector // SECTORS for sector in touch.sectors if sector not in self.sectors})

    def _beyond(self, sector: int, start: float, there: float) -> float:
        """Return when a sector arrives that L1 does not hold, at ``there`` if L2 does. Make room for it in L1."""
        levels = self.levels
        assert levels is not None
        line = sector // SECTORS
        if (self.which, line) not in self.lines:
            self.lines[self.which, line] = None
            if len(self.lines) > levels.l1_lines:
                oldest = next(iter(self.lines))
                del self.lines[oldest]
                for old in range(oldest[1] * SECTORS, (oldest[1] + 1) * SECTORS):
                    self.caches[oldest[0]].pop(old, None)
        if (self.which, sector) not in self.asked:
            self.asked.add((self.which, sector))
            if line * SPREAD % ONE < levels.far.get(sector // SLOT, 0.0) * ONE:
                self.dram = max(self.dram, start) + levels.dram_sector
                while self.flying and self.flying[0] <= start:
                    self.flying.popleft()
                there = max(there, self.dram + self.pipes.far + levels.loaded * len(self.flying))
                self.flying.append(there)
        return there


class MainLoop(Multiprocessor):
    """A multiprocessor that is played until each warp has executed its part of the main loop, a range of its items.
    Blocks begin at ``starts``, and none finds tiles of another one in L1."""

    def __init__(self, parts: Sequence[range], starts: Sequence[float], *given: Any, **also: Any) -> None:
        super().__init__(*given, **also)
        self.parts, self.left = parts, len(parts)  # warps that have not executed their part
        self.starts = starts
        self.share_l1(self.warps_per_block)
        self.began = [0.0] * len(parts)
        self.took: list[float] = []

    def start(self) -> None:
        """Let the warps of each block begin at its time."""
        for warp in range(len(self.streams)):
            self.ready[warp] = self._ready(warp, self.starts[warp // self.warps_per_block])

    def next(self, scheduler: int) -> tuple[float, int, int]:
        """Return when this scheduler issues next, and for which warp; never after the last part."""
        return super().next(scheduler) if self.left else (NEVER, scheduler, -1)

    def execute(self, time: float, scheduler: int, warp: int) -> bool:
        """Issue the warp's next item, and note when its part begins and ends."""
        at, part = self.position[warp], self.parts[warp]
        if at == part.start:
            self.began[warp] = time
        elif at == part.stop:
            self.took.append(time - self.began[warp])
            self.left -= 1
        return super().execute(time, scheduler, warp)

    def played(self) -> Played:
        """Return the average clocks of a part."""
        return Played(sum(self.took) / len(self.took))
