"""Problems and wrong answers, made with NumPy, for the tests of the judge."""

from __future__ import annotations

from typing import Any

import numpy as np

from gemm_lessons.gemm.data import DataSpec
from gemm_lessons.gemm.problem import Problem
from gemm_lessons.gemm.shapes import Shape, TileSizes
from gemm_lessons.judging.verdict import Judgement, judge

Array = np.ndarray[Any, Any]
PLAIN = ("A", "B", "C", "M", "N", "K")
FULL = ("A", "B", "C", "M", "N", "K", "lda", "ldb", "ldc", "alpha", "beta", "bias")
TILES = TileSizes(16, 16, 8)


class Product(Problem):
    """A problem of A, B and C, with properties for its arrays and scalars."""

    @property
    def factors(self) -> tuple[Array, Array]:
        return self.values["A"].value, self.values["B"].value

    a = property(lambda self: self.arrays["A"])
    b = property(lambda self: self.arrays["B"])
    c = property(lambda self: self.arrays["C"])
    bias = property(lambda self: self.arrays.get("bias"))
    alpha = property(lambda self: self.scalars["alpha"])
    beta = property(lambda self: self.scalars["beta"])


def problem(m: int = 48, n: int = 32, k: int = 24, parameters: tuple[str, ...] = PLAIN, **types: Any) -> Product:
    return Product(DataSpec.plain(parameters, **types), Shape(m, n, k), seed=7)


def stored(it: Problem, values: Array) -> Array:
    """C as a kernel that computes ``values`` stores it."""
    return it.answer.element.encode(values)


def judged(it: Problem, values: Array, tiles: TileSizes = TILES) -> Judgement:
    return judge(it, stored(it, values), tiles)
