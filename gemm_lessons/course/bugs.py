"""Find the bug: a pitfall of the lesson, unnamed, as ``bug.cu`` beside the learner's kernel.

solution.cu + pitfalls.toml  --a_bug, bug_source-->  bug.cu  --runs, edited until one passes-->  the pitfall's name
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Mapping, Sequence

from gemm_lessons.course.folder import Course, Reset, read_bytes, read_source, replace_with_backup
from gemm_lessons.course.lesson import Lesson, LessonError
from gemm_lessons.course.pitfalls import Pitfall, load_pitfalls

STEP = re.compile(r"\s*// \(\d+\)")  # marks former TODOs in solutions
COMMENT = re.compile(r"\s*//(?! \(\d+\))")
NOTE = "// This kernel has one bug. Find it from what a run says: gemm-lessons run {number} --bug\n"


def bugs_of(course: Course, lesson: Lesson) -> Mapping[str, Pitfall]:
    """Return the pitfalls that may be handed out, by name; none where the lesson has none. Raises ``LessonError``."""
    pitfalls = load_pitfalls(course.kept_back(lesson, "pitfalls.toml"))
    return {name: pitfall for name, pitfall in sorted(pitfalls.items()) if pitfall.bug}


def a_bug(bugs: Mapping[str, Pitfall], mended: Collection[str], seed: int | None) -> Pitfall:
    """Return one of ``bugs``: the one that ``seed`` selects, the same for all learners, else one that is not yet
    fixed."""
    names = list(bugs)
    if seed is not None:
        return bugs[random.Random(seed).choice(names)]
    return bugs[random.choice([name for name in names if name not in mended] or names)]


def write_bug(course: Course, lesson: Lesson, pitfall: Pitfall) -> Reset:
    """Put the kernel with this pitfall into bug.cu; an older one is kept. Raises ``CommandError``, ``WriteError``."""
    solution = course.solution(lesson)
    if solution is None:
        raise LessonError(f"{lesson.directory}: has no solution.cu to put a bug into, here or in the package")
    source = bug_source(pitfall.source(read_source(solution)), lesson)
    path = lesson.bug_path
    if path.is_file() and read_bytes(path) == source.encode():
        return Reset(path, None)
    return replace_with_backup(path, source.encode())


def bug_source(wrong: str, lesson: Lesson) -> str:
    """Return the kernel without the comments on each step, which would reveal the bug."""
    kept = without_steps(wrong.splitlines())
    return NOTE.format(number=f"{lesson.number:02}") + "\n".join(kept) + "\n"


def without_steps(lines: Sequence[str]) -> list[str]:
    """Remove ``// (1) ...`` comments and their continuation lines."""
    kept: list[str] = []
    inside = False
    for line in lines:
        inside = bool(STEP.match(line)) or (inside and bool(COMMENT.match(line)))
        if not inside:
            kept.append(line)
    return kept
