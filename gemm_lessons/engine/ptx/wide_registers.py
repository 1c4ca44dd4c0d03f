"""Rewrites 128-bit registers as pairs of 64-bit ones, on the PTX, before blocks are built.

128-bit registers can only be loaded, stored, packed, unpacked, moved and exchanged by atomics.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from gemm_lessons.engine.ptx.cfg import unsupported
from gemm_lessons.engine.ptx.records import Instruction, Kernel, Operand, Register, Vector, registers_in
from gemm_lessons.engine.ptx.rewrite import rewritten


def split_wide(kernel: Kernel) -> Kernel:
    """Return the kernel without ``.b128`` registers. Raise ``UnsupportedKernel`` for what cannot be split."""
    wide = {name for name, kind in kernel.registers.items() if kind == "b128"}
    if not wide:
        return kernel
    registers = {name: kind for name, kind in kernel.registers.items() if name not in wide}
    registers |= {half.name: "b64" for name in wide for half in _halves(name)}
    return dataclasses.replace(rewritten(kernel, lambda it: _halved(it, wide)), registers=registers)


def _halves(name: str) -> tuple[Register, Register]:
    return Register(f"{name}.low@"), Register(f"{name}.high@")


def _halved(instruction: Instruction, wide: set[str]) -> Iterator[Instruction]:
    if wide.isdisjoint(name for operand in instruction.operands for name in registers_in(operand)):
        yield instruction
        return
    *modifiers, kind = instruction.modifiers or ("",)
    plain = kind == "b128" and not {"v2", "v4", "v8"} & set(modifiers)
    if plain and instruction.opcode == "mov" and len(instruction.operands) == 2:
        pairs = zip(*(_pair(operand, instruction, wide) for operand in instruction.operands), strict=True)
        for target, source in pairs:
            if target is not None:
                yield dataclasses.replace(instruction, modifiers=("b64",), operands=(target, source))
    elif plain and instruction.opcode in ("ld", "st", "atom"):
        operands = tuple(
            Vector(_halves(o.name)) if isinstance(o, Register) and o.name in wide else o for o in instruction.operands
        )
        halved = instruction.modifiers if instruction.opcode == "atom" else (*modifiers, "v2", "b64")
        yield dataclasses.replace(instruction, modifiers=halved, operands=operands)
    else:
        raise unsupported(instruction, "unsupported use of a 128-bit register")


def _pair(operand: Operand, instruction: Instruction, wide: set[str]) -> tuple[Operand | None, Operand | None]:
    """Return the low and the high half of a 128-bit operand."""
    if isinstance(operand, Register) and operand.name in wide:
        return _halves(operand.name)
    if isinstance(operand, Vector) and len(operand.elements) == 2:
        return operand.elements[0], operand.elements[1]
    raise unsupported(instruction, "unsupported use of a 128-bit register")
