"""Sums and products that a kernel computes twice: ptxas computes them once if the first dominates the second.

NVRTC repeats them on purpose, because the first result would occupy a register until the second use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from gemm_lessons.engine.ptx.cfg import Block, writes
from gemm_lessons.engine.ptx.opcodes import JOINED
from gemm_lessons.engine.ptx.records import Immediate, Instruction, Operand, Register

COMMUTATIVE = 2  # commutative sources: of sums and products, and the first two of multiply-adds


def repeated(blocks: Sequence[Block]) -> frozenset[int]:
    """Return instructions (indices) whose result another register, written once, already holds on every path."""
    instructions = sorted((i for block in blocks for i in block.instructions), key=lambda i: i.index)
    count = Counter(name for i in instructions for name in writes(i))
    block_of = {i.index: block.number for block in blocks for i in block.instructions}
    stands_for: dict[str, Operand] = {}
    first: dict[tuple[Any, ...], list[Instruction]] = {}
    found: set[int] = set()
    for instruction in instructions:
        key = _key(instruction, count, stands_for)
        if key is None:
            continue
        earlier = first.setdefault(key, [])
        for other in earlier:
            if _dominates(blocks, block_of[other.index], block_of[instruction.index]):
                found.add(instruction.index)
                stands_for.update((name, other.operands[0]) for name in writes(instruction))
                break
        else:
            earlier.append(instruction)
    return frozenset(found)


def _key(instruction: Instruction, count: Counter[str], stands_for: Mapping[str, Operand]) -> tuple[Any, ...] | None:
    """Return the operation and its sources as a key, or None if the result may differ the next time."""
    if instruction.row.ffma != JOINED or instruction.guard is not None:
        return None
    if any(count[name] != 1 for name in writes(instruction)):
        return None
    sources: list[Operand] = []
    for operand in instruction.operands[1:]:
        if isinstance(operand, Register) and count[operand.name] == 1:
            sources.append(stands_for.get(operand.name, operand))
        elif isinstance(operand, Immediate):
            sources.append(operand)
        else:
            return None
    if instruction.row.pointer != "subtracted":
        sources[:COMMUTATIVE] = sorted(sources[:COMMUTATIVE], key=repr)
    return instruction.opcode, instruction.modifiers, *sources


def _dominates(blocks: Sequence[Block], one: int, other: int) -> bool:
    """Return whether block ``one`` dominates block ``other``."""
    if one in (0, other):
        return True
    by_number = {block.number: block for block in blocks}
    seen, work = {one}, [0]
    while work:
        number = work.pop()
        if number == other:
            return False
        if number not in seen:
            seen.add(number)
            work += by_number[number].successors
    return True
