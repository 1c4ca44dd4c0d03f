"""A problem on the GPU at the timed size: its buffers between guard zones, and their state before each timed launch.

Before every timed launch, one secret row of the left factor is replaced by another (so no earlier answer is right), the
answer is poisoned, and L2 is flushed by overwriting a buffer larger than it. Numbers are from 0.5 to 1, because values
determine power and so clocks; the checks use other exponents. This module runs in the process that owns the context.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from gemm_lessons.devices.gpu.functions import address, by_value, linear_texture, tensor_map
from gemm_lessons.devices.gpu.memory import DeviceMemory
from gemm_lessons.engine.records import ELEMENTS, Element
from gemm_lessons.gemm import DEFAULTS, GUARD_BYTE, GUARD_BYTES, BufferLayout, DataSpec, Formula, Product, Shape, Value

Array = np.ndarray[Any, Any]

BLOCK = 1_000_003  # random numbers drawn; larger matrices repeat them (a prime, so that no two rows are alike)
MOST = 200  # timed launches of one kernel, at most


def described(data: DataSpec, shape: Shape, seed: int, flush: int) -> dict[str, Any]:
    """Describe a problem as a message to the GPU's process: lines without gaps, no scratch (a kernel's own)."""
    return {
        "layouts": [row for row in _rows(data, shape) if row["role"] != "scratch"],
        "accumulate": data.accumulate.name,
        "formula": data.formula.text,
        "shape": [shape.m, shape.n, shape.k],
        "seed": seed,
        "flush": flush,
        "operations": data.operations(shape.names),
        "gemm_ex": data.gemm_ex,
        "lost": data.lost_by_promotion(shape.names),
    }


def scratch_of(data: DataSpec, shape: Shape) -> list[dict[str, Any]]:
    """Describe the buffers that a kernel needs beside the problem's, as a message."""
    return [row for row in _rows(data, shape) if row["role"] == "scratch"]


def _rows(data: DataSpec, shape: Shape) -> list[dict[str, Any]]:
    layouts = data.lay_out(shape.names, gap=0).values()
    return [{**asdict(layout), "element": layout.element.name} for layout in layouts]


def _layout(row: Mapping[str, Any]) -> BufferLayout:
    return BufferLayout(**{**row, "element": ELEMENTS[row["element"]]})


def passed(data: DataSpec, shape: Shape, parameters: Sequence[str]) -> list[dict[str, Any]]:
    """Describe a launch's arguments as a message: a buffer by name, or bytes. Scalars are neutral: alpha 1, beta 0."""
    layouts = data.lay_out(shape.names, gap=0)
    found: list[dict[str, Any]] = []
    for name in parameters:
        parameter = data.parameter(name)
        assert parameter is not None
        if parameter.kind == "texture":
            found.append({"texture": parameter.source, "channels": str(parameter.channels)})
        elif parameter.kind == "tensor_map":
            layout = layouts[parameter.source]
            given = data.tensor_map(name, layout.element.untouched(layout.shape), layout, shape.names)
            found.append({"tensor_map": parameter.source, "about": given.described})
        elif parameter.kind == "pointer":
            found.append({"buffer": parameter.source})
        elif parameter.kind == "scalar":
            found.append({"raw": data.accumulate.encode(np.array([DEFAULTS[name]])).tobytes().hex()})
        else:
            found.append({"raw": np.int32(data.number(parameter, shape.names, layouts)).tobytes().hex()})
    return found


@dataclass(frozen=True)
class Multiplied:
    """What cuBLAS multiplies: layouts, their addresses by name, and the type of its sums."""

    left: BufferLayout
    right: BufferLayout
    target: BufferLayout
    product: Product
    buffers: Mapping[str, int]
    accumulate: Element


class Arena:
    """The buffers of one problem, a pristine copy of the left factor, and scratch for flush and audit.

    ``as_stored``: cuBLAS's gemmEx multiplies the factors as they are stored, and is timed beside the kernels. It does
    not take 8-bit floats or factors with scales: then it multiplies floating-point copies, as a reference that is not
    timed.
    """

    def __init__(self, memory: DeviceMemory, problem: Mapping[str, Any]) -> None:
        self.memory, self.flush_bytes = memory, int(problem["flush"])
        self.shape, self.operations = Shape(*problem["shape"]), int(problem["operations"])
        self.accumulate: Element = ELEMENTS[problem["accumulate"]]
        self.formula = Formula(problem["formula"])
        self.layouts = {layout.name: layout for layout in map(_layout, problem["layouts"])}
        assert self.formula.scaled_product is not None, "refused before"
        self.product: Product = self.formula.scaled_product
        self.as_stored, self.lost = bool(problem["gemm_ex"]), float(problem["lost"])
        self.left, self.right = self.layouts[self.product.left], self.layouts[self.product.right]
        self.target = self.layouts[self.formula.target]
        if self.target.role == "inout":  # beta is 0, but C must at least not be a NaN
            self.target = replace(self.target, fill="zeros")
        self.random = np.random.default_rng([problem["seed"], *problem["shape"]])
        self.host = {layout.name: self._drawn(layout) for layout in self.layouts.values() if layout.role == "in"}
        self.rows = self.target.batch * self.target.rows  # of the answer, with a batch stacked
        self.cols = self.target.cols
        self.depth = self.left.rows if self.product.left_transposed else self.left.cols
        sizes = [layout.nbytes for layout in self.layouts.values()]
        audit = MOST * self.target.cols * self.target.element.size
        copies = [] if self.as_stored else [layout.nbytes for layout in self._copied()]
        memory.expect(
            [*sizes, *copies, self.left.nbytes, self.flush_bytes, 4 * audit],
            f"{_listed(self.layouts)} of {self.shape} with what timing needs beside them",
        )
        self.buffers = {name: self._guarded(layout.nbytes) for name, layout in self.layouts.items()}
        for name, array in self.host.items():
            memory.write(self.buffers[name], array)
        self.pristine = memory.allocate(self.left.nbytes)
        memory.copy(self.pristine, self.buffers[self.left.name], self.left.nbytes)
        self._answer = np.empty(self.target.shape, self.target.element.storage)
        self.flushed = memory.allocate(self.flush_bytes)
        self._textures: list[Any] = []  # kept alive while kernels read through them
        self._poisoned = [(self.buffers[self.target.name], self.target)]
        self.multiplied = self._multiplied()

    def _copied(self) -> list[BufferLayout]:
        """Return the layouts of both factors and their product, row-major, in floating point."""
        kind = ELEMENTS["float64" if self.accumulate.name == "float64" else "float32"]
        sizes = ((self.rows, self.depth), (self.depth, self.cols), (self.rows, self.cols))
        return [
            replace(it, element=kind, rows=rows, cols=cols, leading=cols, order="row")
            for it, (rows, cols) in zip((self.left, self.right, self.target), sizes, strict=True)
        ]

    def _multiplied(self) -> Multiplied:
        if self.as_stored:
            return Multiplied(self.left, self.right, self.target, self.product, self.buffers, self.accumulate)
        layouts = self._copied()
        buffers = {layout.name: self.memory.allocate(layout.nbytes) for layout in layouts}
        for layout, factor in zip(layouts, self.factors(), strict=False):
            self.memory.write(buffers[layout.name], np.ascontiguousarray(factor, layout.element.storage))
        product = replace(self.product, left_transposed=False, right_transposed=False)
        left, right, target = layouts
        return Multiplied(left, right, target, product, buffers, target.element)

    def values(self) -> dict[str, Value]:
        """Return the inputs in float64: rows by columns."""
        layouts = (layout for layout in self.layouts.values() if layout.role == "in")
        return {it.name: Value.exact(it.element.decode(it.matrix(self.host[it.name]))) for it in layouts}

    def factors(self) -> tuple[Array, Array]:
        """Return the factors of the product as floats: rows by depth and depth by columns, of each batch."""
        if not self.as_stored:
            return self.formula.factors(self.values())
        left, right = (floats(it.matrix(self.host[it.name]), it.element) for it in (self.left, self.right))
        left = left.swapaxes(-1, -2) if self.product.left_transposed else left
        return left, right.swapaxes(-1, -2) if self.product.right_transposed else right

    def _drawn(self, layout: BufferLayout) -> Array:
        count = int(np.prod(layout.shape))
        if layout.fill != "random":
            return layout.element.encode(np.full(layout.shape, float(layout.fill == "ones")))
        return np.resize(layout.element.draw(self.random, (min(count, BLOCK),)), layout.shape)

    def _guarded(self, size: int) -> int:
        pointer = self.memory.allocate(size + 2 * GUARD_BYTES)
        self.memory.fill(pointer, GUARD_BYTE, size + 2 * GUARD_BYTES)
        return pointer + GUARD_BYTES

    def overran(self) -> str:
        """Return the name of a buffer whose guard zone was overwritten, and repair the zone; else an empty string."""
        for name, layout in self.layouts.items():
            for zone in (self.buffers[name] - GUARD_BYTES, self.buffers[name] + layout.nbytes):
                if np.any(self.memory.read(zone, np.empty(GUARD_BYTES, np.uint8)) != GUARD_BYTE):
                    self.memory.fill(zone, GUARD_BYTE, GUARD_BYTES)
                    return name
        return ""

    def scratch(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
        """Return the addresses of one kernel's own buffers, which are poisoned before each of its turns."""
        layouts = [_layout(row) for row in rows]
        self.memory.expect([layout.nbytes for layout in layouts], "what a kernel needs beside its arguments")
        own = {layout.name: self.memory.allocate(layout.nbytes) for layout in layouts}
        self._poisoned += [(own[layout.name], layout) for layout in layouts]
        return own

    def arguments(self, passed: Sequence[Mapping[str, Any]], own: Mapping[str, int]) -> list[Array]:
        """Return a kernel's arguments in order, by value; ``own`` are the addresses of its scratch."""
        at = {**self.buffers, **own}
        found = []
        for it in passed:
            if "texture" in it:
                layout = self.layouts[it["texture"]]
                about = (layout.nbytes, layout.element.storage, int(it["channels"]))
                self._textures.append(linear_texture(at[layout.name], *about))
                found.append(by_value(address(self._textures[-1].ptr)))
            elif "tensor_map" in it:
                found.append(tensor_map(at[it["tensor_map"]], it["about"]))
            else:
                found.append(by_value(address(at[it["buffer"]]) if "buffer" in it else bytes.fromhex(it["raw"])))
        return found

    def poison(self) -> None:
        """Poison the buffers that kernels write, so that no old answer remains; buffers of zeros are cleared."""
        for pointer, layout in self._poisoned:
            self.memory.fill(pointer, 0x00 if layout.fill == "zeros" else 0xFF, layout.nbytes)

    def refresh(self) -> tuple[int, int]:
        """Replace a secret row of the left factor, poison, flush L2. Return (the row, the row that its answer now
        equals). A row that has scales of its own stays as it is."""
        first = int(self.random.integers(self.target.batch)) * self.target.rows
        row, other = (first + int(number) for number in self.random.integers(self.target.rows, size=2))
        other = other if self.as_stored else row
        self._copy_row(self.buffers[self.left.name], row, self.pristine, other)
        self.poison()
        self.memory.fill(self.flushed, 0, self.flush_bytes)
        return row, other

    def restore(self, row: int) -> None:
        """Restore the pristine row of the left factor."""
        self._copy_row(self.buffers[self.left.name], row, self.pristine, row)

    def _copy_row(self, target: int, row: int, source: int, other: int) -> None:
        across = (self.left.order == "column") != self.product.left_transposed
        to, step = _row_of(self.left, row, self.target.rows, across)
        since, _ = _row_of(self.left, other, self.target.rows, across)
        size = self.left.element.size
        if across:
            self.memory.copy_lines(target + to, step, source + since, step, size, self.depth)
        else:
            self.memory.copy(target + to, source + since, self.depth * size)

    def set_aside(self, row: int, target: int) -> None:
        """Copy a row of the answer to an address, in stream order."""
        layout, size = self.target, self.target.element.size
        start, step = _row_of(layout, row, layout.rows, layout.order == "column")
        source = self.buffers[layout.name] + start
        if layout.order == "column":
            self.memory.copy_lines(target, size, source, step, size, layout.cols)
        else:
            self.memory.copy(target, source, layout.cols * size)

    def reference(self) -> Array:
        """Return cuBLAS's product, (rows, columns) as stored, a batch stacked."""
        layout = self.multiplied.target
        stored = self.memory.read(self.multiplied.buffers[layout.name], np.empty(layout.shape, layout.element.storage))
        return layout.matrix(stored).reshape(-1, self.cols)

    def answer(self) -> Array:
        """Return the answer, (rows, columns) as stored, a batch stacked. Each call reuses the same host memory."""
        stored = self.memory.read(self.buffers[self.target.name], self._answer)
        matrix = self.target.matrix(stored)
        return matrix.reshape(-1, self.cols)


def floats(stored: Array, kind: Element) -> Array:
    """Return an array as floats; no copy is made of an array of floats."""
    return stored if stored.dtype in (np.float32, np.float64) else kind.decode(stored)


def _listed(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}"


def _row_of(layout: BufferLayout, row: int, rows: int, across: bool) -> tuple[int, int]:
    """Return where row ``row`` of a stack of matrices begins, and the distance of its elements, both in bytes."""
    batch, line = divmod(row, rows)
    size = layout.element.size
    start = batch * layout.lines * layout.leading * size
    return start + line * (size if across else layout.leading * size), layout.leading * size
