"""Threads that may meet in memory all the same: compare-and-swap, strong accesses, hand-overs by fence and flag."""

from __future__ import annotations

import numpy as np
import pytest

TOGETHER = True
ORDERED, APART = ("race", "error"), ("block_order", "error")
GUIDE = """
__device__ double add(double *address, double value)   // as in the CUDA programming guide
{
    unsigned long long *p = (unsigned long long *)address, old = *p, assumed;
    do {
        assumed = old;
        old = atomicCAS(p, assumed, __double_as_longlong(value + __longlong_as_double(assumed)));
    } while (assumed != old);
    return __longlong_as_double(old);
}
__device__ void largest(float *address, float value)
{
    int *p = (int *)address, old = *p, assumed;
    while (value > __int_as_float(old)) {
        assumed = old;
        old = atomicCAS(p, assumed, __float_as_int(value));
        if (old == assumed) break;
    }
}
"""
INTS = "int *I = (int *)C; "
DOUBLES = "double *D = (double *)C; "
MEET = {
    "double by cas": (f"{DOUBLES} add(D, A[g]);", []),
    "double by cas, volatile": (f"{DOUBLES} add(D + (t & 1), A[g]); volatile double *V = D; if (V[0] < 0) A = 0;", []),
    "largest float": ("largest(C, A[g]);", []),
    "read after the swap": (f"{DOUBLES} add(D, A[g]); __syncthreads(); D[2 + g] = D[0];", [APART]),
    "only when it helps": (f"{INTS} int v = A[g]; if (v > I[0]) atomicMax(I, v);", []),
    "used beyond the test": (
        f"{INTS} int v = A[g], o = I[0]; if (v > o) atomicMax(I, v); I[2 + g] = o;", [APART, ORDERED]),
    "test of another element": (f"{INTS} int v = A[g]; if (v > I[1]) atomicMax(I, v); if (g == 70) I[1] = 3;", [APART]),
    "added where it is tested": (f"{INTS} int v = A[g]; if (v > I[0]) atomicAdd(I, v);", [APART, ORDERED]),
    "volatile and atomic": (f"{INTS} atomicAdd(I, 1); I[2 + g] = ((volatile int *)I)[0];", []),
    "plain and atomic": (f"{INTS} atomicAdd(I, 1); I[2 + g] = I[0];", [APART, ORDERED]),
    "volatile store, volatile load": ("volatile float *V = C; V[0] = t; V[2 + g] = V[0];", []),
    "volatile store, plain load": ("volatile float *V = C; V[0] = t; __syncthreads(); C[2 + g] = C[0];", [APART]),
    "relaxed": (
        f'{INTS} asm volatile("st.relaxed.gpu.global.s32 [%0], %1;" : : "l"(I), "r"(t) : "memory"); int v;'
        ' asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(I) : "memory"); I[2 + g] = v;', []),
    "list": (  # head in I[0], every node's next in I[2 + g]
        f"{INTS} int old = I[0], assumed; do {{ assumed = old; I[2 + g] = assumed; __threadfence();"
        " old = atomicCAS(I, assumed, g); } while (old != assumed);", []),
    "list that is read too early": (
        f"{INTS} int old = I[0], assumed; do {{ assumed = old; I[2 + g] = assumed;"
        " old = atomicCAS(I, assumed, g); } while (old != assumed); I[200 + g] = I[2 + (g ^ 64)];", [APART]),
}  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), MEET.values(), ids=MEET)
@pytest.mark.parametrize("block_limit", [None, 1])
def test_who_may_meet_without_a_barrier(check, body, expected, block_limit):
    a = np.arange(128, dtype=np.float32) % 7
    a.setflags(write=False)
    out = np.zeros(600, np.float32)
    body = f"const int g = blockIdx.x * 64 + t; {body}"
    found = check(body, 2, 64, [a, out], before=GUIDE, block_limit=block_limit)
    assert {(f.kind, f.severity) for f in found} - {("race", "warning")} <= set(expected), found
    assert bool(found) == bool(expected), found
    if "add(D, A[g]);" in body and not expected:
        assert out.view(np.float64)[0] == a.sum()


# The tile of a split-K product: every block adds its share to C. 128 threads in two blocks.
TILES = {
    "added": ("atomicAdd(C + t, A[g]);", []),
    "added and read": ("atomicAdd(C + t, A[g]); __threadfence(); if (blockIdx.x) C[64 + t] = C[t];", [APART]),
    "added and read, barrier": (
        "atomicAdd(C + t, A[g]); __threadfence(); __syncthreads(); if (blockIdx.x) C[64 + t] = C[63 - t];", [APART]),
    "added and read in the block": (
        "atomicAdd(C + (g ^ 32), A[g]); __threadfence(); C[128 + g] = C[g];", [ORDERED]),
    "the last block reads": (
        "__shared__ bool last; atomicAdd(C + t, A[g]); __threadfence(); __syncthreads();"
        " if (t == 0) last = atomicAdd((int *)C + 256, 1) == 1; __syncthreads(); if (last) C[64 + t] = C[t];", []),
    "one block waits": (
        "atomicAdd(C + t, A[g]); __threadfence(); __syncthreads(); if (t == 0) atomicAdd((int *)C + 256, 1);"
        " if (blockIdx.x) { while (((volatile int *)C)[256] < 2); __threadfence(); C[64 + t] = C[t]; }", []),
    "zeroed by one block": ("if (blockIdx.x == 0) C[t] = 0; __syncthreads(); atomicAdd(C + t, A[g]);", [ORDERED]),
    "atomic for one block only": ("atomicAdd_block(C + t, A[g]);", [ORDERED]),
    "atomic for one block, one block": ("if (blockIdx.x) atomicAdd_block(C + t % 4, A[g]);", []),
}  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), TILES.values(), ids=TILES)
@pytest.mark.parametrize("block_limit", [None, 1])
def test_who_adds_to_a_tile_and_who_may_read_it(check, body, expected, block_limit):
    a = np.arange(128, dtype=np.float32)
    a.setflags(write=False)
    body = f"const int g = blockIdx.x * 64 + t; {body}"
    found = check(body, 2, 64, [a, np.zeros(257, np.float32)], block_limit=block_limit)
    assert {(f.kind, f.severity) for f in found} == set(expected), found


SHARED = {
    "double by cas": ("__shared__ double s; if (t == 0) s = 0; __syncthreads(); add(&s, A[t]); __syncthreads();"
                      " C[t] = s;", []),
    "read with no barrier": ("__shared__ double s; if (t == 0) s = 0; __syncthreads(); add(&s, A[t]);"
                             " C[t] = s;", [ORDERED]),
    "no barrier before": ("__shared__ double s; if (t == 0) s = 0; add(&s, A[t]); __syncthreads();"
                          " C[t] = s;", [ORDERED]),
}  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), SHARED.values(), ids=SHARED)
def test_who_may_meet_in_shared_memory(check, body, expected):
    a = np.ones(64, np.float32)
    a.setflags(write=False)
    out = np.zeros(64, np.float32)
    found = check(body, 1, 64, [a, out], before=GUIDE)
    assert sorted({(f.kind, f.severity) for f in found if f.severity == "error"}) == expected, found
    assert bool(found) == bool(expected)


# Two warps: w is 0 or 1, l the lane. F is a flag in shared memory, x and y are data there.
WAIT = "if (l == 0) while (F == 0); __syncwarp(); FENCE"
SET = "FENCE __syncwarp(); if (l == 0) F = 1;"
FLAGS = {
    "handed over": (f"if (w) {{ x[l] = A[l]; {SET} }} else {{ {WAIT} C[l] = x[31 - l]; }}", []),
    "handed over too early": (f"if (w) {{ {SET} x[l] = A[l]; }} else {{ {WAIT} C[l] = x[31 - l]; }}", [ORDERED]),
    "written after it was read": (
        f"if (w) {{ C[l] = x[31 - l]; {SET} }} else {{ {WAIT} x[l] = 2; }}", []),
    "written before it was read": (
        f"if (w) {{ {SET} C[l] = x[31 - l]; }} else {{ {WAIT} x[l] = 2; }}", [ORDERED]),
    "another's data": (f"y[t] = A[l]; if (w) {{ {SET} }} else {{ {WAIT} C[l] = y[63 - l]; }}", []),
    "another's data, other way": (f"y[t] = A[l]; if (w) {{ {SET} C[l] = y[31 - l]; }} else {{ {WAIT} }}", [ORDERED]),
    "lock": (
        "if (l == 0) { while (atomicCAS(&L, 0, 1)); FENCE y[0] += A[t]; FENCE atomicExch(&L, 0); } __syncthreads();"
        " C[t] = y[0];", []),
    "lock, and one beside it": (
        "if (t == 0) { while (atomicCAS(&L, 0, 1)); FENCE y[0] += A[t]; FENCE atomicExch(&L, 0); }"
        " if (t == 32) y[0] += 1; __syncthreads(); C[t] = y[0];", [ORDERED]),
}  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), FLAGS.values(), ids=FLAGS)
@pytest.mark.parametrize("fence", [True, False], ids=["fences", "no fences"])
def test_flags_and_locks_in_shared_memory(check, body, expected, fence):
    head = (
        "__shared__ volatile int F; __shared__ int L; __shared__ float x[32], y[64]; const int w = t / 32, l = t % 32;"
        " if (t == 0) { F = 0; L = 0; } if (t < 32) x[t] = 1; y[t] = 0; __syncthreads();"
    )
    a = np.ones(64, np.float32)
    a.setflags(write=False)
    body = head + body.replace("FENCE", "__threadfence_block();" if fence else "")
    found = check(body, 3, 64, [a, np.zeros(64, np.float32)])
    kinds = {(f.kind, f.severity) for f in found if f.effects.startswith("shared")}
    assert kinds == (set(expected) if fence else {ORDERED}), found


# threadFenceReduction of the CUDA samples, cut down: the block that comes last adds what the others have stored.
REDUCTION = """
__device__ unsigned int count = 0;
__device__ float block_sum(float v) {
    __shared__ float s[64];
    s[threadIdx.x] = v;
    __syncthreads();
    for (int n = 32; n > 0; n /= 2) { if (threadIdx.x < n) s[threadIdx.x] += s[threadIdx.x + n]; __syncthreads(); }
    return s[0];
}
"""
LAST = """
    __shared__ bool last;
    float sum = block_sum(A[blockIdx.x * 64 + t]);
    if (t == 0) {
        C[blockIdx.x] = sum;
        FENCE
        last = atomicInc(&count, gridDim.x) == gridDim.x - 1;
    }
    __syncthreads();
    if (last) {
        float v = 0;
        for (int i = t; i < gridDim.x; i += 64) v += C[i];
        v = block_sum(v);
        if (t == 0) { C[0] = v; count = 0; }
    }
"""


@pytest.mark.parametrize("block_limit", [None, 1, 3])
@pytest.mark.parametrize(("fence", "expected"), [("__threadfence();", set()), ("", {APART})])
def test_the_last_block_adds_up(check, fence, expected, block_limit):
    a = np.arange(64 * 80, dtype=np.float32) % 5
    a.setflags(write=False)
    out = np.zeros(80, np.float32)
    found = check(LAST.replace("FENCE", fence), 80, 64, [a, out], before=REDUCTION, block_limit=block_limit)
    assert {(f.kind, f.severity) for f in found} - {("race", "error")} == expected, found
    assert out[0] == a.sum()
    if not expected:
        assert found == []


LAST_THREAD = """
    __shared__ unsigned arrived;
    __shared__ float part[128];
    if (t == 0) arrived = 0;
    __syncthreads();
    BEFORE
    if (atomicInc(&arrived, 127) == NUMBER) {
        __threadfence_block();
        float v = 0;
        for (int i = 0; i < 128; i++) v += part[i];
        C[0] = v;
    }
"""


@pytest.mark.parametrize(
    ("before", "number", "clean"),
    [
        ("part[t] = A[t]; __threadfence_block();", "127", True),
        ("part[t] = A[t];", "127", False),
        ("__threadfence_block(); part[t] = A[t];", "127", False),
        ("part[t] = A[t]; __threadfence_block();", "95", False),  # a warp is still missing
    ],
)
def test_the_last_thread_adds_up(check, before, number, clean):
    a = np.arange(128, dtype=np.float32) % 5
    a.setflags(write=False)
    out = np.zeros(1, np.float32)
    found = check(LAST_THREAD.replace("BEFORE", before).replace("NUMBER", number), 1, 128, [a, out])
    assert {(f.kind, f.severity) for f in found} - {("race", "warning")} == (set() if clean else {("race", "error")})
    assert out[0] == a.sum() or not clean
