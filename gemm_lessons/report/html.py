"""Render the terminal's reports as HTML, through a console that records what is printed to it.

Tables become HTML tables, texts become lines, and colours are kept. Only the theme's colours are set; plain text has
the colour of the page, light or dark.
"""

from __future__ import annotations

from html import escape
from io import StringIO
from typing import Any

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from gemm_lessons.report.console import THEME

WIDE = 200  # columns: tables have full headers, and the page wraps lines
# The terminal colours of the theme, in shades readable on white and on black.
MIDDLE = (127, 127, 127)
ANSI = [MIDDLE, (214, 51, 57), (35, 134, 54), (176, 124, 0), MIDDLE, MIDDLE, (14, 130, 150), MIDDLE]
COLOURS = TerminalTheme((255, 255, 255), (0, 0, 0), ANSI)
LINE = "white-space: pre-wrap; overflow-wrap: anywhere"
CELL = "border: none; vertical-align: top"


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
        """Everything printed so far, in one element."""
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
