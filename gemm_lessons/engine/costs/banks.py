"""Count the wavefronts of a warp's shared-memory access and the sectors of a global one.

Addresses are bytes, int64 (warps, 32); ``active`` is bool (warps, 32), or None when every lane takes part.

The rules were settled by readings of an H200 (``checks/readings/counters``), and a test counts every one again:

- Stores, and loads of up to 4 bytes: lanes are served in groups that together request at most 128 bytes: all 32 for up
  to 4 bytes, halves for 8, quarters for 16. A group costs as many wavefronts as different words are requested from the
  fullest bank; lanes that request the same word share it; a group without active lanes costs nothing.
- Loads of 8 and 16 bytes: the same, but two neighbouring groups (the halves of a warp for 8 bytes, the quarters of each
  half for 16) cost one wavefront together when all active lanes n and n^1 of both have the same address, or all n and
  n^2, and at most one word is requested from each bank. Otherwise they do not join, however little they overlap.
- With inactive lanes, loads of 16 bytes are more peculiar (7,680 readings, no exception). One address for all active
  lanes costs one wavefront per 16 of them. Else, in the lower half, an inactive lane next to an active one breaks the
  pairs; but if lane 31 is inactive, the lower half needs no pairs, only at most one requested word per bank.
- The ideal is the bytes that the active lanes request / 128, rounded up; or the cost itself, where that is less.
- Atomics: as many wavefronts as lanes access the fullest bank; lanes at the same word do not share.
- ldmatrix: each 8x8 matrix costs what a group of 8 lanes with 16 bytes costs.
- Global: different 32-byte sectors over the whole warp, at every width; one request if any lane is active.
- Textures over plain memory: a request for each 8 lanes, for each 4 with texels of 16 bytes, if any of
  them is active and inside; each request counts its own sectors (readings/counters/texture_probes.json).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Literal

import numpy as np

from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.frozen import dataclass

WARP = 32
BANKS = 32
WORD = 4  # bytes a bank delivers per clock
MATRIX_ROWS, ROW_BYTES = 8, 16  # of ldmatrix
SECTOR = 32  # bytes of global memory fetched together
LANES_OF_A_REQUEST = {4: 8, 8: 8, 16: 4}  # by the bytes of a texel; of the texture unit

DIGEST = 16  # bytes that identify a pattern of addresses
MOST_RECENT = 4096  # patterns whose costs are kept

AccessKind = Literal["load", "store", "atomic", "copy", "matrix"]
_recent: dict[tuple[bytes, int, bool, int, AccessKind], tuple[Array, Array]] = {}


def wavefronts(addresses: Array, active: Array | None, width: int, access: AccessKind = "load") -> tuple[Array, Array]:
    """Return the wavefronts of a shared-memory access and the ideal number, both int64 (warps,).

    ``width`` is bytes per lane; of ``matrix`` (ldmatrix, stmatrix) those of a row, and the active lanes are those that
    give the address of one (``rows_of_matrices``).

    The same pattern of addresses, moved by whole words, costs as much. Batches of blocks and iterations of a loop
    repeat few patterns, so the costs of recent ones are kept.
    """
    if not addresses.size:
        return _wavefronts(addresses, active, width, access)
    digest = blake2b((addresses - addresses.item(0) // WORD * WORD).tobytes(), digest_size=DIGEST)
    if active is not None:
        digest.update(active.tobytes())
    key = digest.digest(), addresses.size, active is None, width, access
    found = _recent.get(key)
    if found is None:
        if len(_recent) >= MOST_RECENT:
            _recent.clear()
        found = _recent[key] = _wavefronts(addresses, active, width, access)
        for one in found:
            one.flags.writeable = False
    return found


def _wavefronts(addresses: Array, active: Array | None, width: int, access: AccessKind) -> tuple[Array, Array]:
    if access == "matrix":
        each = _grouped(addresses, active, width)
        return each.sum(axis=1), np.count_nonzero(each, axis=1)
    if access == "atomic":
        cost = _lanes_per_bank(addresses, active)
    elif access == "load" and width > WORD:
        cost = _wide_load(addresses, active, width)
    else:
        cost = _grouped(addresses, active, width).sum(axis=1)
    lanes = np.full(len(cost), WARP) if active is None else np.count_nonzero(active, axis=1)
    return cost, np.minimum(cost, -(-lanes * width // (BANKS * WORD)))


def bank(addresses: Array) -> Array:
    """Return the bank of each address, int64 of the same shape; that of the first byte, where an access is wider."""
    result: Array = addresses // WORD % BANKS
    return result


def _grouped(addresses: Array, active: Array | None, width: int) -> Array:
    """Return the cost of each group of lanes that is served together, int64 (warps, groups)."""
    lanes = min(WARP, WARP * WORD // width)
    mask = None if active is None else active.reshape(-1, lanes)
    return _fullest_bank(addresses.reshape(-1, lanes), mask, width).reshape(-1, WARP // lanes)


def _wide_load(addresses: Array, active: Array | None, width: int) -> Array:
    """Return the cost of loads of 8 and 16 bytes: neighbouring groups share one wavefront if their lanes are paired."""
    cost = _grouped(addresses, active, width).reshape(len(addresses), -1, 2).sum(axis=2)
    lanes = 2 * WARP * WORD // width
    both, mask = addresses.reshape(-1, lanes), None if active is None else active.reshape(-1, lanes)
    free = (_fullest_bank(both, mask, width) == 1).reshape(cost.shape)
    paired = _pairs(both, mask).reshape(cost.shape)
    if width == 16 and active is not None and mask is not None:
        strictly = _pairs(np.where(mask, both, -1), None).reshape(cost.shape)
        paired[:, 0] = strictly[:, 0] | ~active[:, -1]
    result: Array = np.where(free & paired, 1, cost).sum(axis=1)
    if width == 16 and active is not None:
        same = ((_filled(addresses, active) == _filled(addresses, active)[:, :1]) | ~active).all(axis=1)
        result = np.where(same, -(-np.count_nonzero(active, axis=1) * width // (2 * BANKS * WORD)), result)
    return result


def _lanes_per_bank(addresses: Array, active: Array | None) -> Array:
    """Return the largest number of lanes at one bank, whether or not they access the same word."""
    rows = np.broadcast_to(np.arange(len(addresses))[:, None], addresses.shape)
    slots = rows * BANKS + bank(addresses)
    count: Array = np.bincount(slots.ravel() if active is None else slots[active], minlength=len(addresses) * BANKS)
    fullest: Array = count.reshape(-1, BANKS).max(axis=1)
    return fullest


def rows_of_matrices(bytes_received: int, lanes: int) -> Array:
    """Return the lanes that give rows of ldmatrix, bool (lanes,): lanes 8i to 8i + 7 of a warp give those of matrix i.

    Other lanes are ignored. A lane receives one word of each matrix.
    """
    result: Array = np.arange(lanes) % WARP < MATRIX_ROWS * (bytes_received // WORD)
    return result


def _pairs(addresses: Array, active: Array | None) -> Array:
    """Return, per row, whether all lanes n and n^1 have the same address, or all lanes n and n^2."""
    result = np.zeros(len(addresses), np.bool_)
    lanes = np.arange(addresses.shape[1])
    for distance in (1, 2):
        same = addresses == addresses[:, lanes ^ distance]
        if active is not None:
            same |= ~active | ~active[:, lanes ^ distance]
        result |= same.all(axis=1)
    return result


def _filled(addresses: Array, active: Array | None) -> Array:
    """Let inactive lanes repeat their row's first active lane, so that they add nothing."""
    if active is None:
        return addresses
    first = addresses[np.arange(len(addresses)), active.argmax(axis=1)]
    return np.where(active, addresses, first[:, None])


def _fullest_bank(addresses: Array, active: Array | None, width: int) -> Array:
    """Return the largest number of different words in one bank, int64 (rows,); 0 for rows without active lanes."""
    words = _filled(addresses, active) // WORD
    count = max(1, width // WORD)
    if count > 1:
        words = (words[:, :, None] + np.arange(count)).reshape(len(words), -1)
    words = np.sort(words, axis=1)
    new = np.ones(words.shape, np.bool_)
    np.not_equal(words[:, 1:], words[:, :-1], out=new[:, 1:])
    rows = np.broadcast_to(np.arange(len(words))[:, None], words.shape)
    slots = (rows * BANKS + words % BANKS)[new]
    fullest: Array = np.bincount(slots, minlength=len(words) * BANKS).reshape(-1, BANKS).max(axis=1)
    if active is not None:
        fullest = np.where(active.any(axis=1), fullest, 0)
    return fullest


def sectors(addresses: Array, active: Array | None, width: int) -> Array:
    """Return the different 32-byte sectors of each warp's access, int64 (warps,).

    Addresses are aligned to ``width``.
    """
    touched = np.sort(_filled(addresses, active) // SECTOR, axis=1)
    count: Array = 1 + np.count_nonzero(touched[:, 1:] != touched[:, :-1], axis=1)
    if active is not None:
        count = np.where(active.any(axis=1), count, 0)
    return count


def rounds(addresses: Array, active: Array | None) -> Array:
    """Return the sectors of each warp's atomic as the profiler counts them, int64 (warps,): a sector counts once for
    each of the lanes at the address that most of them share. Read on an H200: 105 patterns, of 4 and 8 bytes.
    """
    own = np.sort(addresses if active is None else np.where(active, addresses, -1), axis=1)
    lane = np.broadcast_to(np.arange(own.shape[1]), own.shape)
    begins, enters = np.ones((2, *own.shape), np.bool_)  # an address, a sector
    np.not_equal(own[:, 1:], own[:, :-1], out=begins[:, 1:])
    np.not_equal(own[:, 1:] // SECTOR, own[:, :-1] // SECTOR, out=enters[:, 1:])
    at_address = lane - np.maximum.accumulate(np.where(begins, lane, 0), axis=1) + 1
    most = np.maximum.reduceat(at_address.ravel(), np.flatnonzero(enters))
    rows, columns = np.nonzero(enters)
    taken = own[rows, columns] >= 0
    count: Array = np.bincount(rows[taken], most[taken], len(own)).astype(np.int64)
    return count


def texture_requests(addresses: Array, active: Array | None, width: int) -> tuple[Array, Array]:
    """Return the requests of each warp's texture fetch and the sectors of all of them, int64 (warps,).

    ``width``: bytes of a texel. The texture unit serves 4 or 8 lanes per request, without those outside of the texture.
    """
    lanes = LANES_OF_A_REQUEST[width]
    groups = addresses.reshape(-1, lanes)
    mask = None if active is None else active.reshape(-1, lanes)
    active_groups = np.ones(len(groups), np.int64) if mask is None else mask.any(axis=1).astype(np.int64)
    found = sectors(groups, mask, width)
    return active_groups.reshape(len(addresses), -1).sum(axis=1), found.reshape(len(addresses), -1).sum(axis=1)


def ideal_sectors(active_lanes: Array, width: int) -> Array:
    """Return the fewest sectors that hold ``width`` bytes for every active lane, int64 (warps,)."""
    result: Array = -(-active_lanes * width // SECTOR)
    return result


@dataclass(frozen=True)
class Collision:
    """Example of a conflict: lanes of one warp that access different words of one bank."""

    bank: int
    lanes: tuple[int, ...]
    addresses: tuple[int, ...]


def collision(addresses: Array, active: Array | None, width: int) -> Collision:
    """Return the fullest bank of one warp's access: one lane for each of its different words.

    ``addresses`` is (32,).
    """
    group = min(WARP, WARP * WORD // width)
    best: dict[int, int] = {}
    best_bank = 0
    for start in range(0, WARP, group):
        banks: dict[int, dict[int, int]] = {}
        for lane in range(start, start + group):
            if active is not None and not active[lane]:
                continue
            first = int(addresses[lane]) // WORD
            for word in range(first, first + max(1, width // WORD)):
                banks.setdefault(word % BANKS, {}).setdefault(word, lane)
        for bank, lanes in banks.items():
            if len(lanes) > len(best):
                best, best_bank = lanes, bank
    colliding = tuple(best.values())
    return Collision(best_bank, colliding, tuple(int(addresses[lane]) for lane in colliding))
