"""Markdown for the terminal, with tables that wrap words too long for their column and never cut them."""

from __future__ import annotations

from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown, MarkdownElement, TableElement
from rich.measure import Measurement, measure_renderables
from rich.table import Table


class WrappedTable(TableElement):
    """A table whose columns are as wide as their longest word. If that does not fit, long names are wrapped.
    A table without headers starts with its first row."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield rich's table with wrapping columns."""
        for made in super().__rich_console__(console, options):
            if isinstance(made, Table):
                made.show_header = any(str(it.header) for it in made.columns)
                for column in made.columns:
                    column.overflow = "fold"
                _keep_words(made, console, options)
            yield made


class Page(Markdown):
    """A lesson's text or a page of the reference."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "table_open": WrappedTable}


def _keep_words(table: Table, console: Console, options: ConsoleOptions) -> None:
    """Set the columns' widths, if rich would make the table too wide and all of its longest words fit.

    Rich shrinks the widest columns first, also below their longest word.
    """
    unbounded = options.update(width=10_000)
    sizes = [measure_renderables(console, unbounded, [it.header, *it.cells]) for it in table.columns]
    borders = Measurement.get(console, unbounded, table).maximum - sum(it.maximum for it in sizes)
    widths = [max(1, it.minimum) for it in sizes]
    room = options.max_width - borders
    if sum(it.maximum for it in sizes) <= room or sum(widths) > room:
        return
    for _ in range(room - sum(widths)):
        fullest = max(range(len(widths)), key=lambda i: sizes[i].maximum / widths[i])
        widths[fullest] += 1
    for column, width in zip(table.columns, widths, strict=True):
        column.width = width
