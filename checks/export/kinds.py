"""Lessons with other types and layouts than the course's, one plain kernel each, for the tests of export."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gemm_lessons.course.lesson import Lesson
from gemm_lessons.course.lesson_toml import load_lesson

TOML = """\
title = "{name}"
idea = "One thread, one element, as ever."

[tile]
BM = 16
BN = 16

[launch]
grid = ["ceil_div(N, BN)", "ceil_div(M, BM)"]
block = ["BN", "BM"]
{launch}

[kernel]
entry = "gemm"
parameters = ["A", "B", "C", "M", "N", "K"{more}]
{kernel}

{buffers}

[shapes]
multiple_of = {{ M = 4, N = 4, K = 4 }}
check = [[32, 32, 32]]
count = [32, 32, 32]
"""
KERNEL = """\
{head}
extern "C" __global__ void gemm(const {a} *A, const {b} *B, {c} *C, int M, int N, int K{parameters})
{{
    int row = blockIdx.y * BM + threadIdx.y, col = blockIdx.x * BN + threadIdx.x;
    if (row >= M || col >= N)
        return;
    {sums} sum = {sums}(0);
    for (int k = 0; k < K; ++k)
        sum += {sums}({left}) * {sums}({right});
    {store};
}}
"""


@dataclass(frozen=True)
class Kind:
    """Differences from a product of float32: C types, text of lesson.toml, elements in the kernel. ``call``: cuBLAS's
    call for the same product, empty if cuBLAS has none."""

    call: str
    a: str = "float"
    b: str = "float"
    c: str = "float"
    sums: str = "float"
    kernel: str = ""
    buffers: str = ""
    launch: str = ""
    more: str = ""
    parameters: str = ""
    head: str = ""
    left: str = "A[row * K + k]"
    right: str = "B[k * N + col]"
    store: str = "C[row * N + col] = {c}(sum)"


def _types(a: str, b: str, c: str, accumulate: str) -> str:
    return f'a = "{a}"\nb = "{b}"\nc = "{c}"\naccumulate = "{accumulate}"'


def _buffer(name: str, *shape: str, more: str = "") -> str:
    sizes = ", ".join(f'"{size}"' for size in shape)
    return f'[buffers.{name}]\ntype = "float32"\nshape = [{sizes}]\n{more}\n'


PLAIN = "CUBLAS_OP_N, CUBLAS_OP_N, N, M, K, &one, device.B"
KINDS: Mapping[str, Kind] = {
    "double": Kind(
        f"cublasDgemm(cublas, {PLAIN}, N, device.A, K, &zero, device.product, N)",
        "double", "double", "double", "double",
        kernel=_types("float64", "float64", "float64", "float64"),
    ),
    "half": Kind(
        f"cublasGemmEx(cublas, {PLAIN}, CUDA_R_16F, N, device.A, CUDA_R_16F, K, &zero, "
        "device.product, CUDA_R_32F, N, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT)",
        "__half", "__half", head="#include <cuda_fp16.h>", kernel=_types("float16", "float16", "float32", "float32"),
    ),
    "half_sums": Kind(
        f"cublasGemmEx(cublas, {PLAIN}, CUDA_R_16F, N, device.A, CUDA_R_16F, K, &zero, "
        "device.product, CUDA_R_16F, N, CUBLAS_COMPUTE_16F, CUBLAS_GEMM_DEFAULT)",
        "__half", "__half", "__half", "__half", head="#include <cuda_fp16.h>",
        kernel=_types("float16", "float16", "float16", "float16"),
    ),
    "bfloat16": Kind(
        f"cublasGemmEx(cublas, {PLAIN}, CUDA_R_16BF, N, device.A, CUDA_R_16BF, K, &zero, "
        "device.product, CUDA_R_16BF, N, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT)",
        "__nv_bfloat16", "__nv_bfloat16", "__nv_bfloat16", head="#include <cuda_bf16.h>",
        kernel=_types("bfloat16", "bfloat16", "bfloat16", "float32"),
    ),
    "int8": Kind(
        f"cublasGemmEx(cublas, {PLAIN}, CUDA_R_8I, N, device.A, CUDA_R_8I, K, &zero, "
        "device.product, CUDA_R_32I, N, CUBLAS_COMPUTE_32I, CUBLAS_GEMM_DEFAULT)",
        "signed char", "signed char", "int", "int", kernel=_types("int8", "int8", "int32", "int32"),
    ),
    "uint8": Kind("", "unsigned char", "signed char", "int", "int", kernel=_types("uint8", "int8", "int32", "int32")),
    "scaled": Kind(
        f"cublasSgemm(cublas, {PLAIN}, N, device.A, K, &zero, device.product, N)",
        more=', "alpha", "beta", "lda", "ldb", "ldc"',
        parameters=", float alpha, float beta, int lda, int ldb, int ldc",
        left="A[row * lda + k]", right="B[k * ldb + col]",
        store="C[row * ldc + col] = alpha * sum + beta * C[row * ldc + col]",
    ),
    "transposed": Kind(
        "cublasSgemm(cublas, CUBLAS_OP_N, CUBLAS_OP_T, N, M, K, &one, device.B, N, "
        "device.A, M, &zero, device.product, N)",
        kernel='formula = "C = transpose(A) @ transpose(B)"',
        buffers=_buffer("A", "K", "M") + _buffer("B", "N", "K", more='order = "column"'),
        left="A[k * M + row]",
    ),
    "column": Kind(
        "cublasSgemm(cublas, CUBLAS_OP_T, CUBLAS_OP_T, M, N, K, &one, device.A, K, "
        "device.B, N, &zero, device.product, M)",
        buffers=_buffer("C", "M", "N", more='order = "column"\nrole = "out"\nfill = "poison"'),
        store="C[col * M + row] = sum",
    ),
    "dynamic": Kind(
        f"cublasSgemm(cublas, {PLAIN}, N, device.A, K, &zero, device.product, N)",
        launch='dynamic_shared = "65536"', head="extern __shared__ float tile[];",
        left="(tile[threadIdx.y * BN + threadIdx.x + 8192] = A[row * K + k])",
    ),
}  # fmt: skip


def lesson_of(kind: str, folder: Path) -> Lesson:
    """Write the lesson of a kind below ``folder`` and read it."""
    it, directory = KINDS[kind], folder / f"{70 + list(KINDS).index(kind)}_{kind}"
    directory.mkdir(parents=True)
    (directory / "lesson.toml").write_text(
        TOML.format(name=kind, launch=it.launch, more=it.more, kernel=it.kernel, buffers=it.buffers)
    )
    kernel = KERNEL.format(
        head=it.head, a=it.a, b=it.b, c=it.c, sums=it.sums, parameters=it.parameters, left=it.left, right=it.right,
        store=it.store.format(c=it.c),
    )  # fmt: skip
    (directory / "solution.cu").write_text(kernel)
    return load_lesson(directory)
