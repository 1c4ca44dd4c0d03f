"""Run jobs in processes of this machine or on a Ray cluster, and yield each as it finishes.

    with open_executor("local", processes=2) as executor:
        for job, judged in executor.run(jobs): ...

Results do not depend on the order or the machine: a job holds everything that decides its outcome.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

from gemm_lessons.course import CommandError
from gemm_lessons.devices import install_extra
from gemm_lessons.engine import KitError
from gemm_lessons.engine.process import resources
from gemm_lessons.grading.judging import Job, Judged, judge
from gemm_lessons.grading.needs import UNKNOWN_BYTES, resident_bytes

PATIENCE_S = 0.5  # interval between checks for Ctrl-C
EXECUTORS = ("local", "ray")

Done = tuple[Job, Judged]


class Executor(Protocol):
    """Interface of the executors."""

    def run(self, jobs: Iterable[Job]) -> Iterator[Done]:
        """Take jobs, a few in advance, and yield each with its result in the order of completion."""


def open_executor(
    name: str, processes: int | None = None, lessons: Iterable[str] = ()
) -> AbstractContextManager[Executor]:
    """Open ``local`` or ``ray`` for ``lessons``. Raises ``CommandError`` for another name, ``KitError`` without Ray."""
    if name == "local":
        return LocalExecutor(processes or how_many(resident_bytes(lessons)))
    if name == "ray":
        return RayExecutor(processes, resident_bytes(lessons))
    raise CommandError(f"there is no executor {name!r}; there are {', '.join(EXECUTORS)}")


def how_many(each: int) -> int:
    """Return how many processes of ``each`` bytes the available cores and memory allow; at least one."""
    cores, memory = resources.share_of_cores(), resources.memory_bytes()
    return max(1, min(int(cores + 0.5), memory // each))


class LocalExecutor:
    """Threads, each with one judging process at a time, which exits when its parent is gone."""

    def __init__(self, processes: int) -> None:
        self.processes = processes
        self._todo: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Done | BaseException] = queue.SimpleQueue()
        # Daemon threads: Ctrl-C must not wait for running kernels.
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(processes)]

    def _work(self) -> None:
        while (job := self._todo.get()) is not None:
            try:
                self._done.put((job, judge(job)))
            except BaseException as error:  # noqa: BLE001 (a bug of ours: pass it to the waiting thread)
                self._done.put(error)
                return

    def run(self, jobs: Iterable[Job]) -> Iterator[Done]:
        """See ``Executor``."""
        under_way, waiting = 0, iter(jobs)
        ended = False
        while True:
            while not ended and under_way < 2 * self.processes:
                job = next(waiting, None)
                ended = job is None
                if job is not None:
                    self._todo.put(job)
                    under_way += 1
            if not under_way:
                return
            done = self._next()
            under_way -= 1
            if isinstance(done, BaseException):
                raise done
            yield done

    def _next(self) -> Done | BaseException:
        while True:
            with contextlib.suppress(queue.Empty):
                return self._done.get(timeout=PATIENCE_S)

    def __enter__(self) -> LocalExecutor:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        while True:
            try:
                self._todo.get_nowait()
            except queue.Empty:
                break
        for _ in self._threads:
            self._todo.put(None)


class RayExecutor:
    """Tasks on the Ray cluster of ``RAY_ADDRESS``, else a new one. A task whose worker is lost is judged again."""

    def __init__(self, processes: int | None = None, each: int = UNKNOWN_BYTES) -> None:
        self._processes, self._each = processes, each  # bytes of a judging process
        self._ray: Any = None
        self._ours = False

    def run(self, jobs: Iterable[Job]) -> Iterator[Done]:
        """See ``Executor``."""
        ray, waiting = self._ray, iter(jobs)
        task = ray.remote(judge).options(num_cpus=1, memory=self._each, max_retries=-1)
        under_way: dict[Any, Job] = {}
        ended = False
        while True:
            while not ended and len(under_way) < 2 * self._width():
                job = next(waiting, None)
                ended = job is None
                if job is not None:
                    under_way[task.remote(job)] = job
            if not under_way:
                return
            ready, _ = ray.wait(list(under_way), timeout=PATIENCE_S)
            for reference in ready:
                yield under_way.pop(reference), ray.get(reference)

    def _width(self) -> int:
        return self._processes or max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def __enter__(self) -> RayExecutor:
        try:
            import ray
        except ImportError:
            raise KitError(f"Ray is not installed: {install_extra('ray')}") from None
        self._ray = ray
        self._ours = not ray.is_initialized()
        if self._ours:
            import logging

            options = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": self._processes or how_many(self._each)}
            ray.init(include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False, **options)
        return self

    def __exit__(self, *_: object) -> None:
        if self._ours:
            self._ray.shutdown()
