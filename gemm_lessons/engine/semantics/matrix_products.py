"""What a matrix instruction (``mma``, ``wmma.mma``, ``wgmma``) computes: d = a b + c, for many fragments at once.

Integers wrap (or saturate); float64 is a chain of fused multiply-adds in the order of k. All other types are summed as
on an H200. The model was found by fitting its answers (checks/readings/simulator/fragments.json):
- The products are exact. All products and c are truncated, towards zero, at the 25th bit below the largest of their
  exponents. The exponent of a product is the sum of its factors' exponents; a subnormal number has the exponent of the
  smallest normal one; the largest exponent is at least -133, or -21 for sums in float16.
- The sum of the truncated terms is exact. It is truncated towards zero to float32, or rounded to nearest even to
  float16. No zero is negative.
- fp8 is computed in float16: the products of the first two of every four k, then the others; then c is added by an
  ordinary addition. ``wgmma`` multiplies fp8 itself: it keeps 13 bits below the largest exponent, and cuts
  the sum in float32 to 13 bits of fraction.
Other architectures sum fewer products at once, or keep fewer bits (F. A. Khattak, M. Mikaitis, "Accurate Models of
NVIDIA Tensor Cores", 2025); they are not modelled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.encodings import EXPONENTS, decode
from gemm_lessons.engine.semantics.doubles import fma_f64

# PTX's name of a type -> dtype in which elements are stored.
STORED: Mapping[str, str] = {
    "f64": "f8", "f32": "f4", "tf32": "u4", "f16": "f2", "bf16": "u2", "e4m3": "u1", "e5m2": "u1",
    "s8": "i1", "u8": "u1", "s32": "i4",
}  # fmt: skip
KEPT = 25  # bits below the largest exponent
KEPT_FP8 = 13  # of wgmma in fp8, and bits of fraction of its sums
LEAST_FP8 = {"e4m3": -6, "e5m2": -14}  # exponent of the smallest normal number
FP8_SUM = np.uint32(0xFFFFFFFF << 23 - KEPT_FP8 & 0xFFFFFFFF)  # the bits that such a sum keeps
LEAST: Mapping[str, Any] = {"f32": np.int16(-133), "f16": np.int16(-21)}  # lower bounds of the largest exponent
AT_ONCE = 1 << 16  # products per pass, so that they stay in a core's cache
IN_THREAD = 1 << 18  # multiply-adds: the largest product that OpenBLAS computes in the calling thread
TF32_BITS = np.uint32(0xFFFFE000)  # the bits that are used
NAN = {"f32": np.uint32(0x7FFFFFFF).view(np.float32), "f16": np.uint16(0x7FFF).view(np.float16)}
TOO_LARGE = 2.0**128  # overflows float32
SMALLEST = 2.0**-126  # the smallest normal number of float32
F32_BITS = np.uint64(0xFFFFFFFFE0000000)  # the bits of a float64 that float32 has, too, if both are normal
# Bits of the fraction, mask of the exponent to their left, and its bias.
_FIELDS: Mapping[str, tuple[Any, Any, int]] = {
    "f32": (np.uint32(23), np.uint32(0xFF), 127),
    "f16": (np.uint16(10), np.uint16(0x1F), 15),
}
ZERO, INFINITE = -2000, 2000  # exponents: the sum of two exponents of finite numbers is between them
MODERATE = 48  # exponents up to this, and down to its negative, are moderate
TINY = np.int16(-100)  # the exponent of a number that is truncated to 0


def supported(d: str, a: str, b: str, c: str) -> bool:
    """Return whether products of these types are supported."""
    if c != d:
        return False
    if {a, b} <= {"s8", "u8"}:
        return d == "s32"
    if {a, b} <= {"e4m3", "e5m2"}:
        return d == "f32"
    return (a, b, d) in {
        ("f64", "f64", "f64"), ("tf32", "tf32", "f32"), ("bf16", "bf16", "f32"), ("f16", "f16", "f32"),
        ("f16", "f16", "f16"),
    }  # fmt: skip


def multiply(types: tuple[str, str, str], a: Array, b: Array, c: Array, *, saturate: bool = False) -> Array:
    """Compute d for ``a`` (fragments, m, k), ``b`` (fragments, k, n), ``c`` (fragments, m, n); all as stored.

    ``types``: of d and c, of a, of b. Never raises; the caller silences floating-point flags.
    """
    d, of_a, of_b = types
    if d == "s32":
        products = _matmul(a.astype(np.float32), b.astype(np.float32)).astype(np.int32)  # of few k: exact, below 2^24
        if not saturate:
            return np.add(products, c)
        return np.clip(np.add(products, c, dtype=np.int64), -(2**31), 2**31 - 1).astype(np.int32)
    if d == "f64":
        return _chain(a, b, c)
    if of_a not in ("e4m3", "e5m2"):
        return _in_parts(d, _Factor.of(of_a, a), _Factor.of(of_b, b), c, KEPT)
    result = np.empty_like(c)
    for part in _parts(c, a.shape[2]):
        result[part] = _of_float8(of_a, of_b, a[part], b[part[0]], c[part])
    return result


def multiply_async(types: tuple[str, str, str], a: Array, b: Array, c: Array, *, saturate: bool = False) -> Array:
    """Compute d as ``wgmma`` does: like ``multiply``, but for fp8, which is not converted."""
    d, of_a, of_b = types
    if of_a not in ("e4m3", "e5m2"):
        return multiply(types, a, b, c, saturate=saturate)
    result = _in_parts(d, _Factor.of_float8(of_a, a), _Factor.of_float8(of_b, b), c, KEPT_FP8)
    if d == "f32":
        finite = np.isfinite(result)
        result[finite] = (result.view(np.uint32) & FP8_SUM).view(np.float32)[finite]
    result[result == 0] = 0
    return result


def _in_parts(d: str, a: _Factor, b: _Factor, c: Array, kept: int) -> Array:
    result = np.empty_like(c)
    for part in _parts(c, a.values.shape[2]):
        result[part] = _summed(d, a.part(part), b.part(part[0]), c[part], kept)
    return result


def _parts(c: Array, depth: int) -> Iterator[tuple[slice, slice]]:
    """Yield the fragments, and rows of them, of each pass."""
    fragments, rows, cols = c.shape
    many = max(1, AT_ONCE // (rows * cols * depth))
    high = max(1, min(rows, AT_ONCE // (cols * depth)))
    for first in range(0, fragments, many):
        for top in range(0, rows, high):
            yield slice(first, first + many), slice(top, top + high)


def negated(kind: str, stored: Array, minus: bool) -> Array:
    """Return a factor as stored, or with its sign exchanged if ``minus``."""
    if not minus:
        return stored
    bits = stored.view(f"u{stored.dtype.itemsize}")
    return np.asarray((bits ^ bits.dtype.type(1 << 8 * stored.dtype.itemsize - 1)).view(stored.dtype))


def _chain(a: Array, b: Array, c: Array) -> Array:
    total = np.ascontiguousarray(c).reshape(-1).copy()
    out = np.empty_like(total)
    for k in range(a.shape[2]):
        left = np.ascontiguousarray(np.broadcast_to(a[:, :, k, None], c.shape)).reshape(-1)
        right = np.ascontiguousarray(np.broadcast_to(b[:, None, k, :], c.shape)).reshape(-1)
        fma_f64(out, left, right, total)
        total, out = out, total
    return total.reshape(c.shape)


class _Factor:
    """Numbers as float32, and their exponents: ``ZERO`` of zero, ``INFINITE`` or more of infinities and NaN."""

    def __init__(self, values: Array, exponents: Array) -> None:
        self.values = values.astype(np.float32, copy=False)
        self.exponents = exponents.astype(np.int16, copy=False)
        self.exponents[self.values == 0] = ZERO

    def part(self, where: slice | tuple[slice, slice]) -> _Factor:
        """Return some of the numbers."""
        found = _Factor.__new__(_Factor)
        found.values, found.exponents, found.is_moderate = self.values[where], self.exponents[where], self.is_moderate
        return found

    @classmethod
    def of(cls, kind: str, stored: Array) -> _Factor:
        """Convert elements as they are stored."""
        if kind == "tf32":
            stored, kind = (stored & TF32_BITS).view(np.float32), "f32"
        elif kind == "bf16":
            stored, kind = (stored.astype(np.uint32) << np.uint32(16)).view(np.float32), "f32"
        fraction, field, bias = _FIELDS[kind]
        exponents = (stored.view(f"u{stored.dtype.itemsize}") >> fraction & field).astype(np.int16)
        if exponents.max() == field:
            exponents[exponents == field] = 2 * INFINITE + bias
        return cls(stored, np.maximum(exponents, np.int16(1)) - np.int16(bias))

    @classmethod
    def of_float8(cls, kind: str, stored: Array) -> _Factor:
        """Convert fp8 as it is stored."""
        values = decode(f"float8_{kind}", stored)
        _, exponents = np.frexp(np.abs(values))
        exponents = np.maximum(exponents - 1, LEAST_FP8[kind])
        exponents[~np.isfinite(values)] = 2 * INFINITE
        return cls(values, exponents)

    @property
    def is_finite(self) -> bool:
        """Return whether all numbers are finite."""
        return bool(self.exponents.max() < INFINITE)

    @cached_property
    def is_moderate(self) -> bool:
        """Return whether float32 represents every product of two such numbers, also divided by the unit of a sum."""
        highest, known = self.exponents.max(), (self.exponents >= -MODERATE) | (self.exponents == ZERO)
        return bool(highest < MODERATE and known.all())

    def finite(self) -> _Factor:
        """Return the numbers with 0 for all that are not finite."""
        return _Factor(np.where(self.exponents < INFINITE, self.values, np.float32(0)), self.exponents.copy())

    @property
    def fractions(self) -> Array:
        """Return the numbers / 2**exponent. They are halved first, so that float32 represents the power."""
        return np.asarray(
            self.values * np.float32(0.5) * _power(1 - np.maximum(self.exponents, LEAST["f32"]), np.float32)
        )


def _summed(d: str, a: _Factor, b: _Factor, c: Array, kept: int = KEPT) -> Array:
    added = _Factor.of(d, c)
    if _is_exact(a, b, added, kept):
        return _stored(d, _plain(a, b, added))
    if a.is_finite and b.is_finite and added.is_finite:
        return _truncated(d, a, b, added, kept)
    result = _truncated(d, a.finite(), b.finite(), added.finite(), kept)
    plain = _plain(a, b, added)
    unbounded = ~np.isfinite(plain)
    result[unbounded] = plain[unbounded].astype(result.dtype)
    result[np.isnan(plain)] = NAN[d]
    return result


def _plain(a: _Factor, b: _Factor, c: _Factor) -> Array:
    total = _matmul(a.values.astype(np.float64), b.values.astype(np.float64))
    total += c.values
    return total


def _matmul(a: Array, b: Array) -> Array:
    """Multiply fragments, so few columns at a time that BLAS computes each part in this thread: waking others takes
    several times as long."""
    (fragments, rows, depth), cols = a.shape, b.shape[2]
    product = np.empty((fragments, rows, cols), a.dtype)
    width = max(1, IN_THREAD // (rows * depth))
    for first in range(0, cols, width):
        part = slice(first, first + width)
        np.matmul(a, b[:, :, part], out=product[:, :, part])
    return product


def _truncated(d: str, a: _Factor, b: _Factor, c: _Factor, kept: int) -> Array:
    """Sum finite numbers. float32 has the 22 bits of a product, and int32 the sum of 16 products of 27 bits."""
    by_fragment = len(c.values) > c.values.shape[2]  # the longer axis last: NumPy is fast along it

    def left(of: Array) -> Array:
        if by_fragment:
            return np.ascontiguousarray(of.transpose(2, 1, 0))[:, :, None]
        return np.ascontiguousarray(of.transpose(2, 0, 1))[:, :, :, None]

    def right(of: Array) -> Array:
        if by_fragment:
            return np.ascontiguousarray(of.transpose(1, 2, 0))[:, None]
        return np.ascontiguousarray(of.transpose(1, 0, 2))[:, :, None]

    def sums(of: Array) -> Array:
        return np.ascontiguousarray(of.transpose(1, 2, 0)) if by_fragment else of

    exponents = left(a.exponents) + right(b.exponents)
    peak = np.maximum(exponents.max(axis=0), sums(c.exponents))
    np.maximum(peak, LEAST[d], out=peak)
    if a.is_moderate and b.is_moderate:
        parts = left(a.values) * right(b.values)
        parts *= _power(np.int16(kept) - np.maximum(peak, np.int16(-2 * MODERATE)), np.float32)
    else:
        exponents -= peak - np.int16(kept)
        parts = left(a.fractions) * right(b.fractions)
        parts *= _power(np.maximum(exponents, TINY, out=exponents), np.float32)
    total = np.trunc(sums(c.values) * _power(kept - peak, np.float64))
    total += np.add.reduce(parts.astype(np.int32), axis=0, dtype=np.int32)
    total *= _power(peak - kept, np.float64)
    return _stored(d, total.transpose(2, 0, 1) if by_fragment else total)


def _power(exponents: Array, kind: type[np.floating[Any]]) -> Array:
    """Return 2 to the power of each exponent, if that is a normal number."""
    about = np.finfo(kind)
    bits = exponents.astype(f"i{about.dtype.itemsize}")
    bits += about.maxexp - 1
    bits <<= about.nmant
    return bits.view(kind)


def _is_exact(a: _Factor, b: _Factor, c: _Factor, kept: int) -> bool:
    """Return whether nothing is truncated because all numbers are small integers, a common case."""
    highest = max(int(a.exponents.max()) + int(b.exponents.max()) + 1, int(c.exponents.max()))
    if highest > kept or not all(it.values.flat[0].is_integer() for it in (a, b, c)):
        return False
    return all(np.array_equal(np.rint(it.values), it.values) for it in (a, b, c))


def _stored(d: str, total: Array) -> Array:
    """Return sums in the type of d. No sum is -0, neither when terms cancel nor when it underflows."""
    result: Array = _cut(total) if d == "f32" else total.astype(np.float16)
    result += 0
    return result


def _cut(values: Array) -> Array:
    """Convert float64 to float32, rounding towards zero."""
    values = np.ascontiguousarray(values)
    size = np.abs(values)
    if not ((size < SMALLEST) & (size > 0)).any():
        return (values.view(np.uint64) & F32_BITS).view(np.float64).astype(np.float32)  # infinite where too large
    rounded: Array = values.astype(np.float32)
    away = np.abs(rounded.astype(np.float64)) > size
    rounded[away] = np.nextafter(rounded[away], np.float32(0))
    large = size >= TOO_LARGE
    rounded[large] = np.copysign(np.float32(np.inf), values[large])
    return rounded


def _of_float8(of_a: str, of_b: str, a: Array, b: Array, c: Array) -> Array:
    left, right = (_as_half(kind, stored) for kind, stored in ((of_a, a), (of_b, b)))
    total = np.zeros_like(c)
    late = np.arange(a.shape[2]) % 4 >= 2
    for chosen in (~late, late):
        total = _summed("f32", _Factor.of("f16", left[:, :, chosen]), _Factor.of("f16", right[:, chosen]), total)
    total = c + total
    total[np.isnan(total)] = NAN["f32"]
    return total


def _as_half(kind: str, stored: Array) -> Array:
    name = f"float8_{kind}"
    assert name in EXPONENTS
    return decode(name, stored).astype(np.float16)
