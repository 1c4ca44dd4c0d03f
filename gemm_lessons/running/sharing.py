"""The order of the checks in the second process, and what the rows beside a kernel depend on."""

from __future__ import annotations

from pathlib import Path

from gemm_lessons.course import Lesson, read_source
from gemm_lessons.engine.compiler import include_closure
from gemm_lessons.running.plan import KernelPlan, LaunchPlan

OPERATIONS = 1e8  # of the formula, which take about as long as parsing the program
THREADS = 30_000  # threads whose run over a few K tiles takes about as long as parsing the program


def longest_first(kernel: KernelPlan) -> list[LaunchPlan]:
    """Return the checks of a kernel in the order in which the second process begins them."""
    return sorted((launch for launch in kernel.launches if launch.purpose == "check"), key=_work, reverse=True)


def _work(launch: LaunchPlan) -> float:
    """Return a launch's approximate cost / a small one's: parsing the program, running its threads, its products."""
    threads = sum(grid.blocks * grid.threads for grid in launch.grids)
    return 1 + threads / THREADS + launch.operations / OPERATIONS


def sources_of(lesson: Lesson, path: Path) -> dict[Path, bytes] | None:
    """Return a kernel file and all files that it includes, with their contents; None if the text does not show them."""
    text = read_source(path)
    included = include_closure(text, path.parent, lesson.include_dirs, ())
    return None if included is None else {path: text.encode(), **included}
