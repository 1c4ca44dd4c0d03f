"""Addresses that miss: another buffer, another memory, a multiple of 4 GiB further on. Never another memory's data."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from gemm_lessons import simulate
from gemm_lessons.engine.machine.memory import GUARD, LOCAL_WINDOW, SHARED_WINDOW, WINDOW_SIZE, GlobalMemory
from gemm_lessons.engine.records.errors import UnsupportedKernel
from gemm_lessons.engine.records.launch import Buffer

TOGETHER = True

FAR = """extern "C" __global__ void k(const float *a, float *b, float *c, long long far) {
    const int t = threadIdx.x; b[t] = a[t + far]; c[t] = 1; }"""


def test_an_index_wrong_by_multiples_of_4_gib_finds_no_other_buffer(run):
    a, b, c = (np.full(1 << 16, v, np.float32) for v in (1, 2, 3))
    for far in (*(s << p for p in (28, 29, 30, 31, 32, 34, 35, 36, 61) for s in (1, -1)), 3 << 30):
        launched = run(FAR, 1, 32, [a, b, c, far], fault="out_of_bounds")
        assert launched.fault.line == 2


def test_an_unsigned_index_below_zero_is_outside(run):
    source = """extern "C" __global__ void k(const float *a, float *b, unsigned i) { b[0] = a[i - 1]; }"""
    launched = run(source, 1, 1, [np.ones(64, np.float32), np.ones(64, np.float32), 0], fault="out_of_bounds")
    assert "past its end" in launched.fault.message


def test_allocations_share_no_address_modulo_any_power_of_two_that_holds_them(random):
    sizes = [int(s) for s in random.integers(1, 1 << 22, 40)]
    memory = GlobalMemory([Buffer(f"b{i}", np.zeros(s, np.uint8)) for i, s in enumerate(sizes)], [])
    low = 1 << 16  # no shared memory is as large
    total = sum(sizes) + 40 * (GUARD + 256)
    for power in range(total.bit_length(), 48):
        spans = sorted((a.base % (1 << power), a.size) for a in memory.allocations)
        assert all(start + size <= after for (start, size), (after, _) in itertools.pairwise(spans)), power
    assert all(low < a.base % (1 << 32) for a in memory.allocations)
    windows = [(SHARED_WINDOW, WINDOW_SIZE), (LOCAL_WINDOW, WINDOW_SIZE), (memory.allocations[0].base, 1 << 60)]
    assert all(start + size <= after for (start, size), (after, _) in itertools.pairwise(windows))


GENERIC = """extern "C" __global__ void k(float *o) {
    __shared__ float s[64];
    const int t = threadIdx.x;
    asm volatile("st.shared.f32 [%0], %1;" :: "l"(&s[t]), "f"(float(t)) : "memory");
    __syncthreads();
    float v;
    asm volatile("ld.shared.f32%0,[%1+FAR];" : "=f"(v) : "l"(&s[63 - t]) : "memory");
    o[t] = v;
}"""


@pytest.mark.counted
def test_an_address_of_shared_memory_is_cut_to_32_bits(run):
    """So a generic pointer in ``ld.shared`` finds its array, as in DeeperGEMM. No space is needed before operands."""
    o = np.zeros(64, np.float32)
    launched = run(GENERIC.replace("+FAR", ""), 1, 64, [o])
    assert o.tolist() == list(range(64))[::-1]
    assert not launched.findings
    assert launched.counters.get("shared_load_instructions") == 2
    launched = run(GENERIC.replace("FAR", "256"), 1, 64, [o], fault="out_of_bounds")
    assert "s: byte 508 of 256, 4 bytes read by thread 0" in launched.fault.message


EXCHANGED = """extern "C" __global__ void k(int *o) {
    __shared__ __align__(4096) int s[1024];
    const int t = threadIdx.x;
    unsigned at = (unsigned)__cvta_generic_to_shared(&s[t]);
    for (int i = 0; i < 4; i++, at ^= 2048)
        asm volatile("st.shared.u32 [%0], %1;" :: "r"(at), "r"(1000 * i + t) : "memory");
    __syncthreads();
    o[t] = s[t]; o[blockDim.x + t] = s[512 + t];
}"""


@pytest.mark.counted
@pytest.mark.parametrize(("arch", "threads", "fault"), [
    ("sm_80", 128, ""), ("sm_80", 512, ""), ("sm_90", 128, ""), ("sm_90", 512, "s: byte -1024 of 4096")])  # fmt: skip
def test_buffers_are_exchanged_by_an_exclusive_or_of_addresses(arch, threads, fault):
    """From the H100 on, shared memory begins at 1024, however an array is aligned: half of one flips the other way."""
    o = np.zeros(2 * threads, np.int32)
    launched = simulate(EXCHANGED, "k", 1, threads, [o], arch=arch)
    if fault:
        assert launched.fault.message.startswith(fault)
    else:
        assert launched.fault is None
        assert not launched.counters.inexact
        assert o.tolist() == [*range(2000, 2000 + threads), *range(3000, 3000 + threads)]


HEAD = """__constant__ int table[32] = {7, 8, 9};
extern "C" __global__ void k(int *a, int *o) {
    __shared__ int s[1024]; int l[4]; const int t = threadIdx.x; s[t] = t; __syncthreads(); int v = 0;
    for (int i = 0; i < 4; i++) l[i] = a[i];
"""


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('asm volatile("ld.const.u32 %0, [%1];" : "=r"(v) : "l"(a));', "illegal_access"),
        ('asm volatile("ld.const.u32 %0, [%1];" : "=r"(v) : "l"(&table[t]));', None),
        ('asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(&table[t]));', None),
        ('asm volatile("st.global.u32 [%1], %0;" :: "r"(v), "l"(&table[t]));', "illegal_access"),
        ('asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "l"(a));', "out_of_bounds"),
        ('asm volatile("st.shared.u32 [%1], %0;" :: "r"(v), "r"((unsigned)__cvta_generic_to_shared(a)));',
         "out_of_bounds"),
        ('asm volatile("st.shared.u32 [%1], %0;" :: "r"(v), "r"((unsigned)__cvta_generic_to_shared(&l[t % 4])));',
         "out_of_bounds"),
        ('asm volatile("st.shared.u32 [%1], %0;" :: "r"(v), "r"((unsigned)__cvta_generic_to_shared(&s[t])));', None),
        ('asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(&s[t]));', "out_of_bounds"),
        ('asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(__cvta_generic_to_shared(&s[t])));', "out_of_bounds"),
        ('asm volatile("ld.local.u32 %0, [%1];" : "=r"(v) : "l"(a));', "out_of_bounds"),
        ('asm volatile("ld.local.u32 %0, [%1];" : "=r"(v) : "l"(&s[t]));', "out_of_bounds"),
        ('asm volatile("ld.u32 %0, [%1];" : "=r"(v) : "l"(__cvta_generic_to_shared(&s[t])));', "out_of_bounds"),
        ('asm volatile("ld.u32 %0, [%1];" : "=r"(v) : "l"(t % 3 ? &s[t] : t % 2 ? &l[t % 4] : &table[t]));', None),
        ('v = __isGlobal(a) && !__isGlobal(s) && !__isShared(l) && __isShared(s) && __isLocal(l);', None),
    ],
)  # fmt: skip
def test_an_access_through_the_wrong_window_is_a_fault(run, body, fault):
    a, o = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    run(f"{HEAD} {body} o[t] = v + l[t % 4]; }}", 1, 32, [a, o], fault=fault)
    if "__isGlobal" in body:
        assert o.tolist() == [1 + t % 4 for t in range(32)]


def test_lanes_that_store_into_two_buffers_write_back_both(run):
    source = """extern "C" __global__ void k(int *a, int *b) { int *p = threadIdx.x % 2 ? a : b;
        p[threadIdx.x] = 100 + threadIdx.x; }"""
    a, b = np.zeros(32, np.int32), np.zeros(32, np.int32)
    run(source, 1, 32, [Buffer("a", a), Buffer("b", b)])
    assert (a + b).tolist() == [100 + t for t in range(32)]
    assert b[0] == 100


def test_whether_an_address_is_constant_is_not_known(run):
    body = 'asm("{.reg .pred p; isspacep.const p, %1; selp.u32 %0, 1, 0, p;}" : "=r"(v) : "l"(a));'
    with pytest.raises(UnsupportedKernel, match="isspacep"):
        run(f"{HEAD} {body} o[t] = v; }}", 1, 32, [np.zeros(32, np.int32), np.zeros(32, np.int32)])


NAMED = [
    "st.SPACE.b32 [x+4], %r1; ld.b32 %r2, [x+4];",
    "st.volatile.b32 [x+4], %r1; ld.SPACE.b32 %r2, [x+4];",
    "st.v2.b32 [x], {%r1, %r1}; ld.v2.b32 {%r3, %r2}, [x];",
]
UPDATED = "st.shared.b32 [x+4], 0; atom.add.u32 %r3, [x+4], %r1; red.or.b32 [x+4], 0; ld.shared.b32 %r2, [x+4];"
DECLARED = [("shared", "module"), ("shared", "kernel"), ("local", "kernel")]


@pytest.mark.parametrize(
    ("space", "where", "body"),
    [*((*declared, body) for declared in DECLARED for body in NAMED), ("shared", "kernel", UPDATED)],
)
def test_a_variable_that_is_named_is_in_its_own_memory(space, where, body):
    """As ptxas takes it: ``ld.b32 [x]`` of a shared ``x`` becomes LDS. As a generic address it would lie near zero."""
    declared = f".{space} .align 8 .b32 before[8]; .{space} .align 8 .b32 x[2];"
    source = f""".version 8.0
.target sm_80
.address_size 64
{declared if where == "module" else ""}
.visible .entry k(.param .u64 out)
{{
    {declared if where == "kernel" else ""}
    .reg .b32 %r<4>; .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out]; mov.u32 %r1, 7;
    {body.replace("SPACE", space)}
    st.global.b32 [%rd1], %r2; ret;
}}"""
    out = np.zeros(1, np.int32)
    launched = simulate(source, "k", 1, 1, [out])
    assert (out[0], launched.fault, launched.findings) == (7, None, ())
