"""A lesson's pitfalls, from its ``pitfalls.toml``: edits of the solution that show a mistake, in the text or as a bug.

    [no_second_barrier]
    edits = [["        __syncthreads();\\n    }", "    }"]]  # find, replace; the first occurs in solution.cu once
    tile = { BK = 32 }                                      # tile sizes that replace lesson.toml's
    type = "bf16"                                           # the lesson's type of numbers that it is run with
    bug = "The second barrier is missing."                  # may be handed out by ``gemm-lessons bug``

``gemm-lessons bug`` writes one of them, unnamed, as ``bug.cu`` beside the learner's kernel.

A learner's course folder has neither solutions nor pitfalls, and gets both from the installed package.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gemm_lessons.course.folder import Course, Reset, read_bytes, read_source, replace_with_backup
from gemm_lessons.course.lesson import Lesson, LessonError
from gemm_lessons.course.lesson_toml import load_lesson
from gemm_lessons.course.toml import TomlReader, read_toml
from gemm_lessons.engine.records import dataclass
from gemm_lessons.gemm import Tile

STEP = re.compile(r"\s*// \(\d+\)")  # marks former TODOs in solutions
COMMENT = re.compile(r"\s*//(?! \(\d+\))")
NOTE = "// This kernel has one bug. Find it from what a run says: gemm-lessons run {number} --bug\n"


@dataclass(frozen=True)
class Pitfall:
    """Edits of a solution, and what a run replaces: tile sizes, the type. ``bug`` explains the bug to a learner who
    has fixed it; it is empty where there is nothing to find."""

    name: str
    edits: tuple[tuple[str, str], ...] = ()
    tile: tuple[tuple[str, int], ...] = ()
    type: str = ""
    bug: str = ""
    where: str = ""  # file and line

    def source(self, solution: str) -> str:
        """Return the solution with the edits. Raise ``LessonError`` when an edit does not fit."""
        return with_edits(solution, self.edits, f"{self.where}: [{self.name}] edits")

    def lesson(self, lesson: Lesson) -> Lesson:
        """Return the lesson with the type and the tile sizes of the pitfall. Raise ``LessonError`` for unknown ones."""
        return resized(load_lesson(lesson.directory, self.type) if self.type else lesson, dict(self.tile))


def with_edits(source: str, edits: Iterable[tuple[str, str]], where: str) -> str:
    """Apply edits to a solution, one after the other. Raise ``LessonError`` when one does not fit."""
    for find, instead in edits:
        if (places := source.count(find)) != 1:
            raise LessonError(
                f"{where}: {find!r} occurs {places} times in the solution, but must occur exactly once: quote more of "
                "the code around it"
            )
        source = source.replace(find, instead)
    return source


def resized(lesson: Lesson, sizes: Mapping[str, int]) -> Lesson:
    """Return the lesson with some tile sizes replaced; shapes stay. Raise ``LessonError`` for an unknown size."""
    known = lesson.tile.defines
    if unknown := [name for name in sizes if name not in known]:
        raise LessonError(f"{lesson.toml_path}: has no tile size {unknown[0]}; it has {', '.join(known) or 'none'}")
    choices = tuple((name, expression) for name, expression in lesson.choices if name not in sizes)
    return replace(lesson, choices=choices).with_tile(Tile(tuple({**known, **sizes}.items())))


def load_pitfalls(path: Path) -> Mapping[str, Pitfall]:
    """Return all pitfalls of a ``pitfalls.toml`` by name; none when there is no such file. Raises ``LessonError``."""
    if not path.exists():
        return {}
    text, raw = read_toml(path, "restore it")
    reader = _Reader(path, text)
    return {name: reader.pitfall(name, raw) for name in raw}


class _Reader(TomlReader):
    def pitfall(self, name: str, raw: dict[str, Any]) -> Pitfall:
        table = self.table((), raw, name)
        self.known((name,), table, ("edits", "tile", "type", "bug"))
        tile = table.get("tile", {})
        if not isinstance(tile, dict):
            raise self.wrong((name, "tile"), "must be a table, like { BK = 16 }")
        sizes = tuple((size, self.integer((name, "tile"), tile, size)) for size in tile)
        type_ = self.string((name,), table, "type", required=False)
        bug = self.string((name,), table, "bug", required=False)
        if bug and (tile or type_):
            raise self.wrong((name, "bug"), "is found in the kernel alone: take it out, or tile and type")
        where = f"{self.path}:{self.line((name,))}"
        return Pitfall(name, self.edits(name, table.get("edits", [])), sizes, type_, bug, where)

    def edits(self, name: str, edits: object) -> tuple[tuple[str, str], ...]:
        pairs: list[object] = edits if isinstance(edits, list) else [edits]
        found = []
        for pair in pairs:
            if not (isinstance(pair, list) and len(pair) == 2 and all(isinstance(part, str) for part in pair)):
                raise self.wrong((name, "edits"), 'must be a list of pairs, like [["find", "replace"]]')
            find, instead = pair
            found.append((find, instead))
        return tuple(found)


def bugs_of(course: Course, lesson: Lesson) -> Mapping[str, Pitfall]:
    """Return the pitfalls that may be handed out, by name; none where the lesson has none. Raises ``LessonError``."""
    pitfalls = load_pitfalls(course.kept_back(lesson, "pitfalls.toml"))
    return {name: pitfall for name, pitfall in sorted(pitfalls.items()) if pitfall.bug}


def a_bug(bugs: Mapping[str, Pitfall], fixed: Collection[str], seed: int | None) -> Pitfall:
    """Return one of ``bugs``: the one that ``seed`` selects, the same for all learners, else one not yet fixed."""
    names = list(bugs)
    if seed is not None:
        return bugs[random.Random(seed).choice(names)]
    return bugs[random.choice([name for name in names if name not in fixed] or names)]


def write_bug(course: Course, lesson: Lesson, pitfall: Pitfall) -> Reset:
    """Put the kernel with this pitfall into bug.cu; an older one is kept. Raises ``CommandError``, ``WriteError``."""
    solution = course.solution(lesson)
    if solution is None:
        raise LessonError(f"{lesson.directory}: has no solution.cu to put a bug into, here or in the package")
    # Comments on each step would reveal the bug.
    kept = without_steps(pitfall.source(read_source(solution)).splitlines())
    source = NOTE.format(number=f"{lesson.number:02}") + "\n".join(kept) + "\n"
    path = lesson.bug_path
    if path.is_file() and read_bytes(path) == source.encode():
        return Reset(path, None)
    return replace_with_backup(path, source.encode())


def without_steps(lines: Sequence[str]) -> list[str]:
    """Remove ``// (1) ...`` comments and their continuation lines."""
    kept: list[str] = []
    inside = False
    for line in lines:
        inside = bool(STEP.match(line)) or (inside and bool(COMMENT.match(line)))
        if not inside:
            kept.append(line)
    return kept
