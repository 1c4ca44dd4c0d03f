"""Options that several commands share: lesson name with completion, ``--no-color``, shapes, kernel files, notes.

Related options are the fields of a frozen dataclass; ``grouped`` turns the fields into parameters for Typer.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import wraps
from glob import escape, glob
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from gemm_lessons.course import CommandError, Course, Lesson, Progress, any_course, own_course, save_progress, shown
from gemm_lessons.engine import KitError
from gemm_lessons.gemm import Shape

KERNELS = (".cu", ".cuh", ".ptx")  # files, not lessons


def grouped(command: Callable[..., int]) -> Callable[..., int]:
    """Wrap a command whose parameters may be dataclasses, so that each of their fields is an option."""
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        group = hints[parameter.name]
        if not is_dataclass(group):
            parameters.append(parameter.replace(annotation=group))
            continue
        options = get_type_hints(group, include_extras=True)
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters += (
            inspect.Parameter(it.name, keyword, default=it.default, annotation=options[it.name]) for it in fields(group)
        )

    @wraps(command)
    def spread(**given: Any) -> int:
        return command(**{name: _gathered(kind, name, given) for name, kind in hints.items() if name != "return"})

    ordered = [it.replace(kind=inspect.Parameter.KEYWORD_ONLY) for it in parameters]
    spread.__signature__ = inspect.Signature(ordered, return_annotation=int)  # type: ignore[attr-defined]
    spread.__annotations__ = {it.name: it.annotation for it in ordered} | {"return": int}
    return spread


def _gathered(kind: Any, name: str, given: Mapping[str, Any]) -> Any:
    if not isinstance(kind, type) or not is_dataclass(kind):
        return given[name]
    return kind(**{it.name: given[it.name] for it in fields(kind)})


def complete_lesson(incomplete: str) -> list[str]:
    """Return lesson names for shell completion; none for a broken course."""
    try:
        names = any_course().names
    except (CommandError, KitError):
        return []
    full = [name for name in names if name.startswith(incomplete)]
    return full or [name[3:] for name in names if name[3:].startswith(incomplete)]


def complete_lesson_or_kernel(incomplete: str) -> list[str]:
    """Return lesson names, then files and folders that may have a kernel."""
    names = (f"{it}/" if Path(it).is_dir() else it for it in sorted(glob(f"{escape(incomplete)}*")))
    return [*complete_lesson(incomplete), *(it for it in names if it.endswith((*KERNELS, "/")))]


def _plain(value: bool) -> bool:
    if value:
        os.environ["NO_COLOR"] = "1"
        os.environ.pop("FORCE_COLOR", None)
    return value


LessonArgument = Annotated[
    str,
    typer.Argument(
        metavar="LESSON", help="A lesson: 03, 3, block_tile or 03_block_tile.", autocompletion=complete_lesson
    ),
]
LessonOrHere = Annotated[
    str | None,
    typer.Argument(
        metavar="[LESSON]",
        help="A lesson: 03, 3, block_tile; default: your current lesson.",
        autocompletion=complete_lesson,
    ),
]
Problems = Annotated[
    bool,
    typer.Option("--problems", help="Also print each problem as FILE:LINE:COLUMN: SEVERITY: MESSAGE, for editors."),
]
TimeLimit = Annotated[
    float | None, typer.Option("--time-limit", metavar="SECONDS", help="Processor time for the run. Default: 60.")
]
MemoryLimit = Annotated[
    float | None, typer.Option("--memory-limit", metavar="GIB", help="Memory for the run. Default: 4.")
]
LayoutOption = Annotated[
    str | None,
    typer.Option(
        "--layout",
        metavar="NN|NT|TN|TT",
        help="Store A and B as they are (N) or transposed (T), if the lesson supports it.",
    ),
]
TypeOption = Annotated[
    str | None, typer.Option("--type", metavar="NAME", help="Use another number type, if the lesson has several.")
]
NoColor = Annotated[
    bool, typer.Option("--no-color", help="Print without colours, as with NO_COLOR=1.", callback=_plain, is_eager=True)
]


def keep_progress(course: Course, progress: Progress) -> None:
    """Save the learner's progress, or print in one line why that failed."""
    from gemm_lessons.report import make_console, show_note

    note = save_progress(course, progress)
    if note:
        show_note(make_console(stderr=True), note)


def kernel_path(course: Course, lesson: Lesson, solution: bool, stub: bool, file: Path | None) -> Path:
    """Return the kernel file that the options name, by default the learner's own. Raises ``CommandError``."""
    if file is not None:
        return file
    if stub:
        return lesson.stub_path
    if solution:
        path = course.solution(lesson)
        if path is None:
            raise CommandError(f"lesson {lesson.name} has no solution, neither in this course nor in the package")
        return path
    if not lesson.kernel_path.exists():
        raise CommandError(
            f"{shown(lesson.kernel_path)} does not exist yet; make it: gemm-lessons start {lesson.number:02}"
        )
    return lesson.kernel_path


def one_at_most(**options: object) -> None:
    """Raise ``CommandError`` if more than one of these mutually exclusive options is given."""
    if sum(bool(given) for given in options.values()) > 1:
        *others, last = (f"--{name}" for name in options)
        raise CommandError(f"{', '.join(others)} and {last} exclude each other; give one")


def kernel_of(
    name: str, solution: bool = False, stub: bool = False, file: Path | None = None
) -> tuple[Course, Lesson, Path]:
    """Return course, lesson and kernel file that the options name, else the learner's own. Raises ``CommandError``."""
    course = any_course() if solution or stub or file else own_course()
    lesson = course.lesson(name)
    return course, lesson, kernel_path(course, lesson, solution, stub, file)


def shape_of(lesson: Lesson, text: str) -> Shape:
    """Parse ``M,N,K`` as a shape of the lesson in its layout. Raises ``CommandError``, and ``ShapeError`` for a shape
    that the lesson does not accept."""
    shape = replace(parse_shape(text), layout=lesson.shapes.count.layout)
    lesson.allow(shape)
    return shape


def parse_shape(text: str) -> Shape:
    """Parse ``M,N,K`` or ``MxNxK`` as a shape. Raises ``CommandError``."""
    sizes = re.fullmatch(r"\s*(\d{1,9})\s*[,x]\s*(\d{1,9})\s*[,x]\s*(\d{1,9})\s*", text)
    if not sizes:
        raise CommandError(f'--shape "{text}" is not a shape; write three whole numbers, like --shape 96,64,80')
    return Shape(*(int(size) for size in sizes.groups()))
