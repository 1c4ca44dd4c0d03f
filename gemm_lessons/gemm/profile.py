"""A kernel traced at two depths K, from which its time at any shape follows: ``Profile``.

The work of a block is linear in K after its main loop has started. Two short traces are therefore enough: one block's
work, and the time of one multiprocessor for several resident blocks, are extrapolated from both.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from gemm_lessons import __version__
from gemm_lessons.engine import GPUS, GpuSpec
from gemm_lessons.engine.compiler import cache as compile_cache
from gemm_lessons.engine.compiler import without_file_names
from gemm_lessons.engine.costs import SECTOR
from gemm_lessons.engine.estimate import HEATING
from gemm_lessons.engine.hardware import pipes_of
from gemm_lessons.engine.records import Argument, Grid, dataclass
from gemm_lessons.gemm.shapes import Shape, Shapes, TileSizes

if TYPE_CHECKING:
    from gemm_lessons.engine.compiler import Compiled
    from gemm_lessons.engine.estimate import Played
    from gemm_lessons.engine.sass import ParsedKernel, Trace

MODEL = 38  # version of the timeline; a new number invalidates the cache on disk
DEPTH = 64  # least K of the shorter trace: eight tiles of 8, one of 64; double buffering repeats itself every 32
TILES = 8  # K tiles of the shorter trace of a kernel with cp.async, so that its pipeline is full
DEEPEST = 256  # K of the shorter trace of blocks that are played apart: they have as many tiles, which must fit
LONG = 1 / 3  # DRAM's latency / time of a K tile, above which blocks are played apart: the result is 1% uncertain
# The longer trace has twice that K, or this factor where blocks divide K tiles and have few of them: each begins and
# ends in the middle of a tile, and the number of such ends in a short share depends on where it is cut.
FURTHER = 4
GPC = 16  # multiprocessors that get a box together, to which a launch gives consecutive blocks: flights_h200.json
ORDERED = 16  # rows of tiles from which the order is read in which blocks take their tiles: as many as any band has

Traces = tuple[tuple[int, "Trace"], tuple[int, "Trace"]]  # (K, trace), shorter first


@dataclass(frozen=True)
class Movement:
    """What a launch must move and compute on any shape. ``buffers``: bytes that it reads and bytes that it writes, by
    buffer, each buffer once.

    ``left``, ``right``, ``target``: bytes per element of A, B and C, for a launch that multiplies tiles of A and B.
    ``tiled`` is False for a launch without tiles, such as a reduction, which reads each of its bytes once.
    ``planes``: matrices as large as C that it computes, each from factors of its own.
    """

    buffers: Callable[[Shape], tuple[Mapping[str, float], Mapping[str, float]]]
    operations: Callable[[Shape], int]
    left: int = 4
    right: int = 4
    target: int = 4
    tiled: bool = True
    planes: int = 1

    def read(self, shape: Shape) -> float:
        """Return the bytes that it reads."""
        return sum(self.buffers(shape)[0].values())

    def written(self, shape: Shape) -> float:
        """Return the bytes that it writes."""
        return sum(self.buffers(shape)[1].values())


# Of a product of matrices in fp32.
PLAIN = Movement(
    lambda it: ({"A": 4.0 * it.m * it.k, "B": 4.0 * it.k * it.n}, {"C": 4.0 * it.m * it.n}),
    lambda it: 2 * it.m * it.n * it.k,
)


@dataclass(frozen=True)
class Subject:
    """What to trace: a kernel, its launch on any shape, and its data movement there.

    ``parsed`` gives its PTX, which is read only when there is no trace yet; ``arguments_at`` gives fresh arguments,
    whose values do not matter. ``sharing``, for a launch whose grid does not grow with M and N: the timed shape, and
    the number of blocks that divide its K tiles; None where each block has a tile of C. ``staying``: the most blocks of
    a launch whose blocks continue with other tiles; 0 where there is one block per tile.
    """

    compiled: Compiled
    parsed: ParsedKernel
    grid_at: Callable[[Shape], Grid]
    arguments_at: Callable[[Shape], Sequence[Argument]]
    tile: TileSizes
    shapes: Shapes
    traffic: Movement = PLAIN
    sharing: tuple[Shape, int] | None = None
    staying: int = 0


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
        from gemm_lessons.engine.estimate import grouped_columns
        from gemm_lessons.engine.sass import Traffic

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
    from gemm_lessons.engine.sass import Traffic

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
        from gemm_lessons.engine.sass import Traffic

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
                size = len(box.sectors) * SECTOR / k
                asked[box.which[0]] = asked.get(box.which[0], 0.0) + size
                distinct.setdefault(box.which[0], {})[box.which] = size
                ever[block // GPC, *box.which] = at_once[block // GPC, place, *box.which] = size
                delivered += box.delivered * SECTOR / k
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


class Profile:
    """A kernel's launch and its traces, which are made on demand and memoised together with what follows from them.

    ``blocks_per_sm``: resident blocks, from the occupancy; ``cluster``: blocks of a cluster. ``tile_rows`` x
    ``tile_cols``: the tile of C of a block; ``tile_depth``: K of a tile that blocks load and wait for, 0 where they
    copy tiles ahead, and ``deeper``: traces of at least ``TILES`` such tiles, if the others have fewer; ``shared``:
    blocks divide the K tiles of a tile; ``staying``: blocks compute several tiles in turn, and the first block has two
    of them in the trace ``twice``. ``key`` names the traces in the cache on disk; None disables that cache.
    """

    def __init__(
        self,
        tracer: Callable[[], Traces],
        *,
        blocks_per_sm: int,
        tile_rows: int,
        tile_cols: int,
        tile_depth: int = 0,
        deeper: Callable[[], Traces] | None = None,
        cluster: int = 1,
        traffic: Movement = PLAIN,
        key: str | None = None,
        shared: bool = False,
        staying: int = 0,
        twice: Callable[[], Trace] | None = None,
        first_tiles: Callable[[Shape, int], CopiedBoxes | None] | None = None,
    ) -> None:
        self.blocks_per_sm, self.cluster = max(blocks_per_sm, 1), cluster
        self.staying, self._twice, self._first_tiles = staying, twice, first_tiles
        self.tile_rows, self.tile_cols, self.tile_depth = tile_rows, tile_cols, tile_depth
        self.traffic, self.shared, self._deeper = traffic, shared, deeper
        self._tracer, self._key = tracer, key
        self._traces: Traces | None = None
        self._plays: dict[str, Played] = {}
        self._kept: dict[str, Any] = json.loads((key and compile_cache.get(key)) or b"{}")

    @property
    def traces(self) -> Traces:
        """Return both traces, with ``blocks_per_sm`` blocks or clusters."""
        if self._traces is None:
            self._traces = self._tracer()
        return self._traces

    def work(self, k: int) -> Work:
        """Return one block's work at K = k."""
        if "work" not in self._kept:
            works = [(depth, Work.of(trace, tiled=self.traffic.tiled)) for depth, trace in self.traces]
            self._keep("work", [(depth, list(asdict(work).values())) for depth, work in works])
        (k0, first), (k1, second) = self._kept["work"]
        return Work(*first).toward(Work(*second), (k - k0) / (k1 - k0))

    def span(
        self, blocks: int, gpu: GpuSpec, *, together: bool = False, from_dram: bool = False, asked: float = 0.0
    ) -> Span:
        """Return the clocks of one multiprocessor of ``gpu`` with ``blocks`` resident blocks, at most
        ``blocks_per_sm``. ``together``: all of them start at once, as at the start of the launch. ``from_dram``: L2
        does not hold the matrices. ``asked``: the share of boxes that L2 is asked for.

        Blocks of later waves begin where another one ends, anywhere in the K tiles of the blocks beside it, and hide
        DRAM's latency from each other. Their main loops are played apart (``play_apart``) where that latency is long.
        """
        pipes = pipes_of(gpu)
        asked = round(asked, 3) if asked * pipes.box_ns * gpu.clock_hz / 1e9 > pipes.box_sector else 0.0
        ways = f"{'together ' if together else ''}{'from DRAM ' if from_dram else ''}"
        name = f"{ways}{blocks} {asked} {_figures_of(gpu)}"
        if name not in self._kept:
            (k0, _), (k1, _) = self.traces
            first, second = (
                self._play(number, blocks, gpu, together=together, from_dram=from_dram, asked=asked)
                for number in (0, 1)
            )
            per_k = max(second.clocks - first.clocks, 1.0) / (k1 - k0)
            units = {}
            for unit, clocks in second.busy.items():
                before = first.busy.get(unit, 0.0)
                each = (clocks - before) / (k1 - k0)
                units[unit] = before - each * k0, each
            if from_dram and not together and self._waits_long(per_k, blocks, gpu):
                per_k = self._apart(per_k, blocks, gpu)
            self._keep(name, [first.clocks - per_k * k0, per_k, units])
        fixed, per_k, units = self._kept[name]
        return Span(fixed, per_k, {unit: (start, each) for unit, (start, each) in units.items()})

    def _waits_long(self, per_k: float, blocks: int, gpu: GpuSpec) -> bool:
        """Tell whether DRAM's latency is a large part of the time of a K tile, for blocks that hide it from each other:
        their warps wait at barriers, and blocks take turns."""
        tile, waits = self.tile_depth * per_k, pipes_of(gpu).alone
        hidden = blocks > 1 and self.cluster == 1 and pipes_of(gpu).fair and self.traces[0][1].waits_at_barriers
        return hidden and 0 < self.tile_depth <= DEEPEST / TILES and waits > LONG * tile

    def _apart(self, per_k: float, blocks: int, gpu: GpuSpec) -> float:
        """Return the clocks for each k of blocks that are apart and wait for DRAM; ``per_k``: those in step."""
        from gemm_lessons.engine.estimate import play_apart

        (k0, shorter), (k1, longer) = self._deeper() if self._deeper else self.traces
        tiles = (k1 - k0) / self.tile_depth
        clocks = play_apart(longer, shorter, tiles, blocks, gpu, per_k * self.tile_depth, from_dram=True)
        return clocks / (k1 - k0)

    def overlap(self, gpu: GpuSpec) -> float:
        """Return the clocks of one multiprocessor that a full wave of blocks saves because the blocks before it end at
        different times: new blocks load and multiply while others store."""
        name = f"overlap {_figures_of(gpu)}"
        if name not in self._kept:
            from gemm_lessons.engine.estimate import play

            _, trace = self.traces[0]
            if self._twice is not None:
                one, two = self._play(0, 1, gpu), play(self._twice(), 1, gpu)
            else:
                one, two = self._play(0, self.blocks_per_sm, gpu), play(trace, self.blocks_per_sm, gpu, 2)
            self._keep(name, max(2 * one.clocks - two.clocks, 0.0))
        return float(self._kept[name])

    def boxes(self, shape: Shape, blocks: int) -> CopiedBoxes | None:
        """Return the bytes that the first ``blocks`` of a launch for ``shape`` copy by TMA; None if that is unknown."""
        if self._first_tiles is None:
            return None
        name = f"boxes {shape.m} {shape.n} {blocks}"
        if name not in self._kept:
            from gemm_lessons.engine.sass import Uncountable

            try:
                found = self._first_tiles(shape, blocks)
            except Uncountable:
                found = None
            self._keep(name, found and list(asdict(found).values()))
        kept = self._kept[name]
        return kept and CopiedBoxes(*kept)

    def _play(
        self,
        number: int,
        blocks: int,
        gpu: GpuSpec,
        *,
        together: bool = False,
        from_dram: bool = False,
        asked: float = 0.0,
    ) -> Played:
        """Play one wave of a trace, memoised: launches share the time of a single block, ``overlap`` needs it too."""
        from gemm_lessons.engine.estimate import play, uneven

        _, trace = self.traces[number]
        together = together and uneven(blocks, gpu)
        name = f"{number} {blocks} {_figures_of(gpu)} {together} {from_dram} {asked}"
        if name not in self._plays:
            self._plays[name] = play(trace, blocks, gpu, together=together, from_dram=from_dram, asked=asked)
        return self._plays[name]

    def _keep(self, name: str, value: Any) -> None:
        self._kept[name] = value
        if self._key is not None:
            compile_cache.put(self._key, json.dumps(self._kept).encode())


def _figures_of(gpu: GpuSpec) -> str:
    """Return a hash of all that a simulation reads from a data sheet."""
    return hashlib.sha256(f"{replace(gpu, power=None)} {pipes_of(gpu)}".encode()).hexdigest()[:16]


def profile_of(subject: Subject, blocks_per_sm: int) -> Profile:
    """Return the profile of a kernel. Raise ``Uncountable`` when its machine code cannot be followed."""
    from gemm_lessons.engine.estimate import BOX
    from gemm_lessons.engine.sass import blocks_of_cluster, traceable

    compiled, planes = subject.compiled, subject.traffic.planes
    copies = any(it.opcode.startswith(("LDGSTS", BOX)) for it in compiled.sass)
    cluster = blocks_of_cluster(compiled, subject.parsed, subject.grid_at(subject.shapes.count))
    together = blocks_per_sm * cluster  # blocks
    short, deep = (traced_shape(subject, together, tiles) for tiles in (TILES if copies else 1, TILES))

    def trace(short: Shape = short) -> Traces:
        kernel = traceable(compiled, subject.parsed())

        def at(k: int) -> tuple[int, Trace]:
            shape = replace(short, k=k)
            return k, kernel.trace(subject.grid_at(shape), subject.arguments_at(shape), together)

        return at(short.k), at(longer(subject, short))

    def twice() -> Trace:
        one = traced_shape(subject, cluster, TILES)
        tiles = planes * tiles_of(one, subject.tile)
        wide = replace(one, n=one.n * math.ceil((subject.staying + cluster) / tiles))
        return traceable(compiled, subject.parsed()).trace(subject.grid_at(wide), subject.arguments_at(wide), cluster)

    def first_tiles(shape: Shape, blocks: int) -> CopiedBoxes | None:
        depth, tile = math.lcm(subject.tile.depth, subject.shapes.multiple_of.k), subject.tile
        high = max(ORDERED, math.ceil(blocks / math.ceil(shape.n / tile.cols))) * tile.rows
        one = replace(
            shape, m=min(shape.m, math.lcm(tile.rows, subject.shapes.multiple_of.m) * -(-high // tile.rows)), k=depth
        )
        kernel = traceable(compiled, subject.parsed())
        found = kernel.trace(subject.grid_at(one), subject.arguments_at(one), blocks, only_boxes=True)
        return CopiedBoxes.of(found, depth, planes * tiles_of(one, tile) if subject.staying else blocks)

    code, _ = without_file_names(compiled.cubin)
    untiled = () if subject.traffic.tiled else ("untiled",)
    parts = (compiled.entry, repr(subject.grid_at(short)), repr(short), str(blocks_per_sm), *untiled)
    profile = Profile(
        trace,
        blocks_per_sm=blocks_per_sm,
        tile_rows=subject.tile.rows,
        tile_cols=subject.tile.cols,
        tile_depth=0 if copies or subject.sharing or subject.staying else subject.tile.depth,
        deeper=None if deep == short else partial(trace, deep),
        cluster=cluster,
        traffic=subject.traffic,
        key=compile_cache.key_of(f"gemm-lessons/traced/{MODEL} {__version__}", *code, *parts),
        shared=subject.sharing is not None,
        staying=subject.staying,
        twice=twice if subject.staying else None,
        first_tiles=first_tiles if any(it.opcode.startswith(BOX) for it in compiled.sass) else None,
    )
    work, sheet = profile.work(short.k), GPUS["h200"]
    if any(it.opcode.startswith("SYNCS") for it in compiled.sass):  # raises if an awaited mbarrier phase never ends
        profile.span(blocks_per_sm, sheet.hot if work.products else sheet)  # memoised: an H200 estimate reuses it
    return profile


def longer(subject: Subject, short: Shape) -> int:
    """Return K of the longer trace."""
    if subject.sharing is None:
        return 2 * short.k
    timed, sharers = subject.sharing
    share = short.k * tiles_of(timed, subject.tile) / sharers
    most = timed.k // short.k if share < FURTHER * DEPTH else 2
    return min(max(2, most), FURTHER) * short.k


def tiles_of(shape: Shape, tile: TileSizes) -> int:
    """Return the number of tiles of C."""
    return math.ceil(shape.m / tile.rows) * math.ceil(shape.n / tile.cols)


def traced_shape(subject: Subject, blocks: int, tiles: int = 1) -> Shape:
    """Return a shape with at least ``blocks`` full blocks side by side and whole tiles of K, at least ``tiles``. Where
    blocks divide the K tiles, it has the timed shape's M and N, and so small a K that a block gets about ``DEPTH``."""
    tile, multiple = subject.tile, subject.shapes.multiple_of
    rows, cols = math.lcm(tile.rows, multiple.m), math.lcm(tile.cols, multiple.n)
    depth = math.lcm(tile.depth, multiple.k)
    if subject.sharing is not None:
        timed, sharers = subject.sharing
        wanted = DEPTH * max(1.0, sharers / tiles_of(timed, tile))
        return replace(timed, k=depth * max(1, math.ceil(min(wanted, timed.k / 2) / depth)))
    if tile.rows * tile.cols == 1:  # no block tile is known: the lesson's own choice, made wider
        rows, cols = subject.shapes.count.m, subject.shapes.count.n
    shape = Shape(rows, cols, max(-(-DEPTH // depth), tiles) * depth, layout=subject.shapes.count.layout)
    while (here := subject.grid_at(shape).blocks) < blocks:
        wider, higher = replace(shape, n=shape.n + cols), replace(shape, m=shape.m + rows)
        grows = [it for it in (wider, higher) if subject.grid_at(it).blocks > here]
        if not grows:  # C's size does not matter: a kernel that transposes A may have a block for each piece of K
            return shape
        shape = grows[0]
    return shape
