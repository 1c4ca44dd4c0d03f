"""A step of a run: collect what the kernel prints on the failed shape, else on the first one.

The simulator runs it even where there is a GPU: a GPU prints lines in any order, and to another process.
"""

from __future__ import annotations

from dataclasses import replace

from gemm_lessons.devices import ranges
from gemm_lessons.engine import Simulator
from gemm_lessons.judging import Built, Checked, Faulted, TimedOut, WrongAnswer
from gemm_lessons.running.builder import variant_of
from gemm_lessons.running.plan import KernelPlan, LaunchPlan, RunPlan


def print_out(plan: RunPlan, built: Built, checked: Checked) -> Checked:
    """Add ``printed`` to the results of a kernel that calls ``printf``."""
    launch = _launch_of(plan.kernels[0], checked)
    variant = variant_of(built, launch.lesson)
    spoken = variant.code.spoken
    if not spoken or not checked.shapes:
        return checked
    ranges.announce(f"print {launch.shape}")
    problem = launch.problem(plan.seed)
    launcher = Simulator().uncounted.launch
    ran = launch.task(variant.code, problem).run(launcher, spoken, problem.trial())
    return replace(checked, printed=ran.printed, printed_at=launch.shape)


def _launch_of(kernel: KernelPlan, checked: Checked) -> LaunchPlan:
    """Return the launch that failed, else the first one."""
    verdict = checked.verdict
    failed = verdict.shape if isinstance(verdict, (Faulted, TimedOut, WrongAnswer)) else None
    whole = [launch for launch in kernel.launches if launch.purpose not in ("sample", "tile")]
    return next((launch for launch in whole if launch.shape == failed), whole[0])
