"""One description of data: element types, layouts, formulas, and what follows from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from checks.judgement.cases import problem, stored
from gemm_lessons.engine.arguments.expression import Expression, ExpressionError
from gemm_lessons.engine.records.elements import ELEMENTS, bits
from gemm_lessons.engine.records.launch import Buffer, Scalar, Texture
from gemm_lessons.gemm.data import DRAWN, BufferSpec, DataSpec
from gemm_lessons.gemm.formula import Formula, Value
from gemm_lessons.gemm.problem import Problem
from gemm_lessons.gemm.shapes import Shape, TileSizes
from gemm_lessons.judging.verdict import judge

Array = np.ndarray[Any, Any]
SIZES = ("M", "N", "K")
FLOATS = [name for name, element in ELEMENTS.items() if element.is_float]
NARROW = [name for name in FLOATS if ELEMENTS[name].precision < 24]


def buffer(name: str, element: str, *shape: str, **how: Any) -> BufferSpec:
    names = (*SIZES, "S")
    return BufferSpec(name, ELEMENTS[element], tuple(Expression.parse(text, names) for text in shape), **how)


@pytest.mark.parametrize("kind", FLOATS)
def test_what_is_stored_comes_back_rounded_to_nearest(kind: str) -> None:
    element = ELEMENTS[kind]
    random = np.random.default_rng(3)
    values = random.uniform(-2, 2, 4000)
    back = element.decode(element.encode(values))
    normal = np.abs(values) > 2.0**-5
    assert (np.abs(back - values) <= element.roundoff * np.abs(values))[normal].all()
    assert (element.decode(element.encode(back)) == back).all(), "what is stored is stored as it is"
    middle = 1 + element.roundoff
    if kind != "float64":
        assert element.decode(element.encode(np.array([middle, middle + element.roundoff * 2]))).tolist() == [
            1.0,
            1 + 4 * element.roundoff,
        ], "ties to even"


@pytest.mark.parametrize("kind", NARROW)
def test_drawn_inputs_lie_on_the_type_s_own_grid(kind: str) -> None:
    element = ELEMENTS[kind]
    drawn = element.decode(element.draw(np.random.default_rng(1), (5000,)))
    assert (np.abs(drawn) >= 0.5).all()
    assert (np.abs(drawn) < 1).all()
    assert len(np.unique(drawn)) > 2 ** (element.precision - 1) * 0.8


def test_fp8_against_the_published_limits() -> None:
    e4m3, e5m2 = ELEMENTS["float8_e4m3"], ELEMENTS["float8_e5m2"]
    codes = np.arange(256, dtype=np.uint8)
    for element, largest, smallest in ((e4m3, 448.0, 2.0**-9), (e5m2, 57344.0, 2.0**-16)):
        values = element.decode(codes)
        finite = values[np.isfinite(values)]
        assert (finite.max(), np.abs(finite[finite != 0]).min()) == (largest, smallest) == (largest, element.smallest)
        known = np.isfinite(values)
        assert (element.encode(values[known]) == codes[known]).all(), "minus zero, too"
        assert element.decode(element.encode(np.array([1e9, -1e9]))).tolist() == [largest, -largest]
    assert np.isnan(e4m3.decode(codes)).sum() == 2
    assert np.isinf(e5m2.decode(codes)).sum() == 2


def test_tf32_keeps_what_a_tensor_core_reads() -> None:
    drawn = ELEMENTS["tf32"].draw(np.random.default_rng(1), (1000,))
    assert drawn.dtype == np.float32
    assert not (bits(drawn) & 0x1FFF).any()


def test_drawn_bytes_have_every_value_but_zero() -> None:
    """They expose a kernel that reads -128 as -127, or 200 as a negative number."""
    for kind, least, most in (("int8", -128, 127), ("uint8", 1, 255)):
        drawn = ELEMENTS[kind].draw(np.random.default_rng(1), (5000,))
        assert np.unique(drawn).tolist() == [number for number in range(least, most + 1) if number]


@pytest.mark.parametrize("order", ["row", "column"])
@pytest.mark.parametrize("transposed", [False, True])
def test_layouts_are_seen_by_the_reference_and_the_tolerance(order: Any, transposed: bool) -> None:
    """The same product however A lies in memory, and whichever way the formula reads it."""
    sides = ("K", "M") if transposed else ("M", "K")
    data = DataSpec.plain(
        ("A", "B", "C", "lda"),
        formula=f"C = {'transpose(A)' if transposed else 'A'} @ B",
        buffers=[buffer("A", "float16", *sides, order=order)],
    )
    it = Problem(data, Shape(6, 5, 7), 1)
    lines = {("row", False): 6, ("column", False): 7, ("row", True): 7, ("column", True): 6}[order, transposed]
    assert it.arrays["A"].shape == (lines, 13 - lines + 8), "16 bytes between lines"
    inner = it.arrays["A"][:, : 13 - lines].astype(np.float64)
    a = inner if (order == "row") != transposed else inner.T
    b = it.arrays["B"].astype(np.float64)
    assert np.array_equal(it.reference, a @ b)
    assert np.allclose(it.tolerance, 2 * 2.0**-24 * (7 + 4) * (abs(a) @ abs(b)), rtol=1e-12)
    trial = it.trial()
    assert [int(x.value) for x in trial.arguments(("lda",)) if isinstance(x, Scalar)] == [13 - lines + 8]
    assert judge(it, it.reference.astype(np.float32), TileSizes()).passed


def test_batches_are_stacked() -> None:
    shapes = (("A", "M", "K"), ("B", "K", "N"), ("C", "M", "N"))
    roles = {"A": "in", "B": "in", "C": "out"}
    fills = {"A": "random", "B": "random", "C": "poison"}
    data = DataSpec.plain(
        ("A", "B", "C", "ldc", "stride_C"),
        buffers=[buffer(n, "float32", "3", r, c, role=roles[n], fill=fills[n]) for n, r, c in shapes],
    )
    it = Problem(data, Shape(4, 6, 5), 1)
    assert it.reference.shape == (12, 6)
    assert np.allclose(it.reference[4:8], it.arrays["A"][1].astype(float) @ it.arrays["B"][1].astype(float))
    trial = it.trial()
    assert [int(x.value) for x in trial.arguments(("ldc", "stride_C")) if isinstance(x, Scalar)] == [10, 40]
    trial.arrays["C"][..., :6] = it.reference.reshape(3, 4, 6)
    assert judge(it, trial.answer, TileSizes(4, 6, 1)).passed
    trial.arrays["C"][2, 1, 3] = 0
    wrong = judge(it, trial.answer, TileSizes(4, 6, 1))
    assert [(one.row, one.col) for one in wrong.first] == [(9, 3)]
    trial.arrays["C"][2, 1, 7] = 0
    assert [one.kind for one in trial.damage()] == ["row_overrun"]
    assert data.operations({"M": 4, "N": 6, "K": 5}) == 2 * 3 * 4 * 6 * 5
    assert data.bytes({"M": 4, "N": 6, "K": 5}) == 3 * 4 * (20 + 30 + 24)


def test_scratch_is_fresh_for_the_first_launch_alone() -> None:
    data = DataSpec.plain(
        ("A", "B", "P", "C"), buffers=[buffer("P", "float32", "S", "M", "N", role="scratch", fill="poison")],
        sizes=(("S", 4),),
    )  # fmt: skip
    it = Problem(data, Shape(8, 8, 8), 1)
    trial = it.trial()
    first, second = trial.arguments(("A", "B", "P", "S")), trial.arguments(("P", "C"))
    (p, s), q = [x for x in first if x.name in ("P", "S")], second[0]
    assert isinstance(p, Buffer)
    assert isinstance(q, Buffer)
    assert isinstance(s, Scalar)
    assert (p.array.shape, p.initialised, q.initialised, p.array is q.array) == ((4, 8, 8), False, True, True)
    assert int(s.value) == 4
    assert np.isnan(p.array).all()
    p.array[...] = 1
    assert trial.damage() == (), "scratch may be written"
    assert data.bytes(it.shape.names) == 3 * 8 * 8 * 4, "and is no work that has to be done"


def test_textures_over_a_buffer() -> None:
    data = DataSpec.plain(("tex_A", "tex4_B", "C"))
    one, four = Problem(data, Shape(4, 4, 4), 1).trial().arguments(("tex_A", "tex4_B"))
    assert isinstance(one, Texture)
    assert isinstance(four, Texture)
    assert (one.array.shape, one.channels) == ((16,), 1)
    assert (four.array.shape, four.channels) == ((4, 4), 4)
    assert one.is_linear
    assert four.is_linear
    assert not Texture(np.zeros((4, 4))).is_linear


@pytest.mark.parametrize(
    ("formula", "right"),
    [
        ("C = relu(A @ B)", lambda a, b, c, bias: np.maximum(a @ b, 0)),
        ("C = max(A @ B + bias, 0.25)", lambda a, b, c, bias: np.maximum(a @ b + bias, 0.25)),
        ("C = -(A @ B) + 0.5 * C", lambda a, b, c, bias: -(a @ b) + 0.5 * c),
        ("C = relu(2 * (A @ B) - bias) + C", lambda a, b, c, bias: np.maximum(2 * (a @ b) - bias, 0) + c),
    ],
)  # fmt: skip
def test_formulas(formula: str, right: Any) -> None:
    parameters = ("A", "B", "C", "bias") if "bias" in formula else ("A", "B", "C")
    it = problem(parameters=parameters, formula=formula)
    a, b = it.factors
    c, bias = it.values["C"].value, it.values["bias"].value if "bias" in formula else 0.0
    exact = right(a, b, c, bias)
    assert np.allclose(it.reference, exact, rtol=1e-13)
    single = right(*(np.float32(x) for x in (a, b, c, bias)))
    assert (np.abs(single - exact) <= it.tolerance).all()
    assert it.data.answer.role == ("inout" if formula.count("C") == 2 else "out")
    largest = np.unravel_index(np.abs(exact - right(np.zeros_like(a), b, c, bias)).argmax(), exact.shape)
    without = right(a[:, 1:], b[1:], c, bias)[largest]
    assert abs(without - exact[largest]) > it.tolerance[largest], "a lost product shows"


def test_products_of_products_round_twice() -> None:
    data = DataSpec.plain(
        ("A", "B", "D", "C"), formula="C = (A @ B) @ D", buffers=[buffer("D", "float32", "N", "N")]
    )  # fmt: skip
    it = Problem(data, Shape(30, 20, 40), 2)
    assert data.formula.product is None
    a, b, d = (it.values[name].value for name in "ABD")
    assert np.array_equal(it.reference, (a @ b) @ d)
    assert np.allclose(it.tolerance, 2.0**-24 * (40 + 20 + 4) * (abs(a) @ abs(b) @ abs(d)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A @ B", "is not a formula"),
        ("C = A @ X", "uses X, which is not a known name"),
        ("C = relu(A, B)", "relu takes 1 arguments"),
        ("C = A ** B", "is not allowed"),
        ("C = open('x')", "is not allowed"),
        ("C = A.T @ B", "is not allowed"),
        ("C = D = A", "is not a formula"),
        ("C[0] = A", "is not a formula"),
    ],
)
def test_what_is_no_formula(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        Formula.parse(text, ("A", "B", "C"))


def test_an_integer_answer_wraps_as_c_converts_it() -> None:
    """Sums of int8 products do not fit into int8: what a cast leaves of them is right, and nothing else."""
    it = problem(16, 16, 64, a="int8", b="int8", c="int8", accumulate="int32")
    a, b = (it.arrays[name].astype(np.int64) for name in "AB")
    assert np.abs(a @ b).max() > 127
    assert judge(it, (a @ b).astype(np.int8), TileSizes()).passed
    assert not judge(it, np.clip(a @ b, -128, 127).astype(np.int8), TileSizes()).passed


def test_a_kernel_that_wraps_in_between_is_wrong() -> None:
    it = problem(16, 16, 64, a="int8", b="int8", c="int32", accumulate="int32")
    a, b = (it.arrays[name].astype(np.int64) for name in "AB")
    assert judge(it, (a @ b).astype(np.int32), TileSizes()).passed
    assert not judge(it, (a @ b).astype(np.int16).astype(np.int32), TileSizes()).passed


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float8_e4m3", "float8_e5m2", "tf32"])
def test_honest_narrow_inputs_pass_and_sums_in_them_do_not(kind: str) -> None:
    it = problem(32, 32, 256, a=kind, b=kind, c="float32", accumulate="float32")
    a, b = (values.astype(np.float32) for values in it.factors)
    assert judge(it, a @ b, TileSizes()).passed
    total, narrow = np.zeros((32, 32)), ELEMENTS[kind]
    for k in range(256):
        total = narrow.decode(narrow.encode(total + np.outer(a[:, k], b[k])))
    assert not judge(it, stored(it, total), TileSizes()).passed


def test_values_take_what_is_given() -> None:
    value = Formula.parse("C = 2 * A", ("A", "C")).value({"A": Value.exact(np.array([[1.0, -3.0]]))})
    assert value.value.tolist() == [[2.0, -6.0]]
    assert value.magnitude.tolist() == [[2.0, 6.0]]


GIVEN = "C = relu(alpha * (A @ B) + beta * C + bias)"


def test_where_beta_is_given_as_0_nobody_may_read_c() -> None:
    beta = (("beta", Expression.parse("2 * (K % 2)", SIZES)),)
    data = DataSpec.plain(("A", "B", "C", "bias", "alpha", "beta"), formula=GIVEN, given=beta)
    for k, value in ((6, 0.0), (7, 2.0)):
        shape = Shape(5, 4, k)
        it = Problem(data, shape, 3)
        a, b, c = (it.values[name].value for name in "ABC")
        assert float(it.scalars["beta"]) == value
        assert np.isnan(it.arrays["C"]).all() == (value == 0)
        sums = float(it.scalars["alpha"]) * (a @ b) + value * c + it.values["bias"].value
        assert np.allclose(it.reference, np.maximum(sums, 0), rtol=1e-14)
        (given,) = (each for each in it.trial().arguments(("A", "C")) if isinstance(each, Buffer) and each.name == "C")
        assert given.initialised == (value != 0)
        assert data.bytes(shape.names) == 4 * (5 * k + k * 4 + 5 * 4 * (1 if value == 0 else 2) + 4)


def test_what_is_given_may_name_a_number_that_is_drawn() -> None:
    beta = (("beta", Expression.parse("drawn * (K % 2)", (*SIZES, DRAWN))),)
    data = DataSpec.plain(("A", "B", "C", "beta"), formula="C = A @ B + beta * C", given=beta)
    odd = {float(Problem(data, Shape(2, 3, 5), seed).scalars["beta"]) for seed in range(20)}
    assert len(odd) > 2
    assert 0 not in odd
    assert float(Problem(data, Shape(2, 3, 4), 1).scalars["beta"]) == 0
    assert np.isnan(Problem(data, Shape(2, 3, 4), 1).arrays["C"]).all()


@pytest.mark.parametrize(
    ("instead", "name", "said"),
    [
        ("alpha * (A @ B) + beta * C + bias", "relu_ignored", "relu was left out"),
        ("relu(alpha * (A @ B) + beta * C) + bias", "relu_early", "relu came before bias was added"),
        ("relu(alpha * (A @ B) + bias) + beta * C", "relu_early", "relu came before beta * C was added"),
        ("relu(alpha * (A @ B + beta * C) + bias)", "alpha_spread", "alpha multiplied beta * C, too"),
        ("relu(alpha * (A @ B + beta * C + bias))", "alpha_spread", "alpha multiplied beta * C and bias, too"),
        ("relu(beta * C + bias)", "", ""),
    ],
)
def test_an_epilogue_that_is_another_formula_is_recognised(instead: str, name: str, said: str) -> None:
    it = Problem(DataSpec.plain(("A", "B", "C", "bias", "alpha", "beta"), formula=GIVEN), Shape(40, 48, 9), 5)
    pattern = judge(it, it.answer_of(Formula(f"C = {instead}")).value.astype(np.float32), TileSizes(16, 16, 8)).pattern
    assert (pattern.name if pattern and name else "") == name
    assert said in (pattern.explanation if pattern else "")


def test_a_bias_of_another_place_is_recognised() -> None:
    it = Problem(DataSpec.plain(("A", "B", "C", "bias"), formula="C = A @ B + bias"), Shape(40, 48, 9), 5)
    bias, columns = it.values["bias"].value, np.arange(48)
    for other, name in ((bias[columns % 16], "bias_in_tile"), (bias[:40, None], "bias_by_row"), (bias[::-1], "")):
        answer = it.evaluated({**it.values, "bias": Value.exact(other)})
        pattern = judge(it, answer.value.astype(np.float32), TileSizes(16, 16, 8)).pattern
        assert (pattern.name if pattern and name else "") == name, pattern
