"""``gemm-lessons export``: write a lesson as a stand-alone program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gemm_lessons.cli.options import LayoutOption, LessonArgument, NoColor, TypeOption, kernel_of, one_at_most, shape_of
from gemm_lessons.course import in_layout, typed
from gemm_lessons.running import contract


def export(
    lesson: LessonArgument,
    out: Annotated[
        Path | None, typer.Argument(metavar="[OUT]", help="The folder to write; default: export/NN_name.")
    ] = None,
    solution: Annotated[bool, typer.Option("--solution", help="Take the reference.")] = False,
    file: Annotated[Path | None, typer.Option("--file", help="Take this file as the lesson's kernel.")] = None,
    shape: Annotated[
        str | None,
        typer.Option("--shape", metavar="M,N,K", help="The program's default size; without this, 4096,4096,4096."),
    ] = None,
    layout: LayoutOption = None,
    type_: TypeOption = None,
    no_color: NoColor = False,
) -> int:
    """Write a standalone program for a GPU machine: your kernel, and the host code around it.

    main.cu allocates, copies, launches, checks, and times the kernel beside cuBLAS. Build it with the Makefile or with
    one nvcc command. Existing files are kept as NAME.bak-1, -2, ...
    """
    from gemm_lessons.report import make_console, show_export

    one_at_most(solution=solution, file=file)
    course, found, path = kernel_of(lesson, solution, file=file)
    if type_ is not None:
        found = typed(found, type_)
    if layout is not None:
        found = in_layout(found, layout.upper())
    wanted = shape_of(found, shape) if shape is not None else None
    from gemm_lessons.export import export_lesson

    folder = out or Path("export") / "_".join(filter(None, (found.name, found.type)))
    exported = export_lesson(found, path, folder, course.architecture_of(found), wanted)
    show_export(make_console(), exported)
    return contract.EXIT_PASSED
