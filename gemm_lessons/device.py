"""What a device is: it launches a lesson's kernel and says all that came of it. Nobody further on asks which one it is.

Two exist: the simulator (``run/simulated.py``), and a CUDA GPU whose launches the simulator repeats
(``run/shadowed.py``). Both hand back counters and findings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from gemm_lessons.course.lesson import KernelSpec, Shape
from gemm_lessons.launch import Argument, Grid, Launched

if TYPE_CHECKING:
    from gemm_lessons.compiler.compile import Compiled
    from gemm_lessons.gpu import Gpu
    from gemm_lessons.hardware.sheets import GpuSpec


@dataclass(frozen=True)
class BuildTarget:
    """What to compile for: an architecture, and the newest CUDA whose code the driver loads (None: no driver asks)."""

    arch: str
    driver_major: int | None = None


@dataclass(frozen=True)
class Binaries:
    """One kernel, compiled for what counts it and for the GPU that its time is for: often the same thing."""

    counted: Compiled
    timed: Compiled | None  # None: it cannot be compiled for that GPU


@dataclass(frozen=True)
class Task:
    """One launch. ``arguments`` gives fresh ones, the same each time; ``work`` is its multiply-adds."""

    code: Binaries
    grid: Grid
    arguments: Callable[[], Sequence[Argument]]
    work: int


class Device(Protocol):
    """Launches kernels. Raises ``UnsupportedKernel`` when it cannot run this kernel at all."""

    @property
    def kind(self) -> Literal["simulator", "gpu"]:
        """What to call it in the report."""

    @property
    def name(self) -> str:
        """Its name as shown to the user."""

    @property
    def sheet(self) -> GpuSpec | None:
        """The data sheet of this very GPU; None when it is none, or one that the kit does not know."""

    @property
    def target(self) -> BuildTarget | None:
        """What a kernel must be compiled for to run here; None: what counts it runs too."""

    @property
    def timer(self) -> Gpu | None:
        """What times kernels beside cuBLAS; None where nothing can be timed."""

    def expecting(self, kernel: KernelSpec, shape: Shape, seed: int) -> Device:
        """The same device, told what is to be timed in the end: it may prepare that while it waits."""

    def refusal(self, code: Binaries, grid: Grid) -> str:
        """Why no such launch is possible here; empty when it is."""

    def launch(self, task: Task, arguments: Sequence[Argument], counting: bool) -> Launched:
        """Run a task once on ``arguments``, whose outputs are written back. Counters only with ``counting``."""

    def doubt(self, task: Task) -> None:
        """Before a kernel is blamed for what an uncounted launch showed: do the simulator's two engines see the same?

        Raises ``Disagreement`` when they do not.
        """
