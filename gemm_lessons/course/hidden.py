"""Unpredictable shapes: drawn from a run's seed, within the lesson's contract.

A kernel may use the lesson's method only on the shape of lesson.toml, or be right only up to the known sizes. Graded
runs therefore also count and check it on hidden shapes, each in one of the lesson's layouts: a wide and shallow one,
whose M and N are larger than all known ones (for huge shapes, one of both is), unless the large one is so; a small
and deep one, whose K is larger, unless a deeper one has its layout; and a large one of ``MANY_WAYS`` tiles or more
along M and along N and three K tiles, or four small ones, or two where a tile is much work. The large one has about
``LARGE`` multiply-adds, or as many as those tiles have, if these are more. Where blocks may divide the K tiles, and a
tile is little work, it is deep instead: ``SHARED`` multiply-adds, for many blocks.

M, N and K are largest at the far shape: ``HUGE`` rows and columns, and ``DEPTH`` k or more. There only some blocks are
run (``hidden_sample``): the values that they store are checked, and they are counted as if all blocks did the same.
Where a block has several tiles of C, or several launches follow each other, the far shape has ``SPREAD`` elements of C
and few K tiles, and one whose K is ``DEPTH`` or more is checked and counted beside it: a shape of one tile of C, or a
block of one with a tile for each block (``hidden_also``). A block is also sampled where M = N = K, a multiple of 256
and often a power of two: every benchmark has such sizes, and the other shapes seldom do. Kernels whose blocks depend on
each other are checked and counted on whole shapes instead (``hidden_instead``): on that one and on one with few K
tiles, whose M or N is ``BROAD`` or more.

Where the host chooses the block tile by M, N and K, each tile that it chooses for a known shape is also checked on
other shapes, unless the wide one has it: on one with more rows of tiles than any known shape with that tile, and on one
with more columns. If such a lesson takes every K, it is checked on a shape that is deeper by up to a half. A tile of
none of the counted shapes is counted on a shape of its own, to detect a kernel that uses the lesson's method only for
the others. So is a layout, but most often the large, the far and the deep shape have all layouts that the counting
shape has not (``_layout``). The large shape of such a lesson has whole tiles of K, to detect a kernel that handles a
partial tile there all the same.

Each variant of such a kernel takes a second to compile, to disassemble and to decode. So of the shapes that may be
checked, those are taken for which a variant fits that others need, too. Shapes share a variant if they differ only in
choices that the reference does not name (``_variant``). One small shape has a layout that is drawn for it alone.

Each lesson is also checked far out, with M, N or K of thousands and the others of one or two tiles (and counted there,
where the host chooses nothing), on small shapes, among which each remainder of M, N and K occurs once, except for those
of K that larger shapes leave, where a tile is much work, and on small shapes with inputs that are alike but for a few
(``hidden_alike``).

A learner's own run has no hidden shapes. The wide one alone takes from a fifth to more than the time of all known
checks together, and a learner gains nothing by deceiving an own run.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations, product
from math import lcm, prod
from typing import Any, Literal, TypeVar

from gemm_lessons.course.lesson import Lesson, tile_sizes
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.gemm.data import ALIKE, HELD, SIZES, Alike
from gemm_lessons.gemm.shapes import Shape, TileSizes, astuple

T = TypeVar("T")
# Which sizes are equal where inputs are alike: a kernel may take A for symmetric, or diagonal, only where M = K.
EQUAL_AXES: Mapping[Alike, str] = {"equal": "MK", "same": "MNK", "left zero": "MK", "right zero": "NK"}
FULL = 0.85  # of the last tile along an axis that is inside the matrix, at least: gates allow for whole ones
LESS, FEWER = 0.5, 3  # of the large shapes that are not aligned lack one of so few steps to whole tiles
SHALLOW = 16  # of K, at least, where K is not split into tiles
DEEPER = (1.1, 1.5)  # times the largest known K
MANY = 100  # tiles along an axis of a known shape: more tiles show nothing more, and take long
CANDIDATES = 2000  # shapes of which those are run whose sizes matter to a kernel ...
CANDIDATES_OF_NUMBERS = 4000  # ... and so many more if its code compares sizes with numbers: of these shares ...
ROUND, RELATED = 0.2, 0.5  # ... have a size that is round, and a size that is a multiple of another ...
NEAR, ALL_NEAR = 0.4, 0.3  # ... or a size near a multiple of a tile or such a number, or only such sizes ...
SAME_PERIOD = 0.7  # ... most often near multiples of the same number
AROUND = (-3, -2, -1, -1, 0, 0, 1, 1, 2)  # steps from such a multiple
PERIODS = (4, 8, 16, 32, 64, 128)
LONGEST_PERIOD = 4096
SOMEWHAT_LARGE = 1 << 24  # multiply-adds of half of these shapes, at most
ROUNDED = (50, 64, 100, 128, 200, 250, 256, 300, 400, 500, 512, 600, 700, 768, 800, 900, 1000, 1024, 2000, 2048, 3000)
RATIOS = (1, 1, 2, 3, 4, 8)
# Tiles along an axis of a shape of which rare blocks are run: at least, times so many at most; along its other axis,
# at most; shapes to draw.
LONG_TILES, SHORT_TILES, LONG_DRAWS = (8, 64), 4, 400
SHALLOWS = (2, 3, 8, 64)  # K tiles of a far shape of which many blocks are run: the first that fits is taken
WALK = 2  # K tiles, at least, of a counted shape: with fewer there are only a first and a last tile
DRAWS = 16  # sets of shapes to draw, of which the one that needs the fewest compilations is taken ...
MANY_DRAWS = 40  # ... or of long and of small shapes, which seldom need the same ones
SHARING = 0.75  # of the runs have counted shapes that share variants of the kernel, where the others need more
WIDE = 1024  # M and N of a deep shape that shares the broad one's variant, at least
TRIES = 200  # shapes to draw until one has the tile
MEMOISED = 1024  # results, each for one lesson and seed
WIDEST = 1 << 20  # elements of C: a lesson with large known shapes hides one that is larger only in M or only in N
FAR = (2400, 2400, 1100)  # M, N, K of far shapes, at least, and half as much again at most ...
# ... but at most this many multiply-adds / bytes of an input: async_copy has a second band.
WORK = 9 << 23
# Some runs are deeper by this factor: the largest K at which a kernel must be right is not known.
DEEP, SOME = 2, 0.25
MANY_WAYS = 5  # tiles of a large shape along M and along N, at least
LARGE = 1 << 24  # multiply-adds of a large shape, where tiles allow it
SHARED = 42 << 20  # or of one whose K tiles blocks may divide, and up to an eighth more: 84 to 96 blocks of split_k
SQUARE = (0.85, 1.18)  # the larger side of C of a large shape / the side of a square of the same work
ALIGNED = 8  # sizes of half of the large shapes are multiples: gates allow more for others
HUGE = 16384  # M and N of a far shape, at least, and half as much again at most; K, at most
DEPTH = 5120  # K of a far shape, at least, however slowly a type is simulated
SAMPLED = 1 << 26  # multiply-adds of the blocks that are run of a far shape ...
LONG = 4  # ... and of whole numbers so many times as many: a sum of 29 bits has K above 16,384 ...
STEPS = 400_000  # ... at most so many of a thread: a block of few warps is simulated slowly ...
BLOCKS = 1  # ... at most so many blocks: there are other sampled shapes
SQUARES = 0.5  # of the far shapes have M = N, where the tiles allow it
CUBES = (1024, 1024, 1280, 1536, 2048)  # M = N = K of a sampled shape, one of these
# A shape of which a tile of C is judged, with all blocks that it needs, has at least so many tiles along M and along N,
# at most about so many in all, and a K between these.
TILE_WAYS, TILE_MANY, TILE_DEPTH = 7, 256, (800, 5600)
SHARED_TILES = 1 / 3  # of a tile, or less, is the share of a block there
SOMEWHAT = 8  # of SAMPLED, this share for a block with several tiles whose pieces a later launch adds
SPREAD = 17 << 20  # elements of C of a shape that is far along M and N only, at least
MANY_TRIES = 2000  # shapes to draw until its blocks have equal shares
# Multiply-adds per second in the simulator / those of float32, by the size of a factor's number, where it is a float.
PACE = {8: 1 / 12, 2: 1 / 6, 1: 1 / 6}
# Of a kernel that makes several products for each of C's, the large shape has fewer tiles; the deep one is less deep,
# and the broad one less broad.
HEAVY_WAYS, HEAVY = 3, 4
BROAD = 4096  # M and N of what is checked instead of a sample, at least one of them ...
AREA = 1 << 20  # ... for so many elements of C
MUCH = 1 << 20  # multiply-adds of the smallest shape that a lesson allows, or of a K tile of a block: that is much work
LITTLE = 1 << 22  # multiply-adds of a small shape, at most, of a fast type: larger ones have one tile
REMAINDERS = 8  # of sizes, or of numbers of tiles, each of which occurs once among the small shapes ...
FEW = 4  # ... except for a lesson where a tile is much work, or the host compiles another kernel for each


def hidden_counts(lesson: Lesson, seed: int) -> tuple[Shape, ...]:
    """Return two hidden shapes of a graded run with this seed: the wide one, or the large one if the host chooses
    something by the shape, and the deep one.

    They are the same on every machine and Python version: Python guarantees the sequence of ``random.Random.random()``
    for a text seed.
    """
    draw = random.Random(f"{lesson.name} hides {seed}")
    known = (*lesson.shapes.check, lesson.shapes.count)
    large = hidden_large(lesson, seed) if lesson.choices else None
    shapes = map(astuple, (lesson.shapes.multiple_of, _tile(lesson), *known))
    m, n, k = (_Axis(draw, *sizes) for sizes in zip(*shapes, strict=True))
    wide = Shape(m.beyond(2), n.beyond(2), k.shallow())
    if wide.m * wide.n > WIDEST:
        wide = replace(wide, n=n.small()) if draw.random() < 0.5 else replace(wide, m=m.small())
    deep = Shape(m.small(), n.small(), k.beyond(6))
    wide = replace(wide, layout=_layout(lesson, seed, "large", _any_of(draw, lesson.shapes.layouts)))
    deep = replace(deep, layout=_layout(lesson, seed, "deep", _any_of(draw, lesson.shapes.layouts)))
    if lesson.choices and draw.random() < SHARING:
        others = (replace(deep, m=m.small(), n=n.small(), k=k.beyond(6)) for _ in range(MANY_DRAWS))
        made = {_variant(lesson, it) for it in known}
        deep = next((it for it in others if _variant(lesson, _allowed(lesson, it)) in made), deep)
    return (_allowed(lesson, wide) if large is None else large), _allowed(lesson, deep)


def _allowed(lesson: Lesson, shape: Shape) -> Shape:
    """Return the shape with each size at most what the lesson's contract allows."""
    most = dict(lesson.shapes.at_most)
    steps = astuple(lesson.shapes.multiple_of)
    sizes = (
        min(size, most.get(name, size) // step * step)
        for name, size, step in zip(SIZES, astuple(shape), steps, strict=True)
    )
    return Shape(*sizes, layout=shape.layout)


def _layout(lesson: Lesson, seed: int, shape: Literal["large", "far", "deep"], drawn: str) -> str:
    """Return the layout of one of the counted shapes: the ``drawn`` one, unless the host chooses. Then the three have
    different ones, and most often those that the counting shape has not: no other shape must be counted for them."""
    if not lesson.choices:
        return drawn
    draw = random.Random(f"{lesson.name} layouts {seed}")
    known = lesson.shapes.count.layout
    order = draw.sample(lesson.shapes.layouts, len(lesson.shapes.layouts))
    if draw.random() < SHARING:
        order = [*(it for it in order if it != known), known]
    return order[("large", "far", "deep").index(shape) % len(order)]


def _has_dear_tiles(lesson: Lesson) -> bool:
    """Tell whether one K tile of one block is much work."""
    tile = astuple(_tile(lesson.at(lesson.shapes.count)))
    return prod(map(max, astuple(lesson.shapes.multiple_of), tile)) >= MUCH


def _shares_depth(lesson: Lesson) -> bool:
    """Tell whether blocks may divide the K tiles, where a tile is little work: a later launch adds up what they leave,
    and the host chooses how many there are. Then the large shape has the work of many blocks, and is deep."""
    several = len(lesson.launches) > 1 and lesson.shapes.products == 1 and bool(lesson.choices)
    return several and MANY_WAYS**3 * prod(astuple(_tile(lesson.at(lesson.shapes.count)))) <= SHARED


def hidden_large(lesson: Lesson, seed: int) -> Shape:
    """Return the hidden shape that is large along M and N at once, and to be counted."""
    draw = random.Random(f"{lesson.name} large {seed}")
    steps, tile = astuple(lesson.shapes.multiple_of), astuple(_tile(lesson.at(lesson.shapes.count)))
    layout = _layout(lesson, seed, "large", _any_of(draw, lesson.shapes.layouts))
    aligned = ALIGNED if draw.random() < 0.5 else 1
    less = 1.0 if aligned == 1 and draw.random() < LESS else 0.0
    m, n, k = (_Axis(draw, lcm(step, aligned), size, 0, less=less) for step, size in zip(steps, tile, strict=True))
    dear = len(lesson.launches) > 1 and 3 * MANY_WAYS**2 * m.tile * n.tile * k.tile > 2 * LARGE
    number = WALK if dear or _has_dear_tiles(lesson) else 3 + int(draw.random() * 2) * (k.tile <= SHALLOW)
    if _shares_depth(lesson):
        work = int(SHARED * (1 + draw.random() / 8))
        number = max(MANY_WAYS, -(-work // (MANY_WAYS**2 * m.tile * n.tile * k.tile)))
    # Of a lesson with layouts, one counted shape has whole tiles of K.
    depth = k.whole(number) if lesson.choices and len(lesson.shapes.layouts) > 1 else k.tiles(number)
    area = LARGE / depth
    longer = area**0.5 * (SQUARE[0] + draw.random() * (SQUARE[1] - SQUARE[0]))
    if dear:
        longer = min(longer, area / (MANY_WAYS * n.tile))
    sides = longer, area / longer
    # A step may have several block tiles, as where blocks of a cluster share.
    ways = HEAVY_WAYS if lesson.shapes.products > 1 else MANY_WAYS
    least = (-(-ways * (size if size > 1 else it.tile) // it.tile) for it, size in zip((m, n), tile, strict=False))
    rows, cols = (it.tiles(max(few, int(side // it.tile))) for it, few, side in zip((m, n), least, sides, strict=True))
    return _allowed(lesson, Shape(rows, cols, depth, layout=layout))


@dataclass(frozen=True)
class FarSample:
    """A far shape, and the blocks to run of each of its launches: some, or all. ``tiles``: the tiles of C that a block
    owes; None where a later launch stores some of them. ``beside``: a deep shape, which the sample is not."""

    shape: Shape
    blocks: tuple[Sequence[int], ...]
    tiles: int | None = 1
    beside: tuple[Shape, ...] = ()


@dataclass(frozen=True)
class FarTiles:
    """Two tiles of C at a far shape, by their rows and columns: they are judged when all blocks that they need have
    run."""

    shape: Shape
    rows: range
    cols: range


@lru_cache(maxsize=MEMOISED)
def hidden_sample(lesson: Lesson, seed: int) -> FarSample | None:
    """Return the far shape; None for a lesson where an element of C depends on more than one row and one column, where
    blocks make several products for each of C's, where whole numbers in C may be equal before and after the launch, or
    that does not allow such large sizes."""
    if not lesson.data.is_local or lesson.shapes.products > 1:
        return None
    target = lesson.data.by_name[lesson.data.formula.target]
    if target.role == "inout" and not target.element.is_float:
        return None
    return _deep_sample(lesson, seed) or _broad_sample(lesson, seed)


def _deep_sample(lesson: Lesson, seed: int) -> FarSample | None:
    """Return a shape that is far along M, N and K, where one launch has a block for each tile of C."""
    if len(lesson.launches) > 1 or lesson.launches[0].cluster:
        return None
    draw = random.Random(f"{lesson.name} sample {seed}")
    steps, layout = astuple(lesson.shapes.multiple_of), _any_of(draw, lesson.shapes.layouts)
    layout = _layout(lesson, seed, "far", layout)
    whole_numbers = not lesson.data.factors[0].element.is_float
    huge = Shape(HUGE, HUGE, HUGE, layout=layout)
    tile, threads = astuple(_tile(lesson.at(huge))), lesson.at(huge).grids(huge)[0].threads
    for _ in range(TRIES):
        whole = [lcm(steps[axis], tile[axis]) for axis in (0, 1)]
        whole = [lcm(*whole)] * 2 if (square := draw.random() < SQUARES) else whole
        m, n = (HUGE // by * by + int(draw.random() * HUGE / 2 / by) * by for by in whole)
        n = m if square else n
        most = min(
            2 * HUGE if whole_numbers else min(HUGE, STEPS * threads // (tile[0] * tile[1])),
            dict(lesson.shapes.at_most).get("K", 2 * HUGE),
            int(_affordable(lesson) / (tile[0] * tile[1])),
        )
        depth = -(-max(DEPTH, int(most * (1 - draw.random() / 5))) // steps[2]) * steps[2]
        shape = Shape(m, n, depth, layout=layout)
        if _allowed(lesson, shape) != shape:
            return None
        at = lesson.at(shape)
        blocks = at.grids(shape)[0].blocks
        if blocks * tile[0] * tile[1] < m * n:
            return None  # a block has several tiles
        if astuple(_tile(at))[:2] == tile[:2] and blocks * tile[0] * tile[1] == m * n:
            number = max(
                1, min(1 if lesson.choices else BLOCKS, int(_affordable(lesson) / (tile[0] * tile[1] * depth)))
            )
            last = (blocks - 1,) if number > 1 or draw.random() < 0.5 else ()
            drawn = (int(draw.random() * (blocks - 1)) for _ in range(number - len(last)))
            return FarSample(shape, (tuple(sorted({*drawn, *last})),))
    return None


def _broad_sample(lesson: Lesson, seed: int) -> FarSample | None:
    """Return a shape that is far along M and N, with few K tiles: blocks have equal shares of several tiles, or several
    launches follow each other.

    Launches before the one that multiplies are run whole. What its blocks store in C is judged; blocks of the launches
    after it are only counted, because they need what other blocks leave. If the first launch multiplies, K has so many
    tiles that a block makes ``SAMPLED / SOMEWHAT`` multiply-adds: nowhere else do blocks have whole tiles of a deep K.
    """
    draw = random.Random(f"{lesson.name} broad sample {seed}")
    steps, layout = astuple(lesson.shapes.multiple_of), _any_of(draw, lesson.shapes.layouts)
    layout = _layout(lesson, seed, "far", layout)
    for _ in range(MANY_TRIES):
        area, aspect = SPREAD * (1 + draw.random() * 0.6), SQUARE[0] + draw.random() * (SQUARE[1] - SQUARE[0])
        wanted = (area**0.5 * aspect, area**0.5 / aspect)
        tile = astuple(_tile(lesson.at(Shape(*(-(-HUGE // it) * it for it in steps), layout=layout))))
        whole = [lcm(step, size) for step, size in zip(steps, tile, strict=True)]
        m, n = (-(-int(size) // by) * by for size, by in zip(wanted, whole, strict=False))
        shape = Shape(m, n, whole[2] * (WALK + int(draw.random() * 2)), layout=layout)
        if len(lesson.launches) > 1 and _multiplying(lesson) == 0:
            each = tile[0] * tile[1] * whole[2] * max(1.0, _tiles_per_block(lesson, shape, 0))
            number = int(_affordable(lesson) / SOMEWHAT / each * (1 - draw.random() / 4))
            shape = replace(shape, k=whole[2] * max(WALK, number))
        if _allowed(lesson, shape) != shape:
            return None
        if astuple(_tile(lesson.at(shape))) == tile and (found := _one_of_each(lesson, shape, draw)):
            deep = () if _deep_beside(lesson, seed) else hidden_instead(lesson, seed)[:1]
            return replace(found, beside=deep)
    return None


def _one_of_each(lesson: Lesson, shape: Shape, draw: random.Random) -> FarSample | None:
    """Return a sample of one block of the launch that multiplies and of each launch after it; None where blocks have
    unequal shares, or where the host chooses other clusters than at the counting shape, for which gates are."""
    at, multiplies = lesson.at(shape), _multiplying(lesson)
    grids, tile = at.grids(shape), _tile(at)
    blocks, tiles = grids[multiplies].blocks, -(-shape.m // tile.m) * -(-shape.n // tile.n)
    clusters = (it.tile.defines.get("CLUSTER") for it in (at, lesson.at(lesson.shapes.count)))
    if tiles % blocks or len(set(clusters)) > 1:
        return None
    chosen: list[Sequence[int]] = [range(it.blocks) for it in grids[:multiplies]]
    chosen += [(int(draw.random() * it.blocks),) for it in grids[multiplies:]]
    return FarSample(shape, tuple(chosen), tiles // blocks if multiplies == len(grids) - 1 else None)


def hidden_also(lesson: Lesson, seed: int) -> tuple[FarSample, ...]:
    """Return more shapes to sample where the far one is, one block of each: one of M = N = K, and a deep one."""
    if (far := hidden_sample(lesson, seed)) is None:
        return ()
    deep = None if far.shape.k >= DEPTH else _deep_beside(lesson, seed)
    return tuple(it for it in (_cube(lesson, seed), deep) if it)


def _cube(lesson: Lesson, seed: int) -> FarSample | None:
    """Return a shape of M = N = K where a block has one tile, if there is one, and which needs no variant of the kernel
    that others do not need, if there is one."""
    draw = random.Random(f"{lesson.name} cube {seed}")
    layouts = draw.sample(lesson.shapes.layouts, len(lesson.shapes.layouts))
    sides = draw.sample(CUBES, len(CUBES))
    shapes = [Shape(side, side, side, layout=layout) for side in sides for layout in layouts]
    shapes = [it for it in shapes if lesson.shapes.refusal(it) is None]
    counted = (lesson.shapes.count, *hidden_and_counted(lesson, seed), *_counted_far(lesson, seed))
    made = {_variant(lesson, it) for it in counted if lesson.choices}
    found = [it for it in (_one_of_each(lesson, shape, draw) for shape in shapes) if it]
    costs = len(lesson.launches) > 1  # the launches before run whole
    work = {it: (it.tiles or 1, _variant(lesson, it.shape) not in made, costs * it.shape.m) for it in found}
    return min(found, key=lambda it: work[it], default=None)


def _deep_beside(lesson: Lesson, seed: int) -> FarSample | None:
    """Return a deep shape with one tile of C for each block, for a far shape whose blocks have several tiles of few K
    tiles each; None for a lesson of several launches."""
    if len(lesson.launches) > 1 or (deep := hidden_instead(lesson, seed)[:1]) == ():
        return None
    draw = random.Random(f"{lesson.name} deep sample {seed}")
    at = lesson.at(deep[0])
    steps, tile = astuple(lesson.shapes.multiple_of), astuple(_tile(at))
    rows, cols = (lcm(step, size) for step, size in zip(steps[:2], tile[:2], strict=True))
    far = Shape(-(-HUGE // rows) * rows, -(-HUGE // cols) * cols, deep[0].k, layout=deep[0].layout)
    blocks = lesson.at(far).grids(far)[0].blocks
    side = (blocks * tile[0] * tile[1]) ** 0.5
    downs = [it for it in range(1, blocks + 1) if blocks % it == 0 and min(it * rows, blocks // it * cols) >= WIDE]
    for number in range(TRIES):
        aspect = SQUARE[0] + draw.random() * (1 - SQUARE[0])
        shape = replace(far, m=int(side * aspect) // rows * rows, n=int(side) // cols * cols)
        down = _any_of(draw, downs) if downs else 0
        if lesson.choices and down and number == 0 and draw.random() < SHARING:  # the blocks of the broad one
            shape = replace(far, m=down * rows, n=blocks // down * cols)
        found = _one_of_each(lesson, shape, draw) if lesson.shapes.refusal(shape) is None else None
        if found and found.tiles == 1:
            return found
    return None


def hidden_tiles(lesson: Lesson, seed: int) -> tuple[FarTiles, ...]:
    """Return tiles of C to judge of a lesson where a later launch adds what blocks of an earlier one leave: two where
    M = N = K, and two at a shape that is far along M, N and K, where blocks share tiles."""
    multiplies = _multiplying(lesson)
    if multiplies == len(lesson.launches) - 1 or hidden_sample(lesson, seed) is None:
        return ()
    draw = random.Random(f"{lesson.name} tiles {seed}")
    layouts = lesson.shapes.layouts
    cubes = [Shape(side, side, side, layout=_any_of(draw, layouts)) for side in draw.sample(CUBES, len(CUBES))]
    others = [_of_many_tiles(lesson, draw) for _ in range(TRIES)]
    shapes = (_first_affordable(lesson, cubes, multiplies), _first_affordable(lesson, others, multiplies, shared=True))
    return tuple(_some_tiles(lesson, shape, draw) for shape in shapes if shape is not None)


def _first_affordable(
    lesson: Lesson, shapes: Iterable[Shape], multiplies: int, *, shared: bool = False
) -> Shape | None:
    """Return the first of the shapes at which a tile of C can be judged. If ``shared``, prefer one where blocks
    share tiles, and pieces of them begin at odd and at even K tiles."""
    first = None
    for shape in shapes:
        if lesson.shapes.refusal(shape) or _work_of_tile(lesson, shape, multiplies) > _affordable(lesson):
            continue
        if not shared or _has_uneven_pieces(lesson, shape, multiplies):
            return shape
        first = first or shape
    return first


def _has_uneven_pieces(lesson: Lesson, shape: Shape, multiplies: int) -> bool:
    """Tell whether blocks share tiles of an odd number of K tiles, and not the same number of blocks each tile."""
    per_block, depth = _tiles_per_block(lesson, shape, multiplies), _tile(lesson.at(shape)).k
    return per_block < SHARED_TILES and 1 / per_block % 1 > 0 and -(-shape.k // depth) % 2 > 0


def _of_many_tiles(lesson: Lesson, draw: random.Random) -> Shape:
    """Return a shape of ``TILE_WAYS`` tiles or more along M and along N."""
    steps, (rows, cols) = lesson.shapes.multiple_of, _sides_of_tile(lesson)
    number = TILE_WAYS**2 * (TILE_MANY / TILE_WAYS**2) ** draw.random()
    down = max(TILE_WAYS, int(number**0.5 * (SQUARE[0] + draw.random() * (SQUARE[1] - SQUARE[0]))))
    across = max(TILE_WAYS, int(number / down))
    m = down * rows - int(draw.random() * rows * (1 - FULL)) // steps.m * steps.m
    n = across * cols - int(draw.random() * cols * (1 - FULL)) // steps.n * steps.n
    depth = int(TILE_DEPTH[0] * (TILE_DEPTH[1] / TILE_DEPTH[0]) ** draw.random())
    return Shape(m, n, -(-depth // steps.k) * steps.k, layout=_any_of(draw, lesson.shapes.layouts))


def _sides_of_tile(lesson: Lesson) -> tuple[int, int]:
    """Return the rows and columns of a block tile, and of whole steps of M and N."""
    steps, tile = lesson.shapes.multiple_of, _tile(lesson.at(lesson.shapes.count))
    return lcm(tile.m, steps.m), lcm(tile.n, steps.n)


def _some_tiles(lesson: Lesson, shape: Shape, draw: random.Random) -> FarTiles:
    """Return two of a shape's tiles, side by side: a mistake in every second tile is in one of them."""
    rows, cols = _sides_of_tile(lesson)
    row = int(draw.random() * -(-shape.m // rows)) * rows
    col = int(draw.random() * (-(-shape.n // cols) - 1)) * cols
    return FarTiles(shape, range(row, min(shape.m, row + rows)), range(col, min(shape.n, col + 2 * cols)))


def _work_of_tile(lesson: Lesson, shape: Shape, multiplies: int) -> float:
    """Return about how many multiply-adds the blocks make that a tile of C needs, if blocks have equal shares."""
    tile = _tile(lesson.at(shape))
    return tile.m * tile.n * shape.k * (1 + 2 * _tiles_per_block(lesson, shape, multiplies))


def _tiles_per_block(lesson: Lesson, shape: Shape, multiplies: int) -> float:
    """Return tiles of C / blocks of the launch that multiplies. Below 1, blocks have to share tiles."""
    tile, blocks = _tile(lesson.at(shape)), lesson.at(shape).grids(shape)[multiplies].blocks
    return -(-shape.m // tile.m) * -(-shape.n // tile.n) / blocks


def hidden_shallow(lesson: Lesson, far: Shape) -> Shape | None:
    """Return a shape as far along M and N, but of few K tiles, for which the host compiles the same kernel; None if
    there is none. Many of its blocks can be run."""
    step, tile = lesson.shapes.multiple_of.k, lesson.at(far).tile
    for depth in SHALLOWS:
        shape = replace(far, k=-(-depth * max(SHALLOW, _tile(lesson).k) // step) * step)
        if shape.k < far.k and lesson.shapes.refusal(shape) is None and lesson.at(shape).tile == tile:
            return shape
    return None


def hidden_long(
    lesson: Lesson, seed: int, layout: str, choice: Callable[[Shape], Hashable]
) -> Mapping[Hashable, tuple[Shape, ...]]:
    """Return shapes of one K tile and of many whole tiles for each ``choice`` of the host: of those drawn, the longest
    along M, along N and along both."""
    draw, steps = random.Random(f"{lesson.name} long {seed}"), astuple(lesson.shapes.multiple_of)
    tiles = [astuple(_tile(lesson.at(it))) for it in (*lesson.shapes.check, lesson.shapes.count)]
    found: dict[Hashable, list[Shape]] = {}
    for number in range(LONG_DRAWS):
        long, short = LONG_TILES[0] * LONG_TILES[1] ** draw.random(), SHORT_TILES ** draw.random()
        tile, several = _any_of(draw, tiles), ((long, short), (short, long), (long**0.5, long**0.5))[number % 3]
        m, n = (lcm(step, size) * int(many) for step, size, many in zip(steps, tile, several, strict=False))
        k = lcm(steps[2], max(SHALLOW, tile[2])) - int(draw.random() * FEWER)
        shape = Shape(m, n, -(-k // steps[2]) * steps[2], layout=layout)
        its = _tile(lesson.at(shape)) if lesson.shapes.refusal(shape) is None else None
        if its is not None and m % its.m == n % its.n == 0:
            found.setdefault(choice(shape), []).append(shape)
    longest = (lambda it: it.m, lambda it: it.n, lambda it: min(it.m, it.n))
    return {it: tuple(dict.fromkeys(max(its, key=key) for key in longest)) for it, its in found.items()}


def hidden_candidates(
    lesson: Lesson, seed: int, numbers: Sequence[int] = (), layouts: Sequence[str] = ()
) -> tuple[Shape, ...]:
    """Return many shapes, of which few are run: those whose sizes matter to a kernel. Those whose tiles are full, so
    that they may be counted, come first, and among these the smallest.

    Sizes are drawn, or round, or a multiple of another size, or near one; near a multiple of a tile or of one of the
    ``numbers`` that the kernel's code compares sizes with; or near such a number, or as many tiles. Two are equal and
    just above such a number. ``layouts``: those to draw from, else all of the lesson.
    """
    draw = random.Random(f"{lesson.name} candidates {seed}")
    steps, tile = astuple(lesson.shapes.multiple_of), astuple(_tile(lesson.at(lesson.shapes.count)))
    limits = dict(lesson.shapes.at_most)
    most = [limits.get(name, WIDEST) // step * step for name, step in zip(SIZES, steps, strict=True)]
    short = [it for it in numbers if it <= LONGEST_PERIOD]
    periods = [(size, *PERIODS, *short) for size in tile]
    bounds = [(*numbers, *(it * size for it in numbers), *ROUNDED) for size in tile]
    layouts = layouts or lesson.shapes.layouts
    sides = [max(size, SHALLOW) for size in tile]
    found: dict[tuple[int, int, int], str] = {}
    for number in range(CANDIDATES + CANDIDATES_OF_NUMBERS * bool(numbers)):
        if draw.random() < ALL_NEAR:
            sizes = _near_sizes(draw, steps, periods, short)
        else:
            sizes = _some_sizes(draw, steps, periods, short, bounds)
        m, n, k = (
            min(max(1, size // step) * step, limit) for size, step, limit in zip(sizes, steps, most, strict=True)
        )
        if m * n * k <= (SAMPLED if number < CANDIDATES // 2 else SOMEWHAT_LARGE):
            found[m, n, k] = _any_of(draw, layouts)
    for number, by, axes in product(numbers, (1, ALIGNED), combinations(range(3), 2)):
        its = [lcm(step, by) for step in steps]
        side = lcm(*(its[axis] for axis in axes))
        for axis in axes:
            its[axis] = (number // side + 1) * side
        if prod(its) <= SAMPLED and all(size <= limit for size, limit in zip(its, most, strict=True)):
            found[its[0], its[1], its[2]] = _any_of(draw, layouts)

    def order(sizes: tuple[int, int, int]) -> tuple[bool, int]:
        ragged = any(size < FULL * by * -(-size // by) for size, by in zip(sizes, sides, strict=True))
        return ragged, prod(sizes)

    return tuple(Shape(*sizes, layout=found[sizes]) for sizes in sorted(found, key=order))


def _near_sizes(
    draw: random.Random, steps: Sequence[int], periods: Sequence[Sequence[int]], remainders: Sequence[int]
) -> list[int]:
    """Return M, N and K that are all near multiples of a tile or a number, most often of the same one."""
    axis = int(draw.random() * len(steps))
    period = _any_of(draw, periods[axis])
    return [
        _near_multiple(draw, step, period if draw.random() < SAME_PERIOD else _any_of(draw, its), remainders)
        for step, its in zip(steps, periods, strict=True)
    ]


def _some_sizes(
    draw: random.Random,
    steps: Sequence[int],
    periods: Sequence[Sequence[int]],
    remainders: Sequence[int],
    bounds: Sequence[Sequence[int]],
) -> list[int]:
    """Return M, N and K of several kinds, some of them related."""
    sizes = []
    for step, its, numbers in zip(steps, periods, bounds, strict=True):
        kind = draw.random()
        if kind < NEAR:
            sizes.append(_near_multiple(draw, step, _any_of(draw, its), remainders))
        elif kind < NEAR + ROUND:
            sizes.append(_any_of(draw, numbers) + _a_little(draw) * step)
        else:
            sizes.append(int(step * (1 + 2.0 ** (draw.random() * 10))))
    first = int(draw.random() * 3)
    then = (first + 1 + int(draw.random() * 2)) % 3
    if draw.random() < RELATED:
        sizes[then] = sizes[first] * _any_of(draw, RATIOS) + _a_little(draw)
        if draw.random() < RELATED:
            sizes[3 - first - then] = sizes[then] * _any_of(draw, RATIOS) + _a_little(draw)
    return sizes


def _near_multiple(draw: random.Random, step: int, period: int, remainders: Sequence[int]) -> int:
    """Return a multiple of a number, or a few steps or one of the ``remainders`` more or less."""
    times = int(2.0 ** (draw.random() * max(1, 11 - period.bit_length())))
    if remainders and draw.random() < ROUND:
        return period * times + _any_of(draw, remainders)
    return period * times + _any_of(draw, AROUND) * step


def _a_little(draw: random.Random) -> int:
    return _any_of(draw, (-1, 1, 2)) if draw.random() < ROUND else 0


def _multiplying(lesson: Lesson) -> int:
    """Return the number of the first launch that receives what depends on A and on B."""
    needs: dict[str, set[str]] = {it.name: {it.name} for it in lesson.data.factors}
    for number, launch in enumerate(lesson.launches):
        found = [it.source for name in launch.parameters if (it := lesson.data.parameter(name)) and it.kind in HELD]
        sources = set[str]().union(*(needs.get(name, set()) for name in found))
        if len(sources) > 1:
            return number
        needs |= {name: sources for name in found if lesson.data.by_name[name].role != "in"}
    return 0


def _affordable(lesson: Lesson) -> float:
    """Return how many multiply-adds of a far shape are run."""
    return SAMPLED * (_pace(lesson) if lesson.data.factors[0].element.is_float else LONG)


def _pace(lesson: Lesson) -> float:
    """Return multiply-adds per second in the simulator / those of float32."""
    element = lesson.data.factors[0].element
    return PACE.get(element.size, 1) if element.is_float else 1


def hidden_instead(lesson: Lesson, seed: int) -> tuple[Shape, ...]:
    """Return the shapes to check where no far sample can be judged: a deep one, and a broad one, long along M or N."""
    if not lesson.data.multiplies:
        return ()
    draw = random.Random(f"{lesson.name} instead {seed}")
    steps, tile = astuple(lesson.shapes.multiple_of), astuple(_tile(lesson.at(lesson.shapes.count)))
    m, n, k = (_Axis(draw, step, size, 0) for step, size in zip(steps, tile, strict=True))
    whole = not lesson.data.factors[0].element.is_float
    less = HEAVY if lesson.shapes.products > 1 else 1
    most = min(2 * HUGE, _affordable(lesson) / (m.tile * n.tile)) if whole else DEPTH * 1.1 / less
    depth = max(DEPTH // less, int(most * (1 - draw.random() / 10)))
    deep = Shape(m.tiles(1), n.tiles(1), -(-depth // steps[2]) * steps[2])
    long, narrow = int((BROAD + draw.random() * BROAD / 4) / less), int(draw.random() * 2)
    area = 0 if len(lesson.launches) > 1 else min(AREA, _affordable(lesson) / (WALK * k.tile))
    of_narrow, step = (m, n)[narrow], steps[1 - narrow]
    sides = [-(-long // step) * step] * 2
    sides[narrow] = of_narrow.tiles(max(1, int(area / long / of_narrow.tile)))
    broad = Shape(sides[0], sides[1], k.tiles(1 if lesson.shapes.products > 1 else WALK))
    deep = replace(deep, layout=_layout(lesson, seed, "deep", _any_of(draw, lesson.shapes.layouts)))
    broad = replace(broad, layout=_layout(lesson, seed, "far", _any_of(draw, lesson.shapes.layouts)))
    return _allowed(lesson, deep), _allowed(lesson, broad)


def hidden_ways(lesson: Lesson, seed: int) -> tuple[Shape, ...]:
    """Return more hidden shapes to count: one for each layout, and for each tile that the host chooses, that no other
    shape has; the far ones where it chooses nothing."""
    if not lesson.choices:
        return _far(lesson, seed)
    draw, shapes = random.Random(f"{lesson.name} ways {seed}"), lesson.shapes
    known = (*shapes.check, shapes.count)
    counted = (shapes.count, *hidden_counts(lesson, seed)[: 1 + _counts_the_deep(lesson, seed)])
    sizes = map(astuple, (shapes.multiple_of, _tile(lesson), *known))
    m, n, k = (_Axis(draw, *it) for it in zip(*sizes, strict=True))
    found_in = {it.layout for it in (*counted, *_counted_far(lesson, seed))}
    missing = [layout for layout in shapes.layouts if layout not in found_in]
    depths = (k.shallow() if number else k.whole(WALK) for number in range(len(missing)))
    found = [Shape(m.small(), n.small(), depth, layout=it) for depth, it in zip(depths, missing, strict=True)]
    tiles = {tile_sizes(lesson.at(it)) for it in counted}
    for like in known:
        tile = tile_sizes(lesson.at(like))
        if tile not in tiles and like.k >= WALK * tile.depth:
            drawn = (_near(lesson, draw, like, tile) for _ in range(TRIES))
            fit = (it for it in drawn if it not in known and tile_sizes(lesson.at(it)) == tile)
            found += [shape for shape in [next(fit, None)] if shape is not None]
            tiles.add(tile)
    return tuple(_allowed(lesson, it) for it in found)


@lru_cache(maxsize=MEMOISED)
def hidden_and_counted(lesson: Lesson, seed: int) -> tuple[Shape, ...]:
    """Return every hidden shape that a graded run with this seed counts, but the far one and what replaces it."""
    (wide, deep), large = hidden_counts(lesson, seed), hidden_large(lesson, seed)
    known = (*lesson.shapes.check, lesson.shapes.count)
    # The large one is the wide one, too, if it is as shallow, and M and N are larger than all known ones.
    covers = large.k < lesson.shapes.count.k and all(large.m > it.m and large.n > it.n for it in known)
    first = () if covers else (wide,)
    deeper = (deep,) if _counts_the_deep(lesson, seed) else ()
    return tuple(dict.fromkeys((*first, *deeper, large, *hidden_ways(lesson, seed))))


def _counts_the_deep(lesson: Lesson, seed: int) -> bool:
    """Tell whether the deep shape is counted, because no deeper one is, or its layout is missing there."""
    if not lesson.data.multiplies:
        return True
    several = bool(lesson.choices) and len(lesson.shapes.layouts) > 1
    layout = _layout(lesson, seed, "deep", lesson.shapes.count.layout)
    return several and all(it.layout != layout for it in _counted_far(lesson, seed))


def _counted_far(lesson: Lesson, seed: int) -> tuple[Shape, ...]:
    """Return the far shapes that are counted, whether blocks of the kernel can be sampled or not."""
    sample = hidden_sample(lesson, seed)
    return (*sample.beside, sample.shape) if sample else hidden_instead(lesson, seed)


def hidden_and_checked(lesson: Lesson, seed: int) -> tuple[Shape, ...]:
    """Return every hidden shape that a graded run with this seed only checks, and the far one or what replaces it."""
    return (*hidden_checks(lesson, seed), *_counted_far(lesson, seed))


def is_countable(lesson: Lesson, shape: Shape) -> bool:
    """Tell whether gates hold at a teacher's secret shape, because it fills its tiles."""
    tile = astuple(_tile(lesson.at(shape)))
    sizes = ((size, max(by, SHALLOW)) for size, by in zip(astuple(shape), tile, strict=True))
    return all(size >= FULL * by * -(-size // by) for size, by in sizes)


@lru_cache(maxsize=MEMOISED)
def hidden_checks(lesson: Lesson, seed: int) -> tuple[Shape, ...]:
    """Return more hidden shapes of such a run, to check without counting.

    Where the host compiles a kernel for each shape, few of them need one that no known or counted shape needs: of the
    small ones, one, in a layout drawn for it alone.
    """
    draw = random.Random(f"{lesson.name} checks {seed}")
    shared = (_large(lesson, draw),) if len(lesson.launches) > 1 and not _shares_depth(lesson) else ()
    made = _variants(lesson, seed) if lesson.choices else frozenset()
    if not lesson.choices:
        chosen: list[Shape] = []
        small = list(_small(lesson, draw))
    else:
        chosen = _of_choices(lesson, seed, draw, made)
        made |= {_variant(lesson, it) for it in chosen}
        # Others count these:
        far: dict[int, list[Shape]] = {}
        for number in range(MANY_DRAWS):
            for axis, shape in _far_by_axis(lesson, seed, number).items():
                far.setdefault(axis, []).append(shape)
        chosen += _of_few_variants(lesson, made, [list(far.values())])
        made |= {_variant(lesson, it) for it in chosen}
        draws = ([[shape] for shape in _small(lesson, draw)] for _ in range(MANY_DRAWS))
        small = list(_of_few_variants(lesson, made, draws))
        fresh = int(draw.random() * len(small))
        small[fresh] = replace(small[fresh], layout=_any_of(draw, lesson.shapes.layouts))
    if lesson.choices:
        small += _of_few_variants(lesson, made, [_beside_of_choices(lesson, draw)])
    else:
        small += _beside(lesson, draw)
    if prod(astuple(lesson.shapes.multiple_of)) >= MUCH:
        small = _with_other_remainders(lesson, seed, small, chosen)
    found = [_allowed(lesson, it) for it in (*chosen, *shared, *small)]
    return tuple(it for it in dict.fromkeys(found) if it not in (*lesson.shapes.check, lesson.shapes.count))


def hidden_alike(lesson: Lesson, seed: int) -> Mapping[Shape, Alike]:
    """Return small shapes that no other launch has, to check with inputs that are all alike but for a few, and how they
    are alike (``EQUAL_AXES``); one of these where a tile is much work. None needs a variant of its own."""
    if not lesson.data.multiplies:
        return {}
    draw = random.Random(f"{lesson.name} alike {seed}")
    steps, tile = astuple(lesson.shapes.multiple_of), astuple(_tile(lesson))
    others = hidden_checks(lesson, seed)
    taken = {*lesson.shapes.check, lesson.shapes.count, *hidden_and_counted(lesson, seed), *others}
    made = _variants(lesson, seed) | {_variant(lesson, it) for it in others}
    found: dict[Shape, Alike] = {}
    number = 1 if prod(steps) > MUCH else len(ALIKE)
    for alike in draw.sample(ALIKE, number):
        for _ in range(DRAWS):
            m, n, k = (_Axis(draw, step, size, 0) for step, size in zip(steps, tile, strict=True))
            shape = Shape(m.small(1), n.small(1), k.tiles(WALK), layout=_any_of(draw, lesson.shapes.layouts))
            step = lcm(*(size for size, axis in zip(steps, SIZES, strict=True) if axis in EQUAL_AXES[alike]))
            side = -(-(shape.k if "zero" in alike else shape.m) // step) * step
            equal: Mapping[str, Any] = dict.fromkeys(EQUAL_AXES[alike].lower(), side)
            shape = _allowed(lesson, replace(shape, **equal))
            while shape in taken or shape in found:
                more = {axis: getattr(shape, axis) + step for axis in EQUAL_AXES[alike].lower()}
                shape = replace(shape, **more)
            if _variant(lesson, shape) in made:
                found[shape] = alike
                break
    return found


def _variants(lesson: Lesson, seed: int) -> frozenset[Hashable]:
    """Return the variants of the known and the counted shapes: a compilation each."""
    known = (*lesson.shapes.check, lesson.shapes.count)
    return frozenset(_variant(lesson, it) for it in (*known, *hidden_and_counted(lesson, seed)))


def _variant(lesson: Lesson, shape: Shape) -> Hashable:
    """Return what the host chooses for a shape, as far as the reference's code names it: shapes with the same need one
    compilation of the reference, and of most kernels."""
    return lesson.named_at(shape)


def _of_few_variants(
    lesson: Lesson, made: frozenset[Hashable], draws: Iterable[Sequence[Sequence[Shape]]]
) -> tuple[Shape, ...]:
    """Return the shapes of the first draw that needs the fewest variants of the kernel beside those that are ``made``.
    For each of its shapes, a draw has candidates, and each of these is taken in any layout."""
    fewest: tuple[Shape, ...] = ()
    least = None
    for draw in list(draws):  # all are drawn: what is drawn after them may not depend on the variants
        shapes = _covered(lesson, made, draw)
        number = len({_variant(lesson, it) for it in shapes} - made)
        if least is None or number < least:
            fewest, least = shapes, number
        if least == 0:
            break
    return fewest


def _covered(lesson: Lesson, made: frozenset[Hashable], places: Sequence[Sequence[Shape]]) -> tuple[Shape, ...]:
    """Return one candidate for each place: of those for which a variant that is ``made`` fits, the first; then of those
    for which one more variant fits, that which fits at the most places; and so on."""
    fitting = [_by_variant(lesson, candidates) for candidates in places]
    found: dict[int, Shape] = {}
    known = list(made)
    while True:
        for variant in known:
            for place, shapes in enumerate(fitting):
                if place not in found and variant in shapes:
                    found[place] = min((shapes[it] for it in known if it in shapes), key=lambda it: it[0])[1]
        rest = [shapes for place, shapes in enumerate(fitting) if place not in found]
        if not rest:
            return tuple(found[place] for place in range(len(places)))
        number = Counter(variant for shapes in rest for variant in shapes)
        known = [max(number, key=lambda variant: number[variant])]


def _by_variant(lesson: Lesson, candidates: Iterable[Shape]) -> dict[Hashable, tuple[int, Shape]]:
    """Return the first of the candidates for each variant of the kernel, and its number: first all in the layouts that
    they have, then in the others."""
    given = list(candidates)
    others = (Shape(it.m, it.n, it.k, layout=layout) for layout in lesson.shapes.layouts for it in given)
    found: dict[Hashable, tuple[int, Shape]] = {}
    for number, shape in enumerate((*given, *others)):
        found.setdefault(_variant(lesson, shape), (number, shape))
    return found


def _of_choices(lesson: Lesson, seed: int, draw: random.Random, made: frozenset[Hashable]) -> list[Shape]:
    """Return other shapes for each tile that the host chooses for a known shape."""
    shapes = lesson.shapes
    known = (*shapes.check, shapes.count)
    counted = {tile_sizes(lesson.at(it)) for it in hidden_counts(lesson, seed)[:1]}
    tiles = {shape: tile_sizes(lesson.at(shape)) for shape in known}
    found = []
    if shapes.multiple_of.k == 1:
        deepest = max(known, key=lambda it: it.k)
        depths = [DEEPER[0] + draw.random() * (DEEPER[1] - DEEPER[0]) for _ in range(DRAWS)]
        depths += [1 + draw.random() * (DEEPER[0] - 1) for _ in range(MANY_DRAWS)]
        deeper = [replace(deepest, k=int(deepest.k * depth) + 1) for depth in depths]
        found.append(next((it for it in deeper if _variant(lesson, it) in made), deeper[0]))
    for tile in dict.fromkeys(it for it in tiles.values() if it not in counted):
        alike = [shape for shape in known if tiles[shape] == tile]
        for axis, size in (("m", tile.rows), ("n", tile.cols)):
            most = max(getattr(shape, axis) for shape in alike)
            if most > MANY * size:
                continue
            largest = max(alike, key=lambda it: it.m * it.n)
            drawn = (_near(lesson, draw, largest, tile) for _ in range(TRIES))
            many = -(-most // size)  # tiles along the axis
            fit = [it for it in drawn if getattr(it, axis) > many * size and tile_sizes(lesson.at(it)) == tile]
            found += sorted(fit, key=lambda it: _variant(lesson, it) not in made)[:1]
    return found


def _large(lesson: Lesson, draw: random.Random) -> Shape:
    """Return a shape of similar length along each axis: kernels that divide the K tiles have many blocks here."""
    side = int((WORK / 4) ** (1 / 3) * (1 + draw.random() / 8))
    sizes = (max(1, side // step) * step for step in astuple(lesson.shapes.multiple_of))
    return Shape(*sizes, layout=_any_of(draw, lesson.shapes.layouts))


def _far(lesson: Lesson, seed: int) -> tuple[Shape, ...]:
    """Return one shape along each axis, thousands long and a tile or two wide: along K, along M or N, along the
    other. Without those that ``hidden_instead`` has as well, if it replaces the sample."""
    return tuple(_far_by_axis(lesson, seed).values())


def _far_by_axis(lesson: Lesson, seed: int, number: int | None = None) -> dict[int, Shape]:
    """Return the shapes of ``_far``, or others for each ``number``, by the axis along which they are long."""
    draw = random.Random(f"{lesson.name} far {seed}" + ("" if number is None else f" {number}"))
    steps, tile = astuple(lesson.shapes.multiple_of), astuple(_tile(lesson))
    work = WORK // lesson.data.factors[0].element.size
    longer = 1.0 if lesson.choices else 0.5  # a longer one may need no variant of its own
    found: dict[int, Shape] = {}
    twice = set[int]()
    sample = hidden_sample(lesson, seed)
    if sample and sample.beside:
        twice = {2}
    elif sample is None and (instead := hidden_instead(lesson, seed)):
        twice = {2, int(instead[1].n > instead[1].m)}
    for axis in (2, *draw.sample((0, 1), 2)):
        if axis in twice:
            continue
        m, n, k = (_Axis(draw, *it) for it in zip(steps, tile, strict=True))
        dear = axis != 2 and bool(lesson.choices) and _has_dear_tiles(lesson)
        sizes = [m.small(1), n.small(1), k.tiles(1 if dear else WALK)]
        most = min(int(FAR[axis] * (1 + draw.random() * longer)), (work >> dear) * sizes[axis] // prod(sizes))
        if dear and most < WALK * sizes[axis]:
            continue
        most *= DEEP if axis == 2 and draw.random() < SOME else 1
        sizes[axis] = max(1, most // steps[axis]) * steps[axis]
        found[axis] = _allowed(lesson, Shape(*sizes, layout=_any_of(draw, lesson.shapes.layouts)))
    return found


def _small(lesson: Lesson, draw: random.Random) -> Iterator[Shape]:
    """Yield shapes among which each remainder of M, N and K occurs once, of sizes or of numbers of tiles; a square one;
    and one whose last tiles have one row, one column and one k."""
    steps, tile = astuple(lesson.shapes.multiple_of), astuple(_tile(lesson))
    little = LITTLE * _pace(lesson)
    many = REMAINDERS if not lesson.choices and 2 * REMAINDERS * prod(steps) <= little else FEW
    columns = []
    for step, size, place in zip(steps, tile, draw.sample(range(many), len(steps)), strict=True):
        rounds = max(1, (size if size > 1 else SHALLOW) // step // many) + 1
        sizes = [n + many * int(draw.random() * rounds) * (n > 1) or many for n in range(many)]  # size 1 stays 1
        order = draw.sample([n for n in range(many) if n != 1], many - 1)
        order.insert(place, 1)  # never 1 along two axes
        columns.append([step * sizes[n] for n in order])
    side = lcm(*steps) * (1 + int(draw.random() * many * many) // lcm(*steps))
    for m, n, k in (*zip(*columns, strict=True), (side, side, side)):
        few = m * n * k > little
        yield Shape(steps[0] if few else m, steps[1] if few else n, k, layout=_any_of(draw, lesson.shapes.layouts))
    if prod(steps) == 1 and not lesson.choices:  # otherwise they are known ones, or each needs another kernel
        yield Shape(*(size + 1 if size > 1 else SHALLOW + 1 for size in tile))


def _beside(lesson: Lesson, draw: random.Random) -> list[Shape]:
    """Return shapes that lack one, two and three steps to whole tiles along each axis, and one that has a step more."""
    aways = zip(*(draw.sample(range(-FEWER, 0), FEWER) for _ in range(3)), strict=True)
    found = (_beside_tiles(lesson, draw, away) for away in (*aways, (1, 1, 1)))
    return [shape for shape in found if shape is not None]


def _beside_of_choices(lesson: Lesson, draw: random.Random) -> list[list[Shape]]:
    """Return candidates for a shape that lacks one to three steps to whole tiles along each axis or has one more."""
    found: list[list[Shape]] = []
    for more in (False, True):
        aways = [[1 if more else -1 - int(draw.random() * FEWER) for _ in range(3)] for _ in range(MANY_DRAWS)]
        drawn = (_beside_tiles(lesson, draw, away) for away in aways)
        found.append([shape for shape in drawn if shape is not None])
    return [it for it in found if it]


def _beside_tiles(lesson: Lesson, draw: random.Random, away: Sequence[int]) -> Shape | None:
    """Return a shape of two or three tiles along each axis, and so many steps more; None if tiles must be whole."""
    steps, tile = astuple(lesson.shapes.multiple_of), astuple(_tile(lesson))
    sides = [max(size, step) if size > 1 else max(SHALLOW, step) for size, step in zip(tile, steps, strict=True)]
    if all(step >= side for step, side in zip(steps, sides, strict=True)):
        return None
    tiles = [2 + int(draw.random() * 2) for _ in sides]
    sizes = [
        (number * side + more * step * (step < side)) // step * step
        for number, side, more, step in zip(tiles, sides, away, steps, strict=True)
    ]
    return _allowed(lesson, Shape(*sizes, layout=_any_of(draw, lesson.shapes.layouts)))


def _with_other_remainders(lesson: Lesson, seed: int, small: Sequence[Shape], others: Sequence[Shape]) -> list[Shape]:
    """Return the small shapes, of one tile of C each, whose number of K tiles leaves a remainder that no larger shape
    leaves; and the one with M = N = K, if none is sampled."""
    step = lesson.shapes.multiple_of.k
    larger = (*lesson.shapes.check, lesson.shapes.count, *hidden_and_counted(lesson, seed), *others)
    left = {it.k // step % FEW for it in larger}
    sampled = hidden_sample(lesson, seed) is not None and _cube(lesson, seed) is not None
    squares = [] if sampled else [it for it in small if it.m == it.n == it.k]
    return [it for it in small if it in squares or it.k // step % FEW not in left]


def _any_of(draw: random.Random, things: Sequence[T]) -> T:
    return things[int(draw.random() * len(things))]


def _near(lesson: Lesson, draw: random.Random, like: Shape, tile: TileSizes) -> Shape:
    """Return a shape of about as many tiles as ``like``, possibly much wider or much higher."""
    step = lesson.shapes.multiple_of
    tiles = -(-like.m // tile.rows) * -(-like.n // tile.cols)
    across = int(tiles ** draw.random())
    down = -(-tiles // across) + int(draw.random() * 2)
    m, n = (  # ragged ones, where the lesson allows them
        count * size - int(draw.random() * size) if by == 1 else max(1, count * size // by) * by
        for count, size, by in ((down, tile.rows, step.m), (across, tile.cols, step.n))
    )
    return replace(like, m=m, n=n)


def _tile(lesson: Lesson) -> Shape:
    tile = tile_sizes(lesson)
    return Shape(tile.rows, tile.cols, tile.depth)


class _Axis:
    """M, N or K: its required factor, the size of a tile, the known sizes."""

    def __init__(self, draw: random.Random, step: int, tile: int, *known: int, less: float = 0.0) -> None:
        self._draw, self._step, self._less = draw, step, less
        self.tile = max(tile, step) if tile > 1 else max(SHALLOW, step)
        self._largest = max(known, default=0)
        self._is_ragged = step < self.tile  # the last tile may be

    def beyond(self, most: int) -> int:
        """Return a size above the known ones: in the next tile if tiles need not be whole, else one of the next."""
        first = -(-(self._largest + 1) // self.tile)
        return self._size(first if self._is_ragged else first + int(self._draw.random() * most), self._largest + 1)

    def small(self, most: int = 2) -> int:
        """Return a size of one tile, or of up to ``most`` where tiles must be whole."""
        return self._size(1 if self._is_ragged else 1 + int(self._draw.random() * most))

    def tiles(self, number: int) -> int:
        """Return a size of this many tiles."""
        return self._size(number)

    def whole(self, number: int) -> int:
        """Return a size of this many tiles, all of them whole."""
        return number * self.tile

    def shallow(self) -> int:
        """Return a size of two or three tiles where the known sizes have several, to show the transition."""
        return self._size(2 + int(self._draw.random() * 2) if self._largest > 3 * self.tile else 1)

    def _size(self, tiles: int, least: int = 1) -> int:
        """Return a multiple of the step with this many tiles: whole ones where required, else ragged. A share
        (``less``) of the ragged ones lack one to three steps."""
        last = tiles * self.tile - (self._step if self._is_ragged else 0)
        first = max(int((tiles - 1 + FULL) * self.tile), least)
        choices = range(-(-first // self._step), last // self._step + 1)
        if self._less and self._draw.random() < self._less:
            choices = choices[-FEWER:]
        return self._step * (choices[int(self._draw.random() * len(choices))] if choices else -(-first // self._step))
