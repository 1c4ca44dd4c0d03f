"""Numbers stored in too few bits, or treated as whole numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gemm_lessons.engine.records import ELEMENTS
from gemm_lessons.gemm import unit
from gemm_lessons.judging.wrong_answer import Made, Wrong

HALF = ELEMENTS["float16"]
NEAR = 2.0**14  # times the float32 tolerance: more than the error of sums in half
NARROW = (16, 8)  # widths in bits that an integer sum may have been stored in
FRACTIONS = 0.5  # share of whole numbers among right sums above which they are not suspicious


def zeros(it: Wrong) -> Iterator[Made]:
    """Yield an answer of zeros."""
    yield Made(np.zeros_like(it.got))


def halves(it: Wrong) -> Iterator[Made]:
    """Yield approximately the right answer, where every element is a 16-bit number."""
    if it.problem.answer.element.precision <= HALF.precision or not np.isfinite(it.got).all():
        return
    with np.errstate(over="ignore"):
        if (HALF.decode(HALF.encode(it.got)) == it.got).all():
            yield Made(it.problem.reference, NEAR * it.problem.tolerance)


def floats(it: Wrong) -> Iterator[Made]:
    """Yield sums of doubles with the accuracy of floats."""
    if it.problem.answer.element.name == "float64" and np.isfinite(it.got).all():
        yield Made(it.problem.reference, it.problem.rounding * (ELEMENTS["float32"].roundoff / unit(it.problem.data)))


def rounded(it: Wrong) -> Iterator[Made]:
    """Yield sums with the accuracy of rounded ones, where nothing should be rounded. ``count`` of them are wrong."""
    if it.problem.sharp is not None:
        yield Made(it.problem.reference, it.problem.rounding, {"count": int(it.wrong.sum())})


def whole_numbers(it: Wrong) -> Iterator[Made]:
    """Yield the answer without its fraction, where stored right sums have one: a bfloat16 from 256 on has none."""
    element = it.problem.answer.element
    right = element.decode(element.encode(it.problem.reference))
    if element.is_float and np.isfinite(it.got).all() and (right == np.trunc(right)).mean() < FRACTIONS:
        yield Made(np.trunc(it.got))


def low_bits(it: Wrong) -> Iterator[Made]:
    """Yield sums of integers without their upper bits, signed and unsigned. Fact: ``bits``."""
    for bits in NARROW if not it.problem.answer.element.is_float else ():
        low = np.mod(it.problem.reference, 2.0**bits)
        for kept in (np.where(low < 2.0 ** (bits - 1), low, low - 2.0**bits), low):
            yield Made(kept, it.problem.tolerance, {"bits": bits})
