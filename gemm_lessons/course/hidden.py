"""Shapes that nobody can know beforehand: drawn from a run's seed, within the lesson's contract.

A kernel that takes the lesson's way only on the shape of lesson.toml, or that is right only up to the known sizes, is
counted and checked elsewhere, too: on a wide and shallow shape, whose M and N (of huge ones one) are larger than all
known ones, and on a small and deep one, whose K is, each in one of the layouts that the lesson takes. Each is little
work, so that a run costs about a quarter more.

Where the host chooses the block tile by M, N and K, each tile that it chooses for a known shape is checked elsewhere,
too, unless the wide one has it: on one with more rows of tiles than any known one with that tile, and on one with more
columns. Such a lesson that takes every K is checked on one that is deeper by a tenth to a half. A layout or a tile that
none of the counted shapes has is counted on one of its own: who keeps the lesson's way for the others is found out. One
of those has whole tiles of K: who has a short one all the same is found out, too.

Beside those, each lesson is checked far out, with M, N or K of thousands and the others of one or two tiles (and
counted there, where no host chooses), and on small shapes, in which each remainder of M, N and K comes up once.

A learner's own run has none of them. The wide one alone takes from a fifth to more than all known checks together, and
who deceives a run of his own deceives nobody else.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import lcm, prod

from gemm_lessons.course.lesson import Lesson, tile_sizes
from gemm_lessons.gemm.shapes import Shape, TileSizes, astuple

FULL = 0.85  # of the last tile along an axis that is inside the matrix, at least: gates allow for whole ones
SHALLOW = 16  # of K, at least, where K is not cut into tiles
DEEPER = (1.1, 1.5)  # times the largest known K
MANY = 100  # tiles along an axis of a known shape: more would show no more, and take long
WALK = 2  # K tiles, at least, of a shape whose like is counted: with fewer, a first and a last tile are all there is
TRIES = 200  # shapes that are drawn, and asked for their tile
WIDEST = 1 << 20  # elements of C: a lesson that knows large shapes hides one that is larger in M or in N only
FAR = (2400, 2400, 1100)  # M, N, K of shapes that lie far out, at least, and half as much again at most ...
# ... but never more multiply-adds than so many, over the bytes of an input, 4 at most: async_copy has a second band.
WORK = 9 << 23
# Times as deep as that in some runs: nobody knows up to where a kernel has to be right.
DEEP, SOME = 2, 0.25
LITTLE = 1 << 22  # multiply-adds of a small shape, at most: larger ones get one tile
REMAINDERS = 8  # of sizes, or of numbers of tiles, each of which comes up once among the small shapes ...
FEW = 4  # ... but for a lesson where a tile is much work, or the host compiles another kernel for each


def hidden_counts(lesson: Lesson, seed: int) -> tuple[Shape, ...]:
    """The hidden shapes of a graded run with this seed: the wide and the deep one.

    The same on every machine and with every Python: ``random.Random.random()`` of a text is what Python promises to
    keep.
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
    """More hidden shapes to count: one of each layout, and of each tile that the host chooses, that no other has; two
    far ones, where it chooses nothing."""
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
    """Every shape that a graded run with this seed counts, in secret."""
    return (*hidden_counts(lesson, seed), *hidden_ways(lesson, seed))


def hidden_checks(lesson: Lesson, seed: int) -> tuple[Shape, ...]:
    """More hidden shapes of such a run, to check and not to count."""
    draw = random.Random(f"{lesson.name} checks {seed}")
    far = _far(lesson, seed)
    chosen = (*_of_choices(lesson, seed, draw), *far[:2]) if lesson.choices else ()  # of others, these are counted
    shared = (_large(lesson, draw),) if len(lesson.launches) > 1 else ()
    found = (*chosen, far[2], *shared, *_small(lesson, draw))
    return tuple(it for it in dict.fromkeys(found) if it not in (*lesson.shapes.check, lesson.shapes.count))


def _of_choices(lesson: Lesson, seed: int, draw: random.Random) -> list[Shape]:
    """Each tile that the host chooses for a known shape, elsewhere."""
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
    """About as long along each axis as in another: who shares out the K tiles has many blocks here."""
    side = int((WORK / 2) ** (1 / 3) * (1 + draw.random() / 8))
    sizes = (max(1, side // step) * step for step in astuple(lesson.shapes.multiple_of))
    return Shape(*sizes, layout=_any_of(draw, lesson.shapes.layouts))


def _far(lesson: Lesson, seed: int) -> tuple[Shape, ...]:
    """One shape along each axis, thousands long and a tile or two wide: along K, along M or N, along the other."""
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
    """Shapes of which each remainder of M, N and K comes up once, of sizes or of numbers of tiles; a square one; and
    one whose last tiles have one row, one column and one k."""
    steps, tile = astuple(lesson.shapes.multiple_of), astuple(_tile(lesson))
    many = REMAINDERS if not lesson.choices and 2 * REMAINDERS * prod(steps) <= LITTLE else FEW
    columns = []
    for step, size, place in zip(steps, tile, draw.sample(range(many), len(steps)), strict=True):
        rounds = max(1, (size if size > 1 else SHALLOW) // step // many) + 1
        sizes = [n + many * int(draw.random() * rounds) * (n > 1) or many for n in range(many)]  # 1 is one
        order = draw.sample([n for n in range(many) if n != 1], many - 1)
        order.insert(place, 1)  # never one of two axes
        columns.append([step * sizes[n] for n in order])
    side = lcm(*steps) * (1 + int(draw.random() * many * many) // lcm(*steps))
    for m, n, k in (*zip(*columns, strict=True), (side, side, side)):
        few = m * n * k > LITTLE
        yield Shape(steps[0] if few else m, steps[1] if few else n, k, layout=_any_of(draw, lesson.shapes.layouts))
    if prod(steps) == 1 and not lesson.choices:  # those of others are known ones, or each a kernel more
        yield Shape(*(size + 1 if size > 1 else SHALLOW + 1 for size in tile))


def _any_of(draw: random.Random, layouts: Sequence[str]) -> str:
    return layouts[int(draw.random() * len(layouts))]


def _near(lesson: Lesson, draw: random.Random, like: Shape, tile: TileSizes) -> Shape:
    """A shape of about as many tiles as ``like``, maybe much wider or much higher."""
    step = lesson.shapes.multiple_of
    tiles = -(-like.m // tile.rows) * -(-like.n // tile.cols)
    across = int(tiles ** draw.random())
    down = -(-tiles // across) + int(draw.random() * 2)
    m, n = (  # ragged ones, where they may be
        count * size - int(draw.random() * size) if by == 1 else max(1, count * size // by) * by
        for count, size, by in ((down, tile.rows, step.m), (across, tile.cols, step.n))
    )
    return replace(like, m=m, n=n)


def _tile(lesson: Lesson) -> Shape:
    tile = tile_sizes(lesson)
    return Shape(tile.rows, tile.cols, tile.depth)


class _Axis:
    """M, N or K: what it must be a multiple of, the size of a tile, the sizes that are known."""

    def __init__(self, draw: random.Random, step: int, tile: int, *known: int) -> None:
        self._draw, self._step = draw, step
        self._tile = max(tile, step) if tile > 1 else max(SHALLOW, step)
        self._largest = max(known, default=0)

    def beyond(self, most: int) -> int:
        """A size above the known ones: where it need not be whole tiles, in the next one, else one of the next."""
        first = -(-(self._largest + 1) // self._tile)
        ragged = self._step < self._tile
        return self._size(first if ragged else first + int(self._draw.random() * most), self._largest + 1)

    def small(self, most: int = 2) -> int:
        """A size of one tile, or of up to ``most`` where they are whole."""
        return self._size(1 if self._step < self._tile else 1 + int(self._draw.random() * most))

    def tiles(self, number: int) -> int:
        """So many."""
        return self._size(number)

    def whole(self, number: int) -> int:
        """So many, and none of them ragged: nothing is left for a short one."""
        return number * self._tile

    def shallow(self) -> int:
        """Two or three tiles, where the known sizes have several: what happens from tile to tile is seen."""
        return self._size(2 + int(self._draw.random() * 2) if self._largest > 3 * self._tile else 1)

    def _size(self, tiles: int, least: int = 1) -> int:
        """A multiple of the step that takes so many tiles: whole ones where it must, else ragged."""
        last = tiles * self._tile - (self._step if self._step < self._tile else 0)
        first = max(int((tiles - 1 + FULL) * self._tile), least)
        choices = range(-(-first // self._step), last // self._step + 1)
        return self._step * (choices[int(self._draw.random() * len(choices))] if choices else -(-first // self._step))
