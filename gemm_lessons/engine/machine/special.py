"""Special registers and launch constants: one table for PTX and for machine code.

Values that follow from the launch are exact. Values that the GPU chooses (``%smid``, ``%nsmid``, ``%warpid`` ...) are
those of an H200 that starts the blocks in order, and are the same in both engines; clocks count instructions. A run
that reads one of these gets a note. Source of the offsets in machine code: ptxas output for kernels that read one
register each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from gemm_lessons.engine.events import WARP
from gemm_lessons.engine.ptx.records import CLOCKS, Kernel
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.launch import Grid

MULTIPROCESSORS = 132  # of an H200
WARPS = 64  # resident on one multiprocessor
HARDWARE_DEPENDENT = frozenset("%smid %nsmid %warpid %nwarpid %gridid".split())
RESERVED_PLACE = "%reserved_smem_offset_1"  # start of the shared memory for cooperative groups
# Registers whose values differ between GPUs, runs or launches.
CHOSEN_ELSEWHERE = CLOCKS | HARDWARE_DEPENDENT | {RESERVED_PLACE}
# Machine code's name of a special register -> PTX's name.
NAMES: Mapping[str, str] = {
    **{f"SR_TID.{a.upper()}": f"%tid.{a}" for a in "xyz"}, **{f"SR_CTAID.{a.upper()}": f"%ctaid.{a}" for a in "xyz"},
    **{f"SR_{name.upper()}MASK": f"%lanemask_{name}" for name in ("eq", "lt", "le", "gt", "ge")},
    "SR_LANEID": "%laneid", "SR_VIRTUALSMID": "%smid", "SR_CgaCtaId": "%cluster_ctarank",
}  # fmt: skip
# Byte offsets in constant bank 0: below compute capability 10 (PLACES_90 adds those of sm_90), and since 10.
PLACES: Mapping[str, int] = {
    **{f"%ntid.{a}": 4 * i for i, a in enumerate("xyz")}, **{f"%nctaid.{a}": 0xC + 4 * i for i, a in enumerate("xyz")},
}  # fmt: skip
PLACES_90: Mapping[str, int] = {
    "%nsmid": 0x10C, "%dynamic_smem_size": 0x2C, "%is_explicit_cluster": 0x140, "%cluster_nctarank": 0x188,
    **{f"%cluster_nctaid.{a}": 0x144 + 4 * i for i, a in enumerate("xyz")},
    **{f"%nclusterid.{a}": 0x15C + 4 * i for i, a in enumerate("xyz")},
}  # fmt: skip
PLACES_100: Mapping[str, int] = {
    **{f"%ntid.{a}": 0x360 + 4 * i for i, a in enumerate("xyz")}, "%dynamic_smem_size": 0x36C,
    **{f"%nctaid.{a}": 0x370 + 4 * i for i, a in enumerate("xyz")},
}  # fmt: skip


def of_threads(thread: Array, grid: Grid) -> dict[str, Array]:
    """Return the registers that depend on a thread's number in its block, uint32."""
    size_x, size_y, _ = grid.block
    lane = (thread % WARP).astype(np.uint32)
    bit = np.uint32(1) << lane
    below = bit - np.uint32(1)
    return {
        "%tid.x": (thread % size_x).astype(np.uint32),
        "%tid.y": (thread // size_x % size_y).astype(np.uint32),
        "%tid.z": (thread // (size_x * size_y)).astype(np.uint32),
        "%laneid": lane,
        "%warpid": (thread // WARP).astype(np.uint32),
        "%lanemask_eq": bit,
        "%lanemask_lt": below,
        "%lanemask_le": below | bit,
        "%lanemask_gt": ~(below | bit),
        "%lanemask_ge": ~below,
    }


def of_blocks(block: Array, grid: Grid) -> dict[str, Array]:
    """Return the registers that depend on a block's number in the grid, uint32. Without clusters each block is one."""
    size_x, size_y, _ = grid.grid
    places = (block % size_x, block // size_x % size_y, block // (size_x * size_y))
    result = {f"%ctaid.{axis}": place.astype(np.uint32) for axis, place in zip("xyz", places, strict=True)}
    rank = np.zeros_like(block)
    x, y, z = cluster_of(grid)
    for axis, place, size, row in zip("xyz", places, (x, y, z), (1, x, x * y), strict=True):
        result[f"%clusterid.{axis}"] = (place // size).astype(np.uint32)
        result[f"%cluster_ctaid.{axis}"] = (place % size).astype(np.uint32)
        rank = rank + place % size * row
    result["%cluster_ctarank"] = rank.astype(np.uint32)
    result["%smid"] = (block % MULTIPROCESSORS).astype(np.uint32)
    return result


def of_launch(grid: Grid, shared_bytes: int, target: str) -> dict[str, np.generic]:
    """Return the registers that are the same for the whole launch: ``shared_bytes`` per block, ``target`` ``sm_90``."""
    word = np.uint32
    unit = 128 if target >= "sm_80" else 256  # bytes, granularity of shared memory allocation
    result: dict[str, np.generic] = {
        "%nsmid": word(MULTIPROCESSORS),
        "%nwarpid": word(WARPS),
        "%gridid": np.uint64(1),
        "%dynamic_smem_size": word(grid.dynamic_shared),
        "%total_smem_size": word(-(-shared_bytes // unit) * unit),
        "%cluster_nctarank": word(math.prod(cluster_of(grid))),
        "%is_explicit_cluster": np.bool_(grid.cluster is not None),
    }
    for axis, letter in enumerate("xyz"):
        result[f"%ntid.{letter}"] = word(grid.block[axis])
        result[f"%nctaid.{letter}"] = word(grid.grid[axis])
        result[f"%nclusterid.{letter}"] = word(grid.grid[axis] // cluster_of(grid)[axis])
        result[f"%cluster_nctaid.{letter}"] = word(cluster_of(grid)[axis])
    return result


def clustered(kernel: Kernel, grid: Grid) -> Grid:
    """Return the grid with the cluster size that ``__cluster_dims__`` requests."""
    asked = kernel.directives.get("reqnctapercluster")
    return replace(grid, cluster=asked) if asked else grid


def cluster_of(grid: Grid) -> tuple[int, int, int]:
    """Return the blocks of a cluster along x, y, z."""
    return grid.cluster or (1, 1, 1)


def cluster_order(grid: Grid) -> Array:
    """Return the numbers of all blocks, ordered by cluster, then by rank."""
    order = np.arange(grid.blocks)
    if grid.cluster is None:
        return order
    places = of_blocks(order, grid)
    ranks, (x, y, z) = places["%cluster_ctarank"], (places[f"%clusterid.{axis}"].astype(np.int64) for axis in "xyz")
    columns, rows = (size // part for size, part in zip(grid.grid[:2], grid.cluster[:2], strict=True))
    return np.lexsort((ranks, x + columns * (y + rows * z)))


def blocks_at(places: Array, grid: Grid) -> Array:
    """Return the numbers of the blocks at these places of ``cluster_order``. The order is not computed for a grid
    without clusters, which may have millions of blocks."""
    return places if grid.cluster is None else cluster_order(grid)[places]
