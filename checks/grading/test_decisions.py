"""The teacher's decisions: kept over runs, applied to every output, and wrong lines named."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from checks import forks
from checks.grading.sample import LESSONS, sample
from gemm_lessons.course.folder import CommandError, packaged_course
from gemm_lessons.grading.decisions import TEMPLATE, load_decisions, write_template
from gemm_lessons.grading.gradebook import Gradebook
from gemm_lessons.grading.results import Grade
from gemm_lessons.report.console import make_console
from gemm_lessons.report.grading import show_class

COURSE = packaged_course()
BOOK = sample()
STUDENTS = [row.student for row in BOOK.rows]


def decided(folder: Path, *lines: str) -> Gradebook:
    (folder / "decisions.csv").write_text("\n".join(["student,lesson,points,penalty,comment", *lines, ""]))
    return load_decisions(folder, STUDENTS, LESSONS).decided(BOOK)


def grade_of(book: Gradebook, student: str, lesson: int) -> Grade:
    (row,) = (it for it in book.rows if it.student.id == student)
    grade = row.grades[lesson]
    assert grade is not None
    return grade


@pytest.mark.parametrize(
    ("lines", "student", "lesson", "points", "penalty", "message"),
    [
        (['ana,03_block_tile,9.5,,"A slip, no more"'], "ana", 1, 9.5, 0, "9.5 points by decision; A slip, no more"),
        (["Ana Lima,block_tile,0,,"], "ana", 1, 0, 0, "0 points by decision"),
        (["ana@example.org,3,,,Nice."], "ana", 1, 7.5, 0, "Nice."),
        (["ana,02,,20%,"], "ana", 0, 8, 2, "late: 2 points less"),
        (["ana,02,,1.5,"], "ana", 0, 8.5, 1.5, "late: 1.5 points less"),
        (["ana,,,50%,"], "ana", 1, 3.75, 3.75, "late: 3.75 points less"),
        (["ana,03,9,,", "ana,,,10%,"], "ana", 1, 8.1, 0.9, "9 points by decision; late: 0.9 points less"),
        (["ana,02,,99,"], "ana", 0, 0, 10, "late: 10 points less"),
        (["bo,,,50%,"], "bo", 1, 0, 0, "no file for this lesson"),
        (["bo,03,4,,by mail"], "bo", 1, 4, 0, "4 points by decision; by mail"),
        (["zoë,02,10,,I read it."], "zoë", 0, 10, 0, "10 points by decision; I read it."),
        (["# ana,03,0,,", "", TEMPLATE.splitlines()[2]], "ana", 1, 7.5, 0, ""),
    ],
)
def test_a_decision(tmp_path: Path, lines: list[str], student: str, lesson: int, points: float, penalty: float,
                    message: str) -> None:  # fmt: skip
    book = decided(tmp_path, *lines)
    grade = grade_of(book, student, lesson)
    assert (grade.points, grade.penalty) == (points, penalty)
    assert grade.message.endswith(message)
    if grade.parts:
        assert sum(part.points for part in grade.parts) == pytest.approx(points)
    assert grade.judged
    assert grade_of(book, "late", 0) == grade_of(BOOK, "late", 0), "nobody else's"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("student,lesson,points\nana,03,8\nzed,03,8\n", r"decisions\.csv:3: there is no student 'zed'"),
        ("student,lesson,points\nana,07,8\n", r"decisions\.csv:2: lesson '07' is not graded; graded are 02_coalesced"),
        ("student,lesson,points\nana,03,many\n", r":2: points must be a number from 0 to 1e\+06, not 'many'"),
        ("student,lesson,points\nana,03,nan\n", r":2: points must be a number"),
        ("student,lesson,penalty\nana,03,120%\n", r":2: penalty must be a number from 0 to 100, not '120'"),
        ("student,lesson,points\nana,,8\n", r":2: points without a lesson"),
        ("student,lesson,points\nana,03,8\nana,block_tile,7\n", r":3: an earlier line gives ana other points"),
        ("student,lesson,comment\nana,03,a,b\n", r":2: 4 fields for 3 columns"),
        ("student,lesson,comment\nana,03,\n", r":2: decides nothing"),
        ("student,grade\nana,3\n", r":1: there is no column 'grade'; there are student, lesson, points"),
        ("lesson,points\n03,3\n", r":1: no column is named student"),
        (b"student\n\xff\n", r":2: not UTF-8 text"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, text: str | bytes, words: str) -> None:
    (tmp_path / "decisions.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(CommandError, match=words):
        load_decisions(tmp_path, STUDENTS, LESSONS)


def test_excel_s_own_forms_are_read(tmp_path: Path) -> None:
    (tmp_path / "decisions.csv").write_text("\ufeffStudent;Lesson;Points;Penalty;Comment\r\nana;03;8,5;;ok\r\n")
    book = load_decisions(tmp_path, STUDENTS, LESSONS).decided(BOOK)
    assert grade_of(book, "ana", 1).points == 8.5


def test_points_for_a_missing_lesson_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show_class(make_console(), decided(tmp_path, "bo,03,4,,by mail"), [])
    assert "d decided" in capsys.readouterr().out


def test_names_stand_whole_beside_28_lessons_on_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    rows = tuple(replace(row, grades=row.grades * 14) for row in BOOK.rows)
    lessons = tuple(f"{number:02}_any" for number in range(28))
    book = replace(BOOK, grading=replace(BOOK.grading, lessons=lessons), rows=rows, out_of=(10.0,) * 28)
    console = make_console()
    console.width = 80
    show_class(console, book, [])
    printed = capsys.readouterr().out
    assert "ana " in printed
    assert "0123456789012345678901234567" in printed
    assert max(map(len, printed.splitlines())) <= 80


def test_the_template_decides_nothing_and_is_written_once(tmp_path: Path) -> None:
    assert load_decisions(tmp_path, STUDENTS, LESSONS).by_case == {}
    path = write_template(tmp_path)
    assert path is not None
    assert load_decisions(tmp_path, STUDENTS, LESSONS).by_case == {}
    path.write_text("mine")
    assert write_template(tmp_path) is None
    assert path.read_text() == "mine"


def test_a_run_applies_it_again_and_again(tmp_path: Path) -> None:
    for student in ("ana", "bo"):
        (tmp_path / "in" / student).mkdir(parents=True)
        (tmp_path / "in" / student / "naive.cu").write_text(COURSE.lesson("naive").stub_path.read_text() + "//")
    command = ["grade", str(tmp_path / "in"), "--lessons", "01", "--out", str(tmp_path / "out"), "--format", "canvas"]
    first = forks.run(command)
    assert first.returncode == 0
    path = tmp_path / "out" / "decisions.csv"
    assert path.read_text() == TEMPLATE
    assert "decisions.csv" in first.stdout
    path.write_text("student,lesson,points,comment\nana,naive,7,By hand.\n")
    result = (tmp_path / "out/results/ana/01_naive.json").read_text()
    for _ in range(2):
        done = forks.run(command)
        assert done.returncode == 0
        with (tmp_path / "out/grades.csv").open(encoding="utf-8-sig", newline="") as file:
            ana, bo = csv.DictReader(file)
        assert float(ana["01_naive"]) == 7
        assert float(bo["01_naive"]) < 7
        assert path.read_text().startswith("student,lesson,points,comment\nana")
    assert (tmp_path / "out/results/ana/01_naive.json").read_text() == result, "what was judged stays"
    report = json.loads((tmp_path / "out/reports/ana/report.json").read_text())
    assert report["points"] == 7
    assert "By hand." in report["lessons"][0]["message"]
    path.write_text("student,lesson,points\nnobody,naive,7\n")
    refused = forks.run(command)
    assert (refused.returncode, "decisions.csv:2" in refused.stderr) == (2, True)
