"""Conversions to and from pairs of 8-bit floats: ``cvt`` of e4m3x2 and e5m2x2.

Both formats are small enough to be written out: the 128 magnitudes are a table, and rounding is a search in it.
Source: NVIDIA, "PTX ISA" 9.0, 9.7.9 (cvt, ``.satfinite``); P. Micikevicius et al., "FP8 formats for deep learning".
"""

from __future__ import annotations

import numpy as np

from gemm_lessons.simulator.semantics.floats import F64, NAN_BITS
from gemm_lessons.simulator.semantics.operation import Array, Function, Operation, Table

FRACTION_BITS = {"e4m3": 3, "e5m2": 2}
BIAS = {"e4m3": 7, "e5m2": 15}
LARGEST = {"e4m3": 0x7E, "e5m2": 0x7B}  # the code of the largest number; e4m3 has no infinity
NAN = 0x7F


def magnitudes(kind: str) -> Array:
    """The values of codes 0 to 0x7F, float64; NaN where the code is none."""
    fraction_bits = FRACTION_BITS[kind]
    codes = np.arange(128)
    exponent, fraction = codes >> fraction_bits, codes & ((1 << fraction_bits) - 1)
    whole = fraction + np.where(exponent > 0, 1 << fraction_bits, 0)
    values: Array = np.ldexp(whole.astype(F64), np.maximum(exponent, 1) - BIAS[kind] - fraction_bits)
    values[LARGEST[kind] + 1 :] = np.nan
    if kind == "e5m2":
        values[LARGEST[kind] + 1] = np.inf
    return values


def _narrow(kind: str, relu: bool, x: Array) -> Array:
    """Codes (uint8) of float64 values, rounded to the nearest, ties to even; what is too large becomes the largest."""
    known = magnitudes(kind)[: LARGEST[kind] + 1]
    middles = (known[1:] + known[:-1]) / 2
    size = np.abs(x)
    codes = np.searchsorted(middles, size)  # a tie goes down here
    tie = (codes < len(middles)) & (middles[np.minimum(codes, len(middles) - 1)] == size)
    codes += tie & (codes % 2 == 1)
    codes = codes.astype(np.uint8) | (np.signbit(x).astype(np.uint8) << np.uint8(7))
    codes = np.where(relu & np.signbit(x), np.uint8(0), codes)
    return np.where(np.isnan(x), np.uint8(NAN), codes)


def _pack(out: Array, low: Array, high: Array) -> None:
    np.copyto(out, low.astype(np.uint16) | high.astype(np.uint16) << np.uint16(8))


def _from_singles(kind: str, relu: bool) -> Function:
    """The first source becomes the upper byte."""

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
    positive = magnitudes(kind).astype(np.float16)
    values = np.concatenate([positive, np.zeros(128, np.float16) if relu else -positive])
    values.view(np.uint16)[np.isnan(np.concatenate([positive, positive]))] = NAN_BITS["f16"]

    def function(out: Array, a: Array) -> None:
        codes = np.ascontiguousarray(np.broadcast_to(a, out.shape)).view(np.uint8)
        np.copyto(out, values[codes].view(np.uint32))

    return function


def table() -> Table:
    """Every instruction of this module, by full name."""
    entries: Table = {}
    for kind in FRACTION_BITS:
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
