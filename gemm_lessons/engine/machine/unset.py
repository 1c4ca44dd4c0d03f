"""Registers that are read before they are written: an uninitialised variable of the source.

``ptx/unset.py`` finds by data-flow analysis which registers some path reads before writing them; most kernels have
none, and then nothing below costs anything. For these registers and those computed from them, the machine tracks per
lane which bits are undefined (``undefined_bits.py``). Reading such a bit is not an error yet: compilers evaluate both
sides of ``i < n && d > 0`` and pack halves of which one is never used. It is an error once the bit decides a branch, an
address or a stored value. The finding names the line that first read the variable.

A shuffle that reads an inactive lane returns an undefined value, too, and so does a load of shared or local memory that
was never written. A second run of such a kernel tracks these values. Unwritten memory then holds ``memory.BLANK`` in
each byte, and ``undefined_memory.py`` tracks copies in shared and local memory, which do not count as uses.

A value from a clock, or one that the GPU chooses, is tracked in the same way if ``Setting.portable`` is true: it is
defined, but no result may depend on it. The start of CUDA's reserved shared memory may be used as an address.

The contents of an unset register are undefined. Here all its bits are set when a batch starts, as in memory
(``memory.POISON``), so that the result does not depend on earlier batches.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemm_lessons.engine.events import WARP
from gemm_lessons.engine.machine.decode import Binder, Op, Run, both
from gemm_lessons.engine.machine.memory import BLANK, LOCAL_WINDOW, SHARED_WINDOW, WINDOW_SIZE
from gemm_lessons.engine.machine.special import CHOSEN_ELSEWHERE, RESERVED_PLACE
from gemm_lessons.engine.machine.state import State
from gemm_lessons.engine.machine.undefined import unsigned
from gemm_lessons.engine.machine.undefined_bits import UNREAD, UndefinedBits, raw_type, whole
from gemm_lessons.engine.machine.undefined_memory import UndefinedMemory
from gemm_lessons.engine.ptx.cfg import Block, lanes_with_address, line_of, reads, writes
from gemm_lessons.engine.ptx.records import (
    CLOCKS,
    SIZES,
    Address,
    Instruction,
    Kernel,
    PredicatePair,
    Register,
    registers_in,
)
from gemm_lessons.engine.ptx.schedule import Single, Step
from gemm_lessons.engine.ptx.unset import copying_loads, dependent_registers, untracked
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.facts import Actor, FromLane, Misuse
from gemm_lessons.engine.records.findings import Finding
from gemm_lessons.engine.semantics.operation import DTYPES


@dataclass
class _UnsetRead:
    """A read of an unset variable: its first thread (``place``: batch and lane), and the number of reads."""

    place: tuple[int, int]
    thread: Actor
    count: int = 0


class UnsetRegisters:
    """Tracks the undefined bits of one launch. ``roots`` are unset when a batch starts. Of the others, all
    instruction indices, ``shuffles`` may read inactive lanes, ``blanks`` unwritten memory, and ``varying`` values that
    differ between GPUs. With ``blanks`` or ``copies``, values are also tracked in shared and local memory."""

    def __init__(
        self,
        state: State,
        kernel: Kernel,
        roots: frozenset[str],
        binder: Binder,
        shuffles: frozenset[int],
        blanks: frozenset[int] = frozenset(),
        varying: frozenset[int] = frozenset(),
        copies: bool = False,
    ) -> None:
        self._state, self._kernel, self._binder = state, kernel, binder
        self._shuffles, self._blanks, self._varying = shuffles, blanks, varying
        self._copying = copying_loads(kernel) if blanks or copies else None  # loads that may read a copy
        self.only_copied = False  # a store to shared or local memory counted as a use, since copies are not tracked
        self._roots = sorted(name for name in roots if name in state.rows)
        given = frozenset(name for index in shuffles for name in _shuffle_target(kernel.instructions[index]))
        marked = blanks | (self._copying or frozenset()) | varying
        self._moving = frozenset(index for index in marked - varying if kernel.instructions[index].opcode == "ld")
        given = given.union(*(writes(kernel.instructions[index]) for index in marked))
        # Registers without masks: a value that enters one counts as used.
        self._untracked = untracked(kernel)
        self._may_access = np.zeros(len(kernel.instructions) + 1, np.bool_)  # by origin; the last is for UNREAD
        self._may_access[[i for i in varying if RESERVED_PLACE in reads(kernel.instructions[i])]] = True
        self._lost = frozenset(i for i in varying if not self._untracked.isdisjoint(writes(kernel.instructions[i])))
        names = sorted(name for name in dependent_registers(kernel, roots | given) if name in state.rows)
        self._bits = UndefinedBits(state, binder, names)
        self._memory = UndefinedMemory(state, binder, self._bits, blanks)
        if varying:
            self._bits.lost = self._lose
        self._batches = 0
        self._found: dict[int, _UnsetRead] = {}  # index of the first reading instruction -> read

    def begin(self, alive: Array) -> None:
        """Mark the roots as undefined, for a new batch."""
        self._bits.reset()
        self._memory.reset()
        for name in self._roots:
            width, row = self._state.rows[name]
            registers = self._state.files[width][row]
            registers[:] = False if width == "pred" else np.iinfo(registers.dtype).max
            self._bits.masks[name][alive] = whole(self._bits.masks[name])
            self._bits.marked(name)
        self._batches += 1

    def wrap(self, step: Step, operations: list[Op]) -> list[Op]:
        """Return the operations of a step, with the tracking operations before and after them."""
        if not self._bits.masks:
            return operations
        instructions = (step.instruction,) if isinstance(step, Single) else step.instructions
        after = [both(functools.partial(self._mark_inactive, i)) for i in instructions if i.index in self._shuffles]
        fragments = self._blanks - self._moving
        after += [both(functools.partial(self._mark_fragment, i)) for i in instructions if i.index in fragments]
        after += [both(functools.partial(self._mark_varying, i)) for i in instructions if i.index in self._varying]
        moves = [both(move) for i in instructions for move in self._moves(i)]
        return [*self._notes(instructions, operations), *moves, *operations, *after]

    def _moves(self, instruction: Instruction) -> list[Run]:
        """Return the closures that move undefined bits between registers and shared or local memory."""
        if instruction.index in self._moving:
            return [self._memory.load(instruction)]
        if self._copying is None or _is_global(instruction):
            return []
        if _stores_a_copy(instruction):
            return [self._memory.store(instruction)]
        return [self._memory.update(instruction, self._record)] if instruction.row.effect == "atomic" else []

    def at_end(self, block: Block) -> list[Op]:
        """Return the tracking operations of the branch at the end of ``block``."""
        if not self._bits.masks or block.terminator is None:
            return []
        return self._notes((block.terminator,), [])

    def findings(self) -> list[Finding]:
        """Return one finding per line that read a value that is unset or differs between GPUs."""
        by_line: dict[tuple[int | None, str], Finding] = {}
        for index, reader in self._found.items():
            instruction = self._kernel.instructions[index]
            line, file = line_of(instruction), instruction.source.file if instruction.source else ""
            known: dict[str, Any] = {"line": line, "count": reader.count, "file": file}
            if index in self._varying:  # a result depends on it
                name = min(reads(instruction) & CHOSEN_ELSEWHERE)
                case = "clock" if name in CLOCKS else "choice"
                found = Finding("machine_dependent", "error", case, **known, facts=Misuse(name=name))
            elif index in self._shuffles:
                thread, lane = self._state.inactive_sources[index]
                found = Finding("shuffle_source", "warning", **known, actors=(thread,), facts=FromLane(lane))
            else:
                found = Finding("unset", "warning", **known, actors=(reader.thread,))
            by_line.setdefault((line, file), found)
        return list(by_line.values())

    def _mark_varying(self, instruction: Instruction) -> None:
        """Mark the results of an instruction that reads a value that differs between GPUs."""
        lanes = self._bits.executing(instruction)
        for name in sorted(writes(instruction) & self._bits.masks.keys()):
            self._bits.mark(name, lanes, instruction.index)
        if lanes.any() and (instruction.index in self._lost or not writes(instruction)):
            self._found.setdefault(instruction.index, _UnsetRead((0, 0), self._actor(instruction.index, 0), 1))

    def _lose(self, instruction: Instruction, name: str, mask: Array) -> None:
        """Count a value that differs between GPUs as used where it enters a register of a barrier or call."""
        if name in self._untracked:
            lanes = self._bits.executing(instruction) & (mask != 0)
            for read in sorted(reads(instruction) & self._bits.dirty):
                varies = np.isin(self._bits.origin[read], list(self._varying))
                self._record_use(instruction, read, lanes & varies)

    def _mark_inactive(self, instruction: Instruction) -> None:
        """Mark the values that a shuffle has read from inactive lanes as undefined."""
        lanes = self._state.undefined.get(instruction.index)
        if lanes is None or not lanes.any():
            return
        for name in _shuffle_target(instruction):
            if name in self._bits.masks:
                self._bits.mark(name, lanes, instruction.index)

    def _mark_fragment(self, instruction: Instruction) -> None:
        """Mark the bytes that a load of fragments has read from unwritten memory as undefined."""
        lanes = self._bits.executing(instruction)
        for name in writes(instruction) & self._bits.masks.keys():
            blank = _blank_bytes(self._state.row(name, "b32"))
            self._bits.view(name, "b32")[lanes] = blank[lanes]
            marked = lanes & (blank != 0)
            self._bits.origin[name][marked] = instruction.index
            if marked.any():
                self._bits.marked(name)

    @property
    def decisive(self) -> frozenset[int]:
        """Return the loads in ``blanks`` whose values decided something."""
        return self._blanks & self._found.keys()

    # -- one step -----------------------------------------------------------------------------------------------------

    def _notes(self, instructions: Iterable[Instruction], operations: list[Op]) -> list[Op]:
        tracked = self._bits.masks.keys()
        runs: list[Run] = []
        names: set[str] = set()
        by_lane = True
        for instruction in instructions:
            mine = (reads(instruction) | writes(instruction)) & tracked
            if mine:
                names |= mine
                runs.extend(self._follow(instruction, operations))
                row = instruction.row
                by_lane &= not row.warp or row.undefined in ("accumulated", "multiplied")  # or by whole warps
        if not runs:
            return []
        undefined = self._bits.watch(names)

        def follow() -> None:
            if not self._bits.dirty.isdisjoint(names) and (not by_lane or undefined()):
                for run in runs:
                    run()

        return [both(follow)]

    def _follow(self, instruction: Instruction, operations: list[Op]) -> list[Run]:
        """Return the closures that track one instruction before it is executed."""
        how = instruction.row.undefined
        if how == "ignored":
            return []
        if how in ("used", "untracked"):
            return [self._use(instruction), functools.partial(self._bits.clear, instruction)]
        return [self._bits.follow(instruction, operations)]

    # -- uses --------------------------------------------------------------------------------------------------------

    def _use(self, instruction: Instruction) -> Run:
        """Return the closure that checks the registers an instruction needs: addresses, stored data, predicates."""
        names = sorted(reads(instruction) & self._bits.masks.keys())
        addresses = {n for o in instruction.operands if isinstance(o, Address) for n in registers_in(o)}
        widths = {name: raw_type(self._bits.masks[name]) for name in names}
        if instruction.row.effect in ("store", "atomic"):
            kind = instruction.modifiers[-1]
            for name in widths:
                if name not in addresses and widths[name] != "pred" and kind in SIZES and kind in DTYPES:
                    widths[name] = kind
        guard = instruction.guard.name if instruction.guard is not None else ""
        may_access = self._may_access if self._may_access.any() else None
        kept = self._copied(instruction)
        supplies_address = self._state.lane_index % WARP < lanes_with_address(instruction)

        def look() -> None:
            state = self._state
            active = state.alive if state.active is None else state.active
            lanes = self._bits.executing(instruction) & supplies_address
            for name, code in widths.items():
                if name in self._bits.dirty:
                    undefined = self._bits.view(name, code)
                    used = (undefined != 0) & (active if name == guard else lanes)
                    if kept is not None and name not in addresses and name != guard:
                        used = used & ~kept()
                    if may_access is not None and name in addresses:
                        used = used & ~may_access[self._bits.origin[name]]
                    self._record_use(instruction, name, used)

        return look

    def _copied(self, instruction: Instruction) -> Callable[[], Array] | None:
        """Return a function for the lanes in which a store writes to shared or local memory; None for no such store."""
        if self._copying is None or not _stores_a_copy(instruction):
            return None
        everywhere = np.ones(self._state.lanes, np.bool_)
        address = instruction.operands[0]
        if {"shared", "local"} & {word.partition("__")[0] for word in instruction.modifiers}:
            return lambda: everywhere
        if not isinstance(address, Address) or not isinstance(address.base, Register):
            return None
        base = address.base

        def inside() -> Array:
            at = self._binder.value(base, "s64") + address.offset
            windows = [(at >= start) & (at < start + WINDOW_SIZE) for start in (LOCAL_WINDOW, SHARED_WINDOW)]
            return np.broadcast_to(windows[0] | windows[1], everywhere.shape)

        return inside

    def _record_use(self, instruction: Instruction, name: str, lanes: Array) -> None:
        if lanes.any():
            self.only_copied |= self._copying is None and _stores_a_copy(instruction)
            origin = np.where(self._bits.origin[name] == UNREAD, instruction.index, self._bits.origin[name])
            self._record(np.flatnonzero(lanes), origin[lanes])

    def _record(self, lanes: Array, origins: Array) -> None:
        """Record that ``lanes`` (numbers) use values that the instructions ``origins`` read."""
        for index in np.unique(origins).tolist():
            here = lanes[origins == index]
            place = self._batches, int(here[0])
            reader = self._found.get(index)
            if reader is None:
                reader = self._found[index] = _UnsetRead(place, self._actor(index, place[1]))
            elif place < reader.place:  # name the same thread whichever use ran first
                reader.place, reader.thread = place, self._actor(index, place[1])
            reader.count += here.size

    def _actor(self, index: int, lane: int) -> Actor:
        return self._state.actor(lane, self._kernel.instructions[index])


def _is_global(instruction: Instruction) -> bool:
    """Return whether an instruction names global memory."""
    return any(word.partition("__")[0] == "global" for word in instruction.modifiers)


def _stores_a_copy(instruction: Instruction) -> bool:
    """Return whether an instruction may store registers unchanged to shared or local memory."""
    return instruction.opcode == "st" and not _is_global(instruction)


def _blank_bytes(values: Array) -> Array:
    """Return a mask of the bytes that hold the value of unwritten memory."""
    data = np.ascontiguousarray(unsigned(values))
    mask: Array = np.where(data.view(np.uint8) == BLANK, np.uint8(0xFF), np.uint8(0)).view(data.dtype)
    return mask


def _shuffle_target(instruction: Instruction) -> tuple[str, ...]:
    """Return the name of the register that receives a shuffle's value."""
    first = instruction.operands[0]
    target = first.first if isinstance(first, PredicatePair) else first
    return (target.name,) if isinstance(target, Register) else ()
