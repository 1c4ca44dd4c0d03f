"""What first visitors meet: the recorded session, pages that load fast, that a keyboard and a phone can use, and what a
published site needs."""

from __future__ import annotations

import json
import math
import re
import struct
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import pytest

from checks.pictures import card_page, card_text, comment
from checks.session import COLUMNS, recorded, shown
from checks.view.browser import DESKTOP, PHONE, Browser, chromium
from gemm_lessons.course.folder import CommandError, packaged_course
from gemm_lessons.report.site import write_site
from gemm_lessons.report.site_parts import CARD, CAST, base_address, described, session
from gemm_lessons.report.template import ASSETS, asset

MOST = 300_000  # bytes of a page with all that it loads at once
URL = "https://example.org/gemm/"
KINDS = ("index", "session", "07_bank_conflicts", "18_wgmma", "banks", "loads", "engine", "glossary", "commands")
AXE = find_spec("axe_core_python")
NARROW = (375, 2.0)
SEED = re.compile(r" *simulator, --seed \d+")  # chosen anew in each folder
needs_browser = pytest.mark.skipif(chromium() is None, reason="needs Chromium, which is not here")


def test_a_page_loads_little(out: Path) -> None:
    for page in out.glob("*.html"):
        loaded = re.findall(r'<(?:script src|link rel="(?:stylesheet|icon)"[^>]* href)="(\w+\.\w+)"', page.read_text())
        assert "site.css" in loaded
        size = page.stat().st_size + sum((out / name).stat().st_size for name in loaded)
        assert size < MOST, f"{page.name}: {size:,} bytes"


# -- published ---------------------------------------------------------------------------------------------------------


def test_a_published_site_has_addresses(tmp_path: Path) -> None:
    pages = write_site(packaged_course(), tmp_path / "web", URL[:-1])
    tree = ElementTree.parse(tmp_path / "web" / "sitemap.xml").getroot()
    places = [str(it.text) for it in tree.iter("{http://www.sitemaps.org/schemas/sitemap/0.9}loc")]
    assert places == [URL, *(URL + page.name for page in pages[1:])]
    for page in pages:
        text = (tmp_path / "web" / page.name).read_text()
        (canonical,) = re.findall(r'<link rel="canonical" href="(.*?)">', text)
        assert canonical in places
        assert f'<meta property="og:image" content="{URL}{CARD}">' in text
        (words,) = re.findall(r'<meta name="description" content="(.*?)">', text)
        assert 20 < len(words) < 250, (page.name, words)
    assert (tmp_path / "web" / CARD).is_file()


def test_the_page_for_a_missing_page_works_at_any_address(tmp_path: Path) -> None:
    write_site(packaged_course(), tmp_path / "web", URL)
    text = (tmp_path / "web" / "404.html").read_text()
    links = re.findall(r'(?:href|src)="(.*?)"', text)
    assert {link for link in links if not link.startswith(URL)} == {"#text"}
    assert 'rel="canonical"' not in text
    assert all((tmp_path / "web" / link.removeprefix(URL).partition("#")[0]).exists() for link in links)


def test_without_an_address_nothing_is_made_up(out: Path) -> None:
    assert not [name for name in ("404.html", "sitemap.xml", CARD) if (out / name).exists()]
    assert "og:image" not in (out / "index.html").read_text()


@pytest.mark.parametrize(
    "url", ["example.org", "ftp://example.org/", "https://", "https://x.org/?a=1", "https://x.org/ b"]
)
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(CommandError, match="not the address"):
        base_address(url)


def test_descriptions() -> None:
    assert described("<p>a</p>", "An idea.") == "An idea."
    assert described("<h1>T</h1><p>One &amp; <b>two</b>.</p><p>three</p>", "") == "One & two."
    assert described("<h1>T</h1>", "") == ""
    assert described(f"<p>{'word ' * 99}</p>", "").endswith("word ...")


def test_the_card_is_current() -> None:
    data = (ASSETS / CARD).read_bytes()
    assert comment(data) == card_text(card_page()), "python -m checks.pictures draws it anew"
    assert struct.unpack(">II", data[16:24]) == (1200, 630)


# -- the session -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.stored
def test_the_session_is_what_runs_print_now() -> None:
    now = "".join(data for _, _, data in recorded())
    assert SEED.sub("", shown(asset(CAST))) == SEED.sub("", now), "python -m checks.session records it anew"


def test_the_session_is_a_recording_that_only_prints() -> None:
    header, *events = (json.loads(line) for line in asset(CAST).splitlines())
    assert (header["version"], header["width"]) == (2, COLUMNS)
    times = [time for time, _, _ in events]
    assert times == sorted(times)
    assert 90 < times[-1] < 130
    assert {kind for _, kind, _ in events} == {"o"}
    plain = re.sub(r"\x1b\[[\d;]*m", "", shown(asset(CAST)))
    assert not re.search(r"[\x00-\x09\x0b\x0c\x0e-\x1f]|\r(?!\n)", plain), "the page knows colours and lines only"
    assert max(map(len, plain.split("\r\n"))) <= COLUMNS
    assert plain.index("NOT FINISHED") < plain.index("Race: ") < plain.index("PASSED")
    assert re.sub(r"<[^>]*>", "", session().partition("<pre")[2].partition(">")[2]).count("\n") == plain.count("\n")


@needs_browser
def test_the_session_plays(browser: Browser, out: Path) -> None:
    browser.problems.clear()
    browser.show(out / "session.html", *PHONE)
    seen = "SCREEN.innerText.replaceAll('\\u00a0', ' ')"
    whole = browser.run(seen)
    assert whole == re.sub(r"\x1b\[[\d;]*m", "", shown(asset(CAST))).replace("\r\n", "\n")
    browser.run("PLAY.click()")
    assert browser.run("PLAY.textContent") == "Pause"
    begun = browser.run("at")
    assert begun < 5, "it plays from its beginning"
    browser.run("new Promise((done) => setTimeout(done, 300))")
    assert browser.run("at") > begun
    browser.run("PLAY.click()")
    assert browser.run("PLAY.textContent") == "Play"
    assert whole.startswith(browser.run(seen))
    browser.run("TIME.value = 60, TIME.dispatchEvent(new Event('input'))")
    part = browser.run(seen)
    assert whole.startswith(part)
    assert "NOT FINISHED" in part
    assert "PASSED" not in part
    minutes, seconds = divmod(math.ceil(json.loads(asset(CAST).splitlines()[-1])[0]), 60)
    assert browser.run("TIME.getAttribute('aria-valuetext')") == f"1:00 of {minutes}:{seconds:02}"
    assert browser.problems == []


# -- for everybody -----------------------------------------------------------------------------------------------------


@needs_browser
@pytest.mark.skipif(AXE is None, reason="needs axe-core-python, which is not here")
@pytest.mark.parametrize("kind", KINDS)
def test_contrast_labels_and_structure(browser: Browser, out: Path, kind: str) -> None:
    assert AXE
    assert AXE.origin
    axe = Path(AXE.origin).with_name("axe.min.js").read_text()
    for (width, ratio), dark in ((NARROW, False), (DESKTOP, True)):
        browser.show(out / f"{kind}.html", width, ratio, dark)
        assert browser.run("document.documentElement.scrollWidth") <= width
        browser.run(f"document.querySelectorAll('details').forEach((it) => {{ it.open = true; }}); {axe}; 0")
        found = browser.run(
            "axe.run(document, { preload: false }).then((it) => it.violations.map((rule) => "
            "[rule.id, ...rule.nodes.slice(0, 3).map((node) => node.failureSummary + node.html)]))"
        )
        assert found == [], (width, dark)


@needs_browser
@pytest.mark.parametrize("kind", ["index", "session", "banks", "03_block_tile"])
def test_the_keyboard_reaches_everything(browser: Browser, out: Path, kind: str) -> None:
    browser.show(out / f"{kind}.html")
    browser.press("Tab")
    assert browser.run("document.activeElement.className") == "skip"
    assert browser.run("document.activeElement.getBoundingClientRect().left") > 0, "it is seen when it has the focus"
    focusable = "a[href], button, input, select, summary, [tabindex='0']"
    wanted = browser.run(
        f"[...document.querySelectorAll({json.dumps(focusable)})].filter((it) => it.checkVisibility()).length"
    )
    reached = 0
    for _ in range(wanted):
        style = browser.run("((it) => [it.outlineStyle, it.outlineWidth])(getComputedStyle(document.activeElement))")
        assert style == ["solid", "2px"], browser.run("document.activeElement.outerHTML.slice(0, 200)")
        reached += browser.run("document.activeElement.seen ? 0 : (document.activeElement.seen = 1)")
        browser.press("Tab")
    assert reached == wanted
