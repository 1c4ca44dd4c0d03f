"""Find the lesson that the name of a file or folder means, by the lesson's name, else by its number.

    block_tile_v2    03    Lesson 3    dp4a    Übung_03_mueller    12_two_warps (numbered as in an older course)

A lesson's name wins over every number. A number counts only where it can be a lesson's, not as part of a version
(``v2``), a type (``fp16``), a size (``128x8``) or a date, nor as the number of a group or a student. A name with two
lessons is left to the teacher.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum

from gemm_lessons.engine.records import dataclass

# Words ahead of a lesson's number. EXERCISE_WORDS may also number something inside of a lesson.
LESSON_WORDS = frozenset("lesson lektion lecon leccion lezione chapter kapitel l lab 课 第".split())
EXERCISE_WORDS = frozenset(
    "ex exercise exercice ejercicio kernel task part teil no nr number uebung ubung bung aufgabe problem q 练习 任务 "
    "题 实验".split()
)
# Words ahead of another number: a version, homework, a group, a term, an architecture.
OTHER_WORDS = frozenset(
    "v ver version rev r try attempt versuch take draft entwurf final copy kopie hw homework hausaufgabe assignment "
    "abgabe submission sheet blatt zettel serie week woche kw day tag group gruppe team grp g student matr matrikel id "
    "ws ss sose wise term semester year jahr sm cc cuda tile block x m n k bm bn bk tm tn 作业 组 版本 周".split()
)
TYPE_NAMES = frozenset(["fp8", "dgemm", "precision"])  # lessons whose names are also words for number types
WHOLE = 8  # letters: a name as long as this is found inside of longer words, too: double_buffering
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
DATE = re.compile(
    r"(?<!\d)(?:\d{4}([-_. ]?)\d\d\1\d\d|\d{1,2}([-_.])\d{1,2}\2(?:20)?\d\d)(?!\d)"
    r"(?:[T_ -]{0,3}\d{1,2}[-_:.h]\d\d(?:[-_:.]\d\d)?(?!\d))?"
)


class Certainty(IntEnum):
    """How certain it is that a name means a lesson."""

    NOT = 0
    DIGIT = 1  # a lone digit, or the number of an exercise
    NUMBER = 2  # 03, lesson 3
    NAME = 3


@dataclass(frozen=True)
class LessonName:
    """The lessons that a name may mean: one, none, or several among which it does not decide."""

    lessons: tuple[str, ...] = ()
    certainty: Certainty = Certainty.NOT

    @property
    def lesson(self) -> str | None:
        """Return the lesson; None if the name means none, or several."""
        return self.lessons[0] if len(self.lessons) == 1 else None


NOTHING = LessonName()


@dataclass(frozen=True)
class _Word:
    text: str
    attached: bool  # to the word before
    followed: str  # the word that is attached to this one, or an empty string

    @property
    def is_number(self) -> bool:
        return self.text.isascii() and self.text.isdigit()


def lesson_named(text: str, lessons: Sequence[str], folder: bool = False) -> LessonName:
    """Return which of ``lessons`` (``03_block_tile``) ``text`` means, a file's name without ending or a folder's. A
    folder's number must be at its beginning or follow a word for "lesson": 03-tiles, ex 3, but not ana_03."""
    words = _words(text)
    numbered = _by_number(_numbers(words, folder), {int(lesson[:2]): lesson for lesson in lessons})
    named = _by_name(words, lessons)
    if len(named) > 1 and numbered.lesson in named:
        return LessonName(numbered.lessons, Certainty.NAME)
    return LessonName(named, Certainty.NAME) if named else numbered


def _words(text: str) -> list[_Word]:
    plain = "".join(it for it in unicodedata.normalize("NFKD", text) if not unicodedata.combining(it))
    found = list(WORD.finditer(DATE.sub(" / ", plain)))
    words = []
    for i, it in enumerate(found):
        after = found[i + 1] if i + 1 < len(found) else None
        attached = bool(i and found[i - 1].end() == it.start())
        followed = after[0].casefold() if after is not None and after.start() == it.end() else ""
        words.append(_Word(it[0].casefold(), attached, followed))
    return words


def _by_name(words: Sequence[_Word], lessons: Sequence[str]) -> tuple[str, ...]:
    slugs = {slug: lesson for lesson in lessons for slug in _one_and_many(lesson[3:].replace("_", ""))}
    longest = max(map(len, slugs), default=0)
    spans: list[tuple[int, int, str]] = []
    for first in range(len(words)):
        joined = ""
        for last in range(first, len(words)):
            joined += words[last].text
            if joined in slugs:
                spans.append((first, last, joined))
            if len(joined) > longest:
                break
    spans = [it for it in spans if not any(_inside(it, other) for other in spans)]
    found = list({slugs[slug]: slug for *_, slug in spans}.values())
    if not found:
        letters = "".join(word.text for word in words if not word.is_number)
        found = [slug for slug in slugs if len(slug) >= WHOLE and slug in letters]
    strong = [slug for slug in found if slug not in TYPE_NAMES]
    return tuple(dict.fromkeys(slugs[slug] for slug in strong or found))


def _one_and_many(slug: str) -> Iterator[str]:
    """Yield a lesson's name in both grammatical numbers: ``clusters``, ``cluster``; ``blocktile``, ``blocktiles``."""
    yield slug
    yield slug.removesuffix("s") if slug.endswith("s") else f"{slug}s"


def _inside(span: tuple[int, int, str], other: tuple[int, int, str]) -> bool:
    return span[:2] != other[:2] and other[0] <= span[0] and span[1] <= other[1]


def _by_number(numbers: Iterable[tuple[int, int]], known: dict[int, str]) -> LessonName:
    found = [(rank, number) for rank, number in numbers if number in known]
    for certainty, of in ((Certainty.NUMBER, 3), (Certainty.NUMBER, 2), (Certainty.DIGIT, 1), (Certainty.DIGIT, 0)):
        lessons = tuple(dict.fromkeys(known[number] for rank, number in found if rank == of))
        if lessons:
            return LessonName(lessons, certainty)
    return NOTHING


def _numbers(words: Sequence[_Word], folder: bool) -> Iterator[tuple[int, int]]:
    """Yield a lesson's possible numbers. Rank 3: after "lesson", 2: two digits, 1: after "exercise", 0: one digit."""
    for i, word in enumerate(words):
        if not word.is_number:
            continue
        before = words[i - 1].text if i else ""
        padded = len(word.text) == 2
        if before in LESSON_WORDS and len(word.text) <= 3:
            yield 3, int(word.text)
        elif before in EXERCISE_WORDS and len(word.text) <= 3:
            yield 1, int(word.text)
        elif len(word.text) > 2 or (folder and i) or before in OTHER_WORDS or (word.attached and i):
            continue  # the number of something else; fp16, int8, float4
        elif word.followed and not (padded and word.text.startswith("0")):
            continue  # 2d, 64x64, 16bit; but 03tiles
        else:
            yield 2 if padded else 0, int(word.text)
