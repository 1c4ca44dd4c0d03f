"""Translate the arithmetic and the formula of lesson.toml into C++ host code.

Python divides and rounds differently from C++. Expressions whose results would differ are refused.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from gemm_lessons.course import CommandError
from gemm_lessons.engine.arguments import Expression, Number
from gemm_lessons.gemm import Formula, constant_error

ATOM = 100  # binds tighter than any operator
PRECEDENCE: Mapping[type[ast.operator], tuple[int, str]] = {
    ast.Add: (1, "+"),
    ast.Sub: (1, "-"),
    ast.Mult: (2, "*"),
    ast.Div: (2, "/"),
    ast.FloorDiv: (2, "/"),
    ast.Mod: (2, "%"),
}
Code = tuple[str, int]  # C++ text and its operator precedence


def arithmetic(
    expression: Expression, places: Sequence[Mapping[str, Number]], names: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Translate integer arithmetic over ``M N K`` and the tile sizes into C++.

    ``places`` holds the names' values at the lesson's shapes, and ``names`` the C++ names of some of them. Raises
    ``CommandError`` if C++ would round differently at one of those shapes."""
    return _Arithmetic(expression.text, places, names).code(_tree(expression.text))[0]


def _tree(text: str) -> ast.expr:
    return ast.parse(text.strip(), mode="eval").body


class _Arithmetic:
    def __init__(self, text: str, places: Sequence[Mapping[str, Number]], names: Mapping[str, str]) -> None:
        self.text, self.places, self.names = text, places, names

    def refused(self, what: str) -> CommandError:
        return CommandError(f'cannot be exported: "{self.text}" of lesson.toml {what}')

    def code(self, node: ast.expr) -> Code:
        match node:
            case ast.Constant(value=int() as number):
                return str(number), ATOM
            case ast.Constant():
                raise self.refused(f"holds {ast.unparse(node)}, which is not a whole number")
            case ast.Name(id=name):
                return self.names.get(name, name), ATOM
            case ast.UnaryOp(op=op, operand=operand):
                sign = "-" if isinstance(op, ast.USub) else ""
                return f"({sign}{self.code(operand)[0]})", ATOM
            case ast.BinOp(left=left, op=op, right=right):
                if isinstance(op, ast.Div | ast.FloorDiv | ast.Mod):
                    self.check(left, right, exact=isinstance(op, ast.Div))
                return infix(self.code(left), op, self.code(right))
            case ast.Call(func=ast.Name(id="ceil_div"), args=[left, right]):
                self.check(left, right, exact=False)
                (above, _), below = self.code(left), self.code(right)
                return infix((f"({above} + {_held(below, 1)} - 1)", ATOM), ast.Div(), below)
            case ast.Call(func=ast.Name(id=name), args=[first, *others]):  # min, max, gcd of two or more arguments
                made = self.code(first)[0]
                for other in others:
                    made = f"std::{name}({made}, {self.code(other)[0]})"
                return made, ATOM
        raise self.refused(f"holds {ast.unparse(node)}")

    def check(self, left: ast.expr, right: ast.expr, exact: bool) -> None:
        """Refuse a division that C++ rounds differently from Python at one of the lesson's shapes."""
        above, below = Expression(ast.unparse(left)), Expression(ast.unparse(right))
        for names in self.places:
            numbers = above.value(names), below.value(names)
            if numbers[0] < 0 or numbers[1] < 1 or (exact and numbers[0] % numbers[1]):
                raise self.refused(f"divides {numbers[0]} by {numbers[1]}, which C++ rounds in another way")


def infix(left: Code, op: ast.operator, right: Code) -> Code:
    """Return ``left op right`` with the necessary parentheses."""
    rank, sign = PRECEDENCE[type(op)]
    return f"{_held(left, rank)} {sign} {_held(right, rank + 1)}", rank


def _held(code: Code, rank: int) -> str:
    return code[0] if code[1] >= rank else f"({code[0]})"


def element(formula: Formula, names: Mapping[str, str], product: str) -> str:
    """Return C++ for one element of the answer, in double: ``names`` of buffers' elements, ``product`` of factors."""
    return _formula(formula, lambda name: names[name], product, value=True)


def magnitude(formula: Formula, bounds: Mapping[str, str], product: str) -> str:
    """Return C++ for the formula over magnitudes, without cancellation; rounding errors are relative to its value."""
    return _formula(formula, lambda name: bounds[name], product, value=False)


def bounded(formula: Formula, names: Mapping[str, str], product: str, unit: float) -> str:
    """Return the same as ``element`` in the type ``Bounded`` of main.cu, a value with its error bound."""

    def number(value: float) -> str:
        return f"Bounded{{{value!r}, {constant_error(value, unit):g}}}"

    exact = {name: f"Bounded{{{code}, 0.0}}" for name, code in names.items()}
    return _formula(formula, lambda name: exact[name], product, value=True, number=number, prefix="")


def _formula(
    formula: Formula,
    named: Callable[[str], str],
    product: str,
    *,
    value: bool,
    number: Callable[[float], str] = str,
    prefix: str = "std::",
) -> str:
    zero = number(0.0)

    def code(node: ast.expr) -> Code:
        match node:
            case ast.Constant(value=int() | float() as constant):
                return number(float(constant)), ATOM  # parenthesised, since a minus sign before it is an operator
            case ast.Name(id=name):
                return named(name), ATOM
            case ast.BinOp(op=ast.MatMult()):
                return product, ATOM
            case ast.UnaryOp(operand=operand):
                return (f"(-{_held(code(operand), ATOM)})", ATOM) if value else code(operand)
            case ast.BinOp(left=left, op=op, right=right):
                return infix(code(left), op if value or isinstance(op, ast.Mult) else ast.Add(), code(right))
            case ast.Call(func=ast.Name(id="relu"), args=[operand]):
                return (f"{prefix}max({code(operand)[0]}, {zero})", ATOM) if value else code(operand)
            case ast.Call(func=ast.Name(id="exp" | "log" | "tanh" | "sqrt" as name), args=[operand]) if value:
                return f"{prefix}{name}({code(operand)[0]})", ATOM
            case ast.Call(func=ast.Name(id=name), args=[left, right]):
                chosen = name if value else "max"
                return f"{prefix}{chosen}({code(left)[0]}, {code(right)[0]})", ATOM
        raise CommandError(f"cannot be exported: {ast.unparse(node)} in the formula {formula.text}")

    return code(ast.parse(formula.text.partition("=")[2].strip(), mode="eval").body)[0]
