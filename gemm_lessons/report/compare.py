"""Show two kernels side by side: the difference of their sources, then their counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gemm_lessons.commands import Comparison, Cost, Difference, Pair
from gemm_lessons.engine.estimate import Cause
from gemm_lessons.engine.hardware import Occupancy
from gemm_lessons.report.console import headed_table, numbers, plain_table, show_parts
from gemm_lessons.report.course import diff_lines
from gemm_lessons.report.table import VERDICTS, duration, tera
from gemm_lessons.running import Row

CAUSES: Mapping[Cause, str] = {
    "clock": "lower clock",
    "spills": "local memory, spilled registers",
    "dram": "DRAM bandwidth",
    "l2": "L2 bandwidth",
    "waves": "idle multiprocessors (waves)",
    "conflicts": "bank conflicts",
    "waiting": "waiting, latency exposed",
    "requests": "requests to global memory",
    "shared": "shared memory, no conflicts",
    "instructions": "instructions issued",
    "arithmetic": "arithmetic",
    "launch": "launches",
}
EQUAL = 0.005  # of the time: a smaller difference is none


def show_comparison(console: Console, compared: Comparison, sources: bool, why: Difference | str) -> None:
    """Print the sources, then the counters and ``why`` one is slower. ``sources``: the learner may see both files."""
    left, right = compared.rows
    parts: list[RenderableType] = []
    if sources:
        parts += diff_lines((f"{left.label}: {left.path}", left.source), (f"{right.label}: {right.path}", right.source))
        parts.append(Text(""))
    parts += [_table(compared), Text(""), *difference_parts(why), Text(_note(compared), style="quiet")]
    show_parts(console, parts)


def show_difference(console: Console, why: Difference | str) -> None:
    """Print why the second of two kernels is slower."""
    for part in difference_parts(why):
        console.print(part, soft_wrap=isinstance(part, Text))


def difference_parts(why: Difference | str) -> list[RenderableType]:
    """Return a sentence, a table of causes that add up to the difference, and an empty line."""
    if isinstance(why, str):
        return [Text(f"Why one is slower: no estimate. {why}"), Text("")]
    first, second = why.first, why.second
    more = why.time_us
    basis = f", {why.basis}" if why.basis else ""
    if abs(more) < EQUAL * first.time_us:
        return [Text(f"Both take {duration(first.time_us)} (estimated for the {why.gpu}{basis})."), Text("")]
    slower = f"{duration(abs(more))} {'more' if more > 0 else 'less'}"
    head = (
        f"The second takes {duration(second.time_us)}, {slower} than the first with {duration(first.time_us)} "
        f"(estimated for the {why.gpu}{basis}):"
    )
    made = plain_table("", numbers(), numbers(), "")
    large, rest = why.split
    for cost in large:
        made.add_row(f"  {CAUSES[cost.cause]}", _signed(cost.time_us), f"{cost.time_us / more:.0%}", _lines(why, cost))
    if rest:
        made.add_row("  rest", _signed(rest), f"{rest / more:.0%}", "")
    return [Text(head), made, *_occupancy(first.fit, second.fit), Text("")]


def _occupancy(first: Occupancy | None, second: Occupancy | None) -> list[Text]:
    """Return a sentence where the two have different numbers of warps, which changes how much is waited for."""
    if first is None or second is None or first.warps == second.warps:
        return []
    which = ("the first", first), ("the second", second)
    parts = [f"{it.warps} of {name}, limited by {it.limiter}" for name, it in which]
    return [Text(f"Warps that fit on a multiprocessor: {'; '.join(parts)}.")]


def _signed(time_us: float) -> str:
    return f"{'+' if time_us >= 0 else '-'}{duration(abs(time_us))}"


def _lines(why: Difference, cost: Cost) -> str:
    """Return ``second: line 41 (92%), 44 (8%)``."""
    which = "second" if cost.kernel is why.second else "first"
    lines = [
        f"{'' if it.file == cost.kernel.path else it.file.rpartition('/')[2] + ':'}{it.line} ({it.share:.0%})"
        for it in cost.lines
    ]
    return f"{which}: line {', '.join(lines)}" if lines else ""


def _table(compared: Comparison) -> Table:
    left, right = compared.rows
    made = headed_table(gap=2)
    made.add_column("")
    for row in (left, right):
        made.add_column(row.label, justify="right", no_wrap=True)
    made.add_column("", justify="right", no_wrap=True)
    made.add_row("answer", _answer(left), _answer(right), "")
    times = [row.speed.estimate for row in compared.rows]
    made.add_row(f"est. time, {compared.gpu}", *(duration(it.time_us if it else None) for it in times), "")
    speeds = [it.gflops if it else None for it in times]
    made.add_row("est. TFLOP/s", *map(tera, speeds), _ratio(*speeds))
    for name, values in _resources(compared.rows):
        made.add_row(name, *(_number(value) for value in values), _ratio(*values))
    _section(made, "what the gates look at", compared.ideas)
    _section(made, "counters", compared.counters)
    return made


def _section(table: Table, title: str, pairs: Sequence[Pair]) -> None:
    if pairs:
        table.add_row("")
        table.add_row(Text(title, style="bold"))
    for pair in pairs:
        name = pair.name.replace("_", " ")
        table.add_row(
            Padding(name, (0, 0, 0, 2)), _number(pair.left), _number(pair.right), _ratio(pair.left, pair.right)
        )


def _resources(rows: Sequence[Row]) -> list[tuple[str, list[float | None]]]:
    built = [row.built for row in rows]
    return [
        ("registers", [it.resources.registers if it else None for it in built]),
        ("shared bytes", [it.resources.shared_bytes if it else None for it in built]),
        ("occupancy, %", [100 * it.occupancy.fraction if it and it.occupancy else None for it in built]),
    ]


def _answer(row: Row) -> Text:
    right = row.checked.right
    return Text(*("right", "good") if right else VERDICTS[row.verdict.kind])


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value == round(value) else f"{value:,.4g}"


def _ratio(left: float | None, right: float | None) -> str:
    """Return the ratio right / left as ``x0.25``; empty if the two are equal."""
    ratio = f"{float(f'{right / left:.3g}'):,.9g}" if left and right is not None else "1"
    return "" if ratio == "1" else f"x{ratio}"


def _note(compared: Comparison) -> str:
    one, other = compared.shapes
    at = f"M, N, K = {other.m}, {other.n}, {other.k}"
    if one != other:
        at = f"M, N, K = {one.m}, {one.n}, {one.k} and {other.m}, {other.n}, {other.k}: they cannot take the same"
    size = compared.timed
    return (
        f"One launch at {at}, counted on the simulator; x is the right one over the left one. "
        f"est. = an estimate at {size.m}, {size.n}, {size.k}, L2 warm; nothing was timed."
    )
