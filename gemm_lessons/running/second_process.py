"""What the second core does meanwhile: some of the kernel's shapes, then the rows beside it, in a forked process.

    with SecondCore.of(request) as apart:
        outcome = run_lesson(replace(request, apart=apart))      the same outcome, earlier

It works within bounds of its own. Where there is one core, no process, or no answer, the run does all of it itself. So
it does where a profiler listens: all ranges of a run are in one process.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
from collections.abc import Collection, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

from gemm_lessons.course.lesson import Lesson
from gemm_lessons.devices.device import Binaries
from gemm_lessons.engine.process import bounds
from gemm_lessons.engine.process.child import ChildDied, ChildHung, Forked, Parent
from gemm_lessons.engine.records.errors import KitError, UnsupportedKernel
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.gpu import ranges
from gemm_lessons.judging.evidence import Built
from gemm_lessons.running.outcome import Role, Row
from gemm_lessons.running.pipeline import Entry, line_up, row_beside, tried_apart
from gemm_lessons.running.plan import RunPlan, RunRequest
from gemm_lessons.running.precomputed import Apart, Tried

COUNTED = 1.7  # times what a check takes: a shape that is counted, and a row beside the kernel
THREADS = 30_000  # that take about as long to run, a few K tiles, as a program takes to be read


class SecondCore(Apart):
    """A process, or none. Use as a context manager: it ends with it."""

    def __init__(self, shapes: Collection[Shape] = (), child: Forked | None = None, seconds: float = 0.0) -> None:
        self.shapes, self._child, self._seconds = shapes, child, seconds
        self._made: dict[object, Any] = {}

    @classmethod
    def of(cls, request: RunRequest) -> SecondCore:
        """Fork, before this process has threads. ``request`` has a seed, which both then share."""
        if request.device.timer is not None or len(os.sched_getaffinity(0)) < 2 or ranges.is_heard():
            return cls()
        kernel, *others = line_up(request, request.secret)
        shapes = share(request.lesson, kernel.shapes, [other.lesson for other in others])
        if not shapes and not others:
            return cls()
        gc.freeze()  # looked through in two processes, it would be there twice
        try:
            child = Forked(lambda parent: _make(request, replace(kernel, shapes=shapes), others, parent))
        except KitError:
            return cls()
        return cls(shapes, child, request.bounds.seconds + request.bounds.grace)

    @property
    def makes_rows(self) -> bool:
        """As long as the process is there."""
        return self._child is not None

    def tried(self, shape: Shape) -> Tried | None:
        """One of ``shapes``."""
        found: Tried | None = self._wait(shape) if shape in self.shapes else None
        return found

    def row(self, role: Role) -> Row | None:
        """The row of this role."""
        found: Row | None = self._wait(role)
        return found

    def _wait(self, wanted: object) -> Any:
        while wanted not in self._made and self._child is not None:
            try:
                _, blobs = self._child.receive(self._seconds, working=True)
            except (ChildDied, ChildHung):
                self._child = None
            else:
                made = pickle.loads(blobs[0])  # by our own fork: nobody else has this pipe
                self._made[made.shape if isinstance(made, Tried) else made.role] = made
        return self._made.get(wanted)

    def __enter__(self) -> SecondCore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._child is not None:
            self._child.close()


def share(lesson: Lesson, shapes: Sequence[Shape], others: Sequence[Lesson]) -> tuple[Shape, ...]:
    """Shapes to try apart, so that both processes have about as much to do; in the order in which they are checked."""
    counting = lesson.shapes.count
    checked = [shape for shape in dict.fromkeys(shapes) if shape != counting]
    here, there = COUNTED * _work(lesson, counting), COUNTED * sum(_work(it, it.shapes.count) for it in others)
    given = set()
    for shape in sorted(checked, key=lambda shape: _work(lesson, shape), reverse=True):
        if there < here:
            given.add(shape)
            there += _work(lesson, shape)
        else:
            here += _work(lesson, shape)
    return tuple(shape for shape in checked if shape in given)


def _work(lesson: Lesson, shape: Shape) -> float:
    """What a check of this shape takes, in those of a small one, about: its program is read, its threads are run."""
    if lesson.shapes.refusal(shape) is not None:
        return 1.0
    threads = sum(grid.blocks * grid.threads for grid in lesson.at(shape).grids(shape))
    return 1 + threads / THREADS


def _make(request: RunRequest, kernel: Entry, others: Sequence[Entry], parent: Parent) -> None:
    plan = RunPlan.of(request, lambda what: None)
    with contextlib.suppress(OSError), bounds.within(request.bounds):  # OSError: nobody wants it any more
        with contextlib.suppress(UnsupportedKernel):  # the run will find that, too
            for tried in tried_apart(plan, kernel) if kernel.shapes else ():
                parent.send({}, [pickle.dumps(tried)])
        for other in others:
            parent.send({}, [pickle.dumps(_to_send(row_beside(plan, other)))])


def _to_send(row: Row) -> Row:
    """Without what only another row would want of it: code taken apart, estimates for other shapes."""
    return replace(row, speed=replace(row.speed, estimator=None), built=row.built and _bare(row.built))


def _bare(built: Built) -> Built:
    code = built.code
    timed = None if code.timed is None else tuple(replace(it) for it in code.timed)
    counted = tuple(replace(it) for it in code.counted)
    return replace(built, code=Binaries(counted, timed), others=tuple(map(_bare, built.others)))
