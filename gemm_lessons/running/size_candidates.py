"""Thousands of shapes, of which few are run: those whose sizes matter to a kernel's code (``rare_sizes``)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations, product
from math import lcm, prod

from gemm_lessons.course import Lesson
from gemm_lessons.gemm import SIZES, Leading, Shape, astuple
from gemm_lessons.running.drawing import ALIGNED, FULL, SAMPLED, SHALLOW, WIDEST, affordable, any_of, tile_of

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
TIGHT, LITTLE, APART, EQUAL = 0.2, 0.2, 0.3, 0.25  # shares of lines without gaps, with ...; of equal leading dimensions
FARTHEST, HUGE_SHARE = 1 << 17, 2  # M and N of a huge shape, at most; of what is affordable, a block does a part
LEAST = 1 << 25  # multiply-adds of the deepest of these blocks, at least
STORED = 1 << 24  # bytes of a buffer with gaps, at most


def hidden_candidates(
    lesson: Lesson, seed: int, numbers: Sequence[int] = (), layouts: Sequence[str] = ()
) -> tuple[Shape, ...]:
    """Return many shapes, of which few are run: those whose sizes matter to a kernel. Those whose tiles are full, so
    that they may be counted, come first, among these those of three tiles or more along M and along N, and the
    smallest.

    Sizes are drawn, or round, or a multiple of another size, or near one; near a multiple of a tile or of one of the
    ``numbers`` that the kernel's code compares sizes with; or near such a number, or as many tiles. Two are equal and
    just above such a number. ``layouts``: those to draw from, else all of the lesson.
    """
    draw = random.Random(f"{lesson.name} candidates {seed}")
    steps, tile = astuple(lesson.shapes.multiple_of), astuple(tile_of(lesson.at(lesson.shapes.count)))
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
            found[m, n, k] = any_of(draw, layouts)
    for number, by, axes in product(numbers, (1, ALIGNED), combinations(range(3), 2)):
        its = [lcm(step, by) for step in steps]
        side = lcm(*(its[axis] for axis in axes))
        for axis in axes:
            its[axis] = (number // side + 1) * side
        if prod(its) <= SAMPLED and all(size <= limit for size, limit in zip(its, most, strict=True)):
            found[its[0], its[1], its[2]] = any_of(draw, layouts)

    def order(sizes: tuple[int, int, int]) -> tuple[bool, bool, int]:
        ragged = any(size < FULL * by * -(-size // by) for size, by in zip(sizes, sides, strict=True))
        narrow = any(size <= 2 * by for size, by in zip(sizes[:2], tile, strict=False))
        return ragged, narrow, prod(sizes)

    return tuple(Shape(*sizes, layout=found[sizes]) for sizes in sorted(found, key=order))


def hidden_huge(lesson: Lesson, seed: int, layout: str) -> tuple[Shape, ...]:
    """Return many shapes of whole tiles of which only a block can be run: M and N up to ``FARTHEST``, and a K for which
    a block makes no more multiply-adds than are affordable."""
    draw, steps = random.Random(f"{lesson.name} huge {seed}"), astuple(lesson.shapes.multiple_of)
    tile = tile_of(lesson.at(lesson.shapes.count))
    limits = dict(lesson.shapes.at_most)
    deepest = max(affordable(lesson) / HUGE_SHARE, LEAST) / (tile.m * tile.n)
    found = []
    for _ in range(CANDIDATES // 2):
        sides = (lcm(step, size) for step, size in zip(steps, (tile.m, tile.n), strict=False))
        m, n = (max(1, int(FARTHEST ** draw.random() / side)) * side for side in sides)
        k = max(1, int(deepest ** draw.random() / steps[2])) * steps[2]
        shape = Shape(m, n, min(k, limits.get("K", k)), layout=layout)
        found += [shape] if lesson.shapes.refusal(shape) is None else []
    return tuple(dict.fromkeys(found))


def _near_sizes(
    draw: random.Random, steps: Sequence[int], periods: Sequence[Sequence[int]], remainders: Sequence[int]
) -> list[int]:
    """Return M, N and K that are all near multiples of a tile or a number, most often of the same one."""
    axis = int(draw.random() * len(steps))
    period = any_of(draw, periods[axis])
    return [
        _near_multiple(draw, step, period if draw.random() < SAME_PERIOD else any_of(draw, its), remainders)
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
            sizes.append(_near_multiple(draw, step, any_of(draw, its), remainders))
        elif kind < NEAR + ROUND:
            sizes.append(any_of(draw, numbers) + _a_little(draw) * step)
        else:
            sizes.append(int(step * (1 + 2.0 ** (draw.random() * 10))))
    first = int(draw.random() * 3)
    then = (first + 1 + int(draw.random() * 2)) % 3
    if draw.random() < RELATED:
        sizes[then] = sizes[first] * any_of(draw, RATIOS) + _a_little(draw)
        if draw.random() < RELATED:
            sizes[3 - first - then] = sizes[then] * any_of(draw, RATIOS) + _a_little(draw)
    return sizes


def _near_multiple(draw: random.Random, step: int, period: int, remainders: Sequence[int]) -> int:
    """Return a multiple of a number, or a few steps or one of the ``remainders`` more or less."""
    times = int(2.0 ** (draw.random() * max(1, 11 - period.bit_length())))
    if remainders and draw.random() < ROUND:
        return period * times + any_of(draw, remainders)
    return period * times + any_of(draw, AROUND) * step


def _a_little(draw: random.Random) -> int:
    return any_of(draw, (-1, 1, 2)) if draw.random() < ROUND else 0


def leading_candidate(lesson: Lesson, shape: Shape, numbers: Sequence[int], draw: random.Random) -> Leading:
    """Return leading dimensions for a shape: as short as can be, a little longer, up to thousands longer in steps that
    keep lines aligned, or near a multiple of a number that the code compares with; or the same for all buffers."""
    given = lesson.at(shape).data
    its = [it for name, it in given.lay_out(shape.names).items() if name in given.padded]
    found = []
    for it in its:
        kind, step, leading = draw.random(), it.leading - it.length, it.length
        if TIGHT < kind < TIGHT + LITTLE:
            leading += 1 + int(draw.random() * step)
        elif kind < TIGHT + LITTLE + APART:
            leading += step * int(2.0 ** (draw.random() * 10))
        elif kind >= TIGHT:
            period = any_of(draw, (*PERIODS, *numbers))
            leading = -(-(leading + 1) // period) * period + any_of(draw, AROUND)
        found.append(max(leading, it.length))
    if draw.random() < EQUAL:
        found = [max(found)] * len(found)
    stored = all(it.lines * leading * it.element.size <= STORED for it, leading in zip(its, found, strict=True))
    return tuple((it.name, leading) for it, leading in zip(its, found, strict=True)) if stored else ()
