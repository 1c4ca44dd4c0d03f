"""Registers that are read before they are written: an uninitialised variable of the source.

``maybe_unset`` finds by data-flow analysis which registers some path reads before writing them; most kernels have none,
and then nothing below costs anything. For these registers and those computed from them, the machine tracks per lane
which bits are undefined (``undefined.py``). Reading such a bit is no error yet: compilers evaluate both sides of
``i < n && d > 0`` and pack halves of which one is never used. It is an error once the bit decides a branch, an address
or a stored value. The finding names the line that first read the variable.

A shuffle that reads an inactive lane returns an undefined value, too, and so does a load of shared or local memory that
was never written. A second run of such a kernel tracks these values. Unwritten memory then holds ``memory.BLANK`` in
each byte, so that a copy of it elsewhere in shared or local memory counts as unwritten, and not as a use.

What an instruction reads from a clock, or of the GPU's choices, is tracked in the same way if the launch asks for it:
the value is defined, but no result may depend on it.

The contents of an unset register are undefined. Here all its bits are set when a batch starts, as in memory
(``memory.POISON``), so that the result does not depend on earlier batches.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemm_lessons.engine.events import WARP
from gemm_lessons.engine.machine.decode import Binder, Op, Run, both
from gemm_lessons.engine.machine.memory import BLANK, LOCAL_WINDOW, SHARED_WINDOW, WINDOW_SIZE
from gemm_lessons.engine.machine.special import CHOSEN_ELSEWHERE
from gemm_lessons.engine.machine.state import State
from gemm_lessons.engine.machine.undefined import Source, any_undefined, rule_of, spread, unsigned
from gemm_lessons.engine.ptx.cfg import Block, lanes_with_address, line_of, reads, writes
from gemm_lessons.engine.ptx.fragments import Fragment, product_form
from gemm_lessons.engine.ptx.records import (
    CLOCKS,
    SIZES,
    Address,
    Immediate,
    Instruction,
    Kernel,
    Operand,
    PredicatePair,
    Register,
    Vector,
    elements_of,
    registers_in,
)
from gemm_lessons.engine.ptx.schedule import Single, Step
from gemm_lessons.engine.records.examples import Actor
from gemm_lessons.engine.records.facts import FromLane, Misuse
from gemm_lessons.engine.records.findings import Finding
from gemm_lessons.engine.semantics import table as semantics
from gemm_lessons.engine.semantics.operation import DTYPES

Array = NDArray[Any]

WORD = 4  # bytes
UNREAD = -1  # origin of a register that only moves have read


def maybe_unset(kernel: Kernel, blocks: Sequence[Block]) -> frozenset[str]:
    """Return the registers that may be unset when they are read. Registers used by barriers and calls are excluded,
    because their reads and writes are not distinguished here."""
    declared = frozenset(kernel.registers)
    successors = [[*([b.fallthrough] if b.fallthrough is not None else []), *b.targets] for b in blocks]
    exposed, given = zip(*(_exposed(block) for block in blocks), strict=True)
    known: list[frozenset[str] | None] = [None] * len(blocks)  # registers set on every path to the block's start
    known[0] = frozenset()
    work = [0]
    while work:
        number = work.pop()
        after = (known[number] or frozenset()) | given[number]
        for successor in successors[number]:
            before = known[successor]
            meet = after if before is None else before & after
            if meet != before:
                known[successor] = meet
                work.append(successor)
    found = (read - before for read, before in zip(exposed, known, strict=True) if before is not None)
    return (frozenset().union(*found) & declared) - _untracked(kernel)


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
    handled = _untracked(kernel)
    reached = set(roots)
    growing = True
    while growing:
        growing = False
        for instruction in kernel.instructions:
            if instruction.row.undefined not in ("used", "apart") and not reached.isdisjoint(reads(instruction)):
                new = writes(instruction) - handled - reached
                reached |= new
                growing |= bool(new)
    return frozenset(reached)


def _untracked(kernel: Kernel) -> set[str]:
    return {n for i in kernel.instructions if i.row.undefined == "apart" for o in i.operands for n in registers_in(o)}


def _only_copies(instruction: Instruction) -> bool:
    """Return whether an instruction only copies its source, as the compiler does where two paths join."""
    return instruction.row.undefined == "copied" and instruction.guard is None


@dataclass
class _UnsetRead:
    """A read of an unset variable: its first thread (``place``: batch and lane), and the number of reads."""

    place: tuple[int, int]
    thread: Actor
    count: int = 0


class UnsetRegisters:
    """Tracks the undefined bits of one launch. ``roots`` are unset when a batch starts; ``shuffles`` (indices) may read
    inactive lanes, ``blanks`` (indices) unwritten memory; ``asked`` (indices) read what differs elsewhere."""

    def __init__(
        self,
        state: State,
        kernel: Kernel,
        roots: frozenset[str],
        binder: Binder,
        shuffles: frozenset[int],
        blanks: frozenset[int] = frozenset(),
        asked: frozenset[int] = frozenset(),
    ) -> None:
        self._state, self._kernel, self._binder = state, kernel, binder
        self._shuffles, self._blanks, self._asked = shuffles, blanks, asked
        self._copying = copying_loads(kernel) - blanks if blanks else frozenset()  # that may read a copy
        self._roots = sorted(name for name in roots if name in state.rows)
        given = frozenset(name for index in shuffles for name in _shuffle_target(kernel.instructions[index]))
        given = given.union(*(writes(kernel.instructions[index]) for index in blanks | self._copying | asked))
        # Without bits of their own, such registers count as used.
        self._lost = frozenset(i for i in asked if not _untracked(kernel).isdisjoint(writes(kernel.instructions[i])))
        names = sorted(name for name in dependent_registers(kernel, roots | given) if name in state.rows)
        self._bits: dict[str, Array] = {}
        for name in names:
            width, _ = state.rows[name]
            self._bits[name] = np.zeros(state.lanes, np.bool_ if width == "pred" else f"u{int(width) // 8}")
        # By register and lane: the instruction that first read the unset variable that the value depends on.
        self._origin = {name: np.full(state.lanes, UNREAD, np.int32) for name in names}
        self._dirty: set[str] = set()  # registers with undefined bits in a living lane
        self._batches = 0
        self._found: dict[int, _UnsetRead] = {}  # index of the first reading instruction -> read

    def begin(self, alive: Array) -> None:
        """Mark the roots as undefined, for a new batch."""
        for name, bits in self._bits.items():
            bits[:] = False
            self._origin[name][:] = UNREAD
        for name in self._roots:
            width, row = self._state.rows[name]
            registers = self._state.files[width][row]
            registers[:] = False if width == "pred" else np.iinfo(registers.dtype).max
            bits = self._bits[name]
            bits[alive] = True if width == "pred" else np.iinfo(bits.dtype).max
        self._dirty = set(self._roots)
        self._batches += 1

    def wrap(self, step: Step, operations: list[Op]) -> list[Op]:
        """Return the operations of a step, with the tracking operations before and after them."""
        if not self._bits:
            return operations
        instructions = (step.instruction,) if isinstance(step, Single) else step.instructions
        after = [both(functools.partial(self._mark_inactive, i)) for i in instructions if i.index in self._shuffles]
        tracked = self._blanks | self._copying
        after += [both(functools.partial(self._mark_blank, i)) for i in instructions if i.index in tracked]
        after += [both(functools.partial(self._mark_asked, i)) for i in instructions if i.index in self._asked]
        return [*self._notes(instructions, operations), *operations, *after]

    def at_end(self, block: Block) -> list[Op]:
        """Return the tracking operations of the branch at the end of ``block``."""
        if not self._bits or block.terminator is None:
            return []
        return self._notes((block.terminator,), [])

    def findings(self) -> list[Finding]:
        """Return one warning per line that read an unset value."""
        by_line: dict[tuple[int | None, str], Finding] = {}
        for index, reader in self._found.items():
            instruction = self._kernel.instructions[index]
            line, file = line_of(instruction), instruction.source.file if instruction.source else ""
            if (line, file) in by_line:
                continue
            if index in self._asked:
                by_line[line, file] = self._asked_finding(instruction, reader)
                continue
            if index in self._shuffles:
                by_line[line, file] = self._shuffle_finding(instruction, reader.count)
                continue
            by_line[line, file] = Finding(
                "unset", "warning", "", line, count=reader.count, file=file, actors=(reader.thread,)
            )  # fmt: skip
        return list(by_line.values())

    def _shuffle_finding(self, instruction: Instruction, count: int) -> Finding:
        """Return the finding of a shuffle whose undefined value was used."""
        line, file = line_of(instruction), instruction.source.file if instruction.source else ""
        thread, lane = self._state.inactive_sources[instruction.index]
        facts = FromLane(lane)
        return Finding(
            "shuffle_source", "warning", "", line, count=count, file=file, actors=(thread,), facts=facts
        )  # fmt: skip

    def _asked_finding(self, instruction: Instruction, reader: _UnsetRead) -> Finding:
        """Return the finding of a value that differs elsewhere, and that matters."""
        name = min(reads(instruction) & CHOSEN_ELSEWHERE)
        line, file = line_of(instruction), instruction.source.file if instruction.source else ""
        facts = Misuse(name=name)
        case = "clock" if name in CLOCKS else "choice"
        return Finding("machine_dependent", "error", case, line, count=reader.count, file=file, facts=facts)

    def _mark_asked(self, instruction: Instruction) -> None:
        """Mark the results of an instruction that reads what differs elsewhere."""
        lanes = self._lanes(instruction)
        for name in sorted(writes(instruction) & self._bits.keys()):
            bits = self._bits[name]
            bits[lanes] = True if bits.dtype == np.bool_ else np.iinfo(bits.dtype).max
            self._origin[name][lanes] = instruction.index
            self._dirty.add(name)
        if lanes.any() and (instruction.index in self._lost or not writes(instruction)):
            self._found.setdefault(instruction.index, _UnsetRead((0, 0), self._actor(instruction.index, 0), 1))

    def _mark_inactive(self, instruction: Instruction) -> None:
        """Mark what a shuffle has read from inactive lanes as undefined."""
        lanes = self._state.undefined.get(instruction.index)
        if lanes is None or not lanes.any():
            return
        for name in _shuffle_target(instruction):
            bits = self._bits.get(name)
            if bits is not None:
                bits[lanes] = np.iinfo(bits.dtype).max
                self._origin[name][lanes] = instruction.index
                self._dirty.add(name)

    def _mark_blank(self, instruction: Instruction) -> None:
        """Mark what a load has read from unwritten memory as undefined: of one in ``blanks`` each byte, else words that
        a store has copied."""
        lanes = self._lanes(instruction)
        element = _bytes_of_element(instruction)
        extended = instruction.modifiers[-1][:1] == "s"  # the sign is undefined, too
        width = 1 if instruction.index in self._blanks else WORD
        for name in writes(instruction) & self._bits.keys():
            whole = self._bits[name]
            kind = f"b{8 * min(element, whole.dtype.itemsize)}"
            blank = _blank_parts(self._state.row(name, kind), width)
            if extended:
                whole[lanes] = spread(blank != 0, _raw(whole))[lanes]
            else:
                self._view(name, kind)[lanes] = blank[lanes]
            marked = lanes & (blank != 0)
            self._origin[name][marked] = instruction.index
            if marked.any():
                self._dirty.add(name)

    @property
    def decisive(self) -> frozenset[int]:
        """Return the loads in ``blanks`` whose values decided something: all, if a copy in memory did."""
        return self._blanks if self._copying & self._found.keys() else self._blanks & self._found.keys()

    # -- one step -----------------------------------------------------------------------------------------------------

    def _notes(self, instructions: Iterable[Instruction], operations: list[Op]) -> list[Op]:
        tracked = self._bits.keys()
        runs: list[Run] = []
        names: set[str] = set()
        for instruction in instructions:
            mine = (reads(instruction) | writes(instruction)) & tracked
            if mine:
                names |= mine
                runs.extend(self._follow(instruction, operations))
        if not runs:
            return []

        def follow() -> None:
            if not self._dirty.isdisjoint(names):
                for run in runs:
                    run()

        return [both(follow)]

    def _follow(self, instruction: Instruction, operations: list[Op]) -> Iterator[Run]:
        """Yield the closures that track one instruction before it is executed."""
        how = instruction.row.undefined
        if how == "ignored":
            return
        if how in ("used", "apart"):
            yield self._use(instruction)
            yield functools.partial(self._clear, instruction)
        elif how == "shuffled":
            yield functools.partial(self._shuffle, instruction, operations)
        elif how == "voted":
            yield functools.partial(self._vote, instruction)
        elif how == "multiplied":
            yield functools.partial(self._multiply, instruction)
        elif how == "accumulated":
            yield functools.partial(self._accumulate, instruction)
        elif how == "copied":
            yield functools.partial(self._move, instruction)
        else:
            yield self._compute(instruction)

    def _lanes(self, instruction: Instruction) -> Array:
        """Return the mask of lanes that execute an instruction now."""
        state = self._state
        active = state.alive if state.active is None else state.active
        if instruction.guard is None:
            return active
        lanes: Array = active & (state.row(instruction.guard.name, "pred") != instruction.guard_negated)
        return lanes

    def _view(self, name: str, code: str) -> Array:
        """Return the undefined bits of a register as an instruction of type ``code`` reads them, as raw bits."""
        bits = self._bits[name]
        size = np.dtype(DTYPES[code]).itemsize
        if bits.dtype == np.bool_ or size >= bits.dtype.itemsize:
            return bits
        return np.asarray(bits.view(f"u{size}")[:: bits.dtype.itemsize // size])

    def _source(self, operand: Operand | None, code: str) -> Source:
        """Return an operand with its undefined bits."""
        register, negated = operand, False
        if isinstance(operand, PredicatePair):
            register, negated = operand.first, operand.negated
        if not isinstance(register, (Register, Immediate)) and operand is not None:
            return Source(self._binder.value(operand, code), np.zeros((), unsigned(np.zeros((), DTYPES[code])).dtype))
        if isinstance(register, Register) and register.name in CLOCKS:  # no array holds it; all its bits are defined
            return Source(*[np.zeros((), unsigned(np.zeros((), DTYPES[code])).dtype)] * 2)
        value = self._binder.value(register, code)
        if isinstance(register, Register) and register.name in self._bits:
            undefined = self._view(register.name, code)
        else:
            undefined = np.zeros((), unsigned(np.zeros((), DTYPES[code])).dtype)
        return Source(np.invert(value) if negated else value, undefined)

    # -- what instructions do -----------------------------------------------------------------------------------------

    def _compute(self, instruction: Instruction) -> Run:
        """Return the closure that tracks an instruction from the table of ``semantics``."""
        first = instruction.operands[0]
        targets = (first.first, first.second) if isinstance(first, PredicatePair) else (first,)
        operation = semantics.lookup(instruction.opcode, instruction.modifiers, len(targets))
        if operation is None:
            return functools.partial(self._all_or_nothing, instruction)
        rule = rule_of(instruction, operation)
        operands = list(zip(instruction.operands[1:], operation.sources, strict=False))

        def run() -> None:
            sources = [self._source(operand, code) for operand, code in operands]
            if any(np.any(source.undefined) for source in sources):
                masks = [np.broadcast_to(mask, (self._state.lanes,)) for mask in rule(sources)]
            else:
                masks = [np.zeros(self._state.lanes, np.bool_)] * len(targets)
            for target, mask, code in zip(targets, masks, operation.result, strict=False):
                if isinstance(target, Register):
                    extended = mask.view(f"i{mask.dtype.itemsize}") if code[0] == "s" else mask
                    self._write(instruction, target.name, extended)

        return run

    def _all_or_nothing(self, instruction: Instruction) -> None:
        """Make the whole result undefined if any source bit is."""
        lanes: Any = np.zeros(self._state.lanes, np.bool_)
        for operand in instruction.operands[1:]:
            for name in registers_in(operand):
                if name in self._bits:
                    lanes = lanes | (self._bits[name] != 0)
        self._write_all(instruction, lanes)

    def _move(self, instruction: Instruction) -> None:
        target, operand = instruction.operands
        code = instruction.modifiers[-1]
        if isinstance(operand, Vector):
            part = f"u{SIZES[code] * 8 // len(operand.elements)}"
            parts = [self._source(element, part).undefined for element in operand.elements]
            mask = np.zeros((self._state.lanes, len(parts)), DTYPES[part])
            for place, undefined in enumerate(parts):
                mask[:, place] = undefined
            whole = mask.reshape(-1).view(f"u{SIZES[code]}")
            if isinstance(target, Register):
                self._write(instruction, target.name, whole)
            return
        mask = np.broadcast_to(self._source(operand, code).undefined, (self._state.lanes,))
        if isinstance(target, Vector):
            split = np.ascontiguousarray(mask).view(f"u{SIZES[code] // len(target.elements)}")
            columns = split.reshape(-1, len(target.elements))
            for place, element in enumerate(target.elements):
                if isinstance(element, Register):
                    self._write(instruction, element.name, columns[:, place])
        elif isinstance(target, Register):
            self._write(instruction, target.name, mask)

    def _shuffle(self, instruction: Instruction, operations: list[Op]) -> None:
        """Shuffle the masks by executing the instruction itself on masks instead of values."""
        first, data, *how = instruction.operands
        target = first.first if isinstance(first, PredicatePair) else first
        if not isinstance(data, Register) or not isinstance(target, Register):
            return self._all_or_nothing(instruction)
        state = self._state
        open_lanes = any_undefined([self._source(operand, "u32") for operand in how])
        if data.name in {name for operand in how for name in registers_in(operand)}:
            return self._all_or_nothing(instruction)
        names = {data.name, target.name, *writes(instruction)}
        kept = {name: state.files[state.rows[name][0]][state.rows[name][1]].copy() for name in names}
        state.row(data.name, "b32")[...] = self._source(data, "b32").undefined
        for full, _ in operations[:1]:
            full()
        mask = state.row(target.name, "b32").copy()
        for name, values in kept.items():
            state.files[state.rows[name][0]][state.rows[name][1]][...] = values
        self._write(instruction, target.name, mask | spread(open_lanes, "b32"))
        return None

    def _vote(self, instruction: Instruction) -> None:
        """Make a warp's common result undefined if a source bit of an executing lane is; of a ballot, only that lane's
        bit."""
        active = self._lanes(instruction)
        lanes: Any = np.zeros(self._state.lanes, np.bool_)
        for operand in instruction.operands[1:]:
            for name in registers_in(operand):
                if name in self._bits:
                    lanes = lanes | (self._bits[name] != 0)
        warps = (lanes & active).reshape(-1, WARP)
        if "ballot" in instruction.modifiers and isinstance(instruction.operands[0], Register):
            bits = np.packbits(warps, axis=1, bitorder="little").view(np.uint32).reshape(-1)
            self._write(instruction, instruction.operands[0].name, np.repeat(bits, WARP))
        else:
            self._write_all(instruction, np.repeat(warps.any(axis=1), WARP))

    def _multiply(self, instruction: Instruction) -> None:
        """Make an element of a product undefined if any bit of its row of a, its column of b, or its element of c
        is."""
        form = product_form(instruction)
        if form is None:
            return
        targets, *sources = (elements_of(operand) for operand in instruction.operands)
        a, b, c = (
            self._undefined_matrix(elements, fragment)
            for elements, fragment in zip(sources, (form.a, form.b, form.c), strict=True)
        )
        product = c | a.any(axis=2, keepdims=True) | b.any(axis=1, keepdims=True)
        size = f"u{form.c.bits // 8}"
        spoilt = form.c.spread(np.where(product, np.iinfo(size).max, 0).astype(size))
        for number, target in enumerate(targets):
            if isinstance(target, Register):
                self._write(instruction, target.name, spoilt[:, number].reshape(-1))

    def _accumulate(self, instruction: Instruction) -> None:
        """Make the sums of a warp undefined where they were, unless the product replaces them, and wherever a register
        of A is."""
        target, left, _, adds = instruction.operands[:4]
        spoilt = np.zeros(self._state.lanes, np.bool_)
        for element in elements_of(left):
            if isinstance(element, Register) and element.name in self._bits:
                spoilt |= self._bits[element.name] != 0
        spoilt = np.repeat(spoilt.reshape(-1, WARP).any(axis=1), WARP)
        kept = np.broadcast_to(self._binder.value(adds, "pred"), spoilt.shape)
        for element in elements_of(target):
            if isinstance(element, Register) and element.name in self._bits:
                bits = self._bits[element.name]
                whole = np.iinfo(bits.dtype).max
                self._write(instruction, element.name, np.where(spoilt, whole, np.where(kept, bits, 0)))

    def _undefined_matrix(self, elements: Sequence[Operand | None], fragment: Fragment) -> Array:
        """Return which elements have undefined bits, bool (warps, rows, columns)."""
        nothing = np.zeros(self._state.lanes, f"u{fragment.width // 8}")
        bits = [self._bits.get(e.name, nothing) if isinstance(e, Register) else nothing for e in elements]
        registers = [one.astype(nothing.dtype).reshape(-1, WARP) for one in bits]
        undefined: Array = fragment.matrix(registers, f"u{fragment.bits // 8}") != 0
        return undefined

    def _clear(self, instruction: Instruction) -> None:
        """Make the results defined, because values from memory are."""
        self._write_all(instruction, np.zeros(self._state.lanes, np.bool_))

    def _write_all(self, instruction: Instruction, lanes: Array) -> None:
        for name in sorted(writes(instruction) & self._bits.keys()):
            self._write(instruction, name, spread(lanes, _raw(self._bits[name])))

    def _write(self, instruction: Instruction, name: str, mask: Array) -> None:
        """Write the undefined bits of a result to the lanes that execute. Where the guard is undefined, the whole
        result is."""
        bits = self._bits.get(name)
        if bits is None:
            return
        state = self._state
        lanes = self._lanes(instruction)
        new = mask.astype(bits.dtype) if mask.dtype != bits.dtype else mask
        guard = instruction.guard.name if instruction.guard is not None else ""
        if guard in self._dirty:
            open_lanes = self._bits[guard] & (state.alive if state.active is None else state.active)
            lanes = lanes | open_lanes
            new = np.where(open_lanes, spread(open_lanes, _raw(bits)), new)
        origin = self._origin_of(instruction, new)
        np.copyto(bits, new, where=lanes)
        np.copyto(self._origin[name], origin, where=lanes)
        if ((bits != 0) & state.alive).any():
            self._dirty.add(name)
        else:
            self._dirty.discard(name)

    def _origin_of(self, instruction: Instruction, mask: Array) -> Array:
        origin = np.full(self._state.lanes, UNREAD, np.int32)
        for name in sorted(reads(instruction) & self._dirty):
            from_here = (self._bits[name] != 0) & (origin == UNREAD)
            np.copyto(origin, self._origin[name], where=from_here)
        if not _only_copies(instruction):
            origin[(origin == UNREAD) & (mask != 0)] = instruction.index
        return origin

    # -- where it matters ---------------------------------------------------------------------------------------------

    def _use(self, instruction: Instruction) -> Run:
        """Return the closure that checks the registers an instruction needs: addresses, stored data, predicates."""
        names = sorted(reads(instruction) & self._bits.keys())
        addresses: set[str] = set()
        widths = {name: _raw(self._bits[name]) for name in names}
        if instruction.row.effect in ("store", "atomic"):
            addresses = {n for o in instruction.operands if isinstance(o, Address) for n in registers_in(o)}
            kind = instruction.modifiers[-1]
            for name in widths:
                if name not in addresses and widths[name] != "pred" and kind in SIZES and kind in DTYPES:
                    widths[name] = kind
        guard = instruction.guard.name if instruction.guard is not None else ""
        kept = self._copied(instruction)
        supplies_address = self._state.lane_index % WARP < lanes_with_address(instruction)

        def look() -> None:
            state = self._state
            active = state.alive if state.active is None else state.active
            lanes = self._lanes(instruction) & supplies_address
            for name, code in widths.items():
                if name in self._dirty:
                    undefined = self._view(name, code)
                    used = (undefined != 0) & (active if name == guard else lanes)
                    if kept is not None and name not in addresses and name != guard:
                        whole = np.iinfo(undefined.dtype).max
                        blank = _blank_parts(self._state.row(name, code), WORD) == whole
                        used = used & ~(kept() & blank & (undefined == whole))
                    self._record_use(instruction, name, used)

        return look

    def _copied(self, instruction: Instruction) -> Callable[[], Array] | None:
        """Return a function for the lanes in which a store writes to shared or local memory; None for no such store."""
        if not self._copying or instruction.opcode != "st" or "global" in instruction.modifiers:
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
        if not lanes.any():
            return
        origin = np.where(self._origin[name] == UNREAD, instruction.index, self._origin[name])
        for index in np.unique(origin[lanes]).tolist():
            here = lanes & (origin == index)
            place = self._batches, int(here.argmax())
            reader = self._found.get(index)
            if reader is None:
                reader = self._found[index] = _UnsetRead(place, self._actor(index, place[1]))
            elif place < reader.place:  # name the same thread whichever use ran first
                reader.place, reader.thread = place, self._actor(index, place[1])
            reader.count += int(np.count_nonzero(here))

    def _actor(self, index: int, lane: int) -> Actor:
        return self._state.actor(lane, self._kernel.instructions[index])


def copying_loads(kernel: Kernel) -> frozenset[int]:
    """Return the loads through which a word copied within shared or local memory can be read.

    Empty if anything but loads could read it: then a store is a use of what it stores.
    """
    found: set[int] = set()
    for instruction in kernel.instructions:
        effect, words = instruction.row.effect, {word.partition("__")[0] for word in instruction.modifiers}
        if effect == "copy" and words.isdisjoint(("bulk", "reduce")):
            continue  # from global memory
        if effect in ("load", "atomic") and not words.isdisjoint(("global", "const", "param")):
            continue
        if effect not in ("load", "atomic", "call", "copy"):
            continue
        if instruction.opcode != "ld":
            return frozenset()
        found.add(instruction.index)
    return frozenset(found)


def _bytes_of_element(instruction: Instruction) -> int:
    """Return the size of one register's worth of a load."""
    return SIZES.get(instruction.modifiers[-1], 4) if instruction.opcode == "ld" else 4


def _blank_parts(values: Array, width: int) -> Array:
    """Return a mask of the parts of ``width`` bytes, or less, that hold what unwritten memory does."""
    data = np.ascontiguousarray(unsigned(values))
    parts = data.view(f"u{min(width, data.dtype.itemsize)}")
    blank = int.from_bytes(bytes([BLANK] * parts.dtype.itemsize), "little")
    full = np.iinfo(parts.dtype).max
    mask: Array = np.where(parts == blank, parts.dtype.type(full), parts.dtype.type(0)).view(data.dtype)
    return mask


def tracks(kernel: Kernel, loads: frozenset[int]) -> bool:
    """Return whether every register computed from the results of ``loads`` is tracked."""
    reached = set().union(*(writes(kernel.instructions[index]) for index in loads | copying_loads(kernel)))
    before = 0
    while len(reached) > before:
        before = len(reached)
        for instruction in kernel.instructions:
            if instruction.row.undefined != "used" and not reached.isdisjoint(reads(instruction)):
                reached |= writes(instruction)
    return reached.isdisjoint(_untracked(kernel))


def _shuffle_target(instruction: Instruction) -> tuple[str, ...]:
    """Return the name of the register that receives a shuffle's value."""
    first = instruction.operands[0]
    target = first.first if isinstance(first, PredicatePair) else first
    return (target.name,) if isinstance(target, Register) else ()


def _raw(bits: Array) -> str:
    return "pred" if bits.dtype == np.bool_ else f"b{bits.dtype.itemsize * 8}"
