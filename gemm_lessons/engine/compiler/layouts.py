"""Layouts of a kernel's parameters: fields, offsets and types of structs, from the debug information of ``-G``.

NVRTC writes DWARF 2 into the PTX of a source compiled with ``-G``, as numbers of ``.b8`` to ``.b64``. Tags, attributes
and forms are those of the DWARF standard, version 2, chapter 7.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from gemm_lessons.engine.compiler.compile import NotCompiled
from gemm_lessons.engine.compiler.elf import leb128
from gemm_lessons.engine.compiler.ptx_file import take
from gemm_lessons.engine.compiler.source import without_bodies
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.regex import regex

_SECTION = r"^\s*\.section\s+\.debug_{}\s*\{{(.*?)^\s*\}}"
_DATA = regex(r"\.b(8|16|32|64)\s+(.*)")
_ARRAY, _CLASS, _ENUM, _PARAMETER, _MEMBER, _POINTER, _REFERENCE, _STRUCT, _TYPEDEF, _UNION = (
    0x01, 0x02, 0x04, 0x05, 0x0D, 0x0F, 0x10, 0x13, 0x16, 0x17,
)  # fmt: skip
_BASE_CLASS, _RANGE, _NUMBER, _CONST, _FUNCTION, _VOLATILE, _RESTRICT = 0x1C, 0x21, 0x24, 0x26, 0x2E, 0x35, 0x37
_SAME = (_CONST, _VOLATILE, _RESTRICT, _TYPEDEF)  # types with the layout of another
_NAME, _SIZE, _BIT_OFFSET, _BIT_SIZE, _UPPER, _COUNT, _PLACE, _ENCODING, _DECLARED, _EXTERNAL, _TYPE, _ORIGIN, _OF = (
    0x03, 0x0B, 0x0C, 0x0D, 0x2F, 0x37, 0x38, 0x3E, 0x3C, 0x3F, 0x49, 0x31, 0x47,
)  # fmt: skip
_LINKAGE = 0x2007  # DW_AT_MIPS_linkage_name
_KINDS = {2: "b", 4: "f", 5: "i", 6: "i", 7: "u", 8: "u"}  # DW_ATE_*
_FIXED = {0x01: 8, 0x06: 4, 0x07: 8, 0x0B: 1, 0x05: 2, 0x0C: 1, 0x0E: 4, 0x13: 4}  # form -> bytes
_BLOCKS = {0x03: 2, 0x04: 4, 0x0A: 1}  # form -> bytes of its length
_STRING, _SIGNED, _UNSIGNED, _RELATIVE = 0x08, 0x0D, 0x0F, 0x13
_PLUS = 0x23  # DW_OP_plus_uconst
_HALVES = {"__half": "f2", "half_t": "f2", "__nv_bfloat16": "bf", "bfloat16_t": "bf"}  # classes that are numbers


@dataclass(frozen=True)
class Member:
    """A member of a struct. ``bits``: lowest bit and width of a bit-field in its ``type``, which is at ``offset``."""

    name: str
    offset: int
    type: TypeLayout
    bits: tuple[int, int] | None = None


@dataclass(frozen=True)
class TypeLayout:
    """A type of a parameter, ``size`` bytes.

    ``kind``: of a number, or of the numbers that a pointer points to (``f4``, ``i8``, ``bf``, ``b1``, ``e4`` for an
    enumeration); empty if it is neither. ``fields`` are those of a struct, with the ones of its base classes and
    anonymous members. An array has ``count`` elements of type ``element``.
    """

    name: str
    size: int
    kind: str = ""
    pointer: bool = False
    fields: tuple[Member, ...] = ()
    count: int = 0
    element: TypeLayout | None = None

    @property
    def is_struct(self) -> bool:
        """Tell whether it is a struct, class or union, also without members."""
        return not (self.kind or self.pointer or self.element)


@dataclass(frozen=True)
class _Entry:
    """An entry of the debug information: attribute -> value, and the offsets of its children."""

    tag: int
    values: Mapping[int, int | str]
    children: list[int] = field(default_factory=list)


def read_layouts(
    source: str, *, path: str, entry: str, options: Sequence[str] = (), **others: Any
) -> tuple[TypeLayout, ...] | None:
    """Compile a kernel once more, with ``-G``, and return the layout of each parameter; PTX is taken as it is.

    ``others`` are arguments of ``compile_source``. None without debug information. Bodies of kernels are left out where
    that compiles: ``-G`` compiles long ones slowly.
    """
    for text in dict.fromkeys((without_bodies(source), source)):
        built = take(text, path=path, entry=entry, options=(*options, "-G"), assembled=False, **others)
        if not isinstance(built, NotCompiled) and (found := parameter_layouts(built.ptx, built.entry)) is not None:
            return found
    return None


def parameter_layouts(ptx: str, entry: str) -> tuple[TypeLayout, ...] | None:
    """Return the layout of each parameter of kernel ``entry``; None if the PTX has no debug information about it."""
    sections = [re.search(_SECTION.format(name), ptx, re.M | re.S) for name in ("abbrev", "info")]
    abbreviations, information = (b"" if found is None else _data(found[1]) for found in sections)
    if not information:
        return None
    reader = _Reader(abbreviations, information)
    for it in reader.entries.values():
        if it.tag == _FUNCTION and entry in (reader.value(it, _LINKAGE), reader.value(it, _NAME)):
            children = map(reader.entries.__getitem__, it.children)
            return tuple(reader.parameter(child) for child in children if child.tag == _PARAMETER)
    return None


def _data(section: str) -> bytes:
    """Return the bytes of a section; addresses in it are 0."""
    data = bytearray()
    for width, numbers in _DATA.findall(section):
        for number in numbers.split(","):
            text = number.strip()
            value = int(text, 0) if text[:1].isdigit() or text[:1] == "-" else 0
            data += (value % (1 << int(width))).to_bytes(int(width) // 8, "little")
    return bytes(data)


class _Reader:
    """Reads the entries of the sections ``.debug_abbrev`` and ``.debug_info``."""

    def __init__(self, abbreviations: bytes, information: bytes) -> None:
        self._forms = dict(_abbreviations(abbreviations))
        self._data = information
        self.entries: dict[int, _Entry] = {}
        self._known: dict[int, TypeLayout] = {}
        start = 0
        while start + 11 < len(information):  # a unit: its length, version, abbreviations, size of an address
            end = start + 4 + int.from_bytes(information[start : start + 4], "little")
            self._read(start, start + 11, min(end, len(information)))
            start = end

    def _read(self, unit: int, at: int, end: int) -> None:
        parents: list[_Entry] = []
        while at < end:
            here = at
            code, at = leb128(self._data, at)
            if code == 0:
                parents[-1:] = []
                continue
            tag, has_children, forms = self._forms[code]
            values: dict[int, int | str] = {}
            for attribute, form in forms:
                value, at = self._value(form, at)
                values[attribute] = value + unit if form == _RELATIVE and isinstance(value, int) else value
            entry = self.entries[here] = _Entry(tag, values)
            if parents:
                parents[-1].children.append(here)
            if has_children:
                parents.append(entry)

    def _value(self, form: int, at: int) -> tuple[int | str, int]:
        data = self._data
        if (size := _FIXED.get(form)) is not None:
            return int.from_bytes(data[at : at + size], "little"), at + size
        if form == _STRING:
            end = data.index(0, at)
            return data[at:end].decode("utf-8", "replace"), end + 1
        if form == _UNSIGNED:
            return leb128(data, at)
        if form == _SIGNED:
            value, end = leb128(data, at)
            bits = 7 * (end - at)
            return value - (1 << bits) * (value >> bits - 1), end
        width = _BLOCKS[form]  # of an expression: its constant is all that a member's place needs
        start = at + width
        end = start + int.from_bytes(data[at:start], "little")
        return leb128(data, start + 1)[0] if start < end and data[start] == _PLUS else 0, end

    def value(self, entry: _Entry, attribute: int) -> int | str | None:
        """Return an attribute of an entry, or of the entry that it refers to."""
        while attribute not in entry.values:
            origin = entry.values.get(_ORIGIN, entry.values.get(_OF))
            if not isinstance(origin, int):
                return None
            entry = self.entries[origin]
        return entry.values[attribute]

    def _whole(self, entry: _Entry, attribute: int, default: int = 0) -> int:
        value = self.value(entry, attribute)
        return value if isinstance(value, int) else default

    def parameter(self, entry: _Entry) -> TypeLayout:
        """Return a parameter's type; a class that is not trivially copyable is a reference in the debug information."""
        place = self._whole(entry, _TYPE)
        declared = self.entries[place]
        return self.layout(self._whole(declared, _TYPE) if declared.tag == _REFERENCE else place)

    def layout(self, place: int) -> TypeLayout:
        """Return the type whose entry is at ``place``."""
        if place not in self._known:
            self._known[place] = self._layout(self.entries[place])
        return self._known[place]

    def _layout(self, entry: _Entry) -> TypeLayout:
        name, size = str(self.value(entry, _NAME) or ""), self._whole(entry, _SIZE)
        if entry.tag in _SAME:
            return self.layout(self._whole(entry, _TYPE))
        if entry.tag == _NUMBER and size <= 8:
            return TypeLayout(name, size, f"{_KINDS.get(self._whole(entry, _ENCODING), 'u')}{size}")
        if entry.tag == _NUMBER:  # no argument is wider than 8 bytes
            return TypeLayout(name, size, count=size // 8, element=TypeLayout(name, 8, "u8"))
        if entry.tag == _ENUM:
            return TypeLayout(name, size, f"e{size}")
        if entry.tag in (_STRUCT, _CLASS, _UNION):
            number = _HALVES.get(name, "") if size == 2 else ""
            return TypeLayout(name, size, number, fields=() if number else tuple(self._fields(entry)))
        if entry.tag == _ARRAY:
            return self._array(entry)
        target = self._whole(entry, _TYPE) if entry.tag in (_POINTER, _REFERENCE) else 0
        kind, what = self._pointed(target) if target else ("", "void")
        return TypeLayout(f"{what} *", 8, kind, pointer=True)

    def _pointed(self, place: int) -> tuple[str, str]:
        """Return kind and name of a pointer's target, without the fields of a struct, which may point to the struct."""
        entry = self.entries[place]
        while entry.tag in (*_SAME, _ARRAY):
            if not (target := self._whole(entry, _TYPE)):
                return "", "void"
            entry = self.entries[target]
        if entry.tag in (_POINTER, _REFERENCE):
            return "i8", f"{self._pointed(self._whole(entry, _TYPE))[1] if self._whole(entry, _TYPE) else 'void'} *"
        name = str(self.value(entry, _NAME) or "")
        plain = entry.tag in (_NUMBER, _ENUM)
        return self._layout(entry).kind if plain else _HALVES.get(name, ""), name

    def _array(self, entry: _Entry) -> TypeLayout:
        found = self.layout(self._whole(entry, _TYPE))
        ranges = (self.entries[child] for child in entry.children)
        counts = [self._whole(it, _COUNT, self._whole(it, _UPPER, -1) + 1) for it in ranges if it.tag == _RANGE]
        for count in reversed(counts):
            found = TypeLayout(f"{found.name}[{count}]", count * found.size, count=count, element=found)
        return found

    def _fields(self, entry: _Entry, start: int = 0) -> Iterator[Member]:
        for child in map(self.entries.__getitem__, entry.children):
            if child.tag not in (_MEMBER, _BASE_CLASS) or {_DECLARED, _EXTERNAL} & set(child.values):
                continue  # a function, a type, a static member
            name, offset = str(child.values.get(_NAME, "")), start + self._whole(child, _PLACE)
            inner = self.layout(self._whole(child, _TYPE))
            if not name or child.tag == _BASE_CLASS:
                yield from (Member(it.name, offset + it.offset, it.type, it.bits) for it in inner.fields)
                continue
            width = self._whole(child, _BIT_SIZE)
            low = 8 * inner.size - self._whole(child, _BIT_OFFSET) - width  # counted from the highest bit
            yield Member(name, offset, inner, (low, width) if width else None)


def _abbreviations(data: bytes) -> Iterator[tuple[int, tuple[int, bool, list[tuple[int, int]]]]]:
    """Yield code -> tag, whether entries have children, attributes with their forms."""
    code, at = leb128(data, 0)
    while code:
        tag, at = leb128(data, at)
        has_children, at = bool(data[at]), at + 1
        forms: list[tuple[int, int]] = []
        while not forms or forms[-1] != (0, 0):
            attribute, at = leb128(data, at)
            form, at = leb128(data, at)
            forms.append((attribute, form))
        yield code, (tag, has_children, forms[:-1])
        code, at = leb128(data, at)
