"""The undefined bits of shared and local memory: copies of values that a load read from unwritten memory.

For each byte it keeps the undefined bits that a store put there, the value stored, and the load that the bits are from.
A byte that no longer has this value was overwritten by another instruction, and is defined. A byte with the value of
unwritten memory is unwritten, unless a store or an atomic wrote this value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from gemm_lessons.engine.events import Space
from gemm_lessons.engine.machine.access import access_of
from gemm_lessons.engine.machine.decode import Binder
from gemm_lessons.engine.machine.memory import BLANK, LOCAL_WINDOW, SHARED_WINDOW, WINDOW_SIZE
from gemm_lessons.engine.machine.state import State
from gemm_lessons.engine.machine.undefined import spread, unsigned
from gemm_lessons.engine.machine.undefined_bits import UNREAD, UndefinedBits, raw_type
from gemm_lessons.engine.ptx.records import SIZES, Address, Instruction, Operand, Register, elements_of
from gemm_lessons.engine.records.arrays import Array

WINDOWS: dict[Space, int] = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}


class _Bytes:
    """One memory: its contents, and per byte the undefined bits, the value stored and the origin."""

    def __init__(self, contents: NDArray[np.uint8]) -> None:
        self.contents = contents
        self.bits = np.zeros(contents.size, np.uint8)
        self.written = np.zeros(contents.size, np.bool_)
        self.stored = np.zeros(contents.size, np.uint8)
        self.origin = np.zeros(contents.size, np.int32)  # of bytes with undefined bits

    def undefined(self, where: Array) -> Array:
        """Return the undefined bits of the bytes ``where``."""
        return np.where(self.stored[where] == self.contents[where], self.bits[where], np.uint8(0))


class UndefinedMemory:
    """Moves undefined bits between ``bits`` of registers and memory. Its closures run before the instruction."""

    def __init__(self, state: State, binder: Binder, bits: UndefinedBits, blanks: frozenset[int]) -> None:
        self._state, self._binder, self._bits, self._blanks = state, binder, bits, blanks
        self._memories: dict[Space, _Bytes] = {"shared": _Bytes(state.shared), "local": _Bytes(state.local)}

    def reset(self) -> None:
        """Mark all bits as defined."""
        for memory in self._memories.values():
            memory.bits[:] = 0
            memory.written[:] = False

    def load(self, instruction: Instruction) -> Callable[[], None]:
        """Return the closure that marks the undefined bits that a load reads: for ``blanks``, also unwritten bytes."""
        targets, address = elements_of(instruction.operands[0]), instruction.operands[1]
        size, extended = SIZES[instruction.modifiers[-1]], instruction.modifiers[-1][:1] == "s"
        is_blank, places = instruction.index in self._blanks, self._places(instruction, address, size * len(targets))

        def run() -> None:
            for memory, lanes, flat in places():
                for number, target in enumerate(targets):
                    if not isinstance(target, Register) or target.name not in self._bits.masks:
                        continue
                    where = _bytes_at(flat, number, size)
                    found = memory.undefined(where)
                    origin = np.where(found != 0, memory.origin[where], UNREAD).max(axis=1)
                    if is_blank:
                        unwritten = (memory.contents[where] == BLANK) & ~memory.written[where]
                        found = np.where(unwritten, np.uint8(0xFF), found)
                        origin = np.where(unwritten.any(axis=1), instruction.index, origin)
                    word = found.view(f"u{size}")[:, 0]
                    if word.any():
                        mask = self._bits.masks[target.name]
                        mask[lanes] = spread(word != 0, raw_type(mask)) if extended else word
                        self._bits.origin[target.name][lanes] = origin
                        self._bits.marked(target.name)

        return run

    def store(self, instruction: Instruction) -> Callable[[], None]:
        """Return the closure that copies the undefined bits of the stored registers to memory."""
        address, sources = instruction.operands[0], elements_of(instruction.operands[1])
        kind = instruction.modifiers[-1]
        size, places = SIZES[kind], self._places(instruction, address, SIZES[kind] * len(sources))

        def run() -> None:
            for memory, lanes, flat in places():
                for number, source in enumerate(sources):
                    where = _bytes_at(flat, number, size)
                    memory.bits[where] = 0
                    memory.written[where] = True
                    if not isinstance(source, Register) or source.name not in self._bits.dirty:
                        continue
                    value = unsigned(np.asarray(self._binder.value(source, kind))[lanes])
                    undefined = self._bits.view(source.name, kind)[lanes].astype(f"u{size}")
                    memory.bits[where] = undefined.view(np.uint8).reshape(where.shape)
                    memory.stored[where] = np.ascontiguousarray(value).view(np.uint8).reshape(where.shape)
                    memory.origin[where] = self._bits.origin[source.name][lanes][:, None]

        return run

    def update(self, instruction: Instruction, use: Callable[[Array, Array], None]) -> Callable[[], None]:
        """Return the closure of an atomic. ``use`` takes the lanes that read undefined bits, and the loads of these."""
        address = next(operand for operand in instruction.operands if isinstance(operand, Address))
        size = SIZES.get(instruction.modifiers[-1], 4)
        places = self._places(instruction, address, size)

        def run() -> None:
            for memory, lanes, flat in places():
                where = _bytes_at(flat, 0, size)
                undefined = memory.undefined(where)
                if undefined.any():
                    use(lanes, np.where(undefined != 0, memory.origin[where], UNREAD).max(axis=1))
                memory.bits[where] = 0
                memory.written[where] = True

        return run

    def _places(
        self, instruction: Instruction, address: Operand | None, width: int
    ) -> Callable[[], Iterator[tuple[_Bytes, Array, Array]]]:
        """Return a function that yields each memory that an instruction accesses now, its lanes and first bytes."""
        assert isinstance(address, Address)
        words = {word.partition("__")[0] for word in instruction.modifiers}
        compute = self._binder.memory.addresses(address, instruction)
        accesses = {name: access_of(instruction, name, "load", width, address) for name in WINDOWS}
        spaces = {name: self._binder.memory.space_access(instruction, it, 1) for name, it in accesses.items()}

        def places() -> Iterator[tuple[_Bytes, Array, Array]]:
            lanes = np.flatnonzero(self._bits.executing(instruction))
            if not lanes.size:
                return
            at = compute(lanes)
            for name, start in WINDOWS.items():
                if words & WINDOWS.keys():
                    inside, first = np.full(lanes.shape, name in words), 0
                else:
                    inside, first = (at >= start) & (at < start + WINDOW_SIZE), start
                if inside.any():
                    index = spaces[name].window(at[inside] - first, lanes[inside]).index
                    yield self._memories[name], lanes[inside], index

        return places


def _bytes_at(flat: Array, number: int, size: int) -> Array:
    """Return the places of the bytes of element ``number`` for each lane, shape (lanes, size)."""
    return flat[:, None] + number * size + np.arange(size)
