"""The course as web pages: everything that the texts hold is there, every link leads somewhere, no file is lost."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from markupsafe import escape

from checks.cli.tiny_course import write_course
from checks.view.browser import PHONE, Browser, chromium
from gemm_lessons.course.documents import page_names
from gemm_lessons.course.folder import CommandError, Course, packaged_course
from gemm_lessons.course.lesson import LessonError
from gemm_lessons.course.text import RESULTS
from gemm_lessons.report.chart import GAP, chart
from gemm_lessons.report.site import TOOLS, SitePage, _parts, broken_links, write_site

COURSE = packaged_course()
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_a_page_for_every_text(out: Path) -> None:
    appendices = {f"{path.parent.name[3:]}_appendix" for path in COURSE.lessons_dir.glob("*/APPENDIX.md")}
    others = {*page_names(), *appendices, *TOOLS, "estimate", "measured", "engine", "glossary", "session"}
    others |= {"then_and_now", "cold_memory"}
    assert {path.stem for path in out.glob("*.html")} == {*COURSE.names, *others, "index"}
    index = (out / "index.html").read_text()
    assert all(f'href="{name}.html"' in index for name in (*COURSE.names, *others))
    for lesson in map(COURSE.lesson, COURSE.names):
        assert f'<td>{escape(lesson.idea)}</td><td class="short">about {lesson.minutes}&nbsp;min</td>' in index


@pytest.mark.parametrize("name", COURSE.names)
def test_nothing_of_a_text_is_lost(out: Path, name: str) -> None:
    text, page = COURSE.lesson(name).text_path.read_text(), (out / f"{name}.html").read_text()
    assert "&lt;!--" not in page
    outside = BLOCK.sub("", text)
    headings = re.findall(r"^## (.+)$", outside, re.MULTILINE)
    assert len(re.findall(r"<h2 id", page)) == len(headings) + page.count("This lesson among the others</h2>")
    assert [words for words in RESULTS if words in headings] == re.findall(
        r"<details><summary><h2[^>]*>(.*?)</h2>", page
    )
    languages = [language for language, _ in BLOCK.findall(text)]
    assert page.count('<svg class="drawing"') == languages.count("drawing")
    assert page.count('<pre class="shown"') == languages.count("")
    assert page.count('<pre class="code"') == languages.count("cuda") + languages.count("toml")
    rows = re.findall(r"^\|.*\|$", outside, re.MULTILINE)
    rules = [row for row in rows if re.fullmatch(r"[|\s:-]+", row)]
    assert page.count("<tr>") >= len(rows) - len(rules) - 1


def test_a_long_name_breaks_between_its_parts() -> None:
    body = _parts("`h200_ragged.json`, `grid(ceil(N / BN), 1)`, `a < b.toml` and `__syncthreads()`", None, {})["body"]
    assert re.findall("<code>(.*?)</code>", body) == [
        "h200_<wbr>ragged.json",
        "grid(<wbr>ceil(<wbr>N / BN), 1)",
        "a &lt; b.toml",
        "__syncthreads()",
    ]


def test_links_between_texts_are_links_between_pages(out: Path) -> None:
    assert re.search(r'href="\d\d_bank_conflicts.html"', (out / "estimate.html").read_text())
    links = re.findall(r'href="([^"]*)"', "".join(path.read_text() for path in out.glob("*.html")))
    assert not [link for link in links if ".md" in link]


def test_a_broken_link_is_named(tmp_path: Path) -> None:
    course = Course(write_course(tmp_path / "course"))
    text = course.lesson("first").text_path
    good = text.read_text()
    text.write_text(f"{good}\nSee [there](../02_second/README.md#nowhere) and [that](other.md).\n")
    with pytest.raises(LessonError, match=r"01_first\.html: 02_second\.html#nowhere; 01_first\.html: other\.md"):
        write_site(course, tmp_path / "site")
    assert not (tmp_path / "site").exists()
    text.write_text(f"{good}\n## Twice\n\n## Twice\n\nSee [it](#twice-2), [that](../02_second/README.md).\n")
    names = [page.name for page in write_site(course, tmp_path / "site")]
    pages = [f"{name}.html" for name in page_names()]
    more = ["engine.html", "banks.html", "loads.html", "session.html"]
    assert names == ["index.html", "01_first.html", "02_second.html", *pages, *more]
    assert "<svg" not in (tmp_path / "site" / "index.html").read_text(), "nothing was measured of this course"


def test_links_that_lead_nowhere() -> None:
    pages = [
        SitePage(
            "a.html",
            "a",
            body='<h2 id="x">x</h2><a href="b.html#y">1</a><a href="#x">2</a>',
        ),
        SitePage("b.html", "b"),
        SitePage("c.html", "c", body='<input id="x"><a href="#x=1">1</a><a href="#x=1&amp;z=2">2</a>'),
    ]
    assert [str(it) for it in broken_links(pages)] == ["a.html: b.html#y", "c.html: #x=1&z=2"]


def test_other_people_s_files_stay(out: Path, tmp_path: Path) -> None:
    write_site(COURSE, out)  # once more, over its own
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(CommandError, match="other things"):
        write_site(COURSE, tmp_path)
    with pytest.raises(CommandError, match="is a file"):
        write_site(COURSE, tmp_path / "mine.txt")


def test_a_chart_names_every_line_without_overlaps() -> None:
    series = {f"0{i}": [(128, i * 1.0), (256, 10 + i * 0.1)] for i in range(8)}
    drawn = chart(series, "03", "Speed <of all>")
    heights = sorted(float(y) for y in re.findall(r'<text class="\w+" x="\d+" y="([\d.]+)"', drawn))
    assert len(heights) == 8
    assert min(b - a for a, b in itertools.pairwise(heights)) > GAP - 0.2
    assert drawn.count('class="chosen"') == 2
    assert "Speed &lt;of all&gt;. 00 10.0 at 256" in drawn


@pytest.mark.skipif(chromium() is None, reason="needs Chromium, which is not here")
def test_pages_open_on_a_phone_without_complaints(out: Path) -> None:
    with Browser() as browser:
        for path in sorted(out.glob("*.html")):
            browser.show(path, *PHONE)
            assert browser.run("document.documentElement.scrollWidth") <= PHONE[0], path.name
            assert browser.run("getComputedStyle(document.querySelector('nav.course')).paddingTop") != "0px", "styled"
        assert browser.problems == []
