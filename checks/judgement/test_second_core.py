"""A second core changes when parts of a run are computed, not their results."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from checks.forks import run
from gemm_lessons.course.folder import packaged_course
from gemm_lessons.devices.simulated import Simulated
from gemm_lessons.engine import UnsupportedKernel
from gemm_lessons.engine.hardware.sheets import GPUS
from gemm_lessons.engine.process.bounds import Bounds
from gemm_lessons.running.contract import as_json
from gemm_lessons.running.jobs import Deferred, Jobs
from gemm_lessons.running.pipeline import longest_first, run_lesson, shared
from gemm_lessons.running.plan import RunPlan, RunRequest

COURSE = packaged_course()


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})


def test_the_second_process_begins_with_the_longest_check() -> None:
    found = COURSE.lesson("two_warps")
    plan = RunPlan.of(RunRequest(COURSE, found, found.stub_path, Simulated(), GPUS["h200"], seed=1))
    in_order = [launch.operations for launch in longest_first(plan.kernels[0])]
    assert len(in_order) > 1
    assert in_order == sorted(in_order, reverse=True)


def _noted(file: Path, name: str, pause_s: float) -> Deferred[int]:
    """Return a job that takes ``pause_s`` seconds, and notes in ``file`` that it is done. Its result is the process."""

    def make() -> int:
        time.sleep(pause_s)
        with file.open("a") as opened:
            opened.write(f"{name}\n")
        return os.getpid()

    return Deferred(name, make)


def test_each_job_is_done_once_by_the_process_that_begins_it_first(tmp_path: Path, two_cores: None) -> None:
    done = tmp_path / "done"
    work = [_noted(done, name, 0.1) for name in "abcdef"]
    with Jobs.shared(work, Bounds()) as jobs:
        here = {job.key: jobs.result(job) for job in reversed(work) if jobs.claim(job.key)}
        makers = [here.get(job.key) or jobs.result(job) for job in work]
    assert sorted(done.read_text().split()) == [*"abcdef"]
    assert makers[0] != os.getpid() == makers[-1], (
        "the second process begins with the first job, this one with the last"
    )
    assert len(set(makers)) == 2


def test_a_job_that_the_second_process_cannot_do_is_done_here(two_cores: None) -> None:
    parent = os.getpid()

    def unsupported() -> int:
        if os.getpid() != parent:
            raise UnsupportedKernel("only here")
        return 1

    work = [Deferred("unsupported", unsupported), Deferred("sent", os.getpid)]
    with Jobs.shared(work, Bounds()) as jobs:
        time.sleep(0.5)  # until the second process has begun both
        assert not jobs.claim("unsupported")
        assert jobs.result(work[0]) == 1
        assert jobs.result(work[1]) != parent


def test_jobs_of_a_process_that_crashes_are_done_here(two_cores: None) -> None:
    parent = os.getpid()

    def crash() -> int:
        time.sleep(0.5)
        if os.getpid() != parent:
            os._exit(1)
        return 2

    work = [Deferred("crash", crash), Deferred("next", os.getpid)]
    with Jobs.shared(work, Bounds()) as jobs:
        time.sleep(0.2)  # until the second process has begun the first
        assert jobs.result(work[0]) == 2
        assert jobs.result(work[1]) == parent


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
    assert not any(jobs.is_shared((kernel.role, "row")) for kernel in plan.kernels)
    assert not any(jobs.is_shared(("kernel", launch.shape)) for launch in plan.kernels[0].launches)
