"""Traced warps + a GPU's data sheet -> how long a launch would take there, and what limits it. Always an estimate.

    SM(n) = clocks that one multiprocessor takes for n resident blocks, played by ``timeline``: a line in K
    n     = blocks of the fullest multiprocessor; R of them fit at once: n = waves * R + rest
    T     = launch + max((waves * SM(R) + SM(rest)) / clock, L2 bytes / bandwidth, DRAM bytes / bandwidth)

- L2 bytes: what a block reads and writes at least, its rows of A and columns of B, as the L1 cache or shared memory
  serves the rest; or its sectors, if those are fewer.
- DRAM bytes: every matrix once if they fit into L2; else the rows and columns that each wave of blocks needs.
- The limiter is the unit that is busy most of the time; if none is for ``BUSY`` of it, the kernel waits: latency.

``lessons/common/ESTIMATE.md`` explains the model on a page and holds it against measurements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from gemm_lessons.course.lesson import Shape
from gemm_lessons.estimate.profile import Profile, Subject, Work, profile_of
from gemm_lessons.hardware.sheets import GpuSpec

__all__ = ["Estimate", "Profile", "Subject", "Work", "estimate_at", "profile_of"]

L2_SHARE = 0.8  # of the L2 cache that the operands can count on
LAUNCH_US = 6.5  # an empty kernel between two CUDA events on an idle H200: 5.9 and 7.0 in two runs of checks/estimate
BUSY = 0.75  # share of the time from which on a unit counts as what limits a kernel


@dataclass(frozen=True)
class Estimate:
    """An estimated launch. ``parts`` are microseconds: of each unit, as if it were the only limit; ``latency``, of the
    multiprocessor with all its waiting. ``limiter`` is the name of the one that decides: issue, fp32, shared, l1, l2,
    dram, latency or launch."""

    gpu: str
    shape: Shape
    time_us: float
    gflops: float
    limiter: str
    parts: Mapping[str, float]


def estimate_at(profile: Profile, shape: Shape, grid: tuple[int, int], gpu: GpuSpec) -> Estimate:
    """The time of a launch of ``grid`` (x, y) blocks on ``gpu`` for ``shape``; see the module's text for the model."""
    blocks = grid[0] * grid[1]
    resident = profile.blocks_per_sm
    per_sm = math.ceil(blocks / gpu.sms)
    waves, rest = divmod(per_sm, resident)
    spans = [(waves, profile.span(resident, gpu))] if waves else []
    if rest:
        spans.append((1, profile.span(rest, gpu)))
    microsecond = gpu.clock_hz / 1e6
    parts: dict[str, float] = {}
    for times, span in spans:
        took = times * span.clocks(shape.k) / microsecond
        for name, share in {**span.busy, "latency": 1.0}.items():
            parts[name] = parts.get(name, 0.0) + share * took
    work = profile.work(shape.k)
    busiest = max((name for name in parts if name != "latency"), key=lambda name: parts[name])
    parts["l2"] = max(parts["l2"], blocks * _l2_bytes(profile, work, shape.k) / (gpu.l2_bytes_per_s / 1e6))
    parts["dram"] = _dram_bytes(profile, shape, grid, resident * gpu.sms, gpu.l2_bytes) / (gpu.dram_bytes_per_s / 1e6)
    parts["launch"] = LAUNCH_US
    slowest = max(("latency", "l2", "dram", "launch"), key=lambda name: parts[name])
    limiter = busiest if slowest == "latency" and parts[busiest] >= BUSY * parts["latency"] else slowest
    time_us = LAUNCH_US + max(parts["latency"], parts["l2"], parts["dram"])
    flop = 2 * shape.m * shape.n * shape.k
    return Estimate(gpu.name, shape, time_us, flop / time_us / 1e3, limiter, parts)


def _l2_bytes(profile: Profile, work: Work, k: int) -> float:
    rows, cols = profile.tile_rows, profile.tile_cols
    return min(work.global_bytes, ((rows + cols) * k + rows * cols) * profile.word)


def _dram_bytes(profile: Profile, shape: Shape, grid: tuple[int, int], in_flight: int, l2_bytes: float) -> float:
    """Bytes between L2 and DRAM. Blocks start in the order of x, then y; ``in_flight`` of them run together."""
    word = profile.word
    c = shape.m * shape.n * word
    operands = (shape.m * shape.k + shape.k * shape.n) * word
    if operands <= L2_SHARE * l2_bytes:
        return operands + c
    cols = min(grid[0], in_flight)
    rows = min(grid[1], math.ceil(in_flight / grid[0]))
    waves = math.ceil(grid[0] * grid[1] / in_flight)
    wave = (rows * profile.tile_rows + cols * profile.tile_cols) * shape.k * word
    return max(operands, waves * wave) + c
