"""Derive a file's lesson and its student from the names that people and learning platforms give.

    lessons/03_block_tile/kernel.cu    03.cu    3_tile.cu    block_tile.cu    lesson03 (1).cu    ana/03/my kernel.cu
    Ana Lima_123456_assignsubmission_file_ (Moodle)         limaana_LATE_12345_67890_03.cu (Canvas)

The rules use names only, never dates or the order of a listing, so they give the same result on every machine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gemm_lessons.engine.records import dataclass
from gemm_lessons.grading.lesson_names import DATE, NOTHING, Certainty, LessonName, lesson_named

NOT_THEIRS = ("stub", "solution", "bug")  # files that come with a course
COPY = re.compile(r"(?:[ _-]*\((\d+)\)|-([1-9]\d*)|[ _-]+(?:copy|kopie)(?:[ _-]*\(?(\d+)\)?)?)$", re.IGNORECASE)
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
    """Return the claim of a file by its name; None if the name fits no lesson, or several."""
    *folders, file = name.split("/")
    ending = next((i for i in sorted(range(len(ENDINGS)), key=lambda i: -len(ENDINGS[i]))
                   if file.lower().endswith(ENDINGS[i])), None)  # fmt: skip
    if ending is None:
        return None
    whole = file[: len(file) - len(ENDINGS[ending])]
    stem, copy = without_copy(whole)
    if stem.lower() in NOT_THEIRS:
        return None
    own, around = said_of_stem(whole, lessons), _said_of_folders(folders, lessons)
    # 03/2.cu is a second file of lesson 03; exercise 2/03.cu is lesson 03.
    mine = own.lesson is not None and (
        own.certainty > around.certainty or own.certainty == around.certainty > Certainty.DIGIT
    )
    lesson = own.lesson if mine else around.lesson
    if lesson is None:
        return None
    rank = 0 if stem.lower() == "kernel" else 1 if own.lesson == lesson else 2
    if ENDINGS[ending] in (".txt", ".cuh") and rank == 2:
        return None  # notes, or the student's own header
    return Claim(rank, ending, len(folders), -copy, name, lesson)


def said_of_stem(stem: str, lessons: Sequence[str]) -> LessonName:
    """Return the lessons that a file's name without ending means. A copy's number, as in ``kernel (2)``, is none."""
    short, copy = without_copy(stem)
    said = lesson_named(short, lessons)
    if said == NOTHING and copy and short.lower() != "kernel":
        return lesson_named(stem, lessons)  # lesson-3
    return said


def _said_of_folders(folders: Sequence[str], lessons: Sequence[str]) -> LessonName:
    """Return the lesson that the folders around a file mean: 03, lesson_3, 03-tiles, block_tile; not hw2, and not
    ana_03. The most certain name counts; of equally certain ones, the innermost."""
    best = NOTHING
    for folder in reversed(folders):
        said = lesson_named(folder, lessons, folder=True)
        if said.lesson is not None and said.certainty > best.certainty:
            best = said
    return best


def without_copy(stem: str) -> tuple[str, int]:
    """Split a name into the original's and the number of the copy, 0 for no copy: ``03 (2)`` -> ``03``, 2;
    ``kernel-1`` (Canvas) -> ``kernel``, 1; ``03 - Copy`` -> ``03``, 1."""
    found = COPY.search(stem)
    dated = found is not None and any(it.start() < found.start() < it.end() for it in DATE.finditer(stem))
    if found is None or found.start() == 0 or dated:
        return stem.strip(), 0
    number = next((group for group in found.groups() if group), "1")
    return stem[: found.start()].rstrip(" _-"), min(int(number[:6]), 999_999)


@dataclass(frozen=True)
class Owner:
    """The owner of a folder or file, by its name. ``number`` is the platform's and distinguishes students of one name;
    ``file`` is the original name of a loose file."""

    name: str
    number: str = ""
    file: str = ""


def owner_of(name: str, lessons: Sequence[str] = (), loose: bool = False) -> Owner | None:
    """Return the owner of an entry of the submissions. ``loose``: a single file, which must name the student."""
    if found := MOODLE.fullmatch(name):
        return Owner(found["name"].strip(), found["number"], found["file"])
    if not loose:
        return Owner(name)
    if found := CANVAS.fullmatch(name):
        return Owner(found["name"], found["number"], found["file"])
    # ana_03.cu, ana-block_tile.cu: the part after a _ or - names a lesson, the part before does not.
    for cut in reversed(list(re.finditer(r"[_-]", name))):
        before, behind = name[: cut.start()], name[cut.end() :]
        if before and claim(behind, lessons) and lesson_named(before, lessons) == NOTHING:
            return Owner(before, "", behind)
    return None
