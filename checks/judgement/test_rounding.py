"""Formulas with functions: honest kernels pass in any order of their sums, others fail, and the bound is no guess."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from gemm_lessons import simulate
from gemm_lessons.engine.arguments.expression import Expression, ExpressionError
from gemm_lessons.engine.records.elements import ELEMENTS
from gemm_lessons.engine.simulator import Setting, Simulator
from gemm_lessons.gemm.data import BufferSpec, DataSpec
from gemm_lessons.gemm.formula import Formula, Value
from gemm_lessons.gemm.problem import Problem
from gemm_lessons.gemm.rounding import Arithmetic, evaluate
from gemm_lessons.gemm.shapes import Shape

Array = np.ndarray[Any, Any]
SINGLE = np.float32
SOFTMAX = "C = exp(X - max(X, axis=1)) / sum(exp(X - max(X, axis=1)), axis=1)"
COUNTING = (84.0, 92.0)  # every term of a row counts, and exp of most overflows


def buffer(name: str, *shape: str, limits: tuple[float, float] | None = None, kind: str = "float32") -> BufferSpec:
    return BufferSpec(name, ELEMENTS[kind], tuple(Expression.parse(it, ("M", "N", "K")) for it in shape), range=limits)


def asked(
    formula: str,
    limits: tuple[float, float] | None = None,
    shape: Shape | None = None,
    seed: int = 3,
    c: str = "float32",
) -> Problem:
    data = DataSpec.plain(("X", "C"), formula=formula, buffers=[buffer("X", "M", "N", limits=limits)], c=c)
    return Problem(data, shape or Shape(33, 70, 1), seed)


def fits(it: Problem, values: Array) -> bool:
    with np.errstate(all="ignore"):
        return bool((np.abs(values.astype(np.float64) - it.reference) <= it.tolerance).all())


def nearest(function: Callable[[Array], Array], x: Array) -> Array:
    """Rounded once, as a good library does."""
    with np.errstate(all="ignore"):
        return function(x.astype(np.float64)).astype(x.dtype)


def added(terms: Array, order: Sequence[int]) -> Array:
    """One rounding for each sum of a row, in ``order``."""
    total = np.zeros((len(terms), 1), terms.dtype)
    for j in order:
        total = total + terms[:, j, None]
    return total


def halves(terms: Array) -> Array:
    """As a block's threads add: the upper half to the lower one, until one is left."""
    while terms.shape[1] > 1:
        half = -(-terms.shape[1] // 2)
        lower = terms[:, :half].copy()
        lower[:, : terms.shape[1] - half] += terms[:, half:]
        terms = lower
    return terms


def one_pass(x: Array) -> Array:
    """Largest number and sum at once: the sum so far is scaled when a larger number comes."""
    top, total = x[:, :1].copy(), np.ones((len(x), 1), x.dtype)
    for j in range(1, x.shape[1]):
        larger = np.maximum(top, x[:, j, None])
        total = total * nearest(np.exp, top - larger) + nearest(np.exp, x[:, j, None] - larger)
        top = larger
    return np.asarray(nearest(np.exp, x - top) / total)


@pytest.mark.parametrize("limits", [COUNTING, (-60.0, 100.0), (-1.0, 1.0), None])
@pytest.mark.parametrize("cols", [1, 2, 70, 1024])
@pytest.mark.parametrize("seed", [1, 2])
def test_any_order_of_an_honest_softmax_passes(limits: tuple[float, float] | None, cols: int, seed: int) -> None:
    it = asked(SOFTMAX, limits, Shape(17, cols, 1), seed)
    x = it.arrays["X"]
    e = nearest(np.exp, x - x.max(1, keepdims=True))
    shuffled = np.random.default_rng(seed).permutation(cols)
    ascending = np.argsort(e.sum(0))
    for order in (np.arange(cols), np.arange(cols)[::-1], shuffled, ascending):
        total = added(e, order.tolist())
        assert fits(it, e / total)
        assert fits(it, e * (1 / total)), "one division a row"
    assert fits(it, e / halves(e))
    assert fits(it, one_pass(x))


def test_a_row_of_a_large_softmax_stays_below_one_lost_term() -> None:
    it = asked(SOFTMAX, COUNTING, Shape(8, 1024, 1))
    x = it.arrays["X"]
    e = nearest(np.exp, x - x.max(1, keepdims=True))
    total = e.sum(1, keepdims=True)
    for lost in range(0, 1024, 64):
        assert not fits(it, e / (total - e[:, lost, None]))


WRONG: dict[str, Callable[[Array, Array, Array], Array]] = {  # of x, exp(x - largest), its sum
    "nothing subtracted": lambda x, e, total: nearest(np.exp, x) / nearest(np.exp, x).sum(1, keepdims=True),
    "another row's largest": lambda x, e, total: nearest(np.exp, x - x[0].max()) / total,
    "the first term lost": lambda x, e, total: e / (total - e[:, :1]),
    "the last term lost": lambda x, e, total: e / (total - e[:, -1:]),
    "a term too many": lambda x, e, total: e / (total + e[:, :1]),
    "the sum of a column": lambda x, e, total: e / e.sum(0, keepdims=True),
    "not divided": lambda x, e, total: e,
    "exp in half": lambda x, e, total: nearest(np.exp, (x - x.max(1, keepdims=True)).astype(np.float16)) / total,
    "sums in half": lambda x, e, total: e / added(e.astype(np.float16), range(e.shape[1])),
    "a quotient of 12 bits": lambda x, e, total: e * nearest(lambda t: 1 / t * (1 + 2.0**-13), total),
    "exp by its first bits": lambda x, e, total: e * SINGLE(1 + 2.0**-15) / total,
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_dishonest_softmax_fails(name: str) -> None:
    it = asked(SOFTMAX, COUNTING)
    x = it.arrays["X"]
    e = nearest(np.exp, x - x.max(1, keepdims=True))
    total = e.sum(1, keepdims=True)
    assert fits(it, e / total)
    with np.errstate(all="ignore"):
        assert not fits(it, WRONG[name](x, e, total))


KERNEL = (
    'extern "C" __global__ void {name}(const float *x, float *y)'
    " {{ int i = threadIdx.x; float v = x[i]; y[i] = {body}; }}"
)
# Formula, range of X, what gives it honestly, what does not.
ELEMENTWISE = [
    ("exp(X)", (-80.0, 80.0), ["expf(v)", "(float)exp((double)v)"], ["__expf(v)", "exp2f(v * 1.4426950f)"]),
    ("log(X)", (0.5, 2.0), ["logf(v)", "log1pf(v - 1.0f)"], ["log2f(v) * 0.6931f", "2.0f * (v - 1.0f) / (v + 1.0f)"]),
    ("tanh(X)", (-3.0, 3.0), ["tanhf(v)"],
     ["1.0f - 2.0f / (expf(2.0f * v) + 1.001f)", "v / (1.0f + fabsf(v))", "fminf(fmaxf(v, -1.0f), 1.0f)"]),
    ("sqrt(X)", (0.1, 90.0), ["sqrtf(v)", "v * rsqrtf(v)", "__fsqrt_rz(v)"],
     ["__half2float(hsqrt(__float2half(v)))", "sqrtf(v) + 1e-5f"]),
    ("1 / X", (0.1, 90.0), ["1.0f / v", "__frcp_rz(v)"], ["1.0f / (v + 1e-6f)", "__half2float(hrcp(__float2half(v)))"]),
    ("X / (1 + exp(-X))", (-20.0, 20.0), ["v / (1.0f + expf(-v))", "v * (1.0f / (1.0f + expf(-v)))"],
     ["v / (1.0f + __expf(-v))", "v / (1.0f + expf(v))", "fmaxf(v, 0.0f)"]),
    ("0.5 * X * (1 + tanh(0.7978846 * (X + 0.044715 * X * X * X)))", (-2.0, 2.0),
     ["0.5f * v * (1.0f + tanhf(0.7978846f * (v + 0.044715f * v * v * v)))"],
     ["0.5f * v * (1.0f + erff(v * 0.70710678f))", "v / (1.0f + expf(-1.702f * v))"]),
]  # fmt: skip
# All in one program, which is compiled once.
NAMES = {body: f"k{number}" for number, body in enumerate(it for case in ELEMENTWISE for it in (*case[2], *case[3]))}
PROGRAM = "#include <cuda_fp16.h>\n" + "\n".join(KERNEL.format(name=name, body=body) for body, name in NAMES.items())


@pytest.mark.parametrize("formula", [case[0] for case in ELEMENTWISE])
def test_functions_of_cuda_pass_and_fast_ones_beyond_the_bound_fail(formula: str) -> None:
    (limits, honest, others) = next(case[1:] for case in ELEMENTWISE if case[0] == formula)
    it = asked(f"C = {formula}", limits, Shape(1, 1024, 1))
    values = Simulator(Setting(counting=False))
    for body in (*honest, *others):
        y = np.zeros(1024, SINGLE)
        launched = simulate(PROGRAM, NAMES[body], 1, 1024, [it.arrays["X"].reshape(-1), y], device=values)
        assert launched.fault is None
        assert fits(it, y[None]) == (body in honest), body


@pytest.mark.parametrize("formula", [case[0] for case in ELEMENTWISE])
def test_the_bound_is_no_wider_than_its_operations(formula: str) -> None:
    """In roundings of the result, where nothing cancels: no more than those that the table of operations has."""
    limits = next(case[1] for case in ELEMENTWISE if case[0] == formula)
    it = asked(f"C = {formula}", limits, Shape(1, 1024, 1))
    most = {"exp(X)": 5, "log(X)": 3, "tanh(X)": 5, "sqrt(X)": 5, "1 / X": 2}.get(formula)
    if most is not None:
        assert (it.tolerance <= 1.001 * most * 2.0**-24 * np.abs(it.reference) + 2.0**-125).all()


def test_an_error_in_exp_grows_with_how_far_its_argument_may_be_off() -> None:
    it = asked("C = exp(X - 0.1)", (-60.0, -50.0), Shape(1, 256, 1))
    relative = it.tolerance / it.reference * 2.0**24
    assert (relative >= np.abs(it.arrays["X"]) * 0.9).all(), "of a difference, one rounding"
    assert (relative <= np.abs(it.arrays["X"]) * 1.1 + 8).all()
    assert fits(it, nearest(np.exp, it.arrays["X"] - SINGLE(0.1)))


@pytest.mark.parametrize("kind", ["float64", "float32"])
@pytest.mark.parametrize(
    "formula",
    [
        "sum(X, axis=1)", "sum(X * X, axis=0)", "max(X, axis=0) - min(X, axis=0)",
        "X / sqrt(sum(X * X, axis=1) / 70 + 0.001)",
        "log(sum(exp(X), axis=1))", "X - max(X, axis=1) - log(sum(exp(X - max(X, axis=1)), axis=1))",
        "(X - sum(X, axis=1) / 70) / sqrt(sum(X * X, axis=1) / 70)", "min(exp(X), 2.0 * relu(X))",
    ],
)  # fmt: skip
def test_numpy_in_the_kernel_s_type_is_honest(formula: str, kind: str) -> None:
    """Each formula by NumPy, one rounding for each operation; and half as precise, which is not."""
    widths: dict[str, Any] = {"float64": np.float64, "float32": np.float32}
    cols = "1" if formula.startswith(("sum(X, axis=1", "log(sum")) else "N"
    rows = "1" if formula.startswith(("sum(X * X, axis=0", "max(X, axis=0")) else "M"
    data = DataSpec.plain(
        ("X", "C"), formula=f"C = {formula}", accumulate=kind,
        buffers=[buffer("X", "M", "N", limits=(-2.0, 3.0), kind=kind), buffer_out(rows, cols, kind)],
    )  # fmt: skip
    data.check_formula({"M": 33, "N": 70, "K": 1})
    for seed in range(4):
        it = Problem(data, Shape(33, 70, 1), seed)
        x = it.arrays["X"]
        assert fits(it, by_numpy(formula, x, widths[kind]))
        assert not fits(it, by_numpy(formula, x, np.float16 if kind == "float32" else np.float32))


def buffer_out(rows: str, cols: str, kind: str) -> BufferSpec:
    shape = tuple(Expression.parse(it, ("M", "N", "K")) for it in (rows, cols))
    return BufferSpec("C", ELEMENTS[kind], shape, role="out", fill="poison")


def by_numpy(formula: str, x: Array, kind: type[np.floating[Any]]) -> Array:
    def along(pick: Callable[..., Array]) -> Callable[..., Array]:
        def function(value: Array, other: Array | None = None, axis: int | None = None) -> Array:
            return pick(value, axis=axis, keepdims=True, dtype=kind) if pick is np.sum else reduced(value, other, axis)

        def reduced(value: Array, other: Array | None, axis: int | None) -> Array:
            two = np.maximum if pick is np.max else np.minimum
            return two(value, other) if other is not None else pick(value, axis=axis, keepdims=True)

        return function

    names = {
        "X": x.astype(kind), "sum": along(np.sum), "max": along(np.max), "min": along(np.min), "sqrt": np.sqrt,
        "exp": lambda v: nearest(np.exp, v), "log": lambda v: nearest(np.log, v),
        "relu": lambda v: np.maximum(v, kind(0)),
    }  # fmt: skip
    return np.asarray(eval(formula, {"__builtins__": {}}, names))


def test_narrow_answers_are_rounded_once_more() -> None:
    it = asked(SOFTMAX, COUNTING, c="float16")
    x = it.arrays["X"]
    e = nearest(np.exp, x - x.max(1, keepdims=True))
    total = e.sum(1, keepdims=True)
    assert fits(it, (e / total).astype(np.float16))
    assert not fits(it, (e / (total - e[:, :1])).astype(np.float16).astype(np.float32) * SINGLE(1.002))


def test_an_epilogue_with_functions_comes_after_the_product() -> None:
    data = DataSpec.plain(("A", "B", "C", "bias"), formula="C = tanh(0.125 * (A @ B) + bias)")
    it = Problem(data, Shape(24, 40, 64), 1)
    a, b, bias = (it.arrays[name] for name in ("A", "B", "bias"))
    assert np.abs(a).min() >= 0.5, "no exponents: exp and tanh do not take any number"
    for order in (np.arange(64), np.arange(64)[::-1]):
        total = np.zeros((24, 40), SINGLE)
        for k in order:
            total = total + a[:, k, None] * b[None, k]
        assert fits(it, nearest(np.tanh, SINGLE(0.125) * total + bias))
        lost = total - a[:, 5, None] * b[None, 5]
        assert not fits(it, nearest(np.tanh, SINGLE(0.125) * lost + bias))
        assert not fits(it, nearest(np.tanh, SINGLE(0.125) * (total + bias)))


def test_what_may_be_divided_by_zero_or_is_the_log_of_it_has_no_bound() -> None:
    kind = Arithmetic(2.0**-24, 2.0**-126)
    x = Value.exact(np.array([[2.0, 0.0]]))
    for text in ("C = 1 / X", "C = log(X)"):
        found = evaluate(Formula.parse(text, ("X", "C")), {"X": x}, None, kind)
        assert found.error is not None
        assert np.isfinite(found.error[0, 0])
        assert not np.isfinite(found.error[0, 1])
    difference = evaluate(Formula.parse("C = sqrt(X - 2)", ("X", "C")), {"X": x}, None, kind)
    assert difference.error is not None
    assert not np.isfinite(difference.error[0, 0]), "may be a little less than 0"


@pytest.mark.parametrize(
    ("formula", "says"),
    [
        ("C = sum(X)", "sum of one argument takes axis=1, of each row, or axis=0, of each column"),
        ("C = sum(X, axis=2)", "sum of one argument takes axis=1"),
        ("C = sum(X, axis=True)", "sum of one argument takes axis=1"),
        ("C = max(X)", "max of one argument takes axis=1"),
        (
            "C = exp(X, axis=1)",
            r"exp\(X, axis=1\) is not allowed; allowed: TARGET = .* \+ - \* / @, .*sum\(x, axis=1\)",
        ),
        ("C = exp(X, X)", "exp takes 1 arguments"),
        ("C = X ** 2", "is not allowed"),
    ],
)
def test_what_is_no_formula_is_told(formula: str, says: str) -> None:
    with pytest.raises(ExpressionError, match=says):
        Formula.parse(formula, ("X", "C"))


@pytest.mark.parametrize(
    ("formula", "says"),
    [
        ("C = X / sum(X, axis=0)", None),
        ("C = transpose(transpose(X) - max(transpose(X), axis=0))", None),
        ("C = sum(X, axis=1)", r"gives 33 x 1, but C is 33 x 70"),
        ("C = X + transpose(X)", r"X \+ transpose\(X\): 33 x 70 and 70 x 33 do not fit together"),
        ("C = exp(X @ X)", "a matrix of 33 x 70 cannot be multiplied by one of 33 x 70"),
        ("C = X - sum(alpha, axis=1)", "a number has no axis 1"),
    ],
)
def test_shapes_must_fit(formula: str, says: str | None) -> None:
    it = asked(formula if says is None else SOFTMAX, COUNTING).data
    if says is None:
        it.check_formula({"M": 33, "N": 70, "K": 1})
        return
    wrong = DataSpec.plain(("X", "C"), formula=formula, buffers=[buffer("X", "M", "N")])
    with pytest.raises(ExpressionError, match=says):
        wrong.check_formula({"M": 33, "N": 70, "K": 1})


def test_integers_have_no_functions() -> None:
    with pytest.raises(ExpressionError, match="are of floats, not of integers"):
        DataSpec.plain(("A", "B", "C"), a="int8", b="int8", c="int32", accumulate="int32", formula="C = exp(A @ B)")


def test_operations_of_a_formula_without_a_product() -> None:
    it = asked(SOFTMAX, COUNTING).data
    # twice: largest, difference and exp; a sum and a quotient.
    assert it.operations({"M": 33, "N": 70, "K": 1}) == 33 * 70 * 8
    plain = DataSpec.plain(("A", "B", "C"), formula="C = relu(A @ B)")
    assert plain.operations({"M": 4, "N": 5, "K": 6}) == 2 * 4 * 5 * 6
