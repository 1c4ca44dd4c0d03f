"""What of a run may be made apart, and is asked for there: ``Apart``, which makes nothing, and is asked in vain.

``second_process.py`` has the process that does. What it makes is what the run would make itself.
"""

from __future__ import annotations

from collections.abc import Collection

from gemm_lessons.engine.records.findings import Finding
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.results import Counters
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.judging.evidence import ShapeResult
from gemm_lessons.judging.verdict import Judgement, Verdict
from gemm_lessons.running.outcome import Role, Row


@dataclass(frozen=True)
class Tried:
    """What came of one launch; ``fault`` ended it early."""

    shape: Shape
    verdict: Verdict
    judgement: Judgement | None
    findings: tuple[Finding, ...]
    fault: Finding | None
    counters: Counters
    hidden: bool = False

    @property
    def told(self) -> tuple[Finding, ...]:
        """All findings. The fault is the last one, unless the device put it in its place."""
        return self.findings if self.fault is None or self.fault in self.findings else (*self.findings, self.fault)

    @property
    def result(self) -> ShapeResult:
        """As the report has it."""
        return ShapeResult(self.shape, self.verdict.kind, self.judgement, self.findings, self.hidden)


class Apart:
    """``shapes``: on which the kernel under test is tried apart."""

    shapes: Collection[Shape] = ()

    def tried(self, shape: Shape) -> Tried | None:
        """What came of one of them, as soon as it is known; None where nobody knows."""
        return None

    def row(self, role: Role) -> Row | None:
        """A row beside the kernel; None where nobody makes it."""
        return None

    @property
    def makes_rows(self) -> bool:
        """Whether it is worth asking for one."""
        return False
