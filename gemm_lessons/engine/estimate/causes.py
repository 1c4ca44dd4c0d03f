"""Attribute the estimated time of a launch to causes: replay it on GPUs that lack one cause after the other.

    clock         the GPU keeps its highest clock
    launch        starting it and its blocks takes no time
    spills        local memory takes no time: registers that were spilled, and arrays that threads have there
    dram, l2      their bandwidth has no limit, and DRAM is as near as L2, but for loads and copies of a product
    waves         every multiprocessor has as many blocks as the average one
    conflicts     no access to shared memory conflicts
    waiting       DRAM is as near as L2 for loads and copies of a product, too
    arithmetic    integer and special units take no time; they are not among the units of an estimate
    waiting       the busiest unit works all the time
    requests, shared, instructions, arithmetic    that unit takes no time, in this order; the last are multiply-adds

Each cause gets the time that its removal saves after the causes before it were removed, so the shares add up to the
whole. The difference of two kernels is attributed by the differences of their shares.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal, Protocol

from gemm_lessons.engine.estimate.chip import LAUNCH_US
from gemm_lessons.engine.estimate.items import ASYNCHRONOUS, FP32, FP64, TENSOR, UNITS
from gemm_lessons.engine.estimate.recording import Recording
from gemm_lessons.engine.hardware.sheets import GpuSpec, pipes_of
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.sass.trace import LOCAL, Trace, Traffic

Cause = Literal[
    "clock", "spills", "dram", "l2", "waves", "conflicts", "waiting", "requests", "shared", "instructions",
    "arithmetic", "launch",
]  # fmt: skip
CAUSES: tuple[Cause, ...] = Cause.__args__  # type: ignore[attr-defined]
WORK: Mapping[Cause, tuple[str, ...]] = {  # in the order of removal, with the units of an estimate
    "requests": ("l1",),
    "shared": ("shared",),
    "instructions": ("issue",),
    "arithmetic": ("fp32", "tensor", "fp64"),
}
REMOVED: tuple[Cause, ...] = (
    "clock",
    "launch",
    "spills",
    "dram",
    "l2",
    "waves",
    "conflicts",
    "waiting",  # of a product's loads and copies, for DRAM
    "arithmetic",
    "waiting",
    *WORK,
)
WAITS = (
    "fixed",
    "global",
    "shared",
    "result",
    "barrier",
)  # states of a warp that waits for something other than a unit
CALCULATING = (FP32, TENSOR, FP64, ASYNCHRONOUS)


class Replayed(Protocol):
    """An estimate: microseconds in all, and of each unit."""

    @property
    def time_us(self) -> float:
        """Return the time of the launch."""
        ...

    @property
    def parts(self) -> Mapping[str, float]:
        """Return the time of each unit as if it were the only limit."""
        ...


@dataclass(frozen=True)
class LineShare:
    """A source line and its share of one cause's time in its kernel, from 0 to 1."""

    file: str
    line: int
    share: float


def shares(
    at: Callable[[GpuSpec], Replayed],
    gpu: GpuSpec,
    balance: float,
    *,
    heats: bool = True,
    far: bool = False,
    spills: bool = True,
) -> dict[Cause, float]:
    """Return the microseconds of each cause; they add up to the time of ``at(gpu)``, the estimate on any GPU.

    ``balance``: blocks of the average multiprocessor over those of the fullest. ``heats``: the kernel multiplies on
    tensor cores, which may lower the clock. ``far``: it is a product, and L2 does not hold its matrices. ``spills``: it
    uses local memory.
    """
    cold = replace(gpu, tensor_clock_hz=None, power=None)
    pipes = replace(pipes_of(gpu), local=0.0)
    unspilled = replace(cold, pipes=pipes)
    near = replace(cold, dram_bytes_per_s=math.inf, pipes=replace(pipes, far=pipes.l2, dram=pipes.dram if far else 0.0))
    pipes = replace(near.pipes or pipes, box_sector=0.0, box_ns=0.0)
    pipes = replace(pipes, stored_line_ns=0.0, stored_sector_ns=0.0, stored_part_ns=0.0)
    pipes = replace(pipes, port=0.0, port_dram=0.0, port_stored=0.0)
    free = replace(near, l2_bytes_per_s=math.inf, pipes=pipes)
    even = replace(free, pipes=replace(pipes, conflicts=False))
    close = replace(even, pipes=replace(even.pipes or pipes, alone=0.0, dram=0.0)) if far else even
    simple = replace(close, pipes=replace(close.pipes or pipes, integer=0.0, special=0.0))
    now = at(gpu)
    highest = at(cold) if heats else now
    kept = at(unspilled) if spills else highest
    without_dram, without = at(near).parts, at(simple).parts
    alone, spread = at(free).parts["latency"], at(even).parts["latency"]
    near_loads = at(close).parts["latency"] if far else spread
    work = {
        cause: max((without.get(unit, 0.0) for unit in units), default=0.0) * balance for cause, units in WORK.items()
    }
    left = [  # before any removal, and after each
        now.time_us - LAUNCH_US,
        highest.time_us - LAUNCH_US,
        *(max(it.parts[name] for name in ("latency", "l2", "dram")) for it in (highest, kept)),
        max(without_dram["latency"], without_dram["l2"]),
        alone,
        alone * balance,
        spread * balance,
        near_loads * balance,
        without["latency"] * balance,
        *(max(list(work.values())[first:]) for first in range(len(work))),
        0.0,
    ]
    found: dict[Cause, float] = dict.fromkeys(CAUSES, 0.0)
    for cause, (before, after) in zip(REMOVED, pairwise(left), strict=True):
        found[cause] += before - after
    found["launch"] += LAUNCH_US
    return found


def lines_of(trace: Trace, recording: Recording) -> dict[Cause, tuple[LineShare, ...]]:
    """Return the source lines of each cause that can be attributed to lines, the largest share first."""
    sums: dict[Cause, dict[tuple[str, int], float]] = defaultdict(lambda: defaultdict(float))

    def add(cause: Cause, place: int, amount: float) -> None:
        source = trace.code[place].source
        if source.line is not None and amount > 0:
            sums[cause][source.file, source.line] += amount

    fetched: set[int] = set()
    for warp in trace.warps:
        for place, touch in warp:
            add("instructions", place, 1)
            if UNITS.get(trace.code[place].name) in CALCULATING:
                add("arithmetic", place, 1)
            if trace.code[place].name in LOCAL:
                add("spills", place, 1)
            if not isinstance(touch, Traffic) or touch.space == "local":
                continue
            if touch.space == "shared":
                add("conflicts", place, touch.passes - touch.ideal)
                add("shared", place, touch.ideal)
                continue
            add("requests", place, touch.passes)
            add("l2", place, len(touch.sectors))
            new = set(touch.sectors) - fetched
            fetched |= new
            add("dram", place, len(new))
            if touch.written:  # a copy into shared memory
                add("conflicts", place, touch.written - touch.even)
    for span in recording.spans:
        if span.state in WAITS:
            add("waiting", span.place if span.cause < 0 else span.cause, span.end - span.start)
    return {cause: _ranked(lines) for cause, lines in sums.items()}


def _ranked(lines: Mapping[tuple[str, int], float]) -> tuple[LineShare, ...]:
    whole = sum(lines.values())
    ordered: Sequence[tuple[tuple[str, int], float]] = sorted(lines.items(), key=lambda it: -it[1])
    return tuple(LineShare(file, line, amount / whole) for (file, line), amount in ordered)
