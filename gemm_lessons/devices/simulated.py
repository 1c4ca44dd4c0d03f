"""The simulator as a device for lessons. It runs the code that it counts, and counts only on request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from gemm_lessons.devices.device import Binaries, Task
from gemm_lessons.engine import Counters, Finding, GpuSpec, HostVariable, Launched, Simulator
from gemm_lessons.engine.compiler import Compiled
from gemm_lessons.engine.hardware import occupancy_of, sheet_of
from gemm_lessons.engine.records import Argument, Grid, NoRoom
from gemm_lessons.gemm import DataSpec, Shape, Trial

# The budget of a batch in PTX instructions, per multiply-add of an average thread: enough for slow kernels, also at
# K = 32768.
PER_PRODUCT = 64
# Two launches do the same work if no counter differs by more than this share, or by that of the warp instructions.
ALIKE, LITTLE = 0.05, 0.01


class Simulated:
    """A device without a GPU. It refuses launches that no GPU of the counted architecture accepts, and raises
    ``UnsupportedKernel`` for instructions that the simulator does not have."""

    kind: Literal["simulator"] = "simulator"
    name = "simulator"
    sheet = None
    target = None
    timer = None

    def __init__(self, simulator: Simulator | None = None) -> None:
        self.simulator = simulator or Simulator()
        self._uncounted = self.simulator.uncounted
        self._rechecked: Binaries | None = None  # the last code that ``recheck`` followed ...
        self._blamed: set[frozenset[tuple[object, ...]]] = set()  # ... and the places of its errors, launch by launch

    def expecting(self, data: DataSpec, shape: Shape, seed: int) -> Simulated:
        """Return this device: nothing is timed here."""
        return self

    def refusal(self, code: Binaries, grids: Sequence[Grid]) -> Finding | None:
        """Return why no GPU of the counted code's architecture would launch it."""
        return no_room(code.counted, grids, sheet_of(code.counted[0].arch))

    def launch(self, task: Task, trial: Trial, counting: bool, checking: bool = True) -> Launched:
        """Run; check and count if asked."""
        simulator = self.simulator if counting else self._uncounted
        threads = sum(grid.blocks * grid.threads for grid in task.grids)
        budget = max(simulator.setting.budget, PER_PRODUCT * task.work // threads)
        simulator = Simulator(replace(simulator.setting, budget=budget, checking=checking))
        return task.run(simulator.launch, task.code.counted, trial)

    def grading(self) -> Simulated:
        """Return a device that reports kernels whose results depend on a clock or on choices of the GPU."""
        return Simulated(Simulator(replace(self.simulator.setting, portable=True)))

    def counting_products(self) -> Simulated:
        """Return a device that also counts how many products a tensor core sums."""
        return Simulated(Simulator(replace(self.simulator.setting, count_products=True)))

    def on_addresses(self, task: Task) -> Finding | None:
        """Return a finding for a task that compares an address with a number, or whose execution or answer changes when
        buffers have other addresses."""
        kernels = task.code.counted
        uses = [self.simulator.address_uses(kernel) for kernel in kernels]
        if compared := next((finding for finding, _ in uses if finding), None):
            return compared
        if not any(matters for _, matters in uses):
            return None
        outcomes = []
        for placement in range(3):
            trial, executed = task.fresh(), []
            for kernel, grid, parameters in zip(kernels, task.grids, task.parameters, strict=True):
                arguments = trial.arguments(parameters)
                executed.append(self.simulator.executed(kernel, grid, arguments, placement=placement))
            outcomes.append((executed, {name: array.tobytes() for name, array in trial.arrays.items()}))
        if outcomes[0] == outcomes[1] == outcomes[2]:
            return None
        return Finding("machine_dependent", "error", "address", file=kernels[0].path)

    def on_next_launch(self, task: Task) -> Finding | None:
        """Return a finding for a task whose answer or work changes where ``__device__`` variables hold what it left."""
        kernels = task.code.counted
        variables = [self.simulator.device_variables(kernel) for kernel in kernels]
        if not any(variables):
            return None
        simulator = Simulator(replace(self.simulator.setting, checking=False))
        kept: dict[str, HostVariable] = {}  # what the launches before left
        answers, works = [], []
        for _ in range(2):
            trial, work = task.fresh(), list[Counters]()
            for kernel, grid, parameters, its in zip(kernels, task.grids, task.parameters, variables, strict=True):
                blank = {it.name: HostVariable(it.name, np.zeros(it.size, np.uint8), given=False) for it in its}
                symbols = [kept.get(name, variable) for name, variable in blank.items()]
                ran = simulator.launch(kernel, grid, trial.arguments(parameters), symbols)
                if ran.fault is not None and ran.fault.kind in ("timeout", "memory"):
                    return None  # of the whole run, which is about to end
                kept |= {it.name: replace(it, given=True) for it in symbols}
                work.append(ran.counters)
            answers.append((ran.fault is None, {name: array.tobytes() for name, array in trial.arrays.items()}))
            works.append(work)
        if answers[0] == answers[1] and all(map(_is_alike, *works)):
            return None
        return Finding("machine_dependent", "error", "launches", file=kernels[0].path)

    def misread(self, task: Task) -> Finding | None:
        """Return a finding about the first product that reads other elements than a tile of its matrix."""
        found: list[Finding] = []

        def launch(kernel: Compiled, grid: Grid, arguments: Sequence[Argument]) -> Launched:
            if (finding := self.simulator.misread(kernel, grid, arguments)) is not None:
                found.append(finding)
            last = kernel is task.code.counted[-1]
            return Launched(Counters()) if last else self._uncounted.launch(kernel, grid, arguments)

        task.run(launch, task.code.counted, task.fresh())
        return found[0] if found else None

    def recheck(self, task: Task, launched: Launched) -> Launched:
        """Return the launch unchanged, after both engines have followed it and agree. Once they have agreed on a set of
        errors of a kernel, or on a wrong answer without any, the same set at another shape is not followed again: the
        kernel is known to be at fault."""
        if task.code is not self._rechecked:
            self._rechecked, self._blamed = task.code, set()
        errors = frozenset(
            (it.kind, it.file, it.line, it.other_line) for it in launched.findings if it.severity == "error"
        )
        if errors not in self._blamed:
            task.run(self.simulator.launch, task.code.counted, task.fresh())
            self._blamed.add(errors)
        return launched


def no_room(kernels: Sequence[Compiled], grids: Sequence[Grid], sheet: GpuSpec | None) -> Finding | None:
    """Return why not even one block fits on a multiprocessor; None when one does, or when there is no data sheet."""
    for compiled, grid in zip(kernels, grids, strict=True):
        if sheet and not occupancy_of(compiled.resources, grid.threads, grid.dynamic_shared, sheet).blocks_per_sm:
            return _too_large(compiled, grid, sheet)
    return None


def _too_large(compiled: Compiled, grid: Grid, sheet: GpuSpec) -> Finding:
    needs = compiled.resources
    shared = needs.shared_bytes + grid.dynamic_shared
    most = sheet.registers_per_block, sheet.shared_bytes_per_block
    facts = NoRoom(sheet.name, grid.threads, needs.registers, most[0], shared, most[1])
    return Finding("launch_failed", "error", "no room", facts=facts)


def _is_alike(one: Counters, other: Counters) -> bool:
    """Return whether two launches did the same work, but for what a message costs that is printed once."""
    little = LITTLE * (one.get("warp_instructions") or 0)
    pairs = ((number, other.totals.get(name, 0)) for name, number in one.totals.items())
    return all(abs(first - then) <= max(little, ALIKE * first, ALIKE * then) for first, then in pairs)
