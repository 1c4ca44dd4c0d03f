"""A wrong answer, with all data that a row of the table of mistakes may query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from gemm_lessons.engine.records import bits
from gemm_lessons.gemm import BufferLayout, Problem, Product, TileSizes, Value, roundings
from gemm_lessons.judging.named_sentence import Facts

Array = np.ndarray[Any, Any]

A_TIMES_B = Product("A", "B", left_transposed=False, right_transposed=False)
MOSTLY = 0.95  # share of a part's elements that must be wrong: few wrong sums are right by chance
T = TypeVar("T")


class Made(NamedTuple):
    """C after a mistake, (M, N), or the elements that would be wrong, with the mistake's parameters.

    ``at``: the elements of C that this is about.
    """

    answer: Array
    tolerance: Array | float = 0.0
    facts: Facts = {}  # noqa: RUF012 never written
    at: Any = ...


Transformation = Callable[["Wrong"], Iterable[Made]]


class Wrong:
    """A wrong answer with all data that a rule may query. ``got`` (M, N) float64; ``wrong`` (M, N) bool; ``left``: all
    buffers after the last launch, as stored."""

    def __init__(
        self,
        problem: Problem,
        stored: Array,
        got: Array,
        wrong: Array,
        tiles: TileSizes,
        left: Mapping[str, Array] = {},
    ) -> None:
        self.problem = problem
        self.stored = stored
        self.got = got
        self.wrong = wrong
        self.tiles = tiles
        self.left = left
        self._found: dict[Any, Any] = {}

    def once(self, search: Callable[..., T], *parameters: Any) -> T:
        """Return ``search(self, *parameters)``, memoised because several rows need it."""
        key = search, parameters
        if key not in self._found:
            self._found[key] = search(self, *parameters)
        return cast(T, self._found[key])

    def made(self, value: Value, **facts: Any) -> Made:
        """Return a wrong answer of ``value``, with its own tolerance."""
        return Made(value.value, self.problem.tolerance_of(value), facts)

    def moved(self, move: Callable[[Array], Array], **facts: Any) -> Made:
        """Return the right answer with its elements moved, each with its tolerance."""
        return Made(move(self.problem.reference), move(self.problem.tolerance), facts)

    def is_wrong_in(self, made: Made, least: float = 1.0) -> bool:
        """Tell whether at least this share of the elements marked by ``made`` is wrong, and no other element is."""
        here, there = self.wrong[made.at], made.answer
        return not (here > there).any() and bool((here == there).all() if least == 1 else here[there].mean() >= least)

    def agrees(self, other: Value) -> bool:
        """Tell whether the answer equals ``other`` everywhere, within rounding, and ``other`` is not a right answer."""
        return self.is_nearly(other.value, self.problem.tolerance_of(other))

    def agrees_moved(self, move: Callable[[Array], Array]) -> bool:
        """Tell whether the answer is the right one with its elements moved, within rounding, and moving changes it."""
        made = self.moved(move)
        return self.is_nearly(made.answer, made.tolerance)

    def is_nearly(self, other: Array, tolerance: Array | float) -> bool:
        """Tell whether each element is ``other``, within its tolerance or the right one's, and some are not right."""
        right, allowed = self.problem.reference, self.problem.tolerance
        if not bool((np.abs(self.got - other) <= np.maximum(tolerance, allowed)).all()):
            return False
        return not bool((np.abs(right - other) <= allowed).all())

    @cached_property
    def is_plain(self) -> bool:
        """Tell whether the formula's product is of one A and one B, row by row, as in most lessons."""
        return self.is_product and all(layout.order == "row" for layout in self._layouts)

    @cached_property
    def is_product(self) -> bool:
        """Tell whether the formula's product is of one A and one B, in any layout."""
        return self.has_two_factors and self.problem.data.formula.product == A_TIMES_B

    @cached_property
    def has_two_factors(self) -> bool:
        """Tell whether the formula's product is of one A and one B, in any layout, and each may be scaled."""
        flat = all(layout.dimensions <= 2 for layout in self._layouts)
        return flat and self.problem.data.formula.scaled_product == A_TIMES_B

    @property
    def has_halves(self) -> bool:
        """Tell whether the factors are 16-bit numbers, as fragments of mma.sync hold them."""
        return self.problem.data.factors[0].element.size == 2

    @property
    def _layouts(self) -> list[BufferLayout]:
        return [layout for layout in self.problem.layouts.values() if layout.role != "scratch"]

    @cached_property
    def may_be_fitted(self) -> bool:
        """Tell whether C is a plain product and nothing else, and every element is finite."""
        return (
            self.is_plain and set(self.problem.data.formula.names) == {"A", "B"} and bool(np.isfinite(self.got).all())
        )

    def called(self, size: int, also: str = "") -> tuple[str, ...]:
        """Return the names of a size, such as ``BM`` and ``BN``: the tile's, and those of M, N and K in ``also``."""
        sizes = {name: value for name, value in self.problem.shape.names.items() if name in also}
        return tuple(name for name, value in {**sizes, **dict(self.problem.data.sizes)}.items() if value == size)

    @cached_property
    def factors(self) -> tuple[Array, Array]:
        """Return A (M, K) and B (K, N) in float64; only for a plain product."""
        values = self.problem.values
        return values["A"].value, values["B"].value

    @cached_property
    def scaled_factors(self) -> tuple[Array, Array]:
        """Return ``factors`` with their scales; only where the product has two factors."""
        return self.problem.data.formula.factors(self.problem.values)

    @cached_property
    def levelled(self) -> tuple[Array, Array, Array]:
        """Return A, the answer and B with rows and columns scaled to similar magnitude."""
        a, b = self.factors
        largest = (np.abs(it).max(1, keepdims=True) for it in (a, b.T))
        rows, cols = (2.0 ** -np.rint(np.log2(np.where(it > 0, it, 1))) for it in largest)
        return a * rows, rows * self.got * cols.T, b * cols.T

    def product(self, a: Array, b: Array) -> Value:
        """Return the answer for other factors, (M, N): alpha a b + beta C + bias."""
        return self.problem.finished(Value(a @ b, np.abs(a) @ np.abs(b), roundings(len(b))))

    def without(self, name: str, neutral: float) -> Value:
        """Return the answer if ``name`` were ``neutral`` in the formula."""
        problem = self.problem
        return problem.evaluated({**problem.values, name: Value.exact(np.array(neutral))})

    @cached_property
    def untouched(self) -> Array:
        """Return (M, N) bool: the elements that still have the bits they had before the launch."""
        layout = self.problem.answer
        before = layout.matrix(self.problem.arrays[layout.name])
        return np.asarray(bits(self.stored) == bits(before).reshape(self.stored.shape))

    @cached_property
    def k_tiles(self) -> Sequence[slice]:
        """Return the K tiles; the last one may be shorter."""
        depth, k = self.tiles.depth, self.problem.shape.k
        return [slice(k0, min(k0 + depth, k)) for k0 in range(0, k, depth)]


def nearest(values: Array, right: Array) -> Array:
    """Return the index of the number in ``right`` (n,) that is nearest to each of ``values``."""
    order = np.argsort(right)
    after = np.clip(np.searchsorted(right[order], values), 1, max(1, right.size - 1))
    below, above = order[after - 1], order[np.minimum(after, right.size - 1)]
    return np.where(np.abs(values - right[below]) <= np.abs(values - right[above]), below, above)


def numbers(values: Array) -> tuple[int, ...]:
    """Return whole numbers as facts hold them."""
    return tuple(int(value) for value in values)
