"""Happens-before of warps, where some of them synchronise without the others: vector clocks by warp.

Each warp counts its synchronisations, and knows the newest count that it has acquired of every warp of its cluster. An
access has the count of its warp as its stamp. Another warp is ordered after the access once it has acquired that count.
Barriers of blocks, named barriers, phases of mbarriers and flags pass counts on.

Two uses beside: ``WarpOrder``, by lane; and ``RemoteUses`` of other blocks of the cluster, which must have started
before, and end after them. A block has started for a thread that has passed a barrier of the cluster, or has
synchronised with one that has. A block may end once one of its threads has synchronised with every such access,
arrivals at its mbarriers included. Three public kernels whose blocks end earlier failed in 5 of 9 launches on an H200,
and with a barrier at the end in none of 12.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gemm_lessons.engine.checkers.collector import Example, FindingCollector, Key, Names
from gemm_lessons.engine.checkers.epochs import warps_of
from gemm_lessons.engine.events import CLUSTER, WARP, Access, Barrier, Batch, Phase
from gemm_lessons.engine.records.arrays import Array

LANE = np.arange(WARP, dtype=np.uint32)
WARPS_PER_CALL = 64  # warps per NumPy call: bounds the memory


class WarpClocks:
    """``blocks``: blocks of ``padded`` threads; ``stride``: bytes of shared memory of each; ``cluster``: blocks of a
    cluster.

    ``known``: (blocks, warps, warps of the cluster), newest count of each that a warp has acquired. With clusters, one
    more column counts the barriers of the cluster. ``own``: (blocks, warps), the count of each warp.
    """

    def __init__(self, blocks: int, padded: int, stride: int, cluster: int) -> None:
        self._blocks, self._padded, self._stride, self._cluster = blocks, padded, stride, cluster
        self.warps, self.peers = padded // WARP, padded // WARP * cluster
        self.known = np.zeros((blocks, self.warps, self.peers + (cluster > 1)), np.int32)
        self.own = np.ones((blocks, self.warps), np.int32)
        block, warp = np.indices((blocks, self.warps))
        self.itself = block, warp, block % cluster * self.warps + warp  # each warp in its own clock
        self._phases: dict[tuple[int, int], Array] = {}  # (cell of an mbarrier, phase) -> joined clocks of the arrivals
        # Named barrier -> (warps that have not acquired it, clocks).
        self._signals: dict[int, list[tuple[Array, Array]]] = {}
        self._released: dict[int, Array] = {}  # granule of a flag -> joined clocks of its writers

    def stamp(self, lane: Array) -> Array:
        """Return the stamp of an access by each lane."""
        return np.asarray(self.own.reshape(-1)[lane // WARP])

    def unordered(self, lane: Array, other: Array, stamp: Array) -> Array:
        """Return whether each lane's warp has not acquired what the warp of ``other`` (a lane, or one of the same place
        in another cluster) did at ``stamp``."""
        place = lane // WARP * self.known.shape[-1] + other // WARP % self.peers
        return np.asarray(self.known.reshape(-1)[place] < stamp)

    def participants(self, mark: Barrier) -> Array:
        """Return the warps, (blocks, warps), that take part in a barrier."""
        participants: Array = warps_of(mark.lanes, self._blocks * self._padded).reshape(self._blocks, self.warps)
        return participants if mark.blocks is None else participants & mark.blocks[: self._blocks, None]

    def barrier(self, mark: Barrier) -> None:
        """Process a barrier of blocks, of some of their warps, or of the threads of warps."""
        participants = self.participants(mark)
        if mark.kind in ("block", "named", "arrive"):
            known = self.known.copy()
            known[self.itself] = self.own
            joined = np.where(participants[:, :, None], known, 0).max(axis=1)
            if mark.kind == "arrive":
                self._signals.setdefault(mark.number, []).append((participants, known))
            else:
                if mark.kind == "named":
                    joined = np.maximum(joined, self._acquire_signal(mark.number, np.asarray(participants.any(axis=1))))
                self.known = np.where(participants[:, :, None], np.maximum(known, joined[:, None, :]), self.known)
        self.own = self.own + participants
        self.known[self.itself] = np.where(participants, self.own - 1, self.known[self.itself])

    def flag(self, uses: Iterable[tuple[int, int]], acquires: bool, releases: bool) -> None:
        """Process uses of flags, (warp, granule), one after the other, as atomics execute: acquire, then release."""
        clocks, own = self.known.reshape(-1, self.known.shape[-1]), self.own.reshape(-1)
        for warp, cell in uses:
            released = self._released.get(cell)
            if released is not None and acquires:
                clocks[warp] = np.maximum(clocks[warp], released)
            if releases:
                known = clocks[warp].copy()
                known[warp % self.peers] = own[warp]
                self._released[cell] = known if released is None else np.maximum(released, known)
                own[warp] += 1
                clocks[warp, warp % self.peers] = own[warp] - 1

    def phase(self, mark: Phase) -> None:
        """Release at an arrival, or bytes sent; acquire the clocks of these when a phase is seen to complete."""
        if mark.kind not in ("arrive", "sent", "wait"):
            return
        here = mark.lanes < self._blocks * self._padded
        warp = mark.lanes[here] // WARP
        whole = self._stride * self._cluster - CLUSTER  # memory of a cluster, and its barrier
        place = mark.lanes[here] // (self._padded * self._cluster) * whole + mark.offsets[here]
        meetings = sorted(set(zip(place.tolist(), mark.phases[here].tolist(), warp.tolist(), strict=True)))
        clocks, own = self.known.reshape(-1, self.known.shape[-1]), self.own.reshape(-1)
        for cell, phase, one in meetings:
            key = cell, phase
            released = self._phases.get(key)
            if mark.kind == "wait":
                if released is not None:
                    clocks[one] = np.maximum(clocks[one], released)
                continue
            if released is None:  # all phases before are complete
                released = self._phases.get((cell, phase - 1), np.zeros(clocks.shape[1], np.int32))
            known = clocks[one].copy()
            known[one % self.peers] = own[one]
            self._phases[key] = np.maximum(released, known)
        if mark.kind != "wait":  # an arrival orders nothing between the lanes of the warp
            own[sorted({one for _, _, one in meetings})] += 1
        elif self._cluster > 1:
            met = warp[mark.offsets[here] == CLUSTER]
            clocks[met, -1] = np.maximum(clocks[met, -1], 1)

    def _acquire_signal(self, number: int, blocks: Array) -> Array:
        """Join the oldest signal that each warp of ``blocks`` has not acquired: (blocks, clock)."""
        joined = np.zeros((self._blocks, self.known.shape[-1]), np.int32)
        acquired = np.zeros((self._blocks, self.warps), np.bool_)
        for pending, known in self._signals.get(number, ()):
            now = pending & ~acquired & blocks[:, None]
            joined = np.maximum(joined, np.where(now[:, :, None], known, 0).max(axis=1))
            acquired |= now
            pending &= ~now
        return joined


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


class RemoteUses:
    """The last accesses of each warp of a batch to shared memory of each block of its cluster."""

    def __init__(self, warps: int, cluster: int) -> None:
        self._cluster = cluster
        self._stamp = np.zeros((warps, cluster), np.int32)  # of the warp's clock; 0: none
        self._lane = np.zeros((warps, cluster), np.int32)
        self._number = np.zeros((warps, cluster), np.int32)  # position in ``_seen``
        self._seen: list[Access] = []
        self._early: dict[Access, tuple[int, int]] = {}  # lane of the first, and count

    def note(self, access: Access, lane: Array, rank: Array, clocks: Array, own: Array) -> None:
        """Record that ``lane`` (n,) access memory of the block of ``rank`` (n,)."""
        warp = lane // WARP
        if not access.is_bulk:  # ``bulk_copies`` checks whether copies are complete when a block ends
            self._stamp[warp, rank], self._lane[warp, rank] = own.reshape(-1)[warp], lane
            self._number[warp, rank] = len(self._seen)
            self._seen.append(access)
        early = clocks.reshape(len(self._stamp), -1)[warp, -1] == 0
        if early.any():
            first, count = self._early.get(access, (int(lane[early.argmax()]), 0))
            self._early[access] = first, count + int(np.unique(lane[early]).size)

    def report(self, collector: FindingCollector, names: Names, batch: Batch, clocks: Array) -> None:
        """Report accesses before a block had started, and accesses that may come after its end."""
        for access, (lane, count) in self._early.items():
            key = Key("cluster_memory", "error", access.line, None, access.file, "early")
            who = names.actor(batch, lane, access)
            collector.add(key, lambda who=who: Example("early", None, (who,)), count)  # type: ignore[misc]
        warps = clocks.shape[1]
        peers = warps * self._cluster
        # Clock of each block at its end, by warp of its cluster: (clusters, rank of block, warp of cluster).
        known = clocks[:, :, :peers].max(axis=1).reshape(-1, self._cluster, peers)
        stamp = self._stamp.reshape(-1, peers, self._cluster).swapaxes(1, 2)
        late = (stamp > known) & (np.repeat(np.arange(self._cluster), warps) != np.arange(self._cluster)[:, None])
        for group, rank, warp in np.argwhere(late).tolist():
            using = group * peers + warp
            access, lane = self._seen[int(self._number[using, rank])], int(self._lane[using, rank])
            owner = (group * self._cluster + rank) * batch.padded_threads
            key = Key("cluster_memory", "error", access.line, None, access.file, "ended")
            actors = names.actor(batch, lane, access), names.actor(batch, owner)
            collector.add(key, lambda actors=actors: Example("ended", None, actors))  # type: ignore[misc]
