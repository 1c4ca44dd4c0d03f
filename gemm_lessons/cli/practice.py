"""``gemm-lessons drill`` (indices), ``predict`` (questions before the run) and ``bug`` (a planted mistake)."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from gemm_lessons.cli.options import LessonArgument, NoColor, keep_progress
from gemm_lessons.course import (
    CommandError,
    Course,
    Lesson,
    LessonError,
    any_course,
    keeps_reference,
    load_progress,
    own_course,
)
from gemm_lessons.engine.records import dataclass
from gemm_lessons.running import contract

if TYPE_CHECKING:
    from gemm_lessons.course import Answer, Drawn, Question
    from gemm_lessons.running import RunOutcome

Typed = TypeVar("Typed")
SKIP = "-"  # skips a question
SEEDS = 10_000  # that a drill chooses from; short to type


def drill(
    lesson: LessonArgument,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, metavar="N", help="Repeat a drill: the same seed asks the same questions."),
    ] = None,
    no_color: NoColor = False,
) -> int:
    """Warm up with short questions on indices, banks and sectors; the numbers change each time."""
    from gemm_lessons.course import load_drills
    from gemm_lessons.engine.arguments import ExpressionError
    from gemm_lessons.report import make_console, show_drilled, show_drills

    course = any_course()
    found = course.lesson(lesson)
    drills = load_drills(found)
    if not drills:
        raise CommandError(f"lesson {found.name} has no drills; its text: gemm-lessons read {found.number:02}")
    chosen = random.randrange(SEEDS) if seed is None else seed
    dice = random.Random(chosen)
    drawn = []
    for one in drills:
        try:
            drawn.append(one.drawn(dice))
        except ExpressionError as error:
            raise LessonError(f"{found.drills_path}:{one.line}: [{one.name}] {error}") from None
    console = make_console()
    show_drills(console, found)
    right = [it for number, question in enumerate(drawn, 1) for it in _drilled(number, question)]
    show_drilled(console, found, sum(right), len(right), chosen)
    return contract.EXIT_PASSED


def _drilled(number: int, question: Drawn) -> Iterator[bool]:
    """Ask one question once, say whether the answer is right, and yield it; nothing where it was skipped."""
    from gemm_lessons.report import make_console, show_asked, show_judged

    console = make_console()
    show_asked(console, number, question.ask)
    answer = _answer(f"question {number} ({question.ask})", question.parse)
    if answer is not None:
        show_judged(console, question, answer)
        yield answer == question.answer


def _answer(question: str, parse: Callable[[str], Typed]) -> Typed | None:
    """Return what is typed, None to skip. What ``parse`` refuses is asked again on a terminal, and ends a pipe."""
    from gemm_lessons.engine.arguments import ExpressionError
    from gemm_lessons.report import make_console, show_refused

    console = make_console()
    while True:
        try:
            typed = input("   > ").strip() if sys.stdin else ""  # it may be closed
        except EOFError:
            console.print()
            return None
        if typed in ("", SKIP):
            return None
        try:
            return parse(typed)
        except ExpressionError as error:
            if not sys.stdin.isatty():
                raise CommandError(f"{question}: {error}") from None
            show_refused(console, str(error))


def predict(
    lesson: LessonArgument,
    answers: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ANSWER]...", help=f"Your answers, in the order of the questions; {SKIP} skips one."),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Predict again after a run has scored you.")] = False,
    no_color: NoColor = False,
) -> int:
    """Answer the lesson's questions; a passing run scores them."""
    from gemm_lessons.course import load_questions, scores
    from gemm_lessons.report import make_console, show_predicted, show_questions, show_scores

    course, console = own_course(), make_console()
    found = course.lesson(lesson)
    questions = load_questions(found)
    if not questions:
        raise CommandError(f"lesson {found.name} has no questions; run it: gemm-lessons run {found.number:02}")
    so_far = load_progress(course).of(found.name)
    if so_far.counted and not again:
        if answers:
            raise CommandError(f"lesson {found.name} is scored already; to predict again, add --again")
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
    from gemm_lessons.engine.arguments import ExpressionError

    if len(answers) > len(questions):
        raise CommandError(f"lesson {lesson.name} asks {len(questions)} questions, but you gave {len(answers)} answers")
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
    """Ask the questions in order, on a terminal or from a pipe; save each answer at once."""
    from gemm_lessons.report import make_console, show_question

    console = make_console()
    names = lesson.names(lesson.shapes.count)
    for number, question in enumerate(questions, 1):
        show_question(console, number, question, guesses.get(question.name))
        answer = _answer(f"question {number} ({question.ask})", partial(question.guess, names=names))
        if answer is not None:
            guesses[question.name] = answer
            keep_progress(course, load_progress(course).after_guesses(lesson.name, guesses))
    return guesses


def bug(
    lesson: LessonArgument,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, metavar="N", help="Repeat a bug: the same seed gives the same bug.")
    ] = None,
    peek: Annotated[
        bool,
        typer.Option(
            "--peek", help="Write bug.cu before a pass, although it is almost the solution; the course remembers that."
        ),
    ] = False,
    no_color: NoColor = False,
) -> int:
    """Practise debugging: get a kernel with one bug, find it from what a run prints, and fix it."""
    from gemm_lessons.course import a_bug, bugs_of, write_bug
    from gemm_lessons.report import make_console, show_bug

    course = own_course()
    found = course.lesson(lesson)
    bugs = bugs_of(course, found)
    if not bugs:
        raise CommandError(f"lesson {found.name} has no bugs to find")
    progress = load_progress(course)
    if keeps_reference(course, found, progress):
        if not peek:
            raise CommandError(
                f"lesson {found.name} is not passed yet, and bug.cu is its solution with one mistake; to get it "
                f"anyway: gemm-lessons bug {found.number:02} --peek"
            )
        progress = progress.after_reveal(found.name)
    fixed = [name for name in progress.of(found.name).mended if name in bugs]
    chosen = a_bug(bugs, fixed, seed)
    written = write_bug(course, found, chosen)
    keep_progress(course, progress.after_bug(found.name, chosen.name))
    show_bug(make_console(), found, written, len(fixed), len(bugs))
    return contract.EXIT_PASSED


@dataclass(frozen=True)
class Practised:
    """The effect of a pass on predictions or on a bug: one line about it, and a function that shows all of it."""

    line: str
    show: Callable[[], None]


def practised(course: Course, lesson: Lesson, path: Path, outcome: RunOutcome) -> Practised | None:
    """Record the effect of a passing run on predictions or on the repaired bug, and return it, or None."""
    if outcome.verdict.kind != "passed":
        return None
    so_far = load_progress(course).of(lesson.name)
    try:
        if path.resolve() == lesson.kernel_path.resolve() and so_far.guesses and not so_far.counted:
            return _score(course, outcome)
        if path.resolve() == lesson.bug_path.resolve() and so_far.bug:
            return _record_fix(course, lesson)
    except LessonError as error:  # an error in its questions or bugs is shown below the verdict, which is still valid
        from gemm_lessons.report import make_console, show_note

        return Practised("", partial(show_note, make_console(stderr=True), str(error)))
    return None


def _score(course: Course, outcome: RunOutcome) -> Practised:
    from gemm_lessons.report import make_console, scores_in_words, show_scores
    from gemm_lessons.running import scored

    progress, scores = scored(load_progress(course), outcome)
    keep_progress(course, progress)
    return Practised(scores_in_words(outcome.lesson, scores), partial(show_scores, make_console(), scores))


def _record_fix(course: Course, lesson: Lesson) -> Practised:
    from gemm_lessons.course import bugs_of
    from gemm_lessons.report import make_console, show_fixed

    progress = load_progress(course)
    bugs, name = bugs_of(course, lesson), progress.of(lesson.name).bug
    progress = progress.after_mending(lesson.name)
    keep_progress(course, progress)
    fixed = [it for it in progress.of(lesson.name).mended if it in bugs]
    what = bugs[name].bug if name in bugs else ""
    line = f"Fixed, {len(fixed)} of {len(bugs)} bugs: {what}"
    return Practised(line, partial(show_fixed, make_console(), lesson, what, len(fixed), len(bugs)))
