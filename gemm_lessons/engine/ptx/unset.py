"""Finds registers that may be read before they are written, by data-flow analysis, and those computed from them."""

from __future__ import annotations

from collections.abc import Sequence

from gemm_lessons.engine.ptx.cfg import Block, dependents, reads, writes
from gemm_lessons.engine.ptx.records import Kernel, Symbol, registers_in


def maybe_unset(kernel: Kernel, blocks: Sequence[Block]) -> frozenset[str]:
    """Return the registers that may be unset when they are read. Registers used by barriers and calls are excluded,
    because their reads and writes are not distinguished here."""
    successors = [block.successors for block in blocks]
    exposed, given = zip(*(_exposed(block) for block in blocks), strict=True)
    bits = {name: 1 << number for number, name in enumerate(frozenset().union(*exposed).intersection(kernel.registers))}

    def mask(names: frozenset[str]) -> int:
        return sum(bits[name] for name in names if name in bits)

    read, written = [*map(mask, exposed)], [*map(mask, given)]
    known: list[int | None] = [None] * len(blocks)  # registers set on every path to the block's start
    known[0] = 0
    work = [0]
    while work:
        number = work.pop()
        after = (known[number] or 0) | written[number]
        for successor in successors[number]:
            before = known[successor]
            meet = after if before is None else before & after
            if meet != before:
                known[successor] = meet
                work.append(successor)
    found = 0
    for one, before in zip(read, known, strict=True):
        found |= 0 if before is None else one & ~before
    return frozenset(name for name, bit in bits.items() if found & bit) - untracked(kernel)


def _exposed(block: Block) -> tuple[frozenset[str], frozenset[str]]:
    """Return the registers that a block reads before it writes them, and those that it always writes."""
    exposed: set[str] = set()
    written: set[str] = set()
    for instruction in block.instructions:
        exposed |= reads(instruction) - written
        if instruction.guard is None:
            written |= writes(instruction)
    return frozenset(exposed), frozenset(written)


def dependent_registers(kernel: Kernel, roots: frozenset[str]) -> frozenset[str]:
    """Return ``roots`` and every register computed from them."""
    if not roots:
        return roots
    handled = untracked(kernel)
    reached = set(roots)
    growing = True
    while growing:
        growing = False
        for instruction in kernel.instructions:
            if instruction.row.undefined not in ("used", "untracked") and not reached.isdisjoint(reads(instruction)):
                new = writes(instruction) - handled - reached
                reached |= new
                growing |= bool(new)
    return frozenset(reached)


def untracked(kernel: Kernel) -> set[str]:
    """Return the registers of barriers and calls, whose undefined bits are not tracked."""
    return {
        n for i in kernel.instructions if i.row.undefined == "untracked" for o in i.operands for n in registers_in(o)
    }


def copying_loads(kernel: Kernel) -> frozenset[int] | None:
    """Return the loads through which a value copied within shared or local memory can be read.

    None if an instruction other than a load or an atomic may read it. Then a store counts as a use of its value.
    """
    found: set[int] = set()
    for instruction in kernel.instructions:
        effect, words = instruction.row.effect, {word.partition("__")[0] for word in instruction.modifiers}
        if effect == "copy" and words.isdisjoint(("bulk", "reduce")):
            continue  # from global memory
        if effect not in ("load", "call", "copy") or not words.isdisjoint(("global", "const", "param")):
            continue
        if effect == "call" and "vprintf" not in {it.name for it in instruction.operands if isinstance(it, Symbol)}:
            continue
        if instruction.opcode != "ld":
            return None
        found.add(instruction.index)
    return frozenset(found)


def tracks(kernel: Kernel, loads: frozenset[int]) -> bool:
    """Return whether every register computed from the results of ``loads`` is tracked."""
    marked = loads | (copying_loads(kernel) or frozenset())
    loaded = set[str]().union(*(writes(kernel.instructions[index]) for index in marked))
    return dependents(kernel, loaded, lambda it: it.row.undefined != "used").isdisjoint(untracked(kernel))
