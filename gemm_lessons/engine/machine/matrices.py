"""``ldmatrix``, ``stmatrix``: a warp moves matrices of 8 x 8 elements of 16 bits from and to shared memory; and
``movmatrix``, which transposes one.

Lanes 8i to 8i + 7 supply the addresses of the rows of matrix i, 16 bytes each. These addresses are checked, counted
and traced: the touch has 16 bytes for each lane that supplies an address. Lane t receives, in one register per matrix,
the elements 2 (t % 4) and 2 (t % 4) + 1 of row t / 4, or of column t / 4 if the matrix is transposed.
Source: NVIDIA, "PTX ISA" 9.0, 9.7.14.5.15.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from gemm_lessons.engine.events import WARP
from gemm_lessons.engine.machine.access import access_of, memoise_placement
from gemm_lessons.engine.machine.memory import SHARED_WINDOW
from gemm_lessons.engine.machine.state import Fault, State
from gemm_lessons.engine.machine.transfers import Binding
from gemm_lessons.engine.ptx.cfg import lanes_with_address, unsupported
from gemm_lessons.engine.ptx.records import Address, Instruction, Operand, Register, elements_of
from gemm_lessons.engine.ptx.variables import SPACES
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.facts import Misuse

SIDE = 8  # rows and columns
ROW = 16  # bytes


def bind_matrix_load(binding: Binding) -> Callable[[], None]:
    """Bind ``ldmatrix.sync.aligned.m8n8.{x1,x2,x4}{.trans}{.shared{::cta}}.b16``. Raise ``UnsupportedKernel``."""
    target, address = binding.instruction.operands[:2]
    return _bind(binding, target, address, "load")


def bind_matrix_store(binding: Binding) -> Callable[[], None]:
    """Bind ``stmatrix.sync.aligned.m8n8.{x1,x2,x4}{.trans}{.shared{::cta}}.b16``. Raise ``UnsupportedKernel``."""
    address, source = binding.instruction.operands[:2]
    return _bind(binding, source, address, "store")


def _bind(binding: Binding, target: Operand, address: Operand, effect: Literal["load", "store"]) -> Callable[[], None]:
    state, memory, instruction, guard = binding.state, binding.memory, binding.instruction, binding.guard
    transposed = _transposed(instruction)
    assert isinstance(address, Address)
    elements = elements_of(target)
    rows = [_row(state, operand, instruction) for operand in elements]
    count = len(rows)
    access = dataclasses.replace(access_of(instruction, "shared", effect, ROW, address), is_matrix=True)
    compute = offsets = memory.addresses(address, instruction)
    if not SPACES.intersection(instruction.modifiers):

        def offsets(lanes: Array | None) -> Array:
            return compute(lanes) - SHARED_WINDOW

    recall = memoise_placement(state, address, offsets, memory.space_access(instruction, access, ROW))
    window = memory.memory_of("shared").view(np.uint16).reshape(-1, SIDE)
    gives = state.lane_index % WARP < lanes_with_address(instruction)
    everyone = None if gives.all() else np.flatnonzero(gives)

    def run() -> None:
        mask = state.active if guard is None else guard()
        warps: Any = slice(None)
        lanes = everyone
        if mask is not None:
            warps = mask.reshape(-1, WARP).any(axis=1)
            if not warps.any():
                return
            asked = gives & np.repeat(warps, WARP)
            if (asked & ~mask).any():
                lane = int((asked & ~mask).argmax())
                raise missing_lane(state, instruction, mask, lane, "row")
            lanes = np.flatnonzero(asked)
        placement = recall(lanes)
        if effect == "store":
            held = np.stack([row.reshape(-1, WARP)[warps] for row in rows], axis=1)  # (warps, matrix, lane)
            stored = held.view(np.uint16).reshape(-1, SIDE, SIDE)
            window[placement.index] = (stored.swapaxes(1, 2) if transposed else stored).reshape(-1, SIDE)
            state.trace.append(placement.touch)
            return
        matrices = window[placement.index].reshape(-1, count, SIDE, SIDE)
        if transposed:
            matrices = np.ascontiguousarray(matrices.swapaxes(2, 3))
        fragments = matrices.view(np.uint32).reshape(-1, count, WARP)
        for number, row in enumerate(rows):
            if mask is None:
                row[...] = fragments[:, number].reshape(-1)
            else:
                here = mask.reshape(-1, WARP)
                row.reshape(-1, WARP)[here] = fragments[:, number][here[warps]]
        state.trace.append(placement.touch)

    return run


def bind_transpose(binding: Binding) -> Callable[[], None]:
    """Bind ``movmatrix.sync.aligned.m8n8.trans.b16``. Raise ``UnsupportedKernel``."""
    state, instruction, guard = binding.state, binding.instruction, binding.guard
    if instruction.modifiers != ("sync", "aligned", "m8n8", "trans", "b16"):
        raise unsupported(instruction)
    target, source = (_row(state, operand, instruction).reshape(-1, WARP) for operand in instruction.operands)
    present = whole_warps(state, instruction, guard, "matrix")

    def run() -> None:
        warps = present()
        if warps is not None:
            matrices = source[warps].view(np.uint16).reshape(-1, SIDE, SIDE)
            target[warps] = np.ascontiguousarray(matrices.swapaxes(1, 2)).view(np.uint32).reshape(-1, WARP)

    return run


def whole_warps(
    state: State, instruction: Instruction, guard: Callable[[], Array | None] | None, case: str
) -> Callable[[], Any]:
    """Return a function for an index of the executing warps, or None. It raises ``Fault`` if a warp is incomplete."""
    complete = bool(state.exists.all())

    def present() -> Any:
        mask = state.active if guard is None else guard()
        if mask is None:
            if complete:
                return slice(None)
            mask = state.alive
        lanes = mask.reshape(-1, WARP)
        warps = lanes.any(axis=1)
        if not lanes[warps].all():
            absent = np.repeat(warps, WARP) & ~mask
            raise missing_lane(state, instruction, mask, int(absent.argmax()), case)
        return warps if warps.any() else None

    return present


def _transposed(instruction: Instruction) -> bool:
    """Return whether the matrices are transposed. Raise ``UnsupportedKernel`` for unknown modifiers. ptxas accepts the
    middle modifiers in any order, and ``x4.trans.m8n8`` is as common as ``m8n8.x4.trans``."""
    *common, kind = instruction.modifiers
    if common[-1:] in (["shared"], ["shared__cta"]):  # else the addresses are generic
        common.pop()
    how = sorted(common[2:])
    shape = [it for it in how if it in ("x1", "x2", "x4")]
    known = common[:2] == ["sync", "aligned"] and how in (["m8n8", *shape], ["m8n8", "trans", *shape])
    if not known or len(shape) != 1 or kind != "b16":
        raise unsupported(instruction)
    return "trans" in how


def _row(state: State, operand: Any, instruction: Instruction) -> Array:
    """Return the 32-bit register that holds a fragment. Raise ``UnsupportedKernel``."""
    if not isinstance(operand, Register) or state.rows.get(operand.name, ("",))[0] != 32:
        raise unsupported(instruction)
    return state.row(operand.name, "b32")


def missing_lane(state: State, instruction: Instruction, mask: Array, lane: int, case: str) -> Fault:
    """Return the fault of a warp that executes it without ``lane``. ``case`` is "row", "matrix" or "matrices"."""
    first = lane // WARP * WARP
    who = state.actor(first + int(mask[first : first + WARP].argmax()), instruction)
    return Fault("warp_mask", case, instruction, who, Misuse(instruction.full_opcode, value=lane % WARP))
