"""Two kernel files, line by line: what is only in the one, what is only in the other."""

from __future__ import annotations

import difflib

from rich.console import Console, Group
from rich.text import Text

from gemm_lessons.report.console import page

Side = tuple[str, str]  # what it is called, and its text
STYLE = {"-": "bad", "+": "good", "@": "lesson"}


def show_diff(console: Console, mine: Side, other: Side) -> None:
    """All of it, through the pager where it is long."""
    lines = diff_lines(mine, other)
    if console.is_terminal:
        page(console, Group(*lines))
    else:
        for line in lines:
            console.print(line, soft_wrap=True)


def diff_lines(mine: Side, other: Side) -> list[Text]:
    """A unified difference; blanks at the ends of lines do not count."""
    before, after = ([line.rstrip() for line in text.splitlines()] for _, text in (mine, other))
    found = list(difflib.unified_diff(before, after, lineterm=""))[2:]  # without its two headings
    heading = [Text(f"- {mine[0]}", style="bad"), Text(f"+ {other[0]}", style="good"), Text("")]
    if not found:
        return [*heading, Text("They are the same, line by line.", style="quiet")]
    return [*heading, *(Text(line, style=STYLE.get(line[:1], "")) for line in found)]
