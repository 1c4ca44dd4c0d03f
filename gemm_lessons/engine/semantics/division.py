"""Division, reciprocal, square root and the approximate functions of PTX.

Exact instructions are correctly rounded in every direction. Approximate ones (``.approx``, ``.full``) are what an H200
makes of them, bit for bit: the special function unit, between multiplications that the compiler adds for operands near
the ends of the range. Only ``rsqrt.approx.f64`` is near, within a unit in the last place. Source: NVIDIA, "PTX ISA"
9.0, 9.7.3 to 9.7.5; machine code of sm_90.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gemm_lessons.engine.semantics import floats, special_functions
from gemm_lessons.engine.semantics.arithmetic import MODES, directed_f64, settle_nans, with_modifiers
from gemm_lessons.engine.semantics.floats import F32, F64, Mode
from gemm_lessons.engine.semantics.operation import Array, Function, Table, in_halves, put


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
    return opcode in SLOW and {"rn", "f32"} <= {*modifiers}


def takes_slow_path(dividend: Array, divisor: Array) -> Array:
    """Return where a division of float32, given as bits, takes its slow path in machine code: the exponents decide
    (read on an H200 for all pairs)."""
    a, b = (((bits >> np.uint32(23)) & np.uint32(0xFF)).astype(np.int32) for bits in (dividend, divisor))
    slow: Array = (a <= 24) | (a == 255) | (b <= 1) | (b >= 252) | (a - b >= 127) | (b - a >= 125)
    return slow


def _is_slow_reciprocal(bits: Array) -> Array:
    exponent = (bits >> np.uint32(23)) & np.uint32(0xFF)
    slow: Array = (exponent == 0) | (exponent >= 253)
    return slow


def _is_slow_root(bits: Array) -> Array:
    slow: Array = (bits < np.uint32(0x0D000000)) | (bits > np.uint32(0x7F7FFFFF))  # also below 0
    return slow


# As ptxas compares the bits before it calls a function.
SLOW: Mapping[str, Callable[..., Array]] = {"div": takes_slow_path, "rcp": _is_slow_reciprocal, "sqrt": _is_slow_root}


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


SMALL, LARGE = F32(2.0**-126), F32(2.0**126)
UP = F32(2.0**24)  # makes every subnormal number normal


def _factors(x: Array, ftz: bool, large: bool) -> Array:
    """Return the powers of two that bring operands into the range of the special function unit."""
    factors = np.where(np.abs(x) > LARGE, F32(0.25), F32(1)) if large else np.ones(np.shape(x), F32)
    return factors if ftz else np.where(np.abs(x) < SMALL, UP, factors)


def _quick_quotient(ftz: bool, full: bool) -> Function:
    """Return ``div.approx`` or ``div.full``: the dividend times a reciprocal. Only ``full`` takes large divisors."""

    def function(out: Array, a: Array, b: Array) -> None:
        factors = _factors(b, ftz, large=full)
        np.multiply(a * factors, special_functions.rcp(np.atleast_1d(b * factors)), out=out)
        floats.canonical(out)

    return function


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
        for name, full in (("div.approx", False), ("div.full", True)):
            put(entries, name + suffix, "f32", 2, with_modifiers(_quick_quotient(ftz, full), "f32", ftz))


# ---- approximate functions ----


def _unit(opcode: str, ftz: bool) -> Function:
    """Return a function of the special function unit. Without ``.ftz``, multiplications before and after it take care
    of subnormal numbers."""
    compute = special_functions.FUNCTIONS[opcode]

    def function(out: Array, a: Array) -> None:
        x = np.atleast_1d(a)
        if ftz or opcode in ("sin", "cos", "tanh"):
            y = compute(x)
        elif opcode == "ex2":
            low = x < F32(-126)
            y = compute(np.where(low, x * F32(0.5), x))
            y = np.where(low, y * y, y)
        else:
            factors = _factors(x, ftz, large=opcode == "rcp")
            y = compute(x * factors)
            up = factors == UP
            match opcode:
                case "rcp":
                    y = y * factors
                case "lg2":
                    y = np.where(up, y + F32(-24), y)
                case "rsqrt":
                    y = np.where(up, y * F32(2.0**12), y)
                case "sqrt":
                    y = np.where(up, y * F32(2.0**-12), y)
        np.copyto(out, y)
        floats.canonical(out)

    return function


def _half(opcode: str) -> Function:
    """Return the form of float16: the float32's result, cut off."""
    compute = special_functions.FUNCTIONS[opcode]

    def function(out: Array, a: Array) -> None:
        y = compute(np.atleast_1d(a).astype(F32))
        np.copyto(out, np.where(y >= 65536, np.inf, floats.narrow(y.astype(F64), np.float16, "rz")))
        settle_nans(out, "f16")

    return function


def _brain(opcode: str) -> Function:
    """Return the form of bfloat16: likewise."""
    compute = special_functions.FUNCTIONS[opcode]

    def function(out: Array, a: Array) -> None:
        np.copyto(out, compute(floats.widen_bf16(a)).view(np.uint32) >> 16)

    return function


def _rsqrt_f64(out: Array, a: Array) -> None:
    x = np.atleast_1d(a)
    y = 1 / np.sqrt(x)
    floats.inherit_nan(y, x)
    np.copyto(out, y)


def _upper_half(opcode: str) -> Function:
    """Return the ``.approx.ftz.f64`` form: the unit sees the sign, the exponent and 20 bits of the fraction."""
    compute = special_functions.FUNCTIONS[opcode]
    upper = np.uint64(0xFFFFFFFF00000000)

    def function(out: Array, a: Array) -> None:
        x = floats.flush((np.atleast_1d(a).view(np.uint64) & upper).view(F64))
        fraction, exponent = np.frexp(x)
        odd = exponent & 1 if opcode == "rsqrt" else 0
        power = (exponent - odd) // (2 if opcode == "rsqrt" else 1)
        y = np.ldexp(compute(np.ldexp(fraction, odd).astype(F32)).astype(F64), -power)
        np.copyto(out, floats.flush((y.view(np.uint64) & upper).view(F64)))
        out.view(np.uint64)[np.isnan(out)] = floats.NAN_BITS["f32"] << 32

    return function


def _functions(entries: Table) -> None:
    for opcode in special_functions.FUNCTIONS:
        for ftz in (False,) if opcode == "tanh" else (False, True):
            put(entries, f"{opcode}.approx" + ".ftz" * ftz, "f32", 1, _unit(opcode, ftz))
    for opcode in ("ex2", "tanh"):
        half, brain = _half(opcode), _brain(opcode)
        put(entries, f"{opcode}.approx", "f16", 1, half)
        put(entries, f"{opcode}.approx", "f16x2", 1, in_halves(half, np.float16))
        name = f"{opcode}.approx" + ".ftz" * (opcode == "ex2")
        put(entries, name, "bf16", 1, brain)
        put(entries, name, "bf16x2", 1, in_halves(brain, np.uint16))
    put(entries, "rsqrt.approx", "f64", 1, _rsqrt_f64)
    for opcode in ("rcp", "rsqrt"):
        put(entries, f"{opcode}.approx.ftz", "f64", 1, _upper_half(opcode))


def table() -> Table:
    """Return every instruction of this module, by full name."""
    entries: Table = {}
    _division(entries)
    _functions(entries)
    return entries
