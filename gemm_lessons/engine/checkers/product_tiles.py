"""Find the first product (``wgmma``) that reads other elements than a tile of the matrix, if the answer is wrong.

A tensor copy puts boxes into shared memory. A descriptor determines which bytes a product reads for each element of
its tile. ``ProductTiles`` compares the two, product by product:

    empty   no copy has filled a part of the tile
    mixed   a row of the tile has elements of several rows of the array, or rows have different k
    twice   two rows of the tile have the same row of the array
    other   a tile of A has rows of B's array, or the other way round
    apart   A and B have different k: in another order, another distance apart than in an earlier product of the same
            boxes, or different at all, if the arrays are equally long in k
    again   an earlier product of the same rows of the same boxes has read these k

Right kernels that permute rows or k alike in A and B, or that read parts of boxes, have no finding. But a right kernel
may also store its array in another order, or read a tile as another matrix. So the check runs only if the answer is
wrong (``Simulator.misread``). Tiles with bytes that threads or plain copies have written are not checked.

The likely cause is the smallest change of the descriptor, or of the copy's swizzle, after which the tile is a
contiguous part of the array.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from gemm_lessons.engine.checkers.box_contents import NEVER, BoxContents, HeldBox, TileReader, TileView, length_of_k
from gemm_lessons.engine.checkers.collector import Names
from gemm_lessons.engine.events import WARP, Batch, Boundary, Boxed, LaunchInfo, Observer, Record, TilesRead, Touch
from gemm_lessons.engine.machine.warpgroups import ATOM, CHUNK, SWIZZLE, UNITS
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.facts import DescriptorFix, Details, Elements, Misread, OtherK, PartOfK
from gemm_lessons.engine.records.findings import Finding
from gemm_lessons.engine.records.frozen import dataclass

MOST = 4096  # products that are judged
DISTANCES = (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)  # bytes, between parts of a tile
STRIDE, LEADING, SWIZZLES = 16, 0, 46  # bits of these fields in a layout, a descriptor without its lowest 16


@dataclass(frozen=True)
class _Pair:
    """Products of the same rows of two boxes: the first one's addresses, how far k of A is ahead of B's, all k."""

    starts: tuple[int, int]
    ahead: int
    ks: frozenset[int]


@dataclass(frozen=True)
class _Fixed:
    """A descriptor with some changes, and the swizzle that the copies would need (0: their own)."""

    start: int
    layout: int
    transposed: bool
    fixes: tuple[DescriptorFix, ...] = ()
    swizzle: int = 0


class ProductTiles(Observer):
    """Observer of one launch. ``finding`` is about the first product that does not read a tile, if any."""

    def __init__(self) -> None:
        self.finding: Finding | None = None
        self._judged = 0

    def begin(self, launch: LaunchInfo) -> None:
        """Set up for a launch. See ``events.Observer``, also for the methods below."""
        self._names = Names(launch)
        padded = -(-launch.grid.threads // WARP) * WARP
        stride = -(-max(launch.shared_bytes, CHUNK) // CHUNK) * CHUNK
        self._contents = BoxContents(launch.lanes // padded, padded, stride)

    def begin_batch(self, batch: Batch) -> None:
        """Start new blocks."""
        self._contents.clear()
        self._pairs: dict[tuple[object, ...], _Pair] = {}

    def epoch(self, batch: Batch, records: Sequence[Record], boundary: Boundary) -> None:
        """Follow what is written and read, until something is found."""
        for record in records:
            if self.finding is not None or self._judged > MOST:
                return
            if type(record) is Touch:
                self._contents.touch(record)
            elif type(record) is Boxed:
                self._contents.fill(record)
            elif type(record) is TilesRead:
                self._judge(batch, record)

    def _judge(self, batch: Batch, record: TilesRead) -> None:
        for number, lane in enumerate(record.first.tolist()):
            self._judged += 1
            made = [
                None if it is None else TileReader(self._contents, it, number, lane, record.origin)
                for it in record.tiles
            ]
            left, right = (it if it is not None and it.is_judged else None for it in made)
            found: tuple[str, HeldBox, Details] | None = None
            if left is not None:
                found = _misread("A", left, right)
            if found is None and right is not None:
                found = _misread("B", right, left)
            if found is None and left is not None and right is not None:
                found = self._compared(lane, left, right)
            if found is not None:
                self._report(batch, record, lane, *found)
                return

    def _report(self, batch: Batch, record: TilesRead, lane: int, case: str, copy: HeldBox, facts: Details) -> None:
        by, access = copy.access, record.access
        calls = ((it.line, self._names.called(it)) for it in (access, by))
        self.finding = Finding(
            "descriptor", "error", case, access.line, by.line, 1, access.file,
            by.file if by.file != access.file else "", self._names.shared(copy.start),
            (self._names.actor(batch, lane, access),), facts,
            calls=tuple((line, call) for line, call in calls if line and call),
        )  # fmt: skip

    def _compared(self, lane: int, left: TileReader, right: TileReader) -> tuple[str, HeldBox, Details] | None:
        """Compare the k of A with those of B, and with those of earlier products."""
        (a, of_a), (b, of_b) = _matrix(left), _matrix(right)
        one, other = a.every_k, b.every_k
        first, second = left.box(int(a.boxes[0, 0])), right.box(int(b.boxes[0, 0]))
        boxes = tuple(tuple(np.unique(it.boxes).tolist()) for it in (a, b))
        key = (lane, *boxes, int(a.rows[0, 0]), int(b.rows[0, 0]))
        before = self._pairs.get(key)
        ahead = int(one[0] - other[0])
        starts = left.start, right.start
        moved = () if before is None else (starts[0] - before.starts[0], starts[1] - before.starts[1])
        long = [length_of_k(it.shape, n, t.transposed) for it, n, t in ((first, of_a, left), (second, of_b, right))]
        facts = OtherK(_part(first, one, left), _part(second, other, right), *moved)
        if (one - one[0] != other - other[0]).any():
            in_order = [bool((np.diff(it) == 1).all()) for it in (one, other)]
            if any(in_order):
                return _with_facts("mixed", "B", right) if in_order[0] else _with_facts("mixed", "A", left)
            return "order of k", first, facts
        if before is not None and before.ahead != ahead:
            return "apart later", first, facts
        if long[0] == long[1] and ahead:
            return "apart", first, facts
        if before is not None and not before.ks.isdisjoint(one.tolist()):
            return "again", first, facts
        ks = frozenset(one.tolist())
        self._pairs[key] = _Pair(starts, ahead, ks) if before is None else _Pair(before.starts, ahead, before.ks | ks)
        return None


def _matrix(reader: TileReader) -> tuple[TileView, int]:
    """Return the view that is not mixed, and its number."""
    return next((it, number) for number, it in enumerate(reader.views) if not it.is_mixed)


def _part(box: HeldBox, ks: Array, reader: TileReader) -> PartOfK:
    axis = "row" if reader.transposed else "column"
    return PartOfK(box.shape.name, axis, int(ks[0]), int(ks[-1]), box.access.line)


def _misread(factor: str, reader: TileReader, other: TileReader | None) -> tuple[str, HeldBox, Misread] | None:
    """Return what is wrong with one tile, if something is: the case, the box that it is in, and the facts."""
    case = _case(reader, other)
    return None if case is None else _with_facts(case, factor, reader)


def _with_facts(case: str, factor: str, reader: TileReader) -> tuple[str, HeldBox, Misread]:
    view, box = reader.views[0], reader.first
    assert box is not None
    place = np.unravel_index(int(view.strange.argmax()), view.rows.shape)
    number, per = int(view.boxes[place]), CHUNK // reader.tile.size
    meant = int(view.rows[0, 0] + place[0] * view.steps[0]), int(view.ks[0, 0] + place[1] * view.steps[1])
    held, copied = None, box
    if number >= 0:
        copied = reader.box(number)
        held = _elements(copied, int(view.rows[place]), int(view.ks[place]), per, reader.transposed)
    facts = Misread(
        factor, int(view.offsets[place]) - copied.start, held, _elements(box, *meant, per, reader.transposed),
        _causes(reader, box),
    )  # fmt: skip
    return case, copied, facts


def _elements(box: HeldBox, row: int, k: int, count: int, transposed: bool) -> Elements:
    row, col = (k, row) if transposed else (row, k)
    return Elements(box.shape.name, row, col, col + count - 1)


def _case(reader: TileReader, other: TileReader | None) -> str | None:
    first = reader.views[0]
    if (first.boxes == NEVER).any():
        return "empty"
    if all(it.is_mixed for it in reader.views):
        return "mixed"
    if all(it.repeats for it in reader.views) and _steps_between_rows(reader):
        return "twice"
    if other is not None and other.first is not None and reader.first is not None:
        names = {reader.box(number).shape.name for number in np.unique(first.boxes).tolist()}
        others = {other.box(number).shape.name for number in np.unique(other.views[0].boxes).tolist()}
        if len(others) == 1 and len(names) > 1 and others < names:
            return "other"
    return None


def _steps_between_rows(reader: TileReader) -> int:
    """Return the descriptor's distance between groups of rows; 0 repeats rows on purpose."""
    swizzled = reader.layout >> SWIZZLES
    field = LEADING if reader.transposed and swizzled else STRIDE
    return reader.layout >> field & UNITS


_Kind = Callable[[_Fixed, TileReader, HeldBox], Iterator[_Fixed]]


# -- the likely cause -------------------------------------------------------------------------------------------------


def _causes(reader: TileReader, box: HeldBox) -> tuple[DescriptorFix, ...]:
    """Return the fewest changes that make the tile a contiguous part; transposition, which fits most, last."""
    kinds: tuple[_Kind, ...] = (
        _swizzles,
        partial(_distance, "stride", STRIDE),
        partial(_distance, "leading", LEADING),
        _starts,
    )
    if reader.views[0].is_of_whole_boxes:
        return _fitting([(_starts,)], reader, box) or (DescriptorFix("corner"),)
    some = [it for count in (1, 2, 3) for it in itertools.combinations(kinds, count)]
    return _fitting([*some, (_transposes,), *((_transposes, it) for it in kinds)], reader, box)


def _fitting(changes: Sequence[Sequence[_Kind]], reader: TileReader, box: HeldBox) -> tuple[DescriptorFix, ...]:
    """Return the first of these changes after which the tile is a contiguous part of the array."""
    begin = _Fixed(reader.start, reader.layout, reader.transposed)
    for kinds in changes:
        for fixed in _changed(begin, kinds, reader, box):
            views = reader.viewed(fixed.start, fixed.layout, fixed.transposed, fixed.swizzle)
            if any(not view.strange.any() for view in views):
                return fixed.fixes
    return ()


def _changed(begin: _Fixed, kinds: Sequence[_Kind], reader: TileReader, box: HeldBox) -> Iterator[_Fixed]:
    """Yield the descriptor with a change of each kind."""
    if not kinds:
        yield begin
        return
    for one in kinds[0](begin, reader, box):
        yield from _changed(one, kinds[1:], reader, box)


def _with(fixed: _Fixed, fix: DescriptorFix, field: int, value: int) -> _Fixed:
    """Return the descriptor with another value in a field of its layout."""
    mask = (3 if field == SWIZZLES else UNITS) << field
    return replace(fixed, layout=fixed.layout & ~mask | value << field, fixes=(*fixed.fixes, fix))


def _swizzles(fixed: _Fixed, reader: TileReader, box: HeldBox) -> Iterator[_Fixed]:
    width = SWIZZLE[fixed.layout >> SWIZZLES]
    of_descriptor, of_copy = (0 if width == CHUNK else width), box.shape.swizzle
    if of_descriptor == of_copy:
        return
    case = "swizzle" if of_copy and of_descriptor else "swizzle of the copy" if of_copy else "swizzle of the descriptor"
    fix = DescriptorFix(case, of_descriptor, of_copy)
    yield _with(fixed, fix, SWIZZLES, SWIZZLE.index(of_copy or CHUNK))
    if not of_copy:
        yield replace(fixed, fixes=(*fixed.fixes, fix), swizzle=of_descriptor)


def _distance(case: str, field: int, fixed: _Fixed, reader: TileReader, box: HeldBox) -> Iterator[_Fixed]:
    """Yield other values of a distance in the descriptor: between groups of rows, or along them."""
    given = (fixed.layout >> field & UNITS) * CHUNK
    for right in _distances(box):
        if right != given:
            yield _with(fixed, DescriptorFix(case, given, right), field, right // CHUNK)


def _distances(box: HeldBox) -> list[int]:
    """Return distances between parts of a tile that boxes of this kind may have."""
    size, rows = box.shape.element, box.shape.box
    row = rows[0] * size
    whole = row * (rows[1] if len(rows) > 1 else 1)
    return sorted({*DISTANCES, ATOM * row, whole} - {0})


def _transposes(fixed: _Fixed, reader: TileReader, box: HeldBox) -> Iterator[_Fixed]:
    if reader.tile.size == 2:  # others cannot be transposed
        case = "transposed" if fixed.transposed else "not transposed"
        yield replace(fixed, fixes=(*fixed.fixes, DescriptorFix(case)), transposed=not fixed.transposed)


def _starts(fixed: _Fixed, reader: TileReader, box: HeldBox) -> Iterator[_Fixed]:
    """Begin at the last multiple of eight rows, with or without the same k, or where the box begins."""
    width = SWIZZLE[fixed.layout >> SWIZZLES]
    here, of_box = fixed.start, box.start + reader.origin
    whole = here // (ATOM * width) * ATOM * width
    for right in dict.fromkeys((here // 32 * 32, whole + here % width // 32 * 32, whole, of_box)):
        if right != here:
            fix = DescriptorFix("start", here - of_box, right - of_box)
            yield replace(fixed, fixes=(*fixed.fixes, fix), start=right)
