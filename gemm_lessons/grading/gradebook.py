"""All grades of a class in one record, student by student: what every output is made of.

Grading + Grades  --gradebook-->  Gradebook  -->  grades.csv, formats/, the pages of report/
"""

from __future__ import annotations

from collections.abc import Sequence

from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.grading.results import Grade, GradedStudent, Grading


@dataclass(frozen=True)
class GradebookRow:
    """One student: a grade for each lesson, in the run's order, None where there is none yet."""

    student: GradedStudent
    grades: tuple[Grade | None, ...]

    @property
    def points(self) -> float:
        """What the student has, of all lessons."""
        return sum(grade.points for grade in self.grades if grade)

    @property
    def seconds(self) -> float:
        """How long judging took."""
        return sum(grade.seconds for grade in self.grades if grade)


@dataclass(frozen=True)
class Gradebook:
    """A class. ``out_of`` holds what each lesson is worth."""

    grading: Grading
    rows: tuple[GradebookRow, ...]
    out_of: tuple[float, ...]

    @property
    def lessons(self) -> tuple[str, ...]:
        """The names of the lessons."""
        return self.grading.lessons

    @property
    def total(self) -> float:
        """What all lessons are worth."""
        return sum(self.out_of)

    def status(self, row: GradebookRow) -> str:
        """``graded``, or what is not, and in which lessons: ``missing 03 05; unsupported 07``."""
        others: dict[str, list[str]] = {}
        for lesson, grade in zip(self.lessons, row.grades, strict=True):
            status = grade.status if grade else "not judged yet"
            if status != "graded":
                others.setdefault(status.replace("_", " "), []).append(lesson[:2])
        return "; ".join(f"{status} {' '.join(numbers)}" for status, numbers in others.items()) or "graded"


def gradebook(grading: Grading, grades: Sequence[Grade]) -> Gradebook:
    """Put the grades that there are in their places."""
    found = {(grade.student, grade.lesson): grade for grade in grades}
    rows = tuple(
        GradebookRow(student, tuple(found.get((student.id, lesson)) for lesson in grading.lessons))
        for student in grading.students
    )
    worth = tuple(max((g.out_of for g in grades if g.lesson == lesson), default=0.0) for lesson in grading.lessons)
    return Gradebook(grading, rows, worth)
