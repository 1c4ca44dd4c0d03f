"""Inputs, reference and tolerance: honest sums pass in any order, dishonest ones fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.judgement.cases import FULL, PLAIN, Array, Product, problem, stored
from gemm_lessons.engine.records.elements import ELEMENTS, bits
from gemm_lessons.engine.records.launch import Buffer, Scalar
from gemm_lessons.gemm.data import DataSpec, prototype
from gemm_lessons.gemm.formula import Value
from gemm_lessons.gemm.problem import GUARD_BYTES, Guarded, Problem, fresh_seed
from gemm_lessons.gemm.shapes import Shape

FLOATS: dict[str, Any] = {"float64": np.float64, "float32": np.float32}


def fits(it: Problem, values: Array) -> bool:
    return bool((np.abs(values.astype(np.float64) - it.reference) <= it.tolerance).all())


def summed(it: Product, order: Array, kind: type[np.floating]) -> Array:
    """One rounding for each product and each sum, products taken in ``order``."""
    a, b = (values.astype(kind) for values in it.factors)
    total = np.zeros((it.shape.m, it.shape.n), kind)
    with np.errstate(over="ignore"):  # of sums in half
        for k in order:
            total = total + a[:, k, None] * b[None, k]
    return total


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("k", [1, 2, 7, 64, 257, 1024])
def test_any_order_of_an_honest_sum_passes(k: int, kind: str) -> None:
    it = problem(24, 40, k, a=kind, b=kind, c=kind, accumulate=kind)
    a, b = it.factors
    by_size = np.argsort(-np.abs(a).sum(0))
    for order in (np.arange(k), np.arange(k)[::-1], by_size, np.random.default_rng(1).permutation(k)):
        assert fits(it, summed(it, order, FLOATS[kind]))
    assert fits(it, (a.astype(FLOATS[kind]) @ b.astype(FLOATS[kind])))


def test_the_worst_order_for_rounding_passes() -> None:
    """All positive products first, then all negative ones: the partial sums grow as large as they can."""
    it = problem(1, 1, 1024)
    a, b = it.factors
    order = np.argsort(-(a[0] * b[:, 0]))
    assert fits(it, summed(it, order, np.float32))


@pytest.mark.parametrize("k", [1, 8, 64, 1024, 4096])
def test_every_element_shows_one_lost_product(k: int) -> None:
    it = problem(24, 40, k)
    a, b = it.factors
    lost = k // 2
    error = np.abs(a[:, lost, None] * b[None, lost])
    assert ((error > it.tolerance) | (error == 0)).all()
    assert (error == 0).mean() < 0.2


@pytest.mark.parametrize("k", [16, 64, 256, 1024])
def test_half_precision_sums_and_tf32_products_fail(k: int) -> None:
    it = problem(32, 32, k)
    assert fits(it, summed(it, np.arange(k), np.float32))
    assert not fits(it, summed(it, np.arange(k), np.float16))
    a, b = ((values.astype(np.float32).view(np.uint32) & 0xFFFFE000).view(np.float32) for values in it.factors)
    assert not fits(it, a.astype(np.float64) @ b.astype(np.float64))


def test_float_sums_fail_where_double_is_asked() -> None:
    it = problem(32, 32, 64, a="float64", b="float64", c="float64", accumulate="float64")
    assert not fits(it, summed(it, np.arange(64), np.float32))


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_half_inputs_summed_in_float_pass_and_in_half_fail(kind: str) -> None:
    it = problem(32, 32, 128, a=kind, b=kind)
    assert fits(it, summed(it, np.arange(128), np.float32))
    assert not fits(it, summed(it, np.arange(128), np.float16))


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_half_results_may_be_rounded_once(kind: str) -> None:
    it = problem(32, 32, 64, a=kind, b=kind, c=kind)
    assert fits(it, ELEMENTS[kind].decode(stored(it, it.reference)))
    assert not fits(it, ELEMENTS[kind].decode(stored(it, it.reference * 1.02)))


def test_integers_are_exact() -> None:
    it = problem(16, 16, 64, a="int8", b="int8", c="int32", accumulate="int32")
    assert not it.tolerance.any()
    assert (it.reference == it.a.astype(np.int64) @ it.b.astype(np.int64)).all()
    assert (np.abs(it.factors[0]) >= 1).all()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([*FLOATS, "tf32", "float16", "bfloat16", "float8_e4m3"]))
def test_products_of_an_element_are_alike_and_inputs_are_not(seed: int, kind: str) -> None:
    it = Product(DataSpec.plain(PLAIN, a=kind, b=kind, accumulate="float64"), Shape(40, 30, 50), seed)
    a, b = it.factors
    products = np.abs(a[:, :, None] * b[None])
    largest = products.max(1, keepdims=True)
    assert ((products > largest / 4) | (products == 0)).all()
    for values in (a, b):
        exponents = np.unique(np.frexp(values[values != 0])[1])
        reach = min(ELEMENTS[kind].reach, it.answer.element.reach)
        assert reach < exponents.size <= 2 * (reach + reach // 2) + 1
        assert 0 < np.count_nonzero(values == 0) <= values.size // 64
        assert np.unique(np.signbit(values[values == 0])).size > 1 or np.count_nonzero(values == 0) < 16


def test_flat_inputs_say_which_element_they_are() -> None:
    for kind in ("float32", "float16"):
        it = Problem(DataSpec.plain(PLAIN, a=kind, b=kind), Shape(9, 11, 130), 5, flat=True)
        for name in "AB":
            values = np.abs(it.values[name].value)
            assert (values >= 0.5).all()
            assert (values < 1).all()


def test_what_is_added_to_a_product_is_as_large_as_it() -> None:
    it = problem(48, 32, 24, parameters=FULL)
    a, b = it.factors
    products, added = np.abs(a) @ np.abs(b), np.abs(it.values["C"].value)
    assert ((added > products / 64) & (added < products)).all()
    rows = np.abs(a).max(1)
    assert (np.abs(it.values["bias"].value) < products[rows == rows.max()] / rows.max() * 64).all()


@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_some_sums_of_bytes_are_as_large_as_they_can_be(kind: str) -> None:
    it = problem(48, 32, 1024, a=kind, b=kind, c="int32", accumulate="int32")
    assert np.abs(it.reference).max() > 0.75 * 1024 * np.abs(it.values["A"].value).max() ** 2
    assert all((it.values[name].value != 0).all() for name in "AB")


DISHONEST: dict[str, Any] = {  # arithmetic that flat numbers do not tell from the right one
    "fixed point, inputs": lambda a, b: np.rint(a * 2**24) / 2**24 @ b,
    "fixed point, sums": lambda a, b: np.rint(a @ b * 2**24) / 2**24,
    "saturates at 1": lambda a, b: np.clip(a, -1, 1) @ b,
    "drops what is small": lambda a, b: np.where(np.abs(a) < 2.0**-8, 0, a) @ b,
    "drops what is large": lambda a, b: np.where(np.abs(a) > 16, 0, a) @ b,
    "one exponent": lambda a, b: np.frexp(a)[0] @ b,
    "zero is one half": lambda a, b: np.where(a == 0, 0.5, a) @ b,
    "zero ends a row": lambda a, b: np.where(np.cumsum(a == 0, 1) > 0, 0, a) @ b,
    "minus zero is the smallest exponent": lambda a, b: np.where((a == 0) & np.signbit(a), -1.0, a) @ b,
}


@pytest.mark.parametrize("name", DISHONEST)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_arithmetic_that_is_right_for_flat_numbers_alone_fails(name: str, seed: int) -> None:
    data, shape = DataSpec.plain(PLAIN), Shape(64, 48, 40)
    wide, flat = (Problem(data, shape, seed, flat=it) for it in (False, True))
    for it, passes in ((wide, False), (flat, True)):
        a, b = (it.values[name].value for name in "AB")
        assert fits(it, DISHONEST[name](a, b)) == passes


RARE: dict[str, Any] = {  # arithmetic that only rare numbers tell from the right one
    "saturates": lambda a, b: np.clip(a, -(2.0**14), 2.0**14) @ b,
    "drops what is tiny": lambda a, b: np.where(np.abs(a) < 2.0**-14, 0, a) @ b,
    "fixed point": lambda a, b: np.rint(a @ b * 2.0**44) / 2.0**44,
    "skips powers of two": lambda a, b: np.where(np.abs(np.frexp(a)[0]) == 0.5, 0, a) @ b,
    "skips ones": lambda a, b: np.where(np.abs(a) == 1, 0, a) @ b,
}


@pytest.mark.parametrize("name", RARE)
def test_rare_numbers_tell_what_others_do_not(name: str) -> None:
    data, shape = DataSpec.plain(PLAIN), Shape(64, 48, 40)
    found = {True: set[bool](), False: set[bool]()}
    for rare, passes in found.items():
        for seed in range(20):
            it = Problem(data, shape, seed, rare=rare)
            assert np.isfinite(it.reference).all()
            passes.add(fits(it, RARE[name](*(it.values[matrix].value for matrix in "AB"))))
    assert found[False] == {True}
    assert False in found[True]


@pytest.mark.parametrize("kind", ["float64", "float32", "tf32", "float16", "bfloat16"])
def test_rare_numbers_are_normal_and_so_are_their_sums(kind: str) -> None:
    """Only halves may be subnormal: no GPU takes these for zero, and their products are normal floats."""
    limits = {"float64": 1022, "float16": 24}.get(kind, 126)
    shape = Shape(64, 48, 300)
    narrow = Problem(DataSpec.plain(PLAIN, a=kind, b=kind, c=kind, accumulate="float64"), shape, 3, rare=True)
    assert np.isfinite(narrow.answer.element.decode(narrow.answer.element.encode(narrow.reference))).all()
    for seed in range(30):
        it = Problem(DataSpec.plain(PLAIN, a=kind, b=kind, accumulate="float64"), shape, seed, rare=True)
        for name in "AB":
            values = np.abs(it.values[name].value)
            assert (values[values > 0] >= 2.0**-limits).all()
            assert np.isfinite(values).all()
        assert np.isfinite(it.reference).all()


@pytest.mark.parametrize(("kind", "normal"), [("float16", -14), ("float8_e4m3", -6)])
def test_some_rare_numbers_of_few_bits_are_subnormal(kind: str, normal: int) -> None:
    data = DataSpec.plain(PLAIN, a=kind, b=kind)
    for rare in (False, True):
        for name in "AB":
            values = np.abs(Problem(data, Shape(64, 48, 300), 3, rare=rare).values[name].value)
            assert bool(((values > 0) & (values < 2.0**normal)).any()) == rare


def test_rare_bytes_are_zero_and_rare_scalars_may_be_0_and_1() -> None:
    data = DataSpec.plain(PLAIN, a="int8", b="int8", c="int32", accumulate="int32")
    it = Problem(data, Shape(48, 32, 64), 7, rare=True)
    assert all((it.values[name].value == 0).any() for name in "AB")
    scaled = (Problem(DataSpec.plain(FULL), Shape(9, 11, 13), seed, rare=True) for seed in range(60))
    drawn = {float(it.scalars["alpha"]) for it in scaled}
    assert {0.0, 1.0} < drawn
    assert len(drawn) > 20


TYPES = {"float32": np.float32, "float64": np.float64}


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("depth", [1, 7, 40, 128])
def test_sharp_numbers_leave_sums_no_rounding_in_any_order(kind: str, depth: int) -> None:
    data = DataSpec.plain(PLAIN, a=kind, b=kind, c=kind, accumulate=kind)
    for seed in range(5):
        it = Problem(data, Shape(48, 40, depth), seed, sharp=True)
        assert it.sharp is not None
        assert (it.tolerance == 0).mean() > 0.2
        a, b = (it.values[name].value.astype(TYPES[kind]) for name in "AB")
        for order in (range(depth), reversed(range(depth)), np.random.default_rng(seed).permutation(depth)):
            total = np.zeros((48, 40), TYPES[kind])
            for k in order:
                total += a[:, k, None] * b[k]
            assert fits(it, total)
        cut = total.view(f"u{total.itemsize}") & ~np.array(15, f"u{total.itemsize}")
        assert not fits(it, cut.view(total.dtype))
        assert (np.abs(cut.view(total.dtype) - it.reference) <= it.rounding).all() or depth < 40


def test_a_sharp_epilogue_and_sums_that_cannot_be_sharp() -> None:
    for seed in range(20):
        it = Problem(DataSpec.plain(FULL), Shape(33, 40, 15), seed, sharp=True)
        values = {name: value.value.astype(np.float32) for name, value in it.values.items()}
        total = np.zeros((33, 40), np.float32)
        for k in range(15):
            total += values["alpha"] * values["A"][:, k, None] * values["B"][k]
        total = values["bias"] + values["beta"] * values["C"] + total
        assert fits(it, np.maximum(total, np.float32(0)) if "relu" in FULL else total)
    whole = DataSpec.plain(PLAIN, a="int8", b="int8", c="int32", accumulate="int32")
    assert Problem(whole, Shape(9, 11, 13), 1, sharp=True).sharp is None


@pytest.mark.parametrize("kind", TYPES)
def test_large_numbers_come_in_many_rare_problems(kind: str) -> None:
    data, limit = DataSpec.plain(PLAIN, a=kind, b=kind, c=kind, accumulate=kind), {"float32": 2.0**14}.get(kind, 1e20)
    found = [Problem(data, Shape(16, 24, 8), seed, rare=True).values["A"].value.max() > limit for seed in range(100)]
    assert sum(found) > 33


def test_what_is_added_counts_beside_rare_factors() -> None:
    """A bias of another column shows in every run, however far apart A and what is added may lie."""
    for seed in range(40):
        it = Problem(DataSpec.plain(FULL), Shape(64, 48, 16), seed, rare=True)
        without = it.evaluated({**it.values, "bias": Value.exact(0 * it.values["bias"].value)}).value
        assert (np.abs(without - it.reference) > it.tolerance).any(), seed


def test_seeds_decide_the_inputs() -> None:
    data, shape = DataSpec.plain(PLAIN), Shape(16, 16, 16)
    one, same, other = (Product(data, shape, seed) for seed in (1, 1, 2))
    assert (one.a == same.a).all()
    assert (one.a == other.a).mean() < 0.02
    changed = Product(data, Shape(16, 16, 17), 1)
    assert (one.a == changed.a[:, :16]).mean() < 0.02, "every shape has inputs of its own"
    assert len({fresh_seed() for _ in range(8)}) > 1


@pytest.mark.parametrize("kind", ELEMENTS)
def test_poison_is_what_no_arithmetic_gives(kind: str) -> None:
    element = ELEMENTS[kind]
    it = element.poisoned((3, 5))
    assert it.dtype == element.storage
    assert np.all(bits(it) == element.poison)
    if element.is_float:
        assert np.isnan(element.decode(it)).all()
        computed = element.encode(np.array([np.nan]))
        assert bits(computed)[0] != element.poison


def test_c_starts_poisoned_unless_it_is_read() -> None:
    assert np.isnan(problem().c).all()
    full = problem(parameters=FULL)
    assert not np.isnan(full.c[:, :32]).any()
    for matrix, cols in ((full.a, 24), (full.b, 32), (full.c, 32)):
        assert matrix.shape[1] > cols
        assert np.isnan(matrix[:, cols:]).all()


def test_lines_of_checks_lie_apart_by_numbers_that_are_drawn() -> None:
    data, shape = DataSpec.plain(FULL), Shape(9, 11, 13)
    known, drawn = Problem(data, shape, 1), [Problem(data, shape, seed, gaps=True) for seed in range(30)]
    gaps = {tuple(it.layouts[name].leading - known.layouts[name].leading for name in "ABC") for it in drawn}
    assert {gap for each in gaps for gap in each} == {0, 16, 32, 48}
    assert any(len(set(each)) == 3 for each in gaps)
    assert not any(it.trial().damage() for it in drawn)


def test_lines_of_hidden_checks_may_lie_far_apart() -> None:
    data, shape = DataSpec.plain(FULL), Shape(9, 11, 13)
    known, drawn = Problem(data, shape, 1), [Problem(data, shape, it, gaps=True, rare=True) for it in range(30)]
    tight = {shape.k, shape.n}  # the leading dimensions of lines without gaps
    wide = [it for it in drawn if {it.layouts[name].leading for name in "ABC"} != tight]
    assert 3 <= len(drawn) - len(wide) <= 12
    gaps = sorted(it.layouts[name].leading - known.layouts[name].leading for it in wide for name in "ABC")
    assert not any(gap % 16 for gap in gaps)
    assert gaps[0] == 0
    assert 64 < gaps[len(gaps) // 2] < 1000 < gaps[-1] < 1 << 18
    assert not any(it.trial().damage() for it in drawn)


def test_epilogue_reference_and_tolerance() -> None:
    it = problem(parameters=FULL)
    a, b = it.factors
    assert it.alpha not in (0, 1)
    assert it.beta not in (0, 1)
    assert it.bias is not None
    c = it.c[:, :32].astype(np.float64)
    assert np.allclose(it.reference, float(it.alpha) * (a @ b) + float(it.beta) * c + it.bias, rtol=1e-15)
    single = np.float32(it.alpha) * summed(it, np.arange(24), np.float32) + (
        np.float32(it.beta) * it.c[:, :32] + it.bias
    )
    assert fits(it, single)


def test_arguments_follow_the_lesson() -> None:
    it = problem(parameters=FULL)
    trial = it.trial()
    arguments = trial.arguments(FULL)
    assert [argument.name for argument in arguments] == list(FULL)
    values: dict[str, Any] = {argument.name: argument.value for argument in arguments if isinstance(argument, Scalar)}
    assert (values["M"], values["N"], values["K"]) == (48, 32, 24)
    assert (values["lda"], values["ldb"], values["ldc"]) == (28, 36, 36)
    assert values["alpha"] == it.alpha
    c = arguments[2]
    assert isinstance(c, Buffer)
    assert c.output
    assert c.array.flags.c_contiguous


def test_damage_to_inputs_and_row_gaps_is_found() -> None:
    it = problem(parameters=FULL)
    trial = it.trial()
    trial.arrays["C"][:, :32] = 1.0
    assert trial.damage() == ()
    trial.arrays["A"][3, 4] += 1
    trial.arrays["C"][5, 33] = 0
    trial.arrays["bias"][31] = 0
    assert [(finding.kind, finding.count) for finding in trial.damage()] == [
        ("input_overwritten", 1),
        ("row_overrun", 1),
        ("input_overwritten", 1),
    ]
    assert "A[3, 4]" in trial.damage()[0].message
    assert "row 5, column 33" in trial.damage()[1].message
    assert it.trial().damage() == (), "a trial works on copies"
    (restored,) = it.trial().damage({"A", "C"})
    assert "stores to its input A, and leaves each number as it was" in restored.message


@pytest.mark.parametrize(("byte", "text"), [(GUARD_BYTES - 4, "4 bytes before"), (GUARD_BYTES + 24, "0 bytes after")])
def test_guard_zones(byte: int, text: str) -> None:
    it = Guarded("C", np.zeros((2, 3), np.float32))
    it.inner[...] = 5
    assert it.damage() is None
    assert (it.padded[GUARD_BYTES : GUARD_BYTES + 24].view(np.float32) == 5).all()
    it.padded[byte] ^= 1
    damage = it.damage()
    assert damage.kind == "out_of_bounds"
    assert text in damage.message


def test_prototype() -> None:
    def shown(names: tuple[str, ...], **types: Any) -> tuple[str, list[int]]:
        data = DataSpec.plain(names, **types)
        parameters = [found for name in names if (found := data.parameter(name))]
        return prototype("gemm", parameters), [parameter.size for parameter in parameters]

    assert shown(PLAIN)[0] == (
        'extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)'
    )
    half, sizes = shown(("A", "B", "C", "alpha", "bias"), a="float16", b="bfloat16", c="float64")
    assert sizes == [8, 8, 8, 4, 8]
    assert "const __half *A, const __nv_bfloat16 *B, double *C, float alpha, const double *bias" in half
