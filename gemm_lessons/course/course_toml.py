"""Read ``course.toml``: the facts that hold for every lesson, and the parts that divide the course.

course.toml  --load_course_toml-->  CourseFacts(parts, former);  --load_architecture-->  sm_90

The file is optional, and so is everything in it but the architecture: a course without parts is one list.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gemm_lessons.course.lesson import CoursePart
from gemm_lessons.course.toml import ARCHITECTURE, TomlReader, is_text, read_course
from gemm_lessons.engine.records import Where, dataclass

KEYS = ("architecture", "former", "parts", "integrity")  # gates_toml reads [[integrity]]


@dataclass(frozen=True)
class PartOfToml:
    """One ``[[parts]]`` of course.toml. ``lessons`` are names without numbers; ``builds_on`` says in a sentence what a
    learner who enters here should know."""

    title: str
    builds_on: str
    lessons: tuple[str, ...]


@dataclass(frozen=True)
class CourseFacts:
    """The order of a course. ``former``: folder names that lessons had before they got other numbers."""

    parts: tuple[PartOfToml, ...] = ()
    former: tuple[str, ...] = ()


def load_course_toml(lessons: Path) -> CourseFacts:
    """Read parts and former names from ``course.toml`` in a course's folder of lessons; the defaults without it.

    Raise ``LessonError`` with file, line, key and remedy, like ``load_lesson``.
    """
    found = read_course(lessons)
    if found is None:
        return CourseFacts()
    path, text, raw = found
    return _Reader(path, text).facts(raw)


def load_architecture(lessons: Path) -> str:
    """Return the architecture that a course's kernels are counted for, from its ``course.toml``; ``sm_90`` without it.

    Raise ``LessonError`` like ``load_course_toml``.
    """
    found = read_course(lessons)
    if found is None:
        return ARCHITECTURE
    path, text, raw = found
    reader = _Reader(path, text)
    reader.known((), raw, KEYS)
    return reader.architecture(raw)


def parts_of(facts: CourseFacts, names: Sequence[str]) -> tuple[CoursePart, ...]:
    """Return the parts with lessons among these folder names. The others form a last part without a title, number 0."""
    found = []
    for number, part in enumerate(facts.parts, 1):
        inside = tuple(name for name in names if name[3:] in part.lessons)
        if inside:
            found.append(CoursePart(number, part.title, part.builds_on, inside))
    taken = {name for part in found for name in part.names}
    if rest := tuple(name for name in names if name not in taken):
        found.append(CoursePart(0, "", "", rest))
    return tuple(found)


class _Reader(TomlReader):
    def facts(self, raw: dict[str, Any]) -> CourseFacts:
        self.known((), raw, KEYS)
        parts = tuple(self.part(("parts", i), table) for i, table in enumerate(self.tables(raw, "parts")))
        first: dict[str, int] = {}
        for i, part in enumerate(parts):
            for name in part.lessons:
                if name in first:
                    raise self.wrong(("parts", i, "lessons"), f"{name} is in part {first[name]} already; name it once")
                first[name] = i + 1
        former = self.names(("former",), raw.get("former", []), '["12_two_warps"]')
        return CourseFacts(parts, former)

    def names(self, where: Where, value: object, example: str) -> tuple[str, ...]:
        return tuple(self.items(where, value, is_text, f"must be a list of names, like {example}"))

    def part(self, where: tuple[str, int], raw: dict[str, Any]) -> PartOfToml:
        self.known(where, raw, ("title", "builds_on", "lessons"))
        lessons = self.names((*where, "lessons"), self.present(where, raw, "lessons"), '["naive", "coalesced"]')
        return PartOfToml(self.string(where, raw, "title"), self.string(where, raw, "builds_on"), lessons)
