"""The ranges of a run, heard by a real NVTX listener in a process of its own.

NVTX hands events only to a shared library that it loads itself (NVTX_INJECTION64_PATH), as it loads Nsight Systems.
Ours is 80 lines of C (listener.c), compiled here with any C compiler that is installed. A binary in the repository
could not be reviewed, and a compiler from PyPI would be larger than all other test extras together; so without a
compiler these tests are skipped, visibly.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gemm_lessons.course.folder import any_course

HERE = Path(__file__).parent
COMPILER = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
DOMAIN = "gemm-lessons"

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler (cc, gcc, clang) for the NVTX listener")


@dataclass
class Range:
    name: str
    colour: str
    payload: int | None
    inside: list[Range] = field(default_factory=list)


@pytest.fixture(scope="module")
def listener(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("nvtx") / "listener.so"
    assert COMPILER is not None
    subprocess.run([COMPILER, "-shared", "-fPIC", "-Wall", "-Werror", "-o", library, HERE / "listener.c"], check=True)
    return library


def heard(listener: Path, log: Path, *command: str, code: int = 0) -> list[Range]:
    """Run Python with the listener; the ranges of our domain as a forest."""
    environment = {**os.environ, "NVTX_INJECTION64_PATH": str(listener), "NVTX_LISTENER_LOG": str(log)}
    done = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return forest(log)


def forest(log: Path) -> list[Range]:
    """The ranges of our domain in a listener's log. Fails if one is left open."""
    top: list[Range] = []
    stack: list[Range] = []
    for line in log.read_text().splitlines() if log.exists() else ():
        event, domain, *rest = line.split("\t")
        if domain != DOMAIN:
            continue
        if event == "pop":
            stack.pop()
            continue
        name, colour, payload = rest
        it = Range(name, colour, None if payload == "-" else int(payload))
        (stack[-1].inside if stack else top).append(it)
        stack.append(it)
    assert not stack, f"never closed: {[it.name for it in stack]}"
    return top


def test_every_stage_of_a_run_is_a_range(listener: Path, tmp_path: Path) -> None:
    lesson = any_course().lesson("01")
    (top,) = heard(listener, tmp_path / "log", "-m", "gemm_lessons", "run", "01", "--solution")
    assert (top.name, top.payload) == ("lesson 01_naive", 1)
    (kernel,) = top.inside
    assert kernel.name == "reference"
    count = lesson.shapes.count
    assert [it.name for it in kernel.inside] == [
        "compile solution.cu",
        *(f"check {shape}" for shape in lesson.shapes.check),
        f"count {count}",
        "estimate 4096x4096x4096",
    ]
    compiling, *_, counting, estimating = kernel.inside
    assert compiling.payload == len(lesson.solution_path.read_text())
    assert counting.payload == 2 * count.m * count.n * count.k
    assert estimating.payload == 2 * 4096**3
    assert len({it.colour for it in kernel.inside}) == 4, "compile, check, count and estimate have colours of their own"


def test_rows_beside_the_kernel_have_ranges_too(listener: Path, tmp_path: Path) -> None:
    (top,) = heard(listener, tmp_path / "log", "-m", "gemm_lessons", "run", "02", "--solution")
    assert [it.name for it in top.inside] == ["reference", "01 naive"]
    for kernel in top.inside:
        assert [it.name for it in kernel.inside].count("compile solution.cu") == 1
        assert [it.name for it in kernel.inside].count("count 128x128x64") == 1
    assert len({it.colour for it in top.inside}) == 2


def test_ranges_are_closed_when_a_run_ends_early(listener: Path, tmp_path: Path) -> None:
    broken = tmp_path / "kernel.cu"
    broken.write_text("this is no CUDA")
    tops = heard(listener, tmp_path / "log", "-m", "gemm_lessons", "run", "01", "--file", str(broken), code=1)
    (kernel,) = tops[0].inside[:1]
    assert (kernel.name, kernel.inside[0].name) == ("your kernel", "compile kernel.cu")


def test_ctrl_c_closes_the_ranges(listener: Path, tmp_path: Path) -> None:
    script = (
        "from gemm_lessons.devices.gpu.ranges import stage\n"
        "try:\n"
        "    with stage('lesson', 'x'), stage('check', '1x1x1', payload=2):\n"
        "        raise KeyboardInterrupt\n"
        "except KeyboardInterrupt:\n"
        "    pass\n"
    )
    (top,) = heard(listener, tmp_path / "log", "-c", script)
    assert [it.name for it in top.inside] == ["check 1x1x1"]


def test_without_a_range_nothing_is_heard(listener: Path, tmp_path: Path) -> None:
    """The twin: the listener listens, and hears what there is."""
    script = "import nvtx\nwith nvtx.annotate('x', domain='other'):\n    pass\n"
    assert heard(listener, tmp_path / "log", "-c", script) == []
    assert "push\tother\tx" in (tmp_path / "log").read_text()
