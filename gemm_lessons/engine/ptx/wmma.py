"""``wmma``: loads, stores and products of whole matrices by a warp, rewritten as plain loads and stores and as ``mma``.

The layout of such a matrix in registers depends on the GPU. Here it is that of an H200 (checks/readings/simulator):
consecutive fragments of ``mma``. For m8n32k16 the transposed product is computed. A fragment of float16 that does not
fill eight registers is held two or more times.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence, Set

import numpy as np

from gemm_lessons.engine.ptx.cfg import WARP, unsupported
from gemm_lessons.engine.ptx.fragments import GROUP, Fragment, Part, fragment_of
from gemm_lessons.engine.ptx.records import (
    Address,
    Immediate,
    Instruction,
    Kernel,
    Operand,
    Register,
    Vector,
    elements_of,
)
from gemm_lessons.engine.ptx.rewrite import Writer, rewritten
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.semantics.matrix_products import STORED

SHAPES = {
    "f16": "m16n16k16 m32n8k16 m8n32k16", "bf16": "m16n16k16 m32n8k16 m8n32k16", "tf32": "m16n16k8", "f64": "m8n8k4",
    "s8": "m16n16k16 m32n8k16 m8n32k16", "u8": "m16n16k16 m32n8k16 m8n32k16",
}  # fmt: skip
SUMS = {"f32": "m16n16k16 m32n8k16 m8n32k16 m16n16k8", "f16": SHAPES["f16"], "s32": SHAPES["s8"], "f64": "m8n8k4"}
HALF_REGISTERS = 8  # registers of a or b in float16
SPACES = ("global", "shared", "shared__cta")
Placed = tuple[Fragment, int, int]  # a fragment, and the row and column of its first element


def expand_wmma(kernel: Kernel) -> Kernel:
    """Return the kernel without ``wmma``. Raise ``UnsupportedKernel`` for unknown forms."""
    if not any(instruction.opcode == "wmma" for instruction in kernel.instructions):
        return kernel
    registers: dict[str, str] = {}
    # Products read each element once, so only other instructions can read the second copy of a float16 fragment.
    others = (i for i in kernel.instructions if i.opcode != "wmma")
    wanted = frozenset().union(*(mentioned for i in others for mentioned in i.mentioned))

    def parts(instruction: Instruction) -> Sequence[Instruction]:
        if instruction.opcode != "wmma":
            return (instruction,)
        writer = _Writer(kernel.registers, registers, instruction, wanted)
        _expand(writer, instruction)
        return writer.instructions

    expanded = rewritten(kernel, parts)
    return dataclasses.replace(expanded, registers={**kernel.registers, **registers}, by_warps=True)


class _Writer(Writer):
    """Emits what replaces ``wmma``. ``declared``: the kernel's registers; ``wanted``: those that others mention."""

    def __init__(
        self, declared: Mapping[str, str], registers: dict[str, str], origin: Instruction, wanted: Set[str]
    ) -> None:
        super().__init__(registers, origin)
        self.declared, self.wanted = declared, wanted


@dataclass(frozen=True)
class _Shape:
    """m, n, k, and the split into products of ``mma``: ``wide`` pieces of 16 (f64: 8) by ``narrow`` pieces of 8."""

    m: int
    n: int
    k: int
    transposed: bool  # whether the transposed product is computed
    wide: int
    narrow: int
    rows: int  # rows of a wide piece

    @classmethod
    def of(cls, name: str) -> _Shape:
        m, n, k = (int(size) for size in re.findall(r"\d+", name))
        transposed = m == 8 and n > 8
        wide, narrow = (n, m) if transposed else (m, n)
        rows = min(16, wide)
        return cls(m, n, k, transposed, wide // rows, narrow // 8, rows)

    def fragments(self, part: str, kind: str) -> list[Placed]:
        """Return the fragments of a, b or c of the computed product, with the row and column of each."""
        bits = 8 * np.dtype(STORED[kind]).itemsize

        def piece(part: Part, rows: int, cols: int) -> Fragment:
            return fragment_of(part, rows, cols, bits)

        if part == "a":
            return [(piece("a", self.rows, self.k), self.rows * i, 0) for i in range(self.wide)]
        if part == "b":
            return [(piece("b", self.k, 8), 0, 8 * j) for j in range(self.narrow)]
        places = [(self.rows * i, 8 * j) for j in range(self.narrow) for i in range(self.wide)]
        return [(piece("c", self.rows, 8), row, col) for row, col in places]


def _expand(writer: _Writer, instruction: Instruction) -> None:
    what, *words = instruction.modifiers or ("",)
    if what in ("load", "store"):
        _move(writer, instruction, what, words)
    elif what == "mma":
        _multiply(writer, instruction, words)
    else:
        raise unsupported(instruction)


# -- loads and stores --------------------------------------------------------------------------------------------------


def _move(writer: _Writer, instruction: Instruction, what: str, words: Sequence[str]) -> None:
    """Expand ``wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {...}, [address], stride``, and stores of d."""
    part, sync, aligned, order, name, *space, kind = [*words, *[""] * (6 - len(words))]
    known = SUMS if part in ("c", "d") else SHAPES
    if (
        (sync, aligned) != ("sync", "aligned")
        or order not in ("row", "col")
        or (part not in "abc" if what == "load" else part != "d")
        or name not in known.get(kind, "").split()
        or (space and (len(space) > 1 or space[0] not in SPACES))
    ):
        raise unsupported(instruction)
    first, second, *rest = instruction.operands
    address, held = (first, second) if what == "store" else (second, first)
    shape = _Shape.of(name)
    registers = elements_of(held)
    if shape.transposed:  # a row of the matrix is a column of the one in registers
        part = {"a": "b", "b": "a"}.get(part, part)
        order = "row" if order == "col" else "col"
    pieces = shape.fragments("c" if part == "d" else part, kind)
    count = sum(piece.registers for piece, _, _ in pieces)
    copies = len(registers) // count
    if not isinstance(address, Address) or len(registers) != count * copies or not copies:
        raise unsupported(instruction)
    if copies > 1 and (kind != "f16" or part in ("c", "d") or len(registers) != HALF_REGISTERS):
        raise unsupported(instruction)
    shortest = {"a": (shape.rows * shape.wide, shape.k), "b": (shape.k, 8 * shape.narrow)}.get(
        part, (shape.rows * shape.wide, 8 * shape.narrow)
    )
    stride = rest[0] if rest else Immediate(shortest[order == "row"])
    memory = _Matrix(writer, address, stride, order, pieces, ".".join(("ld" if what == "load" else "st", *space)))
    used = iter(registers)
    for piece, row, col in pieces:
        for number in range(piece.registers):
            memory.move(next(used), piece, number, row, col)
    for copy in range(1, copies):
        for source, target in zip(registers[:count], registers[copy * count :], strict=False):
            if source is not None and isinstance(target, Register) and target.name in writer.wanted:
                writer.emit("mov.b32", target, source)


class _Matrix:
    """A matrix in memory. ``order``: elements of a "row" or "col" are adjacent, and such a row or column is a line."""

    def __init__(
        self, writer: _Writer, address: Address, stride: Operand, order: str, pieces: Sequence[Placed], opcode: str
    ) -> None:
        self.writer, self.order, self.opcode = writer, order, opcode
        self.size = pieces[0][0].bits // 8
        self.stride = stride
        rows, cols = (place[:, 0].astype(int).tolist() for place in pieces[0][0].places)
        assert len(rows) == WARP
        by_group, by_number = ((rows[at] - rows[0], cols[at] - cols[0]) for at in (GROUP, 1))
        lane = writer.computed("b32", "mov.u32", Register("%laneid"))
        group = writer.computed("b32", "shr.u32", lane, Immediate(2))
        number = writer.computed("b32", "and.b32", lane, Immediate(3))
        major, minor = (0, 1) if order == "row" else (1, 0)
        across = self._weighted(group, by_group[major], number, by_number[major])
        along = self._weighted(group, by_group[minor], number, by_number[minor])
        offset = writer.computed("b32", "mad.lo.s32", across, stride, along)
        base: Operand = address.base or Immediate(0)
        if not isinstance(base, Register):
            base = writer.computed("b64", "mov.u64", base)
        self.bits = 32 if {**writer.declared, **writer.registers}.get(base.name, "")[-2:] == "32" else 64
        self.start = self._further(offset, self.size, base)
        self.offset = address.offset
        self.lines: dict[int, tuple[Register, int]] = {0: (self.start, 0)}

    def _weighted(self, group: Register, of_group: int, number: Register, of_number: int) -> Operand:
        writer = self.writer
        scaled = writer.computed("b32", "mul.lo.s32", group, Immediate(of_group))
        return writer.computed("b32", "mad.lo.s32", number, Immediate(of_number), scaled)

    def _line(self, number: int) -> tuple[Register, int]:
        """Return the lane's position in a line of the matrix: a register, and a constant to add to it."""
        if number not in self.lines:
            if isinstance(self.stride, Immediate):
                self.lines[number] = self.start, number * self.stride.value * self.size
            else:
                self.lines[number] = self._further(self.stride, number * self.size, self.start), 0
        return self.lines[number]

    def _further(self, count: Operand, size: int, start: Operand) -> Register:
        """Return the address ``count`` times ``size`` bytes after ``start``."""
        target = self.writer.fresh(f"b{self.bits}")
        opcode = "mad.wide.s32" if self.bits == 64 else "mad.lo.s32"
        self.writer.emit(opcode, target, count, Immediate(size), start)
        return target

    def _address(self, row: int, col: int) -> Address:
        major, minor = (row, col) if self.order == "row" else (col, row)
        base, further = self._line(major)
        return Address(base, self.offset + further + minor * self.size)

    def move(self, register: Operand | None, piece: Fragment, number: int, row: int, col: int) -> None:
        """Move one register of a piece that begins at ``row``, ``col``."""
        if register is None:
            return
        side = piece.width // piece.bits
        rows, cols = (place[0].astype(int).tolist() for place in piece.places)
        elements = range(number * side, number * side + side)
        addresses = [self._address(row + rows[e], col + cols[e]) for e in elements]
        together = all(
            one.base == addresses[0].base and one.offset == addresses[0].offset + i * self.size
            for i, one in enumerate(addresses)
        )
        if together:
            self._plain(f"b{piece.width}", register, addresses[0])
        elif self.opcode.startswith("ld"):
            self._collect(register, piece.bits, addresses)
        else:
            self._scatter(register, piece.bits, addresses)

    def _plain(self, kind: str, register: Operand, address: Address) -> None:
        operands = (register, address) if self.opcode.startswith("ld") else (address, register)
        self.writer.emit(f"{self.opcode}.{kind}", *operands)

    def _collect(self, register: Operand, bits: int, addresses: Sequence[Address]) -> None:
        writer = self.writer
        parts = [writer.fresh("b16" if bits == 16 else "b32") for _ in addresses]
        for part, address in zip(parts, addresses, strict=True):
            writer.emit(f"{self.opcode}.{'b16' if bits == 16 else 'u8'}", part, address)
        if bits == 16:
            writer.emit("mov.b32", register, Vector(tuple(parts)))
            return
        whole = parts[0]
        for position, part in enumerate(parts[1:], 1):
            place = Immediate(8 * position), Immediate(8)
            whole = writer.computed("b32", "bfi.b32", part, whole, *place)
        writer.emit("mov.b32", register, whole)

    def _scatter(self, register: Operand, bits: int, addresses: Sequence[Address]) -> None:
        assert bits == 16, "only sums of float16 share a register"
        parts = tuple(self.writer.fresh("b16") for _ in addresses)
        self.writer.emit("mov.b32", Vector(parts), register)
        for part, address in zip(parts, addresses, strict=True):
            self.writer.emit(f"{self.opcode}.b16", address, part)


# -- products ----------------------------------------------------------------------------------------------------------


def fragments_of_product(instruction: Instruction) -> Iterator[tuple[Part, str, Sequence[Placed], bool]]:
    """Return how a warp holds a, b and c of a ``wmma.mma``: element type, fragments with the row and column of each,
    and whether they hold the transposed matrix. Raise ``UnsupportedKernel``."""
    shape, types = _form_of_product(instruction, instruction.modifiers[1:])
    parts: tuple[Part, ...] = ("b", "a", "c") if shape.transposed else ("a", "b", "c")
    names: tuple[Part, ...] = ("a", "b", "c")
    for name, part, kind in zip(names, parts, (*types[1:3], types[0]), strict=True):
        yield name, kind, shape.fragments(part, kind), shape.transposed


def _form_of_product(instruction: Instruction, words: Sequence[str]) -> tuple[_Shape, Sequence[str]]:
    """Return the shape and the types of d, a, b and c of ``wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32`` (of
    float16), ``....s32.s8.s8.s32``."""
    words = [word for word in words if word not in ("satfinite", "rn")]
    sync, aligned, first, second, name, *types = [*words, *[""] * (5 - len(words))]
    if len(types) == 2:
        types = [types[0], "f16", "f16", types[1]]
    orders = {first, second} <= {"row", "col"} and (sync, aligned) == ("sync", "aligned")
    if not orders or len(types) != 4 or types[0] != types[3] or name not in SHAPES.get(types[1], "").split():
        raise unsupported(instruction)
    return _Shape.of(name), types


def _multiply(writer: _Writer, instruction: Instruction, words: Sequence[str]) -> None:
    """Expand a ``wmma.mma`` to products of ``mma``."""
    shape, types = _form_of_product(instruction, words)
    saturate = "satfinite" in words
    d, a, b, c = (elements_of(o) for o in instruction.operands)
    kinds = types[1:3]
    if shape.transposed:
        a, b, kinds = b, a, kinds[::-1]
    pieces = [
        [fragment for fragment, _, _ in shape.fragments(part, kind)] for part, kind in zip("ab", kinds, strict=True)
    ]
    sums = [fragment for fragment, _, _ in shape.fragments("c", types[0])]
    try:
        left, right, before, after = (
            list(_cut(*pair)) for pair in ((a, pieces[0]), (b, pieces[1]), (c, sums), (d, sums))
        )
    except ValueError:
        raise unsupported(instruction) from None
    names = f"m{shape.rows}n8k{shape.k}", "row.col", *["satfinite"] * saturate, types[0], *kinds, types[3]
    opcode = ".".join(("mma.sync.aligned", *names))
    for number, (target, source) in enumerate(zip(after, before, strict=True)):
        column, row = divmod(number, shape.wide)
        writer.emit(opcode, target, left[row], right[column], source)


def _cut(registers: Sequence[Operand | None], pieces: Sequence[Fragment]) -> Iterator[Vector]:
    """Split registers by piece. Raise ``ValueError`` if there are too few."""
    start = 0
    for piece in pieces:
        part = tuple(registers[start : start + piece.registers])
        if len(part) < piece.registers:
            raise ValueError
        yield Vector(part)
        start += piece.registers
