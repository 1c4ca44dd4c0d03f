"""Floating-point instructions that never round: min, max, abs, neg, copysign.

Source: NVIDIA, "PTX ISA" 9.0, 9.7.3 to 9.7.5.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gemm_lessons.engine.semantics import floats
from gemm_lessons.engine.semantics.arithmetic import SIGN, settle_nans, with_modifiers
from gemm_lessons.engine.semantics.floats import F32, F64
from gemm_lessons.engine.semantics.operation import DTYPES, Array, Function, Table, in_halves, put


def _extreme(minimum: bool, code: str, nan: bool, xorsign: bool) -> Function:
    """Return min or max. A number is preferred to NaN (``.NaN``: NaN wins), and -0 < +0."""
    propagate = np.minimum if minimum else np.maximum
    ufunc = propagate if nan else np.fmin if minimum else np.fmax
    join = np.bitwise_or if minimum else np.bitwise_and
    sign: Any = SIGN[code]
    raw = sign.dtype

    def function(out: Array, a: Array, b: Array) -> None:
        if xorsign:
            flipped = np.bitwise_xor(np.asarray(a).view(raw), np.asarray(b).view(raw)) & sign
            a, b = np.abs(a), np.abs(b)
        r = np.empty(out.shape, out.dtype)
        ufunc(a, b, out=r)
        if np.count_nonzero(r) != r.size:
            # Equal numbers have equal bits, except the two zeros; combining the bits selects the right zero.
            joined = join(np.asarray(a).view(raw), np.asarray(b).view(raw))
            np.copyto(r.view(raw), joined, where=np.equal(a, b))
        if code == "f64":
            floats.inherit_nan(r, b, a)
        out[...] = r
        if xorsign:
            out.view(raw)[...] |= flipped
        if code != "f64":
            settle_nans(out, code)

    return function


def _in_f32(function: Function) -> Function:
    """Return a float32 function applied to bfloat16 bits. Its results must be bfloat16 values if its sources are."""

    def wide(out: Array, *sources: Array) -> None:
        result = np.empty(out.shape, F32)
        function(result, *(floats.widen_bf16(source) for source in sources))
        np.right_shift(result.view(np.uint32), 16, out=out, casting="unsafe")

    return wide


def _bitwise(opcode: str, code: str) -> Function:
    """Return abs or neg, applied to the sign bit alone. NaN becomes canonical (an f64 one quiet, with its sign)."""
    sign: Any = SIGN[code]
    raw = sign.dtype

    def function(out: Array, a: Array) -> None:
        bits = np.atleast_1d(a).view(raw)
        r = bits & ~sign if opcode == "abs" else bits ^ sign
        if code == "f64":
            floats.inherit_nan(r.view(F64), a)
        np.copyto(out.view(raw), r)
        if code != "f64":
            settle_nans(out, code)

    return function


def table() -> Table:
    """Return every instruction of this module, by full name."""
    entries: Table = {}
    for opcode, minimum in (("min", True), ("max", False)):
        for nan in (False, True):
            for xorsign in (False, True):
                suffix = ".NaN" * nan + ".xorsign.abs" * xorsign
                for ftz in (False, True):
                    name = opcode + ".ftz" * ftz + suffix
                    for code in ("f32", "f16"):
                        function = with_modifiers(_extreme(minimum, code, nan, xorsign), code, ftz)
                        put(entries, name, code, 2, function)
                        if code == "f16":
                            put(entries, name, "f16x2", 2, in_halves(function, np.float16))
                function = _in_f32(_extreme(minimum, "f32", nan, xorsign))
                put(entries, opcode + suffix, "bf16", 2, function)
                put(entries, opcode + suffix, "bf16x2", 2, in_halves(function, np.uint16))
        put(entries, opcode, "f64", 2, _extreme(minimum, "f64", False, False))
    for opcode in ("abs", "neg"):
        for code in ("f32", "f64", "f16", "bf16"):
            for ftz in (False, True) if code in ("f32", "f16") else (False,):
                function = with_modifiers(_bitwise(opcode, code), code, ftz)
                put(entries, opcode + ".ftz" * ftz, code, 1, function)
                if code in ("f16", "bf16"):
                    put(entries, opcode + ".ftz" * ftz, code + "x2", 1, in_halves(function, DTYPES[code]))
    for code in ("f32", "f64"):
        put(entries, "copysign", code, 2, lambda out, a, b: np.copysign(b, a, out=out))
    return entries
