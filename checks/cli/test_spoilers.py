"""In a learner's folder nothing gives an answer away before a pass, unless it is asked for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from checks import forks
from checks.cli.tiny_course import Ran, Run, environment
from gemm_lessons.course.folder import Course, init_course, packaged_course
from gemm_lessons.course.progress import load_progress


@pytest.fixture
def learners(tmp_path: Path) -> Path:
    """A folder as init makes it, with the stub of lesson 02 as its kernel."""
    course = init_course(tmp_path / "mine")
    lesson = course.lesson("02")
    shutil.copy(lesson.stub_path, lesson.kernel_path)
    return course.root


@pytest.fixture
def typed(learners: Path) -> Run:
    def call(*arguments: str) -> Ran:
        done = forks.run(arguments, cwd=learners, env=environment())
        return Ran(done.returncode, done.stdout, done.stderr)

    return call


def test_a_run_has_no_reference_before_a_pass(typed: Run, learners: Path) -> None:
    assert "reference" not in typed("run", "02").out
    assert "reference" not in typed("run", "02", "--details").out
    assert "reference" in typed("run", "02", "--peek").out
    assert "reference seen" in " ".join(typed("list").out.split())
    assert "reference" in typed("run", "02").out
    assert load_progress(Course(learners)).of("02_coalesced").revealed


def test_a_pass_shows_the_reference_beside_it(typed: Run, learners: Path) -> None:
    shutil.copy(packaged_course().lesson("02").solution_path, Course(learners).lesson("02").kernel_path)
    passed = typed("run", "02")
    assert passed.code == 0
    assert "reference" in passed.out
    assert "reference seen" not in " ".join(typed("list").out.split())


def test_bugs_and_comparisons_wait_for_a_pass(typed: Run, learners: Path) -> None:
    for command in (("bug", "02"), ("compare", "01", "02"), ("diff", "02")):
        refused = typed(*command)
        assert refused.code == 2
        assert f"gemm-lessons {' '.join(command)} --peek" in refused.err
    assert not Course(learners).lesson("02").bug_path.exists()
    assert typed("bug", "02", "--peek").code == 0
    assert load_progress(Course(learners)).of("02_coalesced").revealed


def test_a_text_folds_its_answers_before_predictions(typed: Run) -> None:
    shown = typed("read", "02").out
    assert "Predict first" in shown.split("Answers")[-1]
    assert "Predict first" not in typed("read", "02", "--all").out


def test_outside_of_such_a_folder_all_is_open(tmp_path: Path) -> None:
    done = forks.run(["run", "02", "--stub"], cwd=tmp_path, env=environment())
    assert "reference" in done.stdout
