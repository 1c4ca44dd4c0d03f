"""Completion times of the phases of an mbarrier and of a cluster's barrier, in the simulation of a multiprocessor."""

from __future__ import annotations

from typing import Generic, TypeVar

Waiting = TypeVar("Waiting")


class MbarrierPhases:
    """An mbarrier. A phase completes when all threads have arrived and all announced bytes are there.

    A copy announces its arrival time when it is issued. The phase before the first counts as complete.
    """

    __slots__ = ("arrivals", "before", "bytes", "number", "over", "pending", "time")

    def __init__(self, arrivals: int) -> None:
        self.arrivals = self.pending = arrivals
        self.bytes, self.time = 0, 0.0
        self.number = 0  # phases with a known completion time
        self.over = self.before = 0.0  # completion times of the last of them, and of the one before it

    def arrived(self, threads: int, announced: int, time: float) -> bool:
        """Record arrivals of threads and the bytes they announce. Return whether the phase completes."""
        self.pending -= threads
        self.bytes += announced
        return self._changed(time)

    def brought(self, count: int, time: float) -> bool:
        """Record that ``count`` bytes arrive at ``time``. Return whether the phase completes."""
        self.bytes -= count
        return self._changed(time)

    def _changed(self, time: float) -> bool:
        self.time = max(self.time, time)
        if self.pending > 0 or self.bytes > 0:
            return False
        self.pending, self.bytes = self.arrivals, 0
        self.before, self.over, self.time = self.over, self.time, 0.0
        self.number += 1
        return True

    def since(self, parity: int, time: float) -> float | None:
        """Return the end of the phase for which a thread waits by ``parity`` at ``time``; None if not known yet."""
        if self.number % 2 != parity:
            return self.over
        return self.before if time < self.over else None


class ClusterBarrier(Generic[Waiting]):
    """The barrier of a cluster: a phase completes when all of its warps that have not ended have arrived."""

    __slots__ = ("arrived", "number", "over", "waiting")

    def __init__(self) -> None:
        self.arrived = 0  # warps, in this phase
        self.number = 0  # phases that are complete
        self.over = 0.0  # completion time of the last of them
        self.waiting: list[Waiting] = []

    def complete(self, time: float) -> list[Waiting]:
        """Begin the next phase. Return the warps that waited for this one."""
        self.arrived, self.number, self.over = 0, self.number + 1, time
        waiting, self.waiting = self.waiting, []
        return waiting
