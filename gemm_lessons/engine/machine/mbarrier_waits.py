"""Threads that wait for an mbarrier phase that has not ended.

A waiting thread would poll while the threads that end the phase wait for their turn. A thread whose test failed is
therefore held until a phase ends or no other thread can run; then it tests again. If no mbarrier changes however often
all threads test, the wait is a deadlock.
"""

from __future__ import annotations

import numpy as np

from gemm_lessons.engine.machine.phases import Phases
from gemm_lessons.engine.records.arrays import Array

MAX_RETRIES = 256  # retries without a change of any mbarrier before the wait is a deadlock


class PhaseWaits:
    """The lanes whose last test of an mbarrier failed in the current batch."""

    def __init__(self, lanes: int) -> None:
        self.held = np.zeros(lanes, np.bool_)  # lanes that may not run now
        self.any_held = False
        self.cell = np.zeros(lanes, np.int64)  # the mbarrier that each lane tested last
        self.at = np.zeros(lanes, np.int32)  # and the instruction of that test
        self.begin()

    def begin(self) -> None:
        """Reset for a new batch."""
        self._release()
        self._completions = self._changes = -1
        self._retries = 0

    def hold(self, lanes: Array, cell: Array, instruction: int, phases: Phases) -> None:
        """Hold ``lanes`` (n,), which wait for the barriers at ``cell`` (n,)."""
        self.held[lanes] = True
        self.cell[lanes], self.at[lanes] = cell, instruction
        self._completions = phases.completions
        self.any_held = True

    def release_if_ended(self, phases: Phases) -> None:
        """Release all lanes if a phase has ended."""
        if phases.completions != self._completions:
            self._release()

    def retry(self, phases: Phases) -> bool:
        """Release all lanes to test again, because no other lane can run. Return False after too many retries."""
        if phases.changes != self._changes:
            self._changes, self._retries = phases.changes, 0
        self._retries += 1
        if self._retries > MAX_RETRIES:
            return False
        self._release()
        return True

    def _release(self) -> None:
        self.held[:] = False
        self.any_held = False
