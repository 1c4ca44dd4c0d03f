"""The undefined bits of registers while a kernel runs: a mask per register and lane, propagated by each instruction.

``undefined.py`` has the rules for arithmetic; moves, shuffles, votes and products are here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from gemm_lessons.engine.events import WARP
from gemm_lessons.engine.machine.decode import Binder, Op, Run
from gemm_lessons.engine.machine.state import State
from gemm_lessons.engine.machine.undefined import Source, any_undefined, rule_of, spread, unsigned
from gemm_lessons.engine.ptx.cfg import reads, writes
from gemm_lessons.engine.ptx.fragments import Fragment, product_form
from gemm_lessons.engine.ptx.records import (
    CLOCKS,
    SIZES,
    Immediate,
    Instruction,
    Operand,
    PredicatePair,
    Register,
    Vector,
    elements_of,
    registers_in,
)
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.semantics import table as semantics
from gemm_lessons.engine.semantics.operation import DTYPES

KEPT_ANSWERS = 64  # sets of active lanes
UNREAD = -1  # origin of a register that only moves have read


class UndefinedBits:
    """The undefined bits of the registers ``names`` in one launch, none at first.

    ``masks``: by register, the undefined bits of each lane. ``origin``: by register and lane, the index of the
    instruction that first read the unset variable that the value depends on, or ``UNREAD``. ``dirty``: the registers
    with undefined bits in a living lane.
    """

    def __init__(self, state: State, binder: Binder, names: Iterable[str]) -> None:
        self._state, self._binder = state, binder
        self.masks: dict[str, Array] = {}
        for name in names:
            width, _ = state.rows[name]
            self.masks[name] = np.zeros(state.lanes, np.bool_ if width == "pred" else f"u{int(width) // 8}")
        self.origin = {name: np.full(state.lanes, UNREAD, np.int32) for name in self.masks}
        self.dirty: set[str] = set()
        self._marks = 0  # how often bits may have become undefined
        self.lost: Callable[[Instruction, str, Array], None] = lambda instruction, name, mask: None  # without a mask

    def reset(self) -> None:
        """Mark all bits as defined."""
        for name, mask in self.masks.items():
            mask[:] = False
            self.origin[name][:] = UNREAD
        self.dirty = set()

    def mark(self, name: str, lanes: Array, origin: int) -> None:
        """Mark a whole register as undefined in ``lanes``, first read by instruction ``origin``."""
        mask = self.masks[name]
        mask[lanes] = whole(mask)
        self.origin[name][lanes] = origin
        if lanes.any():
            self.marked(name)

    def marked(self, name: str) -> None:
        """Note that bits of a register may have become undefined."""
        self.dirty.add(name)
        self._marks += 1

    def watch(self, names: Iterable[str]) -> Callable[[], bool]:
        """Return a function that tells whether a register of ``names`` has undefined bits in an active lane.

        Registers that only other threads leave unset stay ``dirty``. Answers are kept until bits are marked.
        """
        watched, quiet = sorted(names), dict[bytes, int]()

        def undefined() -> bool:
            state = self._state
            active = state.alive if state.active is None else state.active
            key = active.tobytes()
            if quiet.get(key) == self._marks:
                return False
            lanes = np.flatnonzero(active)
            if any(name in self.dirty and bool(self.masks[name][lanes].any()) for name in watched):
                return True
            if len(quiet) >= KEPT_ANSWERS:
                quiet.clear()
            quiet[key] = self._marks
            return False

        return undefined

    def follow(self, instruction: Instruction, operations: list[Op]) -> Run:
        """Return the closure that tracks one instruction, to be called before it is executed by ``operations``."""
        how = instruction.row.undefined
        if how == "shuffled":
            return functools.partial(self._shuffle, instruction, operations)
        if how == "voted":
            return functools.partial(self._vote, instruction)
        if how == "multiplied":
            return functools.partial(self._multiply, instruction)
        if how == "accumulated":
            return functools.partial(self._accumulate, instruction)
        if how == "copied":
            return functools.partial(self._move, instruction)
        return self._compute(instruction)

    def executing(self, instruction: Instruction) -> Array:
        """Return the mask of lanes that execute an instruction now."""
        state = self._state
        active = state.alive if state.active is None else state.active
        if instruction.guard is None:
            return active
        lanes: Array = active & (state.row(instruction.guard.name, "pred") != instruction.guard_negated)
        return lanes

    def view(self, name: str, code: str) -> Array:
        """Return the undefined bits of a register as an instruction of type ``code`` reads them, as raw bits."""
        bits = self.masks[name]
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
        if isinstance(register, Register) and register.name in self.masks:
            undefined = self.view(register.name, code)
        else:
            undefined = np.zeros((), unsigned(np.zeros((), DTYPES[code])).dtype)
        return Source(np.invert(value) if negated else value, undefined)

    # -- rules by kind of instruction ---------------------------------------------------------------------------------

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
        self._write_all(instruction, self._any_undefined(instruction))

    def _any_undefined(self, instruction: Instruction) -> Array:
        """Return the lanes of which a source bit is undefined."""
        lanes = np.zeros(self._state.lanes, np.bool_)
        for operand in instruction.operands[1:]:
            for name in registers_in(operand):
                if name in self.masks:
                    lanes |= self.masks[name] != 0
        return lanes

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
        """Make a warp's result undefined if a source bit of an executing lane is; of a ballot, only that lane's bit."""
        warps = (self._any_undefined(instruction) & self.executing(instruction)).reshape(-1, WARP)
        if "ballot" in instruction.modifiers and isinstance(instruction.operands[0], Register):
            bits = np.packbits(warps, axis=1, bitorder="little").view(np.uint32).reshape(-1)
            self._write(instruction, instruction.operands[0].name, np.repeat(bits, WARP))
        else:
            self._write_all(instruction, np.repeat(warps.any(axis=1), WARP))

    def _multiply(self, instruction: Instruction) -> None:
        """Make an element of a product undefined if any bit of its row of a, its column of b, or element of c is."""
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
        """Keep the undefined bits of a warp's sums unless they are replaced; if a register of A has some, mark all."""
        target, left, _, adds = instruction.operands[:4]
        spoilt = np.zeros(self._state.lanes, np.bool_)
        for element in elements_of(left):
            if isinstance(element, Register) and element.name in self.masks:
                spoilt |= self.masks[element.name] != 0
        spoilt = np.repeat(spoilt.reshape(-1, WARP).any(axis=1), WARP)
        sources = [name for operand in instruction.operands[1:] for name in registers_in(operand)]
        origin = self._origin_of(instruction, spoilt, sources)
        kept = np.broadcast_to(self._binder.value(adds, "pred"), spoilt.shape)
        any_spoilt = spoilt.any()
        for element in elements_of(target):
            if isinstance(element, Register) and element.name in self.masks:
                if not any_spoilt and element.name not in self.dirty and instruction.guard is None:
                    continue
                bits = self.masks[element.name]
                whole = np.iinfo(bits.dtype).max
                mask = np.where(spoilt, whole, np.where(kept, bits, 0))
                own = np.where(spoilt | (bits == 0), origin, self.origin[element.name])
                self._write(instruction, element.name, mask, own)

    def _undefined_matrix(self, elements: Sequence[Operand | None], fragment: Fragment) -> Array:
        """Return which elements have undefined bits, bool (warps, rows, columns)."""
        nothing = np.zeros(self._state.lanes, f"u{fragment.width // 8}")
        bits = [self.masks.get(e.name, nothing) if isinstance(e, Register) else nothing for e in elements]
        registers = np.stack([one.astype(nothing.dtype).reshape(-1, WARP) for one in bits], axis=1)
        undefined: Array = fragment.matrix(registers, f"u{fragment.bits // 8}") != 0
        return undefined

    def clear(self, instruction: Instruction) -> None:
        """Make the results defined, because values from memory are."""
        self._write_all(instruction, np.zeros(self._state.lanes, np.bool_))

    def _write_all(self, instruction: Instruction, lanes: Array) -> None:
        for name in sorted(writes(instruction)):
            self._write(instruction, name, spread(lanes, raw_type(self.masks[name])) if name in self.masks else lanes)

    def _write(self, instruction: Instruction, name: str, mask: Array, origin: Array | None = None) -> None:
        """Write the undefined bits of a result to the lanes that execute. Where the guard is undefined, the whole
        result is. Without an ``origin``, it is that of the first register read."""
        bits = self.masks.get(name)
        if bits is None:
            return self.lost(instruction, name, mask)
        state = self._state
        lanes = self.executing(instruction)
        new = mask.astype(bits.dtype) if mask.dtype != bits.dtype else mask
        guard = instruction.guard.name if instruction.guard is not None else ""
        if guard in self.dirty:
            open_lanes = self.masks[guard] & (state.alive if state.active is None else state.active)
            lanes = lanes | open_lanes
            new = np.where(open_lanes, spread(open_lanes, raw_type(bits)), new)
        if origin is None:
            origin = self._origin_of(instruction, new, reads(instruction))
        np.copyto(bits, new, where=lanes)
        np.copyto(self.origin[name], origin, where=lanes)
        if (bits.astype(np.bool_) & lanes).any():
            self.marked(name)
        elif ((bits != 0) & state.alive).any():
            self.dirty.add(name)
        else:
            self.dirty.discard(name)
        return None

    def _origin_of(self, instruction: Instruction, mask: Array, sources: Iterable[str]) -> Array:
        origin = np.full(self._state.lanes, UNREAD, np.int32)
        for name in sorted(self.dirty.intersection(sources)):
            from_here = (self.masks[name] != 0) & (origin == UNREAD)
            np.copyto(origin, self.origin[name], where=from_here)
        if not _only_copies(instruction):
            origin[(origin == UNREAD) & (mask != 0)] = instruction.index
        return origin


def _only_copies(instruction: Instruction) -> bool:
    """Return whether an instruction only copies its source, as the compiler does where two paths join."""
    return instruction.row.undefined == "copied" and instruction.guard is None


def whole(mask: Array) -> Any:
    """Return the element of a mask that marks all bits."""
    return True if mask.dtype == np.bool_ else np.iinfo(mask.dtype).max


def raw_type(mask: Array) -> str:
    """Return the PTX type of a register as wide as an element of a mask."""
    return "pred" if mask.dtype == np.bool_ else f"b{mask.dtype.itemsize * 8}"
