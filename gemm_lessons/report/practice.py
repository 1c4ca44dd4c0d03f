"""Show drills, predictions (questions and scores) and planted bugs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gemm_lessons.course import Answer, Drawn, Lesson, Question, Reset, Score, read_source, shown
from gemm_lessons.course import in_words as drilled
from gemm_lessons.report.console import indented, numbers, plain_table, words
from gemm_lessons.report.course import lesson_heading, step

DRILL_RULES = (
    "Answer with whole numbers or arithmetic, like 3 * 64 + 5, and a comma between two. Lanes are the threads of a "
    "warp; arrays begin at multiples of 128 bytes."
)


def show_drills(console: Console, lesson: Lesson) -> None:
    """Print the heading of the drills and how to answer."""
    console.print(lesson_heading(lesson))
    console.print(Text(f"{DRILL_RULES} Enter skips a question.", style="quiet"))


def show_asked(console: Console, number: int, ask: str) -> None:
    """Print one question with its number."""
    console.print()
    asked = Table.grid(padding=(0, 2, 0, 0))
    asked.add_row(Text(str(number), style="lesson"), Text(ask))
    console.print(asked)


def show_judged(console: Console, question: Drawn, answer: tuple[int, ...]) -> None:
    """Print whether an answer to a drill is right; the right one, and how it is computed, where it is not."""
    if answer == question.answer:
        line = Text("right", style="good")
    else:
        line = Text.assemble((f"It is {drilled(question.answer)}. ", "doubt"), question.why)
    console.print(indented(line, 3))


def show_drilled(console: Console, lesson: Lesson, right: int, answered: int, seed: int) -> None:
    """Print how many answers were right, and how to drill again."""
    number = f"{lesson.number:02}"
    console.print()
    console.print(f"{right} of {answered} right")
    step(console, "With other numbers", f"gemm-lessons drill {number}")
    console.print(Text(f"With the same numbers: gemm-lessons drill {number} --seed {seed}", style="quiet"))


def show_questions(console: Console, lesson: Lesson) -> None:
    """Print the topic of the questions and how to answer."""
    shape = lesson.shapes.count
    source = read_source(lesson.stub_path)
    used = (name for name in lesson.tile.defines if re.search(rf"\b{name}\b", source))
    sizes = ", ".join(("M", "N", "K", *used))
    console.print(lesson_heading(lesson))
    console.print(f"At M, N, K = {shape.m}, {shape.n}, {shape.k}, the launch that a run counts.")
    console.print(
        Text(f"Answer with a number or arithmetic over {sizes}, or with less, the same, more.", style="quiet")
    )


def show_question(console: Console, number: int, question: Question, before: Answer | None) -> None:
    """Print one question and the earlier answer."""
    show_asked(console, number, question.ask)
    if before is not None:
        console.print(Text(f"   so far: {in_words(before)}; Enter keeps it", style="quiet"))


def show_refused(console: Console, why: str) -> None:
    """Print why the input is not a valid answer."""
    console.print(indented(Text(why, style="doubt"), 3))


def show_predicted(console: Console, lesson: Lesson, answered: int, asked: int) -> None:
    """Print how many questions were answered, and which run scores them."""
    number = f"{lesson.number:02}"
    console.print()
    console.print(f"{answered} of {asked} predicted. They are scored when your kernel passes.")
    if answered < asked:
        step(console, "To answer the others", f"gemm-lessons predict {number}")
    verb = "run" if lesson.kernel_path.exists() else "start"
    step(console, "Next", f"gemm-lessons {verb} {number}")


def scores_in_words(lesson: Lesson, scores: Sequence[Score]) -> str:
    """Return how many predictions were right, and where to read more."""
    right = sum(score.right for score in scores)
    return f"Predictions: {right} of {len(scores)} right (gemm-lessons predict {lesson.number:02})"


def show_scores(console: Console, scores: Sequence[Score]) -> None:
    """Print each prediction beside the counted value."""
    right = sum(score.right for score in scores)
    console.print()
    console.print(Text.assemble(("Your predictions: ", "bold"), f"{right} of {len(scores)} right"))
    table = plain_table(words(), "", numbers("yours"), numbers("counted"))
    for score in scores:
        state, style = ("right", "good") if score.right else ("near", "doubt") if score.near else ("off", "bad")
        asked = Text(score.question.ask)
        if score.question.why:
            asked.append(f"\n{score.question.why}", style="quiet")
        table.add_row(Text(state, style=style), asked, in_words(score.guess), in_words(score.counted))
    console.print(indented(table))


def in_words(answer: Answer) -> str:
    """Format an answer: ``16,384``, ``2.5``, ``the same``."""
    if isinstance(answer, str):
        return answer
    return f"{answer:,.0f}" if answer == round(answer) else f"{answer:,.4g}"


def show_bug(console: Console, lesson: Lesson, written: Reset, fixed: int, bugs: int) -> None:
    """Print which file has the bug and what to do."""
    console.print(Text.assemble((shown(written.path), "command"), "  has one bug"), soft_wrap=True)
    if written.backup:
        console.print(Text.assemble("The old one is kept as ", (shown(written.backup), "command")), soft_wrap=True)
    if fixed:
        console.print(Text(f"{fixed} of {bugs} bugs of this lesson fixed", style="quiet"))
    step(console, "Find it", f"gemm-lessons run {lesson.number:02} --bug")
    console.print(Text("The bug is fixed when that run passes; it then says what the bug was.", style="quiet"))


def show_fixed(console: Console, lesson: Lesson, what: str, fixed: int, bugs: int) -> None:
    """Print what the bug was and how many bugs remain."""
    console.print()
    console.print(Text.assemble(("Fixed: ", "good"), what))
    console.print(Text(f"{fixed} of {bugs} bugs of this lesson", style="quiet"))
    if fixed < bugs:
        step(console, "Another", f"gemm-lessons bug {lesson.number:02}")
