"""The lessons' texts as documents: sections, steps, links and drawings. What their numbers and quotes say is tested in
``test_lesson_numbers``, what their code blocks say in ``test_lessons``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from checks.course.lesson_numbers import QUOTE, TABLE, texts
from gemm_lessons.course.folder import todo_marks
from gemm_lessons.course.lesson_toml import load_lesson
from gemm_lessons.judgement.hints import COALESCING, CONFLICTS

each_text = pytest.mark.parametrize("readme", texts(), ids=lambda path: path.parent.name)
# In this order, with others between them. What is new in a lesson has headings of its own.
SECTIONS = (
    "Where we stand",
    "The arithmetic",
    "The steps",
    "Predict",
    "What comes out",
    "Pitfalls",
    "Exercises",
    "Answers",
    "What limits it now",
    "Sources",
)
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def section(text: str, heading: str) -> str:
    """What stands below ``## heading``, to the next heading of that level. Empty without such a heading."""
    match = re.search(rf"^## {re.escape(heading)}$\n(.*?)(?=^## |\Z)", BLOCK.sub(_without_headings, text), re.M | re.S)
    return match[1] if match else ""


def _without_headings(block: re.Match[str]) -> str:
    return block[0].replace("\n#", "\n #")


def numbered(text: str) -> list[int]:
    """The numbers of a numbered list."""
    return [int(number) for number in re.findall(r"^(\d+)\. ", text, re.M)]


def missing_sections(text: str) -> list[str]:
    """The sections that are missing, empty, or in another order than ``SECTIONS``."""
    headings = [heading for heading in re.findall(r"^## (.+)$", text, re.M) if heading in SECTIONS]
    missing = [heading for heading in SECTIONS if not section(text, heading).strip()]
    return missing or ([] if headings == list(SECTIONS) else headings)


def broken_links(text: str, directory: Path) -> list[str]:
    """Relative links and files of ``from:`` comments that lead nowhere."""
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    quoted = re.findall(r"<!-- from: (\S+) -->", text)
    return [link for link in links + quoted if link and not (directory / link).exists()]


@each_text
def test_every_section_is_there(readme: Path) -> None:
    assert not missing_sections(readme.read_text())


@each_text
def test_the_title_names_the_lesson(readme: Path) -> None:
    assert readme.read_text().startswith(f"# {readme.parent.name[:2]} ")


@each_text
def test_one_step_for_each_todo(readme: Path) -> None:
    marks = todo_marks((readme.parent / "stub.cu").read_text())
    assert numbered(section(readme.read_text(), "The steps")) == [mark.number for mark in marks]


@each_text
def test_three_exercises_with_their_answers(readme: Path) -> None:
    text = readme.read_text()
    assert numbered(section(text, "Exercises")) == [1, 2, 3]
    assert TABLE.search(section(text, "Answers")), "an answer is a number, and numbers are computed"


@each_text
def test_every_tile_size_of_an_exercise_is_in_the_toml(readme: Path) -> None:
    """``Set BK = 16`` must name a size that ``[tile]`` has."""
    known = load_lesson(readme.parent).tile.defines
    named = re.findall(r"\b([A-Z_]+) = \d+", section(readme.read_text(), "Exercises"))
    assert set(named) <= known.keys() | {"M", "N", "K"}


@each_text
def test_it_starts_from_a_counter_and_ends_with_one(readme: Path) -> None:
    text = readme.read_text()
    if not readme.parent.name.startswith("01"):  # nothing comes before 01
        assert "numbers: simulator" in section(text, "Where we stand")
    assert "numbers: simulator" in section(text, "What comes out")
    assert "numbers: h200" in section(text, "What comes out")


@each_text
def test_pitfalls_show_what_the_tool_prints(readme: Path) -> None:
    assert len(QUOTE.findall(section(readme.read_text(), "Pitfalls"))) >= 2


@each_text
def test_links_lead_somewhere(readme: Path) -> None:
    assert not broken_links(readme.read_text(), readme.parent)


@each_text
def test_it_draws(readme: Path) -> None:
    drawings = [block for block in BLOCK.findall(readme.read_text()) if re.search(r"[|+]\s*[-|+#]|-->|\.\.\.", block)]
    assert drawings


@pytest.mark.parametrize(("number", "heading"), [COALESCING, CONFLICTS])
def test_the_section_that_a_hint_names_is_there(number: str, heading: str) -> None:
    readme = next(path for path in texts() if path.parent.name.startswith(number))
    assert section(readme.read_text(), heading).strip()


def test_the_checks_notice(tmp_path: Path) -> None:
    text = "# 01 X\n## The steps\n1. one\n2. two\n\n```\n## no heading\n```\n## Sources\n[a](b.md) [w](https://x)\n"
    assert numbered(section(text, "The steps")) == [1, 2]
    assert "no heading" in section(text, "The steps")
    assert "Pitfalls" in missing_sections(text)
    assert broken_links(text + "<!-- from: c.cu -->", tmp_path) == ["b.md", "c.cu"]
