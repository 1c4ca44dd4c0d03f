"""A step of a run: measure the right kernels on the present GPU, beside cuBLAS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gemm_lessons.course import Lesson
from gemm_lessons.devices import ranges, stage
from gemm_lessons.engine import Finding
from gemm_lessons.engine.compiler import Compiled
from gemm_lessons.engine.records import Details, dataclass
from gemm_lessons.judging import Faulted, Judgement, Verdict, WrongAnswer, stopped
from gemm_lessons.running.builder import variant_of
from gemm_lessons.running.outcome import Row
from gemm_lessons.running.plan import RunPlan

if TYPE_CHECKING:
    from gemm_lessons.devices import Measurement, Step
    from gemm_lessons.engine.records import Grid


def measure(plan: RunPlan, rows: Sequence[Row]) -> Measurement | None:
    """Time all right kernels that can take the shape in one run, so that the ratios are comparable; return None where
    nothing can be timed, or where the kernel under test (the first row) is wrong."""
    timer, shape = plan.timer, plan.timed_shape
    if timer is None or not rows[0].checked.right:
        return None
    data = plan.lesson.at(shape).data
    from gemm_lessons.devices import Entrant

    entrants = []
    for row, kernel in zip(rows, plan.kernels, strict=True):
        launch = kernel.timed
        if row.built is None or launch is None or not row.checked.right:
            continue
        lesson = launch.lesson
        built = variant_of(row.built, lesson)
        if built.code.timed is None:
            continue
        if lesson.data.asks_the_same(data, shape.names):
            entrants.append(Entrant(row.label, row.role, steps_of(lesson, built.code.timed, launch.grids), lesson.data))
    if not entrants and not data.gemm_ex:
        return None
    ranges.announce(f"time {shape}")
    with stage("time", str(shape), payload=data.operations(shape.names)):
        return timer.measure(
            data, shape, entrants, seed=plan.seed, progress=lambda label: ranges.announce(f"time {label}")
        )  # fmt: skip


def steps_of(lesson: Lesson, kernels: Sequence[Compiled], grids: Sequence[Grid]) -> tuple[Step, ...]:
    """Return the launches of a lesson as they are timed."""
    from gemm_lessons.devices import Step

    launches = zip(kernels, grids, lesson.launches, strict=True)
    return tuple(Step(compiled, grid, launch.parameters) for compiled, grid, launch in launches)


@dataclass(frozen=True)
class Overran(Details):
    """The buffer whose guard zone a kernel overwrote while it was timed, and the shape."""

    name: str
    shape: str


def with_times(row: Row, measured: Measurement | None) -> Row:
    """Return the row with its measured times, or with what failed on the large shape only."""
    if measured is None:
        return row
    shape, it = measured.shape, measured.of(row.label)
    if measured.fault is not None and measured.culprit == row.label:
        return _blamed(row, stopped(shape, measured.fault), measured.fault)
    if it is None:
        return row
    if it.overran:
        finding = Finding("out_of_bounds", "error", "measured", facts=Overran(it.overran, str(shape)))
        return _blamed(row, Faulted(shape, finding), finding)
    if it.wrong:
        judgement = Judgement(it.wrong, shape.m * shape.n, it.max_error, it.tolerance)
        return _blamed(row, WrongAnswer(shape, judgement))
    return replace(row, speed=replace(row.speed, measured=it))


def _blamed(row: Row, verdict: Verdict, *findings: Finding) -> Row:
    checked = replace(row.checked, verdict=verdict, findings=(*row.checked.findings, *findings))
    return replace(row, checked=checked)
