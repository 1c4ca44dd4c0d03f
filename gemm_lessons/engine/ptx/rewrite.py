"""Replaces instructions that later steps do not support by equivalent ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from gemm_lessons.engine.ptx.records import Instruction, Kernel, Operand, Register


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
        instructions=tuple([i.numbered(n) for n, i in enumerate(instructions)]),
        labels={label: moved_to[position] for label, position in kernel.labels.items()},
    )


class Writer:
    """Emits instructions that replace ``origin``, and adds the registers they need to ``registers``."""

    def __init__(self, registers: dict[str, str], origin: Instruction) -> None:
        self.registers, self.origin = registers, origin
        self.instructions: list[Instruction] = []

    def fresh(self, kind: str) -> Register:
        """Return a new register of a declared type, such as ``b32``."""
        name = f"%{self.origin.opcode}@{len(self.registers)}"
        self.registers[name] = kind
        return Register(name)

    def emit(self, opcode: str, *operands: Operand) -> None:
        """Emit an instruction with the position and the guard of ``origin``."""
        name, *modifiers = opcode.split(".")
        made = dataclasses.replace(self.origin, opcode=name, modifiers=tuple(modifiers), operands=operands)
        self.instructions.append(made)

    def computed(self, kind: str, opcode: str, *operands: Operand) -> Register:
        """Emit an instruction and return its result in a new register."""
        target = self.fresh(kind)
        self.emit(opcode, target, *operands)
        return target
