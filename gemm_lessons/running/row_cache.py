"""Rows beside the kernel, kept from run to run of one process while nothing has changed that they were made of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gemm_lessons.course.folder import read_source
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.engine.compiler.source import include_closure
from gemm_lessons.running.outcome import Role, Row


class KeptRows:
    """One row for each role, with the facts that it was made of."""

    def __init__(self) -> None:
        self._rows: dict[Role, tuple[object, Row]] = {}

    def knows(self, role: Role, facts: object) -> bool:
        """Whether the row need not be made again."""
        return facts is not None and role in self._rows and self._rows[role][0] == facts

    def row(self, role: Role, facts: object, make: Callable[[], Row]) -> Row:
        """The row made of these facts, now or before; facts that are None are none that a row can be kept by."""
        if not self.knows(role, facts):
            self._rows[role] = facts, make()
        return self._rows[role][1]


def sources(lesson: Lesson, path: Path) -> dict[Path, bytes] | None:
    """A kernel file and all that it includes, with their contents; None when the text does not tell what that is."""
    text = read_source(path)
    included = include_closure(text, path.parent, lesson.include_dirs, ())
    return None if included is None else {path: text.encode(), **included}
