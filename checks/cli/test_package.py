"""A pip-installed copy, without a checkout: the wheel carries the lessons and nothing of a learner's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from checks.cli.tiny_course import environment

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked wheel of a copy of this checkout, in which a learner has worked."""
    folder = tmp_path_factory.mktemp("wheel")
    checkout = folder / "checkout"
    checkout.mkdir()
    for name in ("gemm_lessons", "lessons"):
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__", "kernel.cu*"))
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, checkout)
    (checkout / "lessons" / "01_naive" / "kernel.cu").write_text("// the learner's")
    (checkout / "lessons" / "01_naive" / "kernel.cu.bak-1").write_text("// the learner's")
    (checkout / "lessons" / "01_naive" / "bug.cu").write_text("// the learner's")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=checkout,
        env={key: value for key, value in os.environ.items() if not key.startswith("COV")},
        check=True,
        capture_output=True,
        timeout=120,
    )
    (wheel,) = folder.glob("*.whl")
    target = folder / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    return target


def run(installed: Path, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gemm_lessons", *arguments],
        cwd=cwd,
        # Not measured: this is another copy of the package, and would count as code that no test reaches.
        env={
            name: value for name, value in environment(PYTHONPATH=str(installed)).items() if not name.startswith("COV")
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_wheel_holds_the_course_and_nobody_s_work(installed: Path) -> None:
    lessons = installed / "gemm_lessons" / "lessons"
    for folder in (path for path in (ROOT / "lessons").iterdir() if path.is_dir()):
        here = {path.name for path in folder.iterdir() if not path.name.startswith("kernel.cu")}
        assert {path.name for path in (lessons / folder.name).iterdir()} == here
    assert not [*installed.rglob("kernel.cu*"), *installed.rglob("bug.cu*")]
    assert (installed / "gemm_lessons" / "authoring" / "skeleton" / "lesson.toml").is_file()
    assert (installed / "gemm_lessons" / "engine" / "compiler" / "headers").is_dir()
    assert (installed / "gemm_lessons" / "report" / "assets" / "view.js").is_file()
    pages = {path.name for path in (ROOT / "gemm_lessons" / "docs").iterdir()}
    assert {path.name for path in (installed / "gemm_lessons" / "docs").iterdir()} == pages
    assert (installed / "gemm_lessons" / "py.typed").is_file(), "type checkers of those who import us look for it"


def test_the_main_job_runs_from_anywhere(installed: Path, tmp_path: Path) -> None:
    done = run(installed, tmp_path, "run", "03", "--solution", "--details")
    assert done.returncode == 0, done.stderr
    assert "PASSED" in done.stdout
    assert str(installed) in done.stdout, "this is the installed copy"


def test_the_pages_are_there_without_a_checkout(installed: Path, tmp_path: Path) -> None:
    done = run(installed, tmp_path, "read", "grading")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Grading a class" in done.stdout


def test_a_class_is_graded_without_a_checkout(installed: Path, tmp_path: Path) -> None:
    ana = tmp_path / "in" / "ana"
    ana.mkdir(parents=True)
    solution = installed / "gemm_lessons" / "lessons" / "00_first_kernel" / "solution.cu"  # the soonest judged
    (ana / "00.cu").write_text(f'#include "matrix.cuh"\n{solution.read_text()}')
    done = run(installed, tmp_path, "grade", "in", "--lessons", "first_kernel", "--out", "out")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "results" / "ana" / "00_first_kernel.json").is_file()
    command = [sys.executable, "-m", "pytest", "-p", "gemm_lessons.grading.plugin", "--submissions", "in"]
    tests = subprocess.run(
        [*command, "--lessons", "first_kernel", "--grades", "out"],
        cwd=tmp_path,
        env={
            name: value for name, value in environment(PYTHONPATH=str(installed)).items() if not name.startswith("COV")
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert tests.returncode == 0, tests.stdout
    assert "1 passed" in tests.stdout


def test_a_course_folder_made_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    assert run(installed, tmp_path, "init", "mine").returncode == 0
    course = tmp_path / "mine"
    assert not list(course.rglob("solution*"))
    assert run(installed, course, "start", "02").returncode == 0
    done = run(installed, course, "run", "02", "--peek")
    assert done.returncode == 1, done.stderr
    # The rows beside the learner's come from the solutions in the package.
    assert "lesson 01" in done.stdout
    assert "reference" in done.stdout
