"""What pictures show is what the counters counted: the same wavefronts, sectors and clocks, line by line."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from gemm_lessons.engine.costs import banks
from gemm_lessons.engine.pictures.accesses import Request, Stores, bank_map
from gemm_lessons.engine.records.elements import ELEMENTS
from gemm_lessons.engine.records.metrics import METRICS
from gemm_lessons.gemm.data import BufferLayout
from gemm_lessons.report.console import THEME
from gemm_lessons.report.view import element, show_line
from gemm_lessons.view import Side, View
from gemm_lessons.view.owners import NO_THREAD, owners

WORDS = Request(
    "k.cu", 1, "shared", "load", False, 4, "LDS R1, [R2]", "As", 0, 0, tuple(range(0, 128, 4)), cost=1, ideal=1
)
PATTERNS = {
    "neighbours": range(0, 128, 4),
    "one word": [8] * 32,
    "every second word": range(0, 256, 8),
    "a column of 32": range(0, 32 * 128, 128),
    "padded": range(0, 32 * 132, 132),
}


@pytest.fixture(scope="module", params=["clean", "conflicting"])
def side(request: pytest.FixtureRequest) -> Side:
    return request.getfixturevalue(request.param)


def test_a_page_shows_what_was_counted(side: Side) -> None:
    """Block 0 does what the other three do: four times its requests are the launch's counters."""
    of_memory = {"shared_wavefronts": "shared", "global_load_sectors": "global", "global_store_sectors": "global"}
    compared = 0
    for count in side.counts:
        for short, space in of_memory.items():
            if count.metric == METRICS[short]:
                requests = [it for it in side.requests_of(count.line) if it.space == space]
                assert 4 * sum(it.times * it.cost for it in requests) == count.value, (count.line, short)
                assert 4 * sum(it.times * it.ideal for it in requests) == count.ideal, (count.line, short)
                compared += 1
    assert compared > 6


def test_nothing_is_left_out(side: Side) -> None:
    assert not side.notes
    assert not side.missing
    assert side.owners
    assert side.timeline


def test_conflicts_are_where_they_were_found(clean: Side, conflicting: Side) -> None:
    wasted = {it.line for it in conflicting.requests if it.space == "shared" and it.cost > it.ideal}
    assert wasted == {it.line for it in conflicting.row.checked.counters.conflicts}
    assert wasted
    assert not {it.line for it in clean.requests if it.space == "shared" and it.cost > it.ideal}


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("width", [4, 8, 16])
@pytest.mark.parametrize("effect", ["store", "atomic"])
def test_a_map_has_as_many_turns_as_wavefronts(name, width, effect) -> None:
    """The rule of ``engine/costs/banks.py`` without the discount for wide loads, which no map draws."""
    if effect == "atomic" and width > 4:
        return
    lanes = np.array(PATTERNS[name]) * width // 4
    cost, _ = banks.wavefronts(lanes[None, :], None, width, effect)
    request = replace(WORDS, effect=effect, width=width, lanes=tuple(lanes.tolist()))
    assert bank_map(request).joined == cost[0]


def test_the_marks_of_a_map() -> None:
    lanes = (0, 0, 128, None, *range(16, 128, 4))
    drawn = bank_map(replace(WORDS, lanes=lanes, start=4))
    first, same, other, nobody = (drawn.lanes[lane] for lane in range(4))
    assert [(cell.bank, cell.turn, cell.again) for cell in (*first, *same, *other)] == [
        (1, 1, False), (1, 1, True), (1, 2, False)
    ]  # fmt: skip
    assert nobody == ()
    assert drawn.turns == (2,)


def test_who_owns_what(clean: Side) -> None:
    """Four pieces of 4 x 4 for each thread of 16 x 16: thread 17 has row 4 and column 4 of each quarter's piece."""
    owned = clean.owners
    assert (owned.buffer, owned.row, owned.col, len(owned.runs), owned.cols, owned.twice) == ("C", 0, 0, 128, 128, 0)
    mine = [(row, col) for row in range(128) for col in range(128) if owned.thread(row, col) == 17]
    assert len(mine) == 64
    rows, cols = sorted({row for row, _ in mine}), sorted({col for _, col in mine})
    assert cols == [*range(4, 8), *range(68, 72)]
    assert len(rows) == 8


def test_two_owners_and_none() -> None:
    layout = BufferLayout("C", ELEMENTS["float32"], 1, 2, 4, 6, "row", "out", "poison", 2)
    stores = Stores()
    lanes = np.array([[1024, 1024, 1024 + 24]])
    stores.add(lanes, np.array([[True, True, True]]), 4)
    stores.add(lanes[:, 2:], np.array([[True]]), 8)
    owned = owners(stores, layout, 1024)
    assert owned.twice == 2, "two lanes at once; another thread later"
    assert [owned.thread(1, col) for col in range(2)] == [0, 0]
    assert owned.thread(0, 1) == NO_THREAD
    assert owners(Stores(), layout, 1024) is None


def test_a_line_in_the_terminal(conflicting: Side) -> None:
    worst = conflicting.row.checked.counters.conflicts[0]
    for width in (80, 120):
        out = io.StringIO()
        show_line(Console(file=out, width=width, theme=THEME), conflicting, worst.line)
        text = out.getvalue()
        assert conflicting.row.source_line(worst.line) in text
        assert "lane 31" in text
        assert max(map(len, text.splitlines()[1:])) <= width
        (heading,) = [line for line in text.splitlines() if "warp 0:" in line][:1]
        assert "wavefronts" in heading
        assert "would do" in heading


def test_elements_have_rows_and_columns(clean: Side) -> None:
    a = next(place for place in clean.places if place.name == "A")
    k = int(clean.size.rpartition("x")[2])
    assert a.strides == (k, 1)
    assert element(a, 4 * (k + 3)) == "[1, 3]"
    assert element(replace(a, strides=(1, k)), 4 * (k + 3)) == "[3, 1]"
    assert element(replace(a, strides=(12, 4, 1)), 4 * 23) == "[1, 2, 3]"
    assert element(None, 12) == " byte 12"


def test_before_it_passes_a_kernel_stands_beside_what_was_solved_before(seen: View) -> None:
    assert [side.row.role for side in seen.sides] == ["kernel", "previous"]
    assert seen.roofline is not None
    assert {dot.label for dot in seen.roofline.dots} == {row.label for row in seen.outcome.rows}
    for dot, row in zip(seen.roofline.dots, seen.outcome.rows, strict=True):
        assert dot.tflops == pytest.approx(row.speed.estimate.gflops / 1e3)
