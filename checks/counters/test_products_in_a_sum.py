"""Products that a tensor core adds up to one sum, whatever a kernel executes beside it."""

from __future__ import annotations

import numpy as np
import pytest

from checks.simulator.test_wgmma import COMMON, ROLES_SHARED, roles_arguments, roles_source
from gemm_lessons import simulate
from gemm_lessons.engine.simulator import Setting, Simulator

TILES = 4
KERNEL = """
extern "C" __global__ void k(const float *x, float *out)
{
    const unsigned a[4] = {0x3c003c00, 0x3c003c00, 0x3c003c00, 0x3c003c00}, b[2] = {0x3c003c00, 0x3c003c00}; // ones
    float tile[4] = {}, all[4] = {};
    for (int i = 0; i < 4; i++) {
        mma_f16(tile, a, b);
        mma_f16(tile, a, b);
        for (int e = 0; e < 4; e++) {
            SETTLE
        }
    }
    for (int e = 0; e < 4; e++)
        out[threadIdx.x * 4 + e] = all[e] + tile[e];
}
"""
SETTLED = {
    "added": "all[e] += tile[e]; tile[e] = 0.0f;",
    "scaled": "all[e] = fmaf(tile[e], 1.0f, all[e]); tile[e] = 0.0f;",
    "with the error": "const float sum = all[e] + tile[e]; tile[e] -= sum - all[e]; all[e] = sum;",
}
KEPT = {
    "nothing": "",
    "selected": "const float sum = all[e] + tile[e]; all[e] = x[0] == 5.0f ? sum : 0.0f;",
    "times zero": "all[e] += x[1] * tile[e];",
    "clamped": "all[e] = fminf(fmaxf(all[e] + tile[e], x[1]), x[1]);",
    "branch": "const float sum = all[e] + tile[e]; if (sum == x[0] - 0.5f) all[e] = sum;",
    "moved": "tile[e] += all[e]; all[e] = x[1];",
    "through a word": "tile[e] = __uint_as_float(__float_as_uint(tile[e]) ^ (unsigned)x[1]);",
}


CANCELLED = "tile[e] = -tile[e]; if (i == 3) tile[e] += 128.0f;"
SETTLES = (*SETTLED.values(), *KEPT.values(), CANCELLED)
# One program, which is compiled and disassembled once.
PROGRAM = '#include "mma.cuh"\n' + "".join(
    KERNEL.replace("void k(", f"void k{number}(").replace("SETTLE", settle) for number, settle in enumerate(SETTLES)
)


def counted(settle: str, count_products: bool = True) -> int | None:
    """Return the products in a sum, of a kernel that is right either way."""
    out = np.zeros(128, np.float32)
    device = Simulator(Setting(count_products=count_products))
    found = simulate(
        PROGRAM, f"k{SETTLES.index(settle)}", 1, 32, [np.array([7, 0], np.float32), out], device=device,
        include_dirs=[COMMON],
    )  # fmt: skip
    assert found.fault is None
    assert (out == 128).all()
    return found.counters.get("products_in_a_sum")


@pytest.mark.parametrize("settle", SETTLED.values(), ids=SETTLED)
def test_settled(settle: str) -> None:
    """Two products of 16 k between two additions that round."""
    assert counted(settle) == 32


@pytest.mark.parametrize("settle", KEPT.values(), ids=KEPT)
def test_kept_in_the_tensor_core(settle: str) -> None:
    """Additions whose results are dropped do not shorten a sum."""
    assert counted(settle) == 128


def test_a_sum_with_another_sign() -> None:
    """Products that cancel are as many."""
    assert counted(CANCELLED) == 128


def test_only_on_request() -> None:
    """It takes another run of a block, so the counter is absent otherwise, and not 0."""
    assert counted(SETTLED["added"], count_products=False) is None


def test_of_warpgroups() -> None:
    """All products of K are in one sum of wgmma, in each of the two blocks."""
    given, _, _ = roles_arguments(256, 64, 64 * TILES)
    found = simulate(
        roles_source(), "k", (1, 2), 384, given, arch="sm_90a", dynamic_shared=ROLES_SHARED, include_dirs=[COMMON],
        device=Simulator(Setting(count_products=True)),
    )  # fmt: skip
    assert found.counters["products_in_a_sum"] == 64 * TILES
