"""Integer arithmetic of PTX: add, sub, mul, mad, div, rem, min, max, abs, neg, sad, carries, dot products.

Registers wrap around; NumPy's ufuncs also wrap if they are called as functions on typed operands. Source: NVIDIA, "PTX
ISA" 9.0, 9.7.1 and 9.7.2. Division by zero is unspecified there; see ``_divide``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gemm_lessons.engine.semantics.operation import DTYPES, Array, Function, Operation, Plain, Table, in_halves

TYPES = ("u16", "s16", "u32", "s32", "u64", "s64")
U64 = np.uint64


def wide_of(code: str) -> str:
    """Return the integer type of twice the width."""
    return code[0] + str(2 * int(code[1:]))


def saturated(function: Callable[..., Any], bits: int = 32) -> Function:
    """Return the ``.sat`` form of ``function``: compute in int64 and clamp to the signed range of ``bits``."""
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def clamped(out: Array, *sources: Array) -> None:
        exact = function(*(np.asarray(source, dtype=np.int64) for source in sources))
        np.copyto(out, np.clip(exact, low, high), casting="unsafe")

    return clamped


# ---- multiplication ----


def _mul_wide(dtype: Any) -> Function:
    def function(out: Array, a: Array, b: Array) -> None:
        np.multiply(a, b, out=out, dtype=dtype)

    return function


def _mad_wide(dtype: Any) -> Function:
    def function(out: Array, a: Array, b: Array, c: Array) -> None:
        np.add(np.multiply(a, b, dtype=dtype), c, out=out)

    return function


def _mad_lo(out: Array, a: Array, b: Array, c: Array) -> None:
    np.add(np.multiply(a, b), c, out=out)


def _high(code: str) -> Callable[[Array, Array], Array]:
    """Return a function for the upper half of the double-width product."""
    dtype, bits = DTYPES[code], int(code[1:])
    if bits < 64:
        wide = DTYPES[wide_of(code)]

        def high(a: Array, b: Array) -> Array:
            shifted: Array = np.right_shift(np.multiply(a, b, dtype=wide), bits)
            return shifted.astype(dtype)

        return high

    def high64(a: Array, b: Array) -> Array:
        low_bits, half = U64(0xFFFFFFFF), U64(32)
        ua, ub = np.atleast_1d(a).view(U64), np.atleast_1d(b).view(U64)
        al, ah, bl, bh = ua & low_bits, ua >> half, ub & low_bits, ub >> half
        cross = (al * bl >> half) + (al * bh & low_bits) + (ah * bl & low_bits)
        top: Array = ah * bh + (al * bh >> half) + (ah * bl >> half) + (cross >> half)
        if code == "s64":
            top = top - np.where(np.less(a, 0), ub, U64(0)) - np.where(np.less(b, 0), ua, U64(0))
        return top.view(dtype)

    return high64


def _mul24(code: str, upper: bool) -> Callable[[Array, Array], Array]:
    """Return a function for the low or the upper 32 of the 48 product bits of two 24-bit numbers."""
    dtype = DTYPES[code]

    def function(a: Array, b: Array) -> Array:
        if code == "s32":
            a, b = (np.right_shift(np.left_shift(x, 8), 8) for x in (a, b))
        else:
            a, b = (np.bitwise_and(x, np.uint32(0xFFFFFF)) for x in (a, b))
        product = np.multiply(a, b, dtype=DTYPES[wide_of(code)])
        shifted: Array = np.right_shift(product, 16 if upper else 0).astype(dtype)
        return shifted

    return function


def _of(compute: Callable[..., Array]) -> Function:
    def function(out: Array, *sources: Array) -> None:
        np.copyto(out, compute(*sources), casting="unsafe")

    return function


def _plus(compute: Callable[[Array, Array], Array]) -> Function:
    def function(out: Array, a: Array, b: Array, c: Array) -> None:
        np.add(compute(a, b), c, out=out)

    return function


def _multiplications(table: Table) -> None:
    for code in TYPES:
        two, three = (code, code), (code, code, code)
        high = _high(code)
        table[f"mul.lo.{code}"] = Operation((code,), two, Plain(np.multiply))
        table[f"mul.hi.{code}"] = Operation((code,), two, _of(high))
        table[f"mad.lo.{code}"] = Operation((code,), three, _mad_lo)
        table[f"mad.hi.{code}"] = Operation((code,), three, _plus(high))
        if code[1:] != "64":
            wide = wide_of(code)
            table[f"mul.wide.{code}"] = Operation((wide,), two, _mul_wide(DTYPES[wide]))
            table[f"mad.wide.{code}"] = Operation((wide,), (code, code, wide), _mad_wide(DTYPES[wide]))
    for code in ("u32", "s32"):
        for half, upper in (("lo", False), ("hi", True)):
            table[f"mul24.{half}.{code}"] = Operation((code,), (code, code), _of(_mul24(code, upper)))
            table[f"mad24.{half}.{code}"] = Operation((code,), (code,) * 3, _plus(_mul24(code, upper)))
    high, high24 = _high("s32"), _mul24("s32", True)
    for name, upper_half in (("mad.hi.sat.s32", high), ("mad24.hi.sat.s32", high24)):
        table[name] = Operation(("s32",), ("s32",) * 3, _saturated_mad(upper_half))


def _saturated_mad(upper_half: Callable[[Array, Array], Array]) -> Function:
    add = saturated(np.add)

    def function(out: Array, a: Array, b: Array, c: Array) -> None:
        add(out, upper_half(a, b), c)

    return function


# ---- division ----


def _divide(code: str, remainder: bool) -> Function:
    """Return C's division, which truncates towards zero. Division by zero, which PTX leaves undefined, gives all ones
    for quotient and remainder, as on an H200.

    Types of up to 32 bits divide in float64: the quotient either is an integer or differs from the next one by at least
    2**-33 (relative), so truncation is exact, and this is several times faster than integer division.
    """
    dtype, bits = DTYPES[code], int(code[1:])

    def quotient(a: Array, b: Array) -> Array:
        if bits < 64:
            real = np.divide(a, b, dtype=np.float64)
            return real.astype(np.int64).astype(dtype)
        rest = np.fmod(a, b)
        whole: Array = np.floor_divide(np.subtract(a, rest), b)
        return whole

    def function(out: Array, a: Array, b: Array) -> None:
        a, b = np.atleast_1d(a), np.atleast_1d(b)
        result = quotient(a, b)
        if remainder:
            result = np.subtract(a, np.multiply(result, b))
        np.copyto(out, np.where(np.equal(b, 0), ~dtype(0), result))

    return function


def _sad(out: Array, a: Array, b: Array, c: Array) -> None:
    np.add(np.subtract(np.maximum(a, b), np.minimum(a, b)), c, out=out)


def _relu(ufunc: Callable[..., Any]) -> Function:
    def function(out: Array, a: Array, b: Array) -> None:
        np.maximum(ufunc(a, b), out.dtype.type(0), out=out)

    return function


# ---- carries: CC.CF is one bool per lane. Subtraction adds the complement, so CC.CF means "no borrow" ----


def _add_carry(carry_in: bool, carry_out: bool) -> Function:
    def function(out: Array, *rest: Array) -> None:
        carry = rest[0] if carry_out else None
        a, b, *previous = rest[1:] if carry_out else rest
        s = np.add(a, b)
        wrapped = np.less(s, a)
        if carry_in:
            total = np.add(s, previous[0], dtype=out.dtype)
            wrapped = np.logical_or(wrapped, np.less(total, s))
            s = total
        np.copyto(out, s)
        if carry is not None:
            np.copyto(carry, wrapped)

    return function


def _sub_carry(carry_in: bool, carry_out: bool) -> Function:
    add = _add_carry(True, carry_out)

    def function(out: Array, *rest: Array) -> None:
        outs, (a, b, *carry) = (rest[:1], rest[1:]) if carry_out else ((), rest)
        add(out, *outs, a, np.invert(b), carry[0] if carry_in else np.True_)

    return function


def _mad_carry(product: Callable[[Array, Array], Array], carry_in: bool, carry_out: bool) -> Function:
    add = _add_carry(carry_in, carry_out)

    def function(out: Array, *rest: Array) -> None:
        outs, (a, b, *more) = (rest[:1], rest[1:]) if carry_out else ((), rest)
        add(out, *outs, product(a, b).view(out.dtype), *more)

    return function


def _carries(table: Table) -> None:
    for code in ("u32", "s32", "u64", "s64"):
        raw = "u" + code[1:]
        for base, make in (("add", _add_carry), ("sub", _sub_carry)):
            for name, carry_in, carry_out in (
                (f"{base}.cc", False, True),
                (f"{base}c.cc", True, True),
                (f"{base}c", True, False),
            ):
                function = make(carry_in, carry_out)
                table[f"{name}.{code}"] = Operation((raw,), (raw, raw), function, carry_in, carry_out)
        for half, product in (("lo", np.multiply), ("hi", _high(code))):
            for opcode, carry_in, carry_out in (
                (f"mad.{half}.cc", False, True),
                (f"madc.{half}.cc", True, True),
                (f"madc.{half}", True, False),
            ):
                function = _mad_carry(product, carry_in, carry_out)
                table[f"{opcode}.{code}"] = Operation((raw,), (code, code, raw), function, carry_in, carry_out)


# ---- dot products of packed small integers ----


def _parts(x: Array, code: str, size: int, lanes: tuple[int, ...], real: Any) -> Array:
    """Return the fields of ``size`` bytes of packed registers, (lanes, 4 / size), as ``real``. Floats are fastest."""
    raw = np.ascontiguousarray(np.broadcast_to(x, lanes))
    fields: Array = raw.view(DTYPES[f"{code[0]}{8 * size}"]).astype(real)
    return fields.reshape(-1, 4 // size)


FOUR = np.ones(4, np.float32)


def _dp4a(a_code: str, b_code: str) -> Function:
    def function(out: Array, a: Array, b: Array, c: Array) -> None:
        products = _parts(a, a_code, 1, out.shape, np.float32)
        np.multiply(products, _parts(b, b_code, 1, out.shape, np.float32), out=products)
        # The sum of four products of bytes is below 2**18, exact in float32.
        np.add((products @ FOUR).astype(np.int32).view(np.uint32), c, out=out)

    return function


def _dp2a(a_code: str, b_code: str, upper: bool) -> Function:
    def function(out: Array, a: Array, b: Array, c: Array) -> None:
        small = _parts(b, b_code, 1, out.shape, np.float64)[:, 2 if upper else 0 :][:, :2]
        products = _parts(a, a_code, 2, out.shape, np.float64) * small
        np.add((products[:, 0] + products[:, 1]).astype(np.int64).astype(np.uint32), c, out=out)

    return function


def _differences(size: int, add: bool) -> Function:
    """Return ``vabsdiff4`` or ``vabsdiff2``, unsigned: absolute differences of the fields, or their sum plus ``c``."""

    def function(out: Array, a: Array, b: Array, c: Array) -> None:
        x, y = (_parts(s, "u", size, out.shape, np.int64) for s in (a, b))
        distance = np.abs(x - y)
        if add:
            np.add(distance.sum(axis=1).astype(np.uint32), c, out=out)
        else:
            np.copyto(out, distance.astype(DTYPES[f"u{8 * size}"]).view(np.uint32)[:, 0])

    return function


def _pack(code: str) -> Function:
    """Return ``cvt.pack``: two integers, saturated to ``code``, below the bits of ``c`` that remain."""
    bits = int(code[1:])
    low, high = (0, (1 << bits) - 1) if code[0] == "u" else (-1 << bits - 1, (1 << bits - 1) - 1)

    def function(out: Array, a: Array, b: Array, *c: Array) -> None:
        upper, lower = (np.clip(it, low, high).astype(np.uint32) & np.uint32((1 << bits) - 1) for it in (a, b))
        kept = c[0] << np.uint32(2 * bits) if c else np.uint32(0)
        np.copyto(out, kept | upper << np.uint32(bits) | lower)

    return function


def table() -> Table:
    """Return every integer instruction, by full name."""
    entries: Table = {}
    _multiplications(entries)
    _carries(entries)
    for code in TYPES:
        two = (code, code)
        for opcode, ufunc in (("add", np.add), ("sub", np.subtract), ("min", np.minimum), ("max", np.maximum)):
            entries[f"{opcode}.{code}"] = Operation((code,), two, Plain(ufunc))
        entries[f"div.{code}"] = Operation((code,), two, _divide(code, False))
        entries[f"rem.{code}"] = Operation((code,), two, _divide(code, True))
        entries[f"sad.{code}"] = Operation((code,), (code,) * 3, _sad)
        if code[0] == "s":
            entries[f"abs.{code}"] = Operation((code,), (code,), Plain(np.abs))
            entries[f"neg.{code}"] = Operation((code,), (code,), Plain(np.negative))
    for opcode, ufunc in (("add", np.add), ("sub", np.subtract)):
        entries[f"{opcode}.sat.s32"] = Operation(("s32",), ("s32", "s32"), saturated(ufunc))
    for opcode, ufunc in (("min", np.minimum), ("max", np.maximum)):
        # CUDA's headers write .relu last, the PTX manual before the type.
        for name in (f"{opcode}.s32.relu", f"{opcode}.relu.s32"):
            entries[name] = Operation(("s32",), ("s32", "s32"), _relu(ufunc))
        for name in (f"{opcode}.s16x2.relu", f"{opcode}.relu.s16x2"):
            entries[name] = Operation(("s16x2",), ("s16x2",) * 2, in_halves(_relu(ufunc), np.int16))
    for fields in (2, 4):  # NVRTC's code for __vabsdiffu4 and similar functions
        for add in (False, True):
            name = f"vabsdiff{fields}.u32.u32.u32{'.add' * add}"
            entries[name] = Operation(("u32",), ("u32",) * 3, _differences(4 // fields, add))
    for opcode, ufunc in (("add", np.add), ("min", np.minimum), ("max", np.maximum)):
        for code, dtype in (("u16x2", np.uint16), ("s16x2", np.int16)):
            entries[f"{opcode}.{code}"] = Operation((code,), (code, code), in_halves(Plain(ufunc), dtype))
    for code in ("u16", "s16"):
        entries[f"cvt.pack.sat.{code}.s32"] = Operation(("b32",), ("s32", "s32"), _pack(code))
    for code in ("u8", "s8", "u4", "s4", "u2", "s2"):
        entries[f"cvt.pack.sat.{code}.s32.b32"] = Operation(("b32",), ("s32", "s32", "b32"), _pack(code))
    for a_code in ("u32", "s32"):
        for b_code in ("u32", "s32"):
            three = ("b32", "b32", "b32")
            entries[f"dp4a.{a_code}.{b_code}"] = Operation(("b32",), three, _dp4a(a_code, b_code))
            for half in ("lo", "hi"):
                function = _dp2a(a_code, b_code, half == "hi")
                entries[f"dp2a.{half}.{a_code}.{b_code}"] = Operation(("b32",), three, function)
    return entries
