"""run_lesson(): the whole flow, top to bottom, and the records that it hands to the report.

A lesson names a kernel file and its launch; the compiler turns it into machine code; a device launches it on a problem;
the answer is judged into a verdict; counters, findings and times become an estimate and hints.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from gemm_lessons.compiler import Compiled, Diagnostic, Occupancy, Resources, compile_source, occupancy
from gemm_lessons.course import Course, read_source, shown
from gemm_lessons.device import METRICS, Counters, Device, Finding, Launched, UnsupportedKernel
from gemm_lessons.estimate import Estimate, Profile, Work, estimate_at
from gemm_lessons.expression import Number
from gemm_lessons.gpus import GpuSpec
from gemm_lessons.hints import Facts, hints_for
from gemm_lessons.lesson import Lesson, Shape
from gemm_lessons.patterns import TileSizes
from gemm_lessons.problem import Problem, Trial, fresh_seed
from gemm_lessons.ranges import stage
from gemm_lessons.signature import mismatch, wrong_name
from gemm_lessons.verdict import (
    CompileFailed,
    Faulted,
    GateMissed,
    GateResult,
    Judgement,
    Kind,
    Passed,
    TimedOut,
    Verdict,
    WrongAnswer,
    judge,
    judge_gates,
)

ESTIMATE_SIZE = 4096  # M = N = K of the estimate in the table: so large that no launch overhead or tail shows
OLDEST_ARCH = 75  # what today's compiler still knows; older GPUs are estimated from code for this one

Role = Literal["kernel", "previous", "reference"]


@dataclass(frozen=True)
class ShapeResult:
    """One launch on one check shape. ``judgement`` is None when the kernel never got as far as an answer."""

    shape: Shape
    kind: Kind
    judgement: Judgement | None = None
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Row:
    """Everything known about one kernel: one row of the table.

    The row of the kernel under test is checked on every shape; the rows beside it (the previous lesson's solution and
    this lesson's reference) run on the counting shape only, and their ``shapes`` hold just that. ``estimate`` is for
    ``estimate_shape``; ``time_us``, ``gflops`` and ``fraction_of_cublas`` are measured on a GPU, else None.
    """

    role: Role
    label: str  # "your kernel", "01 naive", "reference"
    path: str
    source: str
    verdict: Verdict
    shapes: tuple[ShapeResult, ...] = ()
    arch: str = ""
    compiler: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()  # errors or warnings of the compiler
    resources: Resources | None = None
    occupancy: Occupancy | None = None
    counters: Counters | None = None  # of the counting shape; lines and conflicts are in here
    findings: tuple[Finding, ...] = ()  # of all shapes, merged
    gates: tuple[GateResult, ...] = ()
    estimate: Estimate | None = None
    time_us: float | None = None
    gflops: float | None = None
    fraction_of_cublas: float | None = None
    hints: tuple[str, ...] = ()  # best first, at most three
    unsupported: str = ""  # why the device could not run this row at all (only in the rows beside the kernel)

    def source_line(self, line: int | None) -> str:
        """The text of a line (from 1) of the kernel file without its indent, or an empty string."""
        lines = self.source.splitlines()
        return lines[line - 1].strip() if line is not None and 0 < line <= len(lines) else ""


@dataclass(frozen=True)
class RunOutcome:
    """What ``gemm-lessons run`` reports. ``rows[0]`` is the kernel that was asked for; its verdict is the run's."""

    lesson: Lesson
    device_kind: Literal["simulator", "gpu"]
    device_name: str
    gpu: str  # the GPU that estimates and occupancy are for, such as "H200"
    seed: int
    count_shape: Shape
    estimate_shape: Shape
    rows: tuple[Row, ...]
    seconds: float = 0.0

    @property
    def kernel(self) -> Row:
        """The row of the kernel that was asked for."""
        return self.rows[0]

    @property
    def verdict(self) -> Verdict:
        """The verdict on the kernel that was asked for."""
        return self.rows[0].verdict


Progress = Callable[[str], None]  # told what begins: "compile solution.cu", "check 96x64x80", ...


@dataclass(frozen=True)
class Request:
    """What to run, on what.

    ``shape`` replaces the lesson's check shapes and is what the estimate is for; ``seed`` repeats an earlier run;
    ``beside`` adds the previous lesson's solution and the reference to the table.
    """

    course: Course
    lesson: Lesson
    path: Path
    device: Device
    gpu: GpuSpec
    shape: Shape | None = None
    seed: int | None = None
    beside: bool = True


def run_lesson(request: Request, progress: Progress = lambda what: None) -> RunOutcome:
    """Compile, check, count, judge, estimate and advise: one kernel, and what to compare it with.

    Whatever the kernel does is a verdict. Raises ``CommandError`` (its file cannot be read), ``ShapeError`` (the lesson
    does not allow this shape), ``UnsupportedKernel`` (the device cannot run it) and ``KitError``.
    """
    lesson, began = request.lesson, time.perf_counter()
    if request.shape is not None:
        lesson.allow(request.shape)
    run = _Run(request, fresh_seed() if request.seed is None else request.seed, progress)
    with stage("lesson", lesson.name, payload=lesson.number):
        solution = request.course.solution(lesson)
        is_reference = solution is not None and solution.resolve() == request.path.resolve()
        label = "reference" if is_reference else "your kernel"
        shapes = (request.shape,) if request.shape else lesson.shapes.check
        rows = [run.row("kernel", label, lesson, request.path, shapes)]
        if request.beside:
            rows += [run.row_beside(*other) for other in run.others(with_reference=not is_reference)]
    return RunOutcome(
        lesson=lesson,
        device_kind=request.device.kind,
        device_name=request.device.name,
        gpu=request.gpu.name,
        seed=run.seed,
        count_shape=lesson.shapes.count,
        estimate_shape=run.estimate_shape,
        rows=tuple(rows),
        seconds=time.perf_counter() - began,
    )


class _Run:
    """One run: what was asked for, and the steps that every row of the table takes."""

    def __init__(self, request: Request, seed: int, progress: Progress) -> None:
        self.request = request
        self.seed = seed
        self.progress = progress
        multiple = request.lesson.shapes.multiple_of
        sizes = (-(-ESTIMATE_SIZE // size) * size for size in (multiple.m, multiple.n, multiple.k))
        self.estimate_shape = request.shape or Shape(*sizes)

    def row(self, role: Role, label: str, lesson: Lesson, path: Path, shapes: Sequence[Shape]) -> Row:
        """One kernel from its file to its hints: compile, check, count, judge the gates, estimate, advise."""
        row = Row(role, label, shown(path), read_source(path), Passed())
        compiled = self._compile(lesson, path, row.source)
        if isinstance(compiled, Compiled):
            row = self._describe(row, lesson, compiled)
            row, counted = self._launch(row, lesson, compiled, shapes)
            if counted is not None:
                row = self._gates(row, lesson, counted)
                row = self._time(row, lesson, compiled, counted)
        else:
            row = replace(row, verdict=compiled, diagnostics=compiled.diagnostics)
        return replace(row, hints=self._hints(row, lesson)) if role == "kernel" else row

    def others(self, with_reference: bool) -> Iterator[tuple[Role, str, Lesson]]:
        """What stands beside the kernel in the table: the previous lesson's solution and this lesson's reference."""
        course, lesson = self.request.course, self.request.lesson
        previous = course.neighbour(lesson, -1) if lesson.name in course.names else None
        if previous is not None:
            yield "previous", previous.replace("_", " ", 1), course.lesson(previous)
        if with_reference:
            yield "reference", "reference", lesson

    def row_beside(self, role: Role, label: str, lesson: Lesson) -> Row:
        """A row to compare with, launched on the counting shape only.

        The previous lesson's solution meets this lesson's gates, not its own: that shows what the new idea changes.
        """
        path = self.request.course.solution(lesson)
        if path is None:
            why = f"{lesson.name} has no solution here"
            return Row(role, label, "", "", CompileFailed(why), unsupported=why)
        try:
            return self.row(role, label, lesson, path, ())
        except UnsupportedKernel as error:
            return Row(role, label, shown(path), "", CompileFailed(str(error)), unsupported=str(error))

    def _compile(self, lesson: Lesson, path: Path, source: str) -> Compiled | CompileFailed:
        self.progress(f"compile {path.name}")
        with stage("compile", path.name, payload=len(source)):
            result = compile_source(
                source,
                path=shown(path),
                entry=lesson.kernel.entry,
                defines=lesson.tile.defines,
                include_dirs=lesson.include_dirs,
                arch=_arch(self.request.gpu),
            )
        if isinstance(result, Compiled):
            wrong = mismatch(lesson.kernel, result)
            if wrong:
                return CompileFailed(wrong, result.diagnostics)
            result.start_sass()  # the counters will want it when the first shapes have been checked
            return result
        wrong = wrong_name(lesson.kernel, source, result.diagnostics)
        if wrong:
            return CompileFailed(wrong, (), result.log)
        errors = sum(diagnostic.severity == "error" for diagnostic in result.diagnostics)
        message = f"the compiler found {errors or 'an'} error{'s'[: errors > 1]}"
        return CompileFailed(message, result.diagnostics, result.log)

    def _describe(self, row: Row, lesson: Lesson, compiled: Compiled) -> Row:
        grid = lesson.grid(lesson.shapes.count)
        return replace(
            row,
            arch=compiled.arch,
            compiler=compiled.compiler,
            diagnostics=compiled.diagnostics,
            resources=compiled.resources,
            occupancy=occupancy(compiled.resources, grid.threads, grid.dynamic_shared, self.request.gpu),
        )

    def _launch(
        self, row: Row, lesson: Lesson, compiled: Compiled, shapes: Sequence[Shape]
    ) -> tuple[Row, Counters | None]:
        """Check every shape, the counting shape last. The first shape that fails gives the verdict; a fault or an
        endless kernel ends the checks, since the next shape would most likely show the same, slowly."""
        counting = self._counting_shape(lesson)
        if row.occupancy is not None and not row.occupancy.blocks_per_sm:
            finding = Finding("launch_failed", "error", _too_large(row, lesson, self.request.gpu))
            return replace(row, verdict=Faulted(counting, finding), findings=(finding,)), None
        counters: Counters | None = None
        for shape in (*(shape for shape in shapes if shape != counting), counting):
            name: Literal["count", "check"] = "count" if shape == counting else "check"
            launched, trial = self._device(name, lesson, compiled, shape)
            findings = (*launched.findings, *trial.damage())
            verdict, judgement = _judge(lesson, shape, trial, launched, findings)
            row = replace(
                row,
                verdict=verdict if isinstance(row.verdict, Passed) else row.verdict,
                shapes=(*row.shapes, ShapeResult(shape, verdict.kind, judgement, findings)),
                findings=merged((*row.findings, *findings, *([launched.fault] if launched.fault else []))),
            )
            if launched.fault is not None:
                return row, None
            counters = launched.counters
        return replace(row, counters=counters), counters

    def _counting_shape(self, lesson: Lesson) -> Shape:
        """The lesson's under test, so that all rows count the same work; a lesson that cannot take it uses its own."""
        shape = self.request.lesson.shapes.count
        return shape if lesson.shapes.refusal(shape) is None else lesson.shapes.count

    def _device(
        self, name: Literal["check", "count"], lesson: Lesson, compiled: Compiled, shape: Shape
    ) -> tuple[Launched, Trial]:
        self.progress(f"{name} {shape}")
        with stage(name, str(shape), payload=2 * shape.m * shape.n * shape.k):
            trial = Problem(lesson.kernel, shape, self.seed).trial()
            return self.request.device.launch(compiled, lesson.grid(shape), trial.arguments), trial

    def _gates(self, row: Row, lesson: Lesson, counters: Counters) -> Row:
        """Only right answers reach the gates: counting what a wrong kernel does would accuse it twice."""
        if not isinstance(row.verdict, Passed):
            return row
        gates = judge_gates(self.request.lesson.gates, self._names(row, self._counting_shape(lesson), counters))
        missed = tuple(gate for gate in gates if not gate.passed)
        return replace(row, gates=gates, verdict=GateMissed(missed) if missed else row.verdict)

    def _names(self, row: Row, shape: Shape, counters: Counters) -> Mapping[str, Number]:
        assert row.resources is not None
        return {
            **{short: counters.get(short) for short in METRICS},
            "registers": row.resources.registers,
            "shared_bytes": row.resources.shared_bytes,
            "spill_bytes": row.resources.spill_bytes,
            "stack_bytes": row.resources.stack_bytes,
            **self.request.lesson.names(shape),
        }

    def _time(self, row: Row, lesson: Lesson, compiled: Compiled, counters: Counters) -> Row:
        """How fast a right kernel is: estimated on the simulator, measured on a GPU. A wrong one has no time."""
        shape, gpu = self.estimate_shape, self.request.gpu
        if not isinstance(row.verdict, Passed | GateMissed) or lesson.shapes.refusal(shape) or row.occupancy is None:
            return row
        self.progress(f"time {shape}")
        with stage("time", str(shape), payload=2 * shape.m * shape.n * shape.k):
            if self.request.device.kind == "gpu":
                trial = Problem(lesson.kernel, shape, self.seed).trial()
                time_us = self.request.device.launch(compiled, lesson.grid(shape), trial.arguments).time_us
                gflops = 2e-3 * shape.m * shape.n * shape.k / time_us if time_us else None
                return replace(row, time_us=time_us, gflops=gflops)
            counted = self._counting_shape(lesson)
            longer = Shape(counted.m, counted.n, 2 * counted.k)
            grid, tiles = lesson.grid(counted), tile_sizes(lesson)
            trial = Problem(lesson.kernel, longer, self.seed).trial()
            second = self.request.device.launch(compiled, lesson.grid(longer), trial.arguments).counters
            profile = Profile(
                samples=(
                    (counted.k, Work.of(counters, grid.blocks)),
                    (longer.k, Work.of(second, lesson.grid(longer).blocks)),
                ),
                threads=grid.threads,
                blocks_per_sm=row.occupancy.blocks_per_sm,
                tile_rows=tiles.rows,
                tile_cols=tiles.cols,
            )
            x, y, _ = lesson.grid(shape).grid
            return replace(row, estimate=estimate_at(profile, shape, (x, y), gpu))

    def _hints(self, row: Row, lesson: Lesson) -> tuple[str, ...]:
        shape = self.estimate_shape
        allowed = lesson.shapes.refusal(shape) is None
        return hints_for(
            Facts(
                lesson=lesson,
                verdict=row.verdict,
                source=row.source,
                stub=read_source(lesson.stub_path) if lesson.stub_path.is_file() else "",
                counters=row.counters,
                findings=row.findings,
                resources=row.resources,
                occupancy=row.occupancy,
                estimate=row.estimate,
                counted=self._counting_shape(lesson),
                shape=shape,
                blocks=lesson.grid(shape).blocks if allowed else 0,
                sms=self.request.gpu.sms,
                gpu=self.request.gpu.name,
            )
        )


def _arch(gpu: GpuSpec) -> str:
    number = int("".join(filter(str.isdigit, gpu.arch)))
    return gpu.arch if number >= OLDEST_ARCH else f"sm_{OLDEST_ARCH}"


def tile_sizes(lesson: Lesson) -> TileSizes:
    """The block tile BM x BN and the depth BK, 1 where the lesson has none."""
    sizes = lesson.tile.defines
    return TileSizes(sizes.get("BM", 1), sizes.get("BN", 1), sizes.get("BK", 1))


def _judge(
    lesson: Lesson, shape: Shape, trial: Trial, launched: Launched, findings: Sequence[Finding]
) -> tuple[Verdict, Judgement | None]:
    """The verdict on one launch. An error among the findings comes before a wrong answer: it is the cause."""
    if launched.fault is not None:
        kind = TimedOut if launched.fault.kind == "timeout" else Faulted
        return kind(shape, launched.fault), None
    judgement = judge(trial.problem, trial.answer, tile_sizes(lesson))
    for finding in findings:
        if finding.severity == "error":
            return Faulted(shape, finding), judgement
    return (Passed() if judgement.passed else WrongAnswer(shape, judgement)), judgement


def merged(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Findings of several launches, one for each kind and pair of lines: the first one's words, all counts added."""
    by_place: dict[tuple[object, ...], Finding] = {}
    for finding in findings:
        place = (finding.kind, finding.severity, finding.file, finding.line, finding.other_line)
        seen = by_place.get(place)
        by_place[place] = replace(seen, count=seen.count + finding.count) if seen else finding
    return tuple(by_place.values())


def _too_large(row: Row, lesson: Lesson, gpu: GpuSpec) -> str:
    assert row.resources is not None
    grid = lesson.grid(lesson.shapes.count)
    return (
        f"no block of this kernel fits on a multiprocessor of an {gpu.name}: {grid.threads} threads x "
        f"{row.resources.registers} registers (it has {gpu.registers_per_block}), "
        f"{row.resources.shared_bytes + grid.dynamic_shared} bytes of shared memory (a block may have "
        f"{gpu.shared_bytes_per_block})"
    )
