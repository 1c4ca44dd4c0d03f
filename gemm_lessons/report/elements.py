"""Name elements where a finding names bytes: ``As[32][0]`` instead of ``As, byte 8192 of 8192``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from gemm_lessons.course.lesson import Lesson
from gemm_lessons.engine.arguments.expression import Expression, ExpressionError
from gemm_lessons.engine.compiler.tokens import without_comments
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.gemm.shapes import Shape

BYTES = re.compile(r"\b(\w+)(?:, |: )byte (-?\d+) of (\d+)")
DISTANCE = re.compile(r"(\d+) bytes (past its end|before its start)")
ACCESS = re.compile(r"\b(\d+) bytes? (read|written|copied|updated)")
CONSTANT = re.compile(r"\bconst(?:expr)?\s+(?:unsigned\s+)?int\s+(\w+)\s*=\s*([^;,]+)[;,]")
SIZES = (1, 2, 4, 8, 16)  # bytes that an element of a plain type may have


@dataclass(frozen=True)
class ArrayShape:
    """An array as the source declares it: extents (the first may be unknown and is not needed), bytes per element."""

    name: str
    extents: tuple[int, ...]
    element: int

    def at(self, byte: int) -> str:
        """Return the element that holds a byte, also outside of the array: ``As[32][0]``."""
        index, places = byte // self.element, []
        for extent in reversed(self.extents[1:]):
            index, place = divmod(index, extent)
            places.append(place)
        return self.name + "".join(f"[{place}]" for place in (index, *reversed(places)))


def in_elements(message: str, source: str, lesson: Lesson, shape: Shape | None) -> str:
    """Return a finding's sentence with elements for bytes, where the arrays' types are known. ``shape`` is that of the
    launch."""
    arrays = {
        name: found
        for name, _, size in BYTES.findall(message)
        if (found := _declared(name, int(size), source, lesson) or _buffer(name, lesson, shape))
    }
    if not arrays:
        return message
    text = BYTES.sub(lambda it: arrays[it[1]].at(int(it[2])) if it[1] in arrays else it[0], message)
    first = next(iter(arrays.values())).element
    text = DISTANCE.sub(lambda it: _distance(int(it[1]), first, it[2]) or it[0], text)
    return ACCESS.sub(lambda it: it[2] if int(it[1]) == first else it[0], text)


def _distance(bytes_: int, element: int, words: str) -> str:
    count = bytes_ // element
    return "" if bytes_ % element else f"{count} element{'s' * (count != 1)} {words}"


def _declared(name: str, size: int, source: str, lesson: Lesson) -> ArrayShape | None:
    """Find a shared or local array's declaration, ``float As[BM][BK]``, in the source."""
    text = without_comments(source)
    names = _constants(text, lesson)
    for found in re.finditer(rf"\b\w+\s+{re.escape(name)}\s*((?:\[[^\]]+\]\s*)+)[;,=]", text):
        try:
            extents = tuple(
                Expression.parse(extent.replace("/", "//"), names).whole(names, at_least=1)
                for extent in re.findall(r"\[([^\]]+)\]", found[1])
            )
        except ExpressionError:
            return None
        count = math.prod(extents)
        if size % count == 0 and size // count in SIZES:
            return ArrayShape(name, extents, size // count)
    return None


def _constants(text: str, lesson: Lesson) -> Mapping[str, int]:
    """Return the tile sizes and the source's own integer constants."""
    names = dict(lesson.tile.defines)
    for name, value in CONSTANT.findall(text):
        try:
            names[name] = Expression.parse(value.replace("/", "//"), names).whole(names, at_least=0)
        except ExpressionError:
            continue
    return names


def _buffer(name: str, lesson: Lesson, shape: Shape | None) -> ArrayShape | None:
    """Return a matrix of the lesson as a kernel indexes it: by one number."""
    there = (lesson if shape is None else lesson.at(shape)).data.by_name.get(name)
    return None if there is None else ArrayShape(name, (0,), there.element.size)
