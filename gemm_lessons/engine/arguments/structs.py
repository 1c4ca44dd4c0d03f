"""A struct passed by value: values by field -> its bytes, and the buffers that its pointers point into.

A mapping gives fields by name; those that it leaves out are 0, as in C. A sequence gives the elements of an array, or
the fields of a struct in order. A struct of one field also takes the value of that field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from gemm_lessons.engine.arguments.parameters import DeclaredType, check_array, scalar
from gemm_lessons.engine.compiler.layouts import Member, TypeLayout
from gemm_lessons.engine.machine.map_bytes import BASE, encoded
from gemm_lessons.engine.ptx.records import KernelParameter
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.launch import TENSOR_MAP_SIZE, Buffer, Pointer, StructWithBuffers, TensorMap, buffer_of
from gemm_lessons.engine.records.regex import regex
from gemm_lessons.engine.records.words import closest

_BOX = regex(r"\]\s*box\s*\[")
POINTER = 8  # bytes
MOST_NAMED = 12  # most fields that a message lists


@dataclass(frozen=True)
class Leaf:
    """A number, pointer or raw bytes in a struct. ``name`` is the argument and the path to the field."""

    name: str
    offset: int
    type: TypeLayout
    value: Any
    bits: tuple[int, int] | None = None


def is_by_field(value: Any) -> bool:
    """Return whether a value gives a struct by its fields."""
    return isinstance(value, (Mapping, list, tuple))


def is_small_struct(parameter: KernelParameter, known: DeclaredType | None) -> bool:
    """Return whether a parameter is a struct that is smaller than a pointer, such as a library's ``half_t``."""
    return known is None and parameter.type == "b8" and parameter.size < POINTER


def is_tensor_map(value: Any) -> bool:
    """Return whether a value, or its text, is a tensor map."""
    return isinstance(value, TensorMap) or (isinstance(value, str) and bool(_BOX.search(value)))


def layout_at(name: str, position: int, layouts: Sequence[TypeLayout] | None) -> TypeLayout:
    """Return the layout of a parameter. Raise ``ValueError`` if none is known."""
    if layouts is None or position >= len(layouts):
        why = "the PTX has none, or the compiler takes too long with -G"
        raise ValueError(
            f"{name}: the fields of the struct are not known without debug information ({why}); give its bytes"
        )
    return layouts[position]


def leaves(name: str, value: Any, layout: TypeLayout) -> list[Leaf]:
    """Return every number and pointer that ``value`` gives to a struct. Raise ``ValueError``."""
    found = sorted(_leaves(name, value, layout, 0, None), key=lambda leaf: _span(leaf)[0])
    for one, other in pairwise(found):
        if _span(one)[1] > _span(other)[0]:
            raise ValueError(f"{one.name} and {other.name} are members of a union; give one of them")
    return found


def struct_of(name: str, layout: TypeLayout, found: Sequence[Leaf], values: Mapping[str, Any]) -> StructWithBuffers:
    """Return a struct as a launch argument. ``values``: by name, values that replace those of leaves, such as buffers.

    Raise ``ValueError``.
    """
    raw, targets = bytearray(layout.size), {}
    for leaf in found:
        value = values.get(leaf.name, leaf.value)
        if isinstance(leaf.value, TensorMap):
            value = replace(leaf.value, name=leaf.name, pointer=value)
        if isinstance(value, TensorMap):
            assert value.pointer is not None
            raw[leaf.offset : leaf.offset + leaf.type.size] = encoded(value, 0)
            targets[leaf.offset + BASE] = value.pointer
            continue
        if isinstance(value, (Buffer, Pointer)) and leaf.type.pointer:
            array = leaf.value if isinstance(leaf.value, np.ndarray) else buffer_of(value).array
            check_array(leaf.name, array, _parameter(leaf), _declared(leaf))
            targets[leaf.offset] = value
            continue
        if isinstance(value, bytes):
            data = value
        else:
            given = scalar(leaf.name, value, _parameter(leaf), _declared(leaf)).value
            data = given if isinstance(given, bytes) else given.tobytes()
        if len(data) != leaf.type.size:
            raise ValueError(f"{leaf.name}: {leaf.type.name} has {leaf.type.size} bytes, {len(data)} were given")
        if leaf.bits is not None:
            data = _in_bits(leaf, int.from_bytes(data, "little"), raw)
        raw[leaf.offset : leaf.offset + len(data)] = data
    return StructWithBuffers(name, bytes(raw), targets)


def _leaves(name: str, value: Any, layout: TypeLayout, offset: int, bits: tuple[int, int] | None) -> Iterator[Leaf]:
    if isinstance(value, np.ndarray) and not layout.pointer:
        value = list(value)
    if is_tensor_map(value):
        places = list(_places_of_maps(layout, offset))
        if len(places) != 1:
            held = f"has room for {len(places)}: give each by its field" if places else "has no room for one"
            raise ValueError(f"{name}: a tensor map was given for {_described(layout)}; it {held}")
        place, path, found = places[0]
        yield Leaf(f"{name}{path}", place, found, value)
    elif isinstance(value, Mapping) and layout.is_struct:
        for key, inner in value.items():
            member = _field(name, key, layout)
            yield from _leaves(f"{name}.{key}", inner, member.type, offset + member.offset, member.bits)
    elif isinstance(value, (list, tuple)) and layout.element is not None:
        if len(value) > layout.count:
            raise ValueError(f"{name}: {len(value)} values were given for {layout.name}")
        for place, inner in enumerate(value):
            yield from _leaves(f"{name}[{place}]", inner, layout.element, offset + place * layout.element.size, None)
    elif isinstance(value, (list, tuple)) and layout.is_struct:
        if len(value) > len(layout.fields):
            raise ValueError(f"{name}: {len(value)} values were given for {_described(layout)}")
        for member, inner in zip(layout.fields, value, strict=False):
            yield from _leaves(f"{name}.{member.name}", inner, member.type, offset + member.offset, member.bits)
    elif is_by_field(value):
        raise ValueError(f"{name}: a {type(value).__name__} was given for {layout.name}, which has no fields")
    elif isinstance(value, (bytes, np.void)) or not (layout.is_struct or layout.element):
        yield Leaf(name, offset, layout, value.tobytes() if isinstance(value, np.void) else value, bits)
    elif layout.is_struct and len(layout.fields) == 1:
        member = layout.fields[0]
        yield from _leaves(f"{name}.{member.name}", value, member.type, offset + member.offset, member.bits)
    else:
        raise ValueError(f"{name}: one value was given for {_described(layout)}; give one for each")


def _places_of_maps(layout: TypeLayout, offset: int, path: str = "") -> Iterator[tuple[int, str, TypeLayout]]:
    """Yield offset, path and type of each member that a ``CUtensorMap`` fits: opaque, and of its size."""
    whole = layout
    while whole.is_struct and len(whole.fields) == 1:
        whole = whole.fields[0].type
    if layout.is_struct and layout.size == TENSOR_MAP_SIZE and not (whole.is_struct or whole.pointer):
        yield offset, path, layout
        return
    for member in layout.fields:
        yield from _places_of_maps(member.type, offset + member.offset, f"{path}.{member.name}")
    if layout.element is not None and layout.element.size >= TENSOR_MAP_SIZE:
        for place in range(layout.count):
            yield from _places_of_maps(layout.element, offset + place * layout.element.size, f"{path}[{place}]")


def _field(name: str, key: Any, layout: TypeLayout) -> Member:
    for member in layout.fields:
        if member.name == key:
            return member
    near = closest(str(key), [member.name for member in layout.fields])
    meant = f" (did you mean {near}?)" if near else ""
    raise ValueError(f"{name}.{key}: there is no such field{meant} in {_described(layout)}")


def _described(layout: TypeLayout) -> str:
    if layout.element is not None:
        return layout.name
    shown = ", ".join(f"{it.name} ({it.type.name})" for it in layout.fields[:MOST_NAMED])
    more = f" and {len(layout.fields) - MOST_NAMED} more" if len(layout.fields) > MOST_NAMED else ""
    return f"{layout.name or 'the struct'}, which has {shown or 'no fields'}{more}"


def _parameter(leaf: Leaf) -> KernelParameter:
    kind, size = leaf.type.kind, leaf.type.size
    number = "f" if kind[:1] == "f" and not leaf.type.pointer and size > 2 else "u"
    return KernelParameter(leaf.name, f"{number}{8 * size}", 0, size, size)


def _declared(leaf: Leaf) -> DeclaredType:
    return DeclaredType(leaf.type.name, leaf.type.pointer, leaf.type.kind)


def _span(leaf: Leaf) -> tuple[int, int]:
    """Return the first bit, and the one after the last."""
    low, width = leaf.bits or (0, 8 * leaf.type.size)
    return 8 * leaf.offset + low, 8 * leaf.offset + low + width


def _in_bits(leaf: Leaf, value: int, raw: bytearray) -> bytes:
    """Return the unit of a bit-field with ``value`` in its bits."""
    assert leaf.bits is not None
    (low, width), size = leaf.bits, leaf.type.size
    signed = leaf.type.kind[0] == "i"
    number = value - (1 << 8 * size) * (value >> 8 * size - 1) if signed else value
    if not (-(1 << width - 1) <= number < 1 << width - 1 if signed else number < 1 << width):
        raise ValueError(f"{leaf.name}: {number} does not fit a bit-field of {width} bits")
    unit = int.from_bytes(raw[leaf.offset : leaf.offset + size], "little")
    return (unit | (number % (1 << width)) << low).to_bytes(size, "little")
