"""The learner's progress, in ``<course>/.gemm-lessons/progress.json``.

Progress is a convenience and never a reason to fail: missing or corrupted state means a fresh start, and a folder that
cannot be written gives a note.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from gemm_lessons.course.folder import CommandError, Course, WriteError, reason, replace_with_backup, write_atomically
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.engine.records import dataclass

if TYPE_CHECKING:
    from gemm_lessons.course.questions import Answer

SCHEMA = "gemm-lessons/progress/1"


@dataclass(frozen=True)
class LessonProgress:
    """``passed``: the learner's kernel passed once; ``last``: the newest verdict; ``hints``: hints seen per TODO.

    ``broken_since``: when it first did not pass any more, as an ISO date and time, empty while it does; ``revealed``:
    the reference was shown before a pass. ``guesses``: predictions by the name of their question; ``counted``: what the
    run that passed counted instead. ``bug``: the pitfall in bug.cu; ``mended``: those that were fixed.
    """

    passed: bool = False
    runs: int = 0
    last: str = ""
    hints: Mapping[int, int] = field(default_factory=dict)
    broken_since: str = ""
    revealed: bool = False
    guesses: Mapping[str, Answer] = field(default_factory=dict)
    counted: Mapping[str, Answer] = field(default_factory=dict)
    bug: str = ""
    mended: tuple[str, ...] = ()

    @property
    def hints_seen(self) -> int:
        """Count the hints seen over all TODOs."""
        return sum(self.hints.values())

    @property
    def may_see_reference(self) -> bool:
        """Tell whether the reference may be shown: the learner has passed, or has revealed it before."""
        return self.passed or self.revealed


@dataclass(frozen=True)
class Progress:
    """The progress in a course, by lesson name; ``recent`` is the lesson that was worked on last."""

    lessons: Mapping[str, LessonProgress] = field(default_factory=dict)
    recent: str = ""

    def of(self, name: str) -> LessonProgress:
        """Return a lesson's progress; empty for an untouched lesson."""
        return self.lessons.get(name, LessonProgress())

    def passed(self, names: Sequence[str]) -> int:
        """Count how many of these lessons are passed."""
        return sum(self.of(name).passed for name in names)

    def next_open(self, names: Sequence[str]) -> str | None:
        """Return the next of these lessons that is not passed: the first one after the recent lesson, so that a
        learner can enter the course anywhere, else the first of all."""
        start = names.index(self.recent) if self.recent in names else 0
        return next((name for name in (*names[start:], *names[:start]) if not self.of(name).passed), None)

    def after_run(self, name: str, verdict: str) -> Progress:
        """Return the progress after a run of the learner's kernel."""
        old = self.of(name)
        passed = verdict == "passed"
        since = old.broken_since or datetime.now().astimezone().isoformat(timespec="minutes")
        return self._with(
            name,
            replace(
                old,
                passed=old.passed or passed,
                runs=old.runs + 1,
                last=verdict,
                broken_since=since if old.passed and not passed else "",
            ),
        )

    def after_hint(self, name: str, todo: int, level: int) -> Progress:
        """Return the progress after hint ``level`` of a TODO was shown."""
        old = self.of(name)
        seen = max(level, old.hints.get(todo, 0))
        return self._with(name, replace(old, hints={**old.hints, todo: seen}))

    def after_reveal(self, name: str) -> Progress:
        """Return the progress after the reference was shown."""
        old = self.of(name)
        return self._with(name, replace(old, revealed=old.revealed or not old.passed))

    def after_guesses(self, name: str, guesses: Mapping[str, Answer]) -> Progress:
        """Return the progress with other predictions, none of them counted yet."""
        return self._with(name, replace(self.of(name), guesses=dict(guesses), counted={}))

    def after_count(self, name: str, counted: Mapping[str, Answer]) -> Progress:
        """Return the progress with a run's counts."""
        return self._with(name, replace(self.of(name), counted=dict(counted)))

    def after_bug(self, name: str, bug: str) -> Progress:
        """Return the progress after a bug was handed out."""
        return self._with(name, replace(self.of(name), bug=bug))

    def after_mending(self, name: str) -> Progress:
        """Return the progress after bug.cu passed."""
        old = self.of(name)
        return self._with(name, replace(old, bug="", mended=tuple(dict.fromkeys((*old.mended, old.bug)))))

    def at(self, name: str) -> Progress:
        """Return the progress with this lesson as the current one."""
        return replace(self, recent=name)

    def _with(self, name: str, entry: LessonProgress) -> Progress:
        return Progress({**self.lessons, name: entry}, recent=name)


def waits_for_predictions(lesson: Lesson, progress: Progress) -> bool:
    """Tell whether the lesson asks for predictions, and the learner has neither been scored nor passed without them."""
    so_far = progress.of(lesson.name)
    return lesson.questions_path.exists() and not (so_far.counted or so_far.passed)


def keeps_reference(course: Course, lesson: Lesson, progress: Progress) -> bool:
    """Tell whether the reference waits for a pass: in a learner's folder, until it is passed or was asked for."""
    own = not course.packaged and not lesson.solution_path.is_file()
    return own and not progress.of(lesson.name).may_see_reference


def progress_path(course: Course) -> Path:
    """Return where a course's progress is kept."""
    return course.root / ".gemm-lessons" / "progress.json"


def load_progress(course: Course) -> Progress:
    """Return the stored progress; missing or invalid parts count as not done."""
    raw = _read(progress_path(course))
    if raw is None:
        return Progress()
    lessons, recent = raw["lessons"], raw.get("recent")
    return Progress(
        {name: _lesson(entry) for name, entry in lessons.items() if isinstance(entry, dict)},
        recent if isinstance(recent, str) else "",
    )


def _read(path: Path) -> dict[str, Any] | None:
    """Return the stored data, with its ``lessons``; None where there is none that this version understands."""
    try:
        if path.exists() and not path.is_file():  # reading a pipe may never end
            return None
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    known = isinstance(raw, dict) and raw.get("schema") == SCHEMA and isinstance(raw.get("lessons"), dict)
    return raw if known else None


def save_progress(course: Course, progress: Progress) -> str | None:
    """Store the progress in one step. A damaged file, or one of a newer version, is kept beside it.

    Return a note for the user in that case, or when the folder cannot be written.
    """
    if course.packaged:
        return None
    path = progress_path(course)
    stored = {
        "schema": SCHEMA,
        "recent": progress.recent,
        "lessons": {name: _stored(entry) for name, entry in sorted(progress.lessons.items())},
    }
    data = (json.dumps(stored, indent=2) + "\n").encode()
    try:
        path.parent.mkdir(exist_ok=True)
        if path.exists() and _read(path) is None:
            backup = replace_with_backup(path, data).backup
            return f"{path} could not be read: progress starts over, the old file is kept as {backup and backup.name}"
        write_atomically(path, data)
    except CommandError as error:
        return f"progress is not saved: {error}"
    except (OSError, WriteError) as error:
        why = reason(error) if isinstance(error, OSError) else error.reason
        return f"progress is not saved: {path.parent} cannot be written ({why})"
    return None


def _stored(entry: LessonProgress) -> dict[str, Any]:
    return {
        "passed": entry.passed,
        "runs": entry.runs,
        "last": entry.last,
        "hints": {str(todo): level for todo, level in entry.hints.items()},
        "broken_since": entry.broken_since,
        "revealed": entry.revealed,
        **({"guesses": dict(entry.guesses)} if entry.guesses else {}),
        **({"counted": dict(entry.counted)} if entry.counted else {}),
        **({"bug": entry.bug} if entry.bug else {}),
        **({"mended": list(entry.mended)} if entry.mended else {}),
    }


def _lesson(raw: dict[str, Any]) -> LessonProgress:
    runs, last, hints, since = (raw.get(key) for key in ("runs", "last", "hints", "broken_since"))
    bug, mended = raw.get("bug"), raw.get("mended")
    seen = hints.items() if isinstance(hints, dict) else ()
    return LessonProgress(
        passed=raw.get("passed") is True,
        runs=runs if _some(runs) else 0,
        last=last if isinstance(last, str) else "",
        hints={int(todo): level for todo, level in seen if todo.isascii() and todo.isdigit() and _some(level)},
        broken_since=since if isinstance(since, str) else "",
        revealed=raw.get("revealed") is True,
        guesses=_answers(raw.get("guesses")),
        counted=_answers(raw.get("counted")),
        bug=bug if isinstance(bug, str) else "",
        mended=tuple(it for it in mended if isinstance(it, str)) if isinstance(mended, list) else (),
    )


def _some(count: object) -> TypeGuard[int]:
    return type(count) is int and count > 0


def _answers(raw: object) -> dict[str, Answer]:
    found = raw.items() if isinstance(raw, dict) else ()
    return {name: answer for name, answer in found if isinstance(answer, str) or type(answer) in (int, float)}
