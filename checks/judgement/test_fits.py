"""Wrong answers that are fitted: wrong weights, partners, places. Each has a twin that is not recognised."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from checks.judgement.cases import FULL, PLAIN, Array, Product, judged, problem, stored
from gemm_lessons.gemm.data import DataSpec
from gemm_lessons.gemm.shapes import Shape, TileSizes

SHAPE = (48, 32, 24)  # in tiles of 16 x 16 x 8


def weighted(*counts: float) -> Callable[[Product], Array]:
    """The answer of a kernel that adds each k so many times; ``counts`` are repeated along K."""
    return lambda it: (it.factors[0] * np.resize(counts, it.shape.k)) @ it.factors[1]


def from_k(of_a: Callable[[Array], Any], of_b: Callable[[Array], Any]) -> Callable[[Product], Array]:
    """The answer of a kernel that reads A and B at other k."""

    def computed(it: Product) -> Array:
        (a, b), k = it.factors, np.arange(it.shape.k)
        return a[:, of_a(k)] @ b[of_b(k)]

    return computed


def from_places(row: Callable[[Array], Any], col: Callable[[Array], Any]) -> Callable[[Product], Array]:
    """The answer of a kernel that stores sums in other rows and columns."""

    def computed(it: Product) -> Array:
        m, n = it.reference.shape
        return it.reference[np.ix_(row(np.arange(m)), col(np.arange(n)))]

    return computed


def patches_transposed(it: Product) -> Array:
    return transposed_in_patches(np.asarray(it.reference))


def mirrored(axis: int) -> Callable[[Product], Array]:
    """Every second row, or column, in pieces of 8 that are backwards."""

    def kernel(it: Product) -> Array:
        line = np.arange(it.reference.shape[1 - axis])
        sums = np.moveaxis(np.array(it.reference), axis, 0)
        sums[1::2] = sums[1::2, line // 8 * 8 + 7 - line % 8]
        return np.moveaxis(sums, 0, axis)

    return kernel


def transposed_in_patches(sums: Array) -> Array:
    m, n = sums.shape
    return sums.reshape(m // 4, 4, n // 4, 4).transpose(0, 3, 2, 1).reshape(m, n)


def same(line: Array) -> Array:
    return line


def zero_rows(it: Product) -> Array:
    return it.reference * (np.arange(it.shape.m) % 4 < 3)[:, None]


def doubled_columns(it: Product) -> Array:
    return it.reference * (1 + (np.arange(it.shape.n) == 5))


# name, what the kernel computes, what is said
MISTAKES: list[tuple[str, Callable[[Product], Array], str]] = [
    ("subtracted", weighted(-1), "C has the wrong sign"),
    ("counted_again", weighted(3), "every product was counted 3 times"),
    ("assigned", weighted(*[0] * 23, 1), "only the last product of every sum is left (k = 23)"),
    ("assigned", weighted(*[0] * 20, *[1] * 4), "only the last 4 products of every sum are left (k = 20 to 23)"),
    ("late_start", weighted(*[0] * 10, *[1] * 14), "the first 10 products of every sum are missing (k = 0 to 9)"),
    ("late_start", weighted(0, *[1] * 23), "the first product of every sum is missing (k = 0)"),
    ("late_start", weighted(0, *[1] * 7), "the first product of each K tile is missing (k of the tile = 0)"),
    ("early_end", weighted(*[1] * 7, 0), "the last product of each K tile is missing (k of the tile = 7)"),
    ("wrong_bound", weighted(*[1] * 5, *[0] * 3), "with k of the tile below 5 of 8 were added"),
    ("wrong_bound", weighted(*[1] * 20, *[0] * 4), "with k below 20 of 24 were added: the loop over k ends at 20."),
    ("skipping", weighted(1, 0, 0, 0), "in each K tile only one product in 4 was added (k of the tile = 0, 4)"),
    ("missing", weighted(1, 1, 0, 1, 1, 1, 0, 1), "products of each K tile are missing (k of the tile = 2, 6)"),
    ("weights", weighted(1, 1, 2, 1, 1, 0, 1, 1), "(k of the tile = 5: missing; k of the tile = 2: counted twice)"),
    ("wrong_k_of_b", from_k(same, lambda k: k - k % 4), "took B from another k: where k = 1 was meant, it was read at"),
    ("wrong_k_of_a", from_k(lambda k: k - k % 2, same), "Of every 2 k only the first is used: the index of A lacks"),
    (
        "wrong_k_of_b",
        from_k(same, lambda k: k - k % 8),
        "Only the first k of each K tile is used: the index of B lacks k",
    ),
    (
        "wrong_k_of_a",
        from_k(lambda k: k - k % 8 + k % 4, same),
        "the first 4 k are used again and again: the index of A",
    ),
    ("wrong_k_of_b", from_k(same, lambda k: k ^ 1), "Follow k through the index of B"),
    ("rows_zero", zero_rows, "rows 3, 7, 11, 15 of each block tile are 0"),
    ("columns_again", doubled_columns, "columns 5 are 2 times the right sums"),
    ("rows_repeated", from_places(lambda i: i - i % 4, same), "rows 1 to 3 repeat row 0, and so on in every 4 rows"),
    ("rows_repeated", from_places(lambda i: i % 16, same), "The row index of A lacks blockIdx.y"),
    (
        "columns_repeated",
        from_places(same, lambda j: j - j % 16 // 8 * 8),
        "columns 8 to 15 of each block tile hold the",
    ),
    ("rows_repeated", from_places(lambda i: i ^ 1, same), "row 0 those of row 1"),
    ("exchanged", patches_transposed, "C[0, 1] holds what belongs in C[1, 0]"),
    ("exchanged_in_line", mirrored(0), "C[1, 0] holds what belongs in C[1, 7], and the other way round"),
    ("exchanged_in_line", mirrored(1), "C[0, 1] holds what belongs in C[7, 1], and the other way round"),
]


@pytest.mark.parametrize(("name", "kernel", "says"), MISTAKES)
def test_a_fit_and_its_twin(name: str, kernel: Callable[[Product], Array], says: str) -> None:
    it = problem(*SHAPE)
    pattern = judged(it, kernel(it)).pattern
    assert pattern.name == name
    assert says in pattern.explanation
    assert not pattern.vague
    twin = kernel(it).copy()
    twin[30, 11] += 0.25  # but for one element: no longer that mistake
    other = judged(it, twin).pattern
    assert other is None or other.name != name


@pytest.mark.parametrize("seed", range(4))
def test_a_sum_that_is_nearer_in_size_hides_no_exchange(seed: int) -> None:
    it = Product(DataSpec.plain(PLAIN), Shape(128, 128, 72), seed=seed)
    (a, b), sums = it.factors, np.zeros((128, 128), np.float32)
    for k in range(72):  # rounded as a kernel rounds
        sums = np.asarray(sums + np.outer(a[:, k], b[k]), np.float32)
    pattern = judged(it, transposed_in_patches(sums)).pattern
    assert pattern.name == "exchanged"


def test_a_bound_is_called_by_its_names() -> None:
    it = problem(20, 32, 24)
    pattern = judged(it, weighted(*[1] * 20, *[0] * 4)(it), TileSizes()).pattern
    assert "the loop over k ends at 20 (M)." in pattern.explanation


def test_what_is_no_plain_product_is_not_fitted() -> None:
    it = problem(parameters=FULL)
    pattern = judged(it, np.negative(np.asarray(it.reference))).pattern
    assert pattern is None or pattern.name != "subtracted"


def test_more_unknowns_than_elements_are_no_fit() -> None:
    it = problem(2, 3, 24)
    rng = np.random.default_rng(1)
    assert judged(it, np.asarray(rng.uniform(1, 2, (2, 3)))).pattern is None


def test_infinity_is_not_fitted() -> None:
    it = problem(*SHAPE)
    answer = stored(it, it.reference)
    answer[3, 3] = np.inf
    assert judged(it, answer).pattern is None


INTEGERS = ("int8", "int32")
DOUBLES = ("float64", "float64")


def in_floats(it: Product) -> Array:
    a, b = (factor.astype(np.float32) for factor in it.factors)
    return (a @ b).astype(np.float64)


def in_16_bits(it: Product) -> Array:
    return it.reference.astype(np.int64).astype(np.int16).astype(np.float64)


def without_signs(of_a: bool) -> Callable[[Product], Array]:
    def computed(it: Product) -> Array:
        a, b = it.factors
        return np.where(a < 0, a + 256, a) @ b if of_a else a @ np.where(b < 0, b + 256, b)

    return computed


def squares_of_b(it: Product) -> Array:
    a, b = it.factors
    k, n = b.shape
    return a @ b.reshape(k // 4, 4, n // 4, 4).transpose(0, 3, 2, 1).reshape(k, n)


def in_whole_sums(it: Product) -> Array:
    (a, b), sums = it.factors, np.zeros(it.reference.shape)
    for k in range(it.shape.k):
        sums = np.trunc(sums + np.outer(a[:, k], b[k]))
    return sums


def with_rows_of(of_a: int, of_b: int) -> Callable[[Product], Array]:
    """A and B read as if their rows were so long."""

    def computed(it: Product) -> Array:
        read = []
        for matrix, length in zip(it.factors, (of_a, of_b), strict=True):
            row, col = np.indices(matrix.shape)
            read.append(matrix.ravel()[row * length + col])
        return np.asarray(read[0] @ read[1])

    return computed


FLOATS = ("float32", "float32")


@pytest.mark.parametrize(
    ("name", "kernel", "types", "says"),
    [
        ("whole_numbers", in_whole_sums, FLOATS, "an int somewhere drops the fraction"),
        ("cut", lambda it: it.factors[0] @ np.trunc(it.factors[1]), FLOATS, "the numbers of B were cut"),
        ("cut", lambda it: np.trunc(it.factors[0]) @ it.factors[1], FLOATS, "the numbers of A were cut"),
        ("a_stride", with_rows_of(48, 32), FLOATS, "A was read as if its rows were M = 48 long: element (row, k) of A"),
        ("a_stride", with_rows_of(32, 32), FLOATS, "A[row * K + k], for a row of A has K elements"),
        ("rounded_to_float", in_floats, DOUBLES, "as if it had been computed in float"),
        ("wrapped_around", in_16_bits, INTEGERS, "it was kept in 16 bits, and wrapped around"),
        ("without_sign", without_signs(True), INTEGERS, "the bytes of A were taken for numbers from 0 to 255"),
        ("not_turned", squares_of_b, INTEGERS, "each 4 x 4 of B is transposed"),
        ("without_sign", without_signs(False), INTEGERS, "the bytes of B were taken for numbers from 0 to 255"),
    ],
)
def test_too_few_bits_and_their_twin(
    name: str, kernel: Callable[[Product], Array], types: tuple[str, str], says: str
) -> None:
    factor, result = types
    it = problem(48, 32, 96, a=factor, b=factor, c=result, accumulate=result)
    pattern = judged(it, kernel(it)).pattern
    assert pattern.name == name
    assert says in pattern.explanation
    twin = kernel(it).copy()
    twin[30, 11] += 3.25 + np.abs(twin[30, 11])
    other = judged(it, twin).pattern
    assert other is None or other.name != name
