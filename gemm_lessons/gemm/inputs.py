"""Exponents, zeros and extreme bytes of the inputs of a product.

    arrays as drawn, all from 0.5 to 1  --spread_exponents-->  D A E,  E^-1 B F,  D C F,  bias F

D, E and F are diagonal matrices of powers of two: one for each row of C, one for each k and one for each column. The
product is D (A B) F, because E cancels. All products of one element of C are therefore multiplied by the same power of
two, and so is their rounding error, as long as nothing overflows or underflows; ``Element.reach`` ensures that. E has a
smaller range than D and F, because E does not cancel in a product of the wrong k, and ``judging/sums.py`` finds k by
small numbers beside large ones.

Some rare inputs occur only in hidden shapes. Half of the rows of A and half of the columns of B are each multiplied by
one more power of two, so that numbers approach the limits of overflow, and the terms added to the product count in the
other half. Where K is large, one row of A and one column of B in eight are 0 in the first half of K. Some numbers are
powers of two, including 1; some bytes are 0. Of a type whose exponents have few bits, one
row or column in eight has numbers around the smallest normal one, half of them subnormal.

A factor with a range of its own gets no E: D and F alone scale its rows or columns out of that range. In hidden shapes,
one of its rows or columns in eight has numbers of one sign.

    drawn  --make_exact-->  rows and columns of whole numbers, rows with one number and zeros
    drawn  --make_alike-->  numbers that are all equal, or 0, but for a few

Where a row and a column of whole numbers meet, a sum is exact in any order. Where a row has one nonzero number, the sum
is rounded once. There the answer is known to the last bit, and no tolerance hides truncation.

A kernel may look at some numbers and conclude what the others are: that a row is the same as the one before it, that a
matrix is symmetric, that a tile is 0, that A is B. Where all but a few numbers are alike, these few contradict it. They
are not near the edges, so that a kernel that looks at the first numbers of a line or of a matrix sees none of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from gemm_lessons.engine.records import SINGLE, Element, dataclass
from gemm_lessons.gemm.data import Alike, BufferLayout
from gemm_lessons.gemm.formula import Product

Array = np.ndarray[Any, Any]

RARE = 64  # one input in 64 is 0; with more zeros, sums of different inputs would become equal
LINES = 8  # one row or column in 8 has the largest bytes, or the smallest floats of few bits
NARROW = -20  # exponent of the smallest normal number of a type with few bits for exponents, at least
SCALED = 4  # bits reserved for alpha and beta, of DRAWS in problem.py, and for sums with the added terms
# How many numbers differ in a factor whose numbers are alike, plus one for each OTHERS numbers. They are few, so that
# most tiles have none.
ALIKE_BUT = {"equal": 4, "same": 4, "left zero": 1, "right zero": 1}
OTHERS = 1 << 14
EDGE = 8  # lines at either end of a matrix that are alike, but at most a third of it: kernels look there first
LOOKED_AT = 256  # numbers of a line: a kernel may look at so many to learn how large the others are
LARGEST = 16  # so many values at either end of a byte's range count as largest


@dataclass(frozen=True)
class ExactParts:
    """The parts of the answer that are known to the last bit: columns of whole numbers, and rows that are ``alone``,
    with one nonzero number; all other rows have whole numbers."""

    cols: Array
    alone: Array


class Inputs:
    """The ``arrays`` of a problem with a ``product``, as stored. Every method changes them in place."""

    def __init__(
        self,
        arrays: Mapping[str, Array],
        layouts: Mapping[str, BufferLayout],
        product: Product,
        random: np.random.Generator,
    ) -> None:
        self._arrays, self._layouts, self._random = arrays, layouts, random
        self._names = product.left, product.right
        self._elements = tuple(layouts[name].element for name in self._names)
        left, right = (layouts[name].matrix(arrays[name]) for name in self._names)
        # Views of both factors as they are multiplied: (..., M, K) and (..., K, N).
        self._a = left.swapaxes(-1, -2) if product.left_transposed else left
        self._b = right.swapaxes(-1, -2) if product.right_transposed else right
        self._lines = self._a, self._b.swapaxes(-1, -2)  # rows of A and columns of B

    def spread_exponents(self, rare: bool = False) -> None:
        """Multiply by powers of two and set zeros, or use extreme bytes. ``rare``: also the inputs of hidden shapes."""
        if self._elements[0].is_float:
            self._exponents(rare)
            for matrix in (self._a, self._b):
                _zeros(matrix, self._random)
            for name, lines in zip(self._names, self._lines, strict=True) if rare else ():
                if self._layouts[name].range is not None and lines.dtype.kind == "f":
                    _of_one_sign(lines, self._random)
            if rare and self._a.shape[-1] > LOOKED_AT:
                for lines in self._lines:
                    _begin_with_zeros(lines, self._random)
        else:
            for lines in self._lines:
                _large(lines, self._random)
        for element, matrix in zip(self._elements, (self._a, self._b), strict=True) if rare else ():
            _simplest(element, matrix, self._random)

    def make_alike(self, alike: Alike) -> None:
        """Make all but a few numbers of both factors equal, or of one factor 0. The few are pairs: both numbers of a
        pair belong to one row or column of C, half of K apart. ``same``: the numbers of both factors are equal to each
        other, if their types are the same."""
        first, same_type = self._a.reshape(-1)[0], self._a.dtype == self._b.dtype
        for place, (lines, element) in enumerate(zip(self._lines, self._elements, strict=True)):
            if alike in ("left zero", "right zero") and (alike == "right zero") != bool(place):
                continue
            different = np.zeros(lines.shape, np.bool_)
            *outside, depth = lines.shape
            count = ALIKE_BUT[alike] + lines.size // OTHERS
            few = [_inside(size, count, self._random) for size in outside]
            k = _inside(max(1, depth // 2), count, self._random)
            different[(*few, k)] = different[(*few, k + depth // 2)] = True
            if alike == "same" and same_type:
                number = first
            else:
                number = element.encode(np.zeros(1))[0] if "zero" in alike else lines.reshape(-1)[0]
            lines[~different] = number

    def make_exact(self, digits: int, added: bool) -> ExactParts:
        """Let float sums of ``digits`` bits be exact; ``added``: scaled, with terms."""
        a, b, random, elements = self._a, self._b, self._random, self._elements
        most = (digits - added * SCALED - int(a.shape[-1] - 1).bit_length()) // 2
        most = min(most, *(it.precision for it in elements))
        row, col = (random.integers(0, 4, size) for size in (a.shape[-2], b.shape[-1]))  # 0, or of which signs
        alone = (row == 0) & (not added)
        _to_whole(elements[0], a, most, ~alone[:, None], row[:, None] == 1)
        _to_whole(elements[1], b, most, col > 0, col == 1, col == 2)
        place = random.integers(0, a.shape[-1], a.shape[-2])
        a[alone[:, None] & (np.arange(a.shape[-1]) != place[:, None])] = 0
        reach = min(it.reach for it in elements)
        rows, cols = (random.integers(-reach, reach + 1, size) for size in (row.size, col.size))
        rows *= not added
        elements[0].scale(a, rows[:, None])
        elements[1].scale(b, cols)
        for layout, matrix in self._added_terms():
            _to_whole(layout.element, matrix, most)
            if layout.cols == cols.size:
                layout.element.scale(matrix, cols)
        return ExactParts(col > 0, alone)

    def _exponents(self, rare: bool) -> None:
        a, b, random, elements = self._a, self._b, self._random, self._elements
        floats = {name: it for name, it in self._layouts.items() if it.element.is_float}
        reach = min(it.element.reach for it in floats.values())  # parts of A, too
        rows, cols = (random.integers(-reach, reach + 1, size) for size in (a.shape[-2], b.shape[-1]))
        depth = random.integers(-(reach // 2), reach // 2 + 1, a.shape[-1])
        depth *= self._layouts[self._names[0]].range is None
        if rare:  # multiply A, and so its rows, by a power of two, and B by another
            most, digits = min(it.shift for it in elements), min(it.precision for it in elements)
            # A factor may be split into parts of a narrower type in a scratch buffer. The second part lies lower by the
            # digits of the first, and must keep its own.
            parts = [it.element for it in floats.values() if it.role == "scratch" and it.element.precision < digits]
            most = min([most, *(max(0, it.shift - it.precision) for it in parts)])
            others = [it.element for name, it in floats.items() if name not in self._names and it.role != "scratch"]
            room = min(element.shift for element in others)
            room *= all(element.precision >= SINGLE for element in others)  # a narrow type has no room
            half = room >= most  # of the lines keep their size
            left = _shift(random, -most, most, half)
            right = _shift(random, max(-most, -room - left), min(most, room - left), half)
            rows = rows + left * (random.integers(0, 2, rows.size) if half else 1)
            cols = cols + right * (random.integers(0, 2, cols.size) if half else 1)
            rows, cols = (_some_tiny(element, it, random) for element, it in zip(elements, (rows, cols), strict=True))
        elements[0].scale(a, rows[:, None] + depth)
        elements[1].scale(b, cols - depth[:, None])
        for layout, matrix in self._added_terms():
            if layout.cols == cols.size:
                across = rows[:, None] if layout.dimensions > 1 and layout.rows == rows.size else 0
                layout.element.scale(matrix, across + cols)

    def _added_terms(self) -> Iterator[tuple[BufferLayout, Array]]:
        """Yield the random floats that are added to the product, each with its layout."""
        for name, layout in self._layouts.items():
            if name not in self._names and layout.element.is_float and layout.fill == "random":
                yield layout, layout.matrix(self._arrays[name])


def _inside(size: int, count: int, random: np.random.Generator) -> Array:
    """Return random places below ``size``, not near its ends where it is large enough."""
    edge = min(EDGE, size // 3)
    found: Array = random.integers(edge, size - edge, count)
    return found


def _to_whole(
    element: Element,
    matrix: Array,
    most: int,
    where: Array | bool = True,
    above: Array | bool = False,
    below: Array | bool = False,
) -> None:
    """Turn numbers from 0.5 to 1 into whole numbers of ``most`` bits, some ``above`` 0 and some ``below``."""
    numbers = element.decode(matrix)
    whole = np.copysign(np.floor(np.abs(numbers) * 2.0**most), np.where(above, 1, np.where(below, -1, numbers)))
    matrix[...] = element.encode(np.where(where, whole, numbers))


def _some_tiny(element: Element, exponents: Array, random: np.random.Generator) -> Array:
    """Return exponents of rows or columns, some of which lead to a narrow type's smallest normal number or below."""
    normal = int(np.log2(element.smallest)) + element.precision - 1
    if normal < NARROW:
        return exponents
    tiny = normal - random.integers(0, 3, exponents.size)
    return np.where(random.integers(0, LINES, exponents.size) == 0, tiny, exponents)


def _zeros(matrix: Array, random: np.random.Generator) -> None:
    """Set some elements to zero and keep their signs."""
    places = np.unravel_index(random.integers(0, matrix.size, matrix.size // RARE), matrix.shape)
    if matrix.dtype.kind == "f":
        matrix[places] *= 0
    else:  # raw bits: all but the sign
        matrix[places] &= 1 << (8 * matrix.itemsize - 1)


def _of_one_sign(lines: Array, random: np.random.Generator) -> None:
    """Give all numbers of one line in ``LINES`` the same sign, which may be another one for each line."""
    chosen = lines[..., random.integers(LINES) :: LINES, :]
    np.copysign(chosen, random.choice([-1.0, 1.0], (*chosen.shape[:-1], 1)), out=chosen)


def _begin_with_zeros(lines: Array, random: np.random.Generator) -> None:
    """Set the first half of one line in ``LINES`` to zero."""
    lines[..., random.integers(LINES) :: LINES, : lines.shape[-1] // 2] = 0


def _shift(random: np.random.Generator, least: int, most: int, always: bool) -> int:
    """Draw an exponent; each end is as likely as everything between. Unless ``always``, the exponent is 0
    half of the time if 0 is in range, so that some numbers stay around 1."""
    drawn = (least, most, int(random.integers(least, most + 1)))[random.integers(3)]
    return drawn if always or random.integers(2) or least > 0 or most < 0 else 0


def _simplest(element: Element, matrix: Array, random: np.random.Generator) -> None:
    """Make some numbers powers of two and some bytes 0."""
    places = np.unravel_index(random.integers(0, matrix.size, matrix.size // RARE), matrix.shape)
    fraction, exponent = np.frexp(element.decode(matrix[places]))
    power = np.ldexp(np.sign(fraction) / 2, exponent)
    matrix[places] = element.encode(power if element.is_float else 0 * power)


def _large(matrix: Array, random: np.random.Generator) -> None:
    """Give one row in ``LINES`` only the largest bytes of one sign, so that sums become as large as possible."""
    if matrix.itemsize > 1:
        return
    limits = np.iinfo(matrix.dtype)
    chosen = matrix[..., random.integers(LINES) :: LINES, :]
    least = limits.min if limits.min < 0 and random.integers(2) else limits.max - LARGEST + 1
    chosen[...] = random.integers(least, least + LARGEST, chosen.shape)
