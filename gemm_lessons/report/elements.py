"""Name elements where a finding names bytes: ``As[32][0] is read`` instead of ``As, byte 8192 of 8192: read``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from gemm_lessons.course import Lesson
from gemm_lessons.engine.arguments import Expression, ExpressionError
from gemm_lessons.engine.compiler import without_comments
from gemm_lessons.engine.records import dataclass
from gemm_lessons.gemm import Shape

BYTES = re.compile(r"\b(\w+)(?:, |: )byte (-?\d+) of (\d+)")
DISTANCE = re.compile(r"(\d+) bytes (past its end|before its start)")
ACCESS = re.compile(r"\b(\d+) bytes? (read|written|copied|updated)")
# A sentence that begins with an element and what is done to it: "As[1][0]: read by thread 3".
ELEMENT = re.compile(r"^([\w.]+(?:\[[^\]]*\][\w.]*)+): (?=(?:read|written|updated|overwritten|stored)\b)")
CONSTANT = re.compile(r"\bconst(?:expr)?\s+(?:unsigned\s+)?int\s+(\w+)\s*=\s*([^;,]+)[;,]")
STRUCT = re.compile(r"\bstruct\s+(\w+)\s*\{([^{}()]*)\}")
MEMBER = re.compile(r"(?:unsigned\s+|signed\s+)?(\w+)\s+(\w+)\s*((?:\[[^\]]+\]\s*)*)")
SIZES = (1, 2, 4, 8, 16)  # bytes that an element of a plain type may have
SCALARS = {  # bytes of an element by its type in C++
    "char": 1, "int8_t": 1, "uint8_t": 1, "short": 2, "half": 2, "__half": 2, "__nv_bfloat16": 2, "int": 4,
    "int32_t": 4, "unsigned": 4, "uint32_t": 4, "float": 4, "half2": 4, "long": 8, "double": 8, "int64_t": 8,
    "uint64_t": 8, "float2": 8, "int2": 8, "float4": 16, "int4": 16, "uint4": 16, "double2": 16,
}  # fmt: skip


@dataclass(frozen=True)
class ArrayShape:
    """An array as the source declares it: extents (the first may be unknown and is not needed; none for a single
    value), bytes per element. ``members`` of a struct's elements: (offset in bytes, its name and shape)."""

    name: str
    extents: tuple[int, ...]
    element: int
    members: tuple[tuple[int, ArrayShape], ...] = ()

    @property
    def scalar(self) -> int:
        """Return the bytes of a plain element; 0 where the members of a struct differ."""
        sizes = {member.scalar for _, member in self.members} or {self.element}
        return sizes.pop() if len(sizes) == 1 else 0

    def at(self, byte: int) -> str:
        """Return the element that holds a byte, also outside of the array: ``As[32][0]``, ``stages[1].a[0][8]``."""
        index, rest = divmod(byte, self.element)
        places = []
        for extent in reversed(self.extents[1:]):
            index, place = divmod(index, extent)
            places.append(place)
        indices = (index, *reversed(places)) if self.extents else ()
        found = self.name + "".join(f"[{place}]" for place in indices)
        inside = [(offset, member) for offset, member in self.members if offset <= rest]
        if not inside:
            return found
        offset, member = inside[-1]
        return f"{found}.{member.at(rest - offset)}"


def in_elements(message: str, source: str, lesson: Lesson, shape: Shape | None) -> str:
    """Return a sentence with elements for bytes, where the arrays' types are known. ``shape``: the launch's."""
    arrays = {
        name: found
        for name, _, size in BYTES.findall(message)
        if (found := _declared(name, int(size), source, lesson) or _buffer(name, lesson, shape))
    }
    if not arrays:
        return message
    text = BYTES.sub(lambda it: arrays[it[1]].at(int(it[2])) if it[1] in arrays else it[0], message)
    first = next(iter(arrays.values())).scalar
    text = DISTANCE.sub(lambda it: _distance(int(it[1]), first, it[2]) or it[0], text)
    text = ACCESS.sub(lambda it: it[2] if int(it[1]) == first else it[0], text)
    return ELEMENT.sub(r"\1 is ", text)


def _distance(bytes_: int, element: int, words: str) -> str:
    count, rest = divmod(bytes_, element) if element else (0, bytes_)
    return "" if rest else f"{count} element{'s' * (count != 1)} {words}"


def _declared(name: str, size: int, source: str, lesson: Lesson) -> ArrayShape | None:
    """Find a shared or local array's declaration in the source, ``float As[BM][BK]`` or ``Stage stages[]``."""
    text = without_comments(source)
    names = _constants(text, lesson)
    for found in re.finditer(rf"\b(\w+)\s+{re.escape(name)}\s*((?:\[[^\]]*\]\s*)+)[;,=]", text):
        try:
            extents, members = _extents(found[2], names), _members(found[1], text, names)
        except ExpressionError:
            return None
        known, count = _size(found[1], members), math.prod(extents)
        element = known if count == 0 else size // count if size % count == 0 else 0
        plain = SIZES if count else SIZES[1:]  # ``char memory[]`` has no elements of its own
        if element == known if members else element in plain:
            return ArrayShape(name, extents, element, members)
    return None


def _extents(brackets: str, names: Mapping[str, int]) -> tuple[int, ...]:
    """Return the extents in brackets; 0 for an empty pair."""
    return tuple(
        Expression.parse(extent.replace("/", "//"), names).whole(names, at_least=1) if extent.strip() else 0
        for extent in re.findall(r"\[([^\]]*)\]", brackets)
    )


def _members(kind: str, text: str, names: Mapping[str, int]) -> tuple[tuple[int, ArrayShape], ...]:
    """Return the members of a struct of the source that has arrays and values of plain types only, else none."""
    body = next((body for struct, body in STRUCT.findall(text) if struct == kind), "")
    members: list[tuple[int, ArrayShape]] = []
    end = 0
    for declared in filter(None, map(str.strip, body.split(";"))):
        match = MEMBER.fullmatch(declared)
        if match is None or match[1] not in SCALARS:
            return ()
        element, extents = SCALARS[match[1]], _extents(match[3], names)
        start = -(-end // element) * element
        members.append((start, ArrayShape(match[2], extents, element)))
        end = start + element * math.prod(extents)
    return tuple(members)


def _size(kind: str, members: tuple[tuple[int, ArrayShape], ...]) -> int:
    """Return the bytes of a plain type, 0 if it is unknown, or of a struct with these members as C++ lays it out."""
    if not members:
        return SCALARS.get(kind, 0)
    offset, last = members[-1]
    align = max(member.element for _, member in members)
    return -(-(offset + last.element * math.prod(last.extents)) // align) * align


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
