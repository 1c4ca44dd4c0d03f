"""The slow half of the second opinion: which threads touched which words, one by one, in both engines.

Footprints that differ need not mean a mistake. ptxas may

- load only once what is loaded already, and drop or sink loads that not every path needs (``anticipated.py``);
- load nothing where a thread has itself just stored to that word;
- load or store neighbours together, also where some of the 16 bytes of the largest vector are of no use to anybody;
- load only the words that are used of a wider load, and drop a store that another one of the same thread replaces;
- let one thread of a warp do the atomics of all at one address.

Nothing else: every word that must be loaded is, by the same thread; no other 16 bytes are touched, and none more often
than in PTX; what is stored is stored by the same threads to the same words, as often as by the busiest instruction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemm_lessons.engine.counters.cross_check import Account, Kind, touched_otherwise
from gemm_lessons.engine.events import WARP, Access, Batch, Boundary, LaunchInfo, Placed, Record, Touch
from gemm_lessons.engine.machine.memory import GLOBAL_BASE

Array = NDArray[Any]

WORD = 4  # bytes
WARP_BITS = 5  # of a thread's number: its place in the warp
GRANULE = 2  # bits: words of 16 bytes, the widest access
WORD_BITS = 42  # of a code; the thread is above
MOST_WORDS = 1 << 22  # looked at of each kind; of a larger launch only the first, middle and last blocks


@dataclass
class Words:
    """What one engine touched: codes of (thread, word), and how often each came."""

    by_warps: bool = False  # it does not matter which lane of a warp it was
    parts: dict[Access, list[tuple[Array, int]]] = field(default_factory=dict)

    def add(self, access: Access, addresses: Array, threads: Array, times: int) -> None:
        """``addresses`` were touched by ``threads`` (numbered through the grid), ``times`` times."""
        first = addresses // WORD
        if self.by_warps:
            threads = threads >> WARP_BITS << WARP_BITS
        codes = (threads << WORD_BITS) | (first & ((1 << WORD_BITS) - 1))
        count = max(1, access.width // WORD)
        self.parts.setdefault(access, []).append(((codes[:, None] + np.arange(count)).reshape(-1), times))

    def of(self, kind: Kind, only: frozenset[int] | None = None) -> tuple[Array, Array]:
        """Sorted codes of one kind without repetition, and how often each came. ``only``: of these instructions."""
        chosen = [
            part
            for access, parts in self.parts.items()
            if (access.space, access.effect) == kind and (only is None or access.index in only)
            for part in parts
        ]
        if not chosen:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        codes = np.concatenate([codes for codes, _ in chosen])
        times = np.concatenate([np.full(len(codes), times) for codes, times in chosen])
        return _merged(codes, times)

    def most_of_one(self, kind: Kind) -> Array:
        """For each code of ``of(kind)``, how often the one instruction came there that came most often."""
        codes, _ = self.of(kind)
        most = np.zeros(len(codes), np.int64)
        for index in {a.index for a in self.parts if (a.space, a.effect) == kind}:
            there, times = self.of(kind, frozenset({index}))
            place = np.searchsorted(codes, there)
            most[place] = np.maximum(most[place], times)
        return most

    def line_of(self, kind: Kind, code: int) -> int | None:
        """A source line that touched it."""
        for access, parts in self.parts.items():
            if (access.space, access.effect) == kind and any((codes == code).any() for codes, _ in parts):
                return access.line
        return None


class Interpreted:
    """An observer that notes the words of the PTX machine's accesses."""

    def __init__(self, kinds: Sequence[Kind], by_warps: bool) -> None:
        self.kinds = frozenset(kinds)
        self.words = Words(by_warps)
        self._shared: dict[Touch, int] = {}

    def begin(self, launch: LaunchInfo) -> None:
        """See ``events.Observer``, also for the three methods below."""

    def begin_batch(self, batch: Batch) -> None:
        """A new set of blocks starts."""

    def epoch(self, batch: Batch, records: Sequence[Record], boundary: Boundary) -> None:
        """Every global access comes with its true address."""
        for record in records:
            if type(record) is Touch and record.access.space == "shared" and record.access.is_counted:
                self._shared[record] = self._shared.get(record, 0) + 1
            elif type(record) is Placed and record.touch.access.is_counted:
                self._add(batch, record.touch, record.base, 1)

    def end_batch(self, batch: Batch, executions: Array, lane_executions: Array) -> None:
        """Shared memory."""
        for touch, times in self._shared.items():
            self._add(batch, touch, 0, times)
        self._shared.clear()

    def _add(self, batch: Batch, touch: Touch, base: int, times: int) -> None:
        access = touch.access
        if (access.space, access.effect) not in self.kinds:
            return
        lanes = np.arange(len(touch.addresses)) if touch.active is None else np.flatnonzero(touch.active)
        addresses = touch.addresses[lanes] + (base - GLOBAL_BASE if access.space == "global" else 0)
        self.words.add(access, addresses, lanes + batch.first_block * batch.padded_threads, times)


@dataclass
class Followed:
    """Notes the words of the machine code's accesses. ``origin``: where its shared memory begins."""

    kinds: frozenset[Kind]
    origin: int
    words: Words

    def __call__(self, access: Access, addresses: Array, active: Array | None, first_lane: int) -> None:
        """One access by the lanes of a batch; ``first_lane`` is the number of its first one in the grid."""
        if (access.space, access.effect) not in self.kinds:
            return
        lanes = np.arange(len(addresses)) if active is None else np.flatnonzero(active)
        start = GLOBAL_BASE if access.space == "global" else self.origin
        self.words.add(access, addresses[lanes] - start, lanes + first_lane, 1)


def sample(blocks: int, words: int) -> list[range]:
    """Which blocks to look at when the whole grid touches so many words: all, or the first, the middle and the last."""
    affordable = max(3, blocks * MOST_WORDS // max(words, 1))
    if affordable >= blocks:
        return [range(blocks)]
    each = affordable // 3
    middle = (blocks - each) // 2
    return [range(each), range(middle, middle + each), range(blocks - each, blocks)]


class Closer:
    """A closer look at the ``kinds`` of access that are in doubt: run both engines again on ``blocks``, with
    ``interpreted`` as the observer of one and ``followed`` as the watch of the other, then ``judge``."""

    def __init__(self, kinds: Sequence[Kind], mine: Account, theirs: Account, blocks: int, origin: int) -> None:
        self.kinds = kinds
        self.interpreted = Interpreted([*kinds, *((space, "store") for space, _ in kinds)], mine.by_warps)
        self.followed = Followed(frozenset(kinds), origin, Words(mine.by_warps))
        words = max(max(mine.of(kind).bytes, theirs.of(kind).bytes) // WORD for kind in kinds)
        self.blocks = sample(blocks, words)
        self._accounts = mine, theirs

    def judge(self, needed: frozenset[int], padded: int) -> None:
        """Raises ``Disagreement`` at the first word that ptxas cannot explain. ``needed``: PTX instructions that it may
        not leave out; ``padded``: lanes of a block."""
        for kind in self.kinds:
            mine, theirs = self.interpreted.words, self.followed.words
            odd = unexplained(kind, mine, theirs, needed, padded)
            if odd is not None:
                line = mine.line_of(kind, odd) or theirs.line_of(kind, odd)
                raise touched_otherwise(*self._accounts, kind, line)


def unexplained(kind: Kind, interpreted: Words, followed: Words, needed: frozenset[int], padded: int) -> int | None:
    """The code of a word that one engine touched and the other, for all that ptxas may do, had no reason to."""
    if kind[1] == "load" or kind == ("global", "copy"):
        return _odd_load(kind, interpreted, followed, needed)
    if kind[1] == "atomic":
        return _odd_atomic(kind, interpreted, followed, padded)
    mine, often = interpreted.of(kind)
    theirs, how_often = followed.of(kind)
    return _outside(mine, interpreted.most_of_one(kind), often, theirs, how_often)


def _odd_load(kind: Kind, interpreted: Words, followed: Words, needed: frozenset[int]) -> int | None:
    must = interpreted.of(kind, needed)[0]
    mine, often = interpreted.of(kind)
    theirs, how_often = followed.of(kind)
    missing = np.setdiff1d(must, theirs, assume_unique=True)
    missing = np.setdiff1d(missing, interpreted.of((kind[0], "store"))[0], assume_unique=True)
    if len(missing):  # unless a wide load was narrowed to the words of it that are used
        wide = frozenset(access.index for access in interpreted.parts if access.width > WORD)
        beside = np.isin(missing >> GRANULE, theirs >> GRANULE)
        missing = missing[~beside | np.isin(missing, interpreted.of(kind, needed - wide)[0])]
    if len(missing):
        return int(missing[0])
    granules, place = np.unique(mine >> GRANULE, return_inverse=True)
    most = np.bincount(place, weights=often)
    where = np.minimum(np.searchsorted(granules, theirs >> GRANULE), max(len(granules) - 1, 0))
    if not len(granules):
        return int(theirs[0]) if len(theirs) else None
    excess = (granules[where] != theirs >> GRANULE) | (how_often > most[where])
    return int(theirs[excess.argmax()]) if excess.any() else None


def _odd_atomic(kind: Kind, interpreted: Words, followed: Words, padded: int) -> int | None:
    """By block and word: at most as often as in PTX, at least once for each time that a whole warp came there."""
    word = (1 << WORD_BITS) - 1
    codes, often = interpreted.of(kind)
    mine, most = _merged((codes >> WORD_BITS) // padded << WORD_BITS | codes & word, often)
    codes, how_often = followed.of(kind)
    theirs, times = _merged((codes >> WORD_BITS) // padded << WORD_BITS | codes & word, how_often)
    least = np.ones(len(mine), np.int64)
    seen = np.zeros(len(mine), np.int64)
    for access, parts in interpreted.parts.items():
        if (access.space, access.effect) == kind:
            for part, repeated in parts:
                warps, lanes = np.unique(part >> WORD_BITS + WARP_BITS, return_counts=True)
                whole = warps[lanes >= WARP]
                there = np.unique(part >> WORD_BITS + WARP_BITS << WORD_BITS | part & word)
                there = there[np.isin(there >> WORD_BITS, whole)]
                block = (there >> WORD_BITS) * WARP // padded << WORD_BITS | there & word
                seen += np.bincount(np.searchsorted(mine, block), minlength=len(mine)) * repeated
    return _outside(mine, np.maximum(least, seen), most, theirs, times)


def _outside(mine: Array, least: Array, most: Array, theirs: Array, times: Array) -> int | None:
    """A code that only one side has, or that ``theirs`` has less or more often than allowed."""
    alone = np.setxor1d(mine, theirs, assume_unique=True)
    if len(alone):
        return int(alone[0])
    wrong = (times < least) | (times > most)
    return int(mine[wrong.argmax()]) if wrong.any() else None


def _merged(codes: Array, times: Array) -> tuple[Array, Array]:
    """Sorted codes without repetition, and how often each came in all."""
    unique, place = np.unique(codes, return_inverse=True)
    return unique, np.bincount(place, weights=times, minlength=len(unique)).astype(np.int64)
