"""Instructions in place of others: what the rooms behind do not know, said in what they do."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from gemm_lessons.engine.ptx.records import Instruction, Kernel


def rewritten(kernel: Kernel, parts: Callable[[Instruction], Iterable[Instruction]]) -> Kernel:
    """The kernel with the ``parts`` of each instruction in its place, numbered anew; labels stay where they were."""
    instructions: list[Instruction] = []
    moved_to: dict[int, int] = {}
    for instruction in kernel.instructions:
        moved_to[instruction.index] = len(instructions)
        instructions += parts(instruction)
    moved_to[len(kernel.instructions)] = len(instructions)
    return dataclasses.replace(
        kernel,
        instructions=tuple(dataclasses.replace(i, index=n) for n, i in enumerate(instructions)),
        labels={label: moved_to[position] for label, position in kernel.labels.items()},
    )
