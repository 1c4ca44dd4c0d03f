"""What is wrong with seeds, as texts, worked out by several processes: these import this module, not ``__main__``."""

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
    """Each program makes tens of thousands of objects, in rings that only the garbage collector can take apart, and to
    look for these was a quarter of the time. So it is left to the end of the process."""
    gc.disable()
    return [_problem(task) for task in tasks]


def _parts(tasks: Sequence[tuple[bool, int]], processes: int) -> Iterator[Sequence[tuple[bool, int]]]:
    """Of ``TOGETHER`` tasks, and smaller ones towards the end, so that all processes end at about the same time."""
    while tasks:
        size = min(TOGETHER, max(LEAST, len(tasks) // (4 * processes)))
        yield tasks[:size]
        tasks = tasks[size:]


def problems(tasks: Sequence[tuple[bool, int]], processes: int) -> Iterator[str]:
    """One text for each task, in their order. With several processes every part of them has one of its own, made from
    one that has imported what they need. Raises ``BrokenProcessPool`` when one of these was killed; however slow they
    are, they are waited for: beside the tests of ``.ci/run`` a part may take a quarter of an hour."""
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
