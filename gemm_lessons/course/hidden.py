"""Shapes to count on that nobody can know beforehand: drawn from a run's seed, within the lesson's contract.

A kernel that takes the lesson's way only on the shape of lesson.toml is counted elsewhere, too. The shapes are
rectangles of at most half the work of the known one, so that a run costs about a quarter more.
"""

from __future__ import annotations

import random

from gemm_lessons.course.lesson import Lesson, Shape, astuple, tile_sizes

FEWEST, MOST = 0.1, 0.5  # work of whole tiles, of that of the known shape
FULL = 0.6  # of whole tiles that is inside the matrices, at least: what sticks out is a part of what gates allow
SPAN = 2  # times the known size, at most
DRAWS = 5000  # one of a hundred fits, or more


def hidden_counts(lesson: Lesson, seed: int) -> tuple[Shape, ...]:
    """The hidden counting shapes of a graded run with this seed; none where the contract leaves no choice.

    The same on every machine and with every Python: ``random.Random.random()`` of a text is what Python promises to
    keep.
    """
    draw = random.Random(f"{lesson.name} counts {seed}")
    known = {*lesson.shapes.check, lesson.shapes.count}
    steps, sizes = astuple(lesson.shapes.multiple_of), astuple(lesson.shapes.count)
    choices = [max(1, SPAN * size // step) for step, size in zip(steps, sizes, strict=True)]
    for _ in range(DRAWS):
        shape = Shape(*(step * (1 + int(draw.random() * count)) for step, count in zip(steps, choices, strict=True)))
        if shape not in known and _fits(lesson, shape):
            return (shape,)
    return ()


def _fits(lesson: Lesson, shape: Shape) -> bool:
    tile = tile_sizes(lesson)
    if shape.m == shape.n or shape.k <= tile.depth:  # one K tile shows nothing of what happens from tile to tile
        return False
    tiles = (tile.rows, tile.cols, tile.depth)
    whole, known = _whole(shape, tiles), _whole(lesson.shapes.count, tiles)
    return FEWEST * known <= whole <= MOST * known and shape.m * shape.n * shape.k >= FULL * whole


def _whole(shape: Shape, tiles: tuple[int, int, int]) -> int:
    """Multiply-adds of the whole tiles that cover the matrices."""
    work = 1
    for size, tile in zip(astuple(shape), tiles, strict=True):
        work *= -(-size // tile) * tile
    return work
