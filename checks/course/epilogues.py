"""Measure an epilogue that is part of the product beside one that is a kernel of its own, ours and cuBLAS's: where
``lessons/measured/h200_epilogues.json`` comes from.

    python -m checks.course.epilogues compile DIR        # here: machine code
    python -m checks.course.epilogues run DIR lessons/measured/h200_epilogues.json     # where the GPU and cupy are

M = N = 4096, every K; ``size`` of a line is K. Everything else is as in ``measure``. ``any_shape`` and ``cublas`` are
the product alone; ``... then kernel``: the product, and then ``lessons/11_epilogue/unfused.cu`` on all of C;
``epilogue`` and ``cublas fused``: in one launch; ``... beta``: the same, and C is read. ``epilogue no stores`` computes
all of it and stores nothing, ``epilogue stores alone`` stores as if all products were 0: what one launch cannot do
without. Others are pitfalls.
"""

from __future__ import annotations

import ctypes
import statistics
import sys
from functools import partial
from pathlib import Path
from typing import Any

from checks.course.kernel import GPU_ARCH, Kernel
from checks.course.measure import COLD, COMPUTE_32F, FLOAT32, ROOT, Bench, Call, compile_kernels, machine, spread, write
from checks.course.variants import Variant
from gemm_lessons.course.folder import Course
from gemm_lessons.gemm.shapes import Shape

SIDE = 4096
ROUNDS = {16: 41, 32: 41, 64: 41, 128: 41, 256: 41, 512: 31, 1024: 21, 2048: 15, 4096: 11}
PLAIN, FUSED = "any_shape", "epilogue"
VARIANTS = {f"{FUSED} bias each row": "bias_each_row", f"{FUSED} row by row": "row_by_row"}
PAIRS = {FUSED: f"{PLAIN} then kernel", "cublas fused": "cublas then kernel"}  # the same work in two launches
STORE = "            if (row_of(i) < c.rows)\n                floats_at<WIDTH_C>(c(row_of(i), col)) = epilogue("
PARTS = {  # of a fused launch; their C is wrong
    f"{FUSED} no stores": ((STORE, STORE.replace("c.rows)", "c.rows && products.at[0] == 1e30f)")),),
    f"{FUSED} stores alone": (
        ("    const int K = a_view.cols;", "    const int K = 0;"),
        ("    } else {\n        multiply(0);\n    }", "    }"),
    ),
}
UNFUSED = "unfused.cu"
THREADS, ROWS = 256, 4  # of unfused.cu


def shapes() -> list[Shape]:
    """All that is measured, and what is verified before."""
    return [Shape(SIDE, SIDE, k) for k in ROUNDS]


def compile_all(folder: Path) -> None:
    from gemm_lessons.engine.compiler.compile import Compiled, compile_source

    course = Course(ROOT)
    solutions = [Kernel.solution(course.lesson(name)) for name in (PLAIN, FUSED)]
    variants = [Variant(name, {}, pitfall=pitfall).kernel() for name, pitfall in VARIANTS.items()]
    parts = [Variant(name, {}, edits).kernel() for name, edits in PARTS.items()]
    compile_kernels(folder, [*solutions, *variants, *parts], shapes())
    lesson = course.lesson(FUSED)
    path = lesson.directory / UNFUSED
    made = compile_source(
        path.read_text(), path=str(path), entry="bias_relu", defines={}, include_dirs=lesson.include_dirs, arch=GPU_ARCH
    )
    assert isinstance(made, Compiled), made.log
    (folder / "unfused.cubin").write_bytes(made.cubin)


class Lt:
    """cuBLASLt, for its fused epilogue: relu(A B + bias), its own first choice of a kernel. CuPy does not bind it."""

    TRANSPOSE_NONE, RELU_BIAS = 0, 6  # cublasLtEpilogue_t: RELU 2 | BIAS 4
    EPILOGUE, BIAS_POINTER = 7, 8  # cublasLtMatmulDescAttributes_t
    MAX_WORKSPACE = 1  # cublasLtMatmulPreferenceAttributes_t
    WORKSPACE = 32 << 20
    RESULT_BYTES, ALGORITHM_BYTES = 96, 64  # cublasLtMatmulHeuristicResult_t begins with the algorithm

    def __init__(self, bench: Bench) -> None:
        mapped = Path("/proc/self/maps").read_text().split()  # cuBLAS is there, and has loaded it
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
        """It counts columns first: C^T = B^T A^T, and the bias of C's columns is that of its rows."""
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


def both(first: Call, then: Call) -> Call:
    def call() -> None:
        first()
        then()

    return call


def run(folder: Path, target: Path) -> None:
    bench = Bench(folder)
    cupy, np = bench.cupy, bench.np
    second = cupy.RawModule(path=str(folder / "unfused.cubin")).get_function("bias_relu")
    bench.settle()
    lt = Lt(bench)
    rows: list[dict[str, Any]] = []
    for k, rounds in ROUNDS.items():
        a, b, c = bench.random(SIDE, k), bench.random(k, SIDE), bench.random(SIDE, SIDE)
        bias = bench.random(1, SIDE)
        own = {"bias": bias, "alpha": np.float32(1), "beta": np.float32(0)}
        grid = (-(-SIDE // (4 * THREADS)), -(-SIDE // ROWS))
        after = partial(second, grid, (THREADS,), (c, bias, *map(np.int32, (SIDE, SIDE, SIDE))))
        plain = {name: bench.call(name, a, b, c) for name in ("cublas", PLAIN)}
        fused = {
            **{name: bench.call(name, a, b, c, more=own) for name in (FUSED, *VARIANTS)},
            PAIRS[FUSED]: both(plain[PLAIN], after),
            "cublas fused": lt.call(a, b, bias, c),
            PAIRS["cublas fused"]: both(plain["cublas"], after),
        }
        product = cupy.matmul(a.astype(cupy.float64), b.astype(cupy.float64))
        shape = Shape(SIDE, SIDE, k)
        bench.compare(plain, c, product, shape)
        bench.compare(fused, c, cupy.maximum(product + bias, 0), shape)
        with_old = {**own, "beta": np.float32(-0.5)}
        reads = {f"{name} beta": bench.call(name, a, b, c, more=with_old) for name in (FUSED, *VARIANTS)}
        for name, call in reads.items():
            compare_with_old(bench, name, call, c, cupy.maximum(product + bias - 0.5, 0))
        del product
        parts = {name: bench.call(name, a, b, c, more=own) for name in PARTS}
        calls: dict[str, Call] = {**plain, **fused, **reads, **parts, f"{FUSED} kernel alone": after}
        times = bench.times(calls, c, (COLD,), dict.fromkeys(calls, rounds))
        base = statistics.median(times["cublas", COLD])
        for name in calls:
            here = spread(times[name, COLD])
            rate: dict[str, float] = {
                "tflops": round(shape.m * shape.n * shape.k * 2e-6 / here["median_us"], 3),
                "percent_of_cublas": round(100 * base / here["median_us"], 2),
            }
            if pair := PAIRS.get(name, PAIRS[FUSED] if name in (PLAIN, *PARTS) else ""):
                rate["gain"] = round(statistics.median(times[pair, COLD]) / here["median_us"], 3)
            rows.append({"kernel": name, "size": k, "repeats": rounds, COLD: here | rate})
            print(k, name, here, rate, flush=True)
    about = {
        "command": "python -m checks.course.epilogues compile DIR; python -m checks.course.epilogues run DIR FILE",
        **machine(bench),
        "what": "C = relu(A B + bias), fp32, M = N = 4096, size is K. any_shape, cublas: the product alone."
        " then kernel: unfused.cu after it. epilogue, cublas fused (cuBLASLt): one launch. beta: C is read, too."
        " no stores, stores alone: parts of epilogue, whose C is wrong.",
        "how": "CUDA events around one launch, or two that follow each other, median over the repeats, hidden behind a"
        " fill of 128 MiB, so that L2 is cold. percent_of_cublas is against cuBLAS's product alone. cuBLASLt: the first"
        " kernel that it proposes. gain: how many times the speed of the two launches; of any_shape and of parts of"
        " epilogue: what it would be if nothing else took time.",
    }
    write(target, about, rows)


def compare_with_old(bench: Bench, name: str, call: Call, c: Any, reference: Any) -> None:
    """The same where C counts: it holds ones."""
    c.fill(1)
    call()
    error = float(bench.cupy.linalg.norm(c - reference) / bench.cupy.linalg.norm(reference))
    assert error <= 1e-5, f"{name}: relative error {error}"


if __name__ == "__main__":
    if sys.argv[1] == "compile":
        compile_all(Path(sys.argv[2]))
    else:
        run(Path(sys.argv[2]), Path(sys.argv[3]))
