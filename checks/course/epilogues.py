"""An epilogue in the same launch as the product beside one in a second launch, ours and cuBLAS's: the table epilogues.

M = N = 4096, every K; ``size`` of a row is K. ``any_shape`` and ``cublas`` are the product alone; ``... then kernel``
adds ``unfused.cu`` of lesson epilogue on all of C; ``epilogue`` and ``cublas fused`` do both in one launch; with
``... beta`` C is read, too. Variants without a part of the fused launch, whose C is wrong, show what that part costs.
"""

from __future__ import annotations

import ctypes
import statistics
from functools import partial
from pathlib import Path
from typing import Any

from checks.course.bench import COMPUTE_32F, FLOAT32, Bench, Call, in_a_row, rates, spread
from checks.course.kernel import compiled
from checks.course.tables import COLD, ROOT, Problem
from gemm_lessons.course.folder import Course

TABLE = "epilogues"
PLAIN, FUSED = "any_shape", "epilogue"
PAIRS = {FUSED: f"{PLAIN} then kernel", "cublas fused": "cublas then kernel"}  # the same work in two launches
UNFUSED = "unfused"
THREADS, ROWS = 256, 4  # of unfused.cu
BETA = -0.5


def compile_unfused(folder: Path) -> None:
    """Write the cubin of the kernel that does an epilogue alone."""
    lesson = Course(ROOT).lesson(FUSED)
    path = lesson.directory / f"{UNFUSED}.cu"
    made = compiled(path.read_text(), path, "bias_relu", {}, lesson.include_dirs)
    (folder / f"{UNFUSED}.cubin").write_bytes(made.cubin)


class Lt:
    """cuBLASLt for relu(A B + bias) in one launch, with the kernel that its heuristic ranks first. CuPy lacks it."""

    RELU_BIAS = 6  # cublasLtEpilogue_t: RELU 2 | BIAS 4
    EPILOGUE, BIAS_POINTER = 7, 8  # cublasLtMatmulDescAttributes_t
    MAX_WORKSPACE = 1  # cublasLtMatmulPreferenceAttributes_t
    WORKSPACE = 32 << 20
    RESULT_BYTES = 96  # cublasLtMatmulHeuristicResult_t begins with the algorithm

    def __init__(self, bench: Bench) -> None:
        mapped = Path("/proc/self/maps").read_text().split()  # cuBLAS has loaded the library
        self.api = ctypes.CDLL(next(word for word in mapped if "libcublasLt.so" in word))
        self.handle = ctypes.c_void_p()
        self.do("cublasLtCreate", ctypes.byref(self.handle))
        self.workspace = bench.cupy.empty(self.WORKSPACE, bench.cupy.uint8)
        self.one, self.zero = ctypes.c_float(1.0), ctypes.c_float(0.0)
        self.kept: list[Any] = []

    def do(self, name: str, *arguments: Any) -> None:
        status = getattr(self.api, name)(*arguments)
        assert status == 0, f"{name}: status {status}"

    def made(self, name: str, *arguments: Any) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self.do(name, ctypes.byref(handle), *arguments)
        return handle

    def layout(self, rows: int, cols: int) -> ctypes.c_void_p:
        sizes = ctypes.c_uint64(rows), ctypes.c_uint64(cols), ctypes.c_int64(rows)
        return self.made("cublasLtMatrixLayoutCreate", FLOAT32, *sizes)

    def call(self, a: Any, b: Any, bias: Any, c: Any) -> Call:
        """A call of the fused product. cuBLASLt is column-major: C^T = B^T A^T, and the bias is along its rows."""
        (m, n), k = c.shape, a.shape[1]
        how = self.made("cublasLtMatmulDescCreate", COMPUTE_32F, FLOAT32)
        epilogue, pointer = ctypes.c_int(self.RELU_BIAS), ctypes.c_void_p(bias.data.ptr)
        self.do("cublasLtMatmulDescSetAttribute", how, self.EPILOGUE, ctypes.byref(epilogue), ctypes.c_size_t(4))
        self.do("cublasLtMatmulDescSetAttribute", how, self.BIAS_POINTER, ctypes.byref(pointer), ctypes.c_size_t(8))
        left, right, out = self.layout(n, k), self.layout(k, m), self.layout(n, m)
        wish = self.made("cublasLtMatmulPreferenceCreate")
        most = ctypes.c_uint64(self.WORKSPACE)
        self.do(
            "cublasLtMatmulPreferenceSetAttribute", wish, self.MAX_WORKSPACE, ctypes.byref(most), ctypes.c_size_t(8)
        )
        found, count = ctypes.create_string_buffer(self.RESULT_BYTES), ctypes.c_int()
        choose = (self.handle, how, left, right, out, out, wish, 1, found, ctypes.byref(count))
        self.do("cublasLtMatmulAlgoGetHeuristic", *choose)
        assert count.value == 1
        self.kept.append(found)
        places = [ctypes.c_void_p(array.data.ptr) for array in (b, a, c, c, self.workspace)]
        return partial(
            self.do, "cublasLtMatmul", self.handle, how, ctypes.byref(self.one), places[0], left, places[1], right,
            ctypes.byref(self.zero), places[2], out, places[3], out, found, places[4],
            ctypes.c_size_t(self.WORKSPACE), ctypes.c_void_p(0),
        )  # fmt: skip


def measure(bench: Bench) -> list[dict[str, Any]]:
    """The rows of every K."""
    bench.settle()
    lt = Lt(bench)
    return [row for problem in bench.table.problems() for row in measure_problem(bench, lt, problem)]


def measure_problem(bench: Bench, lt: Lt, problem: Problem) -> list[dict[str, Any]]:
    a, b, c = bench.given(problem.kind, problem.shape)
    calls = compared_calls(bench, lt, problem, a, b, c)
    times = bench.times(calls, c, dict.fromkeys(calls, bench.table.launches("cublas", problem)))[COLD]
    medians = {name: statistics.median(found) for name, found in times.items()}
    rows = []
    for name in calls:
        here = spread(times[name]) | rates(medians[name], problem.shape, medians["cublas"])
        if name == PLAIN or name in bench.wrong:
            here["gain"] = round(medians[PAIRS[FUSED]] / medians[name], 3)
        elif name in PAIRS:
            here["gain"] = round(medians[PAIRS[name]] / medians[name], 3)
        rows.append({"kernel": name, "size": problem.size, "repeats": len(times[name]), COLD: here})
        print(rows[-1], flush=True)
    return rows


def compared_calls(bench: Bench, lt: Lt, problem: Problem, a: Any, b: Any, c: Any) -> dict[str, Call]:
    """Every call by its name, compared with float64."""
    cupy, np, shape = bench.cupy, bench.np, problem.shape
    bias = bench.normal(1, shape.n)
    scalars = {"bias": bias, "alpha": np.float32(1), "beta": np.float32(0)}
    fused = [name for name in bench.lessons if name != PLAIN and name not in bench.wrong]
    product = bench.product(problem.kind, a, b)

    plain = {"cublas": bench.library(problem.kind, a, b, c), PLAIN: bench.kernel(PLAIN, a, b, c)}
    bench.compare(plain, c, product, problem)

    after = unfused(bench, c, bias)
    answers = {name: bench.kernel(name, a, b, c, more=scalars) for name in fused}
    answers["cublas fused"] = lt.call(a, b, bias, c)
    answers |= {PAIRS[FUSED]: partial(in_a_row, [plain[PLAIN], after])}
    answers |= {PAIRS["cublas fused"]: partial(in_a_row, [plain["cublas"], after])}
    bench.compare(answers, c, cupy.maximum(product + bias, 0), problem)

    with_old = {**scalars, "beta": np.float32(BETA)}
    reading = {f"{name} beta": bench.kernel(name, a, b, c, more=with_old) for name in fused}
    for name, call in reading.items():
        compare_with_old(bench, name, call, c, cupy.maximum(product + bias + BETA, 0))

    parts = {name: bench.kernel(name, a, b, c, more=scalars) for name in bench.wrong}
    return {**plain, **answers, **reading, **parts, f"{FUSED} kernel alone": after}


def unfused(bench: Bench, c: Any, bias: Any) -> Call:
    """The kernel that computes C = relu(C + bias), bias by column."""
    (m, n), np = c.shape, bench.np
    kernel = bench.cupy.RawModule(path=str(bench.folder / f"{UNFUSED}.cubin")).get_function("bias_relu")
    grid = (-(-n // (4 * THREADS)), -(-m // ROWS))
    return partial(kernel, grid, (THREADS,), (c, bias, np.int32(m), np.int32(n), np.int32(n)))


def compare_with_old(bench: Bench, name: str, call: Call, c: Any, reference: Any) -> None:
    """Compare a call that also reads C, which holds ones beforehand."""
    c.fill(1)
    call()
    error = float(bench.cupy.linalg.norm(c - reference) / bench.cupy.linalg.norm(reference))
    assert error <= 1e-5, f"{name}: relative error {error}"
