"""Instructions executed by each thread of a batch, for the load balance between threads."""

from __future__ import annotations

import numpy as np

from gemm_lessons.engine.sass.operand_fetch import Array


class InstructionCounts:
    """Instruction counts of one batch of blocks, by lane."""

    def __init__(self, lanes: int) -> None:
        self._executed = np.zeros(lanes, np.int64)
        self._who: Array | None = None  # lanes whose pending instructions are not yet in _executed
        self._pending = 0

    def add(self, who: Array, instructions: int) -> None:
        """Add ``instructions`` executed by these lanes. Masks are immutable: an unchanged mask is the same object."""
        if who is not self._who:
            self._settle()
            self._who = who
        self._pending += instructions

    def executed(self) -> Array:
        """Return the counts, by lane."""
        self._settle()
        return self._executed

    def _settle(self) -> None:
        if self._who is not None:
            np.add(self._executed, self._pending, out=self._executed, where=self._who)
        self._pending = 0
