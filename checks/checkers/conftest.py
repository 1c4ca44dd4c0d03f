"""Helpers: small kernels in place, checked on the simulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from checks.simulator.conftest import PLAIN_ARCH
from gemm_lessons import simulate
from gemm_lessons.engine.records.findings import Finding
from gemm_lessons.engine.simulator import Setting, Simulator

Check = Callable[..., Sequence[Finding]]


@pytest.fixture
def check() -> Check:
    """``check(body, grid, block, args, head=..., before=...)``: findings of ``k(head) { body }``, the fault first."""

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
        source = f'{before}\nextern "C" __global__ void k({head})\n{{ const int t = threadIdx.x;\n{body}\n}}'
        options.setdefault("arch", PLAIN_ARCH)
        device = Simulator(Setting(block_limit=block_limit, budget=500_000, counting=False))
        launched = simulate(source, "k", grid, block, args, device=device, **options)
        return [*([launched.fault] if launched.fault else []), *launched.findings]

    return run
