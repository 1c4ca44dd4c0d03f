"""Anticipated expressions: results that every following path needs, which no compiler may drop or sink below a branch.

A value is needed if it is stored, decides a branch, forms an address, or is the source of a needed value. ptxas often
sinks a load or a multiply-add that only one side of a later branch needs into that side, so that fewer threads execute
it in machine code than in PTX. It also drops stores that later stores of the basic block overwrite.
"""

from __future__ import annotations

from collections.abc import Sequence

from gemm_lessons.engine.ptx.cfg import Block, reads, writes
from gemm_lessons.engine.ptx.records import SIZES, Address, Instruction, Register, elements_of, registers_in


def always_needed(blocks: Sequence[Block]) -> frozenset[int]:
    """Return the instructions whose results every path to the kernel's end needs, and those with side effects."""
    before: list[frozenset[str] | None] = [None] * len(blocks)  # needed on every path from its start; None: unknown
    needed: dict[int, bool] = {}
    selected = _selected(blocks)
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            after = _after(block, before)
            if after is None:
                continue
            live = set(after)
            overwritten = _overwritten(block)
            for instruction in reversed(block.instructions):
                effect = instruction.index not in overwritten and _has_effect(instruction, selected)
                needed[instruction.index] = _step(instruction, live, effect)
            if before[block.number] != frozenset(live):
                before[block.number] = frozenset(live)
                changed = True
    return frozenset(index for index, is_needed in needed.items() if is_needed)


def _after(block: Block, before: Sequence[frozenset[str] | None]) -> frozenset[str] | None:
    last = block.terminator
    if not block.successors or (last is not None and last.row.effect in ("end", "stop")):
        return frozenset()
    known = [one for one in (before[number] for number in block.successors) if one is not None]
    return frozenset.intersection(*known) if known else None


def _chooses(instruction: Instruction) -> bool:
    """Return whether the result is one of two operands, selected by a third."""
    return instruction.row.undefined == "chosen" or instruction.opcode == "slct"


def _selected(blocks: Sequence[Block]) -> frozenset[str]:
    """Return the registers that a selection chooses between, and those that they are computed from."""
    instructions = [i for block in blocks for i in block.instructions]
    found = {n for choice in filter(_chooses, instructions) for it in choice.operands[1:3] for n in registers_in(it)}
    before = 0
    while found and len(found) > before:
        before = len(found)
        for instruction in reversed(instructions):
            if instruction.row.computes and not found.isdisjoint(writes(instruction)):
                found |= reads(instruction)
    return frozenset(found)


def _overwritten(block: Block) -> frozenset[int]:
    """Return the stores whose bytes later stores of the block overwrite, by offsets from the same register or name."""
    found: set[int] = set()
    later: dict[object, set[int]] = {}  # bytes that are stored after an instruction, by what they are relative to
    for instruction in reversed(block.instructions):
        for name in writes(instruction):
            later.pop(name, None)
        kind = instruction.modifiers[-1] if instruction.modifiers else ""
        stores = instruction.row.effect == "store" and not instruction.row.warp
        if not stores or "volatile" in instruction.modifiers or kind not in SIZES:
            continue
        to, value = instruction.operands[:2]
        if not isinstance(to, Address):
            continue
        base = to.base.name if isinstance(to.base, Register) else to.base
        here = set(range(to.offset, to.offset + SIZES[kind] * len(elements_of(value))))
        if here <= later.get(base, set()):
            found.add(instruction.index)
        elif instruction.guard is None:
            later.setdefault(base, set()).update(here)
    return frozenset(found)


def _step(instruction: Instruction, live: set[str], has_effect: bool) -> bool:
    """Step back over one instruction. Return whether its result is needed."""
    results = writes(instruction)
    guard = {instruction.guard.name} if instruction.guard is not None else set()
    if has_effect:
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
    if _chooses(instruction):  # only one of the two values is needed
        live |= set(registers_in(instruction.operands[3]))
    else:
        live |= reads(instruction)
    return True


def _has_effect(instruction: Instruction, selected: frozenset[str]) -> bool:
    """Return whether an instruction does more than compute its results.

    A volatile load does, except for loads whose values a selection chooses between: ptxas predicates these.
    """
    if instruction.row.effect == "load":
        return "volatile" in instruction.modifiers and writes(instruction).isdisjoint(selected)
    return instruction.row.effect not in ("compute", "exchange")
