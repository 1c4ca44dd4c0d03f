"""The terminal while it is watched: single keys without Enter, and what the system tells of it. Restored at the end,
however that comes.

Signals come through a pipe, so that one ``select`` waits for them, for keys and for changed files.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from types import FrameType

from gemm_lessons.engine.records.frozen import dataclass

ESCAPE = "\x1b"  # begins what arrows and function keys send
END_OF_INPUT = "\x04"  # Ctrl-D, and what a closed terminal comes to
RESIZED, WENT_ON = signal.SIGWINCH, signal.SIGCONT
ENDING = (signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Heard:
    """What ended a wait: a key (else empty), a terminal to be drawn anew, the other file."""

    key: str = ""
    redraw: bool = False
    other: bool = False


class Terminal:
    """Standard input as keys, as a context manager. Where it is no terminal there are no keys, only signals."""

    def __init__(self) -> None:
        self.has_keys = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
        self._keys = sys.stdin.fileno() if self.has_keys else -1
        self._usual: list[object] = []
        self._wakes, self._wake = os.pipe()
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Terminal:
        if self.has_keys:
            self._usual = termios.tcgetattr(self._keys)
        os.set_blocking(self._wake, False)
        os.set_blocking(self._wakes, False)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        for number in (RESIZED, WENT_ON):
            self._before[number] = signal.signal(number, lambda number, frame: None)
        for number in ENDING:
            self._before[number] = signal.signal(number, _end)
        self._single_keys()
        return self

    def __exit__(self, *_: object) -> None:
        self._as_usual()
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        os.close(self._wakes)
        os.close(self._wake)

    def wait(self, other: int, seconds: float) -> Heard:
        """Until a key, a signal, something to read in the file ``other``, or no longer than ``seconds``."""
        ready, _, _ = select.select([self._wakes, other, *[self._keys] * self.has_keys], [], [], seconds)
        told: set[int] = set()
        with contextlib.suppress(BlockingIOError):
            told = set(os.read(self._wakes, 4096))
        if WENT_ON in told:
            self._single_keys()
        return Heard(self._typed() if self._keys in ready else "", bool({RESIZED, WENT_ON} & told), other in ready)

    def _typed(self) -> str:
        """The first key of those that were typed at once. What arrows and the like send is none."""
        try:
            typed = os.read(self._keys, 4096).decode(errors="replace")
        except OSError:  # the terminal is gone
            typed = ""
        return typed.partition(ESCAPE)[0][:1].lower() if typed else END_OF_INPUT

    def drop_input(self) -> None:
        """Forget what was typed so far."""
        if self.has_keys:
            termios.tcflush(self._keys, termios.TCIFLUSH)

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """As usual, for a pager or another program."""
        self._as_usual()
        try:
            yield
        finally:
            self._single_keys()

    def _single_keys(self) -> None:
        if self.has_keys:
            tty.setcbreak(self._keys)  # Ctrl-C and Ctrl-Z keep their meaning

    def _as_usual(self) -> None:
        if self.has_keys:
            with contextlib.suppress(termios.error):  # the terminal may be gone
                termios.tcsetattr(self._keys, termios.TCSAFLUSH, self._usual)  # type: ignore[arg-type]


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
