"""On a real GPU: boxes, bulk copies and mbarriers give what the simulator gives, byte for byte."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from checks.compiling import must_compile
from checks.course.test_tensor_maps import COURSE, FOLDER, LESSON
from checks.gpu.test_real_gpu import build
from checks.simulator.phase_cases import BOX, MIRROR, PIPELINE
from checks.simulator.test_map_updates import BUILD, CHANGED, COLS, ROWS, changed_arguments
from checks.simulator.test_tensors import BOXES
from gemm_lessons import simulate
from gemm_lessons.devices.gpu.cuda_gpu import Gpu
from gemm_lessons.devices.shadowed_gpu import ShadowedGpu
from gemm_lessons.engine.api import arguments
from gemm_lessons.engine.hardware.sheets import find_gpu
from gemm_lessons.engine.records.launch import Grid, TensorMap
from gemm_lessons.engine.simulator import Simulator
from gemm_lessons.running.pipeline import RunRequest, run_lesson

pytestmark = pytest.mark.gpu


def both(gpu: Gpu, source: str, grid: int, block: int, args: Any, outputs: tuple[int, ...], shared: int = 0) -> None:
    """Launch on both; ``args`` makes fresh arguments, of which ``outputs`` must be the same afterwards."""
    compiled = build(gpu, source, "k")
    expected, got = args(), args()
    simulated = simulate(source, "k", grid, block, expected, dynamic_shared=shared)
    assert simulated.fault is None
    given = arguments(Simulator().kernel(compiled), got)
    launched = gpu.launch(compiled, Grid((grid, 1, 1), (block, 1, 1), shared), given)
    assert launched.fault is None, launched.fault
    for number in outputs:
        a, b = (getattr(it[number], "array", it[number]) for it in (expected, got))
        assert np.array_equal(a, b), number


@pytest.mark.parametrize(("x", "y"), BOXES)
@pytest.mark.parametrize("swizzle", [0, 128])
def test_boxes(real_gpu: Gpu, x: int, y: int, swizzle: int) -> None:
    def args() -> list[Any]:
        a = np.arange(1, 21 * 64 + 1, dtype=np.float32).reshape(21, 64)[:, :60]
        out = np.full((20, 64), -1, np.float32)
        maps = [TensorMap(a, (8, 32), swizzle), TensorMap(out, (8, 32), swizzle)]
        return [*maps, np.zeros(256, np.float32), x, y, max(4 * y, 0), max(x, 0)]

    both(real_gpu, BOX, 1, 32, args, (1, 2), 2048)


@pytest.mark.parametrize(("x", "y"), [(-4, 0), (0, -1)])
def test_a_box_that_is_stored_begins_inside(real_gpu: Gpu, x: int, y: int) -> None:
    """Else it is an illegal instruction."""

    def args() -> list[Any]:
        maps = [TensorMap(np.zeros((20, 64), np.float32), (8, 32)) for _ in range(2)]
        return [*maps, np.zeros(256, np.float32), 0, 0, x, y]

    compiled = build(real_gpu, BOX, "k")
    simulated = simulate(BOX, "k", 1, 32, args(), dynamic_shared=2048)
    given = arguments(Simulator().kernel(compiled), args())
    launched = real_gpu.launch(compiled, Grid((1, 1, 1), (32, 1, 1), 2048), given)
    assert simulated.fault is not None
    assert "illegal instruction" in launched.fault.message


@pytest.mark.parametrize("offset", [128, 512, 640])
def test_a_swizzle_goes_by_the_address(real_gpu: Gpu, offset: int) -> None:
    declared = "extern __shared__ __align__(1024) float "
    source = BOX.replace(f"{declared}tile[];", f"{declared}room[]; float *tile = room + {offset // 4};")

    def args() -> list[Any]:
        a, out = np.arange(1, 1281, dtype=np.float32).reshape(20, 64), np.zeros((20, 64), np.float32)
        return [TensorMap(a, (8, 32), 128), TensorMap(out, (8, 32), 128), np.zeros(256, np.float32), 4, 2, 4, 2]

    both(real_gpu, source, 1, 32, args, (1, 2), 4096)


@pytest.mark.parametrize("swizzle", [32, 64])
def test_narrow_swizzles(real_gpu: Gpu, swizzle: int) -> None:
    columns = swizzle // 4
    shape = (256 // columns, columns)

    def args() -> list[Any]:
        a, out = np.arange(256, dtype=np.float32).reshape(shape), np.zeros(shape, np.float32)
        maps = [TensorMap(m, shape, swizzle) for m in (a, out)]
        return [*maps, np.zeros(256, np.float32), 0, 0, 0, 0]

    both(real_gpu, BOX, 1, 32, args, (1, 2), 2048)


@pytest.mark.parametrize(("source", "grid", "block"), [(MIRROR, 4, 256), (PIPELINE, 1, 96)], ids=["mirror", "pipeline"])
def test_bulk_copies(real_gpu: Gpu, source: str, grid: int, block: int) -> None:
    both(
        real_gpu, source, grid, block, lambda: [np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32)], (1,)
    )  # fmt: skip


def test_reduction(real_gpu: Gpu) -> None:
    source = MIRROR.replace("bulk_store(y + 256 * blockIdx.x", "bulk_add(y")
    both(real_gpu, source, 4, 256, lambda: [np.arange(1024, dtype=np.float32), np.full(1024, 5, np.float32)], (1,))


def on_sm_90a(gpu: Gpu, source: str, grid: int, args: Any, written: int) -> None:
    """Launch on both; argument number ``written`` must be the same afterwards."""
    if not gpu.arch.startswith("sm_90"):
        pytest.skip("tensormap.replace is of sm_90a")
    compiled = must_compile(source, path="kernel.cu", arch="sm_90a")
    expected, got = args(), args()
    simulated = simulate(source, "k", grid, 32, expected, arch="sm_90a")
    assert simulated.fault is None, simulated.fault
    given = arguments(Simulator().kernel(compiled), got)
    launched = gpu.launch(compiled, Grid((grid, 1, 1), (32, 1, 1)), given)
    assert launched.fault is None, launched.fault
    assert expected[written].any()
    assert np.array_equal(expected[written], got[written])


@pytest.mark.parametrize("rows", [ROWS, 6])
@pytest.mark.parametrize("swizzle", [0, 3])
def test_a_map_built_by_the_kernel(real_gpu: Gpu, rows: int, swizzle: int) -> None:
    source = BUILD.replace('SET("swizzle_mode", "b32", "n", 3)', f'SET("swizzle_mode", "b32", "n", {swizzle})')

    def args() -> list[Any]:
        x = np.arange(ROWS * COLS, dtype=np.float32).reshape(ROWS, COLS)
        return [x, np.zeros((2, 8, COLS), np.float32), np.zeros(256, np.uint8), np.int32(rows), np.int32(4)]

    on_sm_90a(real_gpu, source, 2, args, 1)


def test_a_map_changed_by_the_kernel(real_gpu: Gpu) -> None:
    on_sm_90a(real_gpu, CHANGED, 1, changed_arguments, 2)


def test_the_lesson_passes(real_gpu: Gpu) -> None:
    request = RunRequest(
        COURSE, LESSON, FOLDER / "solution.cu", ShadowedGpu(real_gpu), find_gpu("h200"), seed=5, beside=False
    )
    outcome = run_lesson(request)
    assert outcome.verdict.kind == "passed", outcome.verdict
    assert outcome.kernel.speed.measured is not None
