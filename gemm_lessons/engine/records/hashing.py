"""Hashes of 64-bit integers: SplitMix64's finalizer.

Source: G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", 2014.
"""

from __future__ import annotations

import numpy as np

from gemm_lessons.engine.records.arrays import Array

GOLDEN = 0x9E3779B97F4A7C15  # 2**64 / the golden ratio: multiply by it before mixing
_FACTORS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def mixed(numbers: Array) -> Array:
    """Return 64 well-mixed bits for each uint64; different numbers have different bits."""
    with np.errstate(over="ignore"):
        for shift, factor in _FACTORS:
            numbers = (numbers ^ numbers >> np.uint64(shift)) * np.uint64(factor)
    result: Array = numbers ^ numbers >> np.uint64(31)
    return result
