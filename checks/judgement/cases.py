"""Problems and wrong answers, made with NumPy, for the tests of the judge."""

from __future__ import annotations

from typing import Any

import numpy as np

from gemm_lessons.course.lesson import KernelSpec, Shape, TileSizes
from gemm_lessons.course.problem import Problem, encode
from gemm_lessons.judgement.verdict import Judgement, judge

Array = np.ndarray[Any, Any]
PLAIN = ("A", "B", "C", "M", "N", "K")
FULL = ("A", "B", "C", "M", "N", "K", "lda", "ldb", "ldc", "alpha", "beta", "bias")
TILES = TileSizes(16, 16, 8)


def problem(m: int = 48, n: int = 32, k: int = 24, parameters: tuple[str, ...] = PLAIN, **types: Any) -> Problem:
    return Problem(KernelSpec("gemm", parameters, **types), Shape(m, n, k), seed=7)


def stored(it: Problem, values: Array) -> Array:
    """What a kernel that computes ``values`` leaves in C."""
    return encode(values, it.kernel.c)


def judged(it: Problem, values: Array, tiles: TileSizes = TILES) -> Judgement:
    return judge(it, stored(it, values), tiles)
