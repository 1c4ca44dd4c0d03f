"""Device functions that are not inlined: static variables are one for all calls, parameters are bytes."""

from __future__ import annotations

from pathlib import Path

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
    with pytest.raises(UnsupportedKernel, match=r"parameters in registers \(\.reg\) are not supported"):
        simulate(ptx, "k", 1, 1, [])


NOT_FOLLOWED = {
    "a struct that is passed to recursion": (
        """
        struct S { int n, m; };
        __device__ __noinline__ int f(S s) {
            return s.n < 2 ? s.m : f({s.n - 1, s.m + 1}) + f({s.n - 2, s.m});
        }
        __global__ void k(int *x) { x[0] = f({x[0], x[1]}); }""",
        "^call of f: a struct is passed to a function that calls itself",
        None,
    ),
}


@pytest.mark.parametrize(("source", "words", "line"), NOT_FOLLOWED.values(), ids=NOT_FOLLOWED)
def test_a_call_that_is_not_followed_is_named_with_its_line(source, words, line):
    with pytest.raises(UnsupportedKernel, match=words) as told:
        simulate(source, "k", 1, 1, [np.zeros(2, np.uint32 if "unsigned *x" in source else np.int32)])
    assert line is None or told.value.line == line
    assert "%" not in str(told.value).partition("`")[0]


POINTERS = """
__device__ int more(int a) { return a + 1; }
__device__ int twice(int a) { return 2 * a; }
__device__ float sum(float a, float b) { return a + b; }
typedef int (*F)(int);
__device__ F table[2] = {more, twice};
__constant__ float (*other)(float, float) = sum;
__device__ __noinline__ int apply(F f, int x) { return f(f(x)); }
struct Shape {
    int z;
    __device__ Shape(int z) : z(z) {}
    __device__ virtual int area(int) = 0;
};
struct Sum : Shape { __device__ Sum(int z) : Shape(z) {} __device__ int area(int a) override { return a + z; } };
struct Times : Shape { __device__ Times(int z) : Shape(z) {} __device__ int area(int a) override { return a * z; } };
extern "C" __global__ void k(int *y, int n)
{
    const int t = threadIdx.x;
    BODY
}
"""
THROUGH = {
    "a table": ("y[t] = table[t % 2](t);", lambda t: 2 * t if t % 2 else t + 1),
    "a pointer that is passed": ("y[t] = apply(t % 3 ? more : twice, t);", lambda t: t + 2 if t % 3 else 4 * t),
    "a constant": ("y[t] = other(t, 3.0f);", lambda t: t + 3),
    "a virtual function": (
        "Sum a(t + 5); Times b(3); Shape *p = t % 2 ? (Shape *)&a : (Shape *)&b; y[t] = p->area(t);",
        lambda t: 2 * t + 5 if t % 2 else 3 * t,
    ),
    "pointers that are compared": ("F f = table[t % 2]; y[t] = f == more ? 1 : 2;", lambda t: 1 + t % 2),
}


@pytest.mark.parametrize(("body", "want"), THROUGH.values(), ids=THROUGH)
def test_a_call_through_a_pointer(body, want):
    y = np.zeros(64, np.int32)
    launched = simulate(POINTERS.replace("BODY", body), "k", 1, 64, [y, 1])
    assert launched.fault is None
    assert not launched.findings
    assert y.tolist() == [want(t) for t in range(64)]


def test_a_pointer_to_no_function_stops_the_kernel():
    y = np.zeros(64, np.int32)
    body = "F f = t == 40 ? (F)&y[t] : table[0]; y[t] = f(t);"
    launched = simulate(POINTERS.replace("BODY", body), "k", 1, 64, [y, 1])
    assert "in thread 40 in block 0: its pointer leads to no __device__ function" in launched.fault.message


RECURSION = (Path(__file__).parent / "sources" / "recursion.cu").read_text()


def fib(n: int) -> int:
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def ackermann(m: int, n: int) -> int:
    if m == 0:
        return n + 1
    return ackermann(m - 1, 1 if n == 0 else ackermann(m, n - 1))


def differs(n: int, q: bool) -> bool:
    return q if n < 3 else differs(n - 1, not q) != differs(n - 2, q)


def one(n: int) -> int:
    return 1 if n < 1 else n + (two if n % 2 else one)(n - 1)


def two(n: int) -> int:
    return 2 if n < 1 else n * 2 + (two if n % 2 else one)(n - 2)


SORTED = "int a[8]; for (int i = 0; i < 8; i++) a[i] = (t * 37 + i * 29) % 61; sort(a, 0, 7); y[t] = a[0] * 99 + a[5];"
CALLS = {
    "one": ("y[t] = fib(t % 9);", lambda t: fib(t % 9)),
    "from two places": ("y[t] = fib(t % 5) + fib(t % 7) * 100;", lambda t: fib(t % 5) + fib(t % 7) * 100),
    "as an argument": ("y[t] = ackermann(t % 3, t % 4);", lambda t: ackermann(t % 3, t % 4)),
    "of each other": ("y[t] = even(t) + 2 * odd(t / 2);", lambda t: (t % 2 == 0) + 2 * (t // 2 % 2)),
    "without a result": (SORTED, lambda t: np.sort((t * 37 + np.arange(8) * 29) % 61)[[0, 5]] @ [99, 1]),
    "with arrays": ("y[t] = arrays(t % 6);", lambda t: sum(40 * n + 6 for n in range(t % 6 + 1))),
    "of doubles": ("y[t] = (int)power(3.0, t % 12);", lambda t: 3 ** (t % 12)),
    "of predicates": ("y[t] = differs(t % 9, t & 1);", lambda t: int(differs(t % 9, bool(t & 1)))),
    "through pointers": ("y[t] = one(table, t % 8);", lambda t: one(t % 8)),
}


def check_each(source, want):
    """Launch 64 threads without a finding; thread t is to store ``want(t)``."""
    y = np.zeros(64, np.int32)
    launched = simulate(source, "k", 1, 64, [y])
    assert launched.fault is None
    assert not launched.findings
    assert y.tolist() == [want(t) for t in range(64)]


@pytest.mark.parametrize(("body", "want"), CALLS.values(), ids=CALLS)
def test_a_function_calls_itself(body, want):
    check_each(RECURSION.replace("BODY", body), want)


def test_recursion_without_end_is_stopped():
    y = np.zeros(64, np.int32)
    launched = simulate(RECURSION.replace("BODY", "y[t] = arrays(t == 3 ? 1000 : t % 3);"), "k", 1, 64, [y])
    assert "thread 3 in block 0: its calls of itself need more than 8,192 bytes of stack" in launched.fault.message


HEAP = """
struct Node { int v; Node *next; __device__ Node(int v, Node *n) : v(v), next(n) {} };
extern "C" __global__ void k(int *y)
{
    const int t = threadIdx.x;
    BODY
}
"""
ALLOCATED = {
    "malloc": ("int *p = (int *)malloc(16); p[1] = t; y[t] = p[1] + 3; free(p); free(nullptr);", lambda t: t + 3),
    "a list": (
        "Node *h = nullptr; for (int i = 0; i < t % 5; ++i) h = new Node(i, h); y[t] = 0;"
        "while (h) { Node *n = h->next; y[t] = y[t] * 10 + h->v; delete h; h = n; }",
        lambda t: [0, 0, 10, 210, 3210][t % 5],
    ),
    "one for a block": (
        "__shared__ int *p; if (t == 0) p = new int[64]; __syncthreads(); p[t] = t; __syncthreads(); y[t] = p[63 - t];",
        lambda t: 63 - t,
    ),
    "more than there is": ("y[t] = malloc(1 << 20) == nullptr;", lambda t: t >= 8),
    "again and again": (
        "for (int i = 0; i < 40; ++i) { int *p = (int *)malloc(1 << 14); p[0] = i; y[t] = p[0]; free(p); }",
        lambda t: 39,
    ),
}


@pytest.mark.parametrize(("body", "want"), ALLOCATED.values(), ids=ALLOCATED)
def test_memory_of_the_heap(body, want):
    check_each(HEAP.replace("BODY", body), want)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("__shared__ int *p; if (t == 0) p = new int[64]; __syncthreads(); p[t] = t; y[t] = p[63 - t];", "the heap of"),
        ("int *p = new int[4]; y[t] = p[2];", "before any thread has written it"),
        ("int *p = new int[4]; p[1 << 22] = t;", "the heap of malloc: byte 16777216 of 8388608"),
        ("int *p = new int[4]; delete[] p; delete[] p;", "of one that is free"),
        ("free(y + t);", "free() of an address that malloc() did not return"),
    ],
)
def test_misuse_of_the_heap_is_reported(body, words):
    launched = simulate(HEAP.replace("BODY", body), "k", 1, 64, [np.zeros(64, np.int32)])
    found = [launched.fault] if launched.fault else [f for f in launched.findings if f.severity == "error"]
    assert len(found) == 1
    assert words in found[0].message


def test_a_jump_that_the_compiler_takes_for_impossible_ends_the_thread():
    """A call of a null pointer becomes one, and ptxas makes EXIT of it."""
    source = """__device__ int f(int a) { return a + 1; }
        extern "C" __global__ void k(int *y) { int (*p)(int) = y[threadIdx.x] ? f : nullptr; y[threadIdx.x] = p(7); }"""
    y = np.array([1, 0], np.int32)
    assert simulate(source, "k", 1, 2, [y]).fault is None
    assert y.tolist() == [8, 0]
