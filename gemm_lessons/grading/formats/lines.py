"""A grade as the list of tests that other systems show: one for each part, or one for the lesson if it has no parts."""

from __future__ import annotations

from collections.abc import Iterator

from gemm_lessons.engine.records import dataclass
from gemm_lessons.grading.escaping import one_line
from gemm_lessons.grading.gradebook import Gradebook, GradebookRow

NOT_YET = "not judged yet"
NO_FAULT = "This could not be judged, through no fault of yours; your teacher can see why."


@dataclass(frozen=True)
class TestLine:
    """One test with its points. ``kind`` is its result; ``output`` is a text for the student."""

    lesson: str
    name: str
    points: float
    out_of: float
    kind: str  # passed, failed, missing, broken (the kit could not say)
    output: str
    seconds: float

    @property
    def title(self) -> str:
        """Return ``03 block_tile: right values``."""
        number, _, name = self.lesson.partition("_")
        return f"{number} {name}: {self.name}"


def lines_of(book: Gradebook, row: GradebookRow) -> Iterator[TestLine]:
    """Yield the tests of a student, in the order of lessons and parts."""
    for lesson, worth, grade in zip(book.lessons, book.out_of, row.grades, strict=True):
        if grade is None:
            yield TestLine(lesson, "kernel", 0.0, worth, "broken", NOT_YET, 0.0)
            continue
        message = one_line(grade.message)
        if not grade.judged:
            yield TestLine(lesson, "kernel", 0.0, grade.out_of, "broken", f"{NO_FAULT} {message}", grade.seconds)
            continue
        if not grade.parts:
            full = grade.points >= grade.out_of
            kind = "passed" if full else "missing" if grade.status == "missing" else "failed"
            yield TestLine(lesson, "kernel", grade.points, grade.out_of, kind, message, grade.seconds)
            continue
        told = next((i for i, part in enumerate(grade.parts) if not part.passed), 0)  # where the message belongs
        for i, part in enumerate(grade.parts):
            kind = "passed" if part.passed else "missing" if grade.status == "missing" else "failed"
            why = one_line(part.why)
            output = "\n".join(filter(None, (message, why))) if i == told and message != why else why
            seconds = 0.0 if i else grade.seconds
            yield TestLine(lesson, one_line(part.name), part.points, part.out_of, kind, output, seconds)
