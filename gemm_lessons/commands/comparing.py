"""Two lessons' kernels side by side: their counters at one shape, and the values of both lessons' gates."""

from __future__ import annotations

import math
from pathlib import Path

from gemm_lessons.course import Gate, Lesson
from gemm_lessons.devices import Tell, told_to
from gemm_lessons.engine.process import bounds
from gemm_lessons.engine.records import COUNTED, TABLED, dataclass
from gemm_lessons.gemm import Shape
from gemm_lessons.judging import counted_names
from gemm_lessons.running import Jobs, KernelPlan, Row, RunPlan, RunRequest, row_of


@dataclass(frozen=True)
class Pair:
    """One value counted of both kernels; None where a kernel has none."""

    name: str
    left: float | None
    right: float | None


@dataclass(frozen=True)
class Contender:
    """One of the two kernels: its label in the table, the lesson that launches it, its file."""

    label: str
    lesson: Lesson
    path: Path


@dataclass(frozen=True)
class Comparison:
    """Both rows, the shapes that they count, and the values. Estimates are for ``timed`` on ``gpu``."""

    rows: tuple[Row, Row]
    shapes: tuple[Shape, Shape]
    timed: Shape
    gpu: str
    ideas: tuple[Pair, ...]  # values of the gates of both lessons
    counters: tuple[Pair, ...]


def compare(request: RunRequest, other: Contender, mine: Contender, tell: Tell) -> Comparison:
    """Run both on the counting shape of ``mine``, the lesson of ``request``; a kernel that cannot take that shape uses
    its own. Raise the errors of a run."""
    plan = RunPlan.of(request)
    kernels = [plan.kernel("kernel", it.label, it.lesson, it.path) for it in (other, mine)]
    with bounds.within(request.bounds), told_to(tell):
        left, right = (row_of(plan, kernel, Jobs()) for kernel in kernels)
    sides = list(zip(kernels, (left, right), strict=True))
    gates = {gate.id: gate for gate in (*other.lesson.gates, *mine.lesson.gates)}
    ideas = tuple(Pair(gate.name, *(_value(*it, gate) for it in sides)) for gate in gates.values())
    counters = tuple(Pair(short, _count(left, short), _count(right, short)) for short in TABLED)
    shapes = kernels[0].counting_shape, kernels[1].counting_shape
    touched = tuple(it for it in counters if it.left or it.right)
    return Comparison((left, right), shapes, plan.timed_shape, plan.gpu.name, ideas, touched)


def _count(row: Row, short: str) -> float | None:
    return None if row.checked.counters is None else row.checked.counters.get(short)


def _value(kernel: KernelPlan, row: Row, gate: Gate) -> float | None:
    """Return a gate's value for any kernel; None where it was not counted, or where it divides by a count of zero."""
    counters = row.checked.counters
    if row.built is None or counters is None or any(it in COUNTED and it not in counters for it in gate.value.names):
        return None
    lesson = row.built.lesson
    names = {**counted_names(row.built, counters), **lesson.names(kernel.counting_shape)}
    try:
        value = float(gate.value.value(names))
    except KeyError:  # a tile size that only the other lesson has
        return None
    return value if math.isfinite(value) else None
