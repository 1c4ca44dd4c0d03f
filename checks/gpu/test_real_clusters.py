"""On a real GPU of sm_90: kernels whose blocks use each other's shared memory give what the simulator gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from checks.gpu.test_real_gpu import build
from checks.simulator.cluster_cases import (
    FORM_CASES,
    PULL,
    PUSH,
    SEND,
    SEND_OR,
    SHARE,
    SHARE_BOX,
    form_source,
    many_dimensions,
)
from checks.simulator.test_clusters import REGISTERS
from gemm_lessons import simulate
from gemm_lessons.devices.gpu.cuda_gpu import Gpu
from gemm_lessons.engine.api import arguments
from gemm_lessons.engine.records.launch import Grid, TensorMap
from gemm_lessons.engine.simulator import Simulator

pytestmark = pytest.mark.gpu

Args = Callable[[], list[Any]]


def equal(gpu: Gpu, source: str, grid: int, block: int, args: Args, cluster: Any = None) -> None:
    """Launch on both; every array must be the same afterwards."""
    if not gpu.arch.startswith("sm_90"):
        pytest.skip("clusters are of sm_90")
    compiled = build(gpu, source, "k")
    expected, got = args(), args()
    simulated = simulate(source, "k", grid, block, expected, arch=gpu.arch, cluster=cluster)
    assert simulated.fault is None, simulated.fault
    given = arguments(Simulator().kernel(compiled), got)
    launched = gpu.launch(compiled, Grid((grid, 1, 1), (block, 1, 1), 0, cluster), given)
    assert launched.fault is None, launched.fault
    for mine, theirs in zip(expected, got, strict=True):
        assert np.array_equal(getattr(mine, "array", mine), getattr(theirs, "array", theirs))


def floats(read: int, written: int) -> Args:
    return lambda: [np.arange(read, dtype=np.float32), np.zeros(written, np.float32)]


@pytest.mark.parametrize(
    ("source", "grid", "args"),
    [
        (PUSH, 4, floats(256, 256)),
        (PULL, 4, floats(256, 256)),
        (SHARE, 4, floats(2048, 4096)),
        (SEND, 8, floats(512, 512)),
        (SEND_OR, 8, floats(512, 512)),
    ],
    ids=["push", "pull", "share", "send", "send_or"],
)
def test_exchange(real_gpu: Gpu, source: str, grid: int, args: Args) -> None:
    equal(real_gpu, source, grid, 64, args)


@pytest.mark.parametrize(("body", "count"), [case[:2] for case in FORM_CASES])
def test_forms(real_gpu: Gpu, body: str, count: int) -> None:
    equal(real_gpu, form_source(body, count), 4, 32, lambda: [np.zeros((4, 32, 2), np.uint32)])


def test_a_box_for_both_blocks(real_gpu: Gpu) -> None:
    x = np.arange(16 * 64, dtype=np.float32).reshape(16, 64)
    equal(real_gpu, SHARE_BOX, 4, 32, lambda: [TensorMap(x.copy(), (8, 32)), np.zeros((4, 16, 32), np.float32)])


@pytest.mark.parametrize("dims", [4, 5])
def test_boxes_of_many_dimensions(real_gpu: Gpu, dims: int) -> None:
    source, shape, box, _, _ = many_dimensions(dims)
    x = np.random.default_rng(1).integers(0, 99, shape).astype(np.float32)
    maps: Args = lambda: [TensorMap(x.copy(), box), TensorMap(np.zeros(shape, np.float32), box)]  # noqa: E731
    equal(real_gpu, source, 1, 32, lambda: [*maps(), np.zeros(box, np.float32)])


@pytest.mark.parametrize("cluster", [None, (2, 1, 1), (4, 1, 1)])
def test_registers(real_gpu: Gpu, cluster: Any) -> None:
    source = REGISTERS.replace("ATTRIBUTE", "")
    equal(real_gpu, source, 8, 32, lambda: [np.zeros((8, 32, 16), np.uint32)], cluster)
