"""Launches that hardware refuses are refused by the simulator, too, each beside one that just fits."""

from __future__ import annotations

import numpy as np
import pytest

from gemm_lessons import simulate

TOGETHER = True

BODY = "k(float *c) { if (threadIdx.x == 0) c[0] = 1; }"
# Every thread keeps 100 values in registers: 128 of them, 512 threads at most.
GREEDY = """k(float *c)
{
    float v[100];
    for (int i = 0; i < 100; i++) v[i] = c[i + threadIdx.x];
    __syncthreads();
    for (int j = 0; j < 3; j++)
        for (int i = 0; i < 100; i++) v[i] = v[i] * v[(i * 7 + j) % 100];
    for (int i = 0; i < 100; i++) c[i + threadIdx.x] = v[i];
}"""
PLAIN = f"void {BODY}"
# source, what just fits, what does not, the words that say why
CASES = {
    "threads": (PLAIN, {"block": 1024}, {"block": (1024, 2)}, "2,048 threads per block, at most 1,024"),
    "threads along x": (PLAIN, {"block": 1024}, {"block": 2048}, "2,048 threads along x, at most 1,024"),
    "threads along z": (PLAIN, {"block": (1, 1, 64)}, {"block": (1, 1, 128)}, "128 threads along z, at most 64"),
    "blocks along y": (PLAIN, {}, {"grid": (1, 70_000)}, "70,000 blocks along y, at most 65,535"),
    "blocks along z": (PLAIN, {}, {"grid": (1, 1, 65_536)}, "65,536 blocks along z"),
    "blocks along x": (PLAIN, {}, {"grid": 1 << 31}, "2,147,483,648 blocks along x"),
    "no blocks": (PLAIN, {}, {"grid": 0}, "0 blocks along x"),
    "no threads": (PLAIN, {}, {"block": (32, 0)}, "0 threads along y"),
    "shared memory": (
        PLAIN, {"dynamic_shared": 227 << 10}, {"dynamic_shared": 300 << 10}, "307,200 bytes of shared memory"),
    "shared memory of another GPU": (
        PLAIN, {"dynamic_shared": 99 << 10, "arch": "sm_86"}, {"dynamic_shared": 100 << 10, "arch": "sm_86"},
        "at most 101,376 on sm_86"),
    "static and dynamic": (
        "void k(float *c) { __shared__ float s[256]; s[threadIdx.x] = 1; c[threadIdx.x] = s[threadIdx.x]; }",
        {"dynamic_shared": 226 << 10}, {"dynamic_shared": 227 << 10}, "(1,024 of them in the code)"),
    "launch bounds": (
        f"void __launch_bounds__(128) {BODY}", {"block": (64, 2)}, {"block": 160}, "__launch_bounds__ allows 128"),
    "block size": (
        f"void __block_size__((64, 2, 1)) {BODY}", {"block": (64, 2)}, {"block": 128}, "compiled for 64 x 2 x 1"),
    "clusters": (f"void __cluster_dims__(2, 1, 1) {BODY}", {"grid": 4}, {"grid": 3}, "cut into clusters of 2 x 1 x 1"),
    "large clusters": (f"void __cluster_dims__(8, 1, 1) {BODY}", {"grid": 8}, None, ""),
    "clusters of the launch": (PLAIN, {"grid": 4, "cluster": 2}, {"grid": 4, "cluster": 3}, "clusters of 3 x 1 x 1"),
    "other clusters": (
        f"void __cluster_dims__(2, 1, 1) {BODY}", {"grid": 4, "cluster": 2}, {"grid": 4, "cluster": 4},
        "compiled for 2 x 1 x 1"),
    "clusters of another GPU": (
        PLAIN, {"grid": 4, "arch": "sm_86"}, {"grid": 4, "cluster": 2, "arch": "sm_86"}, "sm_86 does not support"),
    "too large clusters": (f"void __cluster_dims__(4, 4, 1) {BODY}", None, {"grid": (4, 4)}, "clusters of 16 blocks"),
    "registers": (f"void {GREEDY}", {"block": 256}, {"block": 1024}, "a block has 65,536 registers"),
}  # fmt: skip


@pytest.mark.parametrize(("kernel", "fits", "refused", "why"), CASES.values(), ids=CASES)
def test_a_launch_that_a_gpu_refuses(kernel, fits, refused, why):
    def launch(grid=1, block=32, **options):
        out = np.zeros(2048, np.float32)
        return out, simulate(f'extern "C" __global__ {kernel}', "k", grid, block, [out], **options)

    if fits is not None:
        assert launch(**fits)[1].fault is None
    if refused is not None:
        out, launched = launch(**refused)
        assert launched.fault.kind == "launch_failed"
        assert why in launched.fault.message
        assert not out.any()
        assert launched.counters.totals == {}


def test_negative_sizes_are_no_launch():
    with pytest.raises(ValueError, match="negative"):
        simulate(f'extern "C" __global__ {PLAIN}', "k", (1, -1), 32, [np.zeros(4, np.float32)])
