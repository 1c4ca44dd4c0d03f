"""Mistakes in the scales of a product's blocks: left out, or those of another block, row or column."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gemm_lessons.gemm import Value
from gemm_lessons.judging.wrong_answer import Array, Made, Wrong

SCALE = "scale_"  # begins the names of such inputs


def _scales(it: Wrong) -> Iterator[tuple[str, Array, int]]:
    """Yield each matrix of scales: its name, the matrix, and its axis that is not K's, 0 or 1."""
    product = it.problem.data.formula.scaled_product
    for name in it.problem.data.formula.names:
        if product is not None and name.startswith(SCALE):
            yield name, it.problem.values[name].value, 0 if name.endswith(product.left) else 1


def _answer(it: Wrong, name: str, scale: Array) -> Value:
    return it.problem.evaluated({**it.problem.values, name: Value.exact(scale)})


def left_out(it: Wrong) -> Iterator[Made]:
    """Yield sums that are not scaled, or not by all scales. Fact: the ``names`` of those that are left out."""
    found = {name: Value.exact(np.ones_like(scale)) for name, scale, _ in _scales(it)}
    for names in [(name,) for name in found] + [tuple(found)] * (len(found) > 1):
        ones = {name: found[name] for name in names}
        yield it.made(it.problem.evaluated({**it.problem.values, **ones}), names=names)


def of_another_block(it: Wrong) -> Iterator[Made]:
    """Yield sums whose blocks of k have the scale of the ``way`` one: previous, next or first."""
    for name, scale, axis in _scales(it):
        block = np.arange(scale.shape[1 - axis])
        for way, other in (("previous", block - 1), ("next", block + 1), ("first", 0 * block)):
            there = np.clip(other, 0, len(block) - 1)
            yield it.made(_answer(it, name, np.take(scale, there, 1 - axis)), name=name, way=way)


def of_another_line(it: Wrong) -> Iterator[Made]:
    """Yield answers in which rows of A or blocks of B ``distance`` apart have one scale, the ``part`` one's."""
    for name, scale, axis in _scales(it):
        line = np.arange(scale.shape[axis])
        for bit in (1 << n for n in range(int(line[-1]).bit_length())):
            if len(line) % (2 * bit):
                continue
            low, high = (_answer(it, name, np.take(scale, there, axis)) for there in (line & ~bit, line | bit))
            facts = {"name": name, "axis": ("row", "block of columns")[axis], "distance": bit}
            yield it.made(low, **facts, part="first")
            yield it.made(high, **facts, part="second")
            if axis == 0:
                odd = np.arange(it.got.shape[1]) % 2 == 1
                mixed = np.where(odd, high.value, low.value)
                allowed = np.where(odd, it.problem.tolerance_of(high), it.problem.tolerance_of(low))
                yield Made(mixed, allowed, {**facts, "part": "first in even columns, and of the second in odd ones"})
