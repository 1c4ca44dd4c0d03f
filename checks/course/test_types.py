"""A lesson for several types of numbers: ``[types.NAME]`` in lesson.toml, ``run --type NAME``."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from checks.forks import run
from gemm_lessons.course.folder import packaged_course
from gemm_lessons.course.lesson import Lesson, LessonError
from gemm_lessons.course.lesson_toml import load_lesson
from gemm_lessons.course.pitfalls import resized
from gemm_lessons.devices.simulated import Simulated
from gemm_lessons.engine.api import simulate
from gemm_lessons.engine.hardware.sheets import GPUS
from gemm_lessons.engine.ptx.fragments import Fragment
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.judging.verdict import Passed, Verdict
from gemm_lessons.running.pipeline import RunRequest, run_lesson

LESSON = packaged_course().lesson("precision")
MMA = packaged_course().lesson("mma")
FP8 = packaged_course().lesson("fp8")
SHAPES = {
    "bf16": (256, 128, 192), "tf32": (256, 128, 96), "int8": (256, 128, 384), "fp64": (128, 128, 80),
    "fp32_by_tf32": (128, 256, 96), "": (128, 256, 192),
    "tma": (512, 256, 384), "tf32_tma": (512, 256, 192), "int8_tma": (512, 256, 384),
}  # fmt: skip
SLOW = ("fp64", "tf32_tma")  # with every change, beside int8; the long tests have all


@pytest.mark.parametrize(
    ("of", "name"),
    [
        (LESSON, "int8"),
        *(
            pytest.param(of, name, marks=pytest.mark.slow if name in SLOW else pytest.mark.long)
            for of in (LESSON, MMA)
            for name in ("", *of.types)
            if (of, name) not in ((LESSON, "int8"), (MMA, ""))
        ),
    ],
)
def test_the_same_source_is_right_for_each_type(of: Lesson, name: str) -> None:
    lesson, shape = load_lesson(of.directory, name), Shape(*SHAPES[name])
    if "BLOCKS" in lesson.tile.defines:
        lesson = resized(lesson, {"BLOCKS": 3})  # one of them has two tiles of C
    request = RunRequest(packaged_course(), lesson, lesson.solution_path, Simulated(), GPUS["h200"], shape)
    assert isinstance(run_lesson(replace(request, beside=False, estimating=False)).verdict, Passed)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) for name in FP8.types if name != "tf32"] + ["tf32"]
)
def test_lesson_fp8_is_right_for_each_type(name: str) -> None:
    assert isinstance(judged(FP8, name, FP8.solution_path), Passed)


def test_tf32_with_the_depth_of_bytes_is_wrong(tmp_path: Path) -> None:
    source, right = FP8.solution_path.read_text(), "DEPTH = 32 / sizeof(Number);"
    assert source.count(right) == 1
    path = tmp_path / "depth.cu"
    path.write_text(source.replace(right, "DEPTH = 32;"))
    assert not isinstance(judged(FP8, "tf32", path), Passed)


def judged(of: Lesson, name: str, source: Path) -> Verdict:
    """Return the verdict on a kernel at two tiles of C, both for one block, of four K tiles or more."""
    lesson = load_lesson(of.directory, name)
    request = RunRequest(
        packaged_course(), lesson, source, Simulated(), GPUS["h200"], Shape(128, 512, 512, layout="NT")
    )
    return run_lesson(replace(request, beside=False, estimating=False)).verdict


@pytest.mark.long
def test_beat_cublas_by_tma_is_right_where_tiles_are_cut_and_where_not() -> None:
    lesson = load_lesson(packaged_course().lesson("beat_cublas").directory, "tma")
    for shape in (Shape(384, 256, 96), Shape(128, 128, 512)):
        request = RunRequest(packaged_course(), lesson, lesson.solution_path, Simulated(), GPUS["h200"], shape)
        assert isinstance(run_lesson(replace(request, beside=False, estimating=False)).verdict, Passed)


def test_a_type_replaces_what_it_names_and_nothing_else() -> None:
    other = load_lesson(LESSON.directory, "fp32_by_tf32")
    assert other.data.by_name["A_parts"].element.name == "tf32"
    assert other.tile.defines == {**LESSON.tile.defines, "TYPE": 6, "BK": 32, "BYTES": 8, "SCALE": 1}
    assert (other.launches, other.gates) == (LESSON.launches, LESSON.gates)
    assert other.shapes.check == LESSON.shapes.check


def test_one_launch_replaces_several_and_several_one(tmp_path: Path) -> None:
    """With the buffers that they pass to one another."""
    assert [launch.entry for launch in LESSON.launches] == ["split", "split", "gemm"]
    assert {"A_parts", "B_parts"} <= LESSON.data.by_name.keys()
    other = load_lesson(LESSON.directory, "bf16")
    assert [launch.entry for launch in other.launches] == ["gemm"]
    assert {it.name: it.element.name for it in other.data.buffers} == {"A": "bfloat16", "B": "bfloat16", "C": "float32"}
    folder = tmp_path / MMA.name
    shutil.copytree(MMA.directory, folder)
    several = "".join(f'''
[[types.two.launches]]
entry = "{entry}"
parameters = ["{given}", "{made}", "M", "N", "K"]
grid = ["N // BN", "M // BM"]
block = ["256"]
''' for entry, given, made in (("first", "A", "T"), ("second", "T", "C")))  # fmt: skip
    several = several.replace('"T", "C"', '"T", "B", "C"')
    buffer = '\n[types.two.buffers.T]\ntype = "float16"\nshape = ["M", "K"]\nrole = "scratch"\n'
    toml = folder / "lesson.toml"
    toml.write_text(toml.read_text() + buffer + several)
    assert [launch.entry for launch in load_lesson(folder, "two").launches] == ["first", "second"]
    assert "T" in load_lesson(folder, "two").data.by_name


def test_a_gate_belongs_to_the_types_that_it_names(tmp_path: Path) -> None:
    other = load_lesson(MMA.directory, "tma")
    alone = {"barriers_per_k_tile", "tiles_waited_for"}  # of copies by cp.async
    assert {gate.id for gate in MMA.gates} - {gate.id for gate in other.gates} == alone
    assert [one.name for one in other.data.maps] == ["map_A", "map_B"]
    assert not MMA.data.maps
    folder = tmp_path / MMA.name
    shutil.copytree(MMA.directory, folder)
    toml = folder / "lesson.toml"
    toml.write_text(toml.read_text().replace('where = "COPY == 1"', 'where = "COPIES == 1"'))
    with pytest.raises(LessonError, match=r"\[\[gates\]\] number 4: where: .COPIES. uses COPIES, which is not a known"):
        load_lesson(folder)


def test_an_unknown_type_is_a_wrong_command() -> None:
    done = run(["run", "precision", "--solution", "--type", "f8"])
    assert done.returncode == 2
    assert "has the types fp32_by_tf32, bf16, tf32" in done.stderr
    done = run(["run", "naive", "--solution", "--type", "bf16"])
    assert done.returncode == 2
    assert "has only one number type" in done.stderr


def test_a_wrong_key_of_a_type_is_named(tmp_path: Path) -> None:
    folder = tmp_path / LESSON.name
    shutil.copytree(LESSON.directory, folder)
    toml = folder / "lesson.toml"
    toml.write_text(toml.read_text().replace("[types.bf16]\n", "[types.bf16]\ntodo = 1\n"))
    with pytest.raises(LessonError, match=r"\[types\] bf16: todo: unknown key"):
        load_lesson(folder, "bf16")


def test_the_range_of_float16_in_two_parts_is_as_the_text_has_it() -> None:
    """From 1/256 to 1023 the first 22 bits are kept; below, at most 2**-31 is lost; above, the result is infinite."""
    lesson = LESSON
    random = np.random.default_rng(3)
    inside = np.exp2(random.uniform(-8, np.log2(1023), 512))
    below = np.exp2(random.uniform(-30, -8, 512))
    given = np.concatenate([inside, below, np.full(512, 1024.0)]).astype(np.float32)[None] * np.float32(-1)
    parts = np.zeros((2, *given.shape), np.float16)
    source, defines = lesson.solution_path.read_text(), lesson.tile.defines
    with np.errstate(over="ignore"):
        simulate(
            source, "split", 2, 256, [given, parts, 1, given.size], defines=defines, include_dirs=lesson.include_dirs
        )
    made = parts[:, 0, :1024].astype(float).sum(axis=0) / defines["SCALE"]
    error = np.abs(made - given[0, :1024])
    assert (error[:512] <= 2.0**-22 * inside).all()
    assert (error[512:] <= 2.0**-31).all()
    assert np.isinf(parts[0, 0, 1024:]).all()


def test_the_matrix_that_is_drawn_is_the_one_that_is_simulated() -> None:
    drawn = re.findall(r"^ +row (\d) +((?:\[ ?t\d+ \] ?){4})", MMA.text_path.read_text(), re.MULTILINE)
    assert [int(row) for row, _ in drawn] == [0, 1, 2, 7]
    rows, cols = Fragment("a", 16, 16, 16, 32).places  # its first register is the first matrix
    for row, lanes in drawn:
        for number, lane in enumerate(map(int, re.findall(r"\d+", lanes))):
            assert (rows[lane, :2] == int(row)).all()
            assert list(cols[lane, :2]) == [2 * number, 2 * number + 1]
