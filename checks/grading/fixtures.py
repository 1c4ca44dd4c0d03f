"""Kernels with a known fate, a file each: cheats, which must be rejected with the right reason, and honest kernels in
styles of their own, which must pass.

    cheats/LESSON/what_it_does.cu     // cheat: CLASS: what it does, in a sentence
                                      // expect: VERDICT[, VERDICT] WORDS-OF-THE-REASON
    honest/LESSON/what_it_does.cu     // honest: whose habit this is
                                      // refused: the reason, which the lesson's text states (of few)

Lessons are named without their numbers. The comments may stand on any lines. A kernel that is a solution but for a few
places stands in edits.toml of that folder, as edits of what the solution is today, so that it never grows old:

    [what_it_does]
    group = "CLASS"
    says = "what it does, in a sentence"
    expect = "VERDICT[, VERDICT] WORDS-OF-THE-REASON"
    of = "block_tile"                    # whose solution, unless it is the lesson's own
    edits = [["what to find, once", "what to write there instead"]]

An honest one has only ``says``, whose habit it is, and ``edits``.
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
REJECTED = tuple(it for it in VERDICTS if it != "passed")


@dataclass(frozen=True)
class Fixture:
    """A kernel, with the verdicts that it may get and words that the reason must hold (in any case)."""

    kind: str
    lesson: str  # the full name: 03_block_tile
    name: str
    group: str  # of a cheat its class, of a mutant what was changed
    says: str
    source: str
    verdicts: tuple[str, ...]
    words: str = ""

    @property
    def label(self) -> str:
        """``block_tile/what_it_does``"""
        return f"{self.lesson[3:]}/{self.name}"

    def expects(self, verdict: str, reason: str) -> bool:
        """Whether this is its fate."""
        return verdict in self.verdicts and self.words.casefold() in reason.casefold()


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
                yield Fixture(kind, lesson, name, entry["says"], entry["says"], source, ("passed",))
                continue
            verdicts, words = _expected(entry["expect"])
            yield Fixture(kind, lesson, name, entry["group"], entry["says"], source, verdicts, words)


def _cheat(path: Path) -> Fixture:
    source, lesson = _read(path)
    group, _, says = _line(path, source, "cheat").partition(":")
    verdicts, words = _expected(_line(path, source, "expect"))
    if not (says and verdicts and words):
        raise BadFixture(f"{path}: needs '// cheat: CLASS: what it does' and '// expect: VERDICT WORDS'")
    return Fixture("cheats", lesson, path.stem, group.strip(), says.strip(), source, verdicts, words)


def _expected(words: str) -> tuple[tuple[str, ...], str]:
    """Verdicts, and words of the reason."""
    verdicts = []
    while match := re.match(rf"({'|'.join(REJECTED)})\b,?\s*", words):
        verdicts.append(match[1])
        words = words[match.end() :]
    return tuple(verdicts), words


def _honest(path: Path) -> Fixture:
    source, lesson = _read(path)
    habit = _line(path, source, "honest")
    refused = "// refused:" in source
    says = _line(path, source, "refused") if refused else habit
    return Fixture("honest", lesson, path.stem, habit, says, source, ("gate_missed",) if refused else ("passed",))


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
