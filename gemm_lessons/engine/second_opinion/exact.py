"""Slow part of the second opinion: compares the words that each thread touched in both engines.

Different footprints need not be a mistake. ptxas may

- drop a load of a value that is in a register already, and drop or sink loads that not every path needs
  (``anticipated.py``);
- drop a load of a word that the same thread has just stored;
- merge neighbouring loads or stores, even if some of the 16 bytes of the widest vector are unused;
- narrow a wide load to the words used, and drop a store that a later one of the same thread overwrites;
- let one thread of a warp execute the atomics of all lanes at one address.

Nothing else is allowed: the same thread loads every word that must be loaded; no other 16 bytes are touched, and none
more often than in PTX; the same threads store to the same words, as often as the most frequent instruction did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gemm_lessons.engine.counters.cross_check import Account, Kind, Place, touched_otherwise
from gemm_lessons.engine.events import WARP, Access, Batch, Boundary, LaunchInfo, Observer, Placed, Record, Touch
from gemm_lessons.engine.machine.memory import GLOBAL_BASE
from gemm_lessons.engine.records.arrays import Array

WORD = 4  # bytes
WARP_BITS = 5  # low bits of a thread's number: its lane in the warp
GRANULE = 2  # bits: words of 16 bytes, the widest access
WORD_BITS = 42  # bits of a code that hold the word; the thread is above
MOST_WORDS = 1 << 22  # compared for each kind; of a larger launch only the first, middle and last blocks


@dataclass
class Words:
    """Words that one engine touched: codes of (thread, word), with counts."""

    by_warps: bool = False  # the lane within a warp is ignored
    left_out: frozenset[Place] = frozenset()  # accesses there are not added
    parts: dict[Access, list[tuple[Array, int]]] = field(default_factory=dict)

    def add(self, access: Access, addresses: Array, threads: Array, times: int) -> None:
        """Add ``addresses`` that ``threads`` (numbered through the grid) touched ``times`` times."""
        if (access.file, access.line) in self.left_out:
            return
        first = addresses // WORD
        if self.by_warps:
            threads = threads >> WARP_BITS << WARP_BITS
        codes = (threads << WORD_BITS) | (first & ((1 << WORD_BITS) - 1))
        count = max(1, access.width // WORD)
        self.parts.setdefault(access, []).append(((codes[:, None] + np.arange(count)).reshape(-1), times))

    def of(self, kind: Kind, only: frozenset[int] | None = None) -> tuple[Array, Array]:
        """Return the sorted distinct codes of one kind, and their counts. ``only``: of these instructions."""
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
        """For each code of ``of(kind)``, return the largest count of a single instruction."""
        codes, _ = self.of(kind)
        most = np.zeros(len(codes), np.int64)
        for index in {a.index for a in self.parts if (a.space, a.effect) == kind}:
            there, times = self.of(kind, frozenset({index}))
            place = np.searchsorted(codes, there)
            most[place] = np.maximum(most[place], times)
        return most

    def line_of(self, kind: Kind, code: int) -> int | None:
        """Return a source line that touched the word."""
        for access, parts in self.parts.items():
            if (access.space, access.effect) == kind and any((codes == code).any() for codes, _ in parts):
                return access.line
        return None


class Interpreted(Observer):
    """Observer that collects the words accessed by the PTX machine."""

    def __init__(self, kinds: Sequence[Kind], words: Words) -> None:
        self.kinds = frozenset(kinds)
        self.words = words
        self._shared: dict[Touch, int] = {}

    def begin(self, launch: LaunchInfo) -> None:
        """Set up for a launch. See ``events.Observer``, also for the three methods below."""
        self.window = launch.shared_bytes

    def begin_batch(self, batch: Batch) -> None:
        """Start a new set of blocks."""

    def epoch(self, batch: Batch, records: Sequence[Record], boundary: Boundary) -> None:
        """Collect global accesses with their true addresses, and count each access to shared memory."""
        for record in records:
            if type(record) is Touch and record.access.space == "shared" and record.access.is_counted:
                self._shared[record] = self._shared.get(record, 0) + 1
            elif type(record) is Placed and record.touch.access.is_counted:
                self._add(batch, record.touch, record.base, 1)

    def end_batch(self, batch: Batch, executions: Array, lane_executions: Array) -> None:
        """Collect the accesses to shared memory of the batch."""
        for touch, times in self._shared.items():
            self._add(batch, touch, 0, times)
        self._shared.clear()

    def _add(self, batch: Batch, touch: Touch, base: int, times: int) -> None:
        access = touch.access
        if (access.space, access.effect) not in self.kinds:
            return
        active = touch.of_own_block(self.window)
        lanes = np.arange(len(touch.addresses)) if active is None else np.flatnonzero(active)
        addresses = touch.addresses[lanes] + (base - GLOBAL_BASE if access.space == "global" else 0)
        self.words.add(access, addresses, lanes + batch.place * batch.padded_threads, times)


@dataclass
class Followed:
    """Collects the words accessed by machine code. ``origin``: first byte of its shared memory."""

    kinds: frozenset[Kind]
    origin: int
    words: Words

    def __call__(self, access: Access, addresses: Array, active: Array | None, first_lane: int) -> None:
        """Add one access by the lanes of a batch. ``first_lane``: number of its first lane in the grid."""
        if (access.space, access.effect) not in self.kinds:
            return
        lanes = np.arange(len(addresses)) if active is None else np.flatnonzero(active)
        start = GLOBAL_BASE if access.space == "global" else self.origin
        self.words.add(access, addresses[lanes] - start, lanes + first_lane, 1)


def sample(blocks: int, words: int) -> list[range]:
    """Return the blocks to compare, given the words touched by the grid: all, or the first, the middle and the last."""
    affordable = max(3, blocks * MOST_WORDS // max(words, 1))
    if affordable >= blocks:
        return [range(blocks)]
    each = affordable // 3
    middle = (blocks - each) // 2
    return [range(each), range(middle, middle + each), range(blocks - each, blocks)]


class WordComparison:
    """Comparison by thread and word of the ``kinds`` of access in doubt.

    Run both engines again on ``blocks``, with ``interpreted`` as the observer of the PTX machine and ``followed`` as
    the watch of the machine code, then call ``judge``. Accesses in lines ``left_out`` are not compared.
    """

    def __init__(
        self,
        kinds: Sequence[Kind],
        mine: Account,
        theirs: Account,
        blocks: int,
        origin: int,
        left_out: frozenset[Place] = frozenset(),
    ) -> None:
        self.kinds = kinds
        stores = ((space, "store") for space, _ in kinds)
        self.interpreted = Interpreted([*kinds, *stores], Words(mine.by_warps, left_out))
        self.followed = Followed(frozenset(kinds), origin, Words(mine.by_warps, left_out))
        words = max(max(mine.of(kind).bytes, theirs.of(kind).bytes) // WORD for kind in kinds)
        self.blocks = sample(blocks, words)
        self._accounts = mine, theirs

    def judge(self, needed: frozenset[int], padded: int) -> None:
        """Raise ``Disagreement`` at the first word that no optimisation of ptxas explains.

        ``needed``: PTX instructions that ptxas may not drop; ``padded``: lanes of a block.
        """
        for kind in self.kinds:
            mine, theirs = self.interpreted.words, self.followed.words
            odd = unexplained(kind, mine, theirs, needed, padded)
            if odd is not None:
                line = mine.line_of(kind, odd) or theirs.line_of(kind, odd)
                raise touched_otherwise(*self._accounts, kind, line)


def unexplained(kind: Kind, interpreted: Words, followed: Words, needed: frozenset[int], padded: int) -> int | None:
    """Return the code of a word that the engines touched differently and no optimisation explains, or None."""
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
    """Compare atomics by block and word: at most as often as in PTX, at least once per warp-wide execution."""
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
    """Return a code that only one side has, or whose count in ``theirs`` is outside the allowed range."""
    alone = np.setxor1d(mine, theirs, assume_unique=True)
    if len(alone):
        return int(alone[0])
    wrong = (times < least) | (times > most)
    return int(mine[wrong.argmax()]) if wrong.any() else None


def _merged(codes: Array, times: Array) -> tuple[Array, Array]:
    """Return the sorted distinct codes, and their total counts."""
    unique, place = np.unique(codes, return_inverse=True)
    return unique, np.bincount(place, weights=times, minlength=len(unique)).astype(np.int64)
