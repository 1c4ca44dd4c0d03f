"""Launches that a GPU refuses before a thread runs: too many threads or blocks, too much shared memory or registers, a
shape that the kernel's own code rules out.

Dynamic shared memory above 48 KiB counts as asked for (``cudaFuncSetAttribute``), so the limit is what a block may opt
in to. Sources: NVIDIA, "CUDA C++ Programming Guide", table "Technical Specifications per Compute Capability", and
``cuda_occupancy.h`` for how registers are handed out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gemm_lessons.engine.hardware.occupancy import WARP, registers_of_block
from gemm_lessons.engine.machine.special import clustered
from gemm_lessons.engine.ptx.records import Kernel
from gemm_lessons.engine.records.findings import Finding
from gemm_lessons.engine.records.launch import Grid

if TYPE_CHECKING:
    from gemm_lessons.engine.compiler.compile import Compiled

KIB = 1024
THREADS = 1024  # per block
BLOCK = (1024, 1024, 64)
GRID = ((1 << 31) - 1, 65_535, 65_535)
CLUSTER = 8  # blocks, where the launch does not ask for more
FIRST_CLUSTERS = 90  # compute capability times ten
REGISTERS = 64 * KIB  # per block
# Shared memory that a block may opt in to, KiB, by compute capability.
SHARED = {
    50: 48, 52: 48, 53: 48, 60: 48, 61: 48, 62: 48, 70: 96, 72: 96, 75: 64, 80: 163, 86: 99, 87: 163, 88: 163, 89: 99,
    90: 227, 100: 227, 101: 227, 103: 227, 110: 227, 120: 99, 121: 99,
}  # fmt: skip


def refusal(compiled: Compiled, kernel: Kernel, grid: Grid) -> Finding | None:
    """Why no GPU of the kernel's architecture would launch ``grid``; None when one would."""
    reasons = "; ".join(_reasons(compiled, kernel, grid))
    if not reasons:
        return None
    return Finding("launch_failed", "error", f"a GPU refuses this launch: {reasons}", file=compiled.path)


def _reasons(compiled: Compiled, kernel: Kernel, grid: Grid) -> Iterator[str]:
    for what, sizes, limits in (("blocks", grid.grid, GRID), ("threads", grid.block, BLOCK)):
        for axis, size, limit in zip("xyz", sizes, limits, strict=True):
            if size < 1:
                yield f"{size} {what} along {axis}, but at least 1 is needed"
            elif size > limit:
                yield f"{size:,} {what} along {axis}, at most {limit:,}"
    threads = grid.threads
    if threads > THREADS and all(size <= limit for size, limit in zip(grid.block, BLOCK, strict=True)):
        yield f"{threads:,} threads per block, at most {THREADS:,}"
    yield from _of_the_code(kernel, grid)
    arch = compiled.arch
    shared = compiled.resources.shared_bytes + grid.dynamic_shared
    limit = _shared_limit(arch)
    if shared > limit:
        yield (
            f"{shared:,} bytes of shared memory per block ({compiled.resources.shared_bytes:,} of them in the code),"
            f" at most {limit:,} on {arch}"
        )
    registers = compiled.resources.registers
    if 0 < threads <= THREADS and registers_of_block(registers, -(-threads // WARP), 4) > REGISTERS:
        yield f"{threads:,} threads of {registers} registers each, but a block has {REGISTERS:,} registers"


def _of_the_code(kernel: Kernel, grid: Grid) -> Iterator[str]:
    """``__launch_bounds__``, ``__block_size__`` and ``__cluster_dims__``, as PTX has them."""
    most = kernel.directives.get("maxntid")
    if most is not None and grid.threads > _product(most):
        yield f"{grid.threads:,} threads per block, but the kernel's __launch_bounds__ allows {_product(most):,}"
    exact = kernel.directives.get("reqntid")
    if exact is not None and grid.block != exact:
        yield f"blocks of {_shape(grid.block)} threads, but the kernel is compiled for {_shape(exact)}"
    cluster = clustered(kernel, grid).cluster
    if cluster is None:
        return
    if grid.cluster and grid.cluster != cluster:
        yield f"clusters of {_shape(grid.cluster)} blocks, but the kernel is compiled for {_shape(cluster)}"
    if _number(kernel.target) < FIRST_CLUSTERS:
        yield f"clusters, which {kernel.target} does not know (sm_{FIRST_CLUSTERS} is the first)"
    if _product(cluster) > CLUSTER:
        yield f"clusters of {_product(cluster)} blocks, at most {CLUSTER}"
    if any(size % part for size, part in zip(grid.grid, cluster, strict=True)):
        yield f"a grid of {_shape(grid.grid)} blocks cannot be cut into clusters of {_shape(cluster)}"


def _shared_limit(arch: str) -> int:
    return SHARED.get(_number(arch), max(SHARED.values())) * KIB


def _number(arch: str) -> int:
    number = re.search(r"\d+", arch)
    return int(number[0]) if number else 0


def _product(sizes: tuple[int, int, int]) -> int:
    return sizes[0] * sizes[1] * sizes[2]


def _shape(sizes: tuple[int, int, int]) -> str:
    return " x ".join(map(str, sizes))
