"""Arithmetic of lesson.toml: what it accepts, what it refuses, and that it is never Python's ``eval``."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemm_lessons.engine.arguments.expression import Expression, ExpressionError

NAMES = {"M": 100, "N": 64, "BM": 32, "zero": 0}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-M + +N", -36),
        ("M // BM", 3),
        ("ceil_div(M, BM)", 4),
        ("ceil_div(N, BM)", 2),
        ("M % BM", 4),
        ("M / BM", 3.125),
        ("2 * (M - N) * 0.5", 36),
        ("min(M, N, BM)", 32),
        ("max(M, N)", 100),
        ("  M\t", 100),
        ("M / zero", math.inf),
        ("-M / zero", -math.inf),
        ("M // zero", math.inf),
        ("ceil_div(M, zero)", math.inf),
        ("xor(M, BM)", 68),
    ],
)
def test_values(text: str, value: float) -> None:
    assert Expression.parse(text, NAMES).value(NAMES) == value


@pytest.mark.parametrize(
    ("text", "in_c"),
    [
        ("M // BM * BM + (M % BM)", "M / BM * BM + M % BM"),
        ("xor(M // 2, N) * 4", "(M / 2 ^ N) * 4"),
        ("xor(M, xor(N, 1) + 1)", "M ^ (N ^ 1) + 1"),
        ("-(M // (N // BM))", "-(M / (N / BM))"),
        ("min(ceil_div(M, BM), N // 2)", "min(ceil_div(M, BM), N / 2)"),
    ],
)
def test_the_same_in_c(text: str, in_c: str) -> None:
    assert Expression.parse(text, NAMES).in_c == in_c


@pytest.mark.parametrize(
    "text", ["zero / zero", "M % zero", "ceil_div(zero, zero)", "xor(M / 3, 1)", "xor(M / zero, 1)"]
)
def test_not_a_number(text: str) -> None:
    assert math.isnan(Expression.parse(text, NAMES).value(NAMES))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "M +",
        "(" * 200 + "1" + ")" * 200,
        "1" * 400,
        "M ** N",
        "M << 2",
        "M if N else 1",
        "[M]",
        "'M'",
        "True",
        "1j",
        "M.real",
        "__import__('os')",
        "min(M)",
        "ceil_div(M, N, 2)",
        "ceil_div(a=M)",
        "max(*M)",
        "abs(M)",
        "(lambda: 1)()",
        "M; N",
        "Q",
        "M\0",
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        Expression.parse(text, NAMES)


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(ExpressionError, match="did you mean zero"):
        Expression.parse("zro", NAMES)


@pytest.mark.parametrize(
    ("text", "ok"), [("M", True), ("M / 4", True), ("M / 3", False), ("-M", False), ("1/zero", False)]
)
def test_whole_numbers(text: str, ok: bool) -> None:
    expression = Expression.parse(text, NAMES)
    if ok:
        assert expression.whole(NAMES, at_least=1) == expression.value(NAMES)
    else:
        with pytest.raises(ExpressionError, match="whole number"):
            expression.whole(NAMES, at_least=1)


@given(st.text(alphabet="MN0123456789+-*/%(), .cediv_lmaxn", max_size=40))
def test_anything_is_a_number_or_refused(text: str) -> None:
    try:
        value = Expression.parse(text, NAMES).value(NAMES)
    except ExpressionError:
        return
    assert isinstance(value, (int, float))


@given(st.integers(0, 10**9), st.integers(1, 10**6))
def test_ceil_div(a: int, b: int) -> None:
    value = Expression.parse("ceil_div(a, b)", "ab").value({"a": a, "b": b})
    assert (value - 1) * b < a <= value * b
