"""Drawings of characters as SVG: what is a line is drawn, what is a word stays one, and nothing is lost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from gemm_lessons.course.folder import packaged_course
from gemm_lessons.report.drawing import HIGH, WIDE, Cell, drawing, rows_of, strokes

TEXTS = sorted(packaged_course().lessons_dir.glob("*/*.md"))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"^ *(\$ )?gemm-lessons |^(PASSED|FAULTED|WRONG|GATE|race:|error:|Looks like)|[;{]$", re.MULTILINE)


def blocks(path: Path) -> Iterator[tuple[str, str]]:
    yield from FENCE.findall(path.read_text())


def touched(svg: ElementTree.Element) -> set[Cell]:
    """The cells in which something is drawn."""
    cells = set()
    for path in svg.iter("path"):
        for part in re.split(r"(?=M)", path.get("d", ""))[1:]:
            at = [float(number) for number in re.findall(r"[\d.]+", part)]
            for i in range(101):  # along the line, or from tip to middle of a head
                share = i / 100
                end_x, end_y = at[2:4] if len(at) == 4 else ((at[2] + at[4]) / 2, (at[3] + at[5]) / 2)
                x, y = at[0] + share * (end_x - at[0]), at[1] + share * (end_y - at[1])
                cells.add((int(y // HIGH), int(x // WIDE)))
    for area in svg.iter("rect"):
        x, y, width, height = (float(area.get(name, "")) for name in ("x", "y", "width", "height"))
        rows, columns = (
            range(int(y // HIGH), int(-(-(y + height) // HIGH))),
            range(int(-(-x // WIDE)), int((x + width) // WIDE)),
        )
        cells |= {(row, column) for row in rows for column in columns}
    return cells


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.parent.name if path.stem == "README" else path.stem)
def test_every_character_is_drawn_or_stands_in_its_place(path: Path) -> None:
    for language, text in blocks(path):
        if language != "drawing":
            continue
        svg, rows = ElementTree.fromstring(drawing(text)), rows_of(text)
        placed: dict[Cell, str] = {}
        for element in svg.iter("text"):
            word = element.text or ""
            y, x = int(float(element.get("y", "")) // HIGH), int(element.get("x", "")) // WIDE
            assert element.get("textLength") == str(len(word) * WIDE)
            placed |= {(y, x + i): char for i, char in enumerate(word) if char != " "}
            assert word in str(svg.get("aria-label"))
        drawn, found = touched(svg), strokes(rows)
        for y, row in enumerate(rows):
            for x, char in enumerate(row):
                if char != " ":
                    assert (placed.pop((y, x), None) == char) != ((y, x) in found), f"{char} of {row}"
                    assert (y, x) in drawn or (y, x) not in found, f"{char} of {row}"
        assert not placed
        assert svg.get("role") == "img"


def test_drawings_are_marked_and_nothing_else_is() -> None:
    marked = [(path, text) for path in TEXTS for language, text in blocks(path) if language == "drawing"]
    assert len(marked) > 30
    assert not [(path.parent.name, text) for path, text in marked if SHOWN.search(text)]
    for path in TEXTS:
        for language, text in blocks(path):
            rows = rows_of(text)
            found = strokes(rows)
            lines = [row for y, row in enumerate(rows) if any((y, x) in found for x in range(len(row)))]
            assert language or not lines, f"{path}: a drawing without its mark: {lines}"


@pytest.mark.parametrize(
    "words",
    [
        "k0 += BK", "a->b", "p[0]->b", "1 - now", "M-1 0-3", "i--; --j", "x<-1", "run --file a.cu", "a ^ b", "vec v",
        "a < b > c", "BM / BN", "+a0b0 +a1b0", "C+-1", "--grid 4 --block 256", "a \\", "#pragma unroll", "-1 + -x",
    ],
)  # fmt: skip
def test_words_and_code_stay_text(words: str) -> None:
    assert [it.text for it in ElementTree.fromstring(drawing(words)).iter("text")] == [words]


def test_a_box_with_an_arrow_is_four_lines_and_a_head() -> None:
    svg = drawing("+---+\n| B |-->|\n+---+   v")
    (lines,) = re.findall('class="line" d="([^"]*)"', svg)
    (heads,) = re.findall('class="head" d="([^"]*)"', svg)
    middle = HIGH * 1.5
    assert set(re.findall(r"M[^M]+", lines)) == {
        "M4 8.5L36 8.5", f"M4 {HIGH * 2.5:g}L36 {HIGH * 2.5:g}", "M4 8.5L4 42.5", "M36 8.5L36 42.5",
        f"M36 {middle:g}L60 {middle:g}", "M68 17L68 42.5",
    }  # fmt: skip
    assert heads == f"M68 {middle:g}L60 {middle + 4:g}L60 {middle - 4:g}ZM68 51L72 43L64 43Z"
    assert re.findall(">([^<>]+)<", svg) == ["B"]


def test_box_characters_slopes_and_areas() -> None:
    found = strokes(rows_of("┌─┬─┐\n│##│\n└─┴─┘\n  /\n /\n"))
    assert {cell: set(arms) for cell, arms in found.lines.items() if cell in ((0, 0), (0, 2), (2, 4))} == {
        (0, 0): set("dr"), (0, 2): set("dlr"), (2, 4): set("ul"),
    }  # fmt: skip
    assert found.slopes == {(3, 2): "/", (4, 1): "/"}
    assert found.fills == {(1, 1), (1, 2)}
    assert (
        drawing("+--+\n|##|\n+--+").count(f'<rect class="area" x="4" y="{HIGH / 2}" width="24" height="{HIGH * 2}"')
        == 1
    )
