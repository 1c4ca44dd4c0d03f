"""Grades as files: what is written can be read again, whole or not at all."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gemm_lessons.course.folder import CommandError, WriteError
from gemm_lessons.grading import results
from gemm_lessons.grading.results import Case, Grade, GradedStudent, GradePart, Grading

GRADE = Grade(
    "ana",
    "03_block_tile",
    "graded",
    8.0,
    10.0,
    "a gate was missed",
    name="Ana Lima",
    parts=(GradePart("right values", 8.0, 8.0, True, "all shapes"),),
    verdict="gate_missed",
    outcome={"verdict": "gate_missed"},
    case=Case(7, ((128, 128, 128),), ((1, 1, 1), (33, 31, 29))),
    versions={"numpy": "2.0"},
)
GRADING = Grading(
    ("03_block_tile",), (GradedStudent("ana", "Ana Lima", None, {"group": "2"}, ("a link",)),), {}, 7, {}, {}, (1, 3)
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    for student in ("ana", "Łukasz / ../x", ".hidden", "long " * 60, "\udc80 no text"):
        grade = replace(GRADE, student=student)
        results.save_grade(tmp_path, grade)
        assert results.load_grade(tmp_path, student, GRADE.lesson) == grade
    assert {path.parent.parent for path in tmp_path.rglob("*.json")} == {tmp_path / "results"}, "none lies elsewhere"
    results.save_grading(tmp_path, GRADING)
    assert results.load_grading(tmp_path) == GRADING
    assert results.load_grades(tmp_path, GRADING) == (GRADE,)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", "[" * 100_000, '{"schema": "gemm-lessons/grade/1"}'])
def test_a_broken_grade_is_none(tmp_path: Path, text: str) -> None:
    path = results.grade_path(tmp_path, "ana", GRADE.lesson)
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert results.load_grade(tmp_path, "ana", GRADE.lesson) is None


def test_a_grade_of_somebody_else_is_none(tmp_path: Path) -> None:
    path = results.grade_path(tmp_path, "ana", GRADE.lesson)
    results.write_durably(path, replace(GRADE, student="bob").as_json())
    assert results.load_grade(tmp_path, "ana", GRADE.lesson) is None


def test_a_broken_record_of_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="is not a folder of gemm-lessons grade"):
        results.load_grading(tmp_path)
    (tmp_path / "grading.json").write_text(json.dumps({"schema": "gemm-lessons/grading/1"}))
    with pytest.raises(CommandError, match=r"grading\.json: not a record"):
        results.load_grading(tmp_path)


def test_nothing_is_left_of_what_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "grading.json").mkdir()
    with pytest.raises(WriteError):
        results.save_grading(tmp_path, GRADING)
    assert [path.name for path in tmp_path.iterdir()] == ["grading.json"]
