"""The clock of a chip that draws all the power it may, and the time of a launch at that clock.

    power = idle + (products + bytes from L2) * clock / highest clock + bytes from DRAM        each an energy over time
    time  = clocks / clock, or longer where DRAM does not keep up

A lower clock makes the same work last longer, so that it draws less: the clock is where the power is the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gemm_lessons.engine.estimate.chip import NEXT_US
from gemm_lessons.engine.hardware.sheets import GpuSpec
from gemm_lessons.engine.records.frozen import dataclass

HALVINGS = 40
ROUNDS = 60  # until a time agrees with the bytes that blocks fetch again during it
SHARP = 4.0  # of the larger of two times that overlap, and of what the smaller adds to it
DRAM_SHARE = 0.9  # of the data sheet's bandwidth


@dataclass(frozen=True)
class Load:
    """A launch's work: clocks of the fullest multiprocessor, and those of all tensor cores together; bytes from L2.

    ``dram_bytes``: bytes of DRAM, given the share of the time in which DRAM works. ``on_end``: one launch follows the
    other, after ``NEXT_US`` in which nothing works; else it is the only one after a pause.
    """

    clocks: float
    tensor_clocks: float
    l2_bytes: float
    dram_bytes: Callable[[float], float]
    on_end: bool = False


@dataclass(frozen=True)
class Pace:
    """A launch at the clock that the chip holds with it."""

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


def at_pace(parts: Mapping[str, float], load: Load, gpu: GpuSpec) -> tuple[dict[str, float], Pace]:
    """Return ``parts``, microseconds of each unit at the clock of ``gpu``, at the clock that its power allows."""
    pace = paced(load, gpu)
    scaled = {name: time * gpu.clock_hz / pace.clock_hz for name, time in parts.items()}
    return scaled | {"dram": pace.dram_bytes / (gpu.dram_bytes_per_s / 1e6)}, pace


def _at(load: Load, gpu: GpuSpec, clock_hz: float) -> Pace:
    power = gpu.power
    assert power is not None
    working = load.clocks / clock_hz
    seconds, moved, busy = working, 0.0, 0.0
    for _ in range(ROUNDS):
        moved = load.dram_bytes(busy)
        fetching = moved / (DRAM_SHARE * gpu.dram_bytes_per_s)
        seconds = (working**SHARP + fetching**SHARP) ** (1 / SHARP)
        busy = fetching / seconds
    scaled = power.product_joules * load.tensor_clocks + power.l2_joules * load.l2_bytes
    joules = scaled * clock_hz / power.clock_hz + power.dram_joules * moved
    return Pace(clock_hz, seconds, power.idle_watts + joules / (seconds + NEXT_US / 1e6 * load.on_end), moved)
