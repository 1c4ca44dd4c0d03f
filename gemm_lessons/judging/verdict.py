"""The verdict on one kernel: Passed, or the one reason why not. Verdicts are values, never exceptions.

``judge`` compares an answer with NumPy's and says where it is wrong and, if recognised, how; ``gates`` evaluates a
lesson's gates over the counters. The pipeline picks the verdict in this order: the kernel did not compile, it faulted,
it never ended, its answer is wrong, its answer is right but by the wrong method.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from gemm_lessons.engine import Finding
from gemm_lessons.engine.records import dataclass
from gemm_lessons.gemm import Problem, Sampled, Shape, TileSizes
from gemm_lessons.judging.pattern import Pattern

if TYPE_CHECKING:
    from gemm_lessons.engine.compiler import Diagnostic

Array = np.ndarray[Any, Any]
Kind = Literal["passed", "compile_failed", "faulted", "wrong_answer", "timed_out", "gate_missed"]


@dataclass(frozen=True)
class WrongElement:
    """One element of C that is out of tolerance."""

    row: int
    col: int
    got: float
    expected: float


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
        """Tell whether no element is out of tolerance."""
        return self.wrong == 0


@dataclass(frozen=True)
class GateResult:
    """A gate with its measured value. ``value`` is None when it could not be computed (``note`` says why). ``passed``
    is None when the gate was not judged, because a counter could not be counted. ``hidden``: the gate was missed on a
    shape that is not shown, and met on the shown one."""

    id: str
    name: str
    value: float | None
    limit: float
    at_most: bool
    passed: bool | None
    why: str
    expression: str
    note: str = ""
    hidden: bool = False
    integrity: bool = False

    @property
    def missed(self) -> bool:
        """Tell whether the gate was judged, and missed."""
        return self.passed is False

    @property
    def shown(self) -> str:
        """Return the value, or ``-``: 0.2031, 16,384."""
        if self.value is None:
            return "-"
        return f"{int(self.value):,}" if self.value == int(self.value) else f"{self.value:.4g}"


@dataclass(frozen=True)
class Passed:
    """Right answers on every shape, no fault, every gate met or not judged."""

    kind: ClassVar[Kind] = "passed"


@dataclass(frozen=True)
class CompileFailed:
    """The compiler refused the source, or the compiled kernel is not the one that the lesson launches (``message``)."""

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
    """The kernel did not end: it used up its budget of instructions, or the run its time."""

    kind: ClassVar[Kind] = "timed_out"
    shape: Shape
    finding: Finding


@dataclass(frozen=True)
class WrongAnswer:
    """C is wrong on ``shape``, the first shape that failed."""

    kind: ClassVar[Kind] = "wrong_answer"
    shape: Shape
    judgement: Judgement

    @property
    def is_vague(self) -> bool:
        """Tell whether it shows at best where C is wrong, but not why."""
        return self.judgement.pattern is None or self.judgement.pattern.vague


@dataclass(frozen=True)
class GateMissed:
    """The answer is right, but not by this lesson's idea. ``missed``: the gates that were judged and failed."""

    kind: ClassVar[Kind] = "gate_missed"
    missed: tuple[GateResult, ...] = ()


Verdict = Passed | CompileFailed | Faulted | TimedOut | WrongAnswer | GateMissed


def stopped(shape: Shape, fault: Finding) -> Faulted | TimedOut:
    """Return the verdict on a launch that did not end."""
    return (TimedOut if fault.kind == "timeout" else Faulted)(shape, fault)


FIRST = 5  # wrong elements to show
IN_CACHE = 1 << 15  # elements of float64 that are compared at a time: C may have millions


def judge(problem: Problem, answer: Array, tiles: TileSizes, left: Mapping[str, Array] = {}) -> Judgement:
    """Compare an answer, (M, N) as stored by the kernel, with NumPy's, element by element.

    An element is right if ``|got - expected| <= tolerance`` (``Problem.tolerance``); NaN never is. The tile map is
    made of whole and ragged block tiles, ``tiles.rows`` x ``tiles.cols``. ``left``: all buffers after the last launch,
    as stored, from which the first wrong launch may be recognised.
    """
    expected, tolerance = problem.reference, problem.tolerance
    with np.errstate(invalid="ignore"):  # a signalling NaN is an ordinary wrong answer
        error = problem.answer.element.decode(answer)
        np.abs(np.subtract(error, expected, out=error), out=error)
    wrong = ~(error <= tolerance)  # not "error > tolerance": NaN must count as wrong
    worst = _worst(error, tolerance)
    result = Judgement(int(np.count_nonzero(wrong)), wrong.size, float(error[worst]), float(tolerance[worst]))
    if result.passed:
        return result
    with np.errstate(invalid="ignore"):
        got = problem.answer.element.decode(answer)
    first = tuple(
        WrongElement(int(row), int(col), float(got[row, col]), float(expected[row, col]))
        for row, col in np.argwhere(wrong)[:FIRST]
    )
    from gemm_lessons.judging.mistakes import recognise  # imported late: only for wrong answers
    from gemm_lessons.judging.wrong_answer import Wrong

    pattern = recognise(Wrong(problem, answer, got, wrong, tiles, left))
    return replace(result, first=first, tiles=tile_map(wrong, tiles), pattern=pattern)


def _worst(error: Array, tolerance: Array) -> tuple[int, int]:
    """Return the element, (row, column), whose error is the largest multiple of its tolerance. NaN is the largest."""
    step = max(1, IN_CACHE // error.shape[1])
    found: list[tuple[float, int, int]] = []
    for top in range(0, len(error), step):
        part, most = error[top : top + step], tolerance[top : top + step]
        relative = np.where(np.isnan(part), np.inf, part / np.where(most > 0, most, 1))
        row, col = divmod(int(relative.argmax()), error.shape[1])
        found.append((float(relative[row, col]), top + row, col))
    return found[int(np.argmax([ratio for ratio, _, _ in found]))][1:]


def judge_sample(sample: Sampled) -> Judgement:
    """Compare the elements of C that some blocks stored with what is right there. Missing ones are wrong."""
    if not sample.is_even:
        return Judgement(abs(sample.owed - sample.rows.size), sample.owed, float("nan"), 0.0)
    with np.errstate(invalid="ignore"):
        error = np.abs(sample.got - sample.expected)
    wrong = ~(error <= sample.tolerance)
    relative = np.where(np.isnan(error), np.inf, error / np.where(sample.tolerance > 0, sample.tolerance, 1))
    worst = int(relative.argmax())
    places = zip(sample.rows[wrong], sample.cols[wrong], sample.got[wrong], sample.expected[wrong], strict=True)
    first = (WrongElement(int(row), int(col), float(got), float(right)) for row, col, got, right in places)
    counts = int(wrong.sum()), wrong.size
    return Judgement(*counts, float(error[worst]), float(sample.tolerance[worst]), tuple(islice(first, FIRST)))


def tile_map(wrong: Array, tiles: TileSizes) -> TileMap:
    """Count the wrong elements, (M, N) bool, of every block tile."""
    by_row = np.add.reduceat(wrong.astype(np.int64), range(0, wrong.shape[0], tiles.rows), axis=0)
    counts = np.add.reduceat(by_row, range(0, wrong.shape[1], tiles.cols), axis=1)
    return TileMap(tiles.rows, tiles.cols, tuple(tuple(map(int, row)) for row in counts))
