"""Recent events at mbarriers: arrivals, announced bytes, bytes that copies reported, and waits.

``hangs.py`` explains from them why a phase does not end. Only the newest events are kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Literal

import numpy as np

from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.frozen import dataclass

KEPT = 4096  # events
What = Literal["arrived", "announced", "reported", "waited"]


@dataclass(frozen=True, eq=False)
class Event:
    """``lanes`` (n,) did something at the mbarriers at ``cell`` (n,) in ``phase`` (n,), in instruction ``index``.
    ``amount`` (n,): arrivals or bytes. A wait has seen the end of ``phase``."""

    what: What
    index: int
    lanes: Array
    cell: Array
    phase: Array
    amount: Array


class PhaseHistory:
    """The newest events of a batch, in order."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque(maxlen=KEPT)

    @property
    def forgets(self) -> bool:
        """Return whether events are missing."""
        return len(self._events) == KEPT

    def begin(self) -> None:
        """Forget all events, for a new batch."""
        self._events.clear()

    def note(self, what: What, index: int, lanes: Array, cell: Array, phase: Array, amount: Array | int = 0) -> None:
        """Add an event, unless ``amount`` is 0 for every lane and it is not a wait."""
        given = np.broadcast_to(amount, lanes.shape)
        if what == "waited" or given.any():
            self._events.append(Event(what, index, lanes, cell, phase, given))

    def events(self, *whats: What) -> Iterator[Event]:
        """Yield all events of some kinds."""
        return (event for event in self._events if event.what in whats)

    def at(self, cell: int, *whats: What) -> Iterator[tuple[Event, Array]]:
        """Yield the events of some kinds at one mbarrier, and the positions of the lanes that took part."""
        for event in self.events(*whats):
            here = np.flatnonzero(event.cell == cell)
            if here.size:
                yield event, here
