"""Blocks that store to an address: predicted without running their products, and compared with actual stores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from checks.compiling import must_compile
from checks.simulator.conftest import PLAIN_ARCH
from gemm_lessons.engine.compiler.compile import Compiled
from gemm_lessons.engine.records.launch import Buffer, Grid, Scalar
from gemm_lessons.engine.simulator import Simulator

BLOCKS, THREADS, N = 12, 64, 37
GRID = Grid((BLOCKS, 1, 1), (THREADS, 1, 1))
HEAD = """extern "C" __global__ void k(const float *a, float *c, int n)
{
    __shared__ float shared[64];
    const int b = blockIdx.x, t = threadIdx.x;
    float sum = 0;
    BODY
}
"""
KNOWN = {
    "a place of its own": "c[b * 64 + t] = a[t];",
    "a share of many tiles": """
        for (int unit = b * n / 12; unit < (b + 1) * n / 12; unit++) {
            for (int i = 0; i < 5; i++) sum += a[i * 64 + t];
            c[unit * 16 + t % 16] = sum;
        }""",
    "through shared memory": """
        for (int i = 0; i < n; i++) {
            shared[t] = a[i + t];
            __syncthreads();
            sum += shared[63 - t];
            __syncthreads();
        }
        if (t < n) c[(11 - b) * 64 + t] = sum;""",
    "some threads of some blocks": "if (b % 3 == 1 && t > 40) c[b * 48 + t] = a[b];",
    "four at once": "((float4 *)c)[b * 16 + t / 4] = make_float4(a[t], 0, 0, 0);",
    "a lane that was asked": "c[__shfl_sync(~0u, b * 64 + t, 3) + t % 4] = sum;",
    "an early return": "if (b * 64 + t >= n * 9) return; c[b * 64 + t] = a[t];",
    "an atomic that no thread reaches": "if (n < 0) atomicAdd(&c[t], a[t]); c[b * 64 + t] = a[t];",
    "a wait that no thread reaches": "if (n < 0) while (atomicAdd(&c[t], 1) < 3); c[b * 64 + t] = a[t];",
    "a condition on memory that no thread asks for": "if (n < 0 && a[b] > 3) c[t] = 1; c[b * 64 + t] = a[t];",
    "a number of bytes": "((unsigned char *)c)[b * 100 + t] = (unsigned char)a[t];",
}
UNKNOWN = {
    "a place from memory": "c[(int)a[b] + t] = 1;",
    "a place from shared memory": "shared[t] = t; __syncthreads(); c[b * 64 + (int)shared[63 - t]] = 1;",
    "a condition on a sum": "for (int i = 0; i < n; i++) sum += a[i]; if (sum > 3) c[b * 64 + t] = 1;",
    "an atomic": "atomicAdd(&c[t], a[t]); c[b * 64 + t] = 1;",
}


def compiled(body: str) -> Compiled:
    """The kernel, without machine code."""
    return must_compile(HEAD.replace("BODY", body), arch=PLAIN_ARCH, assembled=False)


def arguments(c: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    """The arguments of the kernel."""
    return Buffer("a", np.ones(4096, np.float32)), Buffer("c", c, output=True), Scalar("n", np.int32(N))


def changed(body: str, blocks: int) -> np.ndarray[Any, Any]:
    """The words of c that a launch of so many blocks stores."""
    c = np.full(1024, -1.25, np.float32)
    Simulator().launch(compiled(body), Grid((blocks, 1, 1), (THREADS, 1, 1)), arguments(c))
    return c != -1.25


@pytest.mark.parametrize("name", KNOWN)
def test_every_word_has_the_blocks_that_store_it(name: str) -> None:
    """A launch of one block more stores what the others do, and what this block does."""
    code = compiled(KNOWN[name])
    owners = [
        Simulator().owners(code, GRID, arguments(np.zeros(1024, np.float32)), {"c": np.arange(1024) == word})
        for word in range(0, 1024, 13)
    ]
    assert any(owners)
    for blocks in range(BLOCKS + 1):
        stored = changed(KNOWN[name], blocks) if blocks else np.zeros(1024, np.bool_)
        told = [found is not None and any(it < blocks for it in found) for found in owners]
        assert told == stored[::13].tolist()


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_memory_decides_is_unknown(name: str) -> None:
    wanted = {"c": np.ones(1024, np.bool_)}
    assert Simulator().owners(compiled(UNKNOWN[name]), GRID, arguments(np.zeros(1024, np.float32)), wanted) is None


def test_waits_for_copies_end() -> None:
    """A kernel may wait at an mbarrier: its stores are the same."""
    body = """
    __shared__ unsigned long long bar;
    unsigned at = (unsigned)__cvta_generic_to_shared(&bar), done = 0;
    if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(at));
    __syncthreads();
    asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0]; }" :: "r"(at));
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(at));
    c[b * 64 + t] = a[t];"""
    found = must_compile(HEAD.replace("BODY", body), arch="sm_90", assembled=False)
    wanted = {"c": np.arange(1024) == 300}
    assert Simulator().owners(found, GRID, arguments(np.zeros(1024, np.float32)), wanted) == (4,)
