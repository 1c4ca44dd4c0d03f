"""Two steps of a run: check a kernel on every shape, then judge whether it uses the lesson's method.

Built --check--> Checked (verdict, findings, counters) --judge_method--> Checked (with the gates)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from gemm_lessons.course import Lesson, read_source, tile_sizes
from gemm_lessons.devices import ranges, stage
from gemm_lessons.engine import Finding, Launched, UnsupportedKernel
from gemm_lessons.engine.process import Bounds, OutOfTime, bounds
from gemm_lessons.engine.records import Hang, Quoted
from gemm_lessons.gemm import Trial
from gemm_lessons.judging import (
    Built,
    Checked,
    CompileFailed,
    CountedLaunch,
    Faulted,
    Judgement,
    Passed,
    TimedOut,
    Verdict,
    WrongAnswer,
    judge,
    judge_launches,
    stopped,
    verdict_of,
)
from gemm_lessons.running.builder import variant_of
from gemm_lessons.running.jobs import Deferred, Jobs
from gemm_lessons.running.machine_dependence import environment_register, fixed
from gemm_lessons.running.outcome import LaunchResult
from gemm_lessons.running.plan import KernelPlan, LaunchPlan, RunPlan
from gemm_lessons.running.rare_blocks import rare_blocks_of_variants, rare_launches
from gemm_lessons.running.rare_sizes import launches_at_rare_sizes
from gemm_lessons.running.sampling import ended, not_judged, run_tile, sampled, sampled_late
from gemm_lessons.running.variants import Variants

STOPS = ("timeout", "memory")  # kinds of findings
# A missing fence lets products read values that threads have overwritten. This is a warning for any kernel, because
# published ones lack it and run, and an error in a lesson. Other fences and waits that the PTX ISA requires make no
# difference on an H200: they remain remarks.
UNDEFINED = ("async_proxy", "product")


class _Obstructed(Exception):
    """Raised with a finding if nothing may be launched."""

    def __init__(self, obstacle: Finding) -> None:
        super().__init__(obstacle.kind)
        self.obstacle = obstacle


def check(plan: RunPlan, kernel: KernelPlan, variants: Variants, jobs: Jobs) -> Checked:
    """Launch on every planned shape. The first shape that fails gives the verdict. Raise ``VariantFailed``.

    A fault or an endless kernel ends the checks: the next shape would probably fail in the same way, slowly. So does
    any failure of a graded run, once the known shapes are done: hidden ones would only repeat it.
    """

    def free(built: Built) -> Built:
        if obstacle := _obstacle(plan, kernel, built):
            raise _Obstructed(obstacle)
        return built

    def built_for(launch: LaunchPlan) -> Built:
        return free(variants.of(launch.lesson) if launch.purpose != "sample" else variants.whole())

    try:
        if not variants.are_coming:
            free(variants.whole())
        try:
            results = _launched(plan, kernel, built_for, jobs)
        except UnsupportedKernel:
            free(variants.whole())  # a variant that does not compile is the better explanation
            raise
        free(variants.whole())
        if plan.request.graded and kernel.role == "kernel" and all(it.verdict.kind == "passed" for it in results):
            results += _at_rare_sizes(plan, variants.whole(), jobs)
    except _Obstructed as it:
        return Checked(Faulted(kernel.counting_shape, it.obstacle), findings=(it.obstacle,))
    checked = _summed(results)
    if plan.request.graded and kernel.role == "kernel":
        checked = replace(checked, findings=(*checked.findings, *_asking_for_lanes(plan, variants.whole())))
    each = [it for result in results for it in (*result.before, result)]
    counted = [(it.shape, it.counters) for it in each if it.counted and it.fault is None]
    if not counted:
        return checked
    return replace(checked, counters=counted[0][1], hidden_counters=tuple(counted[1:]))


def _asking_for_lanes(plan: RunPlan, built: Built) -> tuple[Finding, ...]:
    """Return a note on a kernel that does what it does because of the lanes that are active."""
    codes = (code for it in (built, *built.others) for code in it.code.counted)
    for asks in filter(None, (plan.device.simulator.decisions(it).asks_for_lanes for it in codes)):
        file, line = asks.source.places[-1] if asks.source and asks.source.places else ("", None)
        return (Finding("active_lanes", "note", line=line, file=file),)
    return ()


def _obstacle(plan: RunPlan, kernel: KernelPlan, built: Built) -> Finding | None:
    """Return why nothing is launched: no GPU could, or a graded kernel reads registers that differ between machines."""
    variants, grids = (built, *built.others), kernel.lesson.grids(kernel.lesson.shapes.count)
    refusals = (plan.device.refusal(it.code, grids) for it in variants if it.is_assembled)
    if refused := next(filter(None, refusals), None):
        return refused
    codes = (code for it in variants for code in it.code.counted) if plan.request.graded else ()
    return next(filter(None, map(environment_register, codes)), None)


def _launched(
    plan: RunPlan, kernel: KernelPlan, built_for: Callable[[LaunchPlan], Built], jobs: Jobs
) -> list[LaunchResult]:
    """Return the results in the order of the plan, up to the first fault, or to the first hidden shape after a failure.
    Launches that only this process does, such as the counted one, come first; what the second process does is received
    last."""
    work = [launch_job(plan, kernel, launch, partial(built_for, launch)) for launch in kernel.launches]
    here: dict[Hashable, LaunchResult] = {}
    for job, launch in sorted(zip(work, kernel.launches, strict=True), key=lambda it: jobs.is_shared(it[0].key)):
        if launch.hidden and any(it.verdict.kind != "passed" for it in here.values()):
            return list(here.values())  # a graded run has no second process
        if jobs.claim(job.key):
            here[job.key] = _in_time(plan, launch, job, jobs)
            if here[job.key].fault is not None:
                break
    results = []
    for job, launch in zip(work, kernel.launches, strict=True):
        if job.key not in here:
            ranges.announce(f"{launch.purpose} {launch.shape}")  # by the second process
        results.append(here[job.key] if job.key in here else jobs.result(job))
        if results[-1].fault is not None:
            break
    return results


def _at_rare_sizes(plan: RunPlan, built: Built, jobs: Jobs) -> list[LaunchResult]:
    """Return the results at more shapes, whose sizes matter to this kernel, and of rare blocks of its variants, up to
    the first failure."""
    results: list[LaunchResult] = []
    for launch, variant in chain(rare_blocks_of_variants(plan, built), launches_at_rare_sizes(plan, built)):
        run = partial(_sampled, counting=launch.purpose == "count") if launch.sample else execute
        job = Deferred(("rare", launch.shape, launch.leading), partial(run, plan, launch, variant))
        results.append(_in_time(plan, launch, job, jobs))
        if results[-1].verdict.kind != "passed":
            break
    return results


def _in_time(plan: RunPlan, launch: LaunchPlan, job: Deferred[LaunchResult], jobs: Jobs) -> LaunchResult:
    """Return the result of a launch. What a graded run found before counts when its time or memory is used up."""
    if not (plan.request.graded and launch.hidden):
        return jobs.result(job)
    try:
        return jobs.result(job)
    except (OutOfTime, MemoryError) as end:
        return ended(launch.shape, stopped_by(end, bounds.current()))


def stopped_by(end: OutOfTime | MemoryError, most: Bounds) -> Finding:
    """Return the finding for a run that was stopped by its limits, outside of a launch."""
    if isinstance(end, OutOfTime):
        return Finding("timeout", "error", end.case, facts=Quoted(f"{end}{most.advice}"))
    return Finding("memory", "error", "bounds", facts=Quoted(f"{most.too_much}{most.advice}"))


def launch_job(
    plan: RunPlan, kernel: KernelPlan, launch: LaunchPlan, get: Callable[[], Built]
) -> Deferred[LaunchResult]:
    """Return a job for one launch of one kernel, which ``get`` builds."""
    key = (kernel.role, launch.shape, launch.tile) if launch.tile else (kernel.role, launch.shape)
    return Deferred(key, lambda: execute(plan, launch, get()))


def execute(plan: RunPlan, launch: LaunchPlan, built: Built) -> LaunchResult:
    """Run a planned launch and judge the answer. A kernel that was compiled only to PTX runs again with machine code
    unless all is right: both engines must agree before a kernel is blamed."""
    result = _execute(plan, launch, built)
    variant = variant_of(built, launch.lesson)
    clean = result.verdict.kind == "passed" and all(it.severity != "error" for it in result.findings)
    if clean or variant.is_assembled:
        return result
    return _execute(plan, launch, _assembled(plan, launch.lesson))


def _execute(plan: RunPlan, launch: LaunchPlan, built: Built) -> LaunchResult:
    ranges.announce(f"{launch.purpose} {launch.shape}")
    if launch.purpose == "sample":
        return _sample(plan, launch, built)
    if launch.purpose == "tile":
        with stage("check", str(launch.shape)):
            return run_tile(plan, launch, built)
    built = variant_of(built, launch.lesson)
    with stage("count" if launch.is_counted else "check", str(launch.shape), payload=launch.operations):
        problem = launch.problem(plan.seed)
        trial, task = problem.trial(), launch.task(built.code, problem)
        launched = plan.device.launch(task, trial, launch.is_counted, checking=launch.purpose != "far")
    verdict, judgement, findings = _judge(built, trial, launched)
    if launch.purpose == "check" and verdict.kind != "passed" and launched.fault is None:
        launched = plan.device.recheck(task, launched)
        verdict, judgement, findings = _judge(built, trial, launched)
    right = plan.request.graded and launch.is_counted and verdict.kind == "passed"
    if right and (changed := plan.device.on_addresses(task) or plan.device.on_next_launch(task)):
        verdict, findings = Faulted(launch.shape, changed), (*findings, changed)
    return LaunchResult(
        launch.shape, verdict, judgement, findings, launched.fault, launched.counters, launch.hidden, launch.is_counted
    )


def _sample(plan: RunPlan, launch: LaunchPlan, built: Built) -> LaunchResult:
    """Run some blocks of each launch, then those for which decisions in the code have rare outcomes. Return the first
    result that is not a pass, else the last one, with those before it."""
    results = [_sampled(plan, launch, built, launch.sample is None or launch.sample.counted)]
    if results[0].verdict.kind == "passed" and results[0].counted and not results[0].before:
        for result in _beside_sample(plan, launch, built):
            results.append(result)
            if result.verdict.kind != "passed":
                break
    *before, last = results
    return replace(last, before=(*before, *last.before))


def _beside_sample(plan: RunPlan, launch: LaunchPlan, built: Built) -> Iterator[LaunchResult]:
    """Yield the results of blocks that start late, and of those that the code treats in another way."""
    if launch.sample is plan.sample and (late := sampled_late(plan, launch, built)):
        yield late
    for other, counting in rare_launches(plan, launch, built):
        if other.tile:
            yield run_tile(plan, other, built)
        yield _sampled(plan, other, built, counting)


def _sampled(plan: RunPlan, launch: LaunchPlan, built: Built, counting: bool = True) -> LaunchResult:
    """Run some blocks. If they cannot be judged, check other shapes instead, once for all samples of the run."""
    result = sampled(plan, launch, built, counting)
    return _instead(plan, launch, built, not_judged(result)) if isinstance(result, str) else result


def _instead(plan: RunPlan, launch: LaunchPlan, built: Built, note: Finding) -> LaunchResult:
    """Check the shapes that replace the far sample. Return the first failure, else the last, with those before it."""
    if launch.sample is not plan.sample:
        return LaunchResult(launch.shape, Passed(), hidden=True)
    results: list[LaunchResult] = []
    for other in plan.in_place_of_sample():
        found = variant_of(built, other.lesson)
        fits = found.lesson == other.lesson and found.is_assembled
        results.append(execute(plan, other, found if fits else _assembled(plan, other.lesson)))
        if results[-1].verdict.kind != "passed":
            break
    *before, last = results
    return replace(last, findings=(*last.findings, note), before=tuple(before))


def _assembled(plan: RunPlan, lesson: Lesson) -> Built:
    """Compile the kernel under test for this lesson."""
    path = plan.kernels[0].file
    code = plan.workshop.build(lesson, path, fixed(read_source(path))[0])
    if isinstance(code, CompileFailed):
        raise UnsupportedKernel(code.message)
    return Built(lesson, code)


def _judge(built: Built, trial: Trial, launched: Launched) -> tuple[Verdict, Judgement | None, tuple[Finding, ...]]:
    """Return the verdict on one launch. An error among the findings precedes a wrong answer, as its cause."""
    shape, findings = trial.problem.shape, (*launched.findings, *trial.damage(launched.stored))
    if launched.fault is not None:
        return stopped(shape, _early(launched.fault, findings) or launched.fault), None, findings
    judgement = judge(trial.problem, trial.answer, tile_sizes(built.lesson), trial.arrays)
    for finding in findings:
        if finding.severity == "error":
            return Faulted(shape, finding), judgement, findings
    if not judgement.passed:
        return WrongAnswer(shape, judgement), judgement, findings
    findings = tuple(replace(it, severity="error") if (it.kind, it.case) == UNDEFINED else it for it in findings)
    if (undefined := next((it for it in findings if it.severity == "error"), None)) is not None:
        return Faulted(shape, undefined), judgement, findings
    # A compiler may hoist loads whose values are never used.
    return Passed(), judgement, tuple(finding for finding in findings if finding.kind != "unset")


def _early(fault: Finding, findings: Sequence[Finding]) -> Finding | None:
    """Return the earlier error that explains a fault at an mbarrier: a wait that did not cover its copy or products."""
    hang = fault.facts if isinstance(fault.facts, Hang) else None
    hangs_alone = hang is not None and (hang.cause is None or hang.cause.case == "cause unawaited")
    if fault.kind != "mbarrier" and not hangs_alone:
        return None
    cases = ("ended before", "ended without", "left running", "not filled")
    return next((it for it in findings if it.kind == "async_in_flight" and it.case in cases), None)


def _summed(tried: Sequence[LaunchResult]) -> Checked:
    verdict = _explained(tried)
    found = of_one_barrier(merged([finding for it in tried for finding in it.told]))
    if isinstance(verdict, Faulted):  # with the counts of all launches, as in the findings
        alike = [it for it in found if it.kind == verdict.finding.kind and it.severity == "error"]
        verdict = Faulted(verdict.shape, next((it for it in found if place(it) == place(verdict.finding)), alike[0]))
    return Checked(verdict, tuple(it.summary for it in tried), found)


def _explained(tried: Sequence[LaunchResult]) -> Verdict:
    """Return the first verdict of a failure. Where its wrong answer does not show the mistake, use another shape's."""
    wrong = [it.verdict for it in tried if it.verdict.kind != "passed"]
    first = wrong[0] if wrong else Passed()
    if not isinstance(first, WrongAnswer) or not first.is_vague:
        return first
    specific = next((it for it in wrong if isinstance(it, WrongAnswer) and not it.is_vague), None)
    if specific is None or specific.judgement.pattern is None:
        return first
    pattern = replace(specific.judgement.pattern, shape=specific.shape)
    return replace(first, judgement=replace(first.judgement, pattern=pattern))


def judge_method(plan: RunPlan, kernel: KernelPlan, built: Built, checked: Checked) -> Checked:
    """Judge a right kernel by the gates of the lesson under test; gates of a wrong kernel would only repeat the
    failure.

    A kernel that uses another method may be so slow that a hidden shape takes all the time. Then the method is the
    verdict, and a note tells the teacher that not every shape was checked.
    """
    slow = plan.request.graded and _is_unfinished(checked)
    if not (slow or isinstance(checked.verdict, Passed)) or checked.counters is None:
        return checked
    counted = []
    known = {launch.lesson for launch in kernel.counted if launch.purpose == "count"}
    for shape, counters in ((kernel.counting_shape, checked.counters), *checked.hidden_counters):
        variant, names = kernel.lesson.at(shape), plan.lesson.at(shape).names(shape)
        # A variant of the far shape alone may have fewer registers, which the host chose.
        spills = {} if variant in known else {"spill_bytes": 0, "stack_bytes": 0}
        counted.append(CountedLaunch(variant_of(built, variant), counters, {**names, **spills}))
    gates = judge_launches(plan.lesson.gates, counted)
    missed = verdict_of(gates)
    if not slow:
        return replace(checked, gates=gates, verdict=missed or checked.verdict)
    if missed is None:
        return checked
    findings = tuple(it for it in checked.findings if it.kind not in STOPS)
    return replace(checked, gates=gates, verdict=missed, findings=(*findings, Finding("not_finished", "note")))


def _is_unfinished(checked: Checked) -> bool:
    """Tell whether nothing but a limit of time or memory at a hidden shape keeps a kernel from a judgement."""
    verdict = checked.verdict
    if not isinstance(verdict, Faulted | TimedOut) or verdict.finding.kind not in STOPS:
        return False
    return all(it.kind == "passed" or it.hidden for it in checked.shapes)


def merged(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Merge findings of several launches, one for each kind and pair of lines: keep the first example, add counts."""
    by_place: dict[tuple[object, ...], Finding] = {}
    for finding in findings:
        seen = by_place.get(place(finding))
        by_place[place(finding)] = replace(seen, count=seen.count + finding.count) if seen else finding
    return tuple(by_place.values())


def of_one_barrier(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Merge races that one barrier would fix into one finding. In a race of stores with later loads, all lines of the
    stores precede all lines of the loads. In a race of loads with later stores, all lines of the loads follow those of
    the stores, which belong to the next iteration."""
    groups: list[list[Finding]] = []
    for finding in findings:
        fitting = (group for group in groups if _one_barrier([*group, finding]))
        if (group := next(fitting, None)) is not None:
            group.append(finding)
        else:
            groups.append([finding])
    for group in groups:  # written before a barrier and read after it, and in the next iteration the other way round
        back = next((it for it in groups if it and it is not group and _pairs(it) == _pairs(group, swapped=True)), [])
        if group and group[0].kind == "race" and group[0].effects.startswith("shared"):
            group += back
            back.clear()
    return tuple(_together(group) for group in groups if group)


def _pairs(group: Sequence[Finding], swapped: bool = False) -> set[tuple[object, ...]]:
    """Return both lines of each finding of a group, with the fields that distinguish kinds of race."""
    if swapped:
        return {(it.kind, it.severity, it.file, it.other_line, it.line) for it in group}
    return {(it.kind, it.severity, it.file, it.line, it.other_line) for it in group}


def _one_barrier(group: Sequence[Finding]) -> bool:
    kinds = {(it.kind, it.severity, it.effects, it.file) for it in group}
    first, then = [it.line for it in group if it.line], [it.other_line for it in group if it.other_line]
    if len(kinds) > 1 or len(first) + len(then) < 2 * len(group):
        return False
    effects = group[0].effects
    return (effects == "shared store load" and max(first) < min(then)) or (
        effects == "shared load store" and min(first) > max(then)
    )


def _together(group: Sequence[Finding]) -> Finding:
    if len(group) == 1:
        return group[0]
    also = {frozenset((it.line, it.other_line)): (it.line, it.other_line) for it in reversed(group)}
    del also[frozenset((group[0].line, group[0].other_line))]
    return replace(group[0], also=tuple(reversed(also.values())), count=sum(it.count for it in group))


def place(finding: Finding) -> tuple[object, ...]:
    """Return the fields by which findings of two launches are one."""
    return finding.kind, finding.severity, finding.file, finding.line, finding.other_line
