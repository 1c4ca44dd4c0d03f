"""Work of each thread of a batch, for the load balance between threads: all instructions, and the useful work."""

from __future__ import annotations

import numpy as np

from gemm_lessons.engine.costs.tally import Sums
from gemm_lessons.engine.records.arrays import Array


class WorkPerThread:
    """Instructions, products and operations (``useful_work``) of one batch of blocks, by lane."""

    def __init__(self, lanes: int, blocks: int) -> None:
        self._blocks = blocks
        self._done = np.zeros((3, lanes), np.int64)
        self._who: Array | None = None  # lanes whose pending work is not yet in _done
        self._pending = [0, 0, 0]

    def add(self, who: Array, instructions: int, products: int = 0, operations: int = 0) -> None:
        """Add the work of these lanes. Masks are immutable: an unchanged mask is the same object."""
        if who is not self._who:
            self._settle()
            self._who = who
        self._pending[0] += instructions
        self._pending[1] += products
        self._pending[2] += operations

    def add_to(self, sums: Sums) -> None:
        """Add the totals to ``sums``, and the work of the thread that does the most."""
        self._settle()
        of_blocks = self._done[1].reshape(self._blocks, -1).max(axis=1)
        working = of_blocks[of_blocks > 0]
        sums.working_blocks += working.size
        sums.busiest_products += int(working.sum())
        sums.fewest_products = int(working.min(initial=sums.fewest_products))
        sums.executed += int(self._done[0].sum())
        sums.products += int(self._done[1].sum())
        sums.useful_operations += int(self._done[2].sum())
        sums.longest, sums.most_products, sums.most_operations = (
            max(before, int(most))
            for before, most in zip(
                (sums.longest, sums.most_products, sums.most_operations), self._done.max(axis=1), strict=True
            )
        )

    def _settle(self) -> None:
        for row, pending in zip(self._done, self._pending, strict=True):
            if pending:
                np.add(row, pending, out=row, where=self._who)
        self._pending = [0, 0, 0]
