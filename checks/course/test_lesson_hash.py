"""The hash that results carry: the same wherever the course lies, another one when anything that judges changes."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest

from gemm_lessons.course.folder import Course, packaged_course
from gemm_lessons.grading import lesson_hash as module
from gemm_lessons.grading.lesson_hash import lesson_hash


@pytest.fixture
def course(tmp_path: Path) -> Course:
    original = packaged_course()
    copytree(original.lessons_dir / "common", tmp_path / "lessons" / "common")
    for name in ("03_block_tile", "05_thread_tile"):
        copytree(original.lessons_dir / name, tmp_path / "lessons" / name, ignore=ignore_patterns("kernel.cu*"))
    (tmp_path / "lessons" / "course.toml").write_bytes((original.lessons_dir / "course.toml").read_bytes())
    return Course(tmp_path)


def test_it_does_not_depend_on_where_the_course_lies(course: Course) -> None:
    for name in course.names:
        assert lesson_hash(course.lesson(name)) == lesson_hash(packaged_course().lesson(name))
    assert lesson_hash(course.lesson("block_tile")) != lesson_hash(course.lesson("thread_tile"))


@pytest.mark.parametrize(
    "file",
    ["course.toml", "common/matrix.cuh", "03_block_tile/lesson.toml", "03_block_tile/solution.cu"],
)
def test_what_judges_changes_it(course: Course, file: str) -> None:
    before = lesson_hash(course.lesson("block_tile"))
    path = course.lessons_dir / file
    path.write_text(path.read_text() + "\n")
    assert lesson_hash(course.lesson("block_tile")) != before


def test_a_new_header_and_the_kits_own_change_it(
    course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = lesson_hash(course.lesson("block_tile"))
    (course.lessons_dir / "03_block_tile" / "mine.cuh").write_text("")
    with_header = lesson_hash(course.lesson("block_tile"))
    assert with_header != before
    assert module.KIT_HEADERS.joinpath("math.h").is_file()
    monkeypatch.setattr(module, "KIT_HEADERS", tmp_path / "none")
    assert lesson_hash(course.lesson("block_tile")) != with_header


def test_texts_and_a_students_kernel_do_not_change_it(course: Course) -> None:
    before = lesson_hash(course.lesson("block_tile"))
    for name in ("README.md", "kernel.cu", "predict.toml"):
        (course.lessons_dir / "03_block_tile" / name).write_text("something else")
    assert lesson_hash(course.lesson("block_tile")) == before
