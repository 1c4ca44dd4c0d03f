"""Storage of numbers that NumPy lacks: bfloat16, tf32 and 8-bit floats, each rounded to nearest even."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

# name -> bits of exponent and of fraction, for those with 8 bits
# (Micikevicius et al., "FP8 Formats for Deep Learning", 2022)
EXPONENTS: Mapping[str, tuple[int, int]] = {"float8_e4m3": (4, 3), "float8_e5m2": (5, 2)}


def _bfloat16(values: Array) -> Array:
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def _tf32(values: Array) -> Array:
    bits = values.astype(np.float32).view(np.uint32)
    rounded: Array = ((bits + 0xFFF + ((bits >> 13) & 1)) & np.uint32(0xFFFFE000)).view(np.float32)
    return rounded


@cache
def float8_values(name: str) -> Array:
    """Return the value of each of the 256 bit patterns."""
    exponent_bits, fraction_bits = EXPONENTS[name]
    code = np.arange(256)
    exponent, fraction = (code >> fraction_bits) & ((1 << exponent_bits) - 1), code & ((1 << fraction_bits) - 1)
    bias = (1 << (exponent_bits - 1)) - 1
    value = np.ldexp(fraction + (exponent > 0) * 2.0**fraction_bits, np.maximum(exponent, 1) - bias - fraction_bits)
    if name == "float8_e5m2":  # as IEEE 754 has it
        value[exponent == 31] = np.where(fraction[exponent == 31] == 0, np.inf, np.nan)
    else:  # no infinity, and one NaN of each sign
        value[(code & 0x7F) == 0x7F] = np.nan
    signed: Array = np.where(code & 0x80, -value, value)
    return signed


def nearest(numbers: Array, magnitudes: Array) -> Array:
    """Return the index of the nearest of ascending ``numbers``; ties go to the even index."""
    middles = (numbers[:-1] + numbers[1:]) / 2
    found = np.searchsorted(middles, magnitudes)  # a tie goes down here
    found += (middles[np.minimum(found, middles.size - 1)] == magnitudes) & (found % 2 == 1)
    return found


def _float8(name: str) -> Callable[[Array], Array]:
    def encode(values: Array) -> Array:
        """Round to the nearest value, ties to even; too large values become the largest number."""
        numbers = float8_values(name)[:128]
        code = nearest(numbers[np.isfinite(numbers)], np.abs(values))
        return np.where(np.isnan(values), 0x7F, code | (np.signbit(values) << 7)).astype(np.uint8)

    return encode


ENCODERS: Mapping[str, Callable[[Array], Array]] = {
    "bfloat16": _bfloat16,
    "tf32": _tf32,
    **{name: _float8(name) for name in EXPONENTS},
}


def encode(name: str, storage: str, values: Array) -> Array:
    """Convert float64 values to storage."""
    encoder = ENCODERS.get(name)
    return values.astype(storage) if encoder is None else encoder(values)


def decode(name: str, stored: Array) -> Array:
    """Convert storage to float64 values, exactly."""
    if name == "bfloat16":
        return (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return float8_values(name)[stored] if name in EXPONENTS else stored.astype(np.float64)
