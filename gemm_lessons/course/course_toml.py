"""Read ``course.toml``: the facts that hold for every lesson, and the parts that divide the course.

course.toml  --load_course_toml-->  CourseFacts(architecture, parts)

The file is optional, and so is everything in it but the architecture: a course without parts is one list.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gemm_lessons.course.toml import TomlReader, read_toml
from gemm_lessons.engine.records.frozen import dataclass

ARCHITECTURE = "sm_90"  # the architecture of a course that names none


@dataclass(frozen=True)
class PartOfToml:
    """One ``[[parts]]`` of course.toml. ``lessons`` are names without numbers; ``builds_on`` says in a sentence what a
    learner who enters here should know."""

    title: str
    builds_on: str
    lessons: tuple[str, ...]


@dataclass(frozen=True)
class CourseFacts:
    """The contents of course.toml."""

    architecture: str = ARCHITECTURE
    parts: tuple[PartOfToml, ...] = ()


@dataclass(frozen=True)
class Part:
    """A part of a course, with the folder names of its lessons. ``number`` is 0 for the lessons of no part."""

    number: int
    title: str
    builds_on: str
    names: tuple[str, ...]


def load_course_toml(lessons: Path) -> CourseFacts:
    """Read ``course.toml`` in a course's folder of lessons; the defaults without it.

    Raise ``LessonError`` with file, line, key and remedy, like ``load_lesson``.
    """
    path = lessons / "course.toml"
    if not path.exists():
        return CourseFacts()
    text, raw = read_toml(path, "restore it")
    return _Reader(path, text).facts(raw)


def parts_of(facts: CourseFacts, names: Sequence[str]) -> tuple[Part, ...]:
    """Return the parts that have lessons among these folder names; last, without a title, the lessons of no part."""
    found = []
    for number, part in enumerate(facts.parts, 1):
        inside = tuple(name for name in names if name[3:] in part.lessons)
        if inside:
            found.append(Part(number, part.title, part.builds_on, inside))
    taken = {name for part in found for name in part.names}
    if rest := tuple(name for name in names if name not in taken):
        found.append(Part(0, "", "", rest))
    return tuple(found)


class _Reader(TomlReader):
    def facts(self, raw: dict[str, Any]) -> CourseFacts:
        self.known((), raw, ("architecture", "parts"))
        parts = tuple(self.part(("parts", i), table) for i, table in enumerate(self.tables(raw, "parts")))
        first: dict[str, int] = {}
        for i, part in enumerate(parts):
            for name in part.lessons:
                if name in first:
                    raise self.wrong(("parts", i, "lessons"), f"{name} is in part {first[name]} already; name it once")
                first[name] = i + 1
        return CourseFacts(self.architecture(raw), parts)

    def part(self, where: tuple[str, int], raw: dict[str, Any]) -> PartOfToml:
        self.known(where, raw, ("title", "builds_on", "lessons"))
        lessons = self.present(where, raw, "lessons")
        if not isinstance(lessons, list) or not all(isinstance(name, str) for name in lessons):
            raise self.wrong((*where, "lessons"), 'must be names without numbers, like ["naive", "coalesced"]')
        return PartOfToml(self.string(where, raw, "title"), self.string(where, raw, "builds_on"), tuple(lessons))

    def architecture(self, raw: dict[str, Any]) -> str:
        from gemm_lessons.engine.hardware.sheets import OLDEST_ARCH  # imported late: only compiling needs it

        name = self.string((), raw, "architecture")
        number = re.fullmatch(r"sm_(\d{2,3})[af]?", name)
        if number is None or int(number[1]) < OLDEST_ARCH:
            raise self.wrong(
                ("architecture",),
                f"{name!r} is none that the compiler knows; write sm_{OLDEST_ARCH} or a later one, like {ARCHITECTURE}",
            )
        return name
