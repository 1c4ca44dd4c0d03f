"""``cp.reduce.async.bulk``, also of boxes: an H200's sums and extremes, bit by bit."""

from __future__ import annotations

import json

import numpy as np
import pytest

from checks.readings.simulator import record_reductions
from checks.readings.simulator.record_fragments import fingerprint
from checks.readings.simulator.record_reductions import cases, key_of, simulated
from checks.simulator.conftest import Run
from checks.simulator.phase_cases import HEAD


@pytest.mark.parametrize(("name", "kind", "by_box"), [*cases()])
def test_an_h200_s_answers(name: str, kind: str, by_box: bool) -> None:
    kept = json.loads(record_reductions.KEPT.read_text(encoding="utf-8"))["fingerprints"]
    assert fingerprint(simulated(name, kind, by_box)) == kept[key_of(name, kind, by_box)]


HALVES = (
    HEAD
    + """
#include <cuda_fp16.h>
extern "C" __global__ void k(__half *y, const __half *x)
{
    __shared__ __align__(128) __half tile[128];
    tile[threadIdx.x] = x[threadIdx.x];
    fence_async();
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16 [%0], [%1], %2;"
                     :: "l"(y), "r"(AT(tile)), "r"(256) : "memory");
        commit();
        drain();
    }
}
"""
)


def test_blocks_add_halves(run: Run) -> None:
    x, y = np.arange(128, dtype=np.float16), np.ones(128, np.float16)
    launched = run(HALVES, 4, 128, [y, x], arch="sm_90")
    assert not launched.findings, launched.findings
    assert np.array_equal(y, 1 + 4 * x), "every block adds"
