"""The screens of ``gemm-lessons watch`` beside those of a run: what stands below each, and what there is to say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from gemm_lessons.course.folder import shown
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.judging.verdict import Kind
from gemm_lessons.report.console import make_console
from gemm_lessons.report.table import STYLE

Key = tuple[str, str]  # the key, and what it does
Part = Callable[[Console], None]


@dataclass(frozen=True)
class Status:
    """The last lines of the screen. ``verdict`` is of the last run, None before there was one; ``after`` says how long
    it took; ``keys`` work now."""

    lesson: Lesson
    verdict: Kind | None
    after: str
    polling: Literal["", "asked", "no events"]
    keys: Sequence[Key]


class Screen:
    """Shows one thing at a time on an empty screen, and again when the terminal changes its size."""

    def __init__(self) -> None:
        self.console = make_console()
        self._parts: tuple[Part, ...] = ()

    def show(self, *parts: Part) -> None:
        """These, one below the other. What was there stays in the terminal's history, where it has one."""
        self._parts = parts
        self.again()

    def once(self, part: Part) -> None:
        """This, as long as nothing else is drawn: it may have the terminal for itself, as a pager has."""
        self._clear()
        part(self.console)

    def below(self, part: Part) -> None:
        """One more thing, below what is there now."""
        part(self.console)

    def again(self) -> None:
        """What was shown last, in the width that the terminal has now."""
        self._clear()
        for part in self._parts:
            part(self.console)

    def _clear(self) -> None:
        if self.console.is_terminal:
            self.console.clear()


def show_status(console: Console, status: Status) -> None:
    """The verdict once more, since the report may be longer than the terminal; then the keys."""
    console.print(Rule(style="quiet"))
    line = Text.assemble((status.lesson.name, "lesson"), "  ")
    if status.verdict is None:
        line.append("not run yet" if not status.after else status.after)
    else:
        line.append(status.verdict.replace("_", " ").upper(), style=STYLE[status.verdict])
        line.append(f"  {status.after}", style="quiet")
    console.print(line)
    how = "Looking again and again" if status.polling else "Waiting"
    why = " (no events of files come here)" if status.polling == "no events" else ""
    console.print(Text(f"{how} for a save of {shown(status.lesson.kernel_path)}{why}", style="quiet"), soft_wrap=True)
    if status.keys:
        keys = Text()
        for key, does in status.keys:
            keys.append(key, style="command").append(f" {does}  ")
        keys.rstrip()
        console.print(keys)


def show_notice(console: Console, text: str) -> None:
    """One thing to say."""
    console.print(Text(text, style="doubt"))
