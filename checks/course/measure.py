"""Measure the course's solutions beside cuBLAS on a GPU: where ``lessons/measured/h200.json`` comes from.

    python -m checks.course.measure compile DIR                # here: machine code of every solution
    python -m checks.course.measure run DIR lessons/measured/h200.json    # on a machine with the GPU and cupy

One process, rounds of one launch of every kernel, so that clocks and temperature are the same for all. Each round has
an order of its own: what ran before a launch says how fast the clock is, by up to 4% at 8192.
Every answer is compared with float64 before anything is timed; C holds NaN before each of those launches. Timed are

    idle     on an idle GPU, L2 as the launch before left it: what one call costs, the launch included
    warm     behind another kernel, so that the launch is hidden; L2 as the launch before left it
    cold     behind a fill of 128 MiB, so that the launch is hidden and L2 holds nothing of A and B: what
             ``gemm-lessons bench`` does
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from checks.course.kernel import GPU_ARCH, Kernel
from gemm_lessons.course.folder import Course
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.course.pitfalls import resized
from gemm_lessons.course.tiles import typed
from gemm_lessons.devices.gpu.functions import DEFAULT_SHARED_LIMIT
from gemm_lessons.gemm.shapes import Shape

ROOT = Path(__file__).parent.parent.parent
ROUNDS = {128: 60, 256: 60, 512: 60, 1024: 40, 2048: 20, 4096: 9, 8192: 7}
SLOW = ("naive", "coalesced", "block_tile")
BY_SQUARES = "beat_cublas"  # its host chooses among tiles, and other sizes matter
SLOW_ROUNDS = 3  # of these at large sizes, where one launch takes a tenth of a second or more
CHECKS = ((512, 256, 96), (256, 512, 272), (384, 640, 48), (256, 256, 16), (256, 128, 1040))
WARM_UP = 2.0  # seconds of work before the first timing, until the clocks have settled
FLUSH_BYTES = 128 << 20  # as in gemm_lessons.devices.gpu; more than twice the L2 cache of an H200
SPIN_CLOCKS = 80_000  # 40 us: the host has queued event, kernel and event before they have passed
SPIN = """
extern "C" __global__ void spin(long long clocks)
{
    const long long start = clock64();
    while (clock64() - start < clocks) {
    }
}
"""
FLOAT32, COMPUTE_32F = 0, 68  # cudaDataType_t, cublasComputeType_t: no TF32 unless the math mode asks for it
IDLE, WARM, COLD = "idle", "warm", "cold"

Call = Callable[[], None]


def solutions() -> list[Kernel]:
    """Of the lessons that ask for the same as the first one, C = A B in float32; ``squares`` measures beat_cublas."""
    course = Course(ROOT)
    lessons = [course.lesson(name) for name in course.names]
    at = lessons[0].shapes.count.names
    alike = [it for it in lessons if it.data.asks_the_same(lessons[0].data, at)]
    return [Kernel.solution(it) for it in alike if it.name[3:] != BY_SQUARES]


def squares() -> list[Shape]:
    """All that is measured, and what is verified before."""
    return [*(Shape(n, n, n) for n in (4096, *ROUNDS)), *(Shape(*sizes) for sizes in CHECKS)]


def compile_kernels(folder: Path, kernels: Iterable[Kernel], shapes: Iterable[Shape] | None = None) -> None:
    """Write a cubin for each, several where the host chooses among them, and ``kernels.json`` with what the launches
    need. The resources that are shown are those of the first, at 4096."""
    from gemm_lessons.engine.compiler.compile import Compiled, compile_source

    folder.mkdir(parents=True, exist_ok=True)
    listed = []
    shapes = squares() if shapes is None else list(shapes)
    every = [chosen for kernel in kernels for chosen in (kernel.chosen(shapes) if shapes else [kernel])]
    for number, kernel in enumerate(every):
        lesson = kernel.lesson
        own = {name: size for name, size in lesson.tile.sizes if name not in dict(lesson.choices)}
        compiled = kernel.compiled()
        (folder / f"{number}.cubin").write_bytes(compiled.cubin)
        found = compiled.resources
        listed.append({
            "name": kernel.name,
            "lesson": lesson.name,
            "type": lesson.type,
            "tile": own,
            "chosen": lesson.tile.defines,
            "file": f"{number}.cubin",
            "entry": compiled.entry,
            "resources": {
                "registers": found.registers,
                "spill_bytes": found.spill_bytes,
                "shared_bytes": found.shared_bytes,
            },
        })  # fmt: skip
    spin = compile_source(SPIN, path="spin.cu", entry="spin", defines={}, include_dirs=(), arch=GPU_ARCH)
    assert isinstance(spin, Compiled)
    (folder / "spin.cubin").write_bytes(spin.cubin)
    (folder / "kernels.json").write_text(json.dumps({"compiler": spin.compiler, "kernels": listed}))


def tensor_maps(lesson: Lesson, shape: Shape, known: Mapping[str, Any]) -> dict[str, Any]:
    """The lesson's tensor maps by name, over buffers that are ``known``."""
    from gemm_lessons.devices.gpu.functions import tensor_map

    found = {}
    for one in lesson.data.maps:
        layout = lesson.data.lay_out(shape.names)[one.buffer]
        given = lesson.data.tensor_map(one.name, layout.element.untouched(layout.shape), layout, shape.names)
        found[one.name] = tensor_map(known[one.buffer].data.ptr, given.described)
    return found


class Bench:
    """The kernels of a folder on the current GPU. ``spins``: clocks for which a kernel spins in front of a call."""

    spins: ClassVar[Mapping[str, int]] = {WARM: SPIN_CLOCKS}

    def __init__(self, folder: Path) -> None:
        import cupy
        import numpy as np
        from cupy.cuda import cublas

        self.cupy, self.np, self.cublas = cupy, np, cublas
        about = json.loads((folder / "kernels.json").read_text())
        self.compiler = about["compiler"]
        course = Course(ROOT)
        self.resources: dict[str, dict[str, int]] = {"cublas": {}}
        self.lessons: dict[str, Lesson] = {}
        self.functions: dict[str, dict[tuple[tuple[str, int], ...], Any]] = {}  # by name, and by what the host chose
        self.loaded: dict[tuple[str, tuple[tuple[str, int], ...]], Any] = {}  # with those of all launches
        for kernel in about["kernels"]:
            name = kernel["name"]
            self.resources.setdefault(name, kernel["resources"])
            lesson = course.lesson(kernel["lesson"])
            self.lessons[name] = resized(typed(lesson, kernel["type"]) if kernel["type"] else lesson, kernel["tile"])
            module, chosen = cupy.RawModule(path=str(folder / kernel["file"])), tuple(sorted(kernel["chosen"].items()))
            self.functions.setdefault(name, {})[chosen] = module.get_function(kernel["entry"])
            self.loaded[name, chosen] = module
        self.room: dict[str, Any] = {}  # scratch buffers by name, which all kernels share
        self.spin = cupy.RawModule(path=str(folder / "spin.cubin")).get_function("spin")
        self.scratch = cupy.empty(FLUSH_BYTES, cupy.uint8)
        self.events = [cupy.cuda.Event() for _ in range(2)]
        self.textures: list[Any] = []  # as long as kernels read through them
        self.handle = cublas.create()
        self.scalars = np.ones(1, np.float32), np.zeros(1, np.float32)

    def call(
        self, name: str, a: Any, b: Any, c: Any, layout: str = "NN", more: Mapping[str, Any] = MappingProxyType({})
    ) -> Call:
        """C = A B by one kernel, ready to go: only its launches may stand between the events. ``layout``: T for a
        factor that is given as its transpose. ``more``: what the kernel takes beside matrices and sizes."""
        (m, n), k = c.shape, a.shape["NT".index(layout[0]) - 1]
        if name == "cublas":  # counts columns first: C^T = B^T A^T
            one, zero = (scalar.ctypes.data for scalar in self.scalars)
            ways = ("NT".index(layout[1]), "NT".index(layout[0]))
            left, right = (b.data.ptr, FLOAT32, b.shape[1]), (a.data.ptr, FLOAT32, a.shape[1])
            product = (c.data.ptr, FLOAT32, n, COMPUTE_32F, -1)
            return partial(self.cublas.gemmEx, self.handle, *ways, n, m, k, one, *left, *right, zero, *product)
        shape = Shape(m, n, k, layout=layout)
        lesson = self.lessons[name].at(shape)
        chosen = tuple(sorted(lesson.tile.sizes))
        sizes = {"M": m, "N": n, "K": k, "lda": a.shape[1], "ldb": b.shape[1], "ldc": n}
        known = {"A": a, "B": b, "C": c, **{size: self.np.int32(value) for size, value in sizes.items()}, **more}
        known |= self.scratch_of(lesson, shape)
        known |= tensor_maps(lesson, shape, known)
        for parameter in (it for launch in lesson.launches for it in lesson.parameters(launch)):
            if parameter.kind == "texture":
                known[parameter.name] = self.texture(known[parameter.source], parameter.channels)
        calls: list[Call] = []
        for launch, grid in zip(lesson.launches, lesson.grids(shape), strict=True):
            function = self.loaded[name, chosen].get_function(launch.entry)
            if grid.dynamic_shared > DEFAULT_SHARED_LIMIT:
                function.max_dynamic_shared_size_bytes = grid.dynamic_shared
            arguments = tuple(known[parameter] for parameter in launch.parameters)
            calls.append(partial(function, grid.grid, grid.block, arguments, shared_mem=grid.dynamic_shared))
        return calls[0] if len(calls) == 1 else partial(in_a_row, calls)

    def scratch_of(self, lesson: Lesson, shape: Shape) -> dict[str, Any]:
        """The lesson's scratch buffers, as large as any kernel has wanted them."""
        for layout in lesson.data.lay_out(shape.names).values():
            if layout.role == "scratch" and getattr(self.room.get(layout.name), "nbytes", 0) < layout.nbytes:
                self.room[layout.name] = self.cupy.empty(layout.nbytes, self.cupy.uint8)
        return dict(self.room)

    def texture(self, array: Any, channels: int) -> Any:
        """A texture object over an array, as a kernel takes it."""
        from gemm_lessons.devices.gpu.functions import address, by_value, linear_texture

        self.textures.append(linear_texture(array.data.ptr, array.nbytes, array.dtype.name, channels))
        return by_value(address(self.textures[-1].ptr))

    def random(self, *shape: int) -> Any:
        return self.cupy.random.standard_normal(shape, dtype=self.cupy.float32)

    def insist(self, shape: Shape, names: Iterable[str]) -> None:
        """Run kernels on a poisoned C and compare with float64."""
        cupy = self.cupy
        a, b = self.random(shape.m, shape.k), self.random(shape.k, shape.n)
        c = cupy.empty((shape.m, shape.n), cupy.float32)
        reference = cupy.matmul(a.astype(cupy.float64), b.astype(cupy.float64))
        self.compare({name: self.call(name, a, b, c) for name in names}, c, reference, shape)

    def compare(self, calls: Mapping[str, Call], c: Any, reference: Any, shape: Shape) -> None:
        """Run kernels on a poisoned C and compare with the product in float64."""
        cupy = self.cupy
        allowed = 2**-24 * max(shape.k, 4) ** 0.5  # K rounding errors in random directions
        for name, call in calls.items():
            c.fill(cupy.nan)
            call()
            error = float(cupy.linalg.norm(c - reference) / cupy.linalg.norm(reference))
            assert error <= allowed, f"{name} {shape}: relative error {error}, allowed {allowed}"  # NaN fails too

    def takes(self, name: str, shape: Shape) -> bool:
        """Whether the shape is whole tiles: variants may have larger ones than their lesson's contract states."""
        lesson, sizes = self.lessons[name], self.lessons[name].tile.defines
        wanted = ((shape.m, "BM"), (shape.n, "BN"), (shape.k, "BK"))
        guarded = lesson.shapes.multiple_of == Shape(1, 1, 1)
        return guarded or all(size % sizes.get(tile, 1) == 0 for size, tile in wanted)

    def warm_up(self) -> None:
        """Verify every kernel on a few shapes, then work until the clocks have settled."""
        for m, n, k in CHECKS:
            shape = Shape(m, n, k)
            self.insist(shape, (name for name in self.functions if self.takes(name, shape)))
        self.settle()

    def settle(self) -> None:
        """Work until the clocks have settled."""
        a, b, c = self.random(4096, 4096), self.random(4096, 4096), self.cupy.empty((4096, 4096), self.cupy.float32)
        until = time.monotonic() + WARM_UP
        while time.monotonic() < until:
            self.call("cublas", a, b, c)()
            self.cupy.cuda.Device().synchronize()

    def timed(self, call: Call, how: str, c: Any) -> float:
        """Microseconds of one call between two events."""
        runtime = self.cupy.cuda.runtime
        start, stop = self.events
        if how == COLD:
            runtime.memsetAsync(c.data.ptr, 0xFF, c.nbytes, 0)  # NaN
            runtime.memsetAsync(self.scratch.data.ptr, 0, FLUSH_BYTES, 0)
        if clocks := self.spins.get(how, 0):
            self.spin((1,), (1,), (self.np.int64(clocks),))
        start.record()
        call()
        stop.record()
        stop.synchronize()
        return float(self.cupy.cuda.get_elapsed_time(start, stop)) * 1e3

    def times(
        self, calls: Mapping[str, Call], c: Any, ways: Sequence[str], most: Mapping[str, int]
    ) -> dict[tuple[str, str], list[float]]:
        """Microseconds of every call in every way: one launch of each a round, in an order of its own."""
        found: dict[tuple[str, str], list[float]] = {(name, how): [] for name in calls for how in ways}
        for turn in range(max(most.values())):
            for how in ways:
                for name in random.Random(turn).sample([*calls], len(calls)):
                    if turn < most[name]:
                        found[name, how].append(self.timed(calls[name], how, c))
        return found

    def size(
        self, n: int, names: Sequence[str], ways: Sequence[str], rounds: Callable[[str, int], int]
    ) -> list[dict[str, Any]]:
        """Those kernels and cuBLAS at n^3, verified and then timed in these ways; a line of the data for each."""
        names = ("cublas", *names)
        self.insist(Shape(n, n, n), names)
        a, b, c = self.random(n, n), self.random(n, n), self.cupy.empty((n, n), self.cupy.float32)
        calls = {name: self.call(name, a, b, c) for name in names}
        most = {name: rounds(name, n) for name in names}
        times = self.times(calls, c, ways, most)
        found = []
        for name in names:
            row: dict[str, Any] = {"kernel": name, "size": n, "repeats": most[name]}
            for how in ways:
                here = spread(times[name, how])
                if how == IDLE:
                    row |= here
                else:
                    base = statistics.median(times["cublas", how])
                    row[how] = here | rates(here["median_us"], n, base)
            found.append(row | self.resources[name])
        return found


def in_a_row(calls: Sequence[Call]) -> None:
    """Several launches as one call."""
    for call in calls:
        call()


def spread(times: Sequence[float]) -> dict[str, float]:
    """Median and deciles of microseconds."""
    ordered = sorted(times)
    last = len(ordered) - 1
    return {
        "median_us": round(statistics.median(ordered), 3),
        "p10_us": round(ordered[round(0.1 * last)], 3),
        "p90_us": round(ordered[round(0.9 * last)], 3),
    }


def rates(median: float, n: int, base: float) -> dict[str, float]:
    """What the time means at n^3, beside ``base`` microseconds of cuBLAS."""
    return {"tflops": round(2 * n**3 / median / 1e6, 3), "percent_of_cublas": round(100 * base / median, 2)}


def show(rows: Iterable[Mapping[str, Any]]) -> None:
    """Percent of cuBLAS, warm and cold, while the rest is measured."""
    shares = (f"{r['kernel']} {r[WARM]['percent_of_cublas']:.1f}/{r[COLD]['percent_of_cublas']:.1f}" for r in rows)
    print(*shares, sep="  ", flush=True)


def machine(bench: Bench) -> dict[str, str]:
    """What the numbers depend on beside the kernels."""
    runtime = bench.cupy.cuda.runtime
    cublas = bench.cublas.getVersion(bench.handle)
    return {
        "gpu": runtime.getDeviceProperties(0)["name"].decode(),
        "date": time.strftime("%Y-%m-%d"),
        "driver": driver_version(),
        "cuda_driver": dotted(runtime.driverGetVersion(), 1000, 10),
        "cublas": ".".join(str(part) for part in (cublas // 10000, cublas // 100 % 100, cublas % 100)),
        "cupy": bench.cupy.__version__,
        "compiler": f"{bench.compiler} -arch={GPU_ARCH}",
    }


def write(target: Path, about: Mapping[str, str], rows: Iterable[Mapping[str, Any]]) -> None:
    """A line a row, so that differences stay readable."""
    head = json.dumps({"schema": "gemm-lessons/measured/2", **about}, indent=1)[:-2]
    lines = ",\n".join("  " + json.dumps(found) for found in rows)
    target.write_text(f'{head},\n "rows": [\n{lines}\n ]\n}}\n')


def every_size(
    bench: Bench, sizes: Iterable[int], ways: Sequence[str], rounds: Callable[[str, int], int]
) -> list[dict[str, Any]]:
    """The lines of all sizes. ``rounds``: launches of a kernel at a size; none, and it is left out there."""
    bench.warm_up()
    rows = []
    for n in sizes:
        found = bench.size(n, [name for name in bench.functions if rounds(name, n)], ways, rounds)
        rows += found
        print(n, end="  ")
        show(found)
    return rows


def rounds(name: str, n: int) -> int:
    """Launches of a kernel at n^3."""
    return min(ROUNDS[n], SLOW_ROUNDS) if n >= 4096 and name in SLOW else ROUNDS[n]


def run(folder: Path, target: Path) -> None:
    bench = Bench(folder)
    rows = every_size(bench, ROUNDS, (IDLE, WARM, COLD), rounds)
    about = {
        "command": "python -m checks.course.measure compile DIR; python -m checks.course.measure run DIR FILE",
        **machine(bench),
        "what": "C = A B, fp32, square, standard normal inputs. The solutions and cuBLAS (gemmEx, no TF32),"
        " one launch of each a round, in a new order each time; every answer compared with float64 before timing.",
        "how": "CUDA events around one launch, median over the repeats. At the top: on an idle GPU, L2 warm, the launch"
        " included. warm: the launch hidden behind another kernel. cold: hidden behind a fill of 128 MiB, so that L2 is"
        " cold. percent_of_cublas is cuBLAS's median over the kernel's, of the same size and way.",
    }
    write(target, about, rows)


def dotted(version: int, major: int, minor: int) -> str:
    return f"{version // major}.{version % major // minor}"


def driver_version() -> str:
    """The driver as its kernel module states it; "" where it does not."""
    try:
        words = Path("/proc/driver/nvidia/version").read_text().split()
    except OSError:
        return ""
    return next((word for word in words if word[:1].isdigit() and word.count(".") == 2), "")


def main(kernels: Callable[[], Sequence[Kernel]], measure: Callable[[Path, Path], None]) -> None:
    """``compile DIR`` or ``run DIR FILE``."""
    if sys.argv[1] == "compile":
        compile_kernels(Path(sys.argv[2]), kernels())
    else:
        measure(Path(sys.argv[2]), Path(sys.argv[3]))


if __name__ == "__main__":
    main(solutions, run)
