"""Drills on a lesson's page: the script's rules are the engine's, over thousands of drawn questions."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from checks.cli.tiny_course import write_course
from checks.view.browser import PHONE, Browser, chromium
from gemm_lessons.course.drills import Drawn, Drill, in_words, load_drills
from gemm_lessons.course.folder import Course, packaged_course
from gemm_lessons.engine.arguments.expression import ExpressionError
from gemm_lessons.report.site import write_site

pytestmark = pytest.mark.skipif(chromium() is None, reason="needs Chromium, which is not here")

COURSE = packaged_course()
DRAWS = 50  # of each drill, in Python and again in the browser
WIDE = """\
[global]
ask = "{E} {V} {index}"
sectors = "(xor(lane // D, lane * S % 32) + first) * V + max(lane - 20, 0) // 3 * V"
element = 2
vector = "V"
why = "{ceil_div(first, S)} {gcd(first + 1, 12)} {min(first, S, D)} {answer}"
[global.draw]
E = 2
V = [1, 2, 4, 8]
D = [1, 2, 4, 8, 16, 32]
S = "1 .. 40"
first = "0 .. 70"

[load]
ask = "{index}"
wavefronts = "(xor(lane // D, lane % P) * S + lane % D * P) * V"
vector = "V"
why = "{answer} {index}"
draw = { V = [1, 2, 4], D = [1, 2, 4, 8, 16], S = "0 .. 40", P = "1 .. 40" }

[store]
ask = "{index}"
wavefronts = "(lane // D * S + lane % D * P) * V"
vector = "V"
access = "store"
why = "{answer} {index}"
draw = { V = [1, 2, 4], D = [1, 2, 4, 8, 16], S = "0 .. 40", P = "1 .. 40" }

[matrix]
ask = "{index}"
wavefronts = "(lane % 8 * P + xor(lane // 8, lane % 8 // S)) * 8"
element = 2
vector = 8
access = "matrix"
why = "{answer} {index}"
draw = { P = "1 .. 20", S = [1, 2, 4, 8] }

[bank]
ask = "{index}"
bank = "row * (C + pad) + col"
element = "E"
why = "{answer} {row * (C + pad) + col}"
draw = { C = [16, 32, 64], pad = "0 .. 8", row = "0 .. 99", col = "0 .. C - 1" }
""".replace('element = "E"', "element = 8")
WIDE_DRAWS = 400


def compared(browser: Browser, page: Path, drills: Sequence[Drill], draws: int) -> list[Drawn]:
    """Draw each drill here and in the browser; both must give the same answers and texts. Return all of them."""
    browser.problems.clear()
    browser.show(page)
    dice = random.Random(page.name)
    mine = [[i, drill.drawn(dice).values] for i, drill in enumerate(drills) for _ in range(draws)]
    theirs = browser.run(f"DRILLS.flatMap((drill, i) => range({draws}).map(() => [i, draw(drill)]))")
    asked = json.dumps([*mine, *theirs])
    answers = browser.run(
        f"{asked}.map(([i, values]) => ((answer) => [answer, fill(DRILLS[i].ask, DRILLS[i], values, answer), "
        "fill(DRILLS[i].why, DRILLS[i], values, answer)])(solve(DRILLS[i], values)))"
    )
    assert len(answers) == len(drills) * draws * 2
    questions = [drills[i].at(values) for i, values in [*mine, *theirs]]
    assert [[[*it.answer], it.ask, it.why] for it in questions] == answers
    for i, values in theirs:
        assert within(drills[i], values)
    assert browser.problems == []
    return questions


def within(drill: Drill, values: dict[str, int]) -> bool:
    """Tell whether these numbers may be drawn."""
    bounds = {draw.name: draw.bounds(values) for draw in drill.draws}
    ranges = {draw.name for draw in drill.draws if draw.last}
    return values.keys() == bounds.keys() and all(
        bounds[name][0] <= value <= bounds[name][1] if name in ranges else value in bounds[name]
        for name, value in values.items()
    )


@pytest.mark.parametrize("name", COURSE.names)
def test_a_page_s_drills_are_the_engine_s(browser: Browser, out: Path, name: str) -> None:
    compared(browser, out / f"{name}.html", load_drills(COURSE.lesson(name)), DRAWS)


def test_any_drill_is_the_same_on_a_page(browser: Browser, tmp_path: Path) -> None:
    course = Course(write_course(tmp_path / "course"))
    lesson = course.lesson("first")
    lesson.drills_path.write_text(WIDE)
    write_site(course, tmp_path / "site")
    drills = load_drills(lesson)
    questions = compared(browser, tmp_path / "site" / "01_first.html", drills, WIDE_DRAWS)
    for drill in drills:
        assert len({it.answer for it in questions if it.drill == drill}) > 3, "different costs were compared"


ONE = "12| 3 * 4 |1,024|37 / 16|37 // 16|-1|+1|8.0|2.5|1 2|x|1,2|2 ^ 3|1 / 0|1 % 0|()|(4)|012|1_0|0x1|2 ** 3|~1|1 << 2"
TWO = "3, 4|3,4|3 4|(3, 4)|[3, 2 + 2]|(1 + 1) * 2, (4)|3|3 4 5|3,|3,,4"


@pytest.mark.parametrize(
    ("text", "count"),
    [*((it, 1) for it in (*ONE.split("|"), "1e3", "min(1, 2)", "(1")), *((it, 2) for it in TWO.split("|"))],
)
def test_a_typed_answer_is_read_in_the_same_way(browser: Browser, out: Path, text: str, count: int) -> None:
    drill = load_drills(COURSE.lesson("block_tile"))[0]
    try:
        mine = [*Drawn(drill, {}, "", tuple(range(count)), "").parse(text)]
    except ExpressionError:
        mine = None
    page = out / f"{COURSE.lesson('block_tile').name}.html"
    if browser.run("location.href") != page.as_uri():
        browser.show(page)
    script = f"parse({json.dumps(text)}, {count})"
    assert browser.run(f"(() => {{ try {{ return {script}; }} catch {{ return null; }} }})()") == mine


def test_an_answer_on_the_page_is_checked(browser: Browser, out: Path) -> None:
    browser.problems.clear()
    browser.show(out / f"{COURSE.lesson('block_tile').name}.html", *PHONE)
    browser.run("document.querySelector('details.drill').open = true")
    assert browser.run("document.documentElement.scrollWidth") <= PHONE[0]
    drills = load_drills(COURSE.lesson("block_tile"))
    assert browser.run("document.querySelectorAll('#questions li').length") == len(drills)
    browser.run("draw = () => ({ BM: 8, BN: 16, bx: 2, by: 3, t: 37 }), DRILLS.splice(1), ask_all()")
    right = drills[0].at({"BM": 8, "BN": 16, "bx": 2, "by": 3, "t": 37})
    assert browser.run("document.querySelector('#questions li').firstChild.textContent") == right.ask
    assert typed(browser, "x")[1] == ""
    assert typed(browser, "1, 1") == (f"It is {in_words(right.answer)}. {right.why}", "bad")
    assert typed(browser, in_words(right.answer)) == ("right", "good")
    browser.run("document.getElementById('again').click()")
    assert browser.run("document.querySelector('#questions output').textContent") == ""
    assert browser.problems == []


def typed(browser: Browser, text: str) -> Any:
    """Type an answer to the first question, and return what the page says and how."""
    browser.run(
        "document.querySelector('#questions input').value = '', document.querySelector('#questions input').focus()"
    )
    browser.call("Input.insertText", text=text)
    browser.run("document.querySelector('#questions form').requestSubmit()")
    said = "document.querySelector('#questions output')"
    return browser.run(f"{said}.textContent"), browser.run(f"{said}.className")


def test_drills_are_not_among_the_tools(out: Path) -> None:
    tools = (out / "index.html").read_text().partition("Try it in the browser</h2>")[2].partition("</ul>")[0]
    assert tools.count("<li>") == 2
    assert "drill" not in tools
