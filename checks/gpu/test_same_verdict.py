"""The same defect gets the same verdict on both devices, whatever the GPU made of it.

The stand-in for CuPy takes a lesson's machine code for a kernel that multiplies as it should, unless its scene names
another one: ``machine=stub`` answers wrongly, ``machine=fault-700`` stops. A real GPU does any of these.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from gemm_lessons.course.folder import any_course
from gemm_lessons.devices.device import Device
from gemm_lessons.devices.gpu.cuda_gpu import Gpu
from gemm_lessons.devices.shadowed_gpu import ShadowedGpu
from gemm_lessons.devices.simulated import Simulated
from gemm_lessons.engine.hardware.sheets import find_gpu
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.judging.verdict import Faulted, WrongAnswer
from gemm_lessons.running.outcome import Row
from gemm_lessons.running.pipeline import RunRequest, run_lesson

HERE = "    // Walk along K"
DEFECTS = {
    "out_of_bounds": "if (threadIdx.x == 0) C[1 << 26] = 1.0f;",
    "divergent_barrier": "if (threadIdx.x % 2 == 0) __syncthreads();",
    "stack": "float own[8]; for (int i = 0; i < 8; i++) own[(i + threadIdx.x) % 8] = i;"
    "if (own[threadIdx.x % 8 + (M << 20)] == 1.5f) C[0] = 0.0f;",
}
UNGUARDED = ("row < M && k0 + k + thread_col < K ? a(row, k0 + k + thread_col) : 0.0f", "a(row, k0 + k + thread_col)")


def run(lesson: str, path: Path, device: Device, shape: Shape | None = None) -> Row:
    course = any_course()
    request = RunRequest(course, course.lesson(lesson), path, device, find_gpu("h200"), shape, seed=3, beside=False)
    return run_lesson(request).kernel


@pytest.mark.parametrize("lesson", ["block_tile", pytest.param("thread_tile", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", DEFECTS)
def test_the_simulator_decides(fake_cupy: pytest.MonkeyPatch, tmp_path: Path, lesson: str, name: str) -> None:
    source = any_course().lesson(lesson).solution_path.read_text()
    assert source.count(HERE) == 1
    path = tmp_path / "kernel.cu"
    path.write_text(source.replace(HERE, f"    {DEFECTS[name]}\n{HERE}"))
    shape = any_course().lesson(lesson).shapes.check[-1]
    simulated = run(lesson, path, Simulated(), shape)
    assert isinstance(simulated.verdict, Faulted)
    found = simulated.verdict.finding
    assert found.kind == ("out_of_bounds" if name == "stack" else name)
    for machine in ("gemm", "stub", "fault-700"):
        fake_cupy.setenv("FAKE_GPU", f"machine={machine}")
        with Gpu() as gpu:
            row = run(lesson, path, ShadowedGpu(gpu), shape)
        assert isinstance(row.verdict, Faulted), machine
        assert (row.verdict.finding.kind, row.verdict.finding.line) == (found.kind, found.line)
        assert row.hints[0] == simulated.hints[0], machine
        right = machine == "gemm"  # then it shows where all is counted
        assert (row.verdict.shape != shape) is right
        assert row.verdict.finding.message == found.message or right


def test_what_only_a_ragged_shape_shows_is_found_where_the_answer_is_wrong(
    fake_cupy: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = any_course().lesson("block_tile").solution_path.read_text()
    assert source.count(UNGUARDED[0]) == 1
    path = tmp_path / "kernel.cu"
    path.write_text(source.replace(*UNGUARDED))
    fake_cupy.setenv("FAKE_GPU", "machine=stub")
    with Gpu() as gpu:
        simulated, row = run("block_tile", path, Simulated()), run("block_tile", path, ShadowedGpu(gpu))
    assert isinstance(simulated.verdict, Faulted)
    assert simulated.verdict.finding.kind == "out_of_bounds"
    assert row.verdict == simulated.verdict


def test_a_wrong_answer_of_the_gpu_is_one_though_the_simulator_sees_none(fake_cupy: pytest.MonkeyPatch) -> None:
    """The twin: hardware is the truth about answers."""
    fake_cupy.setenv("FAKE_GPU", "machine=stub")
    with Gpu() as gpu:
        row = run("block_tile", any_course().lesson("block_tile").solution_path, ShadowedGpu(gpu), Shape(32, 32, 64))
    assert isinstance(row.verdict, WrongAnswer)
    assert not row.checked.findings
