"""Which jobs of a run the second process gets, and what the rows beside a kernel depend on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gemm_lessons.course.folder import read_source
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.engine.compiler.source import include_closure
from gemm_lessons.running.plan import KernelPlan, LaunchPlan

COUNTED = 1.7  # times what a check takes: a shape that is counted, and a row beside the kernel
THREADS = 30_000  # that take about as long to run, a few K tiles, as a program takes to be read


def worth_sharing(kernel: KernelPlan, others: Sequence[KernelPlan]) -> tuple[LaunchPlan, ...]:
    """Checks of the kernel for the second process, which also makes the other rows, so that both have about as much to
    do; in the order in which they are checked."""
    checked = [launch for launch in kernel.launches if launch.purpose == "check"]
    here = COUNTED * _work(kernel.counted[0])
    there = COUNTED * sum(_work(other.counted[0]) for other in others)
    given = set()
    for launch in sorted(checked, key=_work, reverse=True):
        if there < here:
            given.add(launch.shape)
            there += _work(launch)
        else:
            here += _work(launch)
    return tuple(launch for launch in checked if launch.shape in given)


def _work(launch: LaunchPlan) -> float:
    """What a launch takes, in those of a small one, about: its program is read, its threads are run."""
    return 1 + sum(grid.blocks * grid.threads for grid in launch.grids) / THREADS


def sources_of(lesson: Lesson, path: Path) -> dict[Path, bytes] | None:
    """A kernel file and all that it includes, with their contents; None when the text does not tell what that is."""
    text = read_source(path)
    included = include_closure(text, path.parent, lesson.include_dirs, ())
    return None if included is None else {path: text.encode(), **included}
