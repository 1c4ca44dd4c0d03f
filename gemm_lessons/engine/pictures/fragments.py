"""Fragments of the small matrices that tensor cores multiply: lane and register of each element.

PTX of a launch --products--> one WarpProduct for each form of mma.sync and wmma.mma, in the order of the code
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from gemm_lessons.engine.ptx import parser
from gemm_lessons.engine.ptx import records as ptx
from gemm_lessons.engine.ptx.fragments import Part, product_form
from gemm_lessons.engine.ptx.wmma import Placed, fragments_of_product
from gemm_lessons.engine.records.frozen import dataclass

NAMES: Mapping[Part, str] = {"a": "A", "b": "B", "c": "C"}  # names of the matrices in texts
PREFIX: Mapping[Part, str] = {"a": "a", "b": "b", "c": "d"}  # of registers; an accumulator is updated in place


@dataclass(frozen=True)
class Held:
    """A matrix; ``lanes``, ``registers``: one entry per element, row by row; registers are ``prefix`` and a number."""

    name: str
    prefix: str
    type: str
    rows: int
    cols: int
    lanes: tuple[int, ...]
    registers: tuple[int, ...]


@dataclass(frozen=True)
class WarpProduct:
    """An instruction, such as ``mma.sync m16n8k16``, and its matrices A, B and C."""

    text: str
    matrices: tuple[Held, ...]


def products(text: str, entry: str) -> tuple[WarpProduct, ...]:
    """Return each form of product once. Unsupported forms are omitted: the simulator refuses such a kernel."""
    found: dict[str, WarpProduct] = {}
    for instruction in parser.parse(text).kernels[entry].instructions:
        pieces = list(_pieces(instruction))
        if pieces:
            name = f"{instruction.opcode}.{instruction.modifiers[0]} {_shape(instruction)}"
            made = WarpProduct(name, tuple(_held(*piece) for piece in pieces))
            found.setdefault(f"{name} {[it.type for it in made.matrices]}", made)
    return tuple(found.values())


def _pieces(instruction: ptx.Instruction) -> Iterator[tuple[Part, str, Sequence[Placed], bool]]:
    """Yield the pieces of each matrix as ``fragments_of_product`` does; nothing for other instructions."""
    if instruction.opcode == "wmma" and instruction.modifiers[:1] == ("mma",):
        yield from fragments_of_product(instruction)
    form = product_form(instruction) if instruction.opcode == "mma" else None
    if form is not None:
        of_c, of_a, of_b = form.types
        yield "a", of_a, [(form.a, 0, 0)], False
        yield "b", of_b, [(form.b, 0, 0)], False
        yield "c", of_c, [(form.c, 0, 0)], False


def _shape(instruction: ptx.Instruction) -> str:
    return next(word for word in instruction.modifiers if word[0] == "m" and word[1:2].isdigit())


def _held(name: Part, kind: str, pieces: Sequence[Placed], transposed: bool) -> Held:
    rows = max(row + piece.rows for piece, row, _ in pieces)
    cols = max(col + piece.cols for piece, _, col in pieces)
    lanes, registers = np.zeros((rows, cols), int), np.zeros((rows, cols), int)
    before = 0
    for piece, row, col in pieces:
        at = piece.places[0] + row, piece.places[1] + col
        lanes[at] = np.arange(len(at[0]))[:, None]
        registers[at] = before + np.arange(piece.elements)[None] // (piece.width // piece.bits)
        before += piece.registers
    if transposed:
        rows, cols, lanes, registers = cols, rows, lanes.T, registers.T
    return Held(
        NAMES[name], PREFIX[name], kind, rows, cols, tuple(lanes.ravel().tolist()),
        tuple(registers.ravel().tolist()),
    )  # fmt: skip
