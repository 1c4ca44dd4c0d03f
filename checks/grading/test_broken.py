"""A fixed sample of the broken submissions of ``checks.grading.broken``: each kind of damage once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checks.grading import broken
from checks.grading.broken import KINDS, generated, judge_all
from gemm_lessons.grading import worker


def test_they_are_the_same_every_time() -> None:
    first, again = ([*generated(40, seed=7)] for _ in range(2))
    assert first == again
    assert {one.kind for one in first} == set(KINDS)
    assert first != [*generated(40, seed=8)]


@pytest.mark.slow
def test_each_is_graded_or_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broken, "MOST", replace(broken.MOST, seconds=3))  # one of them never ends
    results = judge_all([*generated(len(KINDS), seed=1)], 2)
    worker.close()
    assert len(results) == len(KINDS)
    for one, became, why in results:
        assert not became.isupper(), f"{one.number} {one.kind} {one.lesson}: {became}: {why}"
    assert sum(became == "compile_failed" for _, became, _ in results) >= 5
