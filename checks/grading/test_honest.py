"""Honest kernels in styles of their own pass; the few that rightly do not have a reason that the lesson's text states.

``python -m checks.grading.battery honest`` judges all of them.
"""

from __future__ import annotations

import re
from collections import Counter

import pytest

from checks.grading.battery import judged
from checks.grading.fixtures import honest
from gemm_lessons.course.folder import any_course

FEWEST = 185
MOST_REFUSED = 0.02
SAMPLE = (  # test_battery has all kernels of the lessons behind double_buffer, among its long tests
    "coalesced/float4_of_a",
    "vector_loads/fetched_before",
    "bank_conflicts/xor_swizzle",
    "warp_tile/boehm_warptiling",
    "double_buffer/async_three_buffers",
)
LATER = (
    "naive/double_accumulator",
    "block_tile/async_zero_fill",
    "thread_column/boehm_1d_blocktiling",
    "thread_column/padded_by_one",  # twelve seconds: its rows are 65 floats long
    "bank_conflicts/a_by_cp_async",  # double_buffer/async_three_buffers copies in the same way
)
FIRST = ("thread_tile/float4_everywhere",)  # with every change: the fewest seconds of processor time
SEED = 7
CORE = 9  # lessons


def test_there_are_many_and_few_are_refused() -> None:
    every = honest()
    assert len(every) >= FEWEST
    counts = Counter(it.lesson for it in every)
    assert min(count for lesson, count in counts.items() if 1 <= int(lesson[:2]) <= CORE) >= 15
    assert set(counts) == set(any_course().names)
    assert min(counts.values()) >= 2
    assert sum(not it.passes for it in every) <= MOST_REFUSED * len(every)


def test_the_text_states_the_reason() -> None:
    for kernel in honest():
        if not kernel.passes:
            found = re.match(r"'(.+?)'( \(Pitfalls\))?: ", kernel.says)
            assert found, kernel.label
            text = any_course().lesson(kernel.lesson).text_path.read_text()
            place = f"**{found[1]}.**" if found[2] else f"\n### {found[1]}\n"
            assert place in text, kernel.label


@pytest.mark.parametrize(
    "sample",
    [FIRST, pytest.param(SAMPLE, marks=pytest.mark.slow), pytest.param(LATER, marks=pytest.mark.long)],
    ids=["first", "sample", "later"],
)
def test_a_sample_meets_its_fate(sample: tuple[str, ...]) -> None:
    kernels = [it for it in honest() if it.label in sample]
    assert {it.label for it in kernels} == set(sample)
    assert [it for it in judged(kernels, processes=2, seed=SEED) if not it.expected] == []
