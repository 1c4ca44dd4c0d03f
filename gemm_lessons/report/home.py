"""``gemm-lessons`` alone: show the current lesson, the next step, and three commands."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gemm_lessons.course.folder import shown
from gemm_lessons.course.position import Position
from gemm_lessons.report.course import step, tried

Command = tuple[str, str]  # command and description


def show_home(console: Console, at: Position) -> None:
    """Print the learner's progress; outside of a course folder, how to create one."""
    lessons = len(at.course.names)
    if at.course.packaged:
        console.print(Text.assemble(("gemm-lessons", "bold"), f"  {lessons} lessons; there is no course folder here"))
    else:
        heading = Text.assemble(("gemm-lessons", "bold"), f"  {at.passed} of {lessons} passed  ")
        console.print(heading.append(str(at.course.root), style="quiet"), soft_wrap=True)
    console.print()
    if at.lesson is not None and not at.course.packaged:
        console.print(Text.assemble((f"Lesson {at.lesson.number:02}  ", "lesson"), (at.lesson.title, "bold")))
        about = Text(at.lesson.idea)
        if done := tried(at.so_far):
            about.append(f"\n{done}", style="quiet")
        console.print(Padding(about, (0, 0, 0, 2)))
        console.print()
    next_step, commands = _advice(at)
    console.print(next_step)
    console.print()
    grid = Table(box=None, show_header=False, pad_edge=False, padding=(0, 3, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column()
    for typed, does in commands:
        grid.add_row(Text(typed, style="command"), Text(does, style="quiet"))
    console.print(Padding(grid, (0, 0, 0, 2), expand=False))
    console.print()
    step(console, "All commands", "gemm-lessons --help")


def _advice(at: Position) -> tuple[Text, Sequence[Command]]:
    """Return the next step and three commands for it."""
    lesson = at.lesson
    if at.course.packaged:
        return _next("make a folder of your own to work in"), (
            ("gemm-lessons init my-course && cd my-course", "the lessons, yours to change"),
            (f"gemm-lessons read {at.course.names[0][:2]}", "the first lesson's text"),
            ("gemm-lessons run 03 --solution", "what a run shows"),
        )
    if lesson is None:
        return Text("Every lesson is passed. Well done.", style="good"), (
            ("gemm-lessons list", "what it took"),
            ("gemm-lessons compare 01 03", "two kernels side by side"),
            ("gemm-lessons bench", "all of them over sizes"),
        )
    number = f"{lesson.number:02}"
    watch = ("gemm-lessons watch", "runs it each time you save")
    hint = (f"gemm-lessons hint {number}", f"a hint for TODO({at.todos[0].number})" if at.todos else "the hints")
    read = (f"gemm-lessons read {number}", "the lesson's text")
    if not at.started:
        return _next("read its text, then fill in its kernel"), (
            ("gemm-lessons next", "its text, and a kernel.cu to fill in"),
            watch,
            (f"gemm-lessons run {number} --solution", "what its reference reaches"),
        )
    if at.so_far.broken_since:
        return _next("it passed before, but no longer does"), (
            watch,
            (f"gemm-lessons diff {number}", "yours against the reference"),
            (f"gemm-lessons reset {number}", "back to the stub; yours is kept"),
        )
    if at.todos:
        todo = at.todos[0]
        where = f"TODO({todo.number}) in line {todo.line} of {shown(lesson.kernel_path)}"
        return _next(f"{where}: {todo.text}" if todo.text else where), (watch, hint, read)
    return _next(f"make {shown(lesson.kernel_path)} pass"), (watch, hint, read)


def _next(what: str) -> Text:
    return Text.assemble(("Next: ", "quiet"), what)
