"""Predict, then run: the questions, and how near the answers were."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gemm_lessons.course.lesson import Lesson
from gemm_lessons.course.questions import Answer, Question, Score
from gemm_lessons.report.course import step


def show_questions(console: Console, lesson: Lesson) -> None:
    """What the questions are about, and how one answers."""
    shape = lesson.shapes.count
    sizes = ", ".join(("M", "N", "K", *lesson.tile.defines))
    console.print(Text.assemble((f"Lesson {lesson.number:02}  ", "lesson"), (lesson.title, "bold")))
    console.print(f"At M, N, K = {shape.m}, {shape.n}, {shape.k}, the launch that a run counts.")
    console.print(
        Text(f"Answer with a number or arithmetic over {sizes}, or with less, the same, more.", style="quiet")
    )


def show_question(console: Console, number: int, question: Question, before: Answer | None) -> None:
    """One question, and what was answered before."""
    console.print()
    asked = Table.grid(padding=(0, 2, 0, 0))
    asked.add_row(Text(str(number), style="lesson"), question.ask)
    console.print(asked)
    if before is not None:
        console.print(Text(f"   so far: {in_words(before)}; Enter keeps it", style="quiet"))


def show_predicted(console: Console, lesson: Lesson, answered: int, asked: int) -> None:
    """How many questions were answered, and what scores them."""
    number = f"{lesson.number:02}"
    console.print()
    console.print(f"{answered} of {asked} predicted. The run that passes says how near they were.")
    if answered < asked:
        step(console, "The others", f"gemm-lessons predict {number}")
    verb = "run" if lesson.kernel_path.exists() else "start"
    step(console, "Next", f"gemm-lessons {verb} {number}")


def show_scores(console: Console, scores: Sequence[Score]) -> None:
    """Each prediction beside what was counted."""
    right = sum(score.right for score in scores)
    console.print()
    console.print(Text.assemble(("Your predictions: ", "bold"), f"{right} of {len(scores)} right"))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="quiet")
    table.add_column("", no_wrap=True)
    table.add_column("")
    table.add_column("yours", justify="right", no_wrap=True)
    table.add_column("counted", justify="right", no_wrap=True)
    for score in scores:
        state, style = ("right", "good") if score.right else ("near", "doubt") if score.near else ("off", "bad")
        asked = Text(score.question.ask)
        if score.question.why:
            asked.append(f"\n{score.question.why}", style="quiet")
        table.add_row(Text(state, style=style), asked, in_words(score.guess), in_words(score.counted))
    console.print(Padding(table, (0, 0, 0, 2), expand=False))


def in_words(answer: Answer) -> str:
    """``16,384``, ``2.5``, ``the same``."""
    if isinstance(answer, str):
        return answer
    return f"{answer:,.0f}" if answer == round(answer) else f"{answer:,.4g}"
