"""Runs a kernel of the suite on the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from checks.checkers.manifest import KERNELS, Case, Floats
from checks.compiling import must_compile
from gemm_lessons.engine.compiler.compile import Compiled
from gemm_lessons.engine.records.findings import Finding
from gemm_lessons.engine.records.launch import Argument, Buffer, Grid, Scalar
from gemm_lessons.engine.records.results import Launched
from gemm_lessons.engine.simulator import Setting, Simulator

OF_HOPPER = ("bulk_", "phase_", "matrix_")


@cache
def compiled(case: Case) -> Compiled:
    """The kernel of a case, compiled with NVRTC; for sm_80 unless it uses Hopper's instructions, as that is faster."""
    arch = "sm_90" if case.file.stem.startswith(OF_HOPPER) else "sm_80"
    return must_compile(case.file.read_text(), path=str(case.file), entry=case.entry, include_dirs=[KERNELS], arch=arch)


def arguments(case: Case) -> list[Argument]:
    """Fresh launch arguments."""
    result: list[Argument] = []
    for name, value in case.arguments.items():
        if isinstance(value, Floats):
            result.append(Buffer(name, value.values(), value.state != "in", value.state != "fresh"))
        else:
            result.append(Scalar(name, np.uint64(0) if value is None else np.int32(value)))
    return result


def launch(case: Case, block_limit: int | None = None) -> Launched:
    """Run one case. ``block_limit``: blocks per batch."""
    device = Simulator(Setting(block_limit=block_limit, counting=False))
    return device.launch(compiled(case), Grid(case.grid, case.block, case.dynamic_shared), arguments(case))


def findings(launched: Launched) -> Sequence[Finding]:
    """The findings of a launch, a fault first."""
    return [*([launched.fault] if launched.fault else []), *launched.findings]
