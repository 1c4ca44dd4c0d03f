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
    of a cluster, whose threads share sources.

    Clocks have one row per source, and all sources are processed together.
    """

    def __init__(self, lanes: int, padded: int, cluster: int) -> None:
        self.lanes, self.padded, self.blocks = lanes, padded, lanes // padded
        self.together, self.clusters = padded * cluster, self.blocks // cluster
        self._rows: dict[Source, int] = {}
        self._clocks = np.zeros((0, lanes), np.int32)
        # By mbarrier: (sources, clusters * RECENT), the clocks that arrivals of a phase released.
        self._released: dict[int, Array] = {}
        self._signals: dict[int, Array] = {}  # by named barrier: (sources, blocks)

    @property
    def clocks(self) -> Array:
        """Return the counts: (sources, lanes), sources as they were first named. A new source may move them."""
        return self._clocks[: len(self._rows)]

    def least(self, sources: Iterable[Source]) -> Array:
        """Return the lowest count of each source in each cluster: (sources, clusters)."""
        known = self.clocks.reshape(len(self._rows), self.clusters, -1).min(axis=2)
        return np.asarray(known[[self._rows[source] for source in sources]])

    def number(self, source: Source) -> Array:
        """Return the counts of one source, by lane, as in ``clocks``."""
        row = self._rows.setdefault(source, len(self._rows))
        self._clocks = _with_rows(self._clocks, row + 1)
        found: Array = self._clocks[row]
        return found

    def forget(self, source: Source, cluster: int) -> None:
        """Reset an mbarrier that is initialised again: its phases, and the clocks that arrivals released."""
        self.number(source).reshape(self.clusters, -1)[cluster] = 0
        row, phases = self._rows[source], slice(cluster * RECENT, (cluster + 1) * RECENT)
        for offset, released in self._released.items():
            released[slice(None) if source == ("mbarrier", offset) else slice(row, row + 1), phases] = 0

    def meet(self, mark: Barrier | None) -> None:
        """Join the clocks of the lanes at a barrier. None: all lanes of every block."""
        known = self.clocks
        by_block = known.reshape(len(known), self.blocks, self.padded)
        if mark is None or (mark.lanes is None and mark.blocks is None and mark.kind != "warp"):
            by_block[:] = by_block.max(axis=2, keepdims=True)
        elif mark.kind == "warp":
            _meet_in_warps(known.reshape(len(known), self.lanes // WARP, WARP), mark)
        else:
            lanes = participants(mark, self.padded)
            most = np.where(lanes, known, 0).reshape(by_block.shape).max(axis=2)
            before = self._signals.get(mark.number)
            if before is not None and mark.kind in ("arrive", "named"):
                most = np.maximum(most, _with_rows(before, len(known))[: len(known)])
            if mark.kind == "arrive":
                self._signals[mark.number] = most
                return
            np.copyto(known, np.maximum(known, most.repeat(self.padded, axis=1)), where=lanes)

    def phase(self, mark: Phase) -> None:
        """Release at an arrival at an mbarrier, or bytes sent to it; acquire when a phase is seen to complete."""
        cluster = mark.lanes // self.together
        for offset in np.unique(mark.offsets).tolist():
            here = mark.offsets == offset
            lanes, phases, first = mark.lanes[here], mark.phases[here], cluster[here] * RECENT
            if mark.kind == "wait":
                own = self.number(("mbarrier", offset))
                own[lanes] = np.maximum(own[lanes], phases + 1)
            known, slots = self.clocks, first + phases % RECENT
            released = self._released.get(offset)
            if mark.kind in ("arrive", "sent"):
                if released is None:
                    released = np.zeros((0, self.clusters * RECENT), np.int32)
                released = self._released[offset] = _with_rows(released, len(known))
                # Earlier phases have completed: their released clocks are included.
                before = released[: len(known), first + (phases - 1) % RECENT]
                given = np.maximum(known[:, lanes], before)
                for slot in np.unique(slots).tolist():
                    most = given[:, slots == slot].max(axis=1)
                    released[: len(known), slot] = np.maximum(released[: len(known), slot], most)
            elif mark.kind == "wait" and released is not None:
                known = known[: len(released)]
                clocks = np.where(phases >= 0, released[: len(known), slots], 0)
                known[:, lanes] = np.maximum(known[:, lanes], clocks)


def _with_rows(clocks: Array, rows: int) -> Array:
    """Return clocks that have at least so many rows; new ones are 0."""
    missing = rows - len(clocks)
    if missing <= 0:
        return clocks
    return np.pad(clocks, ((0, max(missing, len(clocks))), (0, 0)))


def _meet_in_warps(warps: Array, mark: Barrier) -> None:
    """Join the clocks (sources, warps, 32) of the lanes that meet in their warps."""
    if mark.groups is not None:
        member = (mark.groups.reshape(-1, WARP)[:, :, None] >> LANE & np.uint32(1)) != 0
        for clocks in warps:
            clocks[:] = np.maximum(clocks, np.where(member, clocks[:, None, :], 0).max(axis=2))
        return
    if mark.lanes is None:
        warps[:] = warps.max(axis=2, keepdims=True)
        return
    lanes = mark.lanes.reshape(-1, WARP)
    most = np.where(lanes, warps, 0).max(axis=2, keepdims=True)
    np.copyto(warps, np.maximum(warps, most), where=lanes)


def participants(mark: Barrier, padded: int) -> Array:
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
        # Counts of each source in its clusters when ``land`` last dropped its copies; -1: they may have changed.
        self._landed = np.zeros((0, 1), np.int32)

    def changed(self, numbers: Iterable[int]) -> None:
        """Note that copies of these sources (numbers as in ``source``) have begun, or what they need has changed."""
        self._landed[[number - 1 for number in numbers if number <= len(self._landed)]] = -1

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
        least, before = happens_before.least(sources), np.full((len(sources), happens_before.clusters), -1, np.int32)
        before[: len(self._landed)] = self._landed
        self._landed = least
        for place in np.flatnonzero((least != before).any(axis=1)).tolist():
            here = np.flatnonzero(self.source == place + 1)
            self.source[here[least[place, self.owner[here] // happens_before.together] >= self.need[here]]] = 0
        self.anything = bool(self.source.any())
