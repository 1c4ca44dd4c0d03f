"""How many instructions each thread of a batch executes: who leaves work to others?"""

from __future__ import annotations

import numpy as np

from gemm_lessons.engine.sass.operand_fetch import Array


class Shares:
    """Of one batch of blocks, lane by lane."""

    def __init__(self, lanes: int) -> None:
        self._executed = np.zeros(lanes, np.int64)
        self._who: Array | None = None  # the lanes that have executed what is not in _executed yet
        self._pending = 0

    def add(self, who: Array, instructions: int) -> None:
        """These lanes execute so many. A mask is never changed in place: while the same lanes go on, it is the same."""
        if who is not self._who:
            self._settle()
            self._who = who
        self._pending += instructions

    def executed(self) -> Array:
        """By lane."""
        self._settle()
        return self._executed

    def _settle(self) -> None:
        if self._who is not None:
            np.add(self._executed, self._pending, out=self._executed, where=self._who)
        self._pending = 0
