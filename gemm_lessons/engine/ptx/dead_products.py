"""Products of warpgroups (``wgmma``) whose sums are never used. ptxas drops them and keeps their place in the group."""

from __future__ import annotations

from gemm_lessons.engine.ptx.cfg import reads
from gemm_lessons.engine.ptx.records import Kernel, Register, registers_in

PRODUCT = "wgmma.mma_async"


def dead_products(kernel: Kernel) -> frozenset[int]:
    """Return the indices of the products whose sums reach only other such products, also through moves."""
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
    products_of: dict[str, list[int]] = {}  # register -> products that accumulate into it
    for index, registers in sums.items():
        for register in registers:
            products_of.setdefault(register, []).append(index)
    while work:
        register = work.pop()
        found = set(moves.get(register, ()))
        for index in products_of.get(register, ()):
            if index not in used:
                used.add(index)
                found |= sums[index]
        work += found - live
        live |= found
    return frozenset(sums) - used
