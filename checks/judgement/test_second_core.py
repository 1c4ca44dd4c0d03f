"""A second core changes when parts of a run are computed, not their results."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from checks.forks import run
from gemm_lessons.course.folder import packaged_course
from gemm_lessons.devices.simulated import Simulated
from gemm_lessons.engine.hardware.sheets import GPUS
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.running.contract import as_json
from gemm_lessons.running.pipeline import run_lesson, shared
from gemm_lessons.running.plan import RunPlan, RunRequest
from gemm_lessons.running.sharing import worth_sharing

COURSE = packaged_course()


@pytest.mark.parametrize(
    ("lesson", "beside", "expected"),
    [
        (
            "any_shape",
            ["double_buffer"],
            [Shape(1, 1, 1, layout="NT"), Shape(131, 66, 41, layout="TT"), Shape(33857, 1, 9, layout="TN")],
        ),
        ("two_warps", ["double_buffer"], [Shape(64, 96, 80)]),
        ("two_warps", ["double_buffer", "two_warps"], []),
    ],
)
def test_both_have_about_as_much_to_do(lesson: str, beside: Sequence[str], expected: Sequence[Shape]) -> None:
    found = COURSE.lesson(lesson)
    plan = RunPlan.of(RunRequest(COURSE, found, found.stub_path, Simulated(), GPUS["h200"], seed=1))
    others = [plan.kernel("previous", name, COURSE.lesson(name), None) for name in beside]
    assert [launch.shape for launch in worth_sharing(plan.kernels[0], others).launches] == expected


@pytest.mark.parametrize(
    ("old", "new"), [("", ""), ("row < M", "row <= M"), ("+=", "=")], ids=["right", "faults", "wrong"]
)
def test_the_outcome_is_the_same(old: str, new: str, tmp_path: Path) -> None:
    """Also where a shape faults, behind which none is tried."""
    lesson = COURSE.lesson("coalesced")
    path = tmp_path / "kernel.cu"
    path.write_text(lesson.solution_path.read_text().replace(old, new) if old else lesson.solution_path.read_text())
    alone = run_lesson(RunRequest(COURSE, lesson, path, Simulated(), GPUS["h200"], seed=1))
    done = run(["run", "coalesced", "--file", str(path), "--seed", "1", "--json"])
    assert done.returncode == (0 if alone.verdict.kind == "passed" else 1), done.stderr
    assert json.loads(done.stdout) == json.loads(json.dumps(as_json(alone)))


def test_without_one_the_run_does_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
    lesson = COURSE.lesson("naive")
    plan = RunPlan.of(RunRequest(COURSE, lesson, lesson.stub_path, Simulated(), GPUS["h200"], seed=1))
    jobs = shared(plan)
    assert not any(jobs.elsewhere((kernel.role, "row")) for kernel in plan.kernels)
    assert not any(jobs.elsewhere(("kernel", launch.shape)) for launch in plan.kernels[0].launches)
