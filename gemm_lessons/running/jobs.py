"""The work of a run as jobs, each done once: early by a second worker, or here when its result is first needed.

    main process      build kernel -> counted shape -> checks, ... -> receive the rest -> judge, advise
    second process    checks, the rows beside the kernel, the estimate, the kernel as written

The second process is forked where there is another core (``Jobs.shared``). Each process does the next job that the
other one has not begun, so both end at about the same time. Without a second core, the compiler, which releases the
interpreter lock, runs early in a thread (``start``). The results of a run are the same either way.
"""

from __future__ import annotations

import contextlib
import gc
import pickle
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from gemm_lessons.engine import KitError, UnsupportedKernel
from gemm_lessons.engine.compiler import derived
from gemm_lessons.engine.process import Bounds, ChildDied, ChildHung, Claims, Forked, Parent, bounds, resources
from gemm_lessons.engine.records import dataclass

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")
Kept = dict[Hashable, tuple[object, Any]]  # key -> facts, result: what earlier runs have kept for the next run
STORING_S = 2.0  # seconds, at most, to store what the second process derived
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

    def __init__(self, kept: Kept | None = None, keep: Keep = lambda job, made: None) -> None:
        self._kept: Kept = {} if kept is None else kept
        self._keep = keep
        self._second: _SecondProcess | None = None
        self._threads: dict[Hashable, Future[Any]] = {}

    @classmethod
    def shared(
        cls,
        jobs: Sequence[Deferred[Any]],
        limits: Bounds,
        kept: Kept | None = None,
        keep: Keep = lambda job, made: None,
    ) -> Jobs:
        """Fork a process that does these jobs, in this order, within its own bounds, except those that this process
        begins first. Call it before this process has threads. Without a second core, all jobs run here. ``kept`` has
        results from earlier runs; ``keep`` stores new ones that have facts."""
        shared = cls(kept, keep)
        if jobs and resources.cores() >= 2:
            gc.freeze()  # else the collector would copy shared pages in both processes
            with contextlib.suppress(KitError):
                shared._second = _SecondProcess(jobs, limits)
        return shared

    def is_shared(self, key: Hashable) -> bool:
        """Tell whether the second process may do this job."""
        return self._second is not None and key in self._second.numbers

    def claim(self, key: Hashable) -> bool:
        """Tell whether this process does the job: the second process has not begun it, and will not."""
        return self._second is None or self._second.leaves(key)

    def start(self, job: Deferred[Any]) -> None:
        """Start a job in a thread."""
        if job.key not in self._threads:
            self._threads[job.key] = in_thread(job.make)

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
        if self._second is not None and not self._second.leaves(job.key):
            received: T
            for received in self._second.receive(job.key):
                return received
        started = self._threads.pop(job.key, None)
        return started.result() if started is not None else job.make()

    def __enter__(self) -> Jobs:
        return self

    def __exit__(self, *_: object) -> None:
        if self._second is not None:
            self._second.close()


def in_thread(work: Callable[..., T], *arguments: object) -> Future[T]:
    """Start work in a thread."""
    from concurrent.futures import ThreadPoolExecutor  # slow to import, and lesson 01 is compared with nothing

    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(work, *arguments)
    finally:
        pool.shutdown(wait=False)


class _SecondProcess:
    """A forked process that does the jobs that this process does not claim first."""

    def __init__(self, jobs: Sequence[Deferred[Any]], limits: Bounds) -> None:
        """Fork. Raise ``KitError`` if that is impossible."""
        self.numbers = {job.key: number for number, job in enumerate(jobs)}
        self._claims = Claims()
        self._wait_s = limits.seconds + limits.grace
        self._received: dict[Hashable, Sequence[Any]] = {}
        try:
            self._child: Forked | None = Forked(
                lambda parent: _do(jobs, self._claims, limits, parent), [self._claims.fd]
            )
        except KitError:
            self._claims.close()
            raise

    def leaves(self, key: Hashable) -> bool:
        """Tell whether this job is left to the first process, which then has the claim."""
        return key not in self.numbers or (key not in self._received and self._claims.take(self.numbers[key]))

    def receive(self, key: Hashable) -> Sequence[Any]:
        """Wait for a result. Return it as the only element, or no element if the process failed to make it."""
        while key not in self._received and self._child is not None:
            try:
                _, blobs = self._child.receive(self._wait_s, working=True)
            except (ChildDied, ChildHung):
                self._child = None
            else:
                name, made = pickle.loads(blobs[0])  # from this process's own fork: nothing else has this pipe
                self._received[name] = made
        return self._received.get(key, ())

    def close(self) -> None:
        """End the process and give up all claims. If it has done all jobs, let it store what it derived."""
        if self._child is not None:
            works = any(key not in self._received and not self.leaves(key) for key in self.numbers)
            self._child.close(0.0 if works else STORING_S)
        self._claims.close()


def _do(jobs: Sequence[Deferred[Any]], claims: Claims, limits: Bounds, parent: Parent) -> None:
    """Run the second process. It leaves a failed job to the first process, which then fails in the same way."""
    with contextlib.suppress(OSError):  # the first process no longer listens
        with bounds.within(limits):
            for number, job in enumerate(jobs):
                if claims.take(number):
                    made: tuple[Any, ...] = ()
                    with contextlib.suppress(UnsupportedKernel):
                        made = (job.portable(job.make()),)
                    parent.send({}, [pickle.dumps((job.key, made))])
        derived.store_noted()
        parent.receive()  # claims end with this process, and the results must be received before
