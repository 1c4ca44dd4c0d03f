"""A step of a run: estimate the speed of a right kernel on a GPU that need not be present."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from gemm_lessons.course import Lesson, tile_sizes
from gemm_lessons.devices import ranges, stage
from gemm_lessons.engine.records import Argument
from gemm_lessons.gemm import (
    OF_BUFFERS,
    BufferSpec,
    DataSpec,
    Estimator,
    Movement,
    Problem,
    Shape,
    Subject,
    TileSizes,
    estimator_for,
    tiles_of,
)
from gemm_lessons.judging import UNTIMED, Built, Speed
from gemm_lessons.running.builder import variant_of
from gemm_lessons.running.jobs import Deferred
from gemm_lessons.running.plan import KernelPlan, RunPlan

if TYPE_CHECKING:
    from gemm_lessons.engine import GpuSpec
    from gemm_lessons.engine.compiler import Compiled

DEEP = 1024  # K tiles, of tiles of C that blocks could share: hosts may leave a block many of them
SEED = 1  # of the inputs; their values do not matter


def speed_job(plan: RunPlan, kernel: KernelPlan, get: Callable[[], Built]) -> Deferred[Speed]:
    """Return a job that estimates the speed of a kernel, which ``get`` builds."""
    return Deferred((kernel.role, "speed"), lambda: estimate(plan, kernel, get()), portable=_without_estimator)


def _without_estimator(speed: Speed) -> Speed:
    return replace(speed, estimator=None)


def estimate(plan: RunPlan, kernel: KernelPlan, built: Built) -> Speed:
    """Estimate the speed of a right kernel. It has no time if it does not fit on the chosen GPU, cannot take the shape,
    or is beyond the model."""
    shape, launch = plan.timed_shape, kernel.timed
    if launch is None:
        return UNTIMED
    lesson = launch.lesson
    timed = variant_of(built, lesson).code.timed
    if timed is None:
        return Speed(refused=f"the kernel does not compile for the {plan.gpu.name}")
    subjects = subjects_of(lesson, timed, shape)
    ranges.announce(f"estimate {shape}")
    with stage("estimate", str(shape), payload=launch.operations):
        estimator = estimator_for(subjects, lesson.grids, plan.gpu)
    if isinstance(estimator, Estimator):
        return Speed(estimator.at(shape, plan.gpu), estimator)
    return Speed(refused=estimator)


def estimator_of(
    lesson: Lesson, kernels: Sequence[Compiled], gpu: GpuSpec, timed: Shape | None = None
) -> Estimator | str:
    """Return an estimator for the shapes at which the host launches these kernels, or why there is none. ``timed``:
    the relevant shape where a launch's grid does not grow with M and N."""
    return estimator_for(subjects_of(lesson, kernels, timed), lesson.grids, gpu)


def subjects_of(lesson: Lesson, kernels: Sequence[Compiled], timed: Shape | None = None) -> tuple[Subject, ...]:
    """Return what to trace of each launch."""
    return tuple(subject_of(lesson, compiled, number, timed) for number, compiled in enumerate(kernels))


def subject_of(lesson: Lesson, compiled: Compiled, number: int = 0, timed: Shape | None = None) -> Subject:
    """Return what to trace of one launch of a lesson."""
    launch = lesson.launches[number]

    def arguments(shape: Shape) -> tuple[Argument, ...]:
        return Problem(lesson.data, shape, SEED).trial().arguments(launch.parameters)

    sharing = sharing_of(lesson, number, timed) if timed else None
    tile, movement = tile_sizes(lesson), movement_of(lesson, launch.parameters)
    staying = sharing is not None and not _shares(lesson, number, compiled, tile, movement.planes)
    return Subject(
        compiled,
        lambda shape: lesson.grids(shape)[number],
        arguments,
        tile,
        lesson.shapes,
        movement,
        None if staying else sharing,
        lesson.grids(timed)[number].blocks if timed and staying else 0,
    )


def _shares(lesson: Lesson, number: int, compiled: Compiled, tile: TileSizes, planes: int) -> bool:
    """Return whether blocks of a launch divide the K tiles of a tile of C: for few tiles of C and many of K, it has
    more blocks than tiles of its ``planes``. If it has as many at any shape, blocks that share leave pieces to add."""
    multiple = lesson.shapes.multiple_of
    rows, cols = math.lcm(tile.rows, multiple.m), math.lcm(tile.cols, multiple.n)
    few = Shape(rows, cols, DEEP * math.lcm(tile.depth, multiple.k), layout=lesson.shapes.count.layout)
    more = replace(few, m=2 * DEEP * rows)
    blocks, others = (lesson.at(shape).grids(shape)[number].blocks for shape in (few, more))
    if blocks == others > 1:
        pieces = {it.name for it in lesson.data.buffers if it.role == "scratch"}
        adds = any(it.opcode.startswith(("RED.", "REDG.", "ATOM.", "ATOMG.")) for it in compiled.sass)
        return adds or not pieces.isdisjoint(lesson.launches[number].parameters)
    return blocks > planes * tiles_of(few, tile)


def sharing_of(lesson: Lesson, number: int, timed: Shape) -> tuple[Shape, int] | None:
    """Return the shape and how many blocks divide its K tiles; None for a launch whose grid grows with M and N."""
    if tile_sizes(lesson) == TileSizes():
        return None
    wider = replace(timed, m=2 * timed.m, n=2 * timed.n)
    here, there = lesson.grids(timed), lesson.grids(wider)
    if here[number] != there[number]:
        return None
    multiplies = (movement_of(lesson, launch.parameters).tiled for launch in lesson.launches)
    return timed, next((grid.blocks for grid, it in zip(here, multiplies, strict=True) if it), here[number].blocks)


def held_by(data: DataSpec, parameters: Sequence[str]) -> set[str]:
    """Return the buffers that a launch with these parameters receives."""
    return {found.source for name in parameters if (found := data.parameter(name)) and found.kind in OF_BUFFERS}


def made_of_factors(lesson: Lesson) -> dict[str, str]:
    """Return the scratch buffers that a launch makes from one factor, transposed, split in two or reduced by several
    moduli, and that factor. They have an element or more for each of its elements. A launch that has all factors
    multiplies them."""
    data = lesson.data
    factors = {factor.name for factor in data.factors}
    scratch = {it.name for it in data.buffers if it.role == "scratch"}
    moved = {name: it.elements for name, it in data.lay_out(lesson.shapes.count.names).items()}
    made: dict[str, str] = {}
    for launch in lesson.launches:
        held = held_by(data, launch.parameters)
        if len(given := held & factors) == 1 < len(factors) and data.answer.name not in held:
            [factor] = given
            made |= {name: factor for name in held & scratch if moved[name] >= moved[factor]}
    return made


def movement_of(lesson: Lesson, parameters: Sequence[str]) -> Movement:
    """Return the data movement of a launch with these parameters: the buffers that it receives, each once."""
    data = lesson.data
    held, made = held_by(data, parameters), made_of_factors(lesson)
    given = held.union(made[name] for name in held & made.keys())
    multiplies = data.formula.scaled_product is not None and {factor.name for factor in data.factors} <= given
    computes = not data.multiplies and data.answer.name in held  # an answer without products
    # The first of several launches that has a scratch buffer writes it, or the one that multiplies, and the next ones
    # read it; scratch made from a factor by earlier launches is read only.
    before = itertools.takewhile(lambda it: it.parameters != parameters, lesson.launches)
    earlier = set().union(*(held_by(data, it.parameters) for it in before))
    scratch = {it.name for it in data.buffers if it.role == "scratch"}
    new = scratch - made.keys() if multiplies else scratch - earlier
    reads = {it.name for it in data.buffers if it.role in ("in", "inout", "scratch")} - new
    writes = {it.name for it in data.buffers if it.role in ("out", "inout")} | new

    def moved(names: set[str], shape: Shape, reading: bool = False) -> dict[str, float]:
        layouts = [layout for name, layout in data.lay_out(shape.names).items() if name in names & held]
        return {it.name: float(it.moved) for it in layouts if not reading or it.is_read or it.role == "scratch"}

    def multiplied(factor: str) -> BufferSpec:
        return data.by_name[next((name for name in held if made.get(name, name) == factor), factor)]

    target = next((it for it in data.buffers if it.name in writes & held), data.answer)
    left, right = [multiplied(it.name) for it in data.factors] if multiplies else (data.answer, data.answer)
    counts = data.lay_out(lesson.shapes.count.names)
    pairs = [(left, data.factors[0]), (right, data.factors[1]), (target, data.answer)] if multiplies else []
    return Movement(
        # Memoised: the search for the clock at the power limit calls it often.
        cache(lambda shape: (moved(reads, shape, reading=True), moved(writes, shape))),
        lambda shape: data.operations(shape.names) if multiplies or computes else 0,
        left.element.size,
        right.element.size,
        target.element.size,
        multiplies,
        min((counts[one.name].elements // counts[of.name].elements for one, of in pairs), default=1),
    )
