"""Show the difference of two kernel files, line by line."""

from __future__ import annotations

import difflib

from rich.console import Console, Group
from rich.text import Text

from gemm_lessons.report.console import page

Side = tuple[str, str]  # title and text
STYLE = {"-": "bad", "+": "good", "@": "lesson"}


def show_diff(console: Console, mine: Side, other: Side) -> None:
    """Print the difference, through the pager if it is long."""
    lines = diff_lines(mine, other)
    if console.is_terminal:
        page(console, Group(*lines))
    else:
        for line in lines:
            console.print(line, soft_wrap=True)


def diff_lines(mine: Side, other: Side) -> list[Text]:
    """Return a unified diff that ignores trailing blanks."""
    before, after = ([line.rstrip() for line in text.splitlines()] for _, text in (mine, other))
    found = list(difflib.unified_diff(before, after, lineterm=""))[2:]  # without the two header lines
    heading = [Text(f"- {mine[0]}", style="bad"), Text(f"+ {other[0]}", style="good"), Text("")]
    if not found:
        return [*heading, Text("They are the same, line by line.", style="quiet")]
    return [*heading, *(Text(line, style=STYLE.get(line[:1], "")) for line in found)]
