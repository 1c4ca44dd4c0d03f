"""Hash of the bytes that each thread touched: both engines must agree on it after the same launch.

Byte x, touched by thread t of block b, adds ``weight(t) * BLOCK**b * BYTE**x`` modulo 2**64. The sum does not depend on
the order of accesses, on the width of each access (ptxas merges neighbours into vectors), or on which blocks run
together. Almost every other difference changes it: a wrong address, swapped lanes, an extra or a missing lane. It is
cheap: an access repeated at a distance of d bytes adds the same amount times ``BYTE**d``.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache

import numpy as np

from gemm_lessons.engine.events import WARP
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.hashing import GOLDEN, mixed

MODULUS = 1 << 64
MASK = MODULUS - 1
# Odd and 5 modulo 8: their powers repeat after 2**62 at the earliest.
BYTE = GOLDEN
BLOCK = 0xD1342543DE82EF95
CHUNK = 16  # bits of an exponent that one table covers


@cache
def _tables() -> Array:
    """Return ``BYTE ** (i << (CHUNK * table))`` by table and i."""
    tables = np.empty((64 // CHUNK, 1 << CHUNK), np.uint64)
    for number, table in enumerate(tables):
        table[0] = 1
        table[1:] = pow(BYTE, 1 << (CHUNK * number), MODULUS)
        np.multiply.accumulate(table, out=table)
    return tables


def powers(exponents: Array) -> Array:
    """Return ``BYTE ** exponent`` for every exponent (int64, not negative)."""
    tables = _tables()
    result: Array = tables[0][exponents & 0xFFFF]
    rest = exponents >> CHUNK
    for table in tables[1:]:
        if not rest.any():
            break
        result *= table[rest & 0xFFFF]
        rest = rest >> CHUNK
    return result


@lru_cache(maxsize=8)
def weights(padded: int, blocks: int, by_warps: bool = False) -> Array:
    """Return the weight of every lane of ``blocks`` blocks of ``padded`` threads: hash of the thread times the block's.

    ``by_warps``: the lane within a warp is ignored.
    """
    thread = np.arange(1, padded + 1, dtype=np.uint64)
    if by_warps:
        thread = thread - (thread - np.uint64(1)) % np.uint64(WARP)
    thread = mixed(thread * np.uint64(BYTE)) | np.uint64(1)
    block = np.full(blocks, BLOCK, np.uint64)
    block[0] = 1
    result: Array = (np.multiply.accumulate(block)[:, None] * thread[None, :]).reshape(-1)
    return result


@dataclass(frozen=True)
class LaneSum:
    """One access by the lanes of a batch: the number of lanes, and the sum of their first bytes' weights."""

    lanes: int
    sum: int


def pattern(addresses: Array, active: Array | None, padded: int, by_warps: bool = False) -> LaneSum:
    """Return the sum that an access at these addresses (int64, one per lane) adds for the first byte of each lane."""
    weight = weights(padded, len(addresses) // padded, by_warps)
    if active is not None:
        addresses, weight = addresses[active], weight[active]
    if not len(addresses):
        return LaneSum(0, 0)
    low = int(addresses.min())
    total = int((powers(addresses - low) * weight).sum())
    return LaneSum(len(addresses), total * pow(BYTE, low, MODULUS) & MASK)


def moved(bases: Iterable[int]) -> int:
    """Return the factor of a pattern's sum if it occurred once at each of ``bases``."""
    distances = np.fromiter(bases, np.int64)
    if len(distances) == 1:
        return pow(BYTE, int(distances[0]), MODULUS)
    low = int(distances.min())
    return int(powers(distances - low).sum()) * pow(BYTE, low, MODULUS) & MASK


@dataclass
class Footprint:
    """Bytes moved, counted at every access, and the sum of their weights."""

    bytes: int = 0
    sum: int = 0

    def add(self, one: LaneSum, times: int, factor: int, width: int, first_block: int) -> None:
        """Add ``times`` occurrences of ``one``, ``width`` bytes a lane; ``factor``: sum of ``BYTE ** base`` of them."""
        if not one.lanes:
            return
        self.bytes += one.lanes * times * width
        scale = _width_factor(width) * _block_factor(first_block)
        self.sum = (self.sum + one.sum * factor * scale) & MASK

    def merge(self, other: Footprint) -> None:
        """Add another footprint."""
        self.bytes += other.bytes
        self.sum = (self.sum + other.sum) & MASK

    def shifted(self, distance: int) -> Footprint:
        """Return the footprint of the same accesses at addresses ``distance`` bytes higher."""
        return Footprint(self.bytes, self.sum * pow(BYTE, distance, MODULUS) & MASK)


@cache
def _width_factor(width: int) -> int:
    return sum(pow(BYTE, i, MODULUS) for i in range(width)) & MASK


@lru_cache(maxsize=1 << 12)
def _block_factor(block: int) -> int:
    return pow(BLOCK, block, MODULUS)
