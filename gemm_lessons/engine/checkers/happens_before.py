"""Happens-before of mbarrier phases and bulk-copy groups, and the copies that must complete before a byte is touched.

Counts only grow until an mbarrier is initialised again, so a thread's clock is one number per source, and
synchronisation takes the maximum.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np

from gemm_lessons.engine.checkers.epochs import RECENT
from gemm_lessons.engine.events import WARP, Barrier, Phase
from gemm_lessons.engine.records.arrays import Array

# "mbarrier": its offset in the shared memory of its cluster; "groups": the thread in the cluster that commits them;
# "products": the first thread of the warpgroup.
Source = tuple[Literal["mbarrier", "groups", "products"], int]

LANE = np.arange(WARP, dtype=np.uint32)


class HappensBefore:
    """Vector clocks by lane: how many phases or groups of each source are known to have completed. ``cluster``: blocks
    of a cluster, whose threads share sources."""

    def __init__(self, lanes: int, padded: int, cluster: int) -> None:
        self.lanes, self.padded, self.blocks = lanes, padded, lanes // padded
        self.together, self.clusters = padded * cluster, self.blocks // cluster
        self.of: dict[Source, Array] = {}
        # By mbarrier: (clusters, RECENT), the clocks that arrivals of a phase released.
        self._released_clocks: dict[tuple[int, Source], Array] = {}
        self._signals: dict[tuple[int, Source], Array] = {}  # by named barrier: (blocks,)

    def number(self, source: Source) -> Array:
        """Return the counts of one source, by lane."""
        if source not in self.of:
            self.of[source] = np.zeros(self.lanes, np.int32)
        return self.of[source]

    def forget(self, source: Source, cluster: int) -> None:
        """Reset an mbarrier that is initialised again: its phases, and the clocks that arrivals released."""
        self.number(source).reshape(self.clusters, -1)[cluster] = 0
        for (offset, clock_source), clocks_released in self._released_clocks.items():
            if clock_source == source or ("mbarrier", offset) == source:
                clocks_released[cluster] = 0

    def meet(self, mark: Barrier | None) -> None:
        """Join the clocks of the lanes at a barrier. None: all lanes of every block."""
        for source, known in self.of.items():
            by_block = known.reshape(self.blocks, -1)
            if mark is None or (mark.lanes is None and mark.blocks is None and mark.kind != "warp"):
                by_block[:] = by_block.max(axis=1, keepdims=True)
            elif mark.kind == "warp":
                self._in_warps(known, mark)
            else:
                lanes = taking(mark, self.padded)
                most = np.where(lanes, known, 0).reshape(self.blocks, -1).max(axis=1)
                key = mark.number, source
                if mark.kind == "arrive":
                    self._signals[key] = np.maximum(self._signals.get(key, 0), most)
                    continue
                if mark.kind == "named" and key in self._signals:
                    most = np.maximum(most, self._signals[key])
                np.copyto(known, np.maximum(known, np.repeat(most, self.padded)), where=lanes)

    def _in_warps(self, known: Array, mark: Barrier) -> None:
        warps = known.reshape(-1, WARP)
        if mark.groups is not None:
            member = (mark.groups.reshape(-1, WARP)[:, :, None] >> LANE & np.uint32(1)) != 0
            warps[:] = np.maximum(warps, np.where(member, warps[:, None, :], 0).max(axis=2))
            return
        lanes = np.ones_like(warps, np.bool_) if mark.lanes is None else mark.lanes.reshape(-1, WARP)
        most = np.where(lanes, warps, 0).max(axis=1, keepdims=True)
        np.copyto(warps, np.maximum(warps, most), where=lanes)

    def phase(self, mark: Phase) -> None:
        """Release at an arrival at an mbarrier; acquire when a phase is seen to complete."""
        cluster = mark.lanes // self.together
        for offset in np.unique(mark.offsets).tolist():
            here = mark.offsets == offset
            lanes, phases, clusters = mark.lanes[here], mark.phases[here], cluster[here]
            if mark.kind == "wait":
                own = self.number(("mbarrier", offset))
                own[lanes] = np.maximum(own[lanes], phases + 1)
            for source, known in self.of.items():
                clocks_released = self._released_clocks.get((offset, source))
                if mark.kind == "arrive":
                    if clocks_released is None:
                        clocks_released = self._released_clocks[offset, source] = np.zeros(
                            (self.clusters, RECENT), np.int32
                        )
                    # Earlier phases have completed: their released clocks are included.
                    before = clocks_released[clusters, (phases - 1) % RECENT]
                    np.maximum.at(clocks_released, (clusters, phases % RECENT), np.maximum(known[lanes], before))
                elif clocks_released is not None:
                    known[lanes] = np.maximum(
                        known[lanes], np.where(phases >= 0, clocks_released[clusters, phases % RECENT], 0)
                    )


def taking(mark: Barrier, padded: int) -> Array:
    """Return the lanes that take part in a barrier of blocks, or of some lanes."""
    if mark.lanes is not None:
        return mark.lanes
    assert mark.blocks is not None
    return np.repeat(mark.blocks, padded)


def present(numbers: Array) -> list[int]:
    """Return the different positive numbers of an array of small non-negative integers."""
    return (np.flatnonzero(np.bincount(numbers)[1:]) + 1).tolist()


class PendingCopies:
    """For one kind of copy: what must complete before each granule may be touched."""

    def __init__(self, count: int) -> None:
        self.source = np.zeros(count, np.int16)  # 1 + position in ``sources``; 0: nothing
        self.need = np.zeros(count, np.int32)
        self.owner = np.zeros(count, np.int32)
        self.copy = np.zeros(count, np.int32)  # position in ``copies``; -1: cp.async
        self.anything = False
        self._landed: dict[int, Array] = {}  # by source: counts of its clusters when ``land`` last dropped its copies

    def changed(self, numbers: Iterable[int]) -> None:
        """Note that copies of these sources (numbers as in ``source``) have begun, or that what they need has
        changed."""
        for number in numbers:
            self._landed.pop(number, None)

    def premature(self, lane: Array, cell: Array, sources: list[Source], happens_before: HappensBefore) -> Array:
        """Return which of ``lane`` touch ``cell`` too early."""
        found = np.zeros(lane.size, np.bool_)
        source = self.source[cell]
        if not source.any():
            return found
        for number in present(source):
            here = source == number
            found[here] = happens_before.number(sources[number - 1])[lane[here]] < self.need[cell[here]]
        return found

    def land(self, sources: list[Source], happens_before: HappensBefore) -> None:
        """Drop the copies whose completion is in the clock of every thread of their cluster."""
        for number, source in enumerate(sources, 1):
            least = happens_before.number(source).reshape(happens_before.clusters, -1).min(axis=1)
            if np.array_equal(least, self._landed.get(number, ())):
                continue
            self._landed[number] = least
            here = np.flatnonzero(self.source == number)
            self.source[here[least[self.owner[here] // happens_before.together] >= self.need[here]]] = 0
        self.anything = bool(self.source.any())
