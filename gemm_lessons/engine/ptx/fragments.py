"""The fragments of ``mma``: which lane of a warp holds which element of a matrix.

Lane t belongs to group g = t / 4 and is number q = t % 4 in it. g selects rows of a and c and columns of b; q selects k
and columns of c, with as many adjacent elements as one register holds (of c two). Further registers hold the elements
8 rows further on, and then those of the next part of k. Source: NVIDIA, "PTX ISA" 9.0, 9.7.14.5, and the answers of an
H200 (checks/readings/simulator/record_fragments.py).
"""

from __future__ import annotations

import re
from functools import cache, cached_property
from typing import Literal

import numpy as np

from gemm_lessons.engine.ptx.cfg import WARP
from gemm_lessons.engine.ptx.records import Instruction
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.semantics.matrix_products import STORED, supported

Part = Literal["a", "b", "c", "d"]

GROUP = 4  # lanes per group
ROWS = 8  # one per group
# Shapes that PTX supports, by the type of a.
SHAPES = {
    "f64": "m8n8k4 m16n8k4 m16n8k8 m16n8k16", "tf32": "m16n8k4 m16n8k8", "f16": "m16n8k8 m16n8k16",
    "bf16": "m16n8k8 m16n8k16", "s8": "m8n8k16 m16n8k16 m16n8k32", "u8": "m8n8k16 m16n8k16 m16n8k32",
    "e4m3": "m16n8k16 m16n8k32", "e5m2": "m16n8k16 m16n8k32",
}  # fmt: skip


@dataclass(frozen=True)
class Fragment:
    """How a warp holds a matrix of ``rows`` x ``cols`` elements of ``bits`` bits, in registers of ``width`` bits."""

    part: Part
    rows: int
    cols: int
    bits: int
    width: int

    @property
    def elements(self) -> int:
        """Return the number of elements per lane."""
        return self.rows * self.cols // WARP

    @property
    def registers(self) -> int:
        """Return the number of registers per lane."""
        return self.elements * self.bits // self.width

    @cached_property
    def places(self) -> tuple[Array, Array]:
        """Return the row and column of each element that a lane holds: (lane, element)."""
        lane, element = np.arange(WARP)[:, None], np.arange(self.elements)[None]
        group, number = lane // GROUP, lane % GROUP
        if self.part in ("c", "d"):  # two adjacent columns, then eight rows further on, then the next eight columns
            halves = self.rows // ROWS
            return group + ROWS * (element // 2 % halves), 8 * (element // 2 // halves) + 2 * number + element % 2
        side = self.width // self.bits  # elements of k in one register
        register = element // side
        along = side * number + element % side
        if self.part == "b":
            return along + GROUP * side * register, group + 0 * element
        halves = self.rows // ROWS
        return group + ROWS * (register % halves), along + GROUP * side * (register // halves)

    @cached_property
    def _gathered(self) -> Array:
        """Return the index of each matrix element among a warp's elements, by register and lane."""
        side = self.width // self.bits
        lane, element = np.arange(WARP)[:, None], np.arange(self.elements)[None]
        index = np.zeros((self.rows, self.cols), np.int64)
        index[self.places] = (element // side * WARP + lane) * side + element % side
        return index

    def matrix(self, registers: Array, dtype: str) -> Array:
        """Convert registers (warps, register, lane) to a matrix (warps, rows, cols)."""
        elements: Array = registers.view(dtype).reshape(len(registers), -1)
        return elements.take(self._gathered, axis=1)

    @cached_property
    def _scattered(self) -> Array:
        """Return the index in the matrix of each of a warp's elements, register by register and lane by lane."""
        rows, cols = self.places
        flat = rows * self.cols + cols
        return np.ascontiguousarray(flat.reshape(WARP, self.registers, -1).swapaxes(0, 1).reshape(-1))

    def spread(self, matrix: Array) -> Array:
        """Convert a matrix to registers (warps, register, lane), as raw bits."""
        held = matrix.reshape(len(matrix), -1).take(self._scattered, axis=1)
        return held.view(f"u{self.width // 8}").reshape(len(matrix), self.registers, WARP)


@cache
def fragment_of(part: Part, rows: int, cols: int, bits: int) -> Fragment:
    """Return the fragment of a kind. Memoised, because a kernel may have hundreds of products."""
    return Fragment(part, rows, cols, bits, max(32, bits))


@dataclass(frozen=True)
class ProductForm:
    """The parts of ``mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32``."""

    a: Fragment
    b: Fragment
    c: Fragment
    types: tuple[str, str, str]  # types of c and d, of a, of b
    saturate: bool


def product_form(instruction: Instruction) -> ProductForm | None:
    """Return the form of an ``mma``, or None if it is unknown."""
    words = list(instruction.modifiers)
    saturate = "satfinite" in words
    if saturate:
        words.remove("satfinite")
    if len(words) != 9 or words[:2] != ["sync", "aligned"] or words[3:5] != ["row", "col"]:
        return None
    shape, (d, a, b, c) = words[2], words[5:]
    found = re.fullmatch(r"m(\d+)n(\d+)k(\d+)", shape)
    if found is None or not supported(d, a, b, c) or shape not in SHAPES[a].split() or (saturate and d != "s32"):
        return None
    m, n, k = map(int, found.groups())

    def fragment(part: Part, kind: str, rows: int, cols: int) -> Fragment:
        bits = 8 * np.dtype(STORED[kind]).itemsize
        return fragment_of(part, rows, cols, bits)

    return ProductForm(fragment("a", a, m, k), fragment("b", b, k, n), fragment("c", c, m, n), (d, a, b), saturate)
