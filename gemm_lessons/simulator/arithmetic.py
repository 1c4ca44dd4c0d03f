"""Floating-point arithmetic of PTX: add, sub, mul, fma, div, roots, min, max, abs, neg and the approximate functions.

Exact instructions are correctly rounded in every direction. The approximate ones (``.approx``, ``.full``) are computed
in float64 and rounded once, so they are at least as accurate as the hardware's (whose error the PTX manual bounds by
1 to 3 units in the last place), but not bit for bit the same.
Source: NVIDIA, "PTX ISA" 9.0, 9.7.3 to 9.7.5.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from gemm_lessons.simulator import floats
from gemm_lessons.simulator.floats import F32, F64, Mode
from gemm_lessons.simulator.operation import DTYPES, Array, Function, Operation, Table, in_halves

MODES: tuple[Mode, ...] = ("rn", "rz", "rm", "rp")
SIGN = {"f16": np.uint16(0x8000), "bf16": np.uint16(0x8000), "f32": np.uint32(1 << 31), "f64": np.uint64(1 << 63)}
RAW = {"f16": np.uint16, "bf16": np.uint16, "f32": np.uint32, "f64": np.uint64}


def settle_nans(out: Array, code: str) -> None:
    """Canonical NaN for f32, f16, bf16; ``out`` is the row as ``DTYPES[code]``."""
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
    """Add ``.ftz`` (subnormal sources and results become zero), ``.sat`` (clamp to [0, 1], NaN 0), ``.relu``.

    ``exact(*sources)`` is the result in float64, to be rounded in direction ``mode``: see ``flush_result``.
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
    """Flush tiny results to zero, in place. Tiny is what an H200 takes for it: too small to be a normal number once
    rounded to full precision, as if exponents had no end. Rounding to fewer bits can have made the smallest normal
    number of it; then ``exact()``, the float64 to be rounded, tells.
    """
    smallest = floats.SMALLEST_NORMAL[out.dtype]
    doubtful = np.abs(out) == smallest
    if exact is not None and doubtful.any():
        # 2**8 times as large, all numbers in doubt are normal.
        full = floats.narrow(np.atleast_1d(exact()) * 256.0, out.dtype.type, mode)
        tiny = doubtful & (np.abs(full) < smallest * out.dtype.type(256))
        np.copyto(out, np.copysign(out.dtype.type(0), out), where=tiny)
    np.copyto(out, floats.flush(out))


def saturate(out: Array, code: str) -> None:
    """Clamp to [+0, 1]; NaN becomes +0. In place."""
    if code == "bf16":
        np.copyto(out, floats.narrow_bf16(np.clip(np.nan_to_num(floats.widen_bf16(out)), 0, 1).astype(F64)))
    else:
        np.copyto(out, np.where(out > 0, np.fmin(out, out.dtype.type(1)), out.dtype.type(0)))


def rectify(out: Array, code: str) -> None:
    """Negative numbers become +0, NaN the canonical one. In place."""
    negative = out >= SIGN[code] if code == "bf16" else np.signbit(out)
    nan = (out & np.uint16(0x7FFF)) > np.uint16(0x7F80) if code == "bf16" else np.isnan(out)
    np.copyto(out, np.where(negative & ~nan, out.dtype.type(0), out))


# ---- add, sub, mul, fma ----


def _direct(ufunc: Callable[..., Any], code: str) -> Function:
    """NumPy's own operator, which rounds to nearest."""
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
    """The operation on float64 values of at most 24 bits each, rounded to odd."""

    def compute(mode: Mode, a: Array, b: Array, *c: Array) -> Array:
        x, y = np.atleast_1d(a).astype(F64), np.atleast_1d(b).astype(F64)
        if opcode == "mul":
            product: Array = x * y
            return product
        if opcode == "fma":
            return floats.exact_fma(x, y, *c, mode=mode)
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


def _bf16(opcode: str) -> Function:
    compute = _exactly(opcode)

    def function(out: Array, *sources: Array) -> None:
        np.copyto(out, floats.narrow_bf16(compute("rn", *(floats.widen_bf16(source) for source in sources))))

    return function


def _directed_f64(opcode: str, mode: Mode) -> Function:
    """Element by element: float64 has nothing wider to round from. Kernels use these rarely."""

    def one(a: float, b: float, c: float) -> float:
        if opcode == "fma":
            return floats.exact_fma_f64(a, b, c, mode)
        if opcode == "mul":
            # A zero of the product's own sign leaves the product's sign alone.
            return floats.exact_fma_f64(a, b, float(np.copysign(0.0, np.copysign(1.0, a) * np.copysign(1.0, b))), mode)
        if opcode in ("div", "sqrt"):
            return floats.directed_f64(opcode, mode, a, b)
        return floats.exact_fma_f64(a, 1.0, -b if opcode == "sub" else b, mode)

    def function(out: Array, *sources: Array) -> None:
        columns = [np.broadcast_to(source, out.shape).tolist() for source in sources]
        columns += [[0.0] * out.size] * (3 - len(columns))
        r = np.array([one(a, b, c) for a, b, c in zip(*columns, strict=True)])
        floats.inherit_nan(r, *(sources[i] for i in NAN_ORDER[opcode] if i < len(sources)))
        np.copyto(out, r)

    return function


# Which source's NaN survives in f64, by an H200.
NAN_ORDER = {"add": (1, 0), "sub": (1, 0), "mul": (1, 0), "fma": (1, 2, 0), "div": (0, 1), "sqrt": (0,)}
UFUNCS: dict[str, Callable[..., Any]] = {"add": np.add, "sub": np.subtract, "mul": np.multiply}


def rounded(opcode: str, code: str, mode: Mode) -> Function:
    """add, sub, mul or fma of one format in one direction."""
    if code == "bf16":
        return _bf16(opcode)
    if mode == "rn" and opcode in UFUNCS:
        return _direct(UFUNCS[opcode], code)
    if code == "f64":
        return floats.fma_f64 if mode == "rn" else _directed_f64(opcode, mode)
    if code == "f32" and opcode == "fma" and mode == "rn":
        return floats.fma_f32
    return _narrowed(opcode, code, mode)


def _put(entries: Table, name: str, code: str, count: int, function: Function) -> None:
    entries[f"{name}.{code}"] = Operation((code,), (code,) * count, function)


def _basic(entries: Table) -> None:
    for opcode in ("add", "sub", "mul", "fma", "mad"):
        count = 3 if opcode in ("fma", "mad") else 2
        exact = "fma" if opcode == "mad" else opcode
        for mode in MODES:
            names = [f".{mode}"] + ([""] if mode == "rn" and count == 2 else [])
            for direction in names:
                _put(entries, opcode + direction, "f64", count, rounded(exact, "f64", mode))
                for ftz in (False, True):
                    for sat in (False, True):
                        name = opcode + direction + ".ftz" * ftz + ".sat" * sat
                        function = rounded(exact, "f32", mode)
                        wide = functools.partial(_exactly(exact), mode)
                        function = with_modifiers(function, "f32", ftz, sat, exact=wide, mode=mode)
                        _put(entries, name, "f32", count, function)
    for opcode in ("add", "sub", "mul", "fma"):
        count = 3 if opcode == "fma" else 2
        for direction in (".rn",) if opcode == "fma" else (".rn", ""):
            for ftz in (False, True):
                for last in ("", ".sat", ".relu") if opcode == "fma" else ("", ".sat"):
                    function = rounded(opcode, "f16", "rn")
                    exactly = functools.partial(_exactly(opcode), MODES[0])
                    function = with_modifiers(function, "f16", ftz, last == ".sat", last == ".relu", exactly)
                    name = opcode + direction + ".ftz" * ftz + last
                    _put(entries, name, "f16", count, function)
                    _put(entries, name, "f16x2", count, in_halves(function, np.float16))
            for last in ("", ".relu") if opcode == "fma" else ("",):
                function = with_modifiers(rounded(opcode, "bf16", "rn"), "bf16", relu=last == ".relu")
                _put(entries, opcode + direction + last, "bf16", count, function)
                _put(entries, opcode + direction + last, "bf16x2", count, in_halves(function, np.uint16))


# ---- division, reciprocal, square root ----


def _quotient(mode: Mode) -> Function:
    """float32 division. A float64 quotient or root of float32 values lies on the exact one's side of every float32."""

    def function(out: Array, a: Array, b: Array) -> None:
        if mode == "rn":
            np.divide(a, b, out=out)
        else:
            np.copyto(out, floats.narrow(np.divide(a, b, dtype=F64), F32, mode))
        floats.canonical(out)

    return function


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
    """Divisors beyond 2**126 have a reciprocal of zero: the quotient is 0, or NaN for an infinite dividend."""
    divisor = np.where((np.abs(b) > F32(2.0**126)) & np.isfinite(b), np.copysign(F32(np.inf), b), b)
    np.divide(a, divisor, out=out)
    floats.canonical(out)


def _division(entries: Table) -> None:
    for mode in MODES:
        div, sqrt = _quotient(mode), _root(mode)
        for ftz in (False, True):
            name = f".{mode}" + ".ftz" * ftz
            function = with_modifiers(div, "f32", ftz, exact=functools.partial(np.divide, dtype=F64), mode=mode)
            _put(entries, "div" + name, "f32", 2, function)
            inverse = functools.partial(np.divide, F32(1), dtype=F64)
            function = with_modifiers(_reciprocal(div, F32(1)), "f32", ftz, exact=inverse, mode=mode)
            _put(entries, "rcp" + name, "f32", 1, function)
            _put(entries, "sqrt" + name, "f32", 1, with_modifiers(sqrt, "f32", ftz))
        div64 = _divide_f64 if mode == "rn" else _directed_f64("div", mode)
        _put(entries, f"div.{mode}", "f64", 2, div64)
        _put(entries, f"rcp.{mode}", "f64", 1, _reciprocal(div64, F64(1)))
        _put(entries, f"sqrt.{mode}", "f64", 1, _sqrt_f64 if mode == "rn" else _directed_f64("sqrt", mode))
    for ftz in (False, True):
        suffix = ".ftz" * ftz
        _put(entries, "div.approx" + suffix, "f32", 2, with_modifiers(_div_approx, "f32", ftz))
        _put(entries, "div.full" + suffix, "f32", 2, with_modifiers(_quotient("rn"), "f32", ftz))


# ---- approximate functions ----

TURNS_PER_RADIAN = float.fromhex("0x1.45f306p-3")  # float32 nearest to 1 / (2 pi), the hardware's factor


def _radians(x: Array) -> Array:
    """The angle that the hardware takes the sine of: float32 turns, cut off, without whole turns, back in radians.

    Following it keeps sine and cosine of large angles within 4e-7 of an H200's, whose error there has no bound.
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
        # bfloat16 has float32's smallest normal number.
        np.copyto(out, floats.narrow_bf16(np.where(np.abs(y) < 2.0**-126, 0.0, y) if ftz else y))

    return function


def _gross(function: Function) -> Function:
    """``.approx.ftz.f64``: only the upper 32 bits of source and result count."""
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
            _put(entries, f"{opcode}.approx" + ".ftz" * ftz, "f32", 1, function)
    for opcode in ("ex2", "tanh"):
        half, brain = _approximate(opcode, "f16"), _approximate_bf16(opcode, opcode == "ex2")
        _put(entries, f"{opcode}.approx", "f16", 1, half)
        _put(entries, f"{opcode}.approx", "f16x2", 1, in_halves(half, np.float16))
        name = f"{opcode}.approx" + ".ftz" * (opcode == "ex2")
        _put(entries, name, "bf16", 1, brain)
        _put(entries, name, "bf16x2", 1, in_halves(brain, np.uint16))
    _put(entries, "rsqrt.approx", "f64", 1, _approximate("rsqrt", "f64"))
    for opcode in ("rcp", "rsqrt"):
        _put(entries, f"{opcode}.approx.ftz", "f64", 1, _gross(_approximate(opcode, "f64")))


# ---- min, max, abs, neg, copysign ----


def _extreme(minimum: bool, code: str, nan: bool, xorsign: bool) -> Function:
    """min or max: a number beats NaN (``.NaN``: NaN wins), and -0 < +0."""
    propagate = np.minimum if minimum else np.maximum
    ufunc = propagate if nan else np.fmin if minimum else np.fmax
    join = np.bitwise_or if minimum else np.bitwise_and
    raw = RAW[code]
    sign = SIGN[code]

    def function(out: Array, a: Array, b: Array) -> None:
        if xorsign:
            flipped = np.bitwise_xor(np.asarray(a).view(raw), np.asarray(b).view(raw)) & sign
            a, b = np.abs(a), np.abs(b)
        same = np.equal(a, b)
        # Equal numbers have equal bits, but for the two zeros: joining the bits picks the right one.
        joined = join(np.asarray(a).view(raw), np.asarray(b).view(raw)) if same.any() else None
        if code == "f64":
            r = np.array(np.broadcast_to(ufunc(a, b), out.shape))
            floats.inherit_nan(r, b, a)
            np.copyto(out, r)
        else:
            ufunc(a, b, out=out)
        if joined is not None:
            np.copyto(out.view(raw), joined, where=same)
        if xorsign:
            out.view(raw)[...] |= flipped
        if code != "f64":
            settle_nans(out, code)

    return function


def _in_f32(function: Function) -> Function:
    """Run a float32 function, whose results are bfloat16 values if its sources are, on bfloat16 bits."""

    def wide(out: Array, *sources: Array) -> None:
        result = np.empty(out.shape, F32)
        function(result, *(floats.widen_bf16(source) for source in sources))
        np.right_shift(result.view(np.uint32), 16, out=out, casting="unsafe")

    return wide


def _bitwise(opcode: str, code: str) -> Function:
    """abs and neg on the sign bit alone; NaN becomes canonical (in f64 it stays, quiet, with its sign)."""
    raw, sign = RAW[code], SIGN[code]

    def function(out: Array, a: Array) -> None:
        bits = np.atleast_1d(a).view(raw)
        r = bits & ~sign if opcode == "abs" else bits ^ sign
        if code == "f64":
            floats.inherit_nan(r.view(F64), a)
        np.copyto(out.view(raw), r)
        if code != "f64":
            settle_nans(out, code)

    return function


def _copysign(out: Array, a: Array, b: Array) -> None:
    np.copysign(b, a, out=out)


def _signs(entries: Table) -> None:
    for opcode, minimum in (("min", True), ("max", False)):
        for nan in (False, True):
            for xorsign in (False, True):
                suffix = ".NaN" * nan + ".xorsign.abs" * xorsign
                for ftz in (False, True):
                    name = opcode + ".ftz" * ftz + suffix
                    for code in ("f32", "f16"):
                        function = with_modifiers(_extreme(minimum, code, nan, xorsign), code, ftz)
                        _put(entries, name, code, 2, function)
                        if code == "f16":
                            _put(entries, name, "f16x2", 2, in_halves(function, np.float16))
                function = _in_f32(_extreme(minimum, "f32", nan, xorsign))
                _put(entries, opcode + suffix, "bf16", 2, function)
                _put(entries, opcode + suffix, "bf16x2", 2, in_halves(function, np.uint16))
        _put(entries, opcode, "f64", 2, _extreme(minimum, "f64", False, False))
    for opcode in ("abs", "neg"):
        for code in ("f32", "f64", "f16", "bf16"):
            for ftz in (False, True) if code in ("f32", "f16") else (False,):
                function = with_modifiers(_bitwise(opcode, code), code, ftz)
                _put(entries, opcode + ".ftz" * ftz, code, 1, function)
                if code in ("f16", "bf16"):
                    _put(entries, opcode + ".ftz" * ftz, code + "x2", 1, in_halves(function, DTYPES[code]))
    for code in ("f32", "f64"):
        _put(entries, "copysign", code, 2, _copysign)


def table() -> Table:
    """Every floating-point instruction that is not a comparison or a conversion, by full name."""
    entries: Table = {}
    _basic(entries)
    _division(entries)
    _functions(entries)
    _signs(entries)
    return entries
