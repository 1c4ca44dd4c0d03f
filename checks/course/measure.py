"""Measure the course's solutions beside cuBLAS on a GPU: where ``lessons/measured/h200.json`` comes from.

    python -m checks.course.measure compile DIR                # here: machine code of every solution
    python -m checks.course.measure run DIR lessons/measured/h200.json    # on a machine with the GPU and cupy

One process, one launch of every kernel in turn, round after round, so that clocks and temperature are the same for all.
Every answer is compared with float64 before anything is timed; C holds NaN before each of those launches.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
ROUNDS = {128: 60, 256: 60, 512: 60, 1024: 40, 2048: 20, 4096: 9, 8192: 7}
SLOW_ROUNDS = 3  # of the first lessons at large sizes, where one launch takes a tenth of a second or more
CHECKS = ((512, 256, 96), (256, 512, 272), (384, 640, 48), (256, 256, 16))
WARM_UP = 2.0  # seconds of work before the first timing, until the clocks have settled
GPU_ARCH = "sm_90"


def compile_solutions(folder: Path) -> None:
    """Write ``NN_name.cubin`` and what the launch needs."""
    from gemm_lessons.compiler import Compiled, compile_source
    from gemm_lessons.course import Course

    folder.mkdir(parents=True, exist_ok=True)
    course = Course(ROOT)
    kernels = []
    for name in course.names:
        lesson = course.lesson(name)
        compiled = compile_source(
            lesson.solution_path.read_text(),
            path=str(lesson.solution_path),
            entry=lesson.kernel.entry,
            defines=lesson.tile.defines,
            include_dirs=lesson.include_dirs,
            arch=GPU_ARCH,
        )
        assert isinstance(compiled, Compiled), name
        (folder / f"{name}.cubin").write_bytes(compiled.cubin)
        kernels.append({"name": name, "entry": compiled.entry})
    (folder / "kernels.json").write_text(json.dumps({"compiler": compiled.compiler, "kernels": kernels}))


class Bench:
    """The kernels of a folder on the current GPU."""

    def __init__(self, folder: Path) -> None:
        import cupy

        from gemm_lessons.course import Course

        self.cupy = cupy
        about = json.loads((folder / "kernels.json").read_text())
        self.compiler = about["compiler"]
        course = Course(ROOT)
        self.lessons = {k["name"]: course.lesson(k["name"]) for k in about["kernels"]}
        self.functions = {
            k["name"]: cupy.RawModule(path=str(folder / f"{k['name']}.cubin")).get_function(k["entry"])
            for k in about["kernels"]
        }
        self.events = [cupy.cuda.Event() for _ in range(2)]

    def launch(self, name: str, a: Any, b: Any, c: Any) -> Callable[[], None]:
        """C = A B by one lesson's solution, ready to go: only the launch itself may stand between the events."""
        import numpy as np

        from gemm_lessons.lesson import Shape

        m, k = a.shape
        grid = self.lessons[name].grid(Shape(m, b.shape[1], k))
        arguments = (a, b, c, np.int32(m), np.int32(b.shape[1]), np.int32(k))
        return partial(self.functions[name], grid.grid, grid.block, arguments, shared_mem=grid.dynamic_shared)

    def random(self, *shape: int) -> Any:
        return self.cupy.random.standard_normal(shape, dtype=self.cupy.float32)

    def insist(self, call: Callable[[], None], a: Any, b: Any, c: Any, what: str) -> None:
        """Run ``call`` on a poisoned C and compare with float64."""
        c.fill(self.cupy.nan)
        call()
        reference = self.cupy.matmul(a.astype(self.cupy.float64), b.astype(self.cupy.float64))
        error = float(self.cupy.linalg.norm(c - reference) / self.cupy.linalg.norm(reference))
        allowed = 2**-24 * a.shape[1] ** 0.5  # K rounding errors in random directions
        assert error <= allowed, f"{what}: relative error {error}, allowed {allowed}"  # NaN fails too

    def timed(self, call: Callable[[], None]) -> float:
        """Microseconds of one call between two events."""
        start, stop = self.events
        start.record()
        call()
        stop.record()
        stop.synchronize()
        return float(self.cupy.cuda.get_elapsed_time(start, stop)) * 1e3

    def size(self, n: int) -> list[dict[str, Any]]:
        """All kernels at n^3."""
        a, b, c = self.random(n, n), self.random(n, n), self.cupy.empty((n, n), self.cupy.float32)
        calls: dict[str, Callable[[], None]] = {"cublas": lambda: self.cupy.matmul(a, b, out=c)}
        for name in self.functions:
            calls[name] = self.launch(name, a, b, c)
        for name, call in calls.items():
            if n <= 4096:
                self.insist(call, a, b, c, f"{name} at {n}")
            else:
                call()
        times: dict[str, list[float]] = {name: [] for name in calls}
        for turn in range(ROUNDS[n]):
            for name, call in calls.items():
                if not (n >= 4096 and name < "04" and turn >= SLOW_ROUNDS):
                    times[name].append(self.timed(call))
        base = statistics.median(times["cublas"])
        return [row(name, n, sorted(found), base) for name, found in times.items()]


def row(name: str, n: int, times: list[float], base: float) -> dict[str, Any]:
    """One line of the data; ``times`` sorted, in microseconds."""
    median = statistics.median(times)
    last = len(times) - 1
    return {
        "kernel": name,
        "size": n,
        "median_us": round(median, 3),
        "p10_us": round(times[round(0.1 * last)], 3),
        "p90_us": round(times[round(0.9 * last)], 3),
        "repeats": len(times),
        "tflops": round(2 * n**3 / median / 1e6, 3),
        "percent_of_cublas": round(100 * base / median, 2),
    }


def run(folder: Path, target: Path) -> None:
    import cupy

    bench = Bench(folder)
    for m, n, k in CHECKS:
        a, b, c = bench.random(m, k), bench.random(k, n), cupy.empty((m, n), cupy.float32)
        for name in bench.functions:
            bench.insist(bench.launch(name, a, b, c), a, b, c, f"{name} {m}x{n}x{k}")
    a, b = bench.random(4096, 4096), bench.random(4096, 4096)
    until = time.monotonic() + WARM_UP
    while time.monotonic() < until:
        cupy.matmul(a, b)
        cupy.cuda.Device().synchronize()
    rows = []
    for n in ROUNDS:
        found = bench.size(n)
        rows += found
        print(n, "  ".join(f"{r['kernel'][:6]} {r['percent_of_cublas']:.1f}" for r in found), flush=True)
    runtime = cupy.cuda.runtime
    cublas = cupy.cuda.cublas.getVersion(cupy.cuda.device.get_cublas_handle())
    data = {
        "schema": "gemm-lessons/measured/1",
        "gpu": runtime.getDeviceProperties(0)["name"].decode(),
        "date": time.strftime("%Y-%m-%d"),
        "command": "python -m checks.course.measure compile DIR; python -m checks.course.measure run DIR FILE",
        "driver": driver_version(),
        "cuda_driver": dotted(runtime.driverGetVersion(), 1000, 10),
        "cublas": ".".join(str(part) for part in (cublas // 10000, cublas // 100 % 100, cublas % 100)),
        "cupy": cupy.__version__,
        "compiler": f"{bench.compiler} -arch={GPU_ARCH}",
        "what": "C = A B, fp32, square, standard normal inputs. The eight solutions and cuBLAS (cupy.matmul, no TF32),"
        " one launch each in turn, round after round; every answer compared with float64 before timing.",
        "how": "CUDA events around one launch, median over the repeats, no L2 flush; percent_of_cublas is cuBLAS's"
        " median over the kernel's median of the same size.",
        "rows": rows,
    }  # fmt: skip
    head = json.dumps({key: value for key, value in data.items() if key != "rows"}, indent=1)[:-2]
    lines = ",\n".join("  " + json.dumps(found) for found in rows)  # a line a row: differences stay readable
    target.write_text(f'{head},\n "rows": [\n{lines}\n ]\n}}\n')


def dotted(version: int, major: int, minor: int) -> str:
    return f"{version // major}.{version % major // minor}"


def driver_version() -> str:
    """The driver as its kernel module states it; "" where it does not."""
    try:
        words = Path("/proc/driver/nvidia/version").read_text().split()
    except OSError:
        return ""
    return next((word for word in words if word[:1].isdigit() and word.count(".") == 2), "")


if __name__ == "__main__":
    if sys.argv[1] == "compile":
        compile_solutions(Path(sys.argv[2]))
    else:
        run(Path(sys.argv[2]), Path(sys.argv[3]))
