"""Show a benchmark: a progress bar, then speeds and shares of cuBLAS, one line per kernel and one column per shape.

Tables are as wide as their cells. Where the terminal is narrower, columns continue in another block below: no cell is
cut and no kernel is dropped.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from gemm_lessons.commands import (
    COUNTED,
    BenchRequest,
    Group,
    Line,
    Note,
    Point,
    Profiled,
    ProfilePlan,
    Result,
    TellSteps,
    is_square,
    label,
)
from gemm_lessons.course import shown
from gemm_lessons.engine.records import dataclass
from gemm_lessons.gemm import Shape
from gemm_lessons.report.console import headed_table
from gemm_lessons.report.table import kernel_name, scattered, tera
from gemm_lessons.running import GPU, STORED_CUBLAS, load_measured

GAP = 2  # spaces between columns
FEW = 2  # notes that are printed in full
FEW_MINUTES = 0.6  # a search that takes longer says so beforehand
NAMED = 6  # kernels that a line names

Cell = Callable[[Point], str]


@contextmanager
def progress_bar(console: Console, at_once: int = 0) -> Iterator[TellSteps]:
    """Show progress on a terminal, and remove it at the end. ``at_once``: steps are alike and so many are done
    together, so the first one tells how long all take."""
    bar = Progress(
        TextColumn("{task.description:20}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        console=console, transient=True, disable=not console.is_terminal,
    )  # fmt: skip
    task = bar.add_task("", total=None)
    began = time.monotonic()

    def tell(done: int, total: int, what: str) -> None:
        minutes = (time.monotonic() - began) * math.ceil(total / at_once) / 60 if at_once and done == 1 else 0
        if minutes > FEW_MINUTES:
            console.print(f"{total} candidates; by the first one, about {minutes:.0f} min", style="quiet")
        bar.update(task, completed=done, total=total, description=what)

    with bar:
        yield tell


def show_bench(console: Console, request: BenchRequest, result: Result, verbose: bool = False) -> None:
    """Print speed by kernel and size, then the fraction of cuBLAS, then notes: summed up, or all with ``verbose``."""
    points = result.points
    if points:
        measured = points[0].kind == "measured"
        what = "measured: medians, L2 cold" if measured else "ESTIMATES: nothing was timed, L2 warm"
        square = all(is_square(shape) for shape in request.shapes)
        sizes = "M = N = K" if square else "M x N x K"
        _print(console, f"TFLOP/s on {points[0].gpu}, {sizes}; {what}", "bold")
        shapes = list(dict.fromkeys(request.shapes))
        named = label if square else str
        _print_table(console, _rows(result.groups, shapes, _speed), list(map(named, shapes)))
        if measured:
            console.print()
            _print(console, "Share of cuBLAS, same number type, same run", "bold")
            kernels = [Group(it.types, tuple(line for line in it.lines if not line.is_cublas)) for it in result.groups]
            _print_table(console, _rows([it for it in kernels if it.lines], shapes, share), list(map(named, shapes)))
            if GPU not in points[0].gpu and (rows := _on_course_gpu(kernels, shapes)):
                console.print()
                _print(console, f"Share of cuBLAS on the {GPU} of the course, its solutions", "bold")
                _print_table(console, rows, list(map(named, shapes)))
        console.print()
    for line in [it.text for it in result.remarks] if verbose or not points else summed_up(result):
        console.print(Text(line, style="doubt"))
    if request.csv is not None:
        again = f"; {result.reused} of them were there already" if result.reused else ""
        console.print(Text(f"{len(points)} points in {shown(request.csv)}{again}.", style="quiet"))


def _speed(point: Point) -> str:
    return tera(point.gflops) + scattered(point.scatter)


def share(point: Point) -> str:
    """Return the fraction of cuBLAS's speed as ``98.1%``, ``102%`` or a dash."""
    return "-" if point.of_cublas is None else _percent(point.of_cublas)


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.1f}%" if fraction < 0.9995 else f"{100 * fraction:.0f}%"


def summed_up(result: Result) -> list[str]:
    """Return the notes in at most two lines: what has no number, and what to doubt. A few are returned in full."""
    if len(result.remarks) <= FEW:
        return list(result.notes)
    missing = [note for note in result.remarks if not note.is_doubt]
    doubts = [note for note in result.remarks if note.is_doubt]
    lines = []
    if missing:
        kernels = list(dict.fromkeys(note.series for note in missing))
        names = ", ".join(name[:2] for name in kernels) if len(kernels) <= NAMED else f"{len(kernels)} kernels"
        lines.append(f"Numbers are missing for {names}: {_counted(missing)}.")
    if doubts:
        sizes = {note.size for note in doubts}
        at = "1 size" if len(sizes) == 1 else f"{len(sizes)} sizes"
        lines.append(f"Doubtful times at {at}: {_counted(doubts)}.")
    lines[-1] += " --verbose lists all."
    return lines


def _counted(notes: Sequence[Note]) -> str:
    """Return ``shape refused (5), scatter (2)``, the most frequent kind first."""
    return ", ".join(f"{kind} ({count})" for kind, count in Counter(note.kind for note in notes).most_common())


@dataclass(frozen=True)
class _Row:
    """A kernel with its cells, or the heading of a group: no cells."""

    name: str
    cells: tuple[str, ...] = ()
    style: str = ""


def _rows(groups: Sequence[Group], shapes: Sequence[Shape], cell: Cell) -> list[_Row]:
    rows = []
    for group in groups:
        whole = all(of.startswith("int") for of in group.types)
        rows.append(_Row(f"{group.title}, TOP/s" if whole and cell is not share else group.title, style="bold"))
        for line in group.lines:
            cells = (cell(line.points[it]) if it in line.points else "-" for it in shapes)
            rows.append(_Row(kernel_name(line.name), tuple(cells), "good" if line.is_cublas else ""))
        library = next((line for line in group.lines if line.is_cublas), None)
        if cell is _speed and library:
            rows += _conditions(library, shapes)
    return rows


def _conditions(library: Line, shapes: Sequence[Shape]) -> list[_Row]:
    """Return the clock and the power while a group was timed: they decide its speed."""
    points = [library.points.get(it) for it in shapes]
    clocks = ["-" if it is None or it.clock_mhz is None else str(it.clock_mhz) for it in points]
    watts = ["-" if it is None or it.watts is None else f"{it.watts:.0f}" for it in points]
    rows = [_Row("  lowest clock, MHz", tuple(clocks), "quiet"), _Row("  power, W", tuple(watts), "quiet")]
    return [row for row in rows if set(row.cells) != {"-"}]


def _on_course_gpu(groups: Sequence[Group], shapes: Sequence[Shape]) -> list[_Row]:
    """Return rows of the measurements that the course's texts quote, for the kernels and squares of a table."""
    stored = load_measured()

    def cell(name: str, shape: Shape) -> str:
        found, library = stored.of(name, shape.m), stored.of(STORED_CUBLAS, shape.m)
        return _percent(found / library) if is_square(shape) and found and library else "-"

    names = [line.name for group in groups for line in group.lines]
    rows = [_Row(kernel_name(name), tuple(cell(name, it) for it in shapes)) for name in names]
    return [row for row in rows if set(row.cells) != {"-"}]


def _print_table(console: Console, rows: Sequence[_Row], headers: Sequence[str]) -> None:
    """Print the rows in as many blocks of columns as the width of the console needs."""
    name = max(len(row.name) for row in rows)
    widths = [
        max(len(header), *(len(row.cells[i]) for row in rows if row.cells)) + GAP for i, header in enumerate(headers)
    ]
    start = 0
    while start < len(headers):
        end = start + 1
        while end < len(headers) and name + sum(widths[start : end + 1]) <= console.width:
            end += 1
        if start:
            console.print()
        columns = range(start, end)
        _print(console, " " * name + "".join(headers[i].rjust(widths[i]) for i in columns), "quiet")
        for row in rows:
            cells = "".join(row.cells[i].rjust(widths[i]) for i in columns) if row.cells else ""
            _print(console, row.name.ljust(name) + cells if cells else row.name, row.style)
        start = end


def _print(console: Console, line: str, style: str) -> None:
    """Print a line as it is: neither wrapped nor cut."""
    console.print(Text(line, style=style), soft_wrap=True)


def show_profile(console: Console, plan: ProfilePlan, profiled: Profiled) -> None:
    """Print one line per counter: name, simulator's value, GPU's value; then the counters that only a GPU has."""
    console.print(Text(f"{profiled.kernel} at {plan.shape}, one launch; the run's verdict: {profiled.verdict}"))
    table = headed_table()
    table.add_column("counter", overflow="fold")
    for name in ("simulator", "GPU"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    names = [name for name in COUNTED if name in profiled.hardware]
    names += [name for name in profiled.hardware if name not in COUNTED]
    for name in names:
        simulated, hardware = profiled.simulated.get(name), profiled.hardware[name]
        unit = profiled.units.get(name, "")
        table.add_row(
            name, "-" if simulated is None else f"{simulated:,}", _number(hardware), _mark(simulated, hardware, unit)
        )
    console.print(table)
    missing = [name for name in COUNTED if name not in profiled.hardware]
    if missing:
        console.print(Text(f"This GPU or this ncu does not know: {', '.join(missing)}", style="quiet"))
    if not plan.counting:
        console.print(
            Text("The simulator counts the lesson's own shape only: leave --shape out to compare.", style="quiet")
        )
    show_report_file(console, plan)


def show_report_file(console: Console, plan: ProfilePlan) -> None:
    """Print the path of the report and the program that opens it."""
    viewer = "ncu-ui" if plan.tool == "ncu" else "nsys-ui"
    console.print(Text(f"The whole report: {viewer} {shown(plan.report)}", style="quiet"))


def show_plan(console: Console, plan: ProfilePlan) -> None:
    """Print only the command, on one line, to copy."""
    console.file.write(plan.text + "\n")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"


def _mark(simulated: int | None, hardware: float, unit: str) -> Text:
    if simulated is None:
        return Text(unit, style="quiet")
    if simulated == hardware:
        return Text("equal", style="good")
    return Text(f"{simulated / hardware - 1:+.1%}" if hardware else "differs", style="doubt")
