"""Helpers of the simulator's tests: real CUDA C++, really compiled, run on the simulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from checks.together import Together, of_module
from gemm_lessons import simulate
from gemm_lessons.engine import api
from gemm_lessons.engine.records.results import Launched
from gemm_lessons.engine.simulator import Setting, Simulator

Run = Callable[..., Launched]
# What is followed in PTX alone is compiled for an older GPU than an H200, which takes NVIDIA's programs two thirds of
# the time. A module whose kernels need a newer one has an ARCH of its own.
PLAIN_ARCH, COUNTED_ARCH = "sm_80", "sm_90"


@pytest.fixture(autouse=True)
def counting(request: pytest.FixtureRequest, programs: Together | None, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether this test's launches are followed in machine code, too: where that says something of its own, the mark
    ``counted``; all of them with ``--both-engines``. To disassemble a kernel takes longer than most of these tests."""
    wanted = is_counted(request.node)
    if not wanted:
        monkeypatch.setattr(api, "Simulator", partial(Simulator, Setting(counting=False)))
    if programs is not None:
        monkeypatch.setattr(api, "take", programs.take)
    return wanted


def is_counted(item: pytest.Item) -> bool:
    return item.get_closest_marker("counted") is not None or bool(item.config.getoption("both_engines"))


@pytest.fixture(scope="module")
def programs(request: pytest.FixtureRequest) -> Together | None:
    """The file's kernels in programs of several, where it asks for that."""
    return of_module(request, _helpers)


def _helpers(item: pytest.Item) -> Mapping[str, Any]:
    arch = getattr(item.module, "ARCH", PLAIN_ARCH)  # type: ignore[attr-defined]
    return {"run": launcher(is_counted(item), arch), "random": _random()}


@pytest.fixture
def run(counting: bool, request: pytest.FixtureRequest) -> Run:
    """``run(source, grid, block, args, entry="k", ...)``: launch and insist that nothing faulted unless told."""
    return launcher(counting, getattr(request.module, "ARCH", PLAIN_ARCH))


def launcher(counting: bool, plain_arch: str) -> Run:
    """What ``run`` is."""

    def launch(
        source: str,
        grid: Any,
        block: Any,
        args: Sequence[Any],
        entry: str = "k",
        *,
        fault: str | None = None,
        block_limit: int | None = None,
        budget: int = 200_000,
        **options: Any,
    ) -> Launched:
        options.setdefault("arch", COUNTED_ARCH if counting else plain_arch)
        device = Simulator(Setting(block_limit=block_limit, budget=budget, counting=counting))
        launched = simulate(source, entry, grid, block, args, device=device, **options)
        kind = launched.fault.kind if launched.fault else None
        assert kind == fault, launched.fault
        return launched

    return launch


@pytest.fixture
def random() -> np.random.Generator:
    return _random()


def _random() -> np.random.Generator:
    return np.random.default_rng(20261121)
