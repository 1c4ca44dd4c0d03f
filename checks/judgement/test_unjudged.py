"""Gates on counters that could not be counted: free of charge for a learner, missed and reported in a graded run."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from checks.grading.fixtures import cheats
from checks.judgement.test_hidden import run
from gemm_lessons.course.folder import any_course
from gemm_lessons.grading.rubric import LessonRubric, NearMiss
from gemm_lessons.grading.score import Scored, score
from gemm_lessons.judging.gates import judge_launches, verdict_of
from gemm_lessons.judging.verdict import GateMissed, GateResult
from gemm_lessons.running.contract import as_json
from gemm_lessons.running.outcome import RunOutcome

LESSON = any_course().lesson("coalesced")


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The solution of the lesson before, with an address that is read from memory."""
    (cheat,) = (it for it in cheats() if it.label == "coalesced/hides_from_the_counters")
    path = tmp_path_factory.mktemp("hides") / "kernel.cu"
    path.write_text(cheat.source)
    return path


def test_a_learner_is_not_accused_of_what_the_kit_cannot_count(kernel: Path) -> None:
    outcome = run(LESSON, kernel, graded=False)
    assert outcome.verdict.kind == "passed"
    told: Any = as_json(outcome)["gates"]
    assert {it["id"]: it["passed"] for it in told} == {
        "sectors_read": None,
        "sectors_written": None,
        "busiest_thread": None,
    }
    assert all(it["value"] is None and it["note"].startswith("cannot be counted: addresses depend") for it in told)


def graded(kernel: Path) -> tuple[RunOutcome, Scored]:
    outcome = run(LESSON, kernel, graded=True)
    return outcome, score(as_json(outcome), LESSON, LessonRubric(), NearMiss(1.0, 1.0))


def test_a_graded_kernel_cannot_dodge_its_gates(kernel: Path) -> None:
    """Without this, the lesson before would have all points for the price of one line."""
    outcome, scored = graded(kernel)
    assert isinstance(outcome.verdict, GateMissed)
    assert len(outcome.verdict.missed) == 3
    assert [gate.passed for gate in outcome.verdict.missed] == [None] * 3
    assert "was not judged: it cannot be counted" in outcome.kernel.hints[0]
    assert scored.points == 7, "of ten: all but those of the gates"
    assert scored.message == "right on every shape, but not every gate could be judged"
    assert len(scored.look_at) == 3
    assert scored.look_at[0].startswith("gate not judged, look at it: sectors read per warp and k: cannot be counted: ")
    assert all("Your teacher sees this" in part.why for part in scored.parts[3:])


@cache
def result(passed: bool | None) -> GateResult:
    return GateResult("g", "g", None if passed is None else 1.0, 1.0, True, passed, "w", "M")


@pytest.mark.parametrize(
    ("passed", "learner", "student"), [(True, False, False), (None, False, True), (False, True, True)]
)
def test_only_graded_runs_miss_what_was_not_judged(passed: bool | None, learner: bool, student: bool) -> None:
    assert (verdict_of([result(passed)], graded=False) is not None) is learner
    assert (verdict_of([result(passed)], graded=True) is not None) is student


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
    launch: Any = type("Launch", (), {"built": None, "counters": None, "sizes": {}})
    (worst,) = judge_launches([], [launch, launch])
    assert (worst.passed, worst.hidden) == (passed, hidden)
