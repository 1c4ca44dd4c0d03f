"""Consoles: colours only on a terminal that supports them, a pager for long output, notes and progress on
stderr."""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.text import Text
from rich.theme import Theme

if TYPE_CHECKING:
    from rich.progress import Progress

READING_WIDTH = 100  # columns; longer lines of prose are hard to read
COMMAND = ": gemm-lessons "  # the remedy at the end of an error
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


def show_error(console: Console, message: str, prefix: str = "error") -> None:
    """Print one message on stderr, on one line for scripts. On a terminal it wraps between words, and before a command
    at its end, so that the command can be copied."""
    command = ""
    if console.is_terminal and len(prefix) + 2 + len(message) > console.width and COMMAND in message:
        message, _, command = message.rpartition(COMMAND)
        message += ":"
    console.print(Text.assemble((f"{prefix}: ", "bad"), message), soft_wrap=not console.is_terminal)
    if command:
        console.print(Text(f"  gemm-lessons {command}", style="command"), soft_wrap=True)


def show_note(console: Console, message: str) -> None:
    """Print one dimmed line on stderr."""
    console.print(Text(f"note: {message}", style="quiet"), soft_wrap=True)
