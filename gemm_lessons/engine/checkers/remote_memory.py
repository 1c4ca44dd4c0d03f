"""Accesses to shared memory of other blocks of the cluster: a block must have started before, and end after them.

A block has started for a thread that has passed a barrier of the cluster, or has synchronised with one that has. A
block may end once one of its threads has synchronised with every such access, arrivals at its mbarriers included. Three
public kernels whose blocks end earlier failed in 5 of 9 launches on an H200, and with a barrier at the end in none of
12. Clocks are those of ``warp_clocks``.
"""

from __future__ import annotations

import numpy as np

from gemm_lessons.engine.checkers.collector import Example, FindingCollector, Key, Names
from gemm_lessons.engine.events import WARP, Access, Batch
from gemm_lessons.engine.records.arrays import Array


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
