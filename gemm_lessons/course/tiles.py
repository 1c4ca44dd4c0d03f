"""A lesson with other tile sizes, another layout or another number type for one run: ``--tile BK=16``, ``--layout TN``,
``--type bf16``. The shape contract follows the tile."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import lcm

from gemm_lessons.course.folder import CommandError
from gemm_lessons.course.lesson import Lesson, NoLaunch
from gemm_lessons.course.lesson_toml import MAX_THREADS, load_lesson
from gemm_lessons.engine.arguments import ExpressionError
from gemm_lessons.engine.records import closest
from gemm_lessons.gemm import Shape, Shapes, Tile, astuple

OF_SIZES = ("BM", "BN", "BK")  # the tile of M, of N, of K


class UnfitTile(CommandError):
    """A tile with which the lesson cannot be launched, and why."""

    def __init__(self, tile: str, why: str) -> None:
        super().__init__(f"--tile {tile} cannot be launched: {why}")
        self.why = why


def parse_tile(texts: Sequence[str]) -> dict[str, int]:
    """Parse ``["BK=16", "TM=4,TN=4"]`` to ``{"BK": 16, "TM": 4, "TN": 4}``. Raise ``CommandError``."""
    sizes: dict[str, int] = {}
    for text in ",".join(texts).split(","):
        found = re.fullmatch(r"\s*([A-Z][A-Z0-9_]*)\s*=\s*([1-9]\d{0,5})\s*", text)
        if not found:
            raise CommandError(f'--tile "{text}" is not a tile size; write it like --tile BK=16 or --tile BM=64,BN=64')
        sizes[found[1]] = int(found[2])
    return sizes


def retiled(lesson: Lesson, sizes: Mapping[str, int]) -> Lesson:
    """Return the lesson with these tile sizes. Where it promises whole tiles, shapes become whole tiles of the new
    sizes.

    Raise ``CommandError`` when it has no such size, or when nothing can be launched with it.
    """
    had = lesson.tile.defines
    for name in sizes:
        if name not in had:
            near = closest(name, list(had))
            meant = f"did you mean {near}?" if near else f"it has {', '.join(had) or 'none'}"
            raise CommandError(f"--tile: lesson {lesson.name} has no tile size {name}; {meant}")
    tile = Tile(tuple({**had, **sizes}.items()))
    promised = [
        _promise(multiple, had.get(name, 1), tile.defines.get(name, 1))
        for multiple, name in zip(astuple(lesson.shapes.multiple_of), OF_SIZES, strict=True)
    ]

    def whole(shape: Shape) -> Shape:
        sizes = zip(astuple(shape), promised, strict=True)
        return Shape(*(-(-size // multiple) * multiple for size, multiple in sizes), layout=shape.layout)

    check = tuple(dict.fromkeys(whole(shape) for shape in lesson.shapes.check))
    shapes = Shapes(Shape(*promised), check, whole(lesson.shapes.count), lesson.shapes.layouts)
    choices = tuple((name, expression) for name, expression in lesson.choices if name not in sizes)
    made = replace(lesson.with_tile(tile), shapes=shapes, choices=choices)
    made = made.at(shapes.count)
    _try(made, ",".join(f"{name}={size}" for name, size in sizes.items()))
    return made


def in_layout(lesson: Lesson, layout: str) -> Lesson:
    """Return the lesson with all its shapes in this layout. Raise ``CommandError`` if it does not accept the layout."""
    known = lesson.shapes.layouts
    if layout not in known:
        raise CommandError(f'--layout "{layout}": lesson {lesson.name} supports {", ".join(known)}')
    shapes = lesson.shapes.in_layout(layout)
    return replace(lesson, shapes=shapes).at(shapes.count)


def typed(lesson: Lesson, name: str) -> Lesson:
    """Return the lesson for another number type. Raise ``CommandError`` when it has none of this name."""
    if name not in lesson.types:
        known = f"has the types {', '.join(lesson.types)}" if lesson.types else "has only one number type"
        raise CommandError(f'--type "{name}": lesson {lesson.name} {known}')
    return load_lesson(lesson.directory, name)


def _promise(multiple: int, before: int, now: int) -> int:
    """Return the factor that a size must be a multiple of with the new tile; 1 for a lesson that guards its edges."""
    if multiple == 1 or before == now:
        return multiple
    return now if multiple == before else lcm(multiple, now)


def _try(lesson: Lesson, text: str) -> None:
    for shape in (*lesson.shapes.check, lesson.shapes.count):
        try:
            grids, _ = lesson.grids(shape), lesson.options
            lesson.at(shape).data.lay_out(shape.names)
            lesson.data.check_maps(shape.names)
        except NoLaunch as error:
            raise UnfitTile(text, error.why) from None
        except ExpressionError as error:
            raise UnfitTile(text, str(error)) from None
        for grid in grids:
            if grid.threads > MAX_THREADS:
                raise CommandError(
                    f"--tile {text} makes {grid.threads} threads per block; a block holds at most {MAX_THREADS}"
                )
