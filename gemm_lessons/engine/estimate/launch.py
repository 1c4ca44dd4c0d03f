"""One launch of any kernel -> about how long it would take on a GPU that is not here. Always an estimate.

    machine code + arguments --trace--> warps of one multiprocessor's blocks --play--> clocks of a wave
    T = launch + max(waves * clocks / clock rate, L2 bytes / bandwidth, DRAM bytes / bandwidth)

- The traced blocks are the first of the grid, as many as are resident on one multiprocessor. All others count as equal.
- The fullest multiprocessor has ceil(blocks / multiprocessors) blocks; they come in waves of the resident ones.
- L2 bytes: each block's loads, a sector once, and all its stores: L1 never runs full.
- DRAM bytes: what the traced blocks touch of each buffer, times the blocks, but no more than all of it, once for loads
  and once for stores: L2 holds what several blocks use, and nothing is there before the launch.
- Where warpgroups multiply, the clock is the one at which the chip draws no more power than it may (``power``).
- What the model cannot know is refused by its reason (``NotEstimated``), never guessed.

``gemm/time_model.py`` is the model of matrix products: it knows how time grows with K, and which blocks share tiles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gemm_lessons.engine.costs.banks import SECTOR
from gemm_lessons.engine.estimate.chip import HEATING, LAUNCH_US, at_work, limiter_of
from gemm_lessons.engine.estimate.items import grouped_columns, unknown_units
from gemm_lessons.engine.estimate.power import Load, at_pace
from gemm_lessons.engine.estimate.recording import Recording, record
from gemm_lessons.engine.estimate.timeline import play, uneven
from gemm_lessons.engine.hardware.occupancy import Occupancy, occupancy
from gemm_lessons.engine.hardware.sheets import GpuSpec, pipes_of
from gemm_lessons.engine.machine.special import clustered
from gemm_lessons.engine.ptx import synchronising_accesses
from gemm_lessons.engine.records.errors import UnknownArchitecture
from gemm_lessons.engine.records.launch import Argument, Grid
from gemm_lessons.engine.sass.trace import TooLong, Trace, Traffic, traceable
from gemm_lessons.engine.sass.uncountable import Uncountable

if TYPE_CHECKING:
    from gemm_lessons.engine.compiler.compile import Compiled
    from gemm_lessons.engine.machine.memory import GlobalMemory
    from gemm_lessons.engine.ptx.records import Kernel

LONGEST = 500_000  # warp instructions of the blocks that are traced: some ten seconds and 300 MB
# What the model passes over, by the machine instructions that need it.
LEFT_OUT: Mapping[str, str] = {
    "ATOM ATOMG ATOMS RED REDG": "waiting for other threads' atomics at the same address",
    "LDL STL": "local memory that leaves L1",
}


class NotEstimated(Exception):
    """This launch is outside of the time model. The message says why."""


@dataclass(frozen=True)
class LaunchEstimate:
    """About how long one launch would take on a GPU that is not here. Nothing was measured.

    ``time_us``: microseconds, from the launch to its end on an idle GPU. ``limiter``: what decides it: issue, fp32,
    tensor, fp64, shared, l1, l2, dram, latency (no unit is busy, warps wait) or launch. ``parts``: microseconds of each
    as if it were the only limit. ``blocks_per_sm`` and ``waves``: blocks resident on a multiprocessor, and how often
    the fullest one is filled. ``left_out``: what this kernel does and the model passes over.
    ``basis``: empty where estimates for this GPU were compared with measured times.
    """

    gpu: str
    time_us: float
    limiter: str
    parts: Mapping[str, float]
    blocks_per_sm: int
    waves: int
    left_out: tuple[str, ...] = ()
    basis: str = ""

    def __repr__(self) -> str:
        besides = f", without {'; '.join(self.left_out)}" if self.left_out else ""
        besides += f", {self.basis}" if self.basis else ""
        return f"<estimate, not measured: {self.time_us:.3g} us on {self.gpu}, limited by {self.limiter}{besides}>"


def estimate_launch(
    compiled: Compiled,
    kernel: Kernel,
    grid: Grid,
    arguments: Sequence[Argument],
    memory: Callable[[], GlobalMemory],
    gpu: GpuSpec,
) -> LaunchEstimate:
    """The time of a launch of ``compiled``, whose machine code must be for ``gpu``; ``kernel`` is its PTX, ``memory``
    gives global memory as it is before. Nothing is written. Raises ``NotEstimated``."""
    grid = clustered(kernel, grid)
    fit, per_sm = _fitting(compiled, kernel, grid, gpu)
    resident = min(fit.blocks_per_sm, per_sm)
    with _as_not_estimated(resident):
        trace = _trace(compiled, kernel, grid, arguments, memory, resident)
        executed = {trace.code[index].name for warp in trace.warps for index, _ in warp}
        gpu = at_work(gpu, grid.blocks, any(name in executed for name in HEATING))
        parts, busiest = _of_multiprocessor(trace, per_sm, resident, gpu)
    l2, dram = moved_bytes(trace, grid.blocks, memory())
    if gpu.power is not None and (columns := grouped_columns(trace)):
        clocks = parts["latency"] * gpu.clock_hz / 1e6
        products = columns * grid.blocks * pipes_of(gpu).grouped
        parts, pace = at_pace(parts, Load(clocks, products, l2, lambda _: dram), gpu)
        time_us = pace.seconds * 1e6
    else:
        parts["l2"] = max(parts["l2"], l2 / (gpu.l2_bytes_per_s / 1e6))
        parts["dram"] = dram / (gpu.dram_bytes_per_s / 1e6)
        time_us = max(parts["latency"], parts["l2"], parts["dram"])
    parts["launch"] = LAUNCH_US
    return LaunchEstimate(
        gpu.name,
        LAUNCH_US + time_us,
        limiter_of(parts, busiest),
        parts,
        fit.blocks_per_sm,
        math.ceil(per_sm / resident),
        tuple(what for names, what in LEFT_OUT.items() if not executed.isdisjoint(names.split())),
        gpu.basis,
    )


def record_launch(
    compiled: Compiled,
    kernel: Kernel,
    grid: Grid,
    arguments: Sequence[Argument],
    memory: Callable[[], GlobalMemory],
    gpu: GpuSpec,
) -> Recording:
    """Record the first blocks of a launch on one multiprocessor; see ``estimate_launch``."""
    grid = clustered(kernel, grid)
    fit, per_sm = _fitting(compiled, kernel, grid, gpu)
    resident = min(fit.blocks_per_sm, per_sm)
    with _as_not_estimated(resident):
        return record(_trace(compiled, kernel, grid, arguments, memory, resident), resident, gpu)


def _trace(
    compiled: Compiled,
    kernel: Kernel,
    grid: Grid,
    arguments: Sequence[Argument],
    memory: Callable[[], GlobalMemory],
    resident: int,
) -> Trace:
    """Trace the resident blocks of one multiprocessor, and the other blocks of their clusters."""
    blocks = resident * math.prod(grid.cluster or (1,))
    return traceable(compiled, kernel).trace(grid, arguments, blocks, memory, LONGEST)


@contextmanager
def _as_not_estimated(resident: int) -> Iterator[None]:
    """Raise ``NotEstimated`` for a trace that is too long or cannot be followed."""
    try:
        yield
    except TooLong:
        blocks = f"{resident} block{'s' * (resident > 1)}"
        raise NotEstimated(
            f"too long a trace: {blocks} of one multiprocessor execute more than {LONGEST:,} warp instructions"
        ) from None
    except Uncountable as reason:
        raise NotEstimated(f"its machine code cannot be followed: {reason}") from None


def _fitting(compiled: Compiled, kernel: Kernel, grid: Grid, gpu: GpuSpec) -> tuple[Occupancy, int]:
    """Return the occupancy and the blocks of the fullest multiprocessor. Raise ``NotEstimated`` for obstacles known
    before tracing."""
    cluster = math.prod(grid.cluster or (1,))
    if not compiled.cubin:
        raise NotEstimated("PTX of another compiler comes without machine code; pass CUDA C++")
    if not gpu.sms_for(cluster):
        raise NotEstimated(f"{gpu.name} has no clusters of {cluster} blocks")
    if synchronising_accesses.spins_on_memory(kernel):
        raise NotEstimated("its threads wait for other threads in a loop, and how long depends on time")
    try:
        unknown = unknown_units(compiled.sass, gpu)
    except UnknownArchitecture as reason:
        raise NotEstimated(str(reason)) from None
    if unknown:
        raise NotEstimated(f"the model has no rates of {', '.join(sorted(unknown))} on {gpu.name}")
    fit = occupancy(compiled.resources, grid.threads, grid.dynamic_shared, gpu)
    if not fit.blocks_per_sm:
        raise NotEstimated(f"no block fits on a multiprocessor of {gpu.name}: too many threads, registers or bytes")
    return fit, math.ceil(grid.blocks / gpu.sms_for(cluster))


def _of_multiprocessor(trace: Trace, per_sm: int, resident: int, gpu: GpuSpec) -> tuple[dict[str, float], str]:
    """Return microseconds of each unit of the fullest multiprocessor, as ``latency`` in all; and the busiest unit."""
    waves, rest = divmod(per_sm, resident)
    together = waves + bool(rest) == 1
    whole = play(trace, resident, gpu, together=together and uneven(resident, gpu), ended_arrive=True)
    played = [(waves, whole), *([(1, play(trace, rest, gpu, ended_arrive=True))] if rest else [])]
    parts = {name: sum(times * it.busy.get(name, 0.0) for times, it in played) for name in whole.busy}
    parts["latency"] = sum(times * it.clocks for times, it in played)
    busiest = max(whole.busy, key=lambda name: parts[name])
    if not together:  # a later block loads while others still multiply and store
        saved = max(2 * whole.clocks - play(trace, resident, gpu, 2, ended_arrive=True).clocks, 0.0)
        parts["latency"] = max(parts["latency"] - (waves + bool(rest) - 1) * saved, parts[busiest])
    return {name: clocks / (gpu.clock_hz / 1e6) for name, clocks in parts.items()}, busiest


def moved_bytes(trace: Trace, blocks: int, memory: GlobalMemory) -> tuple[float, float]:
    """Return the bytes of a launch of so many blocks through L2, and through DRAM, scaled from the traced blocks."""
    traced = len(trace.warps) // trace.warps_per_block
    asked = boxes = delivered = stored = 0
    read: set[int] = set()
    written: set[int] = set()
    for first in range(0, len(trace.warps), trace.warps_per_block):
        own: set[int] = set()
        for warp in trace.warps[first : first + trace.warps_per_block]:
            for _, touch in warp:
                if not isinstance(touch, Traffic) or touch.space != "global":
                    continue
                if touch.box:  # its sectors have no addresses
                    boxes += len(touch.sectors)
                    delivered += touch.delivered
                elif touch.load:
                    own.update(touch.sectors)
                else:
                    stored += len(touch.sectors)
                    written.update(touch.sectors)
        asked += len(own)
        read |= own
    scale = blocks / traced
    whole = sum(allocation.size for allocation in memory.allocations)
    dram = _once(read, scale, memory) + _once(written, scale, memory) + min(boxes * SECTOR * scale, whole)
    return (asked + delivered + stored) * SECTOR * scale, dram


def _once(sectors: set[int], scale: float, memory: GlobalMemory) -> float:
    """Return the bytes of buffers that all blocks touch: ``scale`` times the traced ones, each byte at most once."""
    touched = np.sort(np.fromiter(sectors, np.int64, len(sectors)))
    total = 0.0
    for allocation in memory.allocations:
        first, last = allocation.base // SECTOR, (allocation.base + allocation.size - 1) // SECTOR
        inside = int(np.searchsorted(touched, last, "right") - np.searchsorted(touched, first, "left"))
        total += min(inside * SECTOR * scale, allocation.size)
    return total
