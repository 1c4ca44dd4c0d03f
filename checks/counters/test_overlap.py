"""What copies and products of warpgroups may do at the same time: a kernel with roles, and the same with roles lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from checks.simulator.test_wgmma import COMMON, ROLES_SHARED, launched, roles_arguments, roles_source
from gemm_lessons import simulate

TILE = 24576  # bytes of A and B in a stage
BLOCKS, CONSUMERS, TILES = 2, 2, 8
MEET = (
    """asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); asm volatile("bar.sync 1, 256;" ::: "memory")"""
)


def counted(stages: int = 3, **other: str) -> tuple[int, int, int]:
    """Return tiles waited for, bytes copied after products, and products in lockstep."""
    given, c, expected = roles_arguments(128 * BLOCKS, 64, 64 * TILES)
    source = roles_source(**other).replace("#define STAGES 3", f"#define STAGES {stages}")
    found = simulate(
        source, "k", (1, BLOCKS), 384, given, arch="sm_90a", dynamic_shared=ROLES_SHARED, include_dirs=[COMMON]
    )
    assert found.fault is None
    assert not found.findings
    assert np.array_equal(c, expected)
    short = "global_bytes_waited_for", "global_bytes_after_products", "lockstep_products"
    waited, after, lockstep = (found.counters[name] for name in short)
    return waited // TILE, after, lockstep


@pytest.mark.counted
def test_roles() -> None:
    """A block waits for its first tile. Its producer copies nothing after products, and consumers go on alone."""
    assert counted() == (BLOCKS, 0, 0)
    assert counted(stages=2) == (BLOCKS, 0, 0)


@pytest.mark.counted
def test_one_stage_is_waited_for_each_time() -> None:
    """Each copy follows the products of the tile before, of both consumers."""
    assert counted(stages=1) == (BLOCKS * TILES, 0, BLOCKS * CONSUMERS * (TILES - 1))


@pytest.mark.counted
def test_consumers_that_meet_are_in_lockstep() -> None:
    """From the second tile on, each warpgroup waits for the other one before its first product."""
    assert counted(WAIT=MEET) == (BLOCKS, 0, BLOCKS * CONSUMERS * (TILES - 1))


@pytest.mark.counted
def test_loads_after_products() -> None:
    """A warpgroup that loads its own tiles reads all but the first of them after products."""
    found, _, _ = launched()
    assert found.counters["global_bytes_after_products"] == 3 * 2 * 64 * 16 * 2, "three steps of four, both tiles"
    assert found.counters["lockstep_products"] == 0, "there is no other warpgroup"


BY_ADDRESS = """
struct Table { float at[4]; };
extern "C" __global__ void k(const __grid_constant__ Table table, float *y)
{
    const float *some = table.at;
    asm volatile("" : "+l"(some)); // now ptxas does not know that it is a parameter
    y[threadIdx.x] = some[threadIdx.x];
}
"""


@pytest.mark.counted
def test_parameters_by_address_are_not_counted() -> None:
    """Machine code takes the address of its parameters from a place that is known only as far as boxes need it."""
    y: Any = np.zeros(4, np.float32)
    found = simulate(BY_ADDRESS, "k", 1, 4, [np.arange(4, dtype=np.float32).tobytes(), y])
    assert found.fault is None
    assert "constant bank 0 at 0x198" in found.counters.obstacle
