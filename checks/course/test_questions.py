"""Questions: what a learner may type, what a run counts, how near is right; mistakes in predict.toml are named."""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from gemm_lessons.course.folder import packaged_course
from gemm_lessons.course.lesson import LessonError
from gemm_lessons.course.questions import FACTS, Question, Score, load_questions
from gemm_lessons.course.text import folded
from gemm_lessons.engine.arguments.expression import Expression, ExpressionError
from gemm_lessons.report.console import THEME
from gemm_lessons.report.practice import show_questions

NAMES = {"M": 128, "N": 128, "K": 64, "BK": 8, "ffma": 1000, "before_ffma": 1004, "barriers": 4, "before_barriers": 2}
COUNT = Question("barriers", "How many?", Expression("barriers"), within=10)
CHANGE = Question("change", "More?", Expression("barriers"), Expression("before_barriers"))


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("16", 16),
        ("16,384", 16384),
        ("1,048,576 / 2", 524288),
        ("2 * K / BK", 16),
        ("ceil_div(M, 100)", 2),
        ("85.5%", 85.5),
        (" 1e3 ", 1000),
    ],
)
def test_a_guess_is_a_number_or_arithmetic(typed: str, value: float) -> None:
    assert COUNT.guess(typed, NAMES) == value


@pytest.mark.parametrize("typed", ["more", "ten", "1 / 0", "__import__('os')", "ffmb"])
def test_other_guesses_are_refused(typed: str) -> None:
    with pytest.raises(ExpressionError):
        COUNT.guess(typed, NAMES)


@pytest.mark.parametrize(("typed", "meant"), [("16,5", "16.5"), ("0,125", "0.125"), (" 89,1% ", "89.1")])
def test_a_comma_before_decimals_is_refused(typed: str, meant: str) -> None:
    with pytest.raises(ExpressionError, match=f"write decimals with a point, {re.escape(meant)}"):
        COUNT.guess(typed, NAMES)


@pytest.mark.parametrize(
    ("typed", "word"), [("Fewer", "less"), ("=", "the same"), ("same", "the same"), ("up", "more")]
)
def test_a_trend_has_many_words(typed: str, word: str) -> None:
    assert CHANGE.guess(typed, NAMES) == word


def test_a_trend_is_counted() -> None:
    with pytest.raises(ExpressionError, match="less, the same, more"):
        CHANGE.guess("16", NAMES)
    assert CHANGE.counted(NAMES) == "more"
    assert CHANGE.counted({**NAMES, "before_barriers": 8}) == "less"
    assert CHANGE.counted({**NAMES, "before_barriers": float("nan")}) is None, "nothing came before"
    same = replace(CHANGE, answer=Expression("ffma"), than=Expression("before_ffma"))
    assert same.counted(NAMES) == "the same", "0.4 percent is no change"
    assert COUNT.counted(NAMES) == 4


@pytest.mark.parametrize(
    ("guess", "right", "near"),
    [(4, True, False), (4.4, True, False), (5, False, True), (9, False, False), (0, False, False)],
)
def test_how_near_is_right(guess: float, right: bool, near: bool) -> None:
    score = Score(COUNT, float(guess), 4.0)
    assert (score.right, score.near) == (right, near)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[a]\nask = "x"\nanswer = "16384"', r"predict.toml:3: \[a\] answer: does not name a counter"),
        ('[a]\nask = "x"\nanswer = "sectors"', r"predict.toml:3: \[a\] answer: .*uses sectors,"),
        ('[a]\nask = "x"\nanswer = "ffma"\nthan = "before_fma"', r":4: \[a\] than: .*did you mean before_ffma"),
        ('[a]\nanswer = "ffma"', r"predict.toml:1: \[a\] ask: is missing"),
        (
            '[a]\nask = "x"\nanswer = "ffma"\nwithn = 3',
            r"predict.toml:4: \[a\] withn: unknown key; did you mean within",
        ),
        ("a = 1", r"predict.toml:1: a: must be a table"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, message: str) -> None:
    lesson = replace(packaged_course().lesson("03"), directory=tmp_path)
    (tmp_path / "predict.toml").write_text(text)
    with pytest.raises(LessonError, match=message):
        load_questions(lesson)


def test_a_lesson_need_not_ask(tmp_path: Path) -> None:
    assert load_questions(replace(packaged_course().lesson("03"), directory=tmp_path)) == ()


def test_what_comes_out_can_be_folded() -> None:
    text = (
        "## Predict\nhow?\n## What comes out\n16\n```\n## no heading\n```\nmore\n## Pitfalls\n```\n# a comment\n```\n"
    )
    assert (
        folded(text, "later") == "## Predict\nhow?\n## What comes out\n\nlater\n\n## Pitfalls\n```\n# a comment\n```\n"
    )
    assert folded("## Other\n", "later") == "## Other\n"


def test_every_question_of_the_course_reads_a_counter() -> None:
    course = packaged_course()
    for name in course.names:
        for question in load_questions(course.lesson(name)):
            assert any(fact in question.answer.text for fact in FACTS)


def test_answers_may_name_the_sizes_that_the_stub_uses() -> None:
    said = {}
    for name in ("thread_tile", "any_shape"):
        console = Console(width=80, theme=THEME, file=StringIO())
        with console.capture() as capture:
            show_questions(console, packaged_course().lesson(name))
        said[name] = " ".join(capture.get().split())
    assert "arithmetic over M, N, K, BM, BN, BK, TM, TN, or" in said["thread_tile"]
    assert "WIDTH_A" in said["any_shape"]
    assert "TALL" not in said["any_shape"], "a number that the host computes with"
