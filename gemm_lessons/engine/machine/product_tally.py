"""Counts the products that a tensor core accumulates in one sum before an ordinary addition takes over.

A tensor core truncates its float sums, so some lessons let it accumulate only a few products. Counts of instructions do
not show this, because a kernel may execute the additions and drop their results, by a selection, a minimum or a product
with zero. The sums do. In a run with a ``ProductTally``, a matrix instruction of depth k computes |c| + k instead of
a b + c. ``c`` then holds the number of products in the sum, whatever the kernel has done with the sum since.
"""

from __future__ import annotations

import numpy as np

from gemm_lessons.engine.records.arrays import Array

FLOAT_SUMS = ("f32", "f16")  # sums that a tensor core truncates or rounds; int32 and float64 are not tallied


class ProductTally:
    """The largest number of products in one sum."""

    def __init__(self) -> None:
        self.most = 0

    def add(self, c: Array, k: int) -> Array:
        """Return ``c`` with ``k`` more products in each sum."""
        result: Array = np.abs(c) + c.dtype.type(k)
        self.most = max(self.most, int(np.nanmax(result, initial=0)))
        return result
