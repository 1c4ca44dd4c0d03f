"""A kernel prepared once for all launches: basic blocks, steps, and facts that the machine derives from the code.

    kernel --stores_alone--> the stores to global memory, the branches, and the instructions that both need

The reduced kernel takes every branch and stores to every address as the kernel does, but it loads only parameters and
constants, does not wait, and stores zeros. It shows which of thousands of blocks own an element, in the time that one
block takes. This is impossible if an address or a branch depends on memory, or if an instruction other than a plain
store writes to global memory: a ``trap`` takes the place of such an instruction, since most threads may never reach it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from gemm_lessons.engine.machine import spin_waits as spinning
from gemm_lessons.engine.machine.block_classes import CodeDecisions
from gemm_lessons.engine.machine.decode import address_registers
from gemm_lessons.engine.machine.special import CHOSEN_ELSEWHERE, RESERVED_PLACE
from gemm_lessons.engine.ptx import cfg
from gemm_lessons.engine.ptx.addresses import AddressUses, address_uses
from gemm_lessons.engine.ptx.cfg import Block, reads, writers
from gemm_lessons.engine.ptx.dead_products import PRODUCT
from gemm_lessons.engine.ptx.provenance import stored_parameters
from gemm_lessons.engine.ptx.records import Immediate, Instruction, Kernel, Symbol, Variable, Vector, registers_in
from gemm_lessons.engine.ptx.rewrite import Writer, rewritten
from gemm_lessons.engine.ptx.schedule import FmaGroup, places_of, schedule
from gemm_lessons.engine.ptx.unset import maybe_unset
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.frozen import dataclass

# Registers that hold the address of the two zeroed words in which grid.sync() of a cooperative launch counts, high half
# first. Source: cooperative_groups/details/driver_abi.h of CUDA 13.
BARRIER_ADDRESS = ("%envreg1", "%envreg2")
WAITS = ("mbarrier.test_wait", "mbarrier.try_wait")
NEAR = ("shared", "local")  # stores to these are dropped
PRODUCTS = ("mma", PRODUCT)
CONTROL = ("branch", "end", "stop")


@dataclass(frozen=True)
class Program:
    """A kernel as basic blocks with their steps, and the places of its registers in the register files."""

    kernel: Kernel
    blocks: tuple[Block, ...]
    steps: tuple[Sequence[Any], ...]
    rows: Mapping[str, tuple[int | str, int]]  # register -> its width, and its row among those of this width
    variables: tuple[Variable, ...]
    bound: set[int] = field(default_factory=set)  # basic blocks bound before, whose instructions are all supported

    @functools.cached_property
    def maybe_unset(self) -> frozenset[str]:
        """Return the registers that some path may read before it writes them."""
        return maybe_unset(self.kernel, self.blocks)

    @functools.cached_property
    def varying(self) -> frozenset[int]:
        """Return the instructions (indices) that read a clock, or a value that the GPU chooses."""
        if CHOSEN_ELSEWHERE.isdisjoint(cfg.read_by(self.kernel)):
            return frozenset()
        return frozenset(i.index for i in self.kernel.instructions if not CHOSEN_ELSEWHERE.isdisjoint(cfg.reads(i)))

    @functools.cached_property
    def decisions(self) -> CodeDecisions:
        """Return on which comparisons blocks and launches may differ."""
        return CodeDecisions(self.kernel, self.variables, self.blocks)

    @functools.cached_property
    def stores(self) -> Program:
        """Return the program reduced to the instructions that decide where it stores: see ``stores_alone``."""
        return prepare(stores_alone(self.kernel), self.variables)

    @functools.cached_property
    def address_uses(self) -> AddressUses:
        """Return how the kernel uses the addresses of buffers and variables."""
        return address_uses(self.kernel, self.variables)

    @functools.cached_property
    def stored_parameters(self) -> frozenset[str] | None:
        """Return the parameters through whose pointers the kernel may store; None if unknown."""
        return stored_parameters(self.kernel)

    @functools.cached_property
    def exit_blocks(self) -> Array:
        """Return, per basic block, whether a thread that enters it ends without any other effect."""
        return _only_ends(self.blocks)

    @functools.cached_property
    def may_wait(self) -> bool:
        """Return whether a loop of the kernel may wait for another thread's action."""
        return bool(self.waiting_blocks)

    @functools.cached_property
    def waiting_blocks(self) -> frozenset[int]:
        """Return the basic blocks (numbers) of such loops in which a thread may wait."""
        return spinning.waiting_blocks(self.kernel, self.blocks)

    @functools.cached_property
    def guarded(self) -> tuple[Sequence[Instruction], ...]:
        """Return, per basic block, the instructions whose lanes are counted at its end."""
        return tuple(
            [
                i
                for i in block.instructions
                if i.guard and not i.row.ends_block and i.index not in self.overwritten_guards
            ]
            for block in self.blocks
        )

    @functools.cached_property
    def counted_by(self) -> Array:
        """Return, per instruction, the basic block that is executed as often; -1 for a guarded one."""
        found = np.full(len(self.kernel.instructions), -1)
        for block in self.blocks:
            found[[i.index for i in block.instructions if i.guard is None or i.row.ends_block]] = block.number
        return found

    @functools.cached_property
    def overwritten_guards(self) -> frozenset[int]:
        """Return guarded instructions whose predicate they or a later one write: only inline PTX has them."""
        found: set[int] = set()
        for block in self.blocks:
            written: set[str] = set()
            guarded = any(it.guard is not None and not it.row.ends_block for it in block.instructions)
            for instruction in reversed(block.instructions) if guarded else ():
                written |= cfg.writes(instruction)
                guard = instruction.guard
                if guard is not None and guard.name in written and not instruction.row.ends_block:
                    found.add(instruction.index)
        return frozenset(found)

    @functools.cached_property
    def address_registers(self) -> set[str]:
        """Return the base registers of addresses whose patterns are memoised."""
        return address_registers(self.blocks)

    @functools.cached_property
    def address_writes(self) -> Mapping[int, frozenset[str]]:
        """Return the instructions (indices) that write such registers, with these."""
        written = {it.index: cfg.writes(it) & self.address_registers for it in self.kernel.instructions}
        return {index: names for index, names in written.items() if names}

    @functools.cached_property
    def points_to_parameters(self) -> bool:
        """Return whether the kernel takes the address of a parameter, as it does to index one at run time."""
        names = {parameter.name for parameter in self.kernel.parameters}
        return any(type(o) is Symbol and o.name in names for i in self.kernel.instructions for o in i.operands)

    @functools.cached_property
    def has_reserved_shared(self) -> bool:
        """Return whether the kernel uses shared memory that CUDA reserves for cooperative groups."""
        return RESERVED_PLACE in cfg.read_by(self.kernel)

    @functools.cached_property
    def is_cooperative(self) -> bool:
        """Return whether the kernel reads the address of the grid barrier, which only cooperative launches have."""
        return not cfg.read_by(self.kernel).isdisjoint(BARRIER_ADDRESS)

    @property
    def has_large_groups(self) -> bool:
        """Return whether the kernel has groups of at least 16 multiply-adds, whose rows are worth keeping in cache."""
        return any(isinstance(s, FmaGroup) and len(s.instructions) >= 16 for steps in self.steps for s in steps)


def prepare(kernel: Kernel, variables: tuple[Variable, ...]) -> Program:
    """Return the program of a kernel: its blocks, its steps, and the places of its registers."""
    blocks = cfg.build(kernel)
    steps = tuple(schedule(block) for block in blocks)
    return Program(kernel, blocks, steps, places_of(steps, kernel.registers), variables)


def _only_ends(blocks: Sequence[Block]) -> Array:
    """Return, per basic block, whether a thread that enters it ends without any other effect."""
    found: dict[int, bool] = {}
    for first in blocks:
        passed: list[int] = []
        block = first
        while block.number not in found:
            passed.append(block.number)
            found[block.number] = False  # provisional; final for a cycle, which never ends
            last = block.terminator
            inside = block.instructions if last is None else block.instructions[:-1]
            if not all(i.row.computes for i in inside) or (last is not None and last.guard is not None):
                break
            jumps = last is not None and last.opcode == "bra"
            following = block.targets[0] if jumps else block.fallthrough
            if last is not None and not jumps:
                ends = last.row.effect == "end"
            elif following is None:
                ends = last is None
            else:
                block = blocks[following]
                continue
            found[block.number] = ends
        found.update(dict.fromkeys(passed, found[block.number]))
    return np.array([found[block.number] for block in blocks])


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
