"""Counters + a GPU's data sheet -> how long a launch would take there, and what limits it. Always an estimate.

The model, in clocks. One block's work, W, is what the simulator counted, per block. It is a straight line in K, so two
launches with different K give it at any K; the number of blocks gives the rest (``Profile``).

    pipe  = the block's busiest unit: warp instructions / issue slots, FFMA / lanes, memory instructions, wavefronts
    alone = pipe + round trips to memory + barriers           one block with an SM to itself: nothing overlaps
    SM    = max(n * pipe, ceil(n / R) * alone)                n blocks on the fullest SM, R of them at a time
    T     = launch + max(SM / clock, L2 bytes / bandwidth, DRAM bytes / bandwidth)

``n * pipe`` is the throughput limit; ``ceil(n / R) * alone`` is Little's law: with R blocks in flight, the waiting of
one is hidden by the work of the others, or it is not. Blocks come in whole waves, so n is rounded up: small grids pay.
Units do not overlap perfectly: a warp stalled for one does not feed the other. So ``pipe`` is not the largest term but
the 4-norm of all, equal to the largest when that is alone, 19% above when two are equal.

- L2 bytes: what a block reads and writes at least, its rows of A and columns of B, as the L1 cache or shared memory
  serves the rest; or its sectors, if those are fewer.
- DRAM bytes: every matrix once if they fit into L2; else the rows and columns that each wave of blocks needs.
- Round trips: the K tiles of a kernel with barriers (two barriers a tile); else its loads per warp over the loads that
  it keeps in flight.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from gemm_lessons.device import METRICS, Counters
from gemm_lessons.lesson import Shape

if TYPE_CHECKING:
    from gemm_lessons.gpus import GpuSpec

WARP = 32
SECTOR = 32  # bytes
SECTORS_PER_LINE = 4
OVERLAP = 4.0  # the norm that joins the units of an SM; see above
LOADS_IN_FLIGHT = 8.0  # of a warp without barriers: the compiler unrolls a loop over k four times, two loads a step
BARRIER_CLOCKS = 30.0  # from the last warp's arrival to the first instruction after it
L2_SHARE = 0.8  # of the L2 cache that the operands can count on
LAUNCH_US = 2.5  # an empty kernel, measured between two CUDA events, on current GPUs
# Clocks until a load that misses L1 and hits L2 arrives, by compute capability, newest first. Jia et al., "Dissecting
# the NVIDIA Volta GPU architecture" (2018), for P100 and V100; Luo et al., "Benchmarking and dissecting the NVIDIA
# Hopper GPU architecture" (2024), for A100, RTX 4090 and H100, rounded to tens.
L2_LATENCY = ((90, 260.0), (89, 270.0), (80, 260.0), (70, 193.0), (60, 234.0))
VOLTA = 70  # compute capability: from here L1 and shared memory are one, and a scheduler issues one a clock, not two
# What does not occupy an issue slot in machine code: address spaces, renaming, reading parameters.
FREE_OPCODES = ("mov", "cvta", "ld.param", "bra", "ret")


@dataclass(frozen=True)
class Work:
    """What one thread block does, on average: warp instructions, wavefronts, lines, bytes, barriers."""

    instructions: float  # warp instructions issued, without FREE_OPCODES
    ffma: float  # warp instructions' worth of fused multiply-adds
    memory: float  # warp instructions of the load-store units, shared and global
    shared_wavefronts: float
    global_lines: float  # 128-byte lines that the global requests touch, one by one
    global_bytes: float  # sectors x 32, loads and stores
    global_loads: float  # warp instructions
    barriers: float

    @classmethod
    def of(cls, counters: Counters, blocks: int) -> Work:
        """One block's share of a launch."""
        get = counters.get
        free = sum(count for opcode, count in counters.opcodes.items() if opcode.startswith(FREE_OPCODES) and count > 0)
        sectors = get("global_load_sectors") + get("global_store_sectors")
        global_memory = get("global_load_instructions") + get("global_store_instructions")
        shared_memory = get("shared_load_instructions") + get("shared_store_instructions")
        totals = cls(
            instructions=max(get("instructions") - free, 0),
            ffma=get("ffma") / WARP,
            memory=global_memory + shared_memory,
            shared_wavefronts=get("shared_wavefronts"),
            global_lines=_lines(counters, sectors),
            global_bytes=sectors * SECTOR,
            global_loads=get("global_load_instructions"),
            barriers=get("barriers") * blocks,
        )
        return totals.scaled(1 / blocks)

    def scaled(self, factor: float) -> Work:
        """Every number times ``factor``."""
        return Work(*(getattr(self, field.name) * factor for field in fields(self)))

    def toward(self, other: Work, distance: float) -> Work:
        """On the straight line from this (distance 0) to ``other`` (1) and beyond; nowhere below zero."""
        pairs = ((getattr(self, field.name), getattr(other, field.name)) for field in fields(self))
        return Work(*(max(here + distance * (there - here), 0.0) for here, there in pairs))


def _lines(counters: Counters, sectors: int) -> float:
    """128-byte lines touched: four sectors each where lanes are side by side, one each for every sector in excess."""
    names = (METRICS["global_load_sectors"], METRICS["global_store_sectors"])
    ideal = sum(count.ideal or count.value for count in counters.lines if count.metric in names)
    ideal = min(ideal or sectors, sectors)
    return ideal / SECTORS_PER_LINE + (sectors - ideal)


@dataclass(frozen=True)
class Profile:
    """A kernel as the simulator saw it: one block's work at one or two values of K, and how it is launched."""

    samples: Sequence[tuple[int, Work]]  # (K, one block's work)
    threads: int  # per block
    blocks_per_sm: int  # resident, from the occupancy
    tile_rows: int  # of C, per block
    tile_cols: int
    word: int = 4  # bytes of an element
    loads_in_flight: float = LOADS_IN_FLIGHT

    def work(self, k: int) -> Work:
        """One block's work at K = k: the line through both samples, or in proportion to K when there is one."""
        (k0, first), *rest = self.samples
        if not rest:
            return first.scaled(k / k0)
        k1, second = rest[0]
        return first.toward(second, (k - k0) / (k1 - k0))


@dataclass(frozen=True)
class Estimate:
    """An estimated launch. ``parts`` are the terms in microseconds, each as if it were the only limit; ``limiter`` is
    the name of the one that decides: issue, fp32, lsu, shared, l1, latency, l2, dram or launch."""

    gpu: str
    shape: Shape
    time_us: float
    gflops: float
    limiter: str
    parts: Mapping[str, float]


def estimate_at(profile: Profile, shape: Shape, grid: tuple[int, int], gpu: GpuSpec) -> Estimate:
    """The time of a launch of ``grid`` (x, y) blocks on ``gpu`` for ``shape``; see the module's text for the model."""
    work = profile.work(shape.k)
    blocks = grid[0] * grid[1]
    resident = max(profile.blocks_per_sm, 1)
    per_sm = math.ceil(blocks / gpu.sms)
    units = _units(work, gpu)
    pipe = sum(clocks**OVERLAP for clocks in units.values()) ** (1 / OVERLAP)
    alone = pipe + _waiting(profile, work, gpu)
    throughput, latency = per_sm * pipe, math.ceil(per_sm / resident) * alone
    clocks_per_us = gpu.clock_hz / 1e6
    parts = {name: per_sm * clocks / clocks_per_us for name, clocks in units.items()}
    parts["latency"] = latency / clocks_per_us
    parts["l2"] = blocks * _l2_bytes(profile, work, shape.k) / (gpu.l2_bytes_per_s / 1e6)
    parts["dram"] = _dram_bytes(profile, shape, grid, resident * gpu.sms, gpu.l2_bytes) / (gpu.dram_bytes_per_s / 1e6)
    parts["launch"] = LAUNCH_US
    sm = max(throughput, latency) / clocks_per_us
    memory = max(parts["l2"], parts["dram"])
    time_us = LAUNCH_US + max(sm, memory)
    if max(sm, memory) < LAUNCH_US:
        limiter = "launch"
    elif memory > sm:
        limiter = "l2" if parts["l2"] > parts["dram"] else "dram"
    elif latency > throughput:
        limiter = "latency"
    else:
        limiter = max(units, key=lambda name: units[name])
    flop = 2 * shape.m * shape.n * shape.k
    return Estimate(gpu.name, shape, time_us, flop / time_us / 1e3, limiter, parts)


def _units(work: Work, gpu: GpuSpec) -> dict[str, float]:
    """Clocks that each unit of an SM is busy with one block. Shared memory and the L1 cache are one data path since
    Volta, which goes here by the name of its larger half."""
    volta = _capability(gpu) >= VOLTA
    units = {
        "issue": work.instructions / (gpu.schedulers * (1 if volta else 2)),
        "fp32": work.ffma * WARP / gpu.lanes_per_sm,
        "lsu": work.memory,
    }
    if not volta:
        return {**units, "shared": work.shared_wavefronts, "l1": work.global_lines}
    larger = "shared" if work.shared_wavefronts >= work.global_lines else "l1"
    return {**units, larger: work.shared_wavefronts + work.global_lines}


def _capability(gpu: GpuSpec) -> int:
    """90 for ``sm_90`` and ``sm_90a``."""
    return int("".join(filter(str.isdigit, gpu.arch)))


def _latency(gpu: GpuSpec) -> float:
    capability = _capability(gpu)
    return next((clocks for oldest, clocks in L2_LATENCY if capability >= oldest), L2_LATENCY[-1][1])


def _waiting(profile: Profile, work: Work, gpu: GpuSpec) -> float:
    """Clocks that a block alone on its SM waits: round trips to memory, and barriers."""
    if work.barriers >= 1:
        round_trips = work.barriers / 2
    else:
        warps = math.ceil(profile.threads / WARP)
        round_trips = work.global_loads / warps / profile.loads_in_flight
    return round_trips * _latency(gpu) + work.barriers * BARRIER_CLOCKS


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
