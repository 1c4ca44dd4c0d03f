"""The naive and the block-tile GEMM as Python kernels for numba's CUDA simulator, for ``benchmark.py``."""

# mypy: ignore-errors
from __future__ import annotations

import os
import time

os.environ["NUMBA_ENABLE_CUDASIM"] = "1"  # read when numba is imported

import numpy as np
from numba import cuda, float32


@cuda.jit
def naive(a, b, c):
    row, col = cuda.blockIdx.y * 16 + cuda.threadIdx.y, cuda.blockIdx.x * 16 + cuda.threadIdx.x
    total = float32(0)
    for k in range(a.shape[1]):
        total += a[row, k] * b[k, col]
    c[row, col] = total


@cuda.jit
def block_tile(a, b, c):
    a_tile = cuda.shared.array((16, 16), float32)  # one a line: the simulator tells arrays apart by it
    b_tile = cuda.shared.array((16, 16), float32)
    y, x = cuda.threadIdx.y, cuda.threadIdx.x
    row, col = cuda.blockIdx.y * 16 + y, cuda.blockIdx.x * 16 + x
    total = float32(0)
    for k0 in range(0, a.shape[1], 16):
        a_tile[y, x] = a[row, k0 + x]
        b_tile[y, x] = b[k0 + y, col]
        cuda.syncthreads()
        for k in range(16):
            total += a_tile[y, k] * b_tile[k, x]
        cuda.syncthreads()
    c[row, col] = total


def seconds(kernel, size: int) -> float:
    """One launch at size^3, checked against NumPy."""
    rng = np.random.default_rng(1)
    a, b = (rng.random((size, size), np.float32) for _ in range(2))
    c = np.zeros((size, size), np.float32)
    start = time.perf_counter()
    kernel[(size // 16, size // 16), (16, 16)](a, b, c)
    elapsed = time.perf_counter() - start
    assert np.allclose(c, a @ b, rtol=1e-4)
    return elapsed
