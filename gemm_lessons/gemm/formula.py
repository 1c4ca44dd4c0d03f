"""What a kernel is to compute, as a formula over its buffers: ``C = relu(alpha * (A @ B) + beta * C + bias)``.

It is evaluated in float64 by NumPy, together with what an honest kernel may be off by. Allowed: names of buffers and of
scalars, numbers, ``+ - * @``, ``relu(x)``, ``transpose(x)``, ``max(x, y)``, ``min(x, y)``. On the right of ``=`` the
buffer on the left is what it held before the launch.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gemm_lessons.engine.arguments.expression import LONGEST, ExpressionError, closest
from gemm_lessons.engine.records.frozen import dataclass

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

PROBABLE = 8.0  # standard deviations of accumulated rounding that no honest sum exceeds: 1 in 10**15, two-sided
ALLOWED = "TARGET = names, numbers, + - * @, relu(x), transpose(x), max(x, y), min(x, y)"
_ARGUMENTS: Mapping[str, int] = {"relu": 1, "transpose": 1, "max": 2, "min": 2}


def roundings(k: int) -> float:
    """How many roundings of its magnitude a sum of ``k`` products can be off by, in any order.

    ``|error| <= k u / (1 - k u) * sum |a_ik b_kj|`` (Higham, "Accuracy and Stability of Numerical Algorithms", section
    3.1), u being half the distance from 1 to the next number of the accumulator, is the worst case, all roundings
    conspiring; as independent roundings they stay within ``lambda sqrt(k) u * sum |a_ik b_kj|`` with probability
    1 - 2 exp(-lambda^2 / 2) (Higham and Mary, "A new approach to probabilistic rounding error analysis", 2019). Up to
    k = 64 it is the worst case and no order of summation can exceed it; beyond, no honest order will (lambda = 8).
    """
    return float(min(k, PROBABLE * k**0.5))


@dataclass(frozen=True)
class Value:
    """A value with what rounding may do to it: ``magnitude`` is the formula over magnitudes, with nothing that cancels;
    ``terms`` counts the roundings of sums, in units of it."""

    value: Array
    magnitude: Array
    terms: float = 0.0

    @classmethod
    def exact(cls, value: Array) -> Value:
        """Inputs, as they are stored."""
        return cls(value, abs(value))


@dataclass(frozen=True)
class Product:
    """One ``X @ Y`` of a formula whose factors are buffers, either of them maybe transposed."""

    left: str
    right: str
    left_transposed: bool
    right_transposed: bool


@dataclass(frozen=True)
class Formula:
    """Parsed. Construct with ``Formula.parse``; the text is all its state, so it pickles."""

    text: str

    @classmethod
    def parse(cls, text: str, names: Iterable[str]) -> Formula:
        """Check ``text`` against the grammar and the names that it may use. Raises ``ExpressionError``."""
        if len(text) > LONGEST:
            raise ExpressionError(f"a formula of {len(text)} characters; at most {LONGEST}")
        formula = cls(text)
        known = list(names)
        for name in (formula.target, *_names(formula._tree, text)):
            if name not in known:
                near = closest(name, known)
                hint = f"; did you mean {near}?" if near else f"; known: {', '.join(known)}"
                raise ExpressionError(f'"{text}" names {name}, which is not known here{hint}')
        return formula

    @cached_property
    def _parsed(self) -> tuple[str, ast.expr]:
        try:
            body = ast.parse(self.text.strip()).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            body = []
        match body:
            case [ast.Assign(targets=[ast.Name(id=target)], value=value)]:
                return target, value
        raise ExpressionError(f'"{self.text}" is no formula; allowed: {ALLOWED}')

    @property
    def target(self) -> str:
        """The buffer that holds the answer."""
        return self._parsed[0]

    @property
    def _tree(self) -> ast.expr:
        return self._parsed[1]

    @property
    def names(self) -> tuple[str, ...]:
        """What stands on the right of ``=``, in order."""
        return tuple(_names(self._tree, self.text))

    @cached_property
    def product(self) -> Product | None:
        """The only product of matrices, if there is just one, and of buffers."""
        found = [node for node in ast.walk(self._tree) if _is_product(node)]
        if len(found) != 1:
            return None
        assert isinstance(found[0], ast.BinOp)
        left, right = _factor(found[0].left), _factor(found[0].right)
        if left is None or right is None:
            return None
        return Product(left[0], right[0], left[1], right[1])

    @cached_property
    def is_product(self) -> bool:
        """Whether the answer is a product of matrices and nothing else."""
        return _is_product(self._tree)

    def value(self, values: Mapping[str, Value], product: Value | None = None) -> Value:
        """The right answer, with what rounding may do to it; ``product`` stands for the product if it is given."""
        return _evaluate(self._tree, values, product)


def _is_product(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)


def _factor(node: ast.expr) -> tuple[str, bool] | None:
    match node:
        case ast.Name(id=name):
            return name, False
        case ast.Call(func=ast.Name(id="transpose"), args=[ast.Name(id=name)]):
            return name, True
    return None


def _names(node: ast.expr, text: str) -> Iterator[str]:
    match node:
        case ast.Constant(value=value) if type(value) in (int, float):
            return
        case ast.Name(id=name):
            yield name
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            yield from _names(operand, text)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.MatMult(), right=right):
            yield from _names(left, text)
            yield from _names(right, text)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _ARGUMENTS:
            if len(arguments) != _ARGUMENTS[name]:
                raise ExpressionError(f'"{text}": {name} takes {_ARGUMENTS[name]} arguments')
            for argument in arguments:
                yield from _names(argument, text)
        case _:
            raise ExpressionError(f'"{text}": {ast.unparse(node)} is not allowed; allowed: {ALLOWED}')


def _evaluate(node: ast.expr, values: Mapping[str, Value], product: Value | None) -> Value:
    import numpy as np  # reading a lesson needs none

    def at(inner: ast.expr) -> Value:
        return _evaluate(inner, values, product)

    match node:
        case ast.Constant(value=int() | float() as number):
            return Value.exact(np.array(float(number)))
        case ast.Name(id=name):
            return values[name]
        case ast.UnaryOp(operand=operand):
            inner = at(operand)
            return Value(-inner.value, inner.magnitude, inner.terms)
        case ast.BinOp(op=ast.MatMult()) if product is not None:
            return product
        case ast.BinOp(left=left, op=ast.MatMult(), right=right):
            a, b = at(left), at(right)
            return Value(a.value @ b.value, a.magnitude @ b.magnitude, a.terms + b.terms + roundings(a.value.shape[-1]))
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            a, b = at(left), at(right)
            return Value(a.value * b.value, a.magnitude * b.magnitude, a.terms + b.terms)
        case ast.BinOp(left=left, op=op, right=right):
            a, b = at(left), at(right)
            value = a.value + b.value if isinstance(op, ast.Add) else a.value - b.value
            return Value(value, a.magnitude + b.magnitude, max(a.terms, b.terms))
        case ast.Call(func=ast.Name(id="transpose"), args=[operand]):
            inner = at(operand)
            return Value(np.swapaxes(inner.value, -1, -2), np.swapaxes(inner.magnitude, -1, -2), inner.terms)
        case ast.Call(func=ast.Name(id="relu"), args=[operand]):
            inner = at(operand)
            return Value(np.maximum(inner.value, 0.0), inner.magnitude, inner.terms)
        case ast.Call(func=ast.Name(id=name), args=[left, right]):
            a, b = at(left), at(right)
            pick = np.maximum if name == "max" else np.minimum
            return Value(pick(a.value, b.value), np.maximum(a.magnitude, b.magnitude), max(a.terms, b.terms))
    raise ExpressionError(f"{ast.unparse(node)} is not allowed; allowed: {ALLOWED}")
