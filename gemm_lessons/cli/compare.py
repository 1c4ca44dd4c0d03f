"""``gemm-lessons compare``: compare two lessons' kernels side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gemm_lessons.cli.options import LessonArgument, NoColor, keep_progress, kernel_path
from gemm_lessons.cli.run import DEFAULT_GPU, GPU, sheet_for
from gemm_lessons.course.folder import CommandError, Course, any_course, read_bytes, read_source
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.course.progress import keeps_reference, load_progress
from gemm_lessons.running import contract


def compare(
    first: LessonArgument,
    second: LessonArgument,
    solution: Annotated[
        bool, typer.Option("--solution", help="The references, also where there is a kernel.cu.")
    ] = False,
    reveal: Annotated[
        bool, typer.Option("--peek", "--reveal", help="Show references before a pass; the course remembers it.")
    ] = False,
    gpu: Annotated[str, typer.Option("--gpu", metavar=GPU, help="The GPU that estimates are for.")] = DEFAULT_GPU,
    no_color: NoColor = False,
) -> int:
    """Two lessons side by side: where their source differs, and what each counts.

    It uses your kernel.cu of a lesson if you have changed it, else the reference.
    """
    course = any_course()
    left, right = course.lesson(first), course.lesson(second)
    if left.name == right.name:
        raise CommandError(f"name two lessons; yours against the reference: gemm-lessons diff {left.number:02}")
    files = [_file(course, lesson, solution) for lesson in (left, right)]
    for path in files:
        read_source(path)
    sheet = sheet_for(gpu)
    progress = load_progress(course)
    closed = [it for it, path in zip((left, right), files, strict=True) if path != it.kernel_path]
    for lesson in closed if not reveal else ():
        if keeps_reference(course, lesson, progress):
            raise CommandError(
                f"lesson {lesson.name} is not passed yet, and its reference would answer its questions; to see it all "
                f"the same: gemm-lessons compare {left.number:02} {right.number:02} --peek"
            )
    sources = all(_may_be_seen(course, lesson, path, reveal) for lesson, path in zip((left, right), files, strict=True))

    from gemm_lessons.cli.guard import in_child

    def work() -> int:
        from gemm_lessons.commands.comparing import Contender
        from gemm_lessons.commands.comparing import compare as compared
        from gemm_lessons.devices.simulated import Simulated
        from gemm_lessons.report.compare import show_comparison
        from gemm_lessons.report.console import Working, make_console
        from gemm_lessons.report.course import show_note
        from gemm_lessons.running.plan import RunRequest

        one, other = (
            Contender(_label(lesson, path), lesson, path) for lesson, path in zip((left, right), files, strict=True)
        )
        request = RunRequest(course, right, files[1], Simulated(), sheet, beside=False)
        with Working(make_console(stderr=True), f"{left.name} and {right.name}") as working:
            result = compared(request, one, other, working)
        show_comparison(make_console(), result, sources)
        if not sources:
            show_note(make_console(stderr=True), "the source of a reference is shown after a pass, or with --peek")
        return contract.EXIT_PASSED

    return in_child(work)


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


def _label(lesson: Lesson, path: Path) -> str:
    return f"{lesson.number:02} {'yours' if path == lesson.kernel_path else 'reference'}"
