"""Markdown for the terminal, with tables that wrap words too long for their column and never cut them."""

from __future__ import annotations

from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown, MarkdownElement, TableElement
from rich.table import Table


class WrappedTable(TableElement):
    """A table in which a long name continues on the next line."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield rich's table with wrapping columns."""
        for made in super().__rich_console__(console, options):
            if isinstance(made, Table):
                for column in made.columns:
                    column.overflow = "fold"
            yield made


class Page(Markdown):
    """A lesson's text or a page of the reference."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "table_open": WrappedTable}
