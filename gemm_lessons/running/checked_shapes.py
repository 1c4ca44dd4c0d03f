"""Hidden shapes on which a graded run only checks: a kernel may be right only up to the known sizes.

A block is sampled where M = N = K, a multiple of 256 and often a power of two: every benchmark has such sizes, and the
other shapes seldom do (``hidden_also``). Each lesson is checked on small shapes, among which each remainder of M, N and
K occurs once, except for those of K that larger shapes leave, where a tile is much work, and on small shapes with
inputs that are alike but for a few (``hidden_alike``).

Where the host chooses the block tile by M, N and K, each tile that it chooses for a known shape is also checked on
other shapes, unless the wide one has it: on one with more rows of tiles than any known shape with that tile, and on one
with more columns. If such a lesson takes every K, it is checked on a shape that is deeper by up to a half. One small
shape has a layout that is drawn for it alone.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import lcm, prod
from typing import Any

from gemm_lessons.course import Lesson, tile_sizes
from gemm_lessons.gemm import ALIKE, SIZES, Alike, Shape, astuple
from gemm_lessons.running.counted_shapes import MANY_DRAWS, WORK, far_by_axis, hidden_and_counted, hidden_counts
from gemm_lessons.running.drawing import (
    FEWER,
    MUCH,
    SHALLOW,
    allowed,
    any_of,
    axes,
    near,
    pace,
    shares_depth,
    tile_of,
    variant_of,
)
from gemm_lessons.running.far_shapes import (
    CUBES,
    DEPTH,
    MEMOISED,
    TRIES,
    WALK,
    FarSample,
    counted_far,
    deep_beside,
    hidden_sample,
    long_stay,
    one_of_each,
)
from gemm_lessons.running.few_variants import of_few_variants

# Which sizes are equal where inputs are alike: a kernel may take A for symmetric, or diagonal, only where M = K.
EQUAL_AXES: Mapping[Alike, str] = {"equal": "MK", "same": "MNK", "left zero": "MK", "right zero": "NK"}
DEEPER = (1.1, 1.5)  # times the largest known K
MANY = 100  # tiles along an axis of a known shape: more tiles show nothing more, and take long
DRAWS = 16  # shapes to draw until one needs no compilation of its own
LITTLE = 1 << 22  # multiply-adds of a small shape, at most, of a fast type: larger ones have one tile
REMAINDERS = 8  # of sizes, or of numbers of tiles, each of which occurs once among the small shapes ...
FEW = 4  # ... except for a lesson where a tile is much work, or the host compiles another kernel for each


def hidden_also(lesson: Lesson, seed: int) -> tuple[FarSample, ...]:
    """Return more shapes to sample where the far one is, one block of each: one of M = N = K, a deep one,
    and one of many tiles for each block."""
    if (far := hidden_sample(lesson, seed)) is None:
        return ()
    deep = None if far.shape.k >= DEPTH else deep_beside(lesson, seed)
    return tuple(it for it in (_cube(lesson, seed), deep, long_stay(lesson, seed)) if it)


def _cube(lesson: Lesson, seed: int) -> FarSample | None:
    """Return a shape of M = N = K where a block has one tile, if there is one, and which needs no variant of the kernel
    that others do not need, if there is one."""
    draw = random.Random(f"{lesson.name} cube {seed}")
    layouts = draw.sample(lesson.shapes.layouts, len(lesson.shapes.layouts))
    sides = sorted(draw.sample(CUBES, len(CUBES)), key=lambda it: it & (it - 1) > 0)  # powers of two first
    shapes = [Shape(side, side, side, layout=layout) for side in sides for layout in layouts]
    shapes = [it for it in shapes if lesson.shapes.refusal(it) is None]
    counted = (lesson.shapes.count, *hidden_and_counted(lesson, seed), *counted_far(lesson, seed))
    made = {variant_of(lesson, it) for it in counted if lesson.choices}
    found = [it for it in (one_of_each(lesson, shape, draw) for shape in shapes) if it]
    costs = len(lesson.launches) > 1  # the launches before run whole
    work = {it: (it.tiles or 1, variant_of(lesson, it.shape) not in made, costs * it.shape.m) for it in found}
    return min(found, key=lambda it: work[it], default=None)


def hidden_and_checked(lesson: Lesson, seed: int) -> tuple[Shape, ...]:
    """Return every hidden shape that a graded run with this seed only checks, and the far one or what replaces it."""
    return (*hidden_checks(lesson, seed), *counted_far(lesson, seed))


@lru_cache(maxsize=MEMOISED)
def hidden_checks(lesson: Lesson, seed: int) -> tuple[Shape, ...]:
    """Return more hidden shapes of such a run, to check without counting.

    Where the host compiles a kernel for each shape, few of them need one that no known or counted shape needs: of the
    small ones, one, in a layout drawn for it alone.
    """
    draw = random.Random(f"{lesson.name} checks {seed}")
    shared = (_large(lesson, draw),) if len(lesson.launches) > 1 and not shares_depth(lesson) else ()
    made = _variants(lesson, seed) if lesson.choices else frozenset()
    if not lesson.choices:
        chosen: list[Shape] = []
        small = list(_small(lesson, draw))
    else:
        chosen = _of_choices(lesson, seed, draw, made)
        made |= {variant_of(lesson, it) for it in chosen}
        # Others count these:
        far: dict[int, list[Shape]] = {}
        for number in range(MANY_DRAWS):
            for axis, shape in far_by_axis(lesson, seed, number).items():
                far.setdefault(axis, []).append(shape)
        chosen += of_few_variants(lesson, made, [list(far.values())])
        made |= {variant_of(lesson, it) for it in chosen}
        draws = ([[shape] for shape in _small(lesson, draw)] for _ in range(MANY_DRAWS))
        small = list(of_few_variants(lesson, made, draws))
        fresh = int(draw.random() * len(small))
        small[fresh] = replace(small[fresh], layout=any_of(draw, lesson.shapes.layouts))
    if lesson.choices:
        small += of_few_variants(lesson, made, [_beside_of_choices(lesson, draw)])
    else:
        small += _beside(lesson, draw)
    if prod(astuple(lesson.shapes.multiple_of)) >= MUCH:
        small = _with_other_remainders(lesson, seed, small, chosen)
    found = [allowed(lesson, it) for it in (*chosen, *shared, *small)]
    return tuple(it for it in dict.fromkeys(found) if it not in (*lesson.shapes.check, lesson.shapes.count))


def hidden_alike(lesson: Lesson, seed: int) -> Mapping[Shape, Alike]:
    """Return small shapes that no other launch has, to check with inputs that are all alike but for a few, and how they
    are alike (``EQUAL_AXES``); one of these where a tile is much work. None needs a variant of its own."""
    if not lesson.data.multiplies:
        return {}
    draw = random.Random(f"{lesson.name} alike {seed}")
    steps = astuple(lesson.shapes.multiple_of)
    others = hidden_checks(lesson, seed)
    taken = {*lesson.shapes.check, lesson.shapes.count, *hidden_and_counted(lesson, seed), *others}
    made = _variants(lesson, seed) | {variant_of(lesson, it) for it in others}
    found: dict[Shape, Alike] = {}
    number = 1 if prod(steps) > MUCH else len(ALIKE)
    for alike in draw.sample(ALIKE, number):
        for _ in range(DRAWS):
            m, n, k = axes(draw, lesson.shapes.multiple_of, tile_of(lesson))
            shape = Shape(m.small(1), n.small(1), k.tiles(WALK), layout=any_of(draw, lesson.shapes.layouts))
            step = lcm(*(size for size, axis in zip(steps, SIZES, strict=True) if axis in EQUAL_AXES[alike]))
            side = -(-(shape.k if "zero" in alike else shape.m) // step) * step
            equal: Mapping[str, Any] = dict.fromkeys(EQUAL_AXES[alike].lower(), side)
            shape = allowed(lesson, replace(shape, **equal))
            while shape in taken or shape in found:
                more = {axis: getattr(shape, axis) + step for axis in EQUAL_AXES[alike].lower()}
                shape = replace(shape, **more)
            if variant_of(lesson, shape) in made:
                found[shape] = alike
                break
    return found


def _variants(lesson: Lesson, seed: int) -> frozenset[Hashable]:
    """Return the variants of the known and the counted shapes: a compilation each."""
    known = (*lesson.shapes.check, lesson.shapes.count)
    return frozenset(variant_of(lesson, it) for it in (*known, *hidden_and_counted(lesson, seed)))


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
        found.append(next((it for it in deeper if variant_of(lesson, it) in made), deeper[0]))
    for tile in dict.fromkeys(it for it in tiles.values() if it not in counted):
        alike = [shape for shape in known if tiles[shape] == tile]
        for axis, size in (("m", tile.rows), ("n", tile.cols)):
            most = max(getattr(shape, axis) for shape in alike)
            if most > MANY * size:
                continue
            largest = max(alike, key=lambda it: it.m * it.n)
            drawn = (near(lesson, draw, largest, tile) for _ in range(TRIES))
            many = -(-most // size)  # tiles along the axis
            fit = [it for it in drawn if getattr(it, axis) > many * size and tile_sizes(lesson.at(it)) == tile]
            found += sorted(fit, key=lambda it: variant_of(lesson, it) not in made)[:1]
    return found


def _large(lesson: Lesson, draw: random.Random) -> Shape:
    """Return a shape of similar length along each axis: kernels that divide the K tiles have many blocks here."""
    side = int((WORK / 4) ** (1 / 3) * (1 + draw.random() / 8))
    sizes = (max(1, side // step) * step for step in astuple(lesson.shapes.multiple_of))
    return Shape(*sizes, layout=any_of(draw, lesson.shapes.layouts))


def _small(lesson: Lesson, draw: random.Random) -> Iterator[Shape]:
    """Yield shapes among which each remainder of M, N and K occurs once, of sizes or of numbers of tiles; a square one;
    and one whose last tiles have one row, one column and one k."""
    steps, tile = astuple(lesson.shapes.multiple_of), astuple(tile_of(lesson))
    little = LITTLE * pace(lesson)
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
        yield Shape(steps[0] if few else m, steps[1] if few else n, k, layout=any_of(draw, lesson.shapes.layouts))
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
    steps, tile = astuple(lesson.shapes.multiple_of), astuple(tile_of(lesson))
    sides = [max(size, step) if size > 1 else max(SHALLOW, step) for size, step in zip(tile, steps, strict=True)]
    if all(step >= side for step, side in zip(steps, sides, strict=True)):
        return None
    tiles = [2 + int(draw.random() * 2) for _ in sides]
    sizes = [
        (number * side + more * step * (step < side)) // step * step
        for number, side, more, step in zip(tiles, sides, away, steps, strict=True)
    ]
    return allowed(lesson, Shape(*sizes, layout=any_of(draw, lesson.shapes.layouts)))


def _with_other_remainders(lesson: Lesson, seed: int, small: Sequence[Shape], others: Sequence[Shape]) -> list[Shape]:
    """Return the small shapes, of one tile of C each, whose number of K tiles leaves a remainder that no larger shape
    leaves; and the one with M = N = K, if none is sampled."""
    step = lesson.shapes.multiple_of.k
    larger = (*lesson.shapes.check, lesson.shapes.count, *hidden_and_counted(lesson, seed), *others)
    left = {it.k // step % FEW for it in larger}
    sampled = hidden_sample(lesson, seed) is not None and _cube(lesson, seed) is not None
    squares = [] if sampled else [it for it in small if it.m == it.n == it.k]
    return [it for it in small if it in squares or it.k // step % FEW not in left]
