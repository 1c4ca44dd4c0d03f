"""A problem too large to keep, of which some blocks of the grid are run and judged.

    FarProblem(data, shape, seed)  --arguments()-->  buffers in pages  --some blocks run-->  pages of C  --judge()-->

Inputs are a function of their place, so that a page is made when a block reads it, by a pointer, a texture or a tensor
map. The blocks decide by what they store which elements of C they own, so a kernel may map blocks to tiles as it likes.
Where a launch receives leading dimensions, and blocks touch only some pages, leading dimensions exceed 16 bits.
Each block must store an equal share of C. A later launch reads what ``keep`` received from an earlier one.

For half of the seeds, unless C is read, floats are whole numbers, so small that sums are exact in any order and no
error is tolerated. In a long sum, one of the two factors of each product has more binary digits than TF32 holds, and
all are scaled by powers of two to numbers below 1, which are as exact. For the other seeds, floats are fractions with
all binary digits of their type, and ``rounding.roundings_of_signs`` bounds the error of long sums. Of integers, a
quarter of the rows and columns have only large positive numbers, so that sums become as large as possible.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from gemm_lessons.engine import Buffer, Finding, Scalar, Texture
from gemm_lessons.engine.records import GOLDEN, PAGE, Argument, Element, Pages, dataclass, mixed
from gemm_lessons.gemm.data import SCALARS, BufferLayout, DataSpec
from gemm_lessons.gemm.formula import Value
from gemm_lessons.gemm.problem import DEFAULTS, DRAWS, GAPS, Overwritten, terms_of, tolerance_of, unit
from gemm_lessons.gemm.rounding import Arithmetic, evaluate, roundings_of_signs
from gemm_lessons.gemm.shapes import Shape, TileSizes

Array = np.ndarray[Any, Any]
Touched = Mapping[str, tuple[Array, Array]]  # buffer -> page numbers (n,), their bytes (n, PAGE)

WORD = 4  # bytes
DIGITS = 53  # binary digits of a random number, at most
LONG_SUMS = 1024  # K from which the signs of the products bound the error of a sum
LITTLE = 2  # bits of the whole numbers of one factor of a long sum: the other has as many as the sum can hold
RMS = 0.625  # root mean square of a product of two numbers from 0.5 to 1, at most
LARGE = 16  # so many numbers at the upper end of a type count as large: 112 to 127 for int8
AHEAD = 16  # lines whose pages are made together, or pages of a line along K
DEVIATIONS = 8  # a sum of numbers with random signs stays below so many standard deviations
APART = 1 << 18  # elements from one line to the next where a launch receives that number, at most
MARGIN = 2  # pages that a row of a tile may touch beside those that it fills


@dataclass(frozen=True)
class Sampled:
    """The n elements of C that some blocks stored: rows, columns, values, right values and their tolerance, each (n,).
    ``owed``: how many elements these blocks have if all blocks store equal shares."""

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
    """A lesson's data at a far shape: ``blocks`` with ``tiles`` each; None: a later launch stores part of C."""

    def __init__(
        self, data: DataSpec, shape: Shape, seed: int, tile: TileSizes, blocks: int, tiles: int | None = 1
    ) -> None:
        self.data, self.shape, self._blocks, self._tile, self._tiles = data, shape, blocks, tile, tiles
        alike = shape.m == shape.n == shape.k  # then rows have no gaps, as in most benchmarks
        self.layouts = data.lay_out(shape.names, gap=0) if alike else data.lay_out(shape.names)
        if self._touches_few and not alike:
            draw = np.random.default_rng([seed, shape.m, shape.n, shape.k, GAPS])
            for name in sorted(data.padded):
                self.layouts[name] = replace(self.layouts[name], leading=_far_apart(draw, self.layouts[name]))
        # Arrays of the buffers' shapes, whose elements all share one place.
        self._arrays = {
            it.name: np.broadcast_to(np.zeros(1, it.element.storage), it.shape) for it in self.layouts.values()
        }
        self._kept: dict[str, tuple[Array, Array]] = {}
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
        self._long_first = int(random.integers(2))  # the k of which A has the long numbers: even or odd ones

    @property
    def _has_long_sums(self) -> bool:
        """Tell whether sums of products with random signs are long, and computed and stored in the factors' type."""
        factors, kind = self.data.factors, self.data.accumulate
        elements = [self.layouts[self.data.formula.target].element, *(it.element for it in factors)]
        same = kind.is_float and all(it.precision == kind.precision for it in elements)
        return same and all(it.range is None for it in factors) and self.shape.k >= LONG_SUMS

    def _bits(self, name: str, k: Array) -> Array | int:
        """Return the bits of whole numbers of a buffer, of factors at these ``k``.

        In a long sum, one factor of each product has too many bits for a narrower type, A and B in turn. With
        random signs, a partial sum of products below 2^bits is at most DEVIATIONS times its deviation: a larger one has
        a probability of 2 exp(-32).
        """
        product = self.data.formula.scaled_product
        assert product is not None
        if not self._has_long_sums or name not in (product.left, product.right):
            return self._whole
        most = int(self.data.accumulate.precision - np.log2(DEVIATIONS * RMS * self.shape.k**0.5))
        is_long = (k + (name == product.left) + self._long_first) % 2 == 1
        return np.where(is_long, most - LITTLE, LITTLE)

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
        if parameter.kind in ("size", "leading", "stride"):
            return Scalar(name, np.int32(self.data.number(parameter, self.shape.names, self.layouts)))
        layout = self.layouts[parameter.source]
        if parameter.kind == "texture":
            shape = (-1,) if parameter.channels == 1 else (-1, parameter.channels)
            texels = self._arrays[layout.name].reshape(shape)
            return Texture(texels, parameter.channels, name=name, pages=self._paged(layout))
        if parameter.kind == "tensor_map":
            of_bytes = np.cumprod((layout.element.size, *layout.shape[:0:-1]))[::-1]
            only_its_form = as_strided(
                np.zeros(1, layout.element.storage), layout.shape, of_bytes.tolist(), writeable=False
            )
            found = self.data.tensor_map(name, only_its_form, layout, self.shape.names)
            return replace(found, pointer=self._buffer(layout))
        return self._buffer(layout)

    def _buffer(self, layout: BufferLayout) -> Buffer:
        known = layout.fill != "poison" or layout.name in self._kept
        return Buffer(layout.name, self._arrays[layout.name], layout.role != "in", known, self._paged(layout))

    def _paged(self, layout: BufferLayout) -> Pages:
        ahead = range(1, AHEAD) if layout.fill != "poison" else ()
        step = PAGE if self._is_along_k(layout) else layout.leading * layout.element.size
        return Pages(partial(self._pages, layout), self._most(layout), tuple(step * it for it in ahead))

    def _is_along_k(self, layout: BufferLayout) -> bool:
        """Tell whether the elements of a line are those along K: a block needs its lines from one end to the other."""
        return self._axes(layout.name)[layout.order == "row"] == "K"

    @property
    def _touches_few(self) -> bool:
        """Tell whether a block touches a known part of each buffer: its share is a tile, and all is in one launch."""
        return self._tiles == 1 and all(it.role != "scratch" for it in self.layouts.values())

    def _most(self, layout: BufferLayout) -> int:
        """Return how many pages of a buffer the blocks may touch: all of them; or, if blocks touch a known part, those
        of their tiles of C and those of as many rows and columns of an input."""
        every = -(-layout.nbytes // PAGE)
        if not self._touches_few:
            return every
        of_a_tile = max(self._tile.rows, self._tile.cols)
        of_rows, of_cols = (
            of_a_tile if axis in ("M", "N") else size
            for axis, size in zip(self._axes(layout.name), (layout.rows, layout.cols), strict=True)
        )
        lines, length = (of_rows, of_cols) if layout.order == "row" else (of_cols, of_rows)
        of_a_line = -(-length * layout.element.size // PAGE) + MARGIN
        more = AHEAD * (layout.role == "in")
        of_a_block = lines * (of_a_line + more) if self._is_along_k(layout) else (lines + more) * of_a_line
        return min(every, self._blocks * of_a_block)

    def _pages(self, layout: BufferLayout, numbers: Array) -> Array:
        each = PAGE // layout.element.size
        elements = (numbers[:, None] * each + np.arange(each)).reshape(-1)
        made = self._stored(layout, elements).view(np.uint8).reshape(-1, PAGE)
        if layout.name in self._kept:
            known, contents = self._kept[layout.name]
            at = np.minimum(np.searchsorted(known, numbers), known.size - 1)
            made = np.where((known[at] == numbers)[:, None], contents[at], made)
        return made

    def keep(self, touched: Touched) -> None:
        """Keep what a launch left in the buffers that it may write, for the launches after it."""
        for name, (numbers, contents) in touched.items():
            if self.layouts[name].role != "in" and numbers.size:
                known, before = self._kept.get(name, (numbers[:0], contents[:0]))
                rest = ~np.isin(known, numbers)
                every, bytes_of_each = np.concatenate((known[rest], numbers)), np.concatenate((before[rest], contents))
                order = np.argsort(every)
                self._kept[name] = every[order], bytes_of_each[order]

    def _stored(self, layout: BufferLayout, elements: Array) -> Array:
        """Return elements of a buffer, by their places in memory, as stored before the first launch."""
        element = layout.element
        line = elements // layout.leading  # divmod() takes several times as long
        along = elements - line * layout.leading
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
        element, product = layout.element, self.data.formula.scaled_product
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
        number = fraction
        if self._whole:
            inside = row if outside is col else col
            scale = 2.0 ** np.minimum(self._bits(layout.name, inside), element.precision)
            number = np.floor(fraction * scale)
            if self._has_long_sums:  # a kernel may multiply in a type that holds no large numbers
                number /= scale
        signed_number: Array = sign * number
        return signed_number

    def damage(self, touched: Touched, stored: Collection[str]) -> Finding | None:
        """Report a write to an input; ``stored``: the buffers that were stored into."""
        for name in sorted(stored):
            layout = self.layouts[name]
            if layout.role != "in":
                continue
            numbers, contents = touched[name]
            changed = np.argwhere(
                (self._pages(layout, numbers) != contents).reshape(numbers.size, -1, layout.element.size).any(2)
            )
            if changed.size:
                page, element = changed[0].tolist()
                place = int(numbers[page]) * (PAGE // layout.element.size) + element
                facts = Overwritten(name, len(changed), divmod(place, layout.leading), self.data.answer.name)
                return Finding("input_overwritten", "error", count=len(changed), facts=facts)
        return None

    def words_of_tile(self, rows: range, cols: range) -> Array:
        """Return which words of 4 bytes of C a tile of it fills, bool (n,)."""
        layout = self.layouts[self.data.formula.target]
        line, along = np.array(rows)[:, None], np.array(cols)
        line, along = (line, along) if layout.order == "row" else (along, line)
        words = np.zeros(-(-layout.nbytes // WORD), np.bool_)
        words[(line * layout.leading + along) * layout.element.size // WORD] = True
        return words

    def words_of_pages(self, name: str, numbers: Array) -> Array:
        """Return which words of 4 bytes of a buffer are in these pages, bool (n,)."""
        words = np.zeros(-(-self.layouts[name].nbytes // PAGE) * (PAGE // WORD), np.bool_)
        words.reshape(-1, PAGE // WORD)[numbers] = True
        return words

    def judged_tile(self, rows: range, cols: range) -> Sampled:
        """Return all elements of a tile of C, as the launches that were kept have left it."""
        layout = self.layouts[self.data.formula.target]
        row, col = (it.reshape(-1) for it in np.meshgrid(np.array(rows), np.array(cols), indexing="ij"))
        line, along = (row, col) if layout.order == "row" else (col, row)
        places = (line * layout.leading + along) * layout.element.size
        numbers = np.unique(places // PAGE)
        contents = np.ascontiguousarray(self._pages(layout, numbers)).reshape(-1).view(layout.element.storage)
        inside = np.searchsorted(numbers, places // PAGE) * PAGE + places % PAGE
        expected, tolerance = self._right(row, col)
        with np.errstate(invalid="ignore"):
            got = layout.element.decode(contents[inside // layout.element.size])
        return Sampled(row, col, got, expected, tolerance, row.size)

    def judged(self, touched: Touched, blocks: int = 1) -> Sampled:
        """Return the elements of C that ``blocks`` blocks stored: those whose bits in ``touched`` have changed."""
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
        owed = rows.size
        if self._tiles is not None:
            owed = blocks * self._tiles * self._tile.rows * self._tile.cols
        return Sampled(rows, cols, got, expected, tolerance, owed)

    def _right(self, rows: Array, cols: Array) -> tuple[Array, Array]:
        """Return the right answer and its tolerance, each (n,), at these places of C."""
        # A line of a matrix that the formula repeats belongs to several rows or columns of A, B or C: take all of them.
        own = {
            "M": self._with_neighbours("M", rows),
            "N": self._with_neighbours("N", cols),
            "K": np.arange(self.shape.k),
        }
        target = self.data.formula.target
        values: dict[str, Value] = {}
        for name, layout in self.layouts.items():
            if layout.role == "scratch":
                continue
            sizes = (layout.rows, layout.cols)
            row, col = (
                np.unique(own[axis] // (self.shape.names[axis] // size)) if axis else np.zeros(1, np.int64)
                for axis, size in zip(self._axes(name), sizes, strict=True)
            )
            line, along = (row[:, None], col) if layout.order == "row" else (col, row[:, None])
            stored = self._stored(layout, (line * layout.leading + along).reshape(-1)).reshape(row.size, col.size)
            unread = name == target and not layout.is_read
            values[name] = Value.exact(np.zeros(stored.shape) if unread else layout.element.decode(stored))
        kind, answer = self.data.accumulate, self.layouts[target].element
        values |= {name: Value.exact(kind.decode(np.array([it]))[0]) for name, it in self._scalars.items()}
        right = evaluate(self.data.formula, values, None, Arithmetic(unit(self.data), kind.least_normal))
        terms = terms_of(self.data, self.shape, right)
        if self._has_long_sums:
            terms = min(terms, roundings_of_signs(self.shape.k))
        tolerance = tolerance_of(self.data, answer, replace(right, terms=terms))
        if self._whole and answer.is_float and answer.roundoff <= kind.roundoff and self.data.formula.is_product:
            tolerance = np.zeros_like(tolerance)
        value = right.value if answer.is_float else answer.decode(answer.encode(right.value))
        at = np.searchsorted(own["M"], rows), np.searchsorted(own["N"], cols)
        return value[at], tolerance[at]

    def _axes(self, name: str) -> tuple[str, str]:
        """Return along which of M, N and K a matrix has rows and columns; empty for one row or column."""
        extents = self.data.by_name[name].shape
        found = ["".join(sorted({"M", "N", "K"} & it.names)) for it in extents]
        return ("", found[0]) if len(found) == 1 else (found[0], found[1])

    def _with_neighbours(self, axis: str, places: Array) -> Array:
        """Return these rows or columns, in order, with those that use the same line of a repeated matrix."""
        layouts = ((name, layout) for name, layout in self.layouts.items() if layout.role != "scratch")
        sizes = (
            it for name, layout in layouts for it in zip(self._axes(name), (layout.rows, layout.cols), strict=True)
        )
        most = max(int(self.shape.names[axis]) // size for along, size in sizes if along == axis)
        groups: Array = np.unique(places // most)
        return (groups[:, None] * most + np.arange(most)).reshape(-1)


def _far_apart(draw: np.random.Generator, layout: BufferLayout) -> int:
    """Return a leading dimension that 16 bits do not hold, as far as all indices fit in 32."""
    most = min(APART, ((1 << 31) - 1) // max(1, layout.batch * layout.lines))
    step = PAGE // layout.element.size  # whole pages: as many are touched as without
    fewest, several = (max(0, min(it, most) - layout.leading) // step for it in (step + (1 << 16), most))
    return layout.leading + step * int(draw.integers(fewest, several, endpoint=True))


def _holds(element: Element, number: float) -> bool:
    """Tell whether the type has a number near this one."""
    with np.errstate(over="ignore"):
        near = float(element.decode(element.encode(np.array([number])))[0])
    return abs(near - number) < number / 2


def _hashed(numbers: Array, key: int) -> Array:
    """Return 64 random bits for each number."""
    with np.errstate(over="ignore"):
        return mixed((numbers + np.uint64(1)) * np.uint64(GOLDEN) + np.uint64(key % 2**64))
