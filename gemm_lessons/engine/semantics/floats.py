"""Correct rounding without a fused multiply-add: what floating-point instructions need beyond NumPy's own operators.

The principle is to compute in float64, where products of two float32 are exact, and to keep the sign of the last
addition's error. A float64 whose last bit is set whenever it is inexact ("rounded to odd") rounds to any narrower
format, in any direction, as if the exact value had been rounded once. Source: S. Boldo, G. Melquiond, "Emulation of a
FMA and correctly rounded sums: proved algorithms using rounding to odd", IEEE Transactions on Computers 57(4), 2008; D.
Knuth, TAOCP vol. 2, 4.2.2 (the exact sum).
"""

from __future__ import annotations

import threading
from typing import Any, Literal

import numpy as np

from gemm_lessons.engine.semantics.operation import Array

Mode = Literal["rn", "rz", "rm", "rp"]

F32, F64 = np.float32, np.float64
LOWEST = np.iinfo(np.int64).min
CUT = np.array(35)  # number of bits of a float64 above the low 29
# The canonical NaN of NVIDIA GPUs, as the integer view of each format.
NAN_BITS = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0xFFF8000000000000}
SMALLEST_NORMAL = {np.dtype(t): np.finfo(t).smallest_normal for t in (np.float16, np.float32, np.float64)}


class _Underflow(threading.local):
    """Called by NumPy when a result is tiny and inexact (IEEE underflow); sets ``seen``. See ``float_state``."""

    seen = False

    def __call__(self, error: str, flag: int) -> None:
        self.seen = True


UNDERFLOW = _Underflow()


def float_state() -> np.errstate:
    """Return the floating-point state in which kernels run: no warnings, and underflow is recorded in ``UNDERFLOW``.

    Required around every table function (once per launch, not per instruction). Without it a fused multiply-add whose
    float32 result is subnormal may be rounded twice.
    """
    return np.errstate(all="ignore", under="call", call=UNDERFLOW)


def canonical(out: Array) -> None:
    """Replace every NaN in ``out`` (float32, contiguous, 1-D) by the canonical NaN of NVIDIA GPUs."""
    largest = out.item(out.argmax())  # the cheapest test for any NaN, which NumPy treats as the largest
    if largest != largest:
        out.view(np.uint32)[np.isnan(out)] = NAN_BITS["f32"]


def inherit_nan(out: Array, *sources: Array) -> None:
    """Set every NaN in ``out`` (float64, contiguous, 1-D, not the memory of a source) to the NaN that an H200 returns.

    It is the first of ``sources`` that is NaN, made quiet, or the canonical NaN if none is. The order of the sources is
    that of the hardware instruction, read from an H200: (b, a), (b, c, a) for fma, (a, b) for division.
    """
    total = out.dot(out)
    if total == total:
        return
    bits = np.full(out.shape, NAN_BITS["f64"], np.uint64)
    for source in reversed(sources):
        quiet = np.atleast_1d(source).view(np.uint64) | np.uint64(1 << 51)
        np.copyto(bits, quiet, where=np.isnan(source))
    np.copyto(out.view(np.uint64), bits, where=np.isnan(out))


def flush(x: Array) -> Array:
    """Return a new array for ``.ftz``: subnormal numbers become zeros of the same sign."""
    kept: Array = np.multiply(x, np.abs(x) >= SMALLEST_NORMAL[x.dtype])
    return kept


# ---- exact sums, rounding to odd, narrowing ----


def sum_error(a: Array, b: Array, s: Array) -> Array:
    """Return the exact error of ``s = a + b`` (Knuth's TwoSum): ``a + b == s + error``. NaN if ``s`` is not finite."""
    rest = s - a
    error: Array = (a - (s - rest)) + (b - rest)
    return error


def to_odd(s: Array, error: Array) -> Array:
    """Round ``s + error`` to odd: if inexact, return the neighbour of the exact value whose last bit is set."""
    s = np.atleast_1d(s)
    if not np.count_nonzero(error):
        return s
    lost = np.atleast_1d((error > 0) | (error < 0))
    lost &= (s.view(np.int64) & 1) == 0
    odd: Array = np.where(lost, np.nextafter(s, np.copysign(np.inf, error)), s)
    return odd


def exact_sum(a: Array, b: Array) -> Array:
    """Return ``a + b`` of float64 values, rounded to odd, so that the sum of exact products narrows correctly."""
    s = np.atleast_1d(a + b)
    return to_odd(s, sum_error(a, b, s))


def zero_down(s: Array, a: Array, b: Array) -> Array:
    """Make exact zero sums of opposite terms negative, as rounding down requires (IEEE 754, 6.3)."""
    down: Array = np.where((s == 0) & (np.signbit(a) | np.signbit(b)), -0.0, s)
    return down


def narrow(x: Array, dtype: Any, mode: Mode) -> Array:
    """Round float64 ``x`` once to ``dtype`` (float16, float32) in direction ``mode``."""
    x = np.atleast_1d(x)
    r = x.astype(dtype)
    if mode == "rn":
        return r
    back = r.astype(F64)
    if mode == "rz":
        wrong, towards = np.abs(back) > np.abs(x), 0.0
    elif mode == "rm":
        wrong, towards = back > x, -np.inf
    else:
        wrong, towards = back < x, np.inf
    return np.where(wrong, np.nextafter(r, dtype(towards)), r)


def float32_to_odd(x: Array) -> Array:
    """Return bits (uint32) of float64 ``x`` rounded to odd in float32, which round correctly to bfloat16 and tf32."""
    r = narrow(x, F32, "rz")
    bits = r.view(np.uint32)
    odd: Array = bits | ((r != x) & ~np.isnan(x)).astype(np.uint32)
    return odd


def cut(bits: Array, dropped: int, mode: str) -> Array:
    """Round float32 ``bits`` (uint32) to a format with ``dropped`` fewer fraction bits, left in place (low bits 0).

    ``mode`` is a rounding direction or ``rna`` (nearest, ties away from zero). NaN remains NaN, but not canonical.
    """
    low = np.uint32((1 << dropped) - 1)
    negative = bits >> np.uint32(31)
    if mode == "rn":
        extra: Any = np.uint32((1 << (dropped - 1)) - 1) + ((bits >> np.uint32(dropped)) & np.uint32(1))
    elif mode == "rna":
        extra = np.uint32(1 << (dropped - 1))
    elif mode == "rz":
        extra = np.uint32(0)
    else:
        extra = low * (negative if mode == "rm" else np.uint32(1) - negative)
    special = (bits & np.uint32(0x7F800000)) == np.uint32(0x7F800000)
    rounded: Array = np.where(special, bits, bits + extra) & ~low
    return rounded


def widen_bf16(bits: Array) -> Array:
    """Return bfloat16 bits (uint16) as float32."""
    wide: Array = np.left_shift(np.atleast_1d(bits), 16, dtype=np.uint32).view(F32)
    return wide


def round_to_bf16(x: Array, mode: Mode = "rn") -> Array:
    """Round float32 ``x`` to bfloat16 bits (uint16). NaN becomes canonical."""
    x = np.atleast_1d(x)
    bits = x.view(np.uint32)
    if mode == "rn":
        last = np.right_shift(bits, np.uint32(16))
        np.bitwise_and(last, np.uint32(1), out=last)
        np.add(last, bits, out=last)
        np.add(last, np.uint32(0x7FFF), out=last)
        rounded = np.right_shift(last, np.uint32(16), out=last).astype(np.uint16)
    else:
        rounded = (cut(bits, 16, mode) >> np.uint32(16)).astype(np.uint16)
    total = x.dot(x)
    if total != total:
        rounded[np.isnan(x)] = NAN_BITS["bf16"]
    return rounded


def narrow_bf16(x: Array, mode: Mode = "rn") -> Array:
    """Round float64 ``x`` once to bfloat16 bits (uint16). NaN becomes canonical."""
    rounded = cut(float32_to_odd(x), 16, mode) >> np.uint32(16)
    bits: Array = np.where(np.isnan(x), np.uint16(NAN_BITS["bf16"]), rounded.astype(np.uint16))
    return bits


# ---- fused multiply-add, float32 ----


def midpoints(s: Array, scratch: Array | None = None) -> bool:
    """Return whether any float64 in ``s`` is exactly halfway between two normal float32 numbers.

    ``scratch``: int64, shape of ``s``; with it nothing is allocated. Two passes.
    """
    shifted = np.left_shift(s.view(np.int64), CUT, out=scratch)
    return bool(shifted.item(shifted.argmin()) == LOWEST)


def settle(p: Array, c: Array, s: Array, tiny: bool, scratch: Array | None = None) -> bool:
    """Make ``s = p + c`` (float64, contiguous) safe to round to float32. Return whether ``s`` has changed.

    ``p`` holds exact products of two float32 each, ``c`` float32 values in float64 or float32. Rounding ``s`` again is
    wrong only where ``s`` is inexact and halfway between two float32. For normal results the bit pattern shows this.
    For subnormal results pass ``tiny`` True if casting ``s`` to float32 underflowed (``UNDERFLOW.seen``).
    """
    if not tiny and not midpoints(s, scratch):
        return False
    s[...] = to_odd(s, sum_error(p, c, s)).reshape(s.shape)
    return True


def fix_double_rounding(p: Array, c: Array, s: Array, result: Array, scratch: Array | None = None) -> None:
    """Correct ``result`` = float32(``s``), ``s`` = ``p + c``, where rounding twice was wrong.

    Shapes are equal, any number of dimensions; ``p``, ``s`` float64; ``c`` float32 or float64 and *not* the memory of
    ``result``; ``scratch`` int64 or None. Run the cast ``s -> result`` under ``float_state()`` right before this call:
    it records underflow, which detects subnormal results at no cost. ``s`` is overwritten where it was wrong.
    """
    tiny, UNDERFLOW.seen = UNDERFLOW.seen, False
    if settle(p, c, s, tiny, scratch):
        np.copyto(result, s, casting="unsafe")
        UNDERFLOW.seen = False


class _Rows(threading.local):
    """Scratch rows of ``fma_f32``, per thread: allocating them costs as much as filling them."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[Array, ...]] = {}

    def of(self, lanes: int) -> tuple[Array, ...]:
        """Return four float64 rows, the last one's bits, and another row of int64. Contents are undefined."""
        rows = self.known.get(lanes)
        if rows is None:
            if len(self.known) > 8:
                self.known.clear()
            p, b, c, s = np.empty((4, lanes))
            rows = self.known[lanes] = p, b, c, s, s.view(np.int64), np.empty(lanes, np.int64)
        return rows


ROWS = _Rows()


def fma_f32(out: Array, a: Array, b: Array, c: Array) -> None:
    """Compute ``fma.rn.f32``, correctly rounded. ``out`` may be any of the sources."""
    p, factor, addend, s, bits, shifted = ROWS.of(out.size)
    p[...], factor[...], addend[...] = a, b, c
    np.multiply(p, factor, p)
    np.add(p, addend, s)
    UNDERFLOW.seen = False
    out[...] = s
    np.left_shift(bits, CUT, shifted)
    if UNDERFLOW.seen or shifted.item(shifted.argmin()) == LOWEST:
        np.copyto(out, to_odd(s, sum_error(p, addend, s)), casting="unsafe")
        UNDERFLOW.seen = False
    canonical(out)


def exact_fma(a: Array, b: Array, c: Array, mode: Mode = "rn") -> Array:
    """Return ``a * b + c`` of values with at most 24 significant bits, in float64 rounded to odd, to be narrowed."""
    p = np.multiply(np.atleast_1d(a), b, dtype=F64)
    wide = np.asarray(c, dtype=F64)
    s = exact_sum(p, wide)
    return zero_down(s, p, wide) if mode == "rm" else s
