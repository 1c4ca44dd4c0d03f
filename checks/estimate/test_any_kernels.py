"""The frozen list of launches outside the course, and the errors of their estimates."""

from __future__ import annotations

import hashlib
import json

import pytest

from checks.estimate import any_kernels
from checks.estimate.any_kernels import compared, fitted, launches, stored, summary
from checks.estimate.texts import PAGE as ESTIMATE
from checks.estimate.texts import SENTENCES, figures, renewed
from checks.versions import ROOT
from gemm_lessons.course.documents import PAGES
from gemm_lessons.engine.compiler.compile import disassemble_ahead

PAGE = PAGES / "numbers.md"
FROZEN = (
    "8d74bb0db71fdf4e22b03a188cf4943176b857ab1a7ed6dba5251061b8f3707e"  # of launches.toml, before anything was fitted
)


def test_the_list_is_the_one_that_was_frozen() -> None:
    assert hashlib.sha256(any_kernels.LIST.read_bytes()).hexdigest() == FROZEN
    assert len(launches()) == len({it.name for it in launches()}) == 60
    assert sum(it.kind == "gemm" for it in launches()) == 20
    assert len(fitted()) == 30
    measured = json.loads(any_kernels.MEASURED.read_text())["median_us"]
    assert {it.name for it in launches()} - {*measured} == {"chained 1M"}


@pytest.mark.parametrize("name", ["transpose swizzled 2048", "row_maxima 8192x1024", "tree 4M", "warp_bins 1M"])
def test_an_estimate_is_near_its_time(name: str) -> None:
    (found,) = compared(it for it in launches() if it.name == name)
    assert not found.refused
    assert abs(found.off) < 0.1


def test_who_waits_for_others_is_refused() -> None:
    (found,) = compared(it for it in launches() if it.name == "chained 1M")
    assert "wait for other threads" in found.refused


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
    own = [it for it in launches() if not it.repository][::every]
    disassemble_ahead(it.compiled() for it in own)
    before = {it.launch.name: it for it in stored()}
    for found in compared(own):
        assert found.estimate == pytest.approx(before[found.launch.name].estimate, rel=0.005), found.launch.name
