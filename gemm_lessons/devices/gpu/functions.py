"""Functions of a cubin on the GPU, and their arguments as bytes. Used only in the process that owns the CUDA
context."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gemm_lessons.engine.records import TENSOR_MAP_SIZE

TENSOR_MAP_ALIGNMENT = 64  # bytes
# CUtensorMapDataType (cuda.h), in its order.
TENSOR_MAP_TYPES = "uint8 uint16 uint32 int32 uint64 int64 float16 float32 float64 bfloat16".split()
MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES (cuda.h)


def launcher(cubin: bytes, step: Mapping[str, Any], arguments: Sequence[Any]) -> Callable[[], None]:
    """Return a function that starts a kernel of a fresh module. ``step``: its ``entry``, and the launch."""
    grid, block, shared = tuple(step["grid"]), tuple(step["block"]), step["dynamic_shared"]
    function = _load(cubin, step["entry"], shared)
    if step["cluster"] is not None:
        return _with_clusters(function, (*grid, *block), shared, step["cluster"], arguments)
    return lambda: function(grid, block, arguments, shared_mem=shared)


def _load(cubin: bytes, entry: str, dynamic_shared: int) -> Any:
    from cupy.cuda import driver
    from cupy.cuda.function import Module

    module = Module()
    module.load(cubin)
    function = module.get_function(entry)
    if dynamic_shared:  # static and dynamic memory may exceed the 48 KiB that need no attribute
        driver.funcSetAttribute(function.ptr, MAX_DYNAMIC_SHARED, dynamic_shared)
    return function


def _with_clusters(
    function: Any, sizes: tuple[int, ...], shared: int, cluster: Sequence[int], arguments: Sequence[Any]
) -> Callable[[], None]:
    """Launch with a cluster attribute, which CuPy's own launches lack."""
    import cupy
    from cuda.bindings import driver

    attribute = driver.CUlaunchAttribute()
    attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    dimensions = attribute.value.clusterDim
    dimensions.x, dimensions.y, dimensions.z = cluster
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ, config.blockDimX, config.blockDimY, config.blockDimZ = sizes
    config.sharedMemBytes, config.attrs, config.numAttrs = shared, [attribute], 1
    values = [np.ascontiguousarray(argument) for argument in arguments]
    pointers = np.array([value.ctypes.data for value in values], np.uint64)

    def start() -> None:
        assert len(values) == len(pointers)  # they live as long as this function
        config.hStream = cupy.cuda.get_current_stream().ptr
        (code,) = driver.cuLaunchKernelEx(config, function.ptr, pointers.ctypes.data, 0)
        if int(code):
            raise cupy.cuda.driver.CUDADriverError(int(code))

    return start


def by_value(raw: bytes) -> np.ndarray[Any, Any]:
    """Return bytes as CuPy passes them to a kernel by value: a NumPy array of one element."""
    return np.frombuffer(raw, dtype=f"V{len(raw)}")


def linear_texture(pointer: int, size: int, dtype: str, channels: int) -> Any:
    """Return a texture object over ``size`` bytes of linear memory; it lives as long as it is referenced."""
    import cupy
    from cupy.cuda import runtime, texture

    kinds = {"f": "Float", "i": "Signed", "u": "Unsigned"}
    element = np.dtype(dtype)
    bits = [8 * element.itemsize * (channel < channels) for channel in range(4)]
    form = texture.ChannelFormatDescriptor(*bits, getattr(runtime, f"cudaChannelFormatKind{kinds[element.kind]}"))
    held = cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(pointer, size, None), 0)
    array = cupy.ndarray((size // element.itemsize,), element, memptr=held)
    resource = texture.ResourceDescriptor(runtime.cudaResourceTypeLinear, arr=array, chDesc=form, sizeInBytes=size)
    return texture.TextureObject(resource, texture.TextureDescriptor())


def tensor_map(pointer: int, about: Mapping[str, Any]) -> Any:
    """Return a ``CUtensorMap`` of the array at an address. ``about``: a ``TensorMap`` as ``described`` encodes it."""
    from cupy.cuda import driver

    library = ctypes.CDLL("libcuda.so.1")  # CuPy has loaded it already
    room = np.zeros(2 * TENSOR_MAP_SIZE, np.uint8)
    start = -room.ctypes.data % TENSOR_MAP_ALIGNMENT
    sizes, strides, box = about["sizes"], about["strides"], about["box"]
    code = library.cuTensorMapEncodeTiled(
        ctypes.c_void_p(room.ctypes.data + start),
        TENSOR_MAP_TYPES.index(about["element"]),
        ctypes.c_uint32(len(sizes)),
        ctypes.c_void_p(pointer),
        (ctypes.c_uint64 * len(sizes))(*sizes),
        (ctypes.c_uint64 * max(1, len(strides)))(*strides),
        (ctypes.c_uint32 * len(box))(*box),
        (ctypes.c_uint32 * len(box))(*[1] * len(box)),
        0,  # not interleaved
        (0, 32, 64, 128).index(about["swizzle"]),
        0,  # no L2 promotion
        0,  # zeros out of bounds
    )
    if code:
        raise driver.CUDADriverError(code)
    return by_value(room[start : start + TENSOR_MAP_SIZE].tobytes())


def address(pointer: int) -> bytes:
    """Return an address as the kernel receives it."""
    return pointer.to_bytes(8, "little")
