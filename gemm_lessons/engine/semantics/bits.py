"""Bitwise instructions of PTX: logic, shifts, bit fields, counting, permutation.

Source: NVIDIA, "PTX ISA" 9.0, 9.7.1 (popc to bmsk) and 9.7.8. NumPy's shifts already clamp as PTX requires: a count at
or above the width gives 0, or copies of the sign.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gemm_lessons.engine.semantics.operation import DTYPES, Array, Function, Operation, Plain, Table

U32, U64 = np.uint32, np.uint64


def _low_bits(count: Array, dtype: Any) -> Array:
    """Return ``count`` ones from bit 0 (all ones at or above the width)."""
    ones: Array = ~np.left_shift(~dtype(0), np.atleast_1d(count).astype(dtype))
    return ones


def _cnot(out: Array, a: Array) -> None:
    np.copyto(out, np.equal(a, 0), casting="unsafe")


# ---- counting ----


def _popc(out: Array, a: Array) -> None:
    np.copyto(out, np.bitwise_count(a), casting="unsafe")


def _highest(a: Array, bits: int) -> Array:
    """Return the position of the highest one (int64), -1 for zero."""
    x = np.atleast_1d(a).astype(U64)
    high, low = (x >> U64(32)).astype(np.float64), (x & U64(0xFFFFFFFF)).astype(np.float64)
    # frexp(0) has exponent 0, so zero gives -1.
    _, exponent_low = np.frexp(low)
    if bits <= 32:
        return exponent_low.astype(np.int64) - 1
    _, exponent_high = np.frexp(high)
    return np.where(high > 0, exponent_high.astype(np.int64) + 31, exponent_low.astype(np.int64) - 1)


def _clz(bits: int) -> Function:
    def function(out: Array, a: Array) -> None:
        np.copyto(out, bits - 1 - _highest(a, bits), casting="unsafe")

    return function


def _bfind(code: str, shift_amount: bool) -> Function:
    bits = int(code[1:])

    def function(out: Array, a: Array) -> None:
        if code[0] == "s":
            a = np.where(np.less(a, 0), np.invert(a), a).view(DTYPES[f"u{bits}"])
        top = _highest(a, bits)
        if shift_amount:
            top = np.where(top < 0, -1, bits - 1 - top)
        np.copyto(out, top, casting="unsafe")

    return function


def _brev(bits: int) -> Function:
    dtype = DTYPES[f"u{bits}"]
    masks = [(1, 0x5555555555555555), (2, 0x3333333333333333), (4, 0x0F0F0F0F0F0F0F0F)]
    steps = [(dtype(shift), dtype(mask & ((1 << bits) - 1))) for shift, mask in masks]

    def function(out: Array, a: Array) -> None:
        x = np.atleast_1d(a)
        for shift, mask in steps:
            x = (x >> shift & mask) | (x & mask) << shift
        np.copyto(out, x.byteswap())

    return function


# ---- bit fields ----

# Positions and lengths are 0 to 255. Of larger ones, an H200 uses the low byte at 32 bits and the whole number at 64.
USED = {32: U32(0xFF), 64: U32(0xFFFFFFFF)}


def _bfe(code: str) -> Function:
    dtype, bits = DTYPES[code], int(code[1:])
    raw = DTYPES[f"u{bits}"]
    used = USED[bits]

    def function(out: Array, a: Array, position: Array, length: Array) -> None:
        a = np.atleast_1d(a)
        start = np.bitwise_and(position, used).astype(np.int64)
        size = np.bitwise_and(length, used).astype(np.int64)
        field = np.right_shift(a.view(raw), start.astype(raw)) & _low_bits(size, raw)
        if code[0] == "s":
            last = np.clip(start + size - 1, 0, bits - 1).astype(raw)
            negative = (np.right_shift(a.view(raw), last) & raw(1)).astype(np.bool_) & np.not_equal(size, 0)
            # Bits at or above the end of the register, and above the field, repeat the sign.
            kept = np.minimum(size, np.maximum(bits - start, 0))
            field = np.where(negative, field | ~_low_bits(kept, raw), field)
        np.copyto(out, field.view(dtype))

    return function


def _bfi(bits: int) -> Function:
    dtype = DTYPES[f"u{bits}"]
    used = USED[bits]

    def function(out: Array, a: Array, b: Array, position: Array, length: Array) -> None:
        start = np.bitwise_and(position, used).astype(dtype)
        mask = np.left_shift(_low_bits(np.bitwise_and(length, used), dtype), start)
        np.copyto(out, np.left_shift(a, start) & mask | np.bitwise_and(b, ~mask))

    return function


def _szext(code: str, wrap: bool) -> Function:
    """Return a function that extends the low ``b`` bits of ``a``."""

    def function(out: Array, a: Array, b: Array) -> None:
        a = np.atleast_1d(a)
        size = np.bitwise_and(b, U32(31)) if wrap else np.minimum(b, U32(32))
        mask = _low_bits(size, U32)
        field = a.view(U32) & mask
        if code == "s32":
            sign = np.right_shift(a.view(U32), size - U32(1)) & U32(1)
            field = np.where(sign.astype(np.bool_) & np.not_equal(size, 0), field | ~mask, field)
        np.copyto(out, field.view(out.dtype))

    return function


def _bmsk(wrap: bool) -> Function:
    """Return a function for ``b`` ones from bit ``a``."""

    def function(out: Array, a: Array, b: Array) -> None:
        start, size = (np.bitwise_and(x, U32(31)) if wrap else np.minimum(x, U32(32)) for x in (a, b))
        np.copyto(out, np.left_shift(_low_bits(size, U32), start))

    return function


def _fns(out: Array, mask: Array, base: Array, offset: Array) -> None:
    """Find the ``|offset|``-th one of ``mask``, counted from bit ``base`` upwards, or downwards if ``offset`` is
    negative; an ``offset`` of 0 tests bit ``base`` itself. Write its position, or all ones if there is none.

    PTX leaves a base above 31 undefined, as well as the least ``offset``, -2**31. As in ptxas's code for sm_75 and
    sm_90, there is no bit for such a base, and the position for such an offset is 0.
    """
    bits, start, count = np.broadcast_arrays(np.atleast_1d(mask), base, offset)
    down = np.less(count, 0)
    backwards = np.empty(bits.shape, U32)
    _brev(32)(backwards, bits)
    left = np.where(down, backwards, bits)  # search downwards as upwards in the reversed word
    first = np.where(down, U32(31) - start, start)
    left = left & ~_low_bits(first, U32)
    left = np.where(np.equal(count, 0), left & np.left_shift(U32(1), first), left)
    nth = np.abs(count.astype(np.int64))
    for passed in range(1, 32):
        if not (more := nth > passed).any():
            break
        left = np.where(more, left & (left - U32(1)), left)
    left = np.where(nth > 32, U32(0), left)
    lowest = np.bitwise_count(~left & (left - U32(1))).astype(U32)
    position = np.where(down, U32(31) - lowest, lowest)
    position = np.where(np.equal(left, 0), ~U32(0), position)
    np.copyto(out, np.where(nth == 1 << 31, U32(0), position))


# ---- shifts ----


def _funnel(left: bool, wrap: bool) -> Function:
    """Return a shift of the 64-bit pair ``b:a``: the upper half after a left shift, the lower after a right one."""

    def function(out: Array, a: Array, b: Array, c: Array) -> None:
        count = np.bitwise_and(c, U32(31)) if wrap else np.minimum(c, U32(32))
        other = np.subtract(U32(32), count)
        if left:
            np.bitwise_or(np.left_shift(b, count), np.right_shift(a, other), out=out)
        else:
            np.bitwise_or(np.left_shift(b, other), np.right_shift(a, count), out=out)

    return function


# ---- permutation and arbitrary logic ----

# Bytes of b:a that go to bytes 0 to 3, for selectors 0 to 3.
PERMUTATIONS: dict[str, tuple[tuple[int, int, int, int], ...]] = {
    "f4e": ((0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6)),
    "b4e": ((0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0)),
    "rc8": ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)),
    "ecl": ((0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3)),
    "ecr": ((0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3)),
    "rc16": ((0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)),
}


def _prmt(mode: str | None) -> Function:
    def constant(out: Array, a: Array, b: Array, selector: int) -> None:
        """Apply one selector to all lanes, as compilers write it: each byte is a shift and a mask."""
        result: Any = U32(0)
        for byte in range(4):
            nibble = selector >> 4 * byte & 15 if mode is None else PERMUTATIONS[mode][selector & 3][byte]
            source, shift = (b if nibble & 4 else a), 8 * (nibble & 3)
            if nibble & 8:
                value = np.where(np.bitwise_and(source, U32(0x80 << shift)), U32(0xFF), U32(0))
            else:
                value = np.bitwise_and(np.right_shift(source, U32(shift)), U32(0xFF))
            result = np.bitwise_or(result, np.left_shift(value, U32(8 * byte)))
        np.copyto(out, result)

    def function(out: Array, a: Array, b: Array, c: Array) -> None:
        if np.ndim(c) == 0:
            constant(out, a, b, int(c))
            return
        pair = np.left_shift(b, 32, dtype=U64) | np.asarray(a, dtype=U64)
        selector = np.atleast_1d(c)
        result: Any = U32(0)
        for byte in range(4):
            if mode is None:
                nibble = selector >> U32(4 * byte)
                which = nibble & U32(7)
                sign = (nibble & U32(8)).astype(np.bool_)
            else:
                which = np.array([row[byte] for row in PERMUTATIONS[mode]], dtype=U32)[selector & U32(3)]
            value = (pair >> (which.astype(U64) << U64(3))) & U64(0xFF)
            if mode is None:  # bit 3 of a nibble replicates the byte's sign
                value = np.where(sign, np.where(value & U64(0x80), U64(0xFF), U64(0)), value)
            result = result | value.astype(U32) << U32(8 * byte)
        np.copyto(out, result)

    return function


def logic(code: int) -> Callable[[Array, Array, Array], Array]:
    """Return the function of three rows that ``lut`` computes for ``code``."""
    return COMMON.get(code) or functools.partial(_any_lut, code)


def lut(code: int, a: Array, b: Array, c: Array) -> Array:
    """Compute a bitwise function of three rows by bit ``4a + 2b + c`` of ``code`` (a = 0xF0, b = 0xCC, c = 0xAA)."""
    return logic(code)(a, b, c)


COMMON: Mapping[int, Callable[[Array, Array, Array], Array]] = {
    0xC0: lambda a, b, c: a & b, 0xFC: lambda a, b, c: a | b, 0x3C: lambda a, b, c: a ^ b,
    0x33: lambda a, b, c: ~b, 0x0F: lambda a, b, c: ~a, 0x30: lambda a, b, c: a & ~b,
    0x96: lambda a, b, c: a ^ b ^ c, 0xFE: lambda a, b, c: a | b | c, 0x80: lambda a, b, c: a & b & c,
    0xF8: lambda a, b, c: a | (b & c), 0xC8: lambda a, b, c: b & (a | c), 0xEA: lambda a, b, c: (a & b) | c,
}  # fmt: skip


def _any_lut(code: int, a: Array, b: Array, c: Array) -> Array:
    both = [(np.invert(x), x) for x in (a, b, c)]
    result: Array = a & both[0][0] & b & c  # zeros of the broadcast shape
    for term in range(8):
        if code >> term & 1:
            result = result | both[0][term >> 2] & both[1][term >> 1 & 1] & both[2][term & 1]
    return result


def _lop3(out: Array, a: Array, b: Array, c: Array, code: Array) -> None:
    """Apply ``lop3``. The lookup table is an immediate, the same for all lanes."""
    np.copyto(out, lut(int(np.ravel(code)[0]), a, b, c))


def table() -> Table:
    """Return every bitwise instruction, by full name."""
    entries: Table = {}
    for code in ("pred", "b16", "b32", "b64"):
        for opcode, ufunc in (("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)):
            entries[f"{opcode}.{code}"] = Operation((code,), (code, code), Plain(ufunc))
        entries[f"not.{code}"] = Operation((code,), (code,), Plain(np.invert))
        if code != "pred":
            entries[f"cnot.{code}"] = Operation((code,), (code,), _cnot)
    for bits in (16, 32, 64):
        # A negative signed count acts as a huge one, so signed rows shift by signed rows: one type, one loop.
        count = {16: "u32", 32: "s32", 64: "u32"}[bits]
        entries[f"shl.b{bits}"] = Operation((f"b{bits}",), (f"b{bits}", "u32"), Plain(np.left_shift))
        for code in (f"b{bits}", f"u{bits}"):
            entries[f"shr.{code}"] = Operation((code,), (code, "u32"), Plain(np.right_shift))
        entries[f"shr.s{bits}"] = Operation((f"s{bits}",), (f"s{bits}", count), Plain(np.right_shift))
    for bits in (32, 64):
        raw = f"b{bits}"
        entries[f"popc.{raw}"] = Operation(("u32",), (raw,), _popc)
        entries[f"clz.{raw}"] = Operation(("u32",), (raw,), _clz(bits))
        entries[f"brev.{raw}"] = Operation((raw,), (raw,), _brev(bits))
        entries[f"bfi.{raw}"] = Operation((raw,), (raw, raw, "u32", "u32"), _bfi(bits))
        for code in (f"u{bits}", f"s{bits}"):
            entries[f"bfe.{code}"] = Operation((code,), (code, "u32", "u32"), _bfe(code))
            entries[f"bfind.{code}"] = Operation(("u32",), (code,), _bfind(code, False))
            entries[f"bfind.shiftamt.{code}"] = Operation(("u32",), (code,), _bfind(code, True))
    for mode in ("clamp", "wrap"):
        three = ("b32", "b32", "u32")
        entries[f"shf.l.{mode}.b32"] = Operation(("b32",), three, _funnel(True, mode == "wrap"))
        entries[f"shf.r.{mode}.b32"] = Operation(("b32",), three, _funnel(False, mode == "wrap"))
        entries[f"bmsk.{mode}.b32"] = Operation(("b32",), ("u32", "u32"), _bmsk(mode == "wrap"))
        for code in ("u32", "s32"):
            entries[f"szext.{mode}.{code}"] = Operation((code,), (code, "u32"), _szext(code, mode == "wrap"))
    for permutation in (None, *PERMUTATIONS):
        name = "prmt.b32" if permutation is None else f"prmt.b32.{permutation}"
        entries[name] = Operation(("b32",), ("b32", "b32", "b32"), _prmt(permutation))
    entries["fns.b32"] = Operation(("b32",), ("b32", "u32", "s32"), _fns)
    entries["lop3.b32"] = Operation(("b32",), ("b32", "b32", "b32", "u32"), _lop3)
    return entries
