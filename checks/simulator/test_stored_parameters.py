"""Which arrays a kernel may store to, as its code shows: the reads of the others need no notes."""

from __future__ import annotations

import numpy as np
import pytest

from gemm_lessons import simulate
from gemm_lessons.engine.ptx import parser
from gemm_lessons.engine.ptx.provenance import stored_parameters

TOGETHER = True
HEAD = """
struct Pair { float *first, *second; };
extern "C" __global__ void k(float *a, float *b, float *c, Pair pair, float **table, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float *own[2] = {a, b};
    BODY
}
"""
BODIES = {
    "one": ("c[i] = a[i] + b[i];", {2}),
    "through a moving pointer": ("for (float *p = c + i; p < c + n; p += 64) *p = a[i];", {2}),
    "one of two": ("(i % 2 ? a : c)[i] = b[i];", {0, 2}),
    "an atomic": ("atomicAdd(&b[i], a[i]);", {1}),
    "a struct": ("pair.second[i] = a[i];", {3}),
    "by a loaded index": ("c[(int)a[i]] = b[i];", {2}),
    "by a wide index": ("c[((long long *)a)[i]] = b[i];", None),
    "a loaded pointer": ("table[i % 2][i] = a[i];", None),
    "a chosen pointer": ("own[n & 1][i] = c[i];", None),
    "a pointer of another thread": (
        "float *p = (float *)__shfl_xor_sync(~0u, (unsigned long long)(i % 2 ? a : c), 1); p[i] = b[i];",
        None,
    ),
}


@pytest.mark.parametrize(("body", "want"), BODIES.values(), ids=BODIES)
def test_it_follows_from_the_code(body, want):
    from gemm_lessons.engine.compiler.compile import Compiled, compile_source

    made = compile_source(HEAD.replace("BODY", body), path="kernel.cu", entry="k", assembled=False)
    assert isinstance(made, Compiled)
    found = stored_parameters(parser.parse(made.ptx).kernels["k"])
    assert found == (None if want is None else {f"k_param_{number}" for number in want})


RACE = """
extern "C" __global__ void k(const float *a, float *c, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    c[i] = a[(i + 1) % n];
}
"""


@pytest.mark.parametrize("same", [True, False])
def test_an_array_under_two_names_is_one(same):
    a = np.arange(128, dtype=np.float32)
    c = a if same else np.zeros(128, np.float32)
    found = [f.kind for f in simulate(RACE, "k", 2, 64, [a, c, 128]).findings]
    assert ("race" in found) == same
