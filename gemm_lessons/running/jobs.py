"""The work of a run as jobs, each done once: early by a second worker, or here when its result is first needed.

    main process    build kernel -> its own checks -> counted shape -> receive the rest -> judge, estimate, advise
    second worker   the other checks, the rows beside the kernel

The second worker is a forked process where there is another core (``Jobs.shared``). Without one, the compiler, which
releases the interpreter lock, runs early in a thread (``start``). The results of a run are the same either way.
"""

from __future__ import annotations

import contextlib
import gc
import pickle
from collections.abc import Callable, Collection, Hashable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from gemm_lessons.engine import KitError, UnsupportedKernel
from gemm_lessons.engine.process import bounds, resources
from gemm_lessons.engine.process.bounds import Bounds
from gemm_lessons.engine.process.child import ChildDied, ChildHung, Forked, Parent
from gemm_lessons.engine.records.frozen import dataclass

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")
Kept = dict[Hashable, tuple[object, Any]]  # key -> facts, result: what earlier runs have kept for the next run
Keep = Callable[["Deferred[Any]", Any], object]


@dataclass(frozen=True)
class Deferred(Generic[T]):
    """A job: ``make`` computes the result of ``key``. ``facts`` are everything that the result depends on: it is kept
    between runs while they are unchanged; with None it is kept for no other run. ``portable`` drops what other
    processes do not need."""

    key: Hashable
    make: Callable[[], T]
    facts: object = None
    portable: Callable[[T], T] = lambda made: made


class Jobs:
    """Results by key. Use it as a context manager: the second process ends with it."""

    def __init__(
        self,
        kept: Kept | None = None,
        child: Forked | None = None,
        theirs: Collection[Hashable] = (),
        wait_s: float = 0,
        keep: Keep = lambda job, made: None,
    ) -> None:
        self._kept: Kept = {} if kept is None else kept
        self._keep = keep
        self._child, self._theirs, self._wait_s = child, frozenset(theirs), wait_s
        self._received: dict[Hashable, Any] = {}
        self._threads: dict[Hashable, Future[Any]] = {}

    @classmethod
    def shared(
        cls,
        jobs: Sequence[Deferred[Any]],
        limits: Bounds,
        kept: Kept | None = None,
        keep: Keep = lambda job, made: None,
    ) -> Jobs:
        """Fork a process that does these jobs, in this order, within its own bounds. Call it before this process has
        threads. Without a second core, all jobs run here. ``kept`` has results from earlier runs; ``keep`` stores new
        ones that have facts."""
        if not jobs or resources.cores() < 2:
            return cls(kept, keep=keep)
        gc.freeze()  # else the collector would copy shared pages in both processes
        try:
            child = Forked(lambda parent: _do(jobs, limits, parent))
        except KitError:
            return cls(kept, keep=keep)
        theirs, wait_s = [job.key for job in jobs], limits.seconds + limits.grace
        return cls(kept, child, theirs, wait_s, keep)

    def elsewhere(self, key: Hashable) -> bool:
        """Tell whether the second process does this job."""
        return key in self._theirs

    def start(self, job: Deferred[Any]) -> None:
        """Start a job in a thread."""
        from concurrent.futures import ThreadPoolExecutor  # slow to import, and lesson 01 is compared with nothing

        if job.key not in self._threads:
            pool = ThreadPoolExecutor(1)
            self._threads[job.key] = pool.submit(job.make)
            pool.shutdown(wait=False)

    def knows(self, job: Deferred[Any]) -> bool:
        """Tell whether an earlier run kept the result."""
        return job.facts is not None and job.key in self._kept and self._kept[job.key][0] == job.facts

    def result(self, job: Deferred[T]) -> T:
        """Return the result of a job: kept, received, or computed now."""
        if self.knows(job):
            kept: T = self._kept[job.key][1]
            return kept
        made = self._made(job)
        if job.facts is not None:
            self._kept[job.key] = job.facts, made
            self._keep(job, made)
        return made

    def _made(self, job: Deferred[T]) -> T:
        if self.elsewhere(job.key) and self._receive(job.key):
            received: T = self._received[job.key]
            return received
        started = self._threads.pop(job.key, None)
        return started.result() if started is not None else job.make()

    def _receive(self, key: Hashable) -> bool:
        """Wait for a result of the second process; return False when it ended without one."""
        while key not in self._received and self._child is not None:
            try:
                _, blobs = self._child.receive(self._wait_s, working=True)
            except (ChildDied, ChildHung):
                self._child = None
            else:
                name, made = pickle.loads(blobs[0])  # from this process's own fork: nothing else has this pipe
                self._received[name] = made
        return key in self._received

    def __enter__(self) -> Jobs:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._child is not None:
            self._child.close()


def _do(jobs: Sequence[Deferred[Any]], limits: Bounds, parent: Parent) -> None:
    """Run the second process. It leaves a failed job to the first process, which then fails in the same way."""
    with contextlib.suppress(OSError), bounds.within(limits):  # OSError: the first process no longer listens
        for job in jobs:
            with contextlib.suppress(UnsupportedKernel):
                parent.send({}, [pickle.dumps((job.key, job.portable(job.make())))])
