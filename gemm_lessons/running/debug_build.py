"""Two steps of a run: a second look at a kernel, compiled as it is written, on one block and one K tile; and at the
products of a wrong answer by ``wgmma``.

    Built, Checked --second_look--> Checked with findings about a thread's own arrays, and how far an unfinished one is

The compiler keeps a thread's arrays in registers and leaves out what does not reach C. Without its optimisations both
can be seen: an index past the end of an array, the uninitialised element that makes a sum NaN, and what the finished
TODOs have stored where. A right kernel whose indices are known to stay inside is not looked at again. For any other
right kernel, a quick run first tells whether there is anything to find; a second process may do it while the first one
checks the kernel's answers.

    Built, Checked --with_misread--> Checked with a finding about the first product that reads something else

The launch that failed runs once more, unless C shows another mistake. A product may read outside of its tile; then this
finding replaces the one about those bytes as the verdict. Unfinished kernels and hidden shapes are left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from gemm_lessons.course import shown, todo_state
from gemm_lessons.devices import ranges
from gemm_lessons.engine import Finding, UnsupportedKernel
from gemm_lessons.engine.compiler import Compiled
from gemm_lessons.engine.records import METRICS, Location, Missed, PastAll, PastEnd
from gemm_lessons.engine.simulator import FinalMemory, Names, compile_as_written, run_as_written, stays_inside
from gemm_lessons.gemm import Shape
from gemm_lessons.judging import (
    Built,
    Checked,
    Faulted,
    NamedSentence,
    TimedOut,
    Unfinished,
    WrongAnswer,
    can_tell,
    contents,
    sentence,
    text_of_line,
)
from gemm_lessons.running.builder import variant_of
from gemm_lessons.running.jobs import Deferred, Jobs
from gemm_lessons.running.plan import KernelPlan, LaunchPlan, RunPlan

EFFECTS = ("async_in_flight", "uninitialised", "out_of_bounds")  # kinds of findings


def inside_job(plan: RunPlan, kernel: KernelPlan, source: str) -> Deferred[bool]:
    """Return a job that tells whether the kernel, as written, stays inside of each thread's own arrays."""
    return Deferred((kernel.role, "as written"), lambda: _stays_inside(plan, kernel, source))


def second_look(plan: RunPlan, kernel: KernelPlan, built: Built, source: str, checked: Checked, jobs: Jobs) -> Checked:
    """Add findings about a thread's own arrays, and how far an unfinished kernel is."""
    puzzling = isinstance(checked.verdict, WrongAnswer) and checked.verdict.is_vague
    valueless = _has_unexplained_nan(checked)
    todos = None if _mostly_right(checked) else todo_state(source, plan.stub)
    unfinished = todos is not None and bool(todos.open)
    if isinstance(checked.verdict, TimedOut) or not (unfinished or built.may_overrun or puzzling or valueless):
        return checked
    if todos is not None and unfinished:
        checked = replace(checked, unfinished=Unfinished(todos.done, todos.count))
    launch = plan.one_block
    if launch is None:
        return checked
    problem = launch.problem(plan.seed)
    tells = can_tell(problem) and (unfinished or puzzling)
    if not (built.may_overrun or valueless or tells):
        return checked
    ranges.announce(f"look again {launch.shape}")
    if not (valueless or tells) and jobs.result(inside_job(plan, kernel, source)):
        return checked
    lesson, (grid,), (step,) = launch.lesson, launch.grids, launch.lesson.launches
    trial, anew = problem.trial(), problem.trial()
    try:
        compiled = _as_written(plan, kernel, launch, source)
        if compiled is None:
            return checked
        run = run_as_written(
            compiled,
            built.code.counted[0],
            grid,
            trial.arguments(step.parameters),
            anew.arguments(step.parameters) if tells and lesson.tile == built.lesson.tile else None,
        )
    except UnsupportedKernel:  # it counts nothing and judges nothing: the run has done that without it
        return checked
    remains, names = run.written, run.names
    checked = _with_findings(checked, _past_the_end(remains, names, source), launch.shape)
    if valueless and not unfinished:
        checked = replace(checked, findings=(*_without_value(remains, names), *checked.findings))
    if tells and (unfinished or remains.fault is None):
        left_out = () if run.optimised is None else _left_out(remains, run.optimised, checked)
        checked = replace(checked, contents=(*contents(problem, trial, remains, names), *left_out))
    return checked


def _as_written(plan: RunPlan, kernel: KernelPlan, launch: LaunchPlan, source: str) -> Compiled | None:
    lesson, (step,) = launch.lesson, launch.lesson.launches
    return compile_as_written(
        source,
        shown(kernel.file),
        entry=step.entry,
        defines=lesson.tile.defines,
        include_dirs=lesson.include_dirs,
        arch=plan.workshop.targets[0].arch,
        withheld=(lesson.solution_path,),
    )


def _stays_inside(plan: RunPlan, kernel: KernelPlan, source: str) -> bool:
    """Tell whether a debug run would find nothing about a right kernel, also because it is impossible."""
    launch = plan.one_block
    if launch is None:
        return True
    (grid,), (step,) = launch.grids, launch.lesson.launches
    try:
        compiled = _as_written(plan, kernel, launch, source)
        arguments = launch.problem(plan.seed).trial().arguments(step.parameters)
        return compiled is None or stays_inside(compiled, grid, arguments)
    except UnsupportedKernel:
        return True


def _mostly_right(checked: Checked) -> bool:
    """Tell whether most of C is right, so that the kernel is complete, perhaps in other places than the TODOs. Not for
    zeros alone, however many elements should be 0."""
    if not isinstance(checked.verdict, WrongAnswer):
        return checked.right
    judged = checked.verdict.judgement
    return 2 * judged.wrong < judged.total and not (judged.pattern and judged.pattern.name == "all_zero")


def _has_unexplained_nan(checked: Checked) -> bool:
    """Tell whether C has NaN and no finding names memory or a variable that was read before it was set."""
    if not isinstance(checked.verdict, WrongAnswer) or checked.verdict.judgement.pattern is None:
        return False
    known = {it.kind for it in checked.findings} & {"uninitialised", "unset", "out_of_array"}
    return checked.verdict.judgement.pattern.name == "nan" and not known


def _without_value(remains: FinalMemory, names: Names) -> list[Finding]:
    """Return the first read of an element of each of a thread's own arrays that has no value yet."""
    starts = sorted((offset, name) for (space, _, offset), name in names.items() if space == "own")
    size = max((4 * words.shape[1] for words in remains.own.values()), default=0)
    found: dict[str, Finding] = {}
    for finding in remains.findings:
        place = finding.place
        if (finding.kind, finding.case) != ("uninitialised", "local") or place is None:
            continue
        before = [(offset, name) for offset, name in starts if offset <= place.byte]
        if before:
            start, name = before[-1]
            end = min((offset for offset, _ in starts if offset > start), default=size)
            own = Location("local", name, place.byte - start, end - start)
            found.setdefault(name, replace(finding, case="own", place=own))
    return list(found.values())


def _past_the_end(remains: FinalMemory, names: Names, source: str) -> list[Finding]:
    """Return indices past the end of a thread's own array, by its name. Optimised code does not show them."""
    found, fault = [], remains.fault
    if fault is not None and (fault.kind, fault.case) == ("out_of_bounds", "local") and fault.place is not None:
        starts = sorted((offset, name) for (space, _, offset), name in names.items() if space == "own")
        indexed = re.findall(r"\b(\w+)\s*\[", text_of_line(source, fault.line))
        meant = [(offset, name) for offset, name in starts if name in indexed]
        found.append(_past_all(fault, fault.place, starts, meant))
    for finding in remains.findings:
        past = finding.facts
        if finding.kind != "out_of_array" or finding.place is None or not isinstance(past, PastEnd):
            continue
        known = {start for space, owner, start in names if (space, owner) == ("own", past.variable)}
        end = past.start + finding.place.size
        if past.start in known and end in {*known, 4 * remains.own[past.variable].shape[1]}:
            # otherwise the array is cut where a pointer into it begins
            place = replace(finding.place, array=names["own", past.variable, past.start])
            found.append(replace(finding, severity="error", case="own", place=place))
    return found


def _past_all(
    fault: Finding, place: Location, starts: Sequence[tuple[int, str]], meant: Sequence[tuple[int, str]]
) -> Finding:
    """Return the fault as an index past the end of the only array that its line indexes, or of one of several."""
    missed = fault.facts
    others = missed.others if isinstance(missed, Missed) else None
    if len(meant) != 1:
        facts = PastAll(others, candidates=tuple(dict.fromkeys(name for _, name in meant)))
        return replace(fault, kind="out_of_array", case="one of several", facts=facts)
    start, name = meant[0]
    end = min((offset for offset, _ in starts if offset > start), default=place.size)
    place = Location("local", name, place.byte - start, end - start)
    return replace(fault, kind="out_of_array", case="own end", place=place)


def _with_findings(checked: Checked, found: list[Finding], shape: Shape) -> Checked:
    if not found:
        return checked
    known = [it for it in checked.findings if (it.kind, it.line) != ("out_of_array", found[0].line)]
    verdict = checked.verdict
    if not isinstance(verdict, Faulted) or verdict.finding.kind == "race":
        verdict = Faulted(shape, found[0])
    return replace(checked, verdict=verdict, findings=(*found, *known))


def _left_out(remains: FinalMemory, counted: FinalMemory, checked: Checked) -> tuple[NamedSentence, ...]:
    """Say why a counter is 0: the loads of these lines are executed as written, but not in the ``counted`` code.

    A line alone says little: where two loads have become one instruction, it has the line of one of them.
    """
    if checked.counters is None or counted.loaded >= remains.loaded:
        return ()
    requests = METRICS["global_load_requests"]
    lines = {it.line for it in checked.counters.lines if it.metric == requests and it.value}
    missing = sorted(remains.loads - lines)
    if not missing:
        return ()
    return (sentence("no_loads", lines=tuple(missing)),)


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
