"""Sizes and layouts of hidden shapes, drawn from a run's seed within the lesson's contract: what all of them share.

    m, n, k = axes(draw, steps, tile, *known)    m.beyond(2), n.small(), k.whole(3) -> allowed(lesson, Shape(...))

Hidden shapes are the same on every machine and Python version: Python guarantees the sequence of
``random.Random.random()`` for a text seed.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Literal, TypeVar

from gemm_lessons.course import Lesson, tile_sizes
from gemm_lessons.gemm import SIZES, Shape, TileSizes, astuple

T = TypeVar("T")
FULL = 0.85  # of the last tile along an axis that is inside the matrix, at least: gates allow for whole ones
ALIGNED = 8  # sizes of half of the large shapes are multiples: gates allow more for others
FEWER = 3  # steps that a ragged size lacks to whole tiles, at most
SHALLOW = 16  # of K, at least, where K is not split into tiles
SHARING = 0.75  # of the runs have counted shapes that share variants of the kernel, where the others need more
WIDEST = 1 << 20  # elements of C: a lesson with large known shapes hides one that is larger only in M or only in N
MANY_WAYS = 5  # tiles of a large shape along M and along N, at least
# Multiply-adds of a large shape whose K tiles blocks may divide, and up to an eighth more: 84 to 96 blocks of split_k.
SHARED = 42 << 20
SAMPLED = 1 << 26  # multiply-adds of the blocks that are run of a far shape ...
LONG = 4  # ... and of whole numbers so many times as many: a sum of 29 bits has K above 16,384
# Multiply-adds per second in the simulator / those of float32, by the size of a factor's number, where it is a float.
PACE = {8: 1 / 12, 2: 1 / 6, 1: 1 / 6}
MUCH = 1 << 20  # multiply-adds of the smallest shape that a lesson allows, or of a K tile of a block: that is much work


def allowed(lesson: Lesson, shape: Shape) -> Shape:
    """Return the shape with each size at most what the lesson's contract allows."""
    most = dict(lesson.shapes.at_most)
    steps = astuple(lesson.shapes.multiple_of)
    sizes = (
        min(size, most.get(name, size) // step * step)
        for name, size, step in zip(SIZES, astuple(shape), steps, strict=True)
    )
    return Shape(*sizes, layout=shape.layout)


def layout_of(lesson: Lesson, seed: int, shape: Literal["large", "far", "deep"], drawn: str) -> str:
    """Return the layout of one of the counted shapes: the ``drawn`` one, unless the host chooses. Then the three have
    different ones, and most often those that the counting shape has not: no other shape must be counted for them."""
    if not lesson.choices:
        return drawn
    draw = random.Random(f"{lesson.name} layouts {seed}")
    known = lesson.shapes.count.layout
    order = draw.sample(lesson.shapes.layouts, len(lesson.shapes.layouts))
    if draw.random() < SHARING:
        order = [*(it for it in order if it != known), known]
    return order[("large", "far", "deep").index(shape) % len(order)]


def has_dear_tiles(lesson: Lesson) -> bool:
    """Tell whether one K tile of one block is much work."""
    tile = astuple(tile_of(lesson.at(lesson.shapes.count)))
    return prod(map(max, astuple(lesson.shapes.multiple_of), tile)) >= MUCH


def shares_depth(lesson: Lesson) -> bool:
    """Tell whether blocks may divide the K tiles, where a tile is little work: a later launch adds up what they leave,
    and the host chooses how many there are. Then the large shape has the work of many blocks, and is deep."""
    several = len(lesson.launches) > 1 and lesson.shapes.products == 1 and bool(lesson.choices)
    return several and MANY_WAYS**3 * prod(astuple(tile_of(lesson.at(lesson.shapes.count)))) <= SHARED


def affordable(lesson: Lesson) -> float:
    """Return how many multiply-adds of a far shape are run."""
    return SAMPLED * (pace(lesson) if lesson.data.factors[0].element.is_float else LONG)


def pace(lesson: Lesson) -> float:
    """Return multiply-adds per second in the simulator / those of float32."""
    element = lesson.data.factors[0].element
    return PACE.get(element.size, 1) if element.is_float else 1


def variant_of(lesson: Lesson, shape: Shape) -> Hashable:
    """Return what the host chooses for a shape, as far as the reference's code names it: shapes with the same need one
    compilation of the reference, and of most kernels."""
    return lesson.named_at(shape)


def any_of(draw: random.Random, things: Sequence[T]) -> T:
    """Return one of the things, all of which are as likely."""
    return things[int(draw.random() * len(things))]


def near(lesson: Lesson, draw: random.Random, like: Shape, tile: TileSizes) -> Shape:
    """Return a shape of about as many tiles as ``like``, possibly much wider or much higher."""
    step = lesson.shapes.multiple_of
    tiles = -(-like.m // tile.rows) * -(-like.n // tile.cols)
    across = int(tiles ** draw.random())
    down = -(-tiles // across) + int(draw.random() * 2)
    m, n = (  # ragged ones, where the lesson allows them
        count * size - int(draw.random() * size) if by == 1 else max(1, count * size // by) * by
        for count, size, by in ((down, tile.rows, step.m), (across, tile.cols, step.n))
    )
    return replace(like, m=m, n=n)


def tile_of(lesson: Lesson) -> Shape:
    """Return the sizes of the lesson's block tile."""
    tile = tile_sizes(lesson)
    return Shape(tile.rows, tile.cols, tile.depth)


def axes(draw: random.Random, steps: Shape, tile: Shape, *known: Shape) -> Iterator[Axis]:
    """Yield M, N and K, by the required factors, the sizes of a tile and the known shapes."""
    return (Axis(draw, *sizes) for sizes in zip(*map(astuple, (steps, tile, *known)), strict=True))


class Axis:
    """M, N or K: its required factor, the size of a tile, the known sizes."""

    def __init__(self, draw: random.Random, step: int, tile: int, *known: int, less: float = 0.0) -> None:
        self._draw, self._step, self._less = draw, step, less
        self.tile = max(tile, step) if tile > 1 else max(SHALLOW, step)
        self._largest = max(known, default=0)
        self._is_ragged = step < self.tile  # the last tile may be

    def beyond(self, most: int) -> int:
        """Return a size above the known ones: in the next tile if tiles need not be whole, else one of the next."""
        first = -(-(self._largest + 1) // self.tile)
        return self._size(first if self._is_ragged else first + int(self._draw.random() * most), self._largest + 1)

    def small(self, most: int = 2) -> int:
        """Return a size of one tile, or of up to ``most`` where tiles must be whole."""
        return self._size(1 if self._is_ragged else 1 + int(self._draw.random() * most))

    def tiles(self, number: int) -> int:
        """Return a size of this many tiles."""
        return self._size(number)

    def whole(self, number: int) -> int:
        """Return a size of this many tiles, all of them whole."""
        return number * self.tile

    def shallow(self) -> int:
        """Return a size of two or three tiles where the known sizes have several, to show the transition."""
        return self._size(2 + int(self._draw.random() * 2) if self._largest > 3 * self.tile else 1)

    def _size(self, tiles: int, least: int = 1) -> int:
        """Return a multiple of the step with this many tiles: whole ones where required, else ragged. A share
        (``less``) of the ragged ones lack one to three steps."""
        last = tiles * self.tile - (self._step if self._is_ragged else 0)
        first = max(int((tiles - 1 + FULL) * self.tile), least)
        choices = range(-(-first // self._step), last // self._step + 1)
        if self._less and self._draw.random() < self._less:
            choices = choices[-FEWER:]
        return self._step * (choices[int(self._draw.random() * len(choices))] if choices else -(-first // self._step))
