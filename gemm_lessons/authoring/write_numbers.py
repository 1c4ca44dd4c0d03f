"""Write computed numbers into a lesson's text: ``gemm-lessons dev check --write``."""

from __future__ import annotations

from gemm_lessons.authoring.numbers import Numbers
from gemm_lessons.authoring.questions import ASKED, asked
from gemm_lessons.course.folder import read_source, write_atomically
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.course.questions import load_questions


def fill_in(lesson: Lesson, numbers: Numbers) -> bool:
    """Write the tables' numbers and the questions into the lesson's text; return whether any changed. Raise
    ``LessonError`` and ``WriteError``."""
    text = read_source(lesson.text_path)
    questions = asked(lesson, load_questions(lesson))
    new = ASKED.sub(lambda _: f"<!-- questions -->\n{questions}<!-- /questions -->", numbers.rewritten(text))
    if new != text:
        write_atomically(lesson.text_path, new.encode())
    return new != text
