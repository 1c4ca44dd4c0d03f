"""The formula that a kernel computes over its buffers: ``C = relu(alpha * (A @ B) + beta * C + bias)``.

NumPy evaluates it in float64, together with the error that a right kernel may have: ``Value`` bounds products and sums,
``rounding.py`` bounds formulas with functions. Allowed are names of buffers and of scalars, numbers, ``+ - * / @`` and
the functions of ``ALLOWED``. ``sum``, ``max`` and ``min`` with ``axis=1`` reduce each row to one number, with
``axis=0`` each column. The result is a matrix of one column or one row, and is broadcast to the matrix that it is
combined with. ``repeat(x, 128, axis=1)`` has each column of x 128 times side by side, with ``axis=0`` each row: the
scales of blocks. The target's name on the right of ``=`` means its contents before the launch.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from math import frexp, prod
from typing import TYPE_CHECKING, Any

from gemm_lessons.engine.arguments import LONGEST, ExpressionError
from gemm_lessons.engine.records import dataclass

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

PROBABLE = 8.0  # standard deviations of accumulated rounding that no correct sum exceeds: 1 in 10**15, two-sided
ALLOWED = (
    "TARGET = names, numbers, + - * / @, relu(x), transpose(x), exp(x), log(x), tanh(x), sqrt(x), max(x, y), min(x, y),"
    " sum(x, axis=1), max(x, axis=1), min(x, axis=1), repeat(x, 128, axis=1)"
)
_ARGUMENTS: Mapping[str, int] = {
    "relu": 1, "transpose": 1, "exp": 1, "log": 1, "tanh": 1, "sqrt": 1, "max": 2, "min": 2,
}  # fmt: skip
_ALONG = ("sum", "max", "min")  # functions that take an axis
_SMOOTH = ("exp", "log", "tanh", "sqrt")


def roundings(k: int) -> float:
    """Return the error bound of a sum of ``k`` products in any order, in unit roundoffs of the sum of magnitudes.

    The worst case is ``|error| <= k u / (1 - k u) * sum |a_ik b_kj|`` (Higham, "Accuracy and Stability of Numerical
    Algorithms", section 3.1), where u is half the distance from 1 to the next number of the accumulator. Independent
    roundings stay within ``lambda sqrt(k) u * sum |a_ik b_kj|`` with probability 1 - 2 exp(-lambda^2 / 2) (Higham and
    Mary, "A new approach to probabilistic rounding error analysis", 2019). Up to k = 64 this function returns the
    worst-case bound, which no order of summation can exceed. Beyond, it returns the probabilistic bound (lambda = 8).
    """
    return float(min(k, PROBABLE * k**0.5))


def constant_error(number: float, unit: float) -> float:
    """Return the error of ``number`` in a type of this unit roundoff; 0 where the type represents it exactly."""
    return 0.0 if not unit or (frexp(number)[0] / unit).is_integer() else unit * abs(number)


@dataclass(frozen=True)
class Value:
    """A value with its rounding error: ``magnitude`` is the formula over absolute values, without cancellation;
    ``terms`` counts the roundings of sums, in units of ``magnitude``."""

    value: Array
    magnitude: Array
    terms: float = 0.0
    error: Array | None = None  # the bound itself, for a formula with functions

    @classmethod
    def exact(cls, value: Array) -> Value:
        """Return inputs as they are stored, without error."""
        return cls(value, abs(value))


@dataclass(frozen=True)
class Product:
    """One ``X @ Y`` of a formula whose factors are buffers, each possibly transposed."""

    left: str
    right: str
    left_transposed: bool
    right_transposed: bool


@dataclass(frozen=True)
class Formula:
    """A parsed formula. Construct it with ``Formula.parse``; its text is its whole state, so it pickles."""

    text: str

    @classmethod
    def parse(cls, text: str, names: Iterable[str]) -> Formula:
        """Check ``text`` against the grammar and the names that it may use. Raise ``ExpressionError``."""
        if len(text) > LONGEST:
            raise ExpressionError(f"a formula of {len(text)} characters; at most {LONGEST}")
        formula = cls(text)
        known = list(names)
        for name in (formula.target, *_names(formula.tree, text)):
            if name not in known:
                from gemm_lessons.engine.records import closest

                near = closest(name, known)
                hint = f"; did you mean {near}?" if near else f"; known: {', '.join(known)}"
                raise ExpressionError(f'"{text}" uses {name}, which is not a known name here{hint}')
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
        raise ExpressionError(f'"{self.text}" is not a formula; allowed: {ALLOWED}')

    @property
    def target(self) -> str:
        """Return the buffer that holds the answer."""
        return self._parsed[0]

    @property
    def tree(self) -> ast.expr:
        """Return the syntax tree of the right-hand side."""
        return self._parsed[1]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names on the right-hand side, in order."""
        return tuple(_names(self.tree, self.text))

    @cached_property
    def product(self) -> Product | None:
        """Return the formula's matrix product if there is exactly one and its factors are buffers; else None."""
        return self._product(_factor)

    @cached_property
    def scaled_product(self) -> Product | None:
        """Return ``product``, but with factors that may be scaled: ``(A * repeat(scale, 128, axis=1)) @ B``."""
        return self._product(_scaled_factor)

    def _product(self, factor: Callable[[ast.expr], tuple[str, bool] | None]) -> Product | None:
        found = [node for node in ast.walk(self.tree) if _is_product(node)]
        if len(found) != 1:
            return None
        assert isinstance(found[0], ast.BinOp)
        left, right = factor(found[0].left), factor(found[0].right)
        if left is None or right is None:
            return None
        return Product(left[0], right[0], left[1], right[1])

    def factors(self, values: Mapping[str, Value]) -> tuple[Array, Array]:
        """Return both factors of ``scaled_product`` in float64, with their scales."""
        (node,) = (node for node in ast.walk(self.tree) if _is_product(node))
        assert isinstance(node, ast.BinOp)
        return _evaluate(node.left, values, None).value, _evaluate(node.right, values, None).value

    @cached_property
    def is_product(self) -> bool:
        """Tell whether the answer is a single matrix product."""
        return _is_product(self.tree)

    @cached_property
    def has_functions(self) -> bool:
        """Tell whether the formula has a division, a reduction along an axis, or exp, log, tanh or sqrt."""
        return any(
            (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div))
            or (isinstance(node, ast.Call) and (axis_of(node) is not None or _called(node) in _SMOOTH))
            for node in ast.walk(self.tree)
        )

    @cached_property
    def has_products(self) -> bool:
        """Tell whether matrices are multiplied."""
        return any(_is_product(node) for node in ast.walk(self.tree))

    def operations(self, shapes: Mapping[str, tuple[int, ...]]) -> int:
        """Count operators and functions, each once for every element it works on. The formula must have no products."""
        count = 0
        for node in ast.walk(self.tree):
            along = isinstance(node, ast.Call) and axis_of(node) is not None
            if isinstance(node, ast.BinOp | ast.UnaryOp) or (
                isinstance(node, ast.Call) and _called(node) not in ("transpose", "repeat")
            ):
                count += prod(_shape(node.args[0] if along and isinstance(node, ast.Call) else node, shapes))
        return count

    @cached_property
    def goes_along_lines(self) -> bool:
        """Tell whether an element of the answer depends on whole rows or columns outside a product."""
        return any(isinstance(node, ast.Call) and axis_of(node) is not None for node in ast.walk(self.tree))

    def value(self, values: Mapping[str, Value], product: Value | None = None) -> Value:
        """Return the right answer with its rounding error; ``product`` replaces the matrix product if it is given. For
        a formula with functions, use ``rounding.evaluate``."""
        assert not self.has_functions, self.text
        return _evaluate(self.tree, values, product)

    def shape(self, shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
        """Return the shape of the answer from the ``shapes`` of the buffers; scalars have none. Raise
        ``ExpressionError`` if two shapes do not fit together."""
        return _shape(self.tree, shapes)


def axis_of(node: ast.Call) -> int | None:
    """Return the axis that ``sum(x, axis=1)`` reduces, from the last: -1 along rows, -2 along columns; else None."""
    return _axis(node) if _called(node) in _ALONG else None


def repeated(node: ast.AST) -> tuple[ast.expr, int, int] | None:
    """Return x, times and the axis, counted from the last, of ``repeat(x, times, axis=1)``; None for anything else."""
    match node:
        case ast.Call(func=ast.Name(id="repeat"), args=[operand, ast.Constant(value=int() as times)]):
            axis = _axis(node)
            if axis is not None and type(times) is int and times > 0:
                return operand, times, axis
    return None


def _axis(node: ast.Call) -> int | None:
    match node.keywords:
        case [ast.keyword(arg="axis", value=ast.Constant(value=0 | 1 as axis))] if type(axis) is int:
            return axis - 2
    return None


def _called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _shape(node: ast.expr, shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    def refused(why: str) -> ExpressionError:
        return ExpressionError(f"{ast.unparse(node)}: {why}")

    match node:
        case ast.Name(id=name):
            return shapes.get(name, ())
        case ast.UnaryOp(operand=operand):
            return _shape(operand, shapes)
        case ast.BinOp(left=left, op=ast.MatMult(), right=right):
            a, b = _shape(left, shapes), _shape(right, shapes)
            if len(a) < 2 or len(b) < 2 or a[-1] != b[-2]:
                raise refused(f"a matrix of {_sized(a)} cannot be multiplied by one of {_sized(b)}")
            return (*_together(a[:-2], b[:-2], refused), a[-2], b[-1])
        case ast.BinOp(left=left, right=right):
            return _together(_shape(left, shapes), _shape(right, shapes), refused)
        case ast.Call() if found := repeated(node):
            operand, times, along = found
            inner = _shape(operand, shapes)
            if len(inner) < -along:
                raise refused(f"{_sized(inner)} has no axis {along + 2}")
            return tuple(extent * (times if place == len(inner) + along else 1) for place, extent in enumerate(inner))
        case ast.Call(func=ast.Name(id=name), args=[operand]):
            inner = _shape(operand, shapes)
            if (axis := axis_of(node)) is not None:
                if len(inner) < -axis:
                    raise refused(f"{_sized(inner)} has no axis {axis + 2}")
                return (*inner[:axis], 1, *inner[len(inner) + axis + 1 :])
            return (*inner[:-2], *reversed(inner[-2:])) if name == "transpose" else inner
        case ast.Call(args=[left, right]):
            return _together(_shape(left, shapes), _shape(right, shapes), refused)
    return ()


def _together(a: tuple[int, ...], b: tuple[int, ...], refused: Callable[[str], ExpressionError]) -> tuple[int, ...]:
    """Broadcast two shapes as NumPy does: an extent of 1 matches any other."""
    longest = max(len(a), len(b))
    left, right = ((1,) * (longest - len(it)) + it for it in (a, b))
    if any(x != y and 1 not in (x, y) for x, y in zip(left, right, strict=True)):
        raise refused(f"{_sized(a)} and {_sized(b)} do not fit together")
    return tuple(y if x == 1 else x for x, y in zip(left, right, strict=True))


def _sized(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "a number"


def _is_product(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)


def _factor(node: ast.expr) -> tuple[str, bool] | None:
    match node:
        case ast.Name(id=name):
            return name, False
        case ast.Call(func=ast.Name(id="transpose"), args=[ast.Name(id=name)]):
            return name, True
    return None


def _scaled_factor(node: ast.expr) -> tuple[str, bool] | None:
    match node:
        case ast.BinOp(left=left, op=ast.Mult()):
            return _factor(left)
    return _factor(node)


def _names(node: ast.expr, text: str) -> Iterator[str]:
    match node:
        case ast.Constant(value=value) if type(value) in (int, float):
            return
        case ast.Name(id=name):
            yield name
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            yield from _names(operand, text)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() | ast.MatMult(), right=right):
            yield from _names(left, text)
            yield from _names(right, text)
        case ast.Call(func=ast.Name(id="repeat")):
            if (found := repeated(node)) is None:
                raise ExpressionError(
                    f'"{text}": {ast.unparse(node)}: repeat takes a matrix, a number and an axis, 0 or 1'
                )
            yield from _names(found[0], text)
        case ast.Call(func=ast.Name(id=name), args=[operand]) if name in _ALONG:
            if axis_of(node) is None:
                raise ExpressionError(
                    f'"{text}": {name} of one argument takes axis=1, of each row, or axis=0, of each column'
                )
            yield from _names(operand, text)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _ARGUMENTS:
            if len(arguments) != _ARGUMENTS[name]:
                raise ExpressionError(f'"{text}": {name} takes {_ARGUMENTS[name]} arguments')
            for argument in arguments:
                yield from _names(argument, text)
        case _:
            raise ExpressionError(f'"{text}": {ast.unparse(node)} is not allowed; allowed: {ALLOWED}')


def _evaluate(node: ast.expr, values: Mapping[str, Value], product: Value | None) -> Value:
    import numpy as np  # imported late: reading a lesson does not need it

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
        case ast.Call() if found := repeated(node):
            operand, times, axis = found
            inner = at(operand)
            value, magnitude = (np.repeat(it, times, axis) for it in (inner.value, inner.magnitude))
            return Value(value, magnitude, inner.terms)
        case ast.Call(func=ast.Name(id="relu"), args=[operand]):
            inner = at(operand)
            return Value(np.maximum(inner.value, 0.0), inner.magnitude, inner.terms)
        case ast.Call(func=ast.Name(id=name), args=[left, right]):
            a, b = at(left), at(right)
            pick = np.maximum if name == "max" else np.minimum
            return Value(pick(a.value, b.value), np.maximum(a.magnitude, b.magnitude), max(a.terms, b.terms))
    raise ExpressionError(f"{ast.unparse(node)} is not allowed; allowed: {ALLOWED}")
