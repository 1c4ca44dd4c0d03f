"""The test that ``plugin`` parametrises by student and lesson."""

from __future__ import annotations

import pytest

from gemm_lessons.grading.classroom import Classroom
from gemm_lessons.grading.inputs import Student


def test_submission(classroom: Classroom, handed_in: tuple[Student, str]) -> None:
    """Pass with all points, else fail with the reason."""
    student, lesson = handed_in
    grade = classroom.grade_one(student, lesson)
    said = f"{grade.points:g} of {grade.out_of:g} points: {grade.message}"
    if grade.status == "missing":
        pytest.skip(grade.message)
    if not grade.judged:
        raise RuntimeError(said)
    if grade.points < grade.out_of:
        missed = [f"{part.name}: {part.why}" for part in grade.parts if not part.passed]
        pytest.fail("\n".join([said, *missed]), pytrace=False)
