"""Error bounds for formulas with functions: every value carries a bound on its rounding error.

Each operation takes values with an absolute bound on their error, and gives its own value with one (running error
analysis; Higham, "Accuracy and Stability of Numerical Algorithms", section 3.3). u is the unit roundoff, e_x the bound
of x, and a computed result is ``(1 + d) f(...) + t``, |d| <= r u, |t| <= the smallest normal number, since flushing
what is smaller to 0 is an option of the compiler. So each operation adds ``r u (|f| + e) + smallest`` to the error e
of its operands:

    x + y, x - y        e_x + e_y                                   r = 1
    x * y               |x| e_y + |y| e_x + e_x e_y                 r = 1
    x / y               (e_x + |x / y| e_y) / (|y| - e_y)           r = 2: 1 / y may be computed first
    exp(x)              exp(x) (exp(e_x) - 1)                       r = 5: expf is 2 ulp off
    log(x)              -log(1 - e_x / x)                           r = 3: logf is 1 ulp off
    tanh(x)             e_x (1 - tanh(|x| - e_x)^2), at most e_x    r = 5: tanhf is 2 ulp off
    sqrt(x)             e_x / (sqrt(x) + sqrt(x - e_x))             r = 5: rsqrtf, for 1 / sqrt(x), is 2 ulp off
    max, min, relu      the largest of the errors                   exact
    sum(x, axis=...)    the sum of the errors                       roundings(n - 1) u sum(|x| + e_x), in any order
    A @ B               |A| e_B + e_A |B| + e_A e_B                 roundings(K) u |A| |B|, with the errors in it

Each line is the largest change of f while its operands move by their errors: exact for +, -, *, /, exp, log and sqrt,
whose slopes are largest at an end of the interval; of tanh the largest slope times the error. exp turns the absolute
error of x into a relative one, which is why exp(x - max) of a number far below max may be off by |x - max| roundings.
``formula.roundings`` bounds the roundings of a sum; division by 1 - r u covers the terms of higher order.

ulp errors are the largest of CUDA's programming guide ("Mathematical functions", all releases from 11 to 13), against
the correctly rounded result: half an ulp more against the true one, and an ulp is 2 u at most. A constant that the type
does not have is rounded. Inputs are exact. Nothing is bounded where a divisor or the argument of log may be 0.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gemm_lessons.engine.records import dataclass
from gemm_lessons.gemm.formula import PROBABLE, Formula, Value, axis_of, constant_error, repeated, roundings

Array = np.ndarray[Any, Any]

# Roundings of a sum of products of random signs, at most: see ``roundings_of_signs``.
SIGNED = PROBABLE**2 * 1.25
FUNCTION_ROUNDINGS: Mapping[str, int] = {"exp": 5, "log": 3, "tanh": 5, "sqrt": 5}
DIVISION_ROUNDINGS = 2


def roundings_of_signs(k: int) -> float:
    """Return the error bound of a sum of ``k`` products of random signs and of sizes from 1/4 to 1, added in any order,
    in unit roundoffs of the sum of magnitudes: 80, however large ``k`` is.

    An order of summation is a binary tree of partial sums s_v. It does not depend on the signs. With lambda = 8:

    1. ``|s_v| <= lambda sqrt(sum p^2)`` over the products p in s_v, but for a probability of 2 exp(-lambda^2 / 2)
       (Hoeffding), for each of the k - 1 sums.
    2. Roundings of relative size u at most, of mean 0 and independent, add up to at most ``lambda u sqrt(sum s_v^2)``,
       where the roundings of the products count as sums of one; but for a probability of 2 exp(-lambda^2 / 2)
       (Azuma-Hoeffding; the model of Higham and Mary, see ``formula.roundings``).
    3. A product is in at most k of these sums, so ``sum s_v^2 <= lambda^2 k sum p^2``.
    4. Of sizes from 1/4 to 1, ``sqrt(k sum p^2) <= 5/4 sum |p|`` (Kantorovich).

    Together the error is at most ``5/4 lambda^2 u sum |p|``, but for a probability of 2 k exp(-32): 1.3e-10 for an
    element with k = 5,120. The sums that kernels compute reach 4% of it, and 86% where they add all negative products
    first. Cutting 13 bits of one factor, as TF32 does, reaches 4 times as much at k = 5,120, and twice at 16,384.
    """
    return min(roundings(k), SIGNED)


@dataclass(frozen=True)
class Arithmetic:
    """The type that kernels compute in: its unit roundoff and its smallest normal number."""

    unit: float
    smallest: float

    def several(self, count: float) -> float:
        """Return the accumulated relative error of ``count`` roundings."""
        return count * self.unit / (1 - count * self.unit)

    def rounded(self, value: Array, error: Array, count: int) -> Value:
        """Return a rounded result whose operands contribute ``error``."""
        return bounded(value, error + self.several(count) * (np.abs(value) + error) + self.smallest)


def bounded(value: Array, error: Array) -> Value:
    """Return a value with its error bound."""
    return Value(value, np.abs(value), error=error)


def evaluate(formula: Formula, values: Mapping[str, Value], product: Value | None, kind: Arithmetic) -> Value:
    """Evaluate in float64, and bound the rounding error in ``kind``. ``product``: instead of the matrix product."""
    if not formula.has_functions:
        return formula.value(values, product)
    with np.errstate(all="ignore"):  # infinite values and errors are refused elsewhere, or tolerate anything
        return _Evaluation(values, product, kind).of(formula.tree)


class _Evaluation:
    def __init__(self, values: Mapping[str, Value], product: Value | None, kind: Arithmetic) -> None:
        self.values, self.product, self.kind = values, product, kind

    def of(self, node: ast.expr) -> Value:
        match node:
            case ast.Constant(value=int() | float() as number):
                return self.constant(float(number))
            case ast.Name(id=name):
                return self.known(self.values[name])
            case ast.UnaryOp(operand=operand):
                value, error = self.parts(operand)
                return bounded(-value, error)
            case ast.BinOp(op=ast.MatMult()) if self.product is not None:
                return self.known(self.product)
            case ast.BinOp(left=left, op=op, right=right):
                return self.operation(op, *self.parts(left), *self.parts(right))
            case ast.Call() if found := repeated(node):
                value, error = self.parts(found[0])
                return bounded(*(np.repeat(np.broadcast_to(it, value.shape), *found[1:]) for it in (value, error)))
            case ast.Call(func=ast.Name(id=name), args=[operand]):
                return self.function(name, node, *self.parts(operand))
            case ast.Call(func=ast.Name(id=name), args=[left, right]):
                (a, a_error), (b, b_error) = self.parts(left), self.parts(right)
                pick = np.maximum if name == "max" else np.minimum
                return bounded(pick(a, b), np.maximum(a_error, b_error))
        raise AssertionError(ast.unparse(node))  # parsed

    def parts(self, node: ast.expr) -> tuple[Array, Array]:
        found = self.of(node)
        assert found.error is not None
        return found.value, found.error

    def known(self, given: Value) -> Value:
        """Return a value from outside with its bound: an input is exact, a product has the bound of its sums."""
        if given.error is not None:
            return given
        return bounded(given.value, self.kind.several(given.terms) * given.magnitude)

    def constant(self, number: float) -> Value:
        return bounded(np.array(number), np.array(constant_error(number, self.kind.unit)))

    def operation(self, op: ast.operator, a: Array, a_error: Array, b: Array, b_error: Array) -> Value:
        kind = self.kind
        match op:
            case ast.Add():
                return kind.rounded(a + b, a_error + b_error, 1)
            case ast.Sub():
                return kind.rounded(a - b, a_error + b_error, 1)
            case ast.Mult():
                return kind.rounded(a * b, np.abs(a) * b_error + np.abs(b) * a_error + a_error * b_error, 1)
            case ast.Div():
                least = np.abs(b) - b_error
                error = (a_error + np.abs(a / b) * b_error) / np.where(least > 0, least, np.nan)
                return kind.rounded(a / b, np.where(least > 0, error, np.inf), DIVISION_ROUNDINGS)
        a_most, b_most = np.abs(a) + a_error, np.abs(b) + b_error
        brought = np.abs(a) @ b_error + a_error @ b_most
        return bounded(a @ b, brought + kind.several(roundings(a.shape[-1])) * (a_most @ b_most) + kind.smallest)

    def function(self, name: str, node: ast.Call, x: Array, error: Array) -> Value:
        axis = axis_of(node)
        if name == "transpose":
            return bounded(np.swapaxes(x, -1, -2), np.swapaxes(error, -1, -2) if error.ndim > 1 else error)
        if name == "relu":
            return bounded(np.maximum(x, 0.0), error)
        if axis is None:
            value = FUNCTIONS[name](x)
            return self.kind.rounded(value, SPREAD[name](x, error, value), FUNCTION_ROUNDINGS[name])
        error = np.broadcast_to(error, x.shape)
        if name in ("max", "min"):
            pick = np.max if name == "max" else np.min
            return bounded(pick(x, axis=axis, keepdims=True), np.max(error, axis=axis, keepdims=True))
        total, brought = (np.sum(it, axis=axis, keepdims=True) for it in (x, error))
        most = np.sum(np.abs(x) + error, axis=axis, keepdims=True)
        return bounded(total, brought + self.kind.several(roundings(x.shape[axis] - 1)) * most)


FUNCTIONS: Mapping[str, Callable[[Array], Array]] = {"exp": np.exp, "log": np.log, "tanh": np.tanh, "sqrt": np.sqrt}
# The largest change of f(x) while x moves by its error, as a function of x, the error and f(x).
SPREAD: Mapping[str, Callable[[Array, Array, Array], Array]] = {
    "exp": lambda x, error, value: value * np.expm1(error),
    "log": lambda x, error, value: np.where(error < x, -np.log1p(-error / x), np.inf),
    "tanh": lambda x, error, value: error * (1 - np.tanh(np.maximum(np.abs(x) - error, 0)) ** 2),
    "sqrt": lambda x, error, value: np.where(
        error > x, np.inf, np.where(error == 0, 0, error / (value + np.sqrt(np.maximum(x - error, 0))))
    ),
}
