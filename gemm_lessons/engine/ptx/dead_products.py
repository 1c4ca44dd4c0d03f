"""Products of warpgroups (``wgmma``) whose sums are never used. ptxas leaves only their place in a group."""

from __future__ import annotations

from gemm_lessons.engine.ptx.cfg import reads
from gemm_lessons.engine.ptx.records import Kernel, Register, registers_in

PRODUCT = "wgmma.mma_async"


def dead_products(kernel: Kernel) -> frozenset[int]:
    """Return the indices of the products whose sums reach nothing but other such products. Moves rename registers."""
    products = [it for it in kernel.instructions if it.row.name == PRODUCT]
    sums = {it.index: frozenset(registers_in(it.operands[0])) for it in products}
    moves: dict[str, set[str]] = {}  # register -> where its value comes from
    live: set[str] = set()
    for instruction in kernel.instructions:
        if instruction.index in sums:
            live |= reads(instruction) - sums[instruction.index]
        elif instruction.row.name == "mov" and all(isinstance(it, Register) for it in instruction.operands):
            target, source = (it.name for it in instruction.operands if isinstance(it, Register))
            moves.setdefault(target, set()).add(source)
        else:
            live |= reads(instruction)
    work = [*live]
    used: set[int] = set()
    of: dict[str, list[int]] = {}
    for index, registers in sums.items():
        for register in registers:
            of.setdefault(register, []).append(index)
    while work:
        register = work.pop()
        found = set(moves.get(register, ()))
        for index in of.get(register, ()):
            if index not in used:
                used.add(index)
                found |= sums[index]
        work += found - live
        live |= found
    return frozenset(sums) - used
