"""A tensor map as bytes in memory: written by the host, read by the TMA, its fields replaced by ``tensormap.replace``.

A GPU's own encoding is not documented. This one begins with a mark; a map that is built on the device begins as zeros.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.launch import TENSOR_MAP_SIZE, TensorMap

MARK = (0x7E50_4D41_5000_0000).to_bytes(8, "little")
BASE = 8  # offset of the array's address
MOST = 5  # dimensions
_LAYOUT = struct.Struct("<QQ5I5I4Q5BBBBBBH")
# Fields of tensormap.replace -> offset, bytes per element, number of elements.
FIELDS: Mapping[str, tuple[int, int, int]] = {
    "global_address": (BASE, 8, 1), "global_dim": (16, 4, MOST), "box_dim": (36, 4, MOST),
    "global_stride": (56, 8, MOST - 1), "element_stride": (88, 1, MOST), "rank": (93, 1, 1), "elemtype": (94, 1, 1),
    "swizzle_mode": (95, 1, 1), "interleave_layout": (96, 1, 1), "fill_mode": (97, 1, 1),
}  # fmt: skip
# Element types, their bytes, and their numbers as ``elemtype``.
KINDS = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16")
SIZES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2)
ELEMTYPES = (0, 1, 2, 3, 4, 5, 6, 7, 9, 10)
SWIZZLES = (0, 32, 64, 128)  # bytes


@dataclass(frozen=True)
class MapFields:
    """The fields of a map; innermost dimension first, ``strides`` (bytes) without it. ``argument``: the number of the
    launch argument that the map came from, plus 1; 0 for none."""

    base: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...]
    kind: int  # in ``KINDS``
    swizzle: int
    interleaved: bool
    filled: bool
    argument: int


def encoded(given: TensorMap, base: int, position: int = -1) -> bytes:
    """Return the bytes of a map that is argument number ``position``, of the array at address ``base``. Raise
    ``ValueError`` for a map that ``cuTensorMapEncodeTiled`` refuses."""
    given.check()
    name = given.type.short
    kind = ("s" if name[0] == "i" else "") + name.lstrip("i")
    number = KINDS.index(kind) if kind in KINDS else KINDS.index(f"u{8 * given.type.size}")
    rank = len(given.box)
    data = _LAYOUT.pack(
        int.from_bytes(MARK, "little"), base, *_padded(given.sizes, MOST), *_padded(given.box[::-1], MOST),
        *_padded(given.strides_behind, MOST - 1), *(1,) * MOST, rank - 1, ELEMTYPES[number],
        SWIZZLES.index(given.swizzle), 0, 0, position + 1,
    )  # fmt: skip
    return data.ljust(TENSOR_MAP_SIZE, b"\0")


def _padded(values: tuple[int, ...], count: int) -> tuple[int, ...]:
    return (*values, *(0,) * (count - len(values)))


def decoded(data: bytes) -> MapFields | None:
    """Return the fields, or None if these are not the bytes of a map that a GPU accepts."""
    if not data.startswith(MARK):
        return None
    _, base, *rest = _LAYOUT.unpack_from(data)
    sizes, box, strides, steps = rest[:5], rest[5:10], rest[10:14], rest[14:19]
    rank, kind, swizzle, interleaved, filled, argument = rest[19:]
    count = rank + 1
    if count > MOST or kind not in ELEMTYPES or swizzle >= len(SWIZZLES):
        return None
    number = ELEMTYPES.index(kind)
    row = box[0] * SIZES[number]
    refused = (
        base % 16
        or not all(sizes[:count])
        or not all(1 <= it <= 256 for it in box[:count])
        or any(it % 16 or (not it and size > 1) for it, size in zip(strides[:rank], sizes[1:count], strict=True))
        or row % 16
        or (swizzle and row > SWIZZLES[swizzle])
    )
    if refused:
        return None
    return MapFields(
        base, tuple(sizes[:count]), tuple(strides[:rank]), tuple(box[:count]), tuple(steps[:count]), number,
        SWIZZLES[swizzle], bool(interleaved), bool(filled), argument,
    )  # fmt: skip
