"""Build the Typer app and map failures of commands to messages and exit codes.

Start-up time matters: only the module of the requested command is imported, and a command imports heavy modules when it
needs them. ``list`` and ``--help`` must not import NumPy or CUDA.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import cache, wraps
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.core

from gemm_lessons import __version__
from gemm_lessons.cli.commands import COURSE, GRADERS, GROUPS, NAMES, OTHER_WORDS, TEACHERS, Command

HELP = ("-h", "--help")
COMPLETION = ("--show-completion", "--install-completion")
FIRST_STEPS = ("gemm-lessons init my-course && cd my-course", "gemm-lessons next", "gemm-lessons watch")


def app_for(words: Sequence[str]) -> typer.Typer:
    """Return an app with only the command that the command line begins with; without commands for an empty line and
    ``--version``; with all commands if the first word is none of them.

    Typer builds every registered command on each start, which would take half of the time of ``list``. The page of
    ``--help`` shows only one line for each.
    """
    name = words[0] if words else ""
    if name in COMPLETION and len(words) > 1:  # names the shell, so that Typer does not detect it
        os.environ["_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION"] = "1"
    if name in NAMES:
        return _app([name], loaded=[name])
    if not words or name == "--version":
        return _app([])
    return _app(NAMES) if name in HELP else whole()


def app_to_complete(line: str) -> typer.Typer:
    """Return an app that completes a command line: all names, and the options of the command it begins with."""
    # For zsh and fish, Typer renders each description with rich. That takes half of the time, and wraps long ones:
    # fish then offers their second lines. Ours have no markup.
    vars(import_module("typer._completion_classes"))["_sanitize_help_text"] = str
    return _app(NAMES, loaded=[word for word in line.split()[1:] if word in NAMES][:1])


@cache
def whole() -> typer.Typer:
    """Return an app with all commands, for unknown ones."""
    return _app(NAMES, loaded=NAMES)


class _Group(typer.core.TyperGroup):
    """All commands. Words of other tools are answered by the command that does the same."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command and its arguments. Fail if there is none."""
        if args and (meant := OTHER_WORDS.get(args[0])):
            ctx.fail(f"No such command '{args[0]}'. Did you mean '{meant}'?")
        return super().resolve_command(ctx, args)


def _name_types() -> None:
    """Call integer options whole numbers in messages: Click says ``'x' is not a valid int range``."""
    main: Any = import_module("typer.main")
    types = main.types if hasattr(main, "types") else main.click.types  # newer Typers bring their own Click
    types.IntParamType.name = types.IntRange.name = "whole number"


def _app(names: Sequence[str], loaded: Sequence[str] = ()) -> typer.Typer:
    """Return an app with these commands. Those that are not ``loaded`` only have a line on the page of ``--help``."""
    _name_types()
    app = typer.Typer(
        name="gemm-lessons",
        cls=_Group,
        help="Learn to make a CUDA matrix multiplication fast, one lesson at a time, with or without a GPU.",
        context_settings={"help_option_names": [*HELP]},
        rich_markup_mode=None,  # plain help halves the start-up time and prints no boxes into pipes
        pretty_exceptions_enable=False,
        epilog=_lines("First steps", FIRST_STEPS),
    )
    app.callback(invoke_without_command=True)(_root)
    _register(app, [command for command in COURSE if command.name in names], loaded)
    for group in (name for name in GROUPS if name in names):
        if group in loaded:
            app.add_typer(_teachers() if group == "dev" else _graders())
        else:
            app.command(name=group, help=GROUPS[group])(_nothing)
    return app


def _teachers() -> typer.Typer:
    group = typer.Typer(
        name="dev",
        help=GROUPS["dev"],
        rich_markup_mode=None,
        no_args_is_help=True,
        epilog=_lines("Examples", ("gemm-lessons dev new 22_my_idea", "gemm-lessons dev check 22")),
    )
    _register(group, TEACHERS, [command.name for command in TEACHERS])
    return group


def _graders() -> typer.Typer:
    from gemm_lessons.cli.grade import GradeGroup

    group = typer.Typer(name="grade", cls=GradeGroup, help=GROUPS["grade"], rich_markup_mode=None)
    _register(group, GRADERS, [command.name for command in GRADERS])
    return group


def _register(app: typer.Typer, commands: Iterable[Command], loaded: Sequence[str]) -> None:
    for command in commands:
        first = command.what.partition(". ")[0].removesuffix(".") + "."  # wrapped by --help, not truncated
        epilog = _lines("Examples", command.examples)
        function = _loaded(command) if command.name in loaded else _nothing
        app.command(name=command.name, short_help=first, epilog=epilog)(function)


def _lines(title: str, lines: Iterable[str]) -> str:
    return "\n".join(("\b", f"{title}:", *(f"  {line}" for line in lines)))  # \b keeps the lines separate


def _loaded(command: Command) -> Callable[..., None]:
    """Import a command's function, and wrap it to exit with its code and to turn each failure into one message."""
    function = getattr(import_module(f"gemm_lessons.cli.{command.module}"), command.function)

    @wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> None:
        if command in COURSE and command.name != "init":
            _carry_over()
        raise typer.Exit(_exit_code(function, *args, **kwargs))

    return guarded


def _nothing() -> None: ...


def _show_version(value: bool) -> bool:
    if value:
        typer.echo(f"gemm-lessons {__version__}")
        raise typer.Exit
    return value


def _exit_code(function: Callable[..., int], *args: Any, **kwargs: Any) -> int:
    from gemm_lessons.course import CommandError
    from gemm_lessons.engine import KitError, UnsupportedKernel
    from gemm_lessons.gemm import ShapeError
    from gemm_lessons.running import contract

    try:
        return function(*args, **kwargs)
    except KeyboardInterrupt:
        return contract.EXIT_INTERRUPTED  # __main__ prints the message
    except (CommandError, ShapeError) as error:
        _show(str(error))
        return contract.EXIT_WRONG_COMMAND
    except UnsupportedKernel as error:
        where = f" in line {error.line}" if error.line else ""
        _show(f"the simulator cannot run this kernel{where}: {error}")
        return contract.EXIT_BROKEN
    except KitError as error:
        _show(str(error))
        return contract.EXIT_BROKEN


def _carry_over() -> None:
    """Update a course folder from before lessons got other numbers, and say so; leave one that cannot be written."""
    from gemm_lessons.course import CommandError, carried_over, find_course
    from gemm_lessons.engine import KitError

    try:
        course = find_course()
        done = carried_over(course) if course else None
    except (CommandError, KitError):  # the command itself reports a folder that cannot be read
        return
    if done:
        from gemm_lessons.report import make_console, show_carried_over

        show_carried_over(make_console(stderr=True), done)


def _show(failure: str) -> None:
    from gemm_lessons.report import make_console, show_error

    show_error(make_console(stderr=True), failure)


def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        from gemm_lessons.cli.learn import home

        _carry_over()
        raise typer.Exit(_exit_code(home))
