"""Counters of kernels with mbarriers and bulk copies: Nsight Compute's own, and by name what cannot be counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from checks.simulator.phase_cases import BOX, HEAD, MIRROR, PIPELINE
from gemm_lessons import simulate
from gemm_lessons.engine.records.launch import TensorMap
from gemm_lessons.engine.records.results import Counters

TOGETHER = True

# Read on one H200 (driver 580, Nsight Compute 2025.3, 2026-11-22): instructions, and none of the units for loads and
# stores sees a bulk copy.
NAMES = "warp_instructions shared_load_instructions shared_store_instructions shared_wavefronts global_store_sectors"
READ = {"mirror": (1328, 32, 32, 64, 0), "pipeline": (644, 32, 0, 32, 128), "add": (1336, 32, 32, 64, 0)}
SOURCES = {
    "mirror": (MIRROR, 4, 256),
    "pipeline": (PIPELINE, 1, 96),
    "add": (MIRROR.replace("bulk_store(y + 256 * blockIdx.x", "bulk_add(y"), 4, 256),
}


def counted(source: str, grid: int, block: int) -> Counters:
    arrays: list[Any] = [np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32)]
    launched = simulate(source, "k", grid, block, arrays)
    assert launched.fault is None
    return launched.counters


@pytest.mark.parametrize("name", READ)
def test_as_nsight_compute_counts(name: str) -> None:
    counters = counted(*SOURCES[name])
    assert not counters.obstacle
    assert tuple(counters[short] for short in NAMES.split()) == READ[name]
    assert counters["global_load_instructions"] == counters["global_load_sectors"] == 0


def test_the_sums_over_every_access_have_them() -> None:
    counters = counted(*SOURCES["mirror"])
    assert counters["global_bytes_read"] == counters["global_bytes_written"] == 4096
    assert counters["global_sectors_read"] == 128
    assert counters["global_accesses"] == 8
    assert counters["shared_bytes_written"] == 4096 + 4096, "by the copies, and by the threads"
    assert counted(*SOURCES["add"])["global_bytes_read"] == 2 * 4096, "a reduction reads what it adds to"


def test_what_depends_on_time_is_named() -> None:
    counters = counted(*SOURCES["pipeline"])
    assert set(counters.uncounted) == {"warp_instructions", "instructions", "barriers"}
    assert "mbarrier.try_wait" in counters.uncounted["warp_instructions"]
    assert counters.parts == {"barriers": 1}, "of all threads"


ASKING = """
extern "C" __global__ void __launch_bounds__(256, 1) k(const float *x, float *y)
{
    if (threadIdx.x < 128)
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    else
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    y[threadIdx.x] = x[threadIdx.x];
}
"""


def test_tries_to_get_registers_depend_on_time() -> None:
    x = np.zeros(256, np.float32)
    launched = simulate(ASKING, "k", 1, 256, [x, x.copy()], arch="sm_90a")
    assert launched.fault is None
    assert "setmaxnreg.inc" in launched.counters.uncounted["warp_instructions"]


def test_work_while_waiting_is_not_counted() -> None:
    """How much of it there is depends on time."""
    busy = MIRROR.replace("wait(&bar, 0);", "float s = 0; for (int i = 0; !over(&bar, 0); ++i) s += x[i % 1024];")
    counters = counted(busy.replace("tile[t] = v", "tile[t] = v + 0 * s"), 4, 256)
    assert "depends on time: ld.global" in counters.obstacle


EACH = HEAD + """
extern "C" __global__ void k(const float *x, float *y)
{
    __shared__ __align__(128) float tile[256];
    __shared__ u64 bar;
    const int t = threadIdx.x;
    if (t == 0) { init(&bar, 1); made(); }
    __syncthreads();
    if (t == 0) expect(&bar, 1024);
    if (t < 64) bulk_load(tile + 4 * t, x + 4 * t, 16, &bar);
    wait(&bar, 0);
    y[PLACE] = tile[t];
}"""  # fmt: skip


def test_lanes_that_copy_each_its_own_take_turns() -> None:
    """Machine code goes round once for each lane."""
    counters = counted(EACH.replace("PLACE", "t"), 1, 256)
    assert not counters.obstacle
    assert counters["global_accesses"] == 64 + 8
    assert counters["warp_instructions"] > 2 * 32 * 7


def test_lanes_that_store_each_a_box_take_turns() -> None:
    """ptxas chooses one lane after the other, by R2UR with a predicate of those that are left."""
    one, each = (
        "if (t == 0) { box_store(&out, x2, y2, tile)",
        "if (t < 2) { box_store(&out, x2, y2 + 4 * t, tile + 128 * t)",
    )
    assert one in BOX
    source = BOX.replace(one, each)
    a, out = np.arange(256, dtype=np.float32).reshape(8, 32), np.zeros((8, 32), np.float32)
    given = [TensorMap(a, (8, 32)), TensorMap(out, (4, 32)), np.zeros(256, np.float32), 0, 0, 0, 0]
    launched = simulate(source, "k", 1, 32, given, dynamic_shared=1024)
    assert launched.fault is None
    assert np.array_equal(out, a)
    assert not launched.counters.obstacle
    assert launched.counters["global_bytes_written"] == 2 * 1024, "by the boxes, and by the threads"


def test_addresses_that_a_copy_brings_are_not_followed() -> None:
    obstacle = counted(EACH.replace("PLACE", "(int)tile[t] & 255"), 1, 256).obstacle
    assert obstacle.endswith("that copies, stmatrix or other blocks write")


SCHEDULE = HEAD + """
extern "C" __global__ void k(const float *x, float *y)
{
    __shared__ __align__(128) float tile[256];
    __shared__ int schedule[8];
    __shared__ u64 bar;
    const int t = threadIdx.x;
    if (t < 8) schedule[t] = (int)x[t] & 7;
    if (t == 0) { init(&bar, 1); made(); }
    __syncthreads();
    if (t == 0) { expect(&bar, 1024); bulk_load(tile, x, 1024, &bar); }
    wait(&bar, 0);
    for (int i = 0; i < 8; i++) {
        y[SLOT * 32 + t] = tile[t];
        AGAIN;
    }
}"""  # fmt: skip


def test_addresses_from_shared_memory_beside_bulk_copies_are_followed() -> None:
    """A schedule in shared memory is stored once; the copies write other bytes."""
    counters = counted(SCHEDULE.replace("SLOT", "schedule[i]").replace("AGAIN", ""), 1, 32)
    assert not counters.obstacle
    assert counters["global_store_sectors"] == 8 * 4


def test_addresses_from_shared_memory_that_changes_are_not_followed() -> None:
    """Machine code does not follow in which order threads pass mbarriers, so a changing value is not certain."""
    again = "__syncthreads(); if (t < 8) schedule[t] = (schedule[t] + 1) & 7; __syncthreads()"
    source = SCHEDULE.replace("SLOT", "schedule[i]").replace("AGAIN", again)
    assert "shared memory that changes" in counted(source, 1, 32).obstacle


FOLLOWED = """
extern "C" __global__ void k(const int *x, float *y, int n)
{
    __shared__ __align__(16) int s[2][128];
    const unsigned t = threadIdx.x;
    for (int i = 0; i < 3; i++) {
        if (t < 32) {
            int *to = &s[i % 2][4 * t];
            const int *from = x + 128 * i + 4 * t;
            COPY
        }
        __syncthreads();
        const int v = s[i % 2][t];
        if (v < 64) y[3 * v] = 1;
        if (v & 1) y[256 + t] = s[i % 2][v];
    }
}
"""
BY_REGISTERS = "*(int4 *)to = t < n ? *(const int4 *)from : make_int4(0, 0, 0, 0);"
BY_COPIES = """asm volatile("{ .reg .pred p; setp.ge.u32 p, %2, %3; cp.async.cg.shared.global [%0], [%1], 16, p; }"
    :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(t), "r"(n) : "memory");
asm volatile("cp.async.wait_all;" ::: "memory");"""

ONE_BY_ONE = "for (int e = 0; e < 4; e++) to[e] = 4 * t + e < n ? from[e] : 0;"
BY_BYTES = """const int bytes = min(max(4 * (n - 4 * int(t)), 0), 16);
asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2; cp.async.wait_all;"
    :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(bytes) : "memory");"""


@pytest.mark.parametrize(
    ("copies", "registers", "reading"),
    [
        (BY_COPIES, BY_REGISTERS, 32),
        (BY_COPIES, BY_REGISTERS, 20),
        (BY_BYTES, ONE_BY_ONE, 128),
        (BY_BYTES, ONE_BY_ONE, 78),  # two of a lane's four numbers
        (BY_BYTES, ONE_BY_ONE, 1),
    ],
)
def test_branches_and_addresses_by_what_cp_async_brings_are_followed(copies: str, registers: str, reading: int) -> None:
    """As if the same had come through registers. (An honest ReLU behind cp.async, written as an if, met no gate.)"""
    x = np.concatenate([np.random.default_rng(i).permutation(128) for i in range(3)]).astype(np.int32)

    def stores(copy: str) -> list[int]:
        launched = simulate(FOLLOWED.replace("COPY", copy), "k", 1, 128, [x, np.zeros(512, np.float32), reading])
        assert not launched.counters.obstacle
        return [launched.counters[name] for name in ("global_store_requests", "global_store_sectors")]

    assert stores(copies) == stores(registers)


FILLING = """
extern "C" __global__ void k(const float *x, float *y, int n)
{
    __shared__ float s[32];
    unsigned to = (unsigned)__cvta_generic_to_shared(&s[threadIdx.x]);
    asm volatile("{ .reg .pred p; setp.ge.s32 p, %2, %3; cp.async.ca.shared.global [%0], [%1], 4, p; }"
                 :: "r"(to), "l"(x + 32 * threadIdx.x), "r"(threadIdx.x), "r"(n));
    asm volatile("cp.async.wait_all;");
    __syncthreads();
    y[threadIdx.x] = s[threadIdx.x];
}
"""


@pytest.mark.parametrize("reading", [0, 8, 32])
def test_lanes_that_write_zeros_meet_nobody_where_they_would_have_read(reading: int) -> None:
    """All would read from one bank. There is one reading of such copies, of a whole kernel: 2 of 41,064 less."""
    y = np.full(32, np.nan, np.float32)
    launched = simulate(FILLING, "k", 1, 32, [np.arange(1024, dtype=np.float32), y, reading])
    lanes = np.arange(32)
    assert (y == np.where(lanes < reading, 32 * lanes, 0)).all()
    assert launched.counters["shared_wavefronts"] == 1 + max(1, reading)
    assert any("writes zeros" in why for why in launched.counters.inexact.values()) == (reading < 32)
