"""Order among the threads of one warp that ``__syncwarp(mask)`` makes where only some of them meet.

Vector clocks by lanes, for the time since the whole warp met last: a lane counts its meetings, and knows up to which
count it has heard of every other lane of its warp, directly or handed on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemm_lessons.engine.events import WARP

Array = NDArray[Any]

LANE = np.arange(WARP, dtype=np.uint32)
TOGETHER = 64  # warps looked at in one go: bounds the memory


class WarpOrder:
    """The clocks of ``lanes`` lanes, whole warps."""

    def __init__(self, lanes: int) -> None:
        self.counts = np.zeros(lanes, np.int32)
        self._heard = np.full((lanes // WARP, WARP, WARP), -1, np.int32)  # warp, lane, of which lane

    def meet(self, groups: Array) -> None:
        """Lanes meet; ``groups`` uint32 (lanes,): with whom, as a bit per lane, 0 for who does not take part."""
        for start in range(0, len(self._heard), TOGETHER):
            warps = slice(start, start + TOGETHER)
            mine = groups.reshape(-1, WARP)[warps]
            if not mine.any():
                continue
            member = (mine[:, :, None] >> LANE & np.uint32(1)) != 0  # warp, lane, with whom
            known = self._heard[warps].copy()
            known[:, LANE, LANE] = self.counts.reshape(-1, WARP)[warps]
            joined = np.where(member[:, :, :, None], known[:, None, :, :], -1).max(axis=2)
            self._heard[warps] = np.maximum(self._heard[warps], joined)
        self.counts = self.counts + (groups != 0)

    def ordered(self, lane: Array, other: Array, count: Array) -> Array:
        """Whether ``lane`` has heard of what ``other``, of the same warp, did at its ``count``; False across warps."""
        near = lane // WARP == other // WARP
        result: Array = near & (self._heard[lane // WARP, lane % WARP, other % WARP] >= count)
        return result
