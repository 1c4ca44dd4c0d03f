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

from gemm_lessons.engine.machine.mbarriers import barrier_name
from gemm_lessons.engine.machine.phases import BYTES, Phases
from gemm_lessons.engine.machine.state import Fault, State
from gemm_lessons.engine.ptx.cfg import line_of
from gemm_lessons.engine.ptx.records import Kernel

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
        line = line_of(instruction)
        arrivals, left = int(phases.pending[cell]), int(phases.bytes[cell])
        missing = [f"{arrivals} of {int(phases.expected[cell])} arrivals"] * (arrivals > 0)
        missing += [f"{left:,} bytes"] * (left > 0) + [f"mbarrier.expect_tx of {-left:,} bytes that came"] * (left < 0)
        who = f"{count} thread{'s' * (count > 1)} wait{'s' * (count == 1)}{f' in line {line}' if line else ''}"
        name = barrier_name(arrays, cell * BYTES % state.shared_stride)
        return Fault(
            "deadlock",
            f"{who} for the end of phase {int(phases.phase[cell])} of {name}, which still misses"
            f" {' and '.join(missing)}; nobody is left who could bring them (first: {state.describe(first)})",
            instruction,
            "mbarrier",
        )
