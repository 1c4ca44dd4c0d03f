"""Records that the GPU device receives and returns: kernels to time, their times, facts about a GPU."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Literal

from gemm_lessons.devices.gpu.timing import Health, Spread, ratio_within_rounds
from gemm_lessons.engine import Finding
from gemm_lessons.engine.records import Grid, dataclass
from gemm_lessons.gemm import Shape

if TYPE_CHECKING:
    from gemm_lessons.engine.compiler import Compiled
    from gemm_lessons.gemm import DataSpec


@dataclass(frozen=True)
class Step:
    """One launch of a kernel: its code, its grid, and its parameters by name."""

    compiled: Compiled
    grid: Grid
    parameters: tuple[str, ...]


@dataclass(frozen=True)
class Entrant:
    """One participant of a measurement: launches timed together. ``role`` names its NVTX ranges and their colour."""

    label: str
    role: Literal["kernel", "previous", "reference"]
    steps: tuple[Step, ...]
    data: DataSpec | None = None  # for scratch of its own; else the measurement's


@dataclass(frozen=True)
class Timed:
    """One kernel's times, and whether its answers were right: all of C once, then one row each time."""

    label: str
    role: str
    spread: Spread  # microseconds
    flop: int
    rounds: tuple[int, ...] = ()  # in which the times were taken
    wrong: int = 0  # elements
    max_error: float = 0.0
    tolerance: float = 0.0
    overran: str = ""  # the buffer whose guard zone the kernel overwrote
    of_cublas: float | None = None  # its speed / cuBLAS's, compared round by round

    def beside(self, cublas: Timed | None) -> Timed:
        """Return it with its share of cuBLAS's speed, where cuBLAS was timed and the answers were right."""
        if cublas is None or self.wrong or self.overran:
            return self
        share = ratio_within_rounds(cublas.spread.times, cublas.rounds, self.spread.times, self.rounds)
        return replace(self, of_cublas=share)

    @property
    def time_us(self) -> float:
        """Return the median."""
        return self.spread.median

    @property
    def gflops(self) -> float:
        """Return 10^9 floating-point operations per second, at the median."""
        return self.flop / self.time_us / 1e3


@dataclass(frozen=True)
class Measurement:
    """Kernels timed side by side on one shape. After a ``fault`` (of ``culprit``) nothing was measured."""

    shape: Shape
    gpu: str
    kernels: tuple[Timed, ...] = ()
    cublas: Timed | None = None
    notes: tuple[str, ...] = ()  # reasons for doubt, in whole sentences
    health: Health = field(default_factory=Health)
    driver: str = ""
    cublas_version: int = 0
    held: bool = True  # no launch started before the host had queued all of its turn
    fault: Finding | None = None
    culprit: str = ""

    def of(self, label: str) -> Timed | None:
        """Return the kernel with this label."""
        return next((kernel for kernel in self.kernels if kernel.label == label), None)


@dataclass(frozen=True)
class GpuFacts:
    """Facts that a GPU reports. ``memory``, ``l2``: bytes; ``driver``: newest CUDA, such as 13000; ``count``: GPUs."""

    name: str
    arch: str
    memory: int
    sms: int
    l2: int
    driver: int
    count: int
    cupy: str
