"""Kernels with a known verdict: cheats must be rejected for the right reason, honest kernels in other styles must pass.
A kernel with a text of its own is a file, with its expected verdict in comments on any lines:

    cheats/LESSON/what_it_does.cu     // cheat: CLASS: what it does, in a sentence
                                      // expect: VERDICT[, VERDICT] WORDS-OF-THE-REASON[ or VERDICT WORDS]
    honest/LESSON/what_it_does.cu     // honest: what is unusual in it
                                      // refused: the reason, which the lesson's text gives (few have one)

Lessons are named without their numbers. A kernel that differs from another one in a few places is an entry of
edits.toml in the same folder. It shows only the differences, and follows the other kernel when that changes:

    [what_it_does]
    cheat = "CLASS: what it does, in a sentence"       # or honest, refused: the words of a file's comments
    expect = "VERDICT WORDS-OF-THE-REASON"
    of = "block_tile/decoy"                            # what is edited
    edits = [["what to find, once", "what to write there instead"]]

``of`` is a lesson, to edit its solution, or LESSON/NAME, to edit a cheat or an honest kernel, whose comments on its
verdict are removed. Without ``of``, the lesson's own solution is edited. Edits are made one after the other. Find whole
lines or whole statements; to insert a line, find its neighbour and repeat it.

    python -m checks.grading.fixtures block_tile/decoy      # prints the kernels whose names begin so
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from checks.usage import help_if_asked
from gemm_lessons.course.folder import any_course
from gemm_lessons.course.lesson import LessonError
from gemm_lessons.course.pitfalls import with_edits

HERE = Path(__file__).parent
VERDICTS = ("passed", "compile_failed", "faulted", "wrong_answer", "timed_out", "gate_missed", "unsupported")
Fate = tuple[str, str]
LEAST = 3  # letters of a reason
FATE = re.compile(r"^// (cheat|expect|honest|refused):\s*(\S.*?)\s*?$\n?", re.M)
PASSED: tuple[Fate, ...] = (("passed", ""),)
REJECTED: tuple[Fate, ...] = tuple((it, "") for it in VERDICTS if it != "passed")  # for whatever reason


@dataclass(frozen=True)
class Fixture:
    """A kernel with its allowed ``fates``: a verdict, and words that its reason must contain (in any case)."""

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
        """Whether the kernel may get this verdict for this reason."""
        return any(verdict == it and words.casefold() in reason.casefold() for it, words in self.fates)

    @property
    def passes(self) -> bool:
        """Whether it may pass."""
        return any(verdict == "passed" for verdict, _ in self.fates)


class BadFixture(Exception):
    """A stored kernel without its expected verdict, or with edits that do not match."""


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
def _solution(lesson: str) -> str:
    return any_course().lesson(lesson_names()[lesson]).solution_path.read_text()


@dataclass(frozen=True)
class _Stored:
    """A kernel as it is stored: a file's text, or edits ``of`` another kernel."""

    kind: str
    lesson: str  # without its number
    name: str
    where: str
    fate: Mapping[str, str]  # cheat and expect, or honest and refused
    text: str = ""
    of: str = ""
    edits: tuple[tuple[str, str], ...] = ()

    def source(self) -> str:
        """The kernel's text. Raises ``BadFixture`` when there is nothing to edit, or an edit does not fit."""
        if not self.of:
            return self.text
        lesson, _, name = self.of.partition("/")
        if name and self.of in _stored():
            base = FATE.sub("", _stored()[self.of].source())
        elif not name and lesson in lesson_names():
            base = _solution(lesson)
        else:
            raise BadFixture(f"{self.where}: there is no '{self.of}' to edit")
        try:
            return with_edits(base, self.edits, self.where)
        except LessonError as error:
            raise BadFixture(str(error)) from None

    def fixture(self) -> Fixture:
        """The kernel with its fate. Raises ``BadFixture``."""
        lesson = lesson_names().get(self.lesson)
        if lesson is None:
            raise BadFixture(f"{self.where}: there is no lesson called {self.lesson}")
        if self.kind == "honest":
            group, says = self._says("honest"), self.fate.get("refused", self._says("honest"))
            fates = (("gate_missed", ""),) if "refused" in self.fate else PASSED
        else:
            group, _, says = (part.strip() for part in self._says("cheat").partition(":"))
            if not says:
                raise BadFixture(f"{self.where}: 'cheat' must be CLASS: what it does")
            fates = _expected(self.where, self._says("expect"))
        return Fixture(self.kind, lesson, self.name, group, says, self.source(), fates)

    def _says(self, word: str) -> str:
        if word not in self.fate:
            raise BadFixture(f"{self.where}: does not say '{word}'")
        return self.fate[word]


@cache
def _all(kind: str) -> tuple[Fixture, ...]:
    found = (it.fixture() for it in _stored().values() if it.kind == kind)
    return tuple(sorted(found, key=lambda it: (it.lesson, it.name)))


@cache
def _stored() -> Mapping[str, _Stored]:
    """By LESSON/NAME."""
    found: dict[str, _Stored] = {}
    for kind in ("cheats", "honest"):
        files = (_file(kind, path) for path in (HERE / kind).glob("*/*.cu"))
        entries = (it for path in (HERE / kind).glob("*/edits.toml") for it in _entries(kind, path))
        for it in (*files, *entries):
            if (other := found.setdefault(f"{it.lesson}/{it.name}", it)) is not it:
                raise BadFixture(f"{it.where}: has the name of another kernel, {other.where}")
    return found


def _file(kind: str, path: Path) -> _Stored:
    text = path.read_bytes().decode(errors="surrogateescape")
    return _Stored(kind, path.parent.name, path.stem, str(path), dict(FATE.findall(text)), text)


def _entries(kind: str, path: Path) -> Iterator[_Stored]:
    lesson = path.parent.name
    for name, entry in tomllib.loads(path.read_text()).items():
        where = f"{path}: [{name}]"
        of, edits = entry.pop("of", lesson), tuple((find, instead) for find, instead in entry.pop("edits"))
        if unknown := entry.keys() - {"cheat", "expect", "honest", "refused"}:
            raise BadFixture(f"{where}: '{min(unknown)}' is not a key of an entry")
        yield _Stored(kind, lesson, name, where, entry, of=of, edits=edits)


def _expected(where: str, text: str) -> tuple[Fate, ...]:
    """The fates that ``expect`` allows."""
    found: list[Fate] = []
    for words in text.split(" or "):
        verdicts = []
        while match := re.match(rf"({'|'.join(verdict for verdict, _ in REJECTED)})\b,?\s*", words):
            verdicts.append(match[1])
            words = words[match.end() :]
        if not verdicts or len(words) < LEAST:
            raise BadFixture(f"{where}: expects '{text}', not VERDICT WORDS of the reason")
        found += ((verdict, words) for verdict in verdicts)
    return tuple(found)


def chosen(fixtures: Sequence[Fixture], lessons: Sequence[str]) -> list[Fixture]:
    """Those of some lessons, by number or name, or of some kernels: ``block_tile/decoy``. Raises ``CommandError``."""
    if not lessons:
        return list(fixtures)
    wanted = [(any_course().resolve(lesson), name) for it in lessons for lesson, _, name in [it.partition("/")]]
    return [it for it in fixtures if any(it.lesson == lesson and it.name.startswith(name) for lesson, name in wanted)]


if __name__ == "__main__":
    help_if_asked(__doc__)
    for kernel in chosen((*cheats(), *honest()), sys.argv[1:]):
        print(f"// {kernel.kind}: {kernel.label}: {kernel.says}\n{kernel.source}")
