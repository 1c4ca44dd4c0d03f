"""The launch of a kernel: its arguments, its grid, and the variables that the host sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from gemm_lessons.engine.records.elements import ELEMENTS, Element
from gemm_lessons.engine.records.frozen import dataclass

if TYPE_CHECKING:
    import numpy as np


TENSOR_MAP_SIZE = 128  # bytes of a CUtensorMap (cuda.h)
PAGE = 512  # bytes of a page of ``Pages``


@dataclass(frozen=True)
class Pages:
    """The contents of a buffer too large to keep, made page by page as a launch touches them. ``make`` takes page
    numbers (n,) and returns their bytes (n, ``PAGE``). A launch that touches more than ``most`` pages ends. ``ahead``:
    byte distances from a touched page to others that are made with it, to save time."""

    make: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]
    most: int
    ahead: tuple[int, ...] = ()


@dataclass(frozen=True)
class Buffer:
    """A kernel argument in global memory; ``launch`` creates it from a NumPy array.

    ``array`` is C-contiguous; the device reads it before the launch and writes it back after, when ``output`` is set.
    ``initialised`` False: its contents count as fresh from the allocator, and reading them before writing is reported.
    ``pages``: where the contents come from if ``array`` gives only the size; see ``Simulator.sample``.
    """

    name: str
    array: np.ndarray[Any, Any]
    output: bool = False
    initialised: bool = True  # False: fresh from the allocator; reading before writing is reported
    pages: Pages | None = None


@dataclass(frozen=True)
class Pointer:
    """A kernel argument that points into a buffer, ``offset`` bytes from its start. Several may share a buffer."""

    name: str
    buffer: Buffer
    offset: int


@dataclass(frozen=True)
class Scalar:
    """One kernel argument passed by value: a NumPy scalar, or the raw bytes of a struct."""

    name: str
    value: np.generic | bytes


@dataclass(frozen=True)
class StructWithBuffers:
    """A struct passed by value that holds pointers.

    ``raw``: its bytes as the device lays it out, with any value in place of the pointers. ``pointers``: byte offset in
    the struct -> the ``Buffer`` or ``Pointer`` whose address is put there.
    """

    name: str
    raw: bytes
    pointers: Mapping[int, Buffer | Pointer]


@dataclass(frozen=True)
class Texture:
    """What a kernel reads through a ``cudaTextureObject_t``.

    ``array`` has the shape (width,), (height, width) or (depth, height, width): after an axis of layers when
    ``layered``, before an axis of 2 or 4 ``channels``. ``address`` is ``"clamp"``, ``"border"``, ``"wrap"`` or
    ``"mirror"``, or a tuple of them for x, y, z. ``filter`` is ``"point"`` or ``"linear"``; ``read`` is ``"element"``
    or ``"normalized_float"``; ``normalized`` means that coordinates run from 0 to 1. The launch fills in ``name``.
    """

    array: np.ndarray[Any, Any]
    channels: int = 1
    filter: str = "point"
    address: str | tuple[str, ...] = "clamp"
    normalized: bool = False
    read: str = "element"
    layered: bool = False
    name: str = ""
    pages: Pages | None = None  # where linear memory comes from if ``array`` gives only the size

    @property
    def is_linear(self) -> bool:
        """Tell whether it is linear memory, read by element: one dimension, no filter or conversion."""
        plain = self.filter == "point" and self.read == "element" and not (self.normalized or self.layered)
        return plain and self.array.ndim == (1 if self.channels == 1 else 2)

    def addresses(self, dims: int) -> tuple[str, ...]:
        """Return the address mode of each of ``dims`` coordinates."""
        return (self.address,) * dims if isinstance(self.address, str) else self.address[:dims]


@dataclass(frozen=True)
class Surface:
    """What a kernel reads and writes through a ``cudaSurfaceObject_t``.

    ``array``, ``channels`` and ``layered`` are as for ``Texture``. The array is written back after the launch unless it
    is read-only.
    """

    array: np.ndarray[Any, Any]
    channels: int = 1
    layered: bool = False
    name: str = ""


@dataclass(frozen=True)
class TensorMap:
    """What a kernel takes as ``const __grid_constant__ CUtensorMap``, or by a pointer: an array whose boxes TMA copies.

    ``array`` has one to five dimensions; its rows may be further apart than they are long (a view), but the elements
    of a row follow each other. ``box`` has a size in elements for each axis of the array, in the array's order; a
    kernel gives coordinates in the opposite order, as CUDA does. ``swizzle`` is 0, 32, 64 or 128 bytes. ``element`` is
    the type (``"bfloat16"``) where that of the array does not tell. The launch fills in ``name`` and ``pointer``, the
    place where the array begins. A map that ``cuTensorMapEncodeTiled`` refuses raises ``ValueError`` at the launch.
    """

    array: np.ndarray[Any, Any]
    box: tuple[int, ...]
    swizzle: int = 0
    element: str = ""
    name: str = ""
    pointer: Buffer | Pointer | None = None

    @property
    def type(self) -> Element:
        """Return the element type. Raise ``ValueError``."""
        return map_type(self.name, self.element or self.array.dtype.name)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the sizes of the array, innermost dimension first."""
        return tuple(reversed(self.array.shape))

    @property
    def strides_behind(self) -> tuple[int, ...]:
        """Return the strides in bytes of all dimensions but the innermost one, from the second innermost on."""
        return tuple(reversed(self.array.strides[:-1]))

    @property
    def described(self) -> dict[str, Any]:
        """Return the arguments of ``cuTensorMapEncodeTiled``, without the address."""
        name = self.type.name
        name = {"int8": "uint8", "int16": "uint16"}.get(name, "uint8" if name.startswith("float8") else name)
        sizes, strides = self.sizes, self.strides_behind
        return {"element": name, "sizes": sizes, "strides": strides, "box": self.box[::-1], "swizzle": self.swizzle}

    def check(self) -> None:
        """Raise ``ValueError`` for a map that ``cuTensorMapEncodeTiled`` refuses or the simulator does not support."""
        array, size = self.array, self.type.size
        start = offset_of(self.pointer) if self.pointer is not None else 0
        # Numbers of another width are not the elements of a row.
        strides = array.strides if array.dtype.itemsize == size else (*array.strides[:-1], 0)
        check_map(self.name, size, array.shape, strides, self.box, self.swizzle, start)


def check_map(
    name: str,
    size: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    box: tuple[int, ...],
    swizzle: int,
    start: int = 0,
) -> None:
    """Raise ``ValueError`` for a map that ``cuTensorMapEncodeTiled`` refuses or the simulator does not support: over an
    array with elements of ``size`` bytes, whose ``strides`` and ``start`` are in bytes, too."""
    if not 1 <= len(shape) <= 5 or len(box) != len(shape) or 0 in shape:
        raise ValueError(f"{name}: a tensor map is of one to five dimensions, with a size of the box for each")
    if strides[-1] != size:
        raise ValueError(f"{name}: the elements of a row must follow each other")
    for extent, stride in zip(shape[-2::-1], strides[-2::-1], strict=True):
        if stride % 16 or stride < 0 or (stride == 0 and extent > 1):  # 0: of an axis with one element
            raise ValueError(f"{name}: rows must begin at multiples of 16 bytes, not {stride} apart")
    if start % 16:
        raise ValueError(f"{name}: the array of a tensor map must begin at a multiple of 16 bytes")
    row = box[-1] * size
    if not all(1 <= extent <= 256 for extent in box) or row % 16:
        raise ValueError(
            f"{name}: a box of {' x '.join(map(str, box))} elements cannot be copied: each size may be"
            f" 1 to 256, and a row of it must be a multiple of 16 bytes, not {row}"
        )
    if swizzle not in (0, 32, 64, 128) or (swizzle and row > swizzle):
        raise ValueError(f"{name}: a swizzle is of 32, 64 or 128 bytes, and a row of the box, {row} bytes, no longer")
    if swizzle and row != swizzle:
        raise ValueError(f"{name}: a row of the box, {row} bytes, shorter than the swizzle is not supported")


def map_type(name: str, element: str) -> Element:
    """Return the element type of the tensor map ``name``. Raise ``ValueError``."""
    if element not in ELEMENTS or element == "tf32":
        raise ValueError(f"{name}: a tensor map of {element} is not supported")
    return ELEMENTS[element]


Argument = Buffer | Pointer | Scalar | StructWithBuffers | Texture | Surface | TensorMap


def buffer_of(argument: Buffer | Pointer) -> Buffer:
    """Return the buffer that ``argument`` points into."""
    return argument.buffer if isinstance(argument, Pointer) else argument


def offset_of(argument: Buffer | Pointer) -> int:
    """Return the offset of ``argument`` in its buffer, in bytes."""
    return argument.offset if isinstance(argument, Pointer) else 0


def buffers_of(arguments: Iterable[Argument]) -> list[Buffer]:
    """Return the buffers of all pointers of ``arguments``, in order."""
    found: list[Buffer] = []
    for argument in arguments:
        if isinstance(argument, (Buffer, Pointer)):
            found.append(buffer_of(argument))
        elif isinstance(argument, TensorMap) and argument.pointer is not None:
            found.append(buffer_of(argument.pointer))
        elif isinstance(argument, StructWithBuffers):
            found.extend(buffer_of(pointer) for pointer in argument.pointers.values())
    return found


@dataclass(frozen=True)
class HostVariable:
    """A ``__constant__`` or ``__device__`` variable of the source, as a value of ``symbols``.

    The host copies ``array`` into it before the launch; a ``__device__`` variable is copied back afterwards. With
    ``given=False`` the variable keeps the value that the source gives it, and is only copied back.
    """

    name: str
    array: np.ndarray[Any, Any]
    given: bool = True


def _times(sizes: tuple[int, int, int]) -> str:
    kept = [str(size) for size in sizes]
    while len(kept) > 1 and kept[-1] == "1":
        kept.pop()
    return " x ".join(kept)


@dataclass(frozen=True)
class Grid:
    """The launch configuration: blocks, threads per block (x, y, z), bytes of dynamic shared memory.

    Also the blocks of a cluster (None: the launch requests none).
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared: int = 0
    cluster: tuple[int, int, int] | None = None

    def __str__(self) -> str:
        return f"grid {_times(self.grid)}, block {_times(self.block)}"

    @property
    def threads(self) -> int:
        """Threads per block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def blocks(self) -> int:
        """Blocks in the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]
