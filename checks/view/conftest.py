"""One run of a lesson and its pictures; the site and a browser to show it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from checks.view.browser import Browser
from gemm_lessons.course.folder import packaged_course
from gemm_lessons.devices.simulated import Simulated
from gemm_lessons.engine.hardware.sheets import GPUS
from gemm_lessons.report.site import write_site
from gemm_lessons.running.pipeline import RunRequest, run_lesson
from gemm_lessons.view import Side, View, view_of


@pytest.fixture(scope="session")
def seen() -> View:
    """The reference of bank_conflicts, beside the solution before it, which has conflicts."""
    course = packaged_course()
    lesson = course.lesson("bank_conflicts")
    path = course.solution(lesson)
    assert path is not None
    gpu = GPUS["h200"]
    return view_of(run_lesson(RunRequest(course, lesson, path, Simulated(), gpu, seed=1)), gpu)


@pytest.fixture(scope="session")
def clean(seen: View) -> Side:
    """Without bank conflicts."""
    return seen.sides[0]


@pytest.fixture(scope="session")
def conflicting(seen: View) -> Side:
    """The lesson before."""
    return seen.sides[1]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the whole site."""
    folder = tmp_path_factory.mktemp("site")
    write_site(packaged_course(), folder)
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser without pages yet."""
    with Browser() as browser:
        yield browser
