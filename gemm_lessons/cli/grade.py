"""``gemm-lessons grade``: build an assignment from arguments, and show the grades."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from typer.core import TyperGroup

from gemm_lessons.cli.options import NoColor
from gemm_lessons.course import CommandError, packaged_course, shown
from gemm_lessons.running import contract

if TYPE_CHECKING:
    from gemm_lessons.course import Course
    from gemm_lessons.grading import Assignment

MOST_SHARDS = 10_000
Formats = Annotated[
    list[str] | None,
    typer.Option(
        "--format", metavar="FORMAT", help="Also write the grades for another system; see gemm-lessons read grading."
    ),
]


class GradingDevice(StrEnum):
    """Where kernels run. There is no automatic choice: a grade must not depend on the machine's hardware."""

    sim = "sim"
    gpu = "gpu"


class GradeGroup(TyperGroup):
    """``grade SUBMISSIONS``, ``grade merge DIR``, ``grade setup HOST DIR``: other first words name submissions."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Add the name of the command ``class``, which is not typed."""
        return super().parse_args(ctx, args if args[:1] in (["merge"], ["setup"]) else ["class", *args])

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the command, and hide the name ``class`` in usage lines and errors."""
        name, command, rest = cast("tuple[str | None, Any, list[str]]", super().resolve_command(ctx, args))
        if name != "class":
            return name, command, rest
        plain: Any = command.context_class
        # "gemm-lessons grade", as typed, in usage lines and errors.
        path = property(lambda self: plain.command_path.fget(self).rstrip())
        command.context_class = type("Context", (plain,), {"command_path": path})
        return "", command, rest


def class_(
    submissions: Annotated[
        Path, typer.Argument(metavar="SUBMISSIONS", help="A folder that holds one folder or archive per student.")
    ],
    lessons: Annotated[
        list[str] | None,
        typer.Option("--lessons", metavar="LESSONS", help="The lessons to grade: 01-09, or 03,block_tile."),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder for the grades; an earlier run there resumes.")
    ] = Path("grades"),
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Points and limits: grading.toml.")
    ] = None,
    roster: Annotated[
        Path | None, typer.Option("--roster", metavar="FILE", help="The class list: a CSV with id, name, email.")
    ] = None,
    student: Annotated[
        str | None, typer.Option("--student", metavar="NAME", help="SUBMISSIONS is the work of this one student.")
    ] = None,
    format_: Formats = None,
    course: Annotated[
        Path | None, typer.Option("--course", metavar="DIR", help="Judge by this course; default: the package's.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed", min=0, metavar="N", help="Seed of the hidden inputs; default: the earlier run's, or a new one."
        ),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes", min=1, max=1024, metavar="N", help="Kernels to judge in parallel; default: one per core."
        ),
    ] = None,
    device: Annotated[
        GradingDevice, typer.Option("--device", help="Where kernels run: on the simulator, or on this GPU.")
    ] = GradingDevice.sim,
    executor: Annotated[
        str, typer.Option("--executor", metavar="local|ray", help="Where kernels are judged.")
    ] = "local",
    shard: Annotated[
        str | None,
        typer.Option("--shard", metavar="I/N", help="Judge only part I of N; combine them with grade merge."),
    ] = None,
    again: Annotated[
        str | None,
        typer.Option("--again", metavar="STUDENT", help="Judge this student's kernel of an earlier run again."),
    ] = None,
    lesson: Annotated[str | None, typer.Option("--lesson", metavar="LESSON", help="The lesson for --again.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Judge everything again.")] = False,
    no_color: NoColor = False,
) -> int:
    """Grade a class: judge every student's kernels, safely, and write the grades.

    A stopped run resumes where it was. Your overrides and penalties in DIR/decisions.csv are kept and applied.

    Exit code: 0 graded, whatever the grades; 2 wrong command; 3 some could not be judged, because of the kit.
    """
    from gemm_lessons.grading import assignment_of, check_format

    for name in format_ or ():
        check_format(name)
    if (again is None) != (lesson is None):
        raise CommandError("--again STUDENT and --lesson NN belong together")
    assignment = assignment_of(
        submissions,
        out,
        lessons=lessons or (),
        config=config,
        roster=roster,
        student=student,
        course=course,
        seed=seed,
        shard=_shard(shard),
        device=device.value,
    )
    if again is not None and lesson is not None:
        return _again(assignment, again, lesson)
    if device is GradingDevice.gpu:  # parallel kernels would wait for each other
        processes = processes or 1
    return _grade(assignment, fresh, executor, processes, format_ or [])


def _shard(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d{1,5})\s*/\s*(\d{1,5})\s*", text)
    part, parts = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= part <= parts <= MOST_SHARDS:
        raise CommandError(f'--shard "{text}" is not a shard; write --shard 1/10 to --shard 10/10')
    return part, parts


def _grade(assignment: Assignment, fresh: bool, executor: str, processes: int | None, formats: list[str]) -> int:
    from dataclasses import replace

    from gemm_lessons.grading import Classroom, load_decisions, open_executor
    from gemm_lessons.report import ahead, make_console, show_remarks, show_start

    classroom = Classroom.of(replace(assignment, fresh=fresh))
    # Its errors are told before anything is judged.
    load_decisions(assignment.out, [it.record for it in assignment.submissions.students], assignment.lessons)
    told = make_console(stderr=True)
    kept = classroom.kept()
    show_start(told, classroom, kept)
    show_remarks(told, assignment.submissions.remarks)
    workers = open_executor(executor, processes, assignment.lessons)
    with workers as judges, ahead(told, len(classroom.mine), kept) as tell:
        classroom.grade(judges, tell)
    return _show(assignment.out, formats, assignment.course)


def _show(out: Path, formats: list[str], course: Course) -> int:
    """Write the outputs of the graded class and show them."""
    from gemm_lessons.grading import (
        REFERENCE,
        gradebook_of,
        load_decisions,
        load_grades,
        load_grading,
        pairs_of,
        write_csv,
        write_format,
        write_template,
    )
    from gemm_lessons.report import Working, make_console, show_class, write_pages, written_lines

    grading = load_grading(out)
    template = write_template(out)
    decisions = load_decisions(out, grading.students, grading.lessons)
    book = decisions.decided(gradebook_of(grading, load_grades(out, grading)))
    with Working(make_console(stderr=True), "comparing"):
        pairs = pairs_of(out, book, course)
    written = [write_csv(book, out), *write_pages(book, out, pairs)[:1], *([template] if template else [])]
    for name in formats:
        written += write_format(name, book, out)[:1]
    copied = sum(pair.second == REFERENCE for pair in pairs or ())
    others = len(pairs or ()) - copied
    remarks = [f"like the reference solution: {copied} kernel{'s'[: copied != 1]}, see index.html"] if copied else []
    remarks += (
        [f"very similar to each other: {others} pair{'s'[: others != 1]} of kernels, see index.html"] if others else []
    )
    omitted = {row.student.id: each for row in book.rows if (each := row.student.ungraded_files)}
    if omitted:
        count = sum(omitted.values())
        several = f"{count} files were" if count > 1 else "1 file was"
        remarks.append(f"{several} not graded, of {', '.join(omitted)}: see index.html")
    show_class(make_console(), book, [*remarks, *written_lines(written)])
    failed = any(grade is not None and not grade.judged for row in book.rows for grade in row.grades)
    return contract.EXIT_BROKEN if failed else contract.EXIT_PASSED


def _again(assignment: Assignment, student: str, lesson: str) -> int:
    from gemm_lessons.grading import Classroom
    from gemm_lessons.report import Working, make_console, show_again

    name = assignment.course.resolve(lesson)
    with Working(make_console(stderr=True), f"lesson {name}"):
        before, now = Classroom.repeat(assignment, student, name)
    show_again(make_console(), before, now)
    return contract.EXIT_PASSED if now.judged else contract.EXIT_BROKEN


def merge(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="The folders that the shards wrote.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for all grades.")] = Path("grades"),
    format_: Formats = None,
    no_color: NoColor = False,
) -> int:
    """Put the grades of several shards together.

    Exit code: 0 all grades are there, 2 wrong command, such as shards of different classes; 3 some are missing.
    """
    from gemm_lessons.grading import check_format, merge_shards
    from gemm_lessons.report import make_console, show_remarks

    for name in format_ or ():
        check_format(name)
    missing = merge_shards(folders, out)
    show_remarks(make_console(stderr=True), missing)
    return max(_show(out, format_ or [], packaged_course()), contract.EXIT_BROKEN if missing else contract.EXIT_PASSED)


def setup(
    host: Annotated[
        str, typer.Argument(metavar="HOST", help="gradescope, github, classroom50, laptop, slurm or kubernetes.")
    ],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.")],
    lessons: Annotated[
        str, typer.Option("--lessons", metavar="LESSONS", help="Lessons to grade there, such as 01-09.")
    ] = "01-09",
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Your grading.toml; default: ten points a lesson.")
    ] = None,
    no_color: NoColor = False,
) -> int:
    """Write the files for grading on another system, ready to use."""
    from gemm_lessons.grading import load_rubric, parse_lessons, write_host
    from gemm_lessons.report import make_console, written_lines

    course = packaged_course()
    parse_lessons(course, [lessons])
    if config is not None:
        load_rubric(config, course)
    console = make_console()
    for line in written_lines(write_host(host, folder, lessons, config)):
        console.print(line, soft_wrap=True)
    console.print(f"Read {shown(folder / 'README.md')} next.", soft_wrap=True)
    return contract.EXIT_PASSED
