"""The table of a measured run, from a simulated one dressed up: the numbers are made up, their room is not."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from checks.cli.tiny_course import SOLUTION, write_course
from gemm_lessons.course.folder import Course, any_course
from gemm_lessons.devices.gpu.records import Timed
from gemm_lessons.devices.gpu.timing import Spread
from gemm_lessons.devices.simulated import Simulated
from gemm_lessons.engine.hardware.sheets import find_gpu
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.judging.evidence import Speed
from gemm_lessons.judging.hints import LIMITS
from gemm_lessons.report.console import THEME
from gemm_lessons.report.run import ScreenContext, show_details
from gemm_lessons.report.table import LIMITERS, duration, show_footnotes, table
from gemm_lessons.running.outcome import RunOutcome
from gemm_lessons.running.pipeline import RunRequest, run_lesson


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> RunOutcome:
    """The second lesson, tried with the first one's method, as if a GPU had timed it."""
    course = Course(write_course(tmp_path_factory.mktemp("course")))
    lesson = course.lesson("02")
    lesson.kernel_path.write_text(SOLUTION)
    outcome = run_lesson(RunRequest(course, lesson, lesson.kernel_path, Simulated(), find_gpu("h200")))
    time = 1234.5
    timed = Timed("", "kernel", Spread(time, time, time, (time,)), flop=round(57_123.4 * time * 1e3), of_cublas=1.018)
    rows = [replace(row, speed=Speed(measured=timed)) for row in outcome.rows]
    return replace(outcome, device_kind="gpu", device_name="NVIDIA H200", rows=tuple(rows))


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_measured_runs_have_one_row_for_each_kernel(measured: RunOutcome, columns: int) -> None:
    out = io.StringIO()
    console = Console(file=out, width=columns, theme=THEME)
    console.print(table(console, measured))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= columns
    assert "est." not in out.getvalue()
    assert "…" not in out.getvalue()
    assert [line.split()[0] for line in lines[-3:]] == ["your", "lesson" if columns < 120 else "01", "reference"]
    assert all("1.23 ms" in line and "57.1" in line and "102%" in line for line in lines[-3:])


def test_the_footnotes_say_what_limits_and_what_an_own_shape_does_not_change(tmp_path: Path) -> None:
    course = Course(write_course(tmp_path))
    lesson = course.lesson("01")
    request = RunRequest(course, lesson, lesson.solution_path, Simulated(), find_gpu("h200"), beside=False)
    outcome = run_lesson(replace(request, shape=Shape(40, 48, 8)))
    screen = io.StringIO()
    show_footnotes(Console(file=screen, width=200, theme=THEME), outcome)
    text = screen.getvalue()
    assert "estimate for the H200 at M, N, K = 40, 48, 8" in text
    assert "Counters and gates: code for sm_90, one launch at M, N, K = 8, 16, 4." in text
    assert f"Limited by: {LIMITERS[outcome.kernel.speed.estimate.limiter]}." in text


def shown(tmp_path: Path, number: str, old: str, new: str, shape: Shape) -> str:
    """What a run of a lesson's solution with one edit prints."""
    lesson = any_course().lesson(number)
    source = lesson.solution_path.read_text()
    assert source.count(old) == 1
    path = tmp_path / "kernel.cu"
    path.write_text(source.replace(old, new))
    outcome = run_lesson(
        RunRequest(any_course(), lesson, path, Simulated(), find_gpu("h200"), beside=False, shape=shape)
    )
    screen = io.StringIO()
    show_details(Console(file=screen, width=200, theme=THEME), outcome, ScreenContext(again="again"))
    return screen.getvalue()


def test_threads_that_returned_are_one_finding_and_one_hint(tmp_path: Path) -> None:
    start = "    // Walk along K, one tile at a time.\n"
    early = f"    if (row >= M || col >= N)\n        return;\n{start}"
    text = shown(tmp_path, "block_tile", start, early, shape=Shape(33, 31, 29))
    assert text.count("exited before barrier: ") == 1, "not one for each barrier"
    hints = text.split("Hints")[1]
    assert hints.count("\n  - ") == 1
    assert "exited before barrier. [__syncthreads();]" in hints


def test_conflicts_are_shown_of_right_answers_only(tmp_path: Path) -> None:
    line = "acc[i][j] += a_frag[i][step] * b_frag[j];"
    assert "Bank conflicts by line" in shown(tmp_path, "vector_loads", line, line, shape=Shape(128, 128, 8))
    wrong = shown(tmp_path, "vector_loads", line, line.replace("+=", "-="), shape=Shape(128, 128, 8))
    assert "WRONG ANSWER" in wrong
    assert "onflict" not in wrong.split("gates")[1]


def test_every_limiter_has_words() -> None:
    assert LIMITERS.keys() == {*LIMITS, "launch"}
    assert "L1" in LIMITERS["l1"]


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [(None, "-"), (0.5, "0.50 us"), (9.996, "10.0 us"), (999.4, "999 us"), (999.6, "1.00 ms"), (2.5e6, "2.50 s")],
)
def test_durations_have_three_digits(microseconds: float | None, text: str) -> None:
    assert duration(microseconds) == text
