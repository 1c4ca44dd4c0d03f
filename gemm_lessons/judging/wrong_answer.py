"""A wrong answer, with everything that a row of the table of mistakes may ask about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from gemm_lessons.engine.records.elements import bits
from gemm_lessons.gemm.formula import Product, Value, roundings
from gemm_lessons.gemm.problem import Problem
from gemm_lessons.gemm.shapes import TileSizes
from gemm_lessons.judging.told import Facts

Array = np.ndarray[Any, Any]

MOSTLY = 0.95  # share of a part's elements that must be wrong: few wrong sums are right by chance
T = TypeVar("T")


class Made(NamedTuple):
    """What C would be after a mistake, (M, N), or which elements would be wrong, and the mistake's parameters.

    ``at``: the elements of C that this is said of.
    """

    answer: Array
    tolerance: Array | float = 0.0
    facts: Facts = {}  # noqa: RUF012 nobody writes to it
    at: Any = ...


Transformation = Callable[["Wrong"], Iterable[Made]]


class Wrong:
    """A wrong answer with everything a rule may ask about it. ``got`` (M, N) float64; ``wrong`` (M, N) bool."""

    def __init__(self, problem: Problem, stored: Array, got: Array, wrong: Array, tiles: TileSizes) -> None:
        self.problem = problem
        self.stored = stored
        self.got = got
        self.wrong = wrong
        self.tiles = tiles
        self._found: dict[Any, Any] = {}

    def once(self, search: Callable[..., T], *parameters: Any) -> T:
        """``search(self, *parameters)``, which several rows ask for, and which is made once."""
        key = search, parameters
        if key not in self._found:
            self._found[key] = search(self, *parameters)
        return cast(T, self._found[key])

    def made(self, value: Value, **facts: Any) -> Made:
        """A wrong answer that would be ``value``, with its own tolerance."""
        return Made(value.value, self.problem.tolerance_of(value), facts)

    def moved(self, move: Callable[[Array], Array], **facts: Any) -> Made:
        """The right answer when its elements have moved, each with its tolerance."""
        return Made(move(self.problem.reference), move(self.problem.tolerance), facts)

    def is_wrong_in(self, made: Made, least: float = 1.0) -> bool:
        """Whether the elements that ``made`` marks are wrong, this share of them at least, and no others."""
        here, there = self.wrong[made.at], made.answer
        return not (here > there).any() and bool((here == there).all() if least == 1 else here[there].mean() >= least)

    def agrees(self, other: Value) -> bool:
        """Is the answer the same as ``other`` everywhere, as far as rounding lets it be, and is that no right one?"""
        return self.is_nearly(other.value, self.problem.tolerance_of(other))

    def agrees_moved(self, move: Callable[[Array], Array]) -> bool:
        """The same of the right answer when its elements have moved."""
        made = self.moved(move)
        return self.is_nearly(made.answer, made.tolerance)

    def is_nearly(self, other: Array, tolerance: Array | float) -> bool:
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

    def called(self, size: int, also: str = "") -> tuple[str, ...]:
        """The names of a size, such as ``BM`` and ``BN``: of the tile, and of M, N and K those that are in ``also``."""
        sizes = {name: value for name, value in self.problem.shape.names.items() if name in also}
        return tuple(name for name, value in {**sizes, **dict(self.problem.data.sizes)}.items() if value == size)

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


def numbers(values: Array) -> tuple[int, ...]:
    """Whole numbers, as facts have them."""
    return tuple(int(value) for value in values)
