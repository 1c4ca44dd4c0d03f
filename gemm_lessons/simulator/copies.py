"""``cp.async``: global to shared memory without registers. The bytes move at once; that a thread may only read them
after its wait is checked from the trace (``AsyncGroup`` records, ``Access.is_async``)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemm_lessons.device import UnsupportedKernel
from gemm_lessons.simulator.access import access_of, remember
from gemm_lessons.simulator.cfg import line_of
from gemm_lessons.simulator.events import AsyncGroup
from gemm_lessons.simulator.ptx import Address, Immediate, Instruction, Operand
from gemm_lessons.simulator.state import State
from gemm_lessons.simulator.transfers import MemoryBinder

Array = NDArray[Any]


def bind_async_copy(
    state: State,
    memory: MemoryBinder,
    instruction: Instruction,
    guard: Callable[[], Array | None] | None,
    value: Callable[[Operand | None, str], Any],
) -> Callable[[], None]:
    """Bind ``cp.async`` and its commit and wait."""
    modifiers = instruction.modifiers
    if modifiers[0] == "async" and modifiers[1] in ("commit_group", "wait_group", "wait_all"):
        return _group(state, instruction)
    if modifiers[:1] != ("async",) or "bulk" in modifiers or "mbarrier" in modifiers or "shared" not in modifiers[2]:
        raise UnsupportedKernel(f"unsupported PTX: {instruction.text}", line_of(instruction))
    target, source, size, *rest = instruction.operands
    if not isinstance(target, Address) or not isinstance(source, Address) or not isinstance(size, Immediate):
        raise UnsupportedKernel(f"unsupported PTX: {instruction.text}", line_of(instruction))
    width = size.value
    # A source smaller than the copy is filled with zeros; a size of 0 reads nothing.
    given: Any = value(rest[0], "u32") if rest else np.uint32(width)
    read = memory.space_access(instruction, access_of(instruction, "global", "copy", width, source), 1)
    access = dataclasses.replace(access_of(instruction, "shared", "copy", width, target), is_async=True)
    write = memory.space_access(instruction, access, width)
    recall = remember(state, target, memory.addresses(target, instruction), write)
    compute = memory.addresses(source, instruction)
    arena = memory.memory_of("global")
    window = memory.memory_of("shared")
    shared = window[: window.size // width * width].reshape(-1, width)
    chosen = memory.lanes(guard)
    column = np.arange(width)

    def run() -> None:
        lanes = chosen()
        if lanes is not None and not lanes.size:
            return
        everyone = state.lane_index if lanes is None else lanes
        sizes = np.broadcast_to(given if np.ndim(given) == 0 else given[everyone], everyone.shape)
        reading = everyone[sizes > 0]
        data = np.zeros((everyone.size, width), np.uint8)
        if reading.size:
            complete = lanes is None and reading.size == everyone.size
            _, index = read.place_global(compute(None if complete else reading), None if complete else reading)
            bytes_read = arena[np.minimum(index[:, None] + column, arena.size - 1)]
            data[sizes > 0] = np.where(column < sizes[sizes > 0][:, None], bytes_read, 0)
        placement = recall(lanes)
        shared[placement.index] = data
        state.trace.append(placement.touch)

    return run


def _group(state: State, instruction: Instruction) -> Callable[[], None]:
    line = line_of(instruction)
    commit = instruction.modifiers[1] == "commit_group"
    first = instruction.operands[0] if instruction.operands else None
    pending = first.value if isinstance(first, Immediate) else 0
    if instruction.modifiers[1] == "wait_all":
        pending = -1

    def run() -> None:
        lanes = None if state.active is None else state.active.copy()
        state.trace.append(AsyncGroup("commit" if commit else "wait", pending, lanes, line))

    return run
