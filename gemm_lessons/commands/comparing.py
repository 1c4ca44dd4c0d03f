"""Two lessons' kernels side by side: their counters at one shape, and what the gates of both lessons look at."""

from __future__ import annotations

import math

from gemm_lessons.course.lesson import Gate
from gemm_lessons.engine.process import bounds
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.metrics import TABLED
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.running.checking import counted_names
from gemm_lessons.running.outcome import Row
from gemm_lessons.running.pipeline import Entry, row_of
from gemm_lessons.running.plan import RunPlan, RunRequest, Tell


@dataclass(frozen=True)
class Pair:
    """One thing that was counted of both kernels; None where that cannot be."""

    name: str
    left: float | None
    right: float | None


@dataclass(frozen=True)
class Comparison:
    """Both rows, the shapes that they count, and what was counted. Estimates are for ``timed`` on ``gpu``."""

    rows: tuple[Row, Row]
    shapes: tuple[Shape, Shape]
    timed: Shape
    gpu: str
    ideas: tuple[Pair, ...]  # what the gates of both lessons look at
    counters: tuple[Pair, ...]


def compare(request: RunRequest, other: Entry, mine: Entry, tell: Tell) -> Comparison:
    """Run both on the counting shape of ``mine``, whose lesson ``request`` is about; what cannot take that shape counts
    on its own. Raises what a run raises."""
    plan = RunPlan.of(request, tell)
    with bounds.within(request.bounds):
        left, right = row_of(plan, other), row_of(plan, mine)
    gates = {gate.name: gate for gate in (*other.lesson.gates, *mine.lesson.gates)}
    ideas = tuple(Pair(gate.name, _value(plan, left, gate), _value(plan, right, gate)) for gate in gates.values())
    counters = tuple(Pair(short, _count(left, short), _count(right, short)) for short in TABLED)
    shapes = plan.counting_shape(other.lesson), plan.counting_shape(mine.lesson)
    touched = tuple(it for it in counters if it.left or it.right)
    return Comparison((left, right), shapes, plan.timed_shape, plan.gpu.name, ideas, touched)


def _count(row: Row, short: str) -> float | None:
    return None if row.checked.counters is None else row.checked.counters.get(short)


def _value(plan: RunPlan, row: Row, gate: Gate) -> float | None:
    """What a gate looks at, of any kernel; None where it divides by what the kernel never does."""
    if row.built is None or row.checked.counters is None:
        return None
    lesson = row.built.lesson
    names = {**counted_names(row.built, row.checked.counters), **lesson.names(plan.counting_shape(lesson))}
    try:
        value = float(gate.value.value(names))
    except KeyError:  # a tile size that only the other lesson has
        return None
    return value if math.isfinite(value) else None
