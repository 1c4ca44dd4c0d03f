"""Every broken kernel of the suite is found, by kind and line; no clean one is accused; compute-sanitizer agrees."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest

from checks.checkers.launcher import findings, launch
from checks.checkers.manifest import ASYNC, CASES, KERNELS, Case
from checks.checkers.verdicts import measured, verdicts
from gemm_lessons.engine.records.findings import Finding

RANK = {"error": 0, "warning": 1, "note": 2}
BROKEN = [case for case in CASES if case.severity is not None]
CLEAN = [case for case in CASES if case.severity is None]
ASKED_BROKEN, ASKED_CLEAN = ([case for case in cases if measured(case)] for cases in (BROKEN, CLEAN))
# Of the many kernels with asynchronous copies a few here; `python -m checks.checkers.table` and the slow tests run all.
FEW = "async_wrong_stage phase_too_few phase_twice bulk_read_early bulk_no_proxy_fence matrix_half_a_warp".split()
SLOW = {case for pair in ASYNC for case in pair if case.file.stem not in FEW}


def some(cases: list[Case]) -> list[Any]:
    """As parameters of a test, most of them slow ones."""
    return [pytest.param(case, marks=pytest.mark.slow if case in SLOW else (), id=case.name) for case in cases]


# Where compute-sanitizer warns and we call it an error: a copy that was not waited for is wrong in every warp, also
# when the thread that reads it is the one that copies it, or when both belong to one warp.
STRICTER = {"async_no_wait/broken", "async_store_over/broken", "async_in_a_warp/broken"}
# What both find, each by its own name: a bulk copy of an odd size, which hardware never ends; rows of ldmatrix
# that lanes give who do not take part.
OTHERWISE = {"bulk_odd_size/broken", "matrix_half_a_warp/broken"}


def name(case: Case) -> str:
    return case.name


@cache
def found_in(case: Case, block_limit: int | None) -> Sequence[Finding]:
    """Launched once for all that is asked of it."""
    return findings(launch(case, block_limit))


def test_the_suite_is_half_clean_and_every_kernel_is_in_it():
    assert len(BROKEN) == len(CLEAN) >= 30
    assert {case.file for case in CASES} == set(KERNELS.glob("*.cu"))


@pytest.mark.parametrize("case", some(BROKEN))
@pytest.mark.parametrize("block_limit", [None, 1], ids=["together", "one_by_one"])
def test_a_defect_is_found_where_it_is(case, block_limit):
    found = found_in(case, block_limit)
    assert case.kind in {f.kind for f in found if f.severity == case.severity}, found
    named = {line for f in found for line in (f.line, f.other_line) if line is not None}
    assert named <= case.lines, found
    assert min(RANK[f.severity] for f in found) == RANK[case.severity]


@pytest.mark.parametrize("case", some(CLEAN))
@pytest.mark.parametrize("block_limit", [None, 1], ids=["together", "one_by_one"])
def test_a_clean_kernel_is_not_accused(case, block_limit):
    assert not found_in(case, block_limit)


@pytest.mark.parametrize("case", ASKED_BROKEN, ids=name)
def test_what_the_sanitizer_reports_is_found(case):
    found = found_in(case, None)
    if case.name in OTHERWISE:
        assert verdicts(case), "it says nothing now"
        return
    for verdict in verdicts(case):
        same = [f for f in found if f.kind in verdict.kinds]
        assert same, (verdict, found)
        assert min(RANK[f.severity] for f in same) <= RANK[verdict.severity], (verdict, same)
        if case.kind != "trap" and verdict.lines:  # machine code has the trap in the line that follows
            assert verdict.lines & {line for f in same for line in (f.line, f.other_line)}, (verdict, same)


@pytest.mark.parametrize("case", ASKED_CLEAN, ids=name)
def test_the_sanitizer_finds_the_clean_kernels_clean(case):
    assert verdicts(case) == []


@pytest.mark.parametrize("case", ASKED_BROKEN, ids=name)
def test_a_defect_is_as_severe_as_the_sanitizer_says(case):
    said = [RANK[v.severity] for v in verdicts(case)]
    if said and case.name not in STRICTER:
        assert min(said) == RANK[case.severity]
