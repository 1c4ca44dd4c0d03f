"""How many wavefronts a warp's shared-memory access costs, and how many sectors a global one: pure functions.

Every rule was read off an H200 with the micro-kernels of ``checks/counters`` and is tested against each reading.
Addresses are bytes, int64 (warps, 32); ``active`` is bool (warps, 32), or None when every lane takes part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

WARP = 32
BANKS = 32
WORD = 4  # bytes a bank delivers per clock
SECTOR = 32  # bytes of global memory fetched together

Array = NDArray[Any]


def wavefronts(addresses: Array, active: Array | None, width: int, store: bool) -> tuple[Array, Array]:
    """Wavefronts of a shared-memory access and the ideal number, both int64 (warps,). ``width``: bytes per lane.

    A warp is served in groups of lanes that together ask for at most 128 bytes: all 32 for up to 4 bytes, halves for
    8, quarters for 16. A group costs as many wavefronts as the fullest bank has different words; lanes that ask for
    the same word share it; a group without active lanes costs nothing.
    """
    lanes = min(WARP, WARP * WORD // width)
    grouped = addresses.reshape(-1, lanes)
    taking_part = None if active is None else active.reshape(-1, lanes)
    single = _fullest_bank(grouped, taking_part, width)
    busy = np.ones(len(grouped), np.int64) if taking_part is None else taking_part.any(axis=1).astype(np.int64)
    per_warp = WARP // lanes
    if store or per_warp == 1:
        return single.reshape(-1, per_warp).sum(axis=1), busy.reshape(-1, per_warp).sum(axis=1)
    pair_addresses = addresses.reshape(-1, 2 * lanes)
    pair_active = None if active is None else active.reshape(-1, 2 * lanes)
    joined = _pairs(pair_addresses, pair_active)
    cost = single.reshape(-1, 2).sum(axis=1)
    ideal = busy.reshape(-1, 2).sum(axis=1)
    if joined.any():
        part = None if pair_active is None else pair_active[joined]
        cost[joined] = _fullest_bank(pair_addresses[joined], part, width)
        ideal[joined] = np.minimum(ideal[joined], 1)
    return cost.reshape(-1, per_warp // 2).sum(axis=1), ideal.reshape(-1, per_warp // 2).sum(axis=1)


def _pairs(addresses: Array, active: Array | None) -> Array:
    """Per row: do lanes n and n^1 all ask for the same address, or lanes n and n^2?"""
    result = np.zeros(len(addresses), np.bool_)
    lanes = np.arange(addresses.shape[1])
    for distance in (1, 2):
        same = addresses == addresses[:, lanes ^ distance]
        if active is not None:
            same |= ~active | ~active[:, lanes ^ distance]
        result |= same.all(axis=1)
    return result


def _filled(addresses: Array, active: Array | None) -> Array:
    """Inactive lanes repeat their row's first active lane, so that they add nothing."""
    if active is None:
        return addresses
    first = np.take_along_axis(addresses, active.argmax(axis=1)[:, None], axis=1)
    return np.where(active, addresses, first)


def _fullest_bank(addresses: Array, active: Array | None, width: int) -> Array:
    """Largest number of different words in one bank, per row; 0 for rows without active lanes. int64 (rows,)."""
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
    """Different 32-byte sectors that each warp's access touches, int64 (warps,). Addresses are aligned to ``width``."""
    touched = np.sort(_filled(addresses, active) // SECTOR, axis=1)
    count: Array = 1 + np.count_nonzero(touched[:, 1:] != touched[:, :-1], axis=1)
    if active is not None:
        count = np.where(active.any(axis=1), count, 0)
    return count


def ideal_sectors(active_lanes: Array, width: int) -> Array:
    """The fewest sectors that hold ``width`` bytes for every active lane, int64 (warps,)."""
    result: Array = -(-active_lanes * width // SECTOR)
    return result


@dataclass(frozen=True)
class Collision:
    """Lanes of one warp that ask one bank for different words: an example of a conflict."""

    bank: int
    lanes: tuple[int, ...]
    addresses: tuple[int, ...]


def collision(addresses: Array, active: Array | None, width: int) -> Collision:
    """The fullest bank of one warp's access: one lane for each of its different words. ``addresses`` is (32,)."""
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
