"""Nothing reads a sentence back: with nonsense for every template, a run finds the same and advises the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from checks.judgement.mistakes import MISTAKES, lesson_named, on_two_shapes, run, source_of
from gemm_lessons.engine.report import sentences
from gemm_lessons.judging.verdict import Faulted, TimedOut
from gemm_lessons.running.outcome import RunOutcome

NONSENSE = "vlurp "
# One mistake for each rule of remedies that asks what a finding is about, and for each step that merges findings
# or makes others of them.
CHOSEN = (
    "block_tile no_first_barrier",
    "block_tile barrier_in_if",
    "block_tile not_shared",
    "block_tile no_zero_a",
    "block_tile added_to_c",
    "block_tile row_of_the_matrix_in_the_tile",
    "block_tile k0_in_the_tile",
    "block_tile one_too_many",
    "naive one_too_many",
    "thread_tile no_thread_in_copy",
    "thread_tile no_thread_row",
    "thread_tile past_acc",
    "thread_column past_acc",
    "double_buffer stores_what_is_read",
    "double_buffer lane_is_thread",
    "async_copy waits_for_one_less",
    "async_copy copied_over",
    "async_copy never_committed",
    "tensor_cores no_padding_in_ldm",
    "tensor_cores not_filled",
    "mma turned_by_adding",
    "split_k one_slot_for_all",
    "split_k slot_too_far",
    "dp4a column_not_turned",
    "epilogue nothing_is_old",
    "dgemm past_a_next",
    "dgemm past_one_of_several",
)
# The two smallest shapes do not show these.
ONLY_LARGE = ("block_tile k0_in_the_tile", "async_copy copied_over", "split_k slot_too_far")
NAMED = {f"{it.lesson} {it.name}": it for it in MISTAKES}
# Every third, without those lessons whose host chooses a kernel by the shape: they compile up to eleven kernels.
SAMPLE = (
    *(it for it in CHOSEN[::3] if not lesson_named(it.split()[0]).choices),
    "double_buffer stores_what_is_read",
    "dp4a column_not_turned",
)


def without_words(outcome: RunOutcome) -> Any:
    """What a run finds and advises, with the findings as data."""
    checked, verdict = outcome.kernel.checked, outcome.verdict
    fault = verdict.finding if isinstance(verdict, Faulted | TimedOut) else None
    found = [replace(it, file="") for it in (*checked.findings, *([fault] if fault else []))]  # a temporary file
    return verdict.kind, found, outcome.kernel.hints


@pytest.mark.parametrize("name", [pytest.param(it, marks=() if it in SAMPLE else (pytest.mark.long,)) for it in CHOSEN])
def test_advice_does_not_depend_on_words(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    it = NAMED[name]
    lesson = lesson_named(it.lesson) if name in ONLY_LARGE else on_two_shapes(lesson_named(it.lesson))
    before = without_words(run(lesson, source_of(it)))
    assert before[1], "nothing is found"
    assert before[2], "nothing is advised"
    nonsense = dict.fromkeys(sentences.templates(), NONSENSE)
    monkeypatch.setattr(sentences, "templates", lambda: nonsense)
    after = without_words(run(lesson, source_of(it)))
    assert after == before
    assert {finding.message for finding in after[1]} == {NONSENSE * 2}
