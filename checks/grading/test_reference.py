"""The reference is recognised in every dress, and honest kernels are not taken for it; students are not told."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from checks.grading.copies import HONEST, better_disguise, disguise
from checks.grading.sample import outcome
from gemm_lessons.course.folder import packaged_course
from gemm_lessons.engine import KitError
from gemm_lessons.engine.compiler.tokens import without_comments
from gemm_lessons.grading import executors, judging
from gemm_lessons.grading.classroom import Assignment, Classroom
from gemm_lessons.grading.executors import LocalExecutor
from gemm_lessons.grading.gradebook import gradebook_of
from gemm_lessons.grading.inputs import find_students
from gemm_lessons.grading.judging import Job, Judged, judge
from gemm_lessons.grading.lesson_names import lesson_named
from gemm_lessons.grading.pairs import pairs_of
from gemm_lessons.grading.reference import REFERENCE, SHORT, nearest_lessons, reference_of
from gemm_lessons.grading.results import load_grades, load_grading
from gemm_lessons.grading.rubric import Rubric
from gemm_lessons.report.grades import write_pages

COURSE = packaged_course()
SOLUTIONS = {name: COURSE.lesson(name).solution_path.read_text() for name in COURSE.names}
STUBS = {name: COURSE.lesson(name).stub_path.read_text() for name in COURSE.names}
TILE, NAIVE, COALESCED = "03_block_tile", "01_naive", "02_coalesced"
DRESSES: dict[str, Callable[[str], str]] = {
    "to the letter": lambda text: text,
    "on Windows": lambda text: text.replace("\n", "\r\n") + "\r\n// handed in\r\n",
    "without comments": without_comments,
    "renamed": lambda text: disguise(text, random.Random(1)),
    "with macros": lambda text: better_disguise(text, random.Random(2)),
}


@pytest.mark.parametrize("dress", DRESSES)
def test_the_reference_in_any_dress(dress: str) -> None:
    for name, solution in SOLUTIONS.items():
        said = reference_of(COURSE, name, DRESSES[dress](solution))
        assert said.startswith(REFERENCE), name
        assert said.endswith("to the letter") == (dress == "to the letter")


def test_with_changes_and_with_more_besides() -> None:
    text = SOLUTIONS[TILE].replace("acc", "sum") + "\n__global__ void mine(float *p) { p[threadIdx.x] += 3.0f; }\n"
    assert reference_of(COURSE, TILE, text) == f"{REFERENCE} with changes"
    renamed = disguise(SOLUTIONS[COALESCED], random.Random(3))
    assert reference_of(COURSE, COALESCED, renamed).endswith(SHORT), "an honest kernel may be the same"


def test_honest_kernels_are_not_it() -> None:
    found = [
        (path.parent.name, path.stem)
        for path in sorted(HONEST.glob("*/*.cu"))
        if (name := lesson_named(path.parent.name, COURSE.names).lesson)
        and reference_of(COURSE, name, path.read_text())
    ]
    assert found == []
    assert not any(reference_of(COURSE, name, text) for name, text in STUBS.items())


def test_a_kernel_knows_its_lesson() -> None:
    for name, text in SOLUTIONS.items():
        assert nearest_lessons(COURSE, name, text) == []
        other = NAIVE if name != NAIVE else TILE
        assert nearest_lessons(COURSE, other, disguise(text, random.Random(4)))[0] == name


def test_a_wrong_kernel_under_its_own_name_passes_no_other_lesson() -> None:
    """The next test has a kernel under the wrong name."""
    wrong = SOLUTIONS[TILE].replace("acc +=", "acc -=")
    assert judge(Job("ana", TILE, "", "03.cu", wrong.encode(), seeds=(3,))).passes == ""


def test_a_verdict_stands_where_another_lesson_cannot_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    def once(job: Job, *_: object) -> dict[str, str]:
        if job.lesson != TILE:
            raise KitError("the process was lost")
        return {"verdict": "gate_missed"}

    monkeypatch.setattr(judging, "_judge_once", once)
    judged = judge(Job("ana", TILE, "", "03.cu", SOLUTIONS[NAIVE].encode(), seeds=(3,)))
    assert (judged.status, judged.passes) == ("graded", "")


def test_the_teacher_is_told_and_students_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for student, name, text in (
        ("ana", "03.cu", disguise(SOLUTIONS[TILE], random.Random(5))),
        ("bo", "03.cu", (HONEST / "block_tile" / "linear_copy.cu").read_text()),
        ("cy", "block_tile.cu", SOLUTIONS[NAIVE]),
    ):
        (tmp_path / "in" / student).mkdir(parents=True)
        (tmp_path / "in" / student / name).write_text(text)
    out = tmp_path / "out"
    found = find_students(tmp_path / "in", COURSE.names)
    classroom = Classroom.of(Assignment(found, COURSE, (TILE,), Rubric.plain(()), out, seed=5))
    passed = Judged("graded", "", outcome("passed"), 5, 0.1)  # in place of runs: what is told depends on the text
    monkeypatch.setattr(executors, "judge", lambda job: judge(job) if job.student == "cy" else passed)
    with LocalExecutor(1) as workers:
        classroom.grade(workers)
    grading = load_grading(out)
    grades = {it.student: it for it in load_grades(out, grading)}
    assert grades["ana"].look_at == (f"{REFERENCE} with other names, comments or layout",)
    assert grades["bo"].look_at == ()
    assert grades["cy"].look_at == (f"passes lesson {NAIVE}, not lesson {TILE}, as which it was handed in",)
    book = gradebook_of(grading, list(grades.values()))
    pairs = pairs_of(out, book, COURSE)
    assert [(it.first, it.second, it.share) for it in pairs or ()] == [("ana", REFERENCE, 1.0)]
    write_pages(book, out, pairs)
    page = (out / "index.html").read_text()
    assert page.count(REFERENCE) >= 3
    assert "passes lesson 01_naive" in page
    alone = replace(book, rows=book.rows[:1])
    assert [it.second for it in pairs_of(out, alone, COURSE) or ()] == [REFERENCE]
    for path in (out / "reports").rglob("report.*"):
        said = path.read_text()
        assert "reference" not in said, path
        assert "passes lesson" not in said, path
    kept = judging.judge  # a grade that is kept says the same
    monkeypatch.setattr(judging, "judge", lambda job: pytest.fail("judged again"))
    assert classroom.grade_one(found.students[2], TILE).look_at == grades["cy"].look_at
    assert kept is not judging.judge
