"""An mbarrier while a multiprocessor is played: when its phases are over."""

from __future__ import annotations


class Awaited:
    """A phase is over when so many threads have arrived and all bytes that they announced are there; a copy says when
    it will be, as soon as it is under way. The phase before the first counts as over."""

    __slots__ = ("arrivals", "before", "bytes", "number", "over", "pending", "time")

    def __init__(self, arrivals: int) -> None:
        self.arrivals = self.pending = arrivals
        self.bytes, self.time = 0, 0.0
        self.number = 0  # phases of which it is known when they are over
        self.over = self.before = 0.0  # when the last of them is, and the one before it

    def arrived(self, threads: int, announced: int, time: float) -> bool:
        """Threads came, with so many bytes on their way. Is the phase over?"""
        self.pending -= threads
        self.bytes += announced
        return self._changed(time)

    def brought(self, count: int, time: float) -> bool:
        """So many bytes will be there. Is the phase over?"""
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
        """When the phase of this parity is over that is meant at ``time``; None: nobody knows yet."""
        if self.number % 2 != parity:
            return self.over
        return self.before if time < self.over else None
