"""Choose the jobs of the second process, and list what the rows beside a kernel depend on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gemm_lessons.course.folder import read_source
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.engine.compiler.source import include_closure
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.running.plan import KernelPlan, LaunchPlan

COUNTED = 1.7  # cost / cost of a check: of a counted shape, and of a row beside the kernel
AS_WRITTEN = 1.0  # cost / cost of a check of the kernel as written, on one block or one cluster
OPERATIONS = 1e8  # of the formula, which take about as long as parsing the program
THREADS = 30_000  # threads whose run over a few K tiles takes about as long as parsing the program


@dataclass(frozen=True)
class SharedWork:
    """What the second process does for the kernel under test: these checks, and whether it runs the kernel as
    written."""

    launches: tuple[LaunchPlan, ...]
    as_written: bool = False


def worth_sharing(kernel: KernelPlan, others: Sequence[KernelPlan], as_written: bool = False) -> SharedWork:
    """Return the kernel's share for the second process, its checks in checking order. That process also makes the
    other rows, so the split balances the work of both. ``as_written``: whether the kernel is also run as written."""
    checked = [launch for launch in kernel.launches if launch.purpose == "check"]
    here = COUNTED * _work(kernel.counted[0])
    there = COUNTED * sum(_work(other.counted[0]) for other in others)
    parts: list[tuple[float, LaunchPlan | None]] = [(_work(launch), launch) for launch in checked]
    if as_written:
        parts.append((AS_WRITTEN, None))
    given = []
    for work, launch in sorted(parts, key=lambda it: it[0], reverse=True):
        if there < here:
            given.append(launch)
            there += work
        else:
            here += work
    return SharedWork(tuple(launch for launch in checked if launch in given), None in given)


def _work(launch: LaunchPlan) -> float:
    """Return the approximate cost of a launch / the cost of a small one: parsing the program, running its threads, and
    its products."""
    threads = sum(grid.blocks * grid.threads for grid in launch.grids)
    return 1 + threads / THREADS + launch.operations / OPERATIONS


def sources_of(lesson: Lesson, path: Path) -> dict[Path, bytes] | None:
    """Return a kernel file and all files that it includes, with their contents; None when the text does not determine
    them."""
    text = read_source(path)
    included = include_closure(text, path.parent, lesson.include_dirs, ())
    return None if included is None else {path: text.encode(), **included}
