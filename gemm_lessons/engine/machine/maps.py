"""Tensor maps of a launch: how ``cp.async.bulk.tensor`` cuts boxes out of arrays in global memory.

Maps that ``cuTensorMapEncodeTiled`` refuses are refused here. Shared memory holds a box row by row; a swizzle permutes
pieces of 16 bytes by bits 7 to 9 of the address. Source: NVIDIA, "CUDA Driver API" 13, "Tensor Map Object Management";
"CUDA C++ Programming Guide" 13, "Using TMA to transfer multi-dimensional arrays".
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from gemm_lessons.engine.events import BoxShape
from gemm_lessons.engine.machine.map_bytes import KINDS, SIZES, decoded
from gemm_lessons.engine.machine.memory import GlobalMemory
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.errors import UnsupportedKernel
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.launch import TENSOR_MAP_SIZE, Argument


@dataclass(frozen=True)
class PlacedTensorMap:
    """A tensor map of an array in memory. ``sizes``, ``strides`` (bytes) and ``box``: innermost dimension first."""

    name: str
    base: int
    element: int  # bytes
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    kind: str  # PTX type of an element

    @property
    def bytes(self) -> int:
        """Return the bytes of a box in shared memory, which include elements outside the array."""
        return math.prod(self.box) * self.element

    @property
    def shape(self) -> BoxShape:
        """Return the facts of the map that the record of a copy holds."""
        return BoxShape(self.name, self.element, self.sizes, self.strides, self.box, self.swizzle)

    @property
    def extent(self) -> int:
        """Return the bytes from the first element of the array to the end of the last one."""
        return sum((size - 1) * stride for size, stride in zip(self.sizes, self.strides, strict=True)) + self.element

    def swizzled(self, addresses: Array) -> Array:
        """Return the addresses in shared memory after the swizzle."""
        if not self.swizzle:
            return addresses
        return np.asarray(addresses ^ ((addresses >> 7 & (self.swizzle // 16 - 1)) << 4))

    def elements(self, corner: Array) -> tuple[Array, Array]:
        """Return the byte offset from ``base`` of each element of the boxes at ``corner`` (dims, n), and whether it is
        inside the array. Both have shape (n, elements), innermost dimension last."""
        offset = np.zeros((corner.shape[1], 1), np.int64)
        inside = np.ones((corner.shape[1], 1), np.bool_)
        for axis in reversed(range(len(self.box))):
            place = corner[axis][:, None] + np.arange(self.box[axis])
            good = (place >= 0) & (place < self.sizes[axis])
            offset = (offset[:, :, None] + (place * self.strides[axis])[:, None, :]).reshape(len(offset), -1)
            inside = (inside[:, :, None] & good[:, None, :]).reshape(len(inside), -1)
        return offset, inside


class TensorMaps:
    """The tensor maps of a launch: those among its arguments and those that the kernel builds."""

    def __init__(self, arguments: Iterable[Argument]) -> None:
        self._names = {position + 1: argument.name for position, argument in enumerate(arguments)}
        self._known: dict[bytes, PlacedTensorMap | None] = {}

    def get(self, memory: GlobalMemory, address: int) -> PlacedTensorMap | None:
        """Return the tensor map at ``address``, or None."""
        allocation = memory.find(address)
        if allocation is None or not allocation.base <= address <= allocation.base + allocation.size - TENSOR_MAP_SIZE:
            return None
        start = allocation.offset + address - allocation.base
        data = memory.arena[start : start + TENSOR_MAP_SIZE].tobytes()
        if data not in self._known:
            self._known[data] = self._placed(data)
        return self._known[data]

    def _placed(self, data: bytes) -> PlacedTensorMap | None:
        """Return the map of these bytes, or None. Raise ``UnsupportedKernel`` for a feature that is not supported."""
        found = decoded(data)
        if found is None:
            return None
        if found.interleaved or found.filled or set(found.steps) != {1}:
            raise UnsupportedKernel("a tensor map that is interleaved, skips elements or fills with NaN")
        size = SIZES[found.kind]
        return PlacedTensorMap(
            self._names.get(found.argument, "in memory"), found.base, size, found.sizes,
            (size, *found.strides), found.box, found.swizzle, KINDS[found.kind],
        )  # fmt: skip
