"""One multiprocessor at work: plays the traced warps of its resident blocks, clock by clock, and says when they end.

    schedulers   each issues one instruction a clock: of the warps that can go, the one whose last turn is longest ago
                 (``fair``), or the same again
    a warp       goes on in order: after the stall that ptxas wrote, and when the loads it waits for are there
    fp32, ...    each unit of a scheduler takes its clocks per warp instruction, plus register bank conflicts
    tensor cores the next product with the same sums waits until the one before is done; ptxas does not write that down
    load-store   one for the whole multiprocessor, first come first served: wavefronts (shared), lines (global)
    L1           a sector is fetched once; whoever wants it meanwhile waits for the same fetch; the load-store unit is
                 busy while it is written
    L2           a port that brings the sectors one after the other, each ``l2`` clocks after it was asked for
    barrier      the last warp to arrive releases all

What it leaves out: L1's capacity, instruction fetch, the order in which blocks move up, DRAM's latency.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

from gemm_lessons.estimate.latencies import PIPES, THREE_OPERANDS, Pipes, pipes_of
from gemm_lessons.frozen import dataclass
from gemm_lessons.hardware.sheets import GpuSpec
from gemm_lessons.simulator.counters.banks import SECTOR, WARP
from gemm_lessons.simulator.counters.machinecode.operands import Decoded, MachineRegister
from gemm_lessons.simulator.counters.machinecode.textures import FETCHES
from gemm_lessons.simulator.counters.machinecode.trace import SCOREBOARDS, Trace, Traffic

if TYPE_CHECKING:
    from gemm_lessons.compiler.sass import SassInstruction

LONGEST_RUN = 16  # arithmetic instructions of one warp that are issued together, to save time
NEVER = 1e18
LINE = 128  # bytes of a line and of a wavefront
SECTORS = 4  # of these
PRODUCTS = ("HMMA", "IMMA", "DMMA")
Step = tuple[int, Traffic | None]  # of a traced warp: the instruction's index, and its access if it made one
FP32, MEMORY, INTEGER, SPECIAL, OTHER, TENSOR, FP64 = range(7)
UNITS: Mapping[str, int] = {
    **dict.fromkeys("FFMA FADD FMUL FFMA32I FMUL32I FADD32I IMAD HFMA2 HADD2 HMUL2 IDP".split(), FP32),
    **dict.fromkeys(
        "LD ST LDG STG LDS STS LDL STL LDC LDSM STSM LDGSTS TLD ATOM ATOMG ATOMS RED REDG SHFL REDUX".split(), MEMORY
    ),
    **dict.fromkeys(PRODUCTS, TENSOR),
    **dict.fromkeys("DFMA DADD DMUL DSETP DMNMX".split(), FP64),
    **dict.fromkeys("S2R S2UR MUFU F2I I2F F2F I2FP F2FP FRND POPC FLO BREV".split(), SPECIAL),
    **dict.fromkeys(
        "BRA EXIT BAR NOP BSSY BSYNC BREAK CALL RET WARPSYNC DEPBAR LDGDEPBAR MEMBAR ERRBAR CCTL YIELD".split(), OTHER
    ),
}  # all others: INTEGER
# Moves that ptxas writes as multiplications: they need no multiplier.
MOVES = ("IMAD.MOV", "IMAD.IADD", "IMAD.SHL")
MATRICES = ("LDSM", "STSM")
PRIVATE = ("LDC", "LDL", "STL")  # no memory that other threads see
# Units of which this model knows no rates.
UNKNOWN = re.compile(r"[BQ]MMA|[HIQ]GMMA|UTMA\w+|SYNCS|UBLK\w+")


def unknown_units(code: Iterable[SassInstruction], gpu: GpuSpec | None = None) -> set[str]:
    """The opcodes whose unit this model does not know; on ``gpu`` or, without it, on none that it has."""
    found = set()
    for instruction in code:
        name = instruction.opcode.split(".")[0]
        if UNKNOWN.fullmatch(name):
            found.add(name)
        elif name in PRODUCTS:
            pipes = PIPES.values() if gpu is None else (pipes_of(gpu),)
            if not any(it.products.clocks(instruction.opcode) for it in pipes):
                found.add(name)
    return found


class Item(NamedTuple):
    """One instruction, or a run of arithmetic ones: what it waits for, what it takes, how long its warp pauses."""

    unit: int
    waits: tuple[int, ...]
    slots: int  # issue slots
    fp32: float  # clocks of the fp32 pipe
    integer: float
    stall: float
    sets: int | None
    reads: int | None
    registers: int
    name: str
    place: int  # in the code
    at_most: tuple[int, int] | None = None  # DEPBAR: scoreboard, how many may still be under way
    other: float = 0.0  # clocks of the tensor cores, or of the fp64 lanes
    later: float = 0.0  # clocks until a result without a fixed latency is there
    sums: tuple[int, int] | None = None  # of a product: the first register of what it makes, and of what it adds to


@dataclass
class Played:
    """How long it took and what was busy, in clocks; of the busiest scheduler where there are several."""

    clocks: float
    busy: dict[str, float] = field(default_factory=dict)  # issue, fp32, tensor, fp64, shared, l1, l2


def play(trace: Trace, blocks: int, gpu: GpuSpec) -> Played:
    """The first ``blocks`` of a trace, resident together, from the launch until the last result is on its way."""
    streams = [stream.of(warp) for stream, warp in streams_of(trace, blocks, gpu)]
    return Multiprocessor(streams, trace.warps_per_block, gpu).run()


def streams_of(trace: Trace, blocks: int, gpu: GpuSpec) -> list[tuple[Stream, Sequence[Step]]]:
    """Every warp of the first ``blocks`` with its instructions as items. Most warps take the same path."""
    items = _items(trace, pipes_of(gpu), gpu)
    joined: dict[tuple[int, ...], Stream] = {}
    found: list[tuple[Stream, Sequence[Step]]] = []
    for warp in trace.warps[: blocks * trace.warps_per_block]:
        path = tuple([index for index, _ in warp])
        if path not in joined:
            joined[path] = _stream(path, items)
        found.append((joined[path], warp))
    return found


# -- instructions into items -------------------------------------------------------------------------------------------


def _items(trace: Trace, pipes: Pipes, gpu: GpuSpec) -> list[Item]:
    """Every instruction as an item of its own."""
    fp32 = WARP * gpu.schedulers / gpu.lanes_per_sm
    found = []
    for d, control, conflict in zip(trace.code, trace.control, trace.conflicts, strict=True):
        opcode = d.source.opcode
        moves = opcode.startswith(MOVES)
        unit = INTEGER if moves else UNITS.get(d.name, INTEGER)
        slots = pipes.multiply_slots if d.name == "IMAD" and not moves else 1
        other, later = _other(opcode, unit, pipes)
        stall = max(1, control.stall)
        at_most = None
        if d.name == "DEPBAR" and (match := re.search(r"SB(\d), (0x[0-9a-f]+)", d.text)):
            at_most = int(match[1]), int(match[2], 16)
        found.append(
            Item(
                unit, control.waits, slots,
                max((pipes.dot if d.name == "IDP" else fp32) + conflict, slots) if unit == FP32 else 0.0,
                pipes.integer if unit == INTEGER else 0.0,
                stall if stall < 3 else stall * pipes.dependence,
                control.sets, control.reads, max(1, d.source.width // 4), d.name, d.index, at_most,
                other, later, _sums(d) if unit == TENSOR else None,
            )
        )  # fmt: skip
    return found


def _other(opcode: str, unit: int, pipes: Pipes) -> tuple[float, float]:
    """Of an instruction for the tensor cores or in fp64: its clocks, and those until its result is there."""
    if unit == TENSOR:
        return pipes.products.clocks(opcode) or (0.0, 0.0)
    if unit == FP64:
        return pipes.fp64 * (THREE_OPERANDS if opcode.startswith("DFMA") else 1.0), pipes.fp64_latency
    return 0.0, pipes.special_latency


def _sums(d: Decoded) -> tuple[int, int] | None:
    registers = [it for it in d.operands if isinstance(it, MachineRegister) and it.file == "R"]
    if len(registers) < 3 or registers[0].number is None:
        return None
    last = registers[-1].number
    return registers[0].number, -1 if last is None or len(registers) < 4 else last


@dataclass(frozen=True)
class Stream:
    """The items of one path through the code, and where in it each begins."""

    items: Sequence[Item]
    places: Sequence[int]

    def of(self, warp: Sequence[Step]) -> list[tuple[Item, Traffic | None]]:
        """With the accesses of a warp that took this path."""
        return [(item, warp[place][1]) for item, place in zip(self.items, self.places, strict=True)]


def _stream(path: Sequence[int], items: Sequence[Item]) -> Stream:
    """The instructions of a path as items, with arithmetic that has nothing to wait for in between joined into runs."""
    found: list[Item] = []
    places: list[int] = []
    run: list[int] = []

    def close(end: int) -> None:
        if run:
            found.append(_joined([items[index] for index in run]))
            places.append(end - len(run))
            run.clear()

    for place, index in enumerate(path):
        item = items[index]
        plain = item.unit in (FP32, INTEGER) and item.sets is None and item.reads is None
        if run and (not plain or item.waits or len(run) == LONGEST_RUN):
            close(place)
        if not plain:
            found.append(item)
            places.append(place)
            continue
        run.append(index)
        if item.stall > 2:
            close(place + 1)
    close(len(path))
    return Stream(found, places)


def _joined(parts: Sequence[Item]) -> Item:
    first = parts[0]
    if len(parts) == 1:
        return first
    return first._replace(
        slots=sum(part.slots for part in parts),
        fp32=sum(part.fp32 for part in parts),
        integer=sum(part.integer for part in parts),
        stall=sum(part.stall for part in parts),
        place=parts[-1].place,
    )


# -- the multiprocessor ------------------------------------------------------------------------------------------------


class Multiprocessor:
    """Its schedulers and what they share. ``streams``: the items of each resident warp, in the order of blocks."""

    def __init__(
        self,
        streams: Sequence[Sequence[tuple[Item, Traffic | None]]],
        warps_per_block: int,
        gpu: GpuSpec,
    ) -> None:
        self.streams = streams
        self.warps_per_block = warps_per_block
        self.pipes = pipes_of(gpu)
        self.per_sector = SECTOR / (gpu.l2_bytes_per_s / gpu.sms / gpu.clock_hz)
        self.wavefront = LINE / gpu.bytes_per_clock  # clocks
        count, schedulers = len(streams), gpu.schedulers
        self.members = [range(s, count, schedulers) for s in range(schedulers)]
        self.position = [0] * count
        self.ready = [0.0] * count  # when the warp's next item can go, units aside
        self.unit = [OTHER] * count  # that this item goes to
        self.boards: list[list[list[float]]] = [[[] for _ in range(SCOREBOARDS)] for _ in range(count)]
        self.copies: list[float] = [0.0] * count  # when the last cp.async arrives
        self.units = [[0.0] * 7 for _ in range(schedulers)]  # free from
        self.products: list[dict[int, float]] = [{} for _ in range(count)]  # when the sums in a register are done
        self.issue = [0.0] * schedulers  # free from
        self.queues: list[deque[float]] = [deque() for _ in range(schedulers)]
        self.rank = list(range(1, count + 1))  # of the warps that can go, the one with the least does
        self.turns = count
        self.recent = [0] * schedulers
        self.load_store = 0.0  # free from
        self.port = 0.0
        self.stores = 0.0
        self.sectors: dict[int, float] = {}  # in L1, or on their way: from when
        self.waiting: dict[int, list[tuple[int, float]]] = {}  # block -> warps at its barrier
        self.end = 0.0
        self.issued = [0.0] * schedulers  # clocks in which it was busy
        self.multiplied = [0.0] * schedulers  # and its fp32 pipe
        self.others = {TENSOR: [0.0] * schedulers, FP64: [0.0] * schedulers}
        self.moved = {"shared": 0.0, "l1": 0.0, "l2": 0.0}

    def run(self) -> Played:
        """Play all streams to their ends."""
        for warp, stream in enumerate(self.streams):
            self.ready[warp] = self._ready(warp, 0.0) if stream else NEVER
        schedulers = range(len(self.members))
        following = [self._next(scheduler) for scheduler in schedulers]
        while True:
            time, scheduler, warp = min(following)
            if time == NEVER:
                break
            released = self._execute(time, scheduler, warp)
            for other in schedulers if released else (scheduler,):
                following[other] = self._next(other)
        end = max(self.end, self.stores, self.load_store, *(max(units[FP32], units[TENSOR]) for units in self.units))
        others = {"tensor": max(self.others[TENSOR]), "fp64": max(self.others[FP64])}
        busy = {"issue": max(self.issued), "fp32": max(self.multiplied), **self.moved}
        return Played(end, busy | {unit: clocks for unit, clocks in others.items() if clocks})

    def _next(self, scheduler: int) -> tuple[float, int, int]:
        """When this scheduler issues next, and of which warp. Only its own instructions and barriers change that."""
        free, units = self.issue[scheduler], self.units[scheduler]
        ready, unit, rank = self.ready, self.unit, self.rank
        best, chosen, least = NEVER, -1, 0
        for warp in self.members[scheduler]:
            time = ready[warp]
            if time <= best:
                other = units[unit[warp]]
                if other > time:
                    time = other
                if time < free:
                    time = free
                if time < best or (time == best < NEVER and rank[warp] < least):
                    best, chosen, least = time, warp, rank[warp]
        return best, scheduler, chosen

    def _had_its_turn(self, scheduler: int, warp: int) -> None:
        if self.pipes.fair:
            self.turns += 1
            self.rank[warp] = self.turns
        else:  # it goes on, then the others in their order
            recent = self.recent[scheduler]
            self.rank[recent] = recent + 1
            self.rank[warp] = 0
            self.recent[scheduler] = warp

    def _ready(self, warp: int, time: float) -> float:
        """When the warp's next item can go: after ``time`` and what it waits for. ``NEVER`` at the end."""
        stream, at = self.streams[warp], self.position[warp]
        if at >= len(stream):
            self.end = max(self.end, time)
            return NEVER
        item = stream[at][0]
        self.unit[warp] = item.unit
        if item.waits:
            boards = self.boards[warp]
            for number in item.waits:
                if boards[number]:
                    time = max(time, *boards[number])
                    boards[number].clear()
        if item.sums is not None:
            time = max(time, self.products[warp].get(item.sums[1], 0.0))
        if item.at_most:
            number, allowed = item.at_most
            under_way = sorted(self.boards[warp][number])
            if len(under_way) > allowed:
                time = max(time, under_way[len(under_way) - allowed - 1])
        return time

    def _execute(self, time: float, scheduler: int, warp: int) -> bool:
        """Issue the warp's next item. Did it release a barrier?"""
        at = self.position[warp]
        self.position[warp] = at + 1
        item, touch = self.streams[warp][at]
        unit = item.unit
        self._had_its_turn(scheduler, warp)
        if unit != MEMORY or not self.pipes.dual:
            self.issue[scheduler] = time + item.slots
        self.issued[scheduler] += item.slots
        after = time + item.stall
        if unit == MEMORY:
            self._access(item, touch, time, scheduler, warp)
        elif unit in (FP32, INTEGER):
            units = self.units[scheduler]
            if item.fp32:
                units[FP32] = max(units[FP32], time) + item.fp32
                self.multiplied[scheduler] += item.fp32
            if item.integer:
                units[INTEGER] = max(units[INTEGER], time) + item.integer
            if item.sets is not None:  # an arithmetic instruction without a fixed latency
                self.boards[warp][item.sets].append(time + item.later)
        elif unit in (TENSOR, FP64):
            self.units[scheduler][unit] = max(self.units[scheduler][unit], time) + item.other
            self.others[unit][scheduler] += item.other
            if item.sets is not None:
                self.boards[warp][item.sets].append(time + item.later)
            elif item.sums is not None:
                self.products[warp][item.sums[0]] = time + item.later
        elif unit == SPECIAL:
            self.units[scheduler][SPECIAL] = time + self.pipes.special
            if item.sets is not None:
                self.boards[warp][item.sets].append(time + self.pipes.special_latency)
        elif item.name == "BAR":
            return self._arrive(warp, time, after)
        elif item.name == "BRA":
            stream = self.streams[warp]
            if at + 1 < len(stream) and stream[at + 1][0].place < item.place:
                after = max(after, time + self.pipes.branch)
        elif item.name == "LDGDEPBAR":
            self.boards[warp][item.sets or 0].append(self.copies[warp])
        self.ready[warp] = self._ready(warp, after)
        return False

    def _arrive(self, warp: int, time: float, after: float) -> bool:
        block = warp // self.warps_per_block
        there = self.waiting.setdefault(block, [])
        there.append((warp, after))
        self.ready[warp] = NEVER
        if len(there) < self.warps_per_block:
            return False
        release = time + self.pipes.barrier + self.pipes.barrier_warp * self.warps_per_block
        del self.waiting[block]
        for other, earliest in there:
            self.ready[other] = self._ready(other, max(release, earliest))
        return True

    def _access(self, item: Item, touch: Traffic | None, time: float, scheduler: int, warp: int) -> None:
        pipes, units = self.pipes, self.units[scheduler]
        start = max(self.load_store, time)
        if touch is not None and item.name not in PRIVATE:
            if touch.space == "shared":
                again = 1.0 if item.name in MATRICES else pipes.replay
                clocks = (touch.ideal + (touch.passes - touch.ideal) * again) * self.wavefront
                self.moved["shared"] += clocks
                self.load_store = through = start + clocks
                done = through + pipes.shared
                if touch.load:
                    for unit in (FP32, TENSOR, FP64):
                        units[unit] = max(units[unit], time) + pipes.write_port * item.registers
                    done = done + item.registers - 1
            else:
                clocks = max(touch.passes * self.wavefront, pipes.request)
                if touch.written:
                    written = touch.written * self.wavefront
                    written = written * pipes.arrival if touch.past else written + pipes.request
                    clocks = max(clocks, written)
                self.moved["l1"] += clocks
                self.load_store = start + clocks
                done = self._fetched(touch, start) + (pipes.texture if item.name in FETCHES else 0.0)
        elif item.name == "LDC":
            start = time
            done = time + pipes.constant
        elif item.name in ("LDL", "STL"):  # local memory lies in L1, a line for each register of the warp
            self.load_store = start + max(float(item.registers), pipes.request)
            self.moved["l1"] += self.load_store - start
            done = self.load_store + pipes.l1
        else:  # a shuffle, or all lanes switched off
            self.load_store = start + 1
            done = start + pipes.shared
        queue = self.queues[scheduler]
        queue.append(start)
        units[MEMORY] = max(time + 1, queue.popleft()) if len(queue) > pipes.queue else time + 1
        if item.name == "LDGSTS":
            self.copies[warp] = max(self.copies[warp], done)
        if item.sets is not None:
            self.boards[warp][item.sets].append(done)
        if item.reads is not None:
            self.boards[warp][item.reads].append(start + pipes.read)

    def _fetched(self, touch: Traffic, start: float) -> float:
        """When an access to global memory that began at ``start`` is complete."""
        done, per_sector = self.load_store + self.pipes.l1, self.per_sector
        if not touch.load:
            taken = self.pipes.store * per_sector * len(touch.sectors)
            self.stores = max(self.stores, start) + taken
            self.moved["l2"] += taken
            return done
        fetched = 0
        taken = per_sector
        if touch.past:  # L2 is asked once for each wavefront that is written
            taken *= self.pipes.past * max(1.0, touch.written * SECTORS / len(touch.sectors))
        for sector in touch.sectors:
            there = None if touch.past else self.sectors.get(sector)
            if there is None:
                fetched += 1
                self.port = max(self.port, start) + taken
                self.moved["l2"] += taken
                there = self.sectors[sector] = self.port + self.pipes.l2
            if there > done:
                done = there
        if fetched and not touch.past:
            written = fetched * self.wavefront / SECTORS
            self.load_store += written
            self.moved["l1"] += written
        return done
