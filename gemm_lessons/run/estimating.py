"""A lesson's kernel as what an estimate is about: how it is launched on any shape."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gemm_lessons.course.lesson import Lesson, Shape, tile_sizes
from gemm_lessons.course.problem import Problem
from gemm_lessons.estimate.model import Subject
from gemm_lessons.launch import Argument
from gemm_lessons.simulator import Simulator

if TYPE_CHECKING:
    from gemm_lessons.compiler.compile import Compiled

SEED = 1  # of the inputs; their values do not matter


def subject_of(lesson: Lesson, compiled: Compiled) -> Subject:
    """What to trace of a lesson's kernel."""

    def arguments(shape: Shape) -> tuple[Argument, ...]:
        return Problem(lesson.kernel, shape, SEED).trial().arguments

    parsed = partial(Simulator().kernel, compiled)
    return Subject(compiled, parsed, lesson.grid, arguments, tile_sizes(lesson), lesson.shapes)
