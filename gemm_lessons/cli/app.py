"""Arguments in, exit code out. What a command does lives elsewhere; this only calls it and shows the result.

Start-up matters here: ``list`` and ``--help`` must not import NumPy or CUDA, so heavy modules are imported inside the
commands that need them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import wraps
from typing import Annotated, ParamSpec

import typer

from gemm_lessons import __version__
from gemm_lessons.cli import dev, grade
from gemm_lessons.cli.compare import compare
from gemm_lessons.cli.export import export
from gemm_lessons.cli.gpu import bench, profile
from gemm_lessons.cli.init import init
from gemm_lessons.cli.inspect import inspect, opcodes
from gemm_lessons.cli.learn import diff, hint, home, next_, reset
from gemm_lessons.cli.options import LessonArgument, NoColor, keep_progress
from gemm_lessons.cli.practice import bug, predict
from gemm_lessons.cli.run import run
from gemm_lessons.cli.site import site
from gemm_lessons.cli.tune import tune
from gemm_lessons.cli.view import view
from gemm_lessons.cli.watch import watch
from gemm_lessons.course.folder import (
    CommandError,
    any_course,
    own_course,
    read_source,
    start_lesson,
)
from gemm_lessons.course.lesson import Lesson, LessonError, ShapeError
from gemm_lessons.course.lesson_toml import load_lesson
from gemm_lessons.course.progress import load_progress, waits_for_predictions
from gemm_lessons.errors import KitError, UnsupportedKernel
from gemm_lessons.run import contract

Parameters = ParamSpec("Parameters")

app = typer.Typer(
    name="gemm-lessons",
    help="Learn to make a CUDA matrix multiplication fast, one lesson at a time, with or without a GPU.",
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,  # plain help: half the start-up time, and no boxes in pipes
    pretty_exceptions_enable=False,
    epilog="\b\nFirst steps:\n  gemm-lessons init my-course && cd my-course\n  gemm-lessons next\n  gemm-lessons watch",
)

teachers = typer.Typer(
    name="dev",
    help="For teachers: add a lesson, and prove that it is one.",
    rich_markup_mode=None,
    no_args_is_help=True,
    epilog="\b\nExamples:\n  gemm-lessons dev new 22_my_idea\n  gemm-lessons dev check 22",
)
app.add_typer(teachers)

graders = typer.Typer(
    name="grade",
    cls=grade.GradeGroup,
    help="For teachers: grade a class.",
    rich_markup_mode=None,
)
app.add_typer(graders)


def app_for(words: Sequence[str]) -> typer.Typer:
    """``app`` with only the command that a command line begins with; all of it where that is none.

    Typer builds every command that it is given, each time: half of what ``list`` takes. ``dev check`` holds the
    commands that texts name against all that there are.
    """
    name = words[0] if words else ""
    if name == teachers.info.name:
        return app
    narrow = copy(app)
    narrow.registered_commands = [command for command in app.registered_commands if command.name == name]
    narrow.registered_groups = [
        group for group in app.registered_groups if group.typer_instance and group.typer_instance.info.name == name
    ]
    return narrow if narrow.registered_commands or narrow.registered_groups else app


def _show_version(value: bool) -> bool:
    if value:
        typer.echo(f"gemm-lessons {__version__}")
        raise typer.Exit
    return value


def command(*examples: str, of: typer.Typer = app) -> Callable[[Callable[Parameters, int]], Callable[Parameters, None]]:
    """Register a function as a command. It returns its exit code; its failures become one message each."""

    def register(function: Callable[Parameters, int]) -> Callable[Parameters, None]:
        @wraps(function)
        def guarded(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
            raise typer.Exit(_exit_code(function, *args, **kwargs))

        # \b: these lines are not to be joined.
        epilog = "\b\nExamples:\n" + "\n".join(f"  {example}" for example in examples)
        of.command(name=function.__name__.rstrip("_"), epilog=epilog)(guarded)
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
        raise typer.Exit(_exit_code(home))


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
    all_: Annotated[bool, typer.Option("--all", help="With what comes out, also before you have predicted.")] = False,
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
        waits = not all_ and not course.packaged and waits_for_predictions(found, load_progress(course))
        show_text(make_console(), found, text, course, waits)
    return contract.EXIT_PASSED


@command("gemm-lessons start 03")
def start(lesson: LessonArgument, no_color: NoColor = False) -> int:
    """Make kernel.cu from the stub; say what to fill in."""
    from gemm_lessons.report.console import make_console
    from gemm_lessons.report.course import show_started

    course = own_course()
    started, progress = start_lesson(course.lesson(lesson)), load_progress(course)
    keep_progress(course, progress.at(started.lesson.name))
    show_started(make_console(), started, waits_for_predictions(started.lesson, progress))
    return contract.EXIT_PASSED


command("gemm-lessons init my-course", "gemm-lessons init .", "gemm-lessons init . --editor")(init)
command("gemm-lessons next")(next_)
command("gemm-lessons watch", "gemm-lessons watch 03")(watch)
command("gemm-lessons hint 03", "gemm-lessons hint 03 --todo 1", "gemm-lessons hint 03 --list")(hint)
command("gemm-lessons diff 03", "gemm-lessons diff 03 --reveal")(diff)
command("gemm-lessons compare 06 07", "gemm-lessons compare block_tile thread_tile --solution")(compare)
command("gemm-lessons reset 03", "gemm-lessons reset 03 --settings", "gemm-lessons reset --all")(reset)
command(
    "gemm-lessons run 03",
    "gemm-lessons run 03 --solution",
    "gemm-lessons run 03 --file try.cu --shape 256,128,64",
    "gemm-lessons run 03 --tile BK=16",
    "gemm-lessons run 03 --gpu v100",
    "gemm-lessons run 03 --json | python -m json.tool",
)(run)
command("gemm-lessons site pages")(site)
command(
    "gemm-lessons view 03",
    "gemm-lessons view bank_conflicts --solution --open",
    "gemm-lessons view 03 --line 42",
    "gemm-lessons view 03 --trace trace.json",
)(view)
command(
    "gemm-lessons inspect gemm.cu --entry 'tile<64, 8>' --grid 4,4 --block 256 \\",
    "    --args 'A=f32[M,K],B=f32[K,N],C=out f32[M,N],M=256,N=256,K=256' \\",
    "    --expect 'C = A @ B'",
    "gemm-lessons inspect blur.cu --entry blur --grid 8 --block 128 \\",
    "    --args 'x=f32[1026],y=out f32[1024],middle=x+1' \\",
    "    --symbol 'weights=f32[3], total=out i32[1]'",
)(inspect)
command(
    "gemm-lessons profile bank_conflicts",
    "gemm-lessons profile bank_conflicts --solution --tool nsys",
    "gemm-lessons profile bank_conflicts --print",
)(profile)
command(
    "gemm-lessons bench",
    "gemm-lessons bench thread_tile vector_loads --sizes 512:4096 --plot out.svg",
    "gemm-lessons bench --device sim --gpu v100",
)(bench)
command(
    "gemm-lessons tune double_buffer",
    "gemm-lessons tune block_tile --try BK=32,64,128 --shape 1024,1024,1024",
    "gemm-lessons tune 09 --mine --csv tune.csv --keep",
    "gemm-lessons tune --model dgemm --gpu a100",
)(tune)
command("gemm-lessons export 03", "gemm-lessons export 03 my_gemm --solution", "gemm-lessons export 03 --file try.cu")(
    export
)
command("gemm-lessons bug 03", "gemm-lessons bug 03 --seed 7")(bug)
command("gemm-lessons predict 03", "gemm-lessons predict 03 16384 '2 * K / BK' more")(predict)
command(
    "gemm-lessons grade submissions --lessons 01-09 --out grades",
    "gemm-lessons grade submissions --config grading.toml --roster roster.csv",
    "gemm-lessons grade submission --student ana --lessons 03",
    "gemm-lessons grade submissions --again ana --lesson 03",
    "gemm-lessons grade submissions --seed 4711 --shard 3/10 --out shard-3",
    "gemm-lessons grade merge shard-1 shard-2 --out grades",
    "gemm-lessons grade setup gradescope autograder",
    of=graders,
)(grade.class_)
command("gemm-lessons grade merge shard-1 shard-2 --out grades", of=graders)(grade.merge)
command(
    "gemm-lessons grade setup gradescope autograder --lessons 01-09",
    "gemm-lessons grade setup laptop my-class --config grading.toml",
    of=graders,
)(grade.setup)
command("gemm-lessons opcodes", "gemm-lessons opcodes cvt")(opcodes)
command("gemm-lessons dev new 22_my_idea", of=teachers)(dev.new)
command("gemm-lessons dev check", "gemm-lessons dev check 22 --write", of=teachers)(dev.check)


@command("gemm-lessons doctor")
def doctor(no_color: NoColor = False) -> int:
    """Look for everything that a run needs, and say what to do."""
    from gemm_lessons.grading.worker import walls_around_grading
    from gemm_lessons.report.console import Working, make_console
    from gemm_lessons.report.course import show_doctor
    from gemm_lessons.run.doctor import examine, healthy

    with Working(make_console(stderr=True), "examining"):
        checks = [*examine(), walls_around_grading()]
    show_doctor(make_console(), checks)
    return contract.EXIT_PASSED if healthy(checks) else contract.EXIT_BROKEN


@command("gemm-lessons version")
def version(no_color: NoColor = False) -> int:
    """The version of gemm-lessons."""
    typer.echo(f"gemm-lessons {__version__}")
    return contract.EXIT_PASSED
