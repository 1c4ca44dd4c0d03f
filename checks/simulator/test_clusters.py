"""Clusters: registers, shared memory of other blocks, barriers, multicast; and what the checkers say of mistakes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from checks.simulator.cluster_cases import (
    CLUSTER_HEAD,
    FORM_CASES,
    PULL,
    PUSH,
    SEND,
    SEND_OR,
    SHARE,
    SHARE_BOX,
    changed,
    form_source,
    many_dimensions,
)
from checks.simulator.conftest import Run
from gemm_lessons.engine.records.launch import TensorMap
from gemm_lessons.engine.records.metrics import COUNTED
from gemm_lessons.engine.records.results import Launched

TOGETHER = True
ARCH = "sm_90"

PAIRS = np.arange(4 * 64, dtype=np.float32)
SWAPPED = PAIRS.reshape(2, 2, 64)[:, ::-1, ::-1].reshape(-1)
TILES = np.arange(2 * 4 * 256, dtype=np.float32)
SHARED_TILES = 2 * np.repeat(TILES.reshape(2, 1, 4, 256)[..., ::-1], 2, axis=1).reshape(-1)


def serious(launched: Launched) -> list[tuple[str, str]]:
    return [(it.kind, it.case) for it in launched.findings if it.severity != "note"]


REGISTERS = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void ATTRIBUTE k(unsigned *y)
{
    auto cluster = cg::this_cluster();
    const dim3 dims = cluster.dim_blocks(), at = cluster.block_index();
    unsigned explicitly, id[3], of[3];
    asm("{ .reg .pred p; mov.pred p, %%is_explicit_cluster; selp.u32 %0, 1, 0, p; }" : "=r"(explicitly));
    asm("mov.u32 %0, %%clusterid.x; mov.u32 %1, %%clusterid.y; mov.u32 %2, %%clusterid.z;"
        : "=r"(id[0]), "=r"(id[1]), "=r"(id[2]));
    asm("mov.u32 %0, %%nclusterid.x; mov.u32 %1, %%nclusterid.y; mov.u32 %2, %%nclusterid.z;"
        : "=r"(of[0]), "=r"(of[1]), "=r"(of[2]));
    const unsigned all[] = {cluster.block_rank(), cluster.num_blocks(), dims.x, dims.y, dims.z, at.x, at.y, at.z,
                            explicitly, id[0], id[1], id[2], of[0], of[1], of[2], cluster.thread_rank()};
    const int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    for (int i = 0; i < 16; ++i) y[(block * blockDim.x + threadIdx.x) * 16 + i] = all[i];
}
"""


@pytest.mark.parametrize("grid", [(4, 2, 2), (2, 4, 2)])
@pytest.mark.parametrize(
    ("cluster", "at_launch"), [((2, 1, 1), False), ((1, 2, 1), True), ((2, 2, 2), True), (None, True)]
)
def test_registers(run: Run, grid: Any, cluster: Any, at_launch: bool) -> None:
    sizes = cluster or (1, 1, 1)
    source = REGISTERS.replace("ATTRIBUTE", "" if at_launch else f"__cluster_dims__{sizes}")
    y = np.zeros((*grid[::-1], 32, 16), np.uint32)
    run(source, grid, 32, [y], cluster=cluster if at_launch else None)
    for (bz, by, bx), t in itertools.product(np.ndindex(grid[::-1]), (0, 31)):
        inside = [place % part for place, part in zip((bx, by, bz), sizes, strict=True)]
        rank = inside[0] + sizes[0] * (inside[1] + sizes[1] * inside[2])
        ids = [place // part for place, part in zip((bx, by, bz), sizes, strict=True)]
        of = [size // part for size, part in zip(grid, sizes, strict=True)]
        blocks = int(np.prod(sizes))
        expected = [rank, blocks, *sizes, *inside, int(cluster is not None), *ids, *of, rank * 32 + t]
        assert y[bz, by, bx, t].tolist() == expected


@pytest.mark.parametrize("block_limit", [None, 1, 3])
@pytest.mark.parametrize("source", [PUSH, PULL], ids=["push", "pull"])
def test_blocks_of_a_pair_exchange_values(run: Run, source: str, block_limit: int | None) -> None:
    y = np.zeros_like(PAIRS)
    launched = run(source, 4, 64, [PAIRS, y], block_limit=block_limit)
    assert np.array_equal(y, SWAPPED)
    assert not launched.findings, launched.findings


def test_clusters_along_y(run: Run) -> None:
    """Blocks of a cluster are not neighbours in the grid."""
    source = changed(
        PULL,
        ("__cluster_dims__(2)", "__cluster_dims__(1, 2)"),
        ("blockIdx.x * 64", "(blockIdx.y * 2 + blockIdx.x) * 64"),
    )
    y = np.zeros_like(PAIRS)
    launched = run(source, (2, 2), 64, [PAIRS, y])
    assert np.array_equal(y, PAIRS.reshape(2, 2, 64)[::-1, :, ::-1].reshape(-1))
    assert not launched.findings, launched.findings


STARTED, STORED, READ = (f"cluster_sync(); // both have {what}" for what in ("started", "stored", "read"))
RELAXED = "cluster_arrive_relaxed(); cluster_wait();"
APART = "cluster_arrive(); if (t < 32) cluster_wait(); __syncthreads(); if (t >= 32) cluster_wait();"


@pytest.mark.parametrize(
    ("source", "edits", "found"),
    [
        (PUSH, [(STARTED, "")], ("cluster_memory", "early")),
        (PUSH, [(STARTED, "__syncthreads();")], ("cluster_memory", "early")),
        (PUSH, [(STORED, "")], ("race", "shared cluster")),
        (PUSH, [(STORED, "__syncthreads();")], ("race", "shared cluster")),
        (PULL, [(STORED, "__syncthreads();")], ("race", "shared cluster")),
        (PULL, [(STORED, RELAXED)], ("race", "shared cluster")),
        (PULL, [(STORED, "__threadfence(); " + RELAXED)], None),
        (PUSH, [(STARTED, RELAXED)], None),
        (PUSH, [(STARTED, "cluster_arrive(); __syncthreads(); cluster_wait();")], None),
        (PUSH, [(STARTED, APART)], None),
        (PULL, [(READ, "")], ("cluster_memory", "ended")),
        (PULL, [(READ, "__syncthreads();")], ("cluster_memory", "ended")),
        (PULL, [(READ, RELAXED)], ("cluster_memory", "ended")),
    ],
)  # fmt: skip
def test_what_orders_blocks_of_a_cluster(run: Run, source: str, edits: Any, found: Any) -> None:
    launched = run(changed(source, *edits), 4, 64, [PAIRS, np.zeros_like(PAIRS)])
    assert (found in serious(launched)) if found else not serious(launched), launched.findings
    assert all(it.line and it.message for it in launched.findings)


EXCHANGE = (
    CLUSTER_HEAD
    + """
extern "C" __global__ void __cluster_dims__(2) k(const float *x, float *y, int turns)
{
    __shared__ float parts[2][2];
    __shared__ alignas(8) u64 came[2];
    const int t = threadIdx.x;
    if (t < 2) { init(&came[t], 1); made(); }
    cluster_sync();
    for (int turn = 0; turn < turns; ++turn) {
        const int slot = turn % 2;
        if (t == 0) expect(&came[slot], 8);
        if (t < 2) // turn - 1 is summed up by now, so who sees this arrive may overwrite its slot
            asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];"
                :: "r"(at(&parts[slot][rank()], t)), "r"(__float_as_uint(x[blockIdx.x] + turn)), "r"(at(&came[slot], t))
                : "memory");
        wait_cluster(&came[slot], turn / 2 % 2);
        y[(turn * gridDim.x + blockIdx.x) * 64 + t] = parts[slot][0] + parts[slot][1];
        __syncthreads(); // all have read
    }
    cluster_sync();
}
"""
)


@pytest.mark.parametrize(
    ("edit", "found"),
    [
        (("", ""), None),
        (("__syncthreads(); // all have read", ""), ("race", "shared cluster")),
        (("parts[2][2]", "parts[1][2]"), ("race", "shared cluster")),
    ],
)
def test_an_asynchronous_store_releases_what_its_thread_did_before(run: Run, edit: Any, found: Any) -> None:
    """Its complete-tx has release semantics (PTX ISA 9.7.9.12); 8.9.1.1 excepts bulk copies from it alone."""
    source = changed(EXCHANGE, edit)
    if "parts[1]" in source:
        source = source.replace("parts[slot]", "parts[0]")
    x, y = np.arange(4, dtype=np.float32), np.zeros((6, 4, 64), np.float32)
    launched = run(source, 4, 64, [x, y, 6])
    if found is None:
        pairs = x.reshape(2, 2).sum(axis=1).repeat(2)
        assert np.array_equal(y, np.broadcast_to((pairs + 2 * np.arange(6)[:, None])[:, :, None], y.shape))
        assert not serious(launched), launched.findings
    else:
        assert found in serious(launched), launched.findings


@pytest.mark.parametrize(("body", "count", "got", "box"), FORM_CASES)
def test_forms(run: Run, body: str, count: int, got: Any, box: Any) -> None:
    """``count`` -1: the body's own arrival ends the phase; 0: one more arrival does."""
    source = form_source(body, count)
    y = np.zeros((4, 32, 2), np.uint32)
    launched = run(source, 4, 32, [y])
    assert np.array_equal(y[..., 0], got)
    assert np.array_equal(y[..., 1], box)
    assert not serious(launched), launched.findings


def test_a_tile_for_both_blocks(run: Run) -> None:
    y = np.zeros_like(SHARED_TILES)
    launched = run(SHARE, 4, 64, [TILES, y])
    assert np.array_equal(y, SHARED_TILES)
    assert not serious(launched), launched.findings


@pytest.mark.parametrize(
    ("edits", "fault", "found"),
    [
        ([("&full[s], 3)", "&full[s], 1)")], "deadlock", None),
        ([("&full[s], 3)", "&full[s], 5)")], "illegal_access", None),
        ([("expect(&full[s], 1024)", "expect(&full[s], 512)")], "deadlock", None),
        ([("expect(&full[s], 1024)", "expect(&full[s], 2048)")], "deadlock", None),
        ([("if (t < 34)", "if (t == 32 + rank())"), ("init(&empty[s], 2)", "init(&empty[s], 1)")], None,
         ("race", "shared cluster")),
        ([("if (t < 34)", "if (t == 32 + rank())")], "deadlock", None),
        ([("made(); }\n    cluster_sync();", "made(); }\n    __syncthreads();")], None, ("cluster_memory", "early")),
        ([("made(); }\n    cluster_sync();", "made(); }\n    cluster_arrive_relaxed(); cluster_wait();")], None, None),
        ([("made(); }\n    cluster_sync();", "}\n    cluster_arrive_relaxed(); cluster_wait();")], None,
         ("race", "shared cluster")),
        ([("cluster_sync(); // no block", "// no block")], None, ("cluster_memory", "ended")),
        ([("wait_cluster(&empty[s], (i / 2 + 1) & 1);", "")], "mbarrier", None),
    ],
)  # fmt: skip
def test_mistakes_with_a_shared_tile(run: Run, edits: Any, fault: str | None, found: Any) -> None:
    launched = run(changed(SHARE, *edits), 4, 64, [TILES, np.zeros_like(SHARED_TILES)], fault=fault)
    if fault is None:
        assert (found in serious(launched)) if found else not serious(launched), launched.findings
    assert all(it.line and it.message for it in launched.findings)


def test_a_mask_of_multicast_that_names_a_third_block(run: Run) -> None:
    source = changed(SHARE, ("512, &full[s], 3);", "512, &full[s], 7);"))
    launched = run(source, 4, 64, [TILES, np.zeros_like(SHARED_TILES)], fault="illegal_access")
    assert "the mask 0x7 names a block that the cluster, of 2 blocks, does not have" in launched.fault.message
    assert launched.fault.line


MADE_IN_ONE = (
    CLUSTER_HEAD
    + """
extern "C" __global__ void __cluster_dims__(2) k()
{
    __shared__ u64 bar;
    if (threadIdx.x == 0 && rank() == 0) init(&bar, 2);
    cluster_sync();
    if (threadIdx.x < 2 && rank() == 0) arrive_at(at(&bar, threadIdx.x));
    cluster_sync();
}
"""
)


def test_the_block_of_an_mbarrier_that_nobody_has_made_is_named(run: Run) -> None:
    launched = run(MADE_IN_ONE, 2, 32, [], fault="mbarrier")
    assert "the mbarrier bar of block 1 is used before mbarrier.init" in launched.fault.message
    assert "by thread 1 in block 0" in launched.fault.message


@pytest.mark.parametrize("source", [SEND, SEND_OR], ids=["send", "reduce"])
def test_a_tile_sent_to_the_next_block(run: Run, source: str) -> None:
    x = np.arange(512, dtype=np.float32)
    y = np.zeros_like(x)
    launched = run(source, 8, 64, [x, y])
    assert np.array_equal(y.reshape(2, 4, 64), np.roll(x.reshape(2, 4, 64), 1, axis=1)[..., ::-1])
    assert not serious(launched), launched.findings


@pytest.mark.parametrize(
    ("edits", "found"),
    [
        ([("wait_cluster(&bar, 0);", "")], ("async_in_flight", "bulk load")),
        ([("fence_async();", "")], ("async_proxy", "store")),
        ([("wait_cluster(&bar, 0);", "out[t] = 0; wait_cluster(&bar, 0);")], ("async_in_flight", "sent")),
        # Its own phase says nothing of the copy that the block has sent.
        ([("y[g] =", "out[t] = 0; y[g] =")], ("async_in_flight", "sent")),
        ([("cluster_sync(); // all bytes", "cluster_sync(); out[t] = 0; //")], None),
    ],
)
def test_mistakes_with_a_sent_tile(run: Run, edits: Any, found: Any) -> None:
    launched = run(changed(SEND, *edits), 4, 64, [np.arange(256, dtype=np.float32), np.zeros(256, np.float32)])
    assert (found in serious(launched)) if found else not serious(launched), launched.findings


@pytest.mark.parametrize("by_pointer", [False, True])
def test_a_box_for_both_blocks(run: Run, by_pointer: bool) -> None:
    x = np.arange(16 * 64, dtype=np.float32).reshape(16, 64)
    y = np.zeros((4, 16, 32), np.float32)
    source = SHARE_BOX
    if by_pointer:
        source = changed(source, ("const __grid_constant__ Map map", "const Map *map"), ("&map", "map"))
    launched = run(source, 4, 32, [TensorMap(x, (8, 32)), y])
    assert np.array_equal(y, np.repeat(x.reshape(16, 2, 32).swapaxes(0, 1), 2, axis=0))
    assert not serious(launched), launched.findings


@pytest.mark.parametrize("dims", [4, 5])
def test_boxes_of_many_dimensions(run: Run, dims: int, random: np.random.Generator) -> None:
    source, shape, box, corner, stores = many_dimensions(dims)
    x = random.integers(0, 99, shape).astype(np.float32)
    y, out = np.zeros(box, np.float32), np.zeros(shape, np.float32)
    launched = run(source, 1, 32, [TensorMap(x, box), TensorMap(out, box), y])
    expected, copied = np.zeros(box, np.float32), np.zeros(shape, np.float32)
    for at in np.ndindex(*box):
        place = tuple(c + i for c, i in zip(corner, at, strict=True))
        to = tuple(c + i for c, i in zip(stores, at, strict=True))
        if all(0 <= p < size for p, size in zip(place, shape, strict=True)):
            expected[at] = x[place]
        if all(p < size for p, size in zip(to, shape, strict=True)):
            copied[to] = expected[at]
    assert np.array_equal(y, expected)
    assert np.array_equal(out, copied)
    assert not serious(launched), launched.findings


@pytest.mark.parametrize(
    ("edits", "fault", "says"),
    [
        ([("rank() ^ 1", "rank() + 2")], "illegal_access", "has only 2 blocks"),
        ([("ld.shared::cluster.f32", "ld.shared.f32")], "illegal_access", "needs .shared::cluster"),
        ([("&box[63 - t]", "&box[64 + t]")], "out_of_bounds", "box: byte 256 of 256"),
        ([(STORED, "cluster_wait();")], "cluster_barrier", "without having arrived"),
        ([(STORED, "cluster_arrive(); " * 2)], "cluster_barrier", "arrives twice"),
    ],
)  # fmt: skip
def test_faults(run: Run, edits: Any, fault: str, says: str) -> None:
    launched = run(changed(PULL, *edits), 4, 64, [PAIRS, np.zeros_like(PAIRS)], fault=fault)
    assert says in launched.fault.message
    assert launched.fault.line


def test_a_cluster_is_no_larger_than_the_kernel_allows(run: Run) -> None:
    source = "__global__ void __launch_bounds__(32, 1, 2) k(int *y) { y[blockIdx.x] = 1; }"
    run(source, 4, 32, [np.zeros(4, np.int32)], cluster=2)
    launched = run(source, 4, 32, [np.zeros(4, np.int32)], cluster=4, fault="launch_failed")
    assert "clusters of 4 blocks, at most 2" in launched.fault.message


# Read on an H200 by Nsight Compute 2025.3 (driver 580, 2026-11-28): requests and sectors of other blocks' memory, and
# what the TMA brings by multicast. Instructions and wavefronts of shared memory leave these accesses out.
READINGS = {
    "push": (PUSH, 4, 64, {"remote_store_requests": 8, "remote_store_sectors": 32, "shared_wavefronts": 8,
                           "shared_load_instructions": 8, "shared_store_instructions": 0, "warp_instructions": 296}),
    "pull": (PULL, 4, 64, {"remote_load_requests": 8, "remote_load_sectors": 32, "shared_wavefronts": 8,
                           "shared_load_instructions": 0, "shared_store_instructions": 8, "warp_instructions": 296}),
    "share": (SHARE, 4, 64, {"multicast_sectors": 512, "shared_wavefronts": 128, "global_store_sectors": 512}),
    "send": (SEND, 8, 64, {"shared_wavefronts": 32, "multicast_sectors": 0, "global_load_sectors": 64}),
    "atomics": (form_source(*FORM_CASES[3][:2]), 4, 32, {"remote_atomic_requests": 4, "remote_atomic_sectors": 16,
                                                         "shared_wavefronts": 8}),
    "own block": (form_source(*FORM_CASES[1][:2]), 4, 32, {"remote_load_requests": 0, "shared_wavefronts": 12,
                                                           "shared_load_instructions": 4}),
    "red.async": (form_source(*FORM_CASES[12][:2]), 4, 32, dict.fromkeys(
        (f"remote_{what}_{unit}" for what in ("load", "store", "atomic") for unit in ("requests", "sectors")), 0)),
    "st.async": (form_source(*FORM_CASES[10][:2]), 4, 32, {"remote_store_requests": 4, "remote_store_sectors": 16,
                                                           "shared_wavefronts": 8, "warp_instructions": 244}),
}  # fmt: skip


@pytest.mark.counted
@pytest.mark.parametrize("name", READINGS)
def test_counters_of_an_h200(run: Run, name: str) -> None:
    source, grid, block, expected = READINGS[name]
    arrays = [np.zeros(4096, np.float32), np.zeros(4096, np.float32)]
    launched = run(
        source, grid, block, arrays if "float *x" in source else [np.zeros((4, 32, 2), np.uint32)], arch="sm_90a"
    )
    assert not launched.counters.obstacle
    assert {short: launched.counters.totals[COUNTED[short]] for short in expected} == expected


TO_OWN = ("arrive_at(at(&empty[s], t - 32));", "arrive_at(at(&empty[s], rank()));")  # both arrivals at the own block


@pytest.mark.counted
@pytest.mark.parametrize(
    ("source", "expected"),
    [(SHARE, 16), (changed(SHARE, TO_OWN), 0), (PUSH, 0)],  # blocks * tiles; the barrier of a cluster is no mbarrier
    ids=["share", "own block", "push"],
)
def test_arrivals_at_other_blocks(run: Run, source: str, expected: int) -> None:
    arrays = [np.zeros(4096, np.float32), np.zeros(4096, np.float32)]
    launched = run(source, 4, 64, arrays, arch="sm_90a")
    assert launched.counters.totals[COUNTED["remote_arrivals"]] == expected


EXPLICIT = """
extern "C" __global__ void k(int *y)
{
    unsigned explicitly;
    asm("{ .reg .pred p; mov.pred p, %%is_explicit_cluster; selp.u32 %0, 1, 0, p; }" : "=r"(explicitly));
    if (explicitly)
        y[32 * blockIdx.x + threadIdx.x] = 1;
}
"""


@pytest.mark.counted
@pytest.mark.parametrize("cluster", [None, (1, 1, 1), (2, 1, 1)])
def test_machine_code_reads_whether_the_launch_gives_a_cluster(run: Run, cluster: Any) -> None:
    y = np.zeros(128, np.int32)
    launched = run(EXPLICIT, 4, 32, [y], cluster=cluster)
    assert not launched.counters.obstacle
    assert y.sum() == (0 if cluster is None else 128)
    assert launched.counters.totals[COUNTED["global_store_instructions"]] == y.sum() / 32
