"""``gemm-lessons tune``: which tile sizes are fastest?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from gemm_lessons.cli.options import LessonArgument, NoColor, grouped, kernel_path, one_at_most, shape_of
from gemm_lessons.cli.run import DEFAULT_GPU, DeviceOptions, sheet_for
from gemm_lessons.course import CommandError, Lesson, any_course, own_course, read_source, shown
from gemm_lessons.engine.process import resources
from gemm_lessons.running import contract


@grouped
def tune(
    lesson: LessonArgument,
    *,
    shape: Annotated[str, typer.Option("--shape", metavar="M,N,K", help="The shape to tune for.")] = "4096,4096,4096",
    try_: Annotated[
        list[str] | None,
        typer.Option("--try", metavar="NAME=A,B,C", help="Try these values of a size, not those of lesson.toml."),
    ] = None,
    mine: Annotated[bool, typer.Option("--mine", help="Tune your kernel.cu, not the reference.")] = False,
    file: Annotated[Path | None, typer.Option("--file", help="Tune this file as the lesson's kernel.")] = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", help="Save every result in this CSV file, and resume from it.")
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw a picture: .svg, .png or .pdf.")] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Write the fastest sizes into your course's lesson.toml, with a backup.")
    ] = False,
    model: Annotated[
        bool, typer.Option("--model", help="Print what registers, shared memory and DRAM allow, without a search.")
    ] = False,
    measure: Annotated[
        int, typer.Option("--measure", min=1, metavar="N", help="How many candidates to time, best estimates first.")
    ] = 24,
    processes: Annotated[
        int | None, typer.Option("--processes", min=1, metavar="N", help="How many processes share the work.")
    ] = None,
    where: DeviceOptions,
    no_color: NoColor = False,
) -> int:
    """Search for the fastest tile sizes: compile, check and rank by estimate; on a GPU, time the best.

    [tune] in lesson.toml lists the sizes to try. Only --keep changes your course. --model derives sizes from a GPU's
    data sheet, without a kernel.
    """
    one_at_most(mine=mine, file=file)
    course = own_course() if mine or keep else any_course()
    found = course.lesson(lesson)
    if model:
        if mine or keep or any(it is not None for it in (file, try_, csv, plot)):
            raise CommandError("--model reads only a data sheet; combine it with --gpu only")
        return show_bounds(found, where.gpu)
    path = kernel_path(course, found, not mine, False, file)
    read_source(path)
    wanted = shape_of(found, shape)
    found = replace(found, search=found.search.with_values(parse_values(found, try_ or ())))
    if not found.search.values:
        first = next(iter(found.tile.defines), None)
        what = f"say what to try, like --try {first}=8,16" if first else "it has no tile sizes"
        raise CommandError(f"lesson {found.name} has no [tune] in its lesson.toml: {what}")
    if plot is not None:
        from gemm_lessons.report import need_matplotlib

        need_matplotlib(plot)
    from gemm_lessons.commands import TuneRequest
    from gemm_lessons.commands import tune as search
    from gemm_lessons.report import make_console, progress_bar, show_tuning

    on, sheet = where.opened()
    cores = processes or resources.cores()
    request = TuneRequest(course, found, path, wanted, on, sheet, csv, measure, cores)
    with progress_bar(make_console(stderr=True), cores) as bar:
        tuning = search(request, bar)
    show_tuning(make_console(), request, tuning)
    if plot is not None:
        from gemm_lessons.report import draw_tuning

        draw_tuning(request, tuning, plot)
        make_console(stderr=True).print(f"drawn: {plot}")
    if keep and tuning.ranked:
        make_console(stderr=True).print(keep_sizes(found, tuning.ranked[0].sizes))
    return contract.EXIT_PASSED if tuning.ranked else contract.EXIT_NOT_PASSED


def show_bounds(lesson: Lesson, gpu: str | None) -> int:
    """Show the tile sizes that a data sheet allows for a lesson, and return the exit code. Raises ``CommandError``."""
    from gemm_lessons.gemm import tile_model_of

    sheet, element = sheet_for(gpu or DEFAULT_GPU), lesson.data.factors[0].element.name
    bounds = tile_model_of(sheet, element)
    if bounds is None:
        raise CommandError(f"--model knows the rates of float32 and float64, and {lesson.name} multiplies {element}")
    from gemm_lessons.report import make_console, show_model

    show_model(make_console(), lesson, bounds)
    return contract.EXIT_PASSED


def parse_values(lesson: Lesson, texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Parse ``["BM=64,128"]`` to ``{"BM": (64, 128)}``. Raises ``CommandError``."""
    found: dict[str, tuple[int, ...]] = {}
    for text in texts:
        match = re.fullmatch(r"\s*([A-Z][A-Z0-9_]*)\s*=\s*(\d{1,6}(?:\s*,\s*\d{1,6})*)\s*", text)
        if not match:
            raise CommandError(f'--try "{text}" is not a list of sizes; write it like --try BK=8,16,32')
        if match[1] not in lesson.tile.defines:
            known = ", ".join(lesson.tile.defines) or "none"
            raise CommandError(f"--try: lesson {lesson.name} has no size {match[1]}; it has {known}")
        found[match[1]] = tuple(dict.fromkeys(int(size) for size in match[2].split(",")))
    return found


def keep_sizes(lesson: Lesson, sizes: Mapping[str, int]) -> str:
    """Write the sizes into ``[tile]`` of lesson.toml, with a backup of the old file, and return a sentence about it.
    Raises ``CommandError`` and ``WriteError``."""
    from gemm_lessons.course import replace_with_backup

    had = {name: size for name, size in sizes.items() if lesson.tile.defines[name] != size}
    if not had:
        return f"{shown(lesson.toml_path)} has these sizes already."
    lines = read_source(lesson.toml_path).splitlines(keepends=True)
    start = next(i for i, line in enumerate(lines) if re.match(r"\s*\[tile\]", line)) + 1
    end = next((i for i in range(start, len(lines)) if re.match(r"\s*\[", lines[i])), len(lines))
    for name, size in had.items():
        at = next((i for i in range(start, end) if re.match(rf"\s*{name}\s*=", lines[i])), None)
        if at is None:
            raise CommandError(
                f"{shown(lesson.toml_path)}: {name} is chosen for each launch, so [tile] does not have it"
            )
        lines[at] = re.sub(r"=(\s*)\d+", rf"=\g<1>{size}", lines[at], count=1)
    kept = replace_with_backup(lesson.toml_path, "".join(lines).encode())
    assert kept.backup is not None  # the file was there: it has been read
    written = ", ".join(f"{name} = {size}" for name, size in had.items())
    return f"{shown(lesson.toml_path)}: {written}; the old one is {shown(kept.backup)}"
