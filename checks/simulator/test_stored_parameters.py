"""Which arrays a kernel may store to, as its code shows: the reads of the others need no notes."""

from __future__ import annotations

import numpy as np
import pytest

from checks.compiling import must_compile
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

    made = must_compile(HEAD.replace("BODY", body), path="kernel.cu", assembled=False)
    found = stored_parameters(parser.parse(made.ptx).kernels["k"])
    assert found == (None if want is None else {f"k_param_{number}" for number in want})


BULK = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 k_param_0, .param .align 64 .b8 k_param_1[128], .param .align 64 .b8 k_param_2[192])
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<6>;
    ld.param.b64 %rd1, [k_param_0];
    mov.b64 %rd2, k_param_1;
    cvta.param.u64 %rd3, %rd2;
    mov.b64 %rd4, k_param_2;
    BODY
    cp.async.bulk.commit_group;
    ret;
}
"""
OUT = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group"
IN = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
LOAD = f"{IN} [%r1], [%rd3, {{%r2, %r3}}], [%r0];"
COPIES = {
    "into shared memory": (LOAD, set()),
    "from shared memory": (f"{OUT} [%rd3, {{%r2, %r3}}], [%r1];", {1}),
    "in a row": ("cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 128;", {0}),
    "a reduction": ("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%rd3, {%r2, %r3}], [%r1];", {1}),
    "by a map in memory": (f"{OUT} [%rd1, {{%r2, %r3}}], [%r1];", None),
    "a changed map": (f"tensormap.replace.tile.global_address.global.b1024.b64 [%rd1], %rd2; {LOAD}", None),
    "by a map in a struct": (f"{OUT} [%rd4, {{%r2, %r3}}], [%r1];", None),
}


@pytest.mark.parametrize(("body", "want"), COPIES.values(), ids=COPIES)
def test_bulk_copies_store_where_their_tensor_map_says(body, want):
    found = stored_parameters(parser.parse(BULK.replace("BODY", body)).kernels["k"])
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
