"""The terminal during a session: single keys without Enter, and signals. Its settings are restored at the end.

Signals arrive through a pipe, so that one ``select`` waits for signals, keys and changed files.
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

ESCAPE = "\x1b"  # first byte of arrow and function keys
END_OF_INPUT = "\x04"  # Ctrl-D; a closed terminal reads the same
RESIZED, WENT_ON = signal.SIGWINCH, signal.SIGCONT
ENDING = (signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Heard:
    """The reason for the end of a wait: a key (else empty), a redraw of the terminal, or the other file."""

    key: str = ""
    redraw: bool = False
    other: bool = False


class Terminal:
    """Reads keys from standard input, as a context manager; without ``has_keys`` or a terminal, only signals."""

    def __init__(self, has_keys: bool = True) -> None:
        self.has_keys = has_keys and sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
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
        """Wait at most ``seconds`` for a key, a signal, or data in the file ``other``."""
        ready, _, _ = select.select([self._wakes, other, *[self._keys] * self.has_keys], [], [], seconds)
        arrived: set[int] = set()
        with contextlib.suppress(BlockingIOError):
            arrived = set(os.read(self._wakes, 4096))
        if WENT_ON in arrived:
            self._single_keys()
        return Heard(self._typed() if self._keys in ready else "", bool({RESIZED, WENT_ON} & arrived), other in ready)

    def _typed(self) -> str:
        """Return the first key typed; empty for arrow and function keys."""
        try:
            typed = os.read(self._keys, 4096).decode(errors="replace")
        except OSError:  # the terminal is gone
            typed = ""
        return typed.partition(ESCAPE)[0][:1].lower() if typed else END_OF_INPUT

    def drop_input(self) -> None:
        """Discard the keys typed so far."""
        if self.has_keys:
            termios.tcflush(self._keys, termios.TCIFLUSH)

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """Restore the usual settings for a pager or another program."""
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
