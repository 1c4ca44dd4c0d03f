"""Limit the processor time and the memory of a run, whatever its kernel does.

    with within(Bounds(seconds=60, memory_bytes=4 * GIB)):      raises OutOfTime, or Python's own MemoryError

Both are raised in the middle of the work, so the simulator, which catches them, can name the line that was running.
Time while the process is stopped (Ctrl-Z, a laptop that sleeps) does not count; NumPy on many cores counts as one
core. ``OutOfTime`` is not an ``Exception``, because it may be raised anywhere. It is raised again ``grace`` seconds
later if the code continues.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

from gemm_lessons.engine.process import resources
from gemm_lessons.engine.records.frozen import dataclass

GIB = 1 << 30
TICK_S = 0.25  # between two checks of the time used
SLOW = 4  # processes that share a core may take this many times their processor time
SHARE = 0.8  # of the available memory


class OutOfTime(BaseException):
    """The run has used up its time. ``starved``: a busy machine gave it less processor time than its limit allows."""

    def __init__(self, seconds: float, starved: Starved | None = None) -> None:
        super().__init__(Bounds(seconds).too_long if starved is None else starved.text)
        self.seconds, self.starved = seconds, starved

    @property
    def case(self) -> str:
        """The case of the finding about it."""
        return "starved" if self.starved else "bounds"


@dataclass(frozen=True)
class Starved:
    """How long a run on a busy machine took, and how much of that it had the processor, in seconds."""

    passed: float
    had: float

    @property
    def text(self) -> str:
        """Message for a run that was stopped although it did not use its processor time."""
        return (
            f"the run was stopped after {_rounded(self.passed)} s: the machine is busy, and gave it"
            f" {_rounded(self.had)} s of processor time"
        )


def _rounded(seconds: float) -> str:
    return f"{seconds:.1f}" if seconds < 9.95 else f"{seconds:.0f}"


@dataclass(frozen=True)
class Bounds:
    """Limits: seconds of processor time, and bytes of memory on top of the process's present size."""

    seconds: float = 60.0
    memory_bytes: int = 4 * GIB
    advice: str = ""  # how to raise the limit

    @property
    def grace(self) -> float:
        """Seconds for cleaning up after the time limit, before ``OutOfTime`` is raised again."""
        return max(1.0, self.seconds / 10)

    @property
    def too_long(self) -> str:
        """Message for a run that needed more time."""
        return f"the run took longer than {self.seconds:g} s and was stopped"

    @property
    def too_much(self) -> str:
        """Message for a run that needed more memory."""
        return f"the run needed more than {self.memory_bytes / GIB:.2g} GiB of memory and was stopped"


_current = Bounds()
_active = False


def current() -> Bounds:
    """Return the limits in force: those of the outermost ``within``."""
    return _current


def affordable(bytes_: int = Bounds.memory_bytes) -> int:
    """Return ``bytes_``, or ``SHARE`` of the machine's or container's memory if less, so that a run does not swap."""
    return min(bytes_, int(SHARE * resources.memory_bytes()))


@contextlib.contextmanager
def within(bounds: Bounds) -> Iterator[None]:
    """Apply limits to the body of the ``with`` statement. Inside another ``within``, the outer limits stay in force."""
    global _current, _active
    if _active:
        yield
        return
    _current, _active = bounds, True
    try:
        with _memory(bounds.memory_bytes), _time(bounds):
            yield
    finally:
        _current, _active = Bounds(), False


def used() -> tuple[int, int]:
    """Return the bytes of the process's address space (as ``RLIMIT_AS`` counts) and of its writable part (as
    ``RLIMIT_DATA`` does); 0 and 0 without /proc."""
    with contextlib.suppress(OSError), open("/proc/self/statm", encoding="ascii") as file:
        pages = file.read().split()
        size = os.sysconf("SC_PAGE_SIZE")
        return int(pages[0]) * size, int(pages[5]) * size
    return 0, 0


def allowed(what: int, value: int) -> int:
    """Return ``value``, or the hard limit of a resource (``RLIMIT_...``) where that is lower."""
    hard = resource.getrlimit(what)[1]
    return value if hard == resource.RLIM_INFINITY else min(value, hard)


def lower(what: int, value: int) -> None:
    """Set the soft limit of a resource, at most to its hard limit, which is unchanged."""
    resource.setrlimit(what, (allowed(what, value), resource.getrlimit(what)[1]))


def limit_processor(seconds: float) -> None:
    """Let Linux end this process after so many seconds of processor time."""
    lower(resource.RLIMIT_CPU, int(seconds) + 1)


def limit_address_space(more: int) -> None:
    """Limit what this process may map beyond its present size, in bytes."""
    lower(resource.RLIMIT_AS, used()[0] + more)


def lift_memory() -> None:
    """Raise the soft memory limits, which the parent may have lowered, to the hard limits."""
    for what in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
        hard = resource.getrlimit(what)[1]
        resource.setrlimit(what, (hard, hard))


def leave_no_core() -> None:
    """Disable core dumps of this process."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def stop_clock() -> None:
    """Stop the interval timer of ``within`` in a process that forked inside of it."""
    signal.setitimer(signal.ITIMER_REAL, 0)


@contextlib.contextmanager
def _memory(bytes_: int) -> Iterator[None]:
    """Limit writable memory, not the address space: libraries map far more of that than they use."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    lower(resource.RLIMIT_DATA, used()[1] + bytes_)
    try:
        yield
    finally:
        now = resource.getrlimit(resource.RLIMIT_DATA)[1]  # may have been lowered for good
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard) if now == hard else (now, now))


@contextlib.contextmanager
def _time(bounds: Bounds) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield
        return
    clock = _Clock(bounds)
    before = signal.signal(signal.SIGALRM, clock.tick)
    signal.setitimer(signal.ITIMER_REAL, TICK_S, TICK_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class _Clock:
    def __init__(self, bounds: Bounds) -> None:
        self._bounds, self._limit = bounds, bounds.seconds
        self._processor, self._last = time.process_time(), time.monotonic()
        self._used = self._passed = 0.0

    def tick(self, number: int, frame: FrameType | None) -> None:
        now, processor = time.monotonic(), time.process_time()
        self._used += min(processor - self._processor, now - self._last)
        self._passed += min(now - self._last, 2 * TICK_S)
        self._last, self._processor = now, processor
        used = max(self._used, self._passed / SLOW)
        if used > self._limit:
            starved = Starved(self._passed, self._used) if self._used <= self._limit else None
            self._limit = used + self._bounds.grace
            raise OutOfTime(self._bounds.seconds, starved)
