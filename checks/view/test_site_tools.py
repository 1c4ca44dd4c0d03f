"""The site in a browser: its rules are the engine's, links carry a state, search finds, terms explain."""

from __future__ import annotations

import html
import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checks.cli.tiny_course import write_course
from checks.view.browser import PATIENCE, PHONE, Browser, chromium
from gemm_lessons.course.documents import entries, glossary_path
from gemm_lessons.course.folder import Course, packaged_course
from gemm_lessons.engine.costs import banks
from gemm_lessons.report.site import TRY, write_site
from gemm_lessons.report.site_parts import EVERYDAY, sections, terms

COURSE = packaged_course()
GLOSSARY = glossary_path(COURSE).read_text(encoding="utf-8")
ACCESSES = 1500  # of each kind and width
needs_browser = pytest.mark.skipif(chromium() is None, reason="needs Chromium, which is not here")


def accesses(width: int, seed: int) -> tuple[Any, Any]:
    """Addresses (warps, 32) and active lanes: strides, few words, lanes that repeat each other in pairs."""
    rng = np.random.default_rng(seed)
    lanes = np.arange(32)
    rows, masks = [], []
    for i in range(ACCESSES):
        kind = i % 6
        span = int(rng.choice([2, 8, 32, 64, 1024]))
        if kind == 0:
            row = rng.integers(0, span, 32)
        elif kind == 1:
            row = lanes * rng.integers(0, 40) + rng.integers(0, 64)
        elif kind == 2:
            row = lanes // rng.choice([2, 4, 8, 16]) * rng.integers(1, 40)
        elif kind == 3:
            row = (lanes & ~int(rng.choice([1, 2, 3]))) * rng.integers(1, 3) + rng.integers(0, 8)
        elif kind == 4:
            row = lanes % rng.choice([1, 2, 4, 8, 16]) * rng.integers(1, 20)
        else:
            row = rng.integers(0, 4, 8)[rng.integers(0, 8, 32) // rng.choice([1, 2, 4])]
        rows.append(row * width)
        full = rng.random() < 0.4
        masks.append(np.ones(32, bool) if full else rng.random(32) < rng.choice([0.0, 0.3, 0.8, 0.97]))
    return np.array(rows, np.int64), np.array(masks)


@needs_browser
@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("access", ["load", "store", "atomic", "matrix"])
def test_the_rules_of_the_pages_are_the_engine_s(browser: Browser, out: Path, width: int, access: Any) -> None:
    addresses, active = accesses(width, seed=width)
    browser.show(out / "banks.html")
    data = json.dumps([addresses.tolist(), active.tolist()])
    script = (
        f"(([rows, masks]) => rows.map((row, i) => [...wavefronts(row, masks[i], {width}, '{access}'), "
        f"sectors(row, masks[i]).length]))({data})"
    )
    cost, ideal, sectors = np.array(browser.run(script)).T
    expected = banks.wavefronts(addresses, active, width, access)
    assert np.array_equal(cost, expected[0])
    assert np.array_equal(ideal, expected[1])
    assert np.array_equal(sectors, banks.sectors(addresses, active, width))
    assert len(set(cost)) > 3, "different costs were compared"
    every = active.all(axis=1)  # without a mask, the engine takes another path
    assert np.array_equal(cost[every], banks.wavefronts(addresses[every], None, width, access)[0])


@needs_browser
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("a ^ (b % 8) * 4", 5 ^ 8),
        ("1 << 2 + 1", 8),
        ("7 & 3 ^ 1 | 8", 10),
        ("10 - 3 - 2", 5),
        ("-7 / 2", -3),
        ("-7 % 4", -3),
        ("~a & 3", 2),
        ("0 * -1", 0),
        ("+a - +1", 4),
        ("min(b, a + 1, 7) * 2", 12),
        ("max(0, ceil_div(b, 3))", 4),
        ("gcd(4, b, 6)", 2),
        ("min(a)", None),
        ("min(a, b", None),
        ("min", None),
        ("toString(a, b)", None),
        ("a /", None),
        ("a b", None),
        ("(a", None),
        ("a)", None),
        ("alert(1)", None),
        ("1.5", None),
        ("a / (b - 10)", None),
        ("(" * 300, None),
        ("", None),
    ],
)
def test_expressions_are_those_of_c(browser: Browser, out: Path, text: str, value: int | None) -> None:
    browser.show(out / "banks.html")
    script = f"expression({json.dumps(text)}, ['a', 'b'])({{a: 5, b: 10}})"
    caught = browser.run(
        f"(() => {{ try {{ return {script}; }} catch (error) {{ return error.constructor.name; }} }})()"
    )
    assert caught == ("Error" if value is None else value)


def opened(browser: Browser, page: Path, state: str, width: int = 1200) -> str:
    """The result that a page shows for a link with this state."""
    browser.problems.clear()
    browser.show(page, width)
    if state:
        browser.run(f"new Promise((done) => {{ onhashchange = done; location.hash = {json.dumps(state)}; }})")
    answer = browser.run("ANSWER.textContent")
    assert browser.problems == []
    return str(answer)


@needs_browser
def test_the_links_of_lessons_show_what_their_texts_say(browser: Browser, out: Path) -> None:
    before, after = re.findall(r'href="banks.html#(.*?)"', html.unescape(TRY["bank_conflicts"]))
    assert opened(browser, out / "banks.html", before).startswith("8 wavefronts instead of 4")
    assert opened(browser, out / "banks.html", after).startswith("4 wavefronts, the fewest possible")
    (rows_of_a,) = re.findall(r'href="banks.html#(.*?)"', html.unescape(TRY["mma"]))
    assert opened(browser, out / "banks.html", rows_of_a).startswith("32 wavefronts instead of 4")
    swizzled = f"{rows_of_a}&swizzle=col+%5E+(row+%25+8)+*+4"
    assert opened(browser, out / "banks.html", swizzled).startswith("4 wavefronts, the fewest possible")
    for name in ("bank_conflicts", "coalesced", "mma"):
        page = (out / f"{COURSE.lesson(name).name}.html").read_text()
        assert f"<p>{TRY[name]}</p>" in page


@needs_browser
@pytest.mark.parametrize(
    ("page", "state", "answer"),
    [
        ("banks", "row=lane&col=0", "32 wavefronts instead of 1"),
        ("banks", "row=lane&col=0&pad=1", "1 wavefront, the fewest"),
        ("banks", "width=16&row=lane&col=0&swizzle=col ^ (row % 8) * 4", "4 wavefronts, the fewest"),
        ("banks", "access=atomic&row=0&col=lane % 8", "4 wavefronts instead of 1"),
        ("banks", "access=store&row=0&col=lane % 8", "1 wavefront, the fewest"),
        ("banks", "width=16&row=lane&col=1", "Misaligned: lane 0 to 31"),
        ("banks", "row=lane&rows=8", "Outside of the tile: lane 8 to 31"),
        ("banks", "row=alert(1)", 'Row of a lane: "alert" is unexpected'),
        ("banks", "rows=-1", "Rows of the tile: a whole number from 1 to 1024"),
        ("loads", "", "4.00 sectors per request: 128 sectors in 32 requests, 128 would do. Coalesced."),
        ("loads", "BM=128&BK=8&threads=256&vector=4", "16.00 sectors per request: 128 sectors in 8 requests"),
        ("loads", "row=n % ROWS&col=n / ROWS", "32.00 sectors per request"),
        (
            "loads",
            "row=0",
            "4.00 sectors per request: 128 sectors in 32 requests, 128 would do. Coalesced. 992 elements",
        ),
        ("loads", "pitch=1026&vector=4", "Misaligned"),
        ("loads", "request=32", "Marked request: 0 to 31"),
        ("loads", "threads=33", "Threads of a block: a multiple of 32"),
        ("loads", "row=ROWS", "No load is inside the tile."),
    ],
)
def test_a_link_reproduces_a_state(browser: Browser, out: Path, page: str, state: str, answer: str) -> None:
    assert opened(browser, out / f"{page}.html", state).startswith(answer)


@needs_browser
@pytest.mark.parametrize(("page", "typed"), [("banks", "lane"), ("loads", "7")])
def test_fields_are_labelled_and_typing_changes_the_link(browser: Browser, out: Path, page: str, typed: str) -> None:
    browser.show(out / f"{page}.html", 360)
    assert browser.run("document.documentElement.scrollWidth") <= 360
    assert browser.run("[...FORM.elements].every((it) => it.labels.length === 1 && it.name === it.id)")
    assert browser.run("document.querySelector('#picture svg, #picture canvas').getAttribute('aria-label').length > 5")
    before = browser.run("FORM.elements.col.focus(), FORM.elements.col.select(), ANSWER.textContent")
    browser.call("Input.insertText", text=typed)
    assert f"col={typed}" in browser.run("location.hash")
    assert browser.run("ANSWER.textContent") != before
    link = browser.run("location.hash.slice(1)")
    answer = browser.run("ANSWER.textContent")
    assert opened(browser, out / f"{page}.html", link) == answer


@needs_browser
def test_search_finds_sections(browser: Browser, out: Path) -> None:
    browser.problems.clear()
    browser.show(out / "index.html")
    browser.run("document.getElementById('search').focus()")
    browser.call("Input.insertText", text="PADDING bank")
    end = time.monotonic() + PATIENCE
    while not (links := browser.run("[...document.querySelectorAll('#results a')].map((it) => it.href)")):
        assert time.monotonic() < end, "the texts to search are not loaded"
    assert any(link.endswith("07_bank_conflicts.html#the-padding") for link in links)
    assert browser.run("search('nothing-like-this', PAGES)") == []
    assert browser.run("search('  ', PAGES)") == []
    assert browser.problems == []
    browser.show(out / "index.html", *PHONE)
    assert browser.run("document.documentElement.scrollWidth") <= PHONE[0]


def test_sections_of_a_page() -> None:
    body = '<h1>T</h1>\n<p>a <b>b</b></p><svg><text>no</text></svg><h2 id="x">X <code>y</code></h2><p>c\n d</p>'
    body += "<details><summary><h2>Answers</h2></summary><p>42</p></details>"
    assert list(sections("p.html", "T", body)) == [("p.html", "T", "", "", "T a b"), ("p.html", "T", "x", "X y", "c d")]


def marked(text: str) -> str:
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark")
    tokens = markdown.parse(text)
    race, passes = "## race\n\nTwo *threads* <meet>. (naive)", "## bank conflicts, conflicts\n\nPasses. (naive)"
    glossary = f"# G\n\n{race}\n\n{passes}\n\n## time\n\nno\n\n## \n\n## trace\n"  # an unfinished one has no anchor
    terms(glossary, "g.html", {"race": "race", "bank conflicts, conflicts": "b", "time": "t"}).mark(tokens)
    return str(markdown.renderer.render(tokens, markdown.options, {})).strip()


RACE = '<a class="term" href="g.html#race" title="Two threads &lt;meet&gt;.">'


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("A race, a race.", f"<p>A {RACE}race</a>, a race.</p>"),
        ("Races & time", f"<p>{RACE}Races</a> &amp; time</p>"),
        ("`race` [race](x) race-free trace", '<p><code>race</code> <a href="x">race</a> race-free trace</p>'),
        ("## race\n\nrace\n\n## 2\n\nrace", f"<h2>race</h2>\n<p>{RACE}race</a></p>\n<h2>2</h2>\n<p>{RACE}race</a></p>"),
        ("a Bank conflict", '<p>a <a class="term" href="g.html#b" title="Passes.">Bank conflict</a></p>'),
    ],
)
def test_the_first_of_a_word_in_a_section_is_explained(text: str, page: str) -> None:
    assert marked(text) == page


def test_everyday_words_are_those_of_the_glossary(out: Path) -> None:
    assert set(entries(GLOSSARY)) >= EVERYDAY
    assert 'class="term"' in (out / f"{COURSE.lesson('bank_conflicts').name}.html").read_text()
    assert 'class="term"' not in (out / "glossary.html").read_text()


def test_any_heading_of_a_course_s_glossary_is_an_anchor(tmp_path: Path) -> None:
    course = Course(write_course(tmp_path / "course"))
    folder = course.lessons_dir / "common"
    folder.mkdir(exist_ok=True)
    (folder / "glossary.md").write_text(
        "# G\n\n##  a`b`c, warp \n\nW.\n\n## \n\n## #1 *tile*\n\nT.\n\n## tile\n\n## tile\n\nX.\n"
    )
    text = course.lesson("first").text_path
    text.write_text(f"{text.read_text()}\n## More\n\nA warp, and a tile.\n")
    write_site(course, tmp_path / "site")
    page = (tmp_path / "site" / "01_first.html").read_text()
    assert '<a class="term" href="glossary.html#abc-warp" title="W.">warp</a>' in page
    assert '<a class="term" href="glossary.html#tile-2" title="X.">tile</a>' in page
