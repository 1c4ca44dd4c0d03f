"""Long sums of products of random signs: right in every order that kernels use, and wrong where digits are cut off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from gemm_lessons.course.folder import any_course
from gemm_lessons.course.lesson import tile_sizes
from gemm_lessons.gemm.far import FarProblem
from gemm_lessons.gemm.problem import EPILOGUE
from gemm_lessons.gemm.rounding import SIGNED, roundings_of_signs
from gemm_lessons.running.far_shapes import hidden_sample

Array = np.ndarray[Any, Any]
COURSE = any_course()
UNIT = 2.0**-24
SUMS = 512  # elements of C


def added(products: Array | Sequence[Array]) -> Array:
    total = np.zeros(products[0].shape, np.float32)
    for product in products:
        total = total + product
    return total


def fused(a: Array, b: Array) -> Array:
    """Multiply-adds; the product is exact in double precision."""
    total = np.zeros(a.shape[1], np.float32)
    for one, other in zip(a.astype(np.float64), b, strict=True):
        total = (one * other + total).astype(np.float32)
    return total


def in_parts(a: Array, b: Array, number: int) -> Array:
    each = len(a) // number
    return added([fused(a[n * each : (n + 1) * each], b[n * each : (n + 1) * each]) for n in range(number)])


def in_pairs(a: Array, b: Array) -> Array:
    sums = a * b
    while len(sums) > 1:
        last = sums[len(sums) // 2 * 2 :]
        sums = np.concatenate((sums[: len(sums) // 2 * 2 : 2] + sums[1::2], last))
    return sums[0]


def compensated(a: Array, b: Array) -> Array:
    """Kahan's sum."""
    total = np.zeros(a.shape[1], np.float32)
    lost = total.copy()
    for product in a * b:
        term = product - lost
        more = total + term
        lost, total = (more - total) - term, more
    return total


RIGHT: dict[str, Callable[[Array, Array], Array]] = {
    "multiply-adds": fused,
    "products, then sums": lambda a, b: added(a * b),
    "backwards": lambda a, b: fused(a[::-1], b[::-1]),
    "K tiles of 16": lambda a, b: in_parts(a, b, len(a) // 16),
    "eight slices": lambda a, b: in_parts(a, b, 8),
    "every eighth": lambda a, b: added([fused(a[n::8], b[n::8]) for n in range(8)]),
    "in pairs": in_pairs,
    "compensated": compensated,
}


def cut(numbers: Array, bits: int) -> Array:
    """Numbers with their last bits cut off."""
    return (numbers.view(np.uint32) & np.uint32(0xFFFFFFFF << bits & 0xFFFFFFFF)).view(np.float32)


WRONG: dict[str, Callable[[Array, Array], Array]] = {
    "A as TF32": lambda a, b: fused(cut(a, 13), b),
    "B as TF32": lambda a, b: fused(a, cut(b, 13)),
    "products as halves": lambda a, b: added((a * b).astype(np.float16).astype(np.float32)),
}


@cache
def numbers(k: int) -> tuple[Array, Array]:
    random = np.random.default_rng(k)
    a, b = (random.uniform(0.5, 1, (k, SUMS)) * random.choice([-1, 1], (k, SUMS)) for _ in "ab")
    return a.astype(np.float32), b.astype(np.float32)


@cache
def right(k: int) -> tuple[Array, Array]:
    """The sums of ``numbers``, and what a far shape tolerates."""
    a, b = numbers(k)
    products = a.astype(np.float64) * b
    return products.sum(0), UNIT * (roundings_of_signs(k) + EPILOGUE) * np.abs(products).sum(0)


def largest(k: int, sums: Array) -> float:
    """The largest error / the tolerance of a far shape."""
    exact, tolerance = right(k)
    return float((np.abs(sums - exact) / tolerance).max())


@pytest.mark.parametrize("k", [1024, 5120, pytest.param(16384, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", RIGHT)
def test_every_order_of_a_sum_is_right(name: str, k: int) -> None:
    a, b = numbers(k)
    assert largest(k, RIGHT[name](a, b)) < 0.05


def test_even_an_order_by_size_is_right() -> None:
    """No kernel does this, and it contradicts what the bound assumes: all negative products first."""
    a, b = numbers(5120)
    assert largest(5120, added(np.sort(a * b, 0))) < 0.6


@pytest.mark.parametrize("k", [1024, 5120, pytest.param(16384, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", WRONG)
def test_fewer_digits_are_wrong(name: str, k: int) -> None:
    a, b = numbers(k)
    assert largest(k, WRONG[name](a, b)) > 1


def test_short_sums_keep_their_bound() -> None:
    assert roundings_of_signs(64) == 64
    assert roundings_of_signs(81) == 72
    assert roundings_of_signs(5120) == roundings_of_signs(20000) == SIGNED == 80


def far(name: str, seed: int) -> tuple[Array, Array, bool]:
    """Sums of a far shape: rows of A, columns of B, as (k, n). Whether they are exact: a factor of each product has few
    bits."""
    lesson = COURSE.lesson(name)
    sample = hidden_sample(lesson, seed)
    problem = FarProblem(lesson.data, sample.shape, seed, tile_sizes(lesson.at(sample.shape)), 1)
    found = []
    for layout in (problem.layouts["A"], problem.layouts["B"]):
        line, along = np.arange(64)[:, None], np.arange(sample.shape.k)
        row, col = (line, along) if layout.name == "A" else (along, line)
        row, col = np.broadcast_arrays(row, col)
        found.append(problem._numbers(layout, row.reshape(-1), col.reshape(-1)).reshape(64, -1).T)
    few = [it * 4 == np.floor(it * 4) for it in found]
    return found[0], found[1], bool((few[0] | few[1]).all())


def smallest(products: Array) -> float:
    """The largest power of two of which all products are multiples."""
    unit = 1.0
    while not (products == np.floor(products / unit) * unit).all():
        unit /= 2
    return unit


@pytest.mark.parametrize(("name", "bits"), [("coalesced", 24), ("thread_tile", 24), ("dgemm", 53)])
def test_whole_numbers_have_more_digits_than_narrower_types_hold(name: str, bits: int) -> None:
    whole = 0
    for seed in range(12):
        a, b, exact = far(name, seed)
        if not exact:
            continue
        whole += 1
        assert max(np.abs(a).max(), np.abs(b).max()) < 1, "a kernel may multiply in a type that holds no large numbers"
        for sums in (np.cumsum(a * b, 0), np.cumsum((a * b)[::-1], 0)):
            assert np.abs(sums / smallest(a * b)).max() < 2**bits, "each partial sum is a number of the type"
        halves = (
            [it.astype(np.float32) for it in (a, b)]
            if bits == 53
            else [cut(it.astype(np.float32), 13) for it in (a, b)]
        )
        changed = [float(np.mean(one != other)) for one, other in zip(halves, (a, b), strict=True)]
        assert min(changed) > 0.2
    assert whole > 2
