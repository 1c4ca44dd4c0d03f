"""Data sheets of the GPUs that the kit knows: what one multiprocessor holds and what the whole chip moves.

Sources: [G] "CUDA C++ Programming Guide" 12.9/13.0, table "Technical Specifications per Compute Capability";
[O] ``cuda_occupancy.h`` of the CUDA toolkit (allocation granularities); [W] NVIDIA's architecture white papers and
data sheets of each product.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GpuSpec:
    """One GPU. Rates are peaks of the data sheet, not measurements."""

    key: str  # what `--gpu` takes
    name: str
    arch: str  # compute capability, sm_XX
    sms: int  # multiprocessors of the product as sold
    lanes_per_sm: int  # fp32 lanes
    clock_hz: float  # boost clock
    dram_bytes_per_s: float
    l2_bytes_per_s: float
    l2_bytes: int
    shared_bytes_per_sm: int
    shared_bytes_per_block: int  # the most that a block may opt in to
    shared_reserved_per_block: int  # taken by the system from every block's allocation
    shared_unit: int  # allocation granularity, bytes
    registers_per_sm: int
    registers_per_block: int
    registers_per_thread: int
    register_unit: int  # registers per warp are rounded up to this
    max_warps_per_sm: int
    max_blocks_per_sm: int
    max_threads_per_block: int
    schedulers: int  # warp schedulers per multiprocessor
