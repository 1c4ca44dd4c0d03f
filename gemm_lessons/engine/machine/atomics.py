"""``atom`` and ``red`` on global and shared memory. Lanes update one after the other, in lane order.

Hardware guarantees no order; a kernel whose result depends on it (float sums) may differ from a GPU in the last bits.
Lanes are sorted by address. Integer sums and exchanges process all lanes at once; ``cas``, ``inc`` and ``dec`` on
integers one lane at a time. Other operations proceed address by address or, when there are more addresses than lanes
per address, one lane of every address at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gemm_lessons.engine.events import Space
from gemm_lessons.engine.machine.access import IGNORED_MODIFIERS, access_of
from gemm_lessons.engine.machine.memory import SHARED_WINDOW, WINDOW_SIZE
from gemm_lessons.engine.machine.state import Fault
from gemm_lessons.engine.machine.transfers import Binding, view_for
from gemm_lessons.engine.ptx.cfg import line_of
from gemm_lessons.engine.ptx.records import SIZES, Address, Register, Vector, elements_of
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.errors import UnsupportedKernel
from gemm_lessons.engine.semantics import table as semantics
from gemm_lessons.engine.semantics.operation import DTYPES


def operation_of(name: str, kind: str) -> Callable[..., Array] | None:
    """Return the function from the old value and the operands to the new value, or None if it is unknown."""
    table: dict[str, Callable[..., Any]] = {
        "exch": lambda old, new: new, "cas": lambda old, compare, new: np.where(old == compare, new, old),
        "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
        "inc": lambda old, limit: np.where(old >= limit, 0, old + 1).astype(old.dtype),
        "dec": lambda old, limit: np.where((old == 0) | (old > limit), limit, old - 1).astype(old.dtype),
    }  # fmt: skip
    if name in table:
        return table[name]
    if name not in ("add", "min", "max"):
        return None
    rounding = ("rn",) if kind[0] in "fb" and kind != "b32" and name == "add" else ()
    operation = semantics.lookup(name, (*rounding, kind))
    if operation is None:
        return None

    def apply(old: Array, value: Array) -> Array:
        out = np.empty_like(old)
        operation.function(out, old, value)
        return out

    return apply


WIDE = "b128"
PAIR = np.dtype([("low", np.uint64), ("high", np.uint64)])
INTEGERS = frozenset(f"{letter}{bits}" for letter in "bsu" for bits in (32, 64))
# ufuncs whose ``accumulate`` returns the value after each lane's update, in lane order; also used for float sums.
ACCUMULATED: dict[str, np.ufunc] = {
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "min": np.minimum, "max": np.maximum,
}  # fmt: skip


class Updates:
    """One atomic operation on many lanes. ``apply`` updates ``view`` and returns the value that each lane found."""

    def __init__(self, name: str, kind: str, operation: Callable[..., Array]) -> None:
        self.operation = operation
        self.dtype = PAIR if kind == WIDE else np.dtype(DTYPES[kind])
        self.accumulated = ACCUMULATED.get(name) if kind in INTEGERS else None
        self.sums = name == "add" and kind in INTEGERS
        if name == "add" and kind in ("f32", "f64"):
            self.accumulated = np.add
        self.exchanges = name == "exch"
        self.scalar = _SCALAR.get(name) if kind in INTEGERS else None

    def apply(self, view: Array, index: Array, given: list[Array]) -> Array:
        """Update ``view[index]``. Each of the ``given`` operands has one value per lane, or one for all lanes."""
        order = np.argsort(index, kind="stable")
        places = index[order]
        first = np.flatnonzero(np.concatenate(([True], places[1:] != places[:-1])))
        if first.size == index.size:
            old = view[index]
            view[index] = self.operation(old, *given)
            return old
        ordered = [np.broadcast_to(g, index.shape)[order] for g in given]
        last = np.append(first[1:], index.size)
        old = np.empty(index.size, view.dtype)
        old[order] = self._ordered(view, places, first, last, ordered)
        return old

    def _ordered(self, view: Array, places: Array, first: Array, last: Array, given: list[Array]) -> Array:
        """Update lanes sorted by address. The lanes of one address begin at ``first`` and end before ``last``."""
        counts = last - first
        value = given[0]
        if self.sums:
            total = np.cumsum(value, dtype=value.dtype)
            before = total - value  # wraps around, as sums in memory do
            old: Array = np.repeat(view[places[first]] - before[first], counts) + before
            view[places[first]] = old[last - 1] + value[last - 1]
            return old
        if self.exchanges:
            old = np.empty_like(value)
            old[1:] = value[:-1]
            old[first] = view[places[first]]
            view[places[first]] = value[last - 1]
            return old
        if self.scalar is not None:
            return self._one_by_one(view, places, given)
        if self.accumulated is not None and first.size <= counts.max() and not _has_nan(view[places[first]], value):
            old = np.empty_like(value)
            for start, end in zip(first.tolist(), last.tolist(), strict=True):
                steps = self.accumulated.accumulate(np.concatenate((view[places[start : start + 1]], value[start:end])))
                if not _has_nan(steps):
                    old[start:end] = steps[:-1]
                    view[places[start]] = steps[-1]
                else:  # inf - inf: the operation decides which NaN results
                    self._rounds(view, places, old, np.arange(start, start + 1), np.arange(end, end + 1), given)
            return old
        old = np.empty_like(value)
        self._rounds(view, places, old, first, last, given)
        return old

    def _rounds(self, view: Array, places: Array, old: Array, now: Array, last: Array, given: list[Array]) -> None:
        """Update one lane of every address at a time."""
        while now.size:
            old[now] = view[places[now]]
            view[places[now]] = self.operation(old[now], *(g[now] for g in given))
            more = now + 1 < last
            now, last = now[more] + 1, last[more]

    def _one_by_one(self, view: Array, places: Array, given: list[Array]) -> Array:
        assert self.scalar is not None
        found, current, at = [], 0, -1
        for place, *operands in zip(places.tolist(), *(g.tolist() for g in given), strict=True):
            if place != at:
                if at >= 0:
                    view[at] = current
                at, current = place, view[place].item()
            found.append(current)
            current = self.scalar(current, *operands)
        view[at] = current
        return np.array(found, view.dtype)


def _has_nan(*arrays: Array) -> bool:
    return any(array.dtype.kind == "f" and bool(np.isnan(array).any()) for array in arrays)


_SCALAR: dict[str, Callable[..., int]] = {
    "cas": lambda old, compare, new: new if old == compare else old,
    "inc": lambda old, limit: 0 if old >= limit else old + 1,
    "dec": lambda old, limit: limit if old == 0 or old > limit else old - 1,
}


def _paired(low: Array, high: Array, lanes: Array) -> Array:
    """Return the two halves of 128 bits as one element per lane."""
    made = np.empty(lanes.size, PAIR)
    made["low"], made["high"] = (half if half.ndim == 0 else half[lanes] for half in (low, high))
    return made


def bind_atomic(binding: Binding) -> Callable[[], None]:
    """Bind ``atom`` or ``red``. Raise ``UnsupportedKernel`` for an unknown operation or type."""
    state, memory, instruction, value = binding.state, binding.memory, binding.instruction, binding.value
    returns = instruction.row.writes
    kind = instruction.modifiers[-1]
    words = [m for m in instruction.modifiers[:-1] if m not in IGNORED_MODIFIERS]
    space = next((w.partition("__")[0] for w in words if w.partition("__")[0] in ("global", "shared")), "")
    name = next((w for w in words if w.partition("__")[0] not in ("global", "shared")), "")
    operation = operation_of(name, kind)
    address = instruction.operands[1 if returns else 0]
    given = instruction.operands[2 if returns else 1 :]
    targets = elements_of(instruction.operands[0]) if returns else ()
    vectors = any(isinstance(operand, Vector) for operand in instruction.operands)
    pairs = kind == WIDE and name in ("exch", "cas") and all(len(elements_of(it)) == 2 for it in given)
    known = pairs or not vectors or ((name, kind, len(given)) == ("add", "f32", 1) and space != "shared")
    if operation is None or kind not in SIZES or not known or not isinstance(address, Address):
        raise UnsupportedKernel(f"unsupported PTX: {instruction.text}", line_of(instruction))
    # Each element of a vector is a separate update, except for the halves of 128 bits.
    part_kind = "b64" if pairs else kind
    sources = [[value(part, part_kind) for part in parts] for parts in zip(*map(elements_of, given), strict=True)]
    rows = [
        state.row(it.name, part_kind) if isinstance(it, Register) and it.name in state.rows else None for it in targets
    ]
    updates = Updates(name, kind, operation)
    chosen = binding.lanes()
    compute = memory.addresses(address, instruction)
    size = SIZES[kind]
    updated = 1 if pairs else len(sources)
    names: tuple[Space, ...] = ("shared", "global")
    spaces = {
        n: memory.space_access(instruction, access_of(instruction, n, "atomic", size * updated, address), size)
        for n in names
    }
    views = {n: memory.memory_of(n).view(PAIR) if pairs else view_for(memory.memory_of(n), kind, 1) for n in names}

    def update(view: Array, index: Array, lanes: Array) -> None:
        if pairs:
            old = updates.apply(view, index, [_paired(low, high, lanes) for low, high in zip(*sources, strict=True)])
            for row, half in zip(rows, ("low", "high"), strict=False):
                if row is not None:
                    row[lanes] = old[half]
            return
        for element, source in enumerate(sources):
            old = updates.apply(view, index + element, [s if s.ndim == 0 else s[lanes] for s in source])
            row = rows[element] if rows else None
            if row is not None:
                row[lanes] = old

    def shared(addresses: Array, lanes: Array) -> None:
        if vectors and not pairs:
            raise Fault("illegal_access", "atomic vector", instruction)
        placement = spaces["shared"].window(addresses, lanes)
        state.trace.append(placement.touch)
        update(views["shared"], placement.index, lanes)

    def elsewhere(addresses: Array, lanes: Array) -> None:
        _, index = spaces["global"].place_global(addresses, lanes)
        update(views["global"], index, lanes)

    def run() -> None:
        lanes = state.lane_numbers(chosen())
        if not lanes.size:
            return
        addresses = compute(lanes)
        if space == "shared":
            shared(addresses, lanes)
        elif space == "global":
            elsewhere(addresses, lanes)
        else:
            inside = (addresses >= SHARED_WINDOW) & (addresses < SHARED_WINDOW + WINDOW_SIZE)
            if inside.any():
                shared(addresses[inside] - SHARED_WINDOW, lanes[inside])
            if not inside.all():
                elsewhere(addresses[~inside], lanes[~inside])

    return run
