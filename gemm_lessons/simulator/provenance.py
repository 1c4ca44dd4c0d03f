"""Which shared array an address was made from, read off the code.

Addresses alone cannot tell that As[1024] of a 1024-element As is a mistake: it is an element of Bs. But the code names
As, then adds to it.
"""

from __future__ import annotations

from collections.abc import Callable

from gemm_lessons.simulator.ptx import Address, Instruction, Kernel, Operand, Register, Symbol

UNKNOWN = "?"  # an address made in a way that does not tell which array was meant


def provenance(kernel: Kernel, shared: frozenset[str]) -> dict[int, str]:
    """Memory instruction -> the shared array whose name its address was computed from, where it is exactly one.

    A forward data flow over registers, all definitions of a register taken together: sums and moves keep the array,
    anything else that is done to an address makes it unknown.
    """
    if not shared:
        return {}
    made: dict[str, set[str]] = {}

    def of(operand: Operand | None) -> set[str]:
        if isinstance(operand, Symbol):
            return {operand.name} if operand.name in shared else set()
        return made.get(operand.name, set()) if isinstance(operand, Register) else set()

    definitions = [i for i in kernel.instructions if i.operands and isinstance(i.operands[0], Register)]
    changed = True
    while changed:
        changed = False
        for instruction in definitions:
            result = _result(instruction, of)
            if result:
                target = instruction.operands[0]
                assert isinstance(target, Register)
                before = made.setdefault(target.name, set())
                if not result <= before:
                    before |= result
                    changed = True
    arrays: dict[int, str] = {}
    for instruction in kernel.instructions:
        for operand in instruction.operands:
            if isinstance(operand, Address) and operand.base is not None:
                names = of(operand.base)
                if len(names) == 1 and UNKNOWN not in names:
                    arrays.setdefault(instruction.index, next(iter(names)))
                break  # the first address: of cp.async the shared side
    return arrays


def _result(instruction: Instruction, of: Callable[[Operand | None], set[str]]) -> set[str]:
    sources = [of(operand) for operand in instruction.operands[1:]]
    opcode = instruction.opcode
    if opcode in ("ld", "ldu", "atom", "setp"):
        return set()
    if opcode in ("mov", "cvta", "add", "or"):
        return set().union(*sources) if sources else set()
    if opcode == "selp":
        return set().union(*sources[:2])
    if opcode == "sub":
        return sources[0] | ({UNKNOWN} if sources[1] else set())
    if opcode == "mad":
        return sources[2] | ({UNKNOWN} if sources[0] or sources[1] else set())
    return {UNKNOWN} if any(sources) else set()
