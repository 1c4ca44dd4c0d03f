"""What a device is: it launches a lesson's kernel and says all that came of it. Nobody further on asks which one it is.

Two exist: the simulator (``devices/simulated.py``), and a CUDA GPU whose launches the simulator repeats
(``devices/shadowed_gpu.py``). Both hand back counters and findings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.launch import Argument, Grid
from gemm_lessons.engine.records.results import Launched, in_a_row
from gemm_lessons.gemm.data import DataSpec
from gemm_lessons.gemm.problem import Trial
from gemm_lessons.gemm.shapes import Shape

if TYPE_CHECKING:
    from gemm_lessons.devices.gpu.cuda_gpu import Gpu
    from gemm_lessons.engine.compiler.compile import Compiled
    from gemm_lessons.engine.hardware.sheets import GpuSpec
    from gemm_lessons.engine.records.findings import Finding


Launcher = Callable[["Compiled", Grid, Sequence[Argument]], Launched]


@dataclass(frozen=True)
class BuildTarget:
    """What to compile for: an architecture, and the newest CUDA whose code the driver loads (None: no driver asks)."""

    arch: str
    driver_major: int | None = None


@dataclass(frozen=True)
class Binaries:
    """The kernels of a lesson's launches, compiled for what counts them and for the GPU that times are for: often the
    same thing."""

    counted: tuple[Compiled, ...]
    timed: tuple[Compiled, ...] | None  # None: they cannot be compiled for that GPU
    spoken: tuple[Compiled, ...] = ()  # with their printf, which the others then lack

    def take_apart(self) -> None:
        """Begin to disassemble, on another core, what will be counted or timed: it is wanted when the first shapes have
        been checked."""
        for kernels in (self.counted, self.timed or ()):
            for number, kernel in enumerate(kernels):
                kernel.start_sass(kernels[:number])


@dataclass(frozen=True)
class Task:
    """Launches that follow each other on the arrays of one trial, each with its grid and the names of its parameters.
    ``fresh`` gives a new trial, the same each time; ``work`` is the multiply-adds of them all."""

    code: Binaries
    grids: tuple[Grid, ...]
    parameters: tuple[tuple[str, ...], ...]
    fresh: Callable[[], Trial]
    work: int

    def run(self, launch: Launcher, kernels: Sequence[Compiled], trial: Trial) -> Launched:
        """Launch all ``kernels`` on ``trial``, until one faults."""
        done: list[Launched] = []
        for kernel, grid, parameters in zip(kernels, self.grids, self.parameters, strict=True):
            done.append(launch(kernel, grid, trial.arguments(parameters)))
            if done[-1].fault is not None:
                break
        return in_a_row(done)


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

    def expecting(self, data: DataSpec, shape: Shape, seed: int) -> Device:
        """The same device, told what is to be timed in the end: it may prepare that while it waits."""

    def refusal(self, code: Binaries, grids: Sequence[Grid]) -> Finding | None:
        """Why one of these launches is not possible here; None when all are."""

    def launch(self, task: Task, trial: Trial, counting: bool) -> Launched:
        """Run a task once on ``trial``, whose arrays are written. Counters only with ``counting``."""

    def doubt(self, task: Task, launched: Launched) -> Launched:
        """Before a kernel is blamed for what an uncounted launch showed: the same with all that the simulator sees.

        Raises ``Disagreement`` when its two engines do not see the same.
        """
