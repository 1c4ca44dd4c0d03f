"""``gemm-lessons compare``: two kernels side by side, and why one is slower."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gemm_lessons.cli.launch import DescribedLaunch
from gemm_lessons.cli.options import KERNELS, NoColor, keep_progress, kernel_path
from gemm_lessons.cli.run import DEFAULT_GPU, GPU, sheet_for
from gemm_lessons.course import (
    CommandError,
    Course,
    Lesson,
    any_course,
    keeps_reference,
    load_progress,
    read_bytes,
    read_source,
    shown,
)
from gemm_lessons.engine import UnknownArchitecture
from gemm_lessons.running import contract

if TYPE_CHECKING:
    from gemm_lessons.commands import Difference
    from gemm_lessons.engine import GpuSpec


def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="A lesson (03, block_tile), or a file with a kernel.")],
    second: Annotated[str, typer.Argument(metavar="B", help="The lesson or file to compare it with.")],
    solution: Annotated[
        bool, typer.Option("--solution", help="Compare the references, even where you have a kernel.cu.")
    ] = False,
    reveal: Annotated[
        bool, typer.Option("--peek", "--reveal", help="Show references before a pass; the course remembers it.")
    ] = False,
    lesson: Annotated[
        str | None, typer.Option("--lesson", metavar="LESSON", help="Both files are kernels of this lesson.")
    ] = None,
    grid: Annotated[
        list[str] | None,
        typer.Option("--grid", metavar="X[,Y[,Z]]", help="Blocks; give it twice if B needs another grid."),
    ] = None,
    block: Annotated[
        list[str] | None,
        typer.Option("--block", metavar="X[,Y[,Z]]", help="Threads per block; may be given twice, too."),
    ] = None,
    args: Annotated[
        list[str] | None, typer.Option("--args", help="The arguments, as in inspect; may be given twice, too.")
    ] = None,
    entry: Annotated[
        list[str] | None, typer.Option("--entry", help="The kernel, if a file has several; may be given twice, too.")
    ] = None,
    dynamic_shared: Annotated[int, typer.Option("--dynamic-shared", min=0, metavar="N", help="Bytes.")] = 0,
    gpu: Annotated[str, typer.Option("--gpu", metavar=GPU, help="The GPU that estimates are for.")] = DEFAULT_GPU,
    as_json: Annotated[bool, typer.Option("--json", help="Print times and causes as one JSON object.")] = False,
    no_color: NoColor = False,
) -> int:
    """Compare two kernels: where their source differs, what each counts, and why one is slower.

    A and B are two lessons: your kernel.cu if you have changed it, else the reference. Or they are two files: with
    --lesson if both are kernels of that lesson, else with a launch as for inspect (--grid, --block, --args). The
    difference between the estimated times is split into causes that add up to it.
    """
    files = [it.endswith(KERNELS) for it in (first, second)]
    if any(files) and not all(files):
        raise CommandError("name two lessons or two files, not one of each")
    sheet = sheet_for(gpu)
    if all(files):
        paths = Path(first), Path(second)
        for path in paths:
            read_source(path)
        if lesson is None:
            launches = [_described(it, dynamic_shared, grid=grid, block=block, args=args, entry=entry) for it in (0, 1)]
            return _launches(paths, launches, gpu, as_json)
        course = any_course()
        found = course.lesson(lesson)
        return _rows(course, sheet, [(shown(path), found, path) for path in paths], sources=True, as_json=as_json)
    if lesson is not None or grid or block or args or entry:
        raise CommandError("--lesson, --grid, --block, --args and --entry are for two files")
    course = any_course()
    left, right = course.lesson(first), course.lesson(second)
    if left.name == right.name:
        raise CommandError(f"name two lessons; yours against the reference: gemm-lessons diff {left.number:02}")
    own = [_file(course, it, solution) for it in (left, right)]
    for path in own:
        read_source(path)
    progress = load_progress(course)
    closed = [it for it, path in zip((left, right), own, strict=True) if path != it.kernel_path]
    for it in closed if not reveal else ():
        if keeps_reference(course, it, progress):
            raise CommandError(
                f"lesson {it.name} is not passed yet, and its reference would answer its questions; to see it "
                f"anyway: gemm-lessons compare {left.number:02} {right.number:02} --peek"
            )
    sources = all(_may_be_seen(course, it, path, reveal) for it, path in zip((left, right), own, strict=True))
    contenders = [
        (f"{it.number:02} {'yours' if path == it.kernel_path else 'reference'}", it, path)
        for it, path in zip((left, right), own, strict=True)
    ]
    return _rows(course, sheet, contenders, sources=sources, as_json=as_json)


def _rows(
    course: Course, sheet: GpuSpec, contenders: Sequence[tuple[str, Lesson, Path]], *, sources: bool, as_json: bool
) -> int:
    """Compare two kernels of lessons, each with its label."""
    from gemm_lessons.cli.guard import in_child

    def work() -> int:
        from gemm_lessons.commands import ComparedKernel, of_rows
        from gemm_lessons.commands import compare as compared
        from gemm_lessons.devices import Simulated
        from gemm_lessons.report import Working, make_console, show_comparison, show_note
        from gemm_lessons.running import RunRequest

        one, other = (ComparedKernel(*it) for it in contenders)
        request = RunRequest(course, other.lesson, other.path, Simulated(), sheet, beside=False)
        with Working(make_console(stderr=True), f"{one.label} and {other.label}") as working:
            result = compared(request, one, other, working)
            working("share the difference out")
            why = of_rows(result, sheet)
        if as_json:
            return _as_json(why)
        show_comparison(make_console(), result, sources, why)
        if not sources:
            show_note(make_console(stderr=True), "the source of a reference is shown after a pass, or with --peek")
        return contract.EXIT_PASSED

    return in_child(work)


def _described(number: int, dynamic_shared: int, **given: list[str] | None) -> DescribedLaunch:
    """Return the launch of one of two kernels, of options that are given for both or for each. Raises
    ``CommandError``."""
    for option, values in given.items():
        if len(values or ()) > 2:
            raise CommandError(f"--{option}: at most one for each of the two kernels")
        if not values and option != "entry":
            raise CommandError(
                f"two files need their launch: --grid, --block and --args as inspect takes them, or --lesson 03 if "
                f"they are kernels of a lesson; --{option} is missing"
            )
    chosen: dict[str, Any] = {it: values[min(number, len(values) - 1)] for it, values in given.items() if values}
    return DescribedLaunch(**chosen, dynamic_shared=dynamic_shared)


def _launches(paths: Sequence[Path], launches: Sequence[DescribedLaunch], gpu: str, as_json: bool) -> int:
    """Compare two launches of any kernels."""
    from gemm_lessons.cli.guard import in_child

    def work() -> int:
        from gemm_lessons.commands import of_launches
        from gemm_lessons.engine.inspection import ArgumentError
        from gemm_lessons.report import Working, make_console, show_difference

        one, other = (launch.of(path, 0, gpu) for launch, path in zip(launches, paths, strict=True))
        try:
            with Working(make_console(stderr=True), " and ".join(shown(it) for it in paths)):
                why = of_launches(one, other)
        except (ArgumentError, UnknownArchitecture) as error:
            raise CommandError(str(error)) from None
        if as_json:
            return _as_json(why)
        show_difference(make_console(), why)
        return contract.EXIT_NOT_PASSED if isinstance(why, str) else contract.EXIT_PASSED

    return in_child(work)


def _as_json(why: Difference | str) -> int:
    import json

    from gemm_lessons.commands import slower_as_json

    typer.echo(json.dumps(slower_as_json(why), indent=2, allow_nan=False))
    return contract.EXIT_NOT_PASSED if isinstance(why, str) else contract.EXIT_PASSED


def _file(course: Course, lesson: Lesson, solution: bool) -> Path:
    own = not course.packaged and not solution and lesson.kernel_path.exists()
    if own and read_bytes(lesson.kernel_path) == read_bytes(lesson.stub_path):
        own = False  # not edited yet
    return kernel_path(course, lesson, solution=not own, stub=False, file=None)


def _may_be_seen(course: Course, lesson: Lesson, path: Path, reveal: bool) -> bool:
    """Return whether the file is the learner's own, or a reference that may be revealed."""
    progress = load_progress(course)
    if path == lesson.kernel_path or progress.of(lesson.name).may_see_reference:
        return True
    if reveal:
        keep_progress(course, progress.after_reveal(lesson.name))
    return reveal
