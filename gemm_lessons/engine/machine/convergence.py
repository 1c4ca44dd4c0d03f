"""Warp instructions with a member mask: each thread waits until all living threads in its mask reach the instruction.

``__shfl_sync``, ``__ballot_sync``, ``__match_any_sync``, ``__reduce_add_sync``, ``__syncwarp`` and similar instructions
begin a basic block (``cfg.py``). Lanes that reach one are held until the other lanes in their masks arrive or end; an
instruction of the whole warp (``ldmatrix``) implies a full mask. Threads of a warp with different masks form separate
groups, as tiles of cooperative groups do. Threads whose masks name each other but that can never meet (in the two
branches of an ``if``, at a barrier) are undefined behaviour in CUDA: once no other lane can run they continue in parts,
and an ``Irregular`` is recorded.

Shuffles, votes, matches and reductions with the same qualifiers and masks meet even at different instructions: PTX
specifies it, and an H200 does it (7 loops that the compiler had split, 8 kernels with one in each branch; ptxas of
CUDA 13.0). Where a condition differs between lanes and stays the same in a loop, the compiler makes two loops of one,
each with the instructions of all lanes. If the source has two instructions, CUDA calls this undefined: an ``Irregular``
is recorded.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gemm_lessons.engine.events import WARP, Irregular
from gemm_lessons.engine.machine.state import State
from gemm_lessons.engine.ptx import synchronising_accesses
from gemm_lessons.engine.ptx.cfg import Block, line_of, synchronises_warp
from gemm_lessons.engine.ptx.records import Immediate, Instruction, Operand, PredicatePair
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.semantics.operation import DTYPES

LANE = np.arange(WARP, dtype=np.uint32)
BIT = np.uint32(1) << LANE
FULL = np.uint32(0xFFFFFFFF)
EXCHANGES = ("shfl", "vote", "match", "redux")


def ballot(truth: Array) -> Array:
    """Pack bool (lanes,) or (warps, 32) into uint32 (warps,): bit i is lane i's value."""
    packed = np.packbits(truth.reshape(-1, WARP), axis=1, bitorder="little")
    return np.ascontiguousarray(packed).view(np.uint32).reshape(-1)


def spread(per_warp: Array) -> Array:
    """Broadcast (warps,) to (warps, 32)."""
    return np.broadcast_to(per_warp[:, None], (per_warp.size, WARP))


def groups(members: Array, active: Array) -> Array:
    """Return each active lane's group: the active lanes of its warp with the same mask, uint32 (warps, 32).

    ``members`` (uint32, each lane's mask) and ``active`` (bool) have shape (warps, 32). Results of inactive lanes are
    undefined.
    """
    here = ballot(active)
    result = spread(here)
    first = np.take_along_axis(members, active.argmax(axis=1)[:, None], axis=1)
    mixed = np.flatnonzero(((members != first) & active).any(axis=1))
    if mixed.size:
        own = members[mixed]
        same = (own[:, :, None] == own[:, None, :]) & active[mixed][:, None, :]
        result = result.copy()
        result[mixed] = ballot(same.reshape(-1, WARP)).reshape(-1, WARP)
    return result


def member_mask(instruction: Instruction) -> Operand | None:
    """Return the operand with the member mask, always the last one, or a full mask where the whole warp executes."""
    if instruction.row.warp == "all":
        return Immediate(0xFFFFFFFF)
    return instruction.operands[-1] if instruction.operands else None


@dataclass(frozen=True)
class _WarpInstruction:
    instruction: Instruction
    members: Array  # uint32 (lanes,): the row of the mask's register, or one value for all lanes
    guard: Array | None
    trivial: bool  # unguarded, and the mask is the full warp


@dataclass(frozen=True)
class DivergedExchange:
    """Lanes that exchange values at several instructions: those at this one, groups, all operands; (warps, 32)."""

    lanes: Array
    group: Array
    operands: tuple[Array, ...]


class Convergence:
    """The lanes that wait at warp instructions in the current batch. ``held``: bool (lanes,)."""

    def __init__(self, state: State, blocks: Sequence[Block], value: Callable[[Operand | None, str], Any]) -> None:
        self._state, self._value, self._blocks = state, value, blocks
        self.warp_instructions: dict[int, _WarpInstruction] = {}  # by the block that begins with it
        for block in blocks:
            first = block.instructions[0] if block.instructions else None
            if first is not None and synchronises_warp(first):
                self.warp_instructions[block.number] = self._meeting(first, value)
        self._answers: dict[int, tuple[Any, Any, bool]] = {}  # memo of ``complete``: masks, living lanes, result
        self.begin()

    def _meeting(self, instruction: Instruction, value: Callable[[Operand | None, str], Any]) -> _WarpInstruction:
        mask = member_mask(instruction)
        members = np.broadcast_to(value(mask, "u32"), (self._state.lanes,))
        guard = None if instruction.guard is None else self._state.row(instruction.guard.name, "pred")
        whole = isinstance(mask, Immediate) and mask.value & 0xFFFFFFFF == 0xFFFFFFFF
        return _WarpInstruction(instruction, members, guard, whole and guard is None)

    @functools.cached_property
    def _looped(self) -> frozenset[int]:
        """Return the numbers of the blocks in loops."""
        return frozenset(block.number for loop in synchronising_accesses.loops(self._blocks) for block in loop)

    def begin(self) -> None:
        """Reset for a new batch."""
        self.held = np.zeros(self._state.lanes, np.bool_)
        self._state.apart.clear()
        self._forced = np.zeros(self._state.lanes, np.bool_)
        self._awaited = np.zeros((self._state.warps, WARP), np.uint32)  # lanes missing when a lane began to wait
        self._missed = False  # whether any entry of _awaited is set

    def complete(self, number: int) -> bool:
        """Return whether every living lane, all at block ``number``, may execute it at once."""
        meeting = self.warp_instructions.get(number)
        if meeting is None:
            return True
        if meeting.trivial:
            return not self._missed
        if self._missed:
            return False
        alive = self._state.alive
        members, before, answer = self._answers.get(number, (None, None, False))
        if meeting.guard is None and alive is before and np.array_equal(meeting.members, members):
            return answer
        lanes = alive.reshape(-1, WARP)
        answer = bool((self._ready(meeting, lanes)[0] | ~lanes).all())
        self._answers[number] = meeting.members.copy(), alive, answer
        return answer

    def gather(self, number: int, active: Array) -> Array:
        """Return the lanes of ``active``, all at block ``number``, that may execute it now. Hold the others."""
        meeting = self.warp_instructions.get(number)
        if meeting is None:
            return active
        state = self._state
        here = active.reshape(-1, WARP)
        ready, named, group = self._ready(meeting, here)
        forced = self._forced.reshape(-1, WARP)
        going = here & (ready | forced)
        waiting = here & ~going
        if waiting.any():
            new = waiting & (self._awaited == 0)
            missing = named & spread(ballot(state.not_exiting())) & ~group
            self._awaited = np.where(new, missing, self._awaited)
        if going.any():
            absent = np.where(going, self._awaited & ~group, 0)
            if absent.any():
                self._note(meeting.instruction, going, absent)
            self._awaited = np.where(going, 0, self._awaited).astype(np.uint32)
            self._forced &= ~active
        self._missed = bool(self._awaited.any())
        self.held = (self.held & ~active) | waiting.reshape(-1)
        result: Array = going.reshape(-1)
        return result

    def _ready(self, meeting: _WarpInstruction, here: Array) -> tuple[Array, Array, Array]:
        """Return (warps, 32): whether the lanes that a lane names have come or ended, those that live, its group."""
        state = self._state
        members = meeting.members.reshape(-1, WARP)
        participants = here
        passing = np.zeros_like(here)
        if meeting.guard is not None:
            holds = (meeting.guard != meeting.instruction.guard_negated).reshape(-1, WARP)
            participants, passing = here & holds, here & ~holds
        group = groups(members, participants)
        named = members & spread(ballot(state.alive))
        return (participants & ((named & ~group) == 0)) | passing, named, group

    def wake(self) -> None:
        """Release all held lanes after threads have ended, so that they check again."""
        if self.held.any():
            self.held = np.zeros(self._state.lanes, np.bool_)

    def force_progress(self, position: Array) -> bool:
        """Let the held lanes at the lowest block continue, because no lane can run. Return False if none is held."""
        if not self.held.any():
            return False
        if self._meet_apart(position):
            return True
        lowest = position[self.held].min()
        here = self.held & (position == lowest)
        self._forced = here
        self.held = self.held & ~here
        return True

    def _meet_apart(self, position: Array) -> bool:
        """Release held lanes at different instructions that together have all lanes of their masks. Prefer copies that
        the compiler made of one instruction in a loop. Return whether any lanes are released."""
        copies: dict[tuple[Any, ...], list[int]] = {}
        alike: dict[tuple[Any, ...], list[int]] = {}
        for number in np.unique(position[self.held]).tolist():
            meeting = self.warp_instructions[number]
            one = meeting.instruction
            if one.opcode in EXCHANGES and meeting.guard is None:
                if number in self._looped:
                    copies.setdefault((one.opcode, one.modifiers, one.source), []).append(number)
                alike.setdefault((one.opcode, one.modifiers), []).append(number)
        return any(self._together(it, position, False) for it in copies.values() if len(it) > 1) or any(
            self._together(it, position, True) for it in alike.values() if len(it) > 1
        )

    def _together(self, numbers: Sequence[int], position: Array, irregular: bool) -> bool:
        lanes = {number: (self.held & (position == number)).reshape(-1, WARP) for number in numbers}
        meetings = [self.warp_instructions[number] for number in numbers]
        here = np.logical_or.reduce([*lanes.values()])

        def of_each(rows: Sequence[Array]) -> Array:
            """Return the row of the instruction that each lane is at."""
            return np.select([*lanes.values()], [row.reshape(-1, WARP) for row in rows], rows[0].dtype.type(0))

        members = of_each([it.members for it in meetings])
        group = groups(members, here)
        ready = here & ((members & spread(ballot(self._state.alive)) & ~group) == 0)
        if not ready.any():
            return False
        places = range(1, len(meetings[0].instruction.operands) - 1)
        operands = tuple(of_each([self._row(it.instruction, place) for it in meetings]) for place in places)
        for number, meeting in zip(numbers, meetings, strict=True):
            if irregular:
                going = ready & lanes[number]
                self._note(meeting.instruction, going, np.where(going, group & ~spread(ballot(going)), 0))
            self._state.apart[meeting.instruction.index] = DivergedExchange(ready & lanes[number], group, operands)
        self._awaited = np.where(ready, np.uint32(0), self._awaited)
        self._missed = bool(self._awaited.any())
        self._forced |= ready.reshape(-1)
        self.held = self.held & ~ready.reshape(-1)
        return True

    def _row(self, instruction: Instruction, place: int) -> Array:
        """Return an operand of an exchange, (lanes,)."""
        operand, kind = instruction.operands[place], instruction.modifiers[-1]
        pair = operand if isinstance(operand, PredicatePair) else None
        code = "pred" if instruction.opcode == "vote" else kind if kind in DTYPES else "b32"
        row = np.broadcast_to(self._value(pair.first if pair else operand, code), (self._state.lanes,))
        return ~row if pair and pair.negated else row

    def _note(self, instruction: Instruction, going: Array, absent: Array) -> None:
        """Record living threads that are named but never arrived."""
        state = self._state
        if instruction.index in state.noted:
            return
        state.noted.add(instruction.index)
        lanes = going & (absent != 0)
        missing = np.bitwise_or.reduce(np.where(lanes, absent, 0), axis=1)
        others = (missing[:, None] & BIT) != 0
        file = instruction.source.file if instruction.source else ""
        state.trace.append(Irregular("warp", lanes.reshape(-1), others.reshape(-1), line_of(instruction), file=file))
