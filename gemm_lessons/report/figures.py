"""Build the table of a run's screen: a column for each kernel, a line for each number that tells the lesson's story."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gemm_lessons.gemm import Shape, astuple
from gemm_lessons.judging import figures_of, time_lost, value_of, waits_longer
from gemm_lessons.report.console import fits
from gemm_lessons.report.run import ways
from gemm_lessons.report.table import bandwidth, conflict_cell, duration, measured_time, occupancy_cell, short_label
from gemm_lessons.running import Row, RunOutcome

THIS_LESSON = "<- this lesson"
# What holds a kernel up, as the screen names it. The glossary explains each.
BOTTLENECKS = {
    "issue": "instruction issue",
    "fp32": "multiply-adds",
    "tensor": "tensor cores",
    "fp64": "fp64 units",
    "shared": "shared memory",
    "l1": "L1 cache",
    "l2": "L2 cache",
    "dram": "DRAM",
    "latency": "latency",
    "launch": "launch overhead",
}


def figures_table(console: Console, outcome: RunOutcome) -> Table:
    """Return a column for each kernel, a line for each number: the same at every width that has room for them."""
    table = _figures_table(outcome, 2, THIS_LESSON)
    return table if fits(console, table) else _figures_table(outcome, 1, "<-")


def _figures_table(outcome: RunOutcome, gap: int, mark: str) -> Table:
    rows = sorted(outcome.rows, key=lambda row: ("previous", "kernel", "reference").index(row.role))
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="quiet", show_header=True)
    table.add_column("", no_wrap=True)
    for row in rows:
        name = "you" if row.label == "your kernel" else short_label(row)
        table.add_column(Text(name, "bold" if row.role == "kernel" else ""), justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, style="lesson")
    for label, cell in _times(outcome):
        table.add_row(label, *map(cell, rows), "")
    own = bool(outcome.lesson.figures)
    for number, figure in enumerate(figures_of(outcome.lesson, [row.checked for row in rows])):
        values = [
            value_of(figure, row.built, row.checked, outcome.lesson.names(outcome.count_shape))
            if row.built and row.built.lesson.shapes.refusal(outcome.count_shape) is None
            else None
            for row in rows
        ]
        cells = ["-" if value is None else f"{number_in_words(value)}{figure.unit}" for value in values]
        table.add_row(figure.label, *cells, mark if own and not number else "")
    table.add_row("bank conflicts", *map(_conflict_cell, rows), "")
    table.add_row("occupancy", *map(occupancy_cell, rows), "")
    return table


def _conflict_cell(row: Row) -> str | Text:
    """Return what conflicts cost; a kernel without shared memory has none."""
    counted = row.checked.counters is not None and row.checked.counters.get("shared_wavefronts") == 0
    return "none" if counted else conflict_cell(row)


def _times(outcome: RunOutcome) -> list[tuple[str, Callable[[Row], str]]]:
    """Return label and cell of each line about time. Nothing simulated is shown as measured."""
    size = _size(outcome.estimate_shape)
    unit = "GFLOPS" if outcome.lesson.data.accumulate.is_float else "GOPS"
    if not outcome.lesson.data.multiplies:
        return [
            (
                f"estimated time at {size}",
                lambda row: duration(row.speed.estimate.time_us if row.speed.estimate else None),
            ),
            ("estimated GB/s", lambda row: bandwidth(outcome, row)),
        ]
    if outcome.device_kind == "gpu":
        return [
            (f"time at {size}", lambda row: measured_time(row.speed.measured)),
            (unit, lambda row: _giga(row.speed.measured.gflops if row.speed.measured else None)),
            ("of cuBLAS", lambda row: percent(row.speed.fraction_of_cublas)),
        ]
    return [
        (f"estimated time at {size}", lambda row: duration(row.speed.estimate.time_us if row.speed.estimate else None)),
        (f"estimated {unit}", lambda row: _giga(row.speed.estimate.gflops if row.speed.estimate else None)),
    ]


def _size(shape: Shape) -> str:
    """Return a square's size as one number."""
    return (
        str(shape)
        if len(set(astuple(shape))) > 1
        else str(shape).replace(f"{shape.m}x{shape.n}x{shape.k}", f"{shape.m}")
    )


def _giga(gflops: float | None) -> str:
    return "-" if gflops is None else f"{float(f'{gflops:.3g}'):,.0f}" if gflops >= 99.5 else f"{gflops:.3g}"


def percent(fraction: float | None) -> str:
    """Format a fraction: ``0.98%``, ``19%``, ``102%``."""
    return "-" if fraction is None else f"{100 * fraction:.2g}%" if fraction < 0.995 else f"{100 * fraction:.0f}%"


def number_in_words(value: float) -> str:
    """Format a counter: ``16,384``, ``3.09``, ``0.203``."""
    if abs(value - round(value)) < 1e-9 or abs(value) >= 999.5:
        return f"{round(value):,}"
    return f"{value:.2f}" if 0.995 <= abs(value) < 99.95 else f"{value:.3g}"


def conflicts(row: Row) -> Iterator[Text]:
    """Yield a sentence about the line with the worst bank conflicts, if there are any."""
    counters = row.checked.counters
    total = counters.get("shared_wavefronts") if counters else None
    if counters is None or not counters.conflicts or not total:
        return
    worst = max(counters.conflicts, key=lambda conflict: conflict.excess_wavefronts)
    access = f"{ways(worst)} {'store' if worst.store else 'load'}"
    cost = f"{worst.excess_wavefronts / total:.0%} of the shared wavefronts"
    others = len(counters.conflicts) - 1
    more = f" (and {others} more line{'s' if others > 1 else ''})" if others else ""
    yield Text.assemble("Bank conflicts: line ", str(worst.line), f" ({access}) costs {cost}{more}")


def bottleneck(outcome: RunOutcome) -> Iterator[Text]:
    """Yield a sentence about what limits the kernel, and the lesson that attacks it."""
    estimate = outcome.kernel.speed.estimate
    if estimate is not None:
        name = BOTTLENECKS.get(estimate.limiter, estimate.limiter)
        by = " (estimated)" if outcome.device_kind == "gpu" else ""
        attacks = f" Lesson {outcome.attacker[:2]} attacks it." if outcome.attacker else ""
        yield Text.assemble("Bottleneck now: ", (name, "bold"), f"{by}.{attacks}")
        reference = next((row for row in outcome.rows if row.role == "reference"), None)
        if reference is None:
            return
        waited = waits_longer(outcome.kernel.checked.counters, reference.checked.counters)
        if lost := time_lost(outcome.kernel.speed, reference.speed, waited):
            yield Text(lost)
    elif outcome.kernel.speed.measured is None:
        refused = outcome.kernel.speed.refused
        yield Text("No estimate" + (f": {refused}." if refused else " for this kernel."), "quiet")
