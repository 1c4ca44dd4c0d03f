"""Arithmetic in lesson.toml and on the command line, evaluated by walking a small syntax tree, never by ``eval``.

Allowed: numbers, the names that the caller gives, ``+ - * / // %``, parentheses, ``ceil_div(a, b)``, ``min``,
``max``, ``gcd``, ``xor`` of whole numbers.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from functools import cache

from gemm_lessons.engine.records.frozen import dataclass

Number = int | float
Evaluation = Callable[[Mapping[str, Number]], Number]

LONGEST = 300  # characters; longer text is a mistake, and the limit keeps the parser's recursion small


class ExpressionError(ValueError):
    """The text is not arithmetic of the allowed kind, or its value does not fit."""


def _divide(a: Number, b: Number) -> Number:
    if b == 0:
        return math.nan if a == 0 or a != a else math.copysign(math.inf, a)
    return a / b


def _gcd(*numbers: Number) -> Number:
    if all(type(number) is int for number in numbers):
        return math.gcd(*numbers)  # type: ignore[arg-type]
    whole = all(math.isfinite(number) and number == int(number) for number in numbers)
    return math.gcd(*map(int, numbers)) if whole else math.nan


def _xor(a: Number, b: Number) -> Number:
    whole = all(math.isfinite(number) and number == int(number) for number in (a, b))
    return int(a) ^ int(b) if whole else math.nan


_OPERATORS: Mapping[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _divide,
    ast.FloorDiv: lambda a, b: a // b if b else _divide(a, b),
    ast.Mod: lambda a, b: a % b if b else math.nan,
}
_BY_NUMBER = {  # the second operand is a number other than 0
    **_OPERATORS,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: Mapping[str, tuple[Callable[..., Number], int]] = {  # name -> function, fewest arguments
    "ceil_div": (lambda a, b: -(-a // b) if b else _divide(a, b), 2),
    "min": (min, 2),
    "max": (max, 2),
    "gcd": (_gcd, 2),
    "xor": (_xor, 2),
}
_PAIRS = ("ceil_div", "xor")  # functions of exactly two arguments


@dataclass(frozen=True)
class Expression:
    """Parsed arithmetic. Construct with ``Expression.parse``; the text is all its state, so it pickles."""

    text: str

    @classmethod
    def parse(cls, text: str, names: Iterable[str]) -> Expression:
        """Check ``text`` against the grammar and the known names. Raise ``ExpressionError``."""
        if len(text) > LONGEST:
            raise ExpressionError(f"an expression of {len(text)} characters; at most {LONGEST}")
        _check(_tree(text), text, list(names))
        return cls(text)

    @property
    def names(self) -> frozenset[str]:
        """The names used."""
        return _names(self.text)

    @property
    def in_c(self) -> str:
        """The expression in C for whole numbers >= 0: ``/`` for ``//``, ``a ^ b`` for ``xor(a, b)``."""
        return ast.unparse(_in_c(_tree(self.text)))

    def value(self, names: Mapping[str, Number]) -> Number:
        """Return the value with these names. A division by zero gives infinity, 0/0 and x % 0 give NaN."""
        return _evaluated(self.text)(names)

    def whole(self, names: Mapping[str, Number], at_least: int) -> int:
        """Return the value as an integer. Raise ``ExpressionError`` if it is not one, or is below ``at_least``."""
        value = _evaluated(self.text)(names)
        if type(value) is int and value >= at_least:
            return value
        if not math.isfinite(value) or value != int(value) or value < at_least:
            raise ExpressionError(f'"{self.text}" is {value}; it must be a whole number of at least {at_least}')
        return int(value)


def _in_c(node: ast.expr) -> ast.expr:
    """Replace operators and functions by those of C."""
    match node:
        case ast.BinOp(left=left, op=op, right=right):
            return ast.BinOp(_in_c(left), ast.Div() if isinstance(op, ast.FloorDiv) else op, _in_c(right))
        case ast.UnaryOp(op=op, operand=operand):
            return ast.UnaryOp(op, _in_c(operand))
        case ast.Call(func=ast.Name(id="xor"), args=[left, right]):
            return ast.BinOp(_in_c(left), ast.BitXor(), _in_c(right))
        case ast.Call(func=func, args=arguments):
            return ast.Call(func, [_in_c(argument) for argument in arguments], [])
        case _:
            return node


_ALLOWED = "numbers, names, + - * / // %, parentheses, ceil_div(a, b), min(a, b), max(a, b), gcd(a, b), xor(a, b)"


def _check(node: ast.expr, text: str, names: list[str]) -> None:
    match node:
        case ast.Constant(value=value) if type(value) in (int, float):
            return
        case ast.Name(id=name):
            if name not in names:
                from gemm_lessons.engine.records.words import closest  # imported late: only for mistakes

                near = closest(name, names)
                raise ExpressionError(
                    f'"{text}" uses {name}, which is not a known name here'
                    + (f"; did you mean {near}?" if near else f"; known: {', '.join(names)}")
                )
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            _check(operand, text, names)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            _check(left, text, names)
            _check(right, text, names)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            fewest = _FUNCTIONS[name][1]
            if len(arguments) < fewest or (name in _PAIRS and len(arguments) != fewest):
                raise ExpressionError(f'"{text}": {name} takes {fewest} arguments')
            for argument in arguments:
                _check(argument, text, names)
        case _:
            raise ExpressionError(f'"{text}": {ast.unparse(node)} is not allowed; allowed: {_ALLOWED}')


@cache  # lessons share most of their expressions
def _tree(text: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ExpressionError(f'"{text}" is not arithmetic; allowed: {_ALLOWED}') from None


@cache
def _names(text: str) -> frozenset[str]:
    tree = _tree(text)
    called = {node.func for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return frozenset(it.id for it in ast.walk(tree) if isinstance(it, ast.Name) and it not in called)


@cache
def _evaluated(text: str) -> Evaluation:
    return _evaluation(_tree(text))


def _evaluation(node: ast.expr) -> Evaluation:
    """Return a closure that evaluates a node: an expression is evaluated for many shapes."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return lambda names: value
        case ast.Name(id=name):
            return operator.itemgetter(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            of = _evaluation(operand)
            return lambda names: -of(names)
        case ast.UnaryOp(operand=operand):
            return _evaluation(operand)
        case ast.BinOp(left=left, op=op, right=ast.Constant(value=int() | float() as number)) if number:
            by_number, first = _BY_NUMBER[type(op)], _evaluation(left)
            return lambda names: by_number(first(names), number)
        case ast.BinOp(left=left, op=op, right=right):
            operation, first, second = _OPERATORS[type(op)], _evaluation(left), _evaluation(right)
            return lambda names: operation(first(names), second(names))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            function, values = _FUNCTIONS[name][0], [_evaluation(argument) for argument in arguments]
            if len(values) == 2:  # most functions have two arguments
                first, second = values
                return lambda names: function(first(names), second(names))
            return lambda names: function(*[value(names) for value in values])
        case _:
            raise ExpressionError(f"{ast.unparse(node)} is not allowed; allowed: {_ALLOWED}")
