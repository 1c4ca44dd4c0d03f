"""Arguments in, exit code out. What a command does lives elsewhere; this only calls it and shows the result.

Start-up matters here: ``list`` and ``--help`` must not import NumPy or CUDA, so heavy modules are imported inside the
commands that need them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, ParamSpec

import typer

from gemm_lessons import __version__
from gemm_lessons.cli.gpu import bench, profile
from gemm_lessons.cli.inspect import inspect, opcodes
from gemm_lessons.cli.options import LessonArgument, NoColor, keep_progress
from gemm_lessons.cli.run import run
from gemm_lessons.course.folder import (
    CommandError,
    any_course,
    init_course,
    own_course,
    read_source,
    reset_lesson,
    start_lesson,
    todo_marks,
)
from gemm_lessons.course.lesson import Lesson, LessonError, ShapeError
from gemm_lessons.course.lesson_toml import load_lesson
from gemm_lessons.course.progress import load_progress
from gemm_lessons.errors import KitError, UnsupportedKernel
from gemm_lessons.run import contract

Parameters = ParamSpec("Parameters")

app = typer.Typer(
    name="gemm-lessons",
    help="Learn to make a CUDA matrix multiplication fast, one lesson at a time, with or without a GPU.",
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,  # plain help: half the start-up time, and no boxes in pipes
    pretty_exceptions_enable=False,
    epilog="\b\nFirst steps:\n  gemm-lessons list\n  gemm-lessons read 01\n  gemm-lessons start 01",
)


def _show_version(value: bool) -> bool:
    if value:
        typer.echo(f"gemm-lessons {__version__}")
        raise typer.Exit
    return value


def command(*examples: str) -> Callable[[Callable[Parameters, int]], Callable[Parameters, None]]:
    """Register a function as a command. It returns its exit code; its failures become one message each."""

    def register(function: Callable[Parameters, int]) -> Callable[Parameters, None]:
        @wraps(function)
        def guarded(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
            raise typer.Exit(_exit_code(function, *args, **kwargs))

        # \b: these lines are not to be joined.
        epilog = "\b\nExamples:\n" + "\n".join(f"  {example}" for example in examples)
        app.command(name=function.__name__.rstrip("_"), epilog=epilog)(guarded)
        return guarded

    return register


def _exit_code(function: Callable[Parameters, int], *args: Parameters.args, **kwargs: Parameters.kwargs) -> int:
    from gemm_lessons.report.console import make_console
    from gemm_lessons.report.course import show_error

    try:
        return function(*args, **kwargs)
    except KeyboardInterrupt:
        return contract.EXIT_INTERRUPTED  # __main__ has the words for it
    except (CommandError, ShapeError) as error:
        show_error(make_console(stderr=True), str(error))
        return contract.EXIT_WRONG_COMMAND
    except UnsupportedKernel as error:
        where = f" in line {error.line}" if error.line else ""
        show_error(make_console(stderr=True), f"the simulator cannot run this kernel{where}: {error}")
        return contract.EXIT_BROKEN
    except KitError as error:
        show_error(make_console(stderr=True), str(error))
        return contract.EXIT_BROKEN


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@command("gemm-lessons list")
def list_(no_color: NoColor = False) -> int:
    """The course: every lesson's idea, what is passed and what is next."""
    from gemm_lessons.report.console import make_console
    from gemm_lessons.report.course import show_error, show_list

    course = any_course()
    lessons: list[tuple[str, Lesson | LessonError]] = []
    for name in course.names:
        try:
            lessons.append((name, load_lesson(course.lessons_dir / name)))
        except LessonError as error:
            lessons.append((name, error))
    show_list(make_console(), course, lessons, load_progress(course))
    broken = [lesson for _, lesson in lessons if isinstance(lesson, LessonError)]
    for problem in broken:
        show_error(make_console(stderr=True), str(problem))
    return contract.EXIT_BROKEN if broken else contract.EXIT_PASSED


@command("gemm-lessons read 03", "gemm-lessons read block_tile --raw > block_tile.md")
def read(
    lesson: LessonArgument,
    raw: Annotated[bool, typer.Option("--raw", help="The Markdown as it is.")] = False,
    no_color: NoColor = False,
) -> int:
    """The lesson's text, in a pager when it is long."""
    from gemm_lessons.report.console import make_console
    from gemm_lessons.report.course import show_text

    course = any_course()
    found = course.lesson(lesson)
    text = read_source(found.text_path)
    if raw:
        typer.echo(text, nl=not text.endswith("\n"))
    else:
        show_text(make_console(), found, text, course)
    return contract.EXIT_PASSED


@command("gemm-lessons start 03")
def start(lesson: LessonArgument, no_color: NoColor = False) -> int:
    """Make kernel.cu from the stub; say what to fill in."""
    from gemm_lessons.report.console import make_console
    from gemm_lessons.report.course import show_started

    show_started(make_console(), start_lesson(own_course().lesson(lesson)))
    return contract.EXIT_PASSED


@command("gemm-lessons reset 03")
def reset(lesson: LessonArgument, no_color: NoColor = False) -> int:
    """Back to the stub. The old kernel.cu is kept as kernel.cu.bak-1, -2, ..."""
    from gemm_lessons.report.console import make_console
    from gemm_lessons.report.course import show_reset

    found = own_course().lesson(lesson)
    show_reset(make_console(), found, reset_lesson(found))
    return contract.EXIT_PASSED


@command("gemm-lessons init my-course", "gemm-lessons init .")
def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The new course folder; it may exist.")],
    no_color: NoColor = False,
) -> int:
    """Make a course folder to work and commit in. It holds texts, stubs and settings, but no solutions."""
    from gemm_lessons.report.console import make_console
    from gemm_lessons.report.course import show_init

    course = init_course(directory)
    show_init(make_console(), course, here=course.root.resolve() == Path.cwd())
    return contract.EXIT_PASSED


@command("gemm-lessons hint 03", "gemm-lessons hint 03 --todo 1", "gemm-lessons hint 03 --todo 1 --level 3")
def hint(
    lesson: LessonArgument,
    todo: Annotated[int | None, typer.Option("--todo", help="The number in // TODO(number).")] = None,
    level: Annotated[
        int | None, typer.Option("--level", help="Which hint, from 1 (a nudge); default: the next one.")
    ] = None,
    no_color: NoColor = False,
) -> int:
    """A hint for one TODO of a lesson; each call shows the next one."""
    from gemm_lessons.report.console import make_console
    from gemm_lessons.report.course import show_hint, show_todos

    course = any_course()
    found = course.lesson(lesson)
    progress = load_progress(course)
    marks = todo_marks(read_source(found.stub_path))
    if todo is None and level is None:
        show_todos(make_console(), found, marks, progress)
        return contract.EXIT_PASSED
    todo = 1 if todo is None else todo
    if not 1 <= todo <= len(found.todos):
        raise CommandError(f"lesson {found.name} has {_numbered('TODO', len(found.todos))}, no TODO({todo})")
    hints = found.todos[todo - 1].hints
    if level is not None and not 1 <= level <= len(hints):
        raise CommandError(f"TODO({todo}) of lesson {found.name} has {_numbered('hint', len(hints))}, no hint {level}")
    if level is None:
        level = min(progress.of(found.name).hints.get(todo, 0) + 1, len(hints))
    mark = next((mark for mark in marks if mark.number == todo), None)
    show_hint(make_console(), found, mark, todo, level)
    keep_progress(course, progress.after_hint(found.name, todo, level))
    return contract.EXIT_PASSED


def _numbered(what: str, count: int) -> str:
    return {0: f"no {what}s", 1: f"one {what}"}.get(count, f"{what}s 1 to {count}")


command(
    "gemm-lessons run 03",
    "gemm-lessons run 03 --solution",
    "gemm-lessons run 03 --file try.cu --shape 256,128,64",
    "gemm-lessons run 03 --gpu v100",
    "gemm-lessons run 03 --json | python -m json.tool",
)(run)
command(
    "gemm-lessons inspect gemm.cu --entry 'tile<64, 8>' --grid 4,4 --block 256 \\",
    "    --args 'A=f32[M,K],B=f32[K,N],C=out f32[M,N],M=256,N=256,K=256' --expect 'C = A @ B'",
    "gemm-lessons inspect blur.cu --entry blur --grid 8 --block 128 \\",
    "    --args 'x=f32[1026],y=out f32[1024],middle=x+1' --symbol 'weights=f32[3], total=out i32[1]'",
)(inspect)
command(
    "gemm-lessons profile 06",
    "gemm-lessons profile 06 --solution --tool nsys",
    "gemm-lessons profile 06 --print",
)(profile)
command(
    "gemm-lessons bench",
    "gemm-lessons bench 04 05 06 --sizes 512:4096 --csv bench.csv --plot bench.svg",
    "gemm-lessons bench --device sim --gpu v100",
)(bench)
command("gemm-lessons opcodes", "gemm-lessons opcodes cvt")(opcodes)


@command("gemm-lessons doctor")
def doctor(no_color: NoColor = False) -> int:
    """Look for everything that a run needs, and say what to do."""
    from gemm_lessons.report.console import Working, make_console
    from gemm_lessons.report.course import show_doctor
    from gemm_lessons.run.doctor import examine, healthy

    with Working(make_console(stderr=True), "examining"):
        checks = examine()
    show_doctor(make_console(), checks)
    return contract.EXIT_PASSED if healthy(checks) else contract.EXIT_BROKEN


@command("gemm-lessons version")
def version(no_color: NoColor = False) -> int:
    """The version of gemm-lessons."""
    typer.echo(f"gemm-lessons {__version__}")
    return contract.EXIT_PASSED
