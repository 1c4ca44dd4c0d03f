"""Choose more blocks of a far shape to run: those for which decisions in the kernel's code have rare outcomes.

    launch to sample --CodeDecisions.rare_blocks--> the same launch with a block of each rare class, and a shallow one

A kernel that is wrong in one block of 100,000, or uses another method there, must test its block index. So the classes
of blocks follow from its code. One block of each class is run at a shape of few K tiles, which takes little time. The
edges of a matrix are such classes, too, and small shapes have them all. Of the others, which few kernels have, some
blocks are also run and counted at the far shape itself. That shape has whole tiles, so most kernels have no edges
there. Blocks at those that remain are run, too, but not counted.

A kernel that is wrong, or uses another method, only where M, N or K is above some number compares with it. If no shape
of the run is as large, one block is run at a shape that is.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from math import prod

from gemm_lessons.course import tile_sizes
from gemm_lessons.engine.compiler import Compiled
from gemm_lessons.gemm import FarProblem, Shape, astuple
from gemm_lessons.judging import Built
from gemm_lessons.running.builder import variant_of
from gemm_lessons.running.far_shapes import FarSample, FarTiles, hidden_long, hidden_shallow
from gemm_lessons.running.plan import LaunchPlan, RunPlan
from gemm_lessons.running.rare_sizes import named

MOST_DEEP = 3  # classes of which a block is run at the far shape ...
MOST_EDGES = 2  # ... and such classes that an edge explains
MUCH_DEEP = 1 << 28  # multiply-adds of a tile whose K is larger than a number in the code, and than all other K
MOST_SHALLOW = 24  # classes of which a block is run at the shallow one


def _beyond_numbers(plan: RunPlan, launch: LaunchPlan, code: Compiled) -> Iterator[tuple[LaunchPlan, bool]]:
    """Yield launches whose M, N or K is above a number that the code compares with and that no other shape of the run
    exceeds, or from which on it cuts integers off: ``k0 < 6000``, ``row & 32767``. Of a long one, the last tile of C is
    judged, whichever blocks store it. The deep one has as many k below this number as above it, and is counted. If that
    is much work, it has a K tile more than the number, and is not."""
    lesson, steps, sizes = plan.lesson, astuple(plan.lesson.shapes.multiple_of), tile_sizes(plan.lesson)
    tile = [-(-it // step) * step for it, step in zip((sizes.rows, sizes.cols, sizes.depth), steps, strict=True)]
    numbers = plan.device.simulator.decisions(code).bounds_of_integers()
    for axis in range(3):
        known = max(astuple(it.shape)[axis] for it in plan.kernels[0].launches)
        number = next((it for it in numbers if it >= known), None)
        if number is None:
            continue
        for least, counted in ((2 * number, True), (number + 1 + tile[axis], False))[axis < 2 :]:
            its = [*tile[:axis], -(-least // tile[axis]) * tile[axis], *tile[axis + 1 :]]
            shape = Shape(*its, layout=lesson.shapes.layouts[0])
            if prod((*tile[:2], its[2])) <= MUCH_DEEP and lesson.shapes.refusal(shape) is None:
                (grid,) = lesson.grids(shape)
                sample = FarSample(shape, ((grid.blocks - 1,),))
                end = FarTiles(shape, range(its[0] - tile[0], its[0]), range(its[1] - tile[1], its[1]))
                other = replace(launch, lesson=lesson, shape=shape, grids=(grid,), sample=sample)
                yield replace(other, tile=end) if axis < 2 else other, counted
                break


def rare_blocks_of_variants(plan: RunPlan, built: Built) -> Iterator[tuple[LaunchPlan, Built]]:
    """Yield launches of the rare blocks of each variant of the kernel of which no block is sampled, at the longest
    shapes for which the host chooses it. They are checked, not counted."""
    lesson = plan.lesson
    if not lesson.choices or plan.sample is None or len(lesson.launches) > 1:
        return
    known = plan.kernels[0].launches
    words = plan.words
    shapes: dict[str, Mapping[Hashable, tuple[Shape, ...]]] = {}
    seen = [variant_of(built, it.lesson).code.counted[0] for it in known if it.sample is not None]
    for variant in (built, *built.others):
        code, layouts = variant.code.counted[0], [it.shape.layout for it in known if it.lesson == variant.lesson]
        if code in seen or not layouts:
            continue
        seen.append(code)
        layout, *_ = layouts
        if layout not in shapes:
            shapes[layout] = hidden_long(lesson, plan.seed, layout, lambda it: named(lesson.at(it), words))
        for shape in shapes[layout].get(named(variant.lesson, words), ()):
            at, launch = lesson.at(shape), plan.hidden_launch(shape, "sample")
            (grid,), tile = launch.grids, tile_sizes(at)
            if grid.blocks != -(-shape.m // tile.rows) * -(-shape.n // tile.cols):
                continue
            problem = FarProblem(lesson.data, shape, plan.seed, tile, 1, 1)
            arguments = problem.arguments(lesson.launches[0].parameters)
            run = partial(plan.device.simulator.of_sizes, code)
            rare = plan.device.simulator.decisions(code).rare_blocks(grid, arguments, plan.seed, run)
            if rare.every:
                sample = FarSample(shape, (rare.some(MOST_SHALLOW),))
                yield replace(launch, sample=sample), replace(variant, lesson=at, others=())


def rare_launches(plan: RunPlan, launch: LaunchPlan, built: Built) -> Iterator[tuple[LaunchPlan, bool]]:
    """Yield the launches beside this one, the cheapest first, and whether each is counted: those to check are not."""
    sample = launch.sample
    assert sample is not None
    if len(launch.grids) > 1:
        return  # a launch may read what blocks of another leave
    code, (grid,), lesson = variant_of(built, launch.lesson).code.counted[0], launch.grids, launch.lesson
    problem = FarProblem(lesson.data, launch.shape, plan.seed, tile_sizes(lesson), 1, sample.tiles)
    arguments = problem.arguments(lesson.launches[0].parameters)
    run = partial(plan.device.simulator.of_sizes, code)
    rare = plan.device.simulator.decisions(code).rare_blocks(grid, arguments, plan.seed, run)
    ran = set(sample.blocks[0])
    shallow = hidden_shallow(plan.lesson, launch.shape) if rare.every else None
    if shallow is not None:
        at = plan.lesson.at(shallow)
        chosen = FarSample(shallow, (rare.some(MOST_SHALLOW),), sample.tiles)
        yield replace(launch, lesson=at, shape=shallow, grids=at.grids(shallow), sample=chosen), False
    edges: tuple[int, ...] = ()
    if sample is plan.sample:
        if not lesson.choices:
            yield from _beyond_numbers(plan, launch, code)
        edges = tuple(it for it in rare.every if it not in rare.odd)[:MOST_EDGES]
    for block in (*edges, *rare.odd[:MOST_DEEP], *(rare.usual if rare.odd else ())):
        if block not in ran:
            yield replace(launch, sample=replace(sample, blocks=((block,),))), block not in edges
