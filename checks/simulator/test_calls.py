"""Device functions that are not inlined: static variables are one for all calls, parameters are bytes."""

from __future__ import annotations

import numpy as np
import pytest

from gemm_lessons import simulate
from gemm_lessons.engine.records.errors import UnsupportedKernel


def test_static_variables_are_one_for_all_calls(run):
    source = """__device__ __noinline__ int put(int i, int v) { static __shared__ int s[64];
            static __device__ int calls = 5;
            if (v >= 0) s[i] = v; __syncthreads(); if (v >= 0 && i == 0) atomicAdd(&calls, 1); return s[i] + calls; }
        __device__ __noinline__ int other(int i) { static __shared__ int s[64]; s[i] = 1000 + i; __syncthreads();
            return s[i]; }
        extern "C" __global__ void k(int *o) { const int t = threadIdx.x; put(t, 7 * t); const int z = other(t);
            __syncthreads(); const int v = put(63 - t, -1); o[t] = v + z; }"""
    out = np.zeros(64, np.int32)
    run(source, 1, 64, [out])
    assert out.tolist() == [7 * (63 - t) + 6 + 1000 + t for t in range(64)]


def test_arrays_of_a_call_are_its_own(run):
    source = """__device__ __noinline__ int f(int i, int n) { int a[8]; for (int j = 0; j < 8; j++) a[j] = i * j;
            a[n & 7] += 100; return a[(n + 1) & 7] + a[n & 7]; }
        extern "C" __global__ void k(int *o, int n) { const int t = threadIdx.x;
            o[t] = f(t, n) * 1000 + f(2, n + t); }"""
    out = np.zeros(16, np.int32)
    run(source, 1, 16, [out, 3])

    def f(i: int, n: int) -> int:
        return i * ((n + 1) & 7) + i * (n & 7) + 100

    assert out.tolist() == [f(t, 3) * 1000 + f(2, 3 + t) for t in range(16)]


STRUCT = """struct S { char a; short b; float c; double d; signed char e[5]; };
__device__ __noinline__ unsigned char narrow(unsigned char a, signed char b, unsigned short c) { return a + b * c; }
__device__ __noinline__ signed char lower(int a) { return a; }
__device__ __noinline__ short middle(int a, short b) { return a - b; }
__device__ __noinline__ S change(S x, int i) { x.a += i; x.b *= x.a; x.e[i & 3] = x.a; x.c += i; x.d -= x.c; return x; }
extern "C" __global__ void k(int *o, int *p, double *q) { const int t = threadIdx.x;
    o[t] = narrow(t * 9, -t, 300 * t) * 1000000 + lower(t * 37) * 1000 + middle(t, 1000 * t);
    S s = {(char)t, (short)(t + 1), 0.5f, 2.5, {1, 2, 3, 4, (signed char)-t}};
    S r = change(s, t + 3); S z = change(r, 2);
    p[t] = z.a + z.b * 16 + z.e[0] + z.e[1] + z.e[2] + z.e[3] + 7 * z.e[4]; q[t] = z.c + z.d; }"""


def test_parameters_are_bytes(run):
    """Narrow results are cut off and extended; a struct may be stored in bytes and read back in words."""
    out, mixed, sums = np.zeros(32, np.int32), np.zeros(32, np.int32), np.zeros(32, np.float64)
    launched = run(STRUCT, 1, 32, [out, mixed, sums])
    assert not [f for f in launched.findings if f.kind in ("unset", "uninitialised")]
    for t in range(32):
        narrow = (t * 9 % 256 - t * (300 * t)) % 256
        lower = np.int32(t * 37).astype(np.int8).item()
        middle = np.int32(t - 1000 * t).astype(np.int16).item()
        assert out[t] == narrow * 1000000 + lower * 1000 + middle
        a, b, c, d, e = t, t + 1, 0.5, 2.5, [1, 2, 3, 4, -t]
        for i in (t + 3, 2):
            a = np.int32(a + i).astype(np.int8).item()
            b = np.int32(b * a).astype(np.int16).item()
            e[i & 3] = a
            c += i
            d -= c
        assert mixed[t] == a + b * 16 + sum(e[:4]) + 7 * e[4]
        assert sums[t] == c + d


@pytest.mark.parametrize("type_", ["signed char", "unsigned char", "short", "unsigned short", "float", "long long"])
def test_values_come_through_a_call(run, type_):
    source = f"""typedef {type_} T; struct P {{ T a, b; }};
        __device__ __noinline__ P f(P p, T x) {{ return {{(T)(p.b + x), (T)(p.a - x)}}; }}
        extern "C" __global__ void k(long long *o, int n) {{ P p = {{(T)(100 * threadIdx.x), (T)(50 + n)}};
            p = f(f(p, (T)(n * 60)), (T)n); o[threadIdx.x] = (long long)p.a * 100000 + (long long)p.b; }}"""
    out = np.zeros(8, np.int64)
    run(source, 1, 8, [out, 3])
    kind = {"signed char": np.int8, "unsigned char": np.uint8, "short": np.int16, "unsigned short": np.uint16,
            "float": np.float32, "long long": np.int64}[type_]  # fmt: skip

    def cut(value: float) -> int:
        return int(np.int64(value).astype(kind))

    expected = []
    for t in range(8):
        a, b = cut(100 * t), cut(53)
        for x in (cut(180), 3):
            a, b = cut(b + x), cut(a - x)
        expected.append(a * 100000 + b)
    assert out.tolist() == expected


def test_a_parameter_of_a_function_may_have_the_name_of_a_parameter_of_the_kernel():
    """Names as people write them, blanks left out: what the function reads is what it was passed."""
    source = """.version 8.0
.target sm_80
.address_size 64
.func (.param.u32 result) less(.param.u32 input, .param.u64 output)
{
    .reg .u32 a; .reg .u64 there;
    ld.param.u32 a, [input]; ld.param.u64 there, [output];
    st.global.u32 [there+4], a;
    sub.u32 a, a, 1;
    st.param.u32 [result], a; ret;
}
.visible .entry k(.param.u32 input, .param.u64 output, .param.u32 result)
{
    .reg .u32 a; .reg .u64 there;
    ld.param.u64 there, [output]; ld.param.u32 a, [input];
    add.u32 a, a, 10; add.u64 there, there, 4;
    .param.u32 given; .param.u64 place; .param.u32 got;
    st.param.u32 [given], a; st.param.u64 [place], there;
    call (got), less, (given, place);
    ld.param.u32 a, [got]; st.global.u32 [there], a;
    ld.param.u32 a, [result]; st.global.u32 [there+-4], a; ret;
}"""
    out = np.zeros(3, np.uint32)
    assert simulate(source, "k", 1, 1, [5, out, 99]).fault is None
    assert out.tolist() == [99, 14, 15]


@pytest.mark.parametrize("inner", ["function", "kernel"])
def test_a_function_and_two_variables_of_one_name_are_refused(inner):
    own = ".shared .u32 x; st.shared.u32 [x], 1;"
    source = f""".version 8.0
.target sm_80
.address_size 64
.shared .u32 x;
.func put(.param .u32 value)
{{
    .reg .u32 a; {own if inner == "function" else ""}
    ld.param.u32 a, [value]; st.shared.u32 [x], a; ret;
}}
.visible .entry k(.param .u32 input)
{{
    .reg .u32 a; {own if inner == "kernel" else ""}
    ld.param.u32 a, [input];
    .param .u32 given; st.param.u32 [given], a; call put, (given); ret;
}}"""
    with pytest.raises(UnsupportedKernel, match="two variables that have one name: x"):
        simulate(source, "k", 1, 1, [5])


def test_parameters_in_registers_are_refused():
    ptx = """.version 8.0\n.target sm_90\n.func (.reg .u32 z) f (.reg .u32 x) { add.u32 z, x, 1; ret; }
        .entry k { .reg .u32 r; call (r), f, (r); ret; }"""
    with pytest.raises(UnsupportedKernel, match=r"parameters not understood: \.reg"):
        simulate(ptx, "k", 1, 1, [])


NOT_FOLLOWED = {
    "a table of functions": (
        """
        typedef int (*F)(int);
        __device__ int a(int v) { return v + 1; }
        __device__ int b(int v) { return 2 * v; }
        __device__ F f[2] = {a, b};
        __global__ void k(int *x) {
            x[0] = f[x[1] & 1](3);
        }""",
        "call through a pointer",
        7,
    ),
    "a virtual function": (
        """
        struct A { __device__ virtual int f(int v) { return v; } };
        struct B : A { __device__ int f(int v) override { return v + 1; } };
        __global__ void k(int *x) {
            A a; B b; A *p = x[0] ? &a : (A *)&b;
            x[0] = p->f(3);
        }""",
        "function pointer or a virtual function",
        6,
    ),
    "recursion": (
        """
        __device__ __noinline__ int fib(int n) {
            return n < 2 ? n : fib(n - 1) + fib(n - 2);
        }
        __global__ void k(int *x) { x[0] = fib(x[1]); }""",
        "^fib calls itself",
        3,
    ),
    "a heap": (
        """
        __global__ void k(int *x) {
            int *p = (int *)malloc(4);
            x[0] = *p;
        }""",
        "malloc: memory cannot be allocated in a kernel",
        3,
    ),
    "another block's shared memory": (
        """
        __global__ void k(unsigned *x) {
            asm volatile("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(x[0]) : "r"(x[1]));
        }""",
        r"mapa\.shared::cluster\.u32",
        3,
    ),
}


@pytest.mark.parametrize(("source", "words", "line"), NOT_FOLLOWED.values(), ids=NOT_FOLLOWED)
def test_a_call_that_is_not_followed_is_named_with_its_line(source, words, line):
    with pytest.raises(UnsupportedKernel, match=words) as told:
        simulate(source, "k", 1, 1, [np.zeros(2, np.uint32 if "unsigned *x" in source else np.int32)])
    assert told.value.line == line
    assert "%" not in str(told.value).partition("`")[0]
