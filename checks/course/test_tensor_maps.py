"""A lesson whose kernel takes tensor maps, described in lesson.toml alone: its launches, its mistakes."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from gemm_lessons.course.folder import CommandError, Course
from gemm_lessons.course.lesson import Lesson, LessonError
from gemm_lessons.course.lesson_toml import load_lesson
from gemm_lessons.course.tiles import retiled
from gemm_lessons.devices.gpu.arena import passed
from gemm_lessons.devices.simulated import Simulated
from gemm_lessons.engine.hardware.sheets import GPUS
from gemm_lessons.engine.records.launch import TensorMap
from gemm_lessons.gemm.problem import Problem
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.judging.evidence import Speed
from gemm_lessons.judging.verdict import Faulted
from gemm_lessons.report.table import footnotes
from gemm_lessons.running.estimating import movement_of
from gemm_lessons.running.outcome import RunOutcome
from gemm_lessons.running.pipeline import RunRequest, run_lesson

FOLDER = Path(__file__).parent / "kernels" / "91_tensor_maps"
COURSE = Course(Path(__file__).resolve().parents[2])
LESSON = load_lesson(FOLDER)


def run(path: Path) -> RunOutcome:
    return run_lesson(RunRequest(COURSE, LESSON, path, Simulated(), GPUS["h200"], seed=5, beside=False))


@cache
def solved() -> RunOutcome:
    return run(FOLDER / "solution.cu")


def test_it_passes_on_ragged_shapes_too() -> None:
    checked = solved().kernel.checked
    assert checked.verdict.kind == "passed", checked
    assert not [finding for finding in checked.findings if finding.severity != "note"]
    assert Shape(45, 36, 100) in [result.shape for result in checked.shapes]


def test_it_is_counted() -> None:
    """Copies of tensors are in the sums over every kind of access, and in none of the load units' own."""
    counters, (m, n, k) = solved().kernel.checked.counters, (64, 64, 128)
    assert counters is not None
    assert not counters.obstacle
    assert counters["global_bytes_read"] == 4 * (m * k * n // 32 + k * n * m // 32)
    assert counters["global_sectors_read"] * 32 == counters["global_bytes_read"]
    assert counters["shared_bytes_written"] == counters["global_bytes_read"]
    assert counters["global_load_sectors"] == 0
    assert counters["ffma"] == m * n * k
    (gate,) = solved().kernel.checked.gates
    assert gate.value == 0.25


def test_it_is_estimated() -> None:
    speed = solved().kernel.speed
    assert speed.estimate is not None
    assert not speed.refused


def test_a_unit_without_known_times_is_named() -> None:
    outcome = solved()
    refused = replace(outcome, rows=(replace(outcome.kernel, speed=Speed(refused="no timings of UBLKCP, WGMMA")),))
    assert any("No estimate: no timings of UBLKCP, WGMMA." in it for it in footnotes(refused))


def test_who_does_not_wait_reads_what_has_not_come() -> None:
    verdict = run(FOLDER / "stub.cu").verdict
    assert isinstance(verdict, Faulted)
    assert verdict.finding.kind == "async_in_flight"
    assert verdict.finding.line


def test_the_launch_has_the_maps() -> None:
    shape = Shape(45, 36, 100)
    first, second, *_ = Problem(LESSON.data, shape, 1).trial().arguments(LESSON.launches[0].parameters)
    assert isinstance(first, TensorMap)
    assert isinstance(second, TensorMap)
    assert (first.sizes, first.box, first.swizzle) == ((100, 45), (32, 32), 128)
    assert (second.sizes, second.strides_behind, second.swizzle) == ((36, 100), (36 * 4,), 0)
    message = passed(LESSON.data, shape, LESSON.launches[0].parameters)[0]
    assert message["tensor_map"] == "A"
    assert message["about"] == first.described


def test_its_bytes_are_those_of_the_buffers() -> None:
    moved = movement_of(LESSON, LESSON.launches[0].parameters)
    assert moved.read(Shape(64, 32, 16)) == 4 * (64 * 16 + 16 * 32)
    assert moved.tiled


def test_its_prototype_says_what_the_host_passes() -> None:
    assert LESSON.prototype(LESSON.launches[0]).startswith(
        'extern "C" __global__ void gemm(const __grid_constant__ CUtensorMap map_A, const __grid_constant__ CUtensorMap'
    )


def test_a_column_major_buffer_has_its_box_turned(tmp_path: Path) -> None:
    lesson = changed(
        tmp_path, "[shapes]", '[buffers.B]\ntype = "float32"\nshape = ["K", "N"]\norder = "column"\n[shapes]'
    )
    shape = Shape(32, 32, 64)
    layout = lesson.data.lay_out(shape.names)["B"]
    found = lesson.data.tensor_map("map_B", layout.element.untouched(layout.shape), layout, shape.names)
    assert found.sizes == (64, 32), "K lies innermost"
    assert found.described["element"] == "float32"


def changed(tmp_path: Path, old: str, new: str) -> Lesson:
    folder = tmp_path / "91_tensor_maps"
    shutil.copytree(FOLDER, folder)
    text = (folder / "lesson.toml").read_text()
    assert old in text
    (folder / "lesson.toml").write_text(text.replace(old, new, 1))
    return load_lesson(folder)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('buffer = "A"', 'buffer = "X"', r"toml:19: \[tensor_maps.map_A\] buffer: 'X' is not a buffer"),
        ('box = ["BM", "BK"]', 'box = ["BM"]', r"\[tensor_maps.map_A\] box: needs a size for each"),
        ('box = ["BM", "BK"]', 'box = ["BM", "BQ"]', r"\[tensor_maps.map_A\] box: .*uses BQ,"),
        ("swizzle = 128", "swizzle = 16", r"\[tensor_maps.map_A\] swizzle: 16 is none of 0, 32, 64, 128"),
        ("swizzle = 128", "swizzle = 64", r"\[tensor_maps\] at M, N, K = 32x32x64: map_A: a swizzle is"),
        ('"map_A", "map_B", "C"', '"map_B", "C"', "A is missing"),
        ('"map_A", "map_B", "C"', '"map_A", "map_X", "C"', '"map_X" is none of A, B, C, map_A, map_B'),
    ],
)
def test_mistakes_are_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(LessonError, match=message):
        changed(tmp_path, old, new)


def test_a_contract_that_no_map_keeps_is_named(tmp_path: Path) -> None:
    """Also where the shapes that are checked happen to fit."""
    with pytest.raises(LessonError, match=r"M, N, K = 1x4x1: map_A: rows must begin at multiples of 16 bytes, not 4"):
        changed(tmp_path, "N = 4, K = 4 }", "N = 4, K = 1 }")


def test_a_tile_that_no_map_takes_is_a_wrong_command() -> None:
    with pytest.raises(CommandError, match=r"--tile BK=16 cannot be launched: map_A: a row of the box, 64 bytes"):
        retiled(LESSON, {"BK": 16})


def test_rows_that_no_map_can_have_are_named(tmp_path: Path) -> None:
    with pytest.raises(LessonError, match=r"at M, N, K = 32x34x64: map_B: rows must begin at multiples of 16 bytes"):
        changed(tmp_path, "N = 4, K = 4 }\ncheck = [[32, 32, 64]", "N = 2, K = 4 }\ncheck = [[32, 34, 64]")
