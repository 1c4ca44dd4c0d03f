"""Reports for teacher and students: they are complete, contain no code that a reader's program would run, and show
students nothing hidden."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from checks.grading.sample import ATTACK, HIDDEN, LESSONS, SEED, TWO, grade, outcome, sample
from checks.view.browser import PHONE, Browser, chromium
from gemm_lessons.grading.escaping import one_line
from gemm_lessons.grading.gradebook import gradebook_of
from gemm_lessons.grading.results import folder_name
from gemm_lessons.grading.similarity import SimilarPair
from gemm_lessons.grading.statistics import middle, spread, stumbles
from gemm_lessons.report.grades import bar, histogram, write_pages

BOOK = sample()
SECRETS = (str(SEED), *map(str, HIDDEN), "/srv/private", "\x1b", "\u202e")
PAIR = SimilarPair(
    "03_block_tile", "ana", ATTACK, 0.93, ((7, "\tfloat acc;"), (8, ATTACK)), ((3, "</pre><script>alert(1)"),)
)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    write_pages(BOOK, folder, [PAIR])
    return folder


class Tags(HTMLParser):
    """The elements of a page, how often each, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.counts: dict[str, int] = {}
        self.handlers: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_nothing_hidden_and_no_commands_for_students(out: Path) -> None:
    files = [path for path in (out / "reports").rglob("*") if path.is_file()]
    assert len(files) == 3 * len(BOOK.rows)
    for path in files:
        assert not [it for it in SECRETS if it in path.read_text()], path


def test_names_are_text_on_every_page(out: Path) -> None:
    teacher = Tags((out / "index.html").read_text())
    student = Tags((out / "reports" / folder_name(ATTACK) / "report.html").read_text())
    assert teacher.counts["script"] == 1
    assert "script" not in student.counts, "a student's page runs nothing"
    for page in (teacher, student):
        assert one_line(ATTACK) in page.text
        assert not page.handlers
        assert not {"b", "i", "em"} & set(student.counts)
    for link in teacher.links:
        assert link.startswith("reports/")
        assert re.fullmatch(r"[\w./%~-]+", link)
    assert all(link.startswith("#") for link in student.links)


def test_markdown_shows_names_as_they_are(out: Path) -> None:
    from markdown_it import MarkdownIt

    text = (out / "reports" / folder_name(ATTACK) / "report.md").read_text()
    page = Tags(MarkdownIt("commonmark", {"html": True}).enable("table").render(text))
    assert not {"script", "a", "img", "em", "strong", "code"} & set(page.counts)
    assert page.counts["h2"] == len(BOOK.lessons)
    assert one_line(ATTACK) in page.text


def test_a_student_reads_what_passed_what_not_and_why(out: Path) -> None:
    folder = out / "reports" / "ana"
    report = json.loads((folder / "report.json").read_text())
    assert (report["schema"], report["points"], report["out_of"]) == ("gemm-lessons/report/1", 17.5, 20)
    lesson = report["lessons"][1]
    assert (lesson["headline"], lesson["passed"]) == ("right answer, gate missed", False)
    assert lesson["hints"] == ["Two barriers per tile are enough.", "At 33x31x29."], "one named a hidden shape"
    for text in ((folder / "report.md").read_text(), Tags((folder / "report.html").read_text()).text):
        for words in (
            "Ana Lima: 17.5 of 20 points",
            "barriers per K tile: 3, limit 2 (missed)",
            "1.5 / 4",
            "Two barriers",
        ):
            assert words in text
    known = set(re.findall(r'"(\w+)":', (folder / "report.json").read_text()))
    assert not known & {"case", "seed", "outcome", "shapes", "counters", "lines", "kernel", "lesson_hash"}


def test_the_teacher_sees_the_class(out: Path) -> None:
    text = Tags((out / "index.html").read_text()).text
    for words in ("gate missed: barriers per K tile", "fault: race", "not handed in", "tex.2d", "link to another file",
                  "notes.zip", "93%", "float acc;", "A hint, no verdict", f"Seed {SEED}"):  # fmt: skip
        assert words in text
    assert "were not compared" not in text


def test_numbers_of_a_class() -> None:
    assert sum(spread(BOOK)) == len(BOOK.rows)
    assert spread(BOOK)[8] == 1, "17.5 of 20"
    assert [middle(it) for it in ([], [3.0], [4.0, 1.0], [9.0, 1.0, 2.0])] == [0.0, 3.0, 2.5, 2.0]
    first = stumbles(BOOK)[0]
    assert first.students <= first.of
    assert 'aria-label="full 2, open 1"' in bar({"full": 2, "gone": 0, "open": 1}, 3)
    assert histogram([0, 3], "x").count("<rect") == 1


@pytest.mark.skipif(chromium() is None, reason="needs Chromium, which is not here")
def test_pages_open_and_sort_without_complaints(out: Path) -> None:
    students = "[...document.querySelectorAll('#class tbody th')].map((it) => it.dataset.value)"
    press = "document.querySelector('#class thead th:nth-child({}) button').click()"
    with Browser() as browser:
        browser.show(out / "index.html", *PHONE)
        assert browser.run("document.documentElement.scrollWidth") <= PHONE[0]
        ids = [one_line(row.student.id) for row in BOOK.rows]
        assert browser.run(students) == ids
        browser.run(press.format(2))  # by total, the most first
        assert browser.run(students) == ["ana", ids[2], "late", "bo", "zoë"]
        browser.run(press.format(2))
        assert browser.run(students) == ["zoë", "bo", ids[2], "late", "ana"]
        browser.run(press.format(1))
        assert browser.run(students)[1:] == ["ana", "bo", "late", "zoë"]
        browser.show(out / "reports" / "ana" / "report.html", *PHONE, dark=True)
        assert browser.run("document.documentElement.scrollWidth") <= PHONE[0]
        assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(22, 23, 21)", "styled, and dark"
        assert browser.problems == []


def test_what_went_wrong_is_counted_once_for_everybody() -> None:
    found = {(it.lesson, it.what): it.students for it in stumbles(BOOK)}
    assert found["02_coalesced", "gate missed: barriers per K tile"] == 1
    assert found["02_coalesced", f"hint: {TWO}"] == 1
    gate = {"name": "barriers per K tile", "limit": 2.0, "value": 3.0, "passed": False}
    hint = "line 7: k0 is 12 or 1,024."
    grades = [
        grade(
            name,
            LESSONS[0],
            verdict="gate_missed",
            points=1.0,
            outcome=outcome("gate_missed", gates=[gate], hints=[it]),
        )
        for name, it in (("ana", hint), ("bo", hint.replace("12", "34")), ("late", "barriers per K tile is 3"))
    ]
    assert [(it.what, it.students) for it in stumbles(gradebook_of(BOOK.grading, grades))] == [
        ("gate missed: barriers per K tile", 3), ("hint: line _: k0 is _ or _.", 2),
    ]  # fmt: skip


def test_a_kernel_that_does_not_end_is_one_mistake() -> None:
    findings = [{"kind": "timeout", "severity": "error"}]
    ended = grade("ana", LESSONS[0], verdict="timed_out", points=0.0, outcome=outcome("timed_out", findings=findings))
    assert [it.what for it in stumbles(gradebook_of(BOOK.grading, [ended]))] == ["does not end"]
