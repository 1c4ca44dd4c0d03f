"""Conversions to and from pairs of floats of 8, 6 and 4 bits: ``cvt`` of e4m3x2, e5m2x2, e2m3x2, e3m2x2 and e2m1x2.

Source: NVIDIA, "PTX ISA" 9.0, 9.7.9 (cvt, ``.satfinite``). Those of 6 and 4 bits need sm_100a. No GPU has confirmed
them; tests compare them with the software conversions of ``cuda_fp4.h`` and ``cuda_fp6.h``.
"""

from __future__ import annotations

import numpy as np

from gemm_lessons.engine.records.elements import ELEMENTS
from gemm_lessons.engine.records.encodings import nearest
from gemm_lessons.engine.semantics.floats import F64, NAN_BITS
from gemm_lessons.engine.semantics.operation import Array, Function, Operation, Table

KINDS = ("e4m3", "e5m2")
FINITE = {"e2m3": (2, 3), "e3m2": (3, 2), "e2m1": (2, 1)}  # bits of exponent and fraction; no infinity, no NaN


def _narrow(kind: str, relu: bool, x: Array) -> Array:
    """Return the codes (uint8) of float64 values, rounded to nearest even. Out of range: the largest number."""
    codes = ELEMENTS[f"float8_{kind}"].encode(x)
    return np.where(relu & np.signbit(x) & ~np.isnan(x), np.uint8(0), codes)


def _pack(out: Array, low: Array, high: Array) -> None:
    np.copyto(out, low.astype(np.uint16) | high.astype(np.uint16) << np.uint16(8))


def _from_singles(kind: str, relu: bool) -> Function:
    """Return the conversion of two float32. The first source becomes the upper byte."""

    def function(out: Array, a: Array, b: Array) -> None:
        high, low = (_narrow(kind, relu, np.broadcast_to(x, out.shape).astype(F64)) for x in (a, b))
        _pack(out, low, high)

    return function


def _from_halves(kind: str, relu: bool) -> Function:
    def function(out: Array, a: Array) -> None:
        halves = np.ascontiguousarray(np.broadcast_to(a, out.shape)).view(np.float16).astype(F64).reshape(-1, 2)
        _pack(out, _narrow(kind, relu, halves[:, 0]), _narrow(kind, relu, halves[:, 1]))

    return function


def _to_halves(kind: str, relu: bool) -> Function:
    values = ELEMENTS[f"float8_{kind}"].decode(np.arange(256)).astype(np.float16)
    if relu:
        values[128:] = 0
    is_nan = np.isnan(ELEMENTS[f"float8_{kind}"].decode(np.arange(256)))
    values.view(np.uint16)[is_nan] = NAN_BITS["f16"]

    def function(out: Array, a: Array) -> None:
        codes = np.ascontiguousarray(np.broadcast_to(a, out.shape)).view(np.uint8)
        np.copyto(out, values[codes].view(np.uint32))

    return function


def _finite(kind: str) -> Array:
    """Return the number of each code, for a format that has neither infinity nor NaN."""
    exponent_bits, fraction_bits = FINITE[kind]
    codes = np.arange(1 << exponent_bits + fraction_bits)
    exponent, fraction = codes >> fraction_bits, codes % (1 << fraction_bits)
    whole = fraction + (exponent > 0) * 2.0**fraction_bits
    numbers: Array = np.ldexp(whole, np.maximum(exponent, 1) - (1 << exponent_bits - 1) + 1 - fraction_bits)
    return np.concatenate([numbers, -numbers])


def _encode_finite(kind: str, relu: bool, x: Array) -> Array:
    """Return the codes of float64 values, rounded to nearest even. NaN becomes the largest positive number."""
    numbers = _finite(kind)
    count = numbers.size // 2
    codes = nearest(numbers[:count], np.where(np.isnan(x), np.inf, np.abs(x)))
    negative = np.signbit(x) & ~np.isnan(x)
    return np.where(negative & relu, 0, codes + count * negative).astype(np.uint8)


def _halves(x: Array, code: str) -> Array:
    """Return the lower and the upper number of each word, shape (lanes, 2), in float64."""
    raw = np.ascontiguousarray(x).view(np.uint16).reshape(-1, 2)
    if code == "f16x2":
        return raw.view(np.float16).astype(F64)
    return (raw.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(F64)


def _pair(kind: str, low: Array, high: Array) -> Array:
    """Return two codes packed into one number: e2m1 into a byte, other formats into 16 bits."""
    shift = np.uint16(4 if kind == "e2m1" else 8)
    return low.astype(np.uint16) | high.astype(np.uint16) << shift


def _to_finite(kind: str, relu: bool, source: str) -> Function:
    def function(out: Array, *given: Array) -> None:
        if source == "f32":
            high, low = (np.broadcast_to(x, out.shape).astype(F64) for x in given)
        else:
            low, high = _halves(np.broadcast_to(given[0], out.shape), source).T
        codes = (_encode_finite(kind, relu, x) for x in (low, high))
        np.copyto(out, _pair(kind, *codes), casting="unsafe")

    return function


def _from_finite(kind: str, relu: bool, target: str) -> Function:
    numbers = _finite(kind)
    if relu:
        numbers[numbers.size // 2 :] = 0
    raw = numbers.astype(np.float16).view(np.uint16)
    if target == "bf16x2":
        raw = (numbers.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    shift = 4 if kind == "e2m1" else 8

    def function(out: Array, a: Array) -> None:
        codes = np.broadcast_to(a, out.shape).astype(np.int64)
        low, high = (raw[(codes >> at) % numbers.size].astype(np.uint32) for at in (0, shift))
        np.copyto(out, low | high << np.uint32(16))

    return function


def _finite_table() -> Table:
    entries: Table = {}
    for kind in FINITE:
        packed = "u8" if kind == "e2m1" else "b16"
        for last in ("", ".relu"):
            relu = bool(last)
            name = f"cvt.rn.satfinite{last}.{kind}x2"
            entries[f"{name}.f32"] = Operation((packed,), ("f32", "f32"), _to_finite(kind, relu, "f32"))
            for half in ("f16x2", "bf16x2"):
                entries[f"{name}.{half}"] = Operation((packed,), (half,), _to_finite(kind, relu, half))
                entries[f"cvt.rn{last}.{half}.{kind}x2"] = Operation((half,), (packed,), _from_finite(kind, relu, half))
    return entries


def table() -> Table:
    """Return every instruction of this module, by full name."""
    entries = _finite_table()
    for kind in KINDS:
        for relu in (False, True):
            last = ".relu" * relu
            entries[f"cvt.rn.satfinite{last}.{kind}x2.f32"] = Operation(
                ("b16",), ("f32", "f32"), _from_singles(kind, relu)
            )
            entries[f"cvt.rn.satfinite{last}.{kind}x2.f16x2"] = Operation(
                ("b16",), ("f16x2",), _from_halves(kind, relu)
            )
            entries[f"cvt.rn{last}.f16x2.{kind}x2"] = Operation(("f16x2",), ("b16",), _to_halves(kind, relu))
    return entries
