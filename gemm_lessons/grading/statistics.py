"""Statistics of a class: distribution of points, common mistakes, slowest judgings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from gemm_lessons.engine.records import dataclass
from gemm_lessons.grading.escaping import one_line
from gemm_lessons.grading.gradebook import Gradebook
from gemm_lessons.grading.results import Grade

Reached = Literal["full", "some", "none", "gone", "open"]  # all points, some, none; nothing submitted; not judged
REACHED: tuple[Reached, ...] = ("full", "some", "none", "gone", "open")
SHOWN = 15
WORDS = {
    "compile_failed": "does not compile",
    "wrong_answer": "wrong answer",
    "timed_out": "does not end",
}


@dataclass(frozen=True)
class Stumble:
    """A mistake in a lesson, and the number of ``students`` who made it."""

    lesson: str
    what: str
    students: int
    of: int


def reached(grade: Grade | None) -> Reached:
    """Classify a student's grade for a lesson."""
    if grade is None or not grade.judged:
        return "open"
    if grade.status == "missing":
        return "gone"
    if grade.points >= grade.out_of:
        return "full"
    return "some" if grade.points > 0 else "none"


def spread(book: Gradebook, columns: int = 10) -> Sequence[int]:
    """Return how many students have 0 to 10% of all points, 10 to 20%, ...; the last column includes 100%."""
    counts = [0] * columns
    for row in book.rows:
        counts[min(columns - 1, int(columns * row.points / book.total)) if book.total else 0] += 1
    return counts


def middle(values: Sequence[float]) -> float:
    """Return the median; 0 for no values."""
    ordered, half = sorted(values), len(values) // 2
    if not ordered:
        return 0.0
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def stumbles(book: Gradebook) -> Sequence[Stumble]:
    """Return the common mistakes, most frequent first: verdicts, missed gates, faults, and their hints."""
    found = []
    for i, lesson in enumerate(book.lessons):
        grades = [grade for row in book.rows if (grade := row.grades[i]) and grade.judged and grade.status != "missing"]
        counts = Counter(what for grade in grades for what in set(_mistakes(grade)))
        found += [Stumble(lesson, what, students, len(grades)) for what, students in counts.items()]
    return sorted(found, key=lambda it: (-it.students, it.lesson, it.what))[:SHOWN]


def _mistakes(grade: Grade) -> Iterator[str]:
    outcome = grade.outcome or {}
    if grade.status != "graded":
        yield f"{grade.status}: {one_line(grade.message)}"
    if grade.verdict in WORDS:
        yield WORDS[grade.verdict]
    gates = _records(outcome.get("gates"))
    missed = [str(it.get("name")) for it in gates if it.get("passed") is False]
    yield from (f"gate missed: {name}" for name in missed)
    yield from (f"gate not judged: {it.get('name')}" for it in gates if it.get("passed") is None)
    for it in _records(outcome.get("findings")):
        if it.get("severity") == "error" and it.get("kind") != "timeout":  # that is a verdict
            yield f"fault: {str(it.get('kind')).replace('_', ' ')}"
    hints = outcome.get("hints")
    first = str(hints[0]) if isinstance(hints, list) and hints else ""
    if first and grade.verdict != "passed" and not first.startswith(tuple(missed)):
        yield f"hint: {_same(first)}"


def _records(value: object) -> Iterator[dict[str, object]]:
    if isinstance(value, list):
        yield from (it for it in value if isinstance(it, dict))


def _same(hint: str) -> str:
    """Return a hint without its numbers, so that equal hints compare equal."""
    return re.sub(r"(?<![\w.])\d(?:[\d,.]*\d)?", "_", one_line(hint))


def slowest(book: Gradebook, most: int = 10) -> Sequence[Grade]:
    """Return the grades that took longest to judge, slowest first."""
    grades = [grade for row in book.rows for grade in row.grades if grade and grade.seconds > 0]
    return sorted(grades, key=lambda it: (-it.seconds, it.student, it.lesson))[:most]
