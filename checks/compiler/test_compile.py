"""Source in, PTX, machine code and resources out: templates, defines, includes, types, spills, line endings."""

import os
import pickle
import sys
from pathlib import Path

import pytest

from checks.compiling import must_compile
from gemm_lessons.course.folder import Course, shown
from gemm_lessons.course.lesson_toml import load_lesson
from gemm_lessons.engine.compiler import nvrtc
from gemm_lessons.engine.compiler.compile import compile_source
from gemm_lessons.engine.compiler.ptxas import DRIVER_STACK
from gemm_lessons.engine.records.errors import KitError

LESSONS = Path(__file__).parents[2] / "lessons"
PLAIN = "__global__ void gemm(float *x)\n{\n    x[threadIdx.x] = 1.0f;\n}\n"
WMMA = """#include <mma.h>
#include <cuda_fp16.h>
using namespace nvcuda;
__global__ void gemm(const half *A, const half *B, float *C)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 0.0f);
    wmma::load_matrix_sync(a, A, 16);
    wmma::load_matrix_sync(b, B, 16);
    wmma::mma_sync(c, a, b, c);
    wmma::store_matrix_sync(C, c, 16, wmma::mem_row_major);
}
"""


def test_a_kernel_becomes_ptx_and_machine_code_of_the_target(compiled):
    it = compiled(PLAIN, arch="sm_80")
    assert it.entry == "_Z4gemmPf"
    assert it.arch == "sm_80"
    assert ".target sm_80" in it.ptx
    assert f".entry {it.entry}(" in it.ptx
    assert it.cubin[:4] == b"\x7fELF"
    assert it.compiler.startswith("NVRTC 1")
    assert it.diagnostics == ()
    assert it.resources.registers > 0
    assert it.resources.spill_bytes == it.resources.stack_bytes == it.resources.shared_bytes == 0


def test_extern_c_keeps_the_plain_name(compiled):
    assert compiled('extern "C" ' + PLAIN).entry == "gemm"


@pytest.mark.parametrize(("entry", "bytes_"), [("tile<64, 8>", 2048), ("tile<32,4>", 512), ("tile< 16, 2 >", 128)])
def test_template_instances(compiled, entry, bytes_):
    source = """template <int BM, int BN> __global__ void tile(float *x)
    {
        __shared__ float As[BM][BN];
        As[threadIdx.x][0] = x[0];
        __syncthreads();
        x[0] = As[x[1] > 0][1];
    }"""
    it = compiled(source, entry)
    assert "tile" in it.entry
    assert it.resources.shared_bytes == bytes_


def test_a_kernel_in_a_namespace(compiled):
    assert compiled(f"namespace course {{ {PLAIN} }}", "course::gemm").entry == "_ZN6course4gemmEPf"


def test_defines_reach_the_kernel_and_nothing_else_changes_the_lines(compiled):
    source = "__global__ void gemm(int *x)\n{\n    x[0] = BM * 1000 + __LINE__;\n}\n"
    assert "32003" in compiled(source, defines={"BM": 32}).ptx
    assert "12003" in compiled(source, defines={"BM": "(3 * 4)"}).ptx


def test_spellings_that_nvcc_takes_from_gcc(compiled):
    source = """#include <sys/types.h>
static __device__ __inline__ int twice(__const int &x) { __typeof__(x) y = 2 * x; return y; }
__global__ void gemm(u_int32_t *__restrict x) {
    __signed__ char bits = __builtin_popcount(x[1]) + __builtin_clz(x[2]);
    typeof(x[0] + 1) v;
    __asm__ __volatile__ ("add.s32 %0, %1, 77;" : "=r"(v) : "r"(twice(bits)));
    __asm ("bar.warp.sync -1;");
    __builtin_memcpy(x, &v, 4);
}"""
    ptx = compiled(source).ptx
    assert all(word in ptx for word in ("popc.b32", "clz.b32", ", 77;", "bar.warp.sync"))


def test_functions_that_nvcc_takes_from_std(compiled):
    source = """#include <cstring>
#include <cstdlib>
#include <cstdio>
#include <ctime>
__global__ void gemm(float *x) {
    float y[2];
    std::memcpy(y, x, 8);
    std::memset(x, 0, 4);
    void *p = std::malloc(8);
    std::free(p);
    std::clock_t before = std::clock();
    std::printf("%d", int(std::clock() - before));
    x[1] = y[1] + std::labs(long(y[0]));
}"""
    assert compiled(source).diagnostics == ()


def test_functions_of_std_that_headers_of_the_host_bring_along(compiled):
    source = """#include <torch/all.h>
void host(torch::Tensor t) { use(t.data()); }
__global__ void gemm(float *x) { std::memset(x, 0, 4); x[1] = std::malloc(4) != nullptr; std::printf("a"); }"""
    assert compiled(source).entry == "_Z4gemmPf"


@pytest.mark.parametrize(
    "call", ["pow(2, n)", "pow(x, 2.0)", "std::pow(2u, x)", "pow((unsigned char)n, 3)", "pow(x, 2L)"]
)
def test_pow_of_two_types_is_in_double_as_with_nvcc(compiled, call):
    it = compiled(f"__global__ void gemm(float *y, float x, int n) {{ y[0] = {call}; }}")
    assert "fma.rn.f64" in it.ptx
    assert it.diagnostics == ()


def test_pow_of_floats_is_in_float_and_of_a_float_and_an_integer_is_told(compiled):
    floats = compiled("__global__ void gemm(float *y, float x) { y[0] = pow(x, 2.5f) + powf(x, 2); }")
    assert ".f64" not in floats.ptx
    assert floats.diagnostics == ()
    (told,) = compiled("__global__ void gemm(float *y, float x) {\n    y[0] = pow(x, 2);\n}").diagnostics
    assert (told.severity, told.line) == ("warning", 2)
    assert "in double with nvcc: write powf(x, n)" in told.message


def test_the_matrix_header_of_the_course(compiled):
    source = '#include "matrix.cuh"\n' + PLAIN
    assert compiled(source, include_dirs=[LESSONS / "common"]).entry == "_Z4gemmPf"


@pytest.mark.parametrize("name", sorted(p.parent.name for p in LESSONS.glob("*/lesson.toml")))
def test_every_solution_compiles_without_a_warning_or_a_spill(name, monkeypatch):
    monkeypatch.setenv("GEMM_LESSONS_NO_CACHE", "")  # other tests compile them, too
    lesson = load_lesson(LESSONS / name)
    lesson = lesson.at(lesson.shapes.count)  # with what the host chooses for a launch
    it = must_compile(
        lesson.solution_path.read_text(),
        path=shown(lesson.solution_path),  # as a run names it: it may have been compiled already
        entry=lesson.launches[0].entry,
        defines=lesson.tile.defines,
        include_dirs=lesson.include_dirs,
        arch=Course(LESSONS.parent).architecture_of(lesson),
    )
    assert it.diagnostics == ()
    assert it.resources.spill_bytes == 0


def test_a_header_beside_the_file_is_found(compiled, tmp_path):
    (tmp_path / "twice.cuh").write_text("__device__ float twice(float x) { return 2 * x; }")
    source = '#include "twice.cuh"\n__global__ void gemm(float *x) { x[0] = twice(x[1]); }'
    assert compiled(source, path=str(tmp_path / "kernel.cu"))


def test_tensor_cores_and_half(compiled):
    it = compiled(WMMA)
    assert any(i.opcode.startswith("HMMA") for i in it.sass)


def test_headers_of_the_host_that_kernels_include(compiled):
    headers = ["stdio.h", "stdint.h", "cstdint", "cmath", "cfloat", "climits", "assert.h", "cuda_runtime.h"]
    lines = [f"#include <{header}>" for header in headers]
    body = 'assert(x[0] > 1); printf("%d", INT_MAX); x[0] = FLT_MAX + std::fabs(x[1]) + float(UINT32_MAX);'
    assert compiled("\n".join([*lines, f"__global__ void gemm(float *x) {{ {body} }}"]))


def test_names_that_nvcc_knows_without_an_include(compiled):
    it = compiled("__global__ void gemm(float *x) { uint32_t i = threadIdx.x; x[i] = i ? INFINITY : float(M_PI); }")
    assert it.diagnostics == ()
    assert "0f7F800000" in it.ptx


def test_warnings_come_with_the_result(compiled):
    it = compiled("__global__ void gemm(float *x)\n{\n    x[0] == 1;\n    x[0] = 1;\n}\n")
    (warning,) = it.diagnostics
    assert (warning.severity, warning.file, warning.line, warning.column) == ("warning", "kernel.cu", 3, 5)
    assert "no effect" in warning.message


def test_a_kernel_half_written_is_not_nagged(compiled):
    assert (
        compiled("__global__ void gemm(float *x)\n{\n    __shared__ float As[8];\n    int row = 1;\n}\n").diagnostics
        == ()
    )


def test_launch_bounds_force_spills(compiled):
    # 64 running sums in at most 32 registers (65,536 / 1024 threads / 2 blocks).
    source = """extern "C" __global__ void __launch_bounds__(1024, 2) gemm(const float *A, float *C, int n)
    {
        float acc[64];
        for (int i = 0; i < 64; i++) acc[i] = A[i + threadIdx.x];
        for (int k = 0; k < n; k++)
            for (int i = 0; i < 64; i++) acc[i] = acc[i] * acc[(i + 7) % 64] + A[k];
        for (int i = 0; i < 64; i++) C[i + threadIdx.x] = acc[i];
    }"""
    tight = compiled(source).resources
    assert tight.registers <= 32
    assert tight.spill_bytes > 0
    assert tight.stack_bytes > 0
    roomy = compiled(source.replace("__launch_bounds__(1024, 2)", "")).resources
    assert roomy.registers > 64
    assert roomy.spill_bytes == 0


def test_the_stack_of_recursion_has_no_bound(compiled):
    """ptxas cannot tell how deep it gets. A gate would take the 32 bytes of one frame for two spilled registers."""
    source = """__device__ __noinline__ float sum(const float *x, int n) { return n ? x[n - 1] + sum(x, n - 1) : 0.0f; }
    extern "C" __global__ void gemm(const float *A, float *C, int n) { C[threadIdx.x] = sum(A, n); }"""
    assert compiled(source).resources.stack_bytes >= DRIVER_STACK


def test_resources_are_those_of_the_kernel_asked_for(compiled):
    source = """__global__ void small(float *x) { x[0] = 1; }
    __global__ void gemm(float *x) { __shared__ float s[100]; s[threadIdx.x] = x[0]; __syncthreads(); x[0] = s[7]; }
    __global__ void large(float *x) { __shared__ float s[999]; s[threadIdx.x] = x[0]; __syncthreads(); x[0] = s[7]; }"""
    assert compiled(source).resources.shared_bytes == 400
    assert compiled(source, "small").resources.shared_bytes == 0
    assert compiled(source, "large").resources.shared_bytes == 3996


def test_local_arrays_that_no_gpu_could_launch_are_warned_about(compiled):
    source = "__global__ void gemm(float *x)\n{{\n    float q[{0}];\n    for (int i = 0; i < {0}; i++) q[i] = x[i];\n"
    source += "    x[0] = q[int(x[1])];\n}}\n"
    (warning,) = compiled(source.format(200_000)).diagnostics
    assert "800,000 bytes of local memory" in warning.message
    assert compiled(source.format(1000)).diagnostics == ()


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_endings_do_not_move_lines(compiled, end):
    it = compiled(PLAIN.replace("\n", end))
    store = next(i for i in it.sass if i.opcode.startswith("STG"))
    assert store.line == 3
    assert ".loc\t1 3 " in it.ptx


def test_a_byte_order_mark_is_no_error(compiled):
    assert compiled("\ufeff" + PLAIN)


@pytest.mark.parametrize(
    "path",
    ["kernel.cu", "lessons/03 tile/kernel.cu", "über/kern(1).cu", 'quote".cu', "/abs/kernel.cu", "<given>", "a\\b.cu"],
)
def test_every_file_name_is_the_callers(compiled, path):
    it = compiled(PLAIN, path=path)
    assert it.path == path
    assert {i.file for i in it.sass if i.line} == {path}
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    assert f'.file\t1 "{escaped}"' in it.ptx


def test_included_files_keep_their_names_also_outside_ascii(compiled, tmp_path):
    folder = tmp_path / "größe"
    folder.mkdir()
    (folder / "f.cuh").write_text("__device__ float f(float x)\n{\n    return x * x;\n}\n")
    it = compiled('#include "f.cuh"\n__global__ void gemm(float *x) { x[0] = f(x[1]); }', include_dirs=[folder])
    assert any(i.file == str(folder / "f.cuh") and i.line == 3 for i in it.sass)
    assert str(folder / "f.cuh") in it.ptx


def test_the_program_does_not_depend_on_where_it_is_called_from(compiled, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    it = compiled(PLAIN, path=os.path.join("sub", "kernel.cu"))
    assert {i.file for i in it.sass if i.line} == {"sub/kernel.cu"}


def test_a_compiled_kernel_travels_between_processes(compiled):
    it = compiled(PLAIN)
    it.start_sass()
    there = pickle.loads(pickle.dumps(it))
    assert there == it
    assert there.sass == it.sass


def test_a_target_that_this_nvrtc_does_not_know(monkeypatch):
    with pytest.raises(KitError, match="sm_47 is not an architecture"):
        compile_source(PLAIN, path="k.cu", entry="gemm", arch="sm_47", cuda_major=13)


def test_old_targets_ask_for_cuda_12():
    assert nvrtc.choose_major("sm_90") == 13
    assert nvrtc.choose_major("sm_90a") == 13
    assert nvrtc.choose_major("sm_70") == 12
    assert nvrtc.choose_major("sm_60") == 12
    assert nvrtc.choose_major("sm_90", driver_major=12) == 12
    assert nvrtc.choose_major("sm_90", driver_major=13) == 13


def test_a_missing_nvrtc_says_what_to_install(monkeypatch):
    monkeypatch.setattr(nvrtc, "_loaded", {})
    monkeypatch.setattr(nvrtc, "library", lambda major: Path(f"/nowhere/libnvrtc.so.{major}"))
    with pytest.raises(KitError, match=r"/nowhere/libnvrtc.so.12.*gemm-lessons\[cuda12\]"):
        nvrtc.load(12)
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(KitError, match='pip install "gemm-lessons"'):
        nvrtc.load(13)


@pytest.mark.skipif(nvrtc.library(12) is not None, reason="NVRTC of CUDA 12 is here")
def test_a_missing_nvrtc_is_reported_from_the_child():
    for _ in range(2):
        with pytest.raises(KitError, match=r"gemm-lessons\[cuda12\]"):
            compile_source(PLAIN, path="k.cu", entry="gemm", arch="sm_70")


@pytest.mark.parametrize(
    ("source", "entry"),
    [
        (PLAIN, "gemm"),
        (WMMA, "gemm"),
        ("oops", "gemm"),
        (PLAIN, "gem"),
        (f"__shared__ int big[99999]; {PLAIN}", "gemm"),
    ],
)
def test_both_bindings_say_the_same(source, entry):
    """The one of CUDA 12, here on the library of CUDA 13."""
    path = nvrtc.library(13)
    assert path is not None
    options = ["-arch=sm_90", "-lineinfo", *(f"--include-path={folder}" for folder in nvrtc.include_folders(13))]
    theirs, ours = nvrtc.BindingsNvrtc(), nvrtc.LibraryNvrtc(path)
    assert ours.version == theirs.version
    assert ours.translate(source, "k.cu", options, entry) == theirs.translate(source, "k.cu", options, entry)


def test_the_library_is_taken_itself_when_the_bindings_found_another_major(monkeypatch):
    monkeypatch.setattr(nvrtc, "_loaded", {})
    monkeypatch.setattr(nvrtc.BindingsNvrtc, "_call", lambda *_: (12, 9))
    assert nvrtc.load(13).version[0] == 13


@pytest.mark.skipif(nvrtc.library(12) is None, reason="no NVRTC of CUDA 12 here")
def test_cuda_12_beside_cuda_13(compiled):
    it = compiled(PLAIN, cuda_major=12)
    assert it.compiler.startswith("NVRTC 12")
    assert it.sass
    assert compiled(WMMA, cuda_major=12).sass
    assert compiled(PLAIN, arch="sm_60").arch == "sm_60"
    assert compiled(PLAIN, cuda_major=13).compiler.startswith("NVRTC 13")
