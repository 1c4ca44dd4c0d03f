"""Proofs of a lesson's questions: a run answers each, and the text asks what predict.toml asks."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence

from gemm_lessons.authoring.candidate import Candidate, flaw, line_at
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.course.questions import Question, load_questions
from gemm_lessons.running.predictions import names_of

ASKED = re.compile(r"<!-- questions -->\n(.*?)<!-- /questions -->", re.DOTALL)
COLUMNS = 100


def a_run_answers_each(it: Candidate) -> Iterator[str]:
    """The solution's run counts an answer to every question."""
    questions = load_questions(it.lesson)
    names = names_of(it.solved) if questions else {}
    for question in questions:
        if question.counted(names) is None:
            yield flaw(
                it.lesson.questions_path,
                question.line,
                f"[{question.name}]: the solution's run has no answer, {question.answer.text} is not a number there; "
                "ask for something that it counts",
            )


def the_text_asks_them(it: Candidate) -> Iterator[str]:
    """The text between ``questions`` comments matches predict.toml."""
    questions = load_questions(it.lesson)
    found = ASKED.search(it.text)
    fill = f"gemm-lessons dev check {it.lesson.number:02} --write"
    if questions and found is None:
        yield flaw(
            it.lesson.text_path,
            line_at(it.text, it.text.find("\n## Predict\n") + 1),
            f"does not ask what predict.toml asks; below Predict write <!-- questions --> and <!-- /questions --> on "
            f"lines of their own, then: {fill}",
        )
    elif found and found[1] != asked(it.lesson, questions):
        line = line_at(it.text, found.start())
        yield flaw(it.lesson.text_path, line, f"does not ask what predict.toml asks; fill it in: {fill}")


def asked(lesson: Lesson, questions: Sequence[Question]) -> str:
    """Return the text between the comments."""
    if not questions:
        return ""
    shape = lesson.shapes.count
    lines = [f"At M, N, K = {shape.m}, {shape.n}, {shape.k}, the launch that a run counts:", ""]
    for number, question in enumerate(questions, 1):
        lead = f"{number}. "
        lines += textwrap.wrap(question.ask, COLUMNS, initial_indent=lead, subsequent_indent=" " * len(lead))
    lines += ["", f"`gemm-lessons predict {lesson.number:02}` takes your answers, and the run that passes scores them."]
    return "\n".join(lines) + "\n"
