"""Helpers: small kernels in place, checked on the simulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from checks.simulator.conftest import PLAIN_ARCH
from checks.together import Helpers
from gemm_lessons import simulate
from gemm_lessons.engine.records.findings import Finding
from gemm_lessons.engine.simulator import Setting, Simulator

Check = Callable[..., Sequence[Finding]]


def run(
    body: str,
    grid: Any,
    block: Any,
    args: Sequence[Any],
    head: str = "const float *A, float *C",
    before: str = "",
    block_limit: int | None = None,
    **options: Any,
) -> Sequence[Finding]:
    """Findings of ``k(head) { body }``, the fault first."""
    source = f'{before}\nextern "C" __global__ void k({head})\n{{ const int t = threadIdx.x;\n{body}\n}}'
    options.setdefault("arch", PLAIN_ARCH)
    device = Simulator(Setting(block_limit=block_limit, budget=500_000, counting=False))
    launched = simulate(source, "k", grid, block, args, device=device, **options)
    return [*([launched.fault] if launched.fault else []), *launched.findings]


@pytest.fixture(scope="module")
def helpers() -> Helpers:
    return _helpers


def _helpers(item: pytest.Item) -> Mapping[str, Any]:
    said = getattr(item.module, "said_by", None)  # type: ignore[attr-defined]
    return {"check": run} | ({"said": said(run)} if said else {})


@pytest.fixture
def check(together: None) -> Check:
    """``check(body, grid, block, args, head=..., before=...)``: see ``run``."""
    return run
