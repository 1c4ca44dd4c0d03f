"""``gemm-lessons profile`` and ``bench``: profiling and benchmarks."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gemm_lessons.cli.options import (
    LayoutOption,
    LessonArgument,
    NoColor,
    complete_lesson,
    grouped,
    kernel_of,
    one_at_most,
    shape_of,
)
from gemm_lessons.cli.run import DEFAULT_GPU, DeviceOptions, sheet_for
from gemm_lessons.course import CommandError, Course, Lesson, any_course, in_layout, read_source
from gemm_lessons.engine import KitError
from gemm_lessons.gemm import LAYOUTS, Shape, astuple
from gemm_lessons.running import contract


class ToolChoice(StrEnum):
    """Nsight Compute (one kernel, its counters) or Nsight Systems (a timeline of the whole run)."""

    ncu = "ncu"
    nsys = "nsys"


def profile(
    lesson: LessonArgument,
    tool: Annotated[ToolChoice, typer.Option("--tool", help="ncu: counters of one kernel. nsys: a timeline.")] = (
        ToolChoice.ncu
    ),
    print_: Annotated[bool, typer.Option("--print", help="Print the command instead of running it.")] = False,
    solution: Annotated[bool, typer.Option("--solution", help="Profile the reference.")] = False,
    file: Annotated[Path | None, typer.Option("--file", help="Profile this file as the lesson's kernel.")] = None,
    shape: Annotated[
        str | None, typer.Option("--shape", metavar="M,N,K", help="Profile a launch of this shape.")
    ] = None,
    layout: LayoutOption = None,
    gpu_index: Annotated[int, typer.Option("--gpu-index", min=0, metavar="N", help="Which GPU.")] = 0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The report file; default: the lesson's name, in this folder.")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="FILE.ncu-rep",
            help="Without a GPU: write a simulated run as a report for Nsight Compute.",
        ),
    ] = None,
    no_color: NoColor = False,
) -> int:
    """Profile one kernel with Nsight Compute, beside the simulator's counters, or trace a run with Nsight Systems."""
    from gemm_lessons.commands import profiling
    from gemm_lessons.report import Working, make_console, show_plan, show_profile, show_report_file
    from gemm_lessons.running import label_for

    one_at_most(solution=solution, file=file)
    for name, given in {"print": print_, "output": output, "shape": shape}.items():
        one_at_most(**{"report": report, name: given})
    course, found, path = kernel_of(lesson, solution, file=file)
    read_source(path)
    if layout is not None:
        found = in_layout(found, layout.upper())
    if report is not None:
        return _simulated(course, found, path, report)
    wanted = shape_of(found, shape) if shape is not None else None
    options = ["--gpu-index", str(gpu_index)] if gpu_index else []
    options += ["--layout", layout.upper()] if layout is not None else []
    options += ["--solution"] if solution else ["--file", str(file)] if file else []
    plan = profiling.plan(tool.value, found, label_for(course, found, path), options, wanted, output)
    console, errors = make_console(), make_console(stderr=True)
    if print_ or plan.program is None:
        if not print_:
            errors.print(f"{tool.value} is not installed here. Run this command on a machine that has it:")
            if tool is ToolChoice.ncu:
                errors.print("(Without a GPU, --report FILE.ncu-rep writes a simulated run as a report.)")
        show_plan(console, plan)
        return contract.EXIT_PASSED
    try:
        if tool is ToolChoice.nsys:
            profiling.trace(plan)
            show_report_file(console, plan)
        else:
            with Working(errors, f"ncu, lesson {found.name}"):
                profiled = profiling.profile(plan)
            show_profile(console, plan, profiled)
    except KitError as error:
        raise KitError(f"{error}\nThe command was: {plan.text}") from None
    return contract.EXIT_PASSED


def _simulated(course: Course, lesson: Lesson, path: Path, report: Path) -> int:
    """Write the report of a simulated run."""
    from gemm_lessons.commands import report_of
    from gemm_lessons.course import write_atomically
    from gemm_lessons.devices import Simulated
    from gemm_lessons.report import Working, make_console
    from gemm_lessons.running import RunRequest, run_lesson

    if report.suffix != ".ncu-rep":
        raise CommandError(f"--report {report}: ncu-ui opens files whose names end in .ncu-rep")
    sheet = sheet_for(DEFAULT_GPU)
    request = RunRequest(course, lesson, path, Simulated(), sheet, beside=False, estimating=False)
    with Working(make_console(stderr=True), f"simulating lesson {lesson.name}"):
        data = report_of(run_lesson(request), sheet)
    write_atomically(report, data)
    make_console().print(f"{report}: simulated, to open with ncu-ui or ncu --import", soft_wrap=True)
    return contract.EXIT_PASSED


@grouped
def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[LESSON]...", help="Lessons; all of them by default.", autocompletion=complete_lesson),
    ] = None,
    *,
    lessons: Annotated[
        str | None,
        typer.Option("--lessons", metavar="LIST", help="Lessons as a list of numbers, names and ranges: 03-09,dgemm."),
    ] = None,
    part: Annotated[
        str | None, typer.Option("--part", metavar="N,...", help="Whole parts of the course: 1, or 2,3, or 1-3.")
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            "--sizes", metavar="FIRST:LAST", help="M = N = K, doubling; or a list: 512,1000,4096. Default: 128:8192."
        ),
    ] = None,
    shapes: Annotated[
        str | None, typer.Option("--shapes", metavar="MxNxK,...", help="Other shapes: 128x128x8192,64x4096x4096.")
    ] = None,
    layout: Annotated[
        str | None,
        typer.Option(
            "--layout",
            metavar="NN|NT|TN|TT,...",
            help="Store A and B as they are (N) or transposed (T); or a list of layouts.",
        ),
    ] = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", help="Save every point in this CSV file, and skip the points that it has.")
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw the pictures: .svg, .png or .pdf.")] = None,
    mine: Annotated[
        bool, typer.Option("--mine", help="Use your kernel.cu where there is one, not the reference.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print every note, not a summary.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, for scripts.")] = False,
    where: DeviceOptions,
    no_color: NoColor = False,
) -> int:
    """Compare lessons with cuBLAS over sizes: a table, a file, a plot. On the simulator, times are estimates."""
    one_at_most(sizes=sizes is not None, shapes=shapes is not None)
    wanted = parse_shapes(shapes) if shapes is not None else squares(parse_sizes(sizes or SIZES))
    layouts = parse_layouts(layout)
    course = any_course()
    if sum(it is not None and it != [] for it in (names, lessons, part)) > 1:
        raise CommandError("name lessons in one way: as arguments, with --lessons or with --part")
    if part is not None:
        chosen = parse_parts(course, part)
    else:
        chosen = (
            parse_lessons(course, lessons) if lessons is not None else [*map(course.resolve, names or course.names)]
        )
    named = [course.lesson(name) for name in dict.fromkeys(chosen)]
    found = [lesson for lesson in named if lesson.data.multiplies]
    if names and len(found) < len(named):
        other = next(lesson for lesson in named if lesson not in found)
        raise CommandError(
            f"lesson {other.name} computes {other.data.formula.text}; bench compares matrix products: leave it out"
        )
    if not found:
        raise CommandError("none of these lessons is a matrix product, and bench compares matrix products")
    if layout is None:  # lessons that all take another one only are compared in that
        layouts = [next((it for it in LAYOUTS if all(it in each.shapes.layouts for each in found)), LAYOUTS[0])]
    wanted = [replace(shape, layout=it) for shape in wanted for it in layouts]
    if plot is not None:
        from gemm_lessons.report import need_matplotlib

        need_matplotlib(plot)
    from gemm_lessons.commands import BenchRequest, bench_as_json, run_bench
    from gemm_lessons.report import make_console, progress_bar, show_bench

    on, sheet = where.opened()
    request = BenchRequest(course, found, wanted, on, sheet, csv, mine)
    with progress_bar(make_console(stderr=True)) as bar:
        result = run_bench(request, bar)
    # A measurement is compared only with the data sheet of the GPU that ran it.
    roof = request.gpu if on.timer is None else on.sheet
    if as_json:
        print(json.dumps(bench_as_json(result), indent=1))
    else:
        show_bench(make_console(), request, result, verbose)
    if plot is not None:
        from gemm_lessons.report import draw

        draw(result.groups, plot, roof)
        make_console(stderr=True).print(f"drawn: {plot}")
    if result.points:
        return contract.EXIT_PASSED
    taken = any(lesson.shapes.refusal(shape) is None for lesson in found for shape in wanted)
    return contract.EXIT_NOT_PASSED if taken else contract.EXIT_WRONG_COMMAND


SIZES = "128:8192"
MOST_SIZES = 64


def squares(sizes: Sequence[int]) -> list[Shape]:
    """Return shapes with M = N = K."""
    return [Shape(size, size, size) for size in sizes]


def parse_shapes(text: str) -> list[Shape]:
    """Parse ``128x128x8192,64x4096x4096``, without duplicates, in this order. Raises ``CommandError``."""
    found = [re.fullmatch(r"(\d{1,6})x(\d{1,6})x(\d{1,6})", part) for part in re.split(r"[,;\s]+", text.strip())]
    shapes = [Shape(*map(int, it.groups())) for it in found if it is not None]
    if None in found or any(min(astuple(it)) < 1 for it in shapes) or len(shapes) > MOST_SIZES:
        raise CommandError(f'--shapes "{text}": write shapes as MxNxK, like 128x128x8192,64x4096x4096')
    return list(dict.fromkeys(shapes))


def parse_layouts(text: str | None) -> list[str]:
    """Parse layouts of ``LAYOUTS``: ``NN,TN``. Raises ``CommandError``."""
    found = list(dict.fromkeys(text.upper().replace(" ", "").split(","))) if text is not None else [LAYOUTS[0]]
    if unknown := [it for it in found if it not in LAYOUTS]:
        raise CommandError(f'--layout "{unknown[0]}" is none of {", ".join(LAYOUTS)}')
    return found


def parse_lessons(course: Course, text: str) -> list[str]:
    """Parse ``03-09,dgemm``: lessons and ranges, in the course's order within a range. Raises ``CommandError``."""
    found: list[str] = []
    for part in text.split(","):
        first, dash, last = (it.strip() for it in part.partition("-"))
        if not first or (dash and not last):
            raise CommandError(f'--lessons "{text}": write lessons and ranges of them, like 03-09 or 03,05,dgemm')
        start = course.names.index(course.resolve(first))
        end = course.names.index(course.resolve(last)) if dash else start
        if end < start:
            raise CommandError(f'--lessons "{text}": {first} comes after {last}; write {last}-{first}')
        found += course.names[start : end + 1]
    return list(dict.fromkeys(found))


def parse_parts(course: Course, text: str) -> list[str]:
    """Parse ``1``, ``2,3`` or ``1-3`` and return the lessons of these parts. Raises ``CommandError``."""
    parts = {it.number: it for it in course.parts if it.number}
    ranges = [re.fullmatch(r"\s*(\d{1,3})(?:\s*-\s*(\d{1,3}))?\s*", it) for it in text.split(",")]
    numbers = [n for it in ranges if it for n in range(int(it[1]), int(it[2] or it[1]) + 1)]
    if None in ranges or not numbers:
        raise CommandError(f'--part "{text}": write numbers of parts, like 1 or 2,3 or 1-3')
    if unknown := [number for number in numbers if number not in parts]:
        known = ", ".join(f"{it.number} ({it.title})" for it in parts.values()) or "none"
        raise CommandError(f"there is no part {unknown[0]}; the course has {known}")
    return list(dict.fromkeys(name for number in numbers for name in parts[number].names))


def parse_sizes(text: str) -> tuple[int, ...]:
    """Parse ``128:8192`` (powers of two times the first), ``512,1000,4096`` or one number. Raises ``CommandError``."""
    wrong = CommandError(
        f'--sizes "{text}": write FIRST:LAST, which doubles from first to last, or sizes like 512,1024'
    )
    bounds = re.fullmatch(r"\s*(\d{1,6})\s*:\s*(\d{1,6})\s*", text)
    if bounds:
        first, last = int(bounds[1]), int(bounds[2])
        if not 1 <= first <= last:
            raise wrong
        sizes = [first]
        while sizes[-1] * 2 <= last:
            sizes.append(sizes[-1] * 2)
        return tuple(sizes)
    if not re.fullmatch(r"\s*\d{1,6}(\s*,\s*\d{1,6})*\s*", text):
        raise wrong
    sizes = sorted({int(size) for size in text.split(",")})
    if sizes[0] < 1 or len(sizes) > MOST_SIZES:
        raise wrong
    return tuple(sizes)
