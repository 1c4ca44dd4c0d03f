"""What the learner has done so far, in ``<course>/.gemm-lessons/progress.json``.

It is a convenience, never a reason to fail: missing or corrupted state means a fresh start, and a folder that cannot
be written gives a note.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gemm_lessons.course.folder import Course, WriteError, reason, write_atomically

SCHEMA = "gemm-lessons/progress/1"


@dataclass(frozen=True)
class LessonProgress:
    """``passed``: the learner's kernel passed once; ``last``: the newest verdict; ``hints``: hints seen per TODO."""

    passed: bool = False
    runs: int = 0
    last: str = ""
    hints: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Progress:
    """The progress in a course, by lesson name."""

    lessons: Mapping[str, LessonProgress] = field(default_factory=dict)

    def of(self, name: str) -> LessonProgress:
        """A lesson's progress; a lesson never touched has none of everything."""
        return self.lessons.get(name, LessonProgress())

    def after_run(self, name: str, verdict: str) -> Progress:
        """The progress after a run of the learner's kernel."""
        old = self.of(name)
        new = replace(old, passed=old.passed or verdict == "passed", runs=old.runs + 1, last=verdict)
        return Progress({**self.lessons, name: new})

    def after_hint(self, name: str, todo: int, level: int) -> Progress:
        """The progress after hint ``level`` of a TODO was shown."""
        old = self.of(name)
        seen = max(level, old.hints.get(todo, 0))
        return Progress({**self.lessons, name: replace(old, hints={**old.hints, todo: seen})})


def progress_path(course: Course) -> Path:
    """Where a course's progress is kept."""
    return course.root / ".gemm-lessons" / "progress.json"


def load_progress(course: Course) -> Progress:
    """The stored progress; whatever is missing or makes no sense counts as not done."""
    try:
        raw = json.loads(progress_path(course).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return Progress()
    lessons = raw.get("lessons") if isinstance(raw, dict) and raw.get("schema") == SCHEMA else None
    if not isinstance(lessons, dict):
        return Progress()
    return Progress({name: _lesson(entry) for name, entry in lessons.items() if isinstance(entry, dict)})


def save_progress(course: Course, progress: Progress) -> str | None:
    """Store the progress in one step. Returns a note for the user when the folder cannot be written."""
    if course.packaged:
        return None
    path = progress_path(course)
    stored = {
        "schema": SCHEMA,
        "lessons": {
            name: {
                "passed": entry.passed,
                "runs": entry.runs,
                "last": entry.last,
                "hints": {str(todo): level for todo, level in entry.hints.items()},
            }
            for name, entry in sorted(progress.lessons.items())
        },
    }
    try:
        path.parent.mkdir(exist_ok=True)
        write_atomically(path, (json.dumps(stored, indent=2) + "\n").encode())
    except (OSError, WriteError) as error:
        why = reason(error) if isinstance(error, OSError) else error.reason
        return f"progress is not saved: {path.parent} cannot be written ({why})"
    return None


def _lesson(raw: dict[str, Any]) -> LessonProgress:
    runs, last, hints = raw.get("runs"), raw.get("last"), raw.get("hints")
    seen = hints.items() if isinstance(hints, dict) else ()
    return LessonProgress(
        passed=raw.get("passed") is True,
        runs=runs if type(runs) is int and runs >= 0 else 0,
        last=last if isinstance(last, str) else "",
        hints={int(todo): level for todo, level in seen if todo.isascii() and todo.isdigit() and type(level) is int},
    )
