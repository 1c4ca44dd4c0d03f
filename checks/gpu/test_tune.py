"""Searches for tile sizes: estimates on the simulator, measurements on the stand-in for a GPU, a file that a later
search resumes, and which of its rows it keeps."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from checks import forks
from gemm_lessons.cli.tune import keep_sizes, parse_values
from gemm_lessons.commands.tuning import TuneRequest, tune
from gemm_lessons.course.folder import CommandError, Course, packaged_course
from gemm_lessons.course.lesson import LessonError
from gemm_lessons.course.lesson_toml import load_lesson
from gemm_lessons.devices.gpu.cuda_gpu import Gpu
from gemm_lessons.devices.shadowed_gpu import ShadowedGpu
from gemm_lessons.devices.simulated import Simulated
from gemm_lessons.engine.hardware.sheets import find_gpu
from gemm_lessons.gemm.shapes import Shape

COURSE = packaged_course()
LESSON = COURSE.lesson("block_tile")
SHAPE = Shape(256, 256, 256)
# The lesson's own; one more; one that the kernel's static_assert refuses; one of too many threads.
SPACE = LESSON.search.with_values({"BM": (32, 64), "BK": (32, 48, 64)})


def request(csv: Path | None = None) -> TuneRequest:
    assert (LESSON.tile.defines["BM"], LESSON.tile.defines["BN"]) == (32, 32)
    return TuneRequest(
        COURSE, replace(LESSON, search=SPACE), LESSON.solution_path, SHAPE, Simulated(), find_gpu("h200"), csv
    )


def test_the_right_ones_are_ranked_and_the_others_named(tmp_path: Path) -> None:
    csv, steps = tmp_path / "new" / "tune.csv", list[tuple[int, int, str]]()
    first = tune(request(csv), lambda done, total, what: steps.append((done, total, what)))
    assert first.own.sizes == {"BM": 32, "BK": LESSON.tile.defines["BK"]}
    assert [it.sizes["BK"] for it in first.ranked] in ([32, 64], [64, 32])
    times = [it.tuned.estimate_us for it in first.ranked]
    assert times == sorted(filter(None, times))
    left_out = {it.text: it.tuned.why_not for it in first.candidates if it.tuned.why_not}
    assert left_out["BM=32 BK=48"].startswith("does not compile: static assertion failed")
    assert "2048 threads per block" in left_out["BM=64 BK=32"]
    assert (steps[-1][:2], first.place, first.reused) == ((3, 3), None, 0)

    lines = csv.read_text().splitlines()
    csv.write_text("\n".join(lines[:-1]) + "\n" + lines[-1][:20])  # stopped in the middle of a line
    again = tune(request(csv))
    assert again.reused == 2
    assert [(it.sizes, it.tuned) for it in again.candidates] == [(it.sizes, it.tuned) for it in first.candidates]


def test_the_best_by_estimate_are_timed(fake_gpu: Gpu, tmp_path: Path) -> None:
    asked = replace(request(tmp_path / "tune.csv"), device=ShadowedGpu(fake_gpu), measured=1, seconds=0.01)
    result = tune(asked)
    assert 1 <= len(result.measured) <= 2  # the best by estimate, and the lesson's own
    assert result.own in result.measured
    assert result.place in (1, 2)
    for it in result.measured:
        assert it.tuned.time_us
        assert it.tuned.gflops
        assert it.tuned.of_cublas
    assert tune(asked).reused == 2


def test_sizes_are_kept_when_told(tmp_path: Path) -> None:
    shutil.copytree(LESSON.directory, tmp_path / "lessons" / LESSON.name)
    lesson = Course(tmp_path).lesson("block_tile")
    had = lesson.toml_path.read_text()
    said = keep_sizes(lesson, {"BM": 16, "BN": 32})
    assert "BM = 16; the old one is" in said
    now = load_lesson(lesson.directory).tile.defines
    assert now == {**lesson.tile.defines, "BM": 16}
    assert lesson.toml_path.with_name("lesson.toml.bak-1").read_text() == had
    assert "has these sizes already" in keep_sizes(load_lesson(lesson.directory), {"BM": 16})


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("BM = 32", "BM: must be a list of whole numbers"),
        ("BM = []", "BM: must be a list of whole numbers"),
        ("BX = [1]", "unknown key"),
        ('where = ["BM"]', "is not a comparison"),
        ('where = ["BM == BX"]', "BX"),
        (f"BM = {list(range(1, 200))}\nBN = {list(range(1, 200))}", "39,601 combinations"),
    ],
)
def test_a_mistake_in_the_table_is_named(table: str, said: str, tmp_path: Path) -> None:
    folder = tmp_path / LESSON.name
    shutil.copytree(LESSON.directory, folder)
    with (folder / "lesson.toml").open("a") as file:
        file.write(f"\n[tune]\n{table}\n")
    with pytest.raises(LessonError, match=r"lesson\.toml:\d+: \[?tune") as found:
        load_lesson(folder)
    assert said in str(found.value)


def test_values_on_the_command_line() -> None:
    assert parse_values(LESSON, ["BM=16,32,16", "BK = 32"]) == {"BM": (16, 32), "BK": (32,)}
    for text in ("BM", "BM=", "BM=a", "XX=1"):
        with pytest.raises(CommandError, match="--try"):
            parse_values(LESSON, [text])


def test_every_search_of_the_course_has_the_lesson_s_own_sizes() -> None:
    for name in COURSE.names:
        lesson = COURSE.lesson(name)
        own = {size: lesson.tile.defines[size] for size, _ in lesson.search.values}
        assert not own or own in lesson.search.candidates(lesson.tile.defines), name


def test_the_command(tmp_path: Path) -> None:
    small = ("--shape", "256,256,256", "--device", "sim")
    sizes = ("--try", "BM=8,16", "--try", "BN=32")
    command = [*forks.BINARY, "tune", "coalesced", *sizes, *small, "--csv", "t.csv", "--processes", "2"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)  # starts others: no fork
    assert (done.returncode, done.stderr) == (0, "")
    assert "ESTIMATES" in done.stdout
    assert "3 candidates" in done.stdout
    assert "All of these: BN = 32." in done.stdout  # no column for it
    assert re.search(r"BM +regs", done.stdout)
    nothing = forks.run(["tune", "naive", *small], cwd=tmp_path)
    assert nothing.returncode == 2
    assert "say what to try" in nothing.stderr
