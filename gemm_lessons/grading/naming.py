"""Derive a file's lesson and its student from the names that people and learning platforms give.

    lessons/03_block_tile/kernel.cu    03.cu    3_tile.cu    block_tile.cu    lesson03 (1).cu    ana/03/my kernel.cu
    Ana Lima_123456_assignsubmission_file_ (Moodle)         limaana_LATE_12345_67890_03.cu (Canvas)

The rules use names only, never dates or the order of a listing, so they give the same result on every machine.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from gemm_lessons.engine.records.frozen import dataclass

NOT_THEIRS = ("stub", "solution", "bug")  # files that come with a course
BEFORE_A_NUMBER = ("lesson", "lektion", "lecon", "ex", "exercise", "kernel", "task", "part", "l", "no", "nr")
COPY = re.compile(r"(?:[ _-]*\((\d+)\)|-(\d+)|[ _-]+copy(?:[ _-]*(\d+))?)$", re.IGNORECASE)
ENDINGS = (".cu", ".cuh", ".cu.txt", ".cpp", ".cc", ".c", ".txt")  # of a kernel, best first
MOODLE = re.compile(r"(?P<name>.+?)_(?P<number>\d+)_assignsubmission_(?:file|onlinetext)_?(?P<file>.*)", re.DOTALL)
CANVAS = re.compile(r"(?P<name>[^_]+)(?:_LATE)?_(?P<number>\d+)_\d+_(?P<file>.+)", re.DOTALL)


@dataclass(frozen=True, order=True)
class Claim:
    """A file that may be a lesson's kernel, by its name. Of several claims the smallest is the best."""

    rank: int  # 0: kernel.cu in the lesson's folder, 1: named like the lesson, 2: another file in that folder
    ending: int
    depth: int
    copy: int  # a later copy sorts before an earlier one
    name: str
    lesson: str


def claim(name: str, lessons: Sequence[str]) -> Claim | None:
    """Return the claim of a file by its name; None if the name fits no lesson."""
    *folders, file = name.split("/")
    ending = next((i for i in sorted(range(len(ENDINGS)), key=lambda i: -len(ENDINGS[i]))
                   if file.lower().endswith(ENDINGS[i])), None)  # fmt: skip
    if ending is None:
        return None
    stem, copy = without_copy(file[: len(file) - len(ENDINGS[ending])])
    if stem.lower() in NOT_THEIRS:
        return None
    around = next((found for folder in reversed(folders) if (found := _lesson_folder(folder, lessons))), None)
    own = lesson_named(stem, lessons)
    if around is not None:
        rank = 0 if stem.lower() == "kernel" else 1 if own == around else 2
        if ENDINGS[ending] in (".txt", ".cuh") and rank == 2:
            return None  # notes, or the student's own header
        return Claim(rank, ending, len(folders), -copy, name, around)
    return None if own is None else Claim(1, ending, len(folders), -copy, name, own)


def without_copy(stem: str) -> tuple[str, int]:
    """``03 (2)`` -> ``03``, 2; ``kernel-1`` (Canvas) -> ``kernel``, 1; ``03 - Copy`` -> ``03``, 1."""
    found = COPY.search(stem)
    if found is None or found.start() == 0:
        return stem.strip(), 0
    number = next((group for group in found.groups() if group), "1")
    return stem[: found.start()].rstrip(" _-"), min(int(number[:6]), 999_999)


def _lesson_folder(name: str, lessons: Sequence[str]) -> str | None:
    """Return the lesson that a folder is for: 03, lesson_3, 03-tiles, block_tile; not hw2, and not 2026-03-01."""
    first, *rest = [*re.findall(r"[a-z]+|\d+", name.lower()), ""]
    said = first if first.isdigit() else rest[0] if rest and first in BEFORE_A_NUMBER else ""
    found = lesson_named(name, lessons)
    by_name = found is not None and found[3:].replace("_", "") in "".join(re.findall(r"[a-z]+", name.lower()))
    return found if by_name or (said.isdigit() and len(said) <= 2) else None


def lesson_named(text: str, lessons: Sequence[str]) -> str | None:
    """Return the lesson that a word of a path names, by name or else by number; None if it names none."""
    plain = unicodedata.normalize("NFKD", text).lower()
    tokens = re.findall(r"[a-z]+|\d+", plain)
    letters = "".join(token for token in tokens if token.isalpha())
    by_number = {int(lesson[:2]): lesson for lesson in lessons}
    slugs = {lesson[3:].replace("_", ""): lesson for lesson in lessons}
    named = max((slug for slug in slugs if slug in letters), key=len, default=None)
    number = _number(tokens, by_number)
    if named is None:
        return None if number is None else by_number[number]
    if number is not None and by_number[number] != slugs[named] and letters != named:
        return by_number[number]  # 02_naive_made_better
    return slugs[named]


def _number(tokens: Sequence[str], known: dict[int, str]) -> int | None:
    """Return the likeliest lesson number: after a word for "lesson", else one like 03, else the only number."""
    numbers = [(i, token) for i, token in enumerate(tokens) if token.isdigit() and len(token) <= 2]
    fits = [(i, token) for i, token in numbers if int(token) in known]
    for chosen in (
        [token for i, token in fits if i and tokens[i - 1] in BEFORE_A_NUMBER],
        [token for _, token in fits if len(token) == 2],
        [token for _, token in fits],
    ):
        if len({int(token) for token in chosen}) == 1:
            return int(chosen[0])
    return None


@dataclass(frozen=True)
class Owner:
    """The owner of a folder or file, by its name. ``number`` is the platform's and distinguishes students of one name;
    ``file`` is the original name of a loose file."""

    name: str
    number: str = ""
    file: str = ""


def owner_of(name: str, lessons: Sequence[str] = (), loose: bool = False) -> Owner | None:
    """Return the owner of an entry of the folder of submissions. ``loose``: the entry is a single file, whose name must
    name the student."""
    if found := MOODLE.fullmatch(name):
        return Owner(found["name"].strip(), found["number"], found["file"])
    if not loose:
        return Owner(name)
    if found := CANVAS.fullmatch(name):
        return Owner(found["name"], found["number"], found["file"])
    # ana_03.cu, ana-block_tile.cu: the part after a _ or - names a lesson, the part before does not.
    for cut in reversed(list(re.finditer(r"[_-]", name))):
        before, behind = name[: cut.start()], name[cut.end() :]
        if before and claim(behind, lessons) and lesson_named(before, lessons) is None:
            return Owner(before, "", behind)
    return None
