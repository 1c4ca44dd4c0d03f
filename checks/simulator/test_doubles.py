"""float64 rounded in a direction, many lanes at once, against the same one at a time by exact fractions."""

from __future__ import annotations

import numpy as np
import pytest

from checks.simulator import semantics_reference
from gemm_lessons.engine.semantics import doubles
from gemm_lessons.engine.semantics import table as semantics

SPECIAL = [
    *(0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 3.0, 1 / 3, 1 + 2.0**-52, 1 - 2.0**-53),
    *(2.0**-1022, 2.0**-900, 2.0**-899, 2.0**990, 2.0**1000, np.finfo(float).max, -np.finfo(float).max, 2.0**53 + 2),
]
SOURCES = {"add": 2, "sub": 2, "mul": 2, "fma": 3, "div": 2, "sqrt": 1, "rcp": 1}


def exactly(name: str, sources: list[int]) -> int:
    """The bits of a float64 result by exact fractions."""
    expected = semantics_reference.expected(name, sources)
    assert isinstance(expected, list)
    return expected[0]


def operands(seed: int, count: int) -> list[np.ndarray]:
    """Three columns: ordinary numbers, few bits (so that results are exact or nearly so), all bits, special ones; some
    sums cancel."""
    rng = np.random.default_rng(seed)
    columns = []
    for _ in range(3):
        kinds = [
            rng.normal(size=count), rng.integers(-16, 16, count) * 2.0 ** rng.integers(-60, 60, count),
            rng.integers(0, 1 << 64, count, np.uint64).view(np.float64), rng.choice(SPECIAL, count),
            rng.normal(size=count) * 2.0 ** rng.integers(-1000, 1000, count),
        ]  # fmt: skip
        columns.append(np.choose(rng.integers(0, len(kinds), count), kinds))
    near = rng.random(count) < 0.2
    with np.errstate(all="ignore"):
        product = -(columns[0] * columns[1])[near]
    columns[2][near] = product * rng.choice([1.0, 1 + 2.0**-52, 1 - 2.0**-53], near.sum())
    return columns


def fma_is_exact(a, b, c):
    """Check that ``fma_f64`` rounds as exact fractions do. Return its results."""
    out = np.empty(len(a))
    with semantics.float_state():
        doubles.fma_f64(out, a, b, c)
    bits = [column.view(np.uint64).tolist() for column in (a, b, c)]
    expected = [exactly("fma.rn.f64", list(s)) for s in zip(*bits, strict=True)]
    wrong = np.flatnonzero(out.view(np.uint64) != np.array(expected, np.uint64))
    assert not wrong.size, [x[wrong[0]].hex() for x in (a, b, c, out)]
    return out


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("opcode", SOURCES)
def test_directed_rounding_of_many_lanes_is_that_of_one(opcode, mode):
    sources = operands(len(opcode), 300)[-SOURCES[opcode] :]
    operation = semantics.lookup(opcode, (mode, "f64"))
    assert operation is not None
    out = np.empty(300)
    with semantics.float_state():
        operation.function(out, *sources)
    bits = [column.view(np.uint64).tolist() for column in sources]
    expected = [exactly(f"{opcode}.{mode}.f64", list(s)) for s in zip(*bits, strict=True)]
    wrong = np.flatnonzero(out.view(np.uint64) != np.array(expected, np.uint64))
    assert not wrong.size, [c[wrong[0]].hex() for c in (*sources, out)]


def test_fused_multiply_adds_that_lose_nothing_or_end_halfway():
    """Results whose rest is zero or a power of two, one by one and over the memory of a source."""
    rng = np.random.default_rng(3)
    a, b = (rng.integers(1 << 20, 1 << 27, 3000) * 2.0 ** rng.integers(-30, 30, 3000) for _ in range(2))
    c = -(a * b) * (1 + rng.integers(-2, 3, 3000) * 2.0**-52) + rng.choice([0.0, 1.0, 2.0**-53], 3000)
    c[::3] = (a * b)[::3] * 2.0**-53
    bits = [column.view(np.uint64).tolist() for column in (a, b, c)]
    expected = [exactly("fma.rn.f64", list(s)) for s in zip(*bits, strict=True)]
    for target in (np.empty(3000), a, b, c):
        sources = [x.copy() if x is not target else x for x in (a, b, c)]
        out, kept = target, target.copy()
        with semantics.float_state():
            doubles.fma_f64(out, *sources)
        assert out.view(np.uint64).tolist() == expected
        target[:] = kept


@pytest.mark.parametrize("digits", [(20, 20), (26, 26), (26, 27), (27, 27), (1, 52), (8, 45), (8, 46), (2, 53)])
@pytest.mark.parametrize("special", ["", "zero", "underflow"])
def test_products_of_few_digits_are_rounded_with_the_sum_alone(digits, special):
    """Factors of 53 digits together, so that products are exact, with any addend; and of 54, whose products may not
    be."""
    rng, count = np.random.default_rng(8), 1000
    a, b = (rng.integers(1 << n - 1, 1 << n, count) * 2.0 ** rng.integers(-80, 80, count) for n in digits)
    a *= rng.choice([-1.0, 1.0], count)
    _, _, c = operands(9, count)
    c[::4] = -(a * b)[::4] * (1 + rng.integers(-2, 3, count // 4) * 2.0**-52)
    c[1::4] = (a * b)[1::4] * rng.choice([0.0, 2.0**-53, 2.0**-54, -(2.0**-53), 2.0**53], count // 4)
    if special == "zero":
        a[::5], b[::7], c[::11] = 0.0, -0.0, -0.0
    if special == "underflow":
        a[:200] *= 2.0**-700
        b[:200] *= 2.0**-300
    fma_is_exact(a, b, c)


def test_exact_products_are_recognised():
    scratch = np.empty(2)
    for a, b, is_exact in (
        ([3.0, 1.0], [2.0**52 + 1, 1.0], False),
        ([1.0, 4.0], [2.0**52 + 1, 1.0], True),
        ([0.0, 1.0], [2.0**52 + 1, 1.0], True),
        ([251.0, 7.0], [2.0**45 - 1, 3.0], True),
        ([251.0, 7.0], [2.0**46 - 1, 3.0], False),
        ([2.0**-600, 1.0], [2.0**-600, 1.0], False),
        ([np.inf, 1.0], [1.0, 1.0], False),
    ):
        one, other = np.array(a), np.array(b)
        assert doubles._is_exact(one, other, one * other, scratch) == is_exact


def test_fused_multiply_adds_whose_sums_are_exact():
    """What is left of whole numbers by a modulus, and sums of residues times weights, as in lesson ozaki. Where a
    factor is zero, the result is the sum, and may be -0."""
    rng, count = np.random.default_rng(9), 500
    whole = np.rint(rng.uniform(-(2.0**52), 2.0**52, count))
    weights = np.rint(rng.uniform(0, 2.0**40, count))
    residues = rng.integers(0, 3, count) * rng.choice([-1.0, 1.0], count)
    for a, b, c in (
        (-np.rint(whole / 251), np.full(count, 251.0), whole),
        (residues, weights, np.rint(rng.uniform(0, 2.0**50, count))),
        (residues, weights, rng.choice([0.0, -0.0], count)),
        (residues, weights, rng.choice([0.0, np.inf, np.nan, 2.0**-1060], count)),
    ):
        out = np.empty(count)
        with np.errstate(all="ignore"):
            doubles.fma_f64(out, a, b, c)
        bits = [it.view(np.uint64).tolist() for it in (a, b, c)]
        expected = [exactly("fma.rn.f64", list(it)) for it in zip(*bits, strict=True)]
        nan = np.isnan(out)
        assert np.array_equal(nan, np.isnan(np.array(expected, np.uint64).view(np.float64)))
        assert np.array_equal(out.view(np.uint64)[~nan], np.array(expected, np.uint64)[~nan])


def test_fused_multiply_adds_at_every_exponent():
    """Also those whose result is subnormal, halfway between two of them or next to it, or zero."""
    rng = np.random.default_rng(4)
    a, b, c = operands(5, 2000)
    tiny = slice(0, None, 2)
    powers = rng.integers(-1000, 0, 1000)
    a[tiny] = rng.integers(1, 1 << 12, 1000) * np.ldexp(1.0, powers)
    b[tiny] = rng.integers(1, 1 << 40, 1000) * np.ldexp(
        1.0, np.maximum(-1074 - powers + rng.integers(-45, 20, 1000), -1074)
    )
    c[tiny] = rng.integers(-(1 << 20), 1 << 20, 1000) * 5e-324 * rng.integers(0, 2, 1000)
    out = fma_is_exact(a, b, c)
    small = np.abs(out) < np.finfo(float).tiny
    assert np.count_nonzero(small & (out != 0)) > 300


@pytest.mark.parametrize("opcode", ["add", "mul", "fma", "div", "sqrt"])
def test_ordinary_numbers_need_no_fractions(opcode):
    rng = np.random.default_rng(1)
    sources = [rng.random(1000) + 0.5 for _ in range(SOURCES[opcode])]
    with semantics.float_state():
        _, unsure = doubles.directed(opcode, "rz", *sources)
    assert not unsure.any()


@pytest.mark.parametrize("mode", ["rn", "rz"])
@pytest.mark.parametrize("uniform", [{0, 1}, {0, 2}, {1, 2}, {2}, {0, 1, 2}], ids=str)
@pytest.mark.parametrize("shape", [(), (1,)], ids=str)
@pytest.mark.parametrize("lanes", [1, 40, 3000])
def test_operands_that_are_the_same_in_all_lanes(uniform, shape, lanes, mode):
    operation = semantics.lookup("fma", (mode, "f64"))
    assert operation is not None
    columns = operands(11, lanes)
    for factor in (0.1, 1e-200, 1e300, np.inf):
        sources = [np.full(shape, factor) if n in uniform else column for n, column in enumerate(columns)]
        same, alone = np.empty(lanes), np.empty(lanes)
        with semantics.float_state():
            operation.function(same, *sources)
            operation.function(alone, *(np.broadcast_to(source, (lanes,)).copy() for source in sources))
        assert (same.view(np.uint64) == alone.view(np.uint64)).all()
