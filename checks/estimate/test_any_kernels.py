"""The frozen list of launches outside the course, and the errors of their estimates."""

from __future__ import annotations

import hashlib

import pytest

from checks.estimate.any_kernels import (
    FIRST,
    LIST,
    SECOND,
    compared,
    fitted,
    launches,
    measured,
    stored,
    summary,
)
from checks.estimate.texts import PAGE as ESTIMATE
from checks.estimate.texts import SENTENCES, figures, renewed
from checks.versions import ROOT
from gemm_lessons.course.documents import PAGES
from gemm_lessons.engine.compiler.compile import disassemble_ahead

PAGE = PAGES / "numbers.md"
SLOW = "decode 256x2048x128"  # takes half as long as all others that a sample has
# Of the lists: before anything was fitted to the first, before any of the second was estimated.
FROZEN = {
    FIRST: "8d74bb0db71fdf4e22b03a188cf4943176b857ab1a7ed6dba5251061b8f3707e",
    SECOND: "8bb500023a018411c90753b9e1b81008e0b2faa645c36074c687a87402f17d2c",
}


def test_the_lists_are_those_that_were_frozen() -> None:
    for folder, digest in FROZEN.items():
        assert hashlib.sha256((folder / LIST).read_bytes()).hexdigest() == digest
    assert {it.name for it in launches(SECOND)} == {*measured(SECOND)}
    assert len(launches()) == len({it.name for it in launches()}) == 60
    assert sum(it.kind == "gemm" for it in launches()) == 20
    assert len(fitted()) == 30
    assert {it.name for it in launches()} - {*measured(FIRST)} == {"chained 1M"}


@pytest.mark.parametrize("name", ["transpose swizzled 2048", "row_maxima 8192x1024", "tree 4M", "warp_bins 1M"])
def test_an_estimate_is_near_its_time(name: str) -> None:
    (found,) = compared(it for it in launches() if it.name == name)
    assert not found.refused
    assert abs(found.off) < 0.1


def test_who_waits_for_others_is_refused() -> None:
    (found,) = compared(it for it in launches() if it.name == "chained 1M")
    assert "wait for other threads" in found.refused


def test_what_depends_on_the_order_of_blocks_is_refused() -> None:
    (found,) = compared(it for it in launches(SECOND) if it.name == "last block adds 16M")
    assert "what an atomic returns" in found.refused


def test_texts_say_how_far_the_second_list_is_off() -> None:
    first, now = summary(stored(SECOND, "h200_at_first.json")), summary(stored(SECOND))
    assert first is not None
    assert now is not None
    above = sum(abs(it.off) > 0.4 for it in stored(SECOND, "h200_at_first.json") if not it.refused)
    texts = [" ".join(path.read_text().split()) for path in (PAGE, ESTIMATE)]
    assert (
        f"{first.launches} more launches were chosen and frozen before any of them was estimated. "
        f"{first.launches - first.refused} had an estimate, off by {first.median:.1f}% in the median and by "
        f"{first.largest:.0f}% at most, {above} by more than 40%; "
        f"{100 * first.in_order / first.pairs:.0f}% of the pairs were in order."
    ) in texts[1]
    assert f"they are off by {now.median:.1f}% in the median and by {now.largest:.0f}% at most." in texts[1]
    assert (
        f"off by {first.median:.1f}% in the median and by {first.largest:.0f}% at most when they were first compared; "
        f"what was then measured brought this to {now.median:.1f}% and {now.largest:.0f}%."
    ) in texts[0]


def test_the_page_on_numbers_says_how_far_the_judged_half_is_off() -> None:
    judged = [it for it in stored() if it.launch.name not in fitted()]
    every, products = summary(judged), summary([it for it in judged if it.launch.kind == "gemm"])
    assert every is not None
    assert products is not None
    text = " ".join(PAGE.read_text().split())
    assert (
        f"Of the other {every.launches}, {every.launches - every.refused} have an estimate, off by {every.median:.1f}% "
        f"in the median and by {every.largest:.0f}% at most; the products among them by {products.median:.1f}% and "
        f"{products.largest:.0f}%. Of two kernels whose times differ by 10% or more, the estimate names the faster "
        f"one in {100 * every.in_order / every.pairs:.0f}% of the pairs."
    ) in text


@pytest.mark.parametrize("name", SENTENCES)
def test_texts_say_how_far_references_and_their_slow_edits_are_off(name: str) -> None:
    """``checks.estimate.table --write`` and ``checks.estimate.edits --write`` fill in the tables of ESTIMATE.md."""
    text = (ROOT / name).read_text()
    assert renewed(text, SENTENCES[name], figures(ESTIMATE.read_text())) == text, (
        "run: python -m checks.estimate.edits --write"
    )


@pytest.mark.slow
@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.long)])
def test_the_stored_estimates_are_those_of_today(every: int) -> None:
    own = [it for it in (*launches(), *launches(SECOND)) if not it.repository][::every]
    own = [it for it in own if every == 1 or it.name != SLOW]
    disassemble_ahead(it.compiled() for it in own)
    before = {it.launch.name: it for it in (*stored(), *stored(SECOND))}
    for found in compared(own):
        assert found.refused == before[found.launch.name].refused
        assert found.estimate == pytest.approx(before[found.launch.name].estimate, rel=0.005), found.launch.name
