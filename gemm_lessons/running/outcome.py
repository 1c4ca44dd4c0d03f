"""What a run returns to the report: one row for every kernel, with everything known about it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gemm_lessons.course import Lesson, shown
from gemm_lessons.engine import Counters, Diagnostic, Finding
from gemm_lessons.engine.records import Quoted, dataclass
from gemm_lessons.judging import (
    UNTIMED,
    Built,
    Checked,
    CompileFailed,
    Judgement,
    Passed,
    ShapeResult,
    Speed,
    Verdict,
    stopped,
    text_of_line,
)

if TYPE_CHECKING:
    from gemm_lessons.course import Lesson
    from gemm_lessons.devices import Measurement
    from gemm_lessons.engine import Finding
    from gemm_lessons.engine.compiler import Diagnostic
    from gemm_lessons.engine.inspection import Inspection
    from gemm_lessons.gemm import Shape

Role = Literal["kernel", "previous", "reference"]


@dataclass(frozen=True)
class LaunchResult:
    """The result of one planned launch; ``fault`` ended it early. ``counted``: for gates to judge. ``before``: of the
    launches that replace a sample, those before the last one."""

    shape: Shape
    verdict: Verdict
    judgement: Judgement | None = None
    findings: tuple[Finding, ...] = ()
    fault: Finding | None = None
    counters: Counters = Counters()
    hidden: bool = False
    counted: bool = False
    before: tuple[LaunchResult, ...] = ()

    @property
    def told(self) -> tuple[Finding, ...]:
        """Return all findings. The fault is last, unless the device placed it itself."""
        return self.findings if self.fault is None or self.fault in self.findings else (*self.findings, self.fault)

    @property
    def summary(self) -> ShapeResult:
        """Return the result as the report shows it."""
        return ShapeResult(self.shape, self.verdict.kind, self.judgement, self.told, self.hidden)


@dataclass(frozen=True)
class Row:
    """Everything known about one kernel: one row of the table.

    The row of the kernel under test is checked on every shape; the rows beside it (the previous lesson's solution and
    this lesson's reference) run on the counting shape only. ``built`` is None when it did not compile.
    """

    role: Role
    label: str  # "your kernel", "stub", "bug", "01 naive", "reference"
    path: str
    source: str
    checked: Checked
    built: Built | None = None
    speed: Speed = UNTIMED
    hints: tuple[str, ...] = ()  # best first, at most three
    unsupported: str = ""  # why the device could not run this row at all (only in the rows beside the kernel)

    @property
    def verdict(self) -> Verdict:
        """Return the verdict on this kernel."""
        return self.checked.verdict

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Return the compiler's errors, or its warnings."""
        if self.built is not None:
            return self.built.diagnostics
        return self.verdict.diagnostics if isinstance(self.verdict, CompileFailed) else ()

    def holds(self, file: str) -> bool:
        """Tell whether lines of ``file`` are lines of the kernel file; an empty name means the kernel file."""
        return file in ("", self.path)

    def source_line(self, line: int | None, file: str = "") -> str:
        """Return the text of a line (from 1) of the kernel file without its indent, or an empty string."""
        return text_of_line(self.source, line) if self.holds(file) else ""


def row_of_launch(result: Inspection) -> Row:
    """Return the row of a launch of any kernel, of which nothing is judged."""
    request, launched = result.request, result.launched
    checked = Checked(Passed(), findings=result.found, counters=launched.counters if launched else None)
    return Row("kernel", request.entry, request.path, request.source, checked)


@dataclass(frozen=True)
class RunOutcome:
    """The outcome that ``gemm-lessons run`` reports. ``rows[0]`` is the kernel under test; its verdict is the run's."""

    lesson: Lesson
    device_kind: Literal["simulator", "gpu"]
    device_name: str
    gpu: str  # the GPU of estimates and occupancy, such as "H200"
    seed: int
    count_shape: Shape
    estimate_shape: Shape
    rows: tuple[Row, ...]
    seconds: float = 0.0
    measured: Measurement | None = None  # on a GPU, when the kernel was right
    attacker: str = ""  # name of the lesson that attacks what limits a kernel that passed
    peak_gflops: float | None = None  # fp32 peak by the device's data sheet; None for other types and unknown devices

    def without_reference(self) -> RunOutcome:
        """Return the outcome without the reference beside the kernel, whose counters would answer the questions."""
        return replace(self, rows=tuple(row for row in self.rows if row.role != "reference"))

    @property
    def kernel(self) -> Row:
        """Return the row of the kernel under test."""
        return self.rows[0]

    @property
    def verdict(self) -> Verdict:
        """Return the verdict on the kernel under test."""
        return self.rows[0].verdict


def ended_early(lesson: Lesson, path: Path, kind: str, message: str, device: str = "sim", gpu: str = "") -> RunOutcome:
    """Return the outcome of a run that ended without an answer: ``kind`` is ``timeout``, ``memory`` or ``crash``."""
    return ended_by(Finding(kind, "error", "bounds", facts=Quoted(message)), lesson, path, device, gpu)


def ended_by(finding: Finding, lesson: Lesson, path: Path, device: str = "sim", gpu: str = "") -> RunOutcome:
    """Return the outcome of a run that ``finding`` ended: its kind is one of those of ``ended_early``."""
    checked = Checked(stopped(lesson.shapes.count, finding), findings=(finding,))
    return _outcome(lesson, path, checked, device, gpu)


def refused(lesson: Lesson, path: Path, message: str, line: int, device: str = "sim", gpu: str = "") -> RunOutcome:
    """Return the outcome for a file that is not passed to a compiler."""
    failed = CompileFailed(message, (Diagnostic(shown(path), line, None, "error", message),))
    return _outcome(lesson, path, Checked(failed), device, gpu)


def _outcome(lesson: Lesson, path: Path, checked: Checked, device: str, gpu: str) -> RunOutcome:
    count = lesson.shapes.count
    kind: Literal["simulator", "gpu"] = "gpu" if device == "gpu" else "simulator"
    row = Row("kernel", "your kernel", shown(path), "", checked)
    return RunOutcome(lesson, kind, "", gpu, 0, count, count, (row,))
