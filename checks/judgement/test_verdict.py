"""The judge: what is wrong, where, and whether it has a name. Each pattern has a twin that must not be recognised."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from checks.judgement.cases import FULL, TILES, Array, Product, judged, problem, stored
from checks.judgement.mistakes import lesson_named
from gemm_lessons.course.folder import any_course
from gemm_lessons.course.lesson import Gate, tile_sizes
from gemm_lessons.engine.arguments.expression import Expression
from gemm_lessons.gemm.problem import Problem
from gemm_lessons.gemm.shapes import Shape, TileSizes
from gemm_lessons.judging.gates import judge_gates
from gemm_lessons.judging.verdict import judge


def exchanged(matrix: Array) -> Array:
    """matrix(col, row) in place of matrix(row, col), as a kernel with swapped indices reads it, element by element."""
    rows, cols = matrix.shape
    flat = matrix.ravel()
    return np.array([[flat[col * cols + row] for col in range(cols)] for row in range(rows)])


def test_the_reference_passes() -> None:
    it = problem()
    result = judged(it, it.reference)
    assert result.passed
    assert 0 < result.max_error <= result.tolerance
    assert result.total == 48 * 32
    assert (result.first, result.tiles, result.pattern) == ((), None, None)


def test_wrong_elements_are_counted_shown_and_mapped() -> None:
    it = problem(40, 37, 24)
    answer = it.reference.copy()
    answer[17, 3] += it.tolerance[17, 3] / it.tolerance[39, 35]
    answer[39, 30:36] += np.arange(1, 7) * it.tolerance[39, 30:36] / it.tolerance[39, 35]
    result = judged(it, answer)
    assert (result.wrong, result.total) == (7, 40 * 37)
    assert [(e.row, e.col) for e in result.first] == [(17, 3), (39, 30), (39, 31), (39, 32), (39, 33)]
    assert result.first[0].got == pytest.approx(result.first[0].expected + it.tolerance[17, 3] / it.tolerance[39, 35])
    assert result.max_error == pytest.approx(6, rel=1e-3)
    assert result.tiles.wrong == ((0, 0, 0), (1, 0, 0), (0, 2, 4))


def test_just_inside_passes_just_outside_fails() -> None:
    it = problem(a="float64", b="float64", c="float64", accumulate="float64")
    nudge = np.zeros_like(it.reference)
    nudge[5, 6] = it.tolerance[5, 6]
    assert judged(it, it.reference + 0.9 * nudge).passed
    assert judged(it, it.reference - 1.1 * nudge).wrong == 1


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_never_pass(value: float) -> None:
    it = problem()
    answer = it.reference.copy()
    answer[1, 2] = value
    result = judged(it, answer)
    assert result.wrong == 1
    assert not result.passed


def test_signalling_nan_does_not_pass() -> None:
    it = problem()
    answer = stored(it, it.reference)
    answer.view(np.uint32)[4, 4] = 0x7F80_0001
    assert judge(it, answer, TILES).wrong == 1


def partial(it: Product, a: slice, b: slice | None = None) -> Array:
    left, right = it.factors
    return left[:, a] @ right[b or a]


def with_error(it: Product, where: tuple[slice | Array, ...]) -> Array:
    answer = it.reference.copy()
    answer[where] += 0.5
    return answer


def noise(it: Product) -> Array:
    return it.reference + np.random.default_rng(3).uniform(0.1, 1, it.reference.shape) * it.tolerance * 1e5


def nearly(values: Array) -> Array:
    """The same mistake but for one element: no longer that mistake."""
    other = values.copy()
    other[30, 11] += 0.25 + np.abs(other[30, 11])
    return other


def shift(values: Array, by: int, axis: int) -> Array:
    return np.roll(values, -by, axis)


EDGE = (np.add.outer(np.arange(40) >= 32, np.arange(37) >= 32)) > 0
# name, shape, what the kernel computes
MISTAKES: list[tuple[str, tuple[int, int, int], Callable[[Product], Array]]] = [
    ("all_zero", (48, 32, 24), lambda it: np.zeros_like(it.reference)),
    ("transposed", (32, 32, 24), lambda it: it.reference.T),
    ("transposed", (48, 32, 24), lambda it: it.reference.T.reshape(48, 32)),
    ("a_transposed", (48, 32, 24), lambda it: it.factors[0].reshape(24, 48).T @ it.factors[1]),
    ("b_transposed", (48, 32, 24), lambda it: it.factors[0] @ it.factors[1].reshape(32, 24).T),
    ("a_swapped", (48, 32, 24), lambda it: exchanged(it.factors[0]) @ it.factors[1]),
    ("b_swapped", (48, 20, 32), lambda it: it.factors[0] @ exchanged(it.factors[1])),
    ("ab_swapped", (48, 20, 24), lambda it: exchanged(it.factors[0]) @ exchanged(it.factors[1])),
    ("ab_swapped", (32, 32, 32), lambda it: it.factors[0].T @ it.factors[1].T),
    ("first_k_tile", (48, 32, 24), lambda it: partial(it, slice(8))),
    ("first_k_tile", (48, 32, 21), lambda it: partial(it, slice(8))),
    ("last_k_tile", (48, 32, 21), lambda it: partial(it, slice(16, 21))),
    ("k_tile_missing", (48, 32, 32), lambda it: partial(it, slice(24))),
    ("k_tile_missing", (48, 32, 32), lambda it: it.reference - partial(it, slice(8))),
    ("k_tile_twice", (48, 32, 24), lambda it: it.reference + partial(it, slice(8, 16))),
    ("same_k_tile", (48, 32, 24), lambda it: 3 * partial(it, slice(8))),
    ("same_k_tile", (48, 32, 24), lambda it: np.tile(it.factors[0][:, :8], 3) @ it.factors[1]),
    ("rows_shifted", (48, 32, 24), lambda it: shift(it.reference, 1, 0)),
    ("rows_shifted", (48, 32, 24), lambda it: shift(it.reference, -16, 0)),
    ("cols_shifted", (48, 32, 24), lambda it: shift(it.reference, 3, 1)),
    ("edges", (40, 37, 24), lambda it: with_error(it, (EDGE,))),
    ("edges", (40, 37, 24), lambda it: with_error(it, (slice(39, 40), slice(0, 9)))),
    ("same_positions", (48, 32, 24), lambda it: with_error(it, (slice(5, None, 16), slice(7, None, 16)))),
]


@pytest.mark.parametrize(("name", "shape", "kernel"), MISTAKES)
def test_pattern_and_its_twin(name: str, shape: tuple[int, int, int], kernel: Callable[[Product], Array]) -> None:
    it = problem(*shape)
    pattern = judged(it, kernel(it)).pattern
    assert pattern.name == name
    assert len(pattern.explanation) > 40
    twin = judged(it, nearly(kernel(it))).pattern
    assert twin is None or twin.name != name


def test_noise_has_no_name() -> None:
    it = problem()
    result = judged(it, noise(it))
    assert result.wrong == result.total
    assert result.pattern is None


@pytest.mark.parametrize(("by", "text"), [(2, "2 too far up"), (-2, "2 too far down")])
def test_row_shifts_have_a_direction(by: int, text: str) -> None:
    it = problem()
    pattern = judged(it, shift(it.reference, by, 0)).pattern
    assert text in pattern.explanation


def test_the_right_k_tile_is_named() -> None:
    it = problem(48, 32, 32)
    for number, name in enumerate(("first", "2nd", "3rd", "last")):
        tile = slice(8 * number, 8 * number + 8)
        pattern = judged(it, it.reference - partial(it, tile)).pattern
        assert pattern.name == "k_tile_missing"
        assert f"the {name} K tile (k = {tile.start} to {tile.stop - 1})" in pattern.explanation


def test_one_k_tile_is_no_k_tile_pattern() -> None:
    it = problem(48, 32, 8)
    pattern = judged(it, 2 * it.reference).pattern
    assert pattern is None or "k_tile" not in pattern.name


def test_never_written_and_its_twins() -> None:
    it = problem()
    pattern = judge(it, it.c, TILES).pattern
    assert pattern.name == "never_written"
    # A NaN that was computed is another story.
    pattern = judged(it, np.full_like(it.reference, np.nan)).pattern
    assert pattern.name == "nan"
    # Some elements written: which are not?
    answer = stored(it, it.reference)
    answer[3::16, 5::16] = it.c[3::16, 5::16]
    pattern = judge(it, answer, TILES).pattern
    assert pattern.name == "partly_written"
    assert "row 3, column 5 of each 16 x 16 tile" in pattern.explanation
    # Unwritten and wrong elsewhere: not only unwritten.
    answer[0, 0] += 1
    pattern = judge(it, answer, TILES).pattern
    assert pattern.name == "misplaced"
    assert "6 elements of C were never written" in pattern.explanation
    # A NaN that was computed beside them: nothing is known about where the others belong.
    answer[0, 0] = np.nan
    pattern = judge(it, answer, TILES).pattern
    assert pattern.name == "nan"


def test_unwritten_parts_of_the_tiles_are_named() -> None:
    it = problem()
    answer = it.c[:, :32].copy()
    rows, cols = np.arange(48) % 8 < 4, np.arange(32) % 16 < 4
    answer[np.ix_(rows, cols)] = stored(it, it.reference)[np.ix_(rows, cols)]
    pattern = judge(it, answer, TILES).pattern
    assert pattern.name == "partly_written"
    assert "all but rows 0 to 3, 8 to 11, columns 0 to 3 of each 16 x 16 tile" in pattern.explanation


@pytest.mark.parametrize(
    ("rows", "cols", "said"),
    [
        (32, 32, "(rows 32 to 47); those that were are right. N is 32 here: does the guard before the store compare"),
        (24, 32, "(rows 24 to 47); those that were are right. K is 24 here"),
        (48, 24, "(columns 24 to 31); those that were are right. K is 24 here"),
        (40, 32, "(rows 40 to 47); those that were are right. Either"),  # no size
        (32, 24, "(all but rows 0 to 31, columns 0 to 23); those that were are right. Either"),  # neither axis alone
    ],
)
def test_a_guard_may_compare_with_another_size(rows: int, cols: int, said: str) -> None:
    it = problem(48, 32, 24)
    answer = it.c[:, :32].copy()
    answer[:rows, :cols] = stored(it, it.reference)[:rows, :cols]
    pattern = judge(it, answer, TILES).pattern
    assert pattern.name == "partly_written"
    assert said in pattern.explanation


@pytest.mark.parametrize(
    ("elements", "said"),
    [
        (6, "(elements 6 to 23); those that were are right. N is 6 here: does the guard before the store compare the"),
        (4, "(elements 4 to 23); those that were are right. M is 4 here"),
        (12, "(rows 2 to 3); those that were are right. Either"),
    ],
)
def test_of_an_addition_the_guard_counts_elements(elements: int, said: str) -> None:
    it = Product(lesson_named("first_kernel").data, Shape(4, 6, 1), 3)
    answer = it.answer.matrix(it.c).copy()
    answer.reshape(-1)[:elements] = stored(it, it.reference).reshape(-1)[:elements]
    pattern = judge(it, answer, TileSizes(1, 1)).pattern
    assert said in pattern.explanation


def test_nothing_wrong_is_not_nan() -> None:
    it = problem()
    answer = it.reference.copy()
    answer[0, 0] = 1e30
    pattern = judged(it, answer).pattern
    assert pattern is None or pattern.name != "nan"


@pytest.mark.parametrize("left_out", ["alpha", "beta", "bias"])
def test_epilogue_left_out(left_out: str) -> None:
    it = problem(parameters=FULL)
    alpha, beta = float(it.alpha), float(it.beta)
    assert it.bias is not None
    c = it.c[:, :32].astype(np.float64)
    a, b = it.factors
    terms = {"alpha": (alpha - 1) * (a @ b), "beta": beta * c, "bias": np.tile(it.bias, (48, 1))}
    answer = it.reference - terms[left_out]
    pattern = judge(it, stored(it, answer), TILES).pattern
    assert pattern.name == f"{left_out}_ignored"
    twin = judge(it, stored(it, nearly(answer)), TILES).pattern
    assert twin is None or twin.name != pattern.name


def test_same_positions_needs_every_tile_and_few_positions() -> None:
    it = problem()
    answer = with_error(it, (slice(5, None, 16), slice(7, None, 16)))
    answer[5, 7] = it.reference[5, 7]
    assert judged(it, answer).pattern is None


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ((slice(None), np.arange(32) % 16 >= 8), "(columns 8 to 15 of each 16 x 16 tile)"),
        ((slice(None), np.arange(32) % 8 >= 4), "(columns 4 to 7, 12 to 15 of each 16 x 16 tile)"),
        ((slice(0, None, 2), slice(None)), "(rows 0, 2, 4, 6, ... of each 16 x 16 tile)"),
        (((np.add.outer(np.arange(48) % 16 > 0, np.arange(32) % 16 > 7)),), "(all but row 0, columns 0 to 7 of each"),
    ],
)
def test_the_same_part_of_every_tile(where: tuple[slice | Array, ...], text: str) -> None:
    it = problem()
    answer = with_error(it, where)
    pattern = judged(it, answer).pattern
    assert pattern.name == "same_part"
    assert text in pattern.explanation
    row, col = np.argwhere(np.abs(answer - it.reference) > 0.1)[0]
    lucky = answer.copy()
    lucky[row, col] = it.reference[row, col]  # one sum is right by chance
    chance = judged(it, lucky).pattern
    assert text in chance.explanation
    right = np.argwhere(np.abs(answer - it.reference) < 0.1)[0]
    answer[tuple(right)] += 0.5  # one more is wrong, in one tile only
    assert judged(it, answer).pattern is None
    assert judged(it, answer, TileSizes()).pattern is None


def test_edges_need_right_whole_tiles() -> None:
    it = problem(40, 37, 24)
    answer = with_error(it, (EDGE,))
    answer[0, 0] += 1
    assert judged(it, answer).pattern is None
    assert judged(it, answer, TileSizes()).pattern is None


def gate(value: str, at_most: float | None = None, at_least: float | None = None) -> Gate:
    names = ("sectors", "requests", "K")
    return Gate("sectors", "sectors per request", Expression.parse(value, names), "coalesce", at_most, at_least)


@pytest.mark.parametrize(
    ("limit", "value", "passed"),
    [
        ({"at_most": 5.0}, 4.0, True),
        ({"at_most": 5.0}, 5.0, True),
        ({"at_most": 5.0}, 5.5, False),
        ({"at_least": 5.0}, 5.0, True),
        ({"at_least": 5.0}, 4.9, False),
    ],
)
def test_gates(limit: dict[str, float], value: float, passed: bool) -> None:
    names = {"sectors": value * 16, "requests": 16, "K": 8}
    (result,) = judge_gates([gate("sectors / requests", **limit)], names)
    assert (result.passed, result.value, result.limit) == (passed, value, 5.0)
    assert result.at_most == ("at_most" in limit)
    assert result.note == ""


@pytest.mark.parametrize("sectors", [0, 7])
@pytest.mark.parametrize("limit", [{"at_most": 5.0}, {"at_least": 5.0}])
def test_division_by_zero_misses_the_gate(limit: dict[str, float], sectors: int) -> None:
    (result,) = judge_gates([gate("sectors / requests", **limit)], {"sectors": sectors, "requests": 0, "K": 8})
    assert not result.passed
    assert result.value is None
    assert "never" in result.note


def test_only_a_ragged_tile_is_wrong() -> None:
    course = any_course()
    lesson = course.lesson("coalesced")
    problem = Problem(lesson.data, Shape(33, 32, 16), seed=1)
    answer = problem.trial().answer.copy()
    answer[:32] = problem.reference[:32]
    judged = judge(problem, answer, tile_sizes(lesson))
    assert judged.wrong == 32
    assert judged.pattern is not None
