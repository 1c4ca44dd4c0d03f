"""Commands to work through the lessons: ``gemm-lessons`` alone, ``list``, ``read``, ``start``, ``next``, ``hint``,
``diff``, ``reset``."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from gemm_lessons.cli.options import LessonArgument, LessonOrHere, NoColor, complete_lesson, keep_progress, kernel_path
from gemm_lessons.course import (
    CommandError,
    Course,
    LessonError,
    any_course,
    load_progress,
    own_course,
    packaged_course,
    read_bytes,
    read_source,
    reset_lesson,
    shown,
    start_lesson,
    waits_for_predictions,
)
from gemm_lessons.running import contract


def home() -> int:
    """Show the learner's position, the next step and three commands."""
    from gemm_lessons.course import position_in
    from gemm_lessons.report import make_console, show_home

    show_home(make_console(), position_in(any_course()))
    return contract.EXIT_PASSED


def list_(no_color: NoColor = False) -> int:
    """List the lessons: each one's idea, what has passed, and what is next."""
    from gemm_lessons.report import make_console, show_error, show_list

    course = any_course()
    lessons = course.summaries()
    show_list(make_console(), course, lessons, load_progress(course))
    broken = [lesson for lesson in lessons.values() if isinstance(lesson, LessonError)]
    for problem in broken:
        show_error(make_console(stderr=True), str(problem))
    return contract.EXIT_BROKEN if broken else contract.EXIT_PASSED


ENGINE = "engine"  # the page that is generated from the engine's docstrings
# For --help, which must not look for files; a test compares it with the folder.
PAGES = (
    "authoring, commands, dependencies, elsewhere, grading, install, json, notebook, numbers, profiling, python, engine"
)


def complete_text(incomplete: str) -> list[str]:
    """Return names of lessons and pages for shell completion."""
    return complete_lesson(incomplete) + [name for name in PAGES.split(", ") if name.startswith(incomplete)]


def read(
    lesson: Annotated[
        str | None,
        typer.Argument(
            metavar="[LESSON|PAGE]",
            help=f"A lesson: 03, 3, block_tile; default: your current one. Or a page: glossary, {PAGES}.",
            autocompletion=complete_text,
        ),
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Print the Markdown source.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="Show the results, too, before you have predicted them.")] = False,
    no_color: NoColor = False,
) -> int:
    """Show a lesson's text, or a page about the kit."""
    from gemm_lessons.course import lesson_at
    from gemm_lessons.report import make_console, show_page, show_text

    course = any_course()
    if lesson is not None and (page := _page(course, lesson)) is not None:
        show_page(make_console(), page, raw)
        return contract.EXIT_PASSED
    found = lesson_at(course, lesson)
    text = read_source(found.text_path)
    if raw:
        typer.echo(text, nl=not text.endswith("\n"))
    else:
        waits = not all_ and not course.packaged and waits_for_predictions(found, load_progress(course))
        show_text(make_console(), found, text, course, waits)
    return contract.EXIT_PASSED


def _page(course: Course, name: str) -> str | None:
    """Return the Markdown of the page of this name; None when a lesson is meant. Raise ``CommandError``."""
    if course.named(name) or re.match(r"\d", name):
        return None
    from gemm_lessons.course import all_documents

    texts = {**all_documents(packaged_course()), **all_documents(course)}  # a learner's folder lacks some
    if name in texts:
        return read_source(texts[name].path)
    if name == ENGINE:
        from gemm_lessons.report import engine_reference

        return engine_reference()
    from gemm_lessons.engine.records import closest

    near = closest(name, [*texts, ENGINE])
    if near and not closest(name, [lesson[3:] for lesson in course.names]):
        raise CommandError(f'there is no page "{name}"; did you mean gemm-lessons read {near}?')
    return None


def start(lesson: LessonArgument, no_color: NoColor = False) -> int:
    """Make kernel.cu from the stub, and list its TODOs."""
    from gemm_lessons.report import make_console, show_started

    course = own_course()
    started, progress = start_lesson(course.lesson(lesson)), load_progress(course)
    keep_progress(course, progress.at(started.lesson.name))
    waits = waits_for_predictions(started.lesson, progress)
    show_started(make_console(), started, waits, part=course.part_that_begins_with(started.lesson.name))
    return contract.EXIT_PASSED


def next_(no_color: NoColor = False) -> int:
    """Open the next lesson: its text, and kernel.cu made from the stub."""
    from gemm_lessons.course import position_in
    from gemm_lessons.report import make_console, show_home, show_started, show_text

    course = own_course()
    progress = load_progress(course)
    console = make_console()
    name = progress.next_open(course.names)
    if name is None:
        show_home(console, position_in(course))
        return contract.EXIT_PASSED
    lesson = course.lesson(name)
    started = start_lesson(lesson)
    keep_progress(course, progress.at(name))
    untouched = read_bytes(started.path) == read_bytes(lesson.stub_path)
    waits = waits_for_predictions(lesson, progress)
    if untouched and console.is_terminal:
        show_text(console, lesson, read_source(lesson.text_path), course, waits, steps=False)
    show_started(console, started, waits, part=course.part_that_begins_with(name))
    return contract.EXIT_PASSED


def hint(
    lesson: LessonOrHere = None,
    todo: Annotated[int | None, typer.Option("--todo", metavar="N", help="The number in // TODO(number).")] = None,
    level: Annotated[
        int | None, typer.Option("--level", metavar="N", help="Which hint, from 1 (a nudge); default: the next one.")
    ] = None,
    all_: Annotated[
        bool, typer.Option("--list", help="List the TODOs, and how many hints you have seen for each.")
    ] = False,
    no_color: NoColor = False,
) -> int:
    """Show the next hint for the first open TODO, or for the TODO that you name."""
    from gemm_lessons.course import hint_level, lesson_at, marks_left, next_hint, todo_marks
    from gemm_lessons.report import make_console, show_hint, show_todos

    course = any_course()
    found = lesson_at(course, lesson)
    progress = load_progress(course)
    so_far = progress.of(found.name)
    asked = todo is not None or level is not None
    wanted = (
        hint_level(found, so_far, 1 if todo is None else todo, level) if asked else next_hint(course, found, so_far)
    )
    if all_ or wanted is None:
        marks = todo_marks(read_source(found.stub_path))
        left, first = marks_left(course, found), next_hint(course, found, so_far)
        still = [mark.number for mark in left] or ([first.todo] if first else [])
        show_todos(make_console(), found, marks, progress, still)
        return contract.EXIT_PASSED
    keep_progress(course, progress.after_hint(found.name, wanted.todo, wanted.level))
    show_hint(make_console(), found, wanted)
    return contract.EXIT_PASSED


def diff(
    lesson: LessonArgument,
    reveal: Annotated[
        bool,
        typer.Option("--peek", "--reveal", help="Show the reference before a pass; the course remembers it."),
    ] = False,
    no_color: NoColor = False,
) -> int:
    """Compare your kernel.cu with the reference, once yours has passed."""
    from gemm_lessons.report import make_console, show_diff

    course = own_course()
    found = course.lesson(lesson)
    mine = kernel_path(course, found, solution=False, stub=False, file=None)
    reference = kernel_path(course, found, solution=True, stub=False, file=None)
    progress = load_progress(course)
    if not (reveal or progress.of(found.name).may_see_reference):
        raise CommandError(
            f"lesson {found.name} is not passed yet, and the reference would spoil it; "
            f"to see it anyway: gemm-lessons diff {found.number:02} --peek"
        )
    before, after = read_source(mine), read_source(reference)
    if not progress.of(found.name).may_see_reference:
        keep_progress(course, progress.after_reveal(found.name))
    show_diff(make_console(), (shown(mine), before), ("the reference", after))
    return contract.EXIT_PASSED


def reset(
    lesson: Annotated[
        str | None, typer.Argument(metavar="[LESSON]", help="Not needed with --all.", autocompletion=complete_lesson)
    ] = None,
    settings: Annotated[bool, typer.Option("--settings", help="Restore lesson.toml only; kernel.cu stays.")] = False,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Restore all files of the lesson; without a lesson, those of the whole course."),
    ] = False,
    no_color: NoColor = False,
) -> int:
    """Restore the stub, or the files that came with the course. The old files are kept as NAME.bak-1, -2, ..."""
    from gemm_lessons.course import restore_course, restore_lesson, restore_settings
    from gemm_lessons.report import make_console, show_reset, show_restored

    course = own_course()
    if lesson is None and not everything:
        raise CommandError("name a lesson, like: gemm-lessons reset 03; the whole course: gemm-lessons reset --all")
    if settings and everything:
        raise CommandError("--all includes --settings; give one")
    console = make_console()
    if not settings and not everything and lesson is not None:
        found = course.lesson(lesson)
        show_reset(console, found, reset_lesson(found))
        return contract.EXIT_PASSED
    if lesson is None:
        show_restored(console, restore_course(course))
        return contract.EXIT_PASSED
    name = course.resolve(lesson)  # not loaded, since its lesson.toml may be broken
    show_restored(console, restore_settings(course, name) if settings else restore_lesson(course, name))
    return contract.EXIT_PASSED
