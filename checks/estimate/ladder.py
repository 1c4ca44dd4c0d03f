"""A ladder of Hopper kernels, from one stage by TMA to C stored while the next tile is multiplied: times and estimates.

    python -m checks.estimate.ladder                    estimated beside measured; --write: into ESTIMATE.md
    python -m checks.estimate.ladder compile DIR        cubins
    python -m checks.estimate.ladder run DIR NAME.json  their times beside cuBLAS, on a machine with CuPy and the GPU

C = A B^T in bf16 with fp32 sums. The answers are compared with cuBLAS's before anything is timed. Each kernel is timed
alone after a pause, and then on end: back to back for ``SECONDS``, at the clock that the chip sustains with it. The
order of kernels is random.
"""

from __future__ import annotations

import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np

from checks import readings
from checks.course import kernel
from checks.usage import help_if_asked
from gemm_lessons.devices.gpu import hold
from gemm_lessons.devices.gpu.measure import Stopwatch
from gemm_lessons.engine.records.launch import Argument, Buffer, Grid, Scalar, TensorMap
from gemm_lessons.gemm.shapes import Shape, Shapes, TileSizes

if TYPE_CHECKING:
    from gemm_lessons.engine.compiler.compile import Compiled
    from gemm_lessons.engine.hardware.sheets import GpuSpec
    from gemm_lessons.gemm.profile import Profile
    from gemm_lessons.gemm.time_model import Estimate

KERNELS = Path(__file__).parent / "kernels" / "hopper"
COMMON = Path(__file__).parents[2] / "lessons" / "common"
MEASURED = COMMON.parent / "measured"
READINGS = readings.FOLDER / "estimate"
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
    cluster: int = 1  # blocks
    products: bool = True

    @property
    def threads(self) -> int:
        return 128 if self.file == "stages.cu" else 384

    @property
    def rows(self) -> int:
        """Rows of a block's tile of C; it has ``cols`` columns."""
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
        path = KERNELS / self.file
        defines = {"STAGES": self.stages, "STAY": int(self.stays), "TMA_STORE": int(self.tma_store)}
        if self.file == "roles.cu":
            defines["CLUSTER"] = self.cluster
        if not self.products:
            defines["NO_PRODUCTS"] = 1
        return kernel.compiled(path.read_text(), path, "gemm", defines, [KERNELS, COMMON], arch="sm_90a")

    def grid(self, shape: Shape) -> Grid:
        """Blocks of a product."""
        cols, rows = shape.n // self.cols, shape.m // self.rows
        blocks = (min(SMS, cols * rows), 1, 1) if self.stays else (cols, rows, 1)
        cluster = (self.cluster, 1, 1) if self.cluster > 1 else None
        return Grid(blocks, (self.threads, 1, 1), self.shared, cluster)

    def boxes(self) -> dict[str, tuple[int, int]]:
        """Rows and columns of each tensor map's box."""
        return {"A": (self.rows, BK), "B": (self.cols // self.cluster, BK), "C": (64, BK)}

    def arguments(self, shape: Shape) -> list[Argument]:
        """New arguments filled with zeros; the time does not depend on their values."""
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
        """The profile that the estimate is computed from, as for a lesson's kernel."""
        from gemm_lessons.engine.hardware.occupancy import occupancy_of
        from gemm_lessons.gemm.profile import Movement, Subject, profile_of

        resident = occupancy_of(self.compiled.resources, self.threads, self.shared, gpu).blocks_per_sm
        tile = TileSizes(self.rows, self.cols, BK)
        multiple = Shape(self.rows * self.cluster, self.cols, BK)
        moved = Movement(
            lambda it: ({"A": 2.0 * it.m * it.k, "B": 2.0 * it.n * it.k}, {"C": 2.0 * it.m * it.n}),
            lambda it: 2 * it.m * it.n * it.k,
            2,
            2,
            2,
        )
        subject = Subject(
            self.compiled,
            self.grid,
            self.arguments,
            tile,
            Shapes(check=(multiple,), count=multiple, multiple_of=multiple),
            moved,
            staying=self.grid(Shape(size, size, size)).blocks if self.stays else 0,
        )
        return profile_of(subject, resident)

    def estimate(self, size: int, gpu: GpuSpec, *, on_end: bool = True) -> Estimate:
        """The estimate at M = N = K = ``size``; ``on_end``: of launches back to back."""
        from gemm_lessons.gemm.time_model import estimate_at

        shape = Shape(size, size, size)
        return estimate_at(self.profile(size, gpu), shape, self.grid(shape).grid, gpu, on_end=on_end)


STEPS = (
    Step(1, "one stage", "stages.cu", 1, 128),
    Step(2, "three stages", "stages.cu", 3, 128),
    Step(3, "producer and consumers", "roles.cu", 4),
    Step(4, "blocks that stay", "roles.cu", 4, stays=True),
    Step(5, "clusters of two", "roles.cu", 4, stays=True, cluster=2),
    Step(6, "C stored by TMA", "roles.cu", 3, stays=True, tma_store=True),
    Step(7, "clusters, C stored by TMA", "roles.cu", 3, stays=True, tma_store=True, cluster=2),
)


@dataclass(frozen=True)
class Compared:
    """A step on a card: TFLOP/s estimated and measured, and those of cuBLAS there."""

    gpu: str
    step: Step
    size: int
    estimated: float
    measured: float
    cublas: float
    clock_ghz: float

    @property
    def error(self) -> float:
        return self.estimated / self.measured - 1

    @property
    def shares(self) -> tuple[float, float]:
        """Percent of cuBLAS, estimated and measured; cuBLAS as measured."""
        return 100 * self.estimated / self.cublas, 100 * self.measured / self.cublas


def measured(gpu: str, on_end: bool) -> dict[tuple[str, int], float]:
    """Stored TFLOP/s by kernel and size: of launches back to back (``on_end``), or of one after a pause."""
    found = json.loads((READINGS / f"ladder_{gpu}.json").read_text())
    if "rows" in found:
        return {
            (row["kernel"], row["size"]): tera(row["size"], row["us" if on_end else "alone_us"])
            for row in found["rows"]
        }
    sizes = found["sizes"]
    return {
        (name, size): speed for name, row in found["tflops"].items() for size, speed in zip(sizes, row, strict=True)
    }


def tera(size: int, time_us: float) -> float:
    """TFLOP/s of a square product."""
    return 2 * size**3 / time_us / 1e6


def compared(
    gpu: str, steps: Sequence[Step] = STEPS, sizes: Sequence[int] = SIZES[1:], *, on_end: bool = True
) -> Iterator[Compared]:
    """Yield estimates beside the stored readings: of launches back to back, or of one queued after another kernel."""
    from gemm_lessons.engine.estimate.chip import BETWEEN_US, LAUNCH_US, NEXT_US
    from gemm_lessons.engine.hardware.sheets import GPUS

    begins = BETWEEN_US if on_end else NEXT_US
    speeds = measured(gpu, on_end)
    for step in steps:
        for size in sizes:
            found = step.estimate(size, GPUS[gpu], on_end=on_end)
            speed = tera(size, found.time_us - LAUNCH_US + begins)
            cublas = speeds["cublas", size]
            yield Compared(gpu, step, size, speed, speeds[str(step.number), size], cublas, found.clock_ghz)


# Lessons that no constant was fitted to, and the files of their times.
LESSONS = {"wgmma": "h200_hopper.json", "roles": "h200_roles.json", "persistent": "h200_persistent.json"}


def lessons(sizes: Sequence[int] = SIZES[1:]) -> Iterator[tuple[str, int, float, float]]:
    """Yield TFLOP/s of the lessons with ``wgmma``, estimated and measured: name, size, both."""
    from gemm_lessons.course.folder import packaged_course
    from gemm_lessons.engine.estimate.chip import LAUNCH_US, NEXT_US
    from gemm_lessons.engine.hardware.sheets import GPUS
    from gemm_lessons.gemm.time_model import Estimator
    from gemm_lessons.running.estimating import estimator_of

    course = packaged_course()
    for name, file in LESSONS.items():
        rows = json.loads((MEASURED / file).read_text())["rows"]
        times = {row["size"]: row["warm"]["median_us"] for row in rows if row["kernel"] == name}
        for size in sizes:
            shape = Shape(size, size, size)
            found = course.lesson(name).at(shape)
            estimator = estimator_of(found, [kernel.Kernel.solution(found).compiled()], GPUS["h200"], shape)
            assert isinstance(estimator, Estimator), f"{name}: {estimator}"
            time_us = estimator.at(shape, GPUS["h200"]).time_us - LAUNCH_US + NEXT_US
            yield name, size, tera(size, time_us), tera(size, times[size])


def page_tables() -> dict[str, str]:
    """Return the tables of ESTIMATE.md that this module fills in, by name."""
    lines = ["| step | card | 2048 | 4096 | 8192 | clock at 8192 |", "|---|---|---:|---:|---:|---:|"]
    sums = ["| card | times | median error | largest | share of cuBLAS off by, at most |", "|---|---:|---:|---:|---:|"]
    found = {gpu.upper(): list(compared(gpu)) for gpu in ("h200", "h100")}
    found["H200, once"] = list(compared("h200", on_end=False))
    for step in STEPS:
        for gpu, rows in found.items():
            own = [it for it in rows if it.step == step]
            cells = [f"{it.estimated:.0f} / {it.measured:.0f}, {it.shares[0]:.0f}% / {it.shares[1]:.0f}%" for it in own]
            lines.append(f"| {step.name} | {gpu} | {' | '.join(cells)} | {own[-1].clock_ghz:.2f} GHz |")
    for gpu, rows in found.items():
        far = [abs(it.error) for it in rows]
        points = max(abs(it.shares[0] - it.shares[1]) for it in rows)
        sums.append(f"| {gpu} | {len(far)} | {statistics.median(far):.1%} | {max(far):.1%} | {points:.0f} points |")
    own_lessons = ["| lesson, H200, once | 2048 | 4096 | 8192 |", "|---|---:|---:|---:|"]
    for name, some in groupby(lessons(), key=itemgetter(0)):
        cells = [f"{guess:.0f} / {truth:.0f}, {guess / truth - 1:+.1%}" for _, _, guess, truth in some]
        own_lessons.append(f"| {name} | {' | '.join(cells)} |")
    tables = {"ladder": lines, "ladder_errors": sums, "ladder_lessons": own_lessons}
    return {name: "\n".join(rows) + "\n" for name, rows in tables.items()}


SPIN = 'extern "C" __global__ void spin(long long n) { for (long long t = clock64(); clock64() - t < n;); }'
SPIN_CLOCKS = 120_000
SECONDS, REPEATS, SEED = 0.5, 15, 7
# Seconds before a kernel is timed alone. 50 ms after a second of full power, an H200 ran these kernels at 1.49 to 1.60
# GHz; after 0.4 s it ran them at 1.66 to 1.75.
PAUSE = 0.3
HOLD = "hold.cubin"
ALONE = "copies alone"


def variants() -> dict[str, Step]:
    """The kernels to compile and time, by name: all steps, and steps 2 to 5 without products."""
    named = {str(step.number): step for step in STEPS}
    return named | {f"{number} {ALONE}": replace(named[number], products=False) for number in "2345"}


def compile_all(folder: Path) -> None:
    """Write a cubin for each variant, and that of ``Hold``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / HOLD).write_bytes(kernel.compiled(hold.SOURCE, Path("hold.cu"), hold.ENTRY, {}, []).cubin)
    for name, step in variants().items():
        (folder / f"{name.replace(' ', '_')}.cubin").write_bytes(step.compiled.cubin)


class Watch:
    """Samples the SM clock in MHz and the power in watts, through NVML, while kernels run back to back."""

    def __init__(self) -> None:
        import pynvml

        pynvml.nvmlInit()
        self._nvml, self._device = pynvml, pynvml.nvmlDeviceGetHandleByIndex(0)
        self._samples: list[tuple[float, int, float]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample)

    def _sample(self) -> None:
        nvml = self._nvml
        while not self._over.is_set():
            clock = nvml.nvmlDeviceGetClockInfo(self._device, nvml.NVML_CLOCK_SM)
            power = nvml.nvmlDeviceGetFieldValues(self._device, [nvml.NVML_FI_DEV_POWER_INSTANT])[0].value.uiVal
            self._samples.append((time.perf_counter(), clock, power / 1e3))
            time.sleep(0.01)

    def seconds(self, length: float) -> Iterator[int]:
        """Number launches until the time is over; the caller launches one for each."""
        import cupy

        self._thread.start()
        start = time.perf_counter()
        number = 0
        while time.perf_counter() - start < length:
            yield number
            number += 1
            cupy.cuda.runtime.deviceSynchronize()
        self._half = (start + time.perf_counter()) / 2

    def end(self) -> None:
        """Stop sampling."""
        self._over.set()
        self._thread.join()

    @property
    def found(self) -> dict[str, float]:
        """Medians of the second half."""
        half = [it for it in self._samples if it[0] > self._half] or self._samples
        return {
            "mhz": statistics.median(it[1] for it in half),
            "watts": round(statistics.median(it[2] for it in half), 1),
        }


def random_bf16(shape: tuple[int, int]) -> Any:
    """Standard normal numbers as bf16, in 16-bit integers on the GPU."""
    import cupy

    values = cupy.random.standard_normal(shape, dtype=cupy.float32)
    return ((values.view(cupy.uint32) + 0x8000) >> 16).astype(cupy.uint16)


def launches(folder: Path) -> Iterator[tuple[str, int, Callable[[], None]]]:
    """Yield name, size and launch of every case; its answer has been checked, except of kernels without products."""
    import cupy

    torch: Any = import_module("torch")

    from gemm_lessons.devices.gpu.functions import tensor_map

    for size in SIZES:
        a, b = random_bf16((size, size)), random_bf16((size, size))
        c = cupy.zeros((size, size), cupy.uint16)
        mine, others = (torch.as_tensor(x.view(cupy.int16), device="cuda").view(torch.bfloat16) for x in (a, b))
        right = torch.empty((size, size), dtype=torch.bfloat16, device="cuda")
        shape = Shape(size, size, size)

        def cublas(mine: Any = mine, others: Any = others, right: Any = right) -> None:
            torch.matmul(mine, others.T, out=right)

        cublas()
        torch.cuda.synchronize()
        yield ("cublas", size, cublas)
        for name, step in variants().items():
            if ALONE in name and size < 4096:
                continue
            function = cupy.RawModule(path=str(folder / f"{name.replace(' ', '_')}.cubin")).get_function("gemm")
            function.max_dynamic_shared_size_bytes = step.shared
            maps = []
            for matrix, box in ((a, step.boxes()["A"]), (b, step.boxes()["B"]), (c, step.boxes()["C"])):
                about = TensorMap(np.broadcast_to(np.uint16(0), (size, size)), box, ROW, "bfloat16")
                described = {**about.described, "sizes": (size, size), "strides": (2 * size,)}
                maps.append(tensor_map(matrix.data.ptr, described))
            grid = step.grid(shape)
            given = (*maps, c, *[np.int32(size)] * 3)

            def launch(function: Any = function, grid: Grid = grid, given: Any = given) -> None:
                function(grid.grid, grid.block, given, shared_mem=grid.dynamic_shared)

            c.fill(0x7FC0)
            launch()
            cupy.cuda.runtime.deviceSynchronize()
            if step.products:
                got = torch.as_tensor(c.view(cupy.int16), device="cuda").view(torch.bfloat16).float()
                error = float((got - right.float()).norm() / right.float().norm())
                print(name, size, f"error {error:.1e}", flush=True)
                assert error < 1e-2, (name, size, error)
            yield (name, size, launch)


def run(folder: Path, target: Path) -> None:
    """Time every case on the current GPU in random order, alone after a pause and back to back; store the rows."""
    import cupy

    random = Random(SEED)
    spin = cupy.RawKernel(SPIN, "spin")
    stopwatch = Stopwatch(cupy.cuda.runtime)
    held = hold.Hold(cupy.cuda.runtime, (folder / HOLD).read_bytes())
    cases = list(launches(folder))
    rows = []
    for turn in range(2):
        random.shuffle(cases)
        for name, size, launch in cases:
            events = [cupy.cuda.Event() for _ in range(2)]
            time.sleep(PAUSE)
            each = [stopwatch.time_held_us(launch, held) for _ in range(REPEATS)]
            alone = statistics.median(each[3:])
            watch = Watch()
            batch = max(1, min(200, int(5e3 / alone)))
            times = []
            start = time.perf_counter()
            for _ in watch.seconds(SECONDS):
                spin((1,), (1,), (np.int64(2 * SPIN_CLOCKS if batch > 1 else 1000),))
                events[0].record()
                for _ in range(batch):
                    launch()
                events[1].record()
                events[1].synchronize()
                times.append((time.perf_counter() - start, cupy.cuda.get_elapsed_time(*events) * 1e3 / batch))
            watch.end()
            late = [it for at, it in times if at > SECONDS / 2] or [times[-1][1]]
            found = {"alone_us": round(alone, 2), "us": round(statistics.median(late), 2), **watch.found}
            rows.append({"kernel": name, "size": size, "turn": turn, **found})
            print(rows[-1], flush=True)
    about = {
        "what": "python -m checks.estimate.ladder: microseconds of a launch, alone after a pause and on end",
        "date": time.strftime("%Y-%m-%d"),
        "gpu": cupy.cuda.runtime.getDeviceProperties(0)["name"].decode(),
        "rows": rows,
    }
    target.write_text(json.dumps(about) + "\n")


if __name__ == "__main__":
    help_if_asked(__doc__)
    if sys.argv[1:2] == ["compile"]:
        compile_all(Path(sys.argv[2]))
    elif sys.argv[1:2] == ["run"]:
        run(Path(sys.argv[2]), Path(sys.argv[3]))
    elif sys.argv[1:2] == ["--write"]:
        from checks.estimate.table import rewritten
        from checks.estimate.texts import PAGE

        PAGE.write_text(rewritten(PAGE.read_text(), page_tables()))
    else:
        print("\n".join(page_tables().values()))
