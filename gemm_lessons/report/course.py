"""Show the course: the list, a lesson's text, start, reset, differences, hints, and the doctor's checks."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Column, Table
from rich.text import Text

from gemm_lessons.course import (
    Course,
    CoursePart,
    Lesson,
    LessonError,
    LessonProgress,
    LessonSummary,
    Progress,
    Reset,
    Started,
    folded,
    shown,
)
from gemm_lessons.report.console import indented, numbers, page, plain_table, show_note, show_parts, words
from gemm_lessons.report.links import link

if TYPE_CHECKING:
    from gemm_lessons.commands import Check
    from gemm_lessons.course import CarriedOver, HintLevel, Position, TodoMark
    from gemm_lessons.export import Exported
    from gemm_lessons.report.markdown import Page


NARROW = 60  # columns: too few for a column of ideas
PREDICT_FIRST = (
    "*Predict first: `gemm-lessons predict {number}`. This is shown once a passing run has scored you. (To see it now: "
    "`gemm-lessons read {number} --all`.)*"
)
STATE_STYLE = {
    "passed": "good",
    "broken": "bad",  # it passed once
    "started": "doubt",
    "next": "lesson",
    "damaged": "bad",  # its lesson.toml
    "": "quiet",
}


def show_list(
    console: Console, course: Course, lessons: Mapping[str, LessonSummary | LessonError], progress: Progress
) -> None:
    """Print the lessons with state (passed, started, next), minutes and idea, the runs so far, and the next command."""
    where = "the installed package (read only)" if course.packaged else str(course.root)
    following = progress.next_open(course.names)
    tables: list[tuple[CoursePart | None, Table]] = []
    width = max(map(len, lessons), default=0)
    narrow = console.width < NARROW  # each idea is below the name, without minutes
    timed = any(map(_minutes, lessons.values())) and not narrow
    for name, lesson in lessons.items():
        part = course.part_of(name)
        if not tables or tables[-1][0] != part:
            tables.append((part, plain_table(words(min_width=7), "") if narrow else _lessons_table(width, timed)))
        state, idea = _state_and_idea(course, name, lesson, progress, following)
        row = [Text(state, style=STATE_STYLE[state]), Text(name, style="lesson"), idea]
        if narrow:
            row[1:] = [Text.assemble(row[1], "\n", idea)]
        elif timed:
            row.insert(2, Text(_minutes(lesson), style="quiet"))
        tables[-1][1].add_row(*row)
    passed = progress.passed(list(lessons))
    console.print(Text.assemble(("gemm-lessons", "bold"), f"  {passed} of {len(lessons)} passed"))
    console.print(Text(where, style="quiet"), soft_wrap=True)
    if timed:
        console.print(Text("The minutes are roughly what a first pass takes.", style="quiet"))
    for part, table in tables:
        console.print()
        if part:
            console.print(Text(f"Part {part.number}  {part.title}", style="bold"))
            console.print(Text(part.builds_on, style="quiet"))
        console.print(table)
    console.print()
    if course.packaged:
        step(console, "To work on them", "gemm-lessons init my-course && cd my-course")
    elif following is None:
        console.print("Every lesson is passed. Well done.", style="good")
    else:
        started = (course.lessons_dir / following / "kernel.cu").exists()
        step(console, "Next", f"gemm-lessons run {following[:2]}" if started else "gemm-lessons next")


def _minutes(lesson: LessonSummary | LessonError) -> str:
    return f"{lesson.minutes} min" if not isinstance(lesson, LessonError) and lesson.minutes else ""


def _lessons_table(width: int, timed: bool) -> Table:
    """Return an empty table for a part's lessons; ``width``: of the course's longest name. ``timed``: with minutes."""
    minutes = [numbers(min_width=6)] if timed else []
    return plain_table(words(min_width=7), words(min_width=width), *minutes, "")


def _state_and_idea(
    course: Course, name: str, lesson: LessonSummary | LessonError, progress: Progress, following: str | None
) -> tuple[str, Text]:
    """Return a lesson's state (passed, started, next, ...), and its idea with the runs so far."""
    so_far = progress.of(name)
    state = "next" if name == following else ""
    if isinstance(lesson, LessonError):
        state, idea = "damaged", Text(f"see the message below: {name}/lesson.toml")
    else:
        idea = Text(lesson.idea)
        if so_far.passed:
            state = "broken" if so_far.broken_since else "passed"
        elif not course.packaged and (course.lessons_dir / name / "kernel.cu").exists():
            state = "started"
    if done := tried(so_far):
        idea.append(f"\n{done}", style="quiet")
    return state, idea


def tried(so_far: LessonProgress) -> str:
    """Summarise the learner's runs of a lesson in a few words; empty without runs."""
    parts = []
    if so_far.runs:
        parts.append("tried once" if so_far.runs == 1 else f"tried {so_far.runs} times")
    if so_far.runs and so_far.last != "passed":
        parts.append(f"last: {so_far.last.replace('_', ' ')}")
    if so_far.hints_seen:
        parts.append("1 hint" if so_far.hints_seen == 1 else f"{so_far.hints_seen} hints")
    if so_far.revealed:
        parts.append("reference seen")
    if so_far.broken_since:
        parts.append(f"broken since {_when(so_far.broken_since)}")
    return ", ".join(parts)


def _when(stored: str) -> str:
    try:
        return datetime.fromisoformat(stored).strftime("%-d %b, %H:%M")
    except ValueError:
        return stored


def show_text(
    console: Console, lesson: Lesson, text: str, course: Course, waits: bool = False, steps: bool = True
) -> None:
    """Render a lesson's text without its HTML comments, which are for the checks. ``waits`` omits the results, which
    the learner has yet to predict; with ``steps`` also the next command."""
    page(console, _markdown(console, body_of(lesson, text, waits)))
    if steps and console.is_terminal and not course.packaged:
        verb = "run" if lesson.kernel_path.exists() else "start"
        step(console, "Next", f"gemm-lessons {verb} {lesson.number:02}")


def show_page(console: Console, text: str, raw: bool) -> None:
    """Render a page about the kit, or print its Markdown as it is."""
    if raw:
        console.file.write(text if text.endswith("\n") else f"{text}\n")
        return
    page(console, _markdown(console, _visible(text)))


def _markdown(console: Console, text: str) -> Page:
    from gemm_lessons.report.markdown import Page  # slow to import, and only this needs it

    return Page(text, code_theme="ansi_dark" if not console.no_color else "bw", hyperlinks=False)


def body_of(lesson: Lesson, text: str, waits: bool) -> str:
    """Return a lesson's text for readers; ``waits`` omits its results."""
    if waits:
        text = folded(text, PREDICT_FIRST.format(number=f"{lesson.number:02}"))
    return _visible(text)


def _visible(text: str) -> str:
    """Return Markdown without its HTML comments, which are for the checks."""
    return re.sub(r"<!--.*?-->\n?", "", text, flags=re.DOTALL)


def show_started(
    console: Console, started: Started, asks: bool, runs: bool = False, part: CoursePart | None = None
) -> None:
    """Print where the learner's file is, what to fill in and the next command. ``asks``: there are questions to answer
    before the run; ``runs``: the caller runs the kernel and has keys for the other commands; ``part``: the part of the
    course that begins with this lesson."""
    lesson, number = started.lesson, f"{started.lesson.number:02}"
    if part:
        console.print(Text(f"Part {part.number}  {part.title}", style="bold"))
        console.print(Text(part.builds_on, style="quiet"))
        console.print()
    console.print(lesson_heading(lesson))
    made = "made from the stub" if started.created else "is already there, kept as it is"
    path = Text(shown(started.path), style="command")
    path.stylize(link(console, str(started.path), started.todos[0].line if started.todos else None))
    console.print(Text.assemble(path, f"  {made}"), soft_wrap=True)
    if started.todos:
        console.print("\nFill in:")
        console.print(indented(todo_table(started.todos)))
    console.print()
    step(console, "The lesson's text", f"gemm-lessons read {number}")
    if lesson.drills_path.exists() and started.created:
        step(console, "To warm up", f"gemm-lessons drill {number}")
    if asks:
        step(console, "Before you run it", f"gemm-lessons predict {number}")
    if runs:
        return
    step(console, "When filled in", f"gemm-lessons run {number}")
    step(console, "Or at each save", f"gemm-lessons watch {number}")
    step(console, "When stuck", f"gemm-lessons hint {number}")
    if not started.created:
        step(console, "To start over", f"gemm-lessons reset {number}")


def show_reset(console: Console, lesson: Lesson, reset: Reset) -> None:
    """Report that the stub is restored, and the backup of the old file."""
    console.print(Text.assemble((shown(reset.path), "command"), "  is the stub again"), soft_wrap=True)
    show_backup(console, reset.backup)
    if not reset.backup:
        console.print("Nothing of yours was in it, so there is no backup.", style="quiet")
    step(console, "Next", f"gemm-lessons run {lesson.number:02}")


def show_carried_over(console: Console, done: CarriedOver) -> None:
    """Report that the lessons have new numbers, the kernels that moved along, and the backup."""
    moved = ", ".join(f"{old} is now {new}" for old, new in done.moved)
    kernels = f"your kernels moved along ({moved})" if moved else "you had no kernel in the ones that moved"
    show_note(console, f"lessons have new numbers: {kernels}; the old folder is kept as {shown(done.backup)}")
    if done.note:
        show_note(console, done.note)


def show_restored(console: Console, files: Sequence[Reset]) -> None:
    """Report the restored files and the backups of the old ones."""
    for file in files:
        line = Text.assemble((shown(file.path), "command"), "  is as it came")
        if file.backup:
            line.append(f"; yours is kept as {file.backup.name}", style="quiet")
        console.print(line, soft_wrap=True)
    if not files:
        console.print("Everything is still as it came with the course; nothing was changed.", style="quiet")


def show_init(console: Console, course: Course, here: bool, repository: str) -> None:
    """Print what the new folder holds and how to begin. ``repository``: the result of creating a git repository."""
    count = len(course.names)
    folder = shown(course.root)
    console.print(
        Text.assemble(f"{count} lessons in ", (folder, "command"), ", yours to change and commit"), soft_wrap=True
    )
    said = {"made": "It is a git repository; its first commit is the course as it came.", "inside another": "", "": ""}
    if note := said.get(repository, f"It is not a git repository: {repository}"):
        console.print(Text(note, style="quiet"))
    console.print(Text("clangd and VS Code understand its .cu files without a CUDA toolkit.", style="quiet"))
    typed = shlex.quote(f"./{folder}" if folder.startswith("-") else folder)
    step(console, "Next", "gemm-lessons" if here else f"cd {typed} && gemm-lessons")


def show_editor_files(console: Console, files: Sequence[Path]) -> None:
    """List the new files for editors."""
    for path in files:
        console.print(Text.assemble((shown(path), "command"), "  written"), soft_wrap=True)


def show_todos(
    console: Console, lesson: Lesson, marks: Sequence[TodoMark], progress: Progress, still_open: Sequence[int] = ()
) -> None:
    """Print the lesson's TODOs, which of them are open, and how many of their hints were shown."""
    number = f"{lesson.number:02}"
    if not lesson.todos:
        console.print(f"Lesson {number} has no hints; its text: gemm-lessons read {number}")
        return
    text = {mark.number: mark.text for mark in marks}
    seen = progress.of(lesson.name).hints
    table = plain_table()
    for todo in lesson.todos:
        count = f"{min(seen.get(todo.number, 0), len(todo.hints))} of {len(todo.hints)} hints seen"
        state = Text("open", style="doubt") if todo.number in still_open else Text("filled in", style="quiet")
        table.add_row(
            Text(f"TODO({todo.number})", style="lesson"), text.get(todo.number, ""), state, Text(count, style="quiet")
        )
    console.print(table)
    console.print()
    if progress.of(lesson.name).last == "gate_missed":
        step(console, "The gate that your kernel missed", f"gemm-lessons run {number}")
    if still_open:
        step(console, f"A hint for TODO({still_open[0]})", f"gemm-lessons hint {number}")
    else:
        step(console, "A hint for one of them", f"gemm-lessons hint {number} --todo {lesson.todos[0].number}")


def show_hint(console: Console, lesson: Lesson, hint: HintLevel, steps: bool = True) -> None:
    """Print one hint; with ``steps`` also the next command."""
    hints = lesson.todos[hint.todo - 1].hints
    title = f"TODO({hint.todo}), hint {hint.level} of {len(hints)}"
    if hint.mark:
        console.print(Text(hint.mark.text, style="quiet"))
    console.print(Panel(Text(hints[hint.level - 1]), title=title, title_align="left", border_style="lesson"))
    if not steps:
        return
    if hint.level < len(hints):
        step(console, "More", f"gemm-lessons hint {lesson.number:02} --todo {hint.todo}")
    else:
        step(console, "That was the last hint. The reference", f"gemm-lessons diff {lesson.number:02} --peek")


def show_export(console: Console, exported: Exported) -> None:
    """Print the files written, the backups, and how to build the program."""
    lesson, folder = exported.lesson, shown(exported.folder)
    console.print(lesson_heading(lesson))
    names = ", ".join(str(file.relative_to(exported.folder)) for file in exported.files)
    console.print(Text.assemble((folder, "command"), f"  {names}"), soft_wrap=True)
    for backup in exported.backups:
        show_backup(console, backup)
    console.print()
    console.print("On a machine with an NVIDIA GPU and the CUDA toolkit:")
    step(console, "Build and run", f"cd {shlex.quote(folder)} && make run")
    step(console, "Without make", f"{exported.compile} && ./gemm")


def show_doctor(console: Console, checks: Sequence[Check]) -> None:
    """Print the components found, those missing, and the remedies."""
    table = plain_table(words(), words(), Column(overflow="fold"))  # paths must not be wrapped
    style = {"found": "good", "missing": "bad", "optional": "quiet"}
    for check in checks:
        detail = Text(check.detail)
        if check.remedy:
            detail.append(f"\n{check.remedy}", style="doubt" if check.state == "missing" else "quiet")
        table.add_row(Text(check.state, style=style[check.state]), Text(check.name, style="bold"), detail)
    console.print(table)


def lesson_heading(lesson: Lesson) -> Text:
    """Return a lesson's number and title."""
    return Text.assemble((f"Lesson {lesson.number:02}  ", "lesson"), (lesson.title, "bold"))


def show_backup(console: Console, backup: Path | None) -> None:
    """Print where the learner's old file is kept, if there was one."""
    if backup:
        console.print(Text.assemble("Your old file is kept as ", (shown(backup), "command")), soft_wrap=True)


def todo_table(marks: Sequence[TodoMark]) -> Table:
    """Return a table with line, number and text of each TODO."""
    table = plain_table()
    for mark in marks:
        table.add_row(Text(f"line {mark.line}", style="quiet"), Text(f"TODO({mark.number})", style="lesson"), mark.text)
    return table


def step(console: Console, when: str, command: str) -> None:
    """Print the next command on one line, or on two if the terminal is too narrow."""
    narrow = console.is_terminal and len(when) + 2 + len(command) > console.width
    gap = ":\n  " if narrow else ": "
    console.print(Text.assemble((f"{when}{gap}", "quiet"), (command, "command")), soft_wrap=True)


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
        console.print(lesson_heading(at.lesson))
        about = Text(at.lesson.idea)
        if done := tried(at.so_far):
            about.append(f"\n{done}", style="quiet")
        console.print(Padding(about, (0, 0, 0, 2)))
        console.print()
    next_step, commands = _advice(at)
    console.print(next_step)
    console.print()
    grid = plain_table(words(), "", gap=3)
    for typed, does in commands:
        grid.add_row(Text(typed, style="command"), Text(does, style="quiet"))
    console.print(indented(grid))
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
            (f"gemm-lessons run {number} --solution", "what its reference achieves"),
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


Side = tuple[str, str]  # title and text
STYLE = {"-": "bad", "+": "good", "@": "lesson"}


def show_diff(console: Console, mine: Side, other: Side) -> None:
    """Print the difference, through the pager if it is long."""
    show_parts(console, diff_lines(mine, other))


def diff_lines(mine: Side, other: Side) -> list[Text]:
    """Return a unified diff that ignores trailing blanks."""
    import difflib  # imported late: only for differences

    before, after = ([line.rstrip() for line in text.splitlines()] for _, text in (mine, other))
    found = list(difflib.unified_diff(before, after, lineterm=""))[2:]  # without the two header lines
    heading = [Text(f"- {mine[0]}", style="bad"), Text(f"+ {other[0]}", style="good"), Text("")]
    if not found:
        return [*heading, Text("They are the same, line by line.", style="quiet")]
    return [*heading, *(Text(line, style=STYLE.get(line[:1], "")) for line in found)]
