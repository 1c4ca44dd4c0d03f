"""Two lessons' kernels side by side: their counters at one shape, the values of both lessons' gates, and why one is
slower: the difference of their estimated times, split into causes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from gemm_lessons.course import Gate, Lesson
from gemm_lessons.devices import Tell, told_to
from gemm_lessons.engine import GpuSpec, NotEstimated
from gemm_lessons.engine.estimate import CAUSES, Cause, LineShare
from gemm_lessons.engine.hardware import Occupancy
from gemm_lessons.engine.inspection import InspectRequest, explain
from gemm_lessons.engine.records import COUNTED, TABLED, dataclass, picked
from gemm_lessons.gemm import Shape
from gemm_lessons.judging import counted_names
from gemm_lessons.running import JSON, Jobs, KernelPlan, Row, RunPlan, RunRequest, row_of

SCHEMA = "gemm-lessons/compare/1"
SMALL = 0.02  # of the difference: smaller causes are shown together
MOST_LINES, LEAST_SHARE = 3, 0.05  # of a cause, those that are shown


@dataclass(frozen=True)
class Pair:
    """One value counted of both kernels; None where a kernel has none."""

    name: str
    left: float | None
    right: float | None


@dataclass(frozen=True)
class ComparedKernel:
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


def compare(request: RunRequest, other: ComparedKernel, mine: ComparedKernel, tell: Tell) -> Comparison:
    """Run both on the counting shape of ``mine``, the lesson of ``request``; a kernel that cannot take that shape uses
    its own. Raise the errors of a run."""
    plan = RunPlan.of(request)
    kernels = [plan.kernel("kernel", it.label, it.lesson, it.path) for it in (other, mine)]
    with told_to(tell):
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


@dataclass(frozen=True)
class Explained:
    """One kernel: its estimated time, split into causes, and the lines of each. ``shares`` add up to the time. ``fit``:
    its blocks on a multiprocessor, for launches that are no lesson's."""

    path: str
    source: str
    time_us: float
    shares: Mapping[Cause, float]
    lines: Mapping[Cause, tuple[LineShare, ...]] = field(default_factory=dict)
    fit: Occupancy | None = None


@dataclass(frozen=True)
class Cost:
    """What one cause makes the second kernel slower, in microseconds; and where, in the ``kernel`` that loses more."""

    cause: Cause
    time_us: float
    kernel: Explained
    lines: tuple[LineShare, ...]


@dataclass(frozen=True)
class Difference:
    """Two kernels on one GPU. ``basis``: the source of the GPU's figures, if no such GPU was measured."""

    first: Explained
    second: Explained
    gpu: str
    basis: str

    @property
    def time_us(self) -> float:
        """Return how much longer the second takes."""
        return self.second.time_us - self.first.time_us

    @property
    def costs(self) -> tuple[Cost, ...]:
        """Return the causes, the largest first; they add up to the difference."""
        found = []
        for cause in CAUSES:
            more = self.second.shares[cause] - self.first.shares[cause]
            kernel = self.second if more >= 0 else self.first
            lines = [it for it in kernel.lines.get(cause, ()) if it.share >= LEAST_SHARE]
            found.append(Cost(cause, more, kernel, tuple(lines[:MOST_LINES])))
        return tuple(sorted(found, key=lambda it: -abs(it.time_us)))

    @property
    def split(self) -> tuple[tuple[Cost, ...], float]:
        """Return the causes that matter, and the microseconds of the rest."""
        large = tuple(it for it in self.costs if abs(it.time_us) >= SMALL * abs(self.time_us) and it.time_us)
        return large, self.time_us - sum(it.time_us for it in large)


def of_rows(compared: Comparison, gpu: GpuSpec) -> Difference | str:
    """Return the difference of two kernels of lessons, or why there is none."""
    found = []
    for row in compared.rows:
        one = _of_row(row, compared.timed, gpu)
        if isinstance(one, str):
            return one
        found.append(one)
    return Difference(found[0], found[1], gpu.name, gpu.basis)


def _of_row(row: Row, shape: Shape, gpu: GpuSpec) -> Explained | str:
    estimate, estimator = row.speed.estimate, row.speed.estimator
    if estimate is None or estimator is None:
        return f"{row.label}: {row.speed.refused or 'only a right kernel is estimated'}"
    shares, lines = estimator.shares_at(shape, gpu), estimator.lines_at(shape, gpu)
    return Explained(row.path, row.source, estimate.time_us, shares, lines)


def of_launches(first: InspectRequest, second: InspectRequest) -> Difference | str:
    """Return the difference of two launches on one GPU, or why there is none. Raise as ``inspection.inspect``."""
    found = []
    for request in (first, second):
        try:
            it = explain(request)
        except NotEstimated as why:
            return f"{request.path}: {why}"
        found.append(Explained(request.path, request.source, it.estimate.time_us, it.shares, it.lines, it.fit))
    return Difference(found[0], found[1], first.gpu.name, first.gpu.basis)


def slower_as_json(found: Difference | str) -> dict[str, JSON]:
    """Return the difference as one JSON object, or why there is none."""
    if isinstance(found, str):
        return {"schema": SCHEMA, "no_estimate": found}
    return {
        "schema": SCHEMA,
        "no_estimate": None,
        "gpu": found.gpu,
        "basis": found.basis or None,
        "kernels": [picked(it, "path time_us") for it in (found.first, found.second)],
        "difference_us": found.time_us,
        "causes": [
            {
                **picked(it, "cause time_us"),
                "kernel": it.kernel.path,
                "lines": [picked(line, "file line share") for line in it.lines],
            }
            for it in found.costs
        ],
    }
