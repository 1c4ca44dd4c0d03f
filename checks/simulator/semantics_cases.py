"""Operands for every instruction of the semantics table: edge values first, then a fixed pseudo-random stream.

The same operands are used against the scalar reference (``semantics_reference.py``) and against a GPU
(``record_semantics.py``), so they must never change by themselves: the stream is SplitMix64, written out here.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from gemm_lessons.engine.semantics import table as semantics

LANES = 192
PRINCIPAL = 9  # the first edge values; two operands have every pair of them

# Instructions, by full name, without a stored answer of a GPU. Until ``record_semantics.py`` has run on one, only the
# scalar reference and ptxas's machine code test them; then take them off.
UNRECORDED: tuple[str, ...] = ()

Array = np.ndarray[Any, Any]

FLOAT_EDGES = {
    # exponent bits, fraction bits
    "f16": (5, 10),
    "bf16": (8, 7),
    "f32": (8, 23),
    "f64": (11, 52),
}


def stream(seed: int, count: int) -> Array:
    """``count`` uint64 of SplitMix64 (G. Steele et al., "Fast splittable pseudorandom number generators", 2014)."""
    z = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def integer_edges(bits: int) -> list[int]:
    top = 1 << (bits - 1)
    full = (1 << bits) - 1
    values = [0, 1, full, top, top - 1, 2, 5, full - 6, 0x55555555AAAA5555, 31, 32, 33, 3, 7, 15, 16, 17, 24, 63, 64]
    values += [65, 8, 100, 127, 128, 255, 256, 0x1F1F, 0x8000, 0x7FFF, 0xFFFF, 0x7FFFFF, 0x800000, 0xFFFFFF, 0x1000001]
    values += [0x7FFFFFC0, 0x80000080, 0xFFFFFFBF, 0x20000000000001, 0x7FFFFFFFFFFFFDFF, 0x8000000000000400]
    values += [full - 99, full - 127, full - 255, full - 0xFFFF, top + 1, 0x12345678, 0x76543210, 0x88888888]
    return list(dict.fromkeys(value & full for value in values))


def float_edges(code: str) -> list[int]:
    exponent, fraction = FLOAT_EDGES[code]
    bias = (1 << (exponent - 1)) - 1
    sign = 1 << (exponent + fraction)
    infinity = ((1 << exponent) - 1) << fraction
    one, quiet = bias << fraction, 1 << (fraction - 1)
    half = 1 << (fraction - 1)

    def power(n: int) -> int:
        return min(max(n + bias, 0) << fraction, infinity)

    values = [0, sign, one, infinity, infinity | quiet, 1, one | sign, infinity | sign, infinity - 1]
    values += [sign | 1, (1 << fraction) - 1, 1 << fraction, (1 << fraction) | sign, (1 << fraction) | sign | 1]
    values += [infinity - 1 | sign, infinity | 1, infinity | sign | quiet | 5, one + 1, one - 1, one - 1 | sign]
    values += [one + 2, power(-1), one | half, power(1), power(1) | quiet >> 1, power(1) | quiet >> 1 | sign]
    values += [one | half | sign]
    values += [power(-1) | sign, power(-1) - 1, power(-1) + 1, half, half | sign, half + 1, (1 << fraction) + 1]
    for n in (7, 8, 15, 16, 24, 31, 32, 53, 63, 64):
        values += [power(n), power(n) - 1, power(n) + 1, power(n) | sign, power(n) + 1 | sign]
    values += [power(-bias // 2), power(-bias // 2 - fraction), power(bias // 2) | 1, power(bias - 1) | 3]
    values += [power(-fraction), power(6) + half + 1, power(30) + half + 3, power(62) + 77 & ~sign]
    return list(dict.fromkeys(value for value in values))


def width(code: str) -> int:
    return np.dtype(semantics.DTYPES[code]).itemsize * 8


def operand(code: str, position: int, count: int, seed: int) -> Array:
    """Raw bits (unsigned) of source number ``position`` of ``count``, LANES of them."""
    random = stream(seed * 8 + position, 2 * LANES)
    choice, value = random[:LANES], random[LANES:]
    if code == "pred":
        return (choice >> np.uint64(7)) & np.uint64(1) == 1
    raw: Any = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[width(code)]
    if code in ("f16x2", "bf16x2", "u16x2", "s16x2"):
        half = {"f16x2": "f16", "bf16x2": "bf16", "u16x2": "u16", "s16x2": "s16"}[code]
        low, high = operand(half, position, count, seed), operand(half, position, count, seed + 1)
        return low.astype(np.uint32) | high.astype(np.uint32) << np.uint32(16)
    is_float = code in FLOAT_EDGES
    edges = np.array(float_edges(code) if is_float else integer_edges(width(code)), dtype=np.uint64)
    lanes = np.arange(LANES)
    if count == 1:
        picked = edges[lanes % len(edges)]
        known = lanes < len(edges)
    else:
        picked = edges[choice % np.uint64(len(edges))]
        digit = lanes // PRINCIPAL**position % PRINCIPAL if position < 2 else choice.astype(np.int64) % PRINCIPAL
        grid = lanes < PRINCIPAL * PRINCIPAL
        picked = np.where(grid, edges[digit], picked)
        # After the grid: random edges, and from lane 136 on random numbers, some of them near each other.
        known = lanes < 136
    if is_float:
        exponent, fraction = FLOAT_EDGES[code]
        bias = (1 << (exponent - 1)) - 1
        near = (value >> np.uint64(8)) & np.uint64((1 << fraction) - 1)
        near |= (np.uint64(bias - 2) + (value & np.uint64(3))) << np.uint64(fraction)
        near |= ((value >> np.uint64(63)) & np.uint64(1)) << np.uint64(exponent + fraction)
        value = np.where(lanes % 4 == 3, value, near)
    else:
        value = np.where(lanes % 2 == 1, value, value % np.uint64(70))
    mask = np.uint64((1 << width(code)) - 1) if width(code) < 64 else ~np.uint64(0)
    return (np.where(known, picked, value) & mask).astype(raw)


def operands(name: str, operation: semantics.Operation) -> list[Array]:
    """Sources of one case, as raw unsigned rows (bool for predicates), in the order of ``operation.sources``."""
    # All comparisons of a type get the same operands, so that the reference can remember its answers.
    key = name.split(".")[-1] if name.startswith("set") else name
    seed = zlib.crc32(key.encode())
    count = len(operation.sources)
    if name == "lop3.b32":
        rows = [operand(code, i, count, seed) for i, code in enumerate(operation.sources[:3])]
        return [
            *rows,
            np.asarray(np.uint32(0xE8))[()],
        ]  # the lookup table is an immediate; every value is tried elsewhere
    rows = [operand(code, i, count, seed) for i, code in enumerate(operation.sources)]
    if operation.carry_in:
        rows.append(operand("pred", 7, count, seed))
    return rows


def views(operation: semantics.Operation, rows: list[Array]) -> list[Array]:
    """The rows as arrays of the operands' types."""
    codes = [*operation.sources, *(("pred",) if operation.carry_in else ())]
    return [row.view(semantics.DTYPES[code]) for row, code in zip(rows, codes, strict=True)]


def result_dtypes(operation: semantics.Operation) -> list[Any]:
    """Types of the result arrays; 8-bit results are extended to 32-bit registers."""
    codes = [*operation.result, *(("pred",) if operation.carry_out else ())]
    wide = {"u8": np.uint32, "s8": np.int32}
    return [wide.get(code, semantics.DTYPES[code]) for code in codes]


def run(operation: semantics.Operation, sources: list[Any], lanes: int = LANES) -> list[Array]:
    """Apply the table's function to the sources: one raw unsigned row per result (bool for predicates)."""
    outs = [np.zeros(lanes, dtype) for dtype in result_dtypes(operation)]
    with semantics.float_state():
        operation.function(*outs, *sources)
    return [out if out.dtype == np.bool_ else out.view(f"u{out.dtype.itemsize}") for out in outs]


def every_case() -> list[tuple[str, int]]:
    """(full name, number of destinations) of every instruction of the table."""
    cases = []
    for name in semantics.supported():
        opcode, *modifiers = name.split(".")
        cases += [(name, n) for n in (1, 2) if semantics.lookup(opcode, tuple(modifiers), n) is not None]
    return [(name, n) for name, n in cases if n == 1 or name.startswith("setp")]


def operation_of(name: str, results: int) -> semantics.Operation:
    opcode, *modifiers = name.split(".")
    operation = semantics.lookup(opcode, tuple(modifiers), results)
    assert operation is not None, name
    return operation
