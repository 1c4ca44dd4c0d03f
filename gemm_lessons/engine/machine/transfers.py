"""Loads and stores: closures that move data between registers and memories.

``access.py`` finds each lane's bytes; this module gathers, scatters, widens and narrows them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemm_lessons.engine.events import Access, Effect, Space, Stored
from gemm_lessons.engine.machine.access import Form, Layout, SpaceAccess, access_of, form_of, memoise_placement
from gemm_lessons.engine.machine.faults import AccessFaults
from gemm_lessons.engine.machine.memory import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_SIZE
from gemm_lessons.engine.machine.state import State
from gemm_lessons.engine.ptx.cfg import line_of, unsupported
from gemm_lessons.engine.ptx.records import Address, Instruction, Operand, Register, elements_of
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.errors import UnsupportedKernel
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.semantics.operation import DTYPES

Value = Callable[[Operand | None, str], Any]


class RegisterData:
    """The registers of a load or store: one row per element, widened or narrowed as PTX specifies."""

    def __init__(self, state: State, kind: str, operands: Sequence[Operand | None], value: Callable[..., Any]) -> None:
        self.kind = kind
        self.dtype = np.dtype(DTYPES[kind])
        self.count = len(operands)
        self.operands = operands
        self.rows: list[Array | None] = []
        self._sources: list[Any] = []
        self._state, self._value = state, value
        self.block: Array | None = None

    def as_destinations(self) -> RegisterData:
        """Resolve the operands as registers to write. Raise ``UnsupportedKernel``."""
        state = self._state
        for operand in self.operands:
            if operand is None:
                self.rows.append(None)
                continue
            if not isinstance(operand, Register) or operand.name not in state.rows:
                raise UnsupportedKernel(f"register not supported here: {operand}")
            width, _ = state.rows[operand.name]
            if width == "pred":
                raise UnsupportedKernel(f"predicate {operand.name} in memory")
            if isinstance(width, int) and width > self.dtype.itemsize * 8:
                if self.kind[0] not in "bus" or self.kind == "bf16":
                    raise UnsupportedKernel(f"register {operand.name} is wider than the type {self.kind}")
                self.rows.append(state.row(operand.name, ("s" if self.kind[0] == "s" else "u") + str(width)))
            else:
                self.rows.append(state.row(operand.name, self.kind))
        placed = [state.rows[o.name] for o in self.operands if isinstance(o, Register)]
        widths = {width for width, _ in placed}
        numbers = [row for _, row in placed]
        consecutive = numbers == list(range(numbers[0], numbers[0] + self.count)) if placed else False
        if consecutive and widths == {self.dtype.itemsize * 8}:
            file = state.files[self.dtype.itemsize * 8]
            self.block = file[numbers[0] : numbers[0] + self.count].view(self.dtype)
        return self

    def as_sources(self) -> RegisterData:
        """Resolve the operands as values to read."""
        self._sources = [self._value(operand, self.kind) for operand in self.operands]
        return self

    def load(self, view: Array, index: Array, lanes: Array | None) -> None:
        """Move ``view[index]`` into the rows of ``lanes``."""
        if self.count == 1:
            row = self.rows[0]
            if row is None:
                return
            if lanes is None and row.dtype == view.dtype:
                view.take(index, None, row, "clip")
            elif lanes is None:
                row[...] = view[index]
            else:
                row[lanes] = view[index]
            return
        values = view.take(index, 0)
        if lanes is None and self.block is not None:
            self.block[...] = values.T
            return
        for element, row in enumerate(self.rows):
            if row is not None:
                if lanes is None:
                    row[...] = values[:, element]
                else:
                    row[lanes] = values[:, element]

    def store(self, view: Array, index: Array, lanes: Array | None) -> None:
        """Move the rows of ``lanes`` to ``view[index]``. Of lanes with the same address, the last one wins."""
        if self.count == 1:
            view[index] = self._pick(0, lanes)
            return
        for element in range(self.count):
            view[index, element] = self._pick(element, lanes)

    def store_and_record(self, index: int, view: Array, where: Array, lanes: Array | None) -> None:
        """Call ``store`` and append each lane's stored bytes to the trace."""
        self.store(view, where, lanes)
        lanes = self._state.lane_numbers(lanes)
        values = np.empty((lanes.size, self.count), self.dtype)
        for element in range(self.count):
            values[:, element] = self._pick(element, lanes)
        self._state.trace.append(Stored(index, lanes.copy(), values.view(np.uint8)))

    def _pick(self, element: int, lanes: Array | None) -> Any:
        source = self._sources[element]
        return source if lanes is None or source.ndim == 0 else source[lanes]


def view_for(memory: NDArray[np.uint8], kind: str, elements: int) -> Array:
    """Return the bytes of a memory as an array of ``kind``, with a second axis if a lane moves several elements."""
    typed: Array = memory.view(DTYPES[kind])
    if elements == 1:
        return typed
    return typed[: typed.size // elements * elements].reshape(-1, elements)


@dataclass(frozen=True)
class Binding:
    """An instruction to bind, and the state that its closure uses. ``guard`` returns the executing lanes (None: no
    guard); ``value`` returns an operand as an array or scalar of a dtype code."""

    state: State
    memory: MemoryBinder
    instruction: Instruction
    guard: Callable[[], Array | None] | None
    value: Value

    def lanes(self) -> Callable[[], Array | None]:
        """Return a function for the indices of the executing lanes (None = every lane of the state)."""
        return self.memory.lanes(self.guard)

    def for_lanes(self, work: Callable[[Array], None]) -> Callable[[], None]:
        """Return a closure that calls ``work`` with the numbers of the executing lanes, if there are any."""
        state, chosen = self.state, self.lanes()

        def run() -> None:
            lanes = state.lane_numbers(chosen())
            if lanes.size:
                work(lanes)

        return run

    def addresses(self, operand: Operand) -> Callable[[Array | None], Array]:
        """Return a function from lanes (None = all) to int64 byte addresses. Raise ``UnsupportedKernel``."""
        if not isinstance(operand, Address):
            raise unsupported(self.instruction)
        return self.memory.addresses(operand, self.instruction)


@dataclass(frozen=True)
class Transfer:
    """A load or store. ``move``: between registers and ``view[index]`` of a memory, for some lanes (None: all)."""

    instruction: Instruction
    form: Form
    address: Address
    effect: Effect
    move: Callable[[Array, Array, Array | None], None]


class MemoryBinder:
    """Creates one closure per load or store. ``value`` returns an operand as an array or scalar of a dtype code."""

    def __init__(self, state: State, layout: Layout, value: Callable[[Operand, str], Any]) -> None:
        self.state = state
        self.layout = layout
        self.value = value

    def space_access(self, instruction: Instruction, access: Access, unit: int) -> SpaceAccess:
        """Return the resolver of one instruction's addresses in one space."""
        nearby = self.layout.shared if access.space == "shared" else self.layout.local
        intended = functools.partial(self.layout.intended_array, instruction)
        faults = AccessFaults(self.state, self.layout.memory, instruction, access, nearby, intended)
        return SpaceAccess(self.state, self.layout.memory, instruction, access, unit, faults)

    def memory_of(self, space: str) -> NDArray[np.uint8]:
        """Return the bytes of a space."""
        if space == "shared":
            return self.state.shared
        return self.state.local if space == "local" else self.layout.memory.arena

    def addresses(self, address: Address, instruction: Instruction) -> Callable[[Array | None], Array]:
        """Return a function from lanes (None = all) to int64 byte addresses."""
        base = address.base
        if not isinstance(base, Register):
            constant = (self.layout.address(base, instruction) if base is not None else 0) + address.offset
            whole = np.full(self.state.lanes, _wrapped(constant, 64), np.int64)
            if base is not None and base.name in self.layout.shared:
                whole += self.state.rank_bits
            return lambda lanes: whole if lanes is None else whole[lanes]
        # Signed, because addresses wrap: a base before an array plus an offset into it is valid.
        width = self.state.lanes_of(base.name).itemsize * 8
        row = self.state.row(base.name, "s64" if width == 64 else "s32")
        offset = np.array(_wrapped(address.offset, width), row.dtype)

        def compute(lanes: Array | None) -> Array:
            chosen = row if lanes is None else row[lanes]
            result: Array = (chosen + offset).astype(np.int64, copy=False)  # a new array, because touches keep it
            return result

        return compute

    def lanes(self, guard: Callable[[], Array | None] | None) -> Callable[[], Array | None]:
        """Return a function for the indices of the executing lanes (None = every lane of the state)."""
        state = self.state

        def chosen() -> Array | None:
            mask = state.active if guard is None else guard()
            return None if mask is None else np.flatnonzero(mask)

        return chosen

    def load(self, instruction: Instruction, guard: Callable[[], Array | None] | None) -> Callable[[], None]:
        """Bind ``ld``."""
        form = form_of(instruction)
        target, address = instruction.operands[:2]
        data = RegisterData(self.state, form.kind, elements_of(target), self.value).as_destinations()
        return self._bound(Transfer(instruction, form, _memory(address, instruction), "load", data.load), guard)

    def store(self, instruction: Instruction, guard: Callable[[], Array | None] | None) -> Callable[[], None]:
        """Bind ``st``."""
        form = form_of(instruction)
        address, source = instruction.operands[:2]
        data = RegisterData(self.state, form.kind, elements_of(source), self.value).as_sources()
        move = data.store
        if instruction.index in self.state.watched:
            move = functools.partial(data.store_and_record, instruction.index)
        return self._bound(Transfer(instruction, form, _memory(address, instruction), "store", move), guard)

    def _bound(self, it: Transfer, guard: Callable[[], Array | None] | None) -> Callable[[], None]:
        chosen = self.lanes(guard)
        compute = self.addresses(it.address, it.instruction)
        if it.form.space in ("shared", "local"):
            return self._in_window(it, chosen, compute)
        if it.form.space in ("global", "const", "param"):
            where = self._in_global(it)

            def run_global() -> None:
                lanes = chosen()
                if lanes is None or lanes.size:
                    where(compute(lanes), lanes)

            return run_global
        return self._in_any(it, chosen, compute)

    def _side(self, it: Transfer, space: Space) -> tuple[SpaceAccess, Array]:
        """Return the address resolver of one space, and that space's bytes viewed as the transfer's elements."""
        access = access_of(it.instruction, space, it.effect, it.form.width, it.address)
        view = view_for(self.memory_of(space), it.form.kind, it.form.elements)
        return self.space_access(it.instruction, access, it.form.width), view

    def _in_global(self, it: Transfer) -> Callable[[Array, Array | None], None]:
        move = it.move
        space, view = self._side(it, "const" if it.form.space in ("const", "param") else "global")

        def run(addresses: Array, lanes: Array | None) -> None:
            _, index = space.place_global(addresses, lanes)
            move(view, index, lanes)

        return run

    def _in_window(
        self, it: Transfer, chosen: Callable[[], Array | None], compute: Callable[[Array | None], Array]
    ) -> Callable[[], None]:
        """Bind an access to shared or local memory. Patterns are memoised by base register and active lanes."""
        state, move = self.state, it.move
        space, view = self._side(it, "shared" if it.form.space == "shared" else "local")
        recall = memoise_placement(state, it.address, compute, space)

        def run() -> None:
            lanes = chosen()
            if lanes is not None and not lanes.size:
                return
            placement = recall(lanes)
            move(view, placement.index, placement.lanes)
            state.trace.append(placement.touch)

        return run

    def _in_any(
        self, it: Transfer, chosen: Callable[[], Array | None], compute: Callable[[Array | None], Array]
    ) -> Callable[[], None]:
        """Bind an access by generic addresses. Each lane's address window selects its memory."""
        state = self.state
        in_global = self._in_global(it)
        windows = [(SHARED_WINDOW, *self._side(it, "shared")), (LOCAL_WINDOW, *self._side(it, "local"))]

        def run() -> None:
            lanes = chosen()
            if lanes is not None and not lanes.size:
                return
            addresses = compute(lanes)
            everyone = state.lane_numbers(lanes)
            rest: Array | None = None  # those that no window has; None: all of them
            for start, space, view in windows:
                offsets = addresses - start
                inside = offsets.view(np.uint64) < WINDOW_SIZE  # also false below the window
                number = np.count_nonzero(inside)
                if not number:
                    continue
                whole = number == inside.size
                placement = space.window(*((offsets, everyone) if whole else (offsets[inside], everyone[inside])))
                it.move(view, placement.index, placement.lanes)
                state.trace.append(placement.touch)
                if whole:
                    return
                rest = ~inside if rest is None else rest & ~inside
            if rest is None:
                in_global(addresses, lanes)
            elif rest.any():
                in_global(addresses[rest], everyone[rest])

        return run


def _wrapped(value: int, bits: int) -> int:
    """Return ``value`` as a signed number of ``bits`` bits."""
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def _memory(operand: Operand, instruction: Instruction) -> Address:
    if not isinstance(operand, Address):
        raise UnsupportedKernel(f"unsupported PTX: {instruction.text}", line_of(instruction))
    return operand
