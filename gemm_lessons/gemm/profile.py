"""What to trace of a launch of a product, and its profile: at which shapes, with which blocks side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from gemm_lessons import __version__
from gemm_lessons.engine import GPUS
from gemm_lessons.engine.compiler import Compiled
from gemm_lessons.engine.estimate import TILES, CopiedBoxes, LoopProfile, TracedKernel
from gemm_lessons.engine.records import Argument, Grid, dataclass
from gemm_lessons.gemm.shapes import Shape, Shapes, TileSizes

if TYPE_CHECKING:
    from gemm_lessons.engine.estimate import Traces
    from gemm_lessons.engine.sass import Trace

DEPTH = 64  # least K of the shorter trace: eight tiles of 8, one of 64; double buffering repeats itself every 32
# The longer trace has twice that K, or this factor where blocks divide K tiles and have few of them: each begins and
# ends in the middle of a tile, and the number of such ends in a short share depends on where it is cut.
FURTHER = 4
ORDERED = 16  # rows of tiles from which the order is read in which blocks take their tiles: as many as any band has


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

    ``arguments_at`` gives fresh arguments, whose values do not matter. ``sharing``, for a launch whose grid does not
    grow with M and N: the timed shape, and the number of blocks that divide its K tiles; None where each block has a
    tile of C. ``staying``: the most blocks of a launch whose blocks continue with other tiles; 0 where there is one
    block per tile.
    """

    compiled: Compiled
    grid_at: Callable[[Shape], Grid]
    arguments_at: Callable[[Shape], Sequence[Argument]]
    tile: TileSizes
    shapes: Shapes
    traffic: Movement = PLAIN
    sharing: tuple[Shape, int] | None = None
    staying: int = 0


@dataclass(frozen=True, eq=False)
class Profile(LoopProfile):
    """The profile of a launch of a product. ``tile_rows`` x ``tile_cols``: the tile of C of a block; ``shared``: blocks
    divide the K tiles of a tile; ``staying``: blocks compute several tiles in turn; ``first_tiles``: what the first
    blocks of a launch for a shape copy by TMA."""

    tile_rows: int = 1
    tile_cols: int = 1
    traffic: Movement = PLAIN
    shared: bool = False
    staying: int = 0
    first_tiles: Callable[[Shape, int], CopiedBoxes | None] | None = None

    def boxes(self, shape: Shape, blocks: int) -> CopiedBoxes | None:
        """Return the bytes that the first ``blocks`` of a launch for ``shape`` copy by TMA; None if that is unknown."""
        if self.first_tiles is None:
            return None
        return self.copied(f"{shape.m} {shape.n} {blocks}", partial(self.first_tiles, shape, blocks))


def profile_of(subject: Subject, blocks_per_sm: int) -> Profile:
    """Return the profile of a kernel. Raise ``Uncountable`` when its machine code cannot be followed."""
    kernel, planes = TracedKernel(subject.compiled), subject.traffic.planes
    ahead, boxes = kernel.has("LDGSTS", "UTMALDG"), kernel.has("UTMALDG")
    cluster = kernel.cluster(subject.grid_at(subject.shapes.count))
    together = blocks_per_sm * cluster  # blocks
    short, deep = (traced_shape(subject, together, tiles) for tiles in (TILES if ahead else 1, TILES))

    def trace(short: Shape = short) -> Traces:
        long = replace(short, k=longer(subject, short))
        first, second = (
            (it.k, kernel.trace(subject.grid_at(it), subject.arguments_at(it), together)) for it in (short, long)
        )
        return first, second

    def twice() -> Trace:
        one = traced_shape(subject, cluster, TILES)
        tiles = planes * tiles_of(one, subject.tile)
        wide = replace(one, n=one.n * math.ceil((subject.staying + cluster) / tiles))
        return kernel.trace(subject.grid_at(wide), subject.arguments_at(wide), cluster)

    def first_tiles(shape: Shape, blocks: int) -> CopiedBoxes | None:
        depth, tile = math.lcm(subject.tile.depth, subject.shapes.multiple_of.k), subject.tile
        high = max(ORDERED, math.ceil(blocks / math.ceil(shape.n / tile.cols))) * tile.rows
        one = replace(
            shape, m=min(shape.m, math.lcm(tile.rows, subject.shapes.multiple_of.m) * -(-high // tile.rows)), k=depth
        )
        found = kernel.trace(subject.grid_at(one), subject.arguments_at(one), blocks, only_boxes=True)
        return CopiedBoxes.of(found, depth, planes * tiles_of(one, tile) if subject.staying else blocks)

    untiled = () if subject.traffic.tiled else ("untiled",)
    profile = Profile(
        trace,
        blocks_per_sm,
        0 if ahead or subject.sharing or subject.staying else subject.tile.depth,
        None if deep == short else partial(trace, deep),
        cluster,
        kernel.key(__version__, repr(subject.grid_at(short)), repr(short), str(blocks_per_sm), *untiled),
        twice if subject.staying else None,
        subject.traffic.tiled,
        subject.tile.rows,
        subject.tile.cols,
        subject.traffic,
        subject.sharing is not None,
        subject.staying,
        first_tiles if boxes else None,
    )
    work, sheet = profile.work(short.k), GPUS["h200"]
    if kernel.has("SYNCS"):  # raises if an awaited mbarrier phase never ends
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
