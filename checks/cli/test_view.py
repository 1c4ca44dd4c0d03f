"""``gemm-lessons view``, as a process: what it writes, what it says, and that it does not break."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from checks.cli.tiny_course import SOLUTION, Run

LOAD = next(number for number, line in enumerate(SOLUTION.splitlines(), 1) if "acc += A" in line)


def test_a_line_and_a_trace(run: Run, course: Path) -> None:
    done = run("view", "01", "--solution", "--line", str(LOAD), "--trace", "trace.json")
    assert done.code == 0, done.err
    assert "acc += A[row * K + k] * B[k * N + col];" in done.out
    assert "load from A, 4 bytes a lane, warp 0" in done.out
    assert "sector at A[0, 0]" in done.out
    assert "\x1b" not in done.out
    events = json.loads((course / "trace.json").read_text())["traceEvents"]
    assert any(event["ph"] == "X" for event in events)


def test_a_page(run: Run, course: Path) -> None:
    done = run("view", "01", "--solution")
    assert done.code == 0, done.err
    assert "01_first.html" in done.out
    page = (course / "01_first.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "The first lesson" in page


def test_a_line_without_accesses_names_those_that_have_some(run: Run) -> None:
    done = run("view", "01", "--solution", "--line", "1")
    assert done.code == 2
    assert str(LOAD) in done.err


def test_a_timeline_without_mbarriers_is_by_warp(run: Run) -> None:
    done = run("view", "01", "--solution", "--timeline")
    assert done.code == 0, done.err
    assert "Block 0 on an H200 at M, N, K = 8x16x64, estimated" in done.out
    assert any(line.startswith("warp 0 ") and "g" in line for line in done.out.splitlines())
    assert any(f" {LOAD} " in line and "global memory" in line for line in done.out.splitlines())


def test_a_wrong_kernel_has_no_timeline(run: Run, course: Path) -> None:
    done = run("view", "01", "--stub", "--trace", "trace.json")
    assert done.code == 2
    assert "only a right kernel" in done.err
    assert not (course / "trace.json").exists()


def test_a_kernel_that_does_not_compile(run: Run, kernel: Path) -> None:
    kernel.write_text("void gemm( {\n")
    done = run("view", "01", "--line", "1")
    assert done.code == 1
    assert "COMPILE FAILED" in done.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--solution", "--line", "99"), "has 13 lines"),
        (("--solution", "--stub", "--line", "1"), "exclude each other"),
        (("--line", "1"), "gemm-lessons start 01"),
        (("--solution", "--line", "1", "--gpu", "x"), "--gpu"),
        (("--solution", "--html", "no/such/page.html"), "there is no folder no/such"),
    ],
)
def test_wrong_commands(run: Run, options: tuple[str, ...], words: str) -> None:
    done = run("view", "01", *options)
    assert done.code == 2
    assert words in done.err


@pytest.mark.parametrize("option", ["--html", "--trace"])
def test_nothing_of_anybody_s_is_written_over(run: Run, course: Path, kernel: Path, option: str) -> None:
    """Neither a kernel, nor a folder, nor a device: as root that would replace /dev/null."""
    kernel.write_text(SOLUTION)
    for out in (str(kernel.relative_to(course)), "lessons", "", os.devnull):
        done = run("view", "01", "--solution", option, out)
        assert done.code == 2, (done.out, done.err)
        assert option in done.err
    assert kernel.read_text() == SOLUTION
    for _ in range(2):  # its own it does write over
        assert run("view", "01", "--solution", option, "mine").code == 0


def test_the_site_of_a_course(run: Run, course: Path) -> None:
    done = run("site", "web")
    assert done.code == 0, done.err
    assert "18 pages" in done.out, "index, two lessons, engine, eleven about the kit, two to try things out, session"
    assert "The first lesson" in (course / "web" / "01_first.html").read_text()
    assert run("site", "lessons").code == 2
