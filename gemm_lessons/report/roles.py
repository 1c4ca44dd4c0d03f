"""Show the timeline in the terminal: a row for each role and unit, and the hand-overs between them; a row for each warp
of a kernel without mbarriers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from rich.console import Console
from rich.text import Text

from gemm_lessons.engine.estimate import Recording
from gemm_lessons.engine.pictures import ANOTHER, RoleHandOver, Roles, Shown, Strip, Timeline, UnitRow, role_strips

PHASES = 4  # phases that a role waits for, in the part that is shown
MOST = 24  # hand-overs
MOST_WARPS = 8
WIDEST = 160  # columns
HEADINGS = ("clock", "barrier", "phase completed by", "   waited for by")
MARKS: Mapping[Shown, tuple[str, str]] = {
    "run": ("#", "good"),
    "queue": ("q", "doubt"),
    "global": ("g", "bad"),
    "shared": ("s", "doubt"),
    "product": ("p", "doubt"),
    "result": ("r", "doubt"),
    "barrier": (".", "quiet"),
}
KEY = (
    "#: runs, or its unit is busy, .: waits at a barrier, p: for products, g: for global memory, s: for shared memory,"
    " r: for a slow instruction, q: load-store queue is full"
)


def show_roles(console: Console, roles: Roles, recording: Recording, path: str, title: str) -> None:
    """Print block 0's rows for a part of the main loop, as wide as the terminal, and the hand-overs in that part."""
    passed = [it for it in roles.passed if it.block == 0]
    numbered = [f"{i} {role.name}" for i, role in enumerate(roles.roles)]
    gutter = max(map(len, [*numbered, *(row.name for row in roles.units)])) + 2
    begin, end = _window(passed, recording.clocks)
    columns = max(20, min(console.width, WIDEST) - gutter - 1)
    tick = max(1, -(-int(end - begin) // columns))
    first = int(begin) // tick
    columns = min(columns, -(-int(recording.clocks) // tick) - first)

    _head(console, title, gutter, first, columns, tick)
    for row in roles.units:
        _print_row(console, f"{row.name:<{gutter}}", _working(row, first, columns, tick))
    strips = role_strips(recording, path, [role.first for role in roles.roles], tick)
    for label, strip in zip(numbered, strips, strict=True):
        _print_row(console, f"{label:<{gutter}}", _marks(strip)[first : first + columns])
    console.print(Text(f"{KEY}, =: a copy is in flight, 0 1 ...: multiplies for that role", style="quiet"))
    console.print()
    inside = sorted((it for it in passed if first <= it.over // tick < first + columns), key=lambda it: it.over)
    table = [HEADINGS, *(_cells(roles, it) for it in inside[:MOST])]
    widths = [max(len(cells[i]) for cells in table) for i in range(3)]
    for clock, barrier, by, waiter in table:
        text = f"{clock:>{widths[0]}}  {barrier:<{widths[1]}}  {by:<{widths[2]}}  {waiter}"
        console.print(Text(text, style="quiet" if clock == HEADINGS[0] else ""), soft_wrap=True)
    if len(inside) > MOST:
        console.print(Text(f"{len(inside) - MOST} more", style="quiet"))


def show_warps(console: Console, timeline: Timeline, recording: Recording, path: str, title: str) -> None:
    """Print the used issue slots and block 0's warps, as wide as the terminal."""
    shown = range(min(timeline.warps_per_block, MOST_WARPS))
    gutter = len("issue slots") + 2
    columns = max(20, min(console.width, WIDEST) - gutter - 1)
    clocks = max(span.end for span in recording.spans if span.warp < timeline.warps_per_block)
    tick = max(1, math.ceil(clocks / columns))
    columns = math.ceil(clocks / tick)
    _head(console, title, gutter, 0, columns, tick)
    at = (np.arange(columns) + 0.5) * tick / timeline.clocks * len(timeline.issued)
    tenths = (min(9, timeline.issued[min(int(it), len(timeline.issued) - 1)] // 10) for it in at)
    _print_row(console, f"{'issue slots':<{gutter}}", [(str(it), "good") for it in tenths])
    for warp, strip in zip(shown, role_strips(recording, path, shown, tick), strict=True):
        _print_row(console, f"{f'warp {warp}':<{gutter}}", _marks(strip)[:columns])
    if rest := timeline.warps_per_block - len(shown):
        console.print(Text(f"{rest} more warps, {timeline.blocks} such blocks on a multiprocessor", style="quiet"))
    console.print(Text(f"{KEY}; issue slots: tenths used by all warps of the multiprocessor", style="quiet"))


def _head(console: Console, title: str, gutter: int, first: int, columns: int, tick: int) -> None:
    console.print(Text(title, style="bold"))
    console.print(Text(f"clocks {first * tick:,} to {(first + columns) * tick:,}, {tick} a column", style="quiet"))
    console.print(Text(" " * gutter + _axis(first, columns, tick), style="quiet"))


def _marks(strip: Sequence[Strip]) -> list[tuple[str, str]]:
    return [MARKS[part.state] for part in strip for _ in range(part.ticks)]


def _working(row: UnitRow, first: int, columns: int, tick: int) -> Sequence[tuple[str, str]]:
    """Return the marks of a unit in block 0; none if it is idle all the time."""
    marks = [(" ", "")] * columns
    for span in row.spans:
        if span.block == 0:
            mark = (str(span.role), "good") if row.unit == "tensor" else ("=", "")
            for at in range(max(0, int(span.start) // tick - first), min(columns, -(-int(span.end) // tick) - first)):
                marks[at] = mark
    return marks if any(mark != " " for mark, _ in marks) else ()


def _window(passed: Sequence[RoleHandOver], clocks: float) -> tuple[float, float]:
    """Return the clocks between some phases in the middle of the loop of the role that waits for most phases."""
    takers = [it.taker for it in passed]
    if not takers:
        return 0.0, clocks
    busiest = max(set(takers), key=takers.count)
    ends = [it.passed for it in passed if it.taker == busiest]
    start = max(0, len(ends) // 2 - PHASES // 2 - 1)
    return ends[start] if start else 0.0, ends[min(start + PHASES, len(ends) - 1)] + 1


def _axis(first: int, columns: int, tick: int) -> str:
    marks = ""
    for column in range(0, columns, 16):
        mark = f"|{(first + column) * tick:,}"
        if column + len(mark) <= columns:
            marks = marks.ljust(column) + mark
    return marks


def _print_row(console: Console, label: str, marks: Sequence[tuple[str, str]]) -> None:
    """Print a row, unless it is empty in this part of the loop."""
    if not marks:
        return
    line = Text(label, style="quiet")
    for mark in marks:
        line.append(*mark)
    console.print(line, soft_wrap=True)


def completed_by(roles: Roles, it: RoleHandOver) -> str:
    """Return what completed a phase: ``copy of producer, line 76``."""
    line = f", line {it.given}" if it.given else ""
    giver = "another block" if it.giver == ANOTHER else roles.roles[it.giver].name
    return f"copy of {giver}{line}" if it.copy else f"{giver}{line}"


def _cells(roles: Roles, it: RoleHandOver) -> tuple[str, str, str, str]:
    waited = f"{it.waited:,.0f} clocks" if it.waited >= 1 else "no wait"
    where = f", line {it.line}" if it.line else ""
    return f"{it.over:,.0f}", it.barrier, completed_by(roles, it), f"-> {roles.roles[it.taker].name}{where}: {waited}"
