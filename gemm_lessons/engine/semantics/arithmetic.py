"""Floating-point add, sub, mul, fma of PTX in every format and direction, and the modifiers .ftz, .sat, .relu.

Source: NVIDIA, "PTX ISA" 9.0, 9.7.3 to 9.7.5. Behaviour that it leaves open (NaN bits, the threshold of ``.ftz``)
is that of an H200.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from gemm_lessons.engine.semantics import doubles, floats
from gemm_lessons.engine.semantics.floats import F32, F64, Mode
from gemm_lessons.engine.semantics.operation import DTYPES, Array, Function, Table, in_halves, put

MODES: tuple[Mode, ...] = ("rn", "rz", "rm", "rp")
SIGN = {"f16": np.uint16(0x8000), "bf16": np.uint16(0x8000), "f32": np.uint32(1 << 31), "f64": np.uint64(1 << 63)}


def settle_nans(out: Array, code: str) -> None:
    """Make the NaNs of f32, f16 and bf16 canonical, in place. ``out`` is the row as ``DTYPES[code]``."""
    if code == "f32":
        floats.canonical(out)
    elif code == "f16":
        out.view(np.uint16)[np.isnan(out)] = floats.NAN_BITS["f16"]
    else:
        out[(out & np.uint16(0x7FFF)) > np.uint16(0x7F80)] = floats.NAN_BITS["bf16"]


# ---- modifiers, as wrappers ----


def with_modifiers(
    function: Function,
    code: str,
    ftz: bool = False,
    sat: bool = False,
    relu: bool = False,
    exact: Callable[..., Array] | None = None,
    mode: Mode = "rn",
) -> Function:
    """Return ``function`` with ``.ftz`` (subnormal sources and results become zero), ``.sat`` (clamp to [0, 1], NaN to
    0) and ``.relu``.

    ``exact(*sources)`` returns the result in float64, to be rounded in direction ``mode``: see ``flush_result``.
    """
    if not (ftz or sat or relu):
        return function

    def modified(out: Array, *sources: Array) -> None:
        sources = tuple(floats.flush(source) for source in sources) if ftz else sources
        function(out, *sources)
        if ftz:
            flush_result(out, None if exact is None else lambda: exact(*sources), mode)
        if sat:
            saturate(out, code)
        if relu:
            rectify(out, code)

    return modified


def flush_result(out: Array, exact: Callable[[], Array] | None, mode: Mode) -> None:
    """Flush tiny results to zero, in place. As on an H200, a result is tiny if it is below the smallest normal number
    when rounded to full precision with unbounded exponents. Rounding to fewer bits may have rounded such a result up to
    the smallest normal number; then ``exact()``, the float64 before rounding, decides."""
    smallest = floats.SMALLEST_NORMAL[out.dtype]
    doubtful = np.abs(out) == smallest
    if exact is not None and doubtful.any():
        # Scaled by 2**8, all numbers in question are normal.
        full = floats.narrow(np.atleast_1d(exact()) * 256.0, out.dtype.type, mode)
        tiny = doubtful & (np.abs(full) < smallest * out.dtype.type(256))
        np.copyto(out, np.copysign(out.dtype.type(0), out), where=tiny)
    np.copyto(out, floats.flush(out))


def saturate(out: Array, code: str) -> None:
    """Clamp to [+0, 1], in place. NaN becomes +0."""
    if code == "bf16":
        np.copyto(out, floats.narrow_bf16(np.clip(np.nan_to_num(floats.widen_bf16(out)), 0, 1).astype(F64)))
    else:
        np.copyto(out, np.where(out > 0, np.fmin(out, out.dtype.type(1)), out.dtype.type(0)))


def rectify(out: Array, code: str) -> None:
    """Set negative numbers to +0, in place. NaN is kept."""
    negative = out >= SIGN[code] if code == "bf16" else np.signbit(out)
    nan = (out & np.uint16(0x7FFF)) > np.uint16(0x7F80) if code == "bf16" else np.isnan(out)
    np.copyto(out, np.where(negative & ~nan, out.dtype.type(0), out))


# ---- add, sub, mul, fma ----


def _direct(ufunc: Callable[..., Any], code: str) -> Function:
    """Return NumPy's own operator, which rounds to nearest."""
    if code == "f64":

        def double(out: Array, a: Array, b: Array) -> None:
            r = np.atleast_1d(ufunc(a, b))
            floats.inherit_nan(r, b, a)
            np.copyto(out, r)

        return double
    if code == "f32":

        def single(out: Array, a: Array, b: Array) -> None:
            ufunc(a, b, out=out)
            floats.canonical(out)

        return single

    def half(out: Array, a: Array, b: Array) -> None:
        ufunc(a, b, out=out)
        settle_nans(out, "f16")

    return half


def _exactly(opcode: str) -> Callable[..., Array]:
    """Return the operation on float64 values of at most 24 bits each, rounded to odd."""

    def compute(mode: Mode, a: Array, b: Array, *c: Array) -> Array:
        x, y = np.atleast_1d(a).astype(F64), np.atleast_1d(b).astype(F64)
        if opcode == "mul":
            product: Array = x * y
            return product
        if opcode == "fma":
            return floats.exact_fma(x, y, c[0], mode=mode)
        y = -y if opcode == "sub" else y
        s = floats.exact_sum(x, y)
        return floats.zero_down(s, x, y) if mode == "rm" else s

    return compute


def _narrowed(opcode: str, code: str, mode: Mode) -> Function:
    compute = _exactly(opcode)

    def function(out: Array, *sources: Array) -> None:
        np.copyto(out, floats.narrow(compute(mode, *sources), DTYPES[code], mode))
        settle_nans(out, code)

    return function


def _fma_f16(out: Array, a: Array, b: Array, c: Array) -> None:
    """Compute ``fma.rn.f16``: a sum below 32 is exact in float64, larger ones need its rounding error at halfway."""
    p = np.multiply(a.astype(F64), b.astype(F64))
    addend = c.astype(F64)
    s = np.atleast_1d(np.add(p, addend))
    if not (s.max() < 32 and s.min() > -32):
        s = floats.to_odd(s, floats.sum_error(p, addend, s))
    np.copyto(out, s, casting="unsafe")
    settle_nans(out, "f16")


def _bf16(opcode: str) -> Function:
    """Return a bfloat16 operation computed in float32, which is wide enough that rounding twice is harmless (24 >= 2 *
    8 + 2 bits).

    The exceptions are subnormal products, and fma where the float32 result is halfway between two bfloat16.
    """
    compute = _exactly(opcode)

    def function(out: Array, *sources: Array) -> None:
        wide = [floats.widen_bf16(source) for source in sources]
        if opcode == "fma":
            s = np.add(np.multiply(wide[0], wide[1], dtype=F64), wide[2])
            r = s.astype(F32)
            unsure = (r.view(np.uint32) & np.uint32(0xFFFF)) == np.uint32(0x8000)
        else:
            r = UFUNCS[opcode](wide[0], wide[1])
            unsure = (np.abs(r) < 2.0**-126) & (r != 0) if opcode == "mul" else np.False_
        result = floats.round_to_bf16(r)
        if unsure.any():
            where = np.flatnonzero(unsure)
            few = (np.broadcast_to(x, r.shape)[where] for x in wide)
            result[where] = floats.narrow_bf16(compute("rn", *few))
        np.copyto(out, result)

    return function


def directed_f64(opcode: str, mode: Mode) -> Function:
    """Return a float64 operation in direction ``mode``, by error-free transforms, because there is no wider format.
    Elements for which those fail are computed one by one."""

    def one(a: float, b: float, c: float) -> float:
        if opcode == "fma":
            return doubles.exact_fma_f64(a, b, c, mode)
        if opcode == "mul":
            # Adding a zero of the product's sign keeps the product's sign.
            return doubles.exact_fma_f64(a, b, float(np.copysign(0.0, np.copysign(1.0, a) * np.copysign(1.0, b))), mode)
        if opcode in ("div", "sqrt"):
            return doubles.directed_f64(opcode, mode, a, b)
        return doubles.exact_fma_f64(a, 1.0, -b if opcode == "sub" else b, mode)

    def function(out: Array, *sources: Array) -> None:
        r, unsure = doubles.directed(opcode, mode, *(np.broadcast_to(source, out.shape) for source in sources))
        if unsure.any():
            columns = [np.broadcast_to(source, out.shape)[unsure].tolist() for source in sources]
            columns += [[0.0] * len(columns[0])] * (3 - len(columns))
            r[unsure] = [one(a, b, c) for a, b, c in zip(*columns, strict=True)]
        floats.inherit_nan(r, *(sources[i] for i in NAN_ORDER[opcode] if i < len(sources)))
        np.copyto(out, r)

    return function


# The source whose NaN an f64 result keeps, on an H200.
NAN_ORDER = {"add": (1, 0), "sub": (1, 0), "mul": (1, 0), "fma": (1, 2, 0), "div": (0, 1), "sqrt": (0,)}
SCALED = {"d2": 0.5, "d4": 0.25, "d8": 0.125, "m2": 2.0, "m4": 4.0, "m8": 8.0}
UFUNCS: dict[str, Callable[..., Any]] = {"add": np.add, "sub": np.subtract, "mul": np.multiply}


def rounded(opcode: str, code: str, mode: Mode) -> Function:
    """Return add, sub, mul or fma of one format in one direction."""
    if code == "bf16":
        return _bf16(opcode)
    if mode == "rn" and opcode in UFUNCS:
        return _direct(UFUNCS[opcode], code)
    if code == "f64":
        return doubles.fma_f64 if mode == "rn" else directed_f64(opcode, mode)
    if opcode == "fma" and mode == "rn":
        return floats.fma_f32 if code == "f32" else _fma_f16
    return _narrowed(opcode, code, mode)


def scaled() -> Table:
    """Return ``mul.d2.f32`` and similar operations, which exist only in machine code (``FMUL.D2``): a product divided
    (d2) or multiplied (m2) by a power of two and rounded once, as on an H200 also for tiny and huge results
    (``checks/readings/simulator/scaled.json``)."""
    entries: Table = {}
    for name, power in SCALED.items():
        exact = functools.partial(_scaled, power)
        for ftz in (False, True):
            for sat in (False, True):
                function = with_modifiers(functools.partial(_once, exact), "f32", ftz, sat, exact=exact)
                put(entries, f"mul.{name}" + ".ftz" * ftz + ".sat" * sat, "f32", 2, function)
    return entries


def _scaled(power: float, a: Array, b: Array) -> Array:
    product: Array = np.atleast_1d(a).astype(F64) * np.atleast_1d(b).astype(F64) * power
    return product


def _once(exact: Callable[..., Array], out: Array, a: Array, b: Array) -> None:
    np.copyto(out, floats.narrow(exact(a, b), F32, "rn"))
    settle_nans(out, "f32")


def _basic(entries: Table) -> None:
    for opcode in ("add", "sub", "mul", "fma", "mad"):
        count = 3 if opcode in ("fma", "mad") else 2
        exact = "fma" if opcode == "mad" else opcode
        for mode in MODES:
            names = [f".{mode}"] + ([""] if mode == "rn" and count == 2 else [])
            for direction in names:
                put(entries, opcode + direction, "f64", count, rounded(exact, "f64", mode))
                for ftz in (False, True):
                    for sat in (False, True):
                        name = opcode + direction + ".ftz" * ftz + ".sat" * sat
                        function = rounded(exact, "f32", mode)
                        wide = functools.partial(_exactly(exact), mode)
                        function = with_modifiers(function, "f32", ftz, sat, exact=wide, mode=mode)
                        put(entries, name, "f32", count, function)
    for opcode in ("add", "sub", "mul", "fma"):
        count = 3 if opcode == "fma" else 2
        for direction in (".rn",) if opcode == "fma" else (".rn", ""):
            for ftz in (False, True):
                for last in ("", ".sat", ".relu") if opcode == "fma" else ("", ".sat"):
                    function = rounded(opcode, "f16", "rn")
                    exactly = functools.partial(_exactly(opcode), MODES[0])
                    function = with_modifiers(function, "f16", ftz, last == ".sat", last == ".relu", exactly)
                    name = opcode + direction + ".ftz" * ftz + last
                    put(entries, name, "f16", count, function)
                    put(entries, name, "f16x2", count, in_halves(function, np.float16))
            for last in ("", ".relu") if opcode == "fma" else ("",):
                function = with_modifiers(rounded(opcode, "bf16", "rn"), "bf16", relu=last == ".relu")
                put(entries, opcode + direction + last, "bf16", count, function)
                put(entries, opcode + direction + last, "bf16x2", count, in_halves(function, np.uint16))


def table() -> Table:
    """Return every instruction of this module, by full name."""
    entries: Table = {}
    _basic(entries)
    return entries
