"""What ``gemm-lessons list`` shows of each lesson, kept on disk: to read and check all lessons takes half of its time.

    lessons/*/lesson.toml --summaries--> name -> LessonSummary, or the LessonError of a wrong file

Only lessons without a mistake are kept, under the contents of every lesson.toml and of course.toml. So a wrong file is
read, and reported, every time.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path

from gemm_lessons.course.lesson import LessonError, LessonSummary
from gemm_lessons.engine.compiler import cache

FORMAT = "gemm-lessons/summaries/1"
PACKAGE = Path(__file__).parents[1]
# The rooms that decide whether a lesson.toml is right.
READERS = ("course", "gemm", "engine")


def summaries(lessons: Path, names: Sequence[str]) -> dict[str, LessonSummary | LessonError]:
    """Summarise the lessons of these names; an error is in the place of one that cannot be read."""
    state = (it for room in READERS for it in cache.files_of(PACKAGE / room))
    files = [lessons / "course.toml", *(lessons / name / "lesson.toml" for name in names)]
    key = cache.key_of(FORMAT, *state, *names, *map(_content, files))
    kept = json.loads(cache.get(key) or b"{}")
    found: dict[str, LessonSummary | LessonError] = {}
    for name in names:
        if name in kept:
            found[name] = LessonSummary(*kept[name])
            continue
        from gemm_lessons.course.lesson_toml import load_lesson  # imported late: only for lessons that are not kept

        try:
            lesson = load_lesson(lessons / name)
        except LessonError as error:
            found[name] = error
        else:
            found[name] = LessonSummary(lesson.idea, lesson.minutes)
    right = {name: (it.idea, it.minutes) for name, it in found.items() if isinstance(it, LessonSummary)}
    if len(right) > len(kept):
        cache.put(key, json.dumps(right).encode())
    return found


def _content(file: Path) -> bytes:
    with contextlib.suppress(OSError):
        return file.read_bytes() if file.is_file() else b""  # reading a pipe would wait for a writer
    return b""
