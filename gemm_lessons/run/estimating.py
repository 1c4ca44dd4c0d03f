"""A step of a run: how fast a right kernel would be on a GPU that need not be here."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gemm_lessons.course.lesson import Lesson, Shape, tile_sizes
from gemm_lessons.course.problem import Problem
from gemm_lessons.estimate.model import Subject, estimate_at, profile_of
from gemm_lessons.judgement.evidence import UNTIMED, Built, Checked, Speed
from gemm_lessons.launch import Argument
from gemm_lessons.ranges import stage
from gemm_lessons.run.plan import RunPlan
from gemm_lessons.simulator import Simulator

if TYPE_CHECKING:
    from gemm_lessons.compiler.compile import Compiled

SEED = 1  # of the inputs; their values do not matter


def estimate(plan: RunPlan, built: Built, checked: Checked) -> Speed:
    """Built, checked -> Speed. A wrong kernel has no time, nor one that does not fit on the chosen GPU, cannot take the
    shape, or is beyond the model."""
    shape, lesson, timed = plan.timed_shape, built.lesson, built.code.timed
    if not checked.right or checked.counters is None or lesson.shapes.refusal(shape):
        return UNTIMED
    if timed is None or built.occupancy is None or not built.occupancy.blocks_per_sm:
        return UNTIMED
    plan.tell(f"estimate {shape}")
    with stage("estimate", str(shape), payload=2 * shape.m * shape.n * shape.k):
        profile = profile_of(subject_of(lesson, timed), built.occupancy.blocks_per_sm)
        if profile is None:
            return UNTIMED
        x, y, _ = lesson.grid(shape).grid
        return Speed(estimate_at(profile, shape, (x, y), plan.gpu), profile)


def subject_of(lesson: Lesson, compiled: Compiled) -> Subject:
    """What to trace of a lesson's kernel."""

    def arguments(shape: Shape) -> tuple[Argument, ...]:
        return Problem(lesson.kernel, shape, SEED).trial().arguments

    parsed = partial(Simulator().kernel, compiled)
    return Subject(compiled, parsed, lesson.grid, arguments, tile_sizes(lesson), lesson.shapes)
