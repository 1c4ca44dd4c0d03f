"""On a real GPU: types, orders, batches and launches beside the plain ones are timed and judged beside cuBLAS."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from checks.compiling import must_compile
from gemm_lessons.course.folder import packaged_course
from gemm_lessons.course.lesson_toml import load_lesson
from gemm_lessons.devices.gpu.cuda_gpu import Gpu
from gemm_lessons.devices.gpu.records import Entrant, Measurement, Step
from gemm_lessons.devices.shadowed_gpu import ShadowedGpu
from gemm_lessons.engine.arguments.expression import Expression
from gemm_lessons.engine.compiler.compile import Compiled
from gemm_lessons.engine.compiler.nvrtc import choose_major
from gemm_lessons.engine.hardware.sheets import find_gpu
from gemm_lessons.engine.records.elements import ELEMENTS
from gemm_lessons.engine.records.launch import Grid
from gemm_lessons.engine.simulator import Simulator
from gemm_lessons.gemm.data import BufferSpec, DataSpec
from gemm_lessons.gemm.problem import Problem
from gemm_lessons.gemm.shapes import Shape, TileSizes
from gemm_lessons.judging.verdict import judge
from gemm_lessons.running.pipeline import RunRequest, run_lesson

pytestmark = pytest.mark.gpu
SPLIT_K = Path(__file__).parents[1] / "course" / "kernels" / "90_split_k"
SHAPE = Shape(192, 256, 320)
PARAMETERS = ("A", "B", "C", "M", "N", "K", "lda", "ldb", "ldc", "stride_A", "stride_B", "stride_C")
SOURCE = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#define AT(X, by_column, ld, row, col) X[by_column ? (col) * (ld) + (row) : (row) * (ld) + (col)]
extern "C" __global__ void gemm(const TA *A, const TB *B, TC *C, int M, int N, int K, int lda, int ldb, int ldc,
                                int stride_A, int stride_B, int stride_C)
{
    A += blockIdx.z * stride_A, B += blockIdx.z * stride_B, C += blockIdx.z * stride_C;
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    TS sum = 0;
    for (int k = SKIP; k < K; ++k)
        sum += (TS)AT(A, A_BY_COLUMN, lda, row, k) * (TS)AT(B, B_BY_COLUMN, ldb, k, col);
    AT(C, C_BY_COLUMN, ldc, row, col) = (TC)sum;
}
"""
ORDERS = {"r": "row", "c": "column"}
TYPES = {  # A and B, C, the sum
    "float32": ("float32", "float32", "float32"),
    "float64": ("float64", "float64", "float64"),
    "half_in": ("float16", "float32", "float32"),
    "half": ("float16", "float16", "float32"),
    "bfloat16": ("bfloat16", "float32", "float32"),
    "tf32": ("tf32", "float32", "float32"),
    "int8": ("int8", "int32", "int32"),
}


def described(orders: str, types: str, batch: int) -> DataSpec:
    factor, answer, total = TYPES[types]
    sides = {"A": ("M", "K"), "B": ("K", "N"), "C": ("M", "N")}
    buffers = []
    for name, order in zip("ABC", orders, strict=True):
        extents = tuple(Expression(text) for text in ((str(batch),) if batch > 1 else ()) + sides[name])
        how: dict[str, Any] = {"role": "out", "fill": "poison"} if name == "C" else {}
        element = ELEMENTS[answer if name == "C" else factor]
        buffers.append(BufferSpec(name, element, extents, ORDERS[order], **how))  # type: ignore[arg-type]
    return DataSpec.plain(PARAMETERS, accumulate=total, buffers=buffers)


def built(gpu: Gpu, data: DataSpec, orders: str, skip: int) -> Compiled:
    names = {name: data.by_name[name].element.c_name for name in "ABC"}
    lines = [f"#define T{name} {c_name}" for name, c_name in names.items()]
    lines += [f"#define {name}_BY_COLUMN {int(order == 'c')}" for name, order in zip("ABC", orders, strict=True)]
    lines += [f"#define TS {data.accumulate.c_name}", f"#define SKIP {skip}"]
    return must_compile(
        "\n".join(lines) + SOURCE,
        path="kernel.cu",
        entry="gemm",
        arch=gpu.arch,
        cuda_major=choose_major(gpu.arch, gpu.driver_major),
    )


def measured(gpu: Gpu, orders: str, types: str, batch: int) -> Measurement:
    data = described(orders, types, batch)
    grid = Grid((SHAPE.n // 16, SHAPE.m // 16, batch), (16, 16, 1))
    entrants = [
        Entrant(label, "kernel", (Step(built(gpu, data, orders, skip), grid, PARAMETERS),))
        for label, skip in (("right", 0), ("one product short", 1))
    ]
    return gpu.measure(data, SHAPE, entrants, seed=11, seconds=0.02, warm_up_s=0.1)


CASES = [
    *(("".join(orders), "float32", 1) for orders in product("rc", repeat=3)),
    *(("rrr", types, 1) for types in TYPES if types != "float32"),
    ("crc", "half_in", 1), ("rcr", "int8", 1), ("rrr", "float32", 3), ("ccr", "float64", 2),
]  # fmt: skip


@pytest.mark.parametrize(("orders", "types", "batch"), CASES)
def test_layouts_and_types_are_judged_beside_cublas(real_gpu: Gpu, orders: str, types: str, batch: int) -> None:
    result = measured(real_gpu, orders, types, batch)
    assert result.fault is None, result.fault
    right, short = result.kernels
    assert (right.wrong, right.overran, result.cublas.wrong) == (0, "", 0), right
    assert short.wrong > 0.9 * batch * SHAPE.m * SHAPE.n, "every element lacks a product"
    assert right.flop == 2 * batch * SHAPE.m * SHAPE.n * SHAPE.k


FETCHED = """
extern "C" __global__ void gemm(cudaTextureObject_t A, cudaTextureObject_t B, float *C, int M, int N, int K)
{
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < K; k += 4) {
        float4 a = tex1Dfetch<float4>(A, (row * K + k) / 4);
        float b[4];
        for (int i = 0; i < 4; ++i)
            b[i] = tex1Dfetch<float>(B, (k + i) * N + col);
        sum += a.x * b[0] + a.y * b[1] + a.z * b[2] + a.w * b[3];
    }
    C[row * N + col] = sum;
}
"""


def test_factors_are_fetched_through_textures(real_gpu: Gpu) -> None:
    names = ("tex4_A", "tex_B", "C", "M", "N", "K")
    data = DataSpec.plain(names)
    compiled = must_compile(
        FETCHED,
        path="kernel.cu",
        entry="gemm",
        arch=real_gpu.arch,
        cuda_major=choose_major(real_gpu.arch, real_gpu.driver_major),
    )
    grid = Grid((SHAPE.n // 16, SHAPE.m // 16, 1), (16, 16, 1))
    (timed,) = real_gpu.measure(data, SHAPE, [Entrant("textures", "kernel", (Step(compiled, grid, names),))], seed=1,
                                seconds=0.02, warm_up_s=0.1).kernels  # fmt: skip
    assert timed.wrong == 0
    problem = Problem(data, SHAPE, 3)
    for device in (real_gpu, Simulator()):
        trial = problem.trial()
        assert device.launch(compiled, grid, trial.arguments(names)).fault is None
        assert judge(problem, trial.answer, TileSizes()).passed, device


def test_a_lesson_of_two_launches_is_timed_as_one(real_gpu: Gpu) -> None:
    lesson = load_lesson(SPLIT_K)
    device, shape = ShadowedGpu(real_gpu), Shape(512, 512, 512)
    path = SPLIT_K / "solution.cu"
    request = RunRequest(packaged_course(), lesson, path, device, find_gpu("h200"), shape, beside=False)
    outcome = run_lesson(request)
    assert outcome.verdict.kind == "passed", outcome.verdict
    assert outcome.kernel.speed.measured.wrong == 0
    assert outcome.kernel.speed.fraction_of_cublas is not None
    assert outcome.kernel.checked.counters is not None
