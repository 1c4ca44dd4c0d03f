"""The device protocol: launch a lesson's kernel and return its results. Callers do not depend on the kind of device.

Two devices exist: the simulator (``devices/simulated.py``), and a CUDA GPU whose launches the simulator repeats
(``devices/shadowed_gpu.py``). Both return counters and findings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from gemm_lessons.engine import Launched
from gemm_lessons.engine.records import Argument, Grid, dataclass, in_a_row
from gemm_lessons.gemm import DataSpec, Shape, Trial

if TYPE_CHECKING:
    from gemm_lessons.devices.gpu.cuda_gpu import Gpu
    from gemm_lessons.engine import Finding, GpuSpec, Simulator
    from gemm_lessons.engine.compiler import Compiled, SharedSass


Launcher = Callable[["Compiled", Grid, Sequence[Argument]], Launched]


@dataclass(frozen=True)
class BuildTarget:
    """The compile target: an architecture, and the newest CUDA whose code the driver loads (None: no limit)."""

    arch: str
    driver_major: int | None = None


@dataclass(frozen=True)
class Binaries:
    """A lesson's kernels, compiled for the counted architecture and for the timed GPU; the same if both are one."""

    counted: tuple[Compiled, ...]
    timed: tuple[Compiled, ...] | None  # None: they cannot be compiled for that GPU
    with_printf: tuple[Compiled, ...] = ()  # with printf, which the others then lack

    def take_apart(self) -> None:
        """Begin to disassemble kernels to be counted or timed, on another core, while first shapes are checked."""
        for kernels in (self.counted, self.timed or ()):
            for number, kernel in enumerate(kernels):
                kernel.start_sass(kernels[:number])

    def share_sass(self, shared: SharedSass) -> None:
        """Take the disassembly of the kernels to be counted from one that other kernels share. Begin that of others."""
        for kernel in self.counted:
            kernel.share_sass(shared)
        for kernel in self.timed or ():
            if kernel not in self.counted:
                kernel.start_sass()


@dataclass(frozen=True)
class Task:
    """Consecutive launches on the arrays of one trial, each with its grid and the names of its parameters. ``fresh``
    returns a new trial, the same each time; ``work`` is the total number of multiply-adds."""

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
    """Launches kernels. A method raises ``UnsupportedKernel`` when it cannot run the kernel at all."""

    @property
    def kind(self) -> Literal["simulator", "gpu"]:
        """Return the kind that the report names."""

    @property
    def name(self) -> str:
        """Return the name as shown to the user."""

    @property
    def sheet(self) -> GpuSpec | None:
        """Return the data sheet of this GPU; None if the device is not a GPU, or the kit has no sheet of it."""

    @property
    def target(self) -> BuildTarget | None:
        """Return the target that kernels must be compiled for to run here; None when the counted code runs here."""

    @property
    def timer(self) -> Gpu | None:
        """Return the device that times kernels beside cuBLAS; None where nothing can be timed."""

    @property
    def simulator(self) -> Simulator:
        """Return the simulator that counts launches. It alone runs some blocks, or finds those of a class."""

    def expecting(self, data: DataSpec, shape: Shape, seed: int) -> Device:
        """Return the same device, informed of the later measurement, which it may prepare while it waits."""

    def refusal(self, code: Binaries, grids: Sequence[Grid]) -> Finding | None:
        """Return why one of these launches is impossible here; None when all are possible."""

    def launch(self, task: Task, trial: Trial, counting: bool, checking: bool = True) -> Launched:
        """Run a task on ``trial``, writing its arrays: counters only if ``counting``, races only if ``checking``."""

    def grading(self) -> Device:
        """Return the same device for a graded run: it reports kernels that depend on a clock or choices of the GPU."""

    def counting_products(self) -> Device:
        """Return the same device for a lesson whose gates need the number of products that a tensor core sums."""

    def on_addresses(self, task: Task) -> Finding | None:
        """Return a finding, by the simulator, for a task whose execution or answer depends on buffers' addresses."""

    def on_next_launch(self, task: Task) -> Finding | None:
        """Return a finding, by the simulator, for an answer that depends on ``__device__`` variables left before."""

    def misread(self, task: Task) -> Finding | None:
        """Return a finding about the first product (``wgmma``) of a task with a wrong answer that reads other elements
        than a tile of its matrix. Every device does this on the simulator."""

    def recheck(self, task: Task, launched: Launched) -> Launched:
        """Repeat an uncounted launch with everything that the simulator checks, before its results blame the kernel.

        Raise ``Disagreement`` when the simulator's two engines differ.
        """
