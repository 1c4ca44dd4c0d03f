"""Consoles: colours only on a terminal that supports them, a pager for long output, notes and progress on
stderr; and a console that renders reports as HTML.

In HTML, tables become HTML tables, texts become lines, and colours are kept. Only the theme's colours are set; plain
text has the colour of the page, light or dark.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Column, Table
from rich.terminal_theme import TerminalTheme
from rich.text import Text
from rich.theme import Theme

if TYPE_CHECKING:
    from rich.progress import Progress

READING_WIDTH = 100  # columns; longer lines of prose are hard to read
COMMAND = ": gemm-lessons "  # the remedy at the end of an error
PATIENCE = 1.0  # seconds after which a run reports its stage
UNBOUNDED = 1000  # columns: wider than any table

THEME = Theme(
    {
        "good": "green",
        "bad": "bold red",
        "doubt": "yellow",
        "quiet": "dim",
        "lesson": "bold cyan",
        "command": "bold",
        "markdown.code": "cyan",
        "markdown.h1": "bold cyan",
        "markdown.h2": "bold cyan",
        "markdown.h3": "bold",
    }
)

WIDE = 200  # columns: tables have full headers, and the page wraps lines
# The terminal colours of the theme, in shades readable on white and on black.
MIDDLE = (127, 127, 127)
ANSI = [MIDDLE, (214, 51, 57), (35, 134, 54), (176, 124, 0), MIDDLE, MIDDLE, (14, 130, 150), MIDDLE]
COLOURS = TerminalTheme((255, 255, 255), (0, 0, 0), ANSI)
LINE = "white-space: pre-wrap; overflow-wrap: anywhere"
CELL = "border: none; vertical-align: top"


def make_console(stderr: bool = False) -> Console:
    """Make a console on stdout or stderr. ``NO_COLOR``, ``TERM=dumb`` and pipes give plain text."""
    if not os.environ.get("COLUMNS", "").strip("0"):  # 0 means unknown; rich would print nothing
        os.environ.pop("COLUMNS", None)
    return Console(stderr=stderr, theme=THEME, highlight=False, markup=False, emoji=False)


def page(console: Console, content: RenderableType) -> None:
    """Print, through a pager if stdout is a terminal and the content is longer than it."""
    import pydoc
    import shutil

    width = min(console.width, READING_WIDTH)
    if not console.is_terminal:
        console.print(content, width=width)
        return
    with console.capture() as capture:
        console.print(content, width=width)
    text = capture.get()
    pager = os.environ.get("PAGER") or ("less" if shutil.which("less") else "")
    if text.count("\n") < console.height or not pager:
        console.file.write(text)
        return
    if "less" in pager:
        os.environ.setdefault("LESS", "-R")  # makes less pass colours
    elif not console.no_color:  # other pagers may show control codes literally
        plain = Console(
            theme=THEME, highlight=False, no_color=True, color_system=None, force_terminal=False, width=width
        )
        with plain.capture() as capture:
            plain.print(content)
        text = capture.get()
    pydoc.pager(text)


def show_parts(console: Console, parts: Sequence[RenderableType]) -> None:
    """Print parts one below the other: on a terminal through the pager if they are long, else texts as one line."""
    if console.is_terminal:
        page(console, Group(*parts))
        return
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, Text))


def plain_table(*columns: Column | str, gap: int = 2) -> Table:
    """Return a table without lines, ``gap`` blanks between its columns. It shows headers if a column has one."""
    headed = any(it if isinstance(it, str) else it.header for it in columns)
    return Table(*columns, box=None, show_header=headed, pad_edge=False, padding=(0, gap, 0, 0), header_style="quiet")


def headed_table(gap: int = 1) -> Table:
    """Return an empty table with a line below its headers, ``gap`` blanks between its columns."""
    return Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, gap, 0, 0))


def fits(console: Console, table: Table) -> bool:
    """Tell whether the console has room for a table without shrinking a column."""
    unbounded = console.options.update(max_width=UNBOUNDED)
    return Measurement.get(console, unbounded, table).maximum <= console.width


def words(header: str = "", min_width: int | None = None) -> Column:
    """Return a column whose cells are not wrapped."""
    return Column(header, no_wrap=True, min_width=min_width)


def numbers(header: str = "", min_width: int | None = None) -> Column:
    """Return a column of numbers."""
    return Column(header, justify="right", no_wrap=True, min_width=min_width)


def indented(content: RenderableType, by: int = 2) -> Padding:
    """Return the content, indented and no wider than it needs to be."""
    return Padding(content, (0, 0, 0, by), expand=False)


class Working:
    """Show the current stage on stderr after ``PATIENCE`` seconds, only on a terminal; removed at the end.

    Use as a context manager; call it with the name of each stage.
    """

    def __init__(self, console: Console, what: str) -> None:
        self._console, self._stage = console, what
        self._progress: Progress | None = None
        self._lock = threading.Lock()
        self._timer = threading.Timer(PATIENCE, self._show)
        self._timer.daemon = True
        self._wanted = console.is_terminal

    def _show(self) -> None:
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # slow to import

        with self._lock:
            self._progress = Progress(
                SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=self._console,
                transient=True,
            )  # fmt: skip
            self._progress.add_task(self._stage)
            self._progress.start()

    def __call__(self, stage: str) -> None:
        """Set the current stage."""
        with self._lock:
            self._stage = stage
            if self._progress is not None:
                self._progress.update(self._progress.task_ids[0], description=stage)

    def __enter__(self) -> Working:
        if self._wanted:
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._wanted:
            self._timer.cancel()
            self._timer.join()  # the timer may be starting the display at this moment
            if self._progress is not None:
                self._progress.stop()


def show_error(console: Console, message: str) -> None:
    """Print one message on stderr, on one line for scripts. On a terminal it wraps between words, and before a command
    at its end, so that the command can be copied."""
    command = ""
    if console.is_terminal and len("error: ") + len(message) > console.width and COMMAND in message:
        message, _, command = message.rpartition(COMMAND)
        message += ":"
    console.print(Text.assemble(("error: ", "bad"), message), soft_wrap=not console.is_terminal)
    if command:
        console.print(Text(f"  gemm-lessons {command}", style="command"), soft_wrap=True)


def show_note(console: Console, message: str) -> None:
    """Print one dimmed line on stderr."""
    console.print(Text(f"note: {message}", style="quiet"), soft_wrap=True)


class HtmlConsole(Console):
    """A console that records reports; ``html`` returns them."""

    def __init__(self) -> None:
        super().__init__(
            file=StringIO(), width=WIDE, theme=THEME, highlight=False, markup=False, emoji=False, no_color=False,
            color_system="standard", force_terminal=True, force_jupyter=False,
        )  # fmt: skip
        self._parts: list[str] = []

    def print(self, *objects: Any, **_: Any) -> None:
        """Record each object as a block; without objects, an empty line."""
        self._parts += [self._block(it) for it in objects] or ["<div>&nbsp;</div>"]

    @property
    def html(self) -> str:
        """Return everything printed so far, in one element."""
        body = "\n".join(self._parts)
        style = "font-family: var(--jp-code-font-family, monospace); font-size: 13px; line-height: 1.4"
        return f'<div class="gemm-lessons" style="{style}">\n{body}\n</div>'

    def _block(self, it: RenderableType) -> str:
        match it:
            case Padding():
                margin = f"margin: {it.top}em 0 {it.bottom}em {it.left}ch"
                return f'<div style="{margin}">{self._block(it.renderable)}</div>'
            case Panel():
                title = f"<b>{self._inline(it.title or '')}</b>"
                frame = "border: 1px solid; border-radius: 4px; padding: 0.3em 1ch; max-width: 100ch"
                return f'<div style="{frame}">{title}{self._block(it.renderable)}</div>'
            case Table():
                return self._table(it)
            case _:
                return f'<div style="{LINE}">{self._inline(it)}</div>'

    def _table(self, table: Table) -> str:
        head, gap = "", max(table.padding[1], int(table.show_header))
        if table.show_header:
            cells = (self._cell("th", it.header, it.justify, gap) for it in table.columns)
            head = f"<thead><tr>{''.join(cells)}</tr></thead>"
        columns = [[self._cell("td", cell, it.justify, gap) for cell in it.cells] for it in table.columns]
        rows = "".join(f"<tr>{''.join(cells)}</tr>" for cells in zip(*columns, strict=True))
        return f'<table style="margin: 0; border: none">{head}<tbody>{rows}</tbody></table>'

    def _cell(self, tag: str, content: RenderableType, justify: str, gap: int) -> str:
        side = justify if justify in ("right", "center") else "left"
        inside = self._inline(content) if isinstance(content, str | Text) else self._block(content)
        return f'<{tag} style="padding: 0 {gap}ch 0 0; {CELL}; {LINE}; text-align: {side}">{inside}</{tag}>'

    def _inline(self, it: RenderableType) -> str:
        """Return a text with its colours; any other object as the terminal shows it."""
        if isinstance(it, str):
            return escape(it)
        if not isinstance(it, Text):
            return escape("\n".join("".join(s.text for s in line).rstrip() for line in self.render_lines(it)))
        made, whole = [], self.get_style(it.style)
        for segment in it.render(self):
            style = (segment.style or whole).get_html_style(COLOURS)
            made.append(f'<span style="{style}">{escape(segment.text)}</span>' if style else escape(segment.text))
        return "".join(made)
