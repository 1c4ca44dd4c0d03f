"""What a run hands to the report: one row for every kernel, each with all that is known about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from gemm_lessons.judgement.verdict import GateResult, Judgement, Kind, Verdict
from gemm_lessons.launch import Counters, Finding

if TYPE_CHECKING:
    from gemm_lessons.compiler.compile import Diagnostic, Occupancy, Resources
    from gemm_lessons.course.lesson import Lesson, Shape
    from gemm_lessons.estimate.model import Estimate, Profile
    from gemm_lessons.gpu import Measurement

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
    label: str  # "your kernel", "stub", "01 naive", "reference"
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
    profile: Profile | None = None  # for estimates at other shapes: estimate.estimate_at
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
    measured: Measurement | None = None  # on a GPU, when the kernel was right
    peak_gflops: float | None = None  # of the device's data sheet, in the kernel's precision; None if not known

    @property
    def kernel(self) -> Row:
        """The row of the kernel that was asked for."""
        return self.rows[0]

    @property
    def verdict(self) -> Verdict:
        """The verdict on the kernel that was asked for."""
        return self.rows[0].verdict
