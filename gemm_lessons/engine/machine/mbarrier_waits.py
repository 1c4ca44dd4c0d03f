"""Threads that have found a phase of an mbarrier not over yet.

They would look again and again while the threads that bring the phase to its end wait for their turn. So who has looked
in vain lets all others go first, until a phase ends or nobody else can run; then it looks again. Where nothing changes
however often all look, nobody is left who could bring what they wait for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemm_lessons.engine.machine.mbarriers import mbarrier_at
from gemm_lessons.engine.machine.phases import BYTES, Phases
from gemm_lessons.engine.machine.state import Fault, State
from gemm_lessons.engine.ptx.records import Kernel
from gemm_lessons.engine.records.facts import Missing, Starved

Array = NDArray[Any]
ROUNDS = 256  # in which all look in vain and nothing happens to any mbarrier


class PhaseWaits:
    """Who looked in vain in the current batch."""

    def __init__(self, lanes: int) -> None:
        self.held = np.zeros(lanes, np.bool_)  # may not run now
        self.anyone = False
        self._cell = np.zeros(lanes, np.int64)  # where each looked last
        self._at = np.zeros(lanes, np.int32)  # and in which instruction
        self.begin()

    def begin(self) -> None:
        """A new batch."""
        self._release()
        self._completions = self._changes = -1
        self._rounds = 0

    def put(self, lanes: Array, cell: Array, instruction: int, phases: Phases) -> None:
        """``lanes`` (n,) wait for the barriers at ``cell`` (n,)."""
        self.held[lanes] = True
        self._cell[lanes], self._at[lanes] = cell, instruction
        self._completions = phases.completions
        self.anyone = True

    def look(self, phases: Phases) -> None:
        """Let everybody go once a phase has ended."""
        if phases.completions != self._completions:
            self._release()

    def retry(self, phases: Phases) -> bool:
        """Nobody else can run: let all look again. False when they have done so often enough."""
        if phases.changes != self._changes:
            self._changes, self._rounds = phases.changes, 0
        self._rounds += 1
        if self._rounds > ROUNDS:
            return False
        self._release()
        return True

    def _release(self) -> None:
        self.held[:] = False
        self.anyone = False

    def starving(self, state: State, kernel: Kernel, arrays: Mapping[str, tuple[int, int]]) -> Fault:
        """Nobody is left who could end the phase that threads wait for: of those who do so at one barrier in one
        instruction."""
        first = int(self.held.argmax())
        cell, index = int(self._cell[first]), int(self._at[first])
        count = int(np.count_nonzero(self.held & (self._cell == cell) & (self._at == index)))
        instruction, phases = kernel.instructions[index], state.phases
        arrivals, left = int(phases.pending[cell]), int(phases.bytes[cell])
        missing = [Missing("missing arrivals", arrivals, int(phases.expected[cell]))] * (arrivals > 0)
        missing += [Missing("missing bytes", left)] * (left > 0) + [Missing("missing expect_tx", -left)] * (left < 0)
        mbarrier = mbarrier_at(arrays, cell * BYTES % state.shared_stride)
        facts = Starved(mbarrier, count, int(phases.phase[cell]), tuple(missing))
        return Fault("deadlock", "mbarrier", instruction, state.actor(first, instruction), facts)
