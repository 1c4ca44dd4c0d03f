"""``mbarrier`` and ``cp.async.mbarrier.arrive``: PTX's operations on the barriers of ``phases.py``, and the fences that
order barrier and memory accesses before copies of the async proxy.

Arrivals, waits and copies are recorded in the trace. ``checkers/bulk_copies.py`` checks from it that a thread reads
copied bytes only after it has seen the phase end.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np

from gemm_lessons.engine.compiler.diagnostics import plain_name
from gemm_lessons.engine.events import Effect, Phase, ProxyFence, Stored
from gemm_lessons.engine.machine.access import access_of, memoise_placement
from gemm_lessons.engine.machine.memory import SHARED_WINDOW
from gemm_lessons.engine.machine.phase_history import What
from gemm_lessons.engine.machine.phases import BYTES, PHASE, MbarrierMisused, pending_count
from gemm_lessons.engine.machine.state import Fault, State, coordinates
from gemm_lessons.engine.machine.transfers import Binding
from gemm_lessons.engine.ptx.cfg import line_of, unsupported
from gemm_lessons.engine.ptx.records import Address, Instruction, Operand, Register
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.facts import Mbarrier, MbarrierMisuse

# Modifiers without effect here: the threads of a block see each other's memory at once.
WITHOUT_EFFECT = frozenset("b64 shared shared__cta shared__cluster sem release acquire relaxed cta cluster".split())
MOST_BYTES = 512  # of an array of mbarriers; a larger one has tiles, too
OPERATION_EFFECT: Effect = "load"  # an operation on an existing barrier; loads never race with each other
KINDS: tuple[Literal["copies", "arrive"], ...] = ("copies", "arrive")
FORMS = {
    "init": frozenset[str](), "inval": frozenset[str](), "expect_tx": frozenset[str](),
    "complete_tx": frozenset[str](), "arrive": frozenset({"expect_tx", "noComplete"}),
    "arrive_drop": frozenset({"expect_tx", "noComplete"}), "test_wait": frozenset({"parity"}),
    "try_wait": frozenset({"parity"}), "pending_count": frozenset[str](),
}  # fmt: skip


class MbarrierFault(Fault):
    """An invalid operation of ``lane`` on the mbarrier at ``cell``."""

    def __init__(self, *about: Any, lane: int, cell: int) -> None:
        super().__init__(*about)
        self.lane, self.cell = lane, cell


@dataclasses.dataclass(frozen=True)
class Mbarriers:
    """The mbarriers that one operand of an instruction addresses. ``of`` maps lanes (n,) to cells (n,)."""

    state: State
    instruction: Instruction
    of: Callable[[Array], Array]
    arrays: Any  # name -> (offset, bytes) of shared arrays

    def offsets(self, cell: Array) -> Array:
        """Return the byte offsets of cells in their cluster's shared memory, block after block."""
        return np.asarray(cell * BYTES % (self.state.shared_stride * self.state.cluster))

    @contextmanager
    def checked(self, lanes: Array, cell: Array) -> Iterator[None]:
        """Raise the misuse of one of these mbarriers as the fault of its lane."""
        try:
            yield
        except MbarrierMisused as problem:
            raise self.misused(problem, lanes, cell) from None

    def misused(self, problem: MbarrierMisused, lanes: Array, cell: Array) -> MbarrierFault:
        """Return the fault of a lane that misuses an mbarrier."""
        lane, where = int(lanes[problem.position]), int(cell[problem.position])
        who, opcode = self.state.actor(lane, self.instruction), self.instruction.full_opcode
        home, offset = divmod(where * BYTES, self.state.shared_stride)
        mbarrier = mbarrier_at(self.arrays, offset)
        if home != lane // self.state.padded:
            other = coordinates(int(self.state.block_numbers[home]), self.state.grid.grid)
            mbarrier = dataclasses.replace(mbarrier, block=other)
        facts = MbarrierMisuse(mbarrier, opcode, problem.value, problem.limit)
        return MbarrierFault("mbarrier", problem.case, self.instruction, who, facts, lane=lane, cell=where)


def mbarrier_at(arrays: Any, offset: int) -> Mbarrier:
    """Return the mbarrier at an offset of shared memory, with its name in the source."""
    for name, (start, size) in arrays.items():
        if start <= offset < start + size:
            if (offset - start) % BYTES:
                return Mbarrier()
            if size > MOST_BYTES:
                return Mbarrier(plain_name(name), inside=offset - start)
            return Mbarrier(plain_name(name), (offset - start) // BYTES if size > BYTES else None)
    return Mbarrier(byte=offset)


def is_arrival(instruction: Instruction) -> bool:
    """Return whether an instruction arrives at an mbarrier, itself or for earlier copies."""
    return instruction.row.name in ("mbarrier.arrive", "mbarrier.arrive_drop") or (
        instruction.opcode == "cp" and "mbarrier" in instruction.modifiers
    )


def is_wait(instruction: Instruction) -> bool:
    """Return whether an instruction tests whether a phase is over."""
    return instruction.row.name in ("mbarrier.try_wait", "mbarrier.test_wait")


def reports_bytes(instruction: Instruction) -> bool:
    """Return whether an instruction is a copy or store that reports bytes to an mbarrier."""
    return instruction.row.effect == "copy" and "mbarrier__complete_tx__bytes" in instruction.modifiers


def barriers_of(binding: Binding, operand: Operand, effect: Effect, traced: bool = True) -> Mbarriers:
    """Bind an operand that is the address of an mbarrier. ``traced``: record every access to it in the trace."""
    state, memory, instruction = binding.state, binding.memory, binding.instruction
    if not isinstance(operand, Address):
        raise unsupported(instruction)
    access = dataclasses.replace(access_of(instruction, "shared", effect, BYTES, operand), is_mbarrier=True)
    space = memory.space_access(instruction, access, BYTES)
    plain = memory.addresses(operand, instruction)
    generic = not any(word.startswith("shared") for word in instruction.modifiers)

    def compute(lanes: Array | None) -> Array:
        return plain(lanes) - SHARED_WINDOW if generic else plain(lanes)

    recall = memoise_placement(state, operand, compute, space)

    def of(lanes: Array) -> Array:
        placement = recall(None if lanes is state.lane_index else lanes)
        if traced:
            state.trace.append(placement.touch)
        return placement.index

    return Mbarriers(state, instruction, of, memory.layout.shared)


def bind_mbarrier(binding: Binding) -> Callable[[], None]:
    """Bind ``mbarrier.*``. Raise ``UnsupportedKernel``."""
    state, instruction, value = binding.state, binding.instruction, binding.value
    what, *words = instruction.modifiers
    if what not in FORMS or not set(words) <= WITHOUT_EFFECT | FORMS[what]:
        raise unsupported(instruction)
    if what == "pending_count":
        return _pending_count(binding)
    if what in ("test_wait", "try_wait"):
        return _wait(binding)
    if what in ("arrive", "arrive_drop"):
        return _arrive(binding)
    address, *more = instruction.operands
    one = barriers_of(binding, address, "store" if what in ("init", "inval") else OPERATION_EFFECT)
    number = value(more[0], "s32") if more else np.int32(0)
    line = line_of(instruction)

    def run(lanes: Array) -> None:
        count = _by_lane(number, lanes)
        if instruction.index in state.watched:
            state.trace.append(Stored(instruction.index, lanes, count.astype(np.int64)[:, None].view(np.uint8)))
        cell = one.of(lanes)
        with one.checked(lanes, cell):
            if what == "init":
                state.phases.init(cell, count)
                zero = np.zeros_like(cell)
                state.trace.append(Phase("init", lanes, one.offsets(cell), zero, state.lanes, line))
            elif what == "inval":
                state.phases.invalidate(cell)
            else:
                given = count if what == "expect_tx" else -count
                phase = state.phases.announce(cell, given)
                kind: What = "announced" if what == "expect_tx" else "reported"
                state.history.note(kind, instruction.index, lanes, cell, phase, count)

    return binding.for_lanes(run)


def _arrive(binding: Binding) -> Callable[[], None]:
    state, instruction, value = binding.state, binding.instruction, binding.value
    target, address, *more = instruction.operands
    one = barriers_of(binding, address, OPERATION_EFFECT)
    announces = "expect_tx" in instruction.modifiers
    number = value(more[0], "s32") if more else np.int32(0 if announces else 1)
    drops, completes = instruction.modifiers[0] == "arrive_drop", "noComplete" not in instruction.modifiers
    row = None
    if isinstance(target, Register) and target.name in state.used:
        row = state.row(target.name, "u64")
    line = line_of(instruction)

    def run(lanes: Array) -> None:
        cell = one.of(lanes)
        given = _by_lane(number, lanes).astype(np.int64)
        once = np.ones_like(given)
        count, announced = (once, given) if announces else (given, np.zeros_like(given))
        with one.checked(lanes, cell):
            state.phases.check(cell)
            token = state.phases.token(cell, count) if row is not None else None
            phase = state.phases.arrive(cell, count, announced, drops, completes)
            state.history.note("announced", instruction.index, lanes, cell, phase, announced)
            state.history.note("arrived", instruction.index, lanes, cell, phase, count)
        if row is not None and token is not None:
            row[lanes] = np.where(phase & 1, token | PHASE, token & ~PHASE)
        state.trace.append(Phase("arrive", lanes, one.offsets(cell), phase, state.lanes, line, instruction.index))

    return binding.for_lanes(run)


def _wait(binding: Binding) -> Callable[[], None]:
    """Bind ``test_wait`` and ``try_wait``. Lanes whose phase is not over let other lanes run first."""
    state, instruction, value = binding.state, binding.instruction, binding.value
    target, address, which, *_ = instruction.operands
    one = barriers_of(binding, address, OPERATION_EFFECT)
    by_parity = "parity" in instruction.modifiers
    given = value(which, "u32" if by_parity else "u64")
    if not isinstance(target, Register):
        raise unsupported(instruction)
    row = state.row(target.name, "pred")
    line = line_of(instruction)

    def run(lanes: Array) -> None:
        cell = one.of(lanes)
        asked = _by_lane(given, lanes)
        with one.checked(lanes, cell):
            state.phases.check(cell)
        if by_parity and (odd := asked > 1).any():  # machine code takes the lowest bit
            values = asked[odd].astype(np.int32)
            offsets = one.offsets(cell[odd])
            state.trace.append(Phase("parity", lanes[odd], offsets, values, state.lanes, line, instruction.index))
            asked = asked & np.uint32(1)
        parity = (asked if by_parity else asked >> np.uint64(63)).astype(np.int32)
        now = state.phases.phase[cell]
        over = (now & 1) != parity
        row[lanes] = over
        if over.any():
            state.history.note("waited", instruction.index, lanes[over], cell[over], now[over] - 1)
        if over.all():
            state.trace.append(Phase("wait", lanes, one.offsets(cell), now - 1, state.lanes, line))
            return
        if over.any():
            state.trace.append(Phase("wait", lanes[over], one.offsets(cell[over]), now[over] - 1, state.lanes, line))
        vain = ~over
        offsets = one.offsets(cell[vain])
        state.trace.append(Phase("vain", lanes[vain], offsets, now[vain], state.lanes, line))
        state.stall(lanes[vain], cell[vain], instruction)

    return binding.for_lanes(run)


def _pending_count(binding: Binding) -> Callable[[], None]:
    state, instruction, value = binding.state, binding.instruction, binding.value
    target, source = instruction.operands
    if not isinstance(target, Register):
        raise unsupported(instruction)
    row, given = state.row(target.name, "u32"), value(source, "u64")

    def run(lanes: Array) -> None:
        row[lanes] = pending_count(_by_lane(given, lanes))

    return binding.for_lanes(run)


def bind_copies_arrive(binding: Binding) -> Callable[[], None]:
    """Bind ``cp.async.mbarrier.arrive{.noinc}``: the phase does not end before the lane's earlier copies arrive."""
    state, instruction = binding.state, binding.instruction
    words = instruction.modifiers[3:]
    if instruction.modifiers[2:3] != ("arrive",) or not set(words) <= WITHOUT_EFFECT | {"noinc"}:
        raise unsupported(instruction)
    one = barriers_of(binding, instruction.operands[0], OPERATION_EFFECT)
    counts = "noinc" in words  # else one more arrival is expected and made, with no net change
    line = line_of(instruction)

    def run(lanes: Array) -> None:
        cell = one.of(lanes)
        with one.checked(lanes, cell):
            state.phases.check(cell)
            phase = state.phases.phase[cell]
            if counts:
                nothing = np.zeros(cell.size, np.int64)
                phase = state.phases.arrive(cell, nothing + 1, nothing, False, True)
                state.history.note("arrived", instruction.index, lanes, cell, phase, nothing + 1)
        for kind in KINDS:
            state.trace.append(Phase(kind, lanes, one.offsets(cell), phase, state.lanes, line, instruction.index))

    return binding.for_lanes(run)


def bind_async_fence(binding: Binding) -> Callable[[], None]:
    """Bind ``fence.proxy`` of ``async`` and ``alias``, and ``fence.mbarrier_init``. Raise ``UnsupportedKernel``."""
    state, instruction, guard = binding.state, binding.instruction, binding.guard
    kind, *words = instruction.modifiers
    if kind == "proxy" and words == ["alias"]:
        return lambda: None
    spaces = {"global", "shared__cta", "shared__cluster", "shared"}
    if kind == "proxy" and not (words[:1] == ["async"] and set(words[1:]) <= spaces):
        raise unsupported(instruction)
    if words[:2] == ["async", "global"]:
        return lambda: None

    def run() -> None:
        mask = state.active if guard is None else guard()
        lanes = None if mask is None else mask.copy()
        state.fenced |= state.alive if mask is None else mask
        state.trace.append(ProxyFence(lanes, only_mbarriers=kind == "mbarrier_init"))

    return run


def _by_lane(given: Any, lanes: Array) -> Array:
    return np.full(lanes.size, given) if np.ndim(given) == 0 else given[lanes]
