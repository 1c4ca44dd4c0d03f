"""A step of a run: after a wrong answer by ``wgmma``, check whether products read what the copies put there.

    Built, Checked --with_misread--> Checked with a finding about the first product that reads something else

The launch that failed runs once more, unless C shows another mistake. A product may read outside of its tile; then this
finding replaces the one about those bytes as the verdict. Unfinished kernels and hidden shapes are left out.
"""

from __future__ import annotations

from dataclasses import replace

from gemm_lessons.course import todo_state
from gemm_lessons.engine import Finding, UnsupportedKernel
from gemm_lessons.judging import Built, Checked, Faulted, WrongAnswer, text_of_line
from gemm_lessons.running.builder import variant_of
from gemm_lessons.running.plan import KernelPlan, RunPlan

EFFECTS = ("async_in_flight", "uninitialised", "out_of_bounds")  # kinds of findings


def with_misread(plan: RunPlan, kernel: KernelPlan, built: Built, source: str, checked: Checked) -> Checked:
    """Add the finding about a product that reads something else than a tile of its matrix, if there is one."""
    verdict = checked.verdict
    if not isinstance(verdict, WrongAnswer | Faulted) or "wgmma" not in built.code.counted[0].ptx:
        return checked
    effects = [it for it in checked.findings if _may_be_an_effect(it, source)]
    if not effects and (isinstance(verdict, Faulted) or not verdict.is_vague):
        return checked
    launches = (it for it in kernel.launches if it.purpose not in ("sample", "tile"))
    launch = next((it for it in launches if it.shape == verdict.shape), None)
    todos = todo_state(source, plan.stub)
    if launch is None or launch.hidden or (todos is not None and todos.open):
        return checked
    code = variant_of(built, launch.lesson).code
    try:
        found = plan.device.misread(launch.task(code, launch.problem(plan.seed)))
    except UnsupportedKernel:  # the run itself has reported it
        return checked
    if found is None:
        return checked
    if isinstance(verdict, Faulted) and verdict.finding in effects:
        verdict = Faulted(verdict.shape, found)
    return replace(checked, verdict=verdict, findings=(found, *checked.findings))


def _may_be_an_effect(finding: Finding, source: str) -> bool:
    """Tell whether a product in this or the other line may have read outside of its tile."""
    lines = (finding.line, finding.other_line)
    return finding.kind in EFFECTS and any("wgmma" in text_of_line(source, it) for it in lines)
