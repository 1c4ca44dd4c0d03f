"""The box and array that each piece of shared memory holds, and the elements that a descriptor reads there.

``BoxContents`` follows tensor copies by pieces of 16 bytes. A ``TileReader`` is a tile of a product; its ``TileView``
gives the row and k of the array that the product reads for each row and k of the tile. A row of B is a column of the
matrix.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gemm_lessons.engine.events import Access, Boxed, BoxShape, ReadTile, Touch
from gemm_lessons.engine.machine.warpgroups import CHUNK, chunk_places
from gemm_lessons.engine.records.arrays import Array

NEVER, BY_THREADS = -1, -2  # in place of a box: not written; written by a store or a plain copy


@dataclass(frozen=True)
class HeldBox:
    """One box in shared memory: its copy, its first element in the array, its first byte in the block's window."""

    access: Access
    shape: BoxShape
    corner: Array
    start: int


class BoxContents:
    """The contents of the blocks' shared memory. ``padded``: lanes of a block; ``stride``: bytes of its window."""

    def __init__(self, blocks: int, padded: int, stride: int) -> None:
        self.padded, self.stride = padded, stride
        self.box = np.full(blocks * stride // CHUNK, NEVER)
        self.part = np.zeros(len(self.box), np.int64)
        self.boxes: list[HeldBox] = []

    def clear(self) -> None:
        """Forget everything: new blocks start."""
        self.box[:] = NEVER
        self.boxes.clear()

    def touch(self, touch: Touch) -> None:
        """Note what a store or a copy overwrites."""
        access = touch.access
        if access.space != "shared" or access.effect == "load":
            return
        lanes = touch.active_lanes
        first = lanes // self.padded * self.stride + touch.addresses[lanes]
        for step in range(0, access.width, CHUNK):
            self.box[(first + step) // CHUNK] = BY_THREADS

    def fill(self, record: Boxed) -> None:
        """Note the boxes of a tensor copy."""
        for number, pieces in enumerate(record.pieces):
            self.box[pieces], self.part[pieces] = len(self.boxes), np.arange(len(pieces))
            start = int(record.starts[number]) % self.stride
            self.boxes.append(HeldBox(record.access, record.shape, record.corner[:, number], start))


@dataclass(frozen=True)
class TileView:
    """A tile by chunk of 16 bytes, (chunks of rows, chunks of k): the array's row and k of the first element, the box
    (or ``NEVER``), the array, and the byte in the block's window. ``steps``: rows, and k, from chunk to chunk."""

    rows: Array
    ks: Array
    boxes: Array
    arrays: Array
    offsets: Array
    steps: tuple[int, int]

    @property
    def strange(self) -> Array:
        """Return which chunks differ from the contiguous part of the array that begins with the first chunk."""
        rows, ks = self._displacement
        return np.asarray((rows != 0) | (ks != 0) | (self.boxes < 0) | (self.arrays != self.arrays[0, 0]))

    @property
    def is_of_whole_boxes(self) -> bool:
        """Return whether the tile consists of several boxes of one array, each unchanged, not neighbours there."""
        rows, ks = self._displacement
        each = [self.boxes == number for number in np.unique(self.boxes)]
        alike = all(len(np.unique(it[where])) == 1 for where in each for it in (rows, ks))
        return alike and len(each) > 1 and bool((self.boxes >= 0).all() and (self.arrays == self.arrays[0, 0]).all())

    @property
    def _displacement(self) -> tuple[Array, Array]:
        """Return the distances of rows and ks from the contiguous part of the array that starts at the first chunk."""
        down, along = np.arange(self.rows.shape[0])[:, None], np.arange(self.rows.shape[1])
        rows = self.rows - (self.rows[0, 0] + down * self.steps[0])
        return rows, self.ks - (self.ks[0, 0] + along * self.steps[1])

    @property
    def is_mixed(self) -> bool:
        """Return whether a row has elements of several rows of the array, or rows have different k."""
        several = (self.rows != self.rows[:, :1]) | (self.arrays != self.arrays[:, :1]) | (self.ks != self.ks[:1])
        return bool(several.any())

    @property
    def repeats(self) -> bool:
        """Return whether two rows have the same row of the array."""
        rows = np.stack((self.arrays[:, 0], self.rows[:, 0]))
        return bool(np.unique(rows, axis=1).shape[1] < rows.shape[1])

    @property
    def every_k(self) -> Array:
        """Return the k of each element of the first row."""
        return np.asarray((self.ks[0][:, None] + np.arange(self.steps[1])).reshape(-1))


class TileReader:
    """The tile of one product: of ``tile``'s warpgroup ``number``, which begins with ``lane``."""

    def __init__(self, contents: BoxContents, tile: ReadTile, number: int, lane: int, origin: int) -> None:
        self._contents, self.tile = contents, tile
        self._window, self.origin = lane // contents.padded * contents.stride, origin
        descriptor = int(tile.descriptors[number])
        self.start, self.layout = (descriptor & 0x3FFF) * CHUNK, descriptor >> 16
        self.transposed = tile.transposed

    @functools.cached_property
    def views(self) -> Sequence[TileView]:
        """Return the tile as the product reads it, for each way to see the array as a matrix."""
        return self.viewed(self.start, self.layout, self.transposed)

    @property
    def first(self) -> HeldBox | None:
        """Return the box of the first chunk."""
        number = int(self.views[0].boxes[0, 0])
        return self._contents.boxes[number] if number >= 0 else None

    def box(self, number: int) -> HeldBox:
        """Return a box by its number in a view."""
        return self._contents.boxes[number]

    @property
    def is_judged(self) -> bool:
        """Return whether copies alone have written the tile."""
        boxes = self.views[0].boxes
        return bool(boxes[0, 0] >= 0 and (boxes != BY_THREADS).all())

    def viewed(self, start: int, layout: int, transposed: bool, swizzle: int = 0) -> Sequence[TileView]:
        """Return the tile as another descriptor reads it, or with copies of another ``swizzle`` (bytes; 0: own)."""
        tile, contents = self.tile, self._contents
        places = chunk_places(np.array([start]), layout, tile.rows, tile.k, tile.size, transposed)[0]
        if swizzle:
            places = places ^ (places >> 7 & (swizzle // CHUNK - 1)) * CHUNK
        offsets = places - self.origin
        inside = (offsets >= 0) & (offsets < contents.stride)
        pieces = (self._window + np.where(inside, offsets, 0)) // CHUNK
        boxes = np.where(inside, contents.box[pieces], NEVER)
        per = CHUNK // tile.size
        shape = (tile.rows // per, tile.k) if transposed else (tile.rows, tile.k // per)
        steps = (per, 1) if transposed else (1, per)
        found = _matrices(contents.boxes, boxes, contents.part[pieces], transposed)
        made = []
        for one in found:
            rows, ks, arrays = (it.reshape(shape) for it in one)
            made.append(TileView(rows, ks, boxes.reshape(shape), arrays, offsets.reshape(shape), steps))
        return made


def _matrices(
    boxes: Sequence[HeldBox], numbers: Array, parts: Array, transposed: bool
) -> list[tuple[Array, Array, Array]]:
    """Return rows, ks and arrays of chunks, for each way to see the array of the first one as a matrix."""
    known = [boxes[number] for number in np.unique(numbers).tolist() if number >= 0]
    where = [np.flatnonzero(numbers == number) for number in np.unique(numbers).tolist() if number >= 0]
    arrays = np.full(len(numbers), -1)
    names: list[object] = []
    places: list[Array] = []
    for box, here in zip(known, where, strict=True):
        shape = box.shape
        name = shape.name, shape.sizes, shape.strides
        if name not in names:
            names.append(name)
        arrays[here] = names.index(name)
        places.append(_coordinates(box, parts[here]))
    found = []
    for pitch in _pitches(known[0].shape) if known else [math.inf]:
        row, column = np.full(len(numbers), -1), np.full(len(numbers), -1)
        for box, here, place in zip(known, where, places, strict=True):
            row[here], column[here] = _in_matrix(box.shape, place, pitch)
        rows, ks = (column, row) if transposed else (row, column)
        found.append((rows, ks, arrays))
    return found


def _pitches(shape: BoxShape) -> list[float]:
    """Return the row distances in bytes of each way to see an array as a matrix; first that of the second dimension."""
    sizes = zip(shape.strides[1:], shape.sizes[1:], strict=True)
    return [*dict.fromkeys(float(stride) for stride, size in sizes if size > 1 and stride)] or [math.inf]


def _coordinates(box: HeldBox, parts: Array) -> Array:
    """Return the coordinates (dimensions, n) of the first elements of pieces of a box."""
    index = parts * (CHUNK // box.shape.element)
    found = []
    for size, first in zip(box.shape.box, box.corner.tolist(), strict=True):
        found.append(first + index % size)
        index = index // size
    return np.array(found)


def _in_matrix(shape: BoxShape, place: Array, pitch: float) -> tuple[Array, Array]:
    """Return rows and columns: dimensions closer together than ``pitch`` bytes are parts of a row."""
    row, column = np.zeros_like(place[0]), place[0].copy()
    for stride, along in zip(shape.strides[1:], place[1:], strict=True):
        if stride < pitch:
            column += along * (stride // shape.element)
        else:
            row += along * int(stride // pitch)
    return row, column


def length_of_k(shape: BoxShape, pitch_number: int, transposed: bool) -> int:
    """Return the extent of an array along k, seen as a matrix by its pitch number ``pitch_number``."""
    pitch = _pitches(shape)[pitch_number]
    sizes = zip(shape.strides[1:], shape.sizes[1:], strict=True)
    inside = [size for stride, size in sizes if stride < pitch]
    if not transposed:
        return math.prod([shape.sizes[0], *inside])
    return math.prod(shape.sizes[1:]) // math.prod(inside)
