"""Hidden shapes that are far larger than the known ones, and the blocks or tiles of C that are run there.

M, N and K are largest at the far shape: ``HUGE`` rows and columns, and ``DEPTH`` k or more. There only some blocks are
run (``hidden_sample``): the values that they store are checked, and they are counted as if all blocks did the same.
Where a block has several tiles of C, or several launches follow each other, the far shape has ``SPREAD`` elements of C
and few K tiles, and one whose K is ``DEPTH`` or more is checked and counted beside it: a shape of one tile of C, or a
block of one with a tile for each block (``deep_beside``). Kernels whose blocks depend on each other are checked and
counted on whole shapes instead (``hidden_instead``): on that one and on one with few K tiles, whose M or N is ``BROAD``
or more.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import lcm

from gemm_lessons.course import Lesson
from gemm_lessons.engine.records import dataclass
from gemm_lessons.gemm import Shape, astuple
from gemm_lessons.running.drawing import (
    FEWER,
    FULL,
    SHALLOW,
    SHARING,
    affordable,
    allowed,
    any_of,
    axes,
    layout_of,
    tile_of,
)

# Tiles along an axis of a shape of which rare blocks are run: at least, times so many at most; along its other axis,
# at most; shapes to draw.
LONG_TILES, SHORT_TILES, LONG_DRAWS = (8, 64), 4, 400
SHALLOWS = (2, 3, 8, 64)  # K tiles of a far shape of which many blocks are run: the first that fits is taken
WALK = 2  # K tiles, at least, of a counted shape: with fewer there are only a first and a last tile
WIDE = 1024  # M and N of a deep shape that shares the broad one's variant, at least
TRIES = 200  # shapes to draw until one has the tile
MEMOISED = 1024  # results, each for one lesson and seed
SQUARE = (0.85, 1.18)  # the larger side of C of a large shape / the side of a square of the same work
HUGE = 16384  # M and N of a far shape, at least, and half as much again at most; K, at most
DEPTH = 5120  # K of a far shape, at least, however slowly a type is simulated
STEPS = 400_000  # multiply-adds of a thread of a far shape, at most: a block of few warps is simulated slowly
BLOCKS = 1  # of a far shape, at most: there are other sampled shapes
LATE = 0.875  # such a block has this place among all blocks, at least: indices are large there
SQUARES = 0.5  # of the far shapes have M = N, where the tiles allow it
CUBES = (1024, 1024, 1280, 1536, 2048)  # M = N = K of a sampled shape, one of these
# A shape of which a tile of C is judged, with all blocks that it needs, has at least so many tiles along M and along N,
# at most about so many in all, and a K between these.
TILE_WAYS, TILE_MANY, TILE_DEPTH = 7, 256, (800, 5600)
SHARED_TILES = 1 / 3  # of a tile, or less, is the share of a block there
ROUNDS = (9, 32)  # tiles of a block of such a shape, one after the other
SOMEWHAT = 8  # of SAMPLED, this share for a block with several tiles whose pieces a later launch adds
SPREAD = 17 << 20  # elements of C of a shape that is far along M and N only, at least
MANY_TRIES = 2000  # shapes to draw until its blocks have equal shares
BROAD = 4096  # M and N of what is checked instead of a sample, at least one of them ...
AREA = 1 << 20  # ... for so many elements of C
HEAVY = 4  # times less deep, and less broad, for a kernel that makes several products for each of C's


@dataclass(frozen=True)
class FarSample:
    """A far shape, and the blocks to run of each of its launches: some, or all. ``tiles``: the tiles of C that a block
    owes; None where a later launch stores some of them. ``beside``: a deep shape, which the sample is not. ``counted``:
    whether gates are for it."""

    shape: Shape
    blocks: tuple[Sequence[int], ...]
    tiles: int | None = 1
    beside: tuple[Shape, ...] = ()
    counted: bool = True


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
    steps, layout = astuple(lesson.shapes.multiple_of), any_of(draw, lesson.shapes.layouts)
    layout = layout_of(lesson, seed, "far", layout)
    whole_numbers = not lesson.data.factors[0].element.is_float
    huge = Shape(HUGE, HUGE, HUGE, layout=layout)
    tile, threads = astuple(tile_of(lesson.at(huge))), lesson.at(huge).grids(huge)[0].threads
    for _ in range(TRIES):
        whole = [lcm(steps[axis], tile[axis]) for axis in (0, 1)]
        whole = [lcm(*whole)] * 2 if (square := draw.random() < SQUARES) else whole
        m, n = (HUGE // by * by + int(draw.random() * HUGE / 2 / by) * by for by in whole)
        n = m if square else n
        most = min(
            2 * HUGE if whole_numbers else min(HUGE, STEPS * threads // (tile[0] * tile[1])),
            dict(lesson.shapes.at_most).get("K", 2 * HUGE),
            int(affordable(lesson) / (tile[0] * tile[1])),
        )
        depth = -(-max(DEPTH, int(most * (1 - draw.random() / 5))) // steps[2]) * steps[2]
        shape = Shape(m, n, depth, layout=layout)
        if allowed(lesson, shape) != shape:
            return None
        at = lesson.at(shape)
        blocks = at.grids(shape)[0].blocks
        if blocks * tile[0] * tile[1] < m * n:
            return None  # a block has several tiles
        if astuple(tile_of(at))[:2] == tile[:2] and blocks * tile[0] * tile[1] == m * n:
            number = max(1, min(1 if lesson.choices else BLOCKS, int(affordable(lesson) / (tile[0] * tile[1] * depth))))
            last = (blocks - 1,) if number > 1 or draw.random() < 0.5 else ()
            drawn = (int((LATE + draw.random() * (1 - LATE)) * (blocks - 1)) for _ in range(number - len(last)))
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
    steps, layout = astuple(lesson.shapes.multiple_of), any_of(draw, lesson.shapes.layouts)
    layout = layout_of(lesson, seed, "far", layout)
    for _ in range(MANY_TRIES):
        area, aspect = SPREAD * (1 + draw.random() * 0.6), SQUARE[0] + draw.random() * (SQUARE[1] - SQUARE[0])
        wanted = (area**0.5 * aspect, area**0.5 / aspect)
        tile = astuple(tile_of(lesson.at(Shape(*(-(-HUGE // it) * it for it in steps), layout=layout))))
        whole = [lcm(step, size) for step, size in zip(steps, tile, strict=True)]
        m, n = (-(-int(size) // by) * by for size, by in zip(wanted, whole, strict=False))
        shape = Shape(m, n, whole[2] * (WALK + int(draw.random() * 2)), layout=layout)
        if len(lesson.launches) > 1 and lesson.multiplying == 0:
            each = tile[0] * tile[1] * whole[2] * max(1.0, _tiles_per_block(lesson, shape, 0))
            number = int(affordable(lesson) / SOMEWHAT / each * (1 - draw.random() / 4))
            shape = replace(shape, k=whole[2] * max(WALK, number))
        if allowed(lesson, shape) != shape:
            return None
        if astuple(tile_of(lesson.at(shape))) == tile and (found := one_of_each(lesson, shape, draw)):
            deep = () if deep_beside(lesson, seed) else hidden_instead(lesson, seed)[:1]
            return replace(found, beside=deep)
    return None


def one_of_each(lesson: Lesson, shape: Shape, draw: random.Random) -> FarSample | None:
    """Return a sample of one block of the launch that multiplies and of each launch after it; None where blocks have
    unequal shares, or where the host chooses other clusters than at the counting shape, for which gates are."""
    at, multiplies = lesson.at(shape), lesson.multiplying
    grids, tile = at.grids(shape), tile_of(at)
    blocks, tiles = grids[multiplies].blocks, -(-shape.m // tile.m) * -(-shape.n // tile.n)
    clusters = (it.tile.defines.get("CLUSTER") for it in (at, lesson.at(lesson.shapes.count)))
    if tiles % blocks or len(set(clusters)) > 1:
        return None
    chosen: list[Sequence[int]] = [range(it.blocks) for it in grids[:multiplies]]
    chosen += [(int(draw.random() * it.blocks),) for it in grids[multiplies:]]
    return FarSample(shape, tuple(chosen), tiles // blocks if multiplies == len(grids) - 1 else None)


def deep_beside(lesson: Lesson, seed: int) -> FarSample | None:
    """Return a deep shape with one tile of C for each block, for a far shape whose blocks have several tiles of few K
    tiles each; None for a lesson of several launches."""
    if len(lesson.launches) > 1 or (deep := hidden_instead(lesson, seed)[:1]) == ():
        return None
    draw = random.Random(f"{lesson.name} deep sample {seed}")
    at = lesson.at(deep[0])
    steps, tile = astuple(lesson.shapes.multiple_of), astuple(tile_of(at))
    rows, cols = (lcm(step, size) for step, size in zip(steps[:2], tile[:2], strict=True))
    far = Shape(-(-HUGE // rows) * rows, -(-HUGE // cols) * cols, deep[0].k, layout=deep[0].layout)
    blocks = lesson.at(far).grids(far)[0].blocks
    side = (blocks * tile[0] * tile[1]) ** 0.5
    downs = [it for it in range(1, blocks + 1) if blocks % it == 0 and min(it * rows, blocks // it * cols) >= WIDE]
    for number in range(TRIES):
        aspect = SQUARE[0] + draw.random() * (1 - SQUARE[0])
        shape = replace(far, m=int(side * aspect) // rows * rows, n=int(side) // cols * cols)
        down = any_of(draw, downs) if downs else 0
        if lesson.choices and down and number == 0 and draw.random() < SHARING:  # the blocks of the broad one
            shape = replace(far, m=down * rows, n=blocks // down * cols)
        found = one_of_each(lesson, shape, draw) if lesson.shapes.refusal(shape) is None else None
        if found and found.tiles == 1:
            return found
    return None


def long_stay(lesson: Lesson, seed: int) -> FarSample | None:
    """Return a shape of few K tiles at which a block has ``ROUNDS`` tiles of C, one after the other, to check only;
    None where a block has one tile."""
    far = hidden_sample(lesson, seed)
    if far is None or len(lesson.launches) > 1 or (far.tiles or 1) == 1:
        return None
    draw = random.Random(f"{lesson.name} long stay {seed}")
    at = lesson.at(far.shape)
    steps, tile = astuple(lesson.shapes.multiple_of), astuple(tile_of(at))
    rows, cols, depth = (lcm(step, size) for step, size in zip(steps, tile, strict=True))
    large = replace(far.shape, m=ROUNDS[1] * rows, n=ROUNDS[1] * cols)
    blocks = lesson.at(large).grids(large)[0].blocks
    for _ in range(TRIES):
        tiles = int(ROUNDS[0] * (ROUNDS[1] / ROUNDS[0]) ** draw.random())
        number = tiles * blocks * tile[0] * tile[1] // (rows * cols)
        downs = [it for it in range(1, number) if number % it == 0 and 1 / 16 < it * rows / (number // it * cols) < 16]
        down, k_tiles = any_of(draw, downs), WALK if WALK * tiles <= ROUNDS[1] else 1
        shape = replace(far.shape, m=down * rows, n=number // down * cols, k=k_tiles * depth)
        found = one_of_each(lesson, shape, draw) if lesson.shapes.refusal(shape) is None else None
        if found and found.tiles == tiles:
            return replace(found, counted=False)
    return None


def hidden_tiles(lesson: Lesson, seed: int) -> tuple[FarTiles, ...]:
    """Return tiles of C to judge of a lesson where a later launch adds what blocks of an earlier one leave: two where
    M = N = K, and two at a shape that is far along M, N and K, where blocks share tiles."""
    multiplies = lesson.multiplying
    if multiplies == len(lesson.launches) - 1 or hidden_sample(lesson, seed) is None:
        return ()
    draw = random.Random(f"{lesson.name} tiles {seed}")
    layouts = lesson.shapes.layouts
    cubes = [Shape(side, side, side, layout=any_of(draw, layouts)) for side in draw.sample(CUBES, len(CUBES))]
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
        if lesson.shapes.refusal(shape) or _work_of_tile(lesson, shape, multiplies) > affordable(lesson):
            continue
        if not shared or _has_uneven_pieces(lesson, shape, multiplies):
            return shape
        first = first or shape
    return first


def _has_uneven_pieces(lesson: Lesson, shape: Shape, multiplies: int) -> bool:
    """Tell whether blocks share tiles of an odd number of K tiles, and not the same number of blocks each tile."""
    per_block, depth = _tiles_per_block(lesson, shape, multiplies), tile_of(lesson.at(shape)).k
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
    return Shape(m, n, -(-depth // steps.k) * steps.k, layout=any_of(draw, lesson.shapes.layouts))


def _sides_of_tile(lesson: Lesson) -> tuple[int, int]:
    """Return the rows and columns of a block tile, and of whole steps of M and N."""
    steps, tile = lesson.shapes.multiple_of, tile_of(lesson.at(lesson.shapes.count))
    return lcm(tile.m, steps.m), lcm(tile.n, steps.n)


def _some_tiles(lesson: Lesson, shape: Shape, draw: random.Random) -> FarTiles:
    """Return two of a shape's tiles, side by side: a mistake in every second tile is in one of them."""
    rows, cols = _sides_of_tile(lesson)
    row = int(draw.random() * -(-shape.m // rows)) * rows
    col = int(draw.random() * (-(-shape.n // cols) - 1)) * cols
    return FarTiles(shape, range(row, min(shape.m, row + rows)), range(col, min(shape.n, col + 2 * cols)))


def _work_of_tile(lesson: Lesson, shape: Shape, multiplies: int) -> float:
    """Return about how many multiply-adds the blocks make that a tile of C needs, if blocks have equal shares."""
    tile = tile_of(lesson.at(shape))
    return tile.m * tile.n * shape.k * (1 + 2 * _tiles_per_block(lesson, shape, multiplies))


def _tiles_per_block(lesson: Lesson, shape: Shape, multiplies: int) -> float:
    """Return tiles of C / blocks of the launch that multiplies. Below 1, blocks have to share tiles."""
    tile, blocks = tile_of(lesson.at(shape)), lesson.at(shape).grids(shape)[multiplies].blocks
    return -(-shape.m // tile.m) * -(-shape.n // tile.n) / blocks


def hidden_shallow(lesson: Lesson, far: Shape) -> Shape | None:
    """Return a shape as far along M and N, but of few K tiles, for which the host compiles the same kernel; None if
    there is none. Many of its blocks can be run."""
    step, tile = lesson.shapes.multiple_of.k, lesson.at(far).tile
    for depth in SHALLOWS:
        shape = replace(far, k=-(-depth * max(SHALLOW, tile_of(lesson).k) // step) * step)
        if shape.k < far.k and lesson.shapes.refusal(shape) is None and lesson.at(shape).tile == tile:
            return shape
    return None


def hidden_long(
    lesson: Lesson, seed: int, layout: str, choice: Callable[[Shape], Hashable]
) -> Mapping[Hashable, tuple[Shape, ...]]:
    """Return shapes of one K tile and of many whole tiles for each ``choice`` of the host: of those drawn, the longest
    along M, along N and along both."""
    draw, steps = random.Random(f"{lesson.name} long {seed}"), astuple(lesson.shapes.multiple_of)
    tiles = [astuple(tile_of(lesson.at(it))) for it in (*lesson.shapes.check, lesson.shapes.count)]
    found: dict[Hashable, list[Shape]] = {}
    for number in range(LONG_DRAWS):
        long, short = LONG_TILES[0] * LONG_TILES[1] ** draw.random(), SHORT_TILES ** draw.random()
        tile, several = any_of(draw, tiles), ((long, short), (short, long), (long**0.5, long**0.5))[number % 3]
        m, n = (lcm(step, size) * int(many) for step, size, many in zip(steps, tile, several, strict=False))
        k = lcm(steps[2], max(SHALLOW, tile[2])) - int(draw.random() * FEWER)
        shape = Shape(m, n, -(-k // steps[2]) * steps[2], layout=layout)
        its = tile_of(lesson.at(shape)) if lesson.shapes.refusal(shape) is None else None
        if its is not None and m % its.m == n % its.n == 0:
            found.setdefault(choice(shape), []).append(shape)
    longest = (lambda it: it.m, lambda it: it.n, lambda it: min(it.m, it.n))
    return {it: tuple(dict.fromkeys(max(its, key=key) for key in longest)) for it, its in found.items()}


def hidden_instead(lesson: Lesson, seed: int) -> tuple[Shape, ...]:
    """Return the shapes to check where no far sample can be judged: a deep one, and a broad one, long along M or N."""
    if not lesson.data.multiplies:
        return ()
    draw = random.Random(f"{lesson.name} instead {seed}")
    steps = lesson.shapes.multiple_of
    m, n, k = axes(draw, steps, tile_of(lesson.at(lesson.shapes.count)))
    whole = not lesson.data.factors[0].element.is_float
    less = HEAVY if lesson.shapes.products > 1 else 1
    most = min(2 * HUGE, affordable(lesson) / (m.tile * n.tile)) if whole else DEPTH * 1.1 / less
    depth = max(DEPTH // less, int(most * (1 - draw.random() / 10)))
    deep = Shape(m.tiles(1), n.tiles(1), -(-depth // steps.k) * steps.k)
    long, narrow = int((BROAD + draw.random() * BROAD / 4) / less), int(draw.random() * 2)
    area = 0 if len(lesson.launches) > 1 else min(AREA, affordable(lesson) / (WALK * k.tile))
    of_narrow, step = (m, n)[narrow], astuple(steps)[1 - narrow]
    sides = [-(-long // step) * step] * 2
    sides[narrow] = of_narrow.tiles(max(1, int(area / long / of_narrow.tile)))
    broad = Shape(sides[0], sides[1], k.tiles(1 if lesson.shapes.products > 1 else WALK))
    deep = replace(deep, layout=layout_of(lesson, seed, "deep", any_of(draw, lesson.shapes.layouts)))
    broad = replace(broad, layout=layout_of(lesson, seed, "far", any_of(draw, lesson.shapes.layouts)))
    return allowed(lesson, deep), allowed(lesson, broad)


def counted_far(lesson: Lesson, seed: int) -> tuple[Shape, ...]:
    """Return the far shapes that are counted, whether blocks of the kernel can be sampled or not."""
    sample = hidden_sample(lesson, seed)
    return (*sample.beside, sample.shape) if sample else hidden_instead(lesson, seed)
