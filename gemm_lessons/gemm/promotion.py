"""The error of ``wgmma`` sums of 8-bit floats, until a kernel promotes the sums to float32.

One instruction adds the products of 32 k to a sum. Of the largest of these 33 terms it keeps 13 bits below the leading
one: each term loses less than 2^-13 of the largest, and so does the sum (``engine/semantics/matrix_products.py``, equal
to an H200 bit by bit). The larger the sum has become, the more each product loses. So kernels let the tensor core sum a
few k, promote, which means add that sum to one in float32, and start again from 0.

    m = k / 32 instructions between two promotions; S: the sum of the magnitudes of their products
    after j of them the sum is below f(j) S, f(j) = 4 j / (m + 3 j)
    first one   32 products, each below 4 S / (k + 3):      32 * 4 / (k + 3)     2^-13 S
    others      33 terms, the largest below f(j) S:         33 * (f(1) + ... + f(m - 1))
    all         the sums themselves:                        f(1) + ... + f(m)

f holds in any order of k, because inputs are within a factor of 2 of each other, so products within 4: j of m groups
have at most that share if theirs are the largest and all others the smallest. At k = 128 the bound is 80 * 2^-13 of the
magnitudes; at k = 1024 it would be 770 * 2^-13. Errors are a fifth to a half of it.
"""

from __future__ import annotations

from math import ceil

AT_ONCE = 32  # k of an instruction
CUT = 2.0**-13  # of the largest term
RATIO = 4  # of the largest product to the smallest


def lost(k: int) -> float:
    """Return the largest error of a sum of ``k`` products, relative to the sum of their magnitudes."""
    count = ceil(k / AT_ONCE)
    share = [RATIO * j / (count + (RATIO - 1) * j) for j in range(1, count + 1)]
    first = min(k, AT_ONCE) * RATIO / (k + RATIO - 1)
    return CUT * (first + (AT_ONCE + 1) * sum(share[:-1]) + sum(share))
