"""Each format against its published schema; nothing in them computes, commands or gives a hidden input away."""

from __future__ import annotations

import base64
import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from checks.grading.sample import ATTACK, HIDDEN, LESSONS, SEED, sample
from gemm_lessons.course.folder import CommandError
from gemm_lessons.grading.decisions import load_decisions
from gemm_lessons.grading.escaping import cell, markdown, one_line
from gemm_lessons.grading.formats import FORMATS, check_format, write_csv, write_format
from gemm_lessons.grading.gradebook import gradebook_of
from gemm_lessons.grading.results import folder_name

SCHEMAS = Path(__file__).parent / "schemas"
BOOK = sample()
SECRET = (str(SEED), *map(str, HIDDEN), "/srv/private", "\x1b", "\u202e")
RUNNER = {
    "CLASSROOM": "cs-principles", "ASSIGNMENT": "gemm", "SUBMISSION_TAG": "submit/2026-06-01T14-32-05Z-a1b2c3d",
    "COMMIT_URL": "https://github.com/o/r/commit/a1b2c3d", "RELEASE_URL": "https://github.com/o/r/releases/tag/x",
    "USERNAME": "alice",
}  # fmt: skip


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("grades")
    write_csv(BOOK, folder)
    for name in FORMATS:
        if name != "classroom50":
            write_format(name, BOOK, folder, {})
    return folder


def check(name: str, content: Any) -> None:
    schema = json.loads((SCHEMAS / f"{name}.json").read_text())
    errors = [f"{list(error.path)}: {error.message}" for error in Draft202012Validator(schema).iter_errors(content)]
    assert not errors


def texts(content: Any) -> Iterator[str]:
    """Every string in JSON."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, dict):
        for value in content.values():
            yield from texts(value)
    elif isinstance(content, list):
        for value in content:
            yield from texts(value)


def test_gradescope(out: Path) -> None:
    files = sorted((out / "gradescope").glob("*/results.json"))
    assert {path.parent.name for path in files} == {folder_name(row.student.id) for row in BOOK.rows}
    for path in files:
        content = json.loads(path.read_text())
        check("gradescope", content)
        assert content["score"] == pytest.approx(sum(test["score"] for test in content["tests"]))
        assert all(text.replace("\n", "").isprintable() for text in texts(content))
    ana = json.loads((out / "gradescope/ana/results.json").read_text())
    assert (ana["score"], ana["stdout_visibility"]) == (17.5, "hidden")
    assert [(test["number"], test["status"], test["score"], test["max_score"]) for test in ana["tests"]] == [
        ("2.1", "passed", 6, 6), ("2.2", "passed", 4, 4), ("3.1", "passed", 6, 6), ("3.2", "failed", 1.5, 4),
    ]  # fmt: skip
    message = "Right, by another method than the lesson's."  # stands at the first part that is not passed
    assert ana["tests"][3]["output"] == f"{message}\nbarriers per K tile: 3, at most 2"
    assert ana["tests"][2]["output"] == "5 of 5 shapes"
    zoe = json.loads((out / "gradescope/zoë/results.json").read_text())
    assert "no fault of yours" in zoe["tests"][0]["output"]
    assert "link to another file" in zoe["tests"][1]["output"]


def test_github_action(out: Path, tmp_path: Path) -> None:
    for path in (out / "github-action").glob("*/result.json"):
        content = json.loads(path.read_text())
        check("github_action", content)
        assert json.loads(base64.b64decode(path.with_suffix(".base64").read_text())) == content
    bo = json.loads((out / "github-action/bo/result.json").read_text())
    assert (bo["status"], bo["max_score"]) == ("fail", 20)
    assert sum(test["score"] for test in bo["tests"]) == 7.5
    assert json.loads((out / "github-action/zoë/result.json").read_text())["status"] == "error"
    # In a workflow with one student: an output and a summary, each added to what is there.
    one = gradebook_of(BOOK.grading, [g for row in BOOK.rows[:1] for g in row.grades if g])
    one = type(one)(one.grading, one.rows[:1], one.out_of)
    output, page = tmp_path / "output", tmp_path / "summary"
    output.write_text("before=1\n")
    write_format("github-action", one, tmp_path, {"GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(page)})
    before, result = output.read_text().splitlines()
    assert before == "before=1"
    check("github_action", json.loads(base64.b64decode(result.removeprefix("result="))))
    assert "## ana: 17.5 of 20 points" in page.read_text()
    write_format("github-action", BOOK, tmp_path, {"GITHUB_OUTPUT": str(output)})
    assert len(output.read_text().splitlines()) == 2, "a class has no single result"


def test_classroom50(tmp_path: Path) -> None:
    one = type(BOOK)(BOOK.grading, BOOK.rows[:1], BOOK.out_of)
    (path,) = write_format("classroom50", one, tmp_path, RUNNER)
    content = json.loads(path.read_text())
    check("classroom50", content)
    assert (content["owner"], content["review"]) == ("alice", RUNNER["COMMIT_URL"])
    # 7.5 of 10 are 8 whole points. What schemas cannot say: no test and no sum is above its most.
    assert [(test["score"], test["max-score"], test["passed"]) for test in content["tests"]] == [
        (10, 10, True), (8, 10, False),
    ]  # fmt: skip
    assert "gates, 1.5 of 4: Right, by another" in content["tests"][1]["message"]
    assert (content["score"], content["max-score"]) == (18, 20)
    with pytest.raises(CommandError, match="one submission, here are 5"):
        write_format("classroom50", BOOK, tmp_path, RUNNER)
    with pytest.raises(CommandError, match="SUBMISSION_TAG"):
        check_format("classroom50", RUNNER | {"SUBMISSION_TAG": ""})


def test_only_all_points_are_all_points(tmp_path: Path) -> None:
    from gemm_lessons.grading.formats.classroom50 import _test
    from gemm_lessons.grading.formats.lines import TestLine

    def whole(points: float, out_of: float) -> tuple[int, int]:
        half = TestLine(LESSONS[0], "p", points / 2, out_of / 2, "failed", "", 0.0)
        made = _test(LESSONS[0], [half, half])
        return made["score"], made["max-score"]

    assert [whole(*it) for it in ((3.9, 4), (4, 4), (0.5, 4), (0.4, 1), (0.5, 0.5), (0, 0), (9.9, 10))] == [
        (3, 4), (4, 4), (1, 4), (0, 1), (1, 1), (0, 0), (9, 10),
    ]  # fmt: skip


def test_junit(out: Path) -> None:
    from xmlschema import XMLSchema

    path = out / "junit/junit.xml"
    XMLSchema(SCHEMAS / "junit.xsd").validate(path)
    from xml.etree import ElementTree

    suites = list(ElementTree.parse(path).getroot())
    assert [suite.get("name") for suite in suites] == [one_line(row.student.id) for row in BOOK.rows]
    assert [(suite.get("tests"), suite.get("failures"), suite.get("errors")) for suite in suites] == [
        ("4", "1", "0"), ("3", "2", "0"), ("4", "2", "0"), ("2", "1", "1"), ("3", "0", "1"),
    ]  # fmt: skip
    for suite in suites:
        assert len(suite.findall("testcase")) == int(suite.get("tests") or 0)
        assert len(suite.findall("testcase/failure")) == int(suite.get("failures") or 0)
        assert len(suite.findall("testcase/error")) == int(suite.get("errors") or 0)


def test_nbgrader(out: Path) -> None:
    # https://github.com/jupyter/nbgrader/blob/main/nbgrader/plugins/export.py: the keys of CsvExportPlugin, in order
    keys = "assignment duedate timestamp student_id last_name first_name email raw_score late_submission_penalty score"
    with (out / "nbgrader/grades.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [*keys.split(), "max_score"]
    assert [(row["assignment"], row["student_id"]) for row in rows] == [
        (lesson, cell(it.student.id)) for lesson in LESSONS for it in BOOK.rows
    ]
    for row in rows:
        assert float(row["score"]) == float(row["raw_score"]) - float(row["late_submission_penalty"])
        assert 0 <= float(row["score"]) <= float(row["max_score"]) == 10
    assert rows[0]["first_name"] == "Ana Lima"


def test_grades_csv(out: Path) -> None:
    raw = (out / "grades.csv").read_bytes()
    assert raw.startswith(b"\xef\xbb\xbf"), "Excel takes it for UTF-8"
    with (out / "grades.csv").open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["student", "name", "email", "group", *LESSONS, "total", "out_of", "status"]
    assert [row["status"] for row in rows] == [
        "graded", "missing 03", "graded", "unsupported 02; refused 03", "not judged yet 03",
    ]  # fmt: skip
    assert [[row[it] for it in (*LESSONS, "total")] for row in rows] == [
        ["10.0", "7.5", "17.5"], ["7.5", "0.0", "7.5"], ["0.0", "10.0", "10.0"], ["0.0", "0.0", "0.0"],
        ["10.0", "", "10.0"],
    ]  # fmt: skip
    assert rows[1]["group"] == "'=1+1"


@pytest.mark.parametrize("start", ["=", "+", "-", "@", " =", "\t=", "\r=", "\n@", "＝", "\u200b=", "\x00="])
def test_no_cell_is_a_formula(start: str) -> None:
    made = cell(start + "cmd|' /C calc'!A0")
    assert made[0] not in "=+-@＝\t\r\n "
    assert made.isprintable()


@pytest.mark.parametrize("table", ["grades.csv", "nbgrader/grades.csv", "moodle/grades.csv"])
def test_no_cell_of_a_file_is_a_formula(out: Path, table: str) -> None:
    with (out / table).open(newline="", encoding="utf-8-sig") as file:
        cells = [it for row in csv.reader(file) for it in row]
    assert not [it for it in cells if it.startswith(("=", "+", "-", "@", "\t", "\r", " "))]
    assert cell(ATTACK) in cells


def test_nothing_hidden_is_told(out: Path) -> None:
    for path in out.rglob("*"):
        if path.is_file() and path.suffix != ".base64":
            text = path.read_text()
            assert not [it for it in SECRET if it in text], path


def test_markdown_is_shown_as_it_is() -> None:
    from markdown_it import MarkdownIt

    text = "# *a* _b_ `c` [d](http://e.example) <script>f</script> | g ![h](i) &lt; \\j ~~k~~ \x1b[0m\n- l"
    shown = MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(f"x {markdown(text)}\n")
    assert shown.count("<") == 2, "a paragraph, and nothing in it"
    assert "&lt;script&gt;" in shown
    assert markdown("http://e.example www.f.example") == r"http\://e.example www\.f.example"


def test_canvas(out: Path) -> None:
    # gradebook_importer.rb: the first columns by these names, assignments after them, then a row "Points Possible"
    with (out / "canvas/grades.csv").open(newline="") as file:
        head, possible, *rows = csv.reader(file)
    assert head == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *LESSONS]
    assert possible == ["    Points Possible", "", "", "", "", "10", "10"]
    assert rows[0] == ["Ana Lima", "", "", "ana", "", "10", "7.5"]
    assert rows[3][-2:] == ["", "0"], "what was not judged stays as it is there, what was refused has no points"
    assert rows[4][-2:] == ["10", ""]
    assert all(len(row) == len(head) for row in rows)


def test_canvas_s_own_columns_come_back() -> None:
    mine = {"ID": "4711", "SIS User ID": "m123", "SIS Login ID": "ana@uni", "Section": "A1"}
    student = replace(BOOK.rows[0].student, roster=mine)
    book = replace(BOOK, rows=(replace(BOOK.rows[0], student=student),))
    row = list(csv.reader(FORMATS["canvas"](book, {})["grades.csv"].splitlines()))[2]
    assert row[:5] == ["Ana Lima", "4711", "m123", "ana@uni", "A1"]
    number = replace(BOOK, rows=(replace(BOOK.rows[0], student=replace(student, id="123456", roster={})),))
    assert list(csv.reader(FORMATS["canvas"](number, {})["grades.csv"].splitlines()))[2][1:4] == ["", "123456", ""]


def test_moodle(out: Path) -> None:
    # Names of Moodle's own export; an import maps the others to grade items, and "Feedback: ..." to their feedback.
    with (out / "moodle/grades.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    items = [it for lesson in LESSONS for it in (lesson, f"Feedback: {lesson}")]
    assert list(rows[0]) == ["First name", "Last name", "ID number", "Username", "Email address", *items]
    assert list(rows[0].values())[:5] == ["Ana", "Lima", "ana", "ana", "ana@example.org"]
    assert [rows[0][it] for it in LESSONS] == ["10.00", "7.50"]
    assert "barriers per K tile" in rows[0]["Feedback: 03_block_tile"]
    assert (rows[0]["Feedback: 02_coalesced"], rows[4]["03_block_tile"], rows[3]["02_coalesced"]) == ("", "", "")


def test_decisions_reach_every_format(tmp_path: Path) -> None:
    text = 'student,lesson,points,penalty,comment\nana,block_tile,9,,"Good, really"\nana,02,,20%,late\n'
    (tmp_path / "decisions.csv").write_text(text)
    students = [row.student for row in BOOK.rows]
    book = load_decisions(tmp_path, students, LESSONS).decided(BOOK)
    for name in FORMATS:
        before, after = (
            FORMATS[name](replace(it, rows=it.rows[:1]), {**RUNNER, "GITHUB_ACTIONS": ""}) for it in (BOOK, book)
        )
        assert before != after, name
    rows = list(csv.DictReader(FORMATS["nbgrader"](book, {})["grades.csv"].splitlines()))
    assert [rows[0][key] for key in ("raw_score", "late_submission_penalty", "score")] == ["10.0", "2.0", "8.0"]
    results = json.loads(FORMATS["gradescope"](book, {})["ana/results.json"])
    check("gradescope", results)
    assert results["score"] == 17
    assert sum(it["score"] for it in results["tests"]) == 17
