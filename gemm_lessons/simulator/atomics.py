"""``atom`` and ``red`` on global and shared memory. Lanes update one after the other, in lane order.

Hardware promises no order; a kernel whose result depends on it (float sums) may differ from a GPU in the last bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemm_lessons.device import UnsupportedKernel
from gemm_lessons.simulator import semantics
from gemm_lessons.simulator.access import IGNORED_MODIFIERS, access_of
from gemm_lessons.simulator.cfg import line_of
from gemm_lessons.simulator.events import Space
from gemm_lessons.simulator.memory import SHARED_WINDOW, WINDOW_SIZE
from gemm_lessons.simulator.operation import DTYPES
from gemm_lessons.simulator.ptx import SIZES, Address, Instruction, Operand, Register, Vector
from gemm_lessons.simulator.state import State
from gemm_lessons.simulator.transfers import MemoryBinder, view_for

Array = NDArray[Any]


def _increment(old: Array, limit: Array) -> Array:
    return np.where(old >= limit, 0, old + 1).astype(old.dtype)


def _decrement(old: Array, limit: Array) -> Array:
    return np.where((old == 0) | (old > limit), limit, old - 1).astype(old.dtype)


def _operation(name: str, kind: str) -> Callable[..., Array] | None:
    table: dict[str, Callable[..., Any]] = {
        "exch": lambda old, new: new, "cas": lambda old, compare, new: np.where(old == compare, new, old),
        "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "inc": _increment, "dec": _decrement,
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


def bind_atomic(
    state: State,
    memory: MemoryBinder,
    instruction: Instruction,
    guard: Callable[[], Array | None] | None,
    value: Callable[[Operand | None, str], Any],
) -> Callable[[], None]:
    """Bind ``atom`` or ``red``. Raises ``UnsupportedKernel`` for an operation or type that is not known."""
    returns = instruction.opcode == "atom"
    kind = instruction.modifiers[-1]
    words = [m for m in instruction.modifiers[:-1] if m not in IGNORED_MODIFIERS]
    space = next((w.partition("__")[0] for w in words if w.partition("__")[0] in ("global", "shared")), "")
    name = next((w for w in words if w.partition("__")[0] not in ("global", "shared")), "")
    operation = _operation(name, kind)
    address = instruction.operands[1 if returns else 0]
    vectors = any(isinstance(operand, Vector) for operand in instruction.operands)
    if operation is None or kind not in SIZES or vectors or not isinstance(address, Address):
        raise UnsupportedKernel(f"unsupported PTX: {instruction.text}", line_of(instruction))
    sources = [value(operand, kind) for operand in instruction.operands[2 if returns else 1 :]]
    target = instruction.operands[0] if returns else None
    row = state.row(target.name, kind) if isinstance(target, Register) and target.name in state.rows else None
    chosen = memory.lanes(guard)
    compute = memory.addresses(address, instruction)
    width = SIZES[kind]
    names: tuple[Space, ...] = ("shared", "global")
    spaces = {
        n: memory.space_access(instruction, access_of(instruction, n, "atomic", width, address), width) for n in names
    }
    views = {n: view_for(memory.memory_of(n), kind, 1) for n in names}

    def update(view: Array, index: Array, lanes: Array) -> None:
        given = [s if s.ndim == 0 else s[lanes] for s in sources]
        old = np.empty(len(lanes), DTYPES[kind])
        rest = np.arange(len(lanes))
        while rest.size:  # one round per lane that shares an address
            _, first = np.unique(index[rest], return_index=True)
            now = rest[first]
            before = view[index[now]]
            old[now] = before
            view[index[now]] = operation(before, *(g if g.ndim == 0 else g[now] for g in given))
            rest = np.delete(rest, first)
        if row is not None:
            row[lanes] = old

    def shared(addresses: Array, lanes: Array) -> None:
        placement = spaces["shared"].window(addresses, lanes)
        state.trace.append(placement.touch)
        update(views["shared"], placement.index, lanes)

    def elsewhere(addresses: Array, lanes: Array) -> None:
        _, index = spaces["global"].place_global(addresses, lanes)
        update(views["global"], index, lanes)

    def run() -> None:
        lanes = chosen()
        lanes = state.lane_index if lanes is None else lanes
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
