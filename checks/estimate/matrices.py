"""Kernels for tensor cores, fp64, packed bytes, split and ragged products of our own, and their times on an H200.

    python -m checks.estimate.matrices compile DIR                                    here
    python -m checks.estimate.matrices run DIR checks/readings/estimate/matrices_h200.json    on a machine with the GPU
    python -m checks.estimate.table                                                   estimated beside measured

Every answer is compared with the product in float64 before anything is timed. Times are medians of launches queued
after another kernel, so that launching is hidden; L2 is as the launch before left it.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from checks import readings
from checks.compiling import must_compile
from checks.usage import help_if_asked
from gemm_lessons.engine.records.launch import Argument, Buffer, Grid, Scalar
from gemm_lessons.gemm.shapes import Shape

if TYPE_CHECKING:
    from gemm_lessons.engine.compiler.compile import Compiled
    from gemm_lessons.gemm.profile import Profile
    from gemm_lessons.gemm.time_model import Estimate

KERNELS = Path(__file__).parent / "kernels"
MEASURED = readings.FOLDER / "estimate" / "matrices_h200.json"
SIZES = (1024, 2048, 4096)
REPEATS = 9
QUEUED_US = 2.7  # an empty kernel between two events, the launch hidden: launch_queued_us of h200.json
SPIN_CLOCKS = 80_000
# Largest relative error of an answer, by the type of its sums or, for tf32, by the kernel's name.
ALLOWED = {"tf32": 2e-3, "int32": 0.0, "float64": 1e-13, "float32": 1e-5}
ADDED_UP = 256  # threads of a block of reduce()


@dataclass(frozen=True)
class Case:
    """One kernel. ``kinds``: NumPy's types of A and B, and of C (bfloat16 as uint16; int32 for packed bytes, whose
    number per word is ``defines["PACKED"]``). ``shared``: dynamic bytes. ``reduces``: a second launch adds parts."""

    name: str
    file: str
    kinds: tuple[str, str]
    defines: Mapping[str, str | int]
    threads: int
    shared: int = 0
    shapes: tuple[tuple[int, int, int], ...] = tuple((n, n, n) for n in SIZES)
    reduces: bool = False

    @property
    def tile(self) -> tuple[int, int, int]:
        """Rows and columns of C and the depth in K of a tile, in numbers."""
        bm, bn, bk = (int(self.defines[name]) for name in ("BM", "BN", "BK"))
        return bm, bn, bk * int(self.defines.get("PACKED", 1))

    @property
    def path(self) -> Path:
        """The source."""
        return KERNELS / self.file

    @property
    def split(self) -> int:
        """Number of parts of K; each has its own blocks."""
        return int(self.defines.get("SPLIT", 1))

    @property
    def by_columns(self) -> bool:
        """Whether B is given as its transpose."""
        return "BYTES" in self.defines or "PACKED" in self.defines

    @property
    def size(self) -> tuple[int, int]:
        """Bytes of an element of A, and of C."""
        return np.dtype(self.kinds[0]).itemsize, np.dtype(self.kinds[1]).itemsize

    def grid(self, m: int, n: int) -> tuple[int, int, int]:
        """Blocks of the product."""
        return ceil(n / self.tile[1]), ceil(m / self.tile[0]), self.split

    def compiled(self, arch: str = "sm_90", entry: str = "gemm") -> Compiled:
        """Raises ``AssertionError`` with the compiler's log."""
        return must_compile(
            self.path.read_text(),
            path=str(self.path),
            entry=entry,
            defines=self.defines,
            include_dirs=[KERNELS],
            arch=arch,
        )

    @cached_property
    def profile(self) -> Profile:
        """Traced for as many blocks as are resident on an H200."""
        from gemm_lessons.engine.hardware.occupancy import occupancy_of
        from gemm_lessons.engine.hardware.sheets import GPUS
        from gemm_lessons.engine.sass.trace import Trace, traceable
        from gemm_lessons.engine.simulator import Simulator
        from gemm_lessons.gemm.profile import DEPTH, Movement, Profile

        compiled = self.compiled()
        resident = occupancy_of(compiled.resources, self.threads, self.shared, GPUS["h200"]).blocks_per_sm
        code = traceable(compiled, Simulator().kernel(compiled))
        rows, cols, depth = self.tile
        shorter = max(DEPTH, 8 * depth) * self.split
        left, right = self.size

        def at(k: int) -> tuple[int, Trace]:
            grid = Grid((resident, 1, self.split), (self.threads, 1, 1), self.shared)
            return k, code.trace(grid, self.arguments(rows, cols * resident, k), resident)

        written = self.split if self.reduces else 1
        traffic = Movement(
            lambda it: (
                {"A": float(left * it.m * it.k), "B": float(left * it.n * it.k)},
                {"C": float(written * right * it.m * it.n)},
            ),
            lambda it: 2 * it.m * it.n * it.k,
            left, left, right,
        )  # fmt: skip
        return Profile(
            lambda: (at(shorter), at(2 * shorter)),
            blocks_per_sm=resident,
            tile_rows=rows,
            tile_cols=cols,
            tile_depth=0 if any(it.opcode.startswith("LDGSTS") for it in compiled.sass) else depth * self.split,
            traffic=traffic,
        )

    def arguments(self, m: int, n: int, k: int) -> list[Argument]:
        """New arguments filled with zeros; nothing depends on their values."""
        left, right = (np.dtype(kind) for kind in self.kinds)
        arrays = {"A": np.zeros((m, k), left), "B": np.zeros((k, n), left), "C": np.zeros((self.split, m, n), right)}
        buffers = [Buffer(name, array, output=name == "C") for name, array in arrays.items()]
        return [*buffers, *(Scalar(name, np.int32(value)) for name, value in zip("MNK", (m, n, k), strict=True))]

    def estimate(self, shape: tuple[int, int, int]) -> list[Estimate]:
        """The estimate of each launch on an H200; ``shape`` is M, N, K."""
        from gemm_lessons.engine.hardware.sheets import GPUS
        from gemm_lessons.gemm.time_model import estimate_at

        m, n, k = shape
        found = [estimate_at(self.profile, Shape(m, n, k), self.grid(m, n), GPUS["h200"])]
        if self.reduces:
            found.append(estimate_at(self.adding_up, Shape(m, n, k), (m * n // ADDED_UP, 1, 1), GPUS["h200"]))
        return found

    @cached_property
    def adding_up(self) -> Profile:
        """The profile of the second launch, which adds the parts."""
        from gemm_lessons.engine.hardware.occupancy import occupancy_of
        from gemm_lessons.engine.hardware.sheets import GPUS
        from gemm_lessons.engine.sass.trace import traceable
        from gemm_lessons.engine.simulator import Simulator
        from gemm_lessons.gemm.profile import Movement, Profile

        compiled = self.compiled(entry="reduce")
        resident = occupancy_of(compiled.resources, ADDED_UP, 0, GPUS["h200"]).blocks_per_sm
        code = traceable(compiled, Simulator().kernel(compiled))
        n = resident * ADDED_UP
        arguments: list[Argument] = [
            Buffer("parts", np.zeros((self.split, n), self.kinds[1])),
            Buffer("C", np.zeros(n, self.kinds[1]), output=True),
            Scalar("M", np.int32(1)),
            Scalar("N", np.int32(n)),
        ]
        trace = code.trace(Grid((resident, 1, 1), (ADDED_UP, 1, 1)), arguments, resident)
        size = self.size[1]
        traffic = Movement(
            lambda it: ({"partial": float(self.split * size * it.m * it.n)}, {"C": float(size * it.m * it.n)}),
            lambda _: 0,
            tiled=False,
        )
        return Profile(
            lambda: ((1, trace), (2, trace)), blocks_per_sm=resident, tile_cols=ADDED_UP, traffic=traffic, tiled=False
        )


def _wmma(
    name: str, kinds: tuple[str, str], c: tuple[str, str], tile: tuple[int, ...], stages: int, **more: str | int
) -> Case:
    bm, bn, bk, wm, wn = tile
    size, pad = np.dtype(kinds[0]).itemsize, int(more.get("PAD", 8))
    defines = {"TYPE": c[0], "SUM": c[1], "BM": bm, "BN": bn, "BK": bk, "WM": wm, "WN": wn, "STAGES": stages, **more}
    shared = size * stages * (bm * (bk + pad) + bk * (bn + pad))
    return Case(f"wmma {name}", "wmma.cu", kinds, defines, bm // wm * (bn // wn) * 32, shared)


def _mma(name: str, kinds: tuple[str, str], tile: tuple[int, ...], stages: int, **more: str | int) -> Case:
    bm, bn, bk, wm, wn = tile
    defines = {"BM": bm, "BN": bn, "BK": bk, "WM": wm, "WN": wn, "STAGES": stages, **more}
    shared = np.dtype(kinds[0]).itemsize * stages * bk * (bm + bn)
    return Case(f"mma {name}", "mma.cu", kinds, defines, bm // wm * (bn // wn) * 32, shared)


def _scalar(name: str, kinds: tuple[str, str], c: tuple[str, str], tile: tuple[int, ...], **more: Any) -> Case:
    bm, bn, bk, tm, tn = tile
    own = {field: more.pop(field) for field in ("shapes", "reduces") if field in more}
    defines = {"TYPE": c[0], "SUM": c[1], "BM": bm, "BN": bn, "BK": bk, "TM": tm, "TN": tn, **more}
    return Case(name, "scalar.cu", kinds, defines, bm // tm * (bn // tn), **own)


HALF, BRAIN, BYTE = ("float16", "float32"), ("uint16", "float32"), ("int8", "int32")
DOUBLE, SINGLE, PACKED = ("float64", "float64"), ("float32", "float32"), ("int32", "int32")
WAY = ("half", "float")
DEEP = ((128, 128, 8192), (256, 256, 16384), (512, 512, 8192))
CASES = (
    _wmma("64x64x32 1 stage", HALF, WAY, (64, 64, 32, 32, 32), 1),
    _wmma("128x128x32 1 stage", HALF, WAY, (128, 128, 32, 64, 32), 1),
    _wmma("128x128x32 2 stages", HALF, WAY, (128, 128, 32, 64, 32), 2),
    _wmma("128x128x32 4 stages", HALF, WAY, (128, 128, 32, 64, 64), 4),
    _wmma("128x128x64 3 stages no padding", HALF, WAY, (128, 128, 64, 64, 64), 3, PAD=0),
    _wmma("int8 128x128x64 3 stages", BYTE, ("signed char", "int"), (128, 128, 64, 64, 32), 3, PAD=16),
    _wmma("fp64 64x64x16 3 stages", DOUBLE, ("double", "double"), (64, 64, 16, 32, 32), 3, FM=8, FN=8, FK=4, PAD=2),
    _wmma("tf32 128x128x32 3 stages", SINGLE, ("float", "float"), (128, 128, 32, 64, 32), 3, FM=16, FN=16, FK=8, PAD=4,
          ACROSS="wmma::precision::tf32"),
    _mma("64x64x64 2 stages", HALF, (64, 64, 64, 32, 32), 2),
    _mma("128x128x32 1 stage", HALF, (128, 128, 32, 64, 64), 1),
    _mma("128x128x32 3 stages", HALF, (128, 128, 32, 64, 64), 3),
    _mma("128x128x64 3 stages", HALF, (128, 128, 64, 64, 64), 3),
    _mma("128x128x64 3 stages unswizzled", HALF, (128, 128, 64, 64, 64), 3, SWIZZLE=0),
    _mma("128x128x64 3 stages 8 warps", HALF, (128, 128, 64, 64, 32), 3),
    _mma("128x256x32 3 stages 8 warps", HALF, (128, 256, 32, 64, 64), 3),
    _mma("256x128x64 3 stages 8 warps", HALF, (256, 128, 64, 64, 64), 3),
    _mma("bf16 128x128x32 4 stages", BRAIN, (128, 128, 32, 64, 64), 4, BRAIN=1),
    _mma("int8 128x128x64 3 stages", BYTE, (128, 128, 64, 64, 64), 3, BYTES=1),
    _mma("int8 128x128x128 3 stages", BYTE, (128, 128, 128, 64, 64), 3, BYTES=1),
    _scalar("dgemm 64x64x8 4x4", DOUBLE, ("double", "double"), (64, 64, 8, 4, 4)),
    _scalar("dgemm 128x64x8 8x4", DOUBLE, ("double", "double"), (128, 64, 8, 8, 4)),
    _scalar("dgemm 64x64x16 4x4", DOUBLE, ("double", "double"), (64, 64, 16, 4, 4)),
    _scalar("dp4a 128x128x8 8x8", PACKED, ("int", "int"), (128, 128, 8, 8, 8), PACKED=4),
    _scalar("dp4a 64x64x16 4x8", PACKED, ("int", "int"), (64, 64, 16, 4, 8), PACKED=4),
    _scalar("sgemm ragged 64x64x16 4x4", SINGLE, ("float", "float"), (64, 64, 16, 4, 4), RAGGED=1,
            shapes=((1000, 1000, 1000), (2047, 2047, 2047), (4097, 4097, 4097))),
    _scalar("sgemm split 16, atomics", SINGLE, ("float", "float"), (64, 64, 16, 4, 4), SPLIT=16, ATOMIC=1, shapes=DEEP),
    _scalar("sgemm split 16, two launches", SINGLE, ("float", "float"), (64, 64, 16, 4, 4), SPLIT=16, shapes=DEEP,
            reduces=True),
)  # fmt: skip

SPIN = """
extern "C" __global__ void spin(long long clocks)
{
    const long long start = clock64();
    while (clock64() - start < clocks) {
    }
}
"""


def compile_cases(folder: Path) -> None:
    """A cubin for each kernel."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, case in enumerate(CASES):
        compiled = case.compiled()
        assert not compiled.resources.spill_bytes, case.name
        (folder / f"{number}.cubin").write_bytes(compiled.cubin)
        if case.reduces:
            (folder / f"{number}.reduce.cubin").write_bytes(case.compiled(entry="reduce").cubin)
    spin = must_compile(SPIN, path="spin.cu", entry="spin", arch="sm_90")
    (folder / "spin.cubin").write_bytes(spin.cubin)


class Bench:
    """The kernels of a folder on the current GPU."""

    def __init__(self, folder: Path) -> None:
        import cupy

        self.cupy, self.folder = cupy, folder
        self.spin = self.function("spin.cubin", "spin")
        self.events = [cupy.cuda.Event() for _ in range(2)]

    def function(self, file: str, name: str) -> Any:
        return self.cupy.RawModule(path=str(self.folder / file)).get_function(name)

    def rows(self, number: int, case: Case) -> list[dict[str, Any]]:
        """Every shape of a kernel, verified, then timed."""
        first = self.function(f"{number}.cubin", "gemm")
        first.max_dynamic_shared_size_bytes = case.shared
        second = self.function(f"{number}.reduce.cubin", "reduce") if case.reduces else None
        return [self.row(case, shape, first, second) for shape in case.shapes]

    def draw(self, case: Case, rows: int, cols: int) -> tuple[Any, Any]:
        """A matrix as the kernel takes it, and as float64."""
        cupy, kind = self.cupy, case.kinds[0]
        if case.kinds[1] == "int32":
            bytes_ = cupy.random.randint(-100, 100, (rows, cols)).astype(cupy.int8)
            return bytes_.view(kind), bytes_.astype(cupy.float64)
        values = cupy.random.standard_normal((rows, cols), dtype=cupy.float32)
        if kind == "uint16":  # bfloat16 is the upper half of a float32
            bits = (values.view(cupy.uint32) >> 16).astype(cupy.uint16)
            return bits, (bits.astype(cupy.uint32) << 16).view(cupy.float32).astype(cupy.float64)
        values = values.astype(kind)
        return values, values.astype(cupy.float64)

    def row(self, case: Case, shape: tuple[int, int, int], first: Any, second: Any) -> dict[str, Any]:
        """Verify and time one shape. Raises ``AssertionError`` for a wrong answer."""
        cupy, (m, n, k) = self.cupy, shape
        a, left = self.draw(case, m, k)
        b, right = self.draw(case, *((n, k) if case.by_columns else (k, n)))
        expected = cupy.matmul(left, right.T if case.by_columns else right)
        c = cupy.zeros((case.split if case.reduces else 1, m, n), case.kinds[1])
        whole = cupy.zeros((m, n), case.kinds[1])
        sizes = tuple(np.int32(size) for size in shape)

        def call() -> None:
            first(case.grid(m, n), (case.threads,), (a, b, c, *sizes), shared_mem=case.shared)
            if second is not None:
                second((m * n // ADDED_UP,), (ADDED_UP,), (c, whole, *sizes[:2]))

        call()
        answer = (whole if second is not None else c[0]).astype(cupy.float64)
        error = float(cupy.linalg.norm(answer - expected) / cupy.linalg.norm(expected))
        allowed = next((most for kind, most in ALLOWED.items() if kind in (case.kinds[1], case.name.split()[1])))
        assert error <= allowed, f"{case.name} {shape}: {error}"
        times = [self.timed(call) for _ in range(REPEATS)]
        return {"kernel": case.name, "shape": shape, "median_us": round(statistics.median(times), 2), "error": error}

    def timed(self, call: Callable[[], None]) -> float:
        """Microseconds, the launch hidden."""
        start, stop = self.events
        self.spin((1,), (1,), (np.int64(SPIN_CLOCKS),))
        start.record()
        call()
        stop.record()
        stop.synchronize()
        return float(self.cupy.cuda.get_elapsed_time(start, stop)) * 1e3


def run(folder: Path, target: Path) -> None:
    """Measure every case on the current GPU; store the rows in ``target``."""
    import cupy

    bench = Bench(folder)
    rows = []
    for number, case in enumerate(CASES):
        try:
            rows += bench.rows(number, case)
        except (AssertionError, cupy.cuda.driver.CUDADriverError) as problem:
            print(f"{case.name}: {problem}", flush=True)
    about = {
        "what": "python -m checks.estimate.matrices: times, the launch hidden, L2 warm",
        "date": time.strftime("%Y-%m-%d"),
        "gpu": cupy.cuda.runtime.getDeviceProperties(0)["name"].decode(),
    }
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    target.write_text(json.dumps(about, indent=1)[:-2] + f',\n "rows": [\n{lines}\n ]\n}}\n')


if __name__ == "__main__":
    help_if_asked(__doc__)
    match sys.argv[1:]:
        case ["compile", folder]:
            compile_cases(Path(folder))
        case ["run", folder, target]:
            run(Path(folder), Path(target))
