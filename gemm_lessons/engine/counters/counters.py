"""Observer that counts a launch and fills ``records.results.Counters``, under Nsight Compute's names.

The counts are taken from the kernel's machine code (``sass``), because the profiler counts machine code. If it
cannot be followed, they are taken from the PTX machine's events, and every total is marked as inexact.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gemm_lessons.engine import sass
from gemm_lessons.engine.costs import banks
from gemm_lessons.engine.costs.tally import BYPASS, Shot, Sums, Tally, shot
from gemm_lessons.engine.counters.cross_check import Account, is_fused
from gemm_lessons.engine.counters.overlap import POLLED, AsyncCounts
from gemm_lessons.engine.events import (
    CLUSTER,
    WARP,
    Access,
    Barrier,
    Batch,
    Boundary,
    LaunchInfo,
    Observer,
    Phase,
    Placed,
    Record,
    SharedArray,
    Touch,
)
from gemm_lessons.engine.machine.memory import GlobalMemory
from gemm_lessons.engine.ptx import cfg, synchronising_accesses
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.errors import KitError, UnsupportedKernel
from gemm_lessons.engine.records.launch import Grid
from gemm_lessons.engine.records.metrics import COUNTED, METRICS, ON_PTX, ON_REQUEST
from gemm_lessons.engine.records.results import Conflict, Counters, LineCount
from gemm_lessons.engine.sass.memory_contents import Unfollowed
from gemm_lessons.engine.sass.useful_work import OPERATIONS

if TYPE_CHECKING:
    from gemm_lessons.engine.compiler.compile import Compiled

KEY = "counters"
FILLED = 3 * 132 * 2048  # threads: three times as many as an H200 holds at once
VECTOR = 16  # bytes per lane of a 128-bit access
MOST_UNCOUNTED = 4096  # distinct touches kept in case the machine code cannot be followed to its end
BOTH_SIDES = "cp.async with bank conflicts where it reads and where it writes: their order is not known"
ZEROS = "cp.async that writes zeros and ignores its source, in a form that has hardly been read: 2 of 41,064 too many"
TILES = "wgmma: the wavefronts of the tiles that it reads are counted as without bank conflicts"
SLOW_DIVISION = "a division takes its slow path, and which one depends on sums of tensor cores or what ldmatrix moves"
UNKNOWN_GUARD = "sums of tensor cores decide which threads execute"
SEVERAL_FLOATS = "an H200 counted 1.3% more sectors than atomics of several floats touch"
# Counter -> the machine instructions that it counts.
UNITS = {
    "fp64_instructions": ("DFMA", "DADD", "DMUL", "DSETP"),
    "dot_products": ("IDP",),
    "hmma": ("HMMA", "HFMA2.MMA", "HGMMA", "QGMMA"),
    "imma": ("IMMA", "IGMMA"),
    "dmma": ("DMMA",),
    "ldmatrix": ("LDSM",),
    "stmatrix": ("STSM",),
    "async_copies": ("LDGSTS",),
    "global_reductions": ("RED", "REDG"),
}
# Limit of basic blocks of machine code: a minimum, and blocks per warp instruction on PTX, far more than divisions
# take.
LEAST_BLOCKS, BLOCKS_PER_INSTRUCTION = 20_000, 4
WAITING = "threads wait for each other in a loop, and how often they look depends on time"
NSIGHT = tuple(name for name in METRICS.values() if not name.startswith("simulator__"))
# Counters that are counted on PTX if machine code cannot be followed. The others are then absent.
BY_PTX = frozenset((
    "shared_wavefronts", "shared_wavefronts_ideal", "shared_load_instructions", "shared_store_instructions",
    "shared_load_bytes", "shared_store_bytes", "shared_instructions_128", "shared_accesses", "shared_bytes_read",
    "shared_bytes_written", "global_load_instructions", "global_store_instructions", "global_load_requests",
    "global_store_requests", "global_load_sectors", "global_store_sectors", "global_load_bytes", "global_store_bytes",
    "global_instructions_128", "global_accesses", "global_bytes_read", "global_bytes_written", "global_sectors_read",
    "global_sectors_written", "warp_instructions", "ffma", "multicast_sectors", *ON_PTX,
))  # fmt: skip
TEXELS = ("global_accesses", "global_bytes_read", "global_sectors_read")  # include fetches from textures
PARTLY = ("barriers",)  # absent where mbarriers do part of the work
WRITES = ("store", "atomic")


class CounterObserver(Observer):
    """Counts one launch."""

    def __init__(self, compiled: Compiled) -> None:
        self.code = sass.prepare(compiled)
        self.opcodes: Counter[str] = Counter()
        self.barriers = 0
        self.blocks = 0
        self._sums = Sums()  # counted on PTX
        self._seen: Counter[Touch] = Counter()  # not yet in _sums
        self._recent: Counter[Touch] = Counter()  # of this batch, not yet in _seen
        self.interpreted = Account()  # this and the next two are for the second opinion
        self.followed: Account | None = None
        self.lanes: Array = np.zeros(0, np.int64)  # threads that executed each instruction
        self._ffma: list[int] = []
        self.launch: LaunchInfo | None = None
        self._phases = AsyncCounts(None)
        self._others: OtherWriters | None = None  # needed where addresses or branches depend on memory contents
        self._barriers = 0  # of this batch: barriers of all threads
        self._waits: Array | None = None  # by lane: barriers of only some threads
        self._compiled = compiled

    def begin(self, launch: LaunchInfo) -> None:
        """Set up for a launch. See ``events.Observer``, also for the three methods below."""
        self.launch = launch
        self.interpreted.by_warps, self.interpreted.window = launch.kernel.by_warps, launch.shared_bytes
        if synchronising_accesses.spins_on_memory(launch.kernel):
            self.code = dataclasses.replace(self.code, plan=None, obstacle=WAITING)
        self._phases = AsyncCounts(launch)
        plan = self.code.plan
        if plan is not None and (plan.moved or ("shared" in plan.spaces and launch.grid.cluster is not None)):
            self._others = OtherWriters(launch, self.code.shared_origin)
        self.lanes, self._warps = (np.zeros(len(launch.kernel.instructions), np.int64) for _ in range(2))
        self._ffma = [i.index for i in launch.kernel.instructions if is_fused(i)]
        self._bar = [i.index for i in cfg.acting(launch.kernel) if cfg.is_barrier(i)]

    def begin_batch(self, batch: Batch) -> None:
        """Start a new set of blocks."""
        self._barriers, self._waits = 0, None
        self._phases.begin_batch()

    def epoch(self, batch: Batch, records: Sequence[Record], boundary: Boundary) -> None:
        """Count barriers. Without machine code, also count each distinct touch, analysed once and multiplied."""
        self._barriers += boundary == "barrier"
        for record in records:
            if type(record) is Barrier and record.kind != "warp":
                self._wait(batch, record)
            elif type(record) is Phase and record.kind == "wait" and (record.offsets == CLUSTER).any():
                self._meet(batch, record)
        if self._phases.anything:
            self._phases.follow(records, boundary)
        if self._others is not None:
            self._others.follow(records)
        self._recent.update(record for record in records if type(record) is Touch and record.access.is_counted)
        if len(self._recent) > MOST_UNCOUNTED:
            self._settle(batch)

    def _wait(self, batch: Batch, barrier: Barrier) -> None:
        """Count a barrier of some threads: of whole blocks, of a named barrier, or an arrival only."""
        if self._waits is None:
            self._waits = np.zeros(batch.blocks * batch.padded_threads, np.int64)
        if barrier.lanes is not None:
            self._waits += barrier.lanes[: len(self._waits)]
        elif barrier.blocks is not None:
            self._waits += np.repeat(barrier.blocks, batch.padded_threads)[: len(self._waits)]

    def _meet(self, batch: Batch, mark: Phase) -> None:
        """Count the barrier of a cluster, at which the threads of a block meet, too."""
        lanes = np.zeros(batch.blocks * batch.padded_threads, np.bool_)
        lanes[mark.lanes[mark.offsets == CLUSTER]] = True
        self._wait(batch, Barrier("block", lanes=lanes))

    def _settle(self, batch: Batch) -> None:
        self.interpreted.add(self._recent, batch)
        self._seen.update(self._recent)
        self._recent.clear()
        if self.code.plan is None or len(self._seen) > MOST_UNCOUNTED:
            self._count()

    def _count(self) -> None:
        """Add the touches seen on PTX to the sums.

        They are needed if the machine code cannot be followed, which may be known only at its end.
        """
        for touch, times in self._seen.items():
            access = touch.access
            if access.space not in ("shared", "global"):
                continue
            active = touch.of_own_block(self.interpreted.window)
            one: Shot | None = touch.memo.get(KEY)
            if one is None:
                one = touch.memo[KEY] = shot(access, touch.addresses, active)
            tally = self._sums.tallies.setdefault((access.index, access.space), Tally(access))
            tally.add(one, times, touch.addresses, active)
            tally.executed += one.warps * times
        self._seen.clear()

    def end_batch(self, batch: Batch, executions: Array, lane_executions: Array) -> None:
        """Add the batch's executions and barriers."""
        self._warps += executions
        self._settle(batch)
        self.lanes += lane_executions
        self.barriers = max(self.barriers, self._barriers + (int(self._waits.max()) if self._waits is not None else 0))
        self.blocks += batch.blocks

    def result(
        self, memory: Callable[[], GlobalMemory], blocks: Sequence[range] | None = None, slow_division: bool = False
    ) -> Counters:
        """Return the counters of a launch without a fault, or of those of its ``blocks`` that ran. ``memory`` returns
        global memory before the launch. ``slow_division``: a division of float32 took its slow path."""
        assert self.launch is not None
        self.opcodes = Counter()
        for instruction, warps in zip(self.launch.kernel.instructions, self._warps.tolist(), strict=True):
            if warps:
                self.opcodes[instruction.full_opcode] += warps
        self.interpreted.arrivals = int(self.lanes[self._bar].sum())
        self._sums.ffma = self.interpreted.fused = int(self.lanes[self._ffma].sum())
        sums, inexact = self._sums, self.code.obstacle
        obstacle = self._phases.obstacle or (SLOW_DIVISION if self.code.all_fast and slow_division else "")
        if obstacle:
            self.code = dataclasses.replace(self.code, plan=None, obstacle=obstacle)
            self._count()
            inexact = self.code.obstacle
        if self.code.plan is not None:
            try:
                others = self._others.result() if self._others is not None else None
                sums = sass.count(self.code, self.launch, memory, blocks, budget=self._budget(), unfollowed=others)
                if sums.unknown_guards:
                    sums.ffma = self.interpreted.fused
                self.followed = Account.followed(sums)
            except sass.Uncountable as reason:
                self._count()
                inexact = str(reason)
        if sums is self._sums:  # machine code cannot be followed, or not to its end
            sums.issued = self.opcodes
        marks = dict.fromkeys(NSIGHT, f"counted on PTX: {inexact}") if inexact else {}
        if sums.unknown_guards:
            marks.setdefault(METRICS["ffma"], f"counted on PTX: {UNKNOWN_GUARD} {sums.unknown_guards}")
        if not all(tally.certain for tally in sums.tallies.values()):
            marks.setdefault(METRICS["shared_wavefronts"], BOTH_SIDES)
        if any(tally.zeros for tally in sums.tallies.values()):
            marks.setdefault(METRICS["shared_wavefronts"], ZEROS)
        if sums.tile_wavefronts:
            marks.setdefault(METRICS["shared_wavefronts"], TILES)
        if any("F32x" in tally.access.text for tally in sums.tallies.values()):
            marks.setdefault(COUNTED["global_reduction_sectors"], SEVERAL_FLOATS)
        if self._phases.polls:
            for short in POLLED:
                marks.setdefault(METRICS[short], self._phases.polls)
        absent, every = self._absent(sums), self._totals(sums)
        partly = {COUNTED[short] for short in PARTLY} & absent if sums is not self._sums else set()
        return Counters(
            totals={name: value for name, value in every.items() if name not in absent},
            lines=lines(sums),
            conflicts=conflicts(sums, self.launch.shared_arrays),
            opcodes=dict(self.opcodes.most_common()),
            inexact={name: why for name, why in marks.items() if name not in absent},
            uncounted=self._phases.uncounted,
            at_least={name: value for name, value in every.items() if name in partly},
            obstacle=self._placed(inexact) if inexact else "",
        )

    def _absent(self, sums: Sums) -> set[str]:
        """Return the metrics without a value: a metric that was not counted is absent, not 0."""
        assert self.launch is not None
        shorts = {*ON_REQUEST, *(short for short in PARTLY if short in self._phases.uncounted)}
        if sums is self._sums:
            shorts |= COUNTED.keys() - BY_PTX
            if any(instruction.opcode in ("tex", "tld4") for instruction in self.launch.kernel.instructions):
                shorts.update(TEXELS)
        return {COUNTED[short] for short in shorts}

    def _placed(self, obstacle: str) -> str:
        """Add the line of the machine instruction that the obstacle names."""
        try:
            line = next((it.line for it in self._compiled.sass if it.line and it.text in obstacle), None)
        except (KitError, UnsupportedKernel):  # no disassembler, or one that does not know the architecture
            line = None
        return obstacle if line is None else f"{obstacle}, line {line}"

    def _budget(self) -> int:
        """Return the limit of basic blocks: far more than on PTX mean that machine code follows an endless path."""
        return LEAST_BLOCKS + BLOCKS_PER_INSTRUCTION * sum(self.opcodes.values())

    def _totals(self, sums: Sums) -> dict[str, int]:
        assert self.launch is not None
        result = totals(sums)
        grid = self.launch.grid
        threads = grid.threads * blocks_to_share(sums, grid)
        result[COUNTED["thread_instructions_if_equal"]] = int(sums.longest * threads)
        result[COUNTED["products_if_equal"]] = int(sums.most_products * threads)
        result[COUNTED["useful_operations_if_equal"]] = int(sums.most_operations * threads)
        for short, value in self._phases.totals.items():
            result[COUNTED[short]] += value
        result[METRICS["barriers"]] = self.barriers
        result[METRICS["blocks"]] = self.blocks
        result[METRICS["instructions"]] = sum(self.opcodes.values())
        return result


def blocks_to_share(sums: Sums, grid: Grid) -> float:
    """Return the blocks of which each should do as much as the busiest one: all of them. If those that multiply fill a
    GPU several times, blocks that end at once are not missed, and the shares of those need only be as equal as whole
    tiles allow: of 1,100 tiles for 1,024 blocks, some have two."""
    blocks, fewest = sums.working_blocks, sums.fewest_products
    if grid.threads * blocks < FILLED:
        return grid.blocks
    tiles = sums.busiest_products / (blocks * fewest)  # of a block on average
    return blocks * tiles / math.ceil(tiles)


def totals(sums: Sums) -> dict[str, int]:
    """Return the sums of a launch by Nsight's names."""
    result = dict.fromkeys(COUNTED.values(), 0)
    for tally in sums.tallies.values():
        access = tally.access
        direction = _direction(access)
        if access.space not in ("texture", "remote"):
            result[METRICS[f"{access.space}_{direction}_bytes"]] += tally.lanes * access.width
        if access.width == VECTOR and _is_plain(access):
            result[METRICS[f"{access.space}_instructions_128"]] += tally.executed
        for short, value in _of_all_kinds(tally):
            result[COUNTED[short]] += value
        for short, value, ideal in _counted(tally):
            result[COUNTED[short]] += value
            if short == "shared_wavefronts":
                result[METRICS["shared_wavefronts_ideal"]] += ideal
    result[COUNTED["thread_instructions"]] += sums.executed
    result[COUNTED["textures_of_a_warp"]] = max(Counter(warp for warp, _ in sums.textures).values(), default=0)
    result[METRICS["ffma"]] += sums.ffma
    result[COUNTED["dfma"]] += sums.dfma
    result[COUNTED["reuse_flags"]] += sums.reuse_flags
    result[COUNTED["register_bank_conflicts"]] += sums.register_conflicts
    result[COUNTED["tensor_products"]] += sums.tensor_products
    for short in ("shared_wavefronts", "shared_wavefronts_ideal"):
        result[METRICS[short]] += sums.tile_wavefronts
    for short, names in UNITS.items():
        result[COUNTED[short]] += sum(sums.issued[name] for name in names)
    result[METRICS["warp_instructions"]] += sums.issued.total()
    result[COUNTED["shuffles"]] += sums.issued["SHFL"]
    result[COUNTED["exchanges"]] += sums.exchanges
    result[COUNTED["products"]] += sums.products
    result[COUNTED["useful_operations"]] += sums.useful_operations
    result[COUNTED["global_bytes_waited_for"]] += sums.waited_for
    result[COUNTED["copy_groups"]] += sums.copy_groups
    result[COUNTED["copy_groups_span"]] += sums.copy_groups_span
    result[COUNTED["operations"]] += sum(WARP * each * sums.issued[name] for name, each in OPERATIONS.items())
    return result


def lines(sums: Sums) -> tuple[LineCount, ...]:
    """Return the wavefronts, sectors, requests and instructions of each source line, with their ideal values."""
    found: dict[tuple[str, int, str], list[int]] = {}
    for tally in sums.tallies.values():
        if tally.access.line is None:
            continue
        for short, value, ideal in _counted(tally):
            entry = found.setdefault((tally.access.file, tally.access.line, COUNTED[short]), [0, 0])
            entry[0] += value
            entry[1] += ideal
    return tuple(
        LineCount(line, metric, value, ideal, file) for (file, line, metric), (value, ideal) in sorted(found.items())
    )


def _counted(tally: Tally) -> list[tuple[str, int, int]]:
    """Return (short name, value, ideal) of every counter of Nsight Compute that an instruction adds to.

    Measured on an H200: the instruction counters count loads and stores proper, even if every lane is predicated off.
    They leave out cp.async, ldmatrix and atomics. The global side of a cp.async counts as load requests and sectors;
    global atomics count as neither. All of them cost wavefronts of shared memory.
    """
    access, direction = tally.access, _direction(tally.access)
    found: list[tuple[str, int, int]] = []
    if access.space == "shared":
        # A warp takes a wavefront for a cp.async past L1 that no lane of it executes.
        idle = max(0, tally.executed - tally.warps) if BYPASS in access.text else 0
        found.append(("shared_wavefronts", tally.cost + idle, tally.ideal + idle))
    elif access.space == "texture":
        found.append(("texture_requests", tally.requests, tally.requests))
        found.append(("texture_sectors", tally.cost, tally.ideal))
    elif access.space == "remote":
        found.append((f"remote_{access.effect}_requests", tally.warps, tally.warps))
        found.append((f"remote_{access.effect}_sectors", tally.cost, tally.ideal))
    elif access.effect != "atomic":
        found.append((f"global_{direction}_requests", tally.warps, tally.warps))
        found.append((f"global_{direction}_sectors", tally.cost, tally.ideal))
    if _is_plain(access):
        found.append((f"{access.space}_{direction}_instructions", tally.executed, tally.executed))
    return found


def _of_all_kinds(tally: Tally) -> Iterator[tuple[str, int]]:
    """Yield what an instruction adds to the sums over every kind of access."""
    access = tally.access
    space, moved = access.space, tally.lanes * access.width
    if space == "texture":  # texture fetches read global memory
        space = "global"
        yield "texture_bytes", moved
    if space not in ("shared", "global"):
        return
    if space == "global" and access.text.startswith("RED"):
        yield "global_reduction_sectors", tally.cost
    if space == "shared":
        yield "copy_source_wavefronts", tally.of_source
    # Instructions that ptxas adds for timing (every lane predicated off) are left out.
    yield f"{space}_accesses", tally.warps
    reads = access.effect in ("load", "atomic") or (access.effect, space) == ("copy", "global")
    writes = access.effect in ("store", "atomic") or (access.effect, space) == ("copy", "shared")
    for direction in ("read",) * reads + ("written",) * writes:
        yield f"{space}_bytes_{direction}", moved
        if space == "global":
            yield f"global_sectors_{direction}", tally.cost


def _is_plain(access: Access) -> bool:
    """Return whether Nsight Compute counts the access among load and store instructions."""
    if access.space in ("texture", "remote"):
        return False
    return access.effect in ("load", "store") and not access.is_matrix and not access.text.startswith(("LD.", "ST."))


def _direction(access: Access) -> str:
    loads = access.effect == "load" or (access.effect == "copy" and access.space == "global")
    return "load" if loads else "store"


def conflicts(sums: Sums, arrays: Sequence[SharedArray]) -> tuple[Conflict, ...]:
    """Return the worst bank conflict of each source line and direction, most wasted wavefronts first."""
    grouped: dict[tuple[str, int, bool], list[Tally]] = {}
    for tally in sums.tallies.values():
        if tally.worst is not None and tally.access.line is not None:
            key = (tally.access.file, tally.access.line, tally.access.effect != "load")
            grouped.setdefault(key, []).append(tally)
    found = [_conflict(line, store, file, tallies, arrays) for (file, line, store), tallies in grouped.items()]
    return tuple(sorted(found, key=lambda conflict: -conflict.excess_wavefronts))


def _conflict(line: int, store: bool, file: str, tallies: list[Tally], arrays: Sequence[SharedArray]) -> Conflict:
    tally = max(tallies, key=lambda one: one.worst_excess)
    assert tally.worst is not None
    addresses, active = tally.worst
    example = banks.collision(addresses, active, tally.access.width)
    first = example.addresses[0]
    return Conflict(
        line=line,
        store=store,
        width=tally.access.width,
        ways=len(example.lanes),
        bank=example.bank,
        lanes=example.lanes,
        addresses=example.addresses,
        excess_wavefronts=sum(one.cost - one.ideal for one in tallies),
        array=next((plain_name(a.name) for a in arrays if a.offset <= first < a.offset + a.size), ""),
        file=file,
    )


def plain_name(mangled: str) -> str:
    """Return a shared array's source name: ``_ZZ4tileILi8EEvPKfE2As`` -> ``As``. Unmangled names are unchanged."""
    match = re.search(r"E(\d+)(\w+?)(?:_\d+)?$", mangled) if mangled.startswith("_Z") else None
    return match[2][: int(match[1])] if match else mangled


class OtherWriters:
    """Collects the bytes over a launch. ``origin``: first address of a block's shared memory in machine code."""

    def __init__(self, launch: LaunchInfo, origin: int) -> None:
        self._window = -(-max(launch.shared_bytes, 16) // 16) * 16  # as ``state.State`` places the blocks of a cluster
        self._origin = origin
        self._shared = np.zeros(origin + self._window, np.bool_)
        self._ranges: dict[int, tuple[int, int]] = {}  # by instruction
        self._seen: set[Touch] = set()

    def follow(self, records: Sequence[Record]) -> None:
        """Collect from the records of an epoch."""
        for record in records:
            if type(record) is Touch and record.access.space == "shared" and record not in self._seen:
                self._seen.add(record)
                self._inside(record.access, record.addresses[record.active_lanes])
            elif type(record) is Placed and record.touch.access.is_bulk and record.touch.access.effect in WRITES:
                self._outside(record.touch.access, record.touch.addresses[record.touch.active_lanes] + record.base)

    def _inside(self, access: Access, where: Array) -> None:
        special = access.is_bulk or access.is_mbarrier or access.is_matrix
        if access.effect == "load" or not (special or access.effect in WRITES):
            return
        if not special:
            where = where[(where < 0) | (where >= self._window)]
        for first in np.unique(where % self._window).tolist():
            self._shared[self._origin + first : self._origin + first + access.width] = True

    def _outside(self, access: Access, where: Array) -> None:
        if where.size:
            first, end = int(where.min()), int(where.max()) + access.width
            known = self._ranges.get(access.index, (first, end))
            self._ranges[access.index] = min(first, known[0]), max(end, known[1])

    def result(self) -> Unfollowed:
        """Return all of them."""
        return Unfollowed(self._shared, tuple(self._ranges.values()))
