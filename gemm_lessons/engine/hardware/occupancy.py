"""Theoretical occupancy: the number of a kernel's blocks on one multiprocessor, and the resource that limits it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple

from gemm_lessons.engine.hardware.sheets import WARP, GpuSpec
from gemm_lessons.engine.records.frozen import dataclass


@dataclass(frozen=True)
class Resources:
    """Resources of one kernel: registers per thread; static shared bytes per block; spill and stack bytes per thread.

    ``spill_bytes`` is ptxas' spill stores plus spill loads.
    """

    registers: int
    shared_bytes: int
    spill_bytes: int
    stack_bytes: int


def most(every: Sequence[Resources]) -> Resources:
    """Return the maximum of each resource over several kernels."""
    return Resources(*(max(column) for column in zip(*map(astuple, every), strict=True)))


@dataclass(frozen=True)
class Occupancy:
    """Blocks and warps on one multiprocessor; ``fraction`` of its warp slots; the limiter, or "does not fit".

    Limiters that allow equally few blocks are named together.
    """

    blocks_per_sm: int
    warps: int
    fraction: float
    limiter: str


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def registers_of_block(registers: int, warps: int, schedulers: int, unit: int = 256) -> int:
    """Return the registers that ``warps`` warps of a block take.

    The warps are spread over the schedulers, each with its own part of the register file, so their number is rounded up
    to a multiple of the schedulers. Registers of a warp are rounded up to a multiple of ``unit``.
    """
    return _round_up(registers * WARP, unit) * _round_up(warps, schedulers)


def block_limits(resources: Resources, threads: int, dynamic_shared: int, gpu: GpuSpec) -> dict[str, int]:
    """Return how many blocks of ``threads`` threads fit on a multiprocessor by each of its resources."""
    warps = -(-threads // WARP)
    limits = {"warps": gpu.max_warps_per_sm // warps, "blocks": gpu.max_blocks_per_sm}
    shared = _round_up(resources.shared_bytes + dynamic_shared + gpu.shared_reserved_per_block, gpu.shared_unit)
    if shared:
        limits["shared memory"] = gpu.shared_bytes_per_sm // shared
    if resources.registers:
        per_warp = _round_up(resources.registers * WARP, gpu.register_unit)
        per_scheduler = gpu.registers_per_sm // gpu.schedulers // per_warp
        limits["registers"] = per_scheduler * gpu.schedulers // warps
    return limits


def occupancy_of(resources: Resources, threads: int, dynamic_shared: int, gpu: GpuSpec) -> Occupancy:
    """Return the theoretical occupancy of blocks of ``threads`` threads, with ``dynamic_shared`` bytes of dynamic
    shared memory.

    Follows ``cuda_occupancy.h``: registers are handed out per warp in units of ``register_unit`` and warps belong to a
    scheduler's own register file; shared memory per block in units of ``shared_unit`` after the system's reserve.
    """
    nothing = Occupancy(0, 0, 0.0, "does not fit")
    if threads < 1 or threads > gpu.max_threads_per_block or resources.registers > gpu.registers_per_thread:
        return nothing
    warps = -(-threads // WARP)
    if resources.shared_bytes + dynamic_shared > gpu.shared_bytes_per_block:
        return nothing
    if registers_of_block(resources.registers, warps, gpu.schedulers, gpu.register_unit) > gpu.registers_per_block:
        return nothing
    limits = block_limits(resources, threads, dynamic_shared, gpu)
    blocks = min(limits.values())
    if blocks == 0:
        return nothing
    limiters = " and ".join(name for name, most in limits.items() if most == blocks)
    return Occupancy(blocks, blocks * warps, blocks * warps / gpu.max_warps_per_sm, limiters)
