"""A step of a run: collect what the kernel prints on the failed shape, else on the first one.

The simulator runs it even where there is a GPU: a GPU prints lines in any order, and to another process.
"""

from __future__ import annotations

from dataclasses import replace

from gemm_lessons.devices.gpu import ranges
from gemm_lessons.engine.records.results import in_a_row
from gemm_lessons.engine.simulator import Setting, Simulator
from gemm_lessons.gemm.problem import Problem
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.judging.evidence import Built, Checked
from gemm_lessons.judging.verdict import Faulted, TimedOut, WrongAnswer
from gemm_lessons.running.plan import RunPlan


def print_out(plan: RunPlan, built: Built, checked: Checked) -> Checked:
    """Add ``printed`` to the results of a kernel that calls ``printf``."""
    if not built.code.spoken or not checked.shapes:
        return checked
    shape = _shape_of(checked)
    ranges.announce(f"print {shape}")
    trial = Problem(built.lesson.data, shape, plan.seed).trial()
    simulator = Simulator(Setting(counting=False))
    done = []
    for kernel, grid, launch in zip(built.code.spoken, built.lesson.grids(shape), built.lesson.launches, strict=True):
        done.append(simulator.launch(kernel, grid, trial.arguments(launch.parameters)))
        if done[-1].fault is not None:
            break
    return replace(checked, printed=in_a_row(done).printed, printed_at=shape)


def _shape_of(checked: Checked) -> Shape:
    verdict = checked.verdict
    tried = [result.shape for result in checked.shapes]
    if isinstance(verdict, (Faulted, TimedOut, WrongAnswer)) and verdict.shape in tried:
        return verdict.shape
    return tried[0]
