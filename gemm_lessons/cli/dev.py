"""``gemm-lessons dev``: commands for authors of lessons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gemm_lessons.cli.commands import NAMES
from gemm_lessons.cli.options import NoColor, complete_lesson
from gemm_lessons.course import CommandError, Course, LessonError, any_course, own_course
from gemm_lessons.running import contract

if TYPE_CHECKING:
    from gemm_lessons.authoring import Numbers


def new(
    name: Annotated[str, typer.Argument(metavar="NN_NAME", help="Two digits, _, a name in lower case.")],
    no_color: NoColor = False,
) -> int:
    """Make a small, working lesson in your course folder, to replace with your own."""
    from gemm_lessons.authoring import new_lesson
    from gemm_lessons.report import make_console, show_new_lesson

    show_new_lesson(make_console(), new_lesson(own_course(), name))
    return contract.EXIT_PASSED


def check(
    lessons: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[LESSON]...", help="Lessons by number or name; default: all.", autocompletion=complete_lesson
        ),
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="First fill in the numbers and questions of the texts.")
    ] = False,
    no_color: NoColor = False,
) -> int:
    """Prove that a lesson works: its kernels, its text and its numbers.

    Each flaw is one line: file, line, what is wrong, what to do. Exit code: 0 all proven, 1 flaws, 2 wrong command.
    """
    from gemm_lessons.report import Working, make_console, printed, show_checked, show_filled, show_proofs

    course = own_course() if write else any_course()
    names = [course.resolve(query) for query in lessons or ()]
    skipped: list[str] = []
    if not names:  # a course made by init has no solutions, so it cannot be checked
        names = [name for name in course.names if (course.lessons_dir / name / "solution.cu").is_file()]
        skipped = [name for name in course.names if name not in names]
    if not names:
        raise CommandError("no lesson here has a solution.cu of its own; name one to prove the packaged one's copy")
    from gemm_lessons.authoring import Shared, prove_lesson

    console = make_console()
    shared = Shared.of(course, printed, NAMES)
    broken = []
    for name in names:
        with Working(make_console(stderr=True), f"lesson {name}"):
            changed = write and _filled(course, name, shared.numbers)
            proofs = prove_lesson(shared, name)
        if changed:
            show_filled(console, course.lessons_dir / name / "README.md")
        show_proofs(console, name, proofs, every=len(names) == 1)
        if not all(proof.holds for proof in proofs):
            broken.append(name)
    show_checked(console, len(names), broken, skipped)
    return contract.EXIT_NOT_PASSED if broken else contract.EXIT_PASSED


def _filled(course: Course, name: str, numbers: Numbers) -> bool:
    from gemm_lessons.authoring import fill_in

    try:
        return fill_in(course.lesson(name), numbers)
    except (CommandError, LessonError):
        return False  # the proofs report the error
