"""Mistakes in the epilogue of a right product: a scalar or the bias left out, in all columns or in some; relu applied
too early; alpha applied to more than the product; the bias of another column."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import TypeGuard

import numpy as np

from gemm_lessons.gemm import Formula, Value
from gemm_lessons.judging.named_sentence import Facts
from gemm_lessons.judging.wrong_answer import Array, Made, Transformation, Wrong, numbers

NEUTRAL = {"alpha": 1.0, "beta": 0.0, "bias": 0.0}
AT_ONCE = (2, 4)  # columns of one vector access


def left_out(name: str, value: float | None = None) -> Transformation:
    """Return a transformation to the formula without a scalar or the bias, or with this value of it. Facts:
    ``left_out``, the ``formula``, and the name of the ``answer``."""

    def made(it: Wrong) -> Iterator[Made]:
        formula = it.problem.data.formula
        if name in formula.names:
            other = it.without(name, NEUTRAL[name] if value is None else value)
            yield it.made(other, left_out=name, formula=formula.text, answer=it.problem.answer.name)

    return made


def left_out_in_part(name: str) -> Transformation:
    """Return a transformation that leaves the term out only in the wrong ones (``columns``) of each ``width``."""

    def made(it: Wrong) -> Iterator[Made]:
        if "bias" not in it.problem.data.formula.names or (other := _without(it, name)) is None:
            return
        col, wrong = np.arange(it.got.shape[1]), it.wrong.any(0)
        for width in AT_ONCE:
            these = np.isin(col % width, col[wrong] % width)
            if not these.all():
                mixed = np.where(these, other.value, it.problem.reference)
                facts = {"left_out": name, "width": width, "columns": numbers(np.unique(col[wrong] % width))}
                yield Made(mixed, it.problem.tolerance_of(other), facts)

    return made


def _without(it: Wrong, name: str) -> Value | None:
    formula = it.problem.data.formula
    if name in NEUTRAL:
        return it.without(name, NEUTRAL[name]) if name in formula.names else None
    other = next((other for kind, other, _ in _misread(formula) if kind == name), None)
    return it.problem.answer_of(other) if other else None


def bias_in_tile(it: Wrong) -> Iterator[Made]:
    """Give a column the bias of its place in its block's, warp's or thread's tile. Fact: the first wrong ``column``."""
    if (bias := _bias(it)) is not None:
        for size in sorted({it.tiles.cols, *(size for _, size in it.problem.data.sizes)}):
            if 1 < size < bias.size:
                yield it.made(_with_bias(it, bias[np.arange(bias.size) % size]), column=size)


def bias_of_first(width: int) -> Transformation:
    """Return a transformation that gives every ``width`` columns the bias of their first."""

    def made(it: Wrong) -> Iterator[Made]:
        if (bias := _bias(it)) is not None:
            yield it.made(_with_bias(it, bias[np.arange(bias.size) // width * width]), width=width)

    return made


def bias_by_row(it: Wrong) -> Iterator[Made]:
    """Yield the answer with a bias for each row, chosen by its row number."""
    rows, cols = it.got.shape
    if rows <= cols and (bias := _bias(it)) is not None:
        yield it.made(_with_bias(it, bias[:rows, None]))


def _bias(it: Wrong) -> Array | None:
    """Return the bias, one number for each column."""
    if "bias" not in it.problem.data.formula.names:
        return None
    bias = it.problem.values["bias"].value
    return bias if bias.shape == it.got.shape[1:] else None


def _with_bias(it: Wrong, bias: Array) -> Value:
    return it.problem.evaluated({**it.problem.values, "bias": Value.exact(bias)})


def other_formula(kind: str) -> Transformation:
    """Return a transformation to another formula of this kind. Facts: ``formula``, ``other``, and what moved in it."""

    def made(it: Wrong) -> Iterator[Made]:
        formula = it.problem.data.formula
        for found, other, facts in _misread(formula):
            if found == kind:
                yield it.made(it.problem.answer_of(other), formula=formula.text, other=other.text, **facts)

    return made


def _misread(formula: Formula) -> Iterator[tuple[str, Formula, Facts]]:
    """Yield formulas that a kernel may have computed instead: the kind, the formula, and what moved in it.

    plain: the product alone, without the rest of the formula.
    relu: it is left out; early: it is applied before a ``term`` is added; alpha: it multiplies other ``terms``, too.
    """
    tree = ast.parse(formula.text.partition("=")[2].strip(), mode="eval").body

    def made(other: ast.expr) -> Formula:
        return Formula(f"{formula.target} = {ast.unparse(other)}")

    if not _is_product(tree):
        yield from (("plain", made(node), {}) for node in ast.walk(tree) if _is_product(node))
    match tree:
        case ast.Call(func=ast.Name(id="relu") as relu, args=[inner]):
            yield "relu", made(inner), {}
            terms = _terms(inner)
            for i, term in enumerate(terms):
                if others := [*terms[:i], *terms[i + 1 :]]:
                    early = ast.Call(relu, [_sum(others)], [])
                    yield "early", made(ast.BinOp(early, ast.Add(), term)), {"term": ast.unparse(term)}
            for other, also in _scaled(terms):
                yield "alpha", made(ast.Call(relu, [other], [])), {"terms": also}
        case _:
            for other, also in _scaled(_terms(tree)):
                yield "alpha", made(other), {"terms": also}


def _is_product(node: ast.AST) -> TypeGuard[ast.BinOp]:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)


def _scaled(terms: Sequence[ast.expr]) -> Iterator[tuple[ast.expr, tuple[str, ...]]]:
    """Yield formulas in which alpha multiplies one of the other terms too, or all terms."""
    for i, term in enumerate(terms):
        match term:
            case ast.BinOp(left=ast.Name(id="alpha") as alpha, op=ast.Mult(), right=product):
                rest = [*terms[:i], *terms[i + 1 :]]
                for also in [*([one] for one in rest), *([rest] if len(rest) > 1 else [])]:
                    spread = ast.BinOp(alpha, ast.Mult(), _sum([product, *also]))
                    others = [one for one in rest if one not in also]
                    yield _sum([spread, *others]), tuple(map(ast.unparse, also))


def _terms(node: ast.expr) -> list[ast.expr]:
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [*_terms(left), *_terms(right)]
    return [node]


def _sum(terms: Sequence[ast.expr]) -> ast.expr:
    return reduce(lambda one, other: ast.BinOp(one, ast.Add(), other), terms)
