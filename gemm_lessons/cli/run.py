"""``gemm-lessons run``: build a request from arguments, and show the outcome."""

from __future__ import annotations

import contextlib
import gc
import shlex
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gemm_lessons import cli
from gemm_lessons.cli.options import (
    LayoutOption,
    LessonOrHere,
    MemoryLimit,
    NoColor,
    Problems,
    TimeLimit,
    TypeOption,
    grouped,
    keep_progress,
    kernel_path,
    one_at_most,
    shape_of,
)
from gemm_lessons.cli.practice import practised
from gemm_lessons.course import (
    CommandError,
    Course,
    Lesson,
    NotText,
    Stub,
    any_course,
    in_layout,
    keeps_reference,
    lesson_to_run,
    load_progress,
    open_todos,
    own_course,
    parse_tile,
    read_source,
    remarks_on,
    retiled,
    shown,
    typed,
)
from gemm_lessons.engine import UnsupportedKernel
from gemm_lessons.engine.records import dataclass
from gemm_lessons.gemm import Shape
from gemm_lessons.running import contract

if TYPE_CHECKING:
    from gemm_lessons.devices import Device
    from gemm_lessons.engine import GpuSpec
    from gemm_lessons.running import RunOutcome

DEFAULT_GPU = "h200"  # the GPU of the lessons' tables
GPU = "NAME|FILE"  # what --gpu takes
MAX_BYTES = 8 << 30  # of host memory that a --shape may need
FRESH_OBJECTS = 100_000  # new objects after which the garbage collector runs, which finds next to nothing
BYTES_PER_ELEMENT = 24  # fp32 for the device, fp64 for the reference, its tolerance and error


class DeviceChoice(StrEnum):
    """Where kernels run."""

    auto = "auto"
    gpu = "gpu"
    sim = "sim"


@dataclass(frozen=True)
class KernelChoice:
    """The kernel file of the lesson, by default the learner's own."""

    solution: Annotated[bool, typer.Option("--solution", help="Run the reference.")] = False
    stub: Annotated[bool, typer.Option("--stub", help="Run the stub as it is.")] = False
    file: Annotated[Path | None, typer.Option("--file", help="Run this file as the lesson's kernel.")] = None
    bug: Annotated[bool, typer.Option("--bug", help="Run bug.cu, which gemm-lessons bug wrote.")] = False


@dataclass(frozen=True)
class DeviceOptions:
    """The device, and the GPU of the estimates."""

    device: Annotated[
        DeviceChoice, typer.Option("--device", help="gpu measures, sim estimates; auto uses a GPU if there is one.")
    ] = DeviceChoice.auto
    gpu_index: Annotated[
        int,
        typer.Option("--gpu-index", min=0, metavar="N", help="Which GPU, of those in CUDA_VISIBLE_DEVICES."),
    ] = 0
    gpu: Annotated[
        str | None,
        typer.Option("--gpu", metavar=GPU, help="The GPU that estimates are for. Default: this machine's, else H200."),
    ] = None

    @property
    def sheet(self) -> GpuSpec | None:
        """Return the data sheet of ``--gpu``; None without the option. Raises ``CommandError``."""
        return sheet_for(self.gpu) if self.gpu is not None else None

    def opened(self) -> tuple[Device, GpuSpec]:
        """Open the device. Return it with the data sheet for estimates. Raises ``CommandError`` and ``KitError``."""
        sheet = self.sheet  # first: its errors are told before NumPy is loaded
        device = device_for(self.device, self.gpu_index)
        return device, sheet or device.sheet or sheet_for(DEFAULT_GPU)


@dataclass(frozen=True)
class Variant:
    """The lesson with other tile sizes, another layout or other numbers, for this run only."""

    tile: Annotated[
        list[str] | None,
        typer.Option("--tile", metavar="NAME=SIZE", help="Use other tile sizes, for this run only: --tile BK=16."),
    ] = None
    layout: LayoutOption = None
    type_: TypeOption = None

    def of(self, lesson: Lesson) -> tuple[Lesson, tuple[str, ...]]:
        """Return the variant of the lesson and remarks on it. Raises ``CommandError``."""
        remarks: tuple[str, ...] = ()
        if self.type_ is not None:
            lesson = typed(lesson, self.type_)
        if self.tile:
            usual, lesson = lesson, retiled(lesson, parse_tile(self.tile))
            remarks = (_of_the_tile(usual, lesson, self.tile),)
        if self.layout is not None:
            lesson = in_layout(lesson, self.layout.upper())
        return lesson, remarks


@dataclass(frozen=True)
class RunLimits:
    """Time and memory limits of the run."""

    time_limit: TimeLimit = None
    memory_limit: MemoryLimit = None


@dataclass(frozen=True)
class Output:
    """How the outcome is shown."""

    details: Annotated[
        bool, typer.Option("--details", help="Print everything: counters, gates, conflicts, findings, hints.")
    ] = False
    peek: Annotated[
        bool, typer.Option("--peek", help="Show the reference beside yours before a pass; the course remembers it.")
    ] = False
    problems: Problems = False
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, for scripts.")] = False
    no_color: NoColor = False


@dataclass(frozen=True)
class RunCommand:
    """A run as requested. ``again`` is the command that repeats it; ``counts``: the verdict counts as the learner's."""

    course: Course
    lesson: Lesson
    path: Path
    shape: Shape | None
    remarks: tuple[str, ...]
    again: str
    counts: bool
    is_plain: bool  # no other tile, shape, layout or type than the lesson's


@grouped
def run(
    lesson: LessonOrHere = None,
    *,
    kernel: KernelChoice,
    shape: Annotated[
        str | None, typer.Option("--shape", metavar="M,N,K", help="Check this shape instead of the lesson's.")
    ] = None,
    where: DeviceOptions,
    variant: Variant,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, metavar="N", help="Repeat the inputs of an earlier run.")
    ] = None,
    limits: RunLimits,
    output: Output,
    explain: Annotated[
        str | None, typer.Option("--explain", metavar="WORD", help="Explain a word that a run prints, and run nothing.")
    ] = None,
) -> int:
    """Compile a kernel, check it, count, compare, advise.

    The answer is checked against NumPy on the lesson's shapes; the counters are judged by the lesson's gates.
    Exit code: 0 passed, 1 not passed, 2 wrong command, 3 the kit is broken.
    """
    if explain is not None:
        return _explain(explain)
    # Report errors of the command line before NumPy and the compiler are loaded.
    command = _command(lesson, kernel, shape, variant)
    from gemm_lessons.cli.guard import bounds_for, guarded

    most = bounds_for(limits.time_limit, limits.memory_limit, command.shape)
    sheet = where.sheet

    def work(tell: Callable[[int], None]) -> int:
        from gemm_lessons.report import Working, make_console, show_error

        on, data = where.opened()
        from gemm_lessons.engine.compiler import kept_between_runs
        from gemm_lessons.running import RunPlan, RunRequest, run_plan, shared

        request = RunRequest(command.course, command.lesson, command.path, on, data, command.shape, seed, bounds=most)
        with kept_between_runs():
            try:
                plan = RunPlan.of(request)
                with shared(plan) as jobs, Working(make_console(stderr=True), f"lesson {command.lesson.name}") as show:
                    outcome = run_plan(plan, jobs, show)
            except UnsupportedKernel as error:
                line = f"{shown(command.path)}:{error.line}" if error.line else shown(command.path)
                show_error(make_console(stderr=True), f"{line}: the simulator cannot run this kernel: {error}")
                return contract.EXIT_BROKEN  # no verdict on the kernel: neither passed nor failed
            tell(contract.exit_code(outcome))
            return _finish(command, outcome, output)

    def lost(kind: str, message: str) -> int:
        from gemm_lessons.running import ended_early

        gpu = (sheet or sheet_for(DEFAULT_GPU)).name
        return _finish(
            command, ended_early(command.lesson, command.path, kind, message, where.device.value, gpu), output
        )

    return guarded(work, lost, most)


def _explain(word: str) -> int:
    """Print the glossary's entry. Raises ``CommandError`` for a word that it does not have."""
    from gemm_lessons.course import entry_of
    from gemm_lessons.report import make_console, show_page

    show_page(make_console(), entry_of(any_course(), word), raw=False)
    return contract.EXIT_PASSED


def _command(name: str | None, kernel: KernelChoice, shape: str | None, variant: Variant) -> RunCommand:
    """Check the command line and return the requested run. Raises ``CommandError``."""
    solution, stub, bug, file = kernel.solution, kernel.stub, kernel.bug, kernel.file
    one_at_most(solution=solution, stub=stub, bug=bug, file=file)
    course = own_course() if not (solution or stub or file) else any_course()
    lesson = lesson_to_run(course, name)
    path = kernel_path(course, lesson, solution, stub, lesson.bug_path if bug else file)
    if bug and not path.exists():
        raise CommandError(f"{shown(path)} does not exist yet; make it: gemm-lessons bug {lesson.number:02}")
    with contextlib.suppress(NotText):  # that is a verdict
        read_source(path)
    remarks = remarks_on(lesson) if path == lesson.kernel_path else ()
    found, more = variant.of(lesson)
    wanted = shape_of(found, shape) if shape is not None else None
    if wanted is not None:
        afford(wanted)
    layout = variant.layout and variant.layout.upper()
    which = options(solution=solution, stub=stub, bug=bug, file=file)
    otherwise = options(tile=variant.tile, shape=shape, layout=layout, type=variant.type_)
    again = f"gemm-lessons run {lesson.number:02}{which}{otherwise}"
    counts = not otherwise and path.resolve() == lesson.kernel_path.resolve()
    return RunCommand(course, found, path, wanted, (*more, *remarks), again, counts, not otherwise)


def _finish(command: RunCommand, outcome: RunOutcome, output: Output) -> int:
    """Save progress, show the outcome, and return the exit code."""
    course, lesson = command.course, command.lesson
    if command.counts:  # before printing, since a reader may close the pipe after a few lines
        keep_progress(course, load_progress(course).after_run(lesson.name, outcome.verdict.kind))
    practice = practised(course, lesson, command.path, outcome) if command.is_plain else None
    if output.as_json:
        import json

        typer.echo(json.dumps(contract.as_json(outcome), indent=2, allow_nan=False))
        return contract.exit_code(outcome)
    progress = load_progress(course)
    if keeps_reference(course, lesson, progress):
        if output.peek:
            keep_progress(course, progress.after_reveal(lesson.name))
        else:
            outcome = outcome.without_reference()
    _show(command, outcome, output.details, practice.line if practice is not None else "")
    if output.problems:
        from gemm_lessons.report import make_console, show_problems

        show_problems(make_console(), outcome.kernel)
    if practice is not None and (output.details or not practice.line):
        practice.show()
    return contract.exit_code(outcome)


def options(**given: object) -> str:
    """Return the given options as text for the command line."""
    words: list[str] = []
    for name, value in given.items():
        for one in value if isinstance(value, list) else [value]:
            if one is not None and one is not False:
                words += [f"--{name}"] if one is True else [f"--{name}", str(one)]
    return "".join(f" {shlex.quote(word)}" for word in words)


def _show(command: RunCommand, outcome: RunOutcome, details: bool, news: str) -> None:
    from gemm_lessons.report import ScreenContext, make_console, show_screen
    from gemm_lessons.running import gain_of

    course, counts = command.course, command.counts
    following, gain = course.neighbour(outcome.lesson, +1), gain_of(course, outcome, reference=not details)
    lines = [line for line in (news, _still_open(command, outcome)) if line]
    if not details and outcome.verdict.kind == "passed":
        counts = counts or load_progress(course).of(outcome.lesson.name).passed
    context = ScreenContext(following, command.again, command.remarks, gain, counts, lines)
    show_screen(make_console(), outcome, context, details)


def _still_open(command: RunCommand, outcome: RunOutcome) -> str:
    """Return a line about the open TODOs of a lesson that passed, which another number type needs; empty if none."""
    lesson = command.lesson
    if not (command.counts and lesson.types and outcome.verdict.kind == "passed" and lesson.stub_path.is_file()):
        return ""
    still = open_todos(read_source(command.path), Stub.of(read_source(lesson.stub_path)))
    if not still:
        return ""
    others = " or ".join(f"--type {name}" for name in lesson.types)
    first, last = min(still), max(still)
    which = f"TODO({first})" if first == last else f"TODO({first}) to TODO({last})"
    return f"Still open: {which}, for gemm-lessons run {lesson.number:02} {others}"


def _of_the_tile(usual: Lesson, now: Lesson, asked: list[str]) -> str:
    """Return a remark on the sizes that were asked for; those that the host derives from them are left out."""
    had, derived = usual.tile.defines, {name for name, _ in usual.choices} - set(parse_tile(asked))
    changed = (it for it in now.tile.sizes if it[1] != had[it[0]] and it[0] not in derived)
    sizes = ", ".join(f"{name} = {size}" for name, size in changed) or "as in lesson.toml"
    promise = now.shapes.multiple_of
    text = f"Tile: {sizes}, for this run only; it is not a pass."
    if promise != usual.shapes.multiple_of:
        text += f" M, N, K: multiples of {promise.m}, {promise.n}, {promise.k}."
    return text


def sheet_for(name: str) -> GpuSpec:
    """Return the data sheet of a GPU's name, or from a file. Raises ``CommandError``."""
    from gemm_lessons.engine import SheetError, find_gpu

    try:
        return find_gpu(name)
    except (KeyError, SheetError) as error:
        raise CommandError(f"--gpu: {error.args[0]}") from None


def load_pipeline() -> None:
    """Import the modules that every run needs. They live to the end: from now on, collections pass over them."""
    import gemm_lessons.running.pipeline  # noqa: F401

    if cli.forking:  # else the process is a caller's
        gc.freeze()
        gc.set_threshold(FRESH_OBJECTS, 10, 10)


def device_for(choice: DeviceChoice, index: int) -> Device:
    """Open the device for ``--device`` and ``--gpu-index``. Raises ``CommandError`` and ``KitError``."""
    from gemm_lessons.devices import WrongGpuIndex, open_device

    try:
        device = open_device(choice.value, index, load_pipeline)
    except WrongGpuIndex as error:
        raise CommandError(f"--gpu-index: {error}") from None
    load_pipeline()
    return device


def afford(shape: Shape) -> None:
    """Raise ``CommandError`` for a shape that needs more host memory than the fixed limit."""
    bytes_ = BYTES_PER_ELEMENT * (shape.m * shape.k + shape.k * shape.n + shape.m * shape.n)
    if bytes_ > MAX_BYTES:
        raise CommandError(
            f"--shape {shape.m},{shape.n},{shape.k} needs {bytes_ / 2**30:,.0f} GiB for A, B and C and their check; "
            f"the limit is {MAX_BYTES >> 30} GiB: choose a smaller shape"
        )
