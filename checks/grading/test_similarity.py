"""Disguised copies are reported as alike, honest kernels are not, and code that the lesson gives does not count."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from checks.grading.copies import HONEST, disguise, study
from checks.grading.sample import grade
from gemm_lessons.course.folder import packaged_course
from gemm_lessons.grading.gradebook import gradebook_of
from gemm_lessons.grading.pairs import pairs_of
from gemm_lessons.grading.results import GradedStudent, Grading
from gemm_lessons.grading.similarity import OWN, SHARE, SimilarPair, alike, given
from gemm_lessons.grading.sources import keep_source

COURSE = packaged_course()
LESSON = COURSE.resolve("block_tile")
SHARED = {LESSON: given(COURSE, LESSON)}
KERNELS = {path.stem: path.read_text() for path in sorted((HONEST / "block_tile").glob("*.cu"))}
COPIED = "a_by_shuffle"


def compare(kernels: Mapping[str, str]) -> tuple[SimilarPair, ...]:
    return alike({LESSON: kernels}, SHARED)


def test_honest_kernels_are_not_alike_and_copies_are() -> None:
    false, missed = study(LESSON, KERNELS)
    assert len(KERNELS) >= 15
    assert false == []
    assert len(missed) <= 3, "those that have little of their own"


@pytest.fixture(scope="module")
def pair() -> SimilarPair:
    copy = disguise(KERNELS[COPIED], random.Random(1))
    assert "acc" not in copy
    (found,) = compare({**KERNELS, "zed": copy})
    return found


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("for (int", "LOOP (WORD"),  # macros
        ("float acc", "real acc"),  # a type of one's own
        ("int ", "unsigned "),
        (";\n", ";;\n"),
    ],
)
def test_a_copy_by_other_words_is_one(old: str, new: str) -> None:
    text = KERNELS[COPIED]
    assert old in text
    copy = "#define LOOP for\n#define WORD int\nusing real = float;\n" + text.replace(old, new)
    (found,) = compare({**KERNELS, "zed": copy})
    assert found.share > 0.9


def test_a_pair_shows_the_lines_of_both(pair: SimilarPair) -> None:
    assert (pair.lesson, pair.first, pair.second) == (LESSON, COPIED, "zed")
    assert SHARE <= pair.share <= 1
    source = KERNELS[COPIED].split("\n")
    assert all(source[number - 1] == text for number, text in pair.first_lines)
    assert any("__shfl_sync" in text for _, text in pair.first_lines)
    assert any("__shfl_sync" in text for _, text in pair.second_lines)


def test_the_order_of_students_does_not_matter(pair: SimilarPair) -> None:
    copy = disguise(KERNELS[COPIED], random.Random(1))
    assert compare(dict(reversed({**KERNELS, "zed": copy}.items()))) == (pair,)


def test_what_everybody_has_says_nothing() -> None:
    stub, solution = SHARED[LESSON][-2:]
    disguised = disguise(solution, random.Random(2))
    assert compare({"a": solution, "b": solution, "c": disguised, "d": stub, "e": stub}) == ()


def test_what_many_have_says_nothing_but_whole_files_do() -> None:
    lecture = KERNELS[COPIED]
    assert compare({name: lecture + text for name, text in KERNELS.items()}) == ()
    ring = {f"s{i:02}": disguise(lecture, random.Random(3)) for i in range(30)}
    assert [(it.first, it.second) for it in compare(ring)] == [(f"s{i:02}", f"s{i + 1:02}") for i in range(29)]


MACROS = "#define A A A" + " A" * 9_000 + "\n" + "A " * 50_000


STRANGE = (MACROS, '"' * 300_000, "/*" * 100_000, "\\\n" * 50_000, "", "\x00\ufffd", "1" * 300_000)


@pytest.mark.parametrize("text", STRANGE)
def test_strange_files_are_nobody_s_copies(text: str) -> None:
    assert compare({"a": text, "b": text + " "}) == ()


def test_little_of_one_s_own_is_not_compared() -> None:
    little = "__global__ void gemm(float *p) { p[7 * threadIdx.x + 3] *= 5 % 3; }"
    assert compare({"a": little, "b": little}) == ()
    more = " ".join(f"p[{i} * threadIdx.x] ^= {i}.5f;" for i in range(OWN))
    assert len(compare({"a": more, "b": more})) == 1


def test_judged_kernels_are_kept_and_compared(tmp_path: Path) -> None:
    copy = disguise(KERNELS[COPIED], random.Random(1)).encode("utf-16")  # as some editors save
    texts = {"ana": KERNELS[COPIED].encode(), "bo": copy, "cy": b"\xff\xfe", "dee": KERNELS["linear_copy"].encode()}
    grades = [grade(name, LESSON, sha256=sha256(data).hexdigest()) for name, data in texts.items()]
    students = tuple(GradedStudent(name) for name in texts)
    grading = Grading((LESSON,), students, {}, 1, {}, {})
    for name, data in texts.items():
        keep_source(tmp_path, name, LESSON, data)
    pairs = pairs_of(tmp_path, gradebook_of(grading, grades), COURSE)
    assert [(it.first, it.second) for it in pairs or ()] == [("ana", "bo")]
    keep_source(tmp_path, "ana", LESSON, b"another one, handed in later")
    assert pairs_of(tmp_path, gradebook_of(grading, grades), COURSE) == (), "its grade is not about this file"
    assert pairs_of(tmp_path, gradebook_of(replace(grading, students=students[:1]), grades), COURSE) is None
