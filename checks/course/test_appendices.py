"""Appendices of lessons keep the promises of the texts: their numbers and quotations are true, and a lesson links them.

``gemm-lessons dev check`` proves the same of each README.md.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from gemm_lessons.authoring.numbers import Numbers
from gemm_lessons.authoring.texts import QUOTED_FILE, WIDEST
from gemm_lessons.course.folder import packaged_course
from gemm_lessons.course.text import BLOCK

COURSE = packaged_course()
PATHS = sorted(COURSE.lessons_dir.glob("*_*/APPENDIX.md"))
each_appendix = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.parent.name)


SELDOM = ("23_two_warps", "26_beat_cublas")  # as the numbers of their texts: each takes as long as all others


@pytest.mark.parametrize(
    "path", [pytest.param(it, id=it.parent.name, marks=[pytest.mark.long] * (it.parent.name in SELDOM)) for it in PATHS]
)
def test_numbers_are_what_their_source_gives(path: Path) -> None:
    text = path.read_text()
    assert text == Numbers(COURSE).rewritten(text)


@each_appendix
def test_quoted_code_is_the_code(path: Path) -> None:
    for file, quoted in QUOTED_FILE.findall(path.read_text()):
        assert quoted in (path.parent / file).read_text()


@each_appendix
def test_code_fits_the_terminal(path: Path) -> None:
    assert [
        line for block in BLOCK.findall(path.read_text()) for line in block.splitlines() if len(line) > WIDEST
    ] == []


@each_appendix
def test_the_lesson_links_it(path: Path) -> None:
    assert "](APPENDIX.md)" in (path.parent / "README.md").read_text()
