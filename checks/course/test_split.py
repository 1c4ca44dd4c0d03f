"""Lesson split_k: its other ways are right, and its measured times keep what the course promises."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from checks.course.tables import COLD, STORED, tables
from gemm_lessons.course.folder import packaged_course
from gemm_lessons.course.lesson_toml import load_lesson
from gemm_lessons.devices.simulated import Simulated
from gemm_lessons.engine.hardware.sheets import GPUS
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.judging.verdict import Passed
from gemm_lessons.running.pipeline import RunRequest, run_lesson

TABLE = tables()["split"]
SPLIT, SKINNY = "split_k", "128x128x8192"
COURSE = packaged_course()
LESSON = COURSE.lesson(SPLIT)


def measured() -> dict[tuple[str, str], dict[str, Any]]:
    rows = json.loads((STORED / TABLE.file).read_text())["rows"]
    return {(row["kernel"], str(row["size"])): row[COLD] for row in rows}


@pytest.mark.parametrize("name", ["atomics", pytest.param("slices", marks=pytest.mark.slow)])
def test_the_other_ways_pass_as_well(name: str) -> None:
    lesson = load_lesson(LESSON.directory, name)
    request = RunRequest(COURSE, lesson, LESSON.solution_path, Simulated(), GPUS["h200"], Shape(70, 132, 75))
    assert isinstance(run_lesson(replace(request, beside=False, estimating=False)).verdict, Passed)


@pytest.mark.parametrize(
    ("sizes", "workers", "whole"),
    [
        ((128, 128, 8192), 256, 0),
        ((64, 4096, 4096), 384, 0),
        ((1536, 1536, 1536), 396, 0),
        ((3072, 3072, 3072), 396, 1),
    ],
)
def test_how_many_workers_there_are(sizes: tuple[int, int, int], workers: int, whole: int) -> None:
    shape = Shape(*sizes)
    chosen = LESSON.at(shape).tile.defines
    assert (chosen["WORKERS"], chosen["WHOLE"]) == (workers, whole)
    gemm, combine = LESSON.at(shape).grids(shape)
    cut = chosen["TILES"] - whole * workers
    assert gemm.blocks == workers
    assert combine.grid[1] == cut < 2 * workers
    slots = LESSON.at(shape).data.lay_out(shape.names)["P"].rows
    assert slots == workers + cut, "one more than that of the last worker in the last tile that is cut"
    slices = load_lesson(LESSON.directory, "slices").at(shape).tile.defines
    assert slices["WORKERS"] % slices["TILES"] == 0 or slices["TILES"] > slices["ROOM"]


def test_teams_make_the_difference_where_tiles_are_few() -> None:
    found = measured()
    assert found[SPLIT, SKINNY]["tflops"] >= 1.05 * found[f"{SPLIT} one team", SKINNY]["tflops"]


def test_two_launches_give_the_same_bits_each_time_and_atomics_do_not() -> None:
    found = measured()
    for size in TABLE.rounds:
        assert found[SPLIT, size]["answers"] == 1
    assert max(found[f"{SPLIT} atomics", size]["answers"] for size in TABLE.rounds) > 1
