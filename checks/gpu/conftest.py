"""Devices of the GPU tests: a stand-in for CuPy, or the real GPU, without which a test is skipped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gemm_lessons.devices.gpu.cuda_gpu import Gpu
from gemm_lessons.devices.gpu.errors import GpuUnavailable

FAKE = Path(__file__).parent / "fake"


def use_fake(patch: pytest.MonkeyPatch) -> None:
    """Let child processes import the stand-in for CuPy."""
    patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(FAKE), os.environ.get("PYTHONPATH")))))
    patch.setenv("FAKE_GPU", "")


@pytest.fixture
def fake_cupy(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The stand-in for CuPy; ``setenv("FAKE_GPU", ...)`` sets its scene."""
    use_fake(monkeypatch)
    return monkeypatch


@pytest.fixture(scope="module")
def shared_gpu() -> Iterator[Gpu]:
    with pytest.MonkeyPatch.context() as patch:
        use_fake(patch)
        with Gpu() as gpu:
            yield gpu


@pytest.fixture
def fake_gpu(shared_gpu: Gpu) -> Gpu:
    """The real device, its server in a real child process, on the stand-in for CuPy."""
    shared_gpu.limit_s = 5
    shared_gpu.smallest_flush = 0
    return shared_gpu


@pytest.fixture(scope="session")
def real_gpu() -> Iterator[Gpu]:
    """The first GPU of this machine."""
    try:
        gpu = Gpu()
        _ = gpu.facts
    except GpuUnavailable as error:
        pytest.skip(f"no GPU here: {error}")
    with gpu:
        yield gpu
