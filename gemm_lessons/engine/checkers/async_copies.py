"""``cp.async``: reads of bytes that have not arrived.

A copy is in flight until the thread that issued it waits for its group. Other threads may read the bytes only after a
barrier that follows this wait, or an arrival at an mbarrier whose phase they have seen end. The state of a granule is
the lane that copied it, the number of groups this lane has committed since, whether the lane has waited since, and the
stage of the copy. Each transition (state, epoch) -> state is memoised, unless warps synchronise by mbarriers or
``bar.arrive``: then ``warp_clocks`` gives the order.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from gemm_lessons.engine.checkers.collector import Example, FindingCollector, Key, Names
from gemm_lessons.engine.checkers.epochs import Epoch, Mark, Windows
from gemm_lessons.engine.checkers.warp_clocks import WarpClocks
from gemm_lessons.engine.events import WARP, Access, AsyncGroup, Barrier, Batch, Boundary, Phase, Touch
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.facts import InFlight, Race
from gemm_lessons.engine.records.frozen import dataclass

NONE, IN_FLIGHT, ARRIVED, IN_WARP = 0, 1, 2, 3  # IN_WARP: arrived, and the warp has synchronised since


@dataclass(frozen=True)
class PrematureAccess:
    """A premature read or overwrite: the copy is in flight, or it has arrived but no barrier followed."""

    copy: Access | None
    access: Access
    why: Literal["in_flight", "no_barrier"]
    offset: int
    lanes: tuple[int, int]
    age: int  # groups that the copying lane has committed since
    waited: bool  # whether the copying lane has waited since
    count: int


@dataclass(frozen=True, eq=False)
class _State:
    stage: Array  # uint8 per granule of all blocks
    owner: Array  # int32: lane that issued the copy
    age: Array  # int16: groups committed by the owner since; 0 = not committed
    waited: Array  # bool: whether the owner has waited since
    copy: Array  # int32: index of the copy instruction

    def key(self) -> bytes:
        return b"".join(a.tobytes() for a in (self.stage, self.owner, self.age, self.waited, self.copy))


@dataclass(frozen=True, eq=False)
class _Order:
    """The order of warps that synchronise apart, and for each granule the stamp of the wait that covered its copy."""

    clocks: WarpClocks
    stamp: Array


class AsyncCopies:
    """Tracks the copies of a batch. Created only for kernels with ``cp.async``."""

    def __init__(self, collector: FindingCollector, names: Names, windows: Windows) -> None:
        self._collector, self._names, self.windows = collector, names, windows
        # Since the last barrier of all blocks; None: warps have not synchronised apart.
        self.order: _Order | None = None
        self._accesses: dict[int, Access] = {}
        self._states: dict[bytes, _State] = {}
        self._steps: dict[tuple[_State, Epoch, Boundary], tuple[_State, tuple[PrematureAccess, ...]]] = {}
        count = windows.lanes // windows.padded * windows.shared // windows.shared_granule
        self._start = _State(
            np.zeros(count, np.uint8),
            np.full(count, -1, np.int32),
            np.zeros(count, np.int16),
            np.zeros(count, np.bool_),
            np.zeros(count, np.int32),
        )
        self._state = self._start

    def forget(self) -> None:
        """Drop the memoised epochs. Keep the current state."""
        self._states.clear()
        self._steps.clear()

    def begin_batch(self) -> None:
        """Start new blocks: no copy is in flight."""
        self._state, self.order = self._start, None

    def epoch(self, batch: Batch, epoch: Epoch, boundary: Boundary) -> None:
        """Advance the state by one epoch and report its premature accesses."""
        if self.order is None and any(map(_synchronises_apart, (segment.mark for segment in epoch.segments))):
            windows = self.windows
            clocks = WarpClocks(windows.lanes // windows.padded, windows.padded, windows.shared, windows.cluster)
            self.order = _Order(clocks, np.ones(self._start.stage.size, np.int32))
        if self.order is not None:
            self._state, found = _Step(self, self._state).run(epoch, boundary)
            if boundary == "barrier":
                self.order = None
        else:
            transition = (self._state, epoch, boundary)
            step = self._steps.get(transition)
            if step is None:
                after, found = _Step(self, self._state).run(epoch, boundary)
                after = self._states.setdefault(after.key(), after)
                step = self._steps[transition] = (after, found)
            self._state, found = step
        for premature in found:
            kind = "async_in_flight" if premature.why == "in_flight" else "race"
            detail = "shared copy load" if premature.why == "no_barrier" else _case(premature)
            key = Key.between(kind, "error", premature.copy, premature.access, detail)
            self._collector.add(key, lambda e=premature: self._example(batch, e), premature.count)  # type: ignore[misc]

    def _example(self, batch: Batch, premature: PrematureAccess) -> Example:
        owner, lane = premature.lanes
        actors = self._names.actor(batch, owner, premature.copy), self._names.actor(batch, lane, premature.access)
        if premature.why == "no_barrier":
            return Example("shared copy", self._names.shared(premature.offset), actors, Race())
        facts = InFlight(premature.age - 1 if premature.age else None)
        return Example(_case(premature), self._names.shared(premature.offset), actors, facts)


def _synchronises_apart(mark: Mark | None) -> bool:
    """Return whether threads that arrive need not be those that wait."""
    return isinstance(mark, Phase) or (isinstance(mark, Barrier) and mark.kind == "arrive")


def _case(premature: PrematureAccess) -> str:
    """Return why no wait of the copying lane has covered a copy in flight."""
    return "never waited" if not premature.waited else "waited too little" if premature.age else "no group"


class _Step:
    """The changes of one epoch to a state."""

    def __init__(self, parent: AsyncCopies, before: _State) -> None:
        self.parent = parent
        self.stage, self.owner = before.stage.copy(), before.owner.copy()
        self.age, self.waited, self.copy = before.age.copy(), before.waited.copy(), before.copy.copy()
        self.found: list[PrematureAccess] = []

    def run(self, epoch: Epoch, boundary: Boundary) -> tuple[_State, tuple[PrematureAccess, ...]]:
        for segment in epoch.segments:
            for touch in segment.touches:
                if touch.access.space == "shared":
                    self._touch(touch)
            if isinstance(segment.mark, AsyncGroup):
                self._group(segment.mark)
            elif isinstance(segment.mark, Barrier):
                self._barrier(segment.mark)
            elif isinstance(segment.mark, Phase):
                self._phase(segment.mark)
        if boundary == "barrier":
            self._publish(np.ones(self.stage.shape, np.bool_))
        return _State(self.stage, self.owner, self.age, self.waited, self.copy), tuple(self.found)

    def _touch(self, touch: Touch) -> None:
        parent, access = self.parent, touch.access
        where = parent.windows.cells(touch, parent.windows.lanes)
        lane, cell = where.lane, where.cell
        if access.is_async:
            parent._accesses[access.index] = access
            self.stage[cell], self.owner[cell], self.age[cell], self.copy[cell] = IN_FLIGHT, lane, 0, access.index
            self.waited[cell] = False
            return
        stage = self.stage[cell]
        if not stage.any():
            return
        owner = self.owner[cell]
        self._report("in_flight", access, lane, cell, stage == IN_FLIGHT)
        apart = (stage == ARRIVED) & (owner != lane)
        apart |= (stage == IN_WARP) & (owner // WARP != lane // WARP)
        if (order := parent.order) is not None and apart.any():
            apart &= order.clocks.unordered(lane, np.maximum(owner, 0), order.stamp[cell])
        self._report("no_barrier", access, lane, cell, apart)
        if access.effect != "load":
            self._drop(cell)

    def _report(
        self, why: Literal["in_flight", "no_barrier"], access: Access, lane: Array, cell: Array, bad: Array
    ) -> None:
        if not bad.any():
            return
        parent = self.parent
        lane, cell = lane[bad], cell[bad]
        for index in np.unique(self.copy[cell]).tolist():
            chosen = self.copy[cell] == index
            first = int(chosen.argmax())
            self.found.append(
                PrematureAccess(
                    parent._accesses.get(index),
                    access,
                    why,
                    int(cell[first]) * parent.windows.shared_granule % parent.windows.shared,
                    (int(self.owner[cell[first]]), int(lane[first])),
                    int(self.age[cell[first]]),
                    bool(self.waited[cell[first]]),
                    int(np.count_nonzero(chosen)),
                )
            )

    def _group(self, mark: AsyncGroup) -> None:
        in_flight = self.stage == IN_FLIGHT
        mine = in_flight if mark.lanes is None else in_flight & mark.lanes[np.maximum(self.owner, 0)]
        if mark.kind == "commit":
            self.age[mine] += 1
            return
        self.waited[mine] = True
        # wait_group N covers all but the N newest committed groups; wait_all (N < 0) covers uncommitted copies, too.
        arrived = mine & (self.age > mark.pending)
        self.stage[arrived] = ARRIVED
        if (order := self.parent.order) is not None:
            order.stamp[arrived] = order.clocks.stamp(self.owner[arrived])

    def _phase(self, mark: Phase) -> None:
        if self.parent.order is not None:
            self.parent.order.clocks.phase(mark)
        if mark.kind == "copies":
            in_flight = np.flatnonzero(self.stage == IN_FLIGHT)  # ``bulk_copies`` tracks these from here on
            self._drop(in_flight[np.isin(self.owner[in_flight], mark.lanes)])

    def _barrier(self, mark: Barrier) -> None:
        if self.parent.order is not None and mark.groups is None:
            self.parent.order.clocks.barrier(mark)
            if mark.kind == "named":
                return
        if mark.kind == "arrive":
            return
        arrived = (self.stage == ARRIVED) | (self.stage == IN_WARP)
        owner = np.maximum(self.owner, 0)
        if mark.lanes is not None:
            arrived &= mark.lanes[owner]
        if mark.blocks is not None:
            arrived &= mark.blocks[owner // self.parent.windows.padded]
        if mark.kind == "warp":
            self.stage[arrived & (self.stage == ARRIVED)] = IN_WARP
        else:
            self._publish(arrived)

    def _publish(self, chosen: Array) -> None:
        self._drop(np.flatnonzero(chosen & (self.stage >= ARRIVED)))

    def _drop(self, cell: Array) -> None:
        self.stage[cell], self.owner[cell], self.age[cell], self.copy[cell] = NONE, -1, 0, 0
        self.waited[cell] = False
