"""Estimate a launch's time and bottleneck on a GPU from traced warps and the GPU's data sheet.

    SM(n) = clocks that one multiprocessor takes for n resident blocks, played by ``timeline``: a line in K
    n     = blocks of the fullest multiprocessor; R of them fit at once: n = waves * R + rest
    T     = launch + max((waves * SM(R) + SM(rest) - overlaps) / clock, L2 bytes / bandwidth, DRAM bytes / bandwidth)

- Where all blocks of a multiprocessor start with the launch, one begins after the other, and those that began first
  have priority. In later waves the order makes no difference, and blocks take turns.
- Overlaps: a block moves up when one ends, and loads while others store; as much as two waves of a short K save.
- L2 bytes: what a block reads and writes at least, its rows of A and columns of B, as the L1 cache or shared memory
  serves the rest; or its sectors, if those are fewer.
- DRAM bytes: every matrix once if they fit into L2; else the rows and columns that each wave of blocks needs.
- Where L2 does not hold the matrices, boxes and copies past L1 take DRAM's latency, and so do loads of a block that is
  alone on its multiprocessor or of kernels without barriers. Other blocks hide it from each other.
- Blocks of later waves that wait at barriers for each K tile are at different places of it: they are played at several
  distances from each other, and the average counts.
- Where tensor cores work on most multiprocessors, the clock is the one that the chip holds then. With products of
  warpgroups, it is the one at which the chip draws no more power than it may; blocks that copy far ahead drift apart
  while DRAM is busy, and fetch again what L2 no longer holds.
- Where blocks stay, and take one tile of C after the other, a tile counts as a block that moves up.
- The blocks of a cluster are on multiprocessors of their own, which are played together. Where clusters are large, some
  multiprocessors stay empty.
- Blocks along z divide the work along K; so do blocks that divide the K tiles of all tiles of C. Where more of the
  latter are started than fit at once, the first have a tile each, and the last wave divides the rest.
- Launches that follow each other take the sum of their times; only the first finds an idle GPU. What one of them
  leaves in L2, a later one need not read from DRAM.
- A launch without tiles, such as one that splits numbers, reads and writes each of its bytes once. Its blocks read
  again from DRAM what they read twice, if L2 cannot hold what all resident blocks touch.
- A launch may compute several products for each element of C, such as products of residues. It computes the tiles of
  one product after those of another, and L2 need only hold the matrices of one.
- The limiter is the unit that is busy most of the time; if none is for three quarters of it, the kernel waits: latency.

``lessons/common/ESTIMATE.md`` explains the model on a page and holds it against measurements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from gemm_lessons.engine import GpuSpec
from gemm_lessons.engine.estimate import (
    CAUSES,
    LAST_US,
    LAUNCH_US,
    NEXT_US,
    Cause,
    LineShare,
    at_power_limit,
    at_work,
    dram_rate,
    limiter_of,
    missed_by_l2,
    unknown_units,
)
from gemm_lessons.engine.hardware import occupancy_of, pipes_of
from gemm_lessons.engine.records import Grid, dataclass
from gemm_lessons.gemm.profile import Movement, Profile, Subject, profile_of
from gemm_lessons.gemm.shapes import Shape

L2_SHARE = 0.8  # usable fraction of the L2 cache for operands
# How fast blocks drift apart the more DRAM is busy: the line through what Nsight Compute counted for steps 2 to 4 of
# the ladder at 8192, with products and without (``counted`` in ladder_h200.json).
DRIFT = 4.15
SHORT = 0.02  # fraction of a block's time outside the main loop; below this, overlap with the next block is ignored


@dataclass(frozen=True)
class Estimate:
    """An estimated launch. ``parts`` are microseconds: for each unit, the time if it were the only limit; ``latency``,
    the time of the multiprocessor including stalls. ``limiter`` names the bottleneck: issue, fp32, tensor, fp64,
    shared, l1, l2, dram, latency or launch. ``clock_ghz`` and ``watts``: the chip's clock and power, where the power
    was estimated; else 0."""

    gpu: str
    shape: Shape
    time_us: float
    gflops: float
    limiter: str
    parts: Mapping[str, float]
    clock_ghz: float = 0.0
    watts: float = 0.0
    basis: str = ""  # ``GpuSpec.basis``
    balance: float = 1.0  # blocks of the average multiprocessor over those of the fullest


def estimate_at(
    profile: Profile, shape: Shape, grid: tuple[int, int, int], gpu: GpuSpec, *, on_end: bool = False, left: float = 0.0
) -> Estimate:
    """Return the time of a launch of ``grid`` blocks on ``gpu`` for ``shape``; the module's docstring states the
    model. ``on_end``: the launch is one of many without a pause, which matters where power lowers the clock. ``left``:
    bytes that it reads and that earlier launches have left in L2."""
    blocks = grid[0] * grid[1] * grid[2]
    resident = profile.blocks_per_sm
    tiled = _tiled(profile, shape, grid)
    turns = math.ceil(math.prod(tiled) / blocks) if profile.staying else 1  # tiles of a block, computed in turn
    sms = gpu.sms_for(profile.cluster)
    per_sm = math.ceil(blocks / sms) * turns
    waves, rest = divmod(per_sm, resident)
    cut = 0.0  # of K: the fraction in the last wave
    if profile.shared and blocks > resident * sms:
        rounds = tiled[0] * tiled[1] / (resident * sms)
        waves, rest, cut = int(rounds), 0, rounds % 1
    balance = 1.0 if cut else math.prod(tiled if profile.staying else grid) / (sms * per_sm)
    work = profile.work(shape.k)
    gpu = at_work(gpu, blocks, work.products > 0)
    together = waves + bool(rest) == 1 and not cut and not profile.staying
    near = _in_l2(profile, shape, gpu.l2_bytes)
    first = min(resident * sms, math.prod(tiled))
    boxes = profile.boxes(shape, first)
    asked = boxes.asked(in_step=near) * min(1.0, first / sms) if boxes else 0.0
    full = [(waves, resident, shape.k)] if waves else []
    if rest:
        full.append((1, rest, shape.k))
    cuts = [(1, resident, math.ceil(cut * shape.k))] if cut else []

    def units(gpu: GpuSpec) -> tuple[dict[str, float], str]:
        """Return microseconds of each unit of the fullest multiprocessor, as ``latency`` in all; and the busiest."""
        span = partial(profile.span, gpu=gpu, from_dram=not near, asked=asked)
        spans = [(times, span(count, together=together), depth) for times, count, depth in full]
        spans += [(times, span(count), depth) for times, count, depth in cuts]
        microsecond = gpu.clock_hz / 1e6
        parts: dict[str, float] = {}
        for times, one, depth in spans:
            for name, clocks in {**one.working(depth), "latency": one.clocks(depth)}.items():
                parts[name] = parts.get(name, 0.0) + times * clocks / microsecond
        busiest = max((name for name in parts if name != "latency"), key=lambda name: parts[name])
        between = sum(times for times, _, _ in spans) - 1  # times that a block replaces one that ended
        short = spans[0][1].fixed > SHORT * spans[0][1].clocks(shape.k)
        if between and (short or profile.staying):
            parts["latency"] -= between * profile.overlap(gpu) / microsecond
            parts["latency"] = max(parts["latency"], parts[busiest])
        if work.grouped:
            parts["latency"] += LAST_US
        return parts, busiest

    parts, busiest = units(gpu)
    if work.grouped and gpu.power is not None:
        count = math.prod(tiled) if profile.staying else blocks
        parts, pace = at_power_limit(
            parts,
            lambda it: units(it)[0],
            gpu,
            count * work.grouped * pipes_of(gpu).grouped,
            count * work.global_bytes,
            lambda busy: _drifting_bytes(profile, shape, tiled, resident * sms, gpu.l2_bytes, busy) - left,
            on_end=on_end,
        )
        time_us, clock_ghz, watts = LAUNCH_US + pace.seconds * 1e6, pace.clock_hz / 1e9, pace.watts
    else:
        l2_bytes = _l2_bytes(profile, blocks * turns * work.global_bytes, shape, tiled)
        parts["l2"] = max(parts["l2"], l2_bytes / (gpu.l2_bytes_per_s / 1e6))
        if profile.traffic.tiled:
            moved, rate = _dram_bytes(profile, shape, tiled, resident * sms, gpu.l2_bytes), gpu.dram_bytes_per_s
        else:
            in_flight = min(1.0, resident * sms / blocks)
            moved, rate = _untiled_dram(profile.traffic, shape, blocks * work.again, in_flight, gpu)
        parts["dram"] = (moved - left) / (rate / 1e6)
        time_us, clock_ghz, watts = LAUNCH_US + max(parts["latency"], parts["l2"], parts["dram"]), 0.0, 0.0
    parts["launch"] = LAUNCH_US
    gflops = profile.traffic.operations(shape) / time_us / 1e3
    limiter = limiter_of(parts, busiest)
    return Estimate(gpu.name, shape, time_us, gflops, limiter, parts, clock_ghz, watts, gpu.basis, balance)


@dataclass(frozen=True)
class Estimator:
    """Estimates for any shape, from the profile of each launch and its grid."""

    profiles: tuple[Profile, ...]
    grids_at: Callable[[Shape], Sequence[Grid]]

    def at(self, shape: Shape, gpu: GpuSpec) -> Estimate:
        """Return the time of all launches in sequence."""
        return in_a_row([at(gpu) for at in self._launches_at(shape, gpu)])

    def _launches_at(self, shape: Shape, gpu: GpuSpec) -> list[Callable[[GpuSpec], Estimate]]:
        """Return the estimate of each launch on any GPU, after those before it have left data in L2 of ``gpu``."""
        left = left_in_l2([profile.traffic for profile in self.profiles], shape, gpu)
        launches = zip(self.profiles, self.grids_at(shape), left, strict=True)
        return [partial(estimate_at, profile, shape, grid.grid, left=some) for profile, grid, some in launches]

    def lines_at(self, shape: Shape, gpu: GpuSpec) -> dict[Cause, tuple[LineShare, ...]]:
        """Return the lines of each cause in the longest launch."""
        launches = zip(self.profiles, self.grids_at(shape), strict=True)
        profile, _ = max(launches, key=lambda it: estimate_at(it[0], shape, it[1].grid, gpu).time_us)
        return profile.lines(gpu)

    def shares_at(self, shape: Shape, gpu: GpuSpec) -> dict[Cause, float]:
        """Return the microseconds of each cause in the time of all launches, which they add up to."""
        found: dict[Cause, float] = dict.fromkeys(CAUSES, 0.0)
        for profile, at in zip(self.profiles, self._launches_at(shape, gpu), strict=True):
            far = not _in_l2(profile, shape, gpu.l2_bytes)
            for cause, time_us in profile.shares(at, gpu, shape.k, at(gpu).balance, far=far).items():
                found[cause] += time_us
        found["launch"] += self.at(shape, gpu).time_us - sum(found.values())  # those that follow another take less
        return found


def estimator_for(
    subjects: Sequence[Subject], grids_at: Callable[[Shape], Sequence[Grid]], gpu: GpuSpec
) -> Estimator | str:
    """Return estimates of consecutive launches, one subject each; or why there are none on ``gpu``."""
    from gemm_lessons.engine.sass import Uncountable

    unknown: set[str] = set().union(*(unknown_units(it.compiled.sass, gpu) for it in subjects))
    if unknown:
        return f"the model has no timings of {', '.join(sorted(unknown))} on the {gpu.name}"
    profiles = []
    for subject in subjects:
        grid = subject.grid_at(subject.shapes.count)
        resident = occupancy_of(subject.compiled.resources, grid.threads, grid.dynamic_shared, gpu).blocks_per_sm
        if not resident:
            return f"no block fits on a multiprocessor of the {gpu.name}"
        try:
            profile = profile_of(subject, resident)
        except Uncountable as reason:
            return f"machine code for {subject.compiled.arch} cannot be followed: {reason}"
        if not gpu.sms_for(profile.cluster):
            return f"the data sheet of the {gpu.name} has no clusters of {profile.cluster} blocks"
        profiles.append(profile)
    return Estimator(tuple(profiles), grids_at)


def in_a_row(estimates: Sequence[Estimate]) -> Estimate:
    """Combine consecutive launches into one estimate; the limiter is that of the longest."""
    if len(estimates) == 1:
        return estimates[0]
    longest = max(estimates, key=lambda one: one.time_us)
    time_us = sum(one.time_us for one in estimates) - (len(estimates) - 1) * (LAUNCH_US - NEXT_US)
    work = sum(one.gflops * one.time_us for one in estimates)  # of operations
    names = dict.fromkeys(name for one in estimates for name in one.parts)
    parts = {name: sum(one.parts.get(name, 0.0) for one in estimates) for name in names}
    return Estimate(longest.gpu, longest.shape, time_us, work / time_us, longest.limiter, parts, basis=longest.basis)


def _tiled(profile: Profile, shape: Shape, grid: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return the grid with a block per tile of C (or several along z); about as many where blocks divide K tiles."""
    if not profile.shared and not profile.staying:
        return grid
    cols, rows = math.ceil(shape.n / profile.tile_cols), math.ceil(shape.m / profile.tile_rows)
    return cols, rows, profile.traffic.planes if profile.staying else max(1, round(math.prod(grid) / (cols * rows)))


def _l2_bytes(profile: Profile, sectors: float, shape: Shape, grid: tuple[int, int, int]) -> float:
    """Return the L2 bytes of all blocks, which request this many bytes of ``sectors``."""
    rows, cols, traffic = profile.tile_rows, profile.tile_cols, profile.traffic
    if not traffic.tiled:
        return sectors
    depth = shape.k / max(grid[2] // traffic.planes, 1)
    own = (rows * traffic.left + cols * traffic.right) * depth + rows * cols * traffic.target
    return min(sectors, math.prod(grid) * own)


def _in_l2(profile: Profile, shape: Shape, l2_bytes: float) -> bool:
    """Tell whether L2 holds everything that a launch reads for one of its matrices."""
    return profile.traffic.read(shape) / profile.traffic.planes <= L2_SHARE * l2_bytes


def _dram_bytes(profile: Profile, shape: Shape, grid: tuple[int, int, int], in_flight: int, l2_bytes: float) -> float:
    """Return the bytes between L2 and DRAM. Blocks start in the order x, y, z; ``in_flight`` are resident together."""
    traffic = profile.traffic
    operands, c = traffic.read(shape), traffic.written(shape)
    if _in_l2(profile, shape, l2_bytes):
        return operands + c
    along_z = max(grid[2] // traffic.planes, 1)
    cols = min(grid[0], in_flight)
    rows = min(grid[1], math.ceil(in_flight / grid[0]))
    slices = min(along_z, math.ceil(in_flight / (grid[0] * grid[1])))
    waves = math.ceil(grid[0] * grid[1] * along_z / in_flight)
    lines = rows * profile.tile_rows * traffic.left + cols * profile.tile_cols * traffic.right
    return max(operands, traffic.planes * waves * slices * lines * shape.k / along_z) + c


def _untiled_dram(traffic: Movement, shape: Shape, again: float, in_flight: float, gpu: GpuSpec) -> tuple[float, float]:
    """Return the bytes between L2 and DRAM of a launch without tiles, and their rate. If L2 cannot hold what the share
    ``in_flight`` of all blocks touches, blocks that read so many bytes ``again`` do not find them there, and DRAM reads
    and writes in turn."""
    read, written = traffic.read(shape), traffic.written(shape)
    missed = missed_by_l2(in_flight * (read + written), in_flight * written, gpu)
    read += again * missed
    slower = gpu.dram_bytes_per_s - dram_rate(read, written, gpu)
    return read + written, gpu.dram_bytes_per_s - missed * slower


def left_in_l2(launches: Sequence[Movement], shape: Shape, gpu: GpuSpec) -> list[float]:
    """Return the bytes that each of consecutive launches reads and finds in L2, where an earlier one left them.

    Between two accesses to one place of a buffer, half of both launches passes, on average, and all of those between
    them.
    """
    moved = [it.buffers(shape) for it in launches]
    written = [sum(writes.values()) for _, writes in moved]
    touched = [sum({**reads, **writes}.values()) for reads, writes in moved]

    def since(first: int, last: int, of: Sequence[float]) -> float:
        return (of[first] + of[last]) / 2 + sum(of[first + 1 : last])

    found, latest = [], dict[str, int]()
    for number, (reads, writes) in enumerate(moved):
        kept = {
            name: 1 - missed_by_l2(since(latest[name], number, touched), since(latest[name], number, written), gpu)
            for name in reads.keys() & latest.keys()
        }
        found.append(sum(reads[name] * share for name, share in kept.items()))
        latest |= dict.fromkeys([*reads, *writes], number)
    return found


def _drifting_bytes(
    profile: Profile, shape: Shape, grid: tuple[int, int, int], in_flight: int, l2_bytes: float, busy: float
) -> float:
    """Return the bytes of ``_dram_bytes`` for blocks that copy far ahead, in the order in which they take their tiles.

    ``busy``: the fraction of time that DRAM is busy. The larger it is, the further blocks drift apart that could share
    boxes. What fits into L2 remains there when the launch is repeated.
    """
    traffic, tiles = profile.traffic, math.prod(grid)
    operands, c = traffic.read(shape), traffic.written(shape)
    if operands + c <= L2_SHARE * l2_bytes:
        return 0.0
    in_flight = min(in_flight, tiles)
    boxes = None if _in_l2(profile, shape, l2_bytes) else profile.boxes(shape, in_flight)
    if boxes is None:
        return _dram_bytes(profile, shape, grid, in_flight, l2_bytes)
    each = tiles / in_flight * shape.k
    together = max(operands, each * boxes.distinct)
    held = min(1.0, L2_SHARE * l2_bytes / (boxes.distinct * shape.k))  # of K: so far blocks may drift apart
    again = (1 - held) * math.exp(-DRIFT * held * (1 / busy - 1)) if busy else 0.0
    return together + max(each * boxes.apart - together, 0.0) * again + c
