"""Divergence and reconvergence of warps in lockstep, by the hardware's convergence barriers.

A lane group is a set of lanes at the same instruction, at most one group per warp: what a warp issues once counts once.
BSSY records which lanes of a warp have to reconverge; they wait for each other at BSYNC. At WARPSYNC, lanes wait for
the lanes of their mask and then form one group. Groups that no instruction joins stay apart, even at the same
instruction, as on Volta and later.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from gemm_lessons.engine.events import WARP
from gemm_lessons.engine.machine.convergence import BIT, ballot, groups, spread
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.sass.operands import Uncountable

NO_TOKEN = -1
MOST_TOKENS = 0xFFFFFFFF  # a saved token is a register; this one stands for none


@dataclass
class LaneGroup:
    """Lanes at basic block ``block``. ``mask`` None: all lanes alive. ``warps`` and ``lanes`` are their numbers."""

    block: int
    mask: Array | None
    warps: int
    lanes: int


class LaneGroups:
    """All lane groups of a batch: ready, waiting at barriers, or exited."""

    def __init__(self, alive: Array) -> None:
        self.alive = alive
        self.everyone_alive = bool(alive.all())
        self._warp = np.repeat(np.arange(len(alive) // WARP, dtype=np.int64), WARP)
        self._warps = len(alive) // WARP
        self._ready: list[LaneGroup] = []
        self._parked: list[LaneGroup] = []  # at a block-wide barrier; ``block`` is where they continue
        self._tokens: dict[str, Array] = {}  # convergence barrier -> per lane, the lanes it reconverges with
        self._saved: dict[str, Counter[int]] = {}  # convergence barrier -> lanes that have saved each token
        self._waiting: dict[tuple[str, int], Array] = {}  # (barrier, block after it) -> lanes
        self._syncing: dict[int, tuple[Array, Array, bool]] = {}  # block after WARPSYNC -> lanes, masks, exclusive
        self._serial = 0
        self._everyone = (int(alive.reshape(-1, WARP).any(axis=1).sum()), int(alive.sum()))

    # -- groups -------------------------------------------------------------------------------------------------------

    def start(self, block: int) -> LaneGroup:
        """Return the first group: all lanes."""
        return LaneGroup(block, None, *self._everyone)

    def lane_group(self, block: int, mask: Array) -> LaneGroup:
        """Return a group of some lanes."""
        lanes = int(np.count_nonzero(mask))
        if lanes == self._everyone[1]:
            return LaneGroup(block, None, *self._everyone)
        return LaneGroup(block, mask, int(np.count_nonzero(mask.reshape(-1, WARP).any(axis=1))), lanes)

    def mask_of(self, lane_group: LaneGroup) -> Array:
        """Return the lanes of a group as an array."""
        return self.alive if lane_group.mask is None else lane_group.mask

    def add(self, lane_group: LaneGroup) -> None:
        """Mark a group as ready."""
        if lane_group.lanes:
            self._ready.append(lane_group)

    def split(self, lane_group: LaneGroup, taken: Array, target: int, after: int) -> LaneGroup | None:
        """Split a group at a branch: the lanes of ``taken`` go to ``target``, the others to ``after``.

        Return the group if it did not split, else None.
        """
        if taken.size == 1:
            lane_group.block = target if taken[0] else after
            return lane_group
        lanes = self.mask_of(lane_group)
        going = taken & lanes
        count = int(np.count_nonzero(going))
        if count in (0, lane_group.lanes):
            lane_group.block = target if count else after
            return lane_group
        self.add(self.lane_group(target, going))
        self.add(self.lane_group(after, lanes & ~taken))
        return None

    def next(self) -> LaneGroup | None:
        """Return the ready group with the lowest block, joined with other warps' groups there; None once all exited."""
        if not self._ready:
            self._ready, self._parked = self._parked, []
            if not self._ready:
                if self._waiting or self._syncing:
                    raise Uncountable("threads wait at a convergence barrier for others that never come")
                return None
        lowest = min(lane_group.block for lane_group in self._ready)
        here = [lane_group for lane_group in self._ready if lane_group.block == lowest]
        self._ready = [lane_group for lane_group in self._ready if lane_group.block != lowest]
        if len(here) == 1:
            return here[0]
        joined = self.mask_of(here[0])
        warps = joined.reshape(-1, WARP).any(axis=1)
        for lane_group in here[1:]:
            mask = self.mask_of(lane_group)
            others = mask.reshape(-1, WARP).any(axis=1)
            if (warps & others).any():
                self._ready.append(lane_group)
            else:
                joined, warps = joined | mask, warps | others
        return self.lane_group(lowest, joined)

    # -- exits and barriers -------------------------------------------------------------------------------------------

    def leave(self, lane_group: LaneGroup, going: Array, after: int) -> LaneGroup | None:
        """Let the lanes of ``going`` exit. The rest continues at ``after``."""
        lanes = self.mask_of(lane_group)
        ended = lanes & going
        if not ended.any():
            lane_group.block = after
            return lane_group
        stay = lanes & ~ended
        self.alive = self.alive & ~ended
        self.everyone_alive = False
        self._everyone = (int(self.alive.reshape(-1, WARP).any(axis=1).sum()), int(self.alive.sum()))
        for other in self._ready:  # a group that now holds all lanes alive
            if other.lanes == self._everyone[1]:
                other.mask = None
        self._release()
        return self.lane_group(after, stay) if stay.any() else None

    def park(self, lane_group: LaneGroup, after: int) -> None:
        """Wait at a block-wide barrier until no other group is ready."""
        lane_group.block = after
        self._parked.append(lane_group)

    def expect(self, lane_group: LaneGroup, barrier: str) -> None:
        """BSSY: record the lanes of each warp in this group, to reconverge at ``barrier``."""
        self._serial += 1
        fresh = self._warp + self._serial * self._warps
        if lane_group.mask is not None:
            fresh = np.where(lane_group.mask, fresh, self._tokens.get(barrier, np.int64(NO_TOKEN)))
        self._tokens[barrier] = fresh

    def reconverge(self, lane_group: LaneGroup, barrier: str, after: int) -> LaneGroup | None:
        """BSYNC: wait for the lanes recorded by BSSY."""
        if lane_group.mask is None:  # no other lane is left to wait for
            lane_group.block = after
            return lane_group
        key = (barrier, after)
        self._waiting[key] = self._waiting[key] | lane_group.mask if key in self._waiting else lane_group.mask
        self._release()
        return None

    def save(self, lane_group: LaneGroup, barrier: str) -> Array:
        """BMOV.CLEAR: return each lane's token of ``barrier``, uint32, and free the barrier for a function. Lanes that
        wait for these lanes go on waiting."""
        lanes = self.mask_of(lane_group)
        tokens = self._tokens.get(barrier, np.full(lanes.shape, NO_TOKEN, np.int64))
        if tokens.max() >= MOST_TOKENS:
            raise Uncountable("too many convergence barriers")
        self._saved.setdefault(barrier, Counter()).update(tokens[lanes & (tokens != NO_TOKEN)].tolist())
        self._tokens[barrier] = np.where(lanes, NO_TOKEN, tokens)
        return tokens.astype(np.uint32)

    def restore(self, lane_group: LaneGroup, barrier: str, saved: Array) -> None:
        """BMOV: take back the tokens that ``save`` returned."""
        lanes, old = self.mask_of(lane_group), self._tokens.get(barrier)
        tokens = np.where(saved == np.uint32(MOST_TOKENS), np.int64(NO_TOKEN), saved.astype(np.int64))
        tokens = np.broadcast_to(tokens, lanes.shape)
        count = self._saved.setdefault(barrier, Counter())
        count.subtract(tokens[lanes & (tokens != NO_TOKEN)].tolist())
        if old is None or min(count.values(), default=0) < 0:
            raise Uncountable("a convergence barrier is restored that was not saved")
        self._tokens[barrier] = np.where(lanes, tokens, old)

    def leave_barrier(self, lanes: Array, barrier: str) -> None:
        """BREAK: remove these lanes from ``barrier``."""
        if barrier in self._tokens:
            self._tokens[barrier] = np.where(lanes, NO_TOKEN, self._tokens[barrier])
            self._release()

    def sync(self, lane_group: LaneGroup, members: Array, exclusive: bool, after: int) -> LaneGroup | None:
        """WARPSYNC: wait for the lanes alive in ``members`` (uint32 per lane).

        ``exclusive``: continue only with lanes of the same mask.
        """
        if lane_group.mask is None and (not exclusive or members.size == 1):  # no other lane is left to wait for
            lane_group.block = after
            return lane_group
        lanes = self.mask_of(lane_group)
        masks = np.broadcast_to(members, lanes.shape)
        if after in self._syncing:
            before, old, _ = self._syncing[after]
            masks = np.where(lanes, masks, old)
            lanes = lanes | before
        self._syncing[after] = lanes, masks, exclusive
        self._release_synced()
        return None

    def _release_synced(self) -> None:
        for after, (lanes, masks, exclusive) in list(self._syncing.items()):
            here, members = lanes.reshape(-1, WARP), masks.reshape(-1, WARP)
            group = groups(members, here) if exclusive else spread(ballot(here))
            ready = here & ((members & spread(ballot(self.alive)) & ~group) == 0)
            if not ready.any():
                continue
            rest = lanes & ~ready.reshape(-1)
            if rest.any():
                self._syncing[after] = rest, masks, exclusive
            else:
                del self._syncing[after]
            while ready.any():  # one group of each warp at a time
                first = np.take_along_axis(group, ready.argmax(axis=1)[:, None], axis=1)
                together = ready & ((first & BIT) != 0)
                self.add(self.lane_group(after, together.reshape(-1)))
                ready = ready & ~together

    def _release(self) -> None:
        self._release_synced()
        for key, waiting in list(self._waiting.items()):
            tokens = self._tokens[key[0]]
            names, place = np.unique(np.where(self.alive, tokens, NO_TOKEN), return_inverse=True)
            needed = np.bincount(place, minlength=len(names))
            saved = self._saved.get(key[0])
            if saved:
                needed = needed + np.array([saved[name] for name in names.tolist()])
            came = np.bincount(place[waiting], minlength=len(names))
            complete = (needed == came) & (names != NO_TOKEN)
            free = waiting & complete[place]
            if not free.any():
                continue
            rest = waiting & ~free
            if rest.any():
                self._waiting[key] = rest
            else:
                del self._waiting[key]
            warp, token = self._warp[free], tokens[free]
            if (token != token[np.searchsorted(warp, warp)]).any():  # not that of the warp's first lane
                raise Uncountable("two groups of one warp leave a convergence barrier together")
            self.add(self.lane_group(key[1], free))
