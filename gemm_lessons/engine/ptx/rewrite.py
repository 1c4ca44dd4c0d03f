"""Replaces instructions that later steps do not know by equivalent ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from gemm_lessons.engine.ptx.records import Instruction, Kernel


def rewritten(kernel: Kernel, parts: Callable[[Instruction], Iterable[Instruction]]) -> Kernel:
    """Return the kernel with each instruction replaced by its ``parts``, renumbered. Labels keep their position."""
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
