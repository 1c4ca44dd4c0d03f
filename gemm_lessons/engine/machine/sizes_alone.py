"""Runs what a kernel computes from sizes alone, for thousands of launches at once: a thread for each.

    kernel --reduced--> the instructions from which some registers are computed, and a store of each of these
        --run--> register -> its value in each launch

A test of sizes may have its outcome from a loop, as for a prime, from a carry, or from a table that the kernel fills in
local memory. The reduced kernel has only what such tests need: it loads the sizes of its launch from a table, and takes
only the branches that sizes decide; of others it goes straight on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeGuard, TypeVar

import numpy as np

from gemm_lessons.engine.ptx.cfg import read_by, reads, writers, writes
from gemm_lessons.engine.ptx.records import (
    Address,
    Immediate,
    Instruction,
    Kernel,
    KernelParameter,
    Operand,
    Register,
    Symbol,
    register_width,
    registers_in,
)
from gemm_lessons.engine.ptx.rewrite import Writer, rewritten
from gemm_lessons.engine.records.arrays import Array

T = TypeVar("T")

OF_A_GRID = ("%nctaid", "%ntid")  # the same in all threads of a launch
SPECIAL = ("%tid", "%ctaid", "%laneid", "%warpid", "%cluster", "%lanemask", "%nctaid", "%ntid", "%clock", "%smid")
ADD_CARRY = ("addc", "subc", "madc")
LOCAL = "local"
THREADS = 256  # of a block, each with a launch of its own
SLOT = 8  # bytes of a number in the tables
TABLES = (KernelParameter("sizes", "u64", 0, 8, 8), KernelParameter("values", "u64", 8, 8, 8))
TRUE, FALSE = 1, 2  # bits of a predicate: what it has been


def _once(find: Callable[..., T]) -> Callable[..., T]:
    """Keep in a kernel what is found of it: a run asks for the same several times."""

    def found(kernel: Kernel, sizes: Collection[str] | None = None) -> T:
        key = find.__name__, None if sizes is None else frozenset(sizes)
        known: dict[object, T] = kernel.__dict__.setdefault("_found", {})
        if key not in known:
            known[key] = find(kernel) if sizes is None else find(kernel, sizes)
        return known[key]

    return found


@_once
def handed_on(kernel: Kernel) -> Mapping[int, frozenset[str]]:
    """Return the instructions (indices) whose result is another register, and which registers that may be: what a lane
    hands on by a shuffle or a reduction, or those that are stored to the same variable in memory, also by atomics."""
    places: dict[str, tuple[str, int]] = {}  # registers that hold an address -> (variable, offset)
    stored: dict[tuple[str, int] | None, set[str]] = defaultdict(set)
    loads: dict[int, tuple[str, int] | None] = {}
    found = {}
    several = {name for name, its in writers(kernel).items() if len(its) > 1}
    for it in kernel.instructions:
        target, *sources = it.operands or (None,)
        if it.opcode in ("shfl", "redux") and isinstance(sources[0], Register):
            found[it.index] = frozenset({sources[0].name})
        elif it.opcode in ("mov", "cvta", "add") and isinstance(target, Register) and target.name not in several:
            start, more = _place(places, sources[0]), sources[1:]
            if start and all(isinstance(its, Immediate) for its in more):
                places[target.name] = start[0], start[1] + sum(its.value for its in more if isinstance(its, Immediate))
        elif it.opcode in ("st", "ld", "atom", "red") and (where := next(filter(_is_address, it.operands), None)):
            at = _place(places, where.base)
            at = at and (at[0], at[1] + where.offset)
            after = it.operands[it.operands.index(where) + 1 :]
            stored[at] |= {its.name for its in after if isinstance(its, Register)}
            loads |= {it.index: at} if isinstance(target, Register) else {}
    return found | {index: frozenset(stored[at]) for index, at in loads.items() if at and stored[at]}


@_once
def sources(kernel: Kernel) -> Mapping[int, frozenset[str]]:
    """Return the instructions (indices) whose result is computed from other registers than they name: what is handed
    on or stored in local memory, and what adds a carry. The carry that an instruction writes is its ``carry_of``."""
    found: dict[int, frozenset[str]] = {}
    before = -1
    local = [it for it in kernel.instructions if LOCAL in it.modifiers]
    stored = frozenset[str]().union(*(reads(it) for it in local if it.opcode == "st"))
    for it in kernel.instructions:
        if it.opcode in ADD_CARRY:
            found[it.index] = reads(it) | {carry_of(before)}
        before = it.index if "cc" in it.modifiers else before
    found |= {it.index: reads(it) | stored for it in local if it.opcode == "ld"}
    return {**found, **handed_on(kernel)}


def carry_of(index: int) -> str:
    """Return the name of the carry that an instruction writes."""
    return f"carry {index}"


def results(instruction: Instruction) -> frozenset[str]:
    """Return the registers that an instruction writes, and its carry."""
    return writes(instruction) | ({carry_of(instruction.index)} if "cc" in instruction.modifiers else set())


def _is_address(operand: Operand | None) -> TypeGuard[Address]:
    return isinstance(operand, Address)


def _place(places: Mapping[str, tuple[str, int]], operand: Operand | None) -> tuple[str, int] | None:
    """Return the variable and offset of an address, where the code names the variable."""
    if isinstance(operand, Symbol):
        return operand.name, operand.offset
    return places.get(operand.name) if isinstance(operand, Register) else None


@_once
def varying(kernel: Kernel, sizes: Collection[str] | None = None) -> tuple[set[str], list[Instruction]]:
    """Return the registers that may differ between threads, and the instructions whose results do not. ``sizes``:
    parameters and special registers that decide alone; None: all parameters do, but no memory except local memory."""
    given, handed = sources(kernel), handed_on(kernel)
    shared = {it.name for it in kernel.variables if it.space == "shared"}
    special = {it for it in read_by(kernel) if it.startswith(SPECIAL)}
    varies = {it for it in special if (it not in sizes if sizes is not None else not it.startswith(OF_A_GRID))}
    code = kernel.instructions
    of_shared = {it.index for it in code for its in it.operands if type(its) is Symbol and its.name in shared}
    left: Sequence[Instruction] = code
    before = len(left) + 1
    while len(left) < before:
        before, others, left = len(left), left, []
        for it in others:
            read = given.get(it.index, reads(it))
            is_known = it.index in handed or _is_known(it, sizes, LOCAL in varies)
            if is_known and varies.isdisjoint(read) and it.index not in of_shared:
                left.append(it)
            else:
                varies |= {LOCAL} if it.opcode == "st" and LOCAL in it.modifiers else results(it)
    return varies, [*left]


def _is_known(instruction: Instruction, sizes: Collection[str] | None, local_varies: bool) -> bool:
    """Return whether an instruction that reads no varying register has a result that does not vary."""
    if instruction.opcode not in ("ld", "st"):
        return instruction.row.computes
    space = {*instruction.modifiers} & {"param", "shared", LOCAL, "const", "global"}
    if instruction.opcode == "ld" and "param" in space:
        return sizes is None or _loaded(instruction) in sizes
    if LOCAL in space:
        return not local_varies
    return sizes is not None and instruction.opcode == "ld" and "shared" not in space


def _loaded(instruction: Instruction) -> str:
    """Return the name of the parameter that is loaded."""
    base = instruction.operands[1].base if isinstance(instruction.operands[1], Address) else None
    return base.name if isinstance(base, Symbol) else ""


def reduced(kernel: Kernel, wanted: Sequence[str], sizes: Sequence[str]) -> Kernel:
    """Return the kernel reduced to what decides the ``wanted`` registers, with a store of each after each change."""
    handed = {index: names for index, names in handed_on(kernel).items() if len(names) == 1}
    kept = _needed(kernel, wanted, sizes)
    places = {name: place for place, name in enumerate(sizes)}
    slots = {name: place for place, name in enumerate(wanted)}
    registers = dict(kernel.registers)
    start = Writer(registers, replace(kernel.instructions[0], guard=None))
    thread = start.computed("b32", "mad.lo.u32", Register("%ctaid.x"), Immediate(THREADS), Register("%tid.x"))
    rows = []
    for table, columns in zip(TABLES, (len(sizes), len(wanted)), strict=True):
        begin = start.computed("b64", "ld.param.u64", Address(Symbol(table.name)))
        rows.append(start.computed("b64", "mad.wide.u32", thread, Immediate(columns * SLOT), begin))
    of_launch, found = rows
    been = {it: start.computed("b32", "mov.u32", Immediate(0)) for it in wanted if registers[it] == "pred"}

    def parts(instruction: Instruction) -> Iterator[Instruction]:
        if instruction.index == 0:
            yield from start.instructions
        if instruction.index not in kept:
            return
        writer = Writer(registers, instruction)
        changed = instruction
        if instruction.opcode == "ld" and "param" in instruction.modifiers:
            place = Address(of_launch, places[_loaded(instruction)] * SLOT)
            modifiers = ("global", *(it for it in instruction.modifiers if it != "param"))
            changed = replace(instruction, modifiers=modifiers, operands=(instruction.operands[0], place))
        elif instruction.index in handed:
            (source,) = handed[instruction.index]
            target = next(registers_in(instruction.operands[0]))
            width = register_width(registers[target])
            operands = Register(target), Register(source)
            modifiers = ("pred" if width == "pred" else f"b{width}",)
            changed = replace(instruction, opcode="mov", modifiers=modifiers, operands=operands)
        else:
            special = [it for it in changed.operands if isinstance(it, Register) and it.name in places]
            for it in special:
                value = writer.computed("b32", "ld.global.u32", Address(of_launch, places[it.name] * SLOT))
                changed = replace(changed, operands=tuple(value if one == it else one for one in changed.operands))
        yield from writer.instructions
        yield changed
        for name in sorted(writes(changed) & slots.keys()):
            yield from _stored(Writer(registers, replace(instruction, guard=None)), name, been.get(name), found, slots)

    near = tuple(it for it in kernel.variables if it.space == LOCAL)
    made = rewritten(kernel, parts)
    return replace(made, parameters=TABLES, registers=registers, variables=near, directives={})


def _stored(
    writer: Writer, name: str, been: Register | None, found: Register, slots: Mapping[str, int]
) -> Sequence[Instruction]:
    """Return a store of a register, or of what a predicate has been."""
    place, value = Address(found, slots[name] * SLOT), Register(name)
    if been is not None:
        bit = writer.computed("b32", "selp.b32", Immediate(TRUE), Immediate(FALSE), value)
        writer.emit("or.b32", been, been, bit)
        writer.emit("st.global.b32", place, been)
    else:
        writer.emit(f"st.global.b{register_width(writer.registers[name])}", place, value)
    return writer.instructions


def _needed(kernel: Kernel, wanted: Collection[str], sizes: Collection[str]) -> set[int]:
    """Return the instructions (indices) to keep: those from which the ``wanted`` registers are computed, with the
    branches and ends that decide whether these run."""
    varies, known = varying(kernel, sizes)
    given, defined = sources(kernel), defaultdict[str, list[Instruction]](list)
    for it in known:
        for name in {LOCAL} if it.opcode == "st" else results(it):
            defined[name].append(it)
    control = [it for it in kernel.instructions if it.row.effect in ("branch", "end", "stop")]
    decided = [it for it in control if varies.isdisjoint(reads(it))]
    kept = {len(kernel.instructions) - 1}  # to which labels may lead
    work, seen = [*wanted], set[str]()

    def keep(instruction: Instruction) -> None:
        kept.add(instruction.index)
        work.extend(given.get(instruction.index, reads(instruction)))
        if instruction.opcode == "ld" and LOCAL in instruction.modifiers:
            work.append(LOCAL)

    while True:
        while work:
            if (name := work.pop()) not in seen:
                seen.add(name)
                for it in defined[name]:
                    keep(it)
        more = [it for it in decided if it.index not in kept and _skips(kernel, it, kept)]
        if not more:
            return kept
        for it in more:
            keep(it)


def _skips(kernel: Kernel, control: Instruction, kept: Collection[int]) -> bool:
    """Return whether a branch or an end decides whether something that is kept runs."""
    labels = [it.name for it in control.operands if isinstance(it, Symbol)]
    names = [name for it in labels for name in kernel.branch_targets.get(it, (it,))]
    ends = [kernel.labels[it] for it in names] or [len(kernel.instructions)]
    return any(min(control.index, end) <= index < max(control.index, end) for end in ends for index in kept)


def tables(sizes: Mapping[str, Sequence[int] | Array], wanted: Sequence[str]) -> tuple[Array, Array]:
    """Return the tables of a run: the sizes of all launches, (threads, sizes), and zeros for what is wanted of them.
    There are whole blocks, so that the last launch is repeated."""
    given = np.array([*sizes.values()], np.int64).T
    missing = -len(given) % THREADS
    given = np.ascontiguousarray(np.concatenate([given, np.repeat(given[-1:], missing, axis=0)]))
    return given, np.zeros((len(given), len(wanted)), np.int64)
