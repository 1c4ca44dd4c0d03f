"""The teacher's decisions, ``OUT/decisions.csv``: other points, late penalties, comments. Grading never overwrites it.

    student,lesson,points,penalty,comment
    ana,block_tile,8,,Right idea, one slip.            these points instead of those of the run
    bo,,,20%,Two days late.                            without a lesson: for each lesson that was handed in

    load_decisions(path, students, lessons)  -->  Decisions  --decided(book)-->  the Gradebook of every output

What was judged stays as it is in ``results/``. Decisions are applied whenever grades are written.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gemm_lessons.course import CommandError, shown
from gemm_lessons.engine.records import dataclass
from gemm_lessons.grading.archives import printable
from gemm_lessons.grading.escaping import amount, one_line
from gemm_lessons.grading.formats import write_text
from gemm_lessons.grading.gradebook import Gradebook
from gemm_lessons.grading.lesson_names import lesson_named
from gemm_lessons.grading.results import Grade, GradedStudent, GradePart
from gemm_lessons.grading.tables import separator_of, table_text

NAME = "decisions.csv"
COLUMNS = ("student", "lesson", "points", "penalty", "comment")
MOST_POINTS = 1e6
TEMPLATE = """student,lesson,points,penalty,comment
# Your decisions; a new run keeps this file and applies it. Lines that begin with # are examples.
# ana,block_tile,8,,"Right idea, one slip."     these points instead of those of the run; students see the comment
# bo,block_tile,,20%,Two days late.             less a part of the points
# cy,,,1.5,One day late.                        less so many points, in each lesson that was handed in
"""
PART = "your teacher's decision"


@dataclass(frozen=True)
class Decision:
    """One line: points instead of those of the run, a penalty in points or as a fraction of them, a comment."""

    points: float | None = None
    penalty: float = 0.0
    fraction: float = 0.0
    comment: str = ""

    def applied(self, grade: Grade) -> Grade:
        """Return a grade with this decision."""
        points = grade.points if self.points is None else self.points
        penalty = min(points, self.penalty + self.fraction * points)
        change = points - penalty - grade.points
        why = [f"{amount(points)} points by decision"] if self.points is not None else []
        why += [f"late: {amount(penalty)} points less"] if penalty else []
        said = "; ".join([*why, *([self.comment] if self.comment else [])])
        return replace(
            grade,
            status=grade.status if self.points is None else "graded",
            points=round(points - penalty, 4),
            penalty=round(grade.penalty + penalty, 4),
            parts=(*grade.parts, GradePart(PART, round(change, 4), 0.0, change >= 0, said)) if grade.parts else (),
            message=one_line("; ".join(filter(None, (grade.message, said)))),
        )


@dataclass(frozen=True)
class Decisions:
    """The file's lines by student and lesson; the lesson is empty for all of them."""

    by_case: Mapping[tuple[str, str], tuple[Decision, ...]]

    def decided(self, book: Gradebook) -> Gradebook:
        """Return a gradebook with these decisions."""
        rows = tuple(replace(row, grades=tuple(grade and self._of(grade) for grade in row.grades)) for row in book.rows)
        return replace(book, rows=rows)

    def _of(self, grade: Grade) -> Grade:
        everywhere = self.by_case.get((grade.student, ""), ()) if grade.status != "missing" else ()
        for decision in (*self.by_case.get((grade.student, grade.lesson), ()), *everywhere):
            grade = decision.applied(grade)
        return grade


def write_template(out: Path) -> Path | None:
    """Write ``OUT/decisions.csv`` with examples, unless it is there. Raises ``WriteError``."""
    path = out / NAME
    return None if path.exists() or path.is_symlink() else write_text(path, TEMPLATE)


def load_decisions(out: Path, students: Sequence[GradedStudent], lessons: Sequence[str]) -> Decisions:
    """Read ``OUT/decisions.csv``; without it there are none. Raises ``CommandError`` with file and line."""
    path = out / NAME
    if not path.exists():
        return Decisions({})
    return Decisions(_read(path, table_text(path, "the file of decisions"), students, lessons))


def _read(
    path: Path, text: str, students: Sequence[GradedStudent], lessons: Sequence[str]
) -> dict[tuple[str, str], tuple[Decision, ...]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator_of(text))
    found: dict[tuple[str, str], tuple[Decision, ...]] = {}
    header: list[str] = []
    try:
        for fields in reader:
            where = f"{shown(path)}:{reader.line_num}"
            if not any(it.strip() for it in fields) or fields[0].lstrip().startswith("#"):
                continue
            if not header:
                header = [it.strip().lower() for it in fields]
                if unknown := next((it for it in header if it not in COLUMNS), None):
                    raise CommandError(f"{where}: there is no column {unknown!r}; there are {', '.join(COLUMNS)}")
                if "student" not in header:
                    raise CommandError(f"{where}: no column is named student")
                continue
            if len(fields) > len(header):
                raise CommandError(f"{where}: {len(fields)} fields for {len(header)} columns; quote a comment's commas")
            values = dict.fromkeys(COLUMNS, "") | dict(zip(header, map(str.strip, fields), strict=False))
            case = (_student(where, values["student"], students), _lesson(where, values["lesson"], lessons))
            decision = _decision(where, values)
            if decision.points is not None and not case[1]:
                raise CommandError(f"{where}: points without a lesson; name the lesson")
            if decision.points is not None and any(it.points is not None for it in found.get(case, ())):
                raise CommandError(f"{where}: an earlier line gives {case[0]} other points for lesson {case[1]}")
            found[case] = (*found.get(case, ()), decision)
    except csv.Error as error:
        raise CommandError(f"{shown(path)}:{reader.line_num}: not valid CSV: {error}") from None
    return found


def _student(where: str, text: str, students: Sequence[GradedStudent]) -> str:
    for key in ("id", "email", "name"):
        fits = [it.id for it in students if getattr(it, key) == text]
        if len(fits) == 1:
            return fits[0]
    raise CommandError(f"{where}: there is no student {printable(text)!r}; write the id as in grades.csv")


def _lesson(where: str, text: str, lessons: Sequence[str]) -> str:
    if not text:
        return ""
    found = text if text in lessons else lesson_named(text, lessons).lesson
    if found is None:
        raise CommandError(f"{where}: lesson {printable(text)!r} is not graded; graded are {', '.join(lessons)}")
    return found


def _decision(where: str, values: Mapping[str, str]) -> Decision:
    points, penalty = values["points"], values["penalty"]
    if not (points or penalty or values["comment"]):
        raise CommandError(f"{where}: decides nothing; write points, a penalty or a comment")
    lost = _number(where, "penalty", penalty.rstrip("% "), 100 if penalty.endswith("%") else MOST_POINTS)
    return Decision(
        _number(where, "points", points, MOST_POINTS) if points else None,
        0.0 if penalty.endswith("%") else lost,
        lost / 100 if penalty.endswith("%") else 0.0,
        one_line(values["comment"]),
    )


def _number(where: str, what: str, text: str, most: float) -> float:
    try:
        value = float(text.replace(",", ".") or 0)
    except ValueError:
        value = -1.0
    if not 0 <= value <= most:  # also refuses NaN
        raise CommandError(f"{where}: {what} must be a number from 0 to {most:g}, not {printable(text)!r}")
    return value
