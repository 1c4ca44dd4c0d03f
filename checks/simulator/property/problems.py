"""Failures of seeds, as texts, found by several processes: these import this module, not ``__main__``."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_all_start_methods, get_context
from typing import Any

from checks.simulator.property import kernels, programs
from checks.simulator.property.comparison import check
from checks.simulator.property.shrinking import shrink

TOGETHER, LEAST = 150, 20  # tasks of a process, which grows by about a megabyte with each


def problem_of_program(seed: int) -> str:
    """The failure of this seed's program, with a shrunk program that shows it; "" if it passes."""
    case = programs.generate(seed)
    found = check(case).problem
    if not found:
        return ""
    small = shrink(case)
    return "\n".join(
        [
            f"seed {seed} ({case.sort}): {found}",
            f"made small: {check(small).problem}",
            f"grid {small.grid}, block {small.block}, {small.block_limit} blocks a batch",
            *(f"    {line}" for line in small.body),
        ]
    )


def problem_of_kernel(seed: int) -> str:
    """The same of this seed's CUDA kernel."""
    found = kernels.check(seed)
    return f"CUDA kernel of seed {seed}: {found}\n{kernels.generate(seed).source}" if found else ""


def _problem(task: tuple[bool, int]) -> str:
    compiled, seed = task
    return problem_of_kernel(seed) if compiled else problem_of_program(seed)


def _problems(tasks: Sequence[tuple[bool, int]]) -> list[str]:
    """Run a part with garbage collection off: each program makes tens of thousands of objects in reference cycles, and
    collecting them took a quarter of the time. The end of the process frees them."""
    gc.disable()
    return [_problem(task) for task in tasks]


def _parts(tasks: Sequence[tuple[bool, int]], processes: int) -> Iterator[Sequence[tuple[bool, int]]]:
    """Split the tasks into parts of ``TOGETHER``, smaller towards the end, so that processes end at about the same
    time."""
    while tasks:
        size = min(TOGETHER, max(LEAST, len(tasks) // (4 * processes)))
        yield tasks[:size]
        tasks = tasks[size:]


def problems(tasks: Sequence[tuple[bool, int]], processes: int) -> Iterator[str]:
    """One text for each task, in their order. With several processes, each part runs in a new process, forked from a
    server that has imported what it needs. Raises ``BrokenProcessPool`` if one is killed. There is no time limit:
    beside the tests of ``.ci/run`` a part may take a quarter of an hour."""
    if processes == 1:
        yield from map(_problem, tasks)
        return
    fork = "forkserver" in get_all_start_methods()
    context: Any = get_context("forkserver" if fork else "spawn")
    if fork:
        context.set_forkserver_preload([__name__])

    def in_a_process(part: Sequence[tuple[bool, int]]) -> list[str]:
        with ProcessPoolExecutor(1, mp_context=context) as process:
            return process.submit(_problems, part).result()

    with ThreadPoolExecutor(processes) as threads:
        for texts in threads.map(in_a_process, _parts(tasks, processes)):
            yield from texts
