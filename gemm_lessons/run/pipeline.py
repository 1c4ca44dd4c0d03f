"""run_lesson(): the whole flow, top to bottom.

A lesson names a kernel file and its launch; the compiler turns it into machine code; a device launches it on a problem;
the answer is judged into a verdict; counters, findings and times become an estimate and hints.

Counters, findings and gates are those of code compiled for the course's own architecture. Times, estimates and
occupancy are those of code compiled for the GPU that they are for. Where both are the same, it is compiled once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from gemm_lessons.compiler.compile import Compiled, occupancy
from gemm_lessons.compiler.overlap import ffma_behind_loads
from gemm_lessons.course.expression import Number
from gemm_lessons.course.folder import Course, read_source, shown
from gemm_lessons.course.lesson import Lesson, Shape, tile_sizes
from gemm_lessons.course.problem import Problem, Trial, fresh_seed
from gemm_lessons.device import Device
from gemm_lessons.errors import UnsupportedKernel
from gemm_lessons.estimate.model import estimate_at, profile_of
from gemm_lessons.gpu import Entrant, Gpu, Measurement
from gemm_lessons.hardware.sheets import GpuSpec, buildable, data_sheet, sheet_of
from gemm_lessons.judgement.hints import Evidence, hints_for
from gemm_lessons.judgement.verdict import (
    CompileFailed,
    Faulted,
    GateMissed,
    Judgement,
    Kind,
    Passed,
    TimedOut,
    Verdict,
    WrongAnswer,
    judge,
    judge_gates,
)
from gemm_lessons.launch import METRICS, Finding, Launched
from gemm_lessons.ranges import stage, turn
from gemm_lessons.run.builder import Builder
from gemm_lessons.run.estimating import subject_of
from gemm_lessons.run.outcome import Role, Row, RunOutcome, ShapeResult
from gemm_lessons.simulator import Disagreement, Simulator

__all__ = ["Row", "RunOutcome", "RunRequest", "ShapeResult", "Tell", "run_lesson"]

ESTIMATE_SIZE = 4096  # M = N = K of the estimate in the table: so large that no launch overhead or tail shows
TIMED: tuple[Kind, ...] = ("passed", "gate_missed")  # a right answer has a time, by whatever method
SIMULATED = 512**3  # M * N * K up to which a GPU's launch is repeated on the simulator: below a second

Other = tuple[Role, str, Lesson]  # a row beside the kernel: its role, its label, the lesson whose solution it is
Tell = Callable[[str], None]  # told what begins: "compile solution.cu", "check 96x64x80", ...


@dataclass(frozen=True)
class RunRequest:
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


def run_lesson(request: RunRequest, progress: Tell = lambda what: None) -> RunOutcome:
    """Compile, check, count, judge, estimate and advise: one kernel, and what to compare it with.

    Whatever the kernel does is a verdict. Raises ``CommandError`` (its file cannot be read), ``ShapeError`` (the lesson
    does not allow this shape), ``UnsupportedKernel`` (the device cannot run it) and ``KitError``.
    """
    lesson, began = request.lesson, time.perf_counter()
    if request.shape is not None:
        lesson.allow(request.shape)
    run = _Run(request, fresh_seed() if request.seed is None else request.seed, progress)
    with stage("lesson", lesson.name, payload=lesson.number):
        label = label_for(request.course, lesson, request.path)
        shapes = (request.shape,) if request.shape else lesson.shapes.check
        others = list(run.others(with_reference=label != "reference")) if request.beside else []
        rows = [run.row("kernel", label, lesson, request.path, shapes, ahead=others)]
        if rows[0].resources is not None:  # it compiled: there is something to compare
            rows += [run.row_beside(*other) for other in others]
        measured = None
        if isinstance(request.device, Gpu) and rows[0].verdict.kind in TIMED:
            measured = run.measure(request.device, rows)
            rows = [measured_row(row, measured) for row in rows]
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
        measured=measured,
        peak_gflops=_peak_gflops(request.device, lesson),
    )


def label_for(course: Course, lesson: Lesson, path: Path) -> str:
    """What a kernel file is called in the table and in the ranges: ``reference``, ``stub`` or ``your kernel``."""
    solution = course.solution(lesson)
    if solution is not None and solution.resolve() == path.resolve():
        return "reference"
    return "stub" if lesson.stub_path.resolve() == path.resolve() else "your kernel"


@dataclass(frozen=True)
class _Built:
    """One kernel, compiled for what counts it and for the GPU that its time is for: often the same thing."""

    lesson: Lesson
    counted: Compiled
    timed: Compiled | None  # None: it cannot be compiled for that GPU


class _Run:
    """One run: what was asked for, and the steps that every row of the table takes."""

    def __init__(self, request: RunRequest, seed: int, progress: Tell) -> None:
        self.request = request
        self.seed = seed
        self.progress = progress
        multiple = request.lesson.shapes.multiple_of
        sizes = (-(-ESTIMATE_SIZE // size) * size for size in (multiple.m, multiple.n, multiple.k))
        self.estimate_shape = request.shape or Shape(*sizes)
        self.simulator = request.device if isinstance(request.device, Simulator) else Simulator()
        self.checker: Device = request.device
        if isinstance(request.device, Simulator):  # counting takes longer than running: only where it is needed
            self.checker = Simulator(replace(request.device.setting, counting=False))
        self.built: dict[Role, _Built] = {}
        self.counting = Builder(request.course.architecture)
        self.timing = builder_for(request.device, request.gpu)
        if self.timing.makes_the_same_as(self.counting):
            self.timing = self.counting

    def row(
        self, role: Role, label: str, lesson: Lesson, path: Path, shapes: Sequence[Shape], ahead: Sequence[Other] = ()
    ) -> Row:
        """One kernel from its file to its hints: compile, check, count, judge the gates, estimate, advise.

        ``ahead`` is what comes next, to be compiled meanwhile.
        """
        with turn(role, label):
            row = Row(role, label, shown(path), read_source(path), Passed())
            built = self._build(lesson, path, row.source)
            if isinstance(built, _Built):
                for _, _, other in ahead:
                    self._build_ahead(other, self.request.course.solution(other))
            return self._row(row, built, lesson, shapes)

    def _row(self, row: Row, built: _Built | CompileFailed, lesson: Lesson, shapes: Sequence[Shape]) -> Row:
        if isinstance(built, _Built):
            self.built[row.role] = built
            row = self._describe(row, built)
            row = self._check(row, built, shapes)
            row = self._gates(row, built)
            row = self._estimate(row, built)
        else:
            row = replace(row, verdict=built, diagnostics=built.diagnostics)
        return replace(row, hints=self._hints(row, lesson)) if row.role == "kernel" else row

    def others(self, with_reference: bool) -> Iterator[Other]:
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
        except (UnsupportedKernel, Disagreement) as error:
            return Row(role, label, shown(path), "", CompileFailed(str(error)), unsupported=str(error))

    def _build_ahead(self, lesson: Lesson, path: Path | None) -> None:
        self.counting.ahead(lesson, path)
        if self.timing is not self.counting:
            self.timing.ahead(lesson, path)

    def _build(self, lesson: Lesson, path: Path, source: str) -> _Built | CompileFailed:
        """Compile; what does not compile for a GPU that is here does not compile."""
        self.progress(f"compile {path.name}")
        with stage("compile", path.name, payload=len(source)):
            if self.timing is not self.counting:
                self.timing.ahead(lesson, path)
            counted = self.counting.build(lesson, path, source)
            if not isinstance(counted, Compiled):
                return counted
            if self.timing is self.counting:
                return _Built(lesson, counted, counted)
            timed = self.timing.build(lesson, path, source)
            if isinstance(timed, CompileFailed):
                if isinstance(self.request.device, Gpu):
                    return timed
                return _Built(lesson, counted, None)
            return _Built(lesson, counted, timed)

    def _describe(self, row: Row, built: _Built) -> Row:
        grid = built.lesson.grid(built.lesson.shapes.count)
        counted, timed, gpu = built.counted, built.timed, self.request.gpu
        return replace(
            row,
            arch=counted.arch,
            compiler=counted.compiler,
            diagnostics=counted.diagnostics,
            resources=counted.resources,
            occupancy=occupancy(timed.resources, grid.threads, grid.dynamic_shared, gpu) if timed else None,
        )

    def _check(self, row: Row, built: _Built, shapes: Sequence[Shape]) -> Row:
        """Check every shape, the counting shape last. The first shape that fails gives the verdict; a fault or an
        endless kernel ends the checks, since the next shape would most likely show the same, slowly."""
        lesson = built.lesson
        counting = self._counting_shape(lesson)
        if refused := self._refused(built):
            finding = Finding("launch_failed", "error", refused)
            return replace(row, verdict=Faulted(counting, finding), findings=(finding,))
        on_device = built.timed if built.timed and isinstance(self.request.device, Gpu) else built.counted
        for shape in (*(shape for shape in shapes if shape != counting), counting):
            name: Literal["count", "check"] = "count" if shape == counting else "check"
            self.progress(f"{name} {shape}")
            with stage(name, str(shape), payload=2 * shape.m * shape.n * shape.k):
                trial = Problem(lesson.kernel, shape, self.seed).trial()
                device = self.checker if name == "check" else self.request.device
                launched = device.launch(on_device, lesson.grid(shape), trial.arguments)
                if self.request.device is not self.simulator and (name == "count" or launched.fault):
                    launched = self._simulated(launched, lesson, built.counted, shape)
            findings = (*launched.findings, *trial.damage())
            verdict, judgement = _judge(lesson, shape, trial, launched, findings)
            if verdict.kind == "passed":  # a compiler may read ahead what nobody then uses
                findings = tuple(finding for finding in findings if finding.kind != "unset")
            row = replace(
                row,
                verdict=verdict if isinstance(row.verdict, Passed) else row.verdict,
                shapes=(*row.shapes, ShapeResult(shape, verdict.kind, judgement, findings)),
                findings=merged((*row.findings, *findings, *([launched.fault] if launched.fault else []))),
            )
            if launched.fault is not None:
                break
            if name == "check" and verdict.kind != "passed":
                self._second_opinion(built, shape)
            if name == "count":
                row = replace(row, counters=launched.counters)
        if isinstance(row.verdict, Faulted):  # with the counts of all launches, as it stands among the findings
            whole = next(it for it in row.findings if _place(it) == _place(row.verdict.finding))
            row = replace(row, verdict=Faulted(row.verdict.shape, whole))
        return row

    def _second_opinion(self, built: _Built, shape: Shape) -> None:
        """Before a kernel is blamed: do both engines see the same? A check is not counted, so only one has looked."""
        if self.request.device is self.simulator:
            arguments = Problem(built.lesson.kernel, shape, self.seed).trial().arguments
            self.simulator.launch(built.counted, built.lesson.grid(shape), arguments)

    def _refused(self, built: _Built) -> str:
        """Why no GPU of the architecture that runs the checks would launch this kernel; empty when it would."""
        if isinstance(self.request.device, Gpu):
            assert built.timed is not None
            sheet, resources = self.request.gpu, built.timed.resources
        else:
            known = sheet_of(built.counted.arch)
            if known is None:
                return ""
            sheet, resources = known, built.counted.resources
        grid = built.lesson.grid(built.lesson.shapes.count)
        if occupancy(resources, grid.threads, grid.dynamic_shared, sheet).blocks_per_sm:
            return ""
        return (
            f"no block of this kernel fits on a multiprocessor of an {sheet.name}: {grid.threads} threads x "
            f"{resources.registers} registers (it has {sheet.registers_per_block}), "
            f"{resources.shared_bytes + grid.dynamic_shared} bytes of shared memory (a block may have "
            f"{sheet.shared_bytes_per_block})"
        )

    def _simulated(self, launched: Launched, lesson: Lesson, compiled: Compiled, shape: Shape) -> Launched:
        """What a GPU ran, with what only the simulator sees: counters, findings, and in which line a fault happened."""
        if shape.m * shape.n * shape.k > SIMULATED:
            return launched
        if isinstance(self.request.device, Gpu) and launched.fault is None:
            self.request.device.prepare(self.request.lesson.kernel, self.estimate_shape, self.seed)
        arguments = Problem(lesson.kernel, shape, self.seed).trial().arguments
        try:
            simulated = self.simulator.launch(compiled, lesson.grid(shape), arguments)
        except UnsupportedKernel as error:
            note = Finding("not_simulated", "note", f"no counters: {error}", line=error.line)
            return replace(launched, findings=(*launched.findings, note))
        return Launched(
            simulated.counters,
            (*launched.findings, *simulated.findings, *([launched.fault] if launched.fault else [])),
            simulated.fault or launched.fault,
            launched.time_us,
        )

    def _counting_shape(self, lesson: Lesson) -> Shape:
        """The lesson's under test, so that all rows count the same work; a lesson that cannot take it uses its own."""
        shape = self.request.lesson.shapes.count
        return shape if lesson.shapes.refusal(shape) is None else lesson.shapes.count

    def _gates(self, row: Row, built: _Built) -> Row:
        """Only right answers reach the gates: counting what a wrong kernel does would accuse it twice."""
        if not isinstance(row.verdict, Passed) or row.counters is None or row.resources is None:
            return row
        names: Mapping[str, Number] = {
            **{short: row.counters.get(short) for short in METRICS},
            "registers": row.resources.registers,
            "shared_bytes": row.resources.shared_bytes,
            "spill_bytes": row.resources.spill_bytes,
            "stack_bytes": row.resources.stack_bytes,
            "ffma_behind_loads": ffma_behind_loads(built.counted.sass),
            **self.request.lesson.names(self._counting_shape(built.lesson)),
        }
        gates = judge_gates(self.request.lesson.gates, names)
        missed = tuple(gate for gate in gates if not gate.passed)
        return replace(row, gates=gates, verdict=GateMissed(missed) if missed else row.verdict)

    def _estimate(self, row: Row, built: _Built) -> Row:
        """How fast a right kernel would be on the chosen GPU; a wrong one has no time, nor one that does not fit there
        or that the model does not know. What stands beside a measured kernel is measured, and needs no estimate."""
        if row.role != "kernel" and isinstance(self.request.device, Gpu):
            return row
        shape, gpu, lesson = self.estimate_shape, self.request.gpu, built.lesson
        if row.verdict.kind not in TIMED or lesson.shapes.refusal(shape) or not (row.counters and row.occupancy):
            return row
        if built.timed is None or not row.occupancy.blocks_per_sm:
            return row
        self.progress(f"estimate {shape}")
        with stage("estimate", str(shape), payload=2 * shape.m * shape.n * shape.k):
            profile = profile_of(subject_of(lesson, built.timed), row.occupancy.blocks_per_sm)
            if profile is None:
                return row
            x, y, _ = lesson.grid(shape).grid
            return replace(row, profile=profile, estimate=estimate_at(profile, shape, (x, y), gpu))

    def measure(self, gpu: Gpu, rows: Sequence[Row]) -> Measurement:
        """Time all right kernels beside cuBLAS, in one run so that the ratios hold."""
        shape, kernel = self.estimate_shape, self.request.lesson.kernel
        entrants = []
        for row in rows:
            built = self.built.get(row.role)
            if not (built and built.timed) or row.verdict.kind not in TIMED:
                continue
            if built.lesson.kernel == kernel and not built.lesson.shapes.refusal(shape):
                entrants.append(Entrant(row.label, row.role, built.timed, built.lesson.grid(shape)))
        self.progress(f"time {shape}")
        with stage("time", str(shape), payload=2 * shape.m * shape.n * shape.k):
            return gpu.measure(
                kernel, shape, entrants, seed=self.seed, progress=lambda label: self.progress(f"time {label}")
            )

    def _hints(self, row: Row, lesson: Lesson) -> tuple[str, ...]:
        shape = self.estimate_shape
        allowed = lesson.shapes.refusal(shape) is None
        return hints_for(
            Evidence(
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
                checked={result.shape: result.kind == "passed" for result in row.shapes},
            )
        )


def measured_row(row: Row, measured: Measurement) -> Row:
    """The row with its measured times, or with what went wrong on the large shape only."""
    shape = measured.shape
    if measured.fault is not None and measured.culprit == row.label:
        kind = TimedOut if measured.fault.kind == "timeout" else Faulted
        return replace(row, verdict=kind(shape, measured.fault), findings=(*row.findings, measured.fault))
    timed = measured.of(row.label)
    if timed is None:
        return row
    if timed.overran:
        finding = Finding("out_of_bounds", "error", f"the kernel wrote beyond the ends of {timed.overran} at {shape}")
        return replace(row, verdict=Faulted(shape, finding), findings=(*row.findings, finding))
    if timed.wrong:
        judgement = Judgement(timed.wrong, shape.m * shape.n, timed.max_error, timed.tolerance)
        return replace(row, verdict=WrongAnswer(shape, judgement))
    return replace(row, time_us=timed.time_us, gflops=timed.gflops, fraction_of_cublas=measured.fraction(timed))


def _peak_gflops(device: Device, lesson: Lesson) -> float | None:
    """What the data sheet of this very GPU promises for fused multiply-adds in fp32."""
    sheet = data_sheet(device.name) if isinstance(device, Gpu) else None
    return sheet.fp32_flops_per_s / 1e9 if sheet and lesson.kernel.a == lesson.kernel.accumulate == "float32" else None


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
        seen = by_place.get(_place(finding))
        by_place[_place(finding)] = replace(seen, count=seen.count + finding.count) if seen else finding
    return tuple(by_place.values())


def _place(finding: Finding) -> tuple[object, ...]:
    return finding.kind, finding.severity, finding.file, finding.line, finding.other_line


def builder_for(device: Device, gpu: GpuSpec) -> Builder:
    """Compiles for the GPU that is here, else for the one that estimates are for."""
    return Builder(device.arch, device.driver_major) if isinstance(device, Gpu) else Builder(buildable(gpu.arch))
