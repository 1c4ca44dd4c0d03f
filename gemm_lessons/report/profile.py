"""Show hardware counters beside the simulator's."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gemm_lessons.commands.profiling import COUNTED, Profiled, ProfilePlan
from gemm_lessons.course.folder import shown


def show_profile(console: Console, plan: ProfilePlan, profiled: Profiled) -> None:
    """Print one line per counter: name, simulator's value, GPU's value; then the counters that only a GPU has."""
    console.print(Text(f"{profiled.kernel} at {plan.shape}, one launch; the run's verdict: {profiled.verdict}"))
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
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
