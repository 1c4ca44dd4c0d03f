"""What a run may use of this process, whatever its kernel does: processor time and memory.

    with within(Bounds(seconds=60, memory_bytes=4 * GIB)):      OutOfTime is raised, or Python's own MemoryError

Both come up in the middle of the work, so the simulator, which catches them, can say which line was running. Time that
passes while the process is stopped (Ctrl-Z, a laptop that sleeps) counts as none; where NumPy multiplies on many cores
at once, they count as one. ``OutOfTime`` is no ``Exception``, as it may be raised anywhere; it comes again, ``grace``
seconds later, to whoever went on.
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

from gemm_lessons.engine.records.frozen import dataclass

GIB = 1 << 30
TICK_S = 0.25  # between two looks at the clock
SLOW = 4  # processes that share a core may take so much longer than the processor time that they get
SHARE = 0.8  # of the memory that is there
CGROUP = "/sys/fs/cgroup/memory.max"


class OutOfTime(BaseException):
    """The run has used up its time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(Bounds(seconds).too_long)
        self.seconds = seconds


@dataclass(frozen=True)
class Bounds:
    """Seconds of processor time, and bytes of memory on top of what the process has."""

    seconds: float = 60.0
    memory_bytes: int = 4 * GIB
    advice: str = ""  # how to have more

    @property
    def grace(self) -> float:
        """Seconds to tidy up in after time is over, before it is over once more."""
        return max(1.0, self.seconds / 10)

    @property
    def too_long(self) -> str:
        """What to say of a run that needed more time."""
        return f"the run took longer than {self.seconds:g} s and was stopped"

    @property
    def too_much(self) -> str:
        """What to say of a run that needed more memory."""
        return f"the run needed more than {self.memory_bytes / GIB:.2g} GiB of memory and was stopped"


_current = Bounds()
_active = False


def current() -> Bounds:
    """The bounds that hold now: those of the ``within`` that we are in, if we are in one."""
    return _current


def affordable(bytes_: int = Bounds.memory_bytes) -> int:
    """``bytes_``, or less on a machine or in a container that has no more: better a clear end than swapping."""
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError), open(CGROUP, encoding="ascii") as file:
        there = min(there, int(file.read()))
    return min(bytes_, int(SHARE * there))


@contextlib.contextmanager
def within(bounds: Bounds) -> Iterator[None]:
    """Do what follows within ``bounds``; inside of others, within those."""
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
    """Bytes that this process has taken: of its address space, as ``RLIMIT_AS`` counts, and of those what it may write
    to, as ``RLIMIT_DATA`` does. None where there is no /proc to tell."""
    with contextlib.suppress(OSError), open("/proc/self/statm", encoding="ascii") as file:
        pages = file.read().split()
        size = os.sysconf("SC_PAGE_SIZE")
        return int(pages[0]) * size, int(pages[5]) * size
    return 0, 0


def allowed(what: int, value: int) -> int:
    """``value``, or the hard limit of a resource (``RLIMIT_...``) where that is lower."""
    hard = resource.getrlimit(what)[1]
    return value if hard == resource.RLIM_INFINITY else min(value, hard)


def lower(what: int, value: int) -> None:
    """Set the soft limit of a resource, as far as the hard one lets it; that one stays."""
    resource.setrlimit(what, (allowed(what, value), resource.getrlimit(what)[1]))


@contextlib.contextmanager
def _memory(bytes_: int) -> Iterator[None]:
    """Bound what the process may write to. Not its address space: libraries map far more of that than they use."""
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
            self._limit = used + self._bounds.grace
            raise OutOfTime(self._bounds.seconds)
