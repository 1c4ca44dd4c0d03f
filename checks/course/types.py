"""Measure the lessons that multiply other numbers than floats beside cuBLAS, and beside loops of their multiply-adds:
where ``lessons/measured/h200_types.json`` comes from.

    python -m checks.course.types compile DIR                 # here: machine code of every kernel and loop
    python -m checks.course.types run DIR lessons/measured/h200_types.json     # on a machine with the GPU and cupy

Everything else is as in ``measure``. ``cublas float64`` may use tensor cores, and does. ``loop float64`` is the most
that ``loops.cu`` reached, with its best tile. Inputs are standard normal, or whole numbers from -127 to 127: numbers
with few bits take less power, and a GPU that reaches its limit of power slows down.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from checks.course.kernel import GPU_ARCH
from checks.course.measure import COLD, Bench, Call, compile_kernels, machine, spread, write
from checks.course.variants import Variant
from gemm_lessons.engine.records.elements import ELEMENTS
from gemm_lessons.gemm.shapes import Shape

NOTHING: Mapping[str, Any] = MappingProxyType({})
SOURCE = Path(__file__).with_name("loops.cu")
ROUNDS = {1024: 20, 2048: 15, 4096: 9, 8192: 5}
CHECKS = ((256, 384, 288), (128, 256, 64), (256, 128, 32))
OPERATIONS = {"float64": 2, "int8": 8}  # of one multiply-add, for one lane
COMPUTE = {"float64": 70, "int32": 72}  # cublasComputeType_t
TILES = ((1, 16, 16), (2, 8, 16), (8, 8, 4))  # rows, columns, unrolled, of a thread's loop
LOOPS = {  # entry and tiles
    "loop float64": ("dfma", TILES),
    "fed float64": ("fed", ((8, 8, 8),)),
    "loop int8": ("idp", TILES),
}
BLOCKS, THREADS = 132, 256  # two warps for each scheduler, as dgemm has
STEPS = 1 << 20  # multiply-adds of a thread
REPEATS = 7
SMALL = {"BM": 64, "BLOCKS_PER_SM": 2}
FERMI = {"BM": 64, "BN": 64, "WM": 16, "WN": 32, "TM": 4, "TN": 4}  # 64 x 64 x 16 by 256 threads

VARIANTS = (
    Variant("dgemm 64x128", SMALL),
    Variant("dgemm 64x128 1 piece", {**SMALL, "PIECES": 1}),
    Variant("dgemm 64x128 4 pieces", {**SMALL, "PIECES": 4}),
    Variant("dgemm 64x128 3 blocks 1 piece", {**SMALL, "PIECES": 1, "BLOCKS_PER_SM": 3}),
    Variant("dgemm 64x128 3 blocks", {**SMALL, "BLOCKS_PER_SM": 3}),
    Variant("dgemm 64x128 3 blocks 4 pieces", {**SMALL, "PIECES": 4, "BLOCKS_PER_SM": 3}),
    Variant("dgemm 64x128 BK8", {**SMALL, "BK": 8, "PIECES": 1}),
    Variant("dgemm 64x128 BK8 2 pieces", {**SMALL, "BK": 8}),
    Variant("dgemm", {}),
    Variant("dgemm BK8", {"BK": 8, "PIECES": 1}),
    Variant("dgemm 128x64", {"BN": 64, "BLOCKS_PER_SM": 2}),
    Variant("dgemm 128x64 BK8", {"BN": 64, "BK": 8, "PIECES": 1, "BLOCKS_PER_SM": 2}),
    Variant("dgemm 64x64", {"BM": 64, "BN": 64, "PIECES": 4, "BLOCKS_PER_SM": 4}),
    Variant("dgemm 64x64 BK8", {"BM": 64, "BN": 64, "BK": 8, "PIECES": 1, "BLOCKS_PER_SM": 4}),
    Variant("dgemm Fermi", {**FERMI, "PIECES": 1, "BLOCKS_PER_SM": 4}),
    Variant("dgemm Fermi 2 pieces", {**FERMI, "BLOCKS_PER_SM": 4}),
    Variant("dgemm Fermi 3 blocks", {**FERMI, "BLOCKS_PER_SM": 3}),
    Variant("dgemm 64x128 row by row", SMALL, pitfall="row_by_row"),
    Variant("dgemm 64x128 loads sink", SMALL, pitfall="loads_sink"),
    Variant("dgemm 64x128 BK8 loads sink", {**SMALL, "BK": 8, "PIECES": 1}, pitfall="loads_sink"),
    Variant("dp4a", {}),
    Variant("dp4a 64x128", {"BM": 64, "BN": 128, "WM": 32, "WN": 64}),
    Variant("dp4a 128x128", {"BN": 128, "BLOCKS_PER_SM": 2}),
    Variant("dp4a 8 warps", {"BK": 64, "WM": 32, "WN": 32, "TN": 4, "BLOCKS_PER_SM": 2}),
    Variant("dp4a BK64", {"BK": 64, "BLOCKS_PER_SM": 2}),
    Variant("dp4a bytes", {}, pitfall="bytes"),
)


def compile_all(folder: Path) -> None:
    from gemm_lessons.engine.compiler.compile import Compiled, compile_source

    compile_kernels(folder, [variant.kernel() for variant in VARIANTS], [])
    for name, (entry, tiles) in LOOPS.items():
        for rows, cols, unroll in tiles:
            sizes = {"TM": rows, "TN": cols, "UNROLL": unroll}
            made = compile_source(
                SOURCE.read_text(), path=str(SOURCE), entry=entry, defines=sizes, include_dirs=(), arch=GPU_ARCH
            )
            assert isinstance(made, Compiled), made.log
            (folder / loop_file(name, rows, cols)).write_bytes(made.cubin)


def loop_file(name: str, rows: int, cols: int) -> str:
    return f"{name.replace(' ', '_')}_{rows}x{cols}.cubin"


class Types(Bench):
    """A bench whose matrices are of the types of a kernel's lesson; those of the lesson in turn."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.folder = folder
        self.ones: dict[str, tuple[Any, Any]] = {}  # 1 and 0 of each type, which must live as long as a call
        for name, lesson in self.lessons.items():
            at = lesson.shapes.count
            for function in self.functions[name].values():
                function.max_dynamic_shared_size_bytes = lesson.grids(at)[0].dynamic_shared

    def drawn(self, element: str, *shape: int) -> Any:
        cupy = self.cupy
        if element == "int8":
            return cupy.random.randint(-127, 128, shape, dtype=cupy.int32).astype(cupy.int8)
        return cupy.random.standard_normal(shape, dtype=element)

    def call(self, name: str, a: Any, b: Any, c: Any, layout: str = "NN", more: Mapping[str, Any] = NOTHING) -> Call:
        """C = A B by one kernel, or by the library where ``name`` begins with its name."""
        if not name.startswith("cublas"):
            return super().call(name, a, b, c)
        (m, n), k = c.shape, a.shape[1]
        scalars = self.ones.setdefault(c.dtype.name, (self.np.ones(1, c.dtype), self.np.zeros(1, c.dtype)))
        one, zero = (scalar.ctypes.data for scalar in scalars)
        of, to = ELEMENTS[a.dtype.name].cuda, ELEMENTS[c.dtype.name].cuda
        ways = ("NT".index(layout[1]), "NT".index(layout[0]))
        factors = (b.data.ptr, of, b.shape[1], a.data.ptr, of, a.shape[1])
        product = (c.data.ptr, to, n, COMPUTE[c.dtype.name], -1)
        return partial(self.cublas.gemmEx, self.handle, *ways, n, m, k, one, *factors, zero, *product)

    def compare(self, calls: Mapping[str, Call], c: Any, reference: Any, shape: Shape) -> None:
        """As before; integers must be equal."""
        if c.dtype.kind == "f":
            cupy = self.cupy
            for name, call in calls.items():
                c.fill(cupy.nan)
                call()
                error = float(cupy.linalg.norm(c - reference) / cupy.linalg.norm(reference))
                assert error <= 2**-50, f"{name} {shape}: relative error {error}"
            return
        for name, call in calls.items():
            c.fill(0x7EADBEEF)
            call()
            assert bool((c == reference).all()), f"{name} {shape}: a wrong integer"

    def square(self, element: str, shape: Shape) -> tuple[Any, Any, Any, Any]:
        """A, B, C, and the product that is right, by float64: exact for integers of 8 bits."""
        a, b = self.drawn(element, shape.m, shape.k), self.drawn(element, shape.k, shape.n)
        double = self.cupy.float64
        c = self.cupy.empty((shape.m, shape.n), "int32" if element == "int8" else element)
        return a, b, c, self.cupy.matmul(a.astype(double), b.astype(double))

    def names(self, element: str) -> list[str]:
        return [name for name, it in self.lessons.items() if it.data.factors[0].element.name == element]

    def loop(self, name: str) -> dict[str, Any]:
        """The line of a loop: its best tile."""
        cupy, np, (entry, tiles), element = self.cupy, self.np, LOOPS[name], name.split()[1]
        out, clocks = cupy.zeros(BLOCKS * THREADS, cupy.float64), cupy.zeros(BLOCKS, cupy.int64)
        numbers = self.drawn(element, 1 << 16).view("int32" if element == "int8" else element)
        best: dict[str, Any] = {}
        for rows, cols, unroll in tiles:
            function = cupy.RawModule(path=str(self.folder / loop_file(name, rows, cols))).get_function(entry)
            steps = STEPS // (rows * cols)
            call = partial(function, (BLOCKS,), (THREADS,), (out, numbers, clocks, np.int32(steps // unroll)))
            call()
            here = spread([self.timed(call, COLD, out) for _ in range(REPEATS)])
            each = BLOCKS * THREADS * steps * rows * cols
            rate = round(each * OPERATIONS[element] / here["median_us"] / 1e6, 3)
            lanes = round(steps * rows * cols * THREADS / float(clocks.mean()), 2)
            print(f"{name} {rows}x{cols} {rate} T/s, {lanes} lanes a clock", flush=True)
            if not best or rate > best[COLD]["tflops"]:
                best = {
                    "kernel": name, "size": 0, "repeats": REPEATS, "tile": f"{rows}x{cols}", "lanes_a_clock": lanes,
                    COLD: {**here, "tflops": rate},
                }  # fmt: skip
        return best


def run(folder: Path, target: Path) -> None:
    bench, rows = Types(folder), []
    for element in OPERATIONS:
        for sizes in CHECKS:
            shape = Shape(*sizes)
            a, b, c, right = bench.square(element, shape)
            taken = [name for name in bench.names(element) if bench.takes(name, shape)]
            bench.compare({name: bench.call(name, a, b, c) for name in taken}, c, right, shape)
        loops = [bench.loop(name) for name in LOOPS if name.endswith(element)]
        rows += loops
        for n in ROUNDS:
            found = lines(bench, element, n, loops[0][COLD]["tflops"])
            rows += found
            print(n, *(f"{row['kernel']} {row[COLD]['tflops']:.1f}" for row in found), sep="  ", flush=True)
    about = {
        "command": "python -m checks.course.types compile DIR; python -m checks.course.types run DIR FILE",
        **machine(bench),
        "what": "C = A B, square, in float64 (standard normal inputs) and in int8 with sums in int32 (-127 to 127);"
        " every answer compared before timing, integers exactly. cublas: gemmEx of the same types, int8 NT: A as it is,"
        " B given as its transpose; TN: the other way round. loop: multiply-adds on registers and nothing else; fed:"
        " their factors from shared memory.",
        "how": "CUDA events around one launch, median over the repeats, hidden behind a fill of 128 MiB, so that L2 is"
        " cold. percent_of_loop is against the loop of the same type.",
    }
    write(target, about, rows)


def lines(bench: Types, element: str, n: int, ceiling: float) -> list[dict[str, Any]]:
    """The lines of one type and size."""
    shape = Shape(n, n, n)
    a, b, c, right = bench.square(element, shape)
    calls = {f"cublas {element}": bench.call("cublas", a, b, c)}
    calls |= {name: bench.call(name, a, b, c) for name in bench.names(element)}
    bench.compare(calls, c, right, shape)
    del right
    if element == "int8":
        calls["cublas int8 NT"] = bench.call("cublas", a, b, c, "NT")
        calls["cublas int8 TN"] = bench.call("cublas", a, b, c, "TN")
    times = bench.times(calls, c, (COLD,), dict.fromkeys(calls, ROUNDS[n]))
    base = statistics.median(times[f"cublas {element}", COLD])
    return [line(name, n, times[name, COLD], base, ceiling, bench.resources) for name in calls]


def line(
    name: str, n: int, times: Sequence[float], base: float, ceiling: float, resources: Mapping[str, Any]
) -> dict[str, Any]:
    here = spread(times)
    rate = 2 * n**3 / here["median_us"] / 1e6
    shares = {"percent_of_cublas": round(100 * base / here["median_us"], 2)}
    shares["percent_of_loop"] = round(100 * rate / ceiling, 2)
    timed = here | {"tflops": round(rate, 3)} | shares
    return {"kernel": name, "size": n, "repeats": ROUNDS[n], COLD: timed, **resources.get(name, {})}


if __name__ == "__main__":
    if sys.argv[1] == "compile":
        compile_all(Path(sys.argv[2]))
    else:
        run(Path(sys.argv[2]), Path(sys.argv[3]))
