"""The page about grading: its commands are understood, its grading.toml is valid, its names exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gemm_lessons.cli.app import whole
from gemm_lessons.course.documents import PAGES
from gemm_lessons.course.folder import packaged_course
from gemm_lessons.grading.formats import FORMATS
from gemm_lessons.grading.hosting import HOST
from gemm_lessons.grading.rubric import load_rubric

PAGE = (PAGES / "grading.md").read_text()
COMMANDS = re.findall(r"^gemm-lessons (grade .*?)(?:\s+#.*)?$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_understood(command: str) -> None:
    """``--help`` is obeyed once everything else has been read: an option that does not exist is an error."""
    done = CliRunner().invoke(whole(), [*shlex.split(command), "--help"])
    assert (done.exit_code, done.output[:6]) == (0, "Usage:"), done.output
    assert CliRunner().invoke(whole(), [*shlex.split(command), "--nonsense", "--help"]).exit_code == 2


def test_there_are_commands() -> None:
    assert len(COMMANDS) == 10
    assert {command.split()[2] for command in COMMANDS if command.startswith("grade setup")} == set(HOST)


def test_the_formats_are_the_formats() -> None:
    assert set(re.findall(r"^\| `([\w-]+)` \|", PAGE, re.MULTILINE)) == set(FORMATS)


def test_the_grading_toml_is_one(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)
    path = tmp_path / "grading.toml"
    path.write_text(example)
    course = packaged_course()
    rubric = load_rubric(path, course)
    assert (rubric.seed, rubric.near_miss.worth, rubric.seconds, rubric.memory_gib) == (4711, 0.5, 60, 2)
    points = rubric.by_lesson[course.resolve("block_tile")].points
    assert (points.gates, points.out_of) == (6, 13)
