"""GPU memory as bytes at an address: plain allocations through CuPy's binding of the CUDA runtime.

CuPy's arrays are avoided on purpose. Their fills and comparisons are compiled on first use, which takes seconds, and
CuPy's pool would hide where one buffer ends and the next begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
CUDA_OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation


class OutOfMemory(Exception):
    """The GPU has too little memory: bytes requested in all, bytes free, bytes in total, and their purpose."""

    def __init__(self, asked: int, free: int, total: int, what: str) -> None:
        super().__init__(what)
        self.asked, self.free, self.total, self.what = asked, free, total, what


class DeviceMemory:
    """Allocations that are freed together."""

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime
        self._pointers: list[int] = []

    def __enter__(self) -> DeviceMemory:
        return self

    def __exit__(self, *_: object) -> None:
        for pointer in self._pointers:
            self._runtime.free(pointer)
        self._pointers.clear()

    def expect(self, sizes: Sequence[int], what: str) -> None:
        """Raise ``OutOfMemory`` when ``sizes`` (bytes) do not all fit, before the first of them is allocated."""
        free, total = self._runtime.memGetInfo()
        if sum(sizes) > free:
            raise OutOfMemory(sum(sizes), free, total, what)

    def allocate(self, size: int) -> int:
        """Return the address of ``size`` bytes, a multiple of 256. Raise ``OutOfMemory``."""
        try:
            pointer = int(self._runtime.malloc(max(size, 1)))
        except self._runtime.CUDARuntimeError as error:
            if error.status != CUDA_OUT_OF_MEMORY:
                raise
            free, total = self._runtime.memGetInfo()
            raise OutOfMemory(size, free, total, "one buffer") from None
        self._pointers.append(pointer)
        return pointer

    def upload(self, data: Any) -> int:
        """Return the address of a copy of a C-contiguous array or bytes."""
        source = np.frombuffer(data, np.uint8)
        pointer = self.allocate(source.nbytes)
        self.write(pointer, source)
        return pointer

    def write(self, pointer: int, source: Array) -> None:
        """Copy a C-contiguous array to an address."""
        if source.nbytes:
            self._runtime.memcpy(pointer, source.ctypes.data, source.nbytes, self._runtime.memcpyHostToDevice)

    def read(self, pointer: int, target: Array) -> Array:
        """Copy from an address into a C-contiguous array, and return it."""
        if target.nbytes:
            self._runtime.memcpy(target.ctypes.data, pointer, target.nbytes, self._runtime.memcpyDeviceToHost)
        return target

    def copy(self, target: int, source: int, size: int) -> None:
        """Copy on the GPU, in stream order."""
        self._runtime.memcpyAsync(target, source, size, self._runtime.memcpyDeviceToDevice, 0)

    def copy_lines(self, target: int, target_step: int, source: int, source_step: int, size: int, lines: int) -> None:
        """Copy ``lines`` pieces of ``size`` bytes, ``*_step`` bytes apart, on the GPU, in stream order."""
        kind = self._runtime.memcpyDeviceToDevice
        self._runtime.memcpy2DAsync(target, target_step, source, source_step, size, lines, kind, 0)

    def fill(self, pointer: int, byte: int, size: int) -> None:
        """Fill with a byte, in stream order."""
        self._runtime.memsetAsync(pointer, byte, size, 0)
