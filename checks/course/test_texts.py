"""House rules of this course's texts, beside what ``gemm-lessons dev check`` asks of every lesson."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from gemm_lessons.authoring.candidate import Candidate, Shared
from gemm_lessons.authoring.numbers import FILES, TABLE
from gemm_lessons.authoring.pitfalls import QUOTE
from gemm_lessons.authoring.texts import ends_with_the_idea
from gemm_lessons.course.folder import packaged_course
from gemm_lessons.course.lesson_toml import load_lesson
from gemm_lessons.course.pitfalls import bugs_of
from gemm_lessons.course.questions import load_questions
from gemm_lessons.course.text import BLOCK, numbered, section
from gemm_lessons.engine.report.sentences import templates
from gemm_lessons.judging.hints import COALESCING, CONFLICTS
from gemm_lessons.report.markdown import Page

MEASURED = "|".join(set(FILES) - {"ncu", "precision"})
LINK = re.compile(r"\]\([^)]*\)")  # a link's address
TEXTS = sorted(packaged_course().lessons_dir.glob("*_*/README.md"))
each_text = pytest.mark.parametrize("readme", TEXTS, ids=lambda path: path.parent.name)
# Only products are measured beside cuBLAS.
each_measured_text = pytest.mark.parametrize(
    "readme",
    [path for path in TEXTS if load_lesson(path.parent).data.multiplies],
    ids=lambda path: path.parent.name,
)


@each_text
def test_three_exercises_with_their_answers(readme: Path) -> None:
    text = readme.read_text()
    assert numbered(section(text, "Exercises")) == [1, 2, 3]
    assert TABLE.search(section(text, "Answers")), "an answer is a number, and numbers are computed"


@each_text
def test_it_has_at_most_three_thousand_words(readme: Path) -> None:
    assert len(readme.read_text().split()) <= 3000, "move what a first pass does not need to APPENDIX.md"


@each_text
def test_its_minutes_are_reading_and_ten_to_twenty_five_of_work(readme: Path) -> None:
    minutes, reading = load_lesson(readme.parent).minutes, len(readme.read_text().split()) / 180
    assert minutes is not None
    assert minutes % 5 == 0
    assert 7.5 <= minutes - reading <= 27.5, "rounded to 5"


@each_text
def test_it_ends_with_the_words_that_list_shows(readme: Path, tmp_path: Path) -> None:
    lesson = load_lesson(readme.parent)
    assert not [*ends_with_the_idea(Candidate(Shared.of(packaged_course(), str, ()), lesson, tmp_path))]


@each_text
def test_it_starts_from_a_counter_and_ends_with_one(readme: Path) -> None:
    text = readme.read_text()
    if readme != TEXTS[0]:  # nothing comes before the first
        assert "numbers: simulator" in section(text, "Where we stand")
    assert "numbers: simulator" in section(text, "What comes out")


@each_measured_text
def test_it_ends_with_a_measured_time(readme: Path) -> None:
    assert re.search(rf"numbers: ({MEASURED}) ", section(readme.read_text(), "What comes out"))


@each_text
def test_counters_are_of_the_shape_that_the_lesson_counts_on(readme: Path) -> None:
    """A text that counts at another shape than the previous lesson says so where it begins."""
    text, shape = readme.read_text(), load_lesson(readme.parent).shapes.count
    counted = re.findall(r"numbers: simulator (\S+)", section(text, "Where we stand") + section(text, "What comes out"))
    assert set(counted) == {f"{shape.m},{shape.n},{shape.k}"}
    at = TEXTS.index(readme)
    before = load_lesson(TEXTS[at - 1].parent).shapes.count if at else shape
    if before != shape:
        told = section(text, "Where we stand")
        assert f"{shape.m}, {shape.n}, {shape.k}" in told, "say which shape the lesson counts at"


@each_measured_text
def test_a_table_of_times_says_whether_the_cache_was_warm(readme: Path) -> None:
    tables = re.findall(rf"<!-- numbers: (?:{MEASURED}) (cold|warm) \w+ -->\n\|([^|]*)\|", readme.read_text())
    assert tables
    assert all(way in first for way, first in tables)


@each_text
def test_pitfalls_show_what_the_tool_prints(readme: Path) -> None:
    assert len(QUOTE.findall(section(readme.read_text(), "Pitfalls"))) >= 2


STARTS = re.compile(r"\.\.\.|[A-Z0-9]|[a-z ]+: |missed ")  # a sentence, a number, a finding, a row of a table
ENDS = re.compile(r"[.:;?)]$|\S {2,}\S|^[A-Z]{2,}")  # a sentence, a row of a table, a verdict


def last_words(text: str) -> tuple[str, ...]:
    """Return the last two words, with # for each number and for each field of a template that does not end it."""
    return tuple(re.sub(r"\{[^}]*\}|[\d,]*\d", "#", re.sub(r"([\[|]?\{[^}]*\}\]?)+$", "", text)).split()[-2:])


ENDS_OF_FINDINGS = {last_words(template) for template in templates().values()}


@each_text
def test_a_quote_that_starts_or_stops_in_mid_sentence_says_so(readme: Path) -> None:
    """It has ``...`` there: readers must not look for a sentence that goes on elsewhere."""
    for name, block in QUOTE.findall(readme.read_text()):
        lines = [line.strip() for line in block.splitlines() if line.strip()]
        assert STARTS.match(lines[0]), f"{name}: {lines[0]}"
        end = last_words(" ".join(lines))
        assert ENDS.search(lines[-1]) or end in ENDS_OF_FINDINGS, f"{name}: {lines[-1]}"


@each_text
def test_it_asks_before_the_run_and_has_bugs_to_find(readme: Path) -> None:
    """That each can be answered, and that each can be found, is proven by ``dev check``."""
    lesson = load_lesson(readme.parent)
    assert len(load_questions(lesson)) >= 3
    assert len(bugs_of(packaged_course(), lesson)) >= 4


@each_text
def test_it_draws(readme: Path) -> None:
    drawings = [block for block in BLOCK.findall(readme.read_text()) if re.search(r"[|+]\s*[-|+#]|-->|\.\.\.", block)]
    assert drawings


@pytest.mark.parametrize(("name", "heading"), [COALESCING, CONFLICTS])
def test_the_section_that_a_hint_names_is_there(name: str, heading: str) -> None:
    readme = next(path for path in TEXTS if path.parent.name[3:] == name)
    assert section(readme.read_text(), heading).strip()


@each_text
def test_no_name_in_a_table_is_cut_or_split_at_80_columns(readme: Path) -> None:
    """Each table alone: elsewhere in the text the name may be whole."""
    for table in re.findall(r"(?:^\|.*\n)+", readme.read_text(), re.MULTILINE):
        console = Console(width=80, file=StringIO())
        with console.capture() as capture:
            console.print(Page(table))
        shown = capture.get()
        assert "\N{HORIZONTAL ELLIPSIS}" not in shown
        assert {*re.findall(r"\w+", LINK.sub("]", table))} <= {*re.findall(r"\w+", shown)}
