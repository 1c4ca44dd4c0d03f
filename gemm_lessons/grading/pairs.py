"""Which kernels of a class are compared with each other: all that there is something to judge in."""

from __future__ import annotations

from gemm_lessons.grading.classroom import Classroom
from gemm_lessons.grading.judging import as_utf8
from gemm_lessons.grading.similarity import Alike, alike, given

LARGEST = 100_000  # bytes; what is longer is no kernel, and would take long


def pairs_of(classroom: Classroom) -> tuple[Alike, ...]:
    """The pairs that are more alike than the lesson makes everybody."""
    course = classroom.assignment.course
    sources: dict[str, dict[str, str]] = {lesson: {} for lesson in classroom.lessons}
    for student, handed, _ in classroom.handed():
        if classroom.job(student, handed) is not None and len(handed.data) <= LARGEST:
            sources[handed.lesson][student.id] = as_utf8(handed.data).decode(errors="replace")
    return alike(sources, {lesson: given(course, lesson) for lesson in sources})
