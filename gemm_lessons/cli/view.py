"""``gemm-lessons view``: pictures of a run, as a page, as text, as a trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gemm_lessons.cli.launch import DescribedLaunch
from gemm_lessons.cli.options import KERNELS, NoColor, complete_lesson_or_kernel, grouped, kernel_of, one_at_most
from gemm_lessons.cli.run import DEFAULT_GPU, GPU, sheet_for
from gemm_lessons.course import CommandError, read_bytes, read_source, shown, tile_sizes, writing
from gemm_lessons.course import write_atomically as write
from gemm_lessons.engine import UnknownArchitecture
from gemm_lessons.engine.records import dataclass
from gemm_lessons.running import contract

if TYPE_CHECKING:
    from gemm_lessons.running import RunOutcome
    from gemm_lessons.view import Side, View

PAGE, TRACE = b"<!doctype html>", b'{"displayTimeUnit"'  # the beginnings of the files that this command writes


@dataclass(frozen=True)
class Pictures:
    """The pictures to show, and where."""

    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="OUT", help="The page to write. Default: the kernel's name, in this folder."),
    ] = None
    open_: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False
    line: Annotated[
        int | None, typer.Option("--line", min=1, metavar="N", help="Draw this line's memory requests in the terminal.")
    ] = None
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="OUT", help="The timeline for ui.perfetto.dev or chrome://tracing."),
    ] = None
    timeline: Annotated[
        bool,
        typer.Option(
            "--timeline", "--roles", help="Print the timeline: by role for a kernel with mbarriers, else by warp."
        ),
    ] = False

    @property
    def timed(self) -> bool:
        """Tell whether an option needs the timeline."""
        return self.trace is not None or self.timeline

    def page(self, name: str) -> Path | None:
        """Return the page to write: without other pictures, one with the kernel's ``name``."""
        only_terminal = (self.line is not None or self.timed) and not self.open_
        return self.html or (None if only_terminal else Path(f"{name}.html"))

    def check(self, path: Path, page: Path | None) -> None:
        """Check the line of the kernel file and the files to write. Raises ``CommandError``."""
        lines = len(read_source(path).splitlines())
        if self.line is not None and self.line > lines:
            raise CommandError(f"--line {self.line}: {shown(path)} has {lines} lines")
        for option, out, begins in (("--html", page, PAGE), ("--trace", self.trace, TRACE)):
            if out is not None:
                _may_write(option, out, begins)

    def show(self, side: Side) -> None:
        """Print and write the pictures other than the page. Raises ``CommandError`` for one that cannot be shown."""
        from gemm_lessons.report import make_console, show_line, show_timeline

        if self.line is not None:
            show_line(make_console(), side, self.line)
        if self.timeline:
            show_timeline(make_console(), side)
        if self.trace is not None:
            _write_trace(side, self.trace)


@grouped
def view(
    kernel: Annotated[
        str,
        typer.Argument(
            metavar="LESSON|FILE",
            help="A lesson (03, block_tile), or a file with any kernel, whose launch you describe as for inspect.",
            autocompletion=complete_lesson_or_kernel,
        ),
    ],
    *,
    solution: Annotated[bool, typer.Option("--solution", help="Show the reference.")] = False,
    stub: Annotated[bool, typer.Option("--stub", help="Show the stub as it is.")] = False,
    file: Annotated[Path | None, typer.Option("--file", help="Show this file as the lesson's kernel.")] = None,
    pictures: Pictures,
    gpu: Annotated[
        str, typer.Option("--gpu", metavar=GPU, help="The GPU that time and timeline are for.")
    ] = DEFAULT_GPU,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, metavar="N", help="Repeat the inputs of an earlier run.")
    ] = None,
    launch: DescribedLaunch,
    no_color: NoColor = False,
) -> int:
    """Look at a run: bank conflicts by lane, which thread owns what, a timeline of every warp.

    Writes one self-contained page. A lesson's kernel is beside the reference (once it has passed) or the previous
    lesson's solution. With --line, --timeline or --trace, the page is written only if you also give --html or --open.
    Everything comes from a run on the simulator; times are estimates.

    A file with any kernel needs its launch: --grid, --block, --args and the options after them, which gemm-lessons
    inspect --help explains.
    """
    if kernel.endswith(KERNELS) or Path(kernel).is_file():
        if solution or stub or file is not None:
            raise CommandError(f"--solution, --stub and --file choose a lesson's kernel; {kernel} is a file")
        return _view_launch(Path(kernel), launch, pictures, gpu, seed or 0)
    if launch.given:
        raise CommandError(f"{', '.join(launch.given)}: only for a file with a kernel; {kernel} is a lesson")
    one_at_most(solution=solution, stub=stub, file=file)
    return view_lesson(kernel, pictures, solution, stub, file, gpu, seed)


def view_lesson(
    name: str,
    pictures: Pictures,
    solution: bool = False,
    stub: bool = False,
    file: Path | None = None,
    gpu: str = DEFAULT_GPU,
    seed: int | None = None,
) -> int:
    """Run a kernel of a lesson and show the pictures."""
    course, found, path = kernel_of(name, solution, stub, file)
    page = pictures.page(found.name)
    pictures.check(path, page)
    sheet = sheet_for(gpu)

    from gemm_lessons.cli.guard import in_child

    def work() -> int:
        from gemm_lessons.devices import Simulated
        from gemm_lessons.report import Working, make_console
        from gemm_lessons.running import RunRequest, run_lesson
        from gemm_lessons.view import side_of, view_of

        request = RunRequest(course, found, path, Simulated(), sheet, seed=seed, beside=page is not None)
        with Working(make_console(stderr=True), f"lesson {found.name}") as working:
            outcome = run_lesson(request, working)
            if outcome.kernel.built is None:
                return _not_compiled(outcome)
            working("draw")
            seen = view_of(outcome, sheet) if page is not None else None
            depth = tile_sizes(found).depth if pictures.timed else 0
            side = seen.sides[0] if seen is not None else side_of(outcome, outcome.kernel, sheet, depth)
        pictures.show(side)
        _write_page(seen, page)
        return contract.EXIT_PASSED

    return _opened(in_child(work), pictures, page)


def _view_launch(path: Path, launch: DescribedLaunch, pictures: Pictures, gpu: str, seed: int) -> int:
    """Launch the kernel of a file and show the pictures."""
    page = pictures.page(path.stem)
    pictures.check(path, page)

    from gemm_lessons.cli.guard import in_child

    def work() -> int:
        from gemm_lessons.engine.inspection import ArgumentError, inspect
        from gemm_lessons.report import Working, estimated, make_console, show_inspection, show_requests
        from gemm_lessons.view import view_of_launch

        try:
            with Working(make_console(stderr=True), f"view {shown(path)}") as working:
                result = inspect(launch.of(path, seed, gpu, recording=page is not None or pictures.timed))
                working("draw")
                seen = view_of_launch(result) if result.launched is not None else None
        except (ArgumentError, UnknownArchitecture) as error:
            raise CommandError(str(error)) from None
        if seen is None or page is not None:
            show_inspection(make_console(), result, counters=False)
            if seen is not None:
                show_requests(make_console(), seen.sides[0])
        elif pictures.timeline and seen.sides[0].timeline is not None and result.estimate is not None:
            make_console().print(estimated(result.estimate, result.request.gpu.name))
        if seen is None:
            return contract.EXIT_NOT_PASSED
        pictures.show(seen.sides[0])
        _write_page(seen, page)
        return contract.EXIT_PASSED

    return _opened(in_child(work, launch.bounds), pictures, page)


def _write_page(view: View | None, page: Path | None) -> None:
    from gemm_lessons.report import make_console, page_of

    if view is not None and page is not None:
        write(page, page_of(view).encode())
        make_console().print(f"{shown(page)}: open it in a browser", soft_wrap=True)


def _opened(code: int, pictures: Pictures, page: Path | None) -> int:
    if pictures.open_ and page is not None and code == contract.EXIT_PASSED:
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
    from gemm_lessons.report import ScreenContext, make_console, show_screen

    show_screen(make_console(), outcome, ScreenContext(again=f"gemm-lessons view {outcome.lesson.number:02}"))
    return contract.EXIT_NOT_PASSED


def _write_trace(side: Side, path: Path) -> None:
    from gemm_lessons.engine.pictures import trace_file
    from gemm_lessons.report import make_console

    if side.recording is None or side.timeline is None:
        raise CommandError(side.missing["timeline"])
    text = trace_file(side.recording, side.timeline, side.row.path, side.row.source, side.row.label, side.played)
    write(path, text.encode())
    make_console().print(f"{shown(path)}: open it on ui.perfetto.dev", soft_wrap=True)
