"""Kernels with a known fate, a file each: cheats, which must be rejected with the right reason, and honest kernels in
styles of their own, which must pass.

    cheats/LESSON/what_it_does.cu     // cheat: CLASS: what it does, in a sentence
                                      // expect: VERDICT[, VERDICT] WORDS-OF-THE-REASON[ or VERDICT WORDS]
    honest/LESSON/what_it_does.cu     // honest: whose habit this is
                                      // refused: the reason, which the lesson's text states (of few)

Lessons are named without their numbers. The comments may stand on any lines. A kernel that is a solution but for a few
places stands in edits.toml of that folder, as edits of what the solution is today, so that it never grows old:

    [what_it_does]
    group = "CLASS"
    says = "what it does, in a sentence"
    expect = "VERDICT[, VERDICT] WORDS-OF-THE-REASON[ or VERDICT WORDS]"
    of = "block_tile"                    # whose solution, unless it is the lesson's own
    edits = [["what to find, once", "what to write there instead"]]

An honest one has only ``says``, whose habit it is, ``edits``, and why it is ``refused``, if it is.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gemm_lessons.course.folder import any_course
from gemm_lessons.course.lesson import LessonError
from gemm_lessons.course.pitfalls import with_edits

HERE = Path(__file__).parent
VERDICTS = ("passed", "compile_failed", "faulted", "wrong_answer", "timed_out", "gate_missed", "unsupported")
Fate = tuple[str, str]
LEAST = 3  # letters of a reason
PASSED: tuple[Fate, ...] = (("passed", ""),)
REJECTED: tuple[Fate, ...] = tuple((it, "") for it in VERDICTS if it != "passed")  # for whatever reason


@dataclass(frozen=True)
class Fixture:
    """A kernel, with the fates that it may have: a verdict, and words that the reason must hold (in any case)."""

    kind: str
    lesson: str  # the full name: 03_block_tile
    name: str
    group: str  # of a cheat its class, of a mutant what was changed
    says: str
    source: str
    fates: tuple[Fate, ...]

    @property
    def label(self) -> str:
        """``block_tile/what_it_does``"""
        return f"{self.lesson[3:]}/{self.name}"

    def expects(self, verdict: str, reason: str) -> bool:
        """Whether this is its fate."""
        return any(verdict == it and words.casefold() in reason.casefold() for it, words in self.fates)

    @property
    def passes(self) -> bool:
        """Whether it may pass."""
        return any(verdict == "passed" for verdict, _ in self.fates)


class BadFixture(Exception):
    """A file whose first lines do not say what it is."""


def cheats() -> tuple[Fixture, ...]:
    """All cheats, by lesson and name."""
    return _all("cheats")


def honest() -> tuple[Fixture, ...]:
    """All honest kernels, by lesson and name."""
    return _all("honest")


@cache
def lesson_names() -> dict[str, str]:
    """``block_tile`` -> ``03_block_tile``"""
    return {name.partition("_")[2]: name for name in any_course().names}


@cache
def _all(kind: str) -> tuple[Fixture, ...]:
    read = {"cheats": _cheat, "honest": _honest}[kind]
    found = [*(read(path) for path in sorted((HERE / kind).glob("*/*.cu"))), *_edited(kind)]
    return tuple(sorted(found, key=lambda it: (it.lesson, it.name)))


def _edited(kind: str) -> Iterator[Fixture]:
    for path in sorted((HERE / kind).glob("*/edits.toml")):
        lesson = _lesson(path)
        for name, entry in tomllib.loads(path.read_text()).items():
            of = any_course().lesson(lesson_names()[entry["of"]] if "of" in entry else lesson)
            try:
                source = with_edits(of.solution_path.read_text(), entry["edits"], f"{path}: [{name}]")
            except LessonError as error:
                raise BadFixture(str(error)) from None
            if kind == "honest":
                yield _habit(lesson, name, entry["says"], entry.get("refused"), source)
                continue
            yield Fixture(kind, lesson, name, entry["group"], entry["says"], source, _expected(path, entry["expect"]))


def _cheat(path: Path) -> Fixture:
    source, lesson = _read(path)
    group, _, says = _line(path, source, "cheat").partition(":")
    if not says:
        raise BadFixture(f"{path}: needs '// cheat: CLASS: what it does'")
    fates = _expected(path, _line(path, source, "expect"))
    return Fixture("cheats", lesson, path.stem, group.strip(), says.strip(), source, fates)


def _expected(path: Path, text: str) -> tuple[Fate, ...]:
    """What stands behind ``expect``."""
    found: list[Fate] = []
    for words in text.split(" or "):
        verdicts = []
        while match := re.match(rf"({'|'.join(verdict for verdict, _ in REJECTED)})\b,?\s*", words):
            verdicts.append(match[1])
            words = words[match.end() :]
        if not verdicts or len(words) < LEAST:
            raise BadFixture(f"{path}: expects '{text}', not VERDICT WORDS of the reason")
        found += ((verdict, words) for verdict in verdicts)
    return tuple(found)


def _honest(path: Path) -> Fixture:
    source, lesson = _read(path)
    habit = _line(path, source, "honest")
    refused = _line(path, source, "refused") if "// refused:" in source else None
    return _habit(lesson, path.stem, habit, refused, source)


def _habit(lesson: str, name: str, habit: str, refused: str | None, source: str) -> Fixture:
    """Of an honest kernel; ``refused``: why a gate does not take it."""
    fates = (("gate_missed", ""),) if refused else PASSED
    return Fixture("honest", lesson, name, habit, refused or habit, source, fates)


def _read(path: Path) -> tuple[str, str]:
    return path.read_bytes().decode(errors="surrogateescape"), _lesson(path)


def _lesson(path: Path) -> str:
    lesson = lesson_names().get(path.parent.name)
    if lesson is None:
        raise BadFixture(f"{path}: there is no lesson called {path.parent.name}")
    return lesson


def _line(path: Path, source: str, word: str) -> str:
    match = re.search(rf"^// {word}:\s*(\S.*?)\s*$", source, re.M)
    if match is None:
        raise BadFixture(f"{path}: has no line '// {word}: ...'")
    return match[1]


def chosen(fixtures: Sequence[Fixture], lessons: Sequence[str]) -> list[Fixture]:
    """Those of some lessons, by number or name, or of some kernels: ``block_tile/decoy``. Raises ``CommandError``."""
    if not lessons:
        return list(fixtures)
    wanted = [(any_course().resolve(lesson), name) for it in lessons for lesson, _, name in [it.partition("/")]]
    return [it for it in fixtures if any(it.lesson == lesson and it.name.startswith(name) for lesson, name in wanted)]
