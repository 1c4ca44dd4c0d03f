"""What a pass bought: how many times the first lesson, and what part of cuBLAS."""

from __future__ import annotations

from gemm_lessons.course.folder import Course
from gemm_lessons.course.measured import GPU, Measured, load_measured
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.gemm.shapes import astuple
from gemm_lessons.running.outcome import RunOutcome


@dataclass(frozen=True)
class Bought:
    """``times`` the speed of ``before``, another kernel; None where there is nothing to compare with. ``measured``: the
    learner's kernel was, else it is estimated. What it is compared with was measured, where ``of_cublas`` is known."""

    measured: bool
    gpu: str
    before: str = ""
    times: float | None = None
    of_cublas: float | None = None


def gain_of(course: Course, outcome: RunOutcome) -> Bought | None:
    """Of the learner's own kernel of a lesson of the course."""
    mine = outcome.kernel.label == "your kernel" and outcome.lesson.name in course.names
    return bought(outcome, course.names[0], load_measured()) if mine and outcome.verdict.kind == "passed" else None


def bought(outcome: RunOutcome, first: str, data: Measured) -> Bought | None:
    """Of a kernel with a time. ``first`` is the course's first lesson.

    On the GPU that ``data`` is of, and at one of its sizes, it is compared with that, else with the previous lesson's
    solution beside it in the table.
    """
    lesson, speed = outcome.lesson, outcome.kernel.speed
    time = speed.measured or speed.estimate
    if time is None:
        return None
    size, *others = dict.fromkeys(astuple(outcome.estimate_shape))
    here = GPU in outcome.device_name if outcome.device_kind == "gpu" else outcome.gpu == GPU
    own = data.of(lesson.name, size) if here and not others else None
    base, cublas = data.of(first, size), data.of("cublas", size)
    is_measured = speed.measured is not None
    if own is not None and base and cublas:
        fraction = speed.fraction_of_cublas if is_measured else time.gflops / 1e3 / cublas
        if lesson.name == first:
            return Bought(is_measured, GPU, of_cublas=fraction)
        return Bought(is_measured, GPU, first, time.gflops / 1e3 / base, fraction)
    for row in outcome.rows:
        other = row.speed.measured or row.speed.estimate
        if row.role == "previous" and other is not None:
            return Bought(is_measured, outcome.gpu, row.label, time.gflops / other.gflops, speed.fraction_of_cublas)
    if speed.fraction_of_cublas is None:
        return None
    return Bought(is_measured, outcome.gpu, of_cublas=speed.fraction_of_cublas)
