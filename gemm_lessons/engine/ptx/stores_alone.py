"""Reduces a kernel to the instructions that decide where it stores.

    kernel --stores_alone--> the stores to global memory, the branches, and the instructions that both need

The reduced kernel takes every branch and stores to every address as the kernel does, but it loads only parameters and
constants, does not wait, and stores zeros. It shows which of thousands of blocks own an element, in the time that one
block takes. This is impossible if an address or a branch depends on memory, or if an instruction other than a plain
store writes to global memory: a ``trap`` takes the place of such an instruction, since most threads may never reach it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gemm_lessons.engine.ptx.cfg import reads, writers
from gemm_lessons.engine.ptx.dead_products import PRODUCT
from gemm_lessons.engine.ptx.records import Immediate, Instruction, Kernel, Vector, registers_in
from gemm_lessons.engine.ptx.rewrite import Writer, rewritten

WAITS = ("mbarrier.test_wait", "mbarrier.try_wait")
NEAR = ("shared", "local")  # stores to these are dropped
PRODUCTS = ("mma", PRODUCT)
CONTROL = ("branch", "end", "stop")


def stores_alone(kernel: Kernel) -> Kernel:
    """Return the kernel reduced to its stores."""
    unknown = {it.index for it in kernel.instructions if _stores_otherwise(it)}
    roots = [it for it in kernel.instructions if it.row.effect in CONTROL or _is_far_store(it)]
    needed = set[str]().union(*map(_decides, roots), *(_guard_of(kernel.instructions[index]) for index in unknown))
    kept = {*unknown, *(it.index for it in roots)}
    defined = writers(kernel)
    work = [*needed]
    while work:
        for instruction in defined[work.pop()]:
            if instruction.index in kept:
                continue
            kept.add(instruction.index)
            if instruction.row.name in WAITS:
                continue  # becomes a wait that has ended
            if _is_known(instruction):
                found = reads(instruction) - needed
            else:
                unknown.add(instruction.index)
                found = _guard_of(instruction) - needed
            needed |= found
            work += found

    def parts(instruction: Instruction) -> Iterator[Instruction]:
        if instruction.index not in kept:
            return
        if instruction.index in unknown:
            yield replace(instruction, opcode="trap", modifiers=(), operands=())
        elif _is_far_store(instruction):
            yield _storing_zeros(instruction)
        elif instruction.row.name in WAITS:
            writer = Writer({}, instruction)
            writer.emit("setp.eq.u32", instruction.operands[0], Immediate(0), Immediate(0))
            yield from writer.instructions
        else:
            yield instruction

    return rewritten(kernel, parts)


def _guard_of(instruction: Instruction) -> frozenset[str]:
    """Return the register that decides whether an instruction acts, if there is one."""
    return frozenset(() if instruction.guard is None else (instruction.guard.name,))


def _storing_zeros(store: Instruction) -> Instruction:
    """Return a store with zeros in place of its values."""
    zero = Immediate(0, is_float=store.modifiers[-1].startswith("f"))
    address, value, *rest = store.operands
    zeros = Vector(tuple(zero for _ in value.elements)) if isinstance(value, Vector) else zero
    return replace(store, operands=(address, zeros, *rest))


def _is_far_store(instruction: Instruction) -> bool:
    return instruction.row.effect == "store" and not any(space in instruction.modifiers for space in NEAR)


def _stores_otherwise(instruction: Instruction) -> bool:
    """Return whether an instruction other than a plain store may write to global memory."""
    effect = instruction.row.effect
    spaces = [it for it in instruction.modifiers if it.startswith(("global", "shared"))]
    if effect == "atomic":
        return not spaces or spaces[0] == "global"
    if effect == "copy":  # the first space is its destination
        return spaces[:1] == ["global"]
    return effect == "call" or (effect == "image" and not instruction.row.writes)


def _decides(instruction: Instruction) -> frozenset[str]:
    """Return the registers that decide whether and where an instruction acts."""
    if not _is_far_store(instruction):
        return reads(instruction)
    return _guard_of(instruction) | frozenset(registers_in(instruction.operands[0]))


def _is_known(instruction: Instruction) -> bool:
    """Return whether a result depends only on registers, parameters and constants."""
    row = instruction.row
    if row.effect == "load":
        return "param" in instruction.modifiers or "const" in instruction.modifiers
    return row.computes or (row.effect == "exchange" and row.name not in PRODUCTS)
