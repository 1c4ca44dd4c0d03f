"""Products of numbers in two parts: a wrong answer is explained by the first launch that errs, and by how."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from checks.judgement.cases import Array
from checks.judgement.mistakes import lesson_named
from gemm_lessons.gemm.problem import Problem
from gemm_lessons.gemm.shapes import Shape, TileSizes
from gemm_lessons.judging.pattern import Pattern
from gemm_lessons.judging.verdict import Judgement, judge

SCALE = 64
TILES = TileSizes(128, 128, 64)
Parts = tuple[Array, Array]


def split(x: Array) -> Parts:
    big = (SCALE * x).astype(np.float16)
    return big, (SCALE * x - big).astype(np.float16)


def truncated(x: Array) -> Parts:
    big = (SCALE * x).astype(np.float16)
    big = np.where(np.abs(big) > np.abs(SCALE * x), np.nextafter(big, np.float16(0)), big)
    return big, (SCALE * x - big).astype(np.float16)


def not_scaled(x: Array) -> Parts:
    big = x.astype(np.float16)
    return big, (x - big).astype(np.float16)


def rest_of_unscaled(x: Array) -> Parts:
    big = (SCALE * x).astype(np.float16)
    return big, (x - big).astype(np.float16)


def by_parts(
    of_a: Callable[[Array], Parts] = split,
    of_b: Callable[[Array], Parts] = split,
    counts: tuple[int, int, int, int] = (1, 1, 1, 0),
    divisor: float = SCALE**2,
    moved: Callable[[Array], Array] = lambda c: c,
) -> Judgement:
    """Judge a product by parts with this part of it another way. ``counts``: of big times big, big times small, small
    times big and small times small."""
    it = Problem(lesson_named("precision").data, Shape(128, 128, 64), seed=7)
    a, b = of_a(it.values["A"].value), of_b(it.values["B"].value)
    products = [x.astype(np.float64) @ y.astype(np.float64) for x in a for y in b]
    c = moved(np.asarray(sum(count * each for count, each in zip(counts, products, strict=True)) / divisor))
    left = {"A_parts": np.stack(a), "B_parts": np.stack(b)}
    return judge(it, c.astype(np.float32), TILES, left)


CASES: dict[str, dict[str, Any]] = {
    "parts_not_scaled": {"of_b": not_scaled},
    "parts_wrong": {"of_a": rest_of_unscaled},
    "parts_products": {"counts": (2, 0, 1, 0)},
    "parts_scale": {"divisor": SCALE},
}


def recognised() -> list[Pattern]:
    """The pattern of each case."""
    return [pattern for case in CASES.values() if (pattern := by_parts(**case).pattern)]


@pytest.mark.parametrize("name", CASES)
def test_the_first_launch_that_errs_is_named(name: str) -> None:
    assert by_parts(**CASES[name]).pattern.name == name


@pytest.mark.parametrize("way", [split, truncated])
def test_right_parts_are_not_accused(way: Callable[[Array], Parts]) -> None:
    assert by_parts(way, way).passed
    assert by_parts(way, way, moved=np.transpose).pattern.name == "transposed"


def test_the_product_that_may_be_left_out_is_not_missed() -> None:
    assert by_parts(counts=(1, 1, 1, 1)).passed
    assert by_parts(counts=(1, 0, 1, 1)).pattern.facts["found"] == ("big times small is missing",)
    assert by_parts(counts=(1, 1, 0, 0)).pattern.facts["found"] == ("small times big is missing",)


def test_another_multiple_says_which() -> None:
    for divisor, times in ((SCALE, SCALE), (1, SCALE**2), (SCALE**3, 1 / SCALE)):
        assert by_parts(divisor=divisor).pattern.facts["times"] == times
