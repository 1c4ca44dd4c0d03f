"""The parts of a course: course.toml, the list, entering the course anywhere, and folders from before a move."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from checks import forks
from checks.cli.tiny_course import environment
from gemm_lessons.course.carry_over import carried_over
from gemm_lessons.course.course_toml import CourseFacts, PartOfToml, load_course_toml, parts_of
from gemm_lessons.course.folder import Course, init_course, packaged_course
from gemm_lessons.course.lesson import LessonError
from gemm_lessons.course.progress import LessonProgress, Progress, load_progress, save_progress

PACKAGE = packaged_course()
PASSED = LessonProgress(passed=True)


@pytest.fixture
def old(tmp_path: Path) -> Course:
    """A learner's folder from before the move: kernels in two of the lessons that moved and in one that did not."""
    course = init_course(tmp_path / "mine")
    for name in ("two_warps", "mma"):
        now = PACKAGE.named(name)
        before = next(it for it in PACKAGE.facts.former if it[3:] == name)
        (course.lessons_dir / str(now)).rename(course.lessons_dir / before)
        (course.lessons_dir / before / "kernel.cu").write_text(f"// my {name}\n")
    (course.lessons_dir / "03_block_tile" / "kernel.cu").write_text("// my tile\n")
    (course.lessons_dir / "17_mma" / "kernel.cu.bak-1").write_text("// an older one\n")
    (course.lessons_dir / "17_mma" / "lesson.toml").write_text("# as it was\n")
    (course.lessons_dir / "common" / "mine.cuh").write_text("// my header\n")
    (course.lessons_dir / "77_own").mkdir()
    (course.lessons_dir / "77_own" / "lesson.toml").write_text("# my lesson\n")
    save_progress(course, Progress({"17_mma": PASSED, "03_block_tile": PASSED}, "17_mma"))
    return Course(course.root)


def test_every_lesson_is_in_one_part_in_the_order_of_the_numbers() -> None:
    parts = PACKAGE.parts
    assert all(part.number and part.builds_on for part in parts)
    assert tuple(name for part in parts for name in part.names) == PACKAGE.names


def test_lessons_of_no_part_come_last_and_absent_ones_are_passed_over() -> None:
    facts = CourseFacts(parts=(PartOfToml("One", "C.", ("b", "gone")), PartOfToml("Two", "C.", ("gone2",))))
    found = parts_of(facts, ("01_a", "02_b"))
    assert [(part.number, part.names) for part in found] == [(1, ("02_b",)), (0, ("01_a",))]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[[parts]]\ntitle = "One"\nlessons = []', "3: .*builds_on: is missing"),
        ('[[parts]]\ntitle = "One"\nbuilds_on = "C."\nlessons = "naive"', "6: .*must be a list of names"),
        ('[[parts]]\ntitle = "One"\nbuilds_on = "C."\nlessons = ["a"]\nmore = 1', "7: .*unknown key"),
        ('former = "12_two_warps"', "3: .*must be a list of names"),
    ],
)
def test_a_mistake_in_course_toml_is_told_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "course.toml").write_text(f'architecture = "sm_90"\n\n{text}\n')
    with pytest.raises(LessonError, match=f"course.toml:{says}"):
        load_course_toml(tmp_path)


def test_a_lesson_in_two_parts_is_told(tmp_path: Path) -> None:
    part = '[[parts]]\ntitle = "One"\nbuilds_on = "C."\nlessons = ["a"]\n'
    (tmp_path / "course.toml").write_text(f'architecture = "sm_90"\n{part}{part}')
    with pytest.raises(LessonError, match=r"course.toml:9: .*a is in part 1 already"):
        load_course_toml(tmp_path)


def test_the_next_lesson_follows_the_recent_one() -> None:
    """A learner can enter at any part: earlier lessons come again only when all later ones are passed."""
    names = ("01_a", "02_b", "03_c", "04_d")
    assert Progress().next_open(names) == "01_a"
    assert Progress({"03_c": PASSED}, "03_c").next_open(names) == "04_d"
    assert Progress({"03_c": PASSED, "04_d": PASSED}, "04_d").next_open(names) == "01_a"
    assert Progress(dict.fromkeys(names, PASSED), "04_d").next_open(names) is None


def test_an_older_folder_is_carried_over(old: Course) -> None:
    done = carried_over(old)
    assert done.note is None
    assert done.moved == (("12_two_warps", "23_two_warps"), ("17_mma", "15_mma"))
    now = Course(old.root)
    assert now.names == (*PACKAGE.names, "77_own")
    lessons = now.lessons_dir
    assert (lessons / "15_mma" / "kernel.cu").read_text() == "// my mma\n"
    assert (lessons / "15_mma" / "kernel.cu.bak-1").read_text() == "// an older one\n"
    assert (lessons / "23_two_warps" / "kernel.cu").read_text() == "// my two_warps\n"
    assert (lessons / "03_block_tile" / "kernel.cu").read_text() == "// my tile\n"
    assert (lessons / "common" / "mine.cuh").exists()
    assert (lessons / "15_mma" / "lesson.toml").read_bytes() == PACKAGE.lesson("mma").toml_path.read_bytes()
    assert (done.backup / "17_mma" / "lesson.toml").read_text() == "# as it was\n"
    progress = load_progress(now)
    assert progress.recent == "15_mma"
    assert progress.of("15_mma").passed
    assert progress.of("03_block_tile").passed
    assert carried_over(now) is None


def test_authors_folders_and_current_ones_stay(old: Course, tmp_path: Path) -> None:
    (old.lessons_dir / "17_mma" / "solution.cu").write_text("// an author's\n")
    assert carried_over(old) is None
    assert carried_over(init_course(tmp_path / "new")) is None


def test_a_folder_that_cannot_be_carried_over_is_still_complete(old: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", str(old.root))

    before = sorted(old.root.rglob("*"))
    monkeypatch.setattr(shutil, "copy2", full)
    with pytest.raises(Exception, match="no space left"):
        carried_over(old)
    assert sorted(old.root.rglob("*")) == before


def test_the_first_command_says_in_one_sentence_what_moved(old: Course) -> None:
    done = forks.run(["list", "--no-color"], cwd=old.root, env=environment())
    assert done.returncode == 3  # 77_own has no proper lesson.toml
    assert "17_mma is now 15_mma" in done.stderr
    assert "kept as lessons.bak-1" in done.stderr
    assert re.search(r"passed +15_mma", done.stdout)
    assert re.search(r"^Part 3  Tensor cores$", done.stdout, re.MULTILINE)
    again = forks.run(["list", "--no-color"], cwd=old.root, env=environment())
    assert "is now" not in again.stderr
