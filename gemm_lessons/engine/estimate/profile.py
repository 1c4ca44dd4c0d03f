"""A kernel's launch traced at two depths K, from which its work and its clocks at any K follow: ``LoopProfile``.

The work of a block is linear in K after its main loop has started. Two short traces are therefore enough: one block's
work, and the time of one multiprocessor for several resident blocks, are extrapolated from both.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, field, fields, replace
from functools import cached_property
from typing import Any

from gemm_lessons.engine.compiler import cache as compile_cache
from gemm_lessons.engine.compiler.compile import Compiled
from gemm_lessons.engine.compiler.elf import without_file_names
from gemm_lessons.engine.costs import SECTOR
from gemm_lessons.engine.estimate.causes import Cause, LineShare, Replayed, lines_of, shares
from gemm_lessons.engine.estimate.chip import HEATING
from gemm_lessons.engine.estimate.items import grouped_columns
from gemm_lessons.engine.estimate.recording import record
from gemm_lessons.engine.estimate.timeline import Played, play, play_apart, uneven
from gemm_lessons.engine.hardware.sheets import GpuSpec, pipes_of
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.launch import Argument, Grid
from gemm_lessons.engine.sass.operands import Uncountable
from gemm_lessons.engine.sass.trace import Trace, Traceable, Traffic, blocks_of_cluster, traceable
from gemm_lessons.engine.simulator import Simulator

MODEL = 49  # version of the timeline; a new number invalidates the cache on disk
TILES = 8  # K tiles of the shorter trace of a kernel with cp.async, so that its pipeline is full
DEEPEST = 256  # K of the shorter trace of blocks that are played apart: they have as many tiles, which must fit
GPC = 16  # multiprocessors that get a box together, to which a launch gives consecutive blocks: flights_h200.json

Traces = tuple[tuple[int, Trace], tuple[int, Trace]]  # (K, trace), shorter first


@dataclass(frozen=True)
class TracedKernel:
    """A kernel to trace: its machine code. Its PTX is parsed only when there is no trace yet."""

    compiled: Compiled

    def has(self, *opcodes: str) -> bool:
        """Tell whether the machine code has an instruction with one of these opcodes."""
        return any(it.opcode.startswith(opcodes) for it in self.compiled.sass)

    def cluster(self, grid: Grid) -> int:
        """Return the blocks of a cluster of a launch."""
        return blocks_of_cluster(self.compiled, lambda: Simulator().kernel(self.compiled), grid)

    def trace(self, grid: Grid, arguments: Sequence[Argument], blocks: int, *, only_boxes: bool = False) -> Trace:
        """Trace the first ``blocks`` of a launch. Raise ``Uncountable`` if the machine code cannot be followed."""
        return self._followed.trace(grid, arguments, blocks, only_boxes=only_boxes)

    @cached_property
    def _followed(self) -> Traceable:
        return traceable(self.compiled, Simulator().kernel(self.compiled))

    def key(self, *launch: str) -> str:
        """Return the name of a launch's profile in the cache on disk."""
        code, _ = without_file_names(self.compiled.cubin)
        return compile_cache.key_of(f"gemm-lessons/traced/{MODEL}", *code, self.compiled.entry, *launch)


@dataclass(frozen=True)
class Work:
    """Memory requests of one thread block, on average."""

    shared_wavefronts: float
    global_lines: float  # 128-byte lines of its global requests, counted per request
    global_bytes: float  # sectors x 32, loads and stores
    products: float = 0.0  # instructions of the tensor cores, except fp64 ones
    grouped: float = 0.0  # columns of the asynchronous products of its warpgroups
    again: float = 0.0  # bytes that it read before an earlier barrier; counted for a launch without tiles only

    @classmethod
    def of(cls, trace: Trace, *, tiled: bool = True) -> Work:
        """Return one block's share of a trace."""
        some = [touch for warp in trace.warps for _, touch in warp if touch is not None]
        touches = [touch for touch in some if isinstance(touch, Traffic)]
        blocks = len(trace.warps) / trace.warps_per_block
        products = {d.index for d in trace.code if d.name in HEATING}
        return cls(
            sum(touch.passes for touch in touches if touch.space == "shared") / blocks,
            sum(touch.passes for touch in touches if touch.space == "global") / blocks,
            sum(touch.delivered * SECTOR for touch in touches) / blocks,
            sum(index in products for warp in trace.warps for index, _ in warp) / blocks if products else 0.0,
            grouped_columns(trace),
            0.0 if tiled else _read_again(trace) * SECTOR / blocks,
        )

    def toward(self, other: Work, distance: float) -> Work:
        """Extrapolate linearly from this work (distance 0) to ``other`` (1) and beyond; never below zero."""
        pairs = ((getattr(self, field.name), getattr(other, field.name)) for field in fields(self))
        return Work(*(max(here + distance * (there - here), 0.0) for here, there in pairs))


def _read_again(trace: Trace) -> int:
    """Return the sectors that blocks read after one barrier and again after a later one; L1 serves them in between."""
    parts: dict[tuple[int, int], set[int]] = {}  # by block, and number of barriers passed
    for number, warp in enumerate(trace.warps):
        block, passed = number // trace.warps_per_block, 0
        for index, touch in warp:
            passed += trace.code[index].name == "BAR"
            if isinstance(touch, Traffic) and touch.space == "global" and touch.load:
                parts.setdefault((block, passed), set()).update(touch.sectors)
    once: dict[int, set[int]] = {}
    for (block, _), sectors in parts.items():
        once.setdefault(block, set()).update(sectors)
    return sum(map(len, parts.values())) - sum(map(len, once.values()))


@dataclass(frozen=True)
class CopiedBoxes:
    """Bytes per k that blocks copy by TMA while all compute their first tile. ``distinct``: if blocks share every box;
    ``apart``: if they share only the boxes of one tensor map, that with most blocks per box. ``each``, ``at_once``,
    ``ever``: the share of what multiprocessors get that L2 is asked for if each box is, and if a GPC asks once for what
    its blocks copy at the same time, and at any time."""

    distinct: float
    apart: float
    each: float
    at_once: float
    ever: float

    def asked(self, *, in_step: bool) -> float:
        """Return the share that L2 is asked for. A GPC has half of what its blocks do not copy at the same time; blocks
        that are not in step copy nothing at the same time."""
        return ((self.at_once if in_step else self.each) + self.ever) / 2

    @classmethod
    def of(cls, trace: Trace, k: int, tiles: int) -> CopiedBoxes | None:
        """Return the bytes in a trace of one K tile (``k``) of blocks with ``tiles`` tiles; None if it has no boxes."""
        count = len(trace.warps) // trace.warps_per_block
        asked: dict[int, float] = {}  # bytes, by tensor map
        distinct: dict[int, dict[tuple[int, ...], float]] = {}
        ever: dict[tuple[int, ...], float] = {}  # by GPC
        at_once: dict[tuple[int, ...], float] = {}  # and by place in its block's order
        delivered = 0.0
        for number, warp in enumerate(trace.warps):
            block = number // trace.warps_per_block
            turns = max(1, -(-(tiles - block) // count))
            boxes = [it for _, it in warp if isinstance(it, Traffic) and it.box and it.load]
            for place, box in enumerate(boxes[: -(-len(boxes) // turns)]):
                delivered += box.delivered * SECTOR / k
                if box.zeros:
                    continue
                size = len(box.sectors) * SECTOR / k
                asked[box.which[0]] = asked.get(box.which[0], 0.0) + size
                distinct.setdefault(box.which[0], {})[box.which] = size
                ever[block // GPC, *box.which] = at_once[block // GPC, place, *box.which] = size
        if not asked:
            return None
        once = {name: sum(sizes.values()) for name, sizes in distinct.items()}
        shared = max(asked, key=lambda name: asked[name] / once[name])
        shares = (sum(sizes.values()) / delivered for sizes in (asked, at_once, ever))
        return cls(sum(once.values()), sum(asked.values()) - asked[shared] + once[shared], *shares)


@dataclass(frozen=True)
class Span:
    """Clocks of a multiprocessor for its resident blocks: ``fixed + per_k * K``; ``units``: those of each busy unit."""

    fixed: float
    per_k: float
    units: Mapping[str, tuple[float, float]]

    def clocks(self, k: int) -> float:
        """Return the clocks at K = k."""
        return max(self.fixed + self.per_k * k, 1.0)

    def working(self, k: int) -> dict[str, float]:
        """Return the clocks in which each unit is busy, at K = k."""
        return {unit: max(fixed + per_k * k, 0.0) for unit, (fixed, per_k) in self.units.items()}

    @property
    def busy(self) -> dict[str, float]:
        """Return the busy fraction of each unit in the main loop."""
        return {unit: per_k / self.per_k for unit, (_, per_k) in self.units.items()}


@dataclass(frozen=True, eq=False)
class LoopProfile:
    """A launch and its traces, which are made on demand and memoised together with what follows from them.

    ``blocks_per_sm``: resident blocks, from the occupancy; ``cluster``: blocks of a cluster. ``tile_depth``: K of a
    tile that blocks load and wait for, 0 where they copy tiles ahead, and ``deeper``: traces of at least ``TILES`` such
    tiles, if the others have fewer; ``twice``: a trace in which the first block has two tiles of C, where blocks
    compute several in turn; ``tiled``: whether blocks multiply tiles; others may read the same bytes again after a
    barrier. ``key`` names the profile in the cache on disk; None disables that cache.
    """

    tracer: Callable[[], Traces]
    blocks_per_sm: int
    tile_depth: int = 0
    deeper: Callable[[], Traces] | None = None
    cluster: int = 1
    key: str | None = None
    twice: Callable[[], Trace] | None = None
    tiled: bool = True
    _plays: dict[str, Played] = field(default_factory=dict, init=False)

    @cached_property
    def traces(self) -> Traces:
        """Return both traces, with ``blocks_per_sm`` blocks or clusters."""
        return self.tracer()

    @cached_property
    def _kept(self) -> dict[str, Any]:
        kept: dict[str, Any] = json.loads((self.key and compile_cache.get(self.key)) or b"{}")
        return kept

    def work(self, k: int) -> Work:
        """Return one block's work at K = k."""

        def works() -> list[tuple[int, list[float]]]:
            return [(k, list(asdict(Work.of(trace, tiled=self.tiled)).values())) for k, trace in self.traces]

        (k0, first), (k1, second) = self._once("work", works)
        return Work(*first).toward(Work(*second), (k - k0) / (k1 - k0))

    def span(
        self, blocks: int, gpu: GpuSpec, *, together: bool = False, from_dram: bool = False, asked: float = 0.0
    ) -> Span:
        """Return the clocks of one multiprocessor of ``gpu`` with ``blocks`` resident blocks, at most
        ``blocks_per_sm``. ``together``: all of them start at once, as at the start of the launch. ``from_dram``: L2
        does not hold the matrices. ``asked``: the share of boxes that L2 is asked for.

        Blocks of later waves begin where another one ends, anywhere in the K tiles of the blocks beside it: one
        multiplies while another waits. So their main loops are played apart (``play_apart``), and take at least the
        time of the busiest unit.
        """
        pipes = pipes_of(gpu)
        asked = round(asked, 3) if asked * pipes.box_ns * gpu.clock_hz / 1e9 > pipes.box_sector else 0.0
        ways = f"{'together ' if together else ''}{'from DRAM ' if from_dram else ''}"

        def line() -> tuple[float, float, dict[str, tuple[float, float]]]:
            (k0, _), (k1, _) = self.traces
            first, second = (self._play(number, blocks, gpu, together, from_dram, asked) for number in (0, 1))
            per_k = max(second.clocks - first.clocks, 1.0) / (k1 - k0)
            units = {}
            for unit, clocks in second.busy.items():
                before = first.busy.get(unit, 0.0)
                each = (clocks - before) / (k1 - k0)
                units[unit] = before - each * k0, each
            if not together and self._drift_apart(blocks, gpu):
                per_k = max(self._apart(per_k, blocks, gpu, from_dram), *(each for _, each in units.values()))
            return first.clocks - per_k * k0, per_k, units

        fixed, per_k, units = self._once(f"{ways}{blocks} {asked} {_figures_of(gpu)}", line)
        return Span(fixed, per_k, {unit: (start, each) for unit, (start, each) in units.items()})

    def _drift_apart(self, blocks: int, gpu: GpuSpec) -> bool:
        """Tell whether blocks are at different places of their K tiles: their warps wait at barriers, and blocks take
        turns."""
        hidden = blocks > 1 and self.cluster == 1 and pipes_of(gpu).fair and self.traces[0][1].waits_at_barriers
        return hidden and 0 < self.tile_depth <= DEEPEST / TILES

    def _apart(self, per_k: float, blocks: int, gpu: GpuSpec, from_dram: bool) -> float:
        """Return the clocks for each k of blocks that are apart; ``per_k``: those in step."""
        (k0, shorter), (k1, longer) = self.deeper() if self.deeper else self.traces
        tiles = (k1 - k0) / self.tile_depth
        clocks = play_apart(longer, shorter, tiles, blocks, gpu, per_k * self.tile_depth, from_dram=from_dram)
        return clocks / (k1 - k0)

    def overlap(self, gpu: GpuSpec) -> float:
        """Return the clocks of one multiprocessor that a full wave of blocks saves because the blocks before it end at
        different times: new blocks load and multiply while others store."""

        def saved() -> float:
            if self.twice is not None:
                blocks, two = 1, play(self.twice(), 1, gpu)
            else:
                (_, trace), _ = self.traces
                blocks, two = self.blocks_per_sm, play(trace, self.blocks_per_sm, gpu, 2)
            one = self._play(0, blocks, gpu, together=False, from_dram=False, asked=0.0)
            return max(2 * one.clocks - two.clocks, 0.0)

        return float(self._once(f"overlap {_figures_of(gpu)}", saved))

    def copied(self, name: str, find: Callable[[], CopiedBoxes | None]) -> CopiedBoxes | None:
        """Return what ``find`` finds in a trace, memoised by ``name``; None for a trace that cannot be made."""

        def sizes() -> list[float] | None:
            try:
                found = find()
            except Uncountable:
                return None
            return list(asdict(found).values()) if found else None

        kept = self._once(f"boxes {name}", sizes)
        return kept and CopiedBoxes(*kept)

    def lines(self, gpu: GpuSpec) -> dict[Cause, tuple[LineShare, ...]]:
        """Return the source lines of each cause."""
        _, trace = self.traces[1]
        return lines_of(trace, record(trace, self.blocks_per_sm, gpu))

    def shares(
        self, at: Callable[[GpuSpec], Replayed], gpu: GpuSpec, k: int, balance: float, *, far: bool
    ) -> dict[Cause, float]:
        """Return the microseconds of each cause in ``at(gpu)``, an estimate at K = k; see ``causes.shares``."""
        work, spills = self.work(k), self.traces[1][1].uses_local_memory
        return shares(at, gpu, balance, heats=work.products > 0 or work.grouped > 0, far=far, spills=spills)

    def _play(self, number: int, blocks: int, gpu: GpuSpec, together: bool, from_dram: bool, asked: float) -> Played:
        """Play one wave of a trace, memoised: launches share the time of a single block, ``overlap`` needs it too."""
        _, trace = self.traces[number]
        together = together and uneven(blocks, gpu)
        name = f"{number} {blocks} {_figures_of(gpu)} {together} {from_dram} {asked}"
        if name not in self._plays:
            self._plays[name] = play(trace, blocks, gpu, together=together, from_dram=from_dram, asked=asked)
        return self._plays[name]

    def _once(self, name: str, find: Callable[[], Any]) -> Any:
        """Return what ``find`` returns, memoised in the cache on disk, too: lists and numbers, for JSON."""
        if name not in self._kept:
            self._kept[name] = find()
            if self.key is not None:
                compile_cache.put(self.key, json.dumps(self._kept).encode())
        return self._kept[name]


def _figures_of(gpu: GpuSpec) -> str:
    """Return a hash of all that a simulation reads from a data sheet."""
    return hashlib.sha256(f"{replace(gpu, power=None)} {pipes_of(gpu)}".encode()).hexdigest()[:16]
