"""Division, reciprocal, square root and the approximate functions of PTX.

Exact instructions are correctly rounded in every direction. The approximate ones (``.approx``, ``.full``) are computed
in float64 and rounded once, so they are at least as accurate as the hardware's, but not bit-identical. Largest
differences from an H200 over 2**20 operands: rcp, sqrt, rsqrt 1 unit in the last place, ex2 and div 2; absolute
differences are 1e-6 for lg2 near 1 (else 1 unit), 4e-7 for sin and cos, 8e-6 for tanh. Tests check these bounds.
Source: NVIDIA, "PTX ISA" 9.0, 9.7.3 to 9.7.5.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gemm_lessons.engine.semantics import floats
from gemm_lessons.engine.semantics.arithmetic import MODES, directed_f64, settle_nans, with_modifiers
from gemm_lessons.engine.semantics.floats import F32, F64, Mode
from gemm_lessons.engine.semantics.operation import DTYPES, Array, Function, Table, in_halves, put


def _quotient(mode: Mode) -> Function:
    """Return float32 division. In float64 it is on the same side of every float32 as the exact one."""

    def function(out: Array, a: Array, b: Array) -> None:
        if mode == "rn":
            np.divide(a, b, out=out)
        else:
            np.copyto(out, floats.narrow(np.divide(a, b, dtype=F64), F32, mode))
        floats.canonical(out)

    return function


def has_slow_path(opcode: str, modifiers: Sequence[str]) -> bool:
    """Return whether machine code checks the operands of an instruction, and computes some results by a function."""
    return opcode == "div" and {"rn", "f32"} <= {*modifiers}


def takes_slow_path(dividend: Array, divisor: Array) -> Array:
    """Return where a division of float32, given as bits, takes its slow path in machine code: the exponents decide
    (read on an H200 for all pairs)."""
    a, b = (((bits >> np.uint32(23)) & np.uint32(0xFF)).astype(np.int32) for bits in (dividend, divisor))
    slow: Array = (a <= 24) | (a == 255) | (b <= 1) | (b >= 252) | (a - b >= 127) | (b - a >= 125)
    return slow


def _root(mode: Mode) -> Function:
    def function(out: Array, a: Array) -> None:
        if mode == "rn":
            np.sqrt(a, out=out)
        else:
            np.copyto(out, floats.narrow(np.sqrt(a, dtype=F64), F32, mode))
        floats.canonical(out)

    return function


def _reciprocal(divide: Function, one: Any) -> Function:
    def function(out: Array, a: Array) -> None:
        divide(out, one, a)

    return function


def _divide_f64(out: Array, a: Array, b: Array) -> None:
    r = np.atleast_1d(np.divide(a, b))
    floats.inherit_nan(r, a, b)
    np.copyto(out, r)


def _sqrt_f64(out: Array, a: Array) -> None:
    r = np.sqrt(np.atleast_1d(a))
    floats.inherit_nan(r, a)
    np.copyto(out, r)


def _div_approx(out: Array, a: Array, b: Array) -> None:
    """Divide approximately. A divisor above 2**126 gives 0, or NaN for an infinite dividend."""
    divisor = np.where((np.abs(b) > F32(2.0**126)) & np.isfinite(b), np.copysign(F32(np.inf), b), b)
    np.divide(a, divisor, out=out)
    floats.canonical(out)


def _division(entries: Table) -> None:
    for mode in MODES:
        div, sqrt = _quotient(mode), _root(mode)
        for ftz in (False, True):
            name = f".{mode}" + ".ftz" * ftz
            function = with_modifiers(div, "f32", ftz, exact=functools.partial(np.divide, dtype=F64), mode=mode)
            put(entries, "div" + name, "f32", 2, function)
            inverse = functools.partial(np.divide, F32(1), dtype=F64)
            function = with_modifiers(_reciprocal(div, F32(1)), "f32", ftz, exact=inverse, mode=mode)
            put(entries, "rcp" + name, "f32", 1, function)
            put(entries, "sqrt" + name, "f32", 1, with_modifiers(sqrt, "f32", ftz))
        div64 = _divide_f64 if mode == "rn" else directed_f64("div", mode)
        put(entries, f"div.{mode}", "f64", 2, div64)
        put(entries, f"rcp.{mode}", "f64", 1, _reciprocal(div64, F64(1)))
        put(entries, f"sqrt.{mode}", "f64", 1, _sqrt_f64 if mode == "rn" else directed_f64("sqrt", mode))
    for ftz in (False, True):
        suffix = ".ftz" * ftz
        put(entries, "div.approx" + suffix, "f32", 2, with_modifiers(_div_approx, "f32", ftz))
        put(entries, "div.full" + suffix, "f32", 2, with_modifiers(_quotient("rn"), "f32", ftz))


# ---- approximate functions ----

TURNS_PER_RADIAN = float.fromhex("0x1.45f306p-3")  # float32 nearest to 1 / (2 pi), the hardware's factor


def _radians(x: Array) -> Array:
    """Return the angle in radians whose sine the hardware computes: the number of turns is truncated to float32, then
    whole turns are dropped.

    This keeps sine and cosine of large angles within 4e-7 of an H200's, whose error is unbounded there.
    """
    turns = floats.narrow(x * TURNS_PER_RADIAN, F32, "rz")
    angle: Array = np.fmod(turns.astype(F64), 1.0) * (2 * np.pi)
    return angle


APPROXIMATE: dict[str, Callable[..., Any]] = {
    "rcp": np.reciprocal,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": lambda x: np.sin(_radians(x)),
    "cos": lambda x: np.cos(_radians(x)),
    "lg2": np.log2,
    "ex2": np.exp2,
    "tanh": np.tanh,
}


def _approximate(opcode: str, code: str) -> Function:
    compute = APPROXIMATE[opcode]

    def function(out: Array, a: Array) -> None:
        x = np.atleast_1d(a).astype(F64)
        y = compute(x)
        if code == "f64":
            floats.inherit_nan(y, x)
            np.copyto(out, y)
        else:
            np.copyto(out, floats.narrow(y, DTYPES[code], "rn"))
            settle_nans(out, code)

    return function


def _approximate_bf16(opcode: str, ftz: bool) -> Function:
    compute = APPROXIMATE[opcode]

    def function(out: Array, a: Array) -> None:
        x = floats.widen_bf16(a)
        y = compute((floats.flush(x) if ftz else x).astype(F64))
        # bfloat16 and float32 have the same smallest normal number.
        np.copyto(out, floats.narrow_bf16(np.where(np.abs(y) < 2.0**-126, 0.0, y) if ftz else y))

    return function


def _gross(function: Function) -> Function:
    """Return the ``.approx.ftz.f64`` form: only the upper 32 bits of source and result are used."""
    upper = np.uint64(0xFFFFFFFF00000000)

    def cut(out: Array, a: Array) -> None:
        function(out, floats.flush((np.atleast_1d(a).view(np.uint64) & upper).view(F64)))
        np.copyto(out, floats.flush((out.view(np.uint64) & upper).view(F64)))
        out.view(np.uint64)[np.isnan(out)] = floats.NAN_BITS["f32"] << 32

    return cut


def _functions(entries: Table) -> None:
    for opcode in APPROXIMATE:
        for ftz in (False,) if opcode == "tanh" else (False, True):
            function = with_modifiers(_approximate(opcode, "f32"), "f32", ftz)
            put(entries, f"{opcode}.approx" + ".ftz" * ftz, "f32", 1, function)
    for opcode in ("ex2", "tanh"):
        half, brain = _approximate(opcode, "f16"), _approximate_bf16(opcode, opcode == "ex2")
        put(entries, f"{opcode}.approx", "f16", 1, half)
        put(entries, f"{opcode}.approx", "f16x2", 1, in_halves(half, np.float16))
        name = f"{opcode}.approx" + ".ftz" * (opcode == "ex2")
        put(entries, name, "bf16", 1, brain)
        put(entries, name, "bf16x2", 1, in_halves(brain, np.uint16))
    put(entries, "rsqrt.approx", "f64", 1, _approximate("rsqrt", "f64"))
    for opcode in ("rcp", "rsqrt"):
        put(entries, f"{opcode}.approx.ftz", "f64", 1, _gross(_approximate(opcode, "f64")))


def table() -> Table:
    """Return every instruction of this module, by full name."""
    entries: Table = {}
    _division(entries)
    _functions(entries)
    return entries
