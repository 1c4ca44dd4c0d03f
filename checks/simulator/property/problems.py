"""What is wrong with seeds, as texts, worked out by several processes: these import this module, not ``__main__``."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from checks.simulator.property import kernels, programs
from checks.simulator.property.comparison import check
from checks.simulator.property.shrinking import shrink

TOGETHER = 75  # tasks that a process takes at once, and the garbage of which it then collects


def problem_of_program(seed: int) -> str:
    """What is wrong with this seed's program, with a small one that shows it; "" if nothing is."""
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
    """Each program makes tens of thousands of objects that end with it. To look through them for cycles again and again
    while it runs was a sixth of the time; what lives on, such as the modules, is not looked through at the end either.
    """
    gc.freeze()
    gc.disable()
    try:
        return [_problem(task) for task in tasks]
    finally:
        gc.enable()
        gc.collect()


def problems(tasks: Sequence[tuple[bool, int]], processes: int) -> Iterator[str]:
    """One text for each task, in their order."""
    chunks = [tasks[at : at + TOGETHER] for at in range(0, len(tasks), TOGETHER)]
    if processes == 1:
        for chunk in chunks:
            yield from _problems(chunk)
        return
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        for found in pool.map(_problems, chunks):
            yield from found
