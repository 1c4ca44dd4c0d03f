"""Driving the real binary over a tiny course."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from checks.cli.tiny_course import BINARY, Ran, Run, environment, write_course


@pytest.fixture
def course(tmp_path: Path) -> Path:
    return write_course(tmp_path / "course")


@pytest.fixture
def run(course: Path) -> Run:
    """``run("list", cwd=..., env={...})`` in the tiny course."""

    def call(
        *arguments: str, cwd: Path = course, env: dict[str, str] | None = None, prefix: list[str] | None = None
    ) -> Ran:
        done = subprocess.run(
            [*(prefix or BINARY), *arguments],
            cwd=cwd,
            env=environment(**(env or {})),
            capture_output=True,
            text=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return call


@pytest.fixture
def kernel(course: Path) -> Path:
    """The learner's file of lesson 01."""
    return course / "lessons" / "01_first" / "kernel.cu"
