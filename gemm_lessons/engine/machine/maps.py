"""Tensor maps of a launch: how ``cp.async.bulk.tensor`` cuts boxes out of arrays in global memory.

Maps that ``cuTensorMapEncodeTiled`` refuses are refused here. Shared memory holds a box row by row; a swizzle permutes
pieces of 16 bytes by bits 7 to 9 of the address. Source: NVIDIA, "CUDA Driver API" 13, "Tensor Map Object Management";
"CUDA C++ Programming Guide" 13, "Using TMA to transfer multi-dimensional arrays".
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemm_lessons.engine.machine.memory import GlobalMemory, tensor_map_bytes
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.launch import TENSOR_MAP_SIZE, Argument, TensorMap

Array = NDArray[Any]


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
    """All tensor maps of a launch, by their bytes in memory."""

    def __init__(self, arguments: Iterable[Argument], memory: GlobalMemory | None) -> None:
        self._maps = {
            tensor_map_bytes(position): _map_of(argument, memory)
            for position, argument in enumerate(arguments)
            if isinstance(argument, TensorMap) and memory is not None
        }

    def get(self, memory: GlobalMemory, address: int) -> PlacedTensorMap | None:
        """Return the tensor map at ``address``, or None."""
        allocation = memory.find(address)
        if allocation is None or not allocation.base <= address <= allocation.base + allocation.size - TENSOR_MAP_SIZE:
            return None
        start = allocation.offset + address - allocation.base
        return self._maps.get(memory.arena[start : start + TENSOR_MAP_SIZE].tobytes())


def _map_of(given: TensorMap, memory: GlobalMemory) -> PlacedTensorMap:
    assert given.pointer is not None
    given.check()
    element = given.type
    base = memory.address_of(given.pointer)
    kind = ("s" if element.short[0] == "i" else "") + element.short.lstrip("i")
    sizes, strides = given.sizes, (element.size, *given.strides_behind)
    return PlacedTensorMap(given.name, base, element.size, sizes, strides, given.box[::-1], given.swizzle, kind)
