"""Reads of textures and surfaces for the simulator and a GPU: arrays, settings, coordinates, kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from checks.simulator.semantics_cases import stream

LANES = 192
SHAPES = {1: (37,), 2: (9, 13), 3: (7, 6, 5)}  # slowest axis first, as NumPy has it
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """One texture and how it is read: ``dims`` coordinates, ``layers`` > 0 for a layered one.

    ``gathered``: the channel of which tld4 reads four texels.
    """

    dims: int
    filter: str = "point"
    address: str = "clamp"
    normalized: bool = False
    dtype: str = "float32"
    channels: int = 1
    read: str = "element"
    layers: int = 0
    gathered: int | None = None

    @property
    def name(self) -> str:
        """Key of the stored reading."""
        parts = [f"{self.dims}d", self.dtype, str(self.channels), self.filter, self.address, self.read]
        if self.gathered is not None:
            parts += [f"gathered {self.gathered}"]
        return "/".join([*parts, *["normalized"] * self.normalized, *["layered"] * bool(self.layers)])

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array, without channels."""
        return ((self.layers,) if self.layers else ()) + SHAPES[self.dims]

    def values(self) -> Array:
        """The texels."""
        shape = (*self.shape, *((self.channels,) if self.channels > 1 else ()))
        words = stream(5, int(np.prod(shape)))
        if np.dtype(self.dtype).kind == "f":
            return ((words % np.uint64(4001)).astype(np.float64) / 16 - 100).astype(self.dtype).reshape(shape)
        return (words >> np.uint64(13)).astype(self.dtype).reshape(shape)

    def sizes(self) -> list[int]:
        """Texels along x, y, z: what ``query`` answers."""
        return [*reversed(SHAPES[self.dims])]

    def coordinates(self) -> list[Array]:
        """x, y, z as far as there are: at texels' edges, just beside them, far outside, random, NaN and infinities."""
        found = []
        for axis, size in enumerate(reversed(SHAPES[self.dims])):
            random = stream(40 + axis, LANES)
            lane = np.arange(LANES) + 7 * axis
            some = (random % np.uint64(1 << 20)).astype(np.float64) / (1 << 20) * 3 * size - size
            edge = (lane % (size + 5) - 2).astype(np.float64)
            row = np.where(lane % 4 == 0, edge, np.where(lane % 4 == 1, edge + 0.5, some))
            row = np.where(
                lane % 12 == 5, np.nextafter(edge.astype(np.float32), np.float32(-9)).astype(np.float64), row
            )
            row = np.where(lane % 12 == 9, edge + (random % np.uint64(512)).astype(np.float64) / 512, row)
            if self.normalized:
                row = row / size
            row = row.astype(np.float32)
            if axis == 0:
                row[-6:] = [np.nan, np.inf, -np.inf, 1e10, -1e10, -0.0]
            found.append(row)
        return found

    def kernel(self) -> str:
        """CUDA C++: lane i reads at coordinates i."""
        scalar = "float" if self.read != "element" or np.dtype(self.dtype).kind == "f" else "unsigned"
        four = {"float": "float4", "unsigned": "uint4"}[scalar]
        kind = scalar if self.channels == 1 and self.gathered is None else four
        layer = ", i % LAYERS" if self.layers else ""
        function = f"tex{self.dims}D" + ("Layered" if self.layers else "")
        if self.gathered is not None:
            function, layer = "tex2Dgather", f", {self.gathered}"
        asked = ", ".join("xyz"[axis] + "[i]" for axis in range(self.dims))
        rows = ", ".join(f"const float *{'xyz'[axis]}" for axis in range(self.dims))
        body = f"const int i = threadIdx.x; out[i] = {function}<{kind}>(t, {asked}{layer});"
        body = body.replace("LAYERS", str(self.layers))
        return f'extern "C" __global__ void k(cudaTextureObject_t t, {rows}, {kind} *out) {{ {body} }}\n'

    def out(self) -> Array:
        """The output array, filled with zeros."""
        scalar = np.float32 if self.read != "element" or np.dtype(self.dtype).kind == "f" else np.uint32
        wide = self.channels > 1 or self.gathered is not None
        return np.zeros((LANES, 4) if wide else (LANES,), scalar)


def every_case() -> Iterator[Case]:
    """All settings of float textures; other types, read as elements and as normalised floats."""
    for dims in (1, 2, 3):
        for kind in ("point", "linear"):
            for normalized in (False, True):
                for address in ("clamp", "border", "wrap", "mirror") if normalized else ("clamp", "border"):
                    yield Case(dims, kind, address, normalized)
    yield Case(1, "point", "wrap")
    yield Case(2, "linear", "mirror")
    for dtype in ("uint8", "int8", "uint16", "int16"):
        for kind in ("point", "linear"):
            yield Case(2, kind, "clamp", True, dtype, 4, "normalized_float")
        yield Case(1, "point", "border", False, dtype, 1)
    yield Case(2, "point", "wrap", True, "uint32", 4)
    yield Case(3, "point", "clamp", False, "int32")
    yield Case(2, "linear", "wrap", True, "float32", 4)
    yield Case(2, "linear", "clamp", False, "float16")
    yield Case(1, "linear", "clamp", False, layers=3)
    yield Case(2, "linear", "wrap", True, layers=3)
    yield from gathers()


def gathers() -> Iterator[Case]:
    """Four texels around a point, of every channel, filter and address mode."""
    for kind in ("point", "linear"):
        for normalized in (False, True):
            for address in ("clamp", "border", "wrap", "mirror") if normalized else ("clamp", "border"):
                yield Case(2, kind, address, normalized, gathered=0)
    for channel in range(4):
        yield Case(2, "point", "wrap", True, "float32", 4, gathered=channel)
        yield Case(2, "point", "border", False, "uint8", 1, gathered=channel)
    yield Case(2, "linear", "clamp", True, "int16", 4, "normalized_float", gathered=2)
    yield Case(2, "point", "clamp", False, "uint32", 4, gathered=3)


FETCH = """
extern "C" __global__ void k(cudaTextureObject_t t, const int *x, float *out) {
    const int i = threadIdx.x;
    out[i] = tex1Dfetch<float>(t, x[i]);
}
"""
SURFACE = """
extern "C" __global__ void k(cudaSurfaceObject_t s, const int *x, const int *y, unsigned *out) {
    const int i = threadIdx.x, lanes = blockDim.x;
    out[i] = surf2Dread<unsigned>(s, x[i] * 4, y[i], cudaBoundaryModeZero);
    out[i + lanes] = surf2Dread<unsigned>(s, x[i] * 4, y[i], cudaBoundaryModeClamp);
    out[i + 2 * lanes] = surf2Dread<unsigned char>(s, x[i], y[i], cudaBoundaryModeClamp);
    out[i + 3 * lanes] = surf2Dread<ushort2>(s, x[i] * 4, y[i], cudaBoundaryModeZero).y;
    __syncthreads();
    if (i < 96)
        surf2Dwrite(i * 1000003u, s, (i % 16 - 1) * 4, i / 16 - 1, cudaBoundaryModeZero);
    __syncthreads();
    if (i == 100)
        surf2Dwrite(0xabcd1234u, s, 99 * 4, 99, cudaBoundaryModeClamp);
    if (i == 101)
        surf2Dwrite((unsigned char)0x5a, s, 5, 2, cudaBoundaryModeZero);
}
"""
QUERIES = (  # what is asked of which texture
    (Case(2), ("width", "height")),
    (Case(3), ("width", "height", "depth")),
    (Case(2, "linear", "wrap", True, layers=3), ("width", "height")),
)


def query(asked: tuple[str, ...]) -> str:
    """CUDA C++: the sizes of a texture."""
    lines = (f'asm("txq.{what}.b32 %0, [%1];" : "=r"(out[{i}]) : "l"(t));' for i, what in enumerate(asked))
    return f'extern "C" __global__ void k(cudaTextureObject_t t, unsigned *out) {{ {" ".join(lines)} }}'


SURFACE_SHAPE = (9, 13)


def indices() -> list[Array]:
    """Integer coordinates, inside and outside."""
    lane = np.arange(LANES)
    return [((lane * 7) % 19 - 3).astype(np.int32), ((lane * 5) % 14 - 2).astype(np.int32)]


def fetched() -> Array:
    """Indices of tex1Dfetch into 37 elements."""
    return (np.arange(LANES) * 5 % 60 - 11).astype(np.int32)
