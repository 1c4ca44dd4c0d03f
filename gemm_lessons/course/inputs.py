"""What the factors of a product hold beside random digits: exponents, zeros, and the largest bytes.

    arrays as drawn, all from 0.5 to 1  --widen-->  D A E,  E^-1 B F,  D C F,  bias F

D, E and F are diagonal, of powers of two: one for each row of C, one for each k, one for each column. The product is
D (A B) F, for E is gone from it: all products of one element of C are multiplied by the same power of two, and so is
what rounding does to them, as long as nothing overflows or underflows; ``Element.reach`` sees to that. E spreads less
than D and F, for a product of the wrong k has what does not cancel, and ``judgement/sums.py`` finds k by small numbers
beside large ones.

What is rare, and only hidden shapes have: A and B are multiplied by a power of two each, so that numbers come near the
ends of what no sum overflows from; some numbers are powers of two, 1 among them; some bytes are 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gemm_lessons.course.data import BufferLayout
from gemm_lessons.course.formula import Product
from gemm_lessons.elements import SINGLE, Element

Array = np.ndarray[Any, Any]

RARE = 64  # inputs of which one is 0: of so many fitted sums no two are alike by that
LINES = 8  # rows or columns of bytes of which one has the largest ones
LARGEST = 16  # bytes that are called so, at either end of the type


def widen(
    arrays: Mapping[str, Array],
    layouts: Mapping[str, BufferLayout],
    product: Product,
    random: np.random.Generator,
    rare: bool = False,
) -> None:
    """Change ``arrays``, as stored, in their place; ``rare``: with what else there may be."""
    left, right = (layouts[name].matrix(arrays[name]) for name in (product.left, product.right))
    a = left.swapaxes(-1, -2) if product.left_transposed else left
    b = right.swapaxes(-1, -2) if product.right_transposed else right
    if layouts[product.left].element.is_float:
        _exponents(arrays, layouts, product, (a, b), random, rare)
        for matrix in (a, b):
            _zeros(matrix, random)
    else:
        _large(a, random)
        _large(b.swapaxes(-1, -2), random)
    for name, matrix in ((product.left, a), (product.right, b)) if rare else ():
        _plainest(layouts[name].element, matrix, random)


def _exponents(
    arrays: Mapping[str, Array],
    layouts: Mapping[str, BufferLayout],
    product: Product,
    matrices: tuple[Array, Array],
    random: np.random.Generator,
    rare: bool,
) -> None:
    a, b = matrices
    reach = min(layout.element.reach for layout in layouts.values() if layout.element.is_float)  # parts of A, too
    rows, cols = (random.integers(-reach, reach + 1, size) for size in (a.shape[-2], b.shape[-1]))
    depth = random.integers(-(reach // 2), reach // 2 + 1, a.shape[-1])
    if rare:  # A, and so its rows, by a power of two, and B by another
        factors = (product.left, product.right)
        others = [it.element for name, it in layouts.items() if name not in factors and it.element.is_float]
        most, room = (min(element.shift for element in of) for of in ([layouts[it].element for it in factors], others))
        room *= all(element.precision >= SINGLE for element in others)  # a narrow one has none
        left = _shift(random, -most, most)
        rows, cols = rows + left, cols + _shift(random, max(-most, -room - left), min(most, room - left))
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


def _shift(random: np.random.Generator, least: int, most: int) -> int:
    """None as often as not, if that may be: then there are numbers around 1. The ends as often as all between."""
    drawn = (least, most, int(random.integers(least, most + 1)))[random.integers(3)]
    return drawn if random.integers(2) or least > 0 or most < 0 else 0


def _plainest(element: Element, matrix: Array, random: np.random.Generator) -> None:
    """Some numbers are powers of two; some bytes are 0."""
    places = np.unravel_index(random.integers(0, matrix.size, matrix.size // RARE), matrix.shape)
    fraction, exponent = np.frexp(element.decode(matrix[places]))
    power = np.ldexp(np.sign(fraction) / 2, exponent)
    matrix[places] = element.encode(power if element.is_float else 0 * power)


def _large(matrix: Array, random: np.random.Generator) -> None:
    """One row of each few has nothing but the largest bytes of one sign, so that sums become as large as they can."""
    if matrix.itemsize > 1:
        return
    limits = np.iinfo(matrix.dtype)
    chosen = matrix[..., random.integers(LINES) :: LINES, :]
    least = limits.min if limits.min < 0 and random.integers(2) else limits.max - LARGEST + 1
    chosen[...] = random.integers(least, least + LARGEST, chosen.shape)
