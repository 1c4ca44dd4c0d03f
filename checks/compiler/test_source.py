"""Kernels and includes read off the text, for messages and for the cache key."""

import pytest

from gemm_lessons.engine.compiler.source import included_names, kernels, shared_array_line
from gemm_lessons.engine.compiler.tokens import without_comments


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("__global__ void gemm(const float *A, int M) {}", "gemm(const float *A, int M)"),
        ('extern "C" __global__ void __launch_bounds__(BM * (BN / 2))\ngemm(float  *C)\n{', "gemm(float *C)"),
        ("static __global__ __launch_bounds__(256, 2) void f(void) {}", "f()"),
        (
            "template <int BM, typename T = float>\n__global__ void tile(T *x) {}",
            "template <int BM, typename T = float> tile(T *x)",
        ),
        ("__global__ void f(Matrix<float, 2> a, int (&b)[2][3]);", "f(Matrix<float, 2> a, int (&b)[2][3])"),
        ("__global__ void f(int a, int b {\n  g(1);\n}", "f(int a, int b)"),
        ("template <class T>\n__global__ __launch_bounds__(size(T{})) void f(T *x) {}", "template <class T> f(T *x)"),
        ("struct S { int a; }; __global__ void f(S s) { g(1); }", "f(S s)"),
    ],
)
def test_kernels(source, expected):
    (found,) = kernels(source)
    assert str(found) == expected


def test_kernels_in_comments_do_not_count_and_lines_do():
    source = "// __global__ void a() {}\n/* __global__\nvoid b() {} */\n\n__global__ void c() {}\n__global__ void c();"
    (found,) = kernels(source)
    assert (found.name, found.line) == ("c", 5)


@pytest.mark.parametrize(
    "source", ["__global__", "__global__ void", "__global__ void f(", "__global__ {", "template <"]
)
def test_half_a_kernel(source):
    assert all(found.name == "f" for found in kernels(source))


def test_a_template_before_another_function_is_not_the_kernels():
    (found,) = kernels("template <int N> __device__ int f() { return N; }\n__global__ void gemm(int *x) {}")
    assert found.template == ""


def test_comments_leave_everything_else_in_place():
    source = 'a /* b\nc */ d "// e" // f\ng \'"\' /* h'
    stripped = without_comments(source)
    assert len(stripped) == len(source)
    assert stripped.split() == ["a", "d", '"//', 'e"', "g", "'\"'"]


def test_shared_arrays():
    source = "// __shared__ float As[2];\n__shared__ float\n    As[3], Bs[4];\nint As;"
    assert shared_array_line(source, "As") == 3
    assert shared_array_line(source, "Bs") == 3
    assert shared_array_line(source, "Cs") is None


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ('#include "a.h"\n  #  include <b.h> // c', (("a.h", True), ("b.h", False))),
        ('%:include "a.h"', (("a.h", True),)),
        ("#include_next <a.h>", (("a.h", False),)),
        ('#\\\ninclude "a.h"', (("a.h", True),)),
        ("// we include nothing", ()),
        ("#include NAME", None),
        ('#if __has_include("a.h")', None),
        ('#import "a.h"', None),
    ],
)
def test_includes(source, names):
    assert included_names(source) == names


def test_what_macros_hide():
    source = (
        "#define KERNEL static __global__ void\n#define T __shared__ \\\n    float As[2]\nKERNEL gemm(int *x) { T; }"
    )
    (found,) = kernels(source)
    assert (str(found), found.line) == ("gemm(int *x)", 4)
    assert shared_array_line(source, "As") == 3
    assert kernels("#define MAKE(name) __global__ void name(int *x) {}\nMAKE(gemm)") == ()
