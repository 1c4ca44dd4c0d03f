"""The special function unit (``MUFU``) of Hopper, bit for bit: reciprocal, roots, logarithm, power, sine, cosine, tanh.

Arrays of float32 in, arrays of float32 out. The unit knows neither rounding modes nor subnormal numbers: it takes
subnormal operands for zero, and gives zero for subnormal results.

How it computes: the upper bits of a 23-bit fraction choose a segment, the lower ones are ``x``. The result is
``c0 + c1 x + c2 x**2`` in whole numbers, cut off after 24 significant bits. The square lacks its lowest columns: of
``x**2 = sum of x_i x_j 2**(i + j)`` only terms from 2**19 (reciprocal: 2**17) on are added. Negative fixed-point
numbers are complemented bit by bit, so ``log2(0.25)`` is -1.9999999.

Source: Oberman and Siu, "A High-Performance Area-Efficient Multifunction Interpolator" (2005), for the form. The
coefficients follow from the results of an H200 for every fraction (``checks/readings/simulator/special_functions.py``).
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from gemm_lessons.engine.semantics import floats
from gemm_lessons.engine.semantics.floats import F32, F64
from gemm_lessons.engine.semantics.operation import Array

COEFFICIENTS = Path(__file__).with_suffix(".json")
FRACTION = 23  # bits
SCALE = 17  # a segment's sum has 17 bits below the unit of its result
X_BITS = {"rcp": 16}  # 17 for the other functions
TANH_BITS = np.array([0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 3])  # of the segment's number, in each octave from 2**-8 to 2**3
LOG_BITS, SINE_BITS = 36, 37  # binary places of a logarithm or a sine before it becomes a float
TURNS_PER_RADIAN = float.fromhex("0x1.45f306p-3")  # float32 nearest to 1 / (2 pi), the hardware's factor
NAN, INFINITY = 0x7FFFFFFF, 0x7F800000


@cache
def squares(bits: int) -> Array:
    """Return the squares of all numbers of that many bits without their lowest columns, divided by what is left out."""
    lowest = 2 * bits - 15
    digits = [(np.arange(1 << bits) >> i) & 1 for i in range(bits)]
    total = np.zeros(1 << bits, np.int64)
    for i in range(bits):
        for j in range(i, bits):
            column = 2 * i if i == j else i + j + 1
            if column >= lowest:
                total += (digits[i] & digits[j]) << (column - lowest)
    return total


@cache
def _tables() -> dict[str, Array]:
    return {name: np.array(rows, np.int64) for name, rows in json.loads(COEFFICIENTS.read_text()).items()}


def coefficients(name: str) -> Array:
    """Return c0, c1 and c2 of each segment, shape (segments, 3)."""
    return _tables()[name]


def x_bits(name: str) -> int:
    """Return the number of bits of ``x``."""
    return X_BITS.get(name, 17)


def segments(name: str, fraction: Array) -> tuple[Array, Array]:
    """Return the segment and ``x`` of fractions of 23 bits, or 24 where the table spans two octaves."""
    low = x_bits(name)
    return fraction >> low, fraction & ((1 << low) - 1)


def tanh_segments(exponent: Array, fraction: Array) -> tuple[Array, Array]:
    """Return the segment and ``x`` of tanh: octaves have more or fewer segments, and ``x`` lacks the last bits."""
    octave, low = np.clip(exponent - 119, 0, len(TANH_BITS) - 1), x_bits("tanh")
    bits, sizes = TANH_BITS[octave], 1 << TANH_BITS
    first = (np.cumsum(sizes) - sizes)[octave]
    return first + (fraction >> (FRACTION - bits)), (fraction >> (FRACTION - low - bits)) & ((1 << low) - 1)


def interpolate(name: str, segment: Array, x: Array) -> Array:
    """Return ``c0 + c1 x + c2 x**2``."""
    c0, c1, c2 = coefficients(name)[segment].T
    total: Array = c0 + c1 * x + c2 * squares(x_bits(name))[x]
    return total


def _significand(name: str, fraction: Array) -> Array:
    """Return the 23 lower bits of a result between two powers of two."""
    return (interpolate(name, *segments(name, fraction)) >> SCALE) & 0x7FFFFF


def fields(x: Array) -> tuple[Array, Array, Array]:
    """Return sign, biased exponent and fraction of float32 numbers."""
    bits = x.view(np.uint32).astype(np.int64)
    return bits >> 31, (bits >> FRACTION) & 255, bits & 0x7FFFFF


def _floats(bits: Array) -> Array:
    return bits.astype(np.uint32).view(np.float32)


def _fixed(total: Array, places: int) -> Array:
    """Return ``total / 2**places``, cut off. The numbers are below 2**53."""
    return floats.narrow(np.ldexp(total.astype(F64), -places), F32, "rz")


def _of_positive(x: tuple[Array, Array, Array], bits: Array, infinite: int, zero: Array | int) -> Array:
    """Return ``bits`` as results of positive numbers; ``infinite``, ``zero``: those of infinity and zero."""
    sign, exponent, fraction = x
    bits = np.where((exponent == 255) & (fraction == 0), infinite, bits)
    bits = np.where((sign == 1) | (exponent == 255) & (fraction != 0), NAN, bits)
    return _floats(np.where(exponent == 0, zero, bits))


def rcp(x: Array) -> Array:
    """Return 1 / x. Results below the normal numbers are zero."""
    sign, exponent, fraction = fields(x)
    below = ((253 - exponent) << FRACTION) | _significand("rcp", fraction)
    bits = np.where(fraction == 0, (254 - exponent) << FRACTION, below)
    bits = np.where((bits < 1 << FRACTION) | (exponent == 255), 0, bits)
    bits = np.where(exponent == 0, INFINITY, bits) | (sign << 31)
    return _floats(np.where((exponent == 255) & (fraction != 0), NAN, bits))


def _octaves(exponent: Array, fraction: Array) -> tuple[Array, Array]:
    """Return the exponent of the root, and the place in a table of two octaves."""
    odd = (exponent - 127) & 1
    return (exponent - 127 - odd) // 2, (odd << FRACTION) | fraction


def rsqrt(x: Array) -> Array:
    """Return 1 / sqrt(x)."""
    sign, exponent, fraction = fields(x)
    half, place = _octaves(exponent, fraction)
    below = ((126 - half) << FRACTION) | _significand("rsqrt", place)
    bits = np.where(place == 0, (127 - half) << FRACTION, below)
    return _of_positive((sign, exponent, fraction), bits, 0, INFINITY | (sign << 31))


def sqrt(x: Array) -> Array:
    """Return sqrt(x)."""
    sign, exponent, fraction = fields(x)
    half, place = _octaves(exponent, fraction)
    bits = ((127 + half) << FRACTION) | _significand("sqrt", place)
    return _of_positive((sign, exponent, fraction), bits, INFINITY, sign << 31)


def lg2(x: Array) -> Array:
    """Return log2(x): exponent and table are added as fixed-point numbers."""
    sign, exponent, fraction = fields(x)
    logarithm = interpolate("lg2", *segments("lg2", fraction)) >> (24 + SCALE - LOG_BITS)
    logarithm = np.where((exponent == 127) & (fraction == 0), 0, logarithm)
    total = ((exponent - 127) << LOG_BITS) + logarithm
    size = _fixed(np.where(total < 0, ~total, total), LOG_BITS)
    bits = np.where(total < 0, -size, size).view(np.uint32)
    return _of_positive((sign, exponent, fraction), bits, INFINITY, INFINITY | 1 << 31)


def ex2(x: Array) -> Array:
    """Return 2**x: the operand becomes a fixed-point number with 23 binary places."""
    known = np.where(np.isnan(x), 0, x).astype(np.float64)
    size = np.floor(np.minimum(np.abs(known), 512.0) * (1 << FRACTION)).astype(np.int64)
    whole = (size & 0x7FFFFF) == 0
    place = np.where(known < 0, np.where(whole, -size, ~size), size)
    exponent = place >> FRACTION
    bits = ((exponent + 127) << FRACTION) | _significand("ex2", place & 0x7FFFFF)
    bits = np.where(exponent > 127, INFINITY, np.where(exponent < -126, 0, bits))
    return _floats(np.where(np.isnan(x), NAN, bits))


def turns_of(x: Array) -> Array:
    """Return angles in turns: multiplied by 1 / (2 pi) as a float, and cut off."""
    return floats.narrow(x.astype(F64) * TURNS_PER_RADIAN, F32, "rz")


def sine_of_turns(turns: Array, quadrants: int = 0) -> Array:
    """Return the sine of angles in turns, ``quadrants`` quarters further: 1 for the cosine. The unit makes of an angle
    a fixed-point number with 25 binary places."""
    known = np.isfinite(turns)
    part = np.fmod(np.where(known, turns, 0).astype(np.float64), 1)
    place = np.floor(np.abs(part) * (4 << FRACTION)).astype(np.int64)
    quadrant = (place >> FRACTION) + quadrants & 3
    place = np.where(quadrant & 1, ~place, place) & 0x7FFFFF
    negative = (quadrant >> 1) ^ (np.signbit(turns) if quadrants == 0 else 0)
    bits = _fixed(interpolate("sin", *segments("sin", place)) >> (24 + SCALE - SINE_BITS), SINE_BITS).view(np.uint32)
    return _floats(np.where(known, bits | (negative << 31), NAN))


def sin(x: Array) -> Array:
    """Return the sine of an angle in radians."""
    return sine_of_turns(turns_of(x))


def cos(x: Array) -> Array:
    """Return the cosine of an angle in radians."""
    return sine_of_turns(turns_of(x), 1)


def tanh(x: Array) -> Array:
    """Return tanh(x): x itself below 2**-8, and 1 from 8 on."""
    sign, exponent, fraction = fields(x)
    bits = _fixed(interpolate("tanh", *tanh_segments(exponent, fraction)), 24 + SCALE).view(np.uint32)
    bits = np.where(exponent < 119, (exponent << FRACTION) | fraction, np.where(exponent < 130, bits, 127 << FRACTION))
    return _floats(np.where((exponent == 255) & (fraction != 0), NAN, bits | (sign << 31)))


FUNCTIONS: dict[str, Any] = {
    "rcp": rcp, "sqrt": sqrt, "rsqrt": rsqrt, "sin": sin, "cos": cos, "lg2": lg2, "ex2": ex2,
    "tanh": tanh,
}  # fmt: skip
