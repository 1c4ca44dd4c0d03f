"""Two published tables of times on GPUs that we do not have, and kernels like the ones that were timed.

P100: https://blog.csdn.net article "CUDA GEMM" of 2022 (CUDA 10.0), M = N = K, milliseconds with two decimals.
V100: "CUDA general matrix multiplication, from beginner to proficient", V100-PCIE-32GB, K = 1024, M = N, seconds with
eight decimals, the mean of the three that it prints.

The articles give their kernels in full or in part; those in ``kernels/`` are written anew to the same design: tile
sizes, threads, layout of shared memory, order of copying and computing. Today's compiler no longer makes code for P100
and V100, so they are traced as compiled for sm_80 (``sheets.STAND_IN``) and simulated with the older chip's pipes.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from pathlib import Path

import numpy as np

from checks.compiling import must_compile
from gemm_lessons.engine.compiler.compile import Compiled
from gemm_lessons.engine.hardware.occupancy import occupancy_of
from gemm_lessons.engine.hardware.sheets import GPUS, STAND_IN, GpuSpec
from gemm_lessons.engine.records.launch import Argument, Buffer, Grid, Scalar, StructWithBuffers
from gemm_lessons.engine.sass.trace import Trace, traceable
from gemm_lessons.engine.simulator import Simulator
from gemm_lessons.gemm.profile import Profile
from gemm_lessons.gemm.shapes import Shape

KERNELS = Path(__file__).parent / "kernels"
# Both were PCI Express cards; the data sheets in ``sheets`` are of the faster SXM2 modules. Highest boost clocks.
P100 = replace(GPUS["p100"], name="P100 PCIe", clock_hz=1.328e9)
V100 = replace(GPUS["v100"], name="V100 PCIe", clock_hz=1.380e9)
DEPTHS = (64, 128)  # K of the two traces: whole tiles of all kernels


@dataclass(frozen=True)
class Article:
    """One row of a table. ``tile``: rows and columns of C per block; ``block``: threads (x, y); ``k``: None for M = N =
    K; ``times_us``: by M = N; ``precision_us``: half of the last digit printed."""

    name: str
    gpu: GpuSpec
    file: str
    defines: Mapping[str, int]
    tile: tuple[int, int]
    block: tuple[int, int]
    k: int | None
    times_us: Mapping[int, float]
    precision_us: float

    def shape(self, size: int) -> Shape:
        return Shape(size, size, self.k or size)

    def blocks(self, size: int) -> tuple[int, int, int]:
        """The grid."""
        return ceil(size / self.tile[1]), ceil(size / self.tile[0]), 1

    @cached_property
    def compiled(self) -> Compiled:
        """The kernel's machine code."""
        return must_compile(
            (KERNELS / self.file).read_text(),
            path=str(KERNELS / self.file),
            entry="gemm",
            defines=self.defines,
            include_dirs=[KERNELS],
            arch=STAND_IN,
        )

    @cached_property
    def profile(self) -> Profile:
        """Traced for as many blocks as are resident on ``gpu``."""
        compiled = self.compiled
        threads = self.block[0] * self.block[1]
        resident = occupancy_of(compiled.resources, threads, 0, self.gpu).blocks_per_sm
        code = traceable(compiled, Simulator().kernel(compiled))

        def at(k: int) -> tuple[int, Trace]:
            shape = Shape(self.tile[0], self.tile[1] * resident, k)
            return k, code.trace(Grid((resident, 1, 1), (*self.block, 1)), self._arguments(shape), resident)

        return Profile(
            lambda: (at(DEPTHS[0]), at(DEPTHS[1])),
            blocks_per_sm=resident,
            tile_rows=self.tile[0],
            tile_cols=self.tile[1],
        )

    def _arguments(self, shape: Shape) -> list[Argument]:
        sides = {"A": (shape.m, shape.k), "B": (shape.k, shape.n), "C": (shape.m, shape.n)}
        buffers = [Buffer(name, np.zeros(side, np.float32), output=name == "C") for name, side in sides.items()]
        if not self.file.startswith("view"):
            return [*buffers, *(Scalar(name, np.int32(getattr(shape, name.lower()))) for name in "MNK")]
        return [
            StructWithBuffers(it.name, struct.pack("<Qiiii", 0, *it.array.shape, it.array.shape[1], 1), {0: it})
            for it in buffers
        ]


SMALL, LARGE = (128, 256, 512, 1024), (2048, 4096)
ROWS = (128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384)


def _p100(
    name: str,
    file: str,
    defines: Mapping[str, int],
    tile: int,
    block: int,
    milliseconds: Mapping[int, float],
) -> Article:
    times = {size: 1e3 * time for size, time in milliseconds.items()}
    return Article(name, P100, file, defines, (tile, tile), (block, block), None, times, 5.0)


def _v100(name: str, file: str, defines: Mapping[str, int], tile: int, block: int, *milliseconds: float) -> Article:
    times = {size: 1e3 * time for size, time in zip(ROWS, milliseconds, strict=True)}
    return Article(name, V100, file, defines, (tile, tile), (block, block), 1024, times, 0.005)


# The first article states V1's block at each size, but not the naive kernel's: assumed to be the same.
ARTICLES = (
    _p100(
        "naive 16x16", "view_naive.cu", {}, 16, 16,
        dict(zip(SMALL, (0.03, 0.08, 0.50, 4.25), strict=True)),
    ),
    _p100("naive 32x32", "view_naive.cu", {}, 32, 32, dict(zip(LARGE, (45.36, 402.47), strict=True))),
    _p100(
        "V1 16x16", "view_block_tile.cu", {"TILE": 16}, 16, 16,
        dict(zip(SMALL, (0.02, 0.06, 0.25, 1.72), strict=True)),
    ),
    _p100("V1 32x32", "view_block_tile.cu", {"TILE": 32}, 32, 32, dict(zip(LARGE, (9.43, 74.2), strict=True))),
    _p100(
        "V2", "view_thread_tile.cu", {"STAGES": 1}, 128, 16,
        dict(zip(SMALL + LARGE, (0.09, 0.15, 0.27, 0.81, 3.77, 26.51), strict=True)),
    ),
    _p100(
        "V3", "view_thread_tile.cu", {"STAGES": 2}, 128, 16,
        dict(zip(SMALL + LARGE, (0.09, 0.15, 0.27, 0.77, 3.65, 25.59), strict=True)),
    ),
    _v100(
        "naive", "naive.cu", {"BX": 32, "BY": 32}, 32, 32,
        0.10260, 0.10198, 0.10318, 0.19535, 0.37794, 0.75558, 1.21669, 2.75611, 4.88028, 10.71136,
        17.92170, 39.93405, 71.39694, 159.93242, 285.67238,
    ),
    _v100(
        "V1", "thread_tile.cu", {}, 128, 16,
        0.31727, 0.31720, 0.31532, 0.31814, 0.32007, 0.34419, 0.34792, 0.68983, 1.36552, 2.73115,
        4.45964, 9.50608, 16.45271, 35.97434, 63.06373,
    ),
    _v100(
        "V2", "split_tile.cu", {"STAGES": 1}, 128, 16,
        0.29918, 0.29828, 0.29530, 0.29848, 0.29945, 0.32467, 0.32494, 0.48224, 0.94636, 1.88096,
        3.19050, 6.58940, 11.16194, 24.66705, 43.87468,
    ),
    _v100(
        "V3", "split_tile.cu", {"STAGES": 2}, 128, 16,
        0.24240, 0.24048, 0.24114, 0.24147, 0.24237, 0.24540, 0.24631, 0.45780, 0.89970, 1.78289,
        3.10057, 6.19887, 10.45051, 22.85837, 40.44823,
    ),
)  # fmt: skip
