"""Split the record stream into epochs; each distinct epoch is analysed once.

The machine interns touches, so the tuple of distinct touches in order of first appearance identifies what happened
between two barriers of the batch. First appearance is enough: between two synchronisations, a repeated touch adds no
race and reads nothing that is less initialised. A dictionary finds an epoch that has occurred before; only a new epoch
costs NumPy work.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from gemm_lessons.engine.events import WARP, AsyncGroup, Barrier, Phase, Record, Touch
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.frozen import dataclass


@dataclass(frozen=True, eq=False)
class Flag:
    """An access to a flag or a lock in shared memory, by which threads synchronise."""

    touch: Touch


Mark = Barrier | AsyncGroup | Flag | Phase

HELD_BYTES = 128 << 20  # bytes of addresses that interned epochs keep alive; with more, all epochs are dropped
TOUCH_BYTES = 1024  # bytes a touch takes besides its addresses
RECENT = 4  # more phases of an mbarrier than threads may be apart
SMALL_BATCH = 256  # lanes of a batch below which NumPy's call overhead exceeds the work
MANY_CHUNKS = 1 << 14  # chunks of a product's tiles whose cells are not kept
WINDOWS = ("shared", "local")
WHOLE = Barrier("warp")  # a __syncwarp of all lanes
UNIFORM = "uniform"  # keys of Touch.memo
CONTENT = "content"


@dataclass(frozen=True, eq=False)
class Segment:
    """Distinct shared and local touches, then the synchronisation that ends them (None at the end of the epoch)."""

    touches: tuple[Touch, ...]
    mark: Mark | None = None


@dataclass(frozen=True, eq=False)
class Epoch:
    """What one batch did between two deliveries of records.

    ``uniform``: every block of the batch did the same at the same offsets, so the first block is enough.
    """

    segments: tuple[Segment, ...]
    uniform: bool

    @cached_property
    def silent(self) -> bool:
        """Return whether neither shared nor local memory was touched."""
        return not any(segment.touches for segment in self.segments)

    def touches(self) -> Iterator[Touch]:
        """Yield all touches, in order."""
        for segment in self.segments:
            yield from segment.touches


class Epochs:
    """Interns epochs.

    ``forgotten`` are called when all epochs are dropped to bound the memory. ``by_warps``: each block is one warp, and
    barriers are the only synchronisation.
    """

    def __init__(
        self,
        padded: int,
        forgotten: Sequence[Callable[[], None]],
        flags: frozenset[int] = frozenset(),
        by_warps: bool = False,
    ) -> None:
        self._padded = padded
        self._by_warps = by_warps
        self._flags = flags  # indices of instructions that access flags
        self._forgotten = forgotten
        self._by_touches: dict[tuple[int, tuple[Touch, ...]], Epoch] = {}  # by blocks of the batch, and touches
        self._by_content: dict[tuple[Any, ...], Epoch] = {}
        self._held: set[Touch] = set()
        self._bytes = 0
        self._blocks = 0  # of the batch

    def split(self, records: Sequence[Record], blocks: int) -> tuple[Sequence[Epoch], Sequence[Record]]:
        """Return the epochs of a batch with ``blocks`` blocks, and the records that are not touches.

        There is one epoch, or, with ``by_warps``, several: each ends at a synchronisation that orders the whole block.
        """
        self._blocks = blocks
        others = [record for record in records if type(record) is not Touch]
        if self._by_warps and any(type(record) is Barrier for record in others):
            return self._rounds(records), others
        touches = tuple([record for record in dict.fromkeys(records) if type(record) is Touch])
        marks = any(isinstance(record, (Barrier, AsyncGroup, Phase)) for record in others)
        marks = marks or (bool(self._flags) and any(map(self._is_flag, touches)))
        return (self._structured(records) if marks else self._plain(touches),), others

    def _rounds(self, records: Sequence[Record]) -> Sequence[Epoch]:
        """For blocks of one warp: return one epoch per interval between two ``__syncwarp`` of all their threads."""
        found: list[Epoch] = []
        start, inner = 0, False
        touches: dict[Touch, None] = {}
        for end, record in enumerate((*records, WHOLE)):
            if type(record) is Touch:
                if record.access.space in WINDOWS:
                    touches[record] = None
            elif type(record) is Barrier:
                if not _of_whole_warps(record):
                    inner = True
                    continue
                found.append(self._structured(records[start:end]) if inner else self._plain(tuple(touches)))
                start, inner, touches = end + 1, False, {}
        return found

    def _is_flag(self, touch: Touch) -> bool:
        return touch.access.index in self._flags and touch.access.space == "shared"

    def _plain(self, touches: tuple[Touch, ...]) -> Epoch:
        epoch = self._by_touches.get((self._blocks, touches))
        if epoch is None:
            inside = tuple(t for t in touches if t.access.space in WINDOWS)
            epoch = self._intern(inside, (Segment(inside),))
            self._hold(touches)
            self._by_touches[self._blocks, touches] = epoch
        return epoch

    def _structured(self, records: Sequence[Record]) -> Epoch:
        segments: list[Segment] = []
        key: list[Any] = []
        current: dict[Touch, None] = {}
        for record in records:
            if type(record) is Touch:
                if record.access.space in WINDOWS:
                    current[record] = None
                if self._flags and self._is_flag(record):
                    segments.append(Segment(tuple(current), Flag(record)))
                    key += [*current, "flag"]
                    current = {}
            elif isinstance(record, (Barrier, AsyncGroup, Phase)):
                segments.append(Segment(tuple(current), record))
                key += [*current, _identity(record)]
                current = {}
        segments.append(Segment(tuple(current)))
        key += current
        return self._intern(tuple(key), tuple(segments))

    def _intern(self, key: tuple[Any, ...], segments: tuple[Segment, ...]) -> Epoch:
        key = self._blocks, *key
        epoch = self._by_content.get(key)
        if epoch is None:
            segments = tuple(Segment(_distinct(s.touches), s.mark) for s in segments)
            uniform = all(
                all(self._uniform(t) for t in s.touches) and (s.mark is None or self._uniform_mark(s.mark))
                for s in segments
            )
            epoch = Epoch(segments, uniform)
            self._hold([t for s in segments for t in s.touches])
            self._by_content[key] = epoch
        return epoch

    def _hold(self, touches: Sequence[Touch]) -> None:
        for touch in touches:
            if touch not in self._held:
                self._held.add(touch)
                self._bytes += TOUCH_BYTES + touch.addresses.nbytes
                self._bytes += sum(0 if it is None else it.nbytes for it in (touch.active, touch.chunk_lanes))
        if self._bytes > HELD_BYTES:
            self._by_touches.clear()
            self._by_content.clear()
            self._held.clear()
            self._bytes = 0
            for forget in self._forgotten:
                forget()

    def _uniform(self, touch: Touch) -> bool:
        known = touch.memo.get(UNIFORM)
        if known is None or known[0] != self._blocks:
            same = touch.access.space == "shared" and repeats(touch, self._blocks, self._padded)
            known = touch.memo[UNIFORM] = self._blocks, same
        return bool(known[1])

    def _by_block(self, lanes: Array) -> Array:
        return lanes.reshape(-1, self._padded)[: self._blocks]

    def _repeated_phase(self, mark: Phase) -> bool:
        blocks = self._blocks
        if mark.lanes.size % blocks:
            return False
        parts = (mark.lanes - mark.lanes // self._padded * self._padded, mark.offsets, mark.phases)
        rows = [part.reshape(blocks, -1) for part in parts]
        return (
            all(bool((part == part[0]).all()) for part in rows) and np.unique(mark.lanes // self._padded).size == blocks
        )

    def _uniform_mark(self, mark: Mark) -> bool:
        if isinstance(mark, Flag):
            return False
        if isinstance(mark, Phase):
            return self._repeated_phase(mark)
        blocks = mark.blocks if isinstance(mark, Barrier) else None
        lanes = None if mark.lanes is None else self._by_block(mark.lanes)
        groups = mark.groups if isinstance(mark, Barrier) else None
        by_block = None if groups is None else self._by_block(groups)
        return (
            (blocks is None or bool(blocks[: self._blocks].all()))
            and (lanes is None or bool((lanes == lanes[0]).all()))
            and (by_block is None or bool((by_block == by_block[0]).all()))
        )


def repeats(touch: Touch, parts: int, lanes: int) -> bool:
    """Return whether all ``parts`` of a batch, of so many ``lanes`` each, access the same bytes."""
    if touch.chunk_lanes is None:
        rows = touch.addresses.reshape(-1, lanes)[:parts]
        if touch.active is None:
            return bool((rows == rows[0]).all())
        mask = touch.active.reshape(-1, lanes)[:parts]
        return bool((mask == mask[0]).all() and (rows[:, mask[0]] == rows[0, mask[0]]).all())
    if touch.chunk_lanes.size % parts:
        return False
    reading, rows = touch.chunk_lanes.reshape(parts, -1), touch.addresses.reshape(parts, -1)
    return bool((reading - np.arange(parts)[:, None] * lanes == reading[0]).all() and (rows == rows[0]).all())


def _of_whole_warps(mark: Barrier) -> bool:
    """Return whether the barrier covers whole warps: all their threads that have not exited."""
    if mark.kind != "warp" or mark.groups is not None or mark.blocks is not None:
        return False
    return mark.lanes is None or bool(mark.lanes.reshape(-1, WARP).any(axis=1).all())


def _distinct(touches: tuple[Touch, ...]) -> tuple[Touch, ...]:
    """Return ``touches`` without duplicates.

    The machine creates a new touch for each generic address, after lanes reconverge, and for a load that is executed
    outside of its group of loads. Checkers treat such touches as one.
    """
    if len({touch.access.index for touch in touches}) == len(touches):
        return touches
    found: dict[tuple[Any, ...], Touch] = {}
    for touch in touches:
        content = touch.memo.get(CONTENT)
        if content is None:
            everyone = touch.active is None or bool(touch.active.all())
            arrays = (touch.addresses, None if everyone else touch.active, touch.chunk_lanes)
            digests = [None if array is None else hashlib.blake2b(array.tobytes()).digest() for array in arrays]
            access = touch.access
            what = (
                access.index,
                access.space,
                access.effect,
                access.width,
                access.is_async,
                access.is_mbarrier,
                access.is_clipped,
            )
            content = touch.memo[CONTENT] = (*what, *digests)
        found.setdefault(content, touch)
    return tuple(found.values())


def _identity(mark: Barrier | AsyncGroup | Phase) -> tuple[Any, ...]:
    if isinstance(mark, Phase):
        # Each iteration of a pipeline compares equal, although its phases have different numbers.
        return mark.kind, mark.lanes.tobytes(), mark.offsets.tobytes(), (mark.phases % RECENT).tobytes()
    lanes = None if mark.lanes is None else mark.lanes.tobytes()
    if isinstance(mark, Barrier):
        arrays = [None if array is None else array.tobytes() for array in (mark.blocks, mark.groups)]
        return mark.kind, mark.number, lanes, *arrays
    return mark.kind, mark.pending, lanes


@dataclass(frozen=True)
class Cells:
    """The lanes of a touch and the granules they access, one entry per lane and granule.

    ``lane`` int64 (n,), ascending, except for products; ``cell`` int64 (n,): granule in the windows of all blocks (or
    threads), one after the other, each ``stride`` bytes long.
    """

    lane: Array
    cell: Array


@dataclass(frozen=True)
class Windows:
    """Sizes in bytes of the windows (strides) of shared and local memory, and of their granules.

    ``lanes``: of a batch's state; ``padded``: lanes of a block; ``cluster``: blocks of a cluster; ``zeroed``: bytes of
    shared memory that are 0 at first.
    """

    lanes: int
    padded: int
    shared: int
    shared_granule: int
    local: int
    local_granule: int
    cluster: int
    zeroed: range

    def cells(self, touch: Touch, lanes: int) -> Cells:
        """Return the cells of the first ``lanes`` lanes in shared memory."""
        return cells(touch, lanes, self.padded, self.shared, self.shared_granule)


def cells(touch: Touch, lanes: int, padded: int, stride: int, granule: int) -> Cells:
    """Return the cells of the first ``lanes`` lanes. ``padded``: lanes that share a window of ``stride`` bytes."""
    # Otherwise, memoising would take more memory than it saves time.
    if lanes > SMALL_BATCH and (touch.chunk_lanes is None or touch.addresses.size > MANY_CHUNKS):
        return _cells(touch, lanes, padded, stride, granule)
    key = f"cells {lanes} {padded} {stride} {granule}"
    known: Cells | None = touch.memo.get(key)
    if known is None:
        known = touch.memo[key] = _cells(touch, lanes, padded, stride, granule)
    return known


def _cells(touch: Touch, lanes: int, padded: int, stride: int, granule: int) -> Cells:
    addresses = touch.addresses[:lanes]
    lane, first = _windows(lanes, padded, stride, granule)
    if touch.chunk_lanes is not None:
        here = touch.chunk_lanes < lanes
        lane, addresses = touch.chunk_lanes[here], touch.addresses[here]
        first = first[lane]
    elif touch.active is not None:
        lane = np.flatnonzero(touch.active[:lanes])
        addresses, first = addresses[lane], first[lane]
    cell = first + (addresses >> granule.bit_length() - 1)  # a granule has 2**n bytes, a window whole granules
    count = touch.access.width // granule
    if count > 1:
        cell = (cell[:, None] + np.arange(count)).reshape(-1)
        lane = np.repeat(lane, count)
    return Cells(lane, cell)


@lru_cache(maxsize=16)
def _windows(lanes: int, padded: int, stride: int, granule: int) -> tuple[Array, Array]:
    """Return the lanes, and the first granule of each lane's window."""
    lane = np.arange(lanes)
    return lane, lane // padded * (stride // granule)


def warps_of(lanes: Array | None, total: int) -> Array:
    """Return bool (total // 32,): warps with a lane in ``lanes`` (None = all)."""
    if lanes is None:
        return np.ones(total // WARP, np.bool_)
    return np.asarray(lanes[:total].reshape(-1, WARP).any(axis=1))
