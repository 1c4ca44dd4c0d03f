"""Unpredictable shapes: drawn from a run's seed, within the lesson's contract.

A kernel may use the lesson's method only on the shape of lesson.toml, or be right only up to the known sizes. Graded
runs therefore also count and check it on two hidden shapes, each in one of the lesson's layouts: a wide and shallow
one, whose M and N are larger than all known ones (for huge shapes, one of both is), and a small and deep one, whose K
is larger. Each is little work, so a run costs about a quarter more.

Where the host chooses the block tile by M, N and K, each tile that it chooses for a known shape is also checked on
other shapes, unless the wide one has it: on one with more rows of tiles than any known shape with that tile, and on one
with more columns. If such a lesson takes every K, it is checked on a shape that is deeper by a tenth to a half. A
layout or tile of none of the counted shapes is counted on a shape of its own, to detect a kernel that uses the lesson's
method only for the others. One of those shapes has whole tiles of K, to detect a kernel that handles a partial tile
there all the same.

Each lesson is also checked far out, with M, N or K of thousands and the others of one or two tiles (and counted there,
where the host chooses nothing), and on small shapes, among which each remainder of M, N and K occurs once.

A learner's own run has no hidden shapes. The wide one alone takes from a fifth to more than the time of all known
checks together, and a learner gains nothing by deceiving an own run.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import lcm, prod

from gemm_lessons.course.lesson import Lesson, tile_sizes
from gemm_lessons.gemm.shapes import Shape, TileSizes, astuple

FULL = 0.85  # of the last tile along an axis that is inside the matrix, at least: gates allow for whole ones
SHALLOW = 16  # of K, at least, where K is not split into tiles
DEEPER = (1.1, 1.5)  # times the largest known K
MANY = 100  # tiles along an axis of a known shape: more tiles show nothing more, and take long
WALK = 2  # K tiles, at least, of a counted shape: with fewer there are only a first and a last tile
TRIES = 200  # shapes to draw until one has the tile
WIDEST = 1 << 20  # elements of C: a lesson with large known shapes hides one that is larger only in M or only in N
FAR = (2400, 2400, 1100)  # M, N, K of far shapes, at least, and half as much again at most ...
# ... but at most this many multiply-adds / bytes of an input, 4 at most: async_copy has a second band.
WORK = 9 << 23
# Some runs are deeper by this factor: the largest K at which a kernel must be right is not known.
DEEP, SOME = 2, 0.25
LITTLE = 1 << 22  # multiply-adds of a small shape, at most: larger ones have one tile
REMAINDERS = 8  # of sizes, or of numbers of tiles, each of which occurs once among the small shapes ...
FEW = 4  # ... except for a lesson where a tile is much work, or the host compiles another kernel for each


def hidden_counts(lesson: Lesson, seed: int) -> tuple[Shape, ...]:
    """Return the hidden shapes of a graded run with this seed: the wide and the deep one.

    They are the same on every machine and Python version: Python guarantees the sequence of ``random.Random.random()``
    for a text seed.
    """
    draw = random.Random(f"{lesson.name} hides {seed}")
    known = (*lesson.shapes.check, lesson.shapes.count)
    shapes = map(astuple, (lesson.shapes.multiple_of, _tile(lesson), *known))
    m, n, k = (_Axis(draw, *sizes) for sizes in zip(*shapes, strict=True))
    wide = Shape(m.beyond(2), n.beyond(2), k.shallow())
    if wide.m * wide.n > WIDEST:
        wide = replace(wide, n=n.small()) if draw.random() < 0.5 else replace(wide, m=m.small())
    deep = Shape(m.small(), n.small(), k.beyond(6))
    return tuple(replace(it, layout=_any_of(draw, lesson.shapes.layouts)) for it in (wide, deep))


def hidden_ways(lesson: Lesson, seed: int) -> tuple[Shape, ...]:
    """Return more hidden shapes to count: one for each layout, and for each tile that the host chooses, that no other
    shape has; two far ones where it chooses nothing."""
    if not lesson.choices:
        return _far(lesson, seed)[:2]
    draw, shapes = random.Random(f"{lesson.name} ways {seed}"), lesson.shapes
    known = (*shapes.check, shapes.count)
    counted = (shapes.count, *hidden_counts(lesson, seed))
    sizes = map(astuple, (shapes.multiple_of, _tile(lesson), *known))
    m, n, k = (_Axis(draw, *it) for it in zip(*sizes, strict=True))
    missing = [layout for layout in shapes.layouts if layout not in {it.layout for it in counted}]
    depths = (k.shallow() if number else k.whole(WALK) for number in range(len(missing)))
    found = [Shape(m.small(), n.small(), depth, layout=it) for depth, it in zip(depths, missing, strict=True)]
    tiles = {tile_sizes(lesson.at(it)) for it in counted}
    for like in known:
        tile = tile_sizes(lesson.at(like))
        if tile not in tiles and like.k >= WALK * tile.depth:
            drawn = (_near(lesson, draw, like, tile) for _ in range(TRIES))
            fit = (it for it in drawn if it not in known and tile_sizes(lesson.at(it)) == tile)
            found += [shape for shape in [next(fit, None)] if shape is not None]
            tiles.add(tile)
    return tuple(found)


def hidden_and_counted(lesson: Lesson, seed: int) -> tuple[Shape, ...]:
    """Return every hidden shape that a graded run with this seed counts."""
    return (*hidden_counts(lesson, seed), *hidden_ways(lesson, seed))


def hidden_checks(lesson: Lesson, seed: int) -> tuple[Shape, ...]:
    """Return more hidden shapes of such a run, to check without counting."""
    draw = random.Random(f"{lesson.name} checks {seed}")
    far = _far(lesson, seed)
    chosen = (*_of_choices(lesson, seed, draw), *far[:2]) if lesson.choices else ()  # others count these
    shared = (_large(lesson, draw),) if len(lesson.launches) > 1 else ()
    found = (*chosen, far[2], *shared, *_small(lesson, draw))
    return tuple(it for it in dict.fromkeys(found) if it not in (*lesson.shapes.check, lesson.shapes.count))


def _of_choices(lesson: Lesson, seed: int, draw: random.Random) -> list[Shape]:
    """Return other shapes for each tile that the host chooses for a known shape."""
    shapes = lesson.shapes
    known = (*shapes.check, shapes.count)
    counted = {tile_sizes(lesson.at(it)) for it in hidden_counts(lesson, seed)[:1]}
    tiles = {shape: tile_sizes(lesson.at(shape)) for shape in known}
    found = []
    if shapes.multiple_of.k == 1:
        deepest = max(known, key=lambda it: it.k)
        found.append(replace(deepest, k=int(deepest.k * (DEEPER[0] + draw.random() * (DEEPER[1] - DEEPER[0]))) + 1))
    for tile in dict.fromkeys(it for it in tiles.values() if it not in counted):
        alike = [shape for shape in known if tiles[shape] == tile]
        for axis, size in (("m", tile.rows), ("n", tile.cols)):
            most = max(getattr(shape, axis) for shape in alike)
            if most > MANY * size:
                continue
            largest = max(alike, key=lambda it: it.m * it.n)
            drawn = (_near(lesson, draw, largest, tile) for _ in range(TRIES))
            fit = (it for it in drawn if getattr(it, axis) > most and tile_sizes(lesson.at(it)) == tile)
            found += [shape for shape in [next(fit, None)] if shape is not None]
    return found


def _large(lesson: Lesson, draw: random.Random) -> Shape:
    """Return a shape of similar length along each axis: kernels whose blocks divide the K tiles have many blocks
    here."""
    side = int((WORK / 2) ** (1 / 3) * (1 + draw.random() / 8))
    sizes = (max(1, side // step) * step for step in astuple(lesson.shapes.multiple_of))
    return Shape(*sizes, layout=_any_of(draw, lesson.shapes.layouts))


def _far(lesson: Lesson, seed: int) -> tuple[Shape, ...]:
    """Return one shape along each axis, thousands long and a tile or two wide: along K, along M or N, along the
    other."""
    draw = random.Random(f"{lesson.name} far {seed}")
    steps, tile = astuple(lesson.shapes.multiple_of), astuple(_tile(lesson))
    work = WORK // min(4, lesson.data.factors[0].element.size)
    found = []
    for axis in (2, *draw.sample((0, 1), 2)):
        m, n, k = (_Axis(draw, *it) for it in zip(steps, tile, strict=True))
        sizes = [m.small(1), n.small(1), k.tiles(WALK)]
        most = min(int(FAR[axis] * (1 + draw.random() / 2)), work * sizes[axis] // prod(sizes))
        most *= DEEP if axis == 2 and draw.random() < SOME else 1
        sizes[axis] = max(1, most // steps[axis]) * steps[axis]
        found.append(Shape(*sizes, layout=_any_of(draw, lesson.shapes.layouts)))
    return tuple(found)


def _small(lesson: Lesson, draw: random.Random) -> Iterator[Shape]:
    """Yield shapes among which each remainder of M, N and K occurs once, of sizes or of numbers of tiles; a square one;
    and one whose last tiles have one row, one column and one k."""
    steps, tile = astuple(lesson.shapes.multiple_of), astuple(_tile(lesson))
    many = REMAINDERS if not lesson.choices and 2 * REMAINDERS * prod(steps) <= LITTLE else FEW
    columns = []
    for step, size, place in zip(steps, tile, draw.sample(range(many), len(steps)), strict=True):
        rounds = max(1, (size if size > 1 else SHALLOW) // step // many) + 1
        sizes = [n + many * int(draw.random() * rounds) * (n > 1) or many for n in range(many)]  # size 1 stays 1
        order = draw.sample([n for n in range(many) if n != 1], many - 1)
        order.insert(place, 1)  # never 1 along two axes
        columns.append([step * sizes[n] for n in order])
    side = lcm(*steps) * (1 + int(draw.random() * many * many) // lcm(*steps))
    for m, n, k in (*zip(*columns, strict=True), (side, side, side)):
        few = m * n * k > LITTLE
        yield Shape(steps[0] if few else m, steps[1] if few else n, k, layout=_any_of(draw, lesson.shapes.layouts))
    if prod(steps) == 1 and not lesson.choices:  # otherwise they are known ones, or each needs another kernel
        yield Shape(*(size + 1 if size > 1 else SHALLOW + 1 for size in tile))


def _any_of(draw: random.Random, layouts: Sequence[str]) -> str:
    return layouts[int(draw.random() * len(layouts))]


def _near(lesson: Lesson, draw: random.Random, like: Shape, tile: TileSizes) -> Shape:
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


def _tile(lesson: Lesson) -> Shape:
    tile = tile_sizes(lesson)
    return Shape(tile.rows, tile.cols, tile.depth)


class _Axis:
    """M, N or K: its required factor, the size of a tile, the known sizes."""

    def __init__(self, draw: random.Random, step: int, tile: int, *known: int) -> None:
        self._draw, self._step = draw, step
        self._tile = max(tile, step) if tile > 1 else max(SHALLOW, step)
        self._largest = max(known, default=0)

    def beyond(self, most: int) -> int:
        """Return a size above the known ones: in the next tile where whole tiles are not required, else one of the
        next."""
        first = -(-(self._largest + 1) // self._tile)
        ragged = self._step < self._tile
        return self._size(first if ragged else first + int(self._draw.random() * most), self._largest + 1)

    def small(self, most: int = 2) -> int:
        """Return a size of one tile, or of up to ``most`` where tiles must be whole."""
        return self._size(1 if self._step < self._tile else 1 + int(self._draw.random() * most))

    def tiles(self, number: int) -> int:
        """Return a size of this many tiles."""
        return self._size(number)

    def whole(self, number: int) -> int:
        """Return a size of this many tiles, all of them whole."""
        return number * self._tile

    def shallow(self) -> int:
        """Return a size of two or three tiles where the known sizes have several, so that the transition between tiles
        shows."""
        return self._size(2 + int(self._draw.random() * 2) if self._largest > 3 * self._tile else 1)

    def _size(self, tiles: int, least: int = 1) -> int:
        """Return a multiple of the step with this many tiles: whole ones where required, else ragged."""
        last = tiles * self._tile - (self._step if self._step < self._tile else 0)
        first = max(int((tiles - 1 + FULL) * self._tile), least)
        choices = range(-(-first // self._step), last // self._step + 1)
        return self._step * (choices[int(self._draw.random() * len(choices))] if choices else -(-first // self._step))
