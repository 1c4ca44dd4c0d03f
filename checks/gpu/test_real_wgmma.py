"""On a real GPU of sm_90: a kernel with roles and wgmma gives what the simulator gives."""

from __future__ import annotations

import numpy as np
import pytest

from checks.compiling import must_compile
from checks.gpu.test_real_gpu import build
from checks.simulator.test_fragments import subnormal_sums
from checks.simulator.test_wgmma import COMMON, ROLES_SHARED, roles_arguments, roles_source
from gemm_lessons.devices.gpu.cuda_gpu import Gpu
from gemm_lessons.engine.api import arguments
from gemm_lessons.engine.records.launch import Grid
from gemm_lessons.engine.simulator import Simulator

pytestmark = pytest.mark.gpu


SUMS = """
#include <cuda_fp16.h>
extern "C" __global__ void k(const __half *a, const __half *b, __half *d)  // a block of one warp: one dot product
{
    const int t = threadIdx.x;
    unsigned x[4] = {}, y[2] = {}, sum[2] = {};
    if (t < 4)
        for (int i = 0; i < 2; i++) {
            const int at = 16 * blockIdx.x + 2 * t + 8 * i;
            x[2 * i] = reinterpret_cast<const unsigned *>(a)[at / 2];
            y[i] = reinterpret_cast<const unsigned *>(b)[at / 2];
        }
    asm("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
        : "+r"(sum[0]), "+r"(sum[1]) : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
    if (t == 0)
        d[blockIdx.x] = __ushort_as_half(sum[0] & 0xffff);
}
"""


def test_subnormal_sums_are_those_kept(real_gpu: Gpu) -> None:
    a, b, d = subnormal_sums()
    out = np.zeros(len(d), np.float16)
    compiled = build(real_gpu, SUMS, "k")
    given = arguments(Simulator().kernel(compiled), [np.ascontiguousarray(a), np.ascontiguousarray(b), out])
    launched = real_gpu.launch(compiled, Grid((len(d), 1, 1), (32, 1, 1)), given)
    assert launched.fault is None, launched.fault
    assert np.array_equal(out, d.reshape(-1))


def test_a_producer_and_two_consumers(real_gpu: Gpu) -> None:
    if not real_gpu.arch.startswith("sm_90"):
        pytest.skip("wgmma is of sm_90a")
    compiled = must_compile(roles_source(), path="roles.cu", arch="sm_90a", include_dirs=[COMMON])
    given, c, expected = roles_arguments(512, 512, 512)
    launched = real_gpu.launch(
        compiled, Grid((8, 4, 1), (384, 1, 1), ROLES_SHARED), arguments(Simulator().kernel(compiled), given)
    )
    assert launched.fault is None, launched.fault
    assert np.array_equal(c, expected)
