"""Run a command in a forked process and supervise it: even if it crashes or hangs, the parent learns how it ended.

The process is forked before heavy modules are loaded, so this costs milliseconds. The parent kills a process that
takes too long. It forwards signals that end a command, so that the process leaves files complete.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from types import FrameType

from gemm_lessons.engine.process.child import adopt_orphans, end_orphans, end_with
from gemm_lessons.engine.records.frozen import dataclass

TOLD = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
TICK_S = 0.5
PATIENCE_S = 2.0  # seconds for a child that was asked to end

Tell = Callable[[int], None]


@dataclass(frozen=True)
class HowEnded:
    """How a process ended. ``code``: exit code, negative for a signal; ``known``: the exit code that it reported
    before; ``late``: it was stopped because it took too long."""

    code: int
    known: int | None = None
    late: bool = False

    @property
    def killed(self) -> bool:
        """Tell whether the process was killed, as Linux does when memory runs out."""
        return self.code == -signal.SIGKILL


def watch(work: Callable[[Tell], int], seconds: float) -> HowEnded:
    """Run ``work`` in a forked process, which must report its exit code within ``seconds``. Return in both processes.

    Raise ``KeyboardInterrupt`` or ``SystemExit`` if a signal ends this command.
    """
    ours = os.getpid()
    theirs, told = os.pipe()
    ended: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        ended.append(number)

    before = {number: signal.signal(number, note) for number in TOLD if signal.getsignal(number) != signal.SIG_IGN}
    try:
        pid = os.fork()
        if not pid:
            os.close(theirs)
            return HowEnded(_work(work, ours, told, [*before]))
        os.close(told)
        adopt_orphans()
        return _watch(pid, theirs, ended, seconds)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _work(work: Callable[[Tell], int], parent: int, told: int, signals: Sequence[signal.Signals]) -> int:
    end_with(parent)
    for number in signals:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # from our parent: end, and leave files complete
    try:
        return work(lambda code: _tell(told, code))
    except KeyboardInterrupt:
        os._exit(TOLD[signal.SIGTERM])


def _tell(told: int, code: int) -> None:
    with contextlib.suppress(OSError):
        os.write(told, bytes([code]))


def _watch(pid: int, theirs: int, ended: Sequence[int], most: float) -> HowEnded:
    passed, last, known, late = 0.0, time.monotonic(), None, False
    while not ended and not late:
        if select.select([theirs], [], [], TICK_S)[0]:
            word = os.read(theirs, 1)
            if not word:  # the child has exited
                break
            known, most = word[0], math.inf  # a pager may stay open for hours
        now = time.monotonic()
        passed, last = passed + min(now - last, 2 * TICK_S), now  # suspended time does not count
        late = passed > most
    if ended or late:
        _end(pid)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(theirs)
    if ended or late or code < 0:
        end_orphans()
    if ended:
        raise KeyboardInterrupt if ended[0] == signal.SIGINT else SystemExit(TOLD[signal.Signals(ended[0])])
    return HowEnded(code, known, late)


def _end(pid: int) -> None:
    """Ask a child to end, then kill it."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGCONT)
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                return
            time.sleep(0.01)
        os.kill(pid, signal.SIGKILL)
