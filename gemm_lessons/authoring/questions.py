"""Proofs of a lesson's questions and drills.

A run answers each question, and the text asks what predict.toml asks. The numbers of a drill can be drawn, and are
never the numbers of the lesson.
"""

from __future__ import annotations

import random
import re
import textwrap
from collections.abc import Iterator, Sequence

from gemm_lessons.authoring.candidate import Candidate, flaw, line_at
from gemm_lessons.authoring.numbers import Numbers
from gemm_lessons.course import Lesson, Question, load_drills, load_questions, read_source, write_atomically
from gemm_lessons.engine.arguments import ExpressionError
from gemm_lessons.running import names_of

ASKED = re.compile(r"<!-- questions -->\n(.*?)<!-- /questions -->", re.DOTALL)
COLUMNS = 100
DRAWS = 50
FEWEST, MOST = 2, 5  # drills of a lesson


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


def fill_in(lesson: Lesson, numbers: Numbers) -> bool:
    """Write the tables' numbers and the questions into the lesson's text; return whether any changed. Raise
    ``LessonError`` and ``WriteError``."""
    text = read_source(lesson.text_path)
    questions = asked(lesson, load_questions(lesson))
    new = ASKED.sub(lambda _: f"<!-- questions -->\n{questions}<!-- /questions -->", numbers.rewritten(text))
    if new != text:
        write_atomically(lesson.text_path, new.encode())
    return new != text


def numbers_can_be_drawn(it: Candidate) -> Iterator[str]:
    """Each question has whole numbers as its answer, differs from draw to draw, and does not use the lesson's tile."""
    drills, tile, path = load_drills(it.lesson), it.lesson.tile.defines, it.lesson.drills_path
    if drills and not FEWEST <= len(drills) <= MOST:
        yield flaw(path, None, f"asks {len(drills)} questions; ask {FEWEST} to {MOST}")
    for drill in drills:
        dice, asked = random.Random(0), set()
        for _ in range(DRAWS):
            try:
                drawn = drill.drawn(dice)
            except ExpressionError as error:
                yield flaw(path, drill.line, f"[{drill.name}] has no answer for some numbers: {error}")
                break
            asked.add(drawn.ask)
            sizes = {name: value for name, value in drawn.values.items() if name in tile}
            if sizes and all(tile[name] == value for name, value in sizes.items()):
                numbers = ", ".join(f"{name} = {value}" for name, value in sizes.items())
                yield flaw(path, drill.line, f"[{drill.name}] may ask about the lesson's own tile, {numbers}")
                break
        else:
            if len(asked) == 1:
                yield flaw(path, drill.line, f"[{drill.name}] asks the same each time: name what is drawn in its text")
