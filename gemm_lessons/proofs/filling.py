"""What is computed in a lesson's text, written into it: ``gemm-lessons dev check --write``."""

from __future__ import annotations

from gemm_lessons.course.folder import read_source, write_atomically
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.proofs.numbers import Numbers


def fill_in(lesson: Lesson, numbers: Numbers) -> bool:
    """Write the tables' numbers into the lesson's text; whether any changed. Raises ``LessonError``, ``WriteError``."""
    text = read_source(lesson.text_path)
    new = numbers.rewritten(text)
    if new != text:
        write_atomically(lesson.text_path, new.encode())
    return new != text
