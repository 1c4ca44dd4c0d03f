"""Which accesses may meet another thread's without being a race, read off the code.

``strong`` accesses (PTX's word: atomics, volatile, relaxed, acquire and release) are made to meet: among themselves
they never race. An ``optimistic`` read is a plain load whose value may be old by the time it is used, and the code
knows: the first read of a compare-and-swap loop (``old = *p; do { assumed = old; old = atomicCAS(p, assumed, ...); }
while (old != assumed)``), or one that only decides whether an atomic on the same element is worth the effort
(``if (v > *p) atomicMax(p, v)``).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

from gemm_lessons.engine.ptx.cfg import Block, build, reads, writes
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
ONE_WAY = frozenset("min max and or".split())  # an old value of such an element is never beyond the newest


def strong(kernel: Kernel) -> frozenset[int]:
    """Instructions (indices) whose accesses are made to meet those of other threads."""
    return frozenset(
        i.index
        for i in kernel.instructions
        if i.row.effect == "atomic" or (i.row.effect in ("load", "store") and STRONG & set(i.modifiers))
    )


def hearing(kernel: Kernel) -> frozenset[int]:
    """Strong reads (indices) whose value the kernel looks at. An atomic whose result nobody reads tells nobody how far
    others are."""
    read = frozenset().union(*(reads(i) for i in kernel.instructions))
    strongly = strong(kernel)
    return frozenset(i.index for i in kernel.instructions if i.index in strongly and not read.isdisjoint(writes(i)))


def flags(kernel: Kernel) -> frozenset[int]:
    """Strong accesses to shared memory (indices), if one of them decides how long the kernel stays in a loop; else the
    atomics by which threads count themselves, so that the last one goes on with what the others have left."""
    inside = frozenset(i for i in strong(kernel) if {"global", "const"}.isdisjoint(kernel.instructions[i].modifiers))
    return inside if _awaited(kernel, inside) else _counted(kernel, inside & hearing(kernel))


def _counted(kernel: Kernel, accesses: frozenset[int]) -> frozenset[int]:
    """Those of ``accesses`` whose result is compared with one number, and that come behind a fence without a store
    between the two: ``__threadfence_block(); if (atomicAdd(&count, 1) == n - 1) ...``."""
    atomics = [i for i in kernel.instructions if i.index in accesses and i.row.effect == "atomic"]
    fenced = [atomic for atomic in atomics if _behind_a_fence(kernel, atomic)]
    if not fenced:
        return frozenset()
    flow = _Flow(kernel)
    compared = flow.behind(
        name
        for i in kernel.instructions
        if i.row.undefined == "compared" and {"eq", "ne"} & set(i.modifiers)
        for name in reads(i)
    )
    return frozenset(atomic.index for atomic in fenced if writes(atomic) & compared)


def _behind_a_fence(kernel: Kernel, atomic: Instruction) -> bool:
    for before in reversed(kernel.instructions[: atomic.index]):
        if before.row.effect == "fence":
            return True
        if before.row.effect == "store" and {"global", "local"}.isdisjoint(before.modifiers):
            return False
    return False


def waits(kernel: Kernel) -> bool:
    """Whether a strong read decides how long the kernel stays in a loop: how often it looks then depends on time."""
    return _awaited(kernel, strong(kernel))


def _awaited(kernel: Kernel, accesses: frozenset[int]) -> bool:
    """Whether one of ``accesses`` (indices) reads what decides how long the kernel stays in a loop."""
    awaited = accesses & hearing(kernel)
    if not awaited:
        return False
    flow = _Flow(kernel)
    for loop in loops(build(kernel)):
        heard = {name for block in loop for i in block.instructions if i.index in awaited for name in writes(i)}
        branches = [block.terminator for block in loop if block.terminator is not None]
        guards = {branch.guard.name for branch in branches if branch.guard is not None}
        if heard & flow.behind(guards):
            return True
    return False


def loops(blocks: Sequence[Block]) -> list[list[Block]]:
    """The basic blocks of each outermost loop."""
    after = {b.number: {*b.targets, *([] if b.fallthrough is None else [b.fallthrough])} for b in blocks}
    trip_of = _round_trips(after)
    found: dict[int, list[Block]] = {}
    for block in blocks:
        found.setdefault(trip_of[block.number], []).append(block)
    return [loop for loop in found.values() if len(loop) > 1 or loop[0].number in after[loop[0].number]]


def _round_trips(after: Mapping[int, Iterable[int]]) -> dict[int, int]:
    """For each node one of those that it reaches and that reach it: the same for all of them. Tarjan's algorithm, whose
    cost is linear: a debug build with calls put in place has thousands of blocks."""
    trip_of: dict[int, int] = {}
    seen: dict[int, int] = {}
    lowest: dict[int, int] = {}
    open_: list[int] = []
    for start in after:
        work = [] if start in seen else [(start, iter(after[start]))]
        while work:
            node, rest = work[-1]
            if node not in seen:
                seen[node] = lowest[node] = len(seen)
                open_.append(node)
            following = next((it for it in rest if it not in trip_of), None)
            if following is None:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[node])
                if lowest[node] == seen[node]:
                    last = -1
                    while last != node:
                        last = open_.pop()
                        trip_of[last] = node
            elif following not in seen:
                work.append((following, iter(after[following])))
            else:
                lowest[node] = min(lowest[node], seen[following])
    return trip_of


def narrow(kernel: Kernel) -> frozenset[int]:
    """Strong accesses (indices) that only the threads of one block are promised to see as such."""
    return frozenset(index for index in strong(kernel) if "cta" in kernel.instructions[index].modifiers)


def optimistic(kernel: Kernel) -> frozenset[int]:
    """Loads (indices) whose value a compare-and-swap of the same element checks, or that guard an atomic on it."""
    atomics = [i for i in kernel.instructions if i.row.effect == "atomic" and {"cas", *ONE_WAY} & set(i.modifiers)]
    if not atomics:
        return frozenset()
    flow = _Flow(kernel)
    found: set[int] = set()
    for atomic in atomics:
        place = flow.place(atomic)
        loads = [i for i in kernel.instructions if _one_element(i) and flow.place(i) == place]
        if "cas" in atomic.modifiers:
            before = flow.behind(registers_in(atomic.operands[2 if atomic.row.writes else 1]))
            found |= {load.index for load in loads if writes(load) & before}
        else:
            found |= {load.index for load in loads if flow.only_decides(load)}
    return frozenset(found)


def _one_element(instruction: Instruction) -> bool:
    """Whether it loads what its own address says, whatever the rest of the warp does."""
    return instruction.row.effect == "load" and not instruction.row.warp


class _Flow:
    """Definitions and uses of a kernel's registers, whatever the path."""

    def __init__(self, kernel: Kernel) -> None:
        self._made: dict[str, list[Instruction]] = {}
        self._used: dict[str, list[Instruction]] = {}
        for instruction in kernel.instructions:
            for name in writes(instruction):
                self._made.setdefault(name, []).append(instruction)
            for name in reads(instruction):
                self._used.setdefault(name, []).append(instruction)

    def place(self, instruction: Instruction) -> tuple[Hashable, int] | None:
        """What an address is computed from, and the number of bytes behind it; the same for the same element."""
        address = next((operand for operand in instruction.operands if isinstance(operand, Address)), None)
        if address is None or address.base is None:
            return None
        origin, offset = self._origin(address.base)
        return origin, offset + address.offset

    def _origin(self, operand: Operand | None, depth: int = 16) -> tuple[Hashable, int]:
        """A value as the computation that gives it, sums with constants apart."""
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
        how = tuple(m[1:] if m[1:].isdigit() else m for m in one.modifiers)  # signed and unsigned numbers alike
        return (one.opcode, how, tuple(self._origin(source, depth - 1) for source in sources)), 0

    def behind(self, names: Iterable[str]) -> set[str]:
        """``names`` and all registers that their values are computed from without going through memory."""
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
        """Whether a loaded value goes nowhere but into comparisons."""
        waiting, seen = [load], {load.index}
        while waiting:
            for name in writes(waiting.pop()):
                for instruction in self._used.get(name, ()):
                    if instruction.row.undefined == "copied" or instruction.opcode == "cvt":
                        if instruction.index not in seen:
                            seen.add(instruction.index)
                            waiting.append(instruction)
                    elif instruction.row.undefined != "compared":
                        return False
        return True
