"""Register reads of inner loops, and how lesson beat_cublas divides the last wave's tiles among blocks."""

from __future__ import annotations

import random

import pytest

from checks.course.loops import compile_loop
from checks.course.tables import ROOT, tables
from gemm_lessons.course.folder import Course
from gemm_lessons.engine.sass.inner_loop import BANK, OTHER, THREE, reads
from gemm_lessons.gemm.shapes import Shape


def loop(words: str) -> dict[str, float]:
    about = tables()["squares"].loops[f"loop 8x8 {words}"]
    return reads(compile_loop(about["entry"], about["tiles"][0]).sass)


@pytest.mark.stored
def test_there_and_back_no_multiply_add_reads_three_registers() -> None:
    """Row by row one in eight does at least: where both factors change."""
    there_and_back, row_by_row = loop("registers"), loop("registers row by row")
    assert there_and_back[THREE] == 0
    assert row_by_row[THREE] >= 12.5
    assert there_and_back[BANK] < 10
    assert there_and_back[OTHER] < 1


def test_the_last_round_is_cut_where_it_is_not_full() -> None:
    """Of lesson beat_cublas: tiles with a block each, tiles of the last round, and the blocks that share these."""
    lesson = Course(ROOT).lesson("beat_cublas")
    tiles = {n: lesson.at(Shape(n, n, n)).tile.defines for n in (1024, 1536, 2048, 3072, 4096, 6144, 8192)}
    assert {n: (it["WHOLE"], it["CUT"], it["WORKERS"]) for n, it in tiles.items()} == {
        1024: (0, 64, 256),
        1536: (0, 144, 264),
        2048: (0, 256, 256),
        3072: (528, 48, 240),
        4096: (792, 232, 264),
        6144: (2112, 192, 264),
        8192: (3960, 136, 264),
    }


def test_every_worker_has_something_to_do() -> None:
    """Also where few K tiles are left for the last round: else a piece is added that nobody has stored."""
    lesson, draw = Course(ROOT).lesson("beat_cublas"), random.Random(1)
    for _ in range(300):
        shape = Shape(64 * draw.randint(1, 40), 256 * draw.randint(1, 12), 32 * draw.randint(1, 40))
        tile = lesson.at(shape).tile.defines
        assert 1 <= tile["WORKERS"] <= tile["CUT"] * (shape.k // tile["BK"])
