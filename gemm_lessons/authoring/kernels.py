"""Proofs of a lesson's kernels: the stub runs and answers wrongly, the solution passes, the previous solution does
not."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence

import numpy as np

from gemm_lessons.authoring.candidate import Candidate, flaw
from gemm_lessons.authoring.numbers import SEED
from gemm_lessons.course import todo_marks
from gemm_lessons.engine.records import dataclass
from gemm_lessons.gemm import Problem, Shape
from gemm_lessons.judging import CompileFailed, Faulted, GateMissed, TimedOut, WrongAnswer
from gemm_lessons.running import Row

TODO = re.compile(r"\s*// TODO\(\d+\)")
COMMENT = re.compile(r"\s*//(?! TODO)")


def stub_answers_wrongly(it: Candidate) -> Iterator[str]:
    """The stub compiles, runs without a fault, and its answer is wrong; the run names its first TODO."""
    row, path = it.stub_run.kernel, it.lesson.stub_path
    match row.verdict:
        case WrongAnswer():
            errors = [finding for finding in row.checked.findings if finding.severity == "error"]
            for finding in errors:
                yield flaw(path, finding.line, f"{finding.message}; a stub runs without a fault")
            if not errors and (not row.hints or "TODO(1)" not in row.hints[0]):
                yield flaw(path, None, _not_first(it, row.hints))
        case _ if row.checked.right:
            yield flaw(path, None, "its answer is right already; leave the idea out, at // TODO(1)")
        case _:
            line, what = _trouble(row)
            yield flaw(path, line, f"{what}; a stub compiles and runs without a fault, and answers wrongly")


def _not_first(it: Candidate, hints: Sequence[str]) -> str:
    """Return why a run of the stub does not begin with its first TODO."""
    if all(mark.number != 1 for mark in todo_marks(it.stub)):
        return "a run of it does not name TODO(1) first; mark the gaps // TODO(1): ..., from 1"
    if not hints:
        return "a run of it names no TODO; put each mark where lines are missing"
    return f'a run of it says something else before TODO(1): "{hints[0]}" Change what that is about, or the mark'


def solution_passes(it: Candidate) -> Iterator[str]:
    """The solution is right on every shape, meets every gate, and gives no compiler message and no finding."""
    row, path = it.solved.kernel, it.solution_path
    if not it.lesson.gates:
        yield it.in_toml((), "has no [[gates]]; add a limit on a counter that tells this idea from the last one")
    if (shape := _without_answer(it)) is not None:
        what = f"at {shape} it gives numbers that are not finite, or that rounding may change to any extent"
        yield it.in_toml(("kernel", "formula"), f"{what}; give [buffers] a range for which it does not")
        return
    if not row.checked.right:
        line, what = _trouble(row)
        yield flaw(path, line, f"{what}; a solution passes every shape of [shapes]")
        return
    for gate in row.checked.gates:
        if not gate.passed:
            bound = "at_most" if gate.at_most else "at_least"
            value = gate.note or gate.shown
            yield it.in_toml(
                it.gate_at(gate.id, bound),
                f'the solution misses "{gate.name}": it has {value}, {bound} is {gate.limit:g}; correct one of the two',
            )
    for diagnostic in row.diagnostics:
        yield flaw(path, diagnostic.line, f"the compiler warns: {diagnostic.message}; a solution gives no warnings")
    for finding in row.checked.findings:
        yield flaw(path, finding.line, f"{finding.message}; a solution has no findings")


def _without_answer(it: Candidate) -> Shape | None:
    """Return a shape at which the formula has no answer that the answer's type can represent."""
    for shape in (*it.lesson.shapes.check, it.lesson.shapes.count):
        problem = Problem(it.lesson.at(shape).data, shape, SEED)
        element = problem.answer.element
        if element.is_float:
            stored = element.decode(element.encode(problem.reference))
            if not (np.isfinite(stored).all() and np.isfinite(problem.tolerance).all()):
                return shape
    return None


def previous_misses_a_gate(it: Candidate) -> Iterator[str]:
    """The solution that the lesson starts from is right but does not pass here."""
    name = it.course.start_of(it.lesson)
    if it.lesson.starts_from and it.course.named(it.lesson.starts_from) is None:
        yield it.in_toml(("starts_from",), "no lesson has this name; give its folder's name without the digits")
    before = next((row for row in it.solved.rows if row.role == "previous"), None)
    if before is None or isinstance(before.verdict, GateMissed):
        return
    count = it.lesson.shapes.count
    if before.built is not None and (
        before.built.lesson.shapes.refusal(count)  # it cannot take this lesson's shape
        or not before.built.lesson.data.asks_the_same(it.lesson.data, count.names)  # it answers another question
    ):
        return
    if before.unsupported:
        yield flaw(it.lesson.directory, None, f"cannot be compared with lesson {name}: {before.unsupported}")
    elif before.checked.right:
        yield it.in_toml(
            ("gates", 0),
            f"the solution of {name} meets every gate; limit a counter that only this lesson's idea changes",
        )
    else:
        what = _trouble(before)[1]
        yield flaw(it.lesson.directory, None, f"the solution of {name}, which is beside it, does not run: {what}")


def _trouble(row: Row) -> tuple[int | None, str]:
    """Return the line and the words for a kernel's failure."""
    match row.verdict:
        case CompileFailed(message=message, diagnostics=found):
            first = next((it for it in found if it.severity == "error"), None)
            return (first.line, f"does not compile: {first.message}") if first else (None, message)
        case Faulted(shape=shape, finding=finding) | TimedOut(shape=shape, finding=finding):
            return finding.line, f"at {shape}: {finding.message}"
        case WrongAnswer(shape=shape, judgement=judged):
            return None, f"{judged.wrong:,} of {judged.total:,} elements of C are wrong at {shape}"
        case verdict:
            return None, verdict.kind.replace("_", " ")


@dataclass(frozen=True)
class _Code:
    """Lines that are not blank, with their numbers."""

    lines: tuple[str, ...]
    numbers: tuple[int, ...]

    @classmethod
    def of(cls, source: str) -> _Code:
        found = [(number, line.rstrip()) for number, line in enumerate(source.splitlines(), 1) if line.strip()]
        return cls(tuple(line for _, line in found), tuple(number for number, _ in found))


def solving_only_adds_lines(it: Candidate) -> Iterator[str]:
    """The solution is the stub with lines added at each ``// TODO``, and nothing else."""
    if "TODO" in it.solution:
        line = next(number for number, text in enumerate(it.solution.splitlines(), 1) if "TODO" in text)
        yield flaw(it.solution_path, line, "the solution has a TODO left; write what was done there instead")
        return
    stub, solution = _Code.of(it.stub), _Code.of(it.solution)
    kept, pattern, gaps = _kept(stub)
    if re.fullmatch(pattern, "".join(f"{line}\n" for line in solution.lines)):
        return
    matcher = difflib.SequenceMatcher(None, [stub.lines[i] for i in kept], solution.lines, autojunk=False)
    for kind, i, end, j, _ in matcher.get_opcodes():
        if kind in ("delete", "replace"):
            number = stub.numbers[kept[i]]
            yield flaw(
                it.lesson.stub_path,
                number,
                f"solution.cu does not have this line: {stub.lines[kept[i]].strip()}; solving only adds, at the TODOs",
            )
            return
        if kind == "insert" and i not in gaps:
            yield flaw(
                it.solution_path,
                solution.numbers[j],
                "stub.cu has neither this line nor a TODO here; solving only adds lines, at the TODOs",
            )
            return
        gaps -= set(range(i, end + 1)) if kind == "insert" else set()
    if gaps:
        place = min(gaps)
        number = stub.numbers[kept[place]] if place < len(kept) else stub.numbers[-1]
        yield flaw(it.lesson.stub_path, number, "solution.cu adds no line at the TODO above this one")
    else:
        yield flaw(it.solution_path, None, "differs from stub.cu elsewhere than at the TODOs; solving only adds lines")


def _kept(stub: _Code) -> tuple[list[int], str, set[int]]:
    """Return the lines that are not TODOs, the solution as a pattern, and those before which lines may be added."""
    kept: list[int] = []
    pattern, gaps = "", set()
    i = 0
    while i < len(stub.lines):
        if TODO.match(stub.lines[i]):
            gaps.add(len(kept))
            pattern += r"(?:.*\n)+?"
            i += 1
            while i < len(stub.lines) and COMMENT.match(stub.lines[i]):
                i += 1
            continue
        kept.append(i)
        pattern += re.escape(stub.lines[i]) + r"\n"
        i += 1
    return kept, pattern, gaps


def every_todo_has_hints(it: Candidate) -> Iterator[str]:
    """Each ``// TODO(n)`` of the stub has a ``[[todo]]`` of two hints or more."""
    marks, todos = todo_marks(it.stub), it.lesson.todos
    yield from _numbered(it, [mark.number for mark in marks], [mark.line for mark in marks])
    for number in range(len(todos) + 1, len(marks) + 1):
        yield it.in_toml(("todo",), f"has no [[todo]] number = {number}; add it, with hints = [...] for TODO({number})")
    for number in range(len(marks) + 1, len(todos) + 1):
        yield it.in_toml(("todo", number - 1), f"stub.cu has no // TODO({number}); mark it there, or take this out")
    for index, todo in enumerate(todos):
        if len(todo.hints) < 2:
            yield it.in_toml(("todo", index, "hints"), "one hint; write a nudge, and at least one that says more")


def _numbered(it: Candidate, numbers: Sequence[int], lines: Sequence[int]) -> Iterator[str]:
    for wanted, (number, line) in enumerate(zip(numbers, lines, strict=True), 1):
        if number != wanted:
            yield flaw(it.lesson.stub_path, line, f"this is TODO({number}), and the {wanted}. in order; number them so")
            return
