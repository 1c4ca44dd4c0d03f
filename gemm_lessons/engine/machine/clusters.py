"""Blocks of a cluster: stores to each other's shared memory, and their barrier.

``st.async`` and ``red.async`` report to an mbarrier of the other block. The value is stored at once, but the report
happens only when no lane can run without it, as for a bulk copy (``bulk.py``). It releases what the thread did before,
at the scope of the cluster; that of a bulk copy does not (8.9.1.1).

``barrier.cluster``: the threads of a cluster arrive, and later wait for the others to have arrived. Ended threads count
as arrived. A thread arrives, waits, arrives, and so on; anything else is undefined, and a fault here. An arrival
releases the thread's accesses unless it is ``relaxed`` and follows no fence since the thread's last one; a wait
acquires the accesses released by all arrivals. Both are recorded as operations on an mbarrier of the cluster
(``events.CLUSTER``). Source: NVIDIA, "PTX ISA" 9.0, 9.7.9.12, 9.7.13.4 and 9.7.13.7.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gemm_lessons.engine.events import CLUSTER, Phase
from gemm_lessons.engine.machine.atomics import Updates, operation_of
from gemm_lessons.engine.machine.bulk import BulkSide, report
from gemm_lessons.engine.machine.mbarriers import OPERATION_EFFECT, barriers_of
from gemm_lessons.engine.machine.state import Fault, State
from gemm_lessons.engine.machine.transfers import Binding, view_for
from gemm_lessons.engine.ptx.cfg import line_of, unsupported
from gemm_lessons.engine.ptx.records import SIZES, Instruction, elements_of
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.facts import Misuse

STORED = frozenset("b32 b64 u32 u64 s32 s64 f32 f64".split())
REDUCED = {
    **dict.fromkeys(("inc", "dec"), ("u32",)), **dict.fromkeys(("min", "max"), ("u32", "s32")),
    "add": ("u32", "s32", "u64"), **dict.fromkeys(("and", "or", "xor"), ("b32",)),
}  # fmt: skip
SILENT = frozenset("async weak relaxed cluster shared__cluster mbarrier__complete_tx__bytes".split())
KNOWN = frozenset("cluster arrive wait release acquire relaxed aligned".split())


def bind_async_store(binding: Binding) -> Callable[[], None]:
    """Bind ``st.async`` or ``red.async``. Raise ``UnsupportedKernel``."""
    state, instruction = binding.state, binding.instruction
    *words, kind = instruction.modifiers
    reduces = instruction.opcode == "red"
    rest = [word for word in words if word not in SILENT]
    if not {"shared__cluster", "mbarrier__complete_tx__bytes"} <= set(words):
        raise unsupported(instruction)
    target, given, barrier = instruction.operands
    sources = [binding.value(element, kind) for element in elements_of(given)] if kind in SIZES else []
    updates = None
    if reduces:
        operation = operation_of(rest[0], kind) if len(rest) == 1 and kind in REDUCED.get(rest[0], ()) else None
        if operation is None:
            raise unsupported(instruction)
        updates = Updates(rest[0], kind, operation)
    elif kind not in STORED or rest not in ([], [f"v{len(sources)}"]):
        raise unsupported(instruction)
    size = SIZES[kind] * len(sources)
    address = binding.addresses(target)
    barriers = barriers_of(binding, barrier, OPERATION_EFFECT, traced=False)
    side = BulkSide(binding, "shared", "copy")
    view = view_for(state.shared, kind, 1)
    chosen = binding.lanes()

    def run() -> None:
        lanes = state.lane_numbers(chosen())
        if not lanes.size:
            return
        places = address(lanes)
        side.aligned(places, lanes, size, size)
        first = side.place_shared(places, lanes, size) // SIZES[kind]
        for number, source in enumerate(sources):
            values = np.broadcast_to(source if source.ndim == 0 else source[lanes], lanes.shape)
            if updates is None:
                view[first + number] = values
            else:
                updates.apply(view, first, [values])
        cell = barriers.of(lanes)
        report(state, barriers, lanes, cell, size)
        phases = state.phases.phase[cell]
        state.trace.append(Phase("sent", lanes, barriers.offsets(cell), phases, state.lanes, line_of(instruction)))

    return run


def check(instruction: Instruction) -> None:
    """Raise ``UnsupportedKernel`` for an unknown form."""
    if not set(instruction.modifiers) <= KNOWN or instruction.modifiers[1:2] not in (("arrive",), ("wait",)):
        raise unsupported(instruction)


class ClusterBarriers:
    """The barriers of the clusters of a batch. ``arrived``: lanes that have arrived in the current phase; ``passed``:
    those that arrived in the phase before and have not waited for it yet, bool (lanes,)."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._lanes = state.padded * state.cluster  # of a cluster
        self.begin()

    def begin(self) -> None:
        """Reset for a new batch."""
        self.arrived, self.passed = np.zeros((2, self._state.lanes), np.bool_)
        self._phase = np.zeros(self._state.blocks // self._state.cluster, np.int32)

    def execute(self, instruction: Instruction, lanes: Array) -> Array:
        """Let ``lanes`` arrive or wait. Return the lanes that have to wait. Raise ``Fault``."""
        waits = instruction.modifiers[1] == "wait"
        expected = self.arrived | self.passed if waits else ~(self.arrived | self.passed)
        wrong = lanes & ~expected
        if wrong.any():
            lane = int(wrong.argmax())
            who = self._state.actor(lane, instruction)
            case = "not arrived" if waits else "arrived twice"
            raise Fault("cluster_barrier", case, instruction, who, Misuse(instruction.full_opcode))
        if not waits:
            self.arrived |= lanes
            releasing = lanes & self._state.fenced if "relaxed" in instruction.modifiers else lanes
            if releasing.any():
                self._record("arrive", releasing, 0, line_of(instruction))
            self._state.fenced &= ~lanes
            return np.zeros_like(lanes)
        ready = lanes & self.passed
        if ready.any():
            self.passed &= ~ready
            self._record("wait", ready, -1, line_of(instruction))
        return lanes & ~ready

    def complete(self, waiting: Array, alive: Array, line: int | None) -> Array:
        """Return the lanes of ``waiting`` whose cluster has arrived. ``line``: where they wait."""
        there = (self.arrived | ~alive).reshape(-1, self._lanes).all(axis=1)
        there &= waiting.reshape(-1, self._lanes).any(axis=1)
        if not there.any():
            return np.zeros_like(waiting)
        self._phase += there
        complete = np.repeat(there, self._lanes)
        released: Array = waiting & complete
        self.passed |= self.arrived & complete & ~waiting
        self.arrived &= ~complete
        self._record("wait", released, -1, line)
        return released

    def _record(self, kind: Any, lanes: Array, distance: int, line: int | None) -> None:
        numbers = np.flatnonzero(lanes)
        phases = self._phase[numbers // self._lanes] + distance
        place = np.full(numbers.size, CLUSTER)
        self._state.trace.append(Phase(kind, numbers, place, phases, self._state.lanes, line))
