"""A ladder of Hopper kernels, from one stage by TMA to C stored while the next tile is multiplied: times and estimates.

    python -m checks.estimate.ladder                    estimated beside measured
    python -m checks.estimate.ladder compile DIR        cubins
    python -m checks.estimate.ladder run DIR NAME.json  their times beside cuBLAS, on a machine with CuPy and the GPU

C = A B^T in bf16 with fp32 sums. The answers are compared with cuBLAS's before anything is timed. Each kernel runs
for ``SECONDS`` without a pause, in drawn order, so that the clock is the one that the chip holds with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gemm_lessons.engine.records.launch import Argument, Buffer, Grid, Scalar, TensorMap
from gemm_lessons.gemm.shapes import Shape, Shapes, TileSizes

if TYPE_CHECKING:
    from gemm_lessons.engine.compiler.compile import Compiled
    from gemm_lessons.engine.hardware.sheets import GpuSpec
    from gemm_lessons.gemm.profile import Profile
    from gemm_lessons.gemm.time_model import Estimate

KERNELS = Path(__file__).parent / "kernels" / "hopper"
COMMON = Path(__file__).parents[2] / "lessons" / "common"
SIZES = (1024, 2048, 4096, 8192)
BK, SMS = 64, 132
ROW = 128  # bytes of a tile's row, swizzled


@dataclass(frozen=True)
class Step:
    """One kernel of the ladder."""

    number: int
    name: str
    file: str
    stages: int
    cols: int = 256
    stays: bool = False
    tma_store: bool = False

    @property
    def threads(self) -> int:
        return 128 if self.file == "stages.cu" else 384

    @property
    def rows(self) -> int:
        """Of a block's tile of C; it has ``cols`` columns."""
        return 128

    @property
    def shared(self) -> int:
        """Dynamic bytes of a block."""
        staged = self.stages * (self.rows + self.cols) * ROW
        if self.file == "stages.cu":
            return staged
        return staged + (8 if self.tma_store else 1) * 64 * ROW

    @cached_property
    def compiled(self) -> Compiled:
        """Raises ``AssertionError`` with the compiler's log."""
        from gemm_lessons.engine.compiler.compile import Compiled, compile_source

        path = KERNELS / self.file
        defines = {"STAGES": self.stages, "STAY": int(self.stays), "TMA_STORE": int(self.tma_store)}
        found = compile_source(
            path.read_text(),
            path=str(path),
            entry="gemm",
            defines=defines,
            include_dirs=[KERNELS, COMMON],
            arch="sm_90a",
        )
        assert isinstance(found, Compiled), f"{self.name}: {found.log}"
        return found

    def grid(self, shape: Shape) -> Grid:
        """Blocks of a product."""
        cols, rows = shape.n // self.cols, shape.m // self.rows
        blocks = (min(SMS, cols * rows), 1, 1) if self.stays else (cols, rows, 1)
        return Grid(blocks, (self.threads, 1, 1), self.shared)

    def boxes(self) -> dict[str, tuple[int, int]]:
        """Rows and columns of each tensor map's box."""
        return {"A": (self.rows, BK), "B": (self.cols, BK), "C": (64, BK)}

    def arguments(self, shape: Shape) -> list[Argument]:
        """Fresh ones; the time does not depend on their values."""
        sizes = {"A": (shape.m, shape.k), "B": (shape.n, shape.k), "C": (shape.m, shape.n)}
        arrays = {name: np.zeros(size, np.uint16) for name, size in sizes.items()}
        maps: list[Argument] = [
            TensorMap(arrays[name], box, ROW, "bfloat16", f"map_{name}") for name, box in self.boxes().items()
        ]
        scalars = [
            Scalar(name, np.int32(value)) for name, value in zip("MNK", (shape.m, shape.n, shape.k), strict=True)
        ]
        return [*maps, Buffer("C", arrays["C"], output=True), *scalars]

    def profile(self, size: int, gpu: GpuSpec) -> Profile:
        """What a lesson's kernel is estimated from."""
        from gemm_lessons.engine.hardware.occupancy import occupancy
        from gemm_lessons.engine.simulator import Simulator
        from gemm_lessons.gemm.profile import Movement, Subject, profile_of

        resident = occupancy(self.compiled.resources, self.threads, self.shared, gpu).blocks_per_sm
        tile = TileSizes(self.rows, self.cols, BK)
        multiple = Shape(self.rows, self.cols, BK)
        moved = Movement(
            lambda it: 2.0 * (it.m + it.n) * it.k,
            lambda it: 2.0 * it.m * it.n,
            lambda it: 2 * it.m * it.n * it.k,
            2,
            2,
            2,
        )
        subject = Subject(
            self.compiled,
            lambda: Simulator().kernel(self.compiled),
            self.grid,
            self.arguments,
            tile,
            Shapes(check=(multiple,), count=multiple, multiple_of=multiple),
            moved,
            staying=self.grid(Shape(size, size, size)).blocks if self.stays else 0,
        )
        found = profile_of(subject, resident)
        assert found is not None, f"{self.name}: no profile"
        return found

    def estimate(self, size: int, gpu: GpuSpec) -> Estimate:
        """At M = N = K = ``size``."""
        from gemm_lessons.gemm.time_model import estimate_at

        shape = Shape(size, size, size)
        return estimate_at(self.profile(size, gpu), shape, self.grid(shape).grid, gpu)


STEPS = (
    Step(1, "one stage", "stages.cu", 1, 128),
    Step(2, "three stages", "stages.cu", 3, 128),
    Step(3, "producer and consumers", "roles.cu", 4),
    Step(4, "blocks that stay", "roles.cu", 4, stays=True),
    Step(6, "C stored by TMA", "roles.cu", 3, stays=True, tma_store=True),
)
