"""``gemm-lessons init``: a course folder with all that git and editors want."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gemm_lessons.cli.options import NoColor
from gemm_lessons.course import CommandError, Course, init_course, shown
from gemm_lessons.running import contract


def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The new course folder; it may exist.")],
    git: Annotated[bool, typer.Option("--git/--no-git", help="Make it a git repository with a first commit.")] = True,
    editor: Annotated[
        bool,
        typer.Option("--editor", help="In an existing course: write missing editor files, and renew clangd's."),
    ] = False,
    no_color: NoColor = False,
) -> int:
    """Make a course folder to work and commit in. It holds texts, stubs and settings, but no solutions.

    It is a git repository, and clangd and VS Code understand its .cu files without a CUDA toolkit. VS Code's Testing
    view lists its lessons as tests.
    """
    from gemm_lessons.editor import make_repository, write_editor_files
    from gemm_lessons.report import make_console, show_editor_files, show_init

    console = make_console()
    if editor:
        course = Course(directory)
        if not course.lessons_dir.is_dir():
            raise CommandError(f"{shown(directory)} has no lessons folder; make one: gemm-lessons init {directory}")
        show_editor_files(console, write_editor_files(course))
        return contract.EXIT_PASSED
    course = init_course(directory)
    write_editor_files(course)
    repository = make_repository(course.root) if git else ""
    show_init(console, course, course.root.resolve() == Path.cwd(), repository)
    return contract.EXIT_PASSED
