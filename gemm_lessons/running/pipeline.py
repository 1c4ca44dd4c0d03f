"""run_lesson(): all steps of a run, in order; each step takes records and returns one.

    request -> plan -> file --build--> Built --check, judge_method, second_look--> Checked --estimate, measure--> Speed
                                                                                           in a Row, with hints

Counters, findings and gates are those of code compiled for the course's own architecture. Times, estimates and
occupancy are those of code compiled for the GPU that they are for. Where both are the same, it is compiled once.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gemm_lessons.course import Lesson, NotText, read_source, shown
from gemm_lessons.devices import Binaries, Device, Tell, ranges, stage, told_to, turn
from gemm_lessons.engine import Disagreement, Simulator, UnsupportedKernel
from gemm_lessons.engine.compiler import Compiled, Diagnostic, SharedSass, include_closure, may_run_past, names_in
from gemm_lessons.engine.hardware import Occupancy, occupancy_of
from gemm_lessons.engine.process import OutOfTime, bounds
from gemm_lessons.judging import (
    UNTIMED,
    Built,
    Checked,
    CompileFailed,
    Evidence,
    Faulted,
    ShapeResult,
    TimedOut,
    WrongAnswer,
    hints_for,
    restated,
    stopped,
)
from gemm_lessons.running import kept_rows
from gemm_lessons.running.builder import variant_of
from gemm_lessons.running.checking import check, judge_method, launch_job, stopped_by
from gemm_lessons.running.debug_build import inside_job, second_look, with_misread
from gemm_lessons.running.estimating import speed_job
from gemm_lessons.running.jobs import Deferred, Jobs
from gemm_lessons.running.machine_dependence import by_macro, fixed, opened, pasted, uses_opened
from gemm_lessons.running.measuring import measure, with_times
from gemm_lessons.running.outcome import Row, RunOutcome, ended_by
from gemm_lessons.running.plan import KernelPlan, LaunchPlan, RunPlan, RunRequest, label_for
from gemm_lessons.running.variants import VariantFailed, Variants

__all__ = ["Row", "RunOutcome", "RunRequest", "ShapeResult", "Tell", "label_for", "run_lesson", "run_plan", "shared"]
OPERATIONS = 1e8  # of the formula, which take about as long as parsing the program
THREADS = 30_000  # threads whose run over a few K tiles takes about as long as parsing the program


def run_lesson(request: RunRequest, progress: Tell | None = None) -> RunOutcome:
    """Compile, check, count, judge, estimate, advise and measure one kernel, and the kernels to compare it with.

    Everything that the kernel does is a verdict. Raise ``CommandError`` (its file cannot be read), ``ShapeError`` (the
    lesson does not allow this shape), ``UnsupportedKernel`` (the device cannot run it) and ``KitError``.
    """
    jobs = Jobs(request.kept)
    return run_plan(RunPlan.of(request), jobs, progress)


def run_plan(plan: RunPlan, jobs: Jobs, progress: Tell | None = None) -> RunOutcome:
    """Carry out a plan. Raise the errors of ``run_lesson``, except ``ShapeError``."""
    request = plan.request
    try:
        with told_to(progress):
            return _run(plan, jobs)
    except (OutOfTime, MemoryError) as end:  # outside of its launches, which report more detail
        finding = stopped_by(end, request.bounds)
        return ended_by(finding, request.lesson, request.path, request.device.kind, request.gpu.name)


def shared(plan: RunPlan) -> Jobs:
    """Return the jobs of a run with a second process for some of them, forked before this one has threads. Rows beside
    the kernel that an earlier run stored on disk are no work for either. What only a right kernel needs is last."""
    kernel, *others = plan.kernels
    if plan.device.timer is not None or ranges.has_listener():  # a profiler needs all ranges in one process
        return Jobs()
    beside = [(other, row_job(plan, other, Jobs())) for other in others]
    # Rows that depend on a GPU here have no key on disk.
    architectures = [target.arch for target in plan.workshop.targets]
    keep = plan.device.kind == "simulator"
    keys = {job.key: kept_rows.key_for(job.facts, architectures) if keep else None for _, job in beside}
    stored = {job.key: (job.facts, row) for _, job in beside if (row := kept_rows.load(keys[job.key])) is not None}
    remaining = [(other, job) for other, job in beside if job.key not in stored]
    source = _text_of(kernel)
    built = functools.cache(lambda lesson: _built_for(plan, kernel, lesson))
    jobs: list[Deferred[Any]] = [
        launch_job(plan, kernel, launch, functools.partial(built, launch.lesson)) for launch in longest_first(kernel)
    ]
    jobs += (job for _, job in remaining)
    if (timed := kernel.timed) is not None and plan.request.estimating:
        jobs.append(speed_job(plan, kernel, functools.partial(built, timed.lesson)))
    if source is not None and _may_overrun(kernel, source):
        jobs.append(inside_job(plan, kernel, source))
    return Jobs.shared(
        jobs, plan.request.bounds, stored, lambda job, row: kept_rows.store(keys.get(job.key), job.portable(row))
    )


def _text_of(kernel: KernelPlan) -> str | None:
    """Return a kernel's source; None if it is not text, which is a verdict later."""
    try:
        return read_source(kernel.file)
    except NotText:
        return None


def _may_overrun(kernel: KernelPlan, source: str) -> bool:
    return may_run_past(source, kernel.lesson.tile.defines)


def _run(plan: RunPlan, jobs: Jobs) -> RunOutcome:
    began = time.perf_counter()
    kernel, *others = plan.kernels
    with stage("lesson", plan.lesson.name, payload=plan.lesson.number), bounds.within(plan.request.bounds):
        beside = [row_job(plan, other, jobs) for other in others]
        late = [it for it, job in zip(others, beside, strict=True) if not (jobs.is_shared(job.key) or jobs.knows(job))]
        rows = [row_of(plan, kernel, jobs, late)]
        if rows[0].built is not None:  # there is a compiled kernel to compare
            rows += map(jobs.result, beside)
        peak = _peak_gflops(plan.device, plan.lesson)
        rows[0], attacker = advised(plan, rows)
        measured = measure(plan, rows)
        rows = [with_times(row, measured) for row in rows]
    return RunOutcome(
        lesson=plan.lesson,
        device_kind=plan.device.kind,
        device_name=plan.device.name,
        gpu=plan.gpu.name,
        seed=plan.seed,
        count_shape=plan.lesson.shapes.count,
        estimate_shape=plan.timed_shape,
        rows=tuple(rows),
        seconds=time.perf_counter() - began,
        measured=measured,
        attacker=attacker.name if attacker else "",
        peak_gflops=peak,
    )


def row_of(plan: RunPlan, kernel: KernelPlan, jobs: Jobs, compiled_next: Sequence[KernelPlan] = ()) -> Row:
    """Take one kernel from its file to its speed. The kernels ``compiled_next`` are compiled while this one runs."""
    with turn(kernel.role, kernel.label):
        path = shown(kernel.file)
        try:
            source = read_source(kernel.file)
        except NotText as error:
            failed = CompileFailed(error.why, (Diagnostic(path, error.line, None, "error", error.why),))
            return Row(kernel.role, kernel.label, path, "", Checked(failed))
        given, macro = fixed(source) if plan.request.graded else (source, "")
        try:
            with _begin(plan, kernel, given, jobs) as variants:
                return _judged(plan, kernel, source, macro, variants, jobs, compiled_next)
        except VariantFailed as error:
            return Row(kernel.role, kernel.label, path, source, Checked(error.failed))


def _judged(
    plan: RunPlan,
    kernel: KernelPlan,
    source: str,
    macro: str,
    variants: Variants,
    jobs: Jobs,
    compiled_next: Sequence[KernelPlan],
) -> Row:
    """Take one kernel from its variants to its speed. Raise ``VariantFailed``."""
    path = shown(kernel.file)
    if plan.request.graded and _depends_on(plan, kernel, source, macro):
        dated = by_macro(macro or "a macro whose name is put together", path)
        checked = Checked(Faulted(kernel.counting_shape, dated), findings=(dated,))
        return Row(kernel.role, kernel.label, path, source, checked, _finished(kernel, source, variants))
    for other in compiled_next:
        if other.path is not None:
            jobs.start(compile_job(plan, other, other.lesson, read_source(other.file), disassembled=True))
    checked = judge(plan, kernel, variants, jobs)
    built = _finished(kernel, source, variants)
    if kernel.role == "kernel":
        with contextlib.suppress(OutOfTime, MemoryError):  # the verdict is valid without
            checked = second_look(plan, kernel, built, source, checked, jobs)
            checked = print_out(plan, built, with_misread(plan, kernel, built, source, checked))
    # Rows beside a measured kernel are measured too, and need no estimate.
    measured = kernel.role != "kernel" and plan.timer is not None
    speed = UNTIMED
    if plan.request.estimating and not measured and checked.right and checked.counters is not None:
        with contextlib.suppress(OutOfTime, MemoryError):
            speed = jobs.result(speed_job(plan, kernel, lambda: built))
    return Row(kernel.role, kernel.label, path, source, checked, built, speed)


def _depends_on(plan: RunPlan, kernel: KernelPlan, source: str, macro: str) -> bool:
    """Tell whether a kernel's code depends on the values of ``macro`` and the like, or may depend unseen."""
    if not macro or pasted(source):
        return pasted(source)
    other = plan.workshop.build(kernel.lesson, kernel.file, opened(source))
    return isinstance(other, CompileFailed) or any(map(uses_opened, other.counted))


def judge(plan: RunPlan, kernel: KernelPlan, variants: Variants, jobs: Jobs) -> Checked:
    """Run two steps: Built -> Checked, by answers and by method. Raise ``VariantFailed``."""
    try:
        checked = check(plan, kernel, variants, jobs)
        return judge_method(plan, kernel, variants.whole(), checked)
    except (OutOfTime, MemoryError) as end:  # not during a launch: there it is a fault that names a line
        finding = stopped_by(end, bounds.current())
        return Checked(stopped(kernel.counting_shape, finding), findings=(finding,))


def row_job(plan: RunPlan, kernel: KernelPlan, jobs: Jobs) -> Deferred[Row]:
    """Return a job for a row beside the kernel. It depends on its own sources and on everything in the plan that rows
    show, but not on the inputs, which do not affect a solution's results."""
    files = sources_of(kernel.lesson, kernel.file) if kernel.path is not None else None
    device, targets = plan.device.name, plan.workshop.targets
    facts = (kernel, files, plan.lesson, plan.gpu, plan.timed_shape, device, targets) if files else None
    return Deferred((kernel.role, "row"), lambda: _row_beside(plan, kernel, jobs), facts, _portable)


def _row_beside(plan: RunPlan, kernel: KernelPlan, jobs: Jobs) -> Row:
    """Compute a row beside the kernel. If that fails, the kernel under test does not fail."""
    why = f"{kernel.lesson.name} has no solution here"
    if kernel.path is not None:
        try:
            return row_of(plan, kernel, jobs)
        except (UnsupportedKernel, Disagreement) as error:
            why = str(error)
        except (OutOfTime, MemoryError):
            why = "there was no time or memory left for it"
    path = shown(kernel.file) if kernel.path is not None else ""
    return Row(kernel.role, kernel.label, path, "", Checked(CompileFailed(why)), unsupported=why)


def _portable(row: Row) -> Row:
    """Drop from a row what other processes do not need: disassembled code, the estimator for other shapes."""
    return replace(row, speed=replace(row.speed, estimator=None), built=row.built and _bare(row.built))


def _bare(built: Built) -> Built:
    code = built.code
    timed = None if code.timed is None else tuple(replace(it) for it in code.timed)
    counted = tuple(replace(it) for it in code.counted)
    return replace(built, code=Binaries(counted, timed), others=tuple(map(_bare, built.others)))


def build(plan: RunPlan, kernel: KernelPlan, source: str, jobs: Jobs) -> Built | CompileFailed:
    """Build a file, with a variant for each way that the host launches it in this run."""
    try:
        return _finished(kernel, source, _variants(plan, kernel, kernel.variants, source, jobs, kernel.disassembled))
    except VariantFailed as error:
        return error.failed


def _begin(plan: RunPlan, kernel: KernelPlan, source: str, jobs: Jobs) -> Variants:
    """Begin to build a file, and return when its own variant is there. Raise ``VariantFailed``."""
    beside = plan.request.graded and kernel.role == "kernel"
    variants = _variants(plan, kernel, kernel.variants, source, jobs, kernel.disassembled, beside)
    _ = variants.first
    return variants


def _finished(kernel: KernelPlan, source: str, variants: Variants) -> Built:
    """Return all variants when they are there. Raise ``VariantFailed``."""
    overrun = kernel.role == "kernel" and _may_overrun(kernel, source)
    return replace(variants.whole(), may_overrun=overrun)


def _built_for(plan: RunPlan, kernel: KernelPlan, lesson: Lesson) -> Built:
    """Build one variant, for a launch in the second process. Raise ``UnsupportedKernel`` if that fails."""
    try:
        return _variants(plan, kernel, [lesson], read_source(kernel.file), Jobs()).whole()
    except VariantFailed as error:
        raise UnsupportedKernel(error.failed.message) from None


def _variants(
    plan: RunPlan,
    kernel: KernelPlan,
    lessons: Sequence[Lesson],
    source: str,
    jobs: Jobs,
    disassembled: frozenset[Lesson] = frozenset(),
    beside: bool = False,
) -> Variants:
    """Compile variants of a kernel, and begin to disassemble some. Variants that differ only in sizes that the source
    does not name are one compilation. Raise ``VariantFailed``."""
    words = names_in(source, kernel.file, kernel.lesson.include_dirs) if len(lessons) > 1 else None
    alike: dict[Hashable, list[Lesson]] = {}
    for lesson in lessons:
        seen = tuple(it for it in lesson.tile.sizes if words is None or it[0] in words), lesson.options
        alike.setdefault(seen, []).append(lesson)
    quick = plan.request.graded and kernel.role == "kernel" and plan.device.target is None
    several = sum(not disassembled.isdisjoint(group) for group in alike.values()) > 1
    together = [it for it in lessons if it in disassembled]
    others = [it for it in lessons if it not in disassembled]  # needed if they answer wrongly: one after the other
    shared = SharedSass(lambda: _kernels_of(variants, together)) if several else None
    if_wrong = SharedSass(lambda: _kernels_of(variants, others))

    def make(group: Sequence[Lesson]) -> Mapping[Lesson, Built] | CompileFailed:
        with_code = not disassembled.isdisjoint(group)
        ptx = _quickly(plan, kernel, group[0], source) if quick and not with_code else None
        one = _compiled(plan, kernel, group[0], source, jobs, with_code and not shared) if ptx is None else ptx
        if isinstance(one, CompileFailed):
            return one
        if with_code and shared:
            one.code.share_sass(shared)
        elif not with_code:
            for compiled in one.code.counted:
                compiled.share_sass(if_wrong)
        return {lesson: _as_launched(plan, one, lesson) for lesson in group}

    variants = Variants(lessons, list(alike.values()), make, beside)
    return variants


def _kernels_of(variants: Variants, lessons: Iterable[Lesson]) -> Iterator[Compiled]:
    """Yield the kernels of these variants, when they are compiled, without those that do not compile."""
    for lesson in lessons:
        with contextlib.suppress(VariantFailed):
            yield from variants.of(lesson).code.counted


def _as_launched(plan: RunPlan, built: Built, lesson: Lesson) -> Built:
    """Return a kernel as the host launches it for this variant of the lesson."""
    if lesson == built.lesson:
        return built
    return replace(
        built, lesson=lesson, occupancies=_occupancies(plan, lesson, built.code) if built.occupancies else ()
    )


def _quickly(plan: RunPlan, kernel: KernelPlan, lesson: Lesson, source: str) -> Built | None:
    """Build a variant without machine code, for a shape that is only checked; None where that fails."""
    code = plan.workshop.without_machine_code(lesson, kernel.file, source)
    return None if isinstance(code, CompileFailed) else Built(lesson, code)


def _compiled(
    plan: RunPlan, kernel: KernelPlan, lesson: Lesson, source: str, jobs: Jobs, disassembled: bool
) -> Built | CompileFailed:
    """Build one variant, for the counted architecture and for the GPU of the times."""
    ranges.announce(f"compile {kernel.file.name}")
    with stage("compile", kernel.file.name, payload=len(source)):
        try:
            code = jobs.result(compile_job(plan, kernel, lesson, source, disassembled))
        except OutOfTime as late:
            message = f"the compiler did not finish: {late}{bounds.current().advice}"
            code = CompileFailed(message, (Diagnostic(shown(kernel.file), 1, None, "error", message),))
    if isinstance(code, CompileFailed):
        return code
    return Built(lesson, code, _occupancies(plan, lesson, code))


def _occupancies(plan: RunPlan, lesson: Lesson, code: Binaries) -> tuple[Occupancy, ...]:
    grids = lesson.grids(lesson.shapes.count)
    return tuple(
        occupancy_of(compiled.resources, grid.threads, grid.dynamic_shared, plan.gpu)
        for compiled, grid in zip(code.timed or (), grids, strict=code.timed is not None)
    )


def compile_job(
    plan: RunPlan, kernel: KernelPlan, lesson: Lesson, source: str, disassembled: bool
) -> Deferred[Binaries | CompileFailed]:
    """Return a job that compiles one variant of a kernel, and begins to disassemble it where that is needed."""
    return Deferred((kernel.role, lesson), lambda: plan.workshop.build(lesson, kernel.file, source, disassembled))


def advised(plan: RunPlan, rows: Sequence[Row]) -> tuple[Row, Lesson | None]:
    """Return the kernel's row, the first, with its hints, and the lesson that attacks what limits a right kernel."""
    lesson, row, kernel = plan.lesson, rows[0], plan.kernels[0]
    estimate_ = row.speed.estimate
    passed, course = row.verdict.kind == "passed", plan.request.course
    attacker = course.attacked_by(lesson, estimate_.limiter) if estimate_ and passed else None
    solution = next((other for other in rows if other.role == "reference"), None)
    evidence = Evidence(
        lesson=lesson,
        source=row.source,
        stub=plan.stub,
        built=row.built,
        checked=row.checked,
        speed=row.speed,
        counted=kernel.counting_shape,
        shape=plan.timed_shape,
        blocks=0 if kernel.timed is None else kernel.timed.grids[0].blocks,
        sms=plan.gpu.sms,
        gpu=plan.gpu.name,
        reference=solution.checked if solution else None,
        solution=solution.speed if solution else UNTIMED,
        attacker=f"{attacker.number:02} ({attacker.title})" if attacker else "",
    )
    return replace(row, checked=restated(evidence), hints=hints_for(evidence)), attacker


def _peak_gflops(device: Device, lesson: Lesson) -> float | None:
    """Return the fp32 peak from the device's data sheet; None without one, and for a lesson of another number type."""
    sheet = device.sheet
    single = [factor.element.name for factor in lesson.data.factors] == ["float32", "float32"]
    return sheet.fp32_flops_per_s / 1e9 if sheet and single else None


def longest_first(kernel: KernelPlan) -> list[LaunchPlan]:
    """Return the checks of a kernel in the order in which the second process begins them."""
    return sorted((launch for launch in kernel.launches if launch.purpose == "check"), key=_work, reverse=True)


def _work(launch: LaunchPlan) -> float:
    """Return a launch's approximate cost / a small one's: parsing the program, running its threads, its products."""
    threads = sum(grid.blocks * grid.threads for grid in launch.grids)
    return 1 + threads / THREADS + launch.operations / OPERATIONS


def sources_of(lesson: Lesson, path: Path) -> dict[Path, bytes] | None:
    """Return a kernel file and all files that it includes, with their contents; None if the text does not show them."""
    text = read_source(path)
    included = include_closure(text, path.parent, lesson.include_dirs, ())
    return None if included is None else {path: text.encode(), **included}


def print_out(plan: RunPlan, built: Built, checked: Checked) -> Checked:
    """Add what a kernel prints on the failed shape, else on the first one. The simulator runs it even where there is a
    GPU: a GPU prints lines in any order, and to another process."""
    launch = _launch_of(plan.kernels[0], checked)
    variant = variant_of(built, launch.lesson)
    with_printf = variant.code.with_printf
    if not with_printf or not checked.shapes:
        return checked
    ranges.announce(f"print {launch.shape}")
    problem = launch.problem(plan.seed)
    launcher = Simulator().uncounted.launch
    ran = launch.task(variant.code, problem).run(launcher, with_printf, problem.trial())
    return replace(checked, printed=ran.printed, printed_at=launch.shape)


def _launch_of(kernel: KernelPlan, checked: Checked) -> LaunchPlan:
    """Return the launch that failed, else the first one."""
    verdict = checked.verdict
    failed = verdict.shape if isinstance(verdict, (Faulted, TimedOut, WrongAnswer)) else None
    whole = [launch for launch in kernel.launches if launch.purpose not in ("sample", "tile")]
    return next((launch for launch in whole if launch.shape == failed), whole[0])
