"""A run's counters as answers to a lesson's questions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from gemm_lessons.course import BEFORE, FACTS, Answer, Progress, Question, Score, load_questions, scores
from gemm_lessons.engine.arguments import Number
from gemm_lessons.judging import Passed, counted_names
from gemm_lessons.running.outcome import Row, RunOutcome


def counted_answers(outcome: RunOutcome, questions: Sequence[Question]) -> dict[str, Answer]:
    """Return the answer to each question that a run counted. Empty unless the kernel passed."""
    if not isinstance(outcome.verdict, Passed):
        return {}
    names = names_of(outcome)
    answers = {question.name: question.counted(names) for question in questions}
    return {name: answer for name, answer in answers.items() if answer is not None}


def names_of(outcome: RunOutcome) -> Mapping[str, Number]:
    """Return all names for questions: the kernel's counters, sizes, and the previous solution's counters."""
    previous = next((row for row in outcome.rows if row.role == "previous"), None)
    before = _facts(previous) if previous is not None else dict.fromkeys(FACTS, math.nan)
    return {
        **_facts(outcome.kernel),
        **{BEFORE + name: value for name, value in before.items()},
        **outcome.lesson.names(outcome.count_shape),
    }


def _facts(row: Row) -> Mapping[str, Number]:
    nothing: dict[str, Number] = dict.fromkeys(FACTS, math.nan)
    if row.built is None or row.checked.counters is None:
        return nothing
    lesson, fit = row.built.lesson, row.built.occupancy
    return {
        **nothing,
        **counted_names(row.built, row.checked.counters),
        "threads": lesson.grids(lesson.shapes.count)[0].threads,
        "blocks_per_sm": fit.blocks_per_sm if fit else math.nan,
        "occupancy": 100 * fit.fraction if fit else math.nan,
    }


def scored(progress: Progress, outcome: RunOutcome) -> tuple[Progress, tuple[Score, ...]]:
    """Return the progress with a passing run's counts beside the learner's predictions, and the new scores."""
    lesson = outcome.lesson
    so_far = progress.of(lesson.name)
    if not so_far.guesses or so_far.counted or outcome.verdict.kind != "passed":
        return progress, ()
    questions = load_questions(lesson)
    counted = counted_answers(outcome, questions)
    return progress.after_count(lesson.name, counted), scores(questions, so_far.guesses, counted)
