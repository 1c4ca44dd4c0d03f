"""The NVTX ranges of the process that owns the GPU, heard by a real listener: a profiler sees kernels only there."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.gpu.test_device import launch, measure
from checks.nvtx.test_ranges import COMPILER, Range, forest, listener
from gemm_lessons.devices.gpu.cuda_gpu import Gpu
from gemm_lessons.devices.gpu.measure import PLACES
from gemm_lessons.devices.gpu.ranges import COLOURS, Role, stage, turn
from gemm_lessons.devices.gpu.records import Timed

__all__ = ["listener"]  # a fixture

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler (cc, gcc, clang) for the NVTX listener")
FLOP = 2 * 48 * 40 * 32


@pytest.fixture
def log(fake_cupy: pytest.MonkeyPatch, listener: Path, tmp_path: Path) -> Path:
    fake_cupy.setenv("NVTX_INJECTION64_PATH", str(listener))
    fake_cupy.setenv("NVTX_LISTENER_LOG", str(tmp_path / "log"))
    return tmp_path / "log"


def colour(it: Range) -> int:
    return int(it.colour, 16)


def test_a_launch_lies_in_the_ranges_of_the_parent(log: Path) -> None:
    with Gpu() as gpu:
        with stage("lesson", "03_block_tile", payload=3), turn("kernel", "your kernel"), stage("check", "1x1x1", 2):
            launch(gpu, "gemm")
        launch(gpu, "gemm")
    (lesson,) = forest(log)
    (kernel,) = lesson.inside
    (check,) = kernel.inside
    assert [(it.name, it.payload, colour(it)) for it in (lesson, kernel, check)] == [
        ("lesson 03_block_tile", 3, COLOURS["lesson"]),
        ("your kernel", None, COLOURS["kernel"]),
        ("check 1x1x1", 2, COLOURS["check"]),
    ]


def test_a_measurement_names_every_launch(log: Path) -> None:
    with Gpu() as gpu:
        gpu.smallest_flush = 0
        with stage("time", "48x40x32", payload=FLOP):
            result = measure(gpu, "gemm")
    (timing,) = forest(log)
    names = [it.name for it in timing.inside]
    assert names[:4] == ["prepare 48x40x32", "verify 0 gemm", "verify cuBLAS", "warm-up"]
    timed = timing.inside[4:]
    assert {it.name for it in timed} == {"0 gemm", "cuBLAS"}
    assert result.cublas is not None
    roles: list[tuple[Timed, Role]] = [(result.kernels[0], "kernel"), (result.cublas, "cublas")]
    for kernel, role in roles:
        own = [it for it in timed if it.name == kernel.label]
        assert len(kernel.spread.times) in (len(own), len(own) // PLACES)
        assert {(it.payload, colour(it)) for it in own} == {(FLOP, COLOURS[role])}
