"""Compare the judged kernels of a class with each other, including those of other shards."""

from __future__ import annotations

from pathlib import Path

from gemm_lessons.course import Course
from gemm_lessons.grading.gradebook import Gradebook
from gemm_lessons.grading.judging import as_utf8
from gemm_lessons.grading.reference import pair_with_reference
from gemm_lessons.grading.similarity import SimilarPair, alike, given
from gemm_lessons.grading.sources import load_source

LARGEST = 100_000  # bytes; a longer file is not a kernel, and comparing it would be slow


def pairs_of(out: Path, book: Gradebook, course: Course) -> tuple[SimilarPair, ...] | None:
    """Return the kernels that are the reference, each beside it, and the pairs more alike than stub and solution
    explain; None if there are no two students to compare, and no kernel is the reference."""
    sources: dict[str, dict[str, str]] = {lesson: {} for lesson in book.lessons}
    for row in book.rows:
        for grade in row.grades:
            data = load_source(out, grade) if grade else None
            if grade is not None and data is not None and len(data) <= LARGEST:
                sources[grade.lesson][grade.student] = as_utf8(data).decode(errors="replace")
    found = [
        pair
        for lesson, texts in sources.items()
        for student, text in sorted(texts.items())
        if (pair := pair_with_reference(course, lesson, student, text))
    ]
    pairs = alike(sources, {lesson: given(course, lesson) for lesson in sources})
    return (*found, *pairs) if found or len(book.rows) > 1 else None
