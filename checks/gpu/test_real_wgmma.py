"""On a real GPU of sm_90: a kernel with roles and wgmma gives what the simulator gives."""

from __future__ import annotations

import numpy as np
import pytest

from checks.simulator.test_wgmma import COMMON, ROLES_SHARED, roles_arguments, roles_source
from gemm_lessons.devices.gpu.cuda_gpu import Gpu
from gemm_lessons.engine.api import arguments
from gemm_lessons.engine.compiler.compile import Compiled, compile_source
from gemm_lessons.engine.records.launch import Grid
from gemm_lessons.engine.simulator import Simulator

pytestmark = pytest.mark.gpu


def test_a_producer_and_two_consumers(real_gpu: Gpu) -> None:
    if not real_gpu.arch.startswith("sm_90"):
        pytest.skip("wgmma is of sm_90a")
    compiled = compile_source(roles_source(), path="roles.cu", entry="k", arch="sm_90a", include_dirs=[COMMON])
    assert isinstance(compiled, Compiled), compiled
    given, c, expected = roles_arguments(512, 512, 512)
    launched = real_gpu.launch(
        compiled, Grid((8, 4, 1), (384, 1, 1), ROLES_SHARED), arguments(Simulator().kernel(compiled), given)
    )
    assert launched.fault is None, launched.fault
    assert np.array_equal(c, expected)
