"""``gemm-lessons predict``: answer a lesson's questions before the run that counts. Registered by ``app.py``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from gemm_lessons.cli.options import LessonArgument, NoColor, keep_progress
from gemm_lessons.course.folder import CommandError, Course, own_course
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.course.progress import load_progress
from gemm_lessons.run import contract

if TYPE_CHECKING:
    from gemm_lessons.course.questions import Answer, Question
    from gemm_lessons.run.outcome import RunOutcome

SKIP = "-"  # leaves a question out


def predict(
    lesson: LessonArgument,
    answers: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ANSWER]...", help=f"In the order of the questions; {SKIP} leaves one out."),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Predict anew, after a run has scored.")] = False,
    no_color: NoColor = False,
) -> int:
    """Answer the lesson's questions; the run that passes scores them."""
    from gemm_lessons.course.questions import load_questions, scores
    from gemm_lessons.report.console import make_console
    from gemm_lessons.report.predictions import show_predicted, show_questions, show_scores

    course, console = own_course(), make_console()
    found = course.lesson(lesson)
    questions = load_questions(found)
    if not questions:
        raise CommandError(f"lesson {found.name} asks nothing; run it: gemm-lessons run {found.number:02}")
    so_far = load_progress(course).of(found.name)
    if so_far.counted and not again:
        if answers:
            raise CommandError(f"lesson {found.name} is scored already; predict anew with --again")
        show_scores(console, scores(questions, so_far.guesses, so_far.counted))
        return contract.EXIT_PASSED
    guesses = {} if again else dict(so_far.guesses)
    if answers:
        guesses |= _typed(found, questions, answers)
        keep_progress(course, load_progress(course).after_guesses(found.name, guesses))
    else:
        show_questions(console, found)
        guesses = _asked(course, found, questions, guesses)
    known = [question for question in questions if question.name in guesses]
    show_predicted(console, found, len(known), len(questions))
    return contract.EXIT_PASSED


def _typed(lesson: Lesson, questions: tuple[Question, ...], answers: list[str]) -> dict[str, Answer]:
    from gemm_lessons.course.expression import ExpressionError

    if len(answers) > len(questions):
        raise CommandError(f"lesson {lesson.name} asks {len(questions)} questions, here are {len(answers)} answers")
    names, guesses = lesson.names(lesson.shapes.count), {}
    for number, (question, text) in enumerate(zip(questions, answers, strict=False), 1):
        if text.strip() != SKIP:
            try:
                guesses[question.name] = question.guess(text, names)
            except ExpressionError as error:
                raise CommandError(f"question {number} ({question.ask}): {error}") from None
    return guesses


def _asked(
    course: Course, lesson: Lesson, questions: tuple[Question, ...], guesses: dict[str, Answer]
) -> dict[str, Answer]:
    """Ask one after the other, on a terminal or from a pipe; each answer is kept as soon as it is given."""
    from gemm_lessons.course.expression import ExpressionError
    from gemm_lessons.report.console import make_console
    from gemm_lessons.report.predictions import show_question

    console = make_console()
    names = lesson.names(lesson.shapes.count)
    for number, question in enumerate(questions, 1):
        show_question(console, number, question, guesses.get(question.name))
        while True:
            try:
                typed = input("   > ").strip()
            except EOFError:
                typed = ""
                console.print()
            if typed in ("", SKIP):
                break
            try:
                guesses[question.name] = question.guess(typed, names)
            except ExpressionError as error:
                console.print(f"   {error}", style="doubt")
                if not sys.stdin.isatty():
                    raise CommandError(f"question {number} ({question.ask}): {error}") from None
                continue
            keep_progress(course, load_progress(course).after_guesses(lesson.name, guesses))
            break
    return guesses


def score_predictions(course: Course, outcome: RunOutcome) -> bool:
    """Keep what a passing run counted beside the learner's predictions; whether there is something new to show."""
    lesson, progress = outcome.lesson, load_progress(course)
    so_far = progress.of(lesson.name)
    if not so_far.guesses or so_far.counted or outcome.verdict.kind != "passed":
        return False
    from gemm_lessons.course.questions import load_questions
    from gemm_lessons.run.predictions import counted_answers

    counted = counted_answers(outcome, load_questions(lesson))
    keep_progress(course, progress.after_count(lesson.name, counted))
    return bool(counted)


def show_predictions(course: Course, lesson: Lesson) -> None:
    """The scores of a lesson."""
    from gemm_lessons.course.questions import load_questions, scores
    from gemm_lessons.report.console import make_console
    from gemm_lessons.report.predictions import show_scores

    so_far = load_progress(course).of(lesson.name)
    show_scores(make_console(), scores(load_questions(lesson), so_far.guesses, so_far.counted))
