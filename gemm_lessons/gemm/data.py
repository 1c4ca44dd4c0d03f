"""What a lesson's kernels work on: buffers by name, numbers, and the formula of the answer. The one description of it.

    DataSpec  --lay_out(shape)-->  BufferLayout by name: types and sizes, as they lie in memory
              --parameter(name)--> Parameter: what the host passes under that name, and how C declares it

The problem draws inputs from it, devices pass its arguments, the estimate takes its bytes and operations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, Literal

from gemm_lessons.engine.arguments.expression import Expression, ExpressionError, Number
from gemm_lessons.engine.records.elements import ELEMENTS, Element
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.launch import TENSOR_MAP_SIZE
from gemm_lessons.gemm.formula import Formula

if TYPE_CHECKING:
    import numpy as np

    from gemm_lessons.engine.records.launch import TensorMap

    Array = np.ndarray[Any, Any]

Order = Literal["row", "column"]
Role = Literal["in", "out", "inout", "scratch"]
Fill = Literal["random", "poison", "zeros", "ones"]

SCALARS = ("alpha", "beta")
DRAWN = "drawn"  # a random number, where a lesson says what a scalar is
SIZES = ("M", "N", "K")
HELD = ("pointer", "texture", "tensor_map")  # kinds of parameters that give a kernel a buffer
TEXTURES = {1: "tex", 2: "tex2", 4: "tex4"}  # channels -> what stands before the buffer's name
LAYOUTS = ("NN", "NT", "TN", "TT")  # of A and B: T lies in memory as its transpose
GAP = 4  # elements at least between rows where a leading dimension is passed; keeps rows of 4 aligned for float4
INT_SIZE = 4
POINTER_SIZE = 8


@dataclass(frozen=True)
class BufferSpec:
    """One array in global memory. ``shape``: (columns), (rows, columns) or (batch, rows, columns), over M N K and tile
    names. ``order``: which elements lie side by side, those of a row or of a column. ``fill``: what it holds before."""

    name: str
    element: Element
    shape: tuple[Expression, ...]
    order: Order = "row"
    role: Role = "in"
    fill: Fill = "random"
    range: tuple[float, float] | None = None  # of random numbers; None: 0.5 to 1, of either sign


@dataclass(frozen=True)
class BufferLayout:
    """A buffer at given sizes: ``batch`` matrices of ``rows`` x ``cols``, ``leading`` elements from one line to the
    next. ``dimensions`` of its shape as declared: 1, 2 or 3."""

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
        """Rows of a row-major matrix, columns of a column-major one."""
        return self.rows if self.order == "row" else self.cols

    @property
    def length(self) -> int:
        """Elements in a line, without what lies between lines."""
        return self.cols if self.order == "row" else self.rows

    @property
    def shape(self) -> tuple[int, ...]:
        """As stored: (batch, lines, leading), without the dimensions that were not declared."""
        return (self.batch, self.lines, self.leading)[3 - self.dimensions :]

    @property
    def is_read(self) -> bool:
        """Whether kernels may read what it holds before the first launch."""
        return self.role in ("in", "inout") and self.fill != "poison"

    @property
    def nbytes(self) -> int:
        """Bytes in memory, the gaps between lines too."""
        return self.batch * self.lines * self.leading * self.element.size

    @property
    def moved(self) -> int:
        """Bytes that a kernel moves that touches each element once."""
        return self.batch * self.rows * self.cols * self.element.size

    def inside(self, stored: Array) -> Array:
        """Its lines without their gaps, as stored."""
        return stored[..., : self.length]

    def matrix(self, stored: Array) -> Array:
        """Rows by columns as in the formula, whatever the order in memory; still as stored."""
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
        """The map of the buffer's elements, as they lie in memory. Raises ``ExpressionError``."""
        from gemm_lessons.engine.records.launch import TensorMap

        try:
            box = [extent.whole(names, at_least=1) for extent in self.box]
        except ExpressionError as error:
            raise ExpressionError(f"the box of {self.name}: {error}") from None
        if layout.order == "column" and len(box) > 1:
            box[-1], box[-2] = box[-2], box[-1]
        name = layout.element.name.replace("tf32", "float32")  # copied as they lie in memory, not rounded
        return TensorMap(layout.inside(array), tuple(box), self.swizzle, name, self.name)


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel: what C calls its type, its name, bytes, and where its value comes from.

    ``source``: the buffer of a pointer, or of the leading dimension, stride, texture or tensor map; a size's or a
    scalar's own name. ``channels``: numbers that a fetch from a texture gives.
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
    """Buffers, the type that sums are made in, the answer's formula, the tile sizes that shapes may name, and scalars
    whose value follows from M, N and K; the others are drawn."""

    buffers: tuple[BufferSpec, ...]
    accumulate: Element
    formula: Formula
    sizes: tuple[tuple[str, int], ...] = ()
    padded: frozenset[str] = frozenset()  # buffers whose lines lie apart, since a launch is told how far
    maps: tuple[TensorMapSpec, ...] = ()
    given: tuple[tuple[str, Expression], ...] = ()  # scalars

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
    ) -> DataSpec:
        """A, B, C row-major, and what else ``parameters`` name; ``buffers`` come on top of or in place of these."""
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
        return cls(tuple(known.values()), ELEMENTS[accumulate], parsed, sizes, padded, maps, given)

    @cached_property
    def by_name(self) -> Mapping[str, BufferSpec]:
        """The buffers."""
        return {buffer.name: buffer for buffer in self.buffers}

    @property
    def answer(self) -> BufferSpec:
        """The buffer that holds the answer after the last launch."""
        return self.by_name[self.formula.target]

    @property
    def factors(self) -> tuple[BufferSpec, ...]:
        """The two factors of the formula's product; all inputs where it has none, or several."""
        product = self.formula.product
        return (self.by_name[product.left], self.by_name[product.right]) if product else self.inputs

    @property
    def inputs(self) -> tuple[BufferSpec, ...]:
        """What no kernel may write."""
        return tuple(buffer for buffer in self.buffers if buffer.role == "in")

    def laid(self, layout: str) -> DataSpec:
        """The same data with A and B in this layout: T lies column by column, as a row-major transpose does."""
        orders: dict[str, Order] = {
            name: "column" if letter == "T" else "row" for name, letter in zip("AB", layout, strict=True)
        }
        turned = (replace(it, order=orders.get(it.name, it.order)) for it in self.buffers)
        return replace(self, buffers=tuple(turned))

    def scalar(self, name: str, sizes: Mapping[str, Number], draw: Callable[[], Number] = lambda: 1) -> Number:
        """The value of a scalar: what lesson.toml gives, which may name a number that is drawn, or that number itself.
        Where nobody asks for it, none is drawn."""
        found = dict(self.given).get(name)
        if found is None:
            return draw()
        return found.value({**sizes, DRAWN: draw()} if DRAWN in found.names else sizes)

    def names(self, sizes: Mapping[str, Number]) -> dict[str, Number]:
        """All names that expressions may use, at these sizes M, N, K."""
        return {**sizes, **dict(self.sizes)}

    def lay_out(
        self, sizes: Mapping[str, Number], gap: int = GAP, told: Mapping[str, Number] | None = None
    ) -> dict[str, BufferLayout]:
        """Every buffer at these sizes M, N, K; ``gap`` elements between lines where a launch is told how far apart they
        are; scalars are those of the sizes ``told``. Raises ``ExpressionError`` when a size is no whole number >= 1."""
        return {buffer.name: self._layout(buffer, sizes, gap, told or sizes) for buffer in self.buffers}

    def _layout(
        self, buffer: BufferSpec, sizes: Mapping[str, Number], gap: int, told: Mapping[str, Number]
    ) -> BufferLayout:
        names = self.names(sizes)
        try:
            extents = [extent.whole(names, at_least=1) for extent in buffer.shape]
        except ExpressionError as error:
            raise ExpressionError(f"the shape of {buffer.name}: {error}") from None
        batch, rows, cols = [1] * (3 - len(extents)) + extents
        length = cols if buffer.order == "row" else rows
        leading = length + gap * (buffer.name in self.padded)
        fill = buffer.fill
        if buffer.role == "inout" and buffer is self.answer and self.scalar("beta", told) == 0:
            fill = "poison"  # BLAS: where beta is 0, C need not be set
        how = (buffer.order, buffer.role, fill)
        return BufferLayout(
            buffer.name, buffer.element, batch, rows, cols, leading, *how,
            dimensions=len(extents), range=buffer.range,
        )  # fmt: skip

    def parameter(self, name: str) -> Parameter | None:
        """What the host passes under this name; None when it knows none."""
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
        """The value of a size, a leading dimension or a stride (elements from one matrix of a batch to the next)."""
        if parameter.kind == "size":
            return int(self.names(sizes)[parameter.source])
        layout = layouts[parameter.source]
        return layout.leading if parameter.kind == "leading" else layout.lines * layout.leading

    def check_formula(self, sizes: Mapping[str, Number]) -> None:
        """Raises ``ExpressionError`` where buffers of these sizes do not fit the formula, or its result the answer."""
        laid = self.lay_out(sizes)
        shapes = {name: (it.batch, it.rows, it.cols)[3 - it.dimensions :] for name, it in laid.items()}
        found, wanted = self.formula.shape(shapes), shapes[self.formula.target]
        if (prod(found[:-1]), found[-1:]) != (prod(wanted[:-1]), wanted[-1:]):
            of, to = (" x ".join(map(str, shape)) or "one number" for shape in (found, wanted))
            raise ExpressionError(f"{self.formula.text} gives {of}, but {self.formula.target} is {to}")

    def check_maps(self, sizes: Mapping[str, Number]) -> None:
        """Raises ``ExpressionError`` for a tensor map that no GPU has at these sizes."""
        if self.maps:
            layouts = self.lay_out(sizes)
            for one in self.maps:
                layout = layouts[one.buffer]
                self.tensor_map(one.name, layout.element.untouched(layout.shape), layout, sizes)

    def tensor_map(self, name: str, array: Array, layout: BufferLayout, sizes: Mapping[str, Number]) -> TensorMap:
        """The tensor map of this name over its buffer. Raises ``ExpressionError`` for one that no GPU has."""
        found = next(one for one in self.maps if one.name == name)
        tensor_map = found.over(layout, array, self.names(sizes))
        try:
            tensor_map.check()
        except ValueError as error:
            raise ExpressionError(str(error)) from None
        return tensor_map

    def asks_the_same(self, other: DataSpec, sizes: Mapping[str, Number]) -> bool:
        """Whether kernels for both work on the same inputs and owe the same answer; scratch is their own affair."""

        def asked(data: DataSpec) -> tuple[Any, ...]:
            layouts = data.lay_out(sizes, gap=0).values()
            return data.formula, data.accumulate, [layout for layout in layouts if layout.role != "scratch"]

        return asked(self) == asked(other)

    def operations(self, sizes: Mapping[str, Number]) -> int:
        """Multiplications and additions of the answer: two for each product of elements. Where nothing is multiplied by
        a matrix: every operation of the formula, of each element."""
        product, laid = self.formula.product, self.lay_out(sizes)
        if product is None and not self.formula.has_products:
            return self.formula.operations({name: (it.rows, it.cols) for name, it in laid.items()})
        if product is None:
            return 2 * int(prod(sizes[name] for name in SIZES))
        left, target = laid[product.left], laid[self.formula.target]
        depth = left.rows if product.left_transposed else left.cols
        return 2 * target.batch * target.rows * target.cols * depth

    def bytes(self, sizes: Mapping[str, Number]) -> int:
        """Bytes that have to cross the chip's border at least: what is given once, the answer once."""
        return sum(
            layout.moved * (layout.is_read + (layout.role in ("out", "inout")))
            for layout in self.lay_out(sizes).values()
            if layout.role != "scratch"
        )


def leading_name(buffer: str) -> str:
    """The parameter that says how far apart the lines of a buffer are: ``lda`` for A."""
    return f"ld{buffer.lower()}"


def prototype(entry: str, parameters: Sequence[Parameter]) -> str:
    """A kernel's declaration, to show: ``extern "C" __global__ void gemm(const float *A, ...)``."""
    return f'extern "C" __global__ void {entry}({", ".join(map(str, parameters))})'
