"""The data of a lesson's kernels: named buffers, scalars and the formula of the answer.

    DataSpec  --lay_out(shape)-->  BufferLayout by name: types and sizes in memory
              --parameter(name)--> Parameter: what the host passes under that name, and its C declaration

This is the only description of the data. The problem draws inputs from it, devices pass its arguments, and the estimate
takes bytes and operations from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, Literal

from gemm_lessons.engine.arguments import Expression, ExpressionError, Number
from gemm_lessons.engine.records import ELEMENTS, TENSOR_MAP_SIZE, Element, dataclass, strides_of
from gemm_lessons.gemm.formula import Formula, Product
from gemm_lessons.gemm.promotion import lost

if TYPE_CHECKING:
    import numpy as np

    from gemm_lessons.engine import TensorMap

    Array = np.ndarray[Any, Any]

Order = Literal["row", "column"]
Role = Literal["in", "out", "inout", "scratch"]
Fill = Literal["random", "poison", "zeros", "ones"]
# All but a few numbers of each factor are equal, of both factors are equal, or of one factor are 0.
Alike = Literal["equal", "same", "left zero", "right zero"]
ALIKE: tuple[Alike, ...] = ("equal", "same", "left zero", "right zero")

SCALARS = ("alpha", "beta")
DRAWN = "drawn"  # a random number, where a lesson gives a scalar's value
SIZES = ("M", "N", "K")
OF_BUFFERS = ("pointer", "texture", "tensor_map")  # kinds of parameters that pass a buffer to a kernel
TEXTURES = {1: "tex", 2: "tex2", 4: "tex4"}  # channels -> prefix of the buffer's name
LAYOUTS = ("NN", "NT", "TN", "TT")  # of A and B: T is stored as its transpose
Leading = tuple[tuple[str, int], ...]  # buffer -> its leading dimension, where it is not the usual one
GAP = 16  # bytes between lines where a leading dimension is passed: lines stay aligned for accesses of 128 bits
INT_SIZE = 4
POINTER_SIZE = 8


@dataclass(frozen=True)
class BufferSpec:
    """One array in global memory. ``shape``: (columns), (rows, columns) or (batch, rows, columns), as expressions over
    M, N, K and tile names. ``order``: whether the elements of a row or of a column are contiguous. ``fill``: the
    contents before the first launch."""

    name: str
    element: Element
    shape: tuple[Expression, ...]
    order: Order = "row"
    role: Role = "in"
    fill: Fill = "random"
    range: tuple[float, float] | None = None  # of random numbers; None: 0.5 to 1, of either sign


@dataclass(frozen=True)
class BufferLayout:
    """A buffer at given sizes: ``batch`` matrices of ``rows`` x ``cols``, with ``leading`` elements from one line to
    the next. ``dimensions``: the number declared, 1, 2 or 3."""

    name: str
    element: Element
    batch: int
    rows: int
    cols: int
    leading: int
    order: Order = "row"
    role: Role = "in"
    fill: Fill = "random"
    dimensions: int = 2
    range: tuple[float, float] | None = None

    @property
    def lines(self) -> int:
        """Return the number of lines: rows of a row-major matrix, columns of a column-major one."""
        return self.rows if self.order == "row" else self.cols

    @property
    def length(self) -> int:
        """Return the number of elements in a line, without the gap between lines."""
        return self.cols if self.order == "row" else self.rows

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape as stored: (batch, lines, leading), without undeclared dimensions."""
        return (self.batch, self.lines, self.leading)[3 - self.dimensions :]

    @property
    def strides(self) -> tuple[int, ...]:
        """Return the bytes between neighbours along each dimension as stored."""
        return strides_of(self.shape, self.element.size)

    @property
    def is_read(self) -> bool:
        """Tell whether kernels may read the initial contents."""
        return self.role in ("in", "inout") and self.fill != "poison"

    @property
    def nbytes(self) -> int:
        """Return the size in bytes, including the gaps between lines."""
        return self.batch * self.lines * self.leading * self.element.size

    @property
    def elements(self) -> int:
        """Return the number of elements."""
        return self.batch * self.rows * self.cols

    @property
    def moved(self) -> int:
        """Return the bytes that a kernel moves when it touches each element once."""
        return self.elements * self.element.size

    def inside(self, stored: Array) -> Array:
        """Return the lines without their gaps, as stored."""
        return stored[..., : self.length]

    def matrix(self, stored: Array) -> Array:
        """Return rows by columns as in the formula, for either storage order, in the stored type."""
        lines = self.inside(stored)
        return lines if self.order == "row" else lines.swapaxes(-1, -2)


@dataclass(frozen=True)
class TensorMapSpec:
    """A ``CUtensorMap`` that the host makes for a launch: ``box`` has a size for each extent of the buffer's shape."""

    name: str
    buffer: str
    box: tuple[Expression, ...]
    swizzle: int = 0  # bytes: 32, 64, 128

    def over(self, layout: BufferLayout, array: Array, names: Mapping[str, Number]) -> TensorMap:
        """Return the tensor map of the buffer as it is stored. Raise ``ExpressionError``."""
        from gemm_lessons.engine import TensorMap

        box = self._box(layout, names)
        return TensorMap(layout.inside(array), box, self.swizzle, self._element(layout), self.name)

    def check(self, layout: BufferLayout, names: Mapping[str, Number]) -> None:
        """Raise ``ExpressionError`` for a size that is not a number, and ``ValueError`` if no GPU supports the map."""
        from gemm_lessons.engine.records import check_map, map_type

        box = self._box(layout, names)
        size = map_type(self.name, self._element(layout)).size
        check_map(self.name, size, (*layout.shape[:-1], layout.length), layout.strides, box, self.swizzle)

    def _box(self, layout: BufferLayout, names: Mapping[str, Number]) -> tuple[int, ...]:
        try:
            box = [extent.whole(names, at_least=1) for extent in self.box]
        except ExpressionError as error:
            raise ExpressionError(f"the box of {self.name}: {error}") from None
        if layout.order == "column" and len(box) > 1:
            box[-1], box[-2] = box[-2], box[-1]
        return tuple(box)

    def _element(self, layout: BufferLayout) -> str:
        return layout.element.name.replace("tf32", "float32")  # copied bit by bit, without rounding


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel: its C type, its name, its size in bytes and the source of its value.

    ``source``: the buffer of a pointer, leading dimension, stride, texture or tensor map; for a size or a scalar, its
    own name. ``channels``: numbers per texture fetch.
    """

    type: str
    name: str
    size: int
    kind: Literal["pointer", "size", "scalar", "leading", "stride", "texture", "tensor_map"]
    source: str
    channels: int = 1

    def __str__(self) -> str:
        return f"{self.type}{self.name}" if self.type.endswith("*") else f"{self.type} {self.name}"


@dataclass(frozen=True)
class DataSpec:
    """Buffers, the accumulator's type, the formula of the answer, the tile sizes that shapes may name, and scalars
    computed from M, N and K. All other scalars are drawn."""

    buffers: tuple[BufferSpec, ...]
    accumulate: Element
    formula: Formula
    sizes: tuple[tuple[str, int], ...] = ()
    padded: frozenset[str] = frozenset()  # buffers with gaps between lines: a launch receives their leading dimension
    maps: tuple[TensorMapSpec, ...] = ()
    given: tuple[tuple[str, Expression], ...] = ()  # scalars
    promote: Expression | None = None  # of how many k a sum may be that wgmma makes of 8-bit floats: see promotion.py

    @classmethod
    def plain(
        cls,
        parameters: Sequence[str],
        *,
        a: str = "float32",
        b: str = "float32",
        c: str = "float32",
        accumulate: str = "float32",
        formula: str = "",
        buffers: Sequence[BufferSpec] = (),
        sizes: tuple[tuple[str, int], ...] = (),
        maps: tuple[TensorMapSpec, ...] = (),
        given: tuple[tuple[str, Expression], ...] = (),
        promote: Expression | None = None,
    ) -> DataSpec:
        """Return row-major A, B and C and what else ``parameters`` name; ``buffers`` are added or replace these."""
        m, n, k = (Expression.parse(name, SIZES) for name in SIZES)
        known = {
            "A": BufferSpec("A", ELEMENTS[a], (m, k)),
            "B": BufferSpec("B", ELEMENTS[b], (k, n)),
            "C": BufferSpec("C", ELEMENTS[c], (m, n), role="out", fill="poison"),
        }
        if "bias" in parameters:
            known["bias"] = BufferSpec("bias", ELEMENTS[c], (n,))
        known |= {buffer.name: buffer for buffer in buffers}
        if not formula:
            terms = ["alpha * (A @ B)" if "alpha" in parameters else "A @ B"]
            terms += [term for name, term in (("beta", "beta * C"), ("bias", "bias")) if name in parameters]
            formula = f"C = {' + '.join(terms)}"
        parsed = Formula.parse(formula, (*known, *SCALARS))
        used = {*parsed.names, *parameters, *(buffer.name for buffer in buffers)}
        known = {name: buffer for name, buffer in known.items() if name not in ("A", "B") or name in used}
        if parsed.has_functions and not (ELEMENTS[accumulate].is_float and known[parsed.target].element.is_float):
            raise ExpressionError(f"{parsed.text}: its functions and divisions are of floats, not of integers")
        target = known[parsed.target]
        if parsed.target in parsed.names and target.role == "out":
            known[target.name] = replace(target, role="inout", fill="random")
        padded = frozenset(name for name in known if leading_name(name) in parameters)
        return cls(tuple(known.values()), ELEMENTS[accumulate], parsed, sizes, padded, maps, given, promote)

    @cached_property
    def by_name(self) -> Mapping[str, BufferSpec]:
        """Return the buffers by name."""
        return {buffer.name: buffer for buffer in self.buffers}

    @property
    def answer(self) -> BufferSpec:
        """Return the buffer that holds the answer after the last launch."""
        return self.by_name[self.formula.target]

    @property
    def multiplies(self) -> bool:
        """Tell whether the answer has matrix products. Speeds of other answers are not compared with theirs."""
        return self.formula.has_products

    @property
    def is_local(self) -> bool:
        """Tell whether an element of the answer depends on one row and one column of matrices."""
        formula, product = self.formula, self.formula.scaled_product
        if product is None or product.left == product.right or formula.has_functions:
            return False
        return all(len(it.shape) <= 2 for it in self.buffers if it.role != "scratch")

    @property
    def factors(self) -> tuple[BufferSpec, ...]:
        """Return the two factors of the formula's product, scaled or not; all inputs if there is not just one."""
        product = self._scaled_product
        return (self.by_name[product.left], self.by_name[product.right]) if product else self.inputs

    @property
    def _scaled_product(self) -> Product | None:
        product = self.formula.scaled_product
        return product if product and {product.left, product.right} <= set(self.by_name) else None

    @property
    def untimed(self) -> str:
        """Say why kernels for this answer cannot be timed beside cuBLAS's product on a GPU; empty if they can."""
        if self._scaled_product is None:
            return f"{self.formula.text}: only formulas with one product of two buffers are timed"
        if self.formula.has_functions:  # functions may amplify the error of cuBLAS's product
            return f"{self.formula.text}: only formulas of products and sums are timed beside cuBLAS"
        return ""

    @property
    def gemm_ex(self) -> bool:
        """Tell whether cuBLAS's gemmEx takes both factors as they are stored, and so computes the same product."""
        kinds = [factor.element for factor in self.factors]
        taken = all(kind.cuda is not None and not kind.name.startswith("float8") for kind in kinds)
        return self.formula.product is not None and taken

    @property
    def inputs(self) -> tuple[BufferSpec, ...]:
        """Return the buffers that no kernel may write."""
        return tuple(buffer for buffer in self.buffers if buffer.role == "in")

    def in_layout(self, layout: str) -> DataSpec:
        """Return the same data with A and B in this layout. T is column-major, which equals a row-major transpose."""
        orders: dict[str, Order] = {
            name: "column" if letter == "T" else "row" for name, letter in zip("AB", layout, strict=True)
        }
        ordered = (replace(it, order=orders.get(it.name, it.order)) for it in self.buffers)
        return replace(self, buffers=tuple(ordered))

    def scalar(self, name: str, sizes: Mapping[str, Number], draw: Callable[[], Number] = lambda: 1) -> Number:
        """Return the value of a scalar: the value from lesson.toml, which may name a drawn number, or that number
        itself. ``draw`` is called only if the value needs it."""
        found = dict(self.given).get(name)
        if found is None:
            return draw()
        return found.value({**sizes, DRAWN: draw()} if DRAWN in found.names else sizes)

    def names(self, sizes: Mapping[str, Number]) -> dict[str, Number]:
        """Return all names that expressions may use, at these sizes M, N, K."""
        return {**sizes, **dict(self.sizes)}

    def lay_out(
        self, sizes: Mapping[str, Number], gap: int = GAP, told: Mapping[str, Number] | None = None
    ) -> dict[str, BufferLayout]:
        """Return the layout of every buffer at these sizes M, N, K. ``gap``: bytes between lines where a launch
        receives the leading dimension. Scalars have their values at the sizes ``told``. Raise ``ExpressionError`` when
        a size is not a whole number >= 1."""
        names = self.names(sizes)
        return {buffer.name: self._layout(buffer, names, gap, told or sizes) for buffer in self.buffers}

    def _layout(
        self, buffer: BufferSpec, names: Mapping[str, Number], gap: int, told: Mapping[str, Number]
    ) -> BufferLayout:
        try:
            extents = [extent.whole(names, at_least=1) for extent in buffer.shape]
        except ExpressionError as error:
            raise ExpressionError(f"the shape of {buffer.name}: {error}") from None
        batch, rows, cols = [1] * (3 - len(extents)) + extents
        length = cols if buffer.order == "row" else rows
        leading = length + gap // buffer.element.size * (buffer.name in self.padded)
        fill = buffer.fill
        if buffer.role == "inout" and buffer is self.answer and self.scalar("beta", told) == 0:
            fill = "poison"  # as in BLAS: where beta is 0, C need not be set
        how = (buffer.order, buffer.role, fill)
        return BufferLayout(
            buffer.name, buffer.element, batch, rows, cols, leading, *how,
            dimensions=len(extents), range=buffer.range,
        )  # fmt: skip

    def parameter(self, name: str) -> Parameter | None:
        """Return the parameter of this name; None if the host passes none of this name."""
        if name in self.by_name:
            buffer = self.by_name[name]
            const = "const " * (buffer.role == "in")
            return Parameter(f"{const}{buffer.element.c_name} *", name, POINTER_SIZE, "pointer", name)
        for one in self.maps:
            if name == one.name:
                return Parameter("const __grid_constant__ CUtensorMap", name, TENSOR_MAP_SIZE, "tensor_map", one.buffer)
        if name in SCALARS:
            return Parameter(self.accumulate.c_name, name, self.accumulate.size, "scalar", name)
        if name in (*SIZES, *dict(self.sizes)):
            return Parameter("int", name, INT_SIZE, "size", name)
        for buffer in self.buffers:
            if name == leading_name(buffer.name):
                return Parameter("int", name, INT_SIZE, "leading", buffer.name)
            if name == f"stride_{buffer.name}":
                return Parameter("int", name, INT_SIZE, "stride", buffer.name)
            for channels, prefix in TEXTURES.items():
                if name == f"{prefix}_{buffer.name}":
                    return Parameter("cudaTextureObject_t", name, POINTER_SIZE, "texture", buffer.name, channels)
        return None

    def number(self, parameter: Parameter, sizes: Mapping[str, Number], layouts: Mapping[str, BufferLayout]) -> int:
        """Return the value of a size, a leading dimension or a stride (elements from a batch's matrix to the next)."""
        if parameter.kind == "size":
            return int(self.names(sizes)[parameter.source])
        layout = layouts[parameter.source]
        return layout.leading if parameter.kind == "leading" else layout.lines * layout.leading

    def check_formula(self, sizes: Mapping[str, Number]) -> None:
        """Raise ``ExpressionError`` if buffers of these sizes do not fit the formula, or its result the answer."""
        laid = self.lay_out(sizes)
        shapes = {name: (it.batch, it.rows, it.cols)[3 - it.dimensions :] for name, it in laid.items()}
        found, wanted = self.formula.shape(shapes), shapes[self.formula.target]
        if (prod(found[:-1]), found[-1:]) != (prod(wanted[:-1]), wanted[-1:]):
            of, to = (" x ".join(map(str, shape)) or "one number" for shape in (found, wanted))
            raise ExpressionError(f"{self.formula.text} gives {of}, but {self.formula.target} is {to}")

    def check_maps(self, sizes: Mapping[str, Number]) -> None:
        """Raise ``ExpressionError`` for a tensor map that no GPU supports at these sizes."""
        if self.maps:
            layouts = self.lay_out(sizes)
            try:
                for one in self.maps:
                    one.check(layouts[one.buffer], self.names(sizes))
            except ValueError as error:
                raise ExpressionError(str(error)) from None

    def tensor_map(self, name: str, array: Array, layout: BufferLayout, sizes: Mapping[str, Number]) -> TensorMap:
        """Return the tensor map of this name over its buffer. Raise ``ExpressionError`` for one no GPU supports."""
        found = next(one for one in self.maps if one.name == name)
        tensor_map = found.over(layout, array, self.names(sizes))
        try:
            tensor_map.check()
        except ValueError as error:
            raise ExpressionError(str(error)) from None
        return tensor_map

    def asks_the_same(self, other: DataSpec, sizes: Mapping[str, Number]) -> bool:
        """Tell whether kernels for both read equal inputs and compute the same answer. Scratch buffers may differ."""

        def task(data: DataSpec) -> tuple[Any, ...]:
            layouts = data.lay_out(sizes, gap=0).values()
            return data.formula, data.accumulate, [layout for layout in layouts if layout.role != "scratch"]

        return self.formula == other.formula and task(self) == task(other)  # of another, no shape may fit both

    def lost_by_promotion(self, sizes: Mapping[str, Number], k: int | None = None) -> float:
        """Return the largest error of sums that are promoted, relative to the sum of the magnitudes of their products;
        0 where none are. ``k``: products in a sum, where a kernel does not promote as often as it should."""
        if self.promote is None or not self.accumulate.is_float:
            return 0.0
        return lost(k or self.promote.whole(self.names(sizes), at_least=1))

    def operations(self, sizes: Mapping[str, Number]) -> int:
        """Count the multiplications and additions of the answer: two for each product of elements. A formula without a
        matrix product counts every operation on each element."""
        product, laid = self._scaled_product, self.lay_out(sizes)
        if product is None and not self.formula.has_products:
            return self.formula.operations({name: (it.rows, it.cols) for name, it in laid.items()})
        if product is None:
            return 2 * int(prod(sizes[name] for name in SIZES))
        left, target = laid[product.left], laid[self.formula.target]
        depth = left.rows if product.left_transposed else left.cols
        return 2 * target.batch * target.rows * target.cols * depth

    def bytes(self, sizes: Mapping[str, Number]) -> int:
        """Return the least bytes of off-chip traffic: each input once, the answer once."""
        return sum(
            layout.moved * (layout.is_read + (layout.role in ("out", "inout")))
            for layout in self.lay_out(sizes).values()
            if layout.role != "scratch"
        )


def leading_name(buffer: str) -> str:
    """Return the parameter name of a buffer's leading dimension: ``lda`` for A."""
    return f"ld{buffer.lower()}"


def prototype(entry: str, parameters: Sequence[Parameter]) -> str:
    """Return a kernel's declaration for display: ``extern "C" __global__ void gemm(const float *A, ...)``."""
    return f'extern "C" __global__ void {entry}({", ".join(map(str, parameters))})'
