"""Build an ``Assignment`` from paths and options, for the command and for pytest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gemm_lessons.course import CommandError, Course, packaged_course, shown
from gemm_lessons.devices import Choice
from gemm_lessons.grading.classroom import Assignment
from gemm_lessons.grading.inputs import find_students, one_student
from gemm_lessons.grading.roster import load_roster
from gemm_lessons.grading.rubric import Rubric, load_rubric, parse_lessons

# The teacher's files, which are found in the folder of submissions without an option.
ROSTER, CONFIG = "roster.csv", "grading.toml"


def assignment_of(
    submissions: Path,
    out: Path,
    *,
    lessons: Sequence[str] = (),
    config: Path | None = None,
    roster: Path | None = None,
    student: str | None = None,
    course: Path | None = None,
    seed: int | None = None,
    shard: tuple[int, int] | None = None,
    device: Choice = "sim",
) -> Assignment:
    """Read course, rubric, roster and students, but no kernels. Raises ``CommandError`` and ``LessonError``."""
    judging = packaged_course() if course is None else Course(course)
    if not judging.lessons_dir.is_dir() or not judging.names:
        raise CommandError(f"{shown(judging.root)} is not a course: it has no lessons/NN_name/lesson.toml")
    if student is None:  # a student's folder holds none of the teacher's files
        config, roster = config or _beside(submissions, CONFIG), roster or _beside(submissions, ROSTER)
    rubric = load_rubric(config, judging) if config else Rubric.plain(())
    try:
        chosen = parse_lessons(judging, lessons) if lessons else rubric.lessons or judging.names
    except CommandError as error:
        if course is not None:
            raise
        raise CommandError(f"{error}. That is the package's course; to judge by your own: --course DIR") from None
    listed = load_roster(roster) if roster else None
    _not_inside(out, submissions)
    if student is not None:
        found = one_student(submissions, student, listed)
    else:
        found = find_students(submissions, judging.names, listed)
    return Assignment(found, judging, chosen, rubric, out, seed, shard, device)


def _beside(submissions: Path, name: str) -> Path | None:
    return submissions / name if (submissions / name).is_file() else None


def _not_inside(out: Path, submissions: Path) -> None:
    try:
        inside = out.resolve().is_relative_to(submissions.resolve())
    except (OSError, RuntimeError):
        raise CommandError(f"{shown(out)}: cannot be written: its path is a loop of links") from None
    if inside:
        raise CommandError(f"--out {shown(out)} is inside the submissions; name a folder elsewhere: --out DIR")
