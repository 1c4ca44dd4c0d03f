"""What is inlined from CUDA's headers, or the course's, belongs to the line that calls it: findings and counters."""

from __future__ import annotations

import numpy as np
import pytest

from gemm_lessons.engine.api import simulate
from gemm_lessons.engine.compiler.sass import parse
from gemm_lessons.engine.compiler.toolkit import is_toolkit_header

SOURCE = """\
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void product(const half *A, float *C)
{
    __shared__ __align__(32) half As[256];
    for (int i = threadIdx.x; i < 256; i += 32)
        As[i] = A[i];
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::load_matrix_sync(a, As, 16);
    wmma::load_matrix_sync(b, As, 16);
    wmma::mma_sync(acc, a, b, acc);
    wmma::store_matrix_sync(C, acc, 16, wmma::mem_row_major);
}
"""
LINES = {text.strip().split("(")[0]: number for number, text in enumerate(SOURCE.splitlines(), 1)}


@pytest.mark.counted
def test_wmma_is_told_by_the_lines_that_call_it() -> None:
    launched = simulate(SOURCE, "product", 1, 32, [np.ones(256, np.float16), np.zeros(256, np.float32)])
    unset = [finding for finding in launched.findings if finding.kind == "unset"]
    assert {finding.line for finding in unset} == {LINES["wmma::mma_sync"]}
    loads = [number for number, text in enumerate(SOURCE.splitlines(), 1) if "load_matrix_sync" in text]
    counted = {count.line for count in launched.counters.lines if count.metric == "memory_l1_wavefronts_shared"}
    assert counted == {LINES["As[i] = A[i];"], *loads}
    stored = [count.line for count in launched.counters.lines if count.metric.endswith("global_op_st.sum")]
    assert set(stored) == {LINES["wmma::store_matrix_sync"]}


def test_what_is_cudas_own_or_the_courses() -> None:
    for path in (
        "/x/lib/python3.12/site-packages/nvidia/cu13/include/crt/mma.hpp",
        "/x/site-packages/nvidia/cuda_runtime/include/cuda_fp16.hpp",
        "/usr/local/cuda-12.9/include/crt/mma.hpp",
        "/usr/local/cuda/targets/x86_64-linux/include/cuda_pipeline_helpers.h",
        "/a/lessons/common/mma.cuh",
    ):
        assert is_toolkit_header(path)
    for path in ("kernel.cu", "/home/a/cuda/kernel.cu", "/home/a/include/mine.cuh", "/a/lessons/03_mine/matrix.cuh"):
        assert not is_toolkit_header(path)


def test_only_a_toolkits_place_gives_way_to_its_caller() -> None:
    text = """\
\t.section\t.text.k,"ax",@progbits
\t//## File "/usr/local/cuda/include/crt/mma.hpp", line 91 inlined at "k.cu", line 8
\t//## File "k.cu", line 8 inlined at "k.cu", line 20
\t//## File "k.cu", line 20
        /*0000*/                   LDSM.16.M88.4 R4, [R4] ;
\t//## File "matrix.cuh", line 5 inlined at "k.cu", line 9
\t//## File "k.cu", line 9
        /*0010*/                   LDS R4, [R4] ;
\t//## File "k.cu", line 21
        /*0020*/                   EXIT ;
"""
    assert [(i.file, i.line) for i in parse(text, "k")] == [("k.cu", 8), ("matrix.cuh", 5), ("k.cu", 21)]
