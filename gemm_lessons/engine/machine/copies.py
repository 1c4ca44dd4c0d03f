"""``cp.async``: copies from global to shared memory without registers.

The bytes move at once. Checkers find reads before the wait from the trace (``AsyncGroup``, ``Access.is_async``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from gemm_lessons.engine.events import AsyncGroup, Stored
from gemm_lessons.engine.machine.access import SpaceAccess, access_of, memoise_placement
from gemm_lessons.engine.machine.bulk import bind_bulk, bind_bulk_reduction
from gemm_lessons.engine.machine.mbarriers import bind_copies_arrive
from gemm_lessons.engine.machine.state import Fault, State
from gemm_lessons.engine.machine.tensors import bind_tensor_copy
from gemm_lessons.engine.machine.transfers import Binding
from gemm_lessons.engine.ptx.cfg import line_of
from gemm_lessons.engine.ptx.records import Address, Immediate, Instruction, Operand, PredicatePair, Register
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.errors import UnsupportedKernel
from gemm_lessons.engine.records.facts import Misuse


def bind_copy(binding: Binding) -> Callable[[], None]:
    """Bind every ``cp.async``: copies of 4 to 16 bytes per thread, bulk and tensor copies, arrivals at mbarriers."""
    instruction = binding.instruction
    words = instruction.modifiers
    if "mbarrier" in words:
        return bind_copies_arrive(binding)
    if words[1:3] == ("bulk", "tensor"):
        return bind_tensor_copy(binding)
    return (bind_bulk if words[1:2] == ("bulk",) else _bind)(binding)


def bind_reduction(binding: Binding) -> Callable[[], None]:
    """Bind ``cp.reduce.async.bulk``, also of tensors."""
    instruction = binding.instruction
    bind = bind_tensor_copy if "tensor" in instruction.modifiers else bind_bulk_reduction
    return bind(binding)


def _bind(binding: Binding) -> Callable[[], None]:
    """Bind ``cp.async`` and its commit and wait."""
    state, memory, instruction, value = binding.state, binding.memory, binding.instruction, binding.value
    modifiers = instruction.modifiers
    if modifiers[:1] == ("async",) and modifiers[1:2] and modifiers[1] in ("commit_group", "wait_group", "wait_all"):
        return _group(state, instruction)
    if modifiers[:1] != ("async",) or len(modifiers) < 4 or "shared" not in modifiers[2]:
        raise UnsupportedKernel(f"unsupported PTX: {instruction.text}", line_of(instruction))
    target, source, size, *rest = instruction.operands
    if not isinstance(target, Address) or not isinstance(source, Address) or not isinstance(size, Immediate):
        raise UnsupportedKernel(f"unsupported PTX: {instruction.text}", line_of(instruction))
    width = size.value
    if "L2__cache_hint" in modifiers:
        rest = rest[:-1]
    sizes = _bytes_to_read(state, instruction, rest[0] if rest else size, width, value)
    global_side = access_of(instruction, "global", "copy", width, source)
    read = memory.space_access(instruction, global_side, 1)
    whole = memory.space_access(instruction, global_side, width)
    partial: dict[int, SpaceAccess] = {}  # bytes read, fewer than ``width`` -> access
    access = dataclasses.replace(access_of(instruction, "shared", "copy", width, target), is_async=True)
    write = memory.space_access(instruction, access, width)
    recall = memoise_placement(state, target, memory.addresses(target, instruction), write)
    compute = memory.addresses(source, instruction)
    arena = memory.memory_of("global")
    pieces = arena[: arena.size // width * width].reshape(-1, width)
    window = memory.memory_of("shared")
    shared = window[: window.size // width * width].reshape(-1, width)
    chosen = binding.lanes()

    def fetch(lanes: Array | None, count: int) -> Array:
        """Return the first ``count`` bytes that ``lanes`` copy. Addresses must be aligned as if all bytes were read."""
        addresses = compute(lanes)
        if (addresses & (width - 1)).any():
            raise read.faults.misaligned(addresses, lanes)
        if count == width:
            return pieces.take(whole.place_global(addresses, lanes)[1], axis=0)
        if count not in partial:
            less = dataclasses.replace(global_side, width=count, whole=width)
            partial[count] = memory.space_access(instruction, less, 1)
        _, index = partial[count].place_global(addresses, lanes)
        return arena[index[:, None] + np.arange(count)]

    def run() -> None:
        lanes = chosen()
        if lanes is not None and not lanes.size:
            return
        everyone = state.lane_numbers(lanes)
        counts = np.asarray(sizes())
        counts = counts.repeat(everyone.size) if counts.ndim == 0 else counts[everyone]
        alike = bool((counts == counts[0]).all())
        if (counts > width).any():
            first = int((counts > width).argmax())
            lane, count = int(everyone[first]), int(counts[first])
            facts = Misuse(value=count - (count >> 31 << 32), limit=width)  # as a signed number of 32 bits
            raise Fault("illegal_access", "copy size", instruction, state.actor(lane, instruction), facts)
        if alike and counts[0] == width:
            data = fetch(lanes if lanes is None else everyone, width)
        else:
            data = np.zeros((everyone.size, width), np.uint8)
            for count in np.unique(counts).tolist():  # bytes that are not read are filled with zeros
                if count:
                    here = counts == count
                    data[here, :count] = fetch(None if lanes is None and alike else everyone[here], count)
        placement = recall(lanes)
        if instruction.index in state.watched:
            state.trace.append(Stored(instruction.index, everyone.copy(), data))
        shared[placement.index] = data
        state.trace.append(placement.touch)

    return run


def _bytes_to_read(
    state: State, instruction: Instruction, operand: Operand, width: int, value: Callable[[Operand | None, str], Any]
) -> Callable[[], Any]:
    """Return a function for the bytes to read per lane, from the source size or the predicate to ignore the source."""
    negated = isinstance(operand, PredicatePair)
    register = operand.first if isinstance(operand, PredicatePair) else operand
    if isinstance(register, Register) and state.rows.get(register.name, ("",))[0] == "pred":
        ignored = state.row(register.name, "pred")
        return lambda: np.where(ignored != negated, np.uint32(0), np.uint32(width))
    if isinstance(operand, PredicatePair):
        raise UnsupportedKernel(f"unsupported PTX: {instruction.text}", line_of(instruction))
    given = value(operand, "u32")
    return lambda: given


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
