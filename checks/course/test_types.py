"""A lesson for several types of numbers: ``[types.NAME]`` in lesson.toml, ``run --type NAME``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from checks.course.mma import VARIANTS
from checks.forks import run
from gemm_lessons.course.folder import packaged_course
from gemm_lessons.course.lesson import LessonError
from gemm_lessons.course.lesson_toml import load_lesson

LESSON = packaged_course().lesson("mma")
SHAPES = {
    "bf16": (256, 128, 192), "tf32": (256, 128, 96), "int8": (256, 128, 384), "fp64": (128, 128, 80),
    "fp32_by_tf32": (128, 256, 96), "fp32_by_f16": (128, 256, 192),
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    ["int8", *(pytest.param(name, marks=pytest.mark.slow) for name in LESSON.types if name != "int8")],
)
def test_the_same_source_is_right_for_each_type(name: str) -> None:
    shape = ",".join(str(size) for size in SHAPES[name])
    done = run(["run", "mma", "--solution", "--type", name, "--shape", shape, "--json"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["verdict"] == "passed"


def test_a_type_replaces_what_it_names_and_nothing_else() -> None:
    other = load_lesson(LESSON.directory, "bf16")
    assert other.data.by_name["A"].element.name == "bfloat16"
    assert other.tile.defines == {**LESSON.tile.defines, "TYPE": 2}
    assert (other.launches, other.shapes, other.gates) == (LESSON.launches, LESSON.shapes, LESSON.gates)
    split = load_lesson(LESSON.directory, "fp32_by_f16")
    assert [launch.entry for launch in split.launches] == ["split", "split", "gemm"]
    assert split.data.by_name["A"].element.name == "float32"


def test_an_unknown_type_is_a_wrong_command() -> None:
    done = run(["run", "mma", "--solution", "--type", "f8"])
    assert done.returncode == 2
    assert "has the types bf16, tf32" in done.stderr
    done = run(["run", "naive", "--solution", "--type", "bf16"])
    assert done.returncode == 2
    assert "has one type of numbers" in done.stderr


def test_a_wrong_key_of_a_type_is_named(tmp_path: Path) -> None:
    folder = tmp_path / LESSON.name
    shutil.copytree(LESSON.directory, folder)
    toml = folder / "lesson.toml"
    toml.write_text(toml.read_text().replace("[types.bf16]\n", "[types.bf16]\ntodo = 1\n"))
    with pytest.raises(LessonError, match=r"\[types\] bf16: todo: unknown key"):
        load_lesson(folder, "bf16")


def test_every_variant_that_is_measured_fits_the_solution() -> None:
    for variant in VARIANTS:
        assert variant.source(variant.lesson())
