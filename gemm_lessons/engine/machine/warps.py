"""Instructions in which the lanes of a warp exchange values: shuffles, votes, matches, reductions.

Every function works on arrays of shape (warps, 32). ``group`` (uint32) holds each lane's group: the executing lanes
with the same member mask (``convergence.py`` has waited for the lanes that the mask names). Each group has its own
result. A shuffle from a lane outside the group returns that lane's register, which PTX calls undefined. It is recorded,
and it is a finding if the value is used (``unset.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gemm_lessons.engine.events import WARP
from gemm_lessons.engine.machine.convergence import BIT, LANE, DivergedExchange, ballot, groups, spread
from gemm_lessons.engine.machine.state import Fault, State
from gemm_lessons.engine.machine.transfers import Binding
from gemm_lessons.engine.ptx.cfg import unsupported
from gemm_lessons.engine.ptx.records import Instruction, Operand, PredicatePair, Register
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.facts import Misuse
from gemm_lessons.engine.semantics.operation import DTYPES

FIRST_REDUCED = 100  # the first architecture that reduces floats
INFINITY = np.int32(0x7F800000)  # its bits
Results = tuple[Array | None, ...]


class MemberGroups:
    """The groups of lanes that execute one instruction together, memoised while masks and lanes stay the same."""

    def __init__(self, state: State, instruction: Instruction) -> None:
        all_lanes = np.ones((state.warps, WARP), np.bool_)
        self._state, self._instruction = state, instruction
        self.all_lanes = all_lanes
        self._members = self._active = self._known = np.zeros((0, WARP), np.uint32)

    def of(self, members: Array, active: Array) -> Array:
        """Return ``convergence.groups``. Raise ``Fault`` if a lane's mask does not include itself."""
        same_lanes = active is self._active or (self._active.size and (active == self._active).all())
        if same_lanes and (members == self._members).all():
            return self._known
        missing = active & ((members & BIT) == 0)
        if missing.any():
            lane = int(np.flatnonzero(missing.reshape(-1))[0])
            who = self._state.actor(lane, self._instruction)
            raise Fault("warp_mask", "own", self._instruction, who, Misuse(self._instruction.full_opcode))
        self._members, self._known = members.copy(), groups(members, active)
        self._active = active if active is self.all_lanes else active.copy()
        return self._known


def bind_warp(binding: Binding) -> Callable[[], None]:
    """Bind a warp instruction, which writes only executing lanes. Raise ``UnsupportedKernel``."""
    state, instruction, guard, value = binding.state, binding.instruction, binding.guard, binding.value
    opcode, modifiers = instruction.opcode, tuple(m for m in instruction.modifiers if m != "sync")
    first = instruction.operands[0]
    targets = (first.first, first.second) if isinstance(first, PredicatePair) else (first, None)
    arguments = instruction.operands[1:]
    compute = _computation(state, opcode, modifiers)
    if opcode == "redux" and modifiers[-1:] == ("f32",) and _number(state.target) < FIRST_REDUCED:
        raise unsupported(instruction, f"{state.target} has no")
    kind = modifiers[-1] if modifiers and modifiers[-1] in DTYPES else "b32"
    codes = {  # of the source operands; the member mask is always last
        "shfl": ("b32", "u32", "u32", "u32"),
        "vote": ("pred", "u32"),
        "match": (kind, "u32"),
        "redux": (kind, "u32"),
        "elect": ("u32",),
        "activemask": (),
    }[opcode]
    negated = opcode == "vote" and isinstance(arguments[0], PredicatePair) and arguments[0].negated
    if (
        compute is None
        or len(arguments) != len(codes)
        or (opcode != "activemask" and "sync" not in instruction.modifiers)
    ):
        raise unsupported(instruction)
    known = MemberGroups(state, instruction)

    def warps(operand: Operand, code: str) -> Array:
        if isinstance(operand, PredicatePair):
            if not negated or operand.first is None:
                raise unsupported(instruction)
            operand = operand.first
        return np.broadcast_to(value(operand, code), (state.lanes,)).reshape(-1, WARP)

    operands = [warps(operand, code) for operand, code in zip(arguments, codes, strict=True)]
    if opcode == "activemask":
        operands = [np.broadcast_to(np.uint32(0xFFFFFFFF), (state.warps, WARP))]
    *sources, members = operands

    def write(results: Results, mask: Array) -> None:
        for target, result in zip(targets, results, strict=False):
            if isinstance(target, Register) and result is not None:
                code = {1: "pred", 4: "b32", 8: "b64"}[result.dtype.itemsize]
                np.copyto(state.row(target.name, code), result.reshape(-1), where=mask)

    def run() -> None:
        mask = guard() if guard is not None else state.active
        active = known.all_lanes if mask is None else mask.reshape(-1, WARP)
        group = known.of(members, active)
        given = [~sources[0]] if negated else sources
        if instruction.index in state.apart:
            group, given = _with_others(state.apart.pop(instruction.index), active, group, given)
        results = compute(group, active, *given)
        if isinstance(compute, _Shuffle) and (compute.reads_inactive or instruction.index in state.undefined):
            _note_inactive_sources(state, instruction, compute.outside, compute.lane)
        write(results, active.reshape(-1))

    return run


def _with_others(apart: DivergedExchange, active: Array, group: Array, given: list[Array]) -> tuple[Array, list[Array]]:
    """Return groups and operands of an exchange that some of its lanes execute at other instructions."""
    whole = np.where(apart.lanes & active, apart.group, group)
    others = (np.bitwise_or.reduce(np.where(apart.lanes, apart.group, np.uint32(0)), axis=1)[:, None] & BIT) != 0
    return whole, [np.where(others, theirs, mine) for theirs, mine in zip(apart.operands, given, strict=True)]


def _note_inactive_sources(state: State, instruction: Instruction, outside: Array, source: Array) -> None:
    """Record the lanes that shuffle from an inactive lane, and one example for a message."""
    state.undefined[instruction.index] = outside.reshape(-1)
    if instruction.index not in state.inactive_sources and outside.any():
        lane = int(outside.argmax())
        state.inactive_sources[instruction.index] = state.actor(lane, instruction), int(source.reshape(-1)[lane])


def _source_lane(mode: str, b: Array, c: Array) -> tuple[Array, Array]:
    """Return the lane that each lane reads by ``shfl`` (itself if outside its segment), and whether it is inside."""
    b = (b & 31).astype(np.int64)
    segment = ((c >> 8) & 31).astype(np.int64)
    clamp = (c & 31).astype(np.int64)
    position = LANE.astype(np.int64)
    low = position & segment
    high = low | (clamp & ~segment)
    if mode == "up":
        lane = position - b
        valid = lane >= high
    elif mode == "down":
        lane = position + b
        valid = lane <= high
    elif mode == "bfly":
        lane = position ^ b
        valid = lane <= high
    else:
        lane = low | (b & ~segment)
        valid = lane <= high
    return np.where(valid, lane, position), valid


class _Shuffle:
    """``shfl`` of one instruction. The source lanes are computed again only when the operands change."""

    def __init__(self, state: State, mode: str) -> None:
        self._state, self._mode = state, mode
        self._first = np.arange(state.warps)[:, None] * WARP
        self._given: tuple[Array, Array] | None = None
        self._read: tuple[Array, Array] | None = None
        self._group: Array | None = None
        self.lane = self.outside = np.zeros((state.warps, WARP), np.int64)
        self.reads_inactive = False

    def __call__(self, group: Array, active: Array, source: Array, b: Array, c: Array) -> Results:
        fresh = self._given is None or not (np.array_equal(b, self._given[0]) and np.array_equal(c, self._given[1]))
        if fresh:
            self._given = b.copy(), c.copy()
            self.lane, valid = _source_lane(self._mode, b, c)
            self._read = self.lane + self._first, valid
        if fresh or group is not self._group:
            self._group = group
            self.outside = active & ((group >> self.lane.astype(np.uint32)) & np.uint32(1) == 0)
            self.reads_inactive = bool(self.outside.any())
        assert self._read is not None
        lanes, valid = self._read
        return np.take(np.ascontiguousarray(source).reshape(-1), lanes), valid


def _equal(group: Array, values: Array) -> Array:
    """Return, per lane, the lanes of its group that hold the same value."""
    same = values[:, :, None] == values[:, None, :]
    return ballot(same.reshape(-1, WARP)).reshape(-1, WARP) & group


def _match_all(group: Array, active: Array, values: Array) -> Results:
    differing = ballot(active & (_equal(group, values) != group))
    agreed = (spread(differing) & group) == 0
    return np.where(agreed, group, np.uint32(0)), agreed


def _reduce(name: str) -> Callable[..., Results] | None:
    table: dict[str, Any] = {
        "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }  # fmt: skip
    function = table.get(name)
    if function is None:
        return None

    def run(group: Array, active: Array, values: Array) -> Results:
        result = np.zeros_like(values)
        for members in np.unique(group[active]):  # of all warps: most have the same groups
            warps = ((group == members) & active).any(axis=1)
            inside = np.ix_(warps, (members & BIT) != 0)
            result[inside] = function.reduce(values[inside], axis=1, dtype=values.dtype, keepdims=True)
        return (result.view(np.uint32),)

    return run


def _extreme_float(name: str, modifiers: tuple[str, ...]) -> Callable[..., Results] | None:
    """Return min or max of float32, on integers of that order: -0 < +0; NaN wins with ``.NaN`` and loses without."""
    if name not in ("min", "max") or modifiers not in ((), ("abs",), ("NaN",), ("abs", "NaN")):
        return None
    reduce = _reduce(name)
    assert reduce is not None
    top = ("NaN" in modifiers) == (name == "max")
    extreme = np.int32(np.iinfo(np.int32).max if top else np.iinfo(np.int32).min)

    def run(group: Array, active: Array, values: Array) -> Results:
        bits = np.ascontiguousarray(values).view(np.int32)
        magnitude = bits & np.int32(0x7FFFFFFF)
        bits = magnitude if "abs" in modifiers else bits
        ordered = np.where(bits < 0, bits ^ np.int32(0x7FFFFFFF), bits)
        found = reduce(group, active, np.where(magnitude > INFINITY, extreme, ordered))[0]
        result = np.asarray(found).view(np.int32)
        result = np.where(result < 0, result ^ np.int32(0x7FFFFFFF), result)
        nan = (result & np.int32(0x7FFFFFFF)) > INFINITY
        return (np.where(nan, np.int32(0x7FFFFFFF), result).view(np.uint32),)

    return run


def _number(target: str) -> int:
    """Return 90 for ``sm_90a``."""
    return int("".join(character for character in target if character.isdigit()) or 0)


def _vote_uniform(group: Array, active: Array, predicate: Array) -> Results:
    yes = spread(ballot(predicate)) & group
    return ((yes == 0) | (yes == group),)


def _elect(group: Array, active: Array) -> Results:
    lowest = group & (~group + np.uint32(1))
    leader = np.where(group == 0, 0, np.log2(np.maximum(lowest, 1))).astype(np.uint32)
    return leader, leader == LANE


def _computation(state: State, opcode: str, modifiers: tuple[str, ...]) -> Callable[..., Results] | None:
    mode = modifiers[0] if modifiers else ""
    if opcode == "shfl":
        return _Shuffle(state, mode) if mode in ("up", "down", "bfly", "idx") else None
    if opcode == "redux":
        if modifiers[-1:] == ("f32",):
            return _extreme_float(mode, modifiers[1:-1])
        return _reduce(mode) if modifiers[1:] in (("u32",), ("s32",), ("b32",)) else None
    table: dict[tuple[str, str], Callable[..., Results]] = {
        ("vote", "all"): lambda group, active, holds: ((spread(ballot(~holds)) & group) == 0,),
        ("vote", "any"): lambda group, active, holds: ((spread(ballot(holds)) & group) != 0,),
        ("vote", "uni"): _vote_uniform,
        ("vote", "ballot"): lambda group, active, holds: (spread(ballot(holds)) & group,),
        ("match", "any"): lambda group, active, values: (_equal(group, values),), ("match", "all"): _match_all,
        ("activemask", mode): lambda group, active: (group,), ("elect", mode): _elect,
    }  # fmt: skip
    return table.get((opcode, mode))
