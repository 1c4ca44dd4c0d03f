"""``gemm-lessons view``: pictures of a run, as a page, as text, as a trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gemm_lessons.cli.options import LessonArgument, NoColor, kernel_of, one_at_most
from gemm_lessons.cli.run import DEFAULT_GPU, GPU, sheet_for
from gemm_lessons.course.folder import CommandError, read_bytes, read_source, shown, writing
from gemm_lessons.course.folder import write_atomically as write
from gemm_lessons.course.lesson import tile_sizes
from gemm_lessons.running import contract

if TYPE_CHECKING:
    from gemm_lessons.running.outcome import RunOutcome
    from gemm_lessons.view.record import Side

PAGE, TRACE = b"<!doctype html>", b'{"displayTimeUnit"'  # the beginnings of the files that this command writes


def view(
    lesson: LessonArgument,
    solution: Annotated[bool, typer.Option("--solution", help="Show the reference.")] = False,
    stub: Annotated[bool, typer.Option("--stub", help="Show the stub as it is.")] = False,
    file: Annotated[Path | None, typer.Option("--file", help="Show this file as the lesson's kernel.")] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="OUT", help="The page to write. Default: the lesson's name, in this folder."),
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    line: Annotated[
        int | None, typer.Option("--line", min=1, metavar="N", help="Draw this line's memory requests in the terminal.")
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="OUT", help="The timeline for ui.perfetto.dev or chrome://tracing."),
    ] = None,
    roles: Annotated[
        bool, typer.Option("--roles", help="Print the timeline by role: producers, consumers, TMA, tensor cores.")
    ] = False,
    gpu: Annotated[str, typer.Option("--gpu", metavar=GPU, help="The GPU that the timeline is for.")] = DEFAULT_GPU,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, metavar="N", help="Repeat the inputs of an earlier run.")
    ] = None,
    no_color: NoColor = False,
) -> int:
    """Look at a run: bank conflicts by lane, which thread owns what, a timeline of every warp.

    Writes one self-contained page, with the kernel beside the reference (once it has passed) or the previous
    lesson's solution; with --line, --roles or --trace, only if you also give --html or --open. Everything comes from a
    run on the simulator; times are estimates.
    """
    one_at_most(solution=solution, stub=stub, file=file)
    course, found, path = kernel_of(lesson, solution, stub, file)
    lines = len(read_source(path).splitlines())
    if line is not None and line > lines:
        raise CommandError(f"--line {line}: {shown(path)} has {lines} lines")
    page = html or (Path(f"{found.name}.html") if open_ or (line is None and trace is None and not roles) else None)
    for option, out, begins in (("--html", page, PAGE), ("--trace", trace, TRACE)):
        if out is not None:
            _may_write(option, out, begins)
    sheet = sheet_for(gpu)

    from gemm_lessons.cli.guard import in_child

    def work() -> int:
        from gemm_lessons.devices.simulated import Simulated
        from gemm_lessons.report.console import Working, make_console
        from gemm_lessons.report.view import show_line, show_timeline
        from gemm_lessons.running.pipeline import RunRequest, run_lesson
        from gemm_lessons.view.record import side_of, view_of

        request = RunRequest(course, found, path, Simulated(), sheet, seed=seed, beside=page is not None)
        with Working(make_console(stderr=True), f"lesson {found.name}") as working:
            outcome = run_lesson(request, working)
            if outcome.kernel.built is None:
                return _not_compiled(outcome)
            working("draw")
            view = view_of(outcome, sheet) if page is not None else None
            depth = tile_sizes(found).depth if trace is not None or roles else 0
            side = view.sides[0] if view is not None else side_of(outcome, outcome.kernel, sheet, depth)
        if line is not None:
            show_line(make_console(), side, line)
        if roles:
            show_timeline(make_console(), side)
        if trace is not None:
            _write_trace(side, trace)
        if view is not None and page is not None:
            from gemm_lessons.report.page import page_of

            write(page, page_of(view).encode())
            make_console().print(f"{shown(page)}: open it in a browser", soft_wrap=True)
        return contract.EXIT_PASSED

    code = in_child(work)
    if open_ and page is not None and code == contract.EXIT_PASSED:
        typer.launch(page.resolve().as_uri())
    return code


def _may_write(option: str, out: Path, begins: bytes) -> None:
    """Check that the folder of ``out`` exists and that a file there is of the same kind. Raises ``CommandError``."""
    with writing(out):  # such as a name that is too long
        if out.is_dir():
            raise CommandError(f"{option} {out} is a folder; name a file in it")
        if not out.resolve().parent.is_dir():
            raise CommandError(f"{option} {out}: there is no folder {shown(out.resolve().parent)}")
        if out.exists() and not (out.is_file() and begins.startswith(read_bytes(out, len(begins)))):
            raise CommandError(f"{option} {out} exists and is not from this command; name another file")


def _not_compiled(outcome: RunOutcome) -> int:
    from gemm_lessons.report.console import make_console
    from gemm_lessons.report.screen import ScreenContext, show_screen

    show_screen(make_console(), outcome, ScreenContext(again=f"gemm-lessons view {outcome.lesson.number:02}"))
    return contract.EXIT_NOT_PASSED


def _write_trace(side: Side, path: Path) -> None:
    from gemm_lessons.engine.pictures import trace_file
    from gemm_lessons.report.console import make_console

    if side.recording is None or side.timeline is None:
        raise CommandError(f"--trace: {' '.join(side.notes)}")
    text = trace_file(side.recording, side.timeline, side.row.path, side.row.source, side.row.label, str(side.played))
    write(path, text.encode())
    make_console().print(f"{shown(path)}: open it on ui.perfetto.dev", soft_wrap=True)
