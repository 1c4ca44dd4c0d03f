"""Show a grading run in the terminal: progress with its estimated end, then a summary of the class."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text

from gemm_lessons.course import shown
from gemm_lessons.grading import Classroom, Grade, Gradebook, GradebookRow, Tell, amount, one_line
from gemm_lessons.report.console import fits, headed_table, plain_table

EVERY_S = 30.0  # seconds between two progress lines without a terminal
ALL_ROWS = 40  # maximum class size that is listed in full; of a larger class, only the cases for manual review
TENTHS = 10
BAR = 40  # columns
LONGEST_NAME = 24

# One letter for the outcome of a kernel, coloured if the terminal has colours.
MARKS = {
    "passed": ("+", "good", "passed"),
    "gate_missed": ("g", "doubt", "gate missed"),
    "wrong_answer": ("w", "bad", "wrong"),
    "faulted": ("f", "bad", "fault"),
    "timed_out": ("t", "bad", "endless"),
    "compile_failed": ("c", "bad", "no build"),
    "missing": (".", "quiet", "missing"),
    "graded": ("d", "good", "decided"),  # by the teacher, without a kernel that was judged
    "refused": ("r", "bad", "refused"),
    "unreadable": ("u", "bad", "unreadable"),
    "unsupported": ("?", "doubt", "unsupported"),
    "kit_error": ("!", "doubt", "kit failed"),
    "": (" ", "", "not yet"),
}


@contextmanager
def ahead(console: Console, total: int, kept: int) -> Iterator[Tell]:
    """Show progress and the estimated end: a bar on a terminal, else occasional lines. ``kept`` are graded already."""
    bar = Progress(
        TextColumn("graded"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("left"),
        console=console, transient=True, disable=not console.is_terminal, refresh_per_second=2,
        speed_estimate_period=120,
    )  # fmt: skip
    task = bar.add_task("", total=total)
    finished = kept
    began = said = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal finished, said
        finished = done
        bar.update(task, completed=done, total=total)
        now = time.monotonic()
        if console.is_terminal or now - said < EVERY_S or done <= kept:
            return
        said = now
        left = (now - began) / (done - kept) * (total - done)
        console.print(f"{done} of {total} graded, about {_duration(left)} left", soft_wrap=True)

    try:
        with bar:
            yield tell
    except KeyboardInterrupt:
        console.print(f"{finished} grades are kept; the same command resumes from there", soft_wrap=True)
        raise


def _duration(seconds: float) -> str:
    return (
        f"{seconds:.0f} s"
        if seconds < 90
        else f"{seconds / 60:.0f} min"
        if seconds < 5400
        else f"{seconds / 3600:.1f} h"
    )


def show_start(console: Console, classroom: Classroom, kept: int) -> None:
    """Print what is going to be judged."""
    it = classroom.assignment
    students, total = len(it.submissions.students), len(classroom.mine)
    lessons = f"{len(it.lessons)} lesson{'s'[: len(it.lessons) != 1]}"
    part = f"; shard {it.shard[0]} of {it.shard[1]}: {total} kernels" if it.shard else ""
    console.print(f"{students} student{'s'[: students != 1]}, {lessons}, seed {classroom.seed}{part}", soft_wrap=True)
    if kept:
        console.print(f"{kept} of {total} were already graded", soft_wrap=True)


def show_remarks(console: Console, remarks: Sequence[str]) -> None:
    """Print the remarks about the submissions as a whole."""
    for remark in remarks:
        console.print(Text(one_line(remark), style="doubt"), soft_wrap=True)


def show_class(console: Console, book: Gradebook, written: Sequence[str]) -> None:
    """Print each lesson's outcomes, the distribution of points, and the students; of a large class only some."""
    rows = book.rows
    wide = _lessons(book)
    console.print(wide if fits(console, wide) else _lessons(book, short=True))
    if len(rows) > 1:
        console.print(_distribution(book))
    listed = rows if len(rows) <= ALL_ROWS else [row for row in rows if _needs_a_look(row)]
    if listed:
        title = "Students" if len(listed) == len(rows) else "Students whose grades need a look"
        console.print(Text(title, style="bold"))
        wide = _students(book, listed[:ALL_ROWS])
        console.print(wide if fits(console, wide) else _students(book, listed[:ALL_ROWS], short=True))
        if len(listed) > ALL_ROWS:
            console.print(Text(f"and {len(listed) - ALL_ROWS} more, in grades.csv", style="quiet"))
    used = {_mark(grade) for row in rows for grade in row.grades}
    console.print(Text("  ".join(f"{m} {what}" for m, _, what in MARKS.values() if m in used), style="quiet"))
    errors = [grade for row in rows for grade in row.grades if grade and grade.status == "kit_error"]
    for message, times in Counter(grade.message for grade in errors).most_common(3):
        console.print(Text(f"{times} not judged: {one_line(message)}", style="bad"))
    for line in written:
        console.print(Text(line, style="quiet"), soft_wrap=True)


def _outcome(grade: Grade | None) -> str:
    return "" if grade is None else grade.verdict or grade.status


def _mark(grade: Grade | None) -> str:
    return MARKS[_outcome(grade)][0]


def _needs_a_look(row: GradebookRow) -> bool:
    return any(grade is not None and not grade.judged for grade in row.grades) or bool(
        any(grade is not None and grade.status in ("refused", "unreadable") for grade in row.grades)
    )


def _lessons(book: Gradebook, short: bool = False) -> Table:
    table = headed_table()
    table.add_column("lesson", no_wrap=True)
    kinds = [kind for kind in MARKS if any(_outcome(grade) == kind for row in book.rows for grade in row.grades)]
    table.add_column("mean", justify="right")
    table.add_column("of", justify="right")
    for kind in kinds:
        mark, _, words = MARKS[kind]
        table.add_column(mark if short else words.replace(" ", "\n"), justify="right", vertical="bottom", no_wrap=True)
    for i, lesson in enumerate(book.lessons):
        grades = [row.grades[i] for row in book.rows]
        there = [grade.points for grade in grades if grade]
        mean = amount(sum(there) / len(there)) if there else "-"
        counts = Counter(_outcome(grade) for grade in grades)
        cells = (Text(str(counts[kind] or "-"), style=MARKS[kind][1] if counts[kind] else "quiet") for kind in kinds)
        table.add_row(lesson.replace("_", " ", 1), mean, amount(book.out_of[i]), *cells)
    return table


def _distribution(book: Gradebook) -> Table:
    """Return the number of students by tenths of the points."""
    table = plain_table(Column(justify="right"), Column(justify="right"), "", gap=1)
    tenths = Counter(min(TENTHS - 1, int(TENTHS * row.points / book.total)) if book.total else 0 for row in book.rows)
    most = max(tenths.values(), default=1)
    for tenth in reversed(range(TENTHS)):
        count = tenths[tenth]
        bar = "#" * max(count and 1, round(BAR * count / most))
        table.add_row(f"{10 * tenth}-{10 * tenth + 10}%", str(count) if count else "-", Text(bar, style="lesson"))
    return table


def _students(book: Gradebook, rows: Sequence[GradebookRow], short: bool = False) -> Table:
    """Return each student's marks, one a lesson; ``short``: without blanks, under the digits of the numbers."""
    table = headed_table()
    numbers = [lesson[:2] for lesson in book.lessons]
    table.add_column("student", no_wrap=True, max_width=LONGEST_NAME, overflow="ellipsis")
    table.add_column("points", justify="right", no_wrap=True)
    header = "\n".join("".join(digits) for digits in zip(*numbers, strict=True)) if short else " ".join(numbers)
    table.add_column(header, no_wrap=True, vertical="bottom")
    for row in rows:
        marks = Text()
        for grade in row.grades:
            mark, style, _ = MARKS[_outcome(grade)]
            marks.append(mark if short else f"{mark:<3}", style=style)
        table.add_row(one_line(row.student.id), amount(row.points), marks)
    return table


def show_again(console: Console, before: Grade | None, now: Grade) -> None:
    """Print the result of a case that was judged again, and whether it equals the earlier one."""
    console.print(Text(f"{one_line(now.student)}, lesson {now.lesson}, {now.file or 'no file'}", style="bold"))
    console.print(Text(f"seed {now.case.seed}; counted on {_shapes(now.case.count_shapes)}; "
                       f"checked on {_shapes(now.case.check_shapes)}", style="quiet"))  # fmt: skip
    for part in now.parts:
        mark = Text("+ " if part.passed else "- ", style="good" if part.passed else "bad")
        console.print(mark + Text(f"{part.name}: {amount(part.points)} of {amount(part.out_of)}: {part.why}"))
    console.print(Text(f"{amount(now.points)} of {amount(now.out_of)} points: {now.message}"))
    if before is not None:
        if before.lesson_hash != now.lesson_hash:
            console.print(Text("The lesson has changed since then.", style="doubt"))
        for name, version in before.versions.items():
            if (today := now.versions.get(name)) != version:
                console.print(Text(f"Then it was judged with {name} {version}, now with {today}.", style="doubt"))
        same = (before.points, before.verdict, before.status) == (now.points, now.verdict, now.status)
        said = (
            "the same as before"
            if same
            else f"before: {amount(before.points)} points, {before.verdict or before.status}"
        )
        console.print(Text(said, style="good" if same else "bad"))


def _shapes(shapes: Sequence[tuple[int, int, int]]) -> str:
    return ", ".join(f"{m}x{n}x{k}" for m, n, k in shapes) or "nothing"


def written_lines(paths: Sequence[object]) -> list[str]:
    """Return the lines that name the written files."""
    from pathlib import Path

    return [f"written: {shown(Path(str(path)))}" for path in paths]
