"""Happens-before within a warp, where ``__syncwarp(mask)`` synchronises only some of its lanes.

Vector clocks by lane, since the last synchronisation of the whole warp: a lane counts its synchronisations and keeps,
for every other lane of its warp, the newest count it has acquired, directly or transitively.
"""

from __future__ import annotations

import numpy as np

from gemm_lessons.engine.events import WARP
from gemm_lessons.engine.records.arrays import Array

LANE = np.arange(WARP, dtype=np.uint32)
WARPS_PER_CALL = 64  # warps per NumPy call: bounds the memory


class WarpOrder:
    """Vector clocks of ``lanes`` lanes (whole warps)."""

    def __init__(self, lanes: int) -> None:
        self.counts = np.zeros(lanes, np.int32)
        self._acquired = np.full((lanes // WARP, WARP, WARP), -1, np.int32)  # warp, lane, other lane

    def meet(self, groups: Array) -> None:
        """Join the clocks of lanes that synchronise.

        ``groups`` uint32 (lanes,): bit mask of the lanes that synchronise with this one, 0 for none.
        """
        for start in range(0, len(self._acquired), WARPS_PER_CALL):
            warps = slice(start, start + WARPS_PER_CALL)
            mine = groups.reshape(-1, WARP)[warps]
            if not mine.any():
                continue
            member = (mine[:, :, None] >> LANE & np.uint32(1)) != 0  # warp, lane, other lane
            known = self._acquired[warps].copy()
            known[:, LANE, LANE] = self.counts.reshape(-1, WARP)[warps]
            joined = np.where(member[:, :, :, None], known[:, None, :, :], -1).max(axis=2)
            self._acquired[warps] = np.maximum(self._acquired[warps], joined)
        self.counts = self.counts + (groups != 0)

    def ordered(self, lane: Array, other: Array, count: Array) -> Array:
        """Return whether ``lane`` has acquired the event of ``other`` at ``count``; False across warps."""
        same_warp = lane // WARP == other // WARP
        result: Array = same_warp & (self._acquired[lane // WARP, lane % WARP, other % WARP] >= count)
        return result
