"""The machine: indices, divergence, barriers, budget, spaces, batches."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from gemm_lessons.engine.machine.machine import Machine

TOGETHER = True

INDEX = """
extern "C" __global__ void k(int *out)
{
    const int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const int threads = blockDim.x * blockDim.y * blockDim.z;
    out[block * threads + thread] = 1000000 * (threadIdx.x + 10 * threadIdx.y + 100 * threadIdx.z)
        + blockIdx.x + 10 * blockIdx.y + 100 * blockIdx.z;
}
"""


@pytest.mark.parametrize(
    ("grid", "block"), [((3,), (5,)), ((2, 3), (4, 2)), ((2, 3, 4), (3, 2, 5)), ((1,), (1024,)), ((7,), (33,))]
)
def test_every_thread_of_every_block_runs_once_with_its_own_indices(run, grid, block):
    grid3, block3 = (*grid, 1, 1)[:3], (*block, 1, 1)[:3]
    blocks, threads = int(np.prod(grid3)), int(np.prod(block3))
    out = np.full(blocks * threads, -1, np.int32)
    run(INDEX, grid, block, [out])
    expected = [
        1000000 * (tx + 10 * ty + 100 * tz) + bx + 10 * by + 100 * bz
        for bz in range(grid3[2]) for by in range(grid3[1]) for bx in range(grid3[0])
        for tz in range(block3[2]) for ty in range(block3[1]) for tx in range(block3[0])
    ]  # fmt: skip
    assert out.tolist() == expected


DIVERGENCE = """
extern "C" __global__ void k(const int *n, int *out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    int sum = 0;
    for (int j = 0; j < n[i]; j++) {
        if (j % 3 == 0) sum += j;
        else if (j % 3 == 1) { if (i % 2) continue; sum -= 1; }
        else { if (sum > 40) break; sum += 100; }
    }
    out[i] = sum;
}
"""


def divergence_reference(i: int, n: int) -> int:
    total = 0
    for j in range(n):
        if j % 3 == 0:
            total += j
        elif j % 3 == 1:
            if i % 2:
                continue
            total -= 1
        else:
            if total > 40:
                break
            total += 100
    return total


@pytest.mark.parametrize("block", [32, 40, 64])
def test_lanes_that_diverge_in_loops_compute_what_each_would_alone(run, random, block):
    n = random.integers(0, 30, 4 * block).astype(np.int32)
    out = np.zeros_like(n)
    run(DIVERGENCE, 4, block, [n, out])
    assert out.tolist() == [divergence_reference(i, int(v)) for i, v in enumerate(n)]


SWITCH = """
extern "C" __global__ void k(const int *op, int *out)
{
    const int i = threadIdx.x;
    int v = i;
    switch (op[i]) {
    case 0: v += 7; break;
    case 1: v *= 3;
    case 2: v -= 2; break;
    case 3: v ^= 0x55; break;
    case 4: v = -v; break;
    case 5: v <<= 2; break;
    case 6: return;
    default: v = 99;
    }
    out[i] = v;
}
"""


def test_a_switch_with_fallthrough_and_return(run, random):
    op = random.integers(0, 9, 96).astype(np.int32)
    out = np.full(96, -1, np.int32)
    run(SWITCH, 1, 96, [op, out])
    table = {0: lambda v: v + 7, 1: lambda v: v * 3 - 2, 2: lambda v: v - 2, 3: lambda v: v ^ 0x55, 4: lambda v: -v,
             5: lambda v: v << 2, 6: lambda v: -1}  # fmt: skip
    assert out.tolist() == [table.get(int(o), lambda v: 99)(i) for i, o in enumerate(op)]


REDUCTION = """
extern "C" __global__ void k(const float *in, float *out)
{
    __shared__ float s[256];
    s[threadIdx.x] = in[blockIdx.x * 256 + threadIdx.x];
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) s[threadIdx.x] += s[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = s[0];
}
"""


@pytest.mark.parametrize("limit", [1, 3, None])
def test_results_do_not_depend_on_the_blocks_in_flight(run, random, limit):
    data = random.random(11 * 256, np.float32)
    out = np.zeros(11, np.float32)
    run(REDUCTION, 11, 256, [data, out], block_limit=limit)
    expected = data.reshape(11, 256).copy()
    half = 128
    while half:
        expected[:, :half] += expected[:, half : 2 * half]
        half //= 2
    assert out.tolist() == expected[:, 0].tolist()


def test_shared_memory_is_not_shared_between_blocks(run):
    source = """extern "C" __global__ void k(int *out) {
        __shared__ int s; if (threadIdx.x == 0) s = blockIdx.x * 10; __syncthreads();
        out[blockIdx.x * 32 + threadIdx.x] = s; }"""
    out = np.zeros(4 * 32, np.int32)
    run(source, 4, 32, [out])
    assert out.tolist() == [10 * b for b in range(4) for _ in range(32)]


def test_dynamic_and_static_shared_memory_side_by_side(run):
    source = """extern "C" __global__ void k(int *out) {
        extern __shared__ int d[]; __shared__ int s[32];
        d[threadIdx.x] = threadIdx.x; d[threadIdx.x + 32] = 7; s[threadIdx.x] = 100 + threadIdx.x; __syncthreads();
        out[threadIdx.x] = d[31 - threadIdx.x] + d[32 + threadIdx.x] + 1000 * s[(threadIdx.x + 1) % 32]; }"""
    out = np.zeros(32, np.int32)
    run(source, 1, 32, [out], dynamic_shared=256)
    assert out.tolist() == [31 - t + 7 + 1000 * (100 + (t + 1) % 32) for t in range(32)]


def test_local_arrays_with_a_dynamic_index(run, random):
    source = """extern "C" __global__ void k(const int *index, int *out) {
        int a[16]; for (int i = 0; i < 16; i++) a[i] = i * i + threadIdx.x;
        for (int i = 0; i < 5; i++) a[index[threadIdx.x * 5 + i]] += 1000;
        out[threadIdx.x] = a[index[threadIdx.x]] ; }"""
    index = random.integers(0, 16, 64 * 5).astype(np.int32)
    out = np.zeros(64, np.int32)
    run(source, 1, 64, [index, out])
    expected = []
    for t in range(64):
        a = [i * i + t for i in range(16)]
        for i in range(5):
            a[index[t * 5 + i]] += 1000
        expected.append(a[index[t]])
    assert out.tolist() == expected


def test_constant_and_global_variables(run):
    source = """__constant__ float table[4] = {1.5f, 2.5f, -3.0f, 4.0f}; __device__ int counter = 5;
        extern "C" __global__ void k(float *out) { out[threadIdx.x] = table[threadIdx.x % 4] + counter; }"""
    out = np.zeros(8, np.float32)
    run(source, 1, 8, [out])
    assert out.tolist() == [6.5, 7.5, 2.0, 9.0] * 2


def test_generic_addresses_reach_the_memory_they_point_to(run):
    source = """__device__ __noinline__ int twice(const int *p) { return 2 * *p; }
        extern "C" __global__ void k(const int *in, int *out) { __shared__ int s[32];
        s[threadIdx.x] = in[threadIdx.x] + 1; __syncthreads();
        const int *p = threadIdx.x % 2 ? &s[threadIdx.x] : &in[threadIdx.x]; out[threadIdx.x] = *p; }"""
    data = np.arange(32, dtype=np.int32) * 10
    out = np.zeros(32, np.int32)
    run(source, 1, 32, [data, out])
    assert out.tolist() == [10 * t + t % 2 for t in range(32)]


def test_structs_by_value_with_pointers_inside(run):
    from gemm_lessons.engine.records.launch import Buffer, StructWithBuffers

    source = """struct View { float *data; int rows, cols, row_stride, col_stride; };
        extern "C" __global__ void k(View a, View b) {
        const int r = threadIdx.x / a.cols, c = threadIdx.x % a.cols;
        b.data[r * b.row_stride + c * b.col_stride] = a.data[r * a.row_stride + c * a.col_stride]; }"""
    a = np.arange(12, dtype=np.float32)
    b = np.zeros(12, np.float32)
    view_a = np.array([0, 0, 3, 4, 4, 1], np.int32).tobytes()
    view_b = np.array([0, 0, 3, 4, 1, 3], np.int32).tobytes()
    run(source, 1, 12, [
        StructWithBuffers("a", view_a, {0: Buffer("a", a)}), StructWithBuffers("b", view_b, {0: Buffer("b", b, True)}),
    ])  # fmt: skip
    assert b.reshape(4, 3).tolist() == a.reshape(3, 4).T.tolist()


def test_vector_loads_and_stores(run, random):
    source = """extern "C" __global__ void k(const float4 *in, float2 *out, double2 *wide) {
        const float4 v = in[threadIdx.x]; out[threadIdx.x] = make_float2(v.x + v.w, v.y - v.z);
        wide[threadIdx.x] = make_double2(v.x, v.y); }"""
    data = random.random((32, 4), np.float32)
    out, wide = np.zeros((32, 2), np.float32), np.zeros((32, 2))
    run(source, 1, 32, [data, out, wide])
    assert (out[:, 0] == data[:, 0] + data[:, 3]).all()
    assert (out[:, 1] == data[:, 1] - data[:, 2]).all()
    assert (wide == data[:, :2]).all()


def test_bytes_and_halfwords_are_extended_as_their_type_says(run, random):
    source = """extern "C" __global__ void k(const signed char *a, const unsigned char *b, const short *c, int *out,
        short *d) {
        const int i = threadIdx.x; out[i] = a[i] * 1000000 + b[i] * 1000 + c[i]; d[i] = c[i] - a[i]; }"""
    a = random.integers(-128, 128, 64).astype(np.int8)
    b = random.integers(0, 256, 64).astype(np.uint8)
    c = random.integers(-999, 999, 64).astype(np.int16)
    out, d = np.zeros(64, np.int32), np.zeros(64, np.int16)
    run(source, 1, 64, [a, b, c, out, d])
    assert (out == a.astype(np.int32) * 1000000 + b.astype(np.int32) * 1000 + c).all()
    assert (d == c - a).all()


def test_templates_and_defines(run):
    source = "template <int A, typename T> __global__ void tile(T *out) { out[threadIdx.x] = A * SCALE + threadIdx.x; }"
    out = np.zeros(4, np.float64)
    run(source, 1, 4, [out], entry="tile<3, double>", defines={"SCALE": 10})
    assert out.tolist() == [30, 31, 32, 33]


# -- faults ------------------------------------------------------------------------------------------------------------

FAULTS = {
    "past the end": ("out_of_bounds", "o[threadIdx.x + 1] = 1;", ("o: byte 128 of 128", "thread 31")),
    "before the start": ("out_of_bounds", "o[(int)threadIdx.x - 2] = 1;", ("before its start", "thread 0")),
    "far away": ("out_of_bounds", "o[threadIdx.x * 100000000LL] = 1;", ("thread 1", "past its end")),
    "null": ("out_of_bounds", "*(volatile int *)64 = threadIdx.x;", ("not in any buffer",)),
    "read": ("out_of_bounds", "o[0] = o[threadIdx.x * 2];", ("read by thread 16",)),
    "shared": (
        "out_of_bounds",
        "__shared__ int s[32]; s[threadIdx.x * o[0]] = 1; __syncthreads(); o[threadIdx.x] = s[threadIdx.x];",
        ("s: byte 128 of 128", "written by thread 16"),
    ),
    "misaligned": ("misaligned", "*(int4 *)(o + threadIdx.x) = make_int4(1, 2, 3, 4);", ("multiple of 16", "thread 1")),
    "trap": ("trap", "if (threadIdx.x == 5) __trap();", ("thread 5",)),
    "endless": ("timeout", "while (o[threadIdx.x] != 7) o[threadIdx.x] = 0;", ("once entered, the loop",)),
    "deadlock": (
        "deadlock",
        'if (threadIdx.x < 16) asm volatile("bar.sync 1, 32;"); else asm volatile("bar.sync 2, 32;"); o[0] = 1;',
        ("16 of 32 threads wait",),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_name_line_thread_array_and_offset(run, name):
    kind, body, words = FAULTS[name]
    source = 'extern "C" __global__ void k(int *o)\n{\n    ' + body + "\n}\n"
    out = np.full(32, 2, np.int32)
    from gemm_lessons.engine.records.launch import Buffer

    launched = run(source, 1, 32, [Buffer("o", out, True)], fault=kind)
    assert launched.fault.line == 3
    for word in words:
        assert word in launched.fault.message or name == "deadlock"


@pytest.mark.parametrize("body", ["o[threadIdx.x] = 1;", "if (threadIdx.x < 16) o[2 * threadIdx.x + 1] = 1;"])
def test_accesses_that_stay_inside_do_not_fault(run, body):
    run('extern "C" __global__ void k(int *o) { ' + body + " }", 1, 32, [np.zeros(32, np.int32)])


def test_a_kernel_that_faults_has_written_what_came_before(run):
    source = 'extern "C" __global__ void k(int *o) { o[threadIdx.x] = 5; o[threadIdx.x + 32 * blockIdx.x] = 6; }'
    out = np.zeros(32, np.int32)
    run(source, 2, 32, [out], fault="out_of_bounds", block_limit=1)
    assert set(out.tolist()) <= {5, 6}


def test_an_unsupported_opcode_is_named_before_anything_runs(run):
    from gemm_lessons.engine.records.errors import UnsupportedKernel

    source = (
        'extern "C" __global__ void k(int *o) {\n o[0] = 1;\n\n'
        ' asm volatile("discard.global.L2 [%0], 128;" :: "l"(o));\n}'
    )
    out = np.zeros(1, np.int32)
    with pytest.raises(UnsupportedKernel, match="discard") as caught:
        run(source, 1, 32, [out], arch="sm_90a")
    assert caught.value.line == 4
    assert out[0] == 0


# -- warps -------------------------------------------------------------------------------------------------------------


def test_shuffles_move_values_between_lanes(run):
    source = """extern "C" __global__ void k(int *o) { const int t = threadIdx.x, v = t * 10;
        o[t] = __shfl_xor_sync(~0u, v, 5); o[32 + t] = __shfl_up_sync(~0u, v, 3);
        o[64 + t] = __shfl_down_sync(~0u, v, 4, 8);
        o[96 + t] = __shfl_sync(~0u, v, t * 7); o[128 + t] = __shfl_sync(~0u, v, 9, 16); }"""
    out = np.zeros(160, np.int32)
    run(source, 1, 32, [out])
    lanes = range(32)
    assert out[:32].tolist() == [10 * (t ^ 5) for t in lanes]
    assert out[32:64].tolist() == [10 * (t - 3 if t >= 3 else t) for t in lanes]
    assert out[64:96].tolist() == [10 * (t + 4 if t % 8 < 4 else t) for t in lanes]
    assert out[96:128].tolist() == [10 * (t * 7 % 32) for t in lanes]
    assert out[128:].tolist() == [10 * (t // 16 * 16 + 9) for t in lanes]


def test_votes_count_only_the_lanes_that_take_part(run):
    source = """extern "C" __global__ void k(unsigned *o) { const int t = threadIdx.x;
        o[t] = __ballot_sync(~0u, t % 3 == 0); o[32 + t] = __any_sync(~0u, t == 40) + 2 * __all_sync(~0u, t < 32);
        if (t < 10) o[64 + t] = __activemask(); o[96 + t] = __reduce_add_sync(~0u, t); }"""
    out = np.zeros(128, np.uint32)
    run(source, 1, 32, [out])
    assert set(out[:32].tolist()) == {sum(1 << t for t in range(0, 32, 3))}
    assert set(out[32:64].tolist()) == {2}
    assert set(out[64:74].tolist()) == {1023}
    assert set(out[96:].tolist()) == {496}


def test_atomics_on_shared_and_global_memory(run, random):
    source = """extern "C" __global__ void k(const int *bin, int *hist, int *old, unsigned *top, int *swap) {
        __shared__ int s[8]; const int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (threadIdx.x < 8) s[threadIdx.x] = 0; __syncthreads();
        atomicAdd(&s[bin[i]], 1); __syncthreads();
        if (threadIdx.x < 8) atomicAdd(&hist[threadIdx.x], s[threadIdx.x]);
        old[i] = atomicAdd(&hist[8], 1); atomicMax(top, (unsigned)bin[i] * 100); atomicCAS(swap, 5, i); }"""
    bins = random.integers(0, 8, 128).astype(np.int32)
    hist, old = np.zeros(9, np.int32), np.zeros(128, np.int32)
    top, swap = np.zeros(1, np.uint32), np.array([5], np.int32)
    run(source, 2, 64, [bins, hist, old, top, swap])
    assert hist[:8].tolist() == np.bincount(bins, minlength=8).tolist()
    assert sorted(old.tolist()) == list(range(128))
    assert top[0] == bins.max() * 100
    assert swap[0] == 0


def test_named_barriers_synchronise_their_threads(run):
    source = """extern "C" __global__ void k(int *o) { __shared__ int s[64]; const int t = threadIdx.x;
        s[t] = t; if (t < 64) { asm volatile("bar.sync 1, 64;" ::: "memory"); o[t] = s[63 - t]; }
        else asm volatile("bar.sync 2, 64;" ::: "memory"); }"""
    out = np.zeros(64, np.int32)
    run(source.replace("s[64]", "s[128]"), 1, 128, [out])
    assert out.tolist() == list(range(63, -1, -1))


def test_async_copies_arrive_and_fill_with_zeros(run):
    source = """#include <cuda_pipeline.h>
        extern "C" __global__ void k(const float *in, float *out) { __shared__ __align__(16) float s[128];
        __pipeline_memcpy_async(&s[4 * threadIdx.x], &in[4 * threadIdx.x], 16, threadIdx.x % 2 ? 8 : 0);
        __pipeline_commit(); __pipeline_wait_prior(0); __syncthreads();
        for (int i = 0; i < 4; i++) out[i * 32 + threadIdx.x] = s[i * 32 + threadIdx.x]; }"""
    data = np.arange(1, 129, dtype=np.float32)
    out = np.zeros(128, np.float32)
    run(source, 1, 32, [data, out])
    expected = data.reshape(32, 4).copy()
    expected[1::2, 2:] = 0
    assert out.tolist() == expected.reshape(-1).tolist()


# -- calls -------------------------------------------------------------------------------------------------------------


def test_device_functions_that_are_not_inlined(run):
    source = """struct Pair { float x; int n; };
        __device__ __noinline__ float twice(const float *p, int i) { if (i < 0) return -1.0f; return 2.0f * p[i]; }
        __device__ __noinline__ float sum(const float *p, Pair q) { return twice(p, q.n) + twice(p, q.n + 1) + q.x; }
        extern "C" __global__ void k(const float *in, float *out) { const int t = threadIdx.x;
        out[t] = sum(in, Pair{0.5f, t - 1}); }"""
    data = np.arange(33, dtype=np.float32)
    out = np.zeros(32, np.float32)
    run(source, 1, 32, [data, out])
    value = [-1.0, *(2 * data)]
    assert out.tolist() == [value[t] + value[t + 1] + 0.5 for t in range(32)]


def test_a_failed_assert_stops_the_kernel_and_shows_its_text(run):
    source = 'extern "C" __global__ void k(int *o) {\n assert(threadIdx.x < 20);\n o[threadIdx.x] = 3; }'
    launched = run(source, 1, 32, [np.zeros(32, np.int32)], fault="trap")
    assert "threadIdx.x < 20" in launched.fault.message
    assert "thread 20" in launched.fault.message
    assert launched.fault.line == 2


def test_a_copy_of_a_size_that_there_is_not_says_which_there_are(run):
    source = """#include <cuda_pipeline.h>
    extern "C" __global__ void k(const float3 *x) {
        __shared__ float3 s[32];
        __pipeline_memcpy_async(&s[threadIdx.x], &x[threadIdx.x], 12); }"""
    launched = run(source, 1, 32, [np.zeros(96, np.float32)], fault="trap")
    assert "copies 4, 8 or 16 bytes" in launched.fault.message
    assert launched.fault.line == 4


@pytest.mark.parametrize(("size", "told"), [("2 - threadIdx.x", -1), ("14 + threadIdx.x", 17)])
def test_a_copy_reads_no_fewer_bytes_than_none_and_no_more_than_it_has(run, size, told):
    source = f"""extern "C" __global__ void k(const float4 *x) {{
        __shared__ float4 s[32];
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     :: "r"((unsigned)__cvta_generic_to_shared(s + threadIdx.x)), "l"(x + threadIdx.x), "r"({size}));
        asm volatile("cp.async.wait_all;"); }}"""
    launched = run(source, 1, 32, [np.ones(128, np.float32)], fault="illegal_access")
    assert f"by thread 3 in block 0 has a source size of {told} bytes; it may be 0 to 16" in launched.fault.message
    right = source.replace(size, f"max(0, min(16, int({size})))")
    assert run(right, 1, 32, [np.ones(128, np.float32)]).fault is None


def test_carries_go_from_one_instruction_to_the_next(run, random):
    source = """extern "C" __global__ void k(const unsigned *a, const unsigned *b, unsigned *o) {
        const int t = threadIdx.x; unsigned low, mid, high;
        asm("add.cc.u32 %0, %3, %6; addc.cc.u32 %1, %4, %7; addc.u32 %2, %5, %8;" : "=r"(low), "=r"(mid), "=r"(high)
            : "r"(a[3 * t]), "r"(a[3 * t + 1]), "r"(a[3 * t + 2]), "r"(b[3 * t]), "r"(b[3 * t + 1]), "r"(b[3 * t + 2]));
        o[3 * t] = low; o[3 * t + 1] = mid; o[3 * t + 2] = high; }"""
    a, b = (random.choice(np.array([0, 1, 2**31, 2**32 - 1], np.uint32), 96) for _ in range(2))
    out = np.zeros(96, np.uint32)
    run(source, 1, 32, [a, b, out])

    def wide(x: np.ndarray, t: int) -> int:
        return sum(int(x[3 * t + n]) << (32 * n) for n in range(3))

    assert [wide(out, t) for t in range(32)] == [(wide(a, t) + wide(b, t)) % 2**96 for t in range(32)]


def test_two_predicates_of_one_comparison(run, random):
    source = """#include <cuda_fp16.h>
        extern "C" __global__ void k(const int *a, const __half2 *h, int *o) { const int t = threadIdx.x; int r, s;
        asm("{.reg .pred p, q; setp.lt.s32 p|q, %2, 5; selp.s32 %0, 1, 0, p; selp.s32 %1, 1, 0, q;}"
            : "=r"(r), "=r"(s) : "r"(a[t]));
        o[t] = r + 2 * s + 4 * __hbgt2(h[t], __float2half2_rn(0.0f)) + 8 * (__hgt(h[t].x, h[t].y)); }"""
    a = random.integers(0, 10, 32).astype(np.int32)
    h = random.standard_normal((32, 2)).astype(np.float16)
    out = np.zeros(32, np.int32)
    run(source, 1, 32, [a, h, out])
    expected = [(v < 5) + 2 * (v >= 5) + 4 * (x > 0 and y > 0) + 8 * (x > y) for v, (x, y) in zip(a, h, strict=True)]
    assert out.tolist() == expected


def test_what_no_lane_comes_to_is_bound_in_the_first_launch_alone(run, monkeypatch):
    """The first launch reports unsupported instructions before the kernel runs; later ones save that time."""
    from gemm_lessons.engine.machine.decode import Binder

    bound = []
    bind = Binder.step

    def step(binder, it):
        bound.append(it)
        return bind(binder, it)

    monkeypatch.setattr(Binder, "step", step)
    source = """extern "C" __global__ void k(float *x, int n)
    { if (n) { for (int i = 0; i < n; i++) x[i * 7] = sinf(x[i]) / cosf(x[i + 1]); } x[threadIdx.x] += 1; }"""
    x = np.zeros(64, np.float32)
    counts = []
    for n in (0, 0, 2):
        bound.clear()
        run(source, 1, 32, [x, n])
        counts.append(len(bound))
    assert counts[1] < counts[0] / 4
    assert counts[1] < counts[2] <= counts[0]


STRIDED = """
extern "C" __global__ void k(float *out, int n)
{
    __shared__ float s[64];
    s[threadIdx.x] = n;
    __syncthreads();
    out[threadIdx.x * n] = s[63 - threadIdx.x];
}
"""


@pytest.mark.parametrize(("stride", "fault"), [(1, None), (1000, "out_of_bounds")])
def test_a_machine_ends_with_its_launch_and_not_with_the_next_garbage_collection(run, stride, fault):
    gc.collect()
    gc.disable()
    try:
        run(STRIDED, 1, 64, [np.zeros(64, np.float32), stride], fault=fault)
        assert not [it for it in gc.get_objects() if type(it) is Machine]
    finally:
        gc.enable()
