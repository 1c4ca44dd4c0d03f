"""Grades in the formats of other systems: ``FORMATS`` has for each a function from a gradebook to files.

A file of one student is in ``OUT/FORMAT/STUDENT/``, a file of the class in ``OUT/FORMAT/``. What goes to students has
no hidden inputs, no seeds and nothing of the solution: ``message`` and ``why`` of a grade are written for them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from gemm_lessons.course import CommandError, write_atomically, writing
from gemm_lessons.grading.formats import canvas, classroom50, github_action, gradescope, junit, moodle, nbgrader, table
from gemm_lessons.grading.gradebook import Gradebook

Environment = Mapping[str, str]

FORMATS: Mapping[str, Callable[[Gradebook, Environment], Mapping[str, str]]] = {
    "gradescope": gradescope.files,
    "classroom50": classroom50.files,
    "github-action": github_action.files,
    "junit": junit.files,
    "nbgrader": nbgrader.files,
    "moodle": moodle.files,
    "canvas": canvas.files,
}
# Environment variables that a format needs; they are checked before anything is judged.
NEEDS: Mapping[str, tuple[str, ...]] = {"classroom50": classroom50.NEEDED}


def check_format(name: str, environment: Environment = os.environ) -> None:
    """Raise ``CommandError`` for a format that does not exist or lacks what it needs here."""
    if name not in FORMATS:
        raise CommandError(f'there is no format "{name}"; there are {", ".join(FORMATS)}')
    if lacking := [it for it in NEEDS.get(name, ()) if not environment.get(it)]:
        raise CommandError(
            f"the format {name} needs a runner that sets {', '.join(lacking)}; elsewhere grade without it"
        )


def write_format(name: str, book: Gradebook, out: Path, environment: Environment = os.environ) -> list[Path]:
    """Write the files of a format below ``out``. Raises ``CommandError`` and ``WriteError``."""
    check_format(name, environment)
    return [write_text(out / name / path, text) for path, text in FORMATS[name](book, environment).items()]


def write_csv(book: Gradebook, out: Path) -> Path:
    """Write ``OUT/grades.csv``. Raises ``WriteError``."""
    return write_text(out / "grades.csv", table.grades_csv(book))


def write_text(path: Path, text: str) -> Path:
    """Write a file, whole or not at all, and make its folder. Raises ``WriteError``."""
    with writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode(errors="backslashreplace"))
    return path
