"""Show a benchmark: a progress bar, then two tables with one line per shape and one column per lesson."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from gemm_lessons.commands.bench import CUBLAS, BenchRequest, Point, Result, is_square, label
from gemm_lessons.course.folder import shown
from gemm_lessons.report.table import tera


class Bar:
    """A progress bar on stderr, only on a terminal, and removed at the end. Call it as ``bench.Progress``."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description:20}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            console=console, transient=True, disable=not console.is_terminal,
        )  # fmt: skip
        self._task = self._progress.add_task("", total=None)

    def __call__(self, done: int, total: int, what: str) -> None:
        """Show that ``done`` of ``total`` steps are done and ``what`` is next."""
        self._progress.update(self._task, completed=done, total=total, description=what)

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()


def show_bench(console: Console, request: BenchRequest, result: Result) -> None:
    """Print speed by size and lesson, then the fraction of cuBLAS, then notes."""
    points = result.points
    if points:
        measured = points[0].kind == "measured"
        what = "measured: medians, L2 cold" if measured else "ESTIMATES: nothing was timed, L2 warm"
        lessons = sorted({point.series for point in points} - {CUBLAS})
        console.print(Text(", ".join(name.replace("_", " ") for name in lessons), style="quiet"))
        console.print()
        sizes = "M = N = K" if all(is_square(point.shape) for point in points) else "M x N x K"
        console.print(Text(f"TFLOP/s (10^12 per second) on {points[0].gpu}, {sizes}; {what}", style="bold"))
        console.print(_table(points, lambda point: tera(point.gflops)))
        if measured:
            console.print()
            console.print(Text("Share of cuBLAS, same precision, same run", style="bold"))
            shares = [point for point in points if point.series != CUBLAS]
            console.print(_table(shares, lambda point: "-" if point.of_cublas is None else f"{point.of_cublas:.1%}"))
    for note in result.notes:
        console.print(Text(note, style="doubt"))
    if request.csv is not None:
        again = f"; {result.reused} of them were there already" if result.reused else ""
        console.print(Text(f"{len(points)} points in {shown(request.csv)}{again}.", style="quiet"))


def _table(points: Sequence[Point], cell: Callable[[Point], str]) -> Table:
    series = sorted({point.series for point in points}, key=lambda name: (name == CUBLAS, name))
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("size", justify="right")
    for name in series:
        table.add_column(name if name == CUBLAS else name[:2], justify="right", min_width=5)
    named = label if all(is_square(point.shape) for point in points) else str
    for shape in dict.fromkeys(point.shape for point in points):
        cells = {point.series: cell(point) for point in points if point.shape == shape}
        table.add_row(named(shape), *(cells.get(name, "-") for name in series))
    return table
