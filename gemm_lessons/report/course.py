"""The course as the user sees it: the list, a lesson's text, start, reset, hints, and what the doctor found."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from gemm_lessons.course.folder import Course, Reset, Started, TodoMark, shown
from gemm_lessons.course.lesson import Lesson, LessonError
from gemm_lessons.course.progress import Progress
from gemm_lessons.report.console import page

if TYPE_CHECKING:
    from gemm_lessons.run.doctor import Check

STATE_STYLE = {"passed": "good", "started": "doubt", "next": "lesson", "broken": "bad", "": "quiet"}


def show_list(
    console: Console, course: Course, lessons: Sequence[tuple[str, Lesson | LessonError]], progress: Progress
) -> None:
    """The lessons with their idea, which are passed, started and next, and the command to go on with."""
    where = "the installed package (read only)" if course.packaged else str(course.root)
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("", no_wrap=True, min_width=7)
    table.add_column("lesson", no_wrap=True)
    table.add_column("the one idea")
    following: str | None = None
    for name, lesson in lessons:
        state, idea = "", ""
        if isinstance(lesson, LessonError):
            state, idea = "broken", f"see the message below: {name}/lesson.toml"
        else:
            idea = lesson.idea
            if progress.of(name).passed:
                state = "passed"
            elif not course.packaged and lesson.kernel_path.exists():
                state = "started"
            if following is None and state != "passed":
                following = name
                state = state or "next"
        style = STATE_STYLE[state]
        table.add_row(Text(state, style=style), Text(name, style="lesson"), Text(idea))
    passed = sum(progress.of(name).passed for name, _ in lessons)
    console.print(Text.assemble(("gemm-lessons", "bold"), f"  {passed} of {len(lessons)} passed"))
    console.print(Text(where, style="quiet"), soft_wrap=True)
    console.print()
    console.print(table)
    console.print()
    if course.packaged:
        step(console, "To work on them", "gemm-lessons init my-course && cd my-course")
    elif following is None:
        console.print("Every lesson is passed. Well done.", style="good")
    else:
        number = following[:2]
        started = (course.lessons_dir / following / "kernel.cu").exists()
        step(console, "Next", f"gemm-lessons run {number}" if started else f"gemm-lessons read {number}")


def show_text(console: Console, lesson: Lesson, text: str, course: Course) -> None:
    """A lesson's text, rendered; HTML comments are for the checks, not for the reader."""
    from rich.markdown import Markdown  # slow to import, and only this needs it

    body = re.sub(r"<!--.*?-->\n?", "", text, flags=re.DOTALL)
    page(console, Markdown(body, code_theme="ansi_dark" if not console.no_color else "bw", hyperlinks=False))
    if console.is_terminal and not course.packaged:
        verb = "run" if lesson.kernel_path.exists() else "start"
        step(console, "Next", f"gemm-lessons {verb} {lesson.number:02}")


def show_started(console: Console, started: Started) -> None:
    """Where the learner's file is and what to fill in."""
    lesson, number = started.lesson, f"{started.lesson.number:02}"
    console.print(Text.assemble((f"Lesson {number}  ", "lesson"), (lesson.title, "bold")))
    made = "made from the stub" if started.created else "is already there, kept as it is"
    console.print(Text.assemble((shown(started.path), "command"), f"  {made}"), soft_wrap=True)
    if started.todos:
        console.print("\nFill in:")
        console.print(Padding(todo_table(started.todos), (0, 0, 0, 2), expand=False))
    console.print()
    step(console, "The lesson's text", f"gemm-lessons read {number}")
    step(console, "When filled in", f"gemm-lessons run {number}")
    step(console, "When stuck", f"gemm-lessons hint {number}")
    if not started.created:
        step(console, "To start over", f"gemm-lessons reset {number}")


def show_reset(console: Console, lesson: Lesson, reset: Reset) -> None:
    """That the stub is back, and where the old file went."""
    console.print(Text.assemble((shown(reset.path), "command"), "  is the stub again"), soft_wrap=True)
    if reset.backup:
        console.print(Text.assemble("Your old file is kept as ", (shown(reset.backup), "command")), soft_wrap=True)
    else:
        console.print("Nothing of yours was in it, so there is no backup.", style="quiet")
    step(console, "Next", f"gemm-lessons run {lesson.number:02}")


def show_init(console: Console, course: Course, here: bool) -> None:
    """What the new course folder holds and how to begin."""
    count = len(course.names)
    folder = shown(course.root)
    console.print(
        Text.assemble(f"{count} lessons in ", (folder, "command"), ", yours to change and commit"), soft_wrap=True
    )
    step(console, "Next", "gemm-lessons list" if here else f"cd {folder} && gemm-lessons list")


def show_todos(console: Console, lesson: Lesson, marks: Sequence[TodoMark], progress: Progress) -> None:
    """The lesson's TODOs and how many of their hints were seen."""
    number = f"{lesson.number:02}"
    if not lesson.todos:
        console.print(f"Lesson {number} has no hints; its text: gemm-lessons read {number}")
        return
    text = {mark.number: mark.text for mark in marks}
    seen = progress.of(lesson.name).hints
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for todo in lesson.todos:
        count = f"{min(seen.get(todo.number, 0), len(todo.hints))} of {len(todo.hints)} hints seen"
        table.add_row(
            Text(f"TODO({todo.number})", style="lesson"), text.get(todo.number, ""), Text(count, style="quiet")
        )
    console.print(table)
    console.print()
    step(console, "A hint for the first", f"gemm-lessons hint {number} --todo 1")


def show_hint(console: Console, lesson: Lesson, mark: TodoMark | None, number: int, level: int) -> None:
    """One hint: ``level`` counts from 1."""
    todo = lesson.todos[number - 1]
    title = f"TODO({number}), hint {level} of {len(todo.hints)}"
    if mark:
        console.print(Text(mark.text, style="quiet"))
    console.print(Panel(Text(todo.hints[level - 1]), title=title, title_align="left", border_style="lesson"))
    if level < len(todo.hints):
        step(console, "More", f"gemm-lessons hint {lesson.number:02} --todo {number} --level {level + 1}")


def show_doctor(console: Console, checks: Sequence[Check]) -> None:
    """What was found, what is missing and what to do about it."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")  # paths must stay whole
    style = {"found": "good", "missing": "bad", "optional": "quiet"}
    for check in checks:
        detail = Text(check.detail)
        if check.remedy:
            detail.append(f"\n{check.remedy}", style="doubt" if check.state == "missing" else "quiet")
        table.add_row(Text(check.state, style=style[check.state]), Text(check.name, style="bold"), detail)
    console.print(table)


def todo_table(marks: Sequence[TodoMark]) -> Table:
    """Line, number and text of each TODO."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for mark in marks:
        table.add_row(Text(f"line {mark.line}", style="quiet"), Text(f"TODO({mark.number})", style="lesson"), mark.text)
    return table


def step(console: Console, when: str, command: str) -> None:
    """One line that says which command comes next."""
    console.print(Text.assemble((f"{when}: ", "quiet"), (command, "command")), soft_wrap=True)


def show_error(console: Console, message: str, prefix: str = "error") -> None:
    """One message on stderr."""
    console.print(Text.assemble((f"{prefix}: ", "bad"), message), soft_wrap=True)


def show_note(console: Console, message: str) -> None:
    """One line that matters little, on stderr."""
    console.print(Text(f"note: {message}", style="quiet"), soft_wrap=True)
