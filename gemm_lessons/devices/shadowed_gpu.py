"""A GPU as a device for lessons: the simulator repeats launches and adds what a GPU cannot report.

    gpu.launch -> the answer, faults        simulator.launch -> counters, findings, the line and thread of a fault

The simulator's findings decide. A GPU stops only at some faults: an access far out of bounds, a barrier that not all
threads reach or a stack that is too small may leave it with the right answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from gemm_lessons.devices.device import Binaries, BuildTarget, Task
from gemm_lessons.devices.gpu.cuda_gpu import Gpu
from gemm_lessons.devices.simulated import Simulated, no_room
from gemm_lessons.engine import Finding, GpuSpec, Launched, Simulator, UnsupportedKernel
from gemm_lessons.engine.hardware import data_sheet, sheet_of
from gemm_lessons.engine.records import Grid, Quoted
from gemm_lessons.gemm import DataSpec, Shape, Trial

SIMULATED = 512**3  # multiply-adds up to which the simulator repeats a launch: less than a second


class ShadowedGpu:
    """A GPU with the simulator beside it. ``prepare`` is work for the GPU's process while the simulator counts."""

    kind: Literal["gpu"] = "gpu"

    def __init__(
        self, gpu: Gpu, simulated: Simulated | None = None, prepare: Callable[[], None] = lambda: None
    ) -> None:
        self._gpu = gpu
        self._simulated = simulated or Simulated()
        self._prepare = prepare

    @property
    def name(self) -> str:
        """Return the product's name."""
        return self._gpu.name

    @property
    def sheet(self) -> GpuSpec | None:
        """Return the maker's data sheet of this product."""
        return data_sheet(self._gpu.name)

    @property
    def target(self) -> BuildTarget:
        """Return the GPU's architecture, and what its driver loads."""
        return BuildTarget(self._gpu.arch, self._gpu.driver_major)

    @property
    def timer(self) -> Gpu:
        """Return the GPU itself."""
        return self._gpu

    @property
    def simulator(self) -> Simulator:
        """Return the simulator beside the GPU."""
        return self._simulated.simulator

    def expecting(self, data: DataSpec, shape: Shape, seed: int) -> ShadowedGpu:
        """Note the inputs of the measurement: the GPU's process makes them while the simulator counts."""
        if data.untimed:
            return self
        return ShadowedGpu(self._gpu, self._simulated, lambda: self._gpu.prepare(data, shape, seed))

    def refusal(self, code: Binaries, grids: Sequence[Grid]) -> Finding | None:
        """Return why this GPU would not launch the code. Without its own data sheet, the architecture's decides."""
        assert code.timed is not None
        return no_room(code.timed, grids, self.sheet or sheet_of(code.timed[0].arch))

    def launch(self, task: Task, trial: Trial, counting: bool, checking: bool = True) -> Launched:
        """Return the GPU's answer. The simulator repeats counted launches and faults. Repeating right answers on all
        other shapes would take as long as a quarter of the whole run."""
        assert task.code.timed is not None
        ran = task.run(self._gpu.launch, task.code.timed, trial)
        if counting and ran.fault is None and task.work <= SIMULATED:
            self._prepare()
        if not counting and ran.fault is None:
            return ran
        try:
            return self._shadowed(ran, task, counting, checking)
        except UnsupportedKernel as error:
            note = Finding("not_simulated", "note", line=error.line, facts=Quoted(str(error)))
            return replace(ran, findings=(*ran.findings, note))

    def grading(self) -> ShadowedGpu:
        """Return the same device; its simulator reports kernels that depend on a clock or on choices of the GPU."""
        return ShadowedGpu(self._gpu, self._simulated.grading(), self._prepare)

    def counting_products(self) -> ShadowedGpu:
        """Return the same device; its simulator also counts the products in a sum of a tensor core."""
        return ShadowedGpu(self._gpu, self._simulated.counting_products(), self._prepare)

    def on_addresses(self, task: Task) -> Finding | None:
        """Run the task on the simulator, and return a finding if it depends on the addresses of buffers."""
        return self._simulated.on_addresses(task) if task.work <= SIMULATED else None

    def on_next_launch(self, task: Task) -> Finding | None:
        """Run the task twice on the simulator, and return a finding if the first run changes the second one."""
        return self._simulated.on_next_launch(task) if task.work <= SIMULATED else None

    def misread(self, task: Task) -> Finding | None:
        """Run the task on the simulator, and return a finding about the first product that reads other elements."""
        return self._simulated.misread(task) if task.work <= SIMULATED else None

    def recheck(self, task: Task, launched: Launched) -> Launched:
        """Repeat the launch on the simulator alone, so that a profiler finds one kernel in each range."""
        try:
            return self._shadowed(launched, task, counting=True)
        except UnsupportedKernel:  # the counted launch reports it
            return launched

    def _shadowed(self, ran: Launched, task: Task, counting: bool, checking: bool = True) -> Launched:
        """Add what the simulator finds in the same launch. Its findings are first, since they name a line."""
        if task.work > SIMULATED:
            return ran
        seen = self._simulated.launch(task, task.fresh(), counting, checking)
        told = [it for it in (*seen.findings, seen.fault, *ran.findings, ran.fault) if it is not None]
        fault = seen.fault
        if fault is None and ran.fault is not None:  # the simulator's error, if it found one, explains the fault
            fault = next((it for it in seen.findings if it.severity == "error"), ran.fault)
        return Launched(seen.counters, told, fault, ran.time_us)
