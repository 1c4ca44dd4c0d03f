"""One launch of any kernel -> about how long it would take on a GPU that is not here. Always an estimate.

    PreparedLaunch --trace--> warps of one multiprocessor's blocks --play--> clocks of a wave
    T = launch + max(waves * clocks / clock rate, L2 bytes / bandwidth, DRAM bytes / bandwidth)

- The traced blocks are as many as a multiprocessor has at once, around one of average work. Their time counts for all,
  times the instructions of the average block, of sixteen all over the grid / theirs. Where all blocks fit at once, the
  launch takes at least as long as the longest of these blocks.
- Of a long loop, few iterations are traced; its time grows with each by the same.
- The fullest multiprocessor has ceil(blocks / multiprocessors) blocks; they come in waves of the resident ones.
- ``traffic`` tells what L1, L2 and DRAM serve, from the addresses. It takes L2 to be as the same launch before left it.
- Blocks begin one after the other on the whole chip.
- Where warpgroups multiply, the clock is the one at which the chip draws no more power than it may (``power``).
- What the model cannot know is refused by its reason (``NotEstimated``), never guessed.

``gemm/time_model.py`` is the model of matrix products: it knows how time grows with K, and which blocks share tiles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from gemm_lessons.engine.estimate.causes import Cause, LineShare, lines_of, shares
from gemm_lessons.engine.estimate.chip import (
    BUSY,
    HEATING,
    LAST_US,
    LAUNCH_US,
    at_power_limit,
    at_work,
    limiter_of,
    with_few,
)
from gemm_lessons.engine.estimate.items import grouped_columns, unknown_units
from gemm_lessons.engine.estimate.recording import Recording, record
from gemm_lessons.engine.estimate.timeline import Played, play, uneven
from gemm_lessons.engine.estimate.traffic import LaunchBytes, Levels, levels_of
from gemm_lessons.engine.hardware.occupancy import Occupancy, occupancy_of
from gemm_lessons.engine.hardware.sheets import GpuSpec, buildable, pipes_of
from gemm_lessons.engine.machine.special import clustered
from gemm_lessons.engine.ptx import synchronising_accesses
from gemm_lessons.engine.records.errors import UnknownArchitecture
from gemm_lessons.engine.records.launch import Argument, Grid, HostVariable
from gemm_lessons.engine.sass.operands import Uncountable
from gemm_lessons.engine.sass.reach import Sharing
from gemm_lessons.engine.sass.trace import LeavesMemory, SampledTrace, TooLong, Trace, Traceable, traceable
from gemm_lessons.engine.simulator import Simulator

if TYPE_CHECKING:
    from gemm_lessons.engine.compiler.compile import Compiled
    from gemm_lessons.engine.machine.memory import GlobalMemory
    from gemm_lessons.engine.ptx.records import Kernel

CUT = 150_000  # warp instructions of the blocks that are traced, if a loop can be cut: some seconds
LONGEST = 500_000  # if none can: some ten seconds and 300 MB
BLOCK_US = 0.0006  # from the beginning of one block to that of the next, on the whole chip: traffic_h200.json
BUSY_UNITS: Mapping[str, str] = {
    "issue": "schedulers issue instructions: they are",
    "fp32": "fp32 multiply-adds are",
    "tensor": "tensor cores are",
    "fp64": "fp64 units are",
    "shared": "shared memory is",
    "l1": "requests to global memory: L1 is",
    "l2": "L2 is",
    "dram": "DRAM is",
}


class NotEstimated(Exception):
    """This launch is outside of the time model. The message says why."""


@dataclass(frozen=True)
class LaunchEstimate:
    """About how long one launch would take on a GPU that is not here. Nothing was measured.

    ``time_us``: microseconds, from the launch to its end on an idle GPU whose L2 is as the same launch before left it.
    ``limiter``: what decides it: issue, fp32, tensor, fp64, shared, l1, l2, dram, latency (no unit is busy: warps wait)
    or launch; ``why``: the same in words. ``parts``: microseconds of each as if it were the only limit; ``launch``
    includes the beginning of all blocks, one after the other. ``blocks_per_sm`` and ``waves``: blocks resident on a
    multiprocessor, and how often the fullest one is filled. ``basis``: empty where estimates for this GPU were compared
    with measured times.
    """

    gpu: str
    time_us: float
    limiter: str
    parts: Mapping[str, float]
    blocks_per_sm: int
    waves: int
    basis: str = ""

    @property
    def busy(self) -> Mapping[str, float]:
        """The fraction of the time after the launch in which each unit is busy."""
        units = {name: us for name, us in self.parts.items() if name in BUSY_UNITS}
        return {name: us / max(self.time_us - LAUNCH_US, us, 1e-9) for name, us in units.items()}

    @property
    def why(self) -> str:
        """The reason for ``limiter``, in a few words."""
        if self.limiter == "launch":
            return "starting it and its blocks takes longest"
        if self.limiter == "latency":
            return f"no unit is busy for {BUSY:.0%} of the time: warps wait for results, or too few run"
        return f"{BUSY_UNITS[self.limiter]} busy for {self.busy[self.limiter]:.0%} of the time"

    def __repr__(self) -> str:
        besides = f", {self.basis}" if self.basis else ""
        return f"<estimate, not measured: {self.time_us:.3g} us on {self.gpu}, limited by {self.limiter}{besides}>"


@dataclass(frozen=True, eq=False)
class PreparedLaunch:
    """A launch as it is before it runs, for a GPU: everything that tells how long it takes there is a function of it.

    ``compiled``: machine code for ``gpu``; ``kernel``: its PTX; ``memory`` gives a new global memory. Blocks are traced
    once. The properties raise ``NotEstimated``.
    """

    compiled: Compiled
    kernel: Kernel
    grid: Grid
    arguments: Sequence[Argument]
    memory: Callable[[], GlobalMemory]
    gpu: GpuSpec

    @classmethod
    def of(
        cls,
        compiled: Compiled,
        grid: Grid,
        arguments: Sequence[Argument],
        gpu: GpuSpec,
        symbols: Sequence[HostVariable] = (),
    ) -> PreparedLaunch:
        """Prepare a launch; ``symbols`` are variables that the host sets. Raise ``NotEstimated`` for one that no GPU of
        the code's architecture allows, and ``UnsupportedKernel``."""
        device = Simulator()
        if refused := device.refusal(compiled, grid):
            raise NotEstimated(refused.message)
        kernel = device.kernel(compiled)
        memory = device.initial_memory(compiled, grid, arguments, symbols)
        return cls(compiled, kernel, clustered(kernel, grid), arguments, memory, gpu)

    @property
    def cluster(self) -> int:
        """Blocks of a cluster."""
        return math.prod(self.grid.cluster or (1,))

    @cached_property
    def fit(self) -> Occupancy:
        """Return how many blocks fit on a multiprocessor. Obstacles known before tracing are found here."""
        gpu, kernel = self.gpu, self.kernel
        if not self.compiled.cubin:
            raise NotEstimated("PTX comes without machine code; pass CUDA C++, or the PTX with its cubin")
        if (needed := buildable(gpu.arch)) != self.compiled.arch.rstrip("af"):
            raise NotEstimated(f"its machine code is for {self.compiled.arch}, and {gpu.name} needs {needed}")
        if not gpu.sms_for(self.cluster):
            raise NotEstimated(f"{gpu.name} has no clusters of {self.cluster} blocks")
        if synchronising_accesses.spins_on_memory(kernel):
            raise NotEstimated("its threads wait for other threads in a loop, and how long depends on time")
        try:
            unknown = unknown_units(self.compiled.sass, gpu)
        except UnknownArchitecture as reason:
            raise NotEstimated(str(reason)) from None
        if unknown:
            raise NotEstimated(f"the model has no rates of {', '.join(sorted(unknown))} on {gpu.name}")
        fit = occupancy_of(self.compiled.resources, self.grid.threads, self.grid.dynamic_shared, gpu)
        if not fit.blocks_per_sm:
            raise NotEstimated(f"no block fits on a multiprocessor of {gpu.name}: too many threads, registers or bytes")
        return fit

    @property
    def per_sm(self) -> int:
        """Blocks of the fullest multiprocessor."""
        return math.ceil(self.grid.blocks / self.gpu.sms_for(self.cluster))

    @property
    def resident(self) -> int:
        """Blocks that the fullest multiprocessor has at once."""
        return min(self.fit.blocks_per_sm, self.per_sm)

    @cached_property
    def sampled(self) -> SampledTrace:
        """Blocks that a multiprocessor has together, and their clusters. Without loops to cut, traces are longer."""
        blocks = self.resident * self.cluster
        with self.as_not_estimated():
            try:
                return self._followed.sample(self.grid, self.arguments, blocks, self.memory, CUT)
            except TooLong:
                return self._followed.sample(self.grid, self.arguments, blocks, self.memory, LONGEST)

    @cached_property
    def whole(self) -> Trace:
        """Trace as many blocks from their first instruction to their last; the sampled ones, unless these were cut."""
        sampled = self.sampled
        if sampled.short is None:
            return sampled.long
        with self.as_not_estimated():
            return self._followed.trace(self.grid, self.arguments, self.resident * self.cluster, self.memory, LONGEST)

    @cached_property
    def reach(self) -> Sharing | None:
        """What blocks all over the grid touch; None where they form clusters, and where so many cannot be followed."""
        if self.cluster > 1:
            return None
        try:
            return self._followed.reach(self.grid, self.arguments, self.memory, self.sampled.first)
        except Uncountable:
            return None

    @contextmanager
    def as_not_estimated(self) -> Iterator[None]:
        """Raise ``NotEstimated`` for a trace that is too long or cannot be followed."""
        try:
            yield
        except TooLong:
            blocks = f"{self.resident} block{'s' * (self.resident > 1)}"
            raise NotEstimated(
                f"too long a trace: {blocks} of one multiprocessor execute more than {LONGEST:,} warp instructions"
            ) from None
        except LeavesMemory as reason:
            raise NotEstimated(str(reason)) from None
        except Uncountable as reason:
            raise NotEstimated(f"its machine code cannot be followed: {reason}") from None

    @cached_property
    def _followed(self) -> Traceable:
        return traceable(self.compiled, self.kernel)


def estimate_launch(launch: PreparedLaunch) -> LaunchEstimate:
    """Estimate the time of a launch. Nothing is written. Raise ``NotEstimated``."""
    return _replay(launch, launch.gpu)


def _replay(launch: PreparedLaunch, gpu: GpuSpec) -> LaunchEstimate:
    """Estimate a launch on ``gpu``, another only in what traced blocks do not depend on. Raise ``NotEstimated``."""
    compiled, grid, sampled, resident = launch.compiled, launch.grid, launch.sampled, launch.resident
    with launch.as_not_estimated():
        trace = sampled.long
        executed = {trace.code[index].name for warp in trace.warps for index, _ in warp}
        gpu = with_few(at_work(gpu, grid.blocks, any(name in executed for name in HEATING)), grid.blocks)
        shared = (compiled.resources.shared_bytes + grid.dynamic_shared + gpu.shared_reserved_per_block) * resident

        def units(gpu: GpuSpec) -> tuple[dict[str, float], str, LaunchBytes]:
            levels, moved = levels_of(sampled, grid.blocks, shared, launch.memory(), gpu, lambda: launch.reach)
            parts, busiest = _of_multiprocessor(sampled, launch.per_sm, resident, gpu, levels)
            return parts | {"latency": parts["latency"] + LAST_US * bool(grouped_columns(trace))}, busiest, moved

        parts, busiest, moved = units(gpu)
    if gpu.power is not None and grouped_columns(trace):
        columns = sampled.whole(grouped_columns)
        products = columns * grid.blocks * pipes_of(gpu).grouped
        parts, pace = at_power_limit(parts, lambda it: units(it)[0], gpu, products, moved.l2, lambda _: moved.dram)
        time_us = pace.seconds * 1e6
    else:
        parts["l2"] = max(parts["l2"], moved.l2 / (gpu.l2_bytes_per_s / 1e6))
        parts["dram"] = moved.dram_seconds * 1e6
        parts["blocks"] = grid.blocks * BLOCK_US
        time_us = max(parts[name] for name in ("latency", "l2", "dram", "blocks"))
    parts["launch"] = LAUNCH_US + parts.pop("blocks", 0.0)
    return LaunchEstimate(
        gpu.name,
        LAUNCH_US + time_us,
        limiter_of(parts, busiest),
        parts,
        launch.fit.blocks_per_sm,
        math.ceil(launch.per_sm / resident),
        gpu.basis,
    )


def record_launch(launch: PreparedLaunch) -> Recording:
    """Record blocks of a launch on one multiprocessor, without most iterations of a loop that is too long. Raise
    ``NotEstimated``."""
    with launch.as_not_estimated():
        try:
            return record(launch.whole, launch.resident, launch.gpu)
        except NotEstimated:
            if launch.sampled.short is None:
                raise
            return replace(record(launch.sampled.long, launch.resident, launch.gpu), cut=True)


@dataclass(frozen=True)
class ExplainedLaunch:
    """An estimate with the microseconds of each cause, which add up to its time, and the lines of each cause."""

    estimate: LaunchEstimate
    shares: Mapping[Cause, float]
    lines: Mapping[Cause, tuple[LineShare, ...]]
    fit: Occupancy


def explain_launch(launch: PreparedLaunch) -> ExplainedLaunch:
    """Estimate a launch and share its time out over causes. Raise ``NotEstimated``."""
    gpu = launch.gpu
    lines = lines_of(launch.whole, record_launch(launch))
    balance = launch.grid.blocks / (gpu.sms_for(launch.cluster) * launch.per_sm)
    heats = any(it.opcode.startswith(HEATING) for it in launch.compiled.sass)
    spills = launch.whole.uses_local_memory

    def at(gpu: GpuSpec) -> LaunchEstimate:
        return _replay(launch, gpu)

    return ExplainedLaunch(at(gpu), shares(at, gpu, balance, heats=heats, spills=spills), lines, launch.fit)


def _of_multiprocessor(
    sampled: SampledTrace, per_sm: int, resident: int, gpu: GpuSpec, levels: Levels
) -> tuple[dict[str, float], str]:
    """Return microseconds of each unit of the fullest multiprocessor, as ``latency`` in all; and the busiest unit."""
    waves, rest = divmod(per_sm, resident)
    together = waves + bool(rest) == 1

    def played(blocks: int, *, together: bool = False) -> Played:
        def one(trace: Trace) -> Played:
            return play(trace, blocks, gpu, together=together, ended_arrive=True, levels=levels)

        long = one(sampled.long)
        if sampled.short is None:
            return long
        short = one(sampled.short)

        def whole(there: float, before: float) -> float:
            return there + sampled.beyond * max(there - before, 0.0)

        busy = {name: whole(clocks, short.busy[name]) for name, clocks in long.busy.items()}
        return Played(whole(long.clocks, short.clocks), busy)

    full = played(resident, together=together and uneven(resident, gpu))
    spans = [(waves, full), *([(1, played(rest))] if rest else [])]
    parts = {name: sum(times * it.busy.get(name, 0.0) for times, it in spans) for name in full.busy}
    parts["latency"] = sum(times * it.clocks for times, it in spans)
    busiest = max(full.busy, key=lambda name: parts[name])
    if not together:  # a later block loads while others still multiply and store
        one = sampled.short or sampled.long
        alone, two = (play(one, resident, gpu, n, ended_arrive=True, levels=levels).clocks for n in (1, 2))
        saved = max(2 * alone - two, 0.0)
        parts["latency"] = max(parts["latency"] - (waves + bool(rest) - 1) * saved, parts[busiest])
    microseconds = {name: sampled.work * clocks / (gpu.clock_hz / 1e6) for name, clocks in parts.items()}
    if together and sampled.longest > sampled.work:  # the longest block goes on when those beside it have ended
        last = sampled.longest * (full if resident == 1 else played(1)).clocks / (gpu.clock_hz / 1e6)
        microseconds["latency"] = max(microseconds["latency"], last)
    return microseconds, busiest
