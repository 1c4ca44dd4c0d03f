"""Warps in lockstep, and how they part and meet again as the hardware's convergence barriers say.

A front is a set of lanes that stand at the same instruction, at most one group of each warp: what a warp issues once
counts once. BSSY notes which lanes of a warp have to meet; at BSYNC they wait for each other. At WARPSYNC lanes wait
for those that their mask names, and are one group from then on. Groups that nothing joins stay apart, also when they
come to the same place, as on Volta and later.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemm_lessons.engine.events import WARP
from gemm_lessons.engine.machine.convergence import BIT, ballot, groups, spread
from gemm_lessons.engine.sass.operand_fetch import Array
from gemm_lessons.engine.sass.uncountable import Uncountable

NOBODY = -1


@dataclass
class Front:
    """Lanes at ``block``. ``mask`` None: everyone alive. ``warps`` and ``lanes`` are counted once."""

    block: int
    mask: Array | None
    warps: int
    lanes: int


class Fronts:
    """All the fronts of a batch: who runs next, who waits, who ended."""

    def __init__(self, alive: Array) -> None:
        self.alive = alive
        self.everyone_alive = bool(alive.all())
        self._warp = np.repeat(np.arange(len(alive) // WARP, dtype=np.int64), WARP)
        self._warps = len(alive) // WARP
        self._ready: list[Front] = []
        self._parked: list[Front] = []  # at a block-wide barrier; ``block`` is where they go on
        self._tokens: dict[str, Array] = {}  # convergence barrier -> per lane, whom it has to meet
        self._waiting: dict[tuple[str, int], Array] = {}  # (barrier, block after it) -> lanes
        self._syncing: dict[int, tuple[Array, Array, bool]] = {}  # block after WARPSYNC -> lanes, masks, exclusive
        self._serial = 0
        self._everyone = (int(alive.reshape(-1, WARP).any(axis=1).sum()), int(alive.sum()))

    # -- fronts -------------------------------------------------------------------------------------------------------

    def start(self, block: int) -> Front:
        """The first front: everyone."""
        return Front(block, None, *self._everyone)

    def front(self, block: int, mask: Array) -> Front:
        """A front of some lanes."""
        lanes = int(np.count_nonzero(mask))
        if lanes == self._everyone[1]:
            return Front(block, None, *self._everyone)
        return Front(block, mask, int(np.count_nonzero(mask.reshape(-1, WARP).any(axis=1))), lanes)

    def mask_of(self, front: Front) -> Array:
        """The lanes of a front, spelt out."""
        return self.alive if front.mask is None else front.mask

    def add(self, front: Front) -> None:
        """Runnable from now on."""
        if front.lanes:
            self._ready.append(front)

    def split(self, front: Front, taken: Array, target: int, after: int) -> Front | None:
        """A branch: the lanes of ``taken`` go to ``target``, the others to ``after``. The one front left, or None."""
        if taken.size == 1:
            front.block = target if taken[0] else after
            return front
        lanes = self.mask_of(front)
        going = taken & lanes
        count = int(np.count_nonzero(going))
        if count in (0, front.lanes):
            front.block = target if count else after
            return front
        self.add(self.front(target, going))
        self.add(self.front(after, lanes & ~taken))
        return None

    def next(self) -> Front | None:
        """The front with the lowest block number, joined with others there that hold other warps; None: all ended."""
        if not self._ready:
            self._ready, self._parked = self._parked, []
            if not self._ready:
                if self._waiting or self._syncing:
                    raise Uncountable("threads wait at a convergence barrier for others that never come")
                return None
        lowest = min(front.block for front in self._ready)
        here = [front for front in self._ready if front.block == lowest]
        self._ready = [front for front in self._ready if front.block != lowest]
        if len(here) == 1:
            return here[0]
        joined = self.mask_of(here[0])
        warps = joined.reshape(-1, WARP).any(axis=1)
        for front in here[1:]:
            mask = self.mask_of(front)
            others = mask.reshape(-1, WARP).any(axis=1)
            if (warps & others).any():
                self._ready.append(front)
            else:
                joined, warps = joined | mask, warps | others
        return self.front(lowest, joined)

    # -- ends and barriers --------------------------------------------------------------------------------------------

    def leave(self, front: Front, going: Array, after: int) -> Front | None:
        """The lanes of ``going`` exit; the rest goes on at ``after``."""
        lanes = self.mask_of(front)
        ended = lanes & going
        if not ended.any():
            front.block = after
            return front
        stay = lanes & ~ended
        self.alive = self.alive & ~ended
        self.everyone_alive = False
        self._everyone = (int(self.alive.reshape(-1, WARP).any(axis=1).sum()), int(self.alive.sum()))
        for other in self._ready:  # one that now holds everyone left
            if other.lanes == self._everyone[1]:
                other.mask = None
        self._release()
        return self.front(after, stay) if stay.any() else None

    def park(self, front: Front, after: int) -> None:
        """Wait at a block-wide barrier until nobody else can run."""
        front.block = after
        self._parked.append(front)

    def meet_later(self, front: Front, barrier: str) -> None:
        """BSSY: the lanes of each warp in this front will meet at ``barrier``."""
        self._serial += 1
        fresh = self._warp + self._serial * self._warps
        if front.mask is not None:
            fresh = np.where(front.mask, fresh, self._tokens.get(barrier, np.int64(NOBODY)))
        self._tokens[barrier] = fresh

    def meet(self, front: Front, barrier: str, after: int) -> Front | None:
        """BSYNC: wait for the lanes noted by BSSY."""
        if front.mask is None:  # nobody else is left to wait for
            front.block = after
            return front
        key = (barrier, after)
        self._waiting[key] = self._waiting[key] | front.mask if key in self._waiting else front.mask
        self._release()
        return None

    def forget(self, lanes: Array, barrier: str) -> None:
        """BREAK: these lanes will not come to ``barrier``."""
        if barrier in self._tokens:
            self._tokens[barrier] = np.where(lanes, NOBODY, self._tokens[barrier])
            self._release()

    def sync(self, front: Front, members: Array, exclusive: bool, after: int) -> Front | None:
        """WARPSYNC: wait for the living lanes that ``members`` (uint32 per lane) names; ``exclusive``: go on with
        those of one's own mask only."""
        if front.mask is None and (not exclusive or members.size == 1):  # nobody else is left to wait for
            front.block = after
            return front
        lanes = self.mask_of(front)
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
                self.add(self.front(after, together.reshape(-1)))
                ready = ready & ~together

    def _release(self) -> None:
        self._release_synced()
        for key, waiting in list(self._waiting.items()):
            tokens = self._tokens[key[0]]
            names, place = np.unique(np.where(self.alive, tokens, NOBODY), return_inverse=True)
            needed = np.bincount(place, minlength=len(names))
            came = np.bincount(place[waiting], minlength=len(names))
            complete = (needed == came) & (names != NOBODY)
            free = waiting & complete[place]
            if not free.any():
                continue
            rest = waiting & ~free
            if rest.any():
                self._waiting[key] = rest
            else:
                del self._waiting[key]
            pairs = np.unique(np.stack([self._warp[free], tokens[free]]), axis=1)
            if len(np.unique(pairs[0])) != pairs.shape[1]:
                raise Uncountable("two groups of one warp leave a convergence barrier together")
            self.add(self.front(key[1], free))
