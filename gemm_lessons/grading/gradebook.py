"""Collect all grades of a class in one record, the source of every output.

Grading + Grades  --gradebook-->  Gradebook  -->  grades.csv, formats/, the pages of report/
"""

from __future__ import annotations

from collections.abc import Sequence

from gemm_lessons.engine.records import dataclass
from gemm_lessons.grading.results import Grade, GradedStudent, Grading


@dataclass(frozen=True)
class GradebookRow:
    """One student: a grade for each lesson in the run's order, None for a missing grade."""

    student: GradedStudent
    grades: tuple[Grade | None, ...]

    @property
    def points(self) -> float:
        """Return the sum of the student's points."""
        return sum(grade.points for grade in self.grades if grade)

    @property
    def seconds(self) -> float:
        """Return the seconds that judging took, over all lessons."""
        return sum(grade.seconds for grade in self.grades if grade)


@dataclass(frozen=True)
class Gradebook:
    """The grades of a class. ``out_of`` holds the maximum points of each lesson."""

    grading: Grading
    rows: tuple[GradebookRow, ...]
    out_of: tuple[float, ...]

    @property
    def lessons(self) -> tuple[str, ...]:
        """Return the names of the lessons."""
        return self.grading.lessons

    @property
    def total(self) -> float:
        """Return the maximum points of all lessons together."""
        return sum(self.out_of)

    def status(self, row: GradebookRow) -> str:
        """Return ``graded``, or the other statuses with their lessons: ``missing 03 05; unsupported 07``."""
        others: dict[str, list[str]] = {}
        for lesson, grade in zip(self.lessons, row.grades, strict=True):
            status = grade.status if grade else "not judged yet"
            if status != "graded":
                others.setdefault(status.replace("_", " "), []).append(lesson[:2])
        return "; ".join(f"{status} {' '.join(numbers)}" for status, numbers in others.items()) or "graded"


def gradebook_of(grading: Grading, grades: Sequence[Grade]) -> Gradebook:
    """Arrange the grades by student and lesson."""
    found = {(grade.student, grade.lesson): grade for grade in grades}
    rows = tuple(
        GradebookRow(student, tuple(found.get((student.id, lesson)) for lesson in grading.lessons))
        for student in grading.students
    )
    worth = tuple(max((g.out_of for g in grades if g.lesson == lesson), default=0.0) for lesson in grading.lessons)
    return Gradebook(grading, rows, worth)
