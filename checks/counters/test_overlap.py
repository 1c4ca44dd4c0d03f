"""What copies and products of warpgroups may do at the same time: a kernel with roles, and the same with roles lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from checks.simulator.phase_cases import HEAD
from checks.simulator.test_wgmma import COMMON, ROLES_SHARED, launched, roles_arguments, roles_source
from gemm_lessons import simulate
from gemm_lessons.course.folder import any_course
from gemm_lessons.engine.records.results import Counters
from gemm_lessons.gemm.problem import Problem
from gemm_lessons.gemm.shapes import Shape

TILE = 24576  # bytes of A and B in a stage
BLOCKS, CONSUMERS, TILES = 2, 2, 8
NONE_RUN, ONE_RUNS = (f'asm volatile("wgmma.wait_group.sync.aligned {n};" ::: "memory")' for n in (0, 1))
MEET = 'asm volatile("bar.sync 1, 256;" ::: "memory")'


def counters_of(source: str) -> Counters:
    """Run a kernel with roles, which must be right, and return its counters."""
    given, c, expected = roles_arguments(128 * BLOCKS, 64, 64 * TILES)
    found = simulate(
        source, "k", (1, BLOCKS), 384, given, arch="sm_90a", dynamic_shared=ROLES_SHARED, include_dirs=[COMMON]
    )
    assert found.fault is None
    assert not found.findings
    assert np.array_equal(c, expected)
    return found.counters


def counted(stages: int = 3, late: bool = False, **other: str) -> tuple[int, int, int]:
    """Return tiles waited for, bytes copied after products, and products on idle tensor cores."""
    source = roles_source(**other).replace("#define STAGES 3", f"#define STAGES {stages}")
    if late:  # a stage is left when the next tile's products have been issued
        source = source.replace(
            "if (t == 0)\n            arrive(empty[stage]);",
            "if (t == 0 && i)\n            arrive(empty[(i - 1) % STAGES]);",
        )
    counters = counters_of(source)
    short = "global_bytes_waited_for", "global_bytes_after_products", "products_on_idle_units"
    waited, after, idle = (counters[name] for name in short)
    return waited // TILE, after, idle


@pytest.mark.counted
def test_one_tile_in_flight_at_a_time() -> None:
    """A producer that waits until its own boxes have landed copies each tile but the first alone."""
    source = roles_source()
    assert counters_of(source)["global_bytes_copied_alone"] == 0
    request = ", col0, full[stage]);"
    waits = f"{request} await(full[stage], i / STAGES & 1);"
    assert counters_of(source.replace(request, waits))["global_bytes_copied_alone"] == BLOCKS * (TILES - 1) * TILE
    two_in_flight = f"{request} if (i) await(full[(i - 1) % STAGES], (i - 1) / STAGES & 1);"
    assert counters_of(source.replace(request, two_in_flight))["global_bytes_copied_alone"] == 0


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
def test_a_second_wait_takes_nothing_back() -> None:
    """A wait that lets a group be pending, after one for all, made one stage look like two."""
    assert counted(stages=1, WAIT=f"{NONE_RUN}; {ONE_RUNS}") == (BLOCKS * TILES, 0, BLOCKS * CONSUMERS * (TILES - 1))
    assert counted(WAIT=f"{ONE_RUNS}; {NONE_RUN}") == (BLOCKS, 0, 0)


@pytest.mark.counted
def test_consumers_that_meet_with_nothing_in_flight() -> None:
    """From the second tile on, each warpgroup starts its products when those of both are complete."""
    assert counted(WAIT=f"{NONE_RUN}; {MEET}") == (BLOCKS, 0, BLOCKS * CONSUMERS * (TILES - 1))
    assert counted(late=True, WAIT=f"{ONE_RUNS}; {MEET}") == (BLOCKS, 0, 0)


@pytest.mark.counted
def test_loads_after_products() -> None:
    """A warpgroup that loads its own tiles reads all but the first of them after products."""
    found, _, _ = launched()
    assert found.counters["global_bytes_after_products"] == 3 * 2 * 64 * 16 * 2, "three steps of four, both tiles"
    assert found.counters["products_on_idle_units"] == 3, "it waits for its own"


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


REQUEST = "        if (threadIdx.x == 0 && tile + 1 < tiles)\n            request(tile + 1);\n"
FIRST = "tile < min(STAGES - 1, tiles)"
TILES_AT = "const int tiles = K / BK;"
WAIT = "        wgmma_wait<0>();\n"
SMALL = r"""
    float small[4] = {};
    const auto more = [&](const Stage &from) {
        const auto a = descriptor(&from.a[0][0], 0, EIGHT), b = descriptor(&from.b[0][0][0], sizeof(from.b[0]), EIGHT);
        wgmma_fence();
        asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 1;"
                     : "+f"(small[0]), "+f"(small[1]), "+f"(small[2]), "+f"(small[3]) : "l"(a), "l"(b));
        wgmma_commit();
    };
"""
MORE = "        more(stages[tile % STAGES]);\n"
USED = "    if (small[0] == 0.5f)\n        acc[0][0] = 0.0f;\n"


@pytest.mark.counted
@pytest.mark.parametrize(
    ("before", "waited"),
    [("", 1), (WAIT, 4), (f"{WAIT}{MORE}", 4)],
    ids=["all", "none", "small"],
)
def test_copies_beside_products_of_their_own_warpgroup(before: str, waited: int) -> None:
    """A thread that has started products and not waited for them requests copies that these products hide. A product
    of 8 columns, where a tile has 8 products of 128, hides none."""
    lesson = any_course().lesson("wgmma")
    source = lesson.solution_path.read_text().replace(TILES_AT, f"{TILES_AT}{SMALL}" if MORE in before else TILES_AT)
    start, _, rest = source.replace(FIRST, "tile < 1").partition("        // (5)")
    after = rest[rest.index("    }\n    wgmma_wait<0>();") :]
    source = f"{start}{before}{REQUEST}        wgmma_wait<{int(not before)}>();\n{after}"
    source = source.replace("    // Write my", f"{USED}    // Write my" if MORE in before else "    // Write my")
    shape = Shape(128, 128, 256)
    [launch], [grid] = lesson.launches, lesson.grids(shape)
    arguments = Problem(lesson.data, shape, seed=1).trial().arguments(launch.parameters)
    found = simulate(
        source, "gemm", grid.grid, grid.block, arguments, arch=lesson.architecture, defines=lesson.tile.defines,
        include_dirs=lesson.include_dirs, dynamic_shared=grid.dynamic_shared,
    )  # fmt: skip
    assert found.fault is None
    assert not found.findings
    assert found.counters["global_bytes_waited_for"] == waited * 2 * (128 + 128) * 64


IN_TURN = (
    HEAD
    + """
extern "C" __global__ void k(const float *x, float *y)
{
    __shared__ __align__(128) float stage[2][256];
    __shared__ u64 full[2];
    const int t = threadIdx.x;
    if (t == 0) { init(&full[0], ARRIVE); init(&full[1], ARRIVE); made(); }
    __syncthreads();
    const auto request = [&](int i) {
        REQUEST
    };
    float sum = 0;
    for (int i = 0; i < AHEAD; i++) request(i);
    for (int i = 0; i < 8; i++) {
        if (i + AHEAD < 8) request(i + AHEAD);
        wait(&full[i % 2], i / 2 % 2);
        for (int n = t; n < 256; n += 32) sum += stage[i % 2][n];
        __syncthreads();
    }
    y[blockIdx.x * 32 + t] = sum;
}"""
)


REQUESTS = {  # who arrives, and the copies
    "bulk": (
        "1",
        "if (t == 0) { expect(&full[i % 2], 1024); bulk_load(stage[i % 2], x + i * 256, 1024, &full[i % 2]); }",
    ),
    "cp.async": (
        "32",
        """for (int n = t * 4; n < 256; n += 128)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(AT(&stage[i % 2][n])), "l"(x + i * 256 + n));
        asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(AT(&full[i % 2])) : "memory");""",
    ),
}


@pytest.mark.counted
@pytest.mark.parametrize("how", REQUESTS)
@pytest.mark.parametrize(("ahead", "waited"), [(0, 8), (1, 1)])
def test_copies_beside_reads_of_shared_memory(how: str, ahead: int, waited: int) -> None:
    """Without products of warpgroups, what threads read meanwhile hides a copy."""
    arrive, request = REQUESTS[how]
    x, y = np.ones(2048, np.float32), np.zeros(96, np.float32)
    source = IN_TURN.replace("AHEAD", str(ahead)).replace("ARRIVE", arrive).replace("REQUEST", request)
    found = simulate(source, "k", 3, 32, [x, y])
    assert found.fault is None
    assert not found.findings
    assert (y == 64).all()
    assert found.counters["global_bytes_waited_for"] == 3 * waited * 1024
