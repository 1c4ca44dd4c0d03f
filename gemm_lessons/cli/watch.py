"""``gemm-lessons watch``: start a session from arguments."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from gemm_lessons.cli.options import LessonOrHere, NoColor, Problems, grouped
from gemm_lessons.cli.run import DeviceOptions
from gemm_lessons.cli.view import Pictures, view_lesson
from gemm_lessons.course import lesson_at, own_course, writing
from gemm_lessons.running import contract

if TYPE_CHECKING:
    from gemm_lessons.course import Course, Lesson


@grouped
def watch(
    lesson: LessonOrHere = None,
    *,
    where: DeviceOptions,
    polling: Annotated[
        bool, typer.Option("--polling", help="Poll the files, for network drives and containers.")
    ] = False,
    problems: Problems = False,
    json_lines: Annotated[
        bool, typer.Option("--json-lines", help="Print one line of JSON for each run and nothing else, for editors.")
    ] = False,
    no_color: NoColor = False,
) -> int:
    """Run the lesson's kernel each time you save it.

    Keys: n next lesson and d diff (after a pass), h hint, r run, v view, l list, q quit.
    """
    course = own_course()
    found = lesson_at(course, lesson)
    opened = where.opened()
    from gemm_lessons.watch import Session

    Session(course, opened, partial(_show_pictures, course), polling, problems, json_lines).run(found)
    return contract.EXIT_PASSED


def _show_pictures(course: Course, lesson: Lesson) -> None:
    """Write the page of a run beside the progress, and open it in a browser if there is a desktop."""
    from gemm_lessons.course import progress_path

    folder = progress_path(course).parent
    with writing(folder):
        folder.mkdir(exist_ok=True)
    desktop = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    view_lesson(str(lesson.directory), Pictures(folder / f"{lesson.name}.html", open_=desktop))
