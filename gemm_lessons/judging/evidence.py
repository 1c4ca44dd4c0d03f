"""Everything known about one kernel, in three records: the build, the checks and the speed.

Each step of a run takes the earlier records and makes the next one; hints and reports read them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gemm_lessons.course import Lesson, Stub
from gemm_lessons.devices import Binaries
from gemm_lessons.engine import Counters, Finding, Printed
from gemm_lessons.engine.hardware import most
from gemm_lessons.engine.records import dataclass
from gemm_lessons.gemm import Shape
from gemm_lessons.judging.named_sentence import NamedSentence
from gemm_lessons.judging.unfinished import Unfinished
from gemm_lessons.judging.verdict import GateResult, Judgement, Kind, Passed, Verdict

if TYPE_CHECKING:
    from gemm_lessons.devices import Timed
    from gemm_lessons.engine.compiler import Diagnostic
    from gemm_lessons.engine.hardware import Occupancy, Resources
    from gemm_lessons.gemm import Estimate, Estimator


@dataclass(frozen=True)
class Built:
    """A kernel as compiled. ``occupancies`` of its launches are for the timed GPU; empty if not compiled for it."""

    lesson: Lesson  # the lesson of the kernel: its launches, tile and data
    code: Binaries
    occupancies: tuple[Occupancy, ...] = ()
    may_overrun: bool = False  # by the source, an index of a thread's own array may run past its end
    others: tuple[Built, ...] = ()  # the same kernel as the host chooses it for other shapes

    @property
    def is_assembled(self) -> bool:
        """Tell whether there is machine code, not only PTX."""
        return all(compiled.cubin for compiled in self.code.counted)

    @property
    def arch(self) -> str:
        """Return the architecture that is counted."""
        return self.code.counted[0].arch

    @property
    def occupancy(self) -> Occupancy | None:
        """Return the lowest occupancy of all launches."""
        return min(self.occupancies, key=lambda it: it.fraction, default=None)

    @property
    def resources(self) -> Resources:
        """Return the resources of the counted code: the largest of all launches."""
        every = [compiled.resources for compiled in self.code.counted]
        return every[0] if len(every) == 1 else most(every)

    @property
    def shared_bytes(self) -> int:
        """Return the shared memory of a block in bytes, static and dynamic: the largest of all launches."""
        grids = self.lesson.grids(self.lesson.shapes.count)
        launched = zip(self.code.counted, grids, strict=True)
        return max(compiled.resources.shared_bytes + grid.dynamic_shared for compiled, grid in launched)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Return the compiler's warnings."""
        return tuple(dict.fromkeys(it for compiled in self.code.counted for it in compiled.diagnostics))


@dataclass(frozen=True)
class ShapeResult:
    """One launch on one shape. ``judgement``: None without an answer; ``hidden``: the author must not know it."""

    shape: Shape
    kind: Kind
    judgement: Judgement | None = None
    findings: tuple[Finding, ...] = ()
    hidden: bool = False


@dataclass(frozen=True)
class Checked:
    """The results of a kernel's launches; the first problem is the verdict."""

    verdict: Verdict
    shapes: tuple[ShapeResult, ...] = ()
    findings: tuple[Finding, ...] = ()  # of all shapes, merged
    counters: Counters | None = None  # of the counting shape; lines and conflicts are in here
    hidden_counters: tuple[tuple[Shape, Counters], ...] = ()  # of the hidden shapes
    gates: tuple[GateResult, ...] = ()  # judged for right answers only
    unfinished: Unfinished | None = None  # TODOs are open, and the answer is not right
    printed: Printed | None = None  # at the shape ``printed_at``
    printed_at: Shape | None = None
    contents: tuple[NamedSentence, ...] = ()  # memory after one K tile, for an answer that nothing else explains

    @property
    def shown_gates(self) -> tuple[GateResult, ...]:
        """Return the gates to show: the lesson's own, and integrity gates that are missed."""
        return tuple(gate for gate in self.gates if not gate.integrity or gate.missed)

    def shape_of(self, finding: Finding) -> Shape | None:
        """Return the first shape with such a finding; None where its author must not know the shape."""
        place = (finding.kind, finding.file, finding.line, finding.other_line)
        for result in self.shapes:
            if place in ((it.kind, it.file, it.line, it.other_line) for it in result.findings):
                return None if result.hidden else result.shape
        return None

    @property
    def right(self) -> bool:
        """Tell whether the answer is right, by any method: only then does its speed matter."""
        return self.verdict.kind in ("passed", "gate_missed")

    @property
    def instructions_per_fma(self) -> float | None:
        """Return machine instructions per multiply-add in fp32 or fp64, or per dot product of 4 bytes, both counted
        once per warp; None where nothing was counted, or there are none."""
        if self.counters is None:
            return None
        counted = self.counters.numbers()
        fused = counted["ffma"] + counted["dfma"] + 32 * counted["dot_products"]
        per_fma = 32 * counted["warp_instructions"] / fused if fused else math.nan
        return per_fma if math.isfinite(per_fma) else None

    @property
    def instructions_per_mma(self) -> float | None:
        """Return machine instructions per tensor-core instruction, both counted once per warp; None without any."""
        if self.counters is None:
            return None
        counted = self.counters.numbers()
        products = counted["hmma"] + counted["imma"] + counted["dmma"] if counted["tensor_products"] else 0
        per_mma = counted["warp_instructions"] / products if products else math.nan
        return per_mma if math.isfinite(per_mma) else None


@dataclass(frozen=True)
class Speed:
    """The speed of a right kernel: estimated, or measured on a GPU. Empty where it has no time."""

    estimate: Estimate | None = None
    estimator: Estimator | None = None  # for other shapes
    measured: Timed | None = None
    refused: str = ""  # why a right kernel has no estimate

    @property
    def fraction_of_cublas(self) -> float | None:
        """Return the measured speed / cuBLAS's."""
        return self.measured.of_cublas if self.measured else None


UNTIMED: Speed = Speed()


@dataclass(frozen=True)
class Evidence:
    """All facts that a hint may read. Counters are for ``counted``; estimate and grid's ``blocks`` for ``shape``."""

    lesson: Lesson
    source: str
    stub: Stub = Stub()
    built: Built | None = None
    checked: Checked = Checked(Passed())
    speed: Speed = UNTIMED
    counted: Shape | None = None
    shape: Shape | None = None
    blocks: int = 0
    sms: int = 0
    gpu: str = ""
    reference: Checked | None = None  # results of the lesson's own solution, where it ran beside the kernel
    solution: Speed = UNTIMED  # of the same
    attacker: str = ""  # the later lesson that attacks what limits the kernel, as a learner names it

    def quote(self, line: int) -> str:
        """Return a source line without its indent."""
        return text_of_line(self.source, line)


def text_of_line(source: str, line: int | None) -> str:
    """Return the text of a line (from 1) of a source without its indent, or an empty string."""
    lines = source.splitlines()
    return lines[line - 1].strip() if line is not None and 0 < line <= len(lines) else ""
