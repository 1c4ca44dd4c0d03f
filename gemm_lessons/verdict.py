"""What came of one kernel: Passed, or the one reason why not. Values, never exceptions.

``judge`` compares an answer with NumPy's and says where and, if it recognises it, how it is wrong; ``judge_gates``
evaluates a lesson's structural gates over the counters. The pipeline picks the verdict in this order: the kernel did
not compile, it faulted, it never ended, its answer is wrong, its answer is right but by the wrong method.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from gemm_lessons.device import Finding

if TYPE_CHECKING:
    from gemm_lessons.compiler import Diagnostic

Kind = Literal["passed", "compile_failed", "faulted", "wrong_answer", "timed_out", "gate_missed"]


@dataclass(frozen=True)
class Shape:
    """M x N x K: C is M x N, the sum runs over K."""

    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"{self.m} x {self.n} x {self.k}"


@dataclass(frozen=True)
class WrongElement:
    """One element of C that is out of tolerance."""

    row: int
    col: int
    got: float
    expected: float


@dataclass(frozen=True)
class Pattern:
    """A kind of wrong answer that was recognised. ``name`` is a stable identifier, ``explanation`` is for the learner."""

    name: str
    explanation: str


@dataclass(frozen=True)
class TileMap:
    """How many elements are wrong in each block tile of C; ``wrong[i][j]`` is the tile of blockIdx.y = i, .x = j."""

    tile_rows: int
    tile_cols: int
    wrong: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Judgement:
    """An answer compared with the reference. ``max_error`` and ``tolerance`` belong to the worst element, which is the
    one with the largest error relative to its own tolerance; ``max_error`` is NaN when an element is NaN."""

    wrong: int
    total: int
    max_error: float
    tolerance: float
    first: tuple[WrongElement, ...] = ()
    tiles: TileMap | None = None
    pattern: Pattern | None = None

    @property
    def passed(self) -> bool:
        return self.wrong == 0


@dataclass(frozen=True)
class GateResult:
    """A gate with what was measured. ``value`` is None when it could not be computed (``note`` says why)."""

    name: str
    value: float | None
    limit: float
    at_most: bool
    passed: bool
    why: str
    expression: str
    note: str = ""


@dataclass(frozen=True)
class Passed:
    """Right answers on every shape, no fault, every gate met."""

    kind: ClassVar[Kind] = "passed"


@dataclass(frozen=True)
class CompileFailed:
    """The compiler refused the source, or what it compiled is not the kernel that the lesson launches (``message``)."""

    kind: ClassVar[Kind] = "compile_failed"
    message: str
    diagnostics: tuple[Diagnostic, ...] = ()
    log: str = ""


@dataclass(frozen=True)
class Faulted:
    """The device stopped the kernel, or an error-level finding (a race, a broken guard zone) makes it unsafe."""

    kind: ClassVar[Kind] = "faulted"
    shape: Shape
    finding: Finding


@dataclass(frozen=True)
class TimedOut:
    """The kernel used up its instruction budget."""

    kind: ClassVar[Kind] = "timed_out"
    shape: Shape
    finding: Finding


@dataclass(frozen=True)
class WrongAnswer:
    """C is wrong on ``shape``, the first shape that failed."""

    kind: ClassVar[Kind] = "wrong_answer"
    shape: Shape
    judgement: Judgement


@dataclass(frozen=True)
class GateMissed:
    """The answer is right, but not by this lesson's idea. ``missed`` holds only the gates that failed."""

    kind: ClassVar[Kind] = "gate_missed"
    missed: tuple[GateResult, ...] = field(default=())


Verdict = Passed | CompileFailed | Faulted | TimedOut | WrongAnswer | GateMissed
