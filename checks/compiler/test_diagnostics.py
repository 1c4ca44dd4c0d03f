"""What is wrong, where, in words that a learner can act on. Each case is a real compile."""

import numpy as np
import pytest

from checks.conftest import STORED_WITH, compiler
from gemm_lessons import engine
from gemm_lessons.engine.compiler import diagnostics
from gemm_lessons.engine.compiler.compile import NotCompiled, compile_source
from gemm_lessons.engine.compiler.diagnostics import plain_name


def test_a_syntax_error_names_line_and_column(errors):
    (error,) = errors("__global__ void gemm(float *x)\n{\n    x[0] = y;\n}\n")
    assert (error.file, error.line, error.column) == ("kernel.cu", 3, 12)
    assert error.message == 'identifier "y" is undefined'


@pytest.mark.parametrize(
    ("line", "column"),
    [("\tx[1] =\tyy;", 9), ("  /* größer */ x[0] = yy;", 23), ("x[0]=yy;", 6), ("    x[0] = 1; x[1] = yy;\r", 22)],
)
def test_columns_count_characters(errors, line, column):
    (error,) = errors(f"__global__ void gemm(float *x)\n{{\n{line}\n}}\n")
    assert (error.line, error.column) == (3, column)


@pytest.mark.parametrize(("gap", "line"), [("\n", 3), ("\n\n    // of x\n", 3), (" /* of x */\n    ", 3)])
def test_a_missing_semicolon_is_said_of_the_line_that_lacks_it(errors, gap, line):
    (error,) = errors(f"__global__ void gemm(float *x)\n{{\n    x[0] = 1{gap}    x[1] = 2;\n}}\n")
    assert error.line > line
    assert error.message == f'expected a ";" at the end of line {line}'
    (error,) = errors("__global__ void gemm(float *x)\n{\n    x[0] = 1 x[1] = 2;\n}\n")
    assert (error.line, error.message) == (3, 'expected a ";"')


def test_a_brace_that_is_not_closed_is_named_by_its_line(errors):
    found = errors("__global__ void gemm(float *x)\n{\n    if (x) {\n        x[0] = 1;\n}\n")
    assert '(to match this "{" in line 2)' in found[-1].message


def test_all_errors_are_reported_in_order(errors):
    found = errors("__global__ void gemm(float *x)\n{\n    x[0] = a;\n    x[1] = b;\n    x[2] = c;\n}\n")
    assert [(d.line, d.message) for d in found] == [
        (3, 'identifier "a" is undefined'),
        (4, 'identifier "b" is undefined'),
        (5, 'identifier "c" is undefined'),
    ]


def test_an_error_at_the_end_is_in_the_last_line(errors):
    found = errors("__global__ void gemm(float *x)\n{\n    x[0] = 1;\n")
    assert found[-1].line == 3
    assert 'expected a "}"' in found[-1].message


def test_an_error_in_a_header_names_the_header(errors, tmp_path):
    (tmp_path / "bad.cuh").write_text("\n__device__ float f() { return nothing; }\n")
    (error,) = errors('#include "bad.cuh"\n__global__ void gemm(float *x) { x[0] = f(); }', include_dirs=[tmp_path])
    assert (error.file, error.line, error.column) == (str(tmp_path / "bad.cuh"), 2, 31)


def test_template_errors_say_for_which_arguments(errors):
    source = 'template <int N> __global__ void tile(float *x)\n{\n    static_assert(N > 3, "N is too small");\n}\n'
    (error,) = errors(source, "tile<2>")
    assert error.line == 3
    assert "N is too small" in error.message
    if compiler() == STORED_WITH:  # what the condition was is told by newer ones only
        assert "2 > 3" in error.message
    assert "[with N=2]" in error.message


def test_nested_templates_name_the_innermost_and_the_outermost(errors):
    source = """template <int N> __device__ int g() { int a[N]; return a[0]; }
template <int N> __device__ int f() { return g<N>(); }
__global__ void gemm(int *x)
{
    x[0] = f<-3>();
    x[1] = y;
}
"""
    first, second = sorted(errors(source), key=lambda d: d.line)
    assert first.column == 45
    assert first.message.endswith(
        'detected during instantiation of "int g<N>() [with N=-3]" at line 2, '
        'from instantiation of "int f<N>() [with N=-3]" at line 5'
    )
    assert (second.line, second.column) == (6, 12)


def test_a_note_does_not_hide_the_column_of_what_follows(errors):
    source = "__global__ void gemm(float *x)\n{\n    static_assert(1 > 2);\n    x[0] = y;\n}\n"
    first, second = errors(source)
    assert (first.line, first.column) == (3, 5)
    assert (second.line, second.column) == (4, 12)


@pytest.mark.parametrize(("known", "reasons"), [(2, 2), (3, 0)])
def test_what_no_function_takes_is_told_by_types_and_by_reasons_if_few_would_do(errors, known, reasons):
    functions = "".join(f"__device__ void f({it} *) {{}}\n" for it in ("int", "short", "char")[:known])
    (error,) = errors(functions + "__global__ void gemm(float *x)\n{\n    f(x);\n}\n")
    assert error.line == known + 3
    assert "argument types are: (float *)" in error.message
    assert error.message.count("does not match because") == reasons


def test_what_is_built_in_is_no_reason(errors):
    (error,) = errors("__global__ void gemm(float *x)\n{\n    x[threadIdx / 2] = 0;\n}\n")
    assert error.message.endswith('no operator "/" matches these operands; operand types are: const uint3 / int')


def test_types_of_fragments_are_told_without_their_namespace(errors):
    source = """#include <mma.h>
using namespace nvcuda;
__global__ void gemm(half *x)
{
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::mma_sync(c, c, c, c);
}
"""
    (error,) = errors(source)
    assert error.line == 6
    of_c = "fragment<accumulator, 16, 16, 16, float>"
    assert error.message.endswith(f"argument types are: ({', '.join([of_c] * 4)})")


@pytest.mark.parametrize(
    ("source", "entry", "line", "words"),
    [
        ("\n__global__ void gem(float *A, int M) {}", "gemm", 2, ["no kernel is called gemm", "gem(float *A, int M)"]),
        ("template <int N>\n__global__ void tile(float *x) {}", "tile", 2, ["template <int N>", "tile<...>"]),
        ("template <int N> __global__ void tile(float *x) {}", "tile<1, 2>", 1, ["tile<1, 2>", "template <int N>"]),
        ("template <class T> __global__ void tile(T *x) {}", "tile<hlaf>", 1, ["instantiated", '"hlaf" is undefined']),
        ("\n__device__ void gemm(float *x) {}", "gemm", 2, ["__global__ in front"]),
        ("__global__ void gemm(float *x) {} __global__ void gemm(int *x) {}", "gemm", 1, ["(void (*)(float *x))gemm"]),
        ("namespace n { __global__ void gemm(float *x) {} }", "gemm", 1, ["namespace"]),
        (
            "#ifndef A\n#elif B\n__global__ void gemm(float *x) {}\n#endif",
            "gemm",
            3,
            ["left out", "#elif B"],
        ),
        ("//\n.version 9.0\n.target sm_90\n.address_size 64", "gemm", 3, ["this is PTX"]),
        ("__device__ float f(float x) { return x; }", "gemm", 1, ["no __global__ function at all"]),
        ("", "gemm", 1, ["no __global__ function at all"]),
        ("__global__ void gemm(float *x) {}", "", 1, ["not the name of a kernel"]),
        ("__global__ void gemm(float *x) {}", "gemm\nx", 1, ["not the name of a kernel"]),
        ("__global__ void gemm(float *x) {}", "gemm>(;{", 1, ["gemm(float *x)"]),
    ],
)
def test_a_wrong_kernel_name(errors, source, entry, line, words):
    (error,) = errors(source, entry)
    assert error.line == line
    for word in words:
        assert word in error.message


def test_a_missing_library_of_device_code_is_named_first(errors):
    source = "#include <curand_kernel.h>\n__global__ void gemm(curandState *s) { curand_init(1, 0, 0, s); }"
    first = errors(source)[0]
    assert (first.line, first.message) == (1, 'cannot open source file "curand_kernel.h"; compiled without it')


def test_other_errors_are_not_buried_under_the_missing_name(errors):
    assert [d.message for d in errors("__global__ void gem(float *x) { x[0] = y; }")] == ['identifier "y" is undefined']


def test_a_huge_shared_array_is_blamed_where_it_is_declared(errors):
    source = """__global__ void gemm(float *x)
{
    __shared__ float small[8];
    // not here: Bs
    __shared__ float As[64][100], Bs[100][200];
    small[threadIdx.x] = As[threadIdx.x][1] = Bs[threadIdx.x][1] = x[1];
    __syncthreads();
    x[0] = small[x[1] > 1] + As[x[0] > 1][0] + Bs[x[2] > 1][0];
}
"""
    (error,) = errors(source)
    assert error.line == 5
    assert "105,632 bytes" in error.message
    assert "49,152" in error.message
    assert "Bs with 80,000 bytes" in error.message


def test_inline_assembly_errors_find_their_source_line(errors):
    source = '__global__ void gemm(float *x)\n{\n    x[0] = 1;\n    asm volatile("foo.bar 1;");\n    x[1] = 2;\n}\n'
    found = errors(source)
    assert {d.line for d in found} == {4}
    assert any("'foo'" in d.message for d in found)


def test_a_function_that_nothing_defines(errors):
    (error,) = errors("extern __device__ float g(float);\n__global__ void gemm(float *x) { x[0] = g(x[1]); }")
    assert "function g" in error.message


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("void gemm(float *x) {}", "write __device__"),
        ("__global__ void one() {}\n__global__ void gemm(float *x) { one<<<1, 1>>>(); }", "dynamic parallelism"),
        ("int two() { return 2; }\n__global__ void gemm(float *x) { x[0] = two(); }", "functions of the host"),
        ("int size = 3;\n__global__ void gemm(float *x) { x[0] = size; }", "__constant__"),
        ("#include <vector>\n__global__ void gemm(float *x) { std::vector<int> v; }", "standard library"),
        ("#include <nv/nothing>\n__global__ void gemm(nv::nothing x) {}", "nvidia-cuda-cccl"),
        ('#include "nowhere.cuh"\n__global__ void gemm(float *x) {}', 'cannot open source file "nowhere.cuh"'),
        ("#error not today\n__global__ void gemm(float *x) {}", "not today"),
    ],
)
def test_reworded(errors, source, words):
    assert words in errors(source)[0].message
    assert "-default-device" not in errors(source)[0].message


def test_characters_that_cannot_stand_in_a_name(errors):
    (error, *_) = errors("__global__ void gemm(float *x)\n{\n    x[0] = größe;\n}\n")
    assert (error.line, error.column) == (3, 14)
    assert "'ö' (U+00F6)" in error.message


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("int a;\n\0\0\0", 2),
        ("\x7fELF\x02\x01\x01\0\0\0", 1),
        ("a\nb\nc\udcff", 3),
        ("\x01\x02\x03\x1b[31m", 1),
        ("%PDF-1.7\n%âãÏÓ\n1 0 obj", 1),
        ("}" * 2000, 1),
        ("(" * 2000, 1),
        ("\n\n\n" + "x " * 5000, 4),
        ("#" * 50, 1),
        ("/* never closed", 1),
        ('"never closed', 1),
        ("\u2028\u2029\x85\f\v", 1),
    ],
    ids=range(12),
)
def test_junk_is_an_error_and_never_a_traceback(errors, source, line):
    assert errors(source)[0].line == line


def test_a_define_that_is_no_name():
    result = compile_source("__global__ void gemm() {}", path="k.cu", entry="gemm", defines={"1A": 2})
    assert isinstance(result, NotCompiled)
    assert "invalid macro definition" in result.diagnostics[0].message


@pytest.mark.parametrize(
    ("mangled", "plain"),
    [
        ("_ZZ4gemmPfE2As", "As"),
        ("_ZZ4gemmPfE2As_0", "As"),
        ("_ZZ4tileILi64ELi4EEvPfiE2Bs", "Bs"),
        ("_ZZ4gemmPfE3E2x", "E2x"),
        ("_ZN1n4gemmEPf", "gemm"),
        ("_Z4tileILi64ELi4EEvPfi", "tile"),
        ("_ZL6helperf", "helper"),
        ("gemm", "gemm"),
        ("_ZZ", "_ZZ"),
        ("_ZZ1kPfE3box_$_0", "box"),  # a part of an array whose elements the compiler keeps apart
    ],
)
def test_plain_names(mangled, plain):
    assert plain_name(mangled) == plain


def test_other_messages_do_not_have_the_source_read(monkeypatch):
    """A file with all that it includes in place has megabytes, and as many messages as there are."""
    monkeypatch.setattr("gemm_lessons.engine.compiler.source.without_comments", None)
    log = 'kernel.cu(1): error: identifier "x" is undefined\n  y = x;\n      ^\n'
    assert [d.message for d in diagnostics.parse_log(log, "kernel.cu", "y = x;")] == ['identifier "x" is undefined']


@pytest.mark.parametrize(
    ("template", "instance"),
    [
        ("int N = 3", "<>"),
        ("int N = 3, typename T = float", "<>"),
        ("int N = (3 < 4), int M = 2", "<>"),
        ("int N = 3, typename... T", "<...>"),
        ("typename T", "<...>"),
    ],
)
def test_an_instance_of_a_template_is_asked_for(errors, template, instance):
    (found,) = errors(f"template <{template}> __global__ void gemm(float *x) {{ x[0] = 1; }}")
    assert found.message.endswith(f"name one instance of it, such as gemm{instance}")


def test_an_overloaded_kernel_is_chosen_by_its_type():
    source = "__global__ void gemm(float *x) { *x = 1; } __global__ void gemm(int *x, int n) { *x = n; }"
    x = np.zeros(1, np.int32)
    engine.compile(source, "(void (*)(int *x, int n))gemm").launch(1, 1, [x, 7])
    assert x[0] == 7
