"""run_lesson(): the whole flow, top to bottom, in steps that each take records and return one.

    file --build--> Built --check, judge_method, second_look--> Checked --estimate, measure--> Speed    in a Row, hints

Counters, findings and gates are those of code compiled for the course's own architecture. Times, estimates and
occupancy are those of code compiled for the GPU that they are for. Where both are the same, it is compiled once.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from gemm_lessons.course.folder import Course, NotText, read_source, shown
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.devices.device import Device
from gemm_lessons.engine.compiler.compile import Diagnostic, occupancy
from gemm_lessons.engine.process import bounds
from gemm_lessons.engine.process.bounds import Bounds, OutOfTime
from gemm_lessons.engine.records.errors import UnsupportedKernel
from gemm_lessons.engine.records.findings import Finding
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.simulator import Disagreement
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.gpu.ranges import stage, turn
from gemm_lessons.judging.evidence import UNTIMED, Built, Checked, Evidence, ShapeResult
from gemm_lessons.judging.hints import hints_for
from gemm_lessons.judging.verdict import CompileFailed
from gemm_lessons.running.checking import check, judge_method, stopped, try_at
from gemm_lessons.running.debug_build import second_look
from gemm_lessons.running.estimating import estimate
from gemm_lessons.running.measuring import measure, with_times
from gemm_lessons.running.no_outcome import lost
from gemm_lessons.running.outcome import Role, Row, RunOutcome
from gemm_lessons.running.plan import RunPlan, RunRequest, Tell
from gemm_lessons.running.precomputed import Tried
from gemm_lessons.running.printing import print_out
from gemm_lessons.running.row_cache import sources

__all__ = ["Row", "RunOutcome", "RunRequest", "ShapeResult", "Tell", "run_lesson"]


@dataclass(frozen=True)
class Entry:
    """A kernel that is to have a row: its file, and the lesson that says how to launch it. The shapes are those to
    check beside the counting shape."""

    role: Role
    label: str
    lesson: Lesson
    path: Path | None  # None: the course has no such file here
    shapes: tuple[Shape, ...] = ()


def run_lesson(request: RunRequest, progress: Tell = lambda what: None) -> RunOutcome:
    """Compile, check, count, judge, estimate, advise and measure: one kernel, and what to compare it with.

    Whatever the kernel does is a verdict. Raises ``CommandError`` (its file cannot be read), ``ShapeError`` (the lesson
    does not allow this shape), ``UnsupportedKernel`` (the device cannot run it) and ``KitError``.
    """
    try:
        return _run_lesson(request, progress)
    except (OutOfTime, MemoryError) as end:  # outside of its launches, which know more of it
        kind, message = _words(end, request.bounds)
        return lost(request.lesson, request.path, kind, message, request.device.kind, request.gpu.name)


def _words(end: OutOfTime | MemoryError, most: Bounds) -> tuple[str, str]:
    late = isinstance(end, OutOfTime)
    return ("timeout" if late else "memory"), (most.too_long if late else most.too_much) + most.advice


def _run_lesson(request: RunRequest, progress: Tell) -> RunOutcome:
    began = time.perf_counter()
    plan = RunPlan.of(request, progress)
    with bounds.within(request.bounds), stage("lesson", plan.lesson.name, payload=plan.lesson.number):
        kernel, *others = line_up(request, plan.secret)
        ahead = [it for it in others if not plan.apart.makes_rows and not _known(plan, it)]
        rows = [row_of(plan, kernel, ahead)]
        if rows[0].built is not None:  # it compiled: there is something to compare
            rows += [row_beside(plan, other) for other in others]
        rows[0] = advised(plan, rows)
        measured = measure(plan, rows)
        rows = [with_times(row, measured) for row in rows]
    return RunOutcome(
        lesson=plan.lesson,
        device_kind=plan.device.kind,
        device_name=plan.device.name,
        gpu=plan.gpu.name,
        seed=plan.seed,
        count_shape=plan.lesson.shapes.count,
        estimate_shape=plan.timed_shape,
        rows=tuple(rows),
        seconds=time.perf_counter() - began,
        measured=measured,
        peak_gflops=_peak_gflops(plan.device, plan.lesson),
    )


def line_up(request: RunRequest, secret: tuple[Shape, ...]) -> Iterator[Entry]:
    """The kernel; then what stands beside it: the solution that this lesson starts from, and its own reference.

    The former meets this lesson's gates, not its own: that shows what the new idea changes.
    """
    course, lesson = request.course, request.lesson
    label = label_for(course, lesson, request.path)
    shapes = (*((request.shape,) if request.shape else lesson.shapes.check), *secret)
    yield Entry("kernel", label, lesson, request.path, shapes)
    previous = course.start_of(lesson) if request.beside and lesson.name in course.names else None
    if previous is not None:
        before = course.lesson(previous)
        yield Entry("previous", previous.replace("_", " ", 1), before, course.solution(before))
    if request.beside and label != "reference":
        yield Entry("reference", "reference", lesson, course.solution(lesson))


def label_for(course: Course, lesson: Lesson, path: Path) -> str:
    """A kernel file's name in the table and in the ranges: ``reference``, ``stub``, ``bug`` or ``your kernel``."""
    solution = course.solution(lesson)
    if solution is not None and solution.resolve() == path.resolve():
        return "reference"
    others = {lesson.stub_path.resolve(): "stub", lesson.bug_path.resolve(): "bug"}
    return others.get(path.resolve(), "your kernel")


def row_of(plan: RunPlan, entry: Entry, ahead: Sequence[Entry] = ()) -> Row:
    """One kernel from its file to its speed. ``ahead`` comes next and is compiled meanwhile."""
    assert entry.path is not None
    with turn(entry.role, entry.label):
        path = shown(entry.path)
        try:
            source = read_source(entry.path)
        except NotText as error:
            failed = CompileFailed(error.why, (Diagnostic(path, error.line, None, "error", error.why),))
            return Row(entry.role, entry.label, path, "", Checked(failed))
        built = build(plan, entry, source)
        if not isinstance(built, CompileFailed):
            built.code.take_apart()
            built = build_others(plan, entry, source, built)
        if isinstance(built, CompileFailed):
            return Row(entry.role, entry.label, path, source, Checked(built))
        for other in ahead:
            plan.workshop.ahead(other.lesson, other.path)
        checked = judge(plan, built, entry)
        if entry.role == "kernel":
            with contextlib.suppress(OutOfTime, MemoryError):  # the verdict stands without
                checked = print_out(plan, built, second_look(plan, built, source, checked))
        # What stands beside a measured kernel is measured, and needs no estimate.
        measured = entry.role != "kernel" and plan.device.timer is not None
        speed = UNTIMED
        if plan.estimating and not measured:
            with contextlib.suppress(OutOfTime, MemoryError):
                speed = estimate(plan, built, checked)
        return Row(entry.role, entry.label, path, source, checked, built, speed)


def judge(plan: RunPlan, built: Built, entry: Entry) -> Checked:
    """Two steps: Built -> Checked, by its answers and its method."""
    hidden = plan.hidden if entry.role == "kernel" else ()
    try:
        return judge_method(plan, built, check(plan, built, entry.shapes, hidden))
    except (OutOfTime, MemoryError) as end:  # not while it ran: that is a fault, and names a line
        kind, message = _words(end, bounds.current())
        finding = Finding(kind, "error", message)
        return Checked(stopped(plan.counting_shape(built.lesson), finding), findings=(finding,))


def row_beside(plan: RunPlan, entry: Entry) -> Row:
    """A row to compare with, from an earlier run if there was one."""

    def make() -> Row:
        return plan.apart.row(entry.role) or _row_beside(plan, entry)

    return plan.kept.row(entry.role, _facts(plan, entry), make)


def tried_apart(plan: RunPlan, entry: Entry) -> Iterator[Tried]:
    """The kernel under test on the shapes of ``entry`` alone, one after the other; nothing if it does not compile."""
    assert entry.path is not None
    source = read_source(entry.path)
    lessons = list(dict.fromkeys(entry.lesson.at(shape) for shape in entry.shapes))
    made = [build(plan, replace(entry, lesson=lesson), source) for lesson in lessons]
    found = [it for it in made if isinstance(it, Built)]
    if len(found) == len(made):
        built = replace(found[0], lesson=entry.lesson, others=tuple(found))
        for shape in entry.shapes:
            yield try_at(plan, built, shape, "check")


def _known(plan: RunPlan, entry: Entry) -> bool:
    return plan.kept.knows(entry.role, _facts(plan, entry))


def _facts(plan: RunPlan, entry: Entry) -> object:
    """All that a row beside the kernel depends on, except for the inputs, which decide nothing about a solution."""
    files = sources(entry.lesson, entry.path) if entry.path is not None else None
    return files and (entry, files, plan.lesson, plan.gpu, plan.timed_shape, plan.device.name, plan.workshop.targets)


def _row_beside(plan: RunPlan, entry: Entry) -> Row:
    """That it cannot be had is no failure of the kernel under test."""
    why = f"{entry.lesson.name} has no solution here"
    if entry.path is not None:
        try:
            return row_of(plan, entry)
        except (UnsupportedKernel, Disagreement) as error:
            why = str(error)
        except (OutOfTime, MemoryError):
            why = "there was no time or memory left for it"
    path = shown(entry.path) if entry.path is not None else ""
    return Row(entry.role, entry.label, path, "", Checked(CompileFailed(why)), unsupported=why)


def build(plan: RunPlan, entry: Entry, source: str) -> Built | CompileFailed:
    """A step: file -> Built. Compile, for what counts it and for the GPU that times are for."""
    assert entry.path is not None
    plan.tell(f"compile {entry.path.name}")
    with stage("compile", entry.path.name, payload=len(source)):
        try:
            code = plan.workshop.build(entry.lesson, entry.path, source)
        except OutOfTime as late:
            message = f"the compiler did not finish: {late}{bounds.current().advice}"
            code = CompileFailed(message, (Diagnostic(shown(entry.path), 1, None, "error", message),))
    if isinstance(code, CompileFailed):
        return code
    grids = entry.lesson.grids(entry.lesson.shapes.count)
    fits = (
        occupancy(compiled.resources, grid.threads, grid.dynamic_shared, plan.gpu)
        for compiled, grid in zip(code.timed or (), grids, strict=code.timed is not None)
    )
    return Built(entry.lesson, code, tuple(fits))


def build_others(plan: RunPlan, entry: Entry, source: str, built: Built) -> Built | CompileFailed:
    """A step: Built -> Built, with what the host chooses for the other shapes of this run."""
    lesson = entry.lesson
    hidden = plan.hidden if entry.role == "kernel" else ()
    timed = (plan.timed_shape,) if plan.estimating or plan.device.timer is not None else ()
    looked_into = (plan.counting_shape(lesson), *hidden, *timed)
    apart = [lesson.at(shape) for shape in looked_into if lesson.shapes.refusal(shape) is None]
    shapes = (*entry.shapes, *looked_into)
    lessons = dict.fromkeys(lesson.at(shape) for shape in shapes if lesson.shapes.refusal(shape) is None)
    others = []
    for other in lessons:
        if other != built.lesson:
            made = build(plan, replace(entry, lesson=other), source)
            if isinstance(made, CompileFailed):
                return made
            if other in apart:
                made.code.take_apart()
            others.append(made)
    return replace(built, others=tuple(others))


def advised(plan: RunPlan, rows: Sequence[Row]) -> Row:
    """The kernel's row, the first, with its hints."""
    lesson, shape, row = plan.lesson, plan.timed_shape, rows[0]
    allowed = lesson.shapes.refusal(shape) is None
    evidence = Evidence(
        lesson=lesson,
        source=row.source,
        stub=read_source(lesson.stub_path) if lesson.stub_path.is_file() else "",
        built=row.built,
        checked=row.checked,
        speed=row.speed,
        counted=plan.counting_shape(lesson),
        shape=shape,
        blocks=lesson.at(shape).grids(shape)[0].blocks if allowed else 0,
        sms=plan.gpu.sms,
        gpu=plan.gpu.name,
        reference=next((other.checked for other in rows if other.role == "reference"), None),
        following=plan.following,
    )
    return replace(row, hints=hints_for(evidence))


def _peak_gflops(device: Device, lesson: Lesson) -> float | None:
    """What the data sheet of this very GPU promises for fused multiply-adds in fp32."""
    sheet = device.sheet
    single = [factor.element.name for factor in lesson.data.factors] == ["float32", "float32"]
    return sheet.fp32_flops_per_s / 1e9 if sheet and single else None
