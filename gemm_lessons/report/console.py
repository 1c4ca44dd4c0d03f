"""Consoles: colours only on a terminal that supports them, a pager for long output, progress on stderr."""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.theme import Theme

if TYPE_CHECKING:
    from rich.progress import Progress

READING_WIDTH = 100  # columns; longer lines of prose are hard to read
PATIENCE = 1.0  # seconds after which a run reports its stage

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


class Working:
    """Show the current stage on stderr after ``PATIENCE`` seconds, only on a terminal; removed at the end.

    Use as a context manager; call it with the name of each stage.
    """

    def __init__(self, console: Console, what: str) -> None:
        self._console, self._stage = console, what
        self._progress: Progress | None = None
        self._turn = threading.Lock()
        self._timer = threading.Timer(PATIENCE, self._show)
        self._timer.daemon = True
        self._wanted = console.is_terminal

    def _show(self) -> None:
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # slow to import

        with self._turn:
            self._progress = Progress(
                SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=self._console,
                transient=True,
            )  # fmt: skip
            self._progress.add_task(self._stage)
            self._progress.start()

    def __call__(self, stage: str) -> None:
        """Set the current stage."""
        with self._turn:
            self._stage = stage
            if self._progress is not None:
                self._progress.update(self._progress.task_ids[0], description=stage)

    def __enter__(self) -> Working:
        if self._wanted:
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._wanted:
            self._timer.cancel()
            self._timer.join()  # the timer may be starting the display at this moment
            if self._progress is not None:
                self._progress.stop()
