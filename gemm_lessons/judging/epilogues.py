"""A wrong answer whose product is right, and what comes after it is not: a scalar or the bias left out, for all columns
or for some, relu too early, alpha times more than the product, another column's bias."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import reduce

import numpy as np

from gemm_lessons.gemm.formula import Formula, Value
from gemm_lessons.judging.wrong_answer import Array, Pattern, Wrong, few

NEUTRAL = (("alpha", 1.0), ("beta", 0.0), ("bias", 0.0))
AT_ONCE = (2, 4)  # columns that an access takes


def epilogue(it: Wrong) -> Pattern | None:
    """Which mistake in the formula gives exactly this answer?"""
    formula = it.problem.data.formula
    for name, neutral in NEUTRAL:
        if name in formula.names and it.agrees(it.without(name, neutral)):
            return Pattern(f"{name}_ignored", f"{name} was left out of {formula.text}.")
    if "beta" in formula.names and it.agrees(it.without("beta", 1.0)):
        return Pattern(
            "beta_ignored", f"{it.problem.answer.name} was added as it was, without beta, in {formula.text}."
        )
    for name, other, what in _misread(formula):
        if it.agrees(it.problem.answer_of(other)):
            return Pattern(name, f"{what} It should be {formula.text}; this is {other.text}.")
    return _in_part(it) or _other_bias(it) if "bias" in formula.names else None


def _in_part(it: Wrong) -> Pattern | None:
    """Something was left out in some of every few columns, and in the others not."""
    formula = it.problem.data.formula
    left_out = [(name, it.without(name, neutral)) for name, neutral in NEUTRAL if name in formula.names]
    left_out += [
        ("relu", it.problem.answer_of(other)) for name, other, _ in _misread(formula) if name == "relu_ignored"
    ]
    col, wrong = np.arange(it.got.shape[1]), it.wrong.any(0)
    for width in AT_ONCE:
        these = np.isin(col % width, col[wrong] % width)
        if these.all():
            continue
        for name, other in left_out:
            mixed = np.where(these, other.value, it.problem.reference)
            if it.is_nearly(mixed, it.problem.tolerance_of(other)):
                which = few(np.unique(col[wrong] % width))
                return Pattern(
                    f"{name}_in_part",
                    f"{name} was left out in some of every {width} columns (number {which}): does the loop over "
                    "the columns of an access reach all of them?",
                )
    return None


def _other_bias(it: Wrong) -> Pattern | None:
    """The bias is a row, one number for each column, and was taken from another place."""
    values, (m, n), tile = it.problem.values, it.got.shape, it.tiles.cols
    bias = values["bias"].value
    if bias.shape != (n,):
        return None

    def answer(other: Array) -> Value:
        return it.problem.evaluated({**values, "bias": Value.exact(other)})

    if 1 < tile < n and it.agrees(answer(bias[np.arange(n) % tile])):
        return Pattern(
            "bias_in_tile",
            f"the bias was taken by the column inside the tile: column {tile} of C got bias[0]. Take that of C.",
        )
    for width in AT_ONCE:
        if it.agrees(answer(bias[np.arange(n) // width * width])):
            return Pattern(
                "bias_repeated", f"in every {width} columns all got the bias of the first: take that of each."
            )
    if m <= n and it.agrees(answer(bias[:m, None])):
        return Pattern("bias_by_row", "the bias was taken by the row of C: element (row, col) gets bias[col].")
    return None


def _misread(formula: Formula) -> Iterator[tuple[str, Formula, str]]:
    """Other formulas that one may have computed instead: a name, the formula, what is wrong with it."""
    tree = ast.parse(formula.text.partition("=")[2].strip(), mode="eval").body

    def made(other: ast.expr) -> Formula:
        return Formula(f"{formula.target} = {ast.unparse(other)}")

    match tree:
        case ast.Call(func=ast.Name(id="relu") as relu, args=[inner]):
            yield "relu_ignored", made(inner), "relu was left out."
            terms = _terms(inner)
            for i, term in enumerate(terms):
                if others := [*terms[:i], *terms[i + 1 :]]:
                    early = ast.Call(relu, [_sum(others)], [])
                    words = f"relu came before {ast.unparse(term)} was added."
                    yield "relu_early", made(ast.BinOp(early, ast.Add(), term)), words
            for other, words in _scaled(terms):
                yield "alpha_spread", made(ast.Call(relu, [other], [])), words
        case _:
            for other, words in _scaled(_terms(tree)):
                yield "alpha_spread", made(other), words


def _scaled(terms: Sequence[ast.expr]) -> Iterator[tuple[ast.expr, str]]:
    """alpha times one of the other terms, too, or times all."""
    for i, term in enumerate(terms):
        match term:
            case ast.BinOp(left=ast.Name(id="alpha") as alpha, op=ast.Mult(), right=product):
                rest = [*terms[:i], *terms[i + 1 :]]
                for also in [*([one] for one in rest), *([rest] if len(rest) > 1 else [])]:
                    spread = ast.BinOp(alpha, ast.Mult(), _sum([product, *also]))
                    others = [one for one in rest if one not in also]
                    names = " and ".join(map(ast.unparse, also))
                    yield _sum([spread, *others]), f"alpha multiplied {names}, too: it belongs to the product alone."


def _terms(node: ast.expr) -> list[ast.expr]:
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [*_terms(left), *_terms(right)]
    return [node]


def _sum(terms: Sequence[ast.expr]) -> ast.expr:
    return reduce(lambda one, other: ast.BinOp(one, ast.Add(), other), terms)
