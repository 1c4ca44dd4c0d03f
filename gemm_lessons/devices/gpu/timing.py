"""Statistics of raw times: medians with their spread, whether the clock is steady, and reasons for doubt.

This module is pure arithmetic on lists of microseconds, so it is tested without a GPU.
"""

from __future__ import annotations

import bisect
import math
import statistics
from collections.abc import Mapping, Sequence

from gemm_lessons.engine.records import dataclass

STEADY_WINDOW = 4  # bursts of launches that must agree
STEADY = 0.01  # relative agreement, before anything is timed
DRIFT = 0.03  # between the first and the last third of a series: above, the clock has changed
SCATTER = 0.05  # of the middle half of a series around its median: above, something interferes
SCATTER_US = 1.0  # below this the resolution of CUDA events, about half a microsecond, scatters by itself
BUSY = 10  # percent of the time that other processes kept the GPU busy before the run

# Bits of nvmlDeviceGetCurrentClocksEventReasons (nvml.h); the other bits are no reason for doubt.
SLOWED_BY: Mapping[int, str] = {
    0x04: "its power limit",
    0x08: "a hardware slowdown",
    0x20: "its temperature",
    0x40: "its temperature (hardware)",
    0x80: "the power supply (brake)",
}


@dataclass(frozen=True)
class Spread:
    """Repeated times of one kernel in microseconds: quartiles, count, and the raw values in order."""

    median: float
    q1: float
    q3: float
    times: tuple[float, ...]

    @classmethod
    def of(cls, times: Sequence[float]) -> Spread:
        """Compute quartiles by linear interpolation; a single time is its own quartiles."""
        if len(times) == 1:
            return cls(times[0], times[0], times[0], tuple(times))
        q1, median, q3 = statistics.quantiles(times, n=4, method="inclusive")
        return cls(median, q1, q3, tuple(times))

    @property
    def scatter(self) -> float:
        """Return the interquartile range / the median."""
        return (self.q3 - self.q1) / self.median

    @property
    def drift(self) -> float:
        """Return the relative slowdown of the last third against the first; 0 for fewer than six times."""
        third = len(self.times) // 3
        if third < 2:
            return 0.0
        return statistics.median(self.times[-third:]) / statistics.median(self.times[:third]) - 1


@dataclass(frozen=True)
class Health:
    """Reports of the driver's monitor; None where it did not answer. ``others`` are other processes."""

    clocks_mhz: tuple[int, ...] = ()  # of the multiprocessors, sampled while kernels ran
    highest_mhz: int | None = None
    slowed_by: int = 0  # bits of ``SLOWED_BY``, or-ed over the samples
    busy_percent: int | None = None  # before the run
    others: tuple[int, ...] = ()  # process ids
    temperature: int | None = None
    watts: float | None = None  # the median of the samples


def is_steady(times: Sequence[float]) -> bool:
    """Tell whether the last bursts agree, so that the clock no longer ramps."""
    last = times[-STEADY_WINDOW:]
    return len(last) == STEADY_WINDOW and max(last) - min(last) <= STEADY * min(last)


def repeats(estimates_us: Sequence[float], seconds: float, fewest: int, most: int) -> list[int]:
    """Return how often to time each kernel, given one time of each, so that all takes about ``seconds``.

    Every kernel gets an equal share of the time, as far as ``fewest`` and ``most`` allow.
    """
    share = seconds * 1e6 / len(estimates_us)
    return [min(max(int(share / max(time, 1e-3)), fewest), most) for time in estimates_us]


def ratio_within_rounds(
    base: Sequence[float], base_rounds: Sequence[int], times: Sequence[float], rounds: Sequence[int]
) -> float:
    """Return the median of base / time, each pair from the same round or the nearest that has a base.

    The clock falls under load; two times of one round share it.
    """
    ratios = []
    for time, number in zip(times, rounds, strict=True):
        after = bisect.bisect_left(base_rounds, number)
        near = min((after - 1, after), key=lambda at: _distance(base_rounds, at, number))
        ratios.append(base[near] / time)
    return statistics.median(ratios)


def _distance(rounds: Sequence[int], at: int, number: int) -> float:
    return abs(rounds[at] - number) if 0 <= at < len(rounds) else math.inf


def schedule(counts: Sequence[int]) -> list[list[int]]:
    """Return rounds of kernel numbers in which kernel i occurs ``counts[i]`` times, evenly spread, with a rotating
    first.

    With this interleaving, slow changes (clock, temperature) affect all kernels alike and leave the ratios unchanged.
    """
    total = max(counts)
    rounds = []
    for turn in range(total):
        due = [i for i, count in enumerate(counts) if (turn + 1) * count // total > turn * count // total]
        shift = turn % len(due) if due else 0
        rounds.append(due[shift:] + due[:shift])
    return rounds


@dataclass(frozen=True)
class Doubt:
    """A reason to doubt times: its kind, a whole sentence, and the kernel if it is about one."""

    kind: str
    text: str
    label: str = ""


def doubts(spreads: Mapping[str, Spread], health: Health, held: bool = True) -> tuple[str, ...]:
    """Return reasons to doubt these times, in whole sentences. ``spreads`` are by label."""
    return tuple(it.text for it in reasons(spreads, health, held))


def reasons(spreads: Mapping[str, Spread], health: Health, held: bool = True) -> tuple[Doubt, ...]:
    """Return the same as records."""
    found: list[Doubt] = []
    if not held:
        text = "Launches ran one at a time (under a profiler?): times below 100 us include the host's work."
        found.append(Doubt("launches one at a time", text))
    if health.busy_percent is not None and health.busy_percent >= BUSY:
        text = f"The GPU was {health.busy_percent}% busy with other work just before: times may be too long."
        found.append(Doubt("GPU busy", text))
    if health.others:
        processes = ", ".join(map(str, health.others[:5]))
        more = "es" if len(health.others) > 1 else ""
        text = f"Other programs hold this GPU (process{more} {processes}): if they compute, times are too long."
        found.append(Doubt("GPU shared", text))
    slow = [text for bit, text in SLOWED_BY.items() if health.slowed_by & bit]
    if slow and health.clocks_mhz:
        lowest, top = min(health.clocks_mhz), health.highest_mhz
        of = f" of {top}" if top else ""
        text = f"The GPU slowed down because of {' and '.join(slow)}: {lowest}{of} MHz while timing."
        found.append(Doubt("slow clock", text))
    drifting = {label: spread.drift for label, spread in spreads.items() if abs(spread.drift) > DRIFT}
    if drifting:
        label = max(drifting, key=lambda name: abs(drifting[name]))
        text = f"The times of {label} changed by {drifting[label]:+.0%} from first to last: run it again."
        found.append(Doubt("drift", text, label))
    scattered = {
        label: spread.scatter
        for label, spread in spreads.items()
        if spread.scatter > SCATTER and spread.q3 - spread.q1 > SCATTER_US
    }
    if scattered and not drifting:
        label = max(scattered, key=lambda name: scattered[name])
        text = f"The times of {label} scatter by {scattered[label]:.0%}: something else may use the GPU."
        found.append(Doubt("scatter", text, label))
    return tuple(found)
