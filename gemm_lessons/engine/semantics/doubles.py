"""``fma`` of float64 and every float64 operation rounded in a direction other than nearest.

There is no format wider than float64 to compute in. These functions use error-free transforms, with exponents split off
where they are extreme, and rational numbers for the few operands for which the transforms fail.
Source: S. Boldo, G. Melquiond (see ``floats.py``); T. Dekker, "A floating-point technique for extending the available
precision", Numerische Mathematik 18, 1971 (the exact product).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from gemm_lessons.engine.semantics.floats import F64, Mode, inherit_nan, sum_error, to_odd
from gemm_lessons.engine.semantics.operation import Array

SPLIT = 134217729.0  # 2**27 + 1 (Veltkamp)
SAFE_LOW, SAFE_HIGH = 2.0**-900, 2.0**990  # products in between neither underflow nor overflow
FRACTION = 52  # bits of a number after its first


CHUNK = 8192  # lanes at a time, so that the scratch rows stay in the L2 cache


class _Rows(threading.local):
    """Scratch rows of ``fma_f64``, per thread."""

    def __init__(self) -> None:
        self.rows = np.empty((8, CHUNK))


_ROWS = _Rows()


def product_error(a: Array, b: Array, p: Array, rows: Sequence[Array] | Array) -> Array:
    """Return the exact error of ``p = a * b``, barring underflow and overflow (Dekker). ``rows``: five scratch rows."""
    high_a, low_a, high_b, low_b, error = rows
    for x, high, low in ((a, high_a, low_a), (b, high_b, low_b)):
        np.multiply(x, SPLIT, out=high)
        np.subtract(high, x, out=low)
        np.subtract(high, low, out=high)
        np.subtract(x, high, out=low)
    np.multiply(high_a, high_b, out=error)
    np.subtract(error, p, out=error)
    np.multiply(high_a, low_b, out=high_a)
    np.add(error, high_a, out=error)
    np.multiply(low_a, high_b, out=high_b)
    np.add(error, high_b, out=error)
    np.multiply(low_a, low_b, out=low_a)
    np.add(error, low_a, out=error)
    return error


def fma_f64(out: Array, a: Array, b: Array, c: Array) -> None:
    """Compute ``fma.rn.f64``, correctly rounded.

    With the exact errors t of the sum s and e of the product, s + (t + e) is correct unless it is halfway between two
    float64. In that case the error of the last addition is a power of two (or zero), and the slow path is taken, unless
    all sums are exact: with t = 0, the last addition alone rounds.
    """
    size = out.size
    for start in range(0, size, CHUNK):
        part = slice(start, min(start + CHUNK, size))
        _fma_f64_part(out[part], *(x[part] if x.ndim and x.size == size else x for x in (a, b, c)))


def _fma_f64_part(out: Array, a: Array, b: Array, c: Array) -> None:
    p, s, t, *rows = _ROWS.rows[:, : out.size]
    np.multiply(a, b, out=p)
    if _is_exact(a, b, p, rows[0]):  # then the sum is the only rounding
        np.add(p, c, out=s)
        if s.min() == s.min():
            np.copyto(out, s)
            return
    e = product_error(a, b, p, rows)
    np.add(p, c, out=s)
    rest, lost = rows[0], rows[1]
    np.subtract(s, p, out=rest)
    np.subtract(s, rest, out=t)
    np.subtract(p, t, out=t)
    np.subtract(c, rest, out=rest)
    np.add(t, rest, out=t)
    rounded = t.any()  # s
    np.add(t, e, out=t)  # the total error of s
    r = np.add(s, t, out=rows[2])
    np.subtract(s, r, out=lost)
    np.add(lost, t, out=lost)
    halves = np.left_shift(lost.view(np.uint64), np.uint64(12), out=rest.view(np.uint64))
    np.abs(p, out=p)
    if p.min() <= SAFE_LOW:
        zero = np.equal(a, 0) | np.equal(b, 0)  # then s is the result
        for row, value in ((r, s), (p, 1.0), (halves, 1)):
            np.copyto(row, value, where=zero)
    if (
        (not rounded or halves.min())
        and p.min() > SAFE_LOW
        and p.max() < SAFE_HIGH
        and np.abs(c).max() < SAFE_HIGH
        and r.min() == r.min()
    ):
        np.copyto(out, r)
        return
    extreme = ~((p > SAFE_LOW) & (p < SAFE_HIGH) & (np.abs(c) < SAFE_HIGH)) | (r != r)
    few = np.flatnonzero(extreme | (halves == 0))
    a, b, c = (_of(x, few) for x in (a, b, c))
    extreme, s, exact = extreme[few], s[few], np.multiply(a, b)
    nothing = (exact == 0) & (np.equal(a, 0) | np.equal(b, 0)) & (s == s)  # a factor is zero, so s is the result
    r[few[nothing]] = s[nothing]
    # Where p + c was exact, only the last addition rounded, as in most steps of a division.
    unsure = ~nothing & (extreme | (sum_error(exact, c, s) != 0))
    if unsure.any():
        again = np.empty(np.count_nonzero(unsure))
        _fma_f64_carefully(again, *(_of(x, unsure) for x in (a, b, c)))
        r[few[unsure]] = again
    np.copyto(out, r)


def _is_exact(a: Array, b: Array, p: Array, scratch: Array) -> bool:
    """Return whether all products ``p`` are exact because their factors have at most 53 significant bits together."""
    if _significant(a) + _significant(b) > FRACTION + 1:
        return False
    size = np.abs(p, out=scratch)
    if size.min() == 0:
        np.copyto(size, 1.0, where=np.equal(a, 0) | np.equal(b, 0))  # zero times a number is exact
    return bool(size.min() > SAFE_LOW and size.max() < SAFE_HIGH)


def _significant(x: Array) -> int:
    """Return how many significant bits the numbers have at most; 0 for powers of two, which add none to a product."""
    fraction = int(np.bitwise_or.reduce(np.asarray(x).view(np.uint64), axis=None)) & (1 << FRACTION) - 1
    return FRACTION + 2 - (fraction & -fraction).bit_length() if fraction else 0


def _of(x: Array, lanes: Array) -> Array:
    """Return the values of some lanes; ``x`` itself if it has one value for all of them."""
    return x[lanes] if x.size > 1 else x


def _fma_f64_carefully(out: Array, a: Array, b: Array, c: Array) -> None:
    """Compute by Boldo and Melquiond's algorithm, with exponents split off where they are extreme."""
    p = np.atleast_1d(np.multiply(a, b))
    low = product_error(a, b, p, np.empty((5, *p.shape)))
    tail = np.empty(np.broadcast_shapes(p.shape, np.shape(c)))  # factors may be the same in all lanes
    r = np.add(_nearly(p, low, c, tail), tail)
    size = np.abs(p)
    safe = (size > SAFE_LOW) & (size < SAFE_HIGH) & (np.abs(c) < SAFE_HIGH)
    strange = np.atleast_1d(~safe | (r == 0) | (r != r))
    if strange.any():
        naive = np.add(p, c)
        plain = (np.equal(a, 0) | np.equal(b, 0)) | safe & (naive == 0) & (low == 0)
        plain |= ~(np.isfinite(a) & np.isfinite(b))
        r = np.where(strange & plain, naive, r)
        finite = np.isfinite(c)  # the exact product is finite even if p overflowed
        r = np.where(strange & ~plain & ~finite, c, r)
        few = np.flatnonzero(np.broadcast_to(strange & ~plain & finite, out.shape))
        if few.size:
            columns = [np.broadcast_to(x, out.shape)[few] for x in (a, b, c)]
            r = np.array(np.broadcast_to(r, out.shape))
            r[few] = _fma_f64_scaled(*columns)
    inherit_nan(r, b, c, a)
    np.copyto(out, r)


def _nearly(p: Array, low: Array, c: Array, tail: Array) -> Array:
    """Return ``p + low + c`` as a number, and write its error, rounded to odd, to ``tail``."""
    t = c + low
    t_low = sum_error(c, low, t)
    v: Array = p + t
    v_low = sum_error(p, t, v)
    missing = t_low + v_low
    tail[:] = to_odd(missing, sum_error(t_low, v_low, missing))
    return v


APART = 200  # powers of two; of two summands this far apart, the smaller one only decides the direction of rounding
BEYOND = 300  # powers of two; numbers this far below the last bit of the smallest number are zero
LAST_BIT = -1074


def _fma_f64_scaled(a: Array, b: Array, c: Array) -> Array:
    """Compute ``fma.rn.f64`` of finite numbers with any exponents. Neither factor is zero."""
    (a, power_a), (b, power_b), (c, power_c) = (np.frexp(x) for x in (a, b, c))
    power = (power_a + power_b).astype(np.int64)
    apart = np.where(c == 0, 0, power_c - power)
    power = np.where(apart > APART, power_c - APART, power)
    c = np.ldexp(c, np.clip(apart, -APART, APART))
    p = a * b
    tail = np.empty(p.shape)
    v = _nearly(p, product_error(a, b, p, np.empty((5, *p.shape))), c, tail)
    r = v + tail
    rest = sum_error(v, tail, r)
    small = (r != 0) & (np.frexp(r)[1] + power < LAST_BIT + 53)  # the result is subnormal, so round at its last bit
    scaled = np.ldexp(r, np.where(small, np.maximum(power - LAST_BIT, -BEYOND), 0))
    halfway = (np.abs(scaled - np.trunc(scaled)) == 0.5) & (rest != 0)
    rounded = np.where(halfway, np.where(rest > 0, np.ceil(scaled), np.floor(scaled)), np.rint(scaled))
    result: Array = np.ldexp(np.where(small, rounded, r), np.where(small, LAST_BIT, power))
    return np.where(r == 0, 0.0, np.copysign(result, r))


def round_fraction(q: Fraction, mode: Mode) -> float:
    """Round a rational number once to float64. It must not be zero, because the sign would be lost."""
    try:
        nearest = q.numerator / q.denominator
    except OverflowError:
        nearest = float("inf") if q > 0 else float("-inf")
    if mode == "rn":
        return nearest
    if nearest in (float("inf"), float("-inf")):
        above = nearest > 0
    elif Fraction(nearest) == q:
        return nearest
    else:
        above = Fraction(nearest) > q
    if above and (mode == "rm" or (mode == "rz" and q > 0)):
        return float(np.nextafter(nearest, -np.inf))
    if not above and (mode == "rp" or (mode == "rz" and q < 0)):
        return float(np.nextafter(nearest, np.inf))
    return -0.0 if nearest == 0 and q < 0 else nearest


def exact_fma_f64(a: float, b: float, c: float, mode: Mode) -> float:
    """Compute one ``fma.f64`` by rational arithmetic, for any operands and direction."""
    product = a * b
    if not (np.isfinite(a) and np.isfinite(b)):
        return product + c
    if not np.isfinite(c):
        return c
    q = Fraction(a) * Fraction(b) + Fraction(c)
    if q:
        return round_fraction(q, mode)
    if not Fraction(a) * Fraction(b) and mode != "rm":
        return product + c
    negative = np.signbit(product) | np.signbit(c) if mode == "rm" else False
    return -0.0 if negative else 0.0


# ---- directions other than nearest, all lanes at once ----


def directed(opcode: str, mode: Mode, *sources: Array) -> tuple[Array, Array]:
    """Compute add, sub, mul, fma, div or sqrt of arrays (lanes,), rounded in direction ``mode``. Also return a mask of
    the lanes with extreme exponents, whose results are not certain. The caller handles NaN.

    The result rounded to nearest is moved to the neighbouring number if the sign of the exact error requires it.
    """
    compute: dict[str, Callable[..., tuple[Array, Array, Array]]] = {
        "add": _sum, "sub": lambda a, b: _sum(a, -b), "mul": _product, "fma": _product_sum, "div": _quotient,
        "sqrt": _root,
    }  # fmt: skip
    nearest, rest, unsure = compute[opcode](*sources)
    if mode == "rz":
        wrong, towards = rest * np.sign(nearest) < 0, 0.0
    else:
        wrong, towards = (rest < 0, -np.inf) if mode == "rm" else (rest > 0, np.inf)
    r = np.where(wrong, np.nextafter(nearest, towards), nearest)
    if mode == "rm" and opcode in ("add", "sub", "fma"):  # only here is a zero sum of opposite terms -0
        first, second = (sources[0] * sources[1], sources[2]) if opcode == "fma" else sources
        negative = np.signbit(first) | (np.signbit(second) != (opcode == "sub"))
        np.copyto(r, -0.0, where=(r == 0) & negative)
    return r, unsure


def _normal(x: Array) -> Array:
    size = np.abs(x)
    inside: Array = (size > SAFE_LOW) & (size < SAFE_HIGH)
    return inside


def _sum(a: Array, b: Array) -> tuple[Array, Array, Array]:
    """Return the sum rounded to nearest, its error, and where the error is unknown; so do the functions below."""
    s = a + b
    rest = sum_error(a, b, s)
    finite = np.isfinite(a) & np.isfinite(b)
    return s, np.where(finite, rest, 0.0), finite & ~np.isfinite(rest)


def _product(a: Array, b: Array) -> tuple[Array, Array, Array]:
    p = a * b
    e = product_error(a, b, p, np.empty((5, *p.shape)))
    sure = _normal(p) & np.isfinite(e)
    plain = ~np.isfinite(a) | ~np.isfinite(b) | (a == 0) | (b == 0)
    return p, np.where(sure, e, 0.0), ~sure & ~plain


def _product_sum(a: Array, b: Array, c: Array) -> tuple[Array, Array, Array]:
    """Return the result by Boldo and Melquiond's algorithm (see ``floats.py``), with the error of its last addition."""
    p, low, unsure = _product(a, b)
    t = c + low
    t_low = sum_error(c, low, t)
    v = p + t
    v_low = sum_error(p, t, v)
    tail = t_low + v_low
    tail_low = sum_error(t_low, v_low, tail)
    odd = to_odd(tail, tail_low)
    r = v + odd
    rest = sum_error(v, odd, r)
    plain = ~np.isfinite(p) | ~np.isfinite(c) | ((p == 0) & ~unsure)
    sure = plain | (~unsure & (np.abs(c) < SAFE_HIGH) & np.isfinite(rest) & ((rest != 0) | (tail_low == 0)))
    exact = np.where(unsure & ~np.isfinite(c), c, p + c)  # the exact product is finite even if p overflowed
    return (
        np.where(plain, exact, r),
        np.where(sure & ~plain, rest, 0.0),
        ~sure | (unsure & np.isfinite(c)),
    )  # fmt: skip


def _quotient(a: Array, b: Array) -> tuple[Array, Array, Array]:
    q = np.divide(a, b)
    p = q * b
    rest = (a - p) - product_error(q, b, p, np.empty((5, *p.shape)))
    sure = _normal(a) & _normal(b) & _normal(q) & np.isfinite(rest)
    plain = ~np.isfinite(a) | ~np.isfinite(b) | (a == 0) | (b == 0)
    return q, np.where(sure, np.copysign(rest, rest * np.sign(b)), 0.0), ~sure & ~plain


def _root(a: Array) -> tuple[Array, Array, Array]:
    r = np.sqrt(a)
    p = r * r
    rest = (a - p) - product_error(r, r, p, np.empty((5, *p.shape)))
    sure = _normal(a) & (a > 0)
    return r, np.where(sure, rest, 0.0), ~sure & (a > 0) & np.isfinite(a)


# ---- one at a time, by rational arithmetic ----


def directed_f64(operation: str, mode: Mode, a: float, b: float) -> float:
    """Compute ``div`` or ``sqrt`` (``b`` unused) of float64, not rounded to nearest, by rational arithmetic."""
    if operation == "sqrt":
        root = float(np.sqrt(a))
        if not np.isfinite(root) or root == 0:
            return root
        difference = Fraction(root) ** 2 - Fraction(a)
        if difference > 0 and mode != "rp":
            return float(np.nextafter(root, -np.inf))
        if difference < 0 and mode == "rp":
            return float(np.nextafter(root, np.inf))
        return root
    quotient = float(np.divide(F64(a), F64(b)))
    if not (np.isfinite(a) and np.isfinite(b)) or a == 0 or b == 0:
        return quotient
    return round_fraction(Fraction(a) / Fraction(b), mode)
