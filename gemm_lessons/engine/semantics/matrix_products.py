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
from gemm_lessons.engine.records.frozen import dataclass
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
SUMS_AT_ONCE = 1 << 15  # sums per pass
IN_THREAD = 1 << 18  # multiply-adds: the largest product that OpenBLAS computes in the calling thread
TF32_BITS = np.uint32(0xFFFFE000)  # the bits that are used
NAN = {"f32": np.uint32(0x7FFFFFFF).view(np.float32), "f16": np.uint16(0x7FFF).view(np.float16)}
TOO_LARGE = 2.0**128  # overflows float32
LEAST_NORMAL = -126  # exponent of the smallest normal number of float32
SMALLEST = 2.0**LEAST_NORMAL
F32_BITS = np.uint64(0xFFFFFFFFE0000000)  # the bits of a float64 that float32 has, too, if both are normal
# Bits of the fraction, mask of the exponent to their left, and its bias.
_FIELDS: Mapping[str, tuple[Any, Any, int]] = {
    "f32": (np.uint32(23), np.uint32(0xFF), 127),
    "f16": (np.uint16(10), np.uint16(0x1F), 15),
}
ZERO, INFINITE = -2000, 2000  # exponents: the sum of two exponents of finite numbers is between them
MODERATE = 48  # exponents up to this, and down to its negative, are moderate
# Bits of a number's fraction.
DIGITS: Mapping[str, int] = {"f32": 23, "tf32": 10, "f16": 10, "bf16": 7, "e4m3": 3, "e5m2": 2}
NO_BITS = 4000  # in place of the exponent of the lowest bit, of a line of zeros
FLOAT32_BITS = 24  # of the fraction, with the leading one
FEW = 8  # if more than one sum in so many needs its products one by one, computing all like that is faster
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
    return _of_float8(of_a, of_b, a, b, c)


def multiply_async(types: tuple[str, str, str], a: Array, b: Array, c: Array, *, saturate: bool = False) -> Array:
    """Compute d as ``wgmma`` does: like ``multiply``, but for fp8, which is not converted."""
    d, of_a, of_b = types
    if of_a not in ("e4m3", "e5m2"):
        return multiply(types, a, b, c, saturate=saturate)
    result = _in_parts(d, _Factor.of_float8(of_a, a), _Factor.of_float8(of_b, b), c, KEPT_FP8)
    if d == "f32":
        cut, finite = (result.view(np.uint32) & FP8_SUM).view(np.float32), np.isfinite(result)
        result = cut if finite.all() else np.where(finite, cut, result)
    is_zero = result == 0
    if is_zero.any():
        result[is_zero] = 0
    return result


def _in_parts(d: str, a: _Factor, b: _Factor, c: Array, kept: int) -> Array:
    result = np.empty_like(c)
    factors = _Factors(a, b)
    for part in _parts(c.shape, 1, SUMS_AT_ONCE):
        added = _Factor.of(d, c[part])
        if kept == KEPT_FP8 and d == "f32" and not (added.values.view(np.uint32) & ~FP8_SUM).any():
            added.digits = KEPT_FP8
        result[part] = _summed(d, factors, part, added, kept)
    return result


def _parts(shape: tuple[int, ...], depth: int, most: int) -> Iterator[tuple[slice, slice]]:
    """Yield the fragments, and rows of them, of each pass. ``shape``: of the sums, each counting ``depth`` times."""
    fragments, rows, cols = shape
    many = max(1, most // (rows * cols * depth))
    high = max(1, min(rows, most // (cols * depth)))
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
    """Numbers as float32, their exponents (``ZERO``, ``INFINITE`` or more), and ``digits``, bits of each fraction."""

    def __init__(self, values: Array, exponents: Array, digits: int) -> None:
        self.values = values.astype(np.float32, copy=False)
        self.exponents = exponents.astype(np.int16, copy=False)
        is_zero = self.values == 0
        if is_zero.any():
            self.exponents[is_zero] = ZERO
        self.digits = digits

    def part(self, where: Any, shape: tuple[int, ...] | None = None) -> _Factor:
        """Return some of the numbers, in another shape if one is given."""
        found = _Factor.__new__(_Factor)
        values, exponents = self.values[where], self.exponents[where]
        found.values = values if shape is None else values.reshape(shape)
        found.exponents = exponents if shape is None else exponents.reshape(shape)
        found.digits, found.is_moderate = self.digits, self.is_moderate
        return found

    @classmethod
    def of(cls, kind: str, stored: Array) -> _Factor:
        """Convert elements as they are stored."""
        digits = DIGITS[kind]
        if kind == "tf32":
            stored, kind = (stored & TF32_BITS).view(np.float32), "f32"
        elif kind == "bf16":
            stored, kind = (stored.astype(np.uint32) << np.uint32(16)).view(np.float32), "f32"
        fraction, field, bias = _FIELDS[kind]
        exponents = (stored.view(f"u{stored.dtype.itemsize}") >> fraction & field).astype(np.int16)
        if exponents.max() == field:
            exponents[exponents == field] = 2 * INFINITE + bias
        if not exponents.min():
            exponents = np.maximum(exponents, np.int16(1))
        return cls(stored, exponents - np.int16(bias), digits)

    @classmethod
    def of_float8(cls, kind: str, stored: Array) -> _Factor:
        """Convert fp8 as it is stored."""
        values = decode(f"float8_{kind}", stored)
        _, exponents = np.frexp(np.abs(values))
        exponents = np.maximum(exponents - 1, LEAST_FP8[kind])
        exponents[~np.isfinite(values)] = 2 * INFINITE
        return cls(values, exponents, DIGITS[kind])

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
        values = np.where(self.exponents < INFINITE, self.values, np.float32(0))
        return _Factor(values, self.exponents.copy(), self.digits)

    @property
    def fractions(self) -> Array:
        """Return the numbers / 2**exponent. They are halved first, so that float32 represents the power."""
        return np.asarray(
            self.values * np.float32(0.5) * _power(1 - np.maximum(self.exponents, LEAST["f32"]), np.float32)
        )


class _Factors:
    """Two factors, and the exponents in rows of the first and in columns of the second.

    For these exponents, each k of the rows is divided by a power of two, and the same k of the columns is multiplied by
    it. The exponents of the products stay as they are, and those of a line become similar.
    """

    def __init__(self, a: _Factor, b: _Factor) -> None:
        self._a, self._b = a, b
        self.worth_trying = a.is_moderate and b.is_moderate  # False: most sums need their products one by one

    def part(self, where: tuple[slice, slice]) -> tuple[_Factor, _Factor]:
        """Return the factors of some fragments, and rows of them."""
        return self._a.part(where), self._b.part(where[0])

    def lines(self, where: tuple[slice, slice]) -> tuple[_Lines, _Lines]:
        """Return the rows and columns of some fragments, and rows of them."""
        rows, columns = self._lines
        return rows.part(where), columns.part(where[:1])

    @cached_property
    def _lines(self) -> tuple[_Lines, _Lines]:
        of_k = self._a.exponents.max(axis=1)
        of_k[of_k == ZERO] = 0
        of_k[np.ptp(of_k, axis=1) <= 1] = 0  # numbers rounded up to a power of two make no difference between k
        rows, columns = self._a.exponents, np.ascontiguousarray(self._b.exponents.swapaxes(1, 2))
        return (
            _Lines.of(rows - of_k[:, None], rows == ZERO, self._a.digits),
            _Lines.of(columns + of_k[:, None], columns == ZERO, self._b.digits),
        )

    @cached_property
    def sums_in(self) -> type[np.floating[Any]]:
        """Return the type that holds all sums of these products. A product is below 4 times its highest power."""
        depth = self._a.values.shape[2]
        bits = sum(int((it.highest - it.lowest).max()) for it in self._lines) + 2 + (depth - 1).bit_length()
        return np.float32 if bits <= FLOAT32_BITS else np.float64


@dataclass(frozen=True)
class _Lines:
    """Per row or column (fragments, lines): its highest exponent, the lowest exponent that a bit of its numbers may
    have, and the k of the highest exponent, as bits."""

    highest: Array
    lowest: Array
    where_highest: Array

    @classmethod
    def of(cls, exponents: Array, is_zero: Array, digits: int) -> _Lines:
        """Summarize the exponents of lines (fragments, lines, k)."""
        highest = np.where(is_zero, np.int16(ZERO), exponents).max(axis=2)
        lowest = np.where(is_zero, np.int16(NO_BITS), exponents).min(axis=2) - np.int16(digits)
        bits = np.ascontiguousarray(np.packbits((exponents == highest[:, :, None]) & ~is_zero, axis=2))
        return cls(highest, lowest, bits.view(f"u{bits.shape[2]}")[:, :, 0])

    def part(self, where: tuple[slice, ...]) -> _Lines:
        """Return some of the lines."""
        return _Lines(self.highest[where], self.lowest[where], self.where_highest[where])


def _summed(d: str, factors: _Factors, part: tuple[slice, slice], c: _Factor, kept: int) -> Array:
    a, b = factors.part(part)
    if _is_exact(a, b, c, kept):
        return _stored(d, _plain(a, b, c))
    if not (a.is_finite and b.is_finite and c.is_finite):
        result = _truncated(d, a.finite(), b.finite(), c.finite(), kept)
        plain = _plain(a, b, c)
        unbounded = ~np.isfinite(plain)
        result[unbounded] = plain[unbounded].astype(result.dtype)
        result[np.isnan(plain)] = NAN[d]
        return result
    found = _of_whole_products(d, factors, part, c, kept) if factors.worth_trying else None
    return _truncated(d, a, b, c, kept) if found is None else found


def _of_whole_products(
    d: str, factors: _Factors, part: tuple[slice, slice], c: _Factor, kept: int
) -> Array | None:  # fmt: skip
    """Sum finite numbers if in most sums no product is truncated. Return None otherwise.

    All products of such a sum are multiples of the unit to which the sum is truncated, so a float holds their
    sum. The unit depends on the largest exponent of the products. That is known where a row and a column have their
    highest exponents at the same k, and it does not matter where c is a multiple of the unit in either case. Other
    sums are computed product by product.
    """
    (a, b), (rows, columns) = factors.part(part), factors.lines(part)
    highest = rows.highest[:, :, None] + columns.highest[:, None]
    largest = np.maximum(highest, c.exponents)
    least = int(largest.min())
    if least < LEAST[d]:
        largest = np.maximum(largest, LEAST[d])
    unit = largest - np.int16(kept)
    others = rows.lowest[:, :, None] + columns.lowest[:, None] < unit
    cut = np.flatnonzero((unit + np.int16(c.digits) > c.exponents) & (c.exponents != ZERO))
    if cut.size:
        fragment, row, col = np.unravel_index(cut, unit.shape)
        apart = rows.where_highest[fragment, row] & columns.where_highest[fragment, col] == 0
        apart &= highest.reshape(-1)[cut] > np.maximum(c.exponents.reshape(-1)[cut], LEAST[d])
        others.reshape(-1)[cut[apart]] = True
    count = np.count_nonzero(others)
    if count * FEW > others.size:
        factors.worth_trying = False
        return None
    added = c.values
    if cut.size:
        added = added.copy()
        added.reshape(-1)[cut] = _multiples(c.values.reshape(-1)[cut], unit.reshape(-1)[cut])
    products = _matmul(a.values.astype(factors.sums_in, copy=False), b.values.astype(factors.sums_in, copy=False))
    total = np.add(products, added, dtype=np.float64)
    result = _stored(d, total, is_normal=least - kept >= LEAST_NORMAL)
    if count:
        single = np.flatnonzero(others)
        result.reshape(-1)[single] = _one_by_one(d, a, b, c, kept, np.unravel_index(single, others.shape))
    return result


def _multiples(values: Array, unit: Array) -> Array:
    """Truncate values to multiples of 2 to the power of ``unit``."""
    return np.asarray(np.trunc(values * _power(-unit, np.float64)) * _power(unit, np.float64))


def _one_by_one(d: str, a: _Factor, b: _Factor, c: _Factor, kept: int, places: tuple[Array, ...]) -> Array:
    """Return the sums at some places: fragments, rows, columns, (n,) each."""
    fragments, rows, cols = places
    count, depth = fragments.size, a.values.shape[2]
    left = a.part((fragments, rows), (count, 1, depth))
    right = b.part((fragments, slice(None), cols), (count, depth, 1))
    return _truncated(d, left, right, c.part(places, (count, 1, 1)), kept).reshape(-1)


def _plain(a: _Factor, b: _Factor, c: _Factor) -> Array:
    total = _matmul(a.values.astype(np.float64), b.values.astype(np.float64))
    total += c.values
    return total


def _matmul(a: Array, b: Array) -> Array:
    """Multiply fragments, so few columns at a time that BLAS stays in this thread: waking others takes longer."""
    (fragments, rows, depth), cols = a.shape, b.shape[2]
    product = np.empty((fragments, rows, cols), a.dtype)
    width = max(1, IN_THREAD // (rows * depth))
    for first in range(0, cols, width):
        part = slice(first, first + width)
        np.matmul(a, b[:, :, part], out=product[:, :, part])
    return product


def _truncated(d: str, a: _Factor, b: _Factor, c: _Factor, kept: int) -> Array:
    """Sum finite numbers product by product."""
    shape = c.values.shape
    result = np.empty(shape, STORED[d])
    for part in _parts(shape, a.values.shape[2], AT_ONCE):
        result[part] = _pass(d, a.part(part), b.part(part[0]), c.part(part), kept)
    return result


def _pass(d: str, a: _Factor, b: _Factor, c: _Factor, kept: int) -> Array:
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


def _stored(d: str, total: Array, is_normal: bool = False) -> Array:
    """Return sums in the type of d. No sum is -0, neither when terms cancel nor when it underflows. ``is_normal``: no
    sum is a subnormal number of float32."""
    result: Array = _cut(total, is_normal) if d == "f32" else total.astype(np.float16)
    result += 0
    return result


def _cut(values: Array, is_normal: bool) -> Array:
    """Convert float64 to float32, rounding towards zero."""
    values = np.ascontiguousarray(values)
    size = values if is_normal else np.abs(values)
    if is_normal or not ((size < SMALLEST) & (size > 0)).any():
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
        one, other = _Factor.of("f16", left[:, :, chosen]), _Factor.of("f16", right[:, chosen])
        total = _in_parts("f32", one, other, total, KEPT)
    total = c + total
    total[np.isnan(total)] = NAN["f32"]
    return total


def _as_half(kind: str, stored: Array) -> Array:
    name = f"float8_{kind}"
    assert name in EXPONENTS
    return decode(name, stored).astype(np.float16)
