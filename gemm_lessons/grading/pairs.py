"""Which kernels of a class are compared with each other: all that were judged, also those of other shards."""

from __future__ import annotations

from pathlib import Path

from gemm_lessons.course.folder import Course
from gemm_lessons.grading.gradebook import Gradebook
from gemm_lessons.grading.judging import as_utf8
from gemm_lessons.grading.similarity import Alike, alike, given
from gemm_lessons.grading.sources import load_source

LARGEST = 100_000  # bytes; what is longer is no kernel, and would take long


def pairs_of(out: Path, book: Gradebook, course: Course) -> tuple[Alike, ...] | None:
    """The pairs that are more alike than the lesson makes everybody; None where there is nobody to compare with."""
    if len(book.rows) < 2:
        return None
    sources: dict[str, dict[str, str]] = {lesson: {} for lesson in book.lessons}
    for row in book.rows:
        for grade in row.grades:
            data = load_source(out, grade) if grade else None
            if grade is not None and data is not None and len(data) <= LARGEST:
                sources[grade.lesson][grade.student] = as_utf8(data).decode(errors="replace")
    return alike(sources, {lesson: given(course, lesson) for lesson in sources})
