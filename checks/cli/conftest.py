"""Driving the real binary over a tiny course."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from checks import forks
from checks.cli.tiny_course import Ran, Run, environment, write_course


@pytest.fixture
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new tiny course for each test, always at the same path, which is part of the keys of the compile caches."""
    place = tmp_path_factory.getbasetemp() / "course"
    if place.exists():
        shutil.rmtree(place)
    return write_course(place)


@pytest.fixture
def run(course: Path) -> Run:
    """``run("list", cwd=..., env={...})`` in the tiny course."""

    def call(
        *arguments: str, cwd: Path = course, env: dict[str, str] | None = None, prefix: list[str] | None = None
    ) -> Ran:
        whole = environment(**(env or {}))
        if prefix:
            done = subprocess.run(
                [*prefix, *arguments],
                cwd=cwd, env=whole, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        else:
            done = forks.run(arguments, cwd=cwd, env=whole)
        return Ran(done.returncode, done.stdout, done.stderr)

    return call


@pytest.fixture
def kernel(course: Path) -> Path:
    """The learner's file of lesson 01."""
    return course / "lessons" / "01_first" / "kernel.cu"
