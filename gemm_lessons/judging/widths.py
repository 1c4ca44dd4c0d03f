"""Wrong answers of numbers that were kept in too few bits, or taken for another type of the same size."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gemm_lessons.engine.records.elements import ELEMENTS
from gemm_lessons.gemm.problem import unit
from gemm_lessons.judging.wrong_answer import Array, Pattern, Wrong

NARROW = (16, 8)  # bits that an integer sum may have been kept in
WORD = 4  # bytes
FEW_ROWS = 4  # of C, in which bytes are looked for
FRACTIONS = 0.5  # share of whole numbers among right sums from which on they are nothing to wonder about


def rounded(it: Wrong) -> Pattern | None:
    """A sum of doubles that is as good as one of floats, everywhere."""
    if it.problem.answer.element.name != "float64" or not np.isfinite(it.got).all():
        return None
    allowed = it.problem.rounding * (ELEMENTS["float32"].roundoff / unit(it.problem.data))
    if (np.abs(it.got - it.problem.reference) > allowed).any():
        return None
    return Pattern(
        "rounded_to_float",
        "every element is right to some seven digits, as if it had been computed in float. A double that passes "
        "through a float on its way, a fragment or a sum, loses more than half of its digits.",
    )


def digits(it: Wrong) -> Pattern | None:
    """Sums that are as good as rounding lets most of them be, where none is rounded."""
    if it.problem.sharp is None or not (np.abs(it.got - it.problem.reference) <= it.problem.rounding).all():
        return None
    return Pattern(
        "digits_missing",
        f"every element is nearly right, but {int(it.wrong.sum())} lack digits at their end. The numbers of this check "
        "are such that these sums need no rounding, in whatever order they are added up. Something on the way has "
        "fewer bits than the sum: a narrower type, a mask, an approximation.",
    )


def whole(it: Wrong) -> Pattern | None:
    """Sums of floats that all came out as whole numbers."""
    right = it.problem.reference
    if not it.problem.answer.element.is_float or not np.isfinite(it.got).all():
        return None
    if (it.got != np.trunc(it.got)).any() or (right == np.trunc(right)).mean() >= FRACTIONS:
        return None
    return Pattern(
        "whole_numbers",
        "every element is a whole number: something on the way is an int, which keeps nothing behind the point. "
        "Declare what holds the sum as float.",
    )


def cut(it: Wrong) -> Pattern | None:
    """A sum of products of whole numbers, where the factors have fractions. Of a plain product only."""
    if not it.may_be_fitted or not it.problem.answer.element.is_float:
        return None
    which = _misread(it, np.trunc, ("A", "B", "A and B"))
    if which is None:
        return None
    return Pattern(
        "cut",
        f"the numbers of {which} were cut to whole numbers: a variable that holds them is an int. Declare it as float.",
    )


def wrapped(it: Wrong) -> Pattern | None:
    """A sum of integers that is right but for its upper bits."""
    if it.problem.answer.element.is_float:
        return None
    for bits in NARROW:
        low = np.mod(it.problem.reference, 2.0**bits)
        for kept in (np.where(low < 2.0 ** (bits - 1), low, low - 2.0**bits), low):
            if it.is_nearly(kept, it.problem.tolerance):
                return Pattern(
                    "wrapped_around",
                    f"every sum is right in its last {bits} bits and in no others: it was kept in {bits} bits, and "
                    "wrapped around where it left their range. A product of two bytes has 16 bits, a sum of them more.",
                )
    return None


def without_sign(it: Wrong) -> Pattern | None:
    """Bytes taken for 0 to 255. Of a plain product only."""
    names = [buffer.element.name for buffer in it.problem.data.factors]
    if names != ["int8", "int8"]:
        return None
    which = _misread(it, _unsigned, ("A and B", "A", "B"))
    if which is None:
        return None
    return Pattern(
        "without_sign",
        f"the bytes of {which} were taken for numbers from 0 to 255: -1 became 255. Of a word of four bytes, "
        "int says that they have signs, unsigned that they have none.",
    )


def _misread(it: Wrong, change: Callable[[Array], Array], factors: Sequence[str]) -> str | None:
    """Which of ``factors`` the product was made of with ``change``, if of one."""
    a, b = it.factors
    for which in factors:
        if it.agrees(it.product(change(a) if "A" in which else a, change(b) if "B" in which else b)):
            return which
    return None


def not_turned(it: Wrong) -> Pattern | None:
    """Words of B that hold four columns of one k. Of a plain product only."""
    a, b = it.factors
    (depth, cols), element = b.shape, it.problem.data.factors[1].element
    if element.size != 1 or depth % WORD or cols % WORD:
        return None
    squares = b.reshape(depth // WORD, WORD, cols // WORD, WORD).transpose(0, 3, 2, 1)
    if not it.agrees(it.product(a, squares.reshape(depth, cols))):
        return None
    return Pattern(
        "not_turned",
        "each 4 x 4 of B is transposed: a word holds four columns of one k, as B lies in memory, and is multiplied as "
        "if it were four k of one column. Turn it on its way to shared memory.",
    )


def bytes_of_words(it: Wrong) -> Pattern | None:
    """Words of B in which four other bytes of a square of 4 x 4 stand than four k of one column, in order."""
    if not it.is_plain or [buffer.element.name for buffer in it.problem.data.factors] != ["int8", "int8"]:
        return None
    a, b = it.factors
    depth, cols = b.shape
    if depth % WORD or cols % WORD:
        return None
    found = [_bytes_of(it.got[:, word::WORD], a, b) for word in range(WORD)]
    if any(its is None or len(set(its)) < WORD for its in found):
        return None
    held = np.zeros_like(b)
    for word, its in enumerate(found):
        for place, (k, col) in enumerate(its or ()):
            held[place::WORD, word::WORD] = b[k::WORD, col::WORD]
    if not it.agrees(it.product(a, held)):
        return None
    word = next(word for word, its in enumerate(found) if its != tuple((k, word) for k in range(WORD)))
    return Pattern(
        "bytes_of_words",
        f"the words of B hold the wrong bytes. Of each square of 4 x 4, the word of column {word} has, from its lowest "
        f"byte, (k, column) = {_listed(found[word] or ())}, where {_listed([(k, word) for k in range(WORD)])} belong. "
        "In __byte_perm(x, y, s) the lowest digit of s says what the lowest byte is.",
    )


def _listed(places: Sequence[tuple[int, int]]) -> str:
    return ", ".join(f"({k}, {col})" for k, col in places)


def _bytes_of(got: Array, a: Array, b: Array) -> tuple[tuple[int, int], ...] | None:
    """Which (k, column) of each square the four bytes of a word are that gives these sums; None where none do. Two and
    two bytes are tried, and put together where their sums add up."""
    rows = slice(0, FEW_ROWS)
    places = [(k, col) for k in range(WORD) for col in range(WORD)]

    def sums(byte: int) -> list[Array]:
        return [(a[rows, byte::WORD] @ b[k::WORD, col::WORD]).ravel() for k, col in places]

    low = {
        (x + y).tobytes(): (p, q)
        for p, x in zip(places, sums(0), strict=True)
        for q, y in zip(places, sums(1), strict=True)
    }
    wanted = got[rows].ravel()
    for r, x in zip(places, sums(2), strict=True):
        for s, y in zip(places, sums(3), strict=True):
            if first := low.get((wanted - x - y).tobytes()):
                return (*first, r, s)
    return None


def _unsigned(values: Array) -> Array:
    return np.where(values < 0, values + 256, values)
