"""What the factors of a product hold beside random digits: exponents, zeros, and the largest bytes.

    arrays as drawn, all from 0.5 to 1  --widen-->  D A E,  E^-1 B F,  D C F,  bias F

D, E and F are diagonal, of powers of two: one for each row of C, one for each k, one for each column. The product is
D (A B) F, for E is gone from it: all products of one element of C are multiplied by the same power of two, and so is
what rounding does to them, as long as nothing overflows or underflows; ``Element.reach`` sees to that. E spreads less
than D and F, for a product of the wrong k has what does not cancel, and ``judgement/sums.py`` finds k by small numbers
beside large ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gemm_lessons.course.data import BufferLayout
from gemm_lessons.course.formula import Product

Array = np.ndarray[Any, Any]

RARE = 64  # inputs of which one is 0: of so many fitted sums no two are alike by that
LINES = 8  # rows or columns of bytes of which one has the largest ones
LARGEST = 16  # bytes that are called so, at either end of the type


def widen(
    arrays: Mapping[str, Array], layouts: Mapping[str, BufferLayout], product: Product, random: np.random.Generator
) -> None:
    """Change ``arrays``, as stored, in their place."""
    left, right = (layouts[name].matrix(arrays[name]) for name in (product.left, product.right))
    a = left.swapaxes(-1, -2) if product.left_transposed else left
    b = right.swapaxes(-1, -2) if product.right_transposed else right
    if layouts[product.left].element.is_float:
        _exponents(arrays, layouts, product, (a, b), random)
        for matrix in (a, b):
            _zeros(matrix, random)
    else:
        _large(a, random)
        _large(b.swapaxes(-1, -2), random)


def _exponents(
    arrays: Mapping[str, Array],
    layouts: Mapping[str, BufferLayout],
    product: Product,
    factors: tuple[Array, Array],
    random: np.random.Generator,
) -> None:
    a, b = factors
    reach = min(layout.element.reach for layout in layouts.values() if layout.element.is_float)  # parts of A, too
    rows, cols = (random.integers(-reach, reach + 1, size) for size in (a.shape[-2], b.shape[-1]))
    depth = random.integers(-(reach // 2), reach // 2 + 1, a.shape[-1])
    layouts[product.left].element.scale(a, rows[:, None] + depth)
    layouts[product.right].element.scale(b, cols - depth[:, None])
    for name, layout in layouts.items():  # what is added to the product
        added = name not in (product.left, product.right) and layout.element.is_float and layout.fill == "random"
        if added and layout.cols == cols.size:
            across = rows[:, None] if layout.dimensions > 1 and layout.rows == rows.size else 0
            layout.element.scale(layout.matrix(arrays[name]), across + cols)


def _zeros(matrix: Array, random: np.random.Generator) -> None:
    """Of either sign: the numbers' own."""
    places = np.unravel_index(random.integers(0, matrix.size, matrix.size // RARE), matrix.shape)
    if matrix.dtype.kind == "f":
        matrix[places] *= 0
    else:  # raw bits: all but the sign
        matrix[places] &= 1 << (8 * matrix.itemsize - 1)


def _large(matrix: Array, random: np.random.Generator) -> None:
    """One row of each few has nothing but the largest bytes of one sign, so that sums become as large as they can."""
    if matrix.itemsize > 1:
        return
    limits = np.iinfo(matrix.dtype)
    chosen = matrix[..., random.integers(LINES) :: LINES, :]
    least = limits.min if limits.min < 0 and random.integers(2) else limits.max - LARGEST + 1
    chosen[...] = random.integers(least, least + LARGEST, chosen.shape)
