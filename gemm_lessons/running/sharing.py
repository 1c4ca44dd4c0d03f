"""Choose the jobs of the second process, and list what the rows beside a kernel depend on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gemm_lessons.course.folder import read_source
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.engine.compiler.source import include_closure
from gemm_lessons.running.plan import KernelPlan, LaunchPlan

COUNTED = 1.7  # cost / cost of a check: of a counted shape, and of a row beside the kernel
THREADS = 30_000  # threads whose run over a few K tiles takes about as long as parsing the program


def worth_sharing(kernel: KernelPlan, others: Sequence[KernelPlan]) -> tuple[LaunchPlan, ...]:
    """Return the kernel's checks for the second process, in checking order. That process also makes the other rows, so
    the split balances the work of both."""
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
    """Return the approximate cost of a launch / the cost of a small one: parsing the program and running its
    threads."""
    return 1 + sum(grid.blocks * grid.threads for grid in launch.grids) / THREADS


def sources_of(lesson: Lesson, path: Path) -> dict[Path, bytes] | None:
    """Return a kernel file and all files that it includes, with their contents; None when the text does not determine
    them."""
    text = read_source(path)
    included = include_closure(text, path.parent, lesson.include_dirs, ())
    return None if included is None else {path: text.encode(), **included}
