"""Run a command that executes a kernel in a child process, so that there is an answer even if the child crashes.

    return guarded(work, lost, bounds)    work() in the child; lost("timeout", words) here, if the child gave no answer

The child is forked before heavy modules are loaded, so this costs milliseconds. The child enforces its own limits
(``bounds``); as a fallback, the parent kills a child that is far too late and reports a crash. The parent forwards
signals that end a command, so that the child leaves files complete, and exits with the child's exit code.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType

from gemm_lessons import cli
from gemm_lessons.course.folder import CommandError
from gemm_lessons.engine.process.bounds import GIB, SLOW, Bounds, affordable
from gemm_lessons.engine.process.child import end_with, signal_name
from gemm_lessons.engine.process.orphans import adopt_orphans, end_orphans
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.running.contract import EXIT_NOT_PASSED

TOLD = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
TICK_S = 0.5
PATIENCE_S = 2.0  # seconds for a child that was asked to end
SPARE_S = 30.0  # seconds beyond the child's own bounds, to load, compile and print
BYTES_PER_ELEMENT = 64  # bytes per element of A, B and C, for all copies that a run holds
MULTIPLY_ADDS_PER_S = 4e6  # throughput of a slow kernel on a slow machine
ENVIRONMENT = ("GEMM_LESSONS_TIME_LIMIT", "GEMM_LESSONS_MEMORY_LIMIT")


def bounds_for(seconds: float | None, gibibytes: float | None, shape: Shape | None = None) -> Bounds:
    """Return the limits of ``--time-limit`` and ``--memory-limit``, else of the environment, else defaults that grow
    with ``shape``. Raises ``CommandError``."""
    seconds = _number("--time-limit", seconds, ENVIRONMENT[0])
    gibibytes = _number("--memory-limit", gibibytes, ENVIRONMENT[1])
    usual, work, bytes_ = Bounds(), 0.0, 0
    if shape is not None:
        work = shape.m * shape.n * shape.k / MULTIPLY_ADDS_PER_S
        bytes_ = BYTES_PER_ELEMENT * (shape.m * shape.k + shape.k * shape.n + shape.m * shape.n)
    return Bounds(
        seconds or usual.seconds + work,
        int(gibibytes * GIB) if gibibytes else affordable(usual.memory_bytes + bytes_),
        "; --time-limit SECONDS and --memory-limit GIB allow more",
    )


def _number(option: str, given: float | None, variable: str) -> float | None:
    if given is None and (text := os.environ.get(variable, "").strip()):
        option = variable
        try:
            given = float(text)
        except ValueError:
            raise CommandError(f'{variable}="{text}" is not a number') from None
    if given is not None and not (math.isfinite(given) and given > 0):
        raise CommandError(f"{option}: {given:g} is not a limit; give a number above 0")
    return given


def guarded(work: Callable[[Callable[[int], None]], int], lost: Callable[[str, str], int], bounds: Bounds) -> int:
    """Run ``work`` in a child, or ``lost`` if the child gives no answer. ``work`` reports its exit code through its
    argument as soon as the code is known, before it prints."""
    if not cli.forking:  # a Python caller of ``app`` stays in one process
        return work(lambda code: None)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
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
            return _work(work, ours, told, [*before])
        os.close(told)
        adopt_orphans()
        return _watch(pid, theirs, ended, lost, bounds)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def in_child(work: Callable[[], int], bounds: Bounds | None = None) -> int:
    """``guarded`` for a command without a verdict: a lost child is reported as an error."""

    def lost(kind: str, message: str) -> int:
        from gemm_lessons.report.console import make_console
        from gemm_lessons.report.course import show_error

        show_error(make_console(stderr=True), message)
        return EXIT_NOT_PASSED

    return guarded(lambda tell: work(), lost, bounds or bounds_for(None, None))


def _work(work: Callable[[Callable[[int], None]], int], parent: int, told: int, signals: list[signal.Signals]) -> int:
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


def _watch(pid: int, theirs: int, ended: list[int], lost: Callable[[str, str], int], bounds: Bounds) -> int:
    most = SLOW * (bounds.seconds + bounds.grace) + SPARE_S
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
    if late:
        return lost("timeout", f"{bounds.too_long}{bounds.advice}")
    if code >= 0:
        return code
    if known is not None:
        return known
    why = ": most likely the machine has no memory left" if -code == signal.SIGKILL else ""
    return lost("crash", f"the run was ended by {signal_name(-code)}{why}")


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
