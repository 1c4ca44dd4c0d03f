"""``gemm-lessons dev``, driven through the real binary."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from checks.cli.tiny_course import Run


def test_a_lesson_needs_no_python(run: Run, tmp_path: Path) -> None:
    assert run("init", "mine", cwd=tmp_path).code == 0
    mine = tmp_path / "mine"
    nothing = run("dev", "check", cwd=mine)
    assert nothing.code == 2
    assert "no lesson here has a solution.cu of its own" in nothing.err
    made = run("dev", "new", "42_my_idea", cwd=mine)
    assert made.code == 0, made.err
    assert "gemm-lessons dev check 42" in made.out
    folder = mine / "lessons" / "42_my_idea"
    assert (folder / "README.md").read_text().startswith("# 42 My idea\n")
    assert "$" not in "".join(path.read_text() for path in folder.iterdir())
    text = folder / "README.md"
    text.write_text(text.read_text().replace("20,480", "1"))
    checked = run("dev", "check", "--write", cwd=mine)
    assert checked.code == 1
    assert "lessons/42_my_idea/README.md  filled in" in checked.out
    assert text.read_text().count("20,480") == 2
    assert re.search(r"^lessons/42_my_idea/lesson.toml:2: says REPLACE", checked.out, re.MULTILINE)
    assert checked.out.count("says REPLACE") == 5, "one line for each file"
    assert "skipped" in checked.out
    assert run("list", cwd=mine).code == 0


def test_a_broken_lesson_is_one_message(run: Run, course: Path) -> None:
    (course / "lessons" / "01_first" / "lesson.toml").write_text("title =")
    checked = run("dev", "check", "01")
    assert checked.code == 1
    assert "01_first/lesson.toml:1: not valid TOML" in checked.out
    assert "left out" in checked.out


def test_a_lesson_of_two_launches_and_no_product_is_proven(run: Run, tmp_path: Path) -> None:
    """A row softmax: made by ``dev new``, then written over."""
    assert run("init", "mine", cwd=tmp_path).code == 0
    mine = tmp_path / "mine"
    assert run("dev", "new", "92_row_softmax", cwd=mine).code == 0
    written = Path(__file__).parents[1] / "course" / "kernels" / "92_row_softmax"
    folder = mine / "lessons" / "92_row_softmax"
    assert {path.name for path in folder.iterdir()} == {path.name for path in written.iterdir()}
    shutil.copytree(written, folder, dirs_exist_ok=True)
    checked = run("dev", "check", "92", cwd=mine)
    assert checked.code == 0, checked.out
    assert "92_row_softmax  24 of 24 proven" in checked.out
