"""Instructions in which the lanes of a warp exchange values: shuffles, votes, matches, reductions.

Every function works on arrays of shape (warps, 32). Lanes that are not active contribute what PTX calls undefined;
here: their register's value to shuffles, nothing to votes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemm_lessons.device import UnsupportedKernel
from gemm_lessons.simulator.cfg import line_of
from gemm_lessons.simulator.events import WARP, Irregular
from gemm_lessons.simulator.operation import DTYPES
from gemm_lessons.simulator.ptx import Instruction, Operand, PredicatePair, Register
from gemm_lessons.simulator.state import Fault, State

Array = NDArray[Any]
Value = Callable[[Operand, str], Any]

LANE = np.arange(WARP, dtype=np.int64)
BIT = np.uint64(1) << LANE.astype(np.uint64)


def _unsupported(instruction: Instruction) -> UnsupportedKernel:
    return UnsupportedKernel(f"unsupported PTX: {instruction.text}", line_of(instruction))


def bind_warp(
    state: State, instruction: Instruction, value: Value, guard: Callable[[], Array | None] | None
) -> Callable[[], None]:
    """One closure for a warp instruction; it writes only lanes that take part."""
    opcode, modifiers = instruction.opcode, tuple(m for m in instruction.modifiers if m != "sync")
    first = instruction.operands[0]
    targets = (first.first, first.second) if isinstance(first, PredicatePair) else (first, None)
    arguments = instruction.operands[1:]

    def warps(operand: Operand, code: str) -> Array:
        values = value(operand, code)
        return np.broadcast_to(values, (state.lanes,)).reshape(-1, WARP)

    def participants(members: Array | None) -> Array:
        mask = guard() if guard is not None else state.active
        active = np.ones((state.warps, WARP), np.bool_) if mask is None else mask.reshape(-1, WARP)
        if members is not None:
            missing = active & ((members.astype(np.uint64) & BIT) == 0)
            if missing.any():
                lane = int(np.flatnonzero(missing.reshape(-1))[0])
                raise Fault(
                    "warp_mask",
                    f"{state.describe(lane)} executes {instruction.full_opcode}, but its member mask leaves it out",
                    instruction,
                )
            if mask is not None:
                note_absent(state, instruction, active, members)
        return active

    def write(results: tuple[Array | None, ...], active: Array) -> None:
        mask = active.reshape(-1)
        for target, result in zip(targets, results, strict=False):
            if isinstance(target, Register) and result is not None:
                code = {1: "pred", 4: "b32", 8: "b64"}[result.dtype.itemsize]
                np.copyto(state.row(target.name, code), result.reshape(-1), where=mask)

    compute = _computation(opcode, modifiers)
    if compute is None:
        raise _unsupported(instruction)
    kind = modifiers[-1] if modifiers and modifiers[-1] in DTYPES else "b32"
    codes = _operand_codes(opcode, kind)

    def run() -> None:
        operands = [warps(operand, code) for operand, code in zip(arguments, codes, strict=False)]
        members = operands[-1] if opcode not in ("activemask",) and len(operands) == len(codes) else None
        active = participants(members)
        write(compute(active, *operands), active)

    if len(arguments) != len(codes):
        raise _unsupported(instruction)
    return run


def note_absent(state: State, instruction: Instruction, active: Array, members: Array) -> None:
    """Record living lanes that the mask of an executing lane names, but that do not execute the instruction now.

    ``active`` bool and ``members`` uint32 (each lane's mask): (warps, 32).
    """
    if instruction.index in state.noted:
        return
    called = np.bitwise_or.reduce(np.where(active, members, 0).astype(np.uint64), axis=1)
    absent = ((called[:, None] & BIT) != 0) & state.staying().reshape(-1, WARP) & ~active
    if absent.any():
        state.noted.add(instruction.index)
        here = active & absent.any(axis=1)[:, None]
        source = instruction.source
        state.trace.append(
            Irregular(
                "warp", here.reshape(-1), absent.reshape(-1), line_of(instruction), file=source.file if source else ""
            )
        )


def _operand_codes(opcode: str, kind: str) -> tuple[str, ...]:
    """dtype codes of the source operands; the member mask is always last."""
    return {
        "shfl": ("b32", "u32", "u32", "u32"),
        "vote": ("pred", "u32"),
        "match": (kind, "u32"),
        "redux": (kind, "u32"),
        "elect": ("u32",),
        "activemask": (),
    }[opcode]


def _spread(per_warp: Any) -> Array:
    """(warps,) -> (warps, 32)."""
    return np.repeat(np.asarray(per_warp)[:, None], WARP, axis=1)


def _ballot(active: Array, predicate: Array) -> Array:
    """One uint32 per warp, spread over its lanes."""
    bits = ((active & predicate) * BIT).sum(axis=1, dtype=np.uint64).astype(np.uint32)
    return _spread(bits)


def _shuffle(mode: str) -> Callable[..., tuple[Array, Array]]:
    def run(active: Array, source: Array, b: Array, c: Array, members: Array) -> tuple[Array, Array]:
        b = (b & 31).astype(np.int64)
        segment = ((c >> 8) & 31).astype(np.int64)
        clamp = (c & 31).astype(np.int64)
        high = (LANE & segment) | (clamp & ~segment)
        low = LANE & segment
        if mode == "up":
            lane = LANE - b
            valid = lane >= high
        elif mode == "down":
            lane = LANE + b
            valid = lane <= high
        elif mode == "bfly":
            lane = LANE ^ b
            valid = lane <= high
        else:
            lane = low | (b & ~segment)
            valid = lane <= high
        lane = np.where(valid, lane, LANE)
        return np.take_along_axis(source, lane, axis=1), valid

    return run


def _match(active: Array, values: Array) -> Array:
    same = (values[:, :, None] == values[:, None, :]) & active[:, None, :]
    bits: Array = (same * BIT).sum(axis=2, dtype=np.uint64)
    return bits.astype(np.uint32)


def _match_any(active: Array, values: Array, members: Array) -> tuple[Array]:
    return (_match(active, values),)


def _match_all(active: Array, values: Array, members: Array) -> tuple[Array, Array]:
    everyone = _ballot(active, active)
    agree = _match(active, values) == everyone
    agreed = _spread((agree | ~active).all(axis=1))
    return np.where(agreed, everyone, np.uint32(0)), agreed


def _reduce(name: str) -> Callable[..., tuple[Array]] | None:
    table: dict[str, Any] = {
        "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }  # fmt: skip
    function = table.get(name)
    if function is None:
        return None

    def run(active: Array, values: Array, members: Array) -> tuple[Array]:
        result = np.zeros_like(values)
        for warp in np.flatnonzero(active.any(axis=1)):
            result[warp] = function.reduce(values[warp][active[warp]], dtype=values.dtype)
        return (result.view(np.uint32),)

    return run


def _vote_all(active: Array, predicate: Array, members: Array) -> tuple[Array]:
    return (_spread((predicate | ~active).all(axis=1)),)


def _vote_any(active: Array, predicate: Array, members: Array) -> tuple[Array]:
    return (_spread((predicate & active).any(axis=1)),)


def _vote_uniform(active: Array, predicate: Array, members: Array) -> tuple[Array]:
    (everyone,), (anyone,) = _vote_all(active, predicate, members), _vote_any(active, predicate, members)
    return (everyone | ~anyone,)


def _vote_ballot(active: Array, predicate: Array, members: Array) -> tuple[Array]:
    return (_ballot(active, predicate),)


def _activemask(active: Array) -> tuple[Array]:
    return (_ballot(active, active),)


def _elect(active: Array, members: Array) -> tuple[Array, Array]:
    leader = _spread(active.argmax(axis=1).astype(np.uint32))
    return leader, leader == LANE


def _computation(opcode: str, modifiers: tuple[str, ...]) -> Callable[..., tuple[Array | None, ...]] | None:
    mode = modifiers[0] if modifiers else ""
    if opcode == "shfl":
        return _shuffle(mode) if mode in ("up", "down", "bfly", "idx") else None
    if opcode == "redux":
        return _reduce(mode)
    table: dict[tuple[str, str], Callable[..., tuple[Array | None, ...]]] = {
        ("vote", "all"): _vote_all, ("vote", "any"): _vote_any, ("vote", "uni"): _vote_uniform,
        ("vote", "ballot"): _vote_ballot, ("match", "any"): _match_any, ("match", "all"): _match_all,
    }  # fmt: skip
    if opcode == "activemask":
        return _activemask
    if opcode == "elect":
        return _elect
    return table.get((opcode, mode))
