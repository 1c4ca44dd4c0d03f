"""The screens of ``gemm-lessons watch``: status lines and notices below the report of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from gemm_lessons.course import Lesson, shown
from gemm_lessons.engine.records import dataclass
from gemm_lessons.report.console import make_console
from gemm_lessons.report.run import LINES, style_of, title_of
from gemm_lessons.running import Row

Key = tuple[str, str]  # key and description
Part = Callable[[Console], None]
STATUS_LINES = 4


@dataclass(frozen=True)
class Status:
    """The last lines of the screen. ``row`` is the kernel of the last run, None before the first; ``after`` tells how
    long it took; ``keys`` are the active keys."""

    lesson: Lesson
    row: Row | None
    after: str
    polling: Literal["", "asked", "no events"]
    keys: Sequence[Key]


class Screen:
    """Show content on an empty screen, and redraw it when the terminal is resized."""

    def __init__(self) -> None:
        self.console = make_console()
        self._parts: tuple[Part, ...] = ()

    def show(self, *parts: Part) -> None:
        """Show these parts one below the other. Earlier output remains in the terminal's scrollback, if it has one."""
        self._parts = parts
        self.again()

    def once(self, part: Part) -> None:
        """Show a part once, without redrawing; it may take over the terminal, as a pager does."""
        self._clear()
        part(self.console)

    def below(self, part: Part) -> None:
        """Add a part below the current content."""
        part(self.console)

    def again(self) -> None:
        """Redraw the content at the terminal's current width."""
        self._clear()
        for part in self._parts:
            part(self.console)

    def _clear(self) -> None:
        if self.console.is_terminal:
            self.console.clear()


def lines_above(console: Console) -> int:
    """Return how many lines a run may have so that the status stays on the same screen."""
    return min(LINES, max(LINES + 1, console.height) - STATUS_LINES - 1)


def show_status(console: Console, status: Status) -> None:
    """Repeat the verdict, since the report may be longer than the terminal, then list the keys."""
    console.print(Rule(style="quiet"))
    line = Text.assemble((status.lesson.name, "lesson"), "  ")
    if status.row is None:
        line.append("not run yet" if not status.after else status.after)
    else:
        line.append(title_of(status.row), style=style_of(status.row))
        line.append(f"  {status.after}", style="quiet")
    console.print(line)
    how = "Polling" if status.polling else "Waiting"
    why = " (no file events arrive here)" if status.polling == "no events" else ""
    console.print(Text(f"{how} for a save of {shown(status.lesson.kernel_path)}{why}", style="quiet"), soft_wrap=True)
    if status.keys:
        keys = Text()
        for key, does in status.keys:
            keys.append(key, style="command").append(f" {does}  ")
        keys.rstrip()
        console.print(keys)


def show_notice(console: Console, text: str) -> None:
    """Print one notice."""
    console.print(Text(text, style="doubt"))
