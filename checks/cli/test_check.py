"""``gemm-lessons check``: which finished kernels pass; and the hook and the Action for a learner's own repository."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from checks.cli.tiny_course import KERNEL, SOLUTION, STUB, Run

ROOT = Path(__file__).resolve().parents[2]
WRONG = SOLUTION.replace("// TODO(1): add up the K products,\n    // for threads inside C only.", "").replace(
    "+=", "-="
)


def test_finished_kernels_must_pass(run: Run, course: Path, kernel: Path) -> None:
    said = run("check")
    assert (said.code, "gemm-lessons next" in said.out) == (0, True)
    kernel.write_text(STUB)
    said = run("check")
    assert (said.code, said.out) == (0, "01_first  unfinished: TODO(1)\n")
    second = course / "lessons" / "02_second" / "kernel.cu"
    second.write_text(WRONG)
    said = run("check", "--problems")
    assert said.code == 1
    assert "02_second  not passed\n" in said.out
    assert re.search(r"lessons/02_second/kernel\.cu:1:1: error: \d+ of \d+ elements", said.out)
    kernel.write_text(SOLUTION)
    said = run("check", "lessons/01_first/kernel.cu", "01")
    assert (said.code, said.out) == (0, "01_first  passed\n")
    assert run("check", "7").code == 2
    kernel.write_bytes(b"\xff\xfe\x00")
    assert run("check", "01").code == 1


def test_an_empty_todo_is_no_matter_where_the_answer_is_right(run: Run, kernel: Path) -> None:
    """The steps are written above the comment, which stays."""
    comment = "    // TODO(1): add up the K products,\n    // for threads inside C only.\n"
    kernel.write_text(
        SOLUTION.replace(comment, "").replace(
            "    if (row < M && col < N)\n        C[", f"{comment}\n    if (row < M && col < N)\n        C["
        )
    )
    assert run("check").out == "01_first  passed\n"


def test_what_could_not_be_checked_is_said(run: Run, kernel: Path) -> None:
    kernel.write_text(KERNEL.replace("BODY", '    asm volatile("discard.global.L2 [%0], 128;" :: "l"(C));'))
    said = run("check")
    assert said.code == 3
    assert "01_first  not checked\n" in said.out
    assert "the simulator cannot run this kernel" in said.out


def read(name: str) -> Any:
    yaml = pytest.importorskip("yaml", reason="the extra [test] has what reads YAML")
    return yaml.safe_load((ROOT / name).read_text())


def test_the_hook_calls_a_command_for_kernels_only(run: Run, kernel: Path) -> None:
    [hook] = read(".pre-commit-hooks.yaml")
    kernel.write_text(SOLUTION)
    assert run(*hook["entry"].split()[1:], str(kernel)).code == 0
    wanted = re.compile(hook["files"])
    assert wanted.search("lessons/03_block_tile/kernel.cu")
    for name in ("lessons/03_block_tile/stub.cu", "lessons/03_block_tile/kernel.cu.bak-1", "03/kernel.cu"):
        assert not wanted.search(name)


@pytest.mark.parametrize(("lessons", "body", "code"), [("", SOLUTION, 0), ("01", SOLUTION, 0), ("", WRONG, 1)])
def test_the_action_s_last_step(course: Path, kernel: Path, tmp_path: Path, lessons: str, body: str, code: int) -> None:
    """As GitHub runs it: with the environment that the step names, in its shell."""
    action = read("action.yml")
    step = action["runs"]["steps"][-1]
    assert set(action["inputs"]) == {"folder", "lessons", "python-version"}
    (tmp_path / "gemm-lessons" / "bin").mkdir(parents=True)
    program = tmp_path / "gemm-lessons" / "bin" / "gemm-lessons"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m gemm_lessons "$@"\n')
    program.chmod(0o755)
    kernel.write_text(body)
    assert set(step["env"]) == {"LESSONS", "NO_COLOR"}
    environment = {**os.environ, "LESSONS": lessons, "NO_COLOR": "1", "RUNNER_TEMP": str(tmp_path)}
    shell = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]]
    done = subprocess.run(shell, cwd=course, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
