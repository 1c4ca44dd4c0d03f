"""``gemm-lessons check``: which kernels of a course folder pass, for a hook before commits and for hosted checks."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from typing import Annotated

import typer

from gemm_lessons.cli.options import NoColor, Problems
from gemm_lessons.course import CommandError, Course, TodoMark, marks_left, own_course
from gemm_lessons.running import contract


def check(
    lessons: Annotated[
        list[str] | None,
        typer.Argument(metavar="[LESSON]...", help="Lessons, or their files; default: every lesson with a kernel.cu."),
    ] = None,
    problems: Problems = False,
    no_color: NoColor = False,
) -> int:
    """Run all your kernels on the simulator, and list which pass.

    A kernel that does not pass but still has an open TODO counts as unfinished, not as failed.
    Exit code: 0 every finished kernel passed, 1 one did not, 2 wrong command, 3 the kit is broken.
    """
    course = own_course()
    names = dict.fromkeys(course.resolve(it) for it in lessons or course.names)
    begun = [name for name in names if course.lesson(name).kernel_path.exists()]
    if not begun:
        typer.echo("There is no kernel.cu to check. Make one: gemm-lessons next")
    return max((_check_one(course, name, problems) for name in begun), default=contract.EXIT_PASSED)


def _check_one(course: Course, name: str, problems: bool) -> int:
    """Print the state of one kernel, and the report of a finished one that does not pass; return the exit code."""
    command = [sys.executable, "-m", "gemm_lessons", "run", name, "--device", "sim", *["--problems"] * problems]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode == contract.EXIT_PASSED:
        typer.echo(f"{name}  passed")
        return contract.EXIT_PASSED
    if done.returncode != contract.EXIT_NOT_PASSED:
        typer.echo(f"{name}  not checked\n\n{done.stdout}")
        return contract.EXIT_BROKEN
    marks: tuple[TodoMark, ...] = ()
    with contextlib.suppress(CommandError):  # not text, which is a verdict
        marks = marks_left(course, course.lesson(name))
    if marks:
        typer.echo(f"{name}  unfinished: {', '.join(f'TODO({mark.number})' for mark in marks)}")
        return contract.EXIT_PASSED
    typer.echo(f"{name}  not passed\n\n{done.stdout}")
    return contract.EXIT_NOT_PASSED
