"""Instructions that read more than their own registers: special registers, constants, all predicates, the whole warp.

The lanes' mask gives the active lanes; ``alive`` gives the lanes that have not exited.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gemm_lessons.engine.events import WARP
from gemm_lessons.engine.machine.convergence import ballot, groups, spread
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.sass.flow import VOTED, results
from gemm_lessons.engine.sass.lanes import Lanes
from gemm_lessons.engine.sass.operand_fetch import FALSE, ZERO, Compute, split, unknown
from gemm_lessons.engine.sass.operands import (
    Constant,
    Decoded,
    MachineImmediate,
    MachineRegister,
    Operand,
    Special,
    Uncountable,
    unknown_form,
)

Alive = Callable[[], Array]
Rule = Callable[[Lanes, Alive, Decoded], Compute]


def _allow(d: Decoded, *modifiers: str) -> None:
    if not set(d.modifiers) <= set(modifiers):
        raise unknown(d)


def _active(lanes: Lanes, alive: Alive) -> Array:
    """Return the active lanes: (warps, 32)."""
    mask = lanes.mask
    living = alive()
    return (living if mask is None else mask & living).reshape(-1, WARP)


def _spread(lanes: Lanes, value: Array) -> Array:
    return np.broadcast_to(value, (lanes.geometry.lanes,))


def _special_register(lanes: Lanes, alive: Alive, d: Decoded) -> Compute:
    _allow(d, "32")
    name = d.operands[1]
    if len(d.operands) != 2 or not isinstance(name, Special):
        raise unknown_form(d)
    value = lanes.geometry.special(name.name)
    count = len(results(d)[0])
    return lambda: (value, *([ZERO] * (count - 1)))


def _load_constant(lanes: Lanes, alive: Alive, d: Decoded) -> Compute:
    source = d.operands[1]
    if len(d.operands) != 2 or len(d.modifiers) > 1 or not isinstance(source, Constant):
        raise unknown_form(d)
    kind = d.modifiers[0] if d.modifiers else "U32"
    if kind == "128":
        low, high = (lanes.constant(replace(source, offset=source.offset + at), 8) for at in (0, 8))
        return lambda: (*split(low()), *split(high()))
    if kind not in CONSTANTS:
        raise unknown(d)
    size, signed = CONSTANTS[kind]
    value = lanes.constant(source, size)
    if size == 8:
        return lambda: split(value())
    return lambda: (
        (value().view(f"i{size}").astype(np.int32).view(np.uint32) if signed else value().astype(np.uint32)),
    )


CONSTANTS = {
    "U32": (4, False),
    "64": (8, False),
    "U8": (1, False),
    "S8": (1, True),
    "U16": (2, False),
    "S16": (2, True),
}


def _byte(place: str, d: Decoded) -> int:
    """Return the bit offset of a byte of a register: "B2" -> 16."""
    if place and (len(place) != 2 or place[0] != "B" or place[1] not in "0123"):
        raise unknown(d)
    return 8 * int(place[1]) if place else 0


def _predicates_to_register(lanes: Lanes, alive: Alive, d: Decoded) -> Compute:
    """P2R R, PR, Ra, mask: the predicates of ``mask`` inserted into Ra."""
    if len(d.operands) != 4 or len(d.modifiers) > 1:
        raise unknown_form(d)
    old, mask = lanes.fetcher(d.operands[2]), d.operands[3]
    if not isinstance(mask, MachineImmediate) or d.operands[1] != Special("PR"):
        raise unknown_form(d)
    shift = _byte(d.modifiers[0] if d.modifiers else "", d)

    def compute() -> tuple[Array, ...]:
        value = old() & np.uint32(~(mask.bits << shift) & 0xFFFFFFFF)
        for number in range(7):
            if mask.bits >> number & 1:
                bit = lanes.registers.get(f"P{number}", FALSE).astype(np.uint32) << np.uint32(number + shift)
                value = value | bit
        return (value,)

    return compute


def _register_to_predicates(lanes: Lanes, alive: Alive, d: Decoded) -> Compute:
    """R2P PR, R, mask."""
    _allow(d)
    if len(d.operands) != 3 or d.operands[0] != Special("PR"):
        raise unknown_form(d)
    register, mask = d.operands[1], d.operands[2]
    if (
        not isinstance(register, MachineRegister)
        or not isinstance(mask, MachineImmediate)
        or register.negated
        or register.inverted
    ):
        raise unknown_form(d)
    shift = _byte(register.suffix, d)
    word = lanes.fetcher(MachineRegister(register.file, register.number))
    chosen = [number for number in range(7) if mask.bits >> number & 1]
    return lambda: tuple((word() >> np.uint32(number + shift)) & np.uint32(1) != 0 for number in chosen)


def _to_uniform(lanes: Lanes, alive: Alive, d: Decoded) -> Compute:
    """R2UR: one value for the warp. If the lanes' values differ, it is unspecified which one.

    A predicate before the register is set for lanes whose value differs; with ``OR``, also for those where it was set
    before. ptxas then loops until every lane's value has been selected, so selecting the first one is enough.
    """
    _allow(d, "OR")
    has_predicate = len(d.operands) == 3
    if len(d.operands) not in (2, 3) or (d.has("OR") and not has_predicate):
        raise unknown_form(d)
    if has_predicate:
        _one_predicate(d.operands[0], d)
    source = lanes.fetcher(d.operands[-1])
    before = lanes.fetcher(d.operands[0]) if d.has("OR") else lambda: np.zeros(lanes.geometry.lanes, np.bool_)
    guard = lanes.guard(d)

    def compute() -> tuple[Array, ...]:
        value, differs = source(), np.zeros(1, np.bool_)
        if value.size > 1:
            active = _active(lanes, alive)
            if guard is not None:
                active = active & np.broadcast_to(guard(), (active.size,)).reshape(-1, WARP)
            rows = value.reshape(-1, WARP)
            first = rows[np.arange(len(rows)), active.argmax(axis=1)][:, None]
            differs = ((rows != first) & active).reshape(-1)
            if differs.any() and not has_predicate:
                raise Uncountable("a uniform register is set from values that differ in a warp")
            value = np.repeat(first[:, 0], WARP)
        return (before() | differs, value) if has_predicate else (value,)

    return compute


def _one_predicate(operand: Operand, d: Decoded) -> Operand:
    if not isinstance(operand, MachineRegister) or not operand.is_predicate:
        raise unknown_form(d)
    return operand


def _vote(lanes: Lanes, alive: Alive, d: Decoded) -> Compute:
    """VOTE: the warp's active lanes whose predicate holds, as a mask and as one truth value."""
    names, count = results(d)
    if len(d.operands) != count + 1 or d.modifiers not in (("ALL",), ("ANY",), ("EQ",)):
        raise unknown(d)
    condition = lanes.fetcher(_one_predicate(d.operands[count], d))
    kind = d.modifiers[0]
    first = d.operands[0]
    only_truth = isinstance(first, MachineRegister) and first.is_predicate

    def compute() -> tuple[Array, ...]:
        active = _active(lanes, alive)
        holds = _spread(lanes, condition()).reshape(-1, WARP) & active
        ballot = (holds.astype(np.uint64) << np.arange(WARP, dtype=np.uint64)).sum(axis=1).astype(np.uint32)
        every = (holds == active).all(axis=1)
        truth = {"ALL": every, "ANY": holds.any(axis=1), "EQ": every | ~holds.any(axis=1)}[kind]
        by_lane = np.repeat(truth, WARP)
        if only_truth:
            return (by_lane,)
        return (np.repeat(ballot, WARP), *([by_lane] * (len(names) - 1)))

    return compute


def _elect(lanes: Lanes, alive: Alive, d: Decoded) -> Compute:
    """ELECT P, UR6, PT: the lowest of the lanes that execute it, and its number."""
    guard = None if d.guard is None else lanes.fetcher(d.guard)
    if len(d.operands) != 3 or d.modifiers or d.operands[2] != MachineRegister("P", None):
        raise unknown_form(d)

    def compute() -> tuple[Array, ...]:
        active = _active(lanes, alive)
        if guard is not None:
            active = active & _spread(lanes, guard()).reshape(-1, WARP)
        number = active.argmax(axis=1)
        first = number[:, None] == np.arange(WARP)
        return (first & active).reshape(-1), np.repeat(number.astype(np.uint32), WARP)

    return compute


def _phase_over(lanes: Lanes, alive: Alive, d: Decoded) -> Compute:
    """SYNCS.PHASECHK: assume that the phase has completed, since every wait ends."""
    if not d.has("PHASECHK") or len(results(d)[0]) != 1:
        raise unknown(d)
    return lambda: (np.ones(lanes.geometry.lanes, np.bool_),)


def _registers_granted(lanes: Lanes, alive: Alive, d: Decoded) -> Compute:
    """USETMAXREG.TRY_ALLOC: assume that there are enough registers, since a kernel retries until there are."""
    count = len(results(d)[0])
    return lambda: (np.ones(lanes.geometry.lanes, np.bool_),) * count


def _shuffle(lanes: Lanes, alive: Alive, d: Decoded) -> Compute:
    """SHFL: a value from another lane; lane arithmetic as for ``shfl.sync`` in "PTX ISA"."""
    if len(d.operands) != 5 or d.modifiers not in (("UP",), ("DOWN",), ("BFLY",), ("IDX",)):
        raise unknown(d)
    source, amount, limit = (lanes.fetcher(o) for o in d.operands[2:5])
    kind = d.modifiers[0]
    lane = np.arange(lanes.geometry.lanes) % WARP

    def compute() -> tuple[Array, ...]:
        step, both = amount().astype(np.int64) & 31, limit().astype(np.int64)
        segment = both >> 8 & 31
        last = (lane & segment) | (both & 31 & ~segment)
        if kind == "IDX":
            wanted = (lane & segment) | (step & ~segment)
        else:
            wanted = lane ^ step if kind == "BFLY" else lane - step if kind == "UP" else lane + step
        inside = wanted >= last if kind == "UP" else wanted <= last
        at = np.arange(lanes.geometry.lanes) - lane + np.where(inside, wanted, lane)
        return inside, _spread(lanes, source())[at]

    return compute


def _reduce(lanes: Lanes, alive: Alive, d: Decoded) -> Compute:
    """REDUX: one value of the warp's active lanes."""
    kind: Any = np.int32 if d.has("S32") else np.uint32
    limits = np.iinfo(kind)
    table: dict[str, tuple[Any, int]] = {
        "SUM": (np.add, 0), "MIN": (np.minimum, limits.max), "MAX": (np.maximum, limits.min),
        "AND": (np.bitwise_and, -1 if d.has("S32") else limits.max), "OR": (np.bitwise_or, 0),
        "XOR": (np.bitwise_xor, 0),
    }  # fmt: skip
    chosen = table.get(d.modifiers[0] if d.modifiers else "AND")
    if len(d.operands) != 2 or chosen is None or d.modifiers[1:] not in ((), ("S32",)):
        raise unknown(d)
    function, neutral = chosen
    source = lanes.fetcher(d.operands[1])

    def compute() -> tuple[Array, ...]:
        rows = _spread(lanes, source()).reshape(-1, WARP).view(kind)
        result = function.reduce(np.where(_active(lanes, alive), rows, kind(neutral)), axis=1, dtype=kind)
        return (np.repeat(result.view(np.uint32), WARP),)

    return compute


def _match(lanes: Lanes, alive: Alive, d: Decoded) -> Compute:
    """MATCH: the warp's active lanes that hold the same value (ANY), or all of them or none (ALL)."""
    names, count = results(d)
    if d.modifiers not in (("ANY",), ("ALL",)) or len(d.operands) != count + 1:
        raise unknown(d)
    source = lanes.fetcher(d.operands[count])

    def compute() -> tuple[Array, ...]:
        active = _active(lanes, alive)
        same = groups(_spread(lanes, source()).reshape(-1, WARP), active)
        if d.has("ANY"):
            return (same.reshape(-1),)
        everyone = spread(ballot(active))
        agreed = np.repeat(((same == everyone) | ~active).all(axis=1), WARP)
        mask = np.where(agreed, everyone.reshape(-1), np.uint32(0))
        return (agreed, mask)[-len(names) :]

    return compute


def _block_vote(lanes: Lanes, alive: Alive, d: Decoded) -> Compute:
    """BAR.RED.OR 0x0, P0: the number of threads of the block whose predicate holds, or whether any (OR) or all do."""
    kinds = [it for it in d.modifiers if it in ("OR", "AND", "POPC")]
    _allow(d, "RED", "DEFER_BLOCKING", *kinds)
    if len(kinds) != 1 or d.guard is not None or len(d.operands) != 2:
        raise unknown_form(d)
    condition = lanes.fetcher(_one_predicate(d.operands[1], d))
    padded = lanes.geometry.padded

    def compute() -> tuple[Array, ...]:
        living = alive()
        if lanes.mask is not None and (living & ~lanes.mask).any():
            raise Uncountable(f"not all threads vote together: {d.text}")
        active = living.reshape(-1, padded)
        holds = _spread(lanes, condition()).reshape(-1, padded) & active
        count = holds.sum(axis=1, dtype=np.uint32)
        if kinds[0] != "POPC":
            count = (holds == active).all(axis=1).astype(np.uint32) if kinds[0] == "AND" else np.minimum(count, 1)
        return (np.repeat(count, padded),)

    return compute


def _block_vote_result(lanes: Lanes, alive: Alive, d: Decoded) -> Compute:
    """B2R.RESULT R0, P0: the result of the block's last vote, as a number and as a truth value."""
    _allow(d, "RESULT")
    names, count = results(d)
    if d.modifiers != ("RESULT",) or len(d.operands) != count:
        raise unknown_form(d)

    def compute() -> tuple[Array, ...]:
        value = lanes.registers.get(VOTED, ZERO)
        return (value, value != 0)[: len(names)]

    return compute


TABLE: Mapping[str, Rule] = {
    "S2R": _special_register, "S2UR": _special_register, "CS2R": _special_register, "LDC": _load_constant,
    "ULDC": _load_constant, "P2R": _predicates_to_register, "R2P": _register_to_predicates, "R2UR": _to_uniform,
    "VOTE": _vote, "VOTEU": _vote, "SHFL": _shuffle, "REDUX": _reduce, "MATCH": _match,
    "ELECT": _elect, "SYNCS": _phase_over, "USETMAXREG": _registers_granted, "BAR": _block_vote,
    "B2R": _block_vote_result,
}  # fmt: skip
