"""Where the time of a timeline goes: how busy each unit is, and what the warps do at each source line."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from gemm_lessons.engine.pictures import Timeline
from gemm_lessons.report.console import numbers, plain_table, words
from gemm_lessons.running import Row

MOST = 8  # source lines in the terminal
LEAST = 1.0  # percent of all warps' time
SPENT = {  # the columns of the table of stalls
    "issue": "issues",
    "fixed": "arithmetic before",
    "turn": "others' turn",
    "math": "arithmetic unit busy",
    "queue": "load-store queue",
    "global": "global memory",
    "shared": "shared memory",
    "product": "products",
    "result": "slow instruction",
    "barrier": "barrier",
}
BUSY = {
    "issue": "issue slots",
    "fp32": "fp32 units",
    "tensor": "tensor cores",
    "fp64": "fp64 units",
    "shared": "shared memory",
    "l1": "requests to global memory",
    "l2": "the path to L2",
    "dram": "DRAM",
}


def show_stalls(console: Console, timeline: Timeline, row: Row) -> None:
    """Print the busiest units, and the source lines at which warps spend most of their time."""
    busy = ", ".join(f"{BUSY[unit]} {share:.0%}" for unit, share in timeline.busy.items() if 100 * share >= LEAST)
    if busy:
        console.print(Text(f"\nBusy: {busy}", style="quiet"))
    clocks = {it.line: sum(it.clocks.values()) for it in timeline.stalls}
    total = sum(clocks.values())
    worst = sorted(timeline.stalls, key=lambda it: -clocks[it.line])[:MOST]
    table = plain_table(numbers("line"), numbers("time"), words("of which"), "source")
    for it in worst:
        if 100 * clocks[it.line] < LEAST * total:
            continue
        states = sorted(it.clocks.items(), key=lambda part: -part[1])[:2]
        parts = [f"{SPENT[state]} {spent / total:.0%}" for state, spent in states if 200 * spent >= total]
        source = Text(row.source_line(it.line), no_wrap=True, overflow="ellipsis") if it.line else "other files"
        table.add_row(str(it.line or "-"), f"{clocks[it.line] / total:.0%}", ", ".join(parts), source)
    console.print(Text("\nWhere the warps' time goes, by line", style="bold"))
    console.print(table)
