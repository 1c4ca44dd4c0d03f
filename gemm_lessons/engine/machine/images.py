"""Texture and surface objects of a launch: arrays that are read and written by coordinates.

Filtering and addressing follow NVIDIA, "CUDA C++ Programming Guide", chapter "Texture Fetching". Where the guide is
silent they follow the answers of an H100 (checks/simulator/test_textures.py): normalised coordinates are truncated to
21 fractional bits, and weights of the linear filter are rounded to 8. With two or three coordinates hardware also
rounds the products of weights, and differs by up to 1/256 of the span of the texels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gemm_lessons.engine.machine.paging import PageTable
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.elements import in_native_order
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.launch import PAGE, Argument, Pages, Surface, Texture

HANDLES = 0x0300_0000_0000_0001  # handle of the first argument; not an address of any memory
PERIOD = 1 << 21  # steps of a normalised coordinate from 0 to 1
WEIGHTS = 1 << 8  # steps between two texels
FAR = 1e6  # texels; coordinates are clipped to this distance
FILTERS, MODES, READS = ("point", "linear"), ("clamp", "border", "wrap", "mirror"), ("element", "normalized_float")
TEXELS = "float32 float16 int8 uint8 int16 uint16 int32 uint32".split()


def handle(position: int) -> bytes:
    """Return the handle of a texture or surface object that is argument number ``position``, as the kernel gets it."""
    return (HANDLES + position).to_bytes(8, "little")


class PagedTexels:
    """Linear memory in pages, read through a texture."""

    def __init__(self, array: Array, pages: Pages) -> None:
        self._table = PageTable(pages, array.nbytes, 0)
        self._memory = np.empty(pages.most * PAGE, np.uint8)
        self._type = np.dtype((array.dtype, array.shape[1:]))

    def row(self, x: Array) -> Array:
        """Return texels by their numbers. Raise ``OutOfPages``."""
        size = self._type.itemsize
        places = self._table.offsets(x * size, self._memory)
        found: Array = self._memory[places[:, None] + np.arange(size)].reshape(-1).view(self._type.base)
        return found.reshape(x.size, -1)


@dataclass(frozen=True)
class Image:
    """A texture or surface. ``texels``: (layers, depth, height, width, channels); ``dims`` of the three are used."""

    given: Texture | Surface
    texels: Array
    dims: int
    paged: PagedTexels | None = None  # if not None, texels are read from here

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the size in texels along x, y, z, of the ``dims`` used dimensions."""
        return tuple(reversed(self.texels.shape[1:4]))[: self.dims]


def image_of(given: Texture | Surface) -> Image:
    """Check an argument and return a copy of it as an image. Raise ``ValueError``."""
    name, array = given.name, given.array
    if array.dtype.name not in TEXELS:
        raise ValueError(f"{name}: texels are {', '.join(TEXELS)}, not {array.dtype.name}")
    if given.channels not in (1, 2, 4) or (given.channels > 1 and array.shape[-1:] != (given.channels,)):
        raise ValueError(f"{name}: channels are 1, 2 or 4, those beyond one the last axis of the array")
    shape = array.shape[:-1] if given.channels > 1 else array.shape
    dims = len(shape) - given.layered
    if not 1 <= dims <= (2 if given.layered else 3) or 0 in shape:
        raise ValueError(f"{name}: an array of shape {array.shape} has no one, two or three dimensions of texels")
    if isinstance(given, Texture):
        _check(given, dims)
        if given.pages is not None and given.is_linear:
            return Image(given, array.reshape(1, 1, 1, *shape, given.channels), dims, PagedTexels(array, given.pages))
    layers, rest = (shape[0], shape[1:]) if given.layered else (1, shape)
    texels = in_native_order(np.array(array)).reshape(layers, *(1,) * (3 - dims), *rest, given.channels)
    return Image(given, texels, dims)


def _check(texture: Texture, dims: int) -> None:
    modes = texture.addresses(dims)
    if texture.filter not in FILTERS or texture.read not in READS or not set(modes) <= set(MODES):
        raise ValueError(f"{texture.name}: filter is one of {FILTERS}, address of {MODES}, read of {READS}")
    floating = texture.array.dtype.kind == "f"
    if texture.read != "element" and (floating or texture.array.dtype.itemsize > 2):
        raise ValueError(f"{texture.name}: only integers of 8 and 16 bits are read as fractions of one")
    if texture.filter == "linear" and texture.read == "element" and not floating:
        raise ValueError(f"{texture.name}: integers are not filtered, unless they are read as fractions of one")


class Images:
    """All texture and surface objects of a launch, by handle."""

    def __init__(self, arguments: Iterable[Argument]) -> None:
        self._images: Mapping[int, Image] = {
            HANDLES + position: image_of(argument)
            for position, argument in enumerate(arguments)
            if isinstance(argument, (Texture, Surface))
        }

    def __bool__(self) -> bool:
        """Return whether there are any objects."""
        return bool(self._images)

    def get(self, value: int) -> Image | None:
        """Return the object with a handle, or None."""
        return self._images.get(value)

    def write_back(self) -> None:
        """Copy the kernel's writes to surfaces into their arrays."""
        for image in self._images.values():
            if isinstance(image.given, Surface) and image.given.array.flags.writeable:
                image.given.array[...] = image.texels.reshape(image.given.array.shape)


# -- reading -----------------------------------------------------------------------------------------------------------


def fetch(image: Image, x: Array) -> Array:
    """Read texels of linear memory by integer coordinates, shape (lanes, channels). Return zeros outside."""
    width = image.sizes[0]
    inside = (x >= 0) & (x < width)
    near = np.clip(x, 0, width - 1)
    row = values(image, image.texels[0, 0, 0, near] if image.paged is None else image.paged.row(near))
    found: Array = np.where(inside[:, None], row, row.dtype.type(0))
    return found


def values(image: Image, texels: Array) -> Array:
    """Return texels converted as by a read: to integers, or to float32, which includes normalised integers."""
    if isinstance(image.given, Texture) and image.given.read != "element":
        return np.maximum(texels.astype(np.float64) / np.iinfo(texels.dtype).max, -1).astype(np.float32)
    return texels.astype(np.float32, copy=False) if texels.dtype.kind == "f" else texels


def sample(image: Image, coordinates: Sequence[Array], layer: Array) -> Array:
    """Return the texture's values at float32 coordinates, float32 or integers (lanes, channels)."""
    texture = image.given
    assert isinstance(texture, Texture)
    modes = texture.addresses(image.dims)
    linear = texture.filter == "linear"
    axes = [_Axis.at(x, n, m, texture) for x, n, m in zip(coordinates, image.sizes, modes, strict=True)]
    texels = values(image, image.texels)
    layer = np.clip(layer, 0, len(texels) - 1)
    if not linear:
        return _texels(texels, axes, 0, layer)
    total = np.zeros((len(layer), texels.shape[-1]))
    for corner in range(1 << len(axes)):
        weight = np.ones(len(layer))
        for number, axis in enumerate(axes):
            weight = weight * (axis.weight if corner >> number & 1 else 1 - axis.weight)
        total += weight[:, None] * _texels(texels, axes, corner, layer)
    return total.astype(np.float32)


# Corners of a filter cell in the order of a gather: bit 0 is x, bit 1 is y. Counterclockwise from below left.
GATHERED = (0b10, 0b11, 0b01, 0b00)


def gather(image: Image, coordinates: Sequence[Array], layer: Array, channel: int) -> Array:
    """Return one channel of the four texels that a filter would combine, shape (lanes, 4); 0 if the texture lacks it.

    Where the address is mirrored, a gather keeps the order of the coordinates, as an H200 does.
    """
    texture = image.given
    assert isinstance(texture, Texture)
    modes = ("reflect" if mode == "mirror" else mode for mode in texture.addresses(image.dims))
    filtered = replace(texture, filter="linear")
    axes = [_Axis.at(x, n, m, filtered) for x, n, m in zip(coordinates, image.sizes, modes, strict=True)]
    texels = values(image, image.texels)
    if channel >= texels.shape[-1]:
        return np.zeros((len(layer), 4), texels.dtype)
    layer = np.clip(layer, 0, len(texels) - 1)
    return np.stack([_texels(texels, axes, corner, layer)[:, channel] for corner in GATHERED], axis=1)


def _texels(texels: Array, axes: Sequence[_Axis], corner: int, layer: Array) -> Array:
    """Return the texels at one corner of the filter cell of each coordinate; zeros outside the border."""
    index = [np.zeros_like(layer)] * 3
    inside = np.ones(len(layer), np.bool_)
    for number, axis in enumerate(axes):
        index[number], there = axis.texel(corner >> number & 1)
        inside &= there
    found = texels[layer, index[2], index[1], index[0]]
    return np.where(inside[:, None], found, found.dtype.type(0))


@dataclass(frozen=True)
class _Axis:
    """Coordinates on one axis: the texel below, and the fractional distance to the next (linear filter only)."""

    below: Array
    weight: Array
    size: int
    mode: str

    @staticmethod
    def at(x: Array, size: int, mode: str, texture: Texture) -> _Axis:
        """Resolve the float32 coordinates ``x``. Hardware clamps those that are not normalised."""
        wide = np.where(np.isnan(x), 0.0, x).astype(np.float64)
        if texture.normalized:
            far = np.isinf(wide)
            wide = np.where(far & (mode in ("wrap", "mirror", "reflect")), 0.0, np.clip(wide, -1e12, 1e12))
            step = np.floor(wide * PERIOD)
            if mode == "wrap":
                step = step % PERIOD
            elif mode == "reflect":
                step = step % (2 * PERIOD)
            elif mode == "mirror":
                step = step % (2 * PERIOD)
                step = np.where(step < PERIOD, step, 2 * PERIOD - step)
            place = step * size / PERIOD
        else:
            mode = mode if mode == "border" else "clamp"
            place = wide
        place = np.clip(place, -FAR, FAR)
        if texture.filter == "point":
            return _Axis(np.floor(place).astype(np.int64), np.zeros(1), size, mode)
        fine = np.floor((place - 0.5) * WEIGHTS + 0.5)
        below = np.floor(fine / WEIGHTS)
        return _Axis(below.astype(np.int64), fine / WEIGHTS - below, size, mode)

    def texel(self, further: int) -> tuple[Array, Array]:
        """Return the index of the texel below (``further`` = 0) or of the next one, and whether it exists."""
        index = self.below + further
        if self.mode == "wrap":
            return index % self.size, np.ones(index.shape, np.bool_)
        if self.mode == "reflect":
            index = index % (2 * self.size)
            return np.minimum(index, 2 * self.size - 1 - index), np.ones(index.shape, np.bool_)
        kept = np.clip(index, 0, self.size - 1)
        return kept, (kept == index) | (self.mode != "border")
