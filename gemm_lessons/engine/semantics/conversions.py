"""``cvt`` between all integer and floating-point types, plain ``mov`` of a register, and ``cvta``.

A float is clamped to the range of an integer destination, and NaN becomes ``nan_to_integer``. Integers are clamped with
``.sat`` only. Source: NVIDIA, "PTX ISA" 9.0, 9.7.9 (cvt); the NaN rule is in its integer notes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gemm_lessons.engine.semantics import floats
from gemm_lessons.engine.semantics.arithmetic import MODES, flush_result, rectify, saturate, settle_nans
from gemm_lessons.engine.semantics.floats import F32, F64, Mode
from gemm_lessons.engine.semantics.operation import DTYPES, Array, Function, Operation, Table

INTEGERS = tuple(f"{sign}{bits}" for bits in (8, 16, 32, 64) for sign in "us")
FLOATS = ("f16", "bf16", "f32", "f64")
WIDTHS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}
FRACTIONS = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}
TO_INTEGRAL: dict[str, Callable[..., Any]] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def limits(code: str) -> tuple[int, int]:
    """Return the smallest and the largest value of an integer type."""
    bits = int(code[1:])
    return (0, (1 << bits) - 1) if code[0] == "u" else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def is_exact(source: str, target: str) -> bool:
    """Tell whether every number of one format is a number of the other."""
    return FRACTIONS[target] >= FRACTIONS[source] and (source, target) != ("bf16", "f16")


def nan_to_integer(source: str, target: str) -> int:
    """Return the integer for NaN: 0, or only the top bit set if either type has 64 bits."""
    if source != "f64" and target not in ("s64", "u64"):
        return 0
    low, high = limits(target)
    return low if target[0] == "s" else (high >> 1) + 1


def _put_integer(out: Array, x: Array, target: str) -> None:
    """Write ``x`` (integers in range, or to be truncated). 8-bit types extend to the register that ``out`` views."""
    np.copyto(out, x.astype(DTYPES[target]) if target[1:] == "8" else x, casting="unsafe")


# ---- integers ----


def _integer(target: str, source: str, sat: bool) -> Function:
    small = source[1:] == "8"
    low, high = limits(target)
    low, high = max(low, limits(source)[0]), min(high, limits(source)[1])

    def function(out: Array, a: Array) -> None:
        x = np.asarray(a).astype(DTYPES[source]) if small else np.asarray(a)
        _put_integer(out, np.clip(x, x.dtype.type(low), x.dtype.type(high)) if sat else x, target)

    return function


def _integer_to_float(target: str, source: str, mode: Mode, sat: bool) -> Function:
    dtype = DTYPES[source]

    def exact(x: Array) -> Array:
        """Return a float64 from which one rounding is correct. 64-bit integers are rounded to odd."""
        if x.dtype.itemsize < 8:
            return x.astype(F64)
        upper = (x >> x.dtype.type(32)).astype(F64) * 2.0**32
        return floats.exact_sum(upper, (x & x.dtype.type(0xFFFFFFFF)).astype(F64))

    def function(out: Array, a: Array) -> None:
        x = np.atleast_1d(a)
        x = x.astype(dtype) if dtype().itemsize == 1 else x
        if mode == "rn" and target in ("f32", "f64"):
            np.copyto(out, x, casting="unsafe")
        elif target == "bf16":
            np.copyto(out, floats.narrow_bf16(exact(x), mode))
        elif target == "f64":
            np.copyto(out, _directed_to_f64(x, mode))
        else:
            np.copyto(out, floats.narrow(exact(x), DTYPES[target], mode))
        if sat:
            saturate(out, target)

    return function


def _directed_to_f64(x: Array, mode: Mode) -> Array:
    if x.dtype.itemsize < 8:
        return x.astype(F64)
    upper = (x >> x.dtype.type(32)).astype(F64) * 2.0**32
    lower = (x & x.dtype.type(0xFFFFFFFF)).astype(F64)
    s = upper + lower
    error = floats.sum_error(upper, lower, s)
    if mode == "rz":
        rounded: Array = np.where(error * np.sign(s) < 0, np.nextafter(s, 0.0), s)
    elif mode == "rm":
        rounded = np.where(error < 0, np.nextafter(s, -np.inf), s)
    else:
        rounded = np.where(error > 0, np.nextafter(s, np.inf), s)
    return rounded


def _float_to_integer(target: str, source: str, direction: str, ftz: bool) -> Function:
    low, high = limits(target)
    nan = nan_to_integer(source, target)
    wide = DTYPES[target] if target[1:] == "64" else np.int64
    # The first float64 that is too large, and the first that is not too small. Both are exact: powers of two, or zero.
    beyond, lowest = float(high + 1), float(low)
    integral = TO_INTEGRAL[direction]

    def function(out: Array, a: Array) -> None:
        x = floats.widen_bf16(a) if source == "bf16" else np.atleast_1d(a)
        x = floats.flush(x) if ftz else x
        x = integral(x.astype(F64))
        inside = (x >= lowest) & (x < beyond)
        result = x.astype(wide)
        if not inside.all():
            result = np.where(inside, result, np.where(x < 0, wide(low), wide(high)))
            result = np.where(np.isnan(x), wide(nan), result)
        _put_integer(out, result, target)

    return function


# ---- floats ----


def _widened(a: Array, source: str) -> Array:
    return (floats.widen_bf16(a) if source == "bf16" else np.atleast_1d(a)).astype(F64)


def _nans(a: Array, source: str, target: str, ftz: bool) -> tuple[Array, Array] | None:
    """Return where the source is NaN, and an H200's result there (raw bits of the target); None if there is no NaN.

    f64 to f64, and f32 to f32 without ``.ftz``, move the bits. Other conversions to and from f64, and bf16 to f32, keep
    sign and payload as far as they fit (with ``.ftz`` from f32 to f64, those of the canonical NaN of f32). All others
    give the canonical NaN.
    """
    number = floats.widen_bf16(a) if source == "bf16" else np.atleast_1d(a)
    if source != "f16":
        total = number.dot(number)  # NaN only if some element is
        if total == total:
            return None
    where = np.isnan(number)
    if not where.any():
        return None
    raw = DTYPES["b" + str(WIDTHS[target])]
    bits = np.broadcast_to(np.atleast_1d(a), where.shape)[where].view(DTYPES["b" + str(WIDTHS[source])])
    if source == target and (source == "f64" or (source == "f32" and not ftz)):
        return where, bits  # a plain move
    if ftz and target == "f64":
        bits = np.full_like(bits, floats.NAN_BITS[source])
    if "f64" not in (source, target) and (source, target) != ("bf16", "f32"):
        return where, np.full(bits.shape, floats.NAN_BITS[target], raw)
    wide = bits.astype(np.uint64)
    top = np.uint64(WIDTHS[source] - 1)
    payload = wide & np.uint64((1 << FRACTIONS[source]) - 1)
    shift = FRACTIONS[target] - FRACTIONS[source]
    payload = payload << np.uint64(shift) if shift >= 0 else payload >> np.uint64(-shift)
    quiet = 0 if (source, target) == ("bf16", "f32") else 1 << (FRACTIONS[target] - 1)
    exponent = (1 << (WIDTHS[target] - 1)) - (1 << FRACTIONS[target])
    sign = (wide >> top) << np.uint64(WIDTHS[target] - 1)
    return where, (sign | np.uint64(exponent | quiet) | payload).astype(raw)


def _float(target: str, source: str, mode: Mode, modifiers: str = "") -> Function:
    ftz, sat, relu = (modifier in modifiers for modifier in (".ftz", ".sat", ".relu"))

    def function(out: Array, a: Array) -> None:
        if ftz and source == "f32" and target != "f16":
            a = floats.flush(a)
        nan = _nans(a, source, target, ftz)
        wide = _widened(a, source) if ftz else a
        if target == "bf16":
            rounded = (
                floats.round_to_bf16(a, mode) if source == "f32" else floats.narrow_bf16(_widened(a, source), mode)
            )
            np.copyto(out, rounded)
        elif mode == "rn":
            np.copyto(out, floats.widen_bf16(a) if source == "bf16" else a, casting="unsafe")
        else:
            np.copyto(out, floats.narrow(_widened(a, source), DTYPES[target], mode))
        if nan is not None:
            where, bits = nan
            out.view(bits.dtype)[np.broadcast_to(where, out.shape)] = bits
        if ftz and target == "f32":
            flush_result(out, lambda: wide, mode)
        if sat:
            saturate(out, target)
        if relu:
            rectify(out, target)

    return function


def _integral(code: str, direction: str, ftz: bool, sat: bool) -> Function:
    """Return rounding to an integral value of the same format. The sign of zero is kept."""
    compute = TO_INTEGRAL[direction]

    def function(out: Array, a: Array) -> None:
        x = floats.widen_bf16(a) if code == "bf16" else np.atleast_1d(a)
        x = compute(floats.flush(x) if ftz else x)
        if code == "f64":
            floats.inherit_nan(x, a)
        np.copyto(out, floats.narrow_bf16(x.astype(F64)) if code == "bf16" else x)
        if code != "f64":
            settle_nans(out, code)
        if sat:
            saturate(out, code)

    return function


def _packed(half: str, mode: Mode, relu: bool) -> Function:
    """Return the conversion of two float32 into one register. The first source is the upper half."""
    convert = _float(half, "f32", mode, ".relu" * relu)

    def function(out: Array, a: Array, b: Array) -> None:
        pair = np.empty((out.size, 2), DTYPES[half])
        for column, source in ((1, a), (0, b)):
            row = np.empty(out.shape, DTYPES[half])
            convert(row, source)
            pair[:, column] = row
        np.copyto(out, pair.view(np.uint32)[:, 0])

    return function


def _tf32(mode: str, relu: bool) -> Function:
    def function(out: Array, a: Array) -> None:
        bits = np.broadcast_to(np.atleast_1d(a), out.shape).view(np.uint32)
        nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
        np.copyto(out, floats.cut(bits, 13, mode))
        if mode != "rna":  # .rna only truncates a NaN's low bits, as on an H200
            out[nan] = np.uint32(0x7FFFE000)
        if relu:
            rectify(out.view(F32), "f32")

    return function


# ---- moves ----


def _copy(out: Array, a: Array) -> None:
    np.copyto(out, a)


def _moves(entries: Table) -> None:
    for code in ("pred", *(f"{t}{bits}" for bits in (16, 32, 64) for t in "busf" if f"{t}{bits}" != "f16")):
        entries[f"mov.{code}"] = Operation((code,), (code,), _copy)
    for space in ("", ".global", ".shared", ".local", ".const", ".param"):
        for to in ("", ".to") if space else ("",):
            for code in ("u32", "u64"):
                if space:
                    entries[f"cvta{to}{space}.{code}"] = Operation((code,), (code,), _copy)


def _between_floats(entries: Table) -> None:
    for target in FLOATS:
        for source in FLOATS:
            exact = is_exact(source, target)
            modes: tuple[Mode | None, ...] = (None,) if exact else MODES
            for mode in modes:
                direction = f".{mode}" if mode else ""
                relu = source == "f32" and target in ("f16", "bf16") and mode in ("rn", "rz")
                flushes = "f32" in (target, source) and "bf16" not in (target, source)
                saturates = "bf16" not in (target, source)
                suffixes = ["", *[".relu"] * relu, *[".ftz"] * flushes, *[".sat"] * saturates]
                suffixes += [".ftz.sat"] * (flushes and saturates)
                for suffix in suffixes:
                    function = _float(target, source, mode or "rn", suffix)
                    entries[f"cvt{direction}{suffix}.{target}.{source}"] = Operation((target,), (source,), function)


def table() -> Table:
    """Return every conversion and plain move, by full name."""
    entries: Table = {}
    _moves(entries)
    for target in INTEGERS:
        for source in INTEGERS:
            (low, high), (least, most) = limits(target), limits(source)
            fits = low <= least and most <= high
            for saturates in (False,) if fits else (False, True):
                name = f"cvt{'.sat' * saturates}.{target}.{source}"
                entries[name] = Operation((target,), (source,), _integer(target, source, saturates))
        for source in FLOATS:
            for direction in TO_INTEGRAL:
                for ftz in (False, True) if source == "f32" else (False,):
                    function = _float_to_integer(target, source, direction, ftz)
                    for suffix in ("",) if source == "bf16" else ("", ".sat"):
                        name = f"cvt.{direction}{'.ftz' * ftz}{suffix}.{target}.{source}"
                        entries[name] = Operation((target,), (source,), function)
    for target in FLOATS:
        for source in INTEGERS:
            for mode in MODES:
                for sat in (False, True) if target != "bf16" else (False,):
                    function = _integer_to_float(target, source, mode, sat)
                    entries[f"cvt.{mode}{'.sat' * sat}.{target}.{source}"] = Operation((target,), (source,), function)
    _between_floats(entries)
    for code in FLOATS:
        for direction in TO_INTEGRAL:
            for ftz in (False, True) if code == "f32" else (False,):
                for sat in (False, True) if code != "bf16" else (False,):
                    name = f"cvt.{direction}{'.ftz' * ftz}{'.sat' * sat}.{code}.{code}"
                    entries[name] = Operation((code,), (code,), _integral(code, direction, ftz, sat))
    packed: tuple[Mode, ...] = ("rn", "rz")
    for relu in (False, True):
        last = ".relu" * relu
        for mode in packed:
            for half in ("f16", "bf16"):
                function = _packed(half, mode, relu)
                entries[f"cvt.{mode}{last}.{half}x2.f32"] = Operation((f"{half}x2",), ("f32", "f32"), function)
            entries[f"cvt.{mode}{last}.tf32.f32"] = Operation(("b32",), ("f32",), _tf32(mode, relu))
    entries["cvt.rna.tf32.f32"] = Operation(("b32",), ("f32",), _tf32("rna", False))
    return entries
