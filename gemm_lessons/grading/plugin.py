"""Pytest plugin: grade as ``gemm-lessons grade`` does, with one test for each student and lesson.

    pytest -p gemm_lessons.grading.plugin --submissions DIR       wherever the package is installed
    pytest checks --submissions DIR                               in a clone

A test passes with all points, fails with the reason, and is skipped if nothing was submitted. With ``--grades DIR``
the grades are saved there, as by the command.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from gemm_lessons.course import CommandError
from gemm_lessons.engine import KitError

SUITE = Path(__file__).with_name("suite.py")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of ``gemm-lessons grade``."""
    group = parser.getgroup("gemm-lessons", "grading a class (gemm-lessons grade)")
    group.addoption("--submissions", type=Path, metavar="DIR", help="grade these, and run no other tests")
    group.addoption("--lessons", metavar="LESSONS", help="such as 01-09")
    group.addoption("--grading", type=Path, metavar="FILE", help="points and limits: grading.toml")
    group.addoption("--roster", type=Path, metavar="FILE", help="the class list")
    group.addoption("--course", type=Path, metavar="DIR", help="judge by this course")
    group.addoption("--class-seed", type=int, metavar="N", help="repeat an earlier run")
    group.addoption(
        "--grades", type=Path, metavar="DIR", help="keep the grades there; what is there is not judged again"
    )


def pytest_configure(config: pytest.Config) -> None:
    """With submissions, collect only the tests of the submissions."""
    if config.getoption("submissions") is None:
        return
    from gemm_lessons.grading.classroom import Classroom
    from gemm_lessons.grading.request import assignment_of

    def option(name: str) -> Any:
        return config.getoption(name)

    shared: dict[str, Any] = getattr(config, "workerinput", {})
    if (out := option("grades")) is None:
        scratch = tempfile.TemporaryDirectory(prefix="gemm-lessons-")
        config.add_cleanup(scratch.cleanup)
        out = Path(scratch.name)
    lessons = option("lessons")
    try:
        assignment = assignment_of(
            option("submissions"),
            out,
            lessons=[lessons] if lessons else (),
            config=option("grading"),
            roster=option("roster"),
            course=option("course"),
            seed=shared.get("gemm_lessons_seed", option("class_seed")),
        )
        classroom = Classroom.of(assignment)
    except (CommandError, KitError) as error:
        raise pytest.UsageError(str(error)) from None
    config.stash[CLASSROOM] = classroom
    config.args = [str(SUITE)]


CLASSROOM: pytest.StashKey[Any] = pytest.StashKey()


def pytest_report_header(config: pytest.Config) -> str | None:
    """Report the seed that repeats the run."""
    classroom = config.stash.get(CLASSROOM, None)
    return None if classroom is None else f"gemm-lessons: --class-seed {classroom.seed}"


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give all processes of pytest-xdist the same seed."""
    if (classroom := node.config.stash.get(CLASSROOM, None)) is not None:
        node.workerinput["gemm_lessons_seed"] = classroom.seed


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Generate a test for each student and lesson."""
    classroom = metafunc.config.stash.get(CLASSROOM, None)
    if classroom is None or "handed_in" not in metafunc.fixturenames:
        return
    it = classroom.assignment
    cases = [(student, lesson) for student in it.submissions.students for lesson in it.lessons]
    metafunc.parametrize("handed_in", cases, ids=[f"{student.id}-{lesson}" for student, lesson in cases])


@pytest.fixture
def classroom(pytestconfig: pytest.Config) -> Any:
    """Build the classroom from ``--submissions`` and the other options."""
    return pytestconfig.stash[CLASSROOM]
