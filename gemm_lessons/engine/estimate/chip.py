"""From one multiprocessor to a launch on the whole chip: constants and rules of every estimate, and the chip's clock.

Times are of an H200 unless their comment says otherwise; ``lessons/common/ESTIMATE.md`` says for which GPUs they hold.
The clock of a chip at its power limit, and the time of a launch at that clock:

    power = idle + (products + bytes from L2) * clock / highest clock + bytes from DRAM        each an energy over time
    time  = clocks / clock, or longer where DRAM does not keep up

A lower clock makes the same work last longer and draw less power: the chip has the highest clock within its limit. L2
keeps its own clock, so what waits for it waits for fewer clocks of a slower multiprocessor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from gemm_lessons.engine.hardware.sheets import GpuSpec, pipes_of
from gemm_lessons.engine.records.frozen import dataclass

LAUNCH_US = 6.5  # an empty kernel between two CUDA events, H200 idle: 5.9 and 7.0 in two readings of checks/readings
NEXT_US = 2.7  # of a launch that follows another: launch_queued_us of checks/readings/estimate/h200.json
BETWEEN_US = 1.42  # from the end of a launch to the next one's start, on end: launches in ends_h200.json there
# After products of warpgroups: from the last store until L2 has it. There, a tile alone takes 0.9 to 1.7 us more than
# each of 16 in a row, 1.2 in the mean, where few enough multiprocessors store that L2 is not the limit.
LAST_US = 1.2
HOT = 0.75  # share of the multiprocessors whose tensor cores lower the clock: half of an H200's do not, 128 of 132 do
HEATING = ("HMMA", "IMMA", "HGMMA", "IGMMA", "QGMMA")  # products that lower the clock; those in fp64 do not
FULL = 0.73  # share of the multiprocessors with a block from which on some GPC has its whole work (few_h200.json)
BUSY = 0.75  # a unit that is busy for at least this share of the time counts as the bottleneck
HALVINGS = 40
ROUNDS = 60  # iterations until a time agrees with the bytes that blocks fetch again during it
SHARP = 4.0  # exponent p of two overlapping times: (a**p + b**p) ** (1 / p), between their maximum and their sum
DRAM_SHARE = 0.9  # of the data sheet's bandwidth
SLOW = 0.7  # of the highest clock: a multiprocessor is simulated at both, and its clocks lie on the line between them


def at_work(gpu: GpuSpec, blocks: int, products: bool) -> GpuSpec:
    """Return ``gpu`` with its clock while ``blocks`` blocks run; ``products``: on tensor cores that lower it."""
    return gpu.hot if products and blocks >= HOT * gpu.sms else gpu


def with_few(gpu: GpuSpec, blocks: int) -> GpuSpec:
    """Return ``gpu`` while ``blocks`` blocks run. Where they are fewer than multiprocessors, each of these has a larger
    share of L2, up to what its port to L2 takes. Blocks that multiply tiles have no more of it than others: with this,
    lessons with 16 to 64 blocks came out up to 12% too fast."""
    pipes, working = pipes_of(gpu), share_of_l2(blocks, gpu)
    if working == 1.0:
        return gpu
    least = 1e9 * pipes.port_stored / gpu.clock_hz
    pipes = replace(
        pipes,
        stored_line_ns=working * pipes.stored_line_ns,
        stored_sector_ns=max(working * pipes.stored_sector_ns, least),
        stored_part_ns=max(working * pipes.stored_part_ns, least),
    )
    return replace(gpu, l2_bytes_per_s=gpu.l2_bytes_per_s / working, pipes=pipes)


def share_of_l2(blocks: int, gpu: GpuSpec) -> float:
    """Return the share of L2 that few ``blocks`` divide among them, for the slowest of them."""
    return min(blocks / (FULL * gpu.sms), 1.0)


def limiter_of(parts: Mapping[str, float], busiest: str) -> str:
    """Return the bottleneck of a launch.

    Memory or the launch itself, if one takes longest; else the ``busiest`` unit of the multiprocessors if it is busy
    for ``BUSY`` of their time; else ``latency``. ``parts`` are microseconds.
    """
    slowest = max(("latency", "l2", "dram", "launch"), key=lambda name: parts[name])
    return busiest if slowest == "latency" and parts[busiest] >= BUSY * parts["latency"] else slowest


@dataclass(frozen=True)
class Load:
    """A launch's work: busy clocks of all tensor cores together, and bytes from L2.

    ``working``: seconds of the fullest multiprocessor, given its clock. ``dram_bytes``: bytes of DRAM, given the
    fraction of the time in which DRAM is busy. ``on_end``: launches follow each other, with ``BETWEEN_US`` between them
    in which nothing works; else it is a single launch after a pause.
    """

    working: Callable[[float], float]
    tensor_clocks: float
    l2_bytes: float
    dram_bytes: Callable[[float], float]
    on_end: bool = False


@dataclass(frozen=True)
class Pace:
    """A launch at the clock that the chip sustains during it."""

    clock_hz: float
    seconds: float
    watts: float
    dram_bytes: float


def paced(load: Load, gpu: GpuSpec) -> Pace:
    """Return the pace at the highest clock whose power ``gpu`` may draw. Its sheet must know its power."""
    assert gpu.power is not None
    low, high = 0.0, gpu.power.clock_hz
    most = gpu.power.most_watts if load.on_end else gpu.power.burst_watts
    if (best := _at(load, gpu, high)).watts <= most:
        return best
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if _at(load, gpu, middle).watts > most:
            high = middle
        else:
            low = middle
    return _at(load, gpu, low)


@dataclass(frozen=True)
class Clocked:
    """Microseconds of each unit at any clock, from those at ``clock_hz`` and ``SLOW`` of it."""

    fast: Mapping[str, float]
    slow: Mapping[str, float]
    clock_hz: float

    def at(self, clock_hz: float) -> dict[str, float]:
        """Return the microseconds of each unit; its clocks are on the line through those at the two clocks."""
        relative = clock_hz / self.clock_hz
        weight = (relative - SLOW) / (1 - SLOW)
        return {
            name: (weight * time + (1 - weight) * SLOW * self.slow[name]) / relative for name, time in self.fast.items()
        }

    def working(self, clock_hz: float) -> float:
        """Return the seconds of the fullest multiprocessor."""
        return self.at(clock_hz)["latency"] / 1e6


def at_power_limit(
    parts: Mapping[str, float],
    units: Callable[[GpuSpec], Mapping[str, float]],
    gpu: GpuSpec,
    tensor_clocks: float,
    l2_bytes: float,
    dram_bytes: Callable[[float], float],
    *,
    on_end: bool = False,
) -> tuple[dict[str, float], Pace]:
    """Return ``parts``, microseconds of each unit, at the clock that the power of ``gpu`` allows. ``units`` returns
    them on any GPU. For the other arguments, see ``Load``."""
    slower = replace(gpu, clock_hz=SLOW * gpu.clock_hz)
    clocked = Clocked(parts, units(slower), gpu.clock_hz)
    pace = paced(Load(clocked.working, tensor_clocks, l2_bytes, dram_bytes, on_end), gpu)
    return clocked.at(pace.clock_hz) | {"dram": pace.dram_bytes / (gpu.dram_bytes_per_s / 1e6)}, pace


def _at(load: Load, gpu: GpuSpec, clock_hz: float) -> Pace:
    power = gpu.power
    assert power is not None
    working = load.working(clock_hz)
    seconds, moved, busy = working, 0.0, 0.0
    for _ in range(ROUNDS):
        moved = load.dram_bytes(busy)
        fetching = moved / (DRAM_SHARE * gpu.dram_bytes_per_s)
        seconds = (working**SHARP + fetching**SHARP) ** (1 / SHARP)
        busy = fetching / seconds
    scaled = power.product_joules * load.tensor_clocks + power.l2_joules * load.l2_bytes
    joules = scaled * clock_hz / power.clock_hz + power.dram_joules * moved
    return Pace(clock_hz, seconds, power.idle_watts + joules / (seconds + BETWEEN_US / 1e6 * load.on_end), moved)
