"""Hidden shapes on which a graded run also counts: a kernel may use the lesson's method only on the known ones.

There are a wide and shallow one, whose M and N are larger than all known ones (for huge shapes, one of both is), unless
the large one is so; a small and deep one, whose K is larger, unless a deeper one has its layout; and a large one of
``MANY_WAYS`` tiles or more along M and along N and three K tiles, or four small ones, or two where a tile is much work.
The large one has about ``LARGE`` multiply-adds, or as many as those tiles have, if these are more. Where blocks may
divide the K tiles, and a tile is little work, it is deep instead: ``SHARED`` multiply-adds, for many blocks.

Where the host chooses the block tile by M, N and K, a tile of none of these shapes is counted on a shape of its own, to
detect a kernel that uses the lesson's method only for the others. So is a layout, but most often the large, the far and
the deep shape have all layouts that the counting shape has not (``layout_of``). The large shape of such a lesson has
whole tiles of K, to detect a kernel that handles a partial tile there all the same. Where the host chooses nothing, the
far-out shapes are counted, too, with M, N or K of thousands and the others of one or two tiles.

A learner's own run has no hidden shapes. The wide one alone takes from a fifth to more than the time of all known
checks together, and a learner gains nothing by deceiving an own run.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import lru_cache
from math import lcm, prod

from gemm_lessons.course import Lesson, tile_sizes
from gemm_lessons.gemm import Shape, astuple
from gemm_lessons.running.drawing import (
    ALIGNED,
    FULL,
    MANY_WAYS,
    SHALLOW,
    SHARED,
    SHARING,
    WIDEST,
    Axis,
    allowed,
    any_of,
    axes,
    has_dear_tiles,
    layout_of,
    near,
    shares_depth,
    tile_of,
    variant_of,
)
from gemm_lessons.running.far_shapes import MEMOISED, SQUARE, TRIES, WALK, counted_far, hidden_instead, hidden_sample

LESS = 0.5  # of the large shapes that are not aligned lack one of a few steps to whole tiles
MANY_DRAWS = 40  # sets of long and of small shapes to draw, which seldom need the same variants
FAR = (2400, 2400, 1100)  # M, N, K of far shapes, at least, and half as much again at most ...
# ... but at most this many multiply-adds / bytes of an input: async_copy has a second band.
WORK = 9 << 23
# Some runs are deeper by this factor: the largest K at which a kernel must be right is not known.
DEEP, SOME = 2, 0.25
LARGE = 1 << 24  # multiply-adds of a large shape, where tiles allow it
HEAVY_WAYS = 3  # ... and of a kernel that makes several products for each of C's


def hidden_counts(lesson: Lesson, seed: int) -> tuple[Shape, ...]:
    """Return two hidden shapes of a graded run with this seed: the wide one, or the large one if the host chooses
    something by the shape, and the deep one."""
    draw = random.Random(f"{lesson.name} hides {seed}")
    known = (*lesson.shapes.check, lesson.shapes.count)
    large = hidden_large(lesson, seed) if lesson.choices else None
    m, n, k = axes(draw, lesson.shapes.multiple_of, tile_of(lesson), *known)
    wide = Shape(m.beyond(2), n.beyond(2), k.shallow())
    if wide.m * wide.n > WIDEST:
        wide = replace(wide, n=n.small()) if draw.random() < 0.5 else replace(wide, m=m.small())
    deep = Shape(m.small(), n.small(), k.beyond(6))
    wide = replace(wide, layout=layout_of(lesson, seed, "large", any_of(draw, lesson.shapes.layouts)))
    deep = replace(deep, layout=layout_of(lesson, seed, "deep", any_of(draw, lesson.shapes.layouts)))
    if lesson.choices and draw.random() < SHARING:
        others = (replace(deep, m=m.small(), n=n.small(), k=k.beyond(6)) for _ in range(MANY_DRAWS))
        made = {variant_of(lesson, it) for it in known}
        deep = next((it for it in others if variant_of(lesson, allowed(lesson, it)) in made), deep)
    return (allowed(lesson, wide) if large is None else large), allowed(lesson, deep)


def hidden_large(lesson: Lesson, seed: int) -> Shape:
    """Return the hidden shape that is large along M and N at once, and to be counted."""
    draw = random.Random(f"{lesson.name} large {seed}")
    steps, tile = astuple(lesson.shapes.multiple_of), astuple(tile_of(lesson.at(lesson.shapes.count)))
    layout = layout_of(lesson, seed, "large", any_of(draw, lesson.shapes.layouts))
    aligned = ALIGNED if draw.random() < 0.5 else 1
    less = 1.0 if aligned == 1 and draw.random() < LESS else 0.0
    m, n, k = (Axis(draw, lcm(step, aligned), size, less=less) for step, size in zip(steps, tile, strict=True))
    dear = len(lesson.launches) > 1 and 3 * MANY_WAYS**2 * m.tile * n.tile * k.tile > 2 * LARGE
    number = WALK if dear or has_dear_tiles(lesson) else 3 + int(draw.random() * 2) * (k.tile <= SHALLOW)
    if shares_depth(lesson):
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
    return allowed(lesson, Shape(rows, cols, depth, layout=layout))


def hidden_ways(lesson: Lesson, seed: int) -> tuple[Shape, ...]:
    """Return more hidden shapes to count: one for each layout, and for each tile that the host chooses, that no other
    shape has; the far ones where it chooses nothing."""
    if not lesson.choices:
        return _far(lesson, seed)
    draw, shapes = random.Random(f"{lesson.name} ways {seed}"), lesson.shapes
    known = (*shapes.check, shapes.count)
    counted = (shapes.count, *hidden_counts(lesson, seed)[: 1 + _counts_the_deep(lesson, seed)])
    m, n, k = axes(draw, shapes.multiple_of, tile_of(lesson), *known)
    found_in = {it.layout for it in (*counted, *counted_far(lesson, seed))}
    missing = [layout for layout in shapes.layouts if layout not in found_in]
    depths = (k.shallow() if number else k.whole(WALK) for number in range(len(missing)))
    found = [Shape(m.small(), n.small(), depth, layout=it) for depth, it in zip(depths, missing, strict=True)]
    tiles = {tile_sizes(lesson.at(it)) for it in counted}
    for like in known:
        tile = tile_sizes(lesson.at(like))
        if tile not in tiles and like.k >= WALK * tile.depth:
            drawn = (near(lesson, draw, like, tile) for _ in range(TRIES))
            fit = (it for it in drawn if it not in known and tile_sizes(lesson.at(it)) == tile)
            found += [shape for shape in [next(fit, None)] if shape is not None]
            tiles.add(tile)
    return tuple(allowed(lesson, it) for it in found)


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
    layout = layout_of(lesson, seed, "deep", lesson.shapes.count.layout)
    return several and all(it.layout != layout for it in counted_far(lesson, seed))


def is_countable(lesson: Lesson, shape: Shape) -> bool:
    """Tell whether gates hold at a teacher's secret shape, because it fills its tiles."""
    tile = astuple(tile_of(lesson.at(shape)))
    sizes = ((size, max(by, SHALLOW)) for size, by in zip(astuple(shape), tile, strict=True))
    return all(size >= FULL * by * -(-size // by) for size, by in sizes)


def _far(lesson: Lesson, seed: int) -> tuple[Shape, ...]:
    """Return one shape along each axis, thousands long and a tile or two wide: along K, along M or N, along the
    other. Without those that ``hidden_instead`` has as well, if it replaces the sample."""
    return tuple(far_by_axis(lesson, seed).values())


def far_by_axis(lesson: Lesson, seed: int, number: int | None = None) -> dict[int, Shape]:
    """Return the shapes of ``_far``, or others for each ``number``, by the axis along which they are long."""
    draw = random.Random(f"{lesson.name} far {seed}" + ("" if number is None else f" {number}"))
    steps = astuple(lesson.shapes.multiple_of)
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
        m, n, k = axes(draw, lesson.shapes.multiple_of, tile_of(lesson))
        dear = axis != 2 and bool(lesson.choices) and has_dear_tiles(lesson)
        sizes = [m.small(1), n.small(1), k.tiles(1 if dear else WALK)]
        most = min(int(FAR[axis] * (1 + draw.random() * longer)), (work >> dear) * sizes[axis] // prod(sizes))
        if dear and most < WALK * sizes[axis]:
            continue
        most *= DEEP if axis == 2 and draw.random() < SOME else 1
        sizes[axis] = max(1, most // steps[axis]) * steps[axis]
        found[axis] = allowed(lesson, Shape(*sizes, layout=any_of(draw, lesson.shapes.layouts)))
    return found
