"""Numbers that were kept in too few bits, or taken for whole ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gemm_lessons.engine.records.elements import ELEMENTS
from gemm_lessons.gemm.problem import unit
from gemm_lessons.judging.wrong_answer import Made, Wrong

HALF = ELEMENTS["float16"]
NEAR = 2.0**14  # times what is allowed in float32: more than sums in half are off by
NARROW = (16, 8)  # bits that an integer sum may have been kept in
FRACTIONS = 0.5  # share of whole numbers among right sums from which on they are nothing to wonder about


def zeros(it: Wrong) -> Iterator[Made]:
    """Nothing but 0."""
    yield Made(np.zeros_like(it.got))


def halves(it: Wrong) -> Iterator[Made]:
    """The right answer, about; every element is a number of 16 bits."""
    if it.problem.answer.element.precision <= HALF.precision or not np.isfinite(it.got).all():
        return
    with np.errstate(over="ignore"):
        if (HALF.decode(HALF.encode(it.got)) == it.got).all():
            yield Made(it.problem.reference, NEAR * it.problem.tolerance)


def floats(it: Wrong) -> Iterator[Made]:
    """A sum of doubles that is as good as one of floats."""
    if it.problem.answer.element.name == "float64" and np.isfinite(it.got).all():
        yield Made(it.problem.reference, it.problem.rounding * (ELEMENTS["float32"].roundoff / unit(it.problem.data)))


def rounded(it: Wrong) -> Iterator[Made]:
    """Sums that are as good as rounding lets most of them be, where none is rounded. ``count`` of them are wrong."""
    if it.problem.sharp is not None:
        yield Made(it.problem.reference, it.problem.rounding, {"count": int(it.wrong.sum())})


def whole_numbers(it: Wrong) -> Iterator[Made]:
    """The answer without what is behind the point, where right sums have that."""
    right = it.problem.reference
    if (
        it.problem.answer.element.is_float
        and np.isfinite(it.got).all()
        and (right == np.trunc(right)).mean() < FRACTIONS
    ):
        yield Made(np.trunc(it.got))


def low_bits(it: Wrong) -> Iterator[Made]:
    """Sums of integers without their upper bits, with a sign and without. Fact: ``bits``."""
    for bits in NARROW if not it.problem.answer.element.is_float else ():
        low = np.mod(it.problem.reference, 2.0**bits)
        for kept in (np.where(low < 2.0 ** (bits - 1), low, low - 2.0**bits), low):
            yield Made(kept, it.problem.tolerance, {"bits": bits})
