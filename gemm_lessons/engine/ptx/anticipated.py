"""Anticipated expressions: results that every following path needs, which no compiler may drop or sink below a branch.

A value is needed if it is stored, decides a branch, forms an address, or is the source of a needed value. ptxas often
sinks a load or a multiply-add that only one side of a later branch needs into that side, so that fewer threads execute
it in machine code than in PTX.
"""

from __future__ import annotations

from collections.abc import Sequence

from gemm_lessons.engine.ptx.cfg import Block, reads, writes
from gemm_lessons.engine.ptx.records import Instruction, registers_in


def always_needed(blocks: Sequence[Block]) -> frozenset[int]:
    """Return the instructions whose results every path to the kernel's end needs, and those with an effect of their
    own, such as stores, or without a result."""
    before: list[frozenset[str] | None] = [None] * len(blocks)  # needed on every path from its start; None: unknown
    needed: dict[int, bool] = {}
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            after = _after(block, before)
            if after is None:
                continue
            live = set(after)
            for instruction in reversed(block.instructions):
                needed[instruction.index] = _step(instruction, live)
            if before[block.number] != frozenset(live):
                before[block.number] = frozenset(live)
                changed = True
    return frozenset(index for index, is_needed in needed.items() if is_needed)


def _after(block: Block, before: Sequence[frozenset[str] | None]) -> frozenset[str] | None:
    last = block.terminator
    ends = block.fallthrough is None and not block.targets
    if ends or (last is not None and last.row.effect in ("end", "stop")):
        return frozenset()
    following = [*([block.fallthrough] if block.fallthrough is not None else []), *block.targets]
    known = [one for one in (before[number] for number in following) if one is not None]
    return frozenset.intersection(*known) if known else None


def _step(instruction: Instruction, live: set[str]) -> bool:
    """Step back over one instruction. Return whether its result is needed."""
    results = writes(instruction)
    guard = {instruction.guard.name} if instruction.guard is not None else set()
    if _has_effect(instruction):
        if guard:
            live |= guard
        else:
            live -= results
            live |= reads(instruction)
        return True
    if not results or not results <= live:
        return False
    if guard:  # where the guard is false the old value is needed, and no source
        live |= guard
        return True
    live -= results
    if instruction.row.undefined == "chosen":  # only one of the two values is needed
        live |= set(registers_in(instruction.operands[3]))
    else:
        live |= reads(instruction)
    return True


def _has_effect(instruction: Instruction) -> bool:
    if instruction.row.effect == "load":
        return "volatile" in instruction.modifiers
    return instruction.row.effect not in ("compute", "exchange")
