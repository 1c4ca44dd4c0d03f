"""Count the wavefronts of shared memory and the sectors of ``cp.async``. Wavefronts depend on both of its addresses.

Pure functions. Addresses are bytes, int64 (warps, 32); ``active`` is bool (warps, 32), or None when every lane takes
part. The rules were settled by readings of an H200 (``checks/readings/counters/copy_probes.json``), and a test counts
every one again:

- Through L1 (``.ca``): lanes are served in groups as for stores. A group costs as many wavefronts as lanes access the
  fullest bank, of the banks that they read from (a line of L1 is spread over the banks as shared memory is) or of those
  that they write to, whether or not the words are the same. With conflicts on both sides it may cost more: the order in
  which the hardware serves the lanes is not understood.
- Past L1 (``.cg``): of several lanes with one target, the first counts. The unit of transfer is a sector, written to an
  aligned block of 32 bytes; its halves may be swapped or arrive alone. Blocks of one line of shared memory share a
  wavefront if their sectors are different sectors of one line of global memory, all shifted by an even number of
  places or all by an odd one, with the halves arranged alike (119 of 120 readings; one costs one more).
- Past L1, sectors are counted by pairs of a block of 32 bytes of shared memory and a line of global memory from which
  the block gets any bytes.
- A lane whose source is ignored writes zeros. It has no conflict where it would have read, and past L1 it costs no
  transfer.
- Past L1, zeros are written by a second pass over all active lanes, which costs what a copy through L1 costs. It counts
  if a lane ignores its source, and always if the copy may also read fewer bytes than it writes (``fills``). 1,801
  readings, no exception, beside those with conflicts on both sides (``zero_probes.json``).
"""

from __future__ import annotations

import numpy as np

from gemm_lessons.engine.costs.banks import BANKS, SECTOR, WARP, WORD
from gemm_lessons.engine.records.arrays import Array

LINE = BANKS * WORD
NOWHERE = -1  # source address of a lane that reads nothing and writes zeros
HALF = SECTOR // 2  # bytes of a lane that copies past L1
BLOCKS = LINE // SECTOR
PAIR = 4  # kinds 0 to 3: half a sector, from lower or upper to lower or upper; 4 and 5: a whole one, straight, swapped


def through_l1(target: Array, source: Array, active: Array | None, width: int) -> tuple[Array, Array, bool]:
    """Return wavefronts and their ideal number, both int64 (warps,), and whether they are certain."""
    reading = source != NOWHERE
    reading = reading if active is None else reading & active
    written, read = _lanes_per_bank(target, active, width), _lanes_per_bank(source, reading, width)
    cost = np.maximum(written, read).sum(axis=1)
    lanes = np.full(len(cost), WARP) if active is None else np.count_nonzero(active, axis=1)
    return cost, np.minimum(cost, -(-lanes * width // LINE)), bool((np.minimum(written, read) <= 1).all())


def _lanes_per_bank(addresses: Array, active: Array | None, width: int) -> Array:
    """Return the largest number of lanes of each group at one position of a line, int64 (warps, groups)."""
    lanes = LINE // width
    places = (addresses // width % lanes).reshape(-1, lanes)
    slots = np.arange(len(places))[:, None] * lanes + places
    count: Array = np.bincount(
        slots.ravel() if active is None else slots[active.reshape(-1, lanes)], minlength=len(places) * lanes
    )
    fullest: Array = count.reshape(-1, lanes).max(axis=1).reshape(len(addresses), -1)
    return fullest


def past_l1(
    target: Array, source: Array, active: Array | None, fills: bool = False
) -> tuple[Array, Array, Array, bool]:
    """Return wavefronts, their ideal number and those of the second pass, all int64 (warps,), and whether they are
    certain. ``fills``: the copy may read fewer bytes than it writes."""
    everyone = np.ones(target.shape, bool) if active is None else active
    reading = everyone & (source != NOWHERE)
    cost = _transfers(target, source, reading)
    written = np.bincount(_first_of_target(target, source, reading)[0], minlength=len(target))
    ideal = np.minimum(cost, -(-written * HALF // LINE))
    second = np.zeros(len(target), np.int64)
    again = everyone.any(axis=1) if fills else (everyone & ~reading).any(axis=1)
    certain = True
    if again.any():
        second[again], best, certain = through_l1(target[again], source[again], everyone[again], HALF)
        ideal[again] += best
    return cost + second, ideal, second, certain


def _transfers(target: Array, source: Array, reading: Array) -> Array:
    """Return the wavefronts of the sectors that the lanes read past L1, int64 (warps,)."""
    count = len(target)
    warp, chunk, half = _first_of_target(target, source, reading)
    block, low = np.divmod(chunk, 2)
    sector, from_low = np.divmod(half, 2)
    packet = _numbered(warp, block, sector)
    partner = np.zeros(int(packet.max(initial=-1)) + 1, np.int64)
    np.add.at(partner, packet, 1)
    halves = np.zeros(len(partner), np.int64)
    np.add.at(halves, packet, from_low)
    whole = (partner[packet] == 2) & (halves[packet] == 1)  # both halves, of one each
    kind = np.where(whole, PAIR + (from_low != low), 2 * from_low + low)
    keep = ~whole | (low == 0)
    warp, block, sector, kind = (x[keep] for x in (warp, block, sector, kind))
    together = _numbered(warp, block // BLOCKS, sector // BLOCKS, (sector - block) % 2, kind)
    each = _numbered(together, sector)
    often = np.bincount(each, minlength=0)
    _, first = np.unique(each, return_index=True)
    passes = np.zeros(int(together.max(initial=-1)) + 1, np.int64)
    np.maximum.at(passes, together[first], often)
    _, begin = np.unique(together, return_index=True)
    return np.bincount(warp[begin], weights=passes, minlength=count).astype(np.int64)


def sectors_past_l1(target: Array, source: Array, active: Array | None) -> Array:
    """Return the requested sectors, int64 (warps,)."""
    warp, chunk, half = _first_of_target(target, source, active)
    block_lines = _numbered(warp, chunk // 2, half * HALF // LINE)
    _, first = np.unique(block_lines, return_index=True)
    return np.bincount(warp[first], minlength=len(target))


def _first_of_target(target: Array, source: Array, active: Array | None) -> tuple[Array, Array, Array]:
    """Return warp, target and source of the first lane of each target of a warp, in units of ``HALF``."""
    warp = np.repeat(np.arange(len(target)), WARP)
    chunk, half = target.ravel() // HALF, source.ravel() // HALF
    if active is not None:
        chosen = active.ravel()
        warp, chunk, half = warp[chosen], chunk[chosen], half[chosen]
    _, first = np.unique(_numbered(warp, chunk), return_index=True)
    return warp[first], chunk[first], half[first]


def _numbered(*columns: Array) -> Array:
    """Number the columns from 0, with equal numbers for equal values in all columns."""
    number, span = np.zeros(len(columns[0]), np.int64), 1
    for column in columns if number.size else ():
        low, width = int(column.min()), int(np.ptp(column)) + 1
        if span * width >= 1 << 63:
            number = np.unique(number, return_inverse=True)[1]
            span = int(number.max()) + 1
        number = number * width + (column - low)
        span *= width
    return np.unique(number, return_inverse=True)[1]
