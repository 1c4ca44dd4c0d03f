"""Choose more shapes to run: those whose sizes give decisions in a kernel's code an outcome that no other shape gives.

    right kernel --CodeDecisions.rare_sizes--> launches at small shapes: ``N % 1000 == 0``, ``M % 64 > 60 && N > M``

A kernel that is wrong, or uses another method, only at some sizes must test them. The tests that are computed from
parameters alone have the same outcome in all threads, so they are evaluated for thousands of shapes without running
any: one by one, two together, and three together. A shape is run for each new outcome, up to a limit.

A test of a product of sizes may need huge ones. Of shapes that are far larger, one block is run.

Where the host compiles a kernel for each shape, only shapes are taken for which the run has compiled it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import prod

from gemm_lessons.course import Lesson, tile_sizes
from gemm_lessons.gemm import SIZES, Leading, Shape, astuple
from gemm_lessons.judging import Built
from gemm_lessons.running.counted_shapes import is_countable
from gemm_lessons.running.drawing import ALIGNED
from gemm_lessons.running.far_shapes import one_of_each
from gemm_lessons.running.plan import LaunchPlan, RunPlan
from gemm_lessons.running.size_candidates import hidden_candidates, hidden_huge, leading_candidate

MOST_SHAPES = 6  # shapes of a run
MOST_SHAPES_OF_CHOICES = 4  # ... where the host chooses a kernel for each shape
MOST_DEAR_SHAPES = 1  # ... of a lesson with several products for each of C's
MOST_OF_LEADING = (
    2  # shapes of each such kernel that tests a leading dimension, even if those before it have used up all
)
MOST_VARIANTS = 4  # of such kernels that are looked at, and all that test leading dimensions
MOST_NUMBERS = 32  # numbers that the code compares with
MUCH_WORK = 1 << 24  # multiply-adds of a shape that has one of them, at most
MOST_HUGE = 2  # shapes of which a block is run
TILES = 2  # K tiles of a shape that is counted, at least


def launches_at_rare_sizes(plan: RunPlan, built: Built) -> Iterator[tuple[LaunchPlan, Built]]:
    """Yield launches at more shapes, each with its variant of the kernel. Those that fill their tiles are counted,
    unless the host chooses the kernel."""
    lesson = plan.lesson
    most = MOST_SHAPES_OF_CHOICES if lesson.choices else MOST_SHAPES
    most = MOST_DEAR_SHAPES if lesson.shapes.products > 1 else most
    known = plan.kernels[0].launches
    found: list[LaunchPlan] = []
    for number, (variant, layout) in enumerate(_variants(plan, built)):
        for place in range(len(variant.code.counted)):
            least = MOST_OF_LEADING if _leading_tested(plan, variant, place) else 0
            if number >= MOST_VARIANTS and not least:
                continue
            pairs = _candidates(plan, variant, layout, place)
            for shape, leading in _chosen(plan, variant, place, [*known, *found], pairs, max(least, most - len(found))):
                counted = _is_countable(lesson, shape)
                found.append(plan.hidden_launch(shape, "count" if counted else "check", leading))
                yield found[-1], replace(variant, lesson=found[-1].lesson, others=())
        if number < MOST_VARIANTS and plan.sample is not None and len(lesson.launches) == 1:
            yield from _at_huge_sizes(plan, variant, layout, [*known, *found])


def _at_huge_sizes(
    plan: RunPlan, variant: Built, layout: str, known: Sequence[LaunchPlan]
) -> Iterator[tuple[LaunchPlan, Built]]:
    """Yield launches of one block each, at sizes whose tests have an outcome that smaller ones do not have."""
    draw = random.Random(f"{plan.lesson.name} huge {plan.seed}")
    shapes = hidden_huge(plan.lesson, plan.seed, layout)
    samples = {it: one_of_each(plan.lesson, it, draw) for it in shapes}
    pairs: list[tuple[Shape, Leading]] = [(it, ()) for it in shapes if samples[it]]
    for shape, leading in _chosen(plan, variant, 0, known, pairs, MOST_HUGE, together=1):
        launch = plan.hidden_launch(shape, "sample" if plan.lesson.choices else "count", leading)
        yield replace(launch, sample=samples[shape]), replace(variant, lesson=launch.lesson, others=())


def _is_countable(lesson: Lesson, shape: Shape) -> bool:
    """Return whether gates hold at a shape, which no host chose a kernel for."""
    deep = shape.k >= TILES * tile_sizes(lesson.at(shape)).depth
    return deep and not lesson.choices and is_countable(lesson, shape)


def _candidates(plan: RunPlan, variant: Built, layout: str, place: int) -> list[tuple[Shape, Leading]]:
    """Return many shapes whose sizes may matter to one launch; with leading dimensions if the code tests these."""
    lesson, code = plan.lesson, plan.device.simulator.decisions(variant.code.counted[place])
    numbers = code.numbers_compared()[:MOST_NUMBERS]
    layouts = (layout,) if lesson.choices else lesson.shapes.layouts
    candidates = hidden_candidates(lesson, plan.seed, numbers, layouts)
    every = numbers if lesson.choices else sorted({*numbers, *code.bounds_of_integers()[:MOST_NUMBERS]})
    shapes = [*candidates, *_of_numbers(lesson, every, layouts)]
    tested = _leading_tested(plan, variant, place)
    if tested:  # first those at which it matters what is between two lines
        shapes.sort(key=lambda it: it.k % ALIGNED == 0 or it.n % ALIGNED == 0)
    draw = random.Random(f"{lesson.name} leading {plan.seed}")
    return [(it, leading_candidate(lesson, it, numbers, draw) if tested else ()) for it in shapes]


def _chosen(
    plan: RunPlan,
    variant: Built,
    place: int,
    known: Sequence[LaunchPlan],
    pairs: list[tuple[Shape, Leading]],
    most: int,
    together: int = 3,
) -> list[tuple[Shape, Leading]]:
    """Return at ``most`` so many of the ``pairs`` at which decisions, up to three ``together``, have an outcome of no
    ``known`` launch, and a few that are counted, with an outcome of no launch that is."""
    lesson, code = plan.lesson, plan.device.simulator.decisions(variant.code.counted[place])
    words = plan.words if lesson.choices else None
    names = lesson.launches[place].parameters
    tested = _leading_tested(plan, variant, place)

    def is_built(pair: tuple[Shape, Leading]) -> bool:
        return not lesson.choices or named(lesson.at(*pair), words) == named(variant.lesson, words)

    if tested and together > 1:  # most of what is drawn freely is for another variant
        pairs = [it for it in pairs if it[1] and is_built(it)]
    every_one = [*((it.shape, it.leading) for it in known), *pairs]
    sizes = {at: [int(it.names[name]) for it, _ in every_one] for at, name in enumerate(names) if name in SIZES}
    for at, source in tested.items():
        sizes[at] = [it.layouts(plan.seed)[source].leading for it in known]
        sizes[at] += [dict(leading).get(source, max(astuple(shape))) for shape, leading in pairs]
    grids = [lesson.at(it).grids(it)[place] for it, _ in every_one] if code.reads_grid else []
    counted = [
        i for i, it in enumerate(known) if it.purpose in ("count", "far") or it.sample is plan.sample is not None
    ]
    if together > 1 and not lesson.choices:
        counted += [i for i, it in enumerate(every_one) if i >= len(known) and _is_countable(lesson, it[0])]
    run = partial(plan.device.simulator.of_sizes, variant.code.counted[place])
    chosen = code.rare_sizes(
        sizes, grids, len(known), lambda number: is_built(every_one[number]), together, run, most, counted
    )
    return [every_one[number] for number in chosen]


def _leading_tested(plan: RunPlan, variant: Built, place: int) -> dict[int, str]:
    """Return which parameters of one launch are leading dimensions that the code tests, each with its buffer."""
    its = [plan.lesson.data.parameter(name) for name in plan.lesson.launches[place].parameters]
    compared = plan.device.simulator.decisions(variant.code.counted[place]).parameters_compared
    return {at: it.source for at in compared if (it := its[at]) and it.kind == "leading"}


def _variants(plan: RunPlan, built: Built) -> list[tuple[Built, str]]:
    """Return variants of the kernel whose code differs, and a layout of each: those with most launches."""
    launches = plan.kernels[0].launches
    number = Counter(it.lesson for it in launches)
    layouts = {it.lesson: it.shape.layout for it in launches}
    every = sorted((it for it in (built, *built.others) if it.lesson in layouts), key=lambda it: -number[it.lesson])
    by_code = {tuple(map(id, it.code.counted)): it for it in reversed(every)}
    return [(it, layouts[it.lesson]) for it in reversed(by_code.values())]


def named(lesson: Lesson, words: Collection[str] | None) -> tuple[tuple[str, int], ...]:
    """Return the tile sizes that the kernel names."""
    return tuple(it for it in lesson.tile.sizes if words is None or it[0] in words)


def _of_numbers(lesson: Lesson, numbers: Sequence[int], layouts: Sequence[str]) -> Iterator[Shape]:
    """Yield small shapes with a size that the code compares with, or as many tiles: ``K / BK == 53``."""
    steps, tile = astuple(lesson.shapes.multiple_of), tile_sizes(lesson)
    sizes = (tile.rows, tile.cols, tile.depth)
    small = [-(-size // step) * step for size, step in zip(sizes, steps, strict=True)]
    for number in numbers:
        for axis, (step, size) in enumerate(zip(steps, sizes, strict=True)):
            for long in {number, number * size}:
                its = [*small[:axis], long, *small[axis + 1 :]]
                shape = Shape(*its, layout=layouts[0])
                if long % step == 0 and prod(its) <= MUCH_WORK and lesson.shapes.refusal(shape) is None:
                    yield shape
