"""The page: small, self-contained, and in a browser it says what the record holds, at every width and by keyboard."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from checks.view.browser import DESKTOP, PHONE, Browser, chromium
from gemm_lessons.course.folder import packaged_course
from gemm_lessons.devices.simulated import Simulated
from gemm_lessons.engine.hardware.sheets import GPUS
from gemm_lessons.engine.pictures.accesses import bank_map
from gemm_lessons.report.page import PICTURES, page_of
from gemm_lessons.report.page import record as record_of
from gemm_lessons.report.template import embedded
from gemm_lessons.running.pipeline import RunRequest, run_lesson
from gemm_lessons.view import View, view_of

SMALL = 300_000  # bytes
needs_browser = pytest.mark.skipif(chromium() is None, reason="needs Chromium, which is not here")


@pytest.fixture(scope="module")
def page(seen: View, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(page_of(seen), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def wrong() -> View:
    """The stub of block_tile, which answers wrongly."""
    lesson = packaged_course().lesson("block_tile")
    request = RunRequest(packaged_course(), lesson, lesson.stub_path, Simulated(), GPUS["h200"], seed=1)
    return view_of(run_lesson(request), GPUS["h200"])


def test_a_page_is_small_and_needs_nothing_else(page: Path, seen: View) -> None:
    text = page.read_text()
    assert page.stat().st_size < SMALL
    assert set(re.findall(r"https?://[^\s\"'<]+", text)) <= {"http://www.w3.org/2000/svg"}
    assert "@" not in re.sub(r"@media|@supports", "", text.split("<script")[0]), "every part is filled in"
    (kept,) = re.findall(r'<script type="application/json" id="record">(.*?)</script>', text, re.DOTALL)
    assert json.loads(kept) == json.loads(json.dumps(record_of(seen)))


def test_no_text_ends_the_script() -> None:
    text = embedded({"source": "// </script><!-- \u2028"})
    assert "<" not in text
    assert json.loads(text) == {"source": "// </script><!-- \u2028"}


def test_a_wrong_answer_is_shown_without_what_it_does_not_have(wrong: View) -> None:
    record = record_of(wrong)
    assert record["verdict"]["kind"] == "wrong_answer"
    shape, (rows, cols) = record["wrong"]["shape"], record["wrong"]["tile"]
    assert len(record["wrong"]["map"]) == -(-shape[0] // rows)
    assert len(record["wrong"]["map"][0]) == -(-shape[1] // cols)
    assert sum(map(sum, record["wrong"]["map"])) == record["wrong"]["wrong"]
    mine, beside = record["sides"]
    assert mine["timeline"] is None
    assert "timeline" in mine["notes"][0]
    assert beside["label"] != "reference", "which would give the solution away"
    assert beside["timeline"]


@dataclass
class Seen:
    """An open page, and what it should say."""

    browser: Browser
    record: Mapping[str, Any]
    view: View


@pytest.fixture
def opened(browser: Browser, page: Path, seen: View) -> Seen:
    browser.problems.clear()
    browser.show(page)
    return Seen(browser, record_of(seen), seen)


@needs_browser
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize(("width", "ratio"), [DESKTOP, PHONE])
def test_it_draws_at_every_width_without_complaints(browser, page, width, ratio, dark) -> None:
    browser.problems.clear()
    browser.show(page, width, ratio, dark)
    assert browser.run("document.documentElement.dataset.ready") == "yes"
    assert browser.problems == []
    assert browser.run("document.documentElement.scrollWidth") <= width, "nothing sticks out"
    ground = browser.run("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground))) < 382) == dark
    blank = browser.run(
        "[...document.querySelectorAll('canvas')].filter((it) => !it.getContext('2d')"
        ".getImageData(0, 0, it.width, it.height).data.some((byte) => byte)).length"
    )
    assert blank == 0


@needs_browser
def test_the_numbers_are_the_run_s(opened: Seen) -> None:
    run, record = opened.browser.run, opened.record
    cells = run(
        "[...document.querySelectorAll('#table tbody tr')].map((row) => [...row.cells].map((it) => it.textContent))"
    )
    assert cells == record["table"]["rows"]
    assert run("document.getElementById('badge').textContent") == "PASSED"
    for line, counted in record["sides"][0]["counts"].items():
        text = run(f"document.querySelector('tr[data-line=\"{line}\"] .heat').textContent")
        value = counted.get("shared_wavefronts", [0])[0]
        assert text == (f"{value:,}" if value else "")


@needs_browser
def test_conflicts_are_red_and_told_in_words(opened: Seen) -> None:
    browser, side = opened.browser, opened.view.sides[1]
    browser.run("document.getElementById('source-tab-1').click()")
    worst = side.row.checked.counters.conflicts[0].line
    browser.run(f"document.querySelector('tr[data-line=\"{worst}\"] button').click()")
    drawn = [it for it in side.requests_of(worst) if it.space == "shared"][:PICTURES]
    expected = sum(cell.turn > 1 and not cell.again for it in drawn for lane in bank_map(it).lanes for cell in lane)
    assert expected
    assert browser.run("document.querySelectorAll('.detail rect.clash').length") == expected
    label = browser.run("document.querySelector('.detail svg').getAttribute('aria-label')")
    assert "want different words of bank" in label
    assert "would do" in browser.run("document.querySelector('.detail figcaption strong').textContent")


@needs_browser
def test_by_keyboard(opened: Seen) -> None:
    browser, side = opened.browser, opened.record["sides"][0]
    lines = [str(line) for line in side["requests"]]
    browser.run(f"document.querySelector('tr[data-line=\"{lines[0]}\"] button').focus()")
    browser.press("ArrowDown")
    assert browser.run("document.querySelector('.detail h3').textContent") == f"Line {lines[1]}"
    assert browser.run("document.activeElement.textContent") == lines[1]
    told = "; ".join(it["heading"] for it in side["requests"][int(lines[1])]["shown"])
    assert browser.run("document.querySelector('[role=status]').textContent") == f"Line {lines[1]}: {told}"
    browser.run("document.getElementById('thread-0').value = 17")
    browser.run("document.getElementById('thread-0').dispatchEvent(new Event('input'))")
    said = browser.run("document.querySelector('output[for=thread-0]').textContent")
    assert said.startswith("Thread 17 (warp 0, lane 17) stores 64 elements")
    browser.run("document.querySelector('.strips').focus()")
    for key in ("Home", "ArrowDown", "ArrowRight"):
        browser.press(key)
    said = browser.run("document.getElementById('readout-0').textContent")
    assert re.match(r"Clock \d[\d,]*, block 0, warp 1: ", said)
    browser.run("document.getElementById('source-tab-0').focus()")
    browser.press("ArrowRight")
    assert browser.run("document.activeElement.id") == "source-tab-1"
    assert browser.run("document.activeElement.getAttribute('aria-selected')") == "true"
    assert opened.browser.problems == []


@needs_browser
def test_everything_that_can_be_used_has_a_name(opened: Seen) -> None:
    nameless = opened.browser.run(
        "[...document.querySelectorAll('button, input, select, a, [tabindex=\"0\"], svg, canvas')].filter((it) => "
        "!(it.textContent.trim() || it.getAttribute('aria-label') || (it.labels && it.labels.length) "
        "|| it.closest('[role=application]'))).map((it) => it.outerHTML)"
    )
    assert nameless == []
    assert opened.browser.run("document.querySelectorAll('h1').length") == 1


@needs_browser
def test_a_wrong_answer_in_the_browser(browser: Browser, wrong: View, tmp_path: Path) -> None:
    path = tmp_path / "wrong.html"
    path.write_text(page_of(wrong), encoding="utf-8")
    browser.problems.clear()
    browser.show(path, *PHONE)
    record = record_of(wrong)
    tiles = sum(map(len, record["wrong"]["map"]))
    assert browser.run("document.querySelectorAll('.tiles i').length") == tiles
    assert record["wrong"]["pattern"] in browser.run("document.getElementById('verdict').textContent")
    assert browser.problems == []
