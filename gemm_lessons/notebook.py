"""Lessons in Jupyter and Colab: ``%load_ext gemm_lessons``, then ``%lesson 03`` to read, ``%%lesson 03`` to run a cell.

A cell runs as a file does under ``gemm-lessons run``, with the same verdict and the same report, as HTML.
"""

from __future__ import annotations

import re
import sys
import tempfile
from dataclasses import field
from pathlib import Path
from types import TracebackType
from typing import Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import HTML, Markdown, display

from gemm_lessons.cli import options, practice, run
from gemm_lessons.commands import examine
from gemm_lessons.course import (
    CommandError,
    LessonProgress,
    Stub,
    any_course,
    hint_level,
    keeps_reference,
    load_progress,
    open_todos,
    parse_tile,
    read_source,
    retiled,
    save_progress,
    shown,
    waits_for_predictions,
)
from gemm_lessons.engine import KitError, UnsupportedKernel
from gemm_lessons.engine.records import dataclass
from gemm_lessons.gemm import ShapeError
from gemm_lessons.report import HtmlConsole, ScreenContext, body_of, printed, show_doctor, show_hint, show_screen
from gemm_lessons.running import RunOutcome, RunRequest, contract, gain_of, run_lesson


@dataclass(frozen=True)
class LessonRun:
    """The result of a cell. ``%%lesson`` returns it last, so it is ``_`` in the next cell."""

    outcome: RunOutcome
    shown: str = field(repr=False)  # as HTML

    @property
    def verdict(self) -> str:
        """Return the verdict as in ``gemm-lessons run --json``: ``passed``, ``wrong_answer``, ..."""
        return self.outcome.verdict.kind

    @property
    def json(self) -> dict[str, Any]:
        """Return the object of ``gemm-lessons run --json``."""
        return dict(contract.as_json(self.outcome))

    def __repr__(self) -> str:
        return printed(self.outcome)

    def _repr_html_(self) -> str:
        return self.shown


class _Quietly:
    """Context manager that prints an error of the learner or of the kit as one message without a traceback."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        match error:
            case CommandError() | ShapeError():
                raise UsageError(str(error)) from None
            case UnsupportedKernel():
                where = f" in line {error.line}" if error.line else ""
                print(f"error: the simulator cannot run this kernel{where}: {error}", file=sys.stderr)
                return True
            case KitError():
                print(f"error: {error}", file=sys.stderr)
                return True
        return False


@magics_class
class LessonMagics(Magics):
    """``%lesson``, ``%%lesson``, ``%hint`` and ``%doctor``."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._folder = tempfile.TemporaryDirectory(prefix="gemm-lessons-")
        self._cells: dict[str, str] = {}  # lesson -> source of its last run
        self._hints: dict[str, dict[int, int]] = {}  # lesson -> hints seen here

    @line_cell_magic
    @magic_arguments()
    @argument("lesson", help="03, 3, block_tile or 03_block_tile")
    @argument("--shape", help="M,N,K: check this shape instead of the lesson's")
    @argument("--tile", action="append", help="BK=16: another tile size, for this run")
    @argument("--device", choices=[it.value for it in run.DeviceChoice], default="auto", help="where to run")
    @argument("--gpu", help="the GPU that estimates are for")
    @argument("--details", action="store_true", help="everything that the run knows")
    @argument("--seed", type=int, help="repeat the inputs of an earlier run")
    def lesson(self, line: str, cell: str | None = None) -> LessonRun | None:
        """%lesson 03 shows the text and makes a cell of the stub; %%lesson 03 runs the cell as the lesson's kernel."""
        asked = parse_argstring(self.lesson, line)
        with _Quietly():
            if cell is not None:
                return self._run(asked, f"// %%lesson {line}\n{cell}")
            self._read(asked.lesson)
        return None

    @line_magic
    @magic_arguments()
    @argument("lesson", help="03, 3, block_tile or 03_block_tile")
    @argument("todo", nargs="?", type=int, help="the number in // TODO(number); default: the first open one")
    def hint(self, line: str) -> None:
        """%hint 03: the next hint for the first TODO that is open in the cell that was run last."""
        asked = parse_argstring(self.hint, line)
        with _Quietly():
            found = any_course().lesson(asked.lesson)
            stub = read_source(found.stub_path)
            left = open_todos(self._cells.get(found.name, stub), Stub.of(stub))
            seen = self._hints.setdefault(found.name, {})
            chosen = hint_level(found, LessonProgress(hints=seen), asked.todo or min(left, default=1))
            seen[chosen.todo] = chosen.level
            console = HtmlConsole()
            show_hint(console, found, chosen)
            display(HTML(_for_cells(console.html)))

    @line_magic
    def doctor(self, line: str) -> None:
        """%doctor: what is installed, which GPU is here, and which lessons need another one."""
        console = HtmlConsole()
        show_doctor(console, [check for check in examine() if check.name != "course folder"])  # not needed here
        display(HTML(_for_cells(console.html)))

    def _read(self, name: str) -> None:
        course = any_course()
        found = course.lesson(name)
        waits = not course.packaged and waits_for_predictions(found, load_progress(course))
        display(Markdown(body_of(found, read_source(found.text_path), waits)))
        before = self._cells.get(found.name, "").partition("\n")[2]
        assert self.shell is not None
        self.shell.set_next_input(f"%%lesson {found.number:02}\n{before or read_source(found.stub_path)}")

    def _run(self, asked: Any, source: str) -> LessonRun:
        course = any_course()
        found = course.lesson(asked.lesson)
        self._cells[found.name] = source
        path = Path(self._folder.name) / f"{found.name}.cu"
        path.write_text(source, encoding="utf-8")
        read_source(path)
        lesson = retiled(found, parse_tile(asked.tile)) if asked.tile else found
        shape = options.parse_shape(asked.shape) if asked.shape else None
        if shape is not None:
            lesson.allow(shape)
            run.afford(shape)
        sheet = run.sheet_for(asked.gpu) if asked.gpu else None
        on = run.device_for(run.DeviceChoice(asked.device), 0)
        gpu = sheet or on.sheet or run.sheet_for(run.DEFAULT_GPU)
        outcome = run_lesson(RunRequest(course, lesson, path, on, gpu, shape, asked.seed))
        if counts := shape is None and not asked.tile:
            save_progress(course, load_progress(course).after_run(found.name, outcome.verdict.kind))
            if scores := practice.practised(course, found, found.kernel_path, outcome):
                scores.show()
        if keeps_reference(course, found, load_progress(course)):
            outcome = outcome.without_reference()
        console = HtmlConsole()
        following = course.neighbour(found, +1)
        context = ScreenContext(following, "run the cell again", gain=gain_of(course, outcome), counts=counts)
        show_screen(console, outcome, context, asked.details)
        html = console.html.replace(shown(path), f"cell of lesson {found.number:02}")
        return LessonRun(outcome, _for_cells(html, following))


def _for_cells(html: str, following: str | None = None) -> str:
    """Replace commands of the terminal by those of a notebook."""
    of_a_file = r"<div[^>]*>(?:(?!<div).)*gemm-lessons (?:diff|export) (?:(?!<div).)*</div>\n"
    html = re.sub(of_a_file, "", html)
    html = html.replace("gemm-lessons next", f"%lesson {(following or '')[:2]}").replace("Change the file", "Change it")
    html = re.sub(r"gemm-lessons (?:read|start) (\d\d)", r"%lesson \1", html)
    html = re.sub(r"gemm-lessons run (\d\d)", r"%%lesson \1", html)
    return re.sub(r"gemm-lessons hint (\d\d)(?: --todo (\d+))?", lambda m: f"%hint {m[1]} {m[2] or ''}".rstrip(), html)


def load(shell: InteractiveShell) -> None:
    """Register the magics."""
    shell.register_magics(LessonMagics)
