"""Carry a learner's folder over to the installed course after lessons have got other numbers.

old lessons/17_mma/kernel.cu  --carry_over-->  lessons/15_mma/kernel.cu, and the old lessons/ whole as lessons.bak-1

The new folder holds the installed course and every file of the old one that the installed course does not have:
kernels, their backups, headers and lessons that were added. Changed texts and settings remain in the backup.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from gemm_lessons.course.folder import Course, WriteError, copy_for_learners, packaged_course
from gemm_lessons.course.progress import Progress, load_progress, save_progress
from gemm_lessons.engine.records import dataclass


@dataclass(frozen=True)
class CarriedOver:
    """``moved``: old and new name of each lesson with another number in which the learner had a kernel; ``backup``: the
    folder that holds the old lessons; ``note``: why progress could not be saved, or None."""

    moved: tuple[tuple[str, str], ...]
    backup: Path
    note: str | None


def carried_over(course: Course) -> CarriedOver | None:
    """Update a learner's folder whose lessons have other numbers than the installed ones; None where nothing moved.

    A folder that holds solutions is an author's and stays as it is. Raise ``WriteError``; the old folder is then still
    complete.
    """
    package = packaged_course()
    if set(course.names) <= set(package.names):  # as on nearly every start: course.toml need not be read
        return None
    former = [name for name in course.names if name in package.facts.former]
    names = {old: new for old in former if (new := package.named(old[3:])) not in (None, old)}
    if not names or any(course.lessons_dir.glob("*/solution.cu")):
        return None
    kernels = tuple((old, new) for old, new in names.items() if (course.lessons_dir / old / "kernel.cu").exists())
    progress = load_progress(course)
    try:
        with tempfile.TemporaryDirectory(dir=course.root, prefix=".lessons-") as scratch:
            copy = Path(scratch) / "lessons"
            copy_for_learners(package, copy)
            for path in sorted(course.lessons_dir.rglob("*")):
                top, *below = path.relative_to(course.lessons_dir).parts
                target = copy.joinpath(names.get(top, top), *below)
                if path.is_dir():
                    target.mkdir(exist_ok=True)
                elif not target.exists():
                    shutil.copy2(path, target)
            backup = _free_name(course.lessons_dir)
            course.lessons_dir.rename(backup)
            copy.rename(course.lessons_dir)
    except OSError as error:
        raise WriteError(Path(error.filename or course.root), error) from None
    renamed = {names.get(name, name): entry for name, entry in progress.lessons.items()}
    fresh = Course(course.root)
    note = None
    if renamed or progress.recent:
        note = save_progress(fresh, Progress(renamed, names.get(progress.recent, progress.recent)))
    return CarriedOver(kernels, backup, note)


def _free_name(folder: Path) -> Path:
    number = 1
    while (name := folder.with_name(f"{folder.name}.bak-{number}")).exists():
        number += 1
    return name
