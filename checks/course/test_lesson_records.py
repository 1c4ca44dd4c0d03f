"""Lesson records: launches, the shape contract, gates, and that they survive a trip to another process."""

from __future__ import annotations

import math
import pickle
from pathlib import Path

import pytest

from gemm_lessons.course.folder import CommandError, Course
from gemm_lessons.course.lesson import Gate, Lesson, LessonError
from gemm_lessons.course.lesson_toml import load_lesson
from gemm_lessons.course.tiles import retiled
from gemm_lessons.engine.arguments.expression import Expression
from gemm_lessons.gemm.shapes import Shape, ShapeError

TOML = """\
title = "T"
idea = "I"
[tile]
BM = 4
BN = 8
[launch]
grid = ["ceil_div(N, BN)", "ceil_div(M, BM)"]
block = ["BM * BN"]
dynamic_shared = "BM * 4"
[kernel]
entry = "tile<4, 8>"
parameters = ["A", "B", "C", "M", "N", "K", "lda", "alpha"]
a = "float16"
[shapes]
multiple_of = { N = 8 }
check = [[3, 8, 1]]
count = [4, 16, 2]
[[gates]]
name = "g"
value = "ffma / (M * N * K) + registers + BM"
at_most = 5
why = "w"
"""


@pytest.fixture
def lesson(tmp_path: Path) -> Lesson:
    folder = tmp_path / "lessons" / "07_some_name"
    folder.mkdir(parents=True)
    (folder / "lesson.toml").write_text(TOML)
    return load_lesson(folder)


def test_names_and_places(lesson: Lesson) -> None:
    assert (lesson.name, lesson.number) == ("07_some_name", 7)
    assert lesson.include_dirs[0] == lesson.directory.parent / "common"
    assert lesson.tile.defines == {"BM": 4, "BN": 8}
    assert [lesson.data.by_name[name].element.name for name in "AB"] == ["float16", "float32"]


def test_a_lesson_starts_from_the_one_before_or_from_one_that_it_names(lesson: Lesson) -> None:
    for name in ("03_earlier", "05_before"):
        (lesson.directory.parent / name).mkdir()
        (lesson.directory.parent / name / "lesson.toml").write_text(TOML)
    course = Course(lesson.directory.parent.parent)
    assert course.start_of(lesson) == "05_before"
    lesson.toml_path.write_text(f'starts_from = "earlier"\n{TOML}')
    assert course.start_of(load_lesson(lesson.directory)) == "03_earlier"
    lesson.toml_path.write_text(f"starts_from = 3\n{TOML}")
    with pytest.raises(LessonError, match=r"lesson.toml:1: starts_from: must be text, not 3"):
        load_lesson(lesson.directory)


def test_times_may_be_for_another_shape_than_a_large_square(lesson: Lesson) -> None:
    assert lesson.shapes.timed is None
    lesson.toml_path.write_text(TOML.replace("count =", "timed = [5, 16, 900]\ncount ="))
    assert load_lesson(lesson.directory).shapes.timed == Shape(5, 16, 900)
    lesson.toml_path.write_text(TOML.replace("count =", "timed = [5, 12, 900]\ncount ="))
    with pytest.raises(LessonError, match=r"\[shapes\] timed: \[5, 12, 900\] breaks the contract: N = 12"):
        load_lesson(lesson.directory)


def test_launch(lesson: Lesson) -> None:
    (grid,) = lesson.grids(Shape(9, 16, 5))
    assert (grid.grid, grid.block, grid.dynamic_shared) == ((2, 3, 1), (32, 1, 1), 16)
    assert grid.cluster is None
    lesson.toml_path.write_text(TOML.replace("dynamic_shared", 'cluster = ["1", "BM // 2"]\ndynamic_shared'))
    assert load_lesson(lesson.directory).grids(Shape(9, 16, 5))[0].cluster == (1, 2, 1)


def test_contract(lesson: Lesson) -> None:
    lesson.allow(Shape(1, 8, 1))
    with pytest.raises(
        ShapeError, match=r"07_some_name cannot take 1,9,1: N = 9 is not a multiple of 8 \(try 8 or 16\)"
    ):
        lesson.allow(Shape(1, 9, 1))


def test_records_pickle_and_compare(lesson: Lesson) -> None:
    assert pickle.loads(pickle.dumps(lesson)) == lesson
    assert hash(lesson) == hash(load_lesson(lesson.directory))


@pytest.mark.parametrize(
    ("most", "least", "value", "holds"),
    [
        (5, None, 5.0, True),
        (5, None, 5.1, False),
        (5, None, math.nan, False),
        (5, None, math.inf, False),
        (None, 5, 5.0, True),
        (None, 5, 4.9, False),
        (None, 5, math.nan, False),
        (None, 5, math.inf, True),
    ],
)
def test_gate_limits(most: float | None, least: float | None, value: float, holds: bool) -> None:
    gate = Gate("g", "g", Expression("1"), "w", most, least)
    assert gate.holds(value) is holds
    assert gate.limit in ("<= 5", ">= 5")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('title = "T"', "", "title: is missing"),
        ('title = "T"', 'title = ""', "lesson.toml:1: title: must be text"),
        ('title = "T"', "title = 7", "lesson.toml:1: title: must be text, not 7"),
        ('title = "T"', 'titel = "T"', "lesson.toml:1: titel: unknown key; did you mean title"),
        ("[tile]", "[tile]\nbm = 4", r"lesson.toml:4: \[tile\] bm: .* upper case"),
        ("[tile]", "[tile]\nM = 4", r"lesson.toml:4: \[tile\] M: .* not M, N or K"),
        ("BM = 4", "BM = true", r"lesson.toml:4: \[tile\] BM: must be a whole number"),
        ('grid = ["ceil_div(N, BN)", "ceil_div(M, BM)"]', "grid = []", "lesson.toml:7: .launch. grid: .* one to three"),
        ('block = ["BM * BN"]', "block = [7.5]", "lesson.toml:8: .launch. block: must be an expression"),
        ('block = ["BM * BN"]', "", "lesson.toml:6: .launch. block: is missing"),
        ('"lda"', '"A"', "parameters: names a parameter twice"),
        ('parameters = ["A", "B",', 'parameters = ["A",', "parameters: B is missing"),
        ('["A", "B", "C", "M", "N", "K", "lda", "alpha"]', '"A"', "parameters: must be a list"),
        ('a = "float16"', 'a = "float8"', "lesson.toml:13: .kernel. a: 'float8' is none of float64"),
        ("multiple_of = { N = 8 }", "multiple_of = 8", "lesson.toml:15: .shapes. multiple_of: must be a table"),
        ("multiple_of = { N = 8 }", "multiple_of = { Q = 8 }", "lesson.toml:15: .*Q: unknown key"),
        ("check = [[3, 8, 1]]", "check = []", "lesson.toml:16: .shapes. check: must be a list"),
        ("check = [[3, 8, 1]]", "check = [[3, 9, 1]]", "lesson.toml:16: .*breaks the contract: N = 9"),
        ("multiple_of = { N = 8 }", "at_most = { N = 7 }", "lesson.toml:16: .*breaks the contract: N = 8 is above 7"),
        ("multiple_of = { N = 8 }", "at_most = { N = 0 }", "lesson.toml:15: .*at_most.*N"),
        ("count = [4, 16, 2]", "count = [4, 16, 0]", "lesson.toml:17: .shapes. count: .* is not a shape"),
        ("at_most = 5", "at_most = 5\nat_least = 1", r"lesson.toml:18: \[\[gates\]\] number 1: needs exactly one"),
        ("at_most = 5", 'at_most = "5"', "lesson.toml:21: .* at_most: must be a number"),
        ("ffma /", "fma /", "lesson.toml:20: .* value: .*fma, .*did you mean ffma"),
        ('why = "w"', "", "number 1: why: is missing"),
        ("[[gates]]", "[gates]", "gates: must be tables"),
        ("[tile]", "tile = 3\n[other]", "unknown key|must be a table"),
        ("[tile]", '[scalars]\ngamma = "1"\n[tile]', "scalars. gamma: unknown key"),
        ("[tile]", '[scalars]\nbeta = "K % 2"\n[tile]', "beta: the formula, C = alpha .*, does not have it"),
        ("[tile]", '[scalars]\nalpha = "1 / (K - 2)"\n[tile]', 'alpha: "1 / .K - 2." is inf at M, N, K = 4x16x2'),
    ],
)
def test_mistakes_are_named(lesson: Lesson, old: str, new: str, message: str) -> None:
    assert old in TOML
    lesson.toml_path.write_text(TOML.replace(old, new, 1))
    with pytest.raises(LessonError, match=message):
        load_lesson(lesson.directory)


def test_the_second_gate_is_named_by_its_own_line(lesson: Lesson) -> None:
    lesson.toml_path.write_text(TOML + '[[gates]]\nname = "h"\nvalue = "nothing"\nat_most = 1\nwhy = "w"\n')
    with pytest.raises(LessonError, match=r"lesson.toml:25: \[\[gates\]\] number 2: value: "):
        load_lesson(lesson.directory)


def test_a_folder_with_another_name(tmp_path: Path) -> None:
    with pytest.raises(LessonError, match="folder is named like 03_block_tile"):
        load_lesson(tmp_path)


def test_not_text(lesson: Lesson) -> None:
    lesson.toml_path.write_bytes(b"title = '\xff'")
    with pytest.raises(LessonError, match="not UTF-8 text"):
        load_lesson(lesson.directory)
    lesson.toml_path.unlink()
    lesson.toml_path.mkdir()
    with pytest.raises(LessonError, match="cannot be read"):
        load_lesson(lesson.directory)


def with_ptxas(lesson: Lesson, table: str) -> Lesson:
    lesson.toml_path.write_text(TOML.replace("[shapes]", f"[ptxas]\n{table}\n[shapes]"))
    return load_lesson(lesson.directory)


def test_what_the_assembler_is_told_follows_the_tile(lesson: Lesson) -> None:
    told = with_ptxas(lesson, 'opt-level = "BM - 1"\nregister-usage-level = 8')
    assert told.options == ("--ptxas-options=--opt-level=3", "--ptxas-options=--register-usage-level=8")
    assert retiled(told, {"BM": 2}).options[0] == "--ptxas-options=--opt-level=1"
    assert lesson.options == ()


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("opt-levl = 1", r"lesson\.toml:15: \[ptxas\] opt-levl: unknown key; did you mean opt-level"),
        ('opt-level = "BM - 5"', r"lesson\.toml:15: \[ptxas\] opt-level: .*-1"),
        ('opt-level = "DEPTH"', r"lesson\.toml:15: \[ptxas\] opt-level: .*DEPTH"),
    ],
)
def test_what_the_assembler_cannot_be_told(lesson: Lesson, table: str, says: str) -> None:
    with pytest.raises(LessonError, match=says):
        with_ptxas(lesson, table)


def test_a_tile_that_leaves_the_assembler_no_number(lesson: Lesson) -> None:
    with pytest.raises(CommandError, match="--tile BM=1 cannot be launched"):
        retiled(with_ptxas(lesson, 'opt-level = "BM - 2"'), {"BM": 1})
