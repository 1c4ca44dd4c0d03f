"""Gates on counters that could not be counted: free of charge, and reported to the teacher of a graded run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from checks.grading.fixtures import cheats, honest
from checks.judgement.near import leave_out_far_shapes
from checks.judgement.test_hidden import run
from gemm_lessons.course.folder import any_course
from gemm_lessons.course.lesson import Gate
from gemm_lessons.course.search_space import Condition
from gemm_lessons.engine.arguments.expression import Expression
from gemm_lessons.engine.records.results import Counters
from gemm_lessons.grading.rubric import LessonRubric, NearMiss
from gemm_lessons.grading.score import score
from gemm_lessons.judging.gates import judge_gates, judge_launches, verdict_of
from gemm_lessons.judging.verdict import GateMissed, GateResult
from gemm_lessons.running.contract import as_json

LESSON = any_course().lesson("coalesced")


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Two kernels with the same address that is read through a generic pointer: the solution, and the lesson before."""
    folder = tmp_path_factory.mktemp("unjudged")
    paths = {}
    for it in (*cheats(), *honest()):
        if it.label in ("coalesced/hides_from_the_counters", "coalesced/an_index_through_a_generic_pointer"):
            paths[it.kind] = folder / f"{it.name}.cu"
            paths[it.kind].write_text(it.source)
    return paths


@pytest.mark.parametrize("graded", [False, True])
def test_what_the_kit_cannot_count_costs_nothing(
    kernels: Mapping[str, Path], graded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_out_far_shapes(monkeypatch)
    outcome = run(LESSON, kernels["honest"], graded=graded)
    assert outcome.verdict.kind == "passed"
    told: Any = as_json(outcome)["gates"]
    assert {it["id"]: it["passed"] for it in told} == {
        "sectors_read": None,
        "sectors_written": None,
        "busiest_thread": None,
    }
    assert all(it["value"] is None and it["note"].startswith("cannot be counted: addresses depend") for it in told)
    scored = score(as_json(outcome), LESSON, LessonRubric(), NearMiss(1.0, 1.0))
    assert scored.points == 10, "the kit's limits cost nothing"
    assert scored.message == "right on every shape; not every gate could be judged"
    assert len(scored.look_at) == 3
    assert scored.look_at[0].startswith("gate not judged, look at it: sectors read per warp and k: cannot be counted: ")
    assert all("all points, not judged" in part.why for part in scored.parts[3:])


def test_what_misses_a_gate_by_far_cannot_dodge_it(
    kernels: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without this, the lesson before would have all points for the price of one line. The test before has the far
    shapes, too."""
    leave_out_far_shapes(monkeypatch)
    outcome = run(LESSON, kernels["cheats"], graded=True)
    assert isinstance(outcome.verdict, GateMissed)
    missed = {it.id: it for it in outcome.verdict.missed}
    assert missed.keys() == {"sectors_read", "sectors_written"}
    read = missed["sectors_read"]
    assert read.value is not None
    assert read.value > 30
    assert "This count is not exact: addresses depend" in read.why


@pytest.mark.parametrize(("m", "passed", "value"), [(64, False, 2.0), (65, True, None)])
def test_a_gate_leaves_other_shapes_alone(m: int, passed: bool, value: float | None) -> None:
    gate = Gate("g", "g", Expression("barriers"), "w", at_most=1.0, where=Condition.parse("M <= 64", ["M"]))
    (judged,) = judge_gates([gate], {"barriers": 2, "M": m})
    assert (judged.passed, judged.value) == (passed, value)


@pytest.mark.parametrize(
    ("name", "value", "passed"),
    [
        ("global_accesses", 0.5, None),
        ("global_accesses", 1.9, None),
        ("global_accesses", 2.1, False),
        ("global_bytes_read", 1.2, None),
        ("global_bytes_read", 1.3, False),
        ("global_bytes_read", math.nan, None),
        ("global_bytes_read", math.inf, None),
    ],
)
def test_only_a_count_that_misses_by_far_is_used(name: str, value: float, passed: bool | None) -> None:
    gate = Gate("g", "g", Expression(name), "w", at_most=1.0)
    (judged,) = judge_gates([gate], {name: value}, {name: "why"})
    assert judged.passed is passed


@pytest.mark.parametrize(("read", "passed"), [(1.2, None), (2.0, False)])
def test_what_was_not_counted_beside_it_does_not_help(read: float, passed: bool | None) -> None:
    """An atomic on shared memory hid the exchanges, and with them the bytes."""
    gate = Gate("g", "g", Expression("shared_bytes_read + 32 * exchanges"), "w", at_most=1.4)
    names = {"shared_bytes_read": read, "exchanges": math.nan}
    (judged,) = judge_gates([gate], names, dict.fromkeys(names, "why"))
    assert judged.passed is passed
    assert judged.value == (read if passed is False else None)


@pytest.mark.parametrize(("part", "passed"), [(1.0, None), (1.1, False)])
def test_a_part_that_exceeds_the_limit_is_enough(part: float, passed: bool | None) -> None:
    """An mbarrier that nothing needed hid two barriers for each tile."""
    gate = Gate("g", "g", Expression("barriers / 4"), "w", at_most=1.0)
    names = {"barriers": math.nan}
    (judged,) = judge_gates([gate], names, {"barriers": "why"}, {"barriers": 4 * part})
    assert (judged.passed, judged.value) == (passed, part if passed is False else None)


@pytest.mark.parametrize(("at_most", "at_least", "value", "passed"), [
    (1.0, None, 1.2, None), (1.0, None, 1.3, False), (None, 1.0, 0.85, None), (None, 1.0, 0.7, False),
])  # fmt: skip
def test_rough_counts_must_miss_clearly(
    at_most: float | None, at_least: float | None, value: float, passed: bool | None
) -> None:
    gate = Gate("g", "g", Expression("operations / M"), "w", at_most=at_most, at_least=at_least)
    names = {"operations": math.nan, "M": 8}
    (judged,) = judge_gates([gate], names, {"operations": "why"}, {}, {"operations": 8 * value})
    assert judged.passed is passed


@cache
def result(passed: bool | None) -> GateResult:
    return GateResult("g", "g", None if passed is None else 1.0, 1.0, True, passed, "w", "M")


@pytest.mark.parametrize(("passed", "missed"), [(True, False), (None, False), (False, True)])
def test_what_was_not_judged_is_not_missed(passed: bool | None, missed: bool) -> None:
    assert (verdict_of([result(passed)]) is not None) is missed


@pytest.mark.parametrize(
    ("shown", "secret", "passed", "hidden"),
    [
        (True, True, True, False),
        (True, None, None, True),
        (True, False, False, True),
        (None, True, None, False),
        (None, False, False, True),
        (False, None, False, False),
    ],
)
def test_the_worst_of_several_shapes_counts(
    monkeypatch: pytest.MonkeyPatch, shown: bool | None, secret: bool | None, passed: bool | None, hidden: bool
) -> None:
    results = iter([(result(shown),), (result(secret),)])
    monkeypatch.setattr("gemm_lessons.judging.gates.judge_gates", lambda *_: next(results))
    monkeypatch.setattr("gemm_lessons.judging.gates.counted_names", lambda *_: {})
    monkeypatch.setattr("gemm_lessons.judging.gates.uncounted", lambda *_: {})
    launch: Any = type("Launch", (), {"built": None, "counters": Counters(), "sizes": {}})
    (worst,) = judge_launches([], [launch, launch])
    assert (worst.passed, worst.hidden) == (passed, hidden)
