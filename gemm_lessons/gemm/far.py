"""A problem too large to keep, of which some blocks of the grid are run and judged.

    FarProblem(data, shape, seed)  --arguments()-->  buffers in pages  --some blocks run-->  pages of C  --judge()-->

Inputs are a function of their place, so that a page is made when a block reads it. The blocks decide by what they store
which elements of C they own, so a kernel may map blocks to tiles as it likes. Each block owes an equal share of C.

For half of the seeds, unless C is read, floats are whole numbers, so small that sums are exact in any order and no
error is tolerated. For the others, they are fractions of all their type's digits. Of bytes, a quarter of the rows and
columns have only large numbers of one sign, so that sums become as large as possible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from gemm_lessons.engine.records.elements import Element
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.hashing import GOLDEN, mixed
from gemm_lessons.engine.records.launch import PAGE, Argument, Buffer, Pages, Scalar
from gemm_lessons.gemm.data import SCALARS, BufferLayout, DataSpec
from gemm_lessons.gemm.formula import Value
from gemm_lessons.gemm.problem import DEFAULTS, DRAWS, tolerance_of, unit
from gemm_lessons.gemm.rounding import Arithmetic, evaluate
from gemm_lessons.gemm.shapes import Shape, TileSizes

Array = np.ndarray[Any, Any]
Touched = Mapping[str, tuple[Array, Array]]  # buffer -> page numbers (n,), their bytes (n, PAGE)

DIGITS = 24  # of a random number, at least 2: so many bits of a hash
LARGE = 16  # the largest numbers of a byte: from 112 to 127
AHEAD = 16  # lines whose pages are made together
DEVIATIONS = 8  # a sum of numbers of random signs is less than so many times its deviation
MARGIN = 2  # pages that a row of a tile may touch beside those that it fills


@dataclass(frozen=True)
class Sampled:
    """The elements of C that some blocks stored: places, and what is right there. ``owed``: elements that equal shares
    of these blocks have."""

    rows: Array
    cols: Array
    got: Array
    expected: Array
    tolerance: Array
    owed: int

    @property
    def is_even(self) -> bool:
        """Tell whether the blocks stored their share."""
        return bool(self.rows.size == self.owed)


class FarProblem:
    """A lesson's data at a far shape, with ``tile`` the share of a block."""

    def __init__(self, data: DataSpec, shape: Shape, seed: int, tile: TileSizes, blocks: int) -> None:
        self.data, self.shape, self._blocks, self._tile = data, shape, blocks, tile
        self.layouts = data.lay_out(shape.names)
        self._keys = {
            name: int(_hashed(np.array([place], np.uint64), seed)[0]) for place, name in enumerate(self.layouts)
        }
        random = np.random.default_rng([seed, shape.m, shape.n, shape.k])
        self._scalars = {name: self._scalar(name, random) for name in SCALARS}
        whole = max(1, (data.accumulate.precision - int(shape.k - 1).bit_length()) // 2)
        # An element that is stored as it was before does not count as stored: unlikely only among fractions.
        fractions = random.integers(2) or self.layouts[data.formula.target].is_read
        answer = self.layouts[data.formula.target].element
        while answer.is_float and whole and not _holds(answer, DEVIATIONS * shape.k**0.5 * 4.0**whole):
            whole -= 1
        self._whole = 0 if fractions else whole  # bits of whole numbers; 0: numbers are fractions

    def _scalar(self, name: str, random: np.random.Generator) -> np.generic:
        kind, value = self.data.accumulate, DEFAULTS[name]
        if name in self.data.formula.names:
            draws: Sequence[float] = DRAWS if kind.is_float else (-3, -2, 2, 3)
            value = float(self.data.scalar(name, self.shape.names, lambda: float(random.choice(draws))))
        scalar = kind.encode(np.array([value]))[0]
        assert isinstance(scalar, np.generic)
        return scalar

    def arguments(self, parameters: Sequence[str]) -> tuple[Argument, ...]:
        """Return the arguments of the launch."""
        return tuple(map(self._argument, parameters))

    def _argument(self, name: str) -> Argument:
        parameter = self.data.parameter(name)
        assert parameter is not None
        if parameter.kind == "scalar":
            return Scalar(name, self._scalars[name])
        if parameter.kind != "pointer":
            return Scalar(name, np.int32(self.data.number(parameter, self.shape.names, self.layouts)))
        layout = self.layouts[name]
        known = layout.fill != "poison"
        array = np.broadcast_to(np.zeros(1, layout.element.storage), layout.shape)
        ahead = tuple(layout.leading * layout.element.size * line for line in range(1, AHEAD)) if known else ()
        pages = Pages(partial(self._pages, layout), self._most(layout), ahead)
        return Buffer(name, array, layout.role != "in", known, pages)

    def _most(self, layout: BufferLayout) -> int:
        """Return the pages of a buffer that the blocks may touch: of C, those of their shares; of inputs, those of as
        many rows and columns."""
        of_a_tile = max(self._tile.rows, self._tile.cols)
        sizes = {self.shape.m: of_a_tile, self.shape.n: of_a_tile}  # and K differs from both
        lines, length = (sizes.get(it, it) for it in (layout.lines, layout.length))
        of_a_line = -(-length * layout.element.size // PAGE) + MARGIN
        return self._blocks * (lines + AHEAD * (layout.role == "in")) * of_a_line

    def _pages(self, layout: BufferLayout, numbers: Array) -> Array:
        each = PAGE // layout.element.size
        elements = (numbers[:, None] * each + np.arange(each)).reshape(-1)
        return self._stored(layout, elements).view(np.uint8).reshape(-1, PAGE)

    def _stored(self, layout: BufferLayout, elements: Array) -> Array:
        """Return elements of a buffer, by their places in memory, as stored before the launch."""
        element = layout.element
        line, along = np.divmod(elements, layout.leading)
        row, col = (line, along) if layout.order == "row" else (along, line)
        if layout.fill == "poison":
            return element.poisoned(elements.shape)
        if layout.fill != "random":
            numbers = np.full(elements.shape, float(layout.fill == "ones"))
        else:
            numbers = self._numbers(layout, row, col)
        stored: Array = element.encode(numbers)
        gap = along >= layout.length
        if gap.any():
            stored[gap] = element.poisoned((1,))
        return stored

    def _numbers(self, layout: BufferLayout, row: Array, col: Array) -> Array:
        """Return random numbers by their rows and columns, as float64."""
        element, product = layout.element, self.data.formula.product
        assert product is not None
        outside = col if (layout.name == product.left) == product.left_transposed else row
        if layout.name == product.right:
            outside = row if product.right_transposed else col
        key = self._keys[layout.name]
        bits = _hashed(row.astype(np.uint64) * np.uint64(max(layout.cols, 1)) + col.astype(np.uint64), key)
        sign = np.where(bits >> np.uint64(63), -1.0, 1.0)
        if layout.range is not None:
            low, high = layout.range
            inside: Array = low + (high - low) * (bits >> np.uint64(11)) * 2.0**-53
            return inside
        if not element.is_float:
            most = int(np.iinfo(element.storage).max) if element.size == 1 else 127
            small = (bits % np.uint64(most) + np.uint64(1)).astype(np.float64)
            signed = sign if np.iinfo(element.storage).min < 0 else 1.0
            kinds = _hashed(outside.astype(np.uint64), key + 1) & np.uint64(3)
            large = most - (bits % np.uint64(LARGE)).astype(np.float64)
            return np.where(kinds == 0, large, small * signed)
        digits = min(element.precision, DIGITS)
        fraction = 0.5 + (bits & np.uint64((1 << (digits - 1)) - 1)) * 2.0**-digits
        number = np.floor(fraction * 2.0 ** min(self._whole, element.precision)) if self._whole else fraction
        signed_number: Array = sign * number
        return signed_number

    def judged(self, touched: Touched) -> Sampled:
        """Return the elements of C that were stored."""
        layout = self.layouts[self.data.formula.target]
        numbers, contents = touched.get(layout.name, (np.zeros(0, np.int64), np.zeros((0, PAGE), np.uint8)))
        each = PAGE // layout.element.size
        places = (numbers[:, None] * each + np.arange(each)).reshape(-1)
        stored = np.ascontiguousarray(contents).reshape(-1).view(layout.element.storage)
        before = self._stored(layout, places)
        raw = f"u{layout.element.size}"
        changed = stored.view(raw) != before.view(raw)
        line, along = np.divmod(places[changed], layout.leading)
        rows, cols = (line, along) if layout.order == "row" else (along, line)
        expected, tolerance = self._right(rows, cols)
        with np.errstate(invalid="ignore"):
            got = layout.element.decode(stored[changed])
        owed = self._blocks * self._tile.rows * self._tile.cols
        return Sampled(rows, cols, got, expected, tolerance, owed)

    def _right(self, rows: Array, cols: Array) -> tuple[Array, Array]:
        """Return the right answer and its tolerance, each (n,), at these places of C."""
        own_rows, at_row = np.unique(rows, return_inverse=True)
        own_cols, at_col = np.unique(cols, return_inverse=True)
        inside = np.arange(self.shape.k)
        product, target = self.data.formula.product, self.data.formula.target
        assert product is not None
        values: dict[str, Value] = {}
        for name, layout in self.layouts.items():
            if name == product.left:
                row, col = (inside, own_rows) if product.left_transposed else (own_rows, inside)
            elif name == product.right:
                row, col = (own_cols, inside) if product.right_transposed else (inside, own_cols)
            else:
                row = own_rows if layout.rows > 1 else np.zeros(1, np.int64)
                col = own_cols if layout.cols > 1 else np.zeros(1, np.int64)
            line, along = (row[:, None], col) if layout.order == "row" else (col, row[:, None])
            stored = self._stored(layout, (line * layout.leading + along).reshape(-1)).reshape(row.size, col.size)
            unread = name == target and not layout.is_read
            values[name] = Value.exact(np.zeros(stored.shape) if unread else layout.element.decode(stored))
        kind, answer = self.data.accumulate, self.layouts[target].element
        values |= {name: Value.exact(kind.decode(np.array([it]))[0]) for name, it in self._scalars.items()}
        right = evaluate(self.data.formula, values, None, Arithmetic(unit(self.data), kind.least_normal))
        tolerance = tolerance_of(self.data, answer, right)
        if self._whole and answer.is_float and answer.roundoff <= kind.roundoff and self.data.formula.is_product:
            tolerance = np.zeros_like(tolerance)
        value = right.value if answer.is_float else answer.decode(answer.encode(right.value))
        return value[at_row, at_col], tolerance[at_row, at_col]


def _holds(element: Element, number: float) -> bool:
    """Tell whether the type has a number near this one."""
    with np.errstate(over="ignore"):
        near = float(element.decode(element.encode(np.array([number])))[0])
    return abs(near - number) < number / 2


def _hashed(numbers: Array, key: int) -> Array:
    """Return 64 random bits for each number."""
    with np.errstate(over="ignore"):
        return mixed((numbers + np.uint64(1)) * np.uint64(GOLDEN) + np.uint64(key % 2**64))
