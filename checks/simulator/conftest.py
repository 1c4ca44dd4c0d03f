"""Helpers of the simulator's tests: compile CUDA C++ with NVRTC and launch it on the simulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from checks.conftest import is_counted
from checks.together import Helpers
from gemm_lessons import simulate
from gemm_lessons.engine.records.results import Launched
from gemm_lessons.engine.simulator import Setting, Simulator

Run = Callable[..., Launched]
# Kernels that only the PTX interpreter runs are compiled for sm_80, which takes two thirds of the time of sm_90. A test
# module whose kernels need a newer GPU defines ARCH.
PLAIN_ARCH, COUNTED_ARCH = "sm_80", "sm_90"


@pytest.fixture(autouse=True)
def as_in_this_room(counting: bool, together: None) -> None:
    """Few kernels are followed in machine code, too, and a file may compile its kernels together."""


@pytest.fixture(scope="module")
def helpers() -> Helpers:
    return _helpers


def _helpers(item: pytest.Item) -> Mapping[str, Any]:
    arch = getattr(item.module, "ARCH", PLAIN_ARCH)  # type: ignore[attr-defined]
    return {"run": launcher(is_counted(item), arch), "random": _random()}


@pytest.fixture
def run(counting: bool, request: pytest.FixtureRequest) -> Run:
    """``run(source, grid, block, args, entry="k", *, fault=None, ...)``: launch, and assert that the kind of the
    launch's fault is ``fault``."""
    return launcher(counting, getattr(request.module, "ARCH", PLAIN_ARCH))


def launcher(counting: bool, plain_arch: str) -> Run:
    """The function that the fixture ``run`` returns."""

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
