"""A wrong answer, with everything that a rule of ``patterns.py`` may ask about it, and what a rule says of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from gemm_lessons.engine.records.elements import bits
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.gemm.formula import Product, Value, roundings
from gemm_lessons.gemm.problem import Problem
from gemm_lessons.gemm.shapes import TileSizes

Array = np.ndarray[Any, Any]

RUNS = 4  # numbers, or runs of them, that are listed


@dataclass(frozen=True)
class Pattern:
    """A kind of wrong answer that was recognised. ``name`` is a stable identifier; ``explanation`` is shown.

    ``vague``: it says where C is wrong, and of the mistake little.
    """

    name: str
    explanation: str
    vague: bool = False


class Wrong:
    """A wrong answer with everything a rule may ask about it. ``got`` (M, N) float64; ``wrong`` (M, N) bool."""

    def __init__(self, problem: Problem, stored: Array, got: Array, wrong: Array, tiles: TileSizes) -> None:
        self.problem = problem
        self.stored = stored
        self.got = got
        self.wrong = wrong
        self.tiles = tiles

    def agrees(self, other: Value) -> bool:
        """Is the answer the same as ``other`` everywhere, as far as rounding lets it be, and is that no right one?"""
        return self.is_nearly(other.value, self.problem.tolerance_of(other))

    def agrees_moved(self, moved: Callable[[Array], Array]) -> bool:
        """The same of the right answer when its elements have ``moved``, each with its tolerance."""
        return self.is_nearly(moved(self.problem.reference), moved(self.problem.tolerance))

    def is_nearly(self, other: Array, tolerance: Array) -> bool:
        """Whether each element is ``other``, within its tolerance or the right one's, and some are no right ones."""
        right, allowed = self.problem.reference, self.problem.tolerance
        if not bool((np.abs(self.got - other) <= np.maximum(tolerance, allowed)).all()):
            return False
        return not bool((np.abs(right - other) <= allowed).all())

    @cached_property
    def is_plain(self) -> bool:
        """Whether the formula's product is that of one A and one B, as most lessons have them."""
        layouts = self.problem.layouts
        ours = Product("A", "B", left_transposed=False, right_transposed=False)
        return self.problem.data.formula.product == ours and all(
            layout.dimensions <= 2 and layout.order == "row" for layout in layouts.values()
        )

    @cached_property
    def may_be_fitted(self) -> bool:
        """Whether C is a plain product and nothing else, and every element is a number."""
        return (
            self.is_plain and set(self.problem.data.formula.names) == {"A", "B"} and bool(np.isfinite(self.got).all())
        )

    def called(self, size: int, also: str = "") -> str:
        """The names of a size, such as ``BM, BN``: of the tile, and of M, N and K those that are in ``also``."""
        sizes = {name: value for name, value in self.problem.shape.names.items() if name in also}
        return ", ".join(name for name, value in {**sizes, **dict(self.problem.data.sizes)}.items() if value == size)

    @cached_property
    def factors(self) -> tuple[Array, Array]:
        """A (M, K) and B (K, N) in float64; of a plain product only."""
        values = self.problem.values
        return values["A"].value, values["B"].value

    @cached_property
    def levelled(self) -> tuple[Array, Array, Array]:
        """A, the answer and B, their rows and columns multiplied so that all of them are about as large."""
        a, b = self.factors
        largest = (np.abs(it).max(1, keepdims=True) for it in (a, b.T))
        rows, cols = (2.0 ** -np.rint(np.log2(np.where(it > 0, it, 1))) for it in largest)
        return a * rows, rows * self.got * cols.T, b * cols.T

    def product(self, a: Array, b: Array) -> Value:
        """The answer for other factors, (M, N): alpha a b + beta C + bias."""
        return self.problem.finished(Value(a @ b, np.abs(a) @ np.abs(b), roundings(len(b))))

    def without(self, name: str, neutral: float) -> Value:
        """The answer if ``name`` were ``neutral`` in the formula."""
        problem = self.problem
        return problem.evaluated({**problem.values, name: Value.exact(np.array(neutral))})

    @cached_property
    def untouched(self) -> Array:
        """(M, N) bool: the elements that still have the bits they had before the launch."""
        layout = self.problem.answer
        before = layout.matrix(self.problem.arrays[layout.name])
        return np.asarray(bits(self.stored) == bits(before).reshape(self.stored.shape))

    @cached_property
    def k_tiles(self) -> Sequence[slice]:
        """The K tiles, the last one maybe shorter."""
        depth, k = self.tiles.depth, self.problem.shape.k
        return [slice(k0, min(k0 + depth, k)) for k0 in range(0, k, depth)]


def few(numbers: Array) -> str:
    """``0 to 7, 16`` of ascending numbers; not all of them if they are many."""
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
    if len(runs) == len(numbers):
        shown = [str(number) for number in numbers]
    else:
        shown = [f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    return f"{', '.join(shown[:RUNS])}{', ...' if len(shown) > RUNS else ''}"
