"""Conversions to and from pairs of 8-bit floats: ``cvt`` of e4m3x2 and e5m2x2.

Source: NVIDIA, "PTX ISA" 9.0, 9.7.9 (cvt, ``.satfinite``).
"""

from __future__ import annotations

import numpy as np

from gemm_lessons.engine.records.elements import ELEMENTS
from gemm_lessons.engine.semantics.floats import F64, NAN_BITS
from gemm_lessons.engine.semantics.operation import Array, Function, Operation, Table

KINDS = ("e4m3", "e5m2")


def _narrow(kind: str, relu: bool, x: Array) -> Array:
    """Return the codes (uint8) of float64 values, rounded to nearest even. Values out of range become the largest
    number."""
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
    unknown = np.isnan(ELEMENTS[f"float8_{kind}"].decode(np.arange(256)))
    values.view(np.uint16)[unknown] = NAN_BITS["f16"]

    def function(out: Array, a: Array) -> None:
        codes = np.ascontiguousarray(np.broadcast_to(a, out.shape)).view(np.uint8)
        np.copyto(out, values[codes].view(np.uint32))

    return function


def table() -> Table:
    """Return every instruction of this module, by full name."""
    entries: Table = {}
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
