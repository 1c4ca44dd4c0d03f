"""Groups of fma of float32 that are computed in float64: sums halfway between two float32 are rounded once."""

from __future__ import annotations

import numpy as np
import pytest

from checks.simulator import semantics_reference
from gemm_lessons import simulate
from gemm_lessons.engine.machine import groups
from gemm_lessons.engine.semantics.floats import sum_error
from gemm_lessons.engine.semantics.operation import Array
from gemm_lessons.engine.simulator import Setting, Simulator

SIDE, LANES = 4, 32
OUTER = """extern "C" __global__ void k(const float *a, const float *b, float *c) {
    float x[4], y[4], sum[4][4];
    for (int i = 0; i < 4; i++) x[i] = a[i * 32 + threadIdx.x];
    for (int j = 0; j < 4; j++) y[j] = b[j * 32 + threadIdx.x];
    for (int i = 0; i < 4; i++) for (int j = 0; j < 4; j++) sum[i][j] = c[(i * 4 + j) * 32 + threadIdx.x];
    for (int i = 0; i < 4; i++) for (int j = 0; j < 4; j++) sum[i][j] += x[i] * y[j];
    for (int i = 0; i < 4; i++) for (int j = 0; j < 4; j++) c[(i * 4 + j) * 32 + threadIdx.x] = sum[i][j];
}"""


@pytest.mark.parametrize("lanes", [LANES, 20], ids=["all lanes", "some lanes"])
def test_sums_halfway_between_two_floats_are_rounded_once(lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products that end far below c, so that float64 rounds the sum to a tie, from both sides; and ties."""
    rng = np.random.default_rng(6)
    a, b = (rng.choice([1.0, 1 + 2.0**-23, 1 - 2.0**-24, 3.0, 0.0], (SIDE, LANES)).astype(np.float32) for _ in range(2))
    a *= rng.choice([1, -1, 2.0**-24, 2.0**-25], a.shape).astype(np.float32)
    c = rng.choice([1.0, 1 + 2.0**-23, -1.0, 2.0**24, 0.0, 3 * 2.0**-149], (SIDE * SIDE, LANES)).astype(np.float32)
    ties: list[int] = []

    def noted(p: Array, c: Array, s: Array) -> Array:
        ties.append(s.size)
        return sum_error(p, c, s)

    monkeypatch.setattr(groups, "sum_error", noted)
    found = c.copy()
    launched = simulate(OUTER, "k", 1, lanes, [a, b, found], device=Simulator(Setting(counting=False)))
    assert launched.fault is None
    for place, lane in np.ndindex(SIDE * SIDE, lanes):
        values = (a[place // SIDE, lane], b[place % SIDE, lane], c[place, lane])
        expected = semantics_reference.expected("fma.rn.f32", [int(np.float32(it).view(np.uint32)) for it in values])
        assert isinstance(expected, list)
        assert found[place, lane].view(np.uint32) == expected[0], (values, found[place, lane])
    assert np.array_equal(found[:, lanes:], c[:, lanes:])
    assert ties
    assert max(ties) < SIDE * SIDE * LANES
