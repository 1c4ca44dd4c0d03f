"""File names as students and learning platforms write them: each gives a lesson, or a question."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from gemm_lessons.course.folder import packaged_course
from gemm_lessons.grading.inputs import one_student, read_student
from gemm_lessons.grading.lesson_names import lesson_named
from gemm_lessons.grading.naming import claim, owner_of

COURSE = packaged_course()
LESSONS = COURSE.names

# A file in a student's folder or archive, and its lesson.
NAMES: dict[str, str | list[str]] = tomllib.loads(Path(__file__).with_name("lesson_names.toml").read_text())


@pytest.mark.parametrize("name", NAMES)
def test_the_lesson_of_a_file(name: str, tmp_path: Path) -> None:
    expected = NAMES[name]
    found = claim(name, LESSONS)
    if isinstance(expected, str):
        assert found.lesson[3:] == expected
        return
    assert found is None
    stem = name.rpartition("/")[2].removesuffix(".cu")
    if expected:
        assert [lesson[3:] for lesson in lesson_named(stem, LESSONS).lessons] == expected
    path = tmp_path / "ana" / name
    path.parent.mkdir(parents=True)
    path.write_text("// mine")
    lessons = {lesson: COURSE.lesson(lesson) for lesson in LESSONS[:4]}
    handed, remarks = read_student(one_student(tmp_path / "ana", "ana").students[0], lessons, LESSONS)
    assert {it.status for it in handed.values()} == {"missing"}
    (remark,) = remarks
    assert remark.startswith(f"{name} was not graded: its name ")
    assert all(lesson in remark for lesson in expected)


@pytest.mark.parametrize(
    ("name", "owner", "file"),
    [
        ("Ana Lima_123456_assignsubmission_file_03.cu", "Ana Lima", "03.cu"),
        ("Müller, Jörg_98_assignsubmission_file_block_tile_v2.cu", "Müller, Jörg", "block_tile_v2.cu"),
        ("limaana_LATE_12345_67890_dp4a.cu", "limaana", "dp4a.cu"),
        ("limaana_12345_67890_03_block_tile-1.cu", "limaana", "03_block_tile-1.cu"),
        ("ana_03.cu", "ana", "03.cu"),
        ("ana-block_tile.cu", "ana", "block_tile.cu"),
        ("ana_block_tile_v2.cu", "ana", "block_tile_v2.cu"),
        ("jörg.müller_dp4a.cu", "jörg.müller", "dp4a.cu"),
        ("王伟_03.cu", "王伟", "03.cu"),
    ],
)
def test_the_student_of_a_loose_file(name: str, owner: str, file: str) -> None:
    found = owner_of(name, LESSONS, loose=True)
    assert (found.name, found.file) == (owner, file)


def test_names_of_lessons_to_come_are_told_apart() -> None:
    lessons = ["15_mma", "17_ragged_mma", "18_wgmma", "19_roles", "20_persistent", "21_clusters", "22_fp8"]
    for name in ("ragged_mma", "wgmma", "roles_v2", "fp8", "persistent", "clusters"):
        assert lesson_named(name, lessons).lesson == next(it for it in lessons if it[3:] in name and it != "15_mma")
    assert lesson_named("mma", lessons).lesson == "15_mma"
    assert lesson_named("wgmma_fp8", lessons).lesson == "18_wgmma"
