"""Starting fast: ``list`` and ``--help`` load neither NumPy nor CUDA, and are there before one notices."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from checks.cli.tiny_course import BINARY, environment

LIMIT = 0.25  # seconds from a cold process. Processor time is judged: on a busy machine the clock also counts others
TRIES = 5
HEAVY = ("numpy", "cuda", "cupy", "nvtx", "pygments", "markdown_it", "rich.progress", "pydantic")


@pytest.mark.parametrize("arguments", [(), ("list",), ("--help",), ("--version",), ("start", "01"), ("hint", "01")])
def test_nothing_heavy_is_imported(course: Path, arguments: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "gemm_lessons", *arguments],
        cwd=course,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    loaded = set(re.findall(r"\|\s+([\w.]+)$", done.stderr, flags=re.MULTILINE))
    assert "gemm_lessons.cli.app" in loaded
    assert not [name for name in loaded if name.startswith(tuple(f"{heavy}." for heavy in HEAVY)) or name in HEAVY]


@pytest.mark.parametrize("arguments", [("list",), ("--help",)])
def test_cold_start_is_quick(course: Path, arguments: tuple[str, ...]) -> None:
    plain = {key: value for key, value in environment().items() if not key.startswith("COV")}
    spent = []
    for _ in range(TRIES):
        process = subprocess.Popen([*BINARY, *arguments], cwd=course, env=plain, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        spent.append(used.ru_utime + used.ru_stime)
    assert min(spent) < LIMIT, f"gemm-lessons {arguments[0]} took {min(spent):.3f} s at best"
