"""Files as nvcc takes them: host code beside the kernels is left out, and the rest compiles as it stands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gemm_lessons import engine
from gemm_lessons.engine.api import CompileError, simulate
from gemm_lessons.engine.compiler import device_part, nvrtc, nvrtc_child, whole_file
from gemm_lessons.engine.compiler.compile import NotCompiled, compile_source
from gemm_lessons.engine.compiler.includes import Places

pytestmark = pytest.mark.usefixtures("counting")

TUTORIAL = (Path(__file__).parent / "sources" / "tutorial.cu").read_text()

HEADER = """\
#pragma once
#include "timer_and_scale.cuh"
struct Timer { cudaEvent_t a, b; void start() { cudaEventRecord(a); } };
inline void stop(Timer &t) { cudaEventRecord(t.b); }
__device__ int scaled(int v) { return v * 10; }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("tutorial")
    (place / "timer_and_scale.cuh").write_text(HEADER)
    return place


@pytest.mark.counted
def test_a_tutorial_runs_as_it_stands(folder):
    path = str(folder / "tutorial.cu")
    x = np.arange(32, dtype=np.int32)
    pair, times = np.int32(5).tobytes(), np.int32(7).tobytes()
    got = simulate(TUTORIAL, "whole", 1, 32, [x, 30, pair, times], path=path)
    i = np.arange(32)
    want = np.where(i < 30, (i * 6 + 3) * 10 * 5 + 4 + 35 + np.minimum(i, 30) + 2, i)
    assert x.tolist() == want.tolist()
    line = next(n for n, text in enumerate(TUTORIAL.split("\n"), 1) if text.startswith("        x[i] ="))
    assert {count.line for count in got.counters.lines} == {line}
    for entry, expected in (("doubled", i * 2), ("last", np.full(32, 7))):
        x = np.arange(32, dtype=np.int32)
        simulate(TUTORIAL, entry, 1, 32, [x], path=path)
        assert x.tolist() == expected.tolist()


def failure(source, folder, entry="k"):
    result = compile_source(source, path=str(folder / "kernel.cu"), entry=entry)
    assert isinstance(result, NotCompiled), "it compiled"
    return result.diagnostics


@pytest.mark.parametrize(
    ("source", "line", "message"),
    [
        # What a kernel needs must be there: the first complaint names it.
        ("int f(int a) { return a; }\n__global__ void k(int *x) { x[0] = f(1); }", 1, "write __device__ in front"),
        ("int n = 3;\n__global__ void k(int *x) { x[0] = n; }", 1, "write __device__ or __constant__"),
        ('#include "sizes.h"\nint main() {}\n__global__ void k(int *x) { x[0] = 1; }', 1, '"sizes.h"'),
        ("#include <thrust/nothing.h>\n__global__ void k(thrust::nothing<int> x) {}", 1, "nvidia-cuda-cccl"),
        # Mistakes keep their places, in the file and in what it includes.
        ("int main() { return 0; }\n\n__global__ void k(int *x) { x[0] = y; }", 3, 'identifier "y" is undefined'),
        ('#include "timer_and_scale.cuh"\n__global__ void k(int *x) { x[0] = y; }', 2, 'identifier "y" is undefined'),
        ('#include "broken.cuh"\nint main() {}\n__global__ void k(int *x) {}', 2, 'identifier "z" is undefined'),
    ],
)
def test_what_kernels_need_is_asked_for(source, line, message, folder):
    (folder / "broken.cuh").write_text("void g() {}\n__device__ int h() { return z; }\n")
    found = failure(source, folder)
    assert any(d.line == line and message in d.message for d in found), found
    assert ("broken.cuh" in found[0].file) == ("broken" in source)


def test_headers_that_are_not_there_are_named(folder):
    source = "#include <torch/extension.h>\nint main() {}\n__global__ void k(int *x) { x[0] = 1; }"
    compiled = compile_source(source, path=str(folder / "kernel.cu"), entry="k")
    assert not isinstance(compiled, NotCompiled)
    (warning,) = compiled.diagnostics
    assert (warning.severity, warning.line) == ("warning", 1)
    assert "torch/extension.h" in warning.message


def test_a_file_without_host_code_stays_as_it_is(folder):
    text = "__device__ int f(int a) { return a; }\n__global__ void k(int *x) { x[0] = f(1); }\n"
    whole = whole_file.gather(text, Places(str(folder / "kernel.cu"), "kernel.cu", (), ()))
    assert whole_file.kernels_only(whole).text == text


@pytest.mark.parametrize("there", [0, 1])
def test_files_behind_a_condition_count_where_it_holds(tmp_path, there):
    """Also a header with ``#pragma once``; lines after the condition keep their numbers."""
    (tmp_path / "three.cuh").write_text("#pragma once\n\n__device__ int three() { return 3; }\n")
    text = f'#include <vector>\n#if {there}\n#include "three.cuh"\n#else\n#endif\n#include "three.cuh"\n'
    text += "struct Host {\n    std::vector<int> x;\n};\n__global__ void k(int *x) { x[0] = three(); }\nint main() {}\n"
    path = tmp_path / "kernel.cu"
    path.write_text(text)
    out = np.zeros(1, np.int32)
    simulate(text, "k", 1, 1, [out], path=str(path))
    assert out[0] == 3


def test_cooperative_groups_and_names_of_the_standard_library():
    source = """
    #include <cooperative_groups.h>
    #include <cooperative_groups/reduce.h>
    #include <limits>
    #include <type_traits>
    #include <utility>
    #include <cublasLt.h>
    #include <cufftXt.h>
    namespace cg = cooperative_groups;
    static_assert(std::is_unsigned_v<const unsigned> && std::is_signed_v<float> && !std::is_signed_v<void>);
    static_assert(std::numeric_limits<short>::max() == 32767 && std::numeric_limits<unsigned>::digits == 32);
    static_assert(std::is_same<std::remove_reference_t<int &>, int>::value && std::is_floating_point_v<double>);
    static_assert(std::is_same_v<std::make_unsigned_t<long>, unsigned long> && std::make_signed_t<char>(-1) < 0);
    template <class T> __device__ std::enable_if_t<std::is_integral<T>::value, T> whole(T x) { return x + 1; }
    __global__ void k(float *x, cufftComplex c) {
        auto warp = cg::tiled_partition<32>(cg::this_thread_block());
        register float sum = cg::reduce(warp, x[warp.thread_rank()], cg::plus<float>());
        float other = -std::numeric_limits<float>::infinity();
        if (warp.thread_rank() == 1) std::swap(sum, other);
        x[warp.thread_rank()] = std::fmax(sum, other) + whole(2) + std::abs(-c.x);
    }"""
    x = np.arange(32, dtype=np.float32)
    simulate(source, "k", 1, 32, [x, np.array([2, 3], np.float32).tobytes()])
    assert x.tolist() == [496 + 3 + 2] * 32


def test_limits_and_traits_are_those_of_the_host():
    source = """
    #include <cmath>
    #include <limits>
    #include <type_traits>
    struct Plain { int x; };
    struct Owner { __device__ Owner() {} Owner(const Owner &) = delete; __device__ ~Owner() {} };
    template <class T> using limits = std::numeric_limits<T>;
    static_assert(std::is_trivially_copy_assignable_v<Plain> && std::is_trivially_default_constructible<Plain>::value);
    static_assert(!std::is_copy_constructible_v<Owner> && !std::is_trivially_destructible_v<Owner>);
    static_assert(std::is_destructible_v<Owner> && std::is_scalar_v<int *> && !std::is_scalar_v<Plain>);
    static_assert(limits<float>::is_iec559 && limits<const int>::is_exact && !limits<Plain>::is_specialized);
    static_assert(limits<unsigned>::digits10 == 9 && limits<short>::digits10 == 4 && limits<bool>::digits10 == 0);
    static_assert(limits<float>::max_digits10 == 9 && limits<double>::max_digits10 == 17);
    static_assert(limits<float>::min_exponent == -125 && limits<double>::max_exponent10 == 308);
    __global__ void k(float *x) {
        constexpr float endless = limits<float>::infinity();
        x[0] = endless;
        x[1] = limits<float>::quiet_NaN();
        x[2] = limits<float>::denorm_min();
        x[3] = std::asinh(x[3]);
    }"""
    x = np.ones(4, np.float32)
    simulate(source, "k", 1, 1, [x])
    assert np.array_equal(x[:3], np.array([np.inf, np.nan, 2.0**-149], np.float32), equal_nan=True)
    assert x[3] == pytest.approx(np.arcsinh(1), rel=1e-6)


@pytest.mark.parametrize("headers", ["", "#include <type_traits>\n#include <utility>\n"])
def test_names_of_the_standard_library_without_its_headers(headers: str) -> None:
    """nvcc's own headers include many of std; what a file names without including it is found."""
    source = """
    enum class Kind : short { a, b };
    struct Base { int x; };
    struct Derived : Base {};
    template <class F, class T> __device__ std::invoke_result_t<F, T> call(F f, T x) { return f(x); }
    static_assert(std::is_same_v<std::common_type_t<int, float, double>, double>);
    static_assert(std::is_same_v<std::common_type_t<const int &, short>, int>);
    static_assert(std::is_same_v<std::decay_t<const int (&)[3]>, const int *>);
    static_assert(std::is_same_v<std::decay_t<int(float)>, int (*)(float)>);
    static_assert(std::is_same_v<std::underlying_type_t<Kind>, short> && std::is_enum_v<Kind>);
    static_assert(std::is_class_v<Base> && !std::is_class_v<Kind>);
    static_assert(std::is_base_of_v<Base, Derived> && !std::is_base_of<Derived, Base>::value);
    static_assert(std::is_convertible_v<int, double> && !std::is_convertible_v<int *, double>);
    static_assert(std::extent_v<int[3][4], 1> == 4 && std::rank_v<int[3][4]> == 2 && std::is_array_v<int[]>);
    static_assert(std::conjunction_v<std::true_type, std::negation<std::false_type>> && !std::disjunction_v<>);
    static_assert(std::is_trivially_copyable_v<Base> && std::is_empty_v<std::true_type> && std::is_reference_v<int &&>);
    __global__ void k(int *x) {
        auto [a, b] = std::make_pair(3, 4.5f);
        std::pair<int, double> p = std::pair<int, float>(a, b);
        x[0] = p.first + int(p.second * 2) + (p < std::pair<int, double>(3, 5)) + call([](int x) { return x * 2; }, 7);
    }
    int main() { k<<<1, 1>>>(nullptr); }"""
    x = np.zeros(1, np.int32)
    simulate(headers + source, "k", 1, 1, [x])
    assert x[0] == 3 + 9 + 1 + 14


def test_a_name_that_std_does_not_have_is_told_as_it_was() -> None:
    with pytest.raises(CompileError, match='namespace "std" has no member "comon_type_t"'):
        simulate("__global__ void k(std::comon_type_t<int> *x) { x[0] = 1; }", "k", 1, 1, [np.zeros(1, np.int32)])


OF_PYTORCH = """
#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
using at::Half;
template <typename T> __device__ T most(T x) { return x < T(1) ? x : T(FLT_MAX); }
__device__ __half area(const __half a, const __half b) { return __hmul(a, b); }
__global__ void k(float *x) { x[0] = most(x[0]) + __half2float(area(__float2half(2.f), __float2half(3.f))); }
at::Tensor run(const at::Tensor &x) { k<<<1, 1>>>(x.data_ptr<float>()); return x; }
"""


def test_names_of_cuda_that_a_missing_library_includes() -> None:
    """PyTorch's headers include cuda_fp16.h and cfloat, so its kernels do not."""
    x = np.zeros(1, np.float32)
    simulate(OF_PYTORCH, "k", 1, 1, [x])
    assert x[0] == 6


def test_a_header_that_the_user_forgot_is_told() -> None:
    """Where no library is missing, a name without its header is an error, as for nvcc."""
    own = "\n".join(line for line in OF_PYTORCH.split("\n") if "at::" not in line and "#include" not in line)
    with pytest.raises(CompileError, match='identifier "__half" is undefined'):
        simulate(own, "k", 1, 1, [np.zeros(1, np.float32)])


def test_a_folder_of_cudas_own_headers_is_no_library() -> None:
    """Users name the toolkit's folder, as for other compilers; the kit's cub.cuh is used, which has no host code."""
    source = """
    #include <cub/cub.cuh>
    __global__ void k(int *x) {
        __shared__ cub::BlockReduce<int, 32>::TempStorage s;
        const int sum = cub::BlockReduce<int, 32>(s).Sum(x[threadIdx.x]);
        if (threadIdx.x == 0) x[0] = sum;
    }"""
    x = np.arange(32, dtype=np.int32)
    toolkits = [it for it in nvrtc.include_folders(13) if (it / "cub").is_dir()]
    assert toolkits
    engine.compile(source, "k", include_dirs=toolkits).launch(1, 32, [x])
    assert x[0] == 496


def test_a_member_whose_size_calls_a_function_is_no_function() -> None:
    source = """
    #include <iostream>
    template <class T> __host__ __device__ constexpr int size(T) { return 3; }
    struct Layout {};
    template <class L> struct Storage { float tile[4]; int ready[size(L{})]; };
    template <class L> __global__ void k(int *x) { Storage<L> s; s.ready[2] = 7; x[0] = s.ready[2] + sizeof(s); }
    int main() { std::cout << 1; }"""
    x = np.zeros(1, np.int32)
    assert not simulate(source, "k<Layout>", 1, 1, [x]).findings
    assert x[0] == 7 + 28


def test_names_that_kernels_of_deepgemm_use() -> None:
    """Sequences of ``<utility>``, and the runtime's functions for launches that depend on each other."""
    source = """
    #include <utility>
    template <int... i> __device__ int sum(std::integer_sequence<int, i...>) { return (i + ...); }
    template <size_t... i> __device__ int last(std::index_sequence<i...>) { return ((int)i, ...); }
    static_assert(std::make_index_sequence<3>::size() == 3 && std::index_sequence_for<int, char>::size() == 2);
    extern "C" __global__ void k(int *x) {
        cudaGridDependencySynchronize();
        int old = 5;
        x[0] = sum(std::make_integer_sequence<int, 5>{}) + last(std::make_index_sequence<4>{}) + std::exchange(old, 7);
        x[1] = old;
        cudaTriggerProgrammaticLaunchCompletion();
    }"""
    x = np.zeros(2, np.int32)
    assert not simulate(source, "k", 1, 1, [x]).findings
    assert x.tolist() == [10 + 3 + 5, 7]


def test_a_template_may_name_what_the_host_says_of_a_tensor_map() -> None:
    source = """
#include <cudaTypedefs.h>
template <typename T> struct Of;
template <> struct Of<float> { using sum = double; static constexpr auto type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32; };
template <typename T> __global__ void k(int *x) { typename Of<T>::sum y = Of<T>::type; x[0] = y; }
void init(CUtensorMap *map) { cuTensorMapEncodeTiled(map, Of<float>::type, CU_TENSOR_MAP_SWIZZLE_128B); }
"""
    x = np.zeros(1, np.int32)
    assert not simulate(source, "k<float>", 1, 1, [x]).findings
    assert x[0] == 7


CPP20 = {
    "concept": """
template <typename T> concept has_size = requires { typename T::tag; T::size; };
template <class T> concept small = has_size<T> && (T::size < 8) && requires (T t) { { t.get() }; };
template <small T> __device__ int size_of() { return T::size; }
""",
    "clause of a function": """
template <class T> requires (T::size > 2) && std::is_same_v<T, Tile> __device__ int size_of() { return T::size; }
""",
    "expression in a clause": """
template <class T> requires requires (T t) { t.get(); } || true __device__ int size_of() { return T::size; }
""",
    "trailing clause": """
template <class T> __device__ int size_of() requires requires { typename T::tag; } { return T::size; }
""",
    "clause of a type": """
template <class T> requires std::is_same_v<T, Tile> struct Size { static __device__ int get() { return T::size; } };
template <class T> __device__ int size_of() { return Size<T>::get(); }
""",
    "clause of a member": """
template <class T> struct Size {
    __device__ int get() const requires (T::size == 3) { return T::size; }
    __device__ int get() const requires (T::size != 3) { return -1; }
};
template <class T> __device__ int size_of() { return Size<T>{}.get(); }
""",
    "braces among template arguments": """
template <class T, int known = int{T::size}> __device__ int size_of() { return known; }
""",
    "consteval": """
template <class T> __host__ consteval int size() { return T::size; }
template <class T> constinit const int limit = 3;
template <class T> __device__ int size_of() { return size<T>() == limit<T> ? 3 : 0; }
""",
    "deduction guide": """
template <class T> struct Pair { T a, b; };
template <class T> Pair(T, T) -> Pair<T>;
template <class T> __device__ int size_of() { Pair it{1, 2}; return it.a + it.b; }
""",
    "macro calls before a constant": """
#define FLAG(name, value) template <class T> concept has_##name = requires { T::name; }; \\
    template <class T> constexpr int name##_v = value; template <has_##name T> constexpr int name##_v<T> = T::name;
// a comment of its own
FLAG(size, 1)
FLAG(width, (2 * size_v<T>))
template <typename T> constexpr int both_v = size_v<T> + width_v<T> - 6;
template <class T> __device__ int size_of() { return both_v<T>; }
""",
    "a name that is requires": """
struct Needs { int requires_, size; };
template <class T> __device__ int size_of() { Needs it{.requires_ = 1, .size = 2}; return it.requires_ + it.size; }
""",
}
TILE = """#include <type_traits>
struct Tile { using tag = int; static constexpr int size = 3; __device__ int get() { return 1; } };"""
CPP20_HOST = """
template <class T> requires (T::size > 2) void host_size(std::vector<T> &v) { v.push_back(T{}); }
template <class T> void host_sizes(std::vector<T> &v) requires requires { T::size; } { v.push_back(T{}); }
int main() { std::vector<Tile> tiles; host_size(tiles); host_sizes(tiles); }
"""


@pytest.mark.parametrize("name", CPP20)
def test_what_cpp20_adds_to_declarations_is_no_code_of_the_host(name):
    source = f"""
#include <vector>
{TILE}{CPP20[name]}
extern "C" __global__ void k(int *x) {{ x[0] = size_of<Tile>(); }}
{CPP20_HOST}"""
    x = np.zeros(1, np.int32)
    engine.compile(source, "k", options=["-std=c++20"]).launch(1, 1, [x])
    assert x[0] == 3


def test_a_function_of_the_host_with_a_constraint_is_not_for_kernels():
    source = f"""
{TILE}
template <class T> requires (T::size > 2) int size_of() {{ return T::size; }}
extern "C" __global__ void k(int *x) {{ x[0] = size_of<Tile>(); }}
int main() {{ return size_of<Tile>(); }}"""
    with pytest.raises(CompileError, match="__device__"):
        engine.compile(source, "k", options=["-std=c++20"])


@pytest.mark.parametrize("host", ["", "#include <iostream>\nint main() { std::cout << 1; }\n"])
def test_a_narrowing_conversion_is_a_warning_as_for_nvcc(host):
    source = """
struct At { int x, y; __device__ At(int a, int b) : x(a), y(b) {} };
template <int D> __global__ void k(int *o) { At at = {threadIdx.x, 1u * D}; o[0] = at.x + at.y; }
"""
    x = np.zeros(1, np.int32)
    kernel = engine.compile(host + source, "k<3>")
    kernel.launch(1, 1, [x])
    assert x[0] == 3
    assert "narrowing" in kernel._compiled.diagnostics[0].message
    with pytest.raises(CompileError, match="undefined"):  # beside an error, that one is told
        engine.compile(host + source.replace("at.x +", "at.x + z +"), "k<3>")


def test_the_name_of_a_kernel_in_a_file_with_host_code_is_the_error(library):
    source = WITH_LIBRARY + HOST_OF_IT
    made = compile_source(source, path=str(library.parent / "k.cu"), entry="no_such<8>", include_dirs=[library])
    assert isinstance(made, NotCompiled)
    assert "no_such" in made.diagnostics[0].message


def test_a_kernel_in_an_include_that_was_left_out_is_not_said_to_be_missing(library):
    (library / "lib/kernel.hpp").write_text("#include <chrono>\n__global__ void k(int *x) { *x = 1; }\n")
    source = WITH_LIBRARY.replace("#include <lib/lib.hpp>", "#include <lib/lib.hpp>\n#include <lib/kernel.hpp>")
    made = compile_source(source, path=str(library.parent / "k.cu"), entry="no_such<8>", include_dirs=[library])
    assert isinstance(made, NotCompiled)
    assert "chrono" in made.diagnostics[0].message


def test_a_library_that_takes_the_compiler_too_long_is_the_error(library, monkeypatch):
    real, broken = nvrtc_child.translate, nvrtc_child.Broken("the compiler did not finish within 60 s", hung=True)

    def slow(major, source, name, options, expression):
        late = device_part.WITH_LIBRARIES[0] in options
        return broken if late else real(major, source, name, options, expression)

    monkeypatch.setattr(nvrtc_child, "translate", slow)
    made = compile_source(
        WITH_LIBRARY + "// too long", path=str(library.parent / "k.cu"), entry="k", include_dirs=[library]
    )
    assert isinstance(made, NotCompiled)
    assert "did not finish within 60 s" in made.diagnostics[0].message


LIBRARY = {
    "lib/lib.hpp": """
#pragma once
#define LIB_HEADER(name) <lib/name>
#define LIB_CONSTEXPR constexpr
#include LIB_HEADER(traits.hpp)
namespace lib {
template <class T> LIB_CONSTEXPR auto twice(T x) { return std::max<std::conditional_t<true, T, int>>(2 * x, 0); }
struct Adapter { virtual int launch(int n) { return n; } };
constexpr auto thrice(int x) -> int { return 3 * x; }
}
""",
    "lib/traits.hpp": "#pragma once\ntemplate <class T> struct Rank { static constexpr int value() { return 5; } };\n",
    "lib/clock.hpp": """
#pragma once
#include <chrono>
struct Clock { cudaEvent_t a; Clock() { cudaEventCreate(&a); } };
""",
}


@pytest.fixture
def library(tmp_path):
    for name, text in LIBRARY.items():
        (tmp_path / "include" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "include" / name).write_text(text)
    return tmp_path / "include"


WITH_LIBRARY = """
#include <lib/lib.hpp>
__global__ void k(int *x) { x[0] = lib::twice(x[0]) + lib::thrice(1) + Rank<int>::value(); }
"""
HOST_OF_IT = """
#include <vector>
#include <lib/clock.hpp>
int main() { std::vector<int> h(3); Clock c; k<<<1, 1>>>(h.data()); }
"""


@pytest.mark.parametrize("source", [WITH_LIBRARY, HOST_OF_IT + WITH_LIBRARY, WITH_LIBRARY + HOST_OF_IT])
def test_a_librarys_functions_need_no_device(library, tmp_path, source):
    """As nvcc takes them: constexpr, through a macro or not, and host code that is never called."""
    x = np.array([4], np.int32)
    simulate(source, "k", 1, 1, [x], include_dirs=[library], path=str(tmp_path / "k.cu"))
    assert x[0] == 2 * 4 + 3 + 5


@pytest.mark.parametrize("where", ["k.cu", "own.cuh"])
@pytest.mark.parametrize("host", ["", HOST_OF_IT])
def test_beside_a_library_ones_own_functions_do(library, tmp_path, where, host):
    own = "inline int f(int a) { return a; }\n"
    (tmp_path / "own.cuh").write_text(own)
    source = own if where == "k.cu" else '#include "own.cuh"\n'
    source += WITH_LIBRARY.replace("lib::thrice(1)", "f(1)") + host
    failed = compile_source(source, path=str(tmp_path / "k.cu"), entry="k", include_dirs=[library])
    assert isinstance(failed, NotCompiled)
    first = failed.diagnostics[0]
    assert first.message.startswith("write __device__ in front")
    assert (first.file, first.line) == (str(tmp_path / where), 1)


def test_an_error_beside_a_library_is_named_alone(library, tmp_path):
    source = WITH_LIBRARY.replace("lib::thrice(1)", "lib::fourth(1)") + HOST_OF_IT
    failed = compile_source(source, path=str(tmp_path / "k.cu"), entry="k", include_dirs=[library])
    assert isinstance(failed, NotCompiled)
    assert failed.diagnostics[0].line == 3
    assert "fourth" in failed.diagnostics[0].message


def test_headers_of_the_standard_library_are_those_of_cccl(tmp_path):
    """Here a CCCL of one header."""
    (tmp_path / "cuda" / "std").mkdir(parents=True)
    text = "#pragma once\nnamespace cuda { namespace std { struct dead { int x; }; } }\n"
    (tmp_path / "cuda" / "std" / "initializer_list").write_text(text)
    source = (
        "#include <initializer_list>\n#include <ciso646>\n__global__ void k(int *x) { x[0] = cuda::std::dead{7}.x; }"
    )
    x = np.zeros(1, np.int32)
    simulate(source, "k", 1, 1, [x], include_dirs=[tmp_path])
    assert x[0] == 7


@pytest.mark.parametrize("extra", ["", HOST_OF_IT])
def test_missing_files_stay_out_of_the_way_of_the_error(folder, extra):
    """A cause goes first: a library by its namespace, std::vector by its name. All others are one warning."""
    libraries = [f"torch{i}/extension.h" for i in range(8)]
    source = "".join(f"#include <{name}>\n" for name in ["map", "set", *libraries])
    typo = failure(
        source + "__global__ void k(int *x) { x[0] = y; }\n" + extra.replace("lib/clock.hpp", "ctime"), folder
    )
    assert 'identifier "y" is undefined' in typo[0].message
    (rest,) = (d for d in typo if "cannot open" in d.message)
    assert (rest.severity, rest.line) == ("warning", 3)
    assert 'nor "torch1/extension.h"' in rest.message
    assert "and 4 more" in rest.message
    for use, cause in (("torch5::f()", "torch5/extension.h"), ("std::map<int, int>().size()", "map")):
        first, second, *_ = failure(source + f"__global__ void k(int *x) {{ x[0] = {use}; }}", folder)
        assert (first.severity, first.line) == ("error", 1 + source[: source.find(cause)].count("\n"))
        assert cause in first.message
        assert second.line == 11


OF_CCCL = {
    "a pipeline": """
#include <cooperative_groups.h>
#include <cuda/pipeline>
__global__ void k(int *x)
{
    __shared__ int s[32];
    auto pipe = cuda::make_pipeline();
    pipe.producer_acquire();
    cuda::memcpy_async(s + threadIdx.x, x + threadIdx.x, cuda::aligned_size_t<4>(4), pipe);
    pipe.producer_commit();
    pipe.consumer_wait();
    x[threadIdx.x] = s[threadIdx.x] + 1;
    pipe.consumer_release();
}
""",
    "a reference": """
#include <cuda/atomic>
__global__ void k(int *x) { cuda::atomic_ref<int, cuda::thread_scope_block>(x[threadIdx.x]).fetch_add(1); }
""",
    "a tuple": """
#include <tuple>
__global__ void k(int *x) { x[threadIdx.x] = std::get<1>(std::make_tuple(0, x[threadIdx.x] + 1)); }
""",
}


@pytest.mark.parametrize("source", OF_CCCL.values(), ids=OF_CCCL)
def test_the_core_libraries_are_there(source):
    x = np.arange(32, dtype=np.int32)
    assert not simulate(source, "k", 1, 32, [x]).findings
    assert (x == np.arange(1, 33)).all()


@pytest.mark.parametrize(
    ("more", "limited"),
    [
        ("", True),
        ("#include <cuda/barrier>\n", False),
        ("template <class T> using Plain = cuda::std::remove_const_t<T>;\n", False),
    ],
)
def test_cooperative_groups_include_the_core_libraries_only_beside_them(monkeypatch, more, limited):
    asked = []
    real = nvrtc_child.translate

    def translate(major, source, name, options, expression):
        asked.append(options)
        return real(major, source, name, options, expression)

    monkeypatch.setattr(nvrtc_child, "translate", translate)
    monkeypatch.setenv("GEMM_LESSONS_NO_CACHE", "1")
    source = (
        f"#include <cooperative_groups.h>\n{more}"
        "__global__ void k() { cooperative_groups::this_thread_block().sync(); }"
    )
    assert not isinstance(compile_source(source, path="kernel.cu", entry="k", assembled=False), NotCompiled)
    assert ("-D_CG_LIMIT_INCLUDED_DEPENDENCIES" in asked[0]) == limited


LAMBDAS = """
struct Pair { float x, y; float operator[](int i) const; };
__global__ void k(float *c)
{
    const auto add = [&](auto pick) { c[0] += pick(Pair{c[1], c[2]}); };
    add([](Pair v) { return v.y; });
}
int main() { return 0; }
"""
AS_HOST = """kernel.cu(LINE): error: A function without execution space annotations (__host__/__device__/__global__) \
is considered a host function, and host functions are not allowed in JIT mode.
  TEXT
  CARET
"""


def refused_by_13_0(source, *before):
    """The log of NVRTC 13.0, with a message after each of these texts."""
    log = ""
    for text in before:
        line = source[: source.index(text)].count("\n")
        whole = source.split("\n")[line]
        caret = " " * (whole.index(text) + len(text)) + "^"
        log += AS_HOST.replace("LINE", str(line + 1)).replace("TEXT", whole).replace("CARET", caret)
    return nvrtc.Translation(False, log.replace("kernel.cu", "/tmp/kernel.cu"))


@pytest.mark.parametrize("host", ["", "int main() { return 0; }\n"])
def test_a_lambda_with_auto_needs_no_device(host):
    source = LAMBDAS.replace("int main() { return 0; }\n", host)
    after = ["int main", "[&]"] if host else ["[&]"]
    places = Places("/tmp/kernel.cu", "kernel.cu", (), ())
    failed = refused_by_13_0(source, *after)
    made, _ = device_part.translate(failed, source, places, ["-arch=compute_90", "-std=c++17"], "k", 13)
    assert made.ok, made.log


@pytest.mark.parametrize("before", ["float operator[]", "int f"])
def test_a_function_beside_a_lambda_does(before):
    source = LAMBDAS.replace("int main() { return 0; }", "int f(int n) { return n; }").replace("c[0] +=", "c[f(0)] +=")
    places = Places("/tmp/kernel.cu", "kernel.cu", (), ())
    failed = refused_by_13_0(source, "[&]", before)
    made, _ = device_part.translate(failed, source, places, ["-arch=compute_90", "-std=c++17"], "k", 13)
    assert not made.ok


def test_a_macro_without_a_semicolon_does_not_hide_the_type_after_it():
    source = """
#define SHORT_NAMES(name) using name##2 = name<2>; using name##3 = name<3>;
template <int N> struct vec { float x[N]; };
SHORT_NAMES(vec)
template <typename T> struct quat {
    quat() = default;
    __device__ quat(T w) : w{w} {}
    T w;
};
SHORT_NAMES(vec)
namespace more { struct Two { int n = 2; }; }
template <typename T> __device__ quat<T> operator-(const quat<T> &a) { return {-a.w}; }
void launch() { std::vector<int> v; }
__global__ void k(float *x) { x[0] = (-quat<float>(x[0])).w + more::Two().n + sizeof(vec2); }
"""
    x = np.array([3.0], np.float32)
    simulate(source, "k", 1, 1, [x])
    assert x[0] == -3 + 2 + 8


NVCC_ONLY = """
#if defined(__NVCC__) && defined(__linux__)
#define ON_GPU __device__
#else
#error not for this compiler
#endif
ON_GPU int doubled(int x) { return 2 * x; }
"""


@pytest.mark.parametrize("in_header", [False, True])
def test_code_for_nvcc_on_linux_is_the_code_that_runs(tmp_path, in_header):
    (tmp_path / "portable.h").write_text(NVCC_ONLY)
    head = '#include "portable.h"' if in_header else NVCC_ONLY
    x = np.array([4], np.int32)
    simulate(head + "\n__global__ void k(int *x) { x[0] = doubled(x[0]); }", "k", 1, 1, [x], path=f"{tmp_path}/k.cu")
    assert x[0] == 8


def test_a_name_of_nvcc_may_be_defined_by_the_user():
    source = "__global__ void k(int *x) { x[0] = __linux__; }"
    x = np.zeros(1, np.int32)
    simulate(source, "k", 1, 1, [x], defines={"__linux__": 5})
    assert x[0] == 5


@pytest.mark.parametrize("head", ['extern "C"__global__', 'extern "C" __global__', 'extern "C"\\t__global__'])
def test_a_linkage_may_touch_the_word_after_it(head):
    x = np.zeros(1, np.int32)
    simulate(head.replace("\\t", "\t") + " void k(int *x) { x[0] = 3; }", "k", 1, 1, [x])
    assert x[0] == 3


def test_int64_is_a_long_where_code_needs_it():
    """As nvcc has it on Linux. A call through the other type stays an error where neither fits."""
    source = """
#include <cstdint>
__device__ void add(uint64_t *sum, unsigned long by) { *sum += by; }
__global__ void k(unsigned long *x) { add(x, UINT64_C(5000000000)); }
int main() { k<<<1, 1>>>(nullptr); }
"""
    x = np.ones(1, np.uint64)
    simulate(source, "k", 1, 1, [x])
    assert x[0] == 5_000_000_001
    x = np.ones(1, np.uint64)
    simulate(source.replace("unsigned long *x", "unsigned long long *x"), "k", 1, 1, [x])
    assert x[0] == 5_000_000_001
    with pytest.raises(CompileError, match="uint64_t"):
        simulate(source.replace("unsigned long *x", "unsigned *x"), "k", 1, 1, [np.ones(1, np.uint32)])


def test_members_are_named_in_initialisers_as_gcc_takes_them():
    source = """
struct Vote { char base; int high = 1, low = 2; };
__global__ void k(int *x) {
    Vote votes[2] = {{.base = 'A', .high = 10, .low = 20}, {.base = 'C', .high = 30, .low = 40}};
    x[0] = votes[1].base + votes[0].high + votes[1].low;
}
"""
    x = np.zeros(1, np.int32)
    simulate(source, "k", 1, 1, [x])
    assert x[0] == ord("C") + 10 + 40
    with pytest.raises(CompileError, match="expected an expression"):
        simulate(source.replace("votes[1].base +", "votes[1].base + ;"), "k", 1, 1, [x])


LAUNCHES_ITSELF = """
#include <lib/lib.hpp>
#include <lib/clock.hpp>
__global__ void inner(int *x) { x[0] = lib::thrice(1); }
__global__ void k(int *x) { inner<<<1, 1>>>(x); }
"""
ALLOCATES = LAUNCHES_ITSELF.replace("inner<<<1, 1>>>(x);", "cudaMalloc(&x, 4);")


@pytest.mark.parametrize(
    ("source", "words"),
    [(LAUNCHES_ITSELF, "dynamic parallelism"), (ALLOCATES, '"cudaMalloc" is undefined: it belongs to CUDA\'s runtime')],
)
def test_dynamic_parallelism_is_the_error_beside_headers_of_the_host(library, source, words):
    made = compile_source(source, path=str(library.parent / "k.cu"), entry="k", include_dirs=[library])
    assert isinstance(made, NotCompiled)
    errors = [d for d in made.diagnostics if d.severity == "error"]
    assert len(errors) == 1
    assert words in errors[0].message
    assert (errors[0].file, errors[0].line) == (str(library.parent / "k.cu"), 5)


@pytest.mark.parametrize("order", [("cuda.h", "cudaEGL.h"), ("cudaEGL.h", "cuda.h")])
def test_headers_that_share_images_with_the_host_are_left_out(order):
    x = np.zeros(1, np.int32)
    includes = "".join(f"#include <{name}>\n" for name in order)
    simulate(includes + "__global__ void k(int *x) { x[0] = sizeof(CUtensorMap); }", "k", 1, 1, [x])
    assert x[0] == 128


def test_limits_and_literals_of_stdint():
    source = """
#include <stdint.h>
#include <inttypes.h>
__global__ void k(unsigned long long *x) {
    x[0] = UINT64_C(0x8000000000000001);
    x[1] = INT64_C(-3);
    x[2] = UINTMAX_MAX - SIZE_MAX + INTPTR_MAX;
    x[3] = sizeof(intmax_t) + UINT32_C(7) + std::uintmax_t(1);
}
"""
    x = np.zeros(4, np.uint64)
    simulate(source.replace("#include <inttypes.h>\n", ""), "k", 1, 1, [x])
    assert x.tolist() == [2**63 + 1, 2**64 - 3, 2**63 - 1, 16]
    simulate(source, "k", 1, 1, [x])
    assert x.tolist() == [2**63 + 1, 2**64 - 3, 2**63 - 1, 16]


OWN_MISTAKE = """
#include <lib/lib.hpp>
#include <lib/clock.hpp>
__global__ void k(int *x) { x[0] = lib::thrice(x[0]) + NAME; }
int main() { Clock c; }
"""


@pytest.mark.parametrize(
    ("name", "line", "words"),
    [
        ("unheard_of", 4, '"unheard_of" is undefined'),
        ("__shfl_xor(x[1], 1)", 4, "write __shfl_xor_sync"),
        ("now()", 4, "chrono"),  # a header of the host that was left out has that name
    ],
)
def test_an_undefined_name_is_the_error_unless_a_header_that_was_left_out_has_it(library, name, line, words):
    clock = library / "lib/clock.hpp"
    clock.write_text(
        "#include <cuda_runtime.h>\n"
        + clock.read_text()
        + "__device__ int now() { return std::chrono::seconds(1).count(); }\n"
    )
    source = OWN_MISTAKE.replace("NAME", name)
    made = compile_source(source, path=str(library.parent / "k.cu"), entry="k", include_dirs=[library])
    assert isinstance(made, NotCompiled)
    error = next(d for d in made.diagnostics if d.severity == "error")
    assert words in error.message
    assert error.line == line


def test_texture_references_are_named(tmp_path):
    source = "texture<float, 1> t;\n__global__ void k(float *x) { x[0] = tex1Dfetch(t, 0); }\n"
    with pytest.raises(CompileError, match="cudaTextureObject_t"):
        engine.compile(source, "k", path=str(tmp_path / "k.cu"))


PROJECT = {
    "types.h": "#ifndef TYPES_H\n#define TYPES_H\n#include <iostream>\ntypedef float Real;\n"
    "void host(std::ostream &);\n#endif\n",
    "part/sizes.h": '#ifndef SIZES_H\n#define SIZES_H\n#include "types.h"\nconst int SIZE = 4;\n#endif  // SIZES_H\n',
}


def test_headers_under_an_include_folder_that_contains_the_source_are_the_users_own(tmp_path):
    """A project names its headers from its root: their code of the host is left out as that of the file is."""
    for name, text in PROJECT.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    source = '#include "part/sizes.h"\n#include <cub/block/block_reduce.cuh>\n'
    source += "__global__ void k(Real *x) { x[threadIdx.x] = SIZE; }\nint main() { std::cout << 1; }\n"
    x = np.zeros(4, np.float32)
    simulate(source, "k", 1, 4, [x], path=str(tmp_path / "part/k.cu"), include_dirs=[tmp_path])
    assert x.tolist() == [4] * 4


@pytest.mark.parametrize(
    ("around", "times"),
    [
        ("", 1),
        ("#ifdef A\nINCLUDES\n#else\nINCLUDES\n#endif\n", 2),
        ("#ifdef A\nINCLUDES\n#endif\nINCLUDES", 2),
        ("INCLUDES\n#ifdef A\nINCLUDES\n#endif\n", 1),
    ],
)
def test_a_header_is_gathered_once_in_each_branch(tmp_path, around, times):
    """Headers that include each other would grow without bound: a guard says that a second time is empty."""
    for name in "abcd":
        others = "".join(f'#include "{it}.h"\n' for it in "abcd" if it != name)
        text = f"// head\n#ifndef {name}_H\n#define {name}_H\n{others}int in_{name};\n#endif\n"
        (tmp_path / f"{name}.h").write_text(text)
    includes = '#include "a.h"\n#include "b.h"'
    source = around.replace("INCLUDES", includes) or includes
    whole = whole_file.gather(source, Places(str(tmp_path / "k.cu"), "k.cu", (), ()))
    assert [whole.text.count(f"int in_{name};") for name in "abcd"] == [times] * 4


@pytest.mark.parametrize("guard", ["#ifndef A_H\n#define B_H\n", "#ifndef A_H\n#define A_H\n#else\nint more;\n"])
def test_a_header_without_a_guard_is_gathered_each_time(tmp_path, guard):
    (tmp_path / "a.h").write_text(f"{guard}int in_a;\n#endif\n")
    whole = whole_file.gather('#include "a.h"\n#include "a.h"\n', Places(str(tmp_path / "k.cu"), "k.cu", (), ()))
    assert whole.text.count("int in_a;") == 2


def test_a_crash_without_the_hosts_code_is_the_error(tmp_path, monkeypatch):
    real = nvrtc_child.translate

    def crashes(major, source, name, options, expression):
        done = "int main" not in source
        return nvrtc_child.Broken("ended", hung=False) if done else real(major, source, name, options, expression)

    monkeypatch.setattr(nvrtc_child, "translate", crashes)
    source = "#include <iostream>\n__global__ void k(int *x) { x[1] = 7; }\nint main() { std::cout << 1; }\n"
    made = compile_source(source, path=str(tmp_path / "k.cu"), entry="k")
    assert isinstance(made, NotCompiled)
    assert "compiler crashes" in made.diagnostics[0].message


def test_a_header_of_the_project_that_is_missing_is_the_reason(tmp_path):
    (tmp_path / "net.h").write_text('#include "made_by_cmake.h"\nstruct Net { static const int SHIFT = 4; };\n')
    source = '#include "net.h"\n__global__ void k(int *x) { x[0] >>= Net::SHIFT; }\nint main() { return 0; }\n'
    with pytest.raises(CompileError, match=r'net.h:1: cannot open source file "made_by_cmake.h"'):
        engine.compile(source, "k", include_dirs=[tmp_path])


def test_a_host_header_is_not_the_reason_why_a_kernel_does_not_compile(tmp_path):
    (tmp_path / "net.h").write_text("#include <pthread.h>\n#include <stdio.h>\npthread_t at;\nint read(void);\n")
    source = '#include "net.h"\n__global__ void k(int *x) { x[0] = SIZE; }\nint main() { return read(); }\n'
    x = np.zeros(1, np.int32)
    engine.compile(source, "k", include_dirs=[tmp_path], defines={"SIZE": 3}).launch(1, 1, [x])
    assert x[0] == 3
    with pytest.raises(CompileError) as told:
        engine.compile(source, "k", include_dirs=[tmp_path])
    assert str(told.value) == 'kernel.cu:2: identifier "SIZE" is undefined'


def test_an_error_in_a_line_of_ones_own_is_told_not_the_name_that_it_defines(tmp_path: Path) -> None:
    """Beside a library that -default-device compiles, lines with errors are left out, as those of the host are."""
    (tmp_path / "lib.h").write_text(
        "namespace lib { inline int two() { return 2; } struct One { int x; };\n"
        "template <class T> __global__ void run(T *x) { x->x = two(); } }\n"
    )
    source = "#include <lib.h>\nusing Number = lib::{};\n"
    x = np.zeros(1, np.int32)
    simulate(source.format("One"), "lib::run<Number>", 1, 1, [x], include_dirs=[tmp_path])
    assert x[0] == 2
    with pytest.raises(CompileError) as failed:
        simulate(source.format("Two"), "lib::run<Number>", 1, 1, [x], include_dirs=[tmp_path])
    told = [(it.line, it.message) for it in failed.value.diagnostics if it.severity == "error"]
    assert [line for line, _ in told] == [2], told
    assert "Two" in told[0][1]
