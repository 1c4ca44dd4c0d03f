"""On a real GPU: real kernels that are right, wrong, endless, out of bounds; and times that make sense."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from checks.compiling import must_compile
from checks.readings.simulator import record_textures
from checks.simulator import matrix_cases, texture_cases
from gemm_lessons import simulate
from gemm_lessons.course.folder import packaged_course
from gemm_lessons.devices.gpu.cuda_gpu import Gpu
from gemm_lessons.devices.gpu.records import Entrant, Step
from gemm_lessons.devices.shadowed_gpu import ShadowedGpu
from gemm_lessons.engine.compiler.compile import Compiled
from gemm_lessons.engine.compiler.nvrtc import choose_major
from gemm_lessons.engine.hardware.sheets import data_sheet, find_gpu
from gemm_lessons.engine.records.errors import KitError
from gemm_lessons.engine.records.launch import Argument, Buffer, Grid, Scalar, StructWithBuffers
from gemm_lessons.gemm.data import DataSpec
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.running.pipeline import RunRequest, run_lesson

pytestmark = pytest.mark.gpu
COURSE = packaged_course()
PARAMETERS = ("A", "B", "C", "M", "N", "K")
DATA = DataSpec.plain(PARAMETERS)
HEAD = 'extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K) {'
NAIVE = (
    HEAD + "int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;"
    "if (row < M && col < N) { float acc = 0; for (int k = 0; k < K; k++) acc += A[row * K + k] * B[k * N + col];"
    "C[row * N + col] = acc; } }"
)
# A kernel that remembers that it has done its work: caught, since every timed launch has another row of A.
FORGETFUL = "__device__ float kept[256 * 256]; __device__ int calls;\n" + NAIVE.replace(
    "C[row * N + col] = acc;",
    "int i = row * N + col; if (calls < 256 * 256) { kept[i] = acc; atomicAdd(&calls, 1); } C[i] = kept[i];",
)
LINE = Grid((1, 1, 1), (32, 1, 1))


def build(gpu: Gpu, source: str, entry: str = "gemm") -> Compiled:
    major = choose_major(gpu.arch, gpu.driver_major)
    return must_compile(source, path="kernel.cu", entry=entry, arch=gpu.arch, cuda_major=major)


def launch(gpu: Gpu, source: str, size: int = 32, grid: Grid = LINE) -> tuple[Any, np.ndarray[Any, Any]]:
    array = np.arange(size, dtype=np.float32)
    return gpu.launch(build(gpu, source), grid, [Buffer("A", array, output=True)]), array


def line(body: str) -> str:
    return 'extern "C" __global__ void gemm(float *A) { int i = threadIdx.x; ' + body + " }"


@pytest.mark.parametrize("form", matrix_cases.FORMS)
def test_ldmatrix_gives_what_the_simulator_gives(real_gpu: Gpu, form: str) -> None:
    words, rows, out = matrix_cases.given()
    buffers = [Buffer("in", words), Buffer("rows", rows), Buffer("out", out, output=True)]
    compiled = build(real_gpu, matrix_cases.kernel(form), "k")
    real_gpu.launch(compiled, Grid((2, 1, 1), (matrix_cases.THREADS, 1, 1)), buffers)
    assert np.array_equal(out, matrix_cases.answer(form))


@pytest.mark.parametrize("asked", ["__cluster_dims__(2, 3, 1)", ""])
def test_clusters_are_launched_as_the_simulator_launches_them(real_gpu: Gpu, asked: str) -> None:
    source = f"""extern "C" __global__ void {asked} k(unsigned *o) {{ unsigned rank, id;
        asm("mov.u32 %0, %cluster_ctarank;" : "=r"(rank)); asm("mov.u32 %0, %clusterid.x;" : "=r"(id));
        if (threadIdx.x == 0) o[blockIdx.y * gridDim.x + blockIdx.x] = id * 100 + rank; }}"""
    expected, out = np.zeros(24, np.uint32), np.zeros(24, np.uint32)
    cluster = None if asked else (2, 3, 1)
    simulate(source, "k", (4, 6), 32, [expected], cluster=cluster)
    grid = Grid((4, 6, 1), (32, 1, 1), 0, cluster)
    launched = real_gpu.launch(build(real_gpu, source, "k"), grid, [Buffer("out", out, output=True)])
    assert launched.fault is None
    assert len(set(expected.tolist())) == 12
    assert np.array_equal(out, expected)


@pytest.mark.parametrize(("case", "asked"), texture_cases.QUERIES)
@pytest.mark.usefixtures("real_gpu")
def test_a_texture_is_as_large_as_the_simulator_says(case: texture_cases.Case, asked: tuple[str, ...]) -> None:
    import cupy

    out = cupy.zeros(len(asked), np.uint32)
    cupy.RawKernel(texture_cases.query(asked), "k")((1,), (1,), (record_textures.texture(cupy, case), out))
    assert out.get().tolist() == case.sizes()


@pytest.mark.parametrize("name", COURSE.names)
def test_every_solution_passes(real_gpu: Gpu, name: str) -> None:
    lesson = COURSE.lesson(name)
    request = RunRequest(COURSE, lesson, lesson.solution_path, ShadowedGpu(real_gpu), find_gpu("h200"), beside=False)
    outcome = run_lesson(request)
    assert outcome.verdict.kind == "passed", outcome.verdict
    row = outcome.kernel
    if not lesson.data.multiplies:
        assert row.speed.measured is None
        return
    assert row.speed.measured is not None
    if not lesson.data.gemm_ex:
        assert row.speed.fraction_of_cublas is None
        return
    assert row.speed.fraction_of_cublas is not None
    assert row.speed.fraction_of_cublas > 0
    assert outcome.measured is not None
    if outcome.peak_gflops is not None:
        assert outcome.measured.cublas is not None
        # No lower bound: tests in other processes share the GPU.
        assert 0 < outcome.measured.cublas.gflops < outcome.peak_gflops


@pytest.mark.parametrize("name", COURSE.names)
def test_every_stub_fails(real_gpu: Gpu, name: str) -> None:
    lesson = COURSE.lesson(name)
    request = RunRequest(COURSE, lesson, lesson.stub_path, ShadowedGpu(real_gpu), find_gpu("h200"), beside=False)
    assert run_lesson(request).verdict.kind in ("wrong_answer", "gate_missed")


def test_a_launch_writes_back(real_gpu: Gpu) -> None:
    launched, array = launch(real_gpu, line("A[i] = 2 * A[i];"))
    assert (launched.fault, tuple(launched.findings)) == (None, ())
    np.testing.assert_array_equal(array, 2 * np.arange(32))


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        ("A[(1 << 28) + i] = 1;", "out_of_bounds", "CUDA error 7"),
        ("*(float4 *)(A + 1) = float4{};", "misaligned", "error 716"),
        ("__shared__ float s[32]; s[i + (int)A[0] + 100000 + 1000000 * (int)A[1]] = A[i]; A[i] = s[0];", "", ""),
        ("__trap();", "", ""),
    ],
)
def test_a_fault_is_a_value_and_the_next_launch_works(real_gpu: Gpu, body: str, kind: str, said: str) -> None:
    launched, _ = launch(real_gpu, line(body))
    assert launched.fault is not None
    if kind:
        assert launched.fault.kind == kind
    assert said in launched.fault.message
    print(launched.fault)
    again, array = launch(real_gpu, line("A[i] = 2 * A[i];"))
    assert again.fault is None
    np.testing.assert_array_equal(array, 2 * np.arange(32))


def test_just_outside_is_found_in_the_guard_zones(real_gpu: Gpu) -> None:
    launched, _ = launch(real_gpu, line("A[i + 1] = 0;"))
    (finding,) = launched.findings
    assert (finding.kind, finding.count) == ("out_of_bounds", 4)


def test_an_endless_kernel_is_stopped(real_gpu: Gpu) -> None:
    before, real_gpu.limit_s = real_gpu.limit_s, 2.0
    try:
        started = time.monotonic()
        launched, _ = launch(real_gpu, line("volatile float *p = A; while (p[0] == 0.0f) p[1] += 1; A[2] = 0;"))
        assert launched.fault.kind == "timeout"
        assert time.monotonic() - started < 20
        assert launch(real_gpu, line("A[i] = 2 * A[i];"))[0].fault is None
    finally:
        real_gpu.limit_s = before


def test_a_refused_launch(real_gpu: Gpu) -> None:
    for grid in (Grid((1, 1, 1), (2048, 1, 1)), Grid((1, 1, 1), (32, 1, 1), 1 << 20)):
        launched, _ = launch(real_gpu, line("A[i] = 1;"), grid=grid)
        assert launched.fault.kind == "launch_refused"
    big = 'extern "C" __global__ void gemm(float *A) { extern __shared__ float s[]; s[threadIdx.x + 15000] = 3; '
    launched, array = launch(
        real_gpu, big + "A[threadIdx.x] = s[threadIdx.x + 15000]; }", grid=Grid((1, 1, 1), (32, 1, 1), 61440)
    )
    assert launched.fault is None
    assert (array == 3).all()


def test_structs_scalars_and_shared_arrays(real_gpu: Gpu) -> None:
    source = (
        "struct M { float *data; int rows, cols; };\n"
        'extern "C" __global__ void gemm(M m, float *A, double x, char y)'
        "{ int i = threadIdx.x; m.data[i] = A[i] * m.rows + m.cols + x + y; }"
    )
    a, out = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    struct = StructWithBuffers("m", bytes(8) + np.array([3, 5], np.int32).tobytes(), {0: Buffer("out", out, True)})
    arguments: list[Argument] = [struct, Buffer("A", a), Scalar("x", np.float64(0.5)), Scalar("y", np.int8(-2))]
    assert real_gpu.launch(build(real_gpu, source), LINE, arguments).fault is None
    np.testing.assert_array_equal(out, a * 3 + 5 + 0.5 - 2)


def test_times_make_sense(real_gpu: Gpu) -> None:
    compiled = build(real_gpu, NAIVE)
    shape = Shape(1024, 1024, 1024)
    grid = Grid((64, 64, 1), (16, 16, 1))
    entrants = [
        Entrant("one", "kernel", (Step(compiled, grid, PARAMETERS),)),
        Entrant("same", "reference", (Step(compiled, grid, PARAMETERS),)),
    ]
    result = real_gpu.measure(DATA, shape, entrants, seed=5)
    assert result.fault is None
    assert result.cublas is not None
    one, same = result.kernels
    assert one.wrong == same.wrong == result.cublas.wrong == 0
    assert one.time_us / same.time_us == pytest.approx(1, abs=0.02)
    assert one.time_us > 2 * result.cublas.time_us
    print(result)


def test_a_kernel_that_remembers_is_caught(real_gpu: Gpu) -> None:
    entrants = [
        Entrant("forgetful", "kernel", (Step(build(real_gpu, FORGETFUL), Grid((16, 16, 1), (16, 16, 1)), PARAMETERS),)),
        Entrant("honest", "reference", (Step(build(real_gpu, NAIVE), Grid((16, 16, 1), (16, 16, 1)), PARAMETERS),)),
    ]
    cheat, honest = real_gpu.measure(DATA, Shape(256, 256, 256), entrants, seed=6).kernels
    assert cheat.wrong > 0
    assert honest.wrong == 0


def test_too_little_memory(real_gpu: Gpu) -> None:
    compiled = build(real_gpu, NAIVE)
    with pytest.raises(KitError, match="GiB were requested"):
        real_gpu.measure(
            DATA, Shape(1 << 20, 1 << 20, 8), [Entrant("x", "kernel", (Step(compiled, LINE, PARAMETERS),))], seed=1
        )


def test_the_data_sheet_of_this_gpu(real_gpu: Gpu) -> None:
    sheet = data_sheet(real_gpu.name)
    if sheet is None:
        pytest.skip(f"no data sheet for {real_gpu.name}")
    assert (sheet.arch, sheet.sms) == (real_gpu.arch, real_gpu.facts.sms)
