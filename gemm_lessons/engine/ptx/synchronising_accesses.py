"""Finds in the code the accesses that may overlap with another thread's access without being a race.

``strong`` accesses (PTX's term for atomics, volatile, relaxed, acquire and release) never race among themselves. An
``optimistic`` read is a plain load whose value may be outdated when it is used, and the code allows for that: the first
read of a compare-and-swap loop (``old = *p; do { assumed = old; old = atomicCAS(p, assumed, ...); } while (old !=
assumed)``), or one that only decides whether an atomic on the same element is worth the effort (``if (v > *p)
atomicMax(p, v)``).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from gemm_lessons.engine.ptx.cfg import Block, build, components, read_by, reads, writers, writes
from gemm_lessons.engine.ptx.records import (
    Address,
    Immediate,
    Instruction,
    Kernel,
    Operand,
    Register,
    Symbol,
    registers_in,
)

STRONG = frozenset({"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio", "cv"})
ONE_WAY = frozenset("min max and or".split())  # atomics that change an element monotonically


def strong(kernel: Kernel) -> frozenset[int]:
    """Return the strong accesses (indices), which synchronise with those of other threads."""
    return frozenset(
        i.index
        for i in kernel.instructions
        if i.row.effect == "atomic" or (i.row.effect in ("load", "store") and STRONG & set(i.modifiers))
    )


def observed_reads(kernel: Kernel) -> frozenset[int]:
    """Return the strong reads (indices) whose value the kernel uses. An unused result carries no information."""
    read = read_by(kernel)
    strongly = strong(kernel)
    return frozenset(i.index for i in kernel.instructions if i.index in strongly and not read.isdisjoint(writes(i)))


def flag_accesses(kernel: Kernel) -> frozenset[int]:
    """Return the strong accesses to shared memory (indices) if one of them controls a loop. Otherwise return the
    atomics by which threads count themselves, so that the last one processes the results of the others."""
    inside = frozenset(i for i in strong(kernel) if {"global", "const"}.isdisjoint(kernel.instructions[i].modifiers))
    return inside if _any_controls_loop(kernel, inside) else _thread_counts(kernel, inside & observed_reads(kernel))


def _thread_counts(kernel: Kernel, accesses: frozenset[int]) -> frozenset[int]:
    """Return those of ``accesses`` whose result is compared with a number, and that follow a fence without a store in
    between: ``__threadfence_block(); if (atomicAdd(&count, 1) == n - 1) ...``."""
    atomics = [i for i in kernel.instructions if i.index in accesses and i.row.effect == "atomic"]
    fenced = [atomic for atomic in atomics if _follows_fence(kernel, atomic)]
    if not fenced:
        return frozenset()
    flow = _Flow(kernel)
    compared = flow.slice_of(
        name
        for i in kernel.instructions
        if i.row.undefined == "compared" and {"eq", "ne"} & set(i.modifiers)
        for name in reads(i)
    )
    return frozenset(atomic.index for atomic in fenced if writes(atomic) & compared)


def _follows_fence(kernel: Kernel, atomic: Instruction) -> bool:
    for before in reversed(kernel.instructions[: atomic.index]):
        if before.row.effect == "fence":
            return True
        if before.row.effect == "store" and {"global", "local"}.isdisjoint(before.modifiers):
            return False
    return False


def spins_on_memory(kernel: Kernel) -> bool:
    """Return whether a strong read controls a loop, so that the number of iterations depends on timing."""
    return _any_controls_loop(kernel, strong(kernel))


def _any_controls_loop(kernel: Kernel, accesses: frozenset[int]) -> bool:
    """Return whether one of ``accesses`` (indices) reads a value that controls a loop."""
    awaited = accesses & observed_reads(kernel)
    if not awaited:
        return False
    flow = _Flow(kernel)
    for loop in loops(build(kernel)):
        observed = {name for block in loop for i in block.instructions if i.index in awaited for name in writes(i)}
        branches = [block.terminator for block in loop if block.terminator is not None]
        guards = {branch.guard.name for branch in branches if branch.guard is not None}
        if observed & flow.slice_of(guards):
            return True
    return False


def loops(blocks: Sequence[Block]) -> list[list[Block]]:
    """Return the basic blocks of each outermost loop that these blocks form."""
    numbers = {block.number for block in blocks}
    after = {block.number: numbers.intersection(block.successors) for block in blocks}
    component_of = {number: part[0] for part in components(after, after, after) for number in part}
    found: dict[int, list[Block]] = {}
    for block in blocks:
        found.setdefault(component_of[block.number], []).append(block)
    return [loop for loop in found.values() if len(loop) > 1 or loop[0].number in after[loop[0].number]]


def block_scoped(kernel: Kernel) -> frozenset[int]:
    """Return the strong accesses (indices) of scope ``cta``, which synchronise only the threads of one block."""
    return frozenset(index for index in strong(kernel) if "cta" in kernel.instructions[index].modifiers)


def optimistic(kernel: Kernel) -> frozenset[int]:
    """Return the loads (indices) whose value a compare-and-swap of the element checks, or guard an atomic on it."""
    atomics = [i for i in kernel.instructions if i.row.effect == "atomic" and {"cas", *ONE_WAY} & set(i.modifiers)]
    if not atomics:
        return frozenset()
    flow = _Flow(kernel)
    found: set[int] = set()
    for atomic in atomics:
        place = flow.place(atomic)
        loads = [i for i in kernel.instructions if _one_element(i) and flow.place(i) == place]
        if "cas" in atomic.modifiers:
            before = flow.slice_of(registers_in(atomic.operands[2 if atomic.row.writes else 1]))
            found |= {load.index for load in loads if writes(load) & before}
        else:
            found |= {load.index for load in loads if flow.only_decides(load)}
    return frozenset(found)


def _one_element(instruction: Instruction) -> bool:
    """Return whether each lane loads from its own address, whatever the other lanes do."""
    return instruction.row.effect == "load" and not instruction.row.warp


class _Flow:
    """Definitions and uses of a kernel's registers, independent of the path."""

    def __init__(self, kernel: Kernel) -> None:
        self._made = writers(kernel)
        self._used: dict[str, list[Instruction]] = {}
        for instruction in kernel.instructions:
            for name in reads(instruction):
                self._used.setdefault(name, []).append(instruction)

    def place(self, instruction: Instruction) -> tuple[Hashable, int] | None:
        """Return the base expression of an address and its byte offset. Equal results mean the same element."""
        address = next((operand for operand in instruction.operands if isinstance(operand, Address)), None)
        if address is None or address.base is None:
            return None
        origin, offset = self._origin(address.base)
        return origin, offset + address.offset

    def _origin(self, operand: Operand | None, depth: int = 16) -> tuple[Hashable, int]:
        """Return the expression that computes a value, and the constant added to it."""
        if isinstance(operand, Symbol):
            return operand.name, operand.offset
        if not isinstance(operand, Register):
            return operand, 0
        made = self._made.get(operand.name, [])
        if len(made) != 1 or made[0].guard is not None or made[0].row.pointer in ("lost", "none") or not depth:
            return operand.name, 0
        one = made[0]
        sources = one.operands[1:]
        if one.row.pointer in ("kept", "converted"):
            return self._origin(sources[0], depth - 1)
        if one.row.pointer == "added" and isinstance(sources[1], Immediate):
            origin, offset = self._origin(sources[0], depth - 1)
            return origin, offset + sources[1].value
        how = tuple(m[1:] if m[1:].isdigit() else m for m in one.modifiers)  # signed and unsigned types are equivalent
        return (one.opcode, how, tuple(self._origin(source, depth - 1) for source in sources)), 0

    def slice_of(self, names: Iterable[str]) -> set[str]:
        """Return ``names`` and all registers that their values come from, except through memory: a program slice."""
        reached: set[str] = set()
        work = list(names)
        while work:
            name = work.pop()
            if name not in reached:
                reached.add(name)
                made = [i for i in self._made.get(name, ()) if i.row.effect in ("compute", "exchange")]
                work.extend(source for instruction in made for source in reads(instruction))
        return reached

    def only_decides(self, load: Instruction) -> bool:
        """Return whether a loaded value is used only in comparisons."""
        waiting, seen = [load], {load.index}
        while waiting:
            for name in writes(waiting.pop()):
                for instruction in self._used.get(name, ()):
                    if instruction.row.undefined == "copied" or instruction.row.name == "cvt":
                        if instruction.index not in seen:
                            seen.add(instruction.index)
                            waiting.append(instruction)
                    elif instruction.row.undefined != "compared":
                        return False
        return True
