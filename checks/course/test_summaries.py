"""What ``list`` shows is kept on disk: a right course is read once, and a wrong file is reported every time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gemm_lessons.course import lesson_toml
from gemm_lessons.course.folder import Course, copy_for_learners, packaged_course
from gemm_lessons.course.lesson import Lesson, LessonError, LessonSummary
from gemm_lessons.course.summaries import PACKAGE, READERS


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Course:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("GEMM_LESSONS_NO_CACHE", raising=False)
    copy_for_learners(packaged_course(), tmp_path / "lessons")
    return Course(tmp_path)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the lessons that are read."""
    names: list[str] = []
    load = lesson_toml.load_lesson

    def noted(directory: Path) -> Lesson:
        names.append(directory.name)
        return load(directory)

    monkeypatch.setattr(lesson_toml, "load_lesson", noted)
    return names


def test_they_say_what_the_lessons_say(course: Course) -> None:
    first, again = course.summaries(), course.summaries()
    assert first == again
    for name, lesson in course.all_lessons().items():
        assert isinstance(lesson, Lesson)
        assert again[name] == LessonSummary(lesson.idea, lesson.minutes)


def test_a_right_course_is_read_once(course: Course, read: list[str]) -> None:
    course.summaries()
    assert read == list(course.names)
    read.clear()
    course.summaries()
    assert not read


def test_a_wrong_lesson_is_reported_every_time(course: Course, read: list[str]) -> None:
    name = course.names[3]
    path = course.lessons_dir / name / "lesson.toml"
    course.summaries()
    right = path.read_text()
    path.write_text(right.replace("[shapes]", "[shape]"))
    for _ in range(3):
        read.clear()
        found = course.summaries()[name]
        assert isinstance(found, LessonError)
        assert f"{path}:" in str(found)
    assert read == [name]
    path.write_text(right)
    assert isinstance(course.summaries()[name], LessonSummary)


def test_a_wrong_course_toml_is_reported_every_time(course: Course) -> None:
    """Every lesson reads its gates."""
    path = course.lessons_dir / "course.toml"
    course.summaries()
    path.write_text(path.read_text() + "\n[[integrity]]\nid = 3\n")
    for _ in range(2):
        assert any(isinstance(found, LessonError) for found in course.summaries().values())


def test_without_a_cache_they_are_read(course: Course, monkeypatch: pytest.MonkeyPatch, read: list[str]) -> None:
    monkeypatch.setenv("GEMM_LESSONS_NO_CACHE", "1")
    for _ in range(2):
        course.summaries()
    assert read == 2 * list(course.names)


def test_every_module_that_reads_a_lesson_is_part_of_the_key() -> None:
    code = (
        "import sys\n"
        "from gemm_lessons.course.folder import packaged_course\n"
        "packaged_course().all_lessons()\n"
        "print(*(it.__file__ for name, it in sys.modules.items() if name.startswith('gemm_lessons.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    rooms = {Path(file).relative_to(PACKAGE).parts[0] for file in done.stdout.split()}
    assert rooms - {"__init__.py"} == set(READERS)
