"""The GPU of ``measure``: the kernels of one table and cuBLAS as calls that can be compared and timed."""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from checks.course.kernel import GPU_ARCH
from checks.course.tables import COLD, IDLE, Problem, Table
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.gemm.shapes import Shape

WARM_UP = 2.0  # seconds of work before the first timing, until the clocks have settled
FLUSH_BYTES = 128 << 20  # as in gemm_lessons.devices.gpu; more than twice the L2 cache of an H200
FIRST_SM = 528  # blocks of an idle launch, so many that the first multiprocessor has one
UNWRITTEN = 0x7EADBEEF  # fills an integer C before a launch; other types are filled with NaN
NAN_BITS = 0xFFFF  # of bfloat16
FLOAT32, COMPUTE_32F = 0, 68  # cudaDataType_t, cublasComputeType_t: no TF32 unless the math mode asks for it
COMPUTE_16F = 64  # sums in halves
OF_CUBLAS = {  # types of A and B and of C, cublasComputeType_t
    "float16": (2, FLOAT32, COMPUTE_32F),
    "bfloat16": (14, FLOAT32, COMPUTE_32F),
    "tf32": (FLOAT32, FLOAT32, 77),
    "int8": (3, 10, 72),
    "float64": (1, 1, 70),
    "float32": (FLOAT32, FLOAT32, COMPUTE_32F),
}
SUMS = {"int8": "int32", "float64": "float64"}  # type of C; of others float32
TORCH = "torch int8 TN"
HGEMM = "cublas hgemm"

Call = Callable[[], None]
NOTHING: Mapping[str, Any] = MappingProxyType({})


class Bench:
    """The kernels of a table, compiled into a folder, on the current GPU."""

    def __init__(self, table: Table, folder: Path) -> None:
        import cupy
        import numpy as np
        from cupy.cuda import cublas

        self.cupy, self.np, self.cublas = cupy, np, cublas
        self.table, self.folder = table, folder
        self.lessons = table.lessons()
        self.wrong = [variant.name for variant in table.variants if variant.wrong]
        self.compiled = json.loads((folder / "kernels.json").read_text())
        self.modules: dict[tuple[str, str], Any] = {}  # by name, and by what the host chose
        self.resources: dict[str, dict[str, float]] = {}
        for kernel in self.compiled["kernels"]:
            self.resources.setdefault(kernel["name"], kernel["resources"])
            self.modules[kernel["name"], kernel["tile"]] = cupy.RawModule(path=str(folder / kernel["file"]))
        beside = cupy.RawModule(path=str(folder / "spin.cubin"))
        self.spin, self.now = beside.get_function("spin"), beside.get_function("now")
        self.looks = cupy.zeros((2, 2), "int64")  # before and after a timed call: clocks of a multiprocessor, and ns
        self.clocks: dict[str, list[float]] = {}  # GHz during the calls of the last problem, by name
        self.flushed = cupy.empty(FLUSH_BYTES, cupy.uint8)
        self.events = [cupy.cuda.Event() for _ in range(2)]
        self.handle = cublas.create()
        self.scratch: dict[str, Any] = {}  # buffers by name, which all kernels share
        self.textures: list[Any] = []  # keeps texture objects alive while kernels read through them

    # -- matrices

    def normal(self, *shape: int) -> Any:
        return self.cupy.random.standard_normal(shape, dtype=self.cupy.float32)

    def drawn(self, kind: str, *shape: int) -> Any:
        """Standard normal numbers; int8 is uniform from -127 to 127. Numbers of few bits would draw less power."""
        cupy = self.cupy
        if kind == "int8":
            return cupy.random.randint(-127, 128, shape, dtype=cupy.int32).astype(cupy.int8)
        if kind == "float64":
            return cupy.random.standard_normal(shape, dtype=cupy.float64)
        return self.narrowed(kind, self.normal(*shape))

    def narrowed(self, kind: str, floats: Any) -> Any:
        """float32 numbers converted to this type; truncated for bfloat16 and tf32, which NumPy lacks."""
        cupy = self.cupy
        if kind == "bfloat16":
            return (floats.view(cupy.uint32) >> 16).astype(cupy.uint16)
        if kind == "tf32":
            return (floats.view(cupy.uint32) & cupy.uint32(0xFFFFE000)).view(cupy.float32)
        return floats.astype(kind)

    def doubles(self, kind: str, stored: Any) -> Any:
        if kind == "bfloat16":
            stored = (stored.astype(self.cupy.uint32) << 16).view(self.cupy.float32)
        return stored.astype(self.cupy.float64)

    def empty(self, kind: str, m: int, n: int) -> Any:
        if kind in self.table.narrow:
            return self.narrowed(kind, self.cupy.zeros((m, n), "float32"))
        return self.cupy.empty((m, n), SUMS.get(kind, "float32"))

    def given(self, kind: str, shape: Shape) -> tuple[Any, Any, Any]:
        """A and B as they are stored in the shape's layout, and C."""
        a = self.drawn(kind, *((shape.k, shape.m) if shape.layout[0] == "T" else (shape.m, shape.k)))
        b = self.drawn(kind, *((shape.n, shape.k) if shape.layout[1] == "T" else (shape.k, shape.n)))
        return a, b, self.empty(kind, shape.m, shape.n)

    def product(self, kind: str, a: Any, b: Any, layout: str = "NN") -> Any:
        """A B in float64: exact for integers of 8 bits."""
        a, b = self.doubles(kind, a), self.doubles(kind, b)
        return self.cupy.matmul(a.T if layout[0] == "T" else a, b.T if layout[1] == "T" else b)

    def bias(self, c: Any) -> Any:
        """A number for each column of C, in the type of C; the same in each call."""
        key = f"bias {c.dtype} {c.shape[1]}"
        if key not in self.scratch:
            self.scratch[key] = self.normal(c.shape[1]).astype(c.dtype)
        return self.scratch[key]

    def expected(self, name: str, c: Any, product: Any) -> Any:
        """The C that the kernel should store: the product, or relu(product + bias)."""
        if self.table.relu_bias and name in self.lessons and "bias" in self.lessons[name].data.by_name:
            return self.cupy.maximum(product + self.bias(c), 0)
        return product

    # -- calls

    def names(self, kind: str, shape: Shape) -> list[str]:
        """The kernels for this type and shape."""
        return [name for name, it in self.lessons.items() if kind_of(it) == kind and takes(it, shape)]

    def library(self, kind: str, a: Any, b: Any, c: Any, layout: str = "NN") -> Call:
        """A call of cuBLAS's product. cuBLAS is column-major: C^T = B^T A^T."""
        (m, n), k = c.shape, a.shape["NT".index(layout[0]) - 1]
        of, to, compute = OF_CUBLAS[kind]
        to = of if kind in self.table.narrow else to
        one, zero = (self.np.full(1, value, SUMS.get(kind, "float32")) for value in (1, 0))
        ways = ("NT".index(layout[1]), "NT".index(layout[0]))
        left, right, out = (b.data.ptr, of, b.shape[1]), (a.data.ptr, of, a.shape[1]), (c.data.ptr, to, n)
        scalars = one.ctypes.data, zero.ctypes.data
        call = partial(
            self.cublas.gemmEx, self.handle, *ways, n, m, k, scalars[0], *left, *right, scalars[1], *out, compute, -1
        )
        return lambda held=(one, zero, a, b, c): call()  # type: ignore[misc]  # they live as long as the call

    def hgemm(self, a: Any, b: Any, c: Any) -> dict[str, Call]:
        """cuBLAS's product of halves with sums in halves, as cublasHgemm makes it."""
        (m, n), k = c.shape, a.shape[1]
        one, zero = (self.np.full(1, value, "float16") for value in (1, 0))
        half = OF_CUBLAS["float16"][0]
        left, right, out = (b.data.ptr, half, n), (a.data.ptr, half, k), (c.data.ptr, half, n)
        scalars = one.ctypes.data, zero.ctypes.data
        call = partial(
            self.cublas.gemmEx, self.handle, 0, 0, n, m, k, scalars[0], *left, *right, scalars[1], *out, COMPUTE_16F, -1
        )
        return {HGEMM: lambda held=(one, zero, a, b, c): call()}  # type: ignore[misc]  # they live as long as the call

    def torch(self, a: Any, b: Any, c: Any) -> dict[str, Call]:
        """PyTorch's product of int8 with B transposed, where PyTorch is installed."""
        try:
            torch = import_module("torch")
        except ImportError:
            return {}
        a, b, c = (torch.from_dlpack(it) for it in (a, b, c))
        return {TORCH: lambda: torch._int_mm(a, b.t(), out=c)}

    def kernel(self, name: str, a: Any, b: Any, c: Any, layout: str = "NN", more: Mapping[str, Any] = NOTHING) -> Call:
        """A call of all launches of a kernel. ``more``: arguments by name, besides matrices and sizes."""
        (m, n), k = c.shape, a.shape["NT".index(layout[0]) - 1]
        shape = Shape(m, n, k, layout=layout)
        lesson = self.lessons[name].at(shape)
        sizes = {"M": m, "N": n, "K": k, "lda": a.shape[1], "ldb": b.shape[1], "ldc": n}
        known = {"A": a, "B": b, "C": c, **{size: self.np.int32(value) for size, value in sizes.items()}, **more}
        if self.table.relu_bias:
            known |= {"bias": self.bias(c), "alpha": self.np.float32(1), "beta": self.np.float32(0)}
        known |= self.scratch_of(lesson, shape)
        known |= self.tensor_maps(lesson, shape, known)
        known |= self.textures_of(lesson, known)
        calls: list[Call] = []
        for launch, grid in zip(lesson.launches, lesson.grids(shape), strict=True):
            function = self.modules[name, tile_of(lesson)].get_function(launch.entry)
            if grid.dynamic_shared:
                function.max_dynamic_shared_size_bytes = grid.dynamic_shared
            arguments = tuple(known[parameter] for parameter in launch.parameters)
            calls.append(partial(function, grid.grid, grid.block, arguments, shared_mem=grid.dynamic_shared))
        return lambda held=known: in_a_row(calls)  # type: ignore[misc]  # what tensor maps lead to lives as long as the call

    def scratch_of(self, lesson: Lesson, shape: Shape) -> dict[str, Any]:
        """All scratch buffers so far, those of this lesson grown to the size that it needs."""
        for layout in lesson.data.lay_out(shape.names).values():
            if layout.role == "scratch" and getattr(self.scratch.get(layout.name), "nbytes", 0) < layout.nbytes:
                self.scratch[layout.name] = self.cupy.empty(layout.nbytes, self.cupy.uint8)
        return dict(self.scratch)

    def tensor_maps(self, lesson: Lesson, shape: Shape, known: Mapping[str, Any]) -> dict[str, Any]:
        """The lesson's tensor maps by name, over buffers that are ``known``."""
        from gemm_lessons.devices.gpu.functions import tensor_map

        found = {}
        for one in lesson.data.maps:
            layout = lesson.data.lay_out(shape.names)[one.buffer]
            given = lesson.data.tensor_map(one.name, layout.element.untouched(layout.shape), layout, shape.names)
            found[one.name] = tensor_map(known[one.buffer].data.ptr, given.described)
        return found

    def textures_of(self, lesson: Lesson, known: Mapping[str, Any]) -> dict[str, Any]:
        """The texture objects that the lesson's launches take."""
        from gemm_lessons.devices.gpu.functions import address, by_value, linear_texture

        found = {}
        for parameter in (it for launch in lesson.launches for it in lesson.parameters(launch)):
            if parameter.kind == "texture":
                array = known[parameter.source]
                texture = linear_texture(array.data.ptr, array.nbytes, array.dtype.name, parameter.channels)
                self.textures.append(texture)
                found[parameter.name] = by_value(address(texture.ptr))
        return found

    # -- comparing

    def error(self, call: Call, c: Any, reference: Any) -> float:
        """Relative error in the Frobenius norm. C is overwritten first, so an element that is not stored counts."""
        bits = c.dtype == "uint16"  # of bfloat16
        c.fill(NAN_BITS if bits else self.cupy.nan if c.dtype.kind == "f" else UNWRITTEN)
        call()
        norm = self.cupy.linalg.norm
        found = self.doubles("bfloat16", c) if bits else c
        return float(norm(found - reference) / norm(reference))

    def compare(self, calls: Mapping[str, Call], c: Any, reference: Any, problem: Problem) -> None:
        """Raises ``AssertionError`` for a wrong answer, except from the kernels in ``wrong``."""
        allowed = self.allowed(problem)
        for name, call in calls.items():
            error = self.error(call, c, self.expected(name, c, reference))
            assert error <= allowed or name in self.wrong, (  # NaN fails too
                f"{name} {problem.shape}: relative error {error}, allowed {allowed}"
            )

    def allowed(self, problem: Problem) -> float:
        """Allowed relative error: rounding of K products in random directions; 2**-50 for float64, 0 for integers."""
        if problem.kind in SUMS:
            return 2.0**-50 if problem.kind == "float64" else 0.0
        rounding = 2.0**-9 if problem.kind in self.table.narrow else 0.0
        return rounding + self.table.tolerance * 2**-24 * max(problem.shape.k, 4) ** 0.5

    # -- timing

    def settle(self) -> None:
        """Work until the clocks have settled."""
        a, b, c = self.given("float32", Shape(4096, 4096, 4096))
        call, until = self.library("float32", a, b, c), time.monotonic() + WARM_UP
        while time.monotonic() < until:
            call()
            self.cupy.cuda.Device().synchronize()

    def timed(self, call: Call, how: str, c: Any) -> float:
        """Microseconds of one call between two events."""
        runtime = self.cupy.cuda.runtime
        start, stop = self.events
        if how == COLD:
            runtime.memsetAsync(c.data.ptr, 0xFF, c.nbytes, 0)  # NaN
            runtime.memsetAsync(self.flushed.data.ptr, 0, FLUSH_BYTES, 0)
        if clocks := self.table.spin.get(how, 0):
            self.spin((1,), (1,), (self.np.int64(clocks),))
        self.look(0)
        start.record()
        call()
        stop.record()
        self.look(1)
        stop.synchronize()
        return float(self.cupy.cuda.get_elapsed_time(start, stop)) * 1e3

    def look(self, number: int) -> None:
        """Note what the clock of one multiprocessor shows, for a table that asks for it."""
        if self.table.clock:
            self.now((FIRST_SM,), (32,), (self.looks[number],))

    def ghz(self) -> float:
        """The clock between the last two looks."""
        clocks, nanoseconds = (int(self.looks[1, of]) - int(self.looks[0, of]) for of in (0, 1))
        return clocks / max(nanoseconds, 1)

    def times(self, calls: Mapping[str, Call], c: Any, rounds: Mapping[str, int]) -> dict[str, dict[str, list[float]]]:
        """Microseconds of every call by way and name. A round launches each call once, in a new order."""
        found: dict[str, dict[str, list[float]]] = {way: {name: [] for name in calls} for way in self.table.ways}
        for number in range(max(rounds.values())):
            for way in self.table.ways:
                for name in random.Random(number).sample([*calls], len(calls)):
                    if number < rounds[name]:
                        found[way][name].append(self.timed(calls[name], way, c))
                        if self.table.clock:
                            self.clocks.setdefault(name, []).append(self.ghz())
        return found

    def about(self) -> dict[str, str]:
        """GPU, date and versions that the times depend on, besides the kernels."""
        runtime = self.cupy.cuda.runtime
        architectures = sorted({it.architecture or GPU_ARCH for it in self.lessons.values()})
        cublas, driver = self.cublas.getVersion(self.handle), runtime.driverGetVersion()
        return {
            "gpu": runtime.getDeviceProperties(0)["name"].decode(),
            "date": time.strftime("%Y-%m-%d"),
            "driver": driver_version(),
            "cuda_driver": f"{driver // 1000}.{driver % 1000 // 10}",
            "cublas": f"{cublas // 10000}.{cublas // 100 % 100}.{cublas % 100}",
            "cupy": self.cupy.__version__,
            "compiler": f"{self.compiled['compiler']} -arch={' or '.join(architectures)}",
        }


def kind_of(lesson: Lesson) -> str:
    """The type of A and B."""
    return lesson.data.by_name["A"].element.name


def takes(lesson: Lesson, shape: Shape) -> bool:
    """Whether the kernel accepts the shape: a layout of its lesson, and whole tiles unless it guards edges. Variants
    may have larger tiles than their lesson's contract states."""
    if shape.layout not in lesson.shapes.layouts:
        return False
    sizes = lesson.tile.defines
    wanted = ((shape.m, "BM"), (shape.n, "BN"), (shape.k, "BK"))
    guarded = lesson.shapes.multiple_of == Shape(1, 1, 1)
    return guarded or all(size % sizes.get(tile, 1) == 0 for size, tile in wanted)


def tile_of(lesson: Lesson) -> str:
    """The tile sizes as text: the key of the kernel that was compiled for them."""
    return json.dumps(sorted(lesson.tile.sizes))


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


def rates(median: float, shape: Shape, base: float) -> dict[str, float]:
    """TFLOP/s, and percent of cuBLAS's speed. ``median`` and ``base`` (cuBLAS) in microseconds."""
    operations = 2e-6 * shape.m * shape.n * shape.k
    return {"tflops": round(operations / median, 3), "percent_of_cublas": round(100 * base / median, 2)}


def row_of(
    name: str, problem: Problem, repeats: int, times: Mapping[str, Mapping[str, Sequence[float]]], library: str
) -> dict[str, Any]:
    """A row of a table: the times of a kernel in each way, and its rates beside those of ``library``."""
    row: dict[str, Any] = {"kernel": name, "size": problem.size, "repeats": repeats}
    for way, found in times.items():
        here = spread(found[name])
        if way == IDLE:
            row |= here
        else:
            row[way] = here | rates(here["median_us"], problem.shape, statistics.median(found[library]))
    return row


def driver_version() -> str:
    """The driver as its kernel module states it; "" where it does not."""
    try:
        words: Iterable[str] = Path("/proc/driver/nvidia/version").read_text().split()
    except OSError:
        return ""
    return next((word for word in words if word[:1].isdigit() and word.count(".") == 2), "")
