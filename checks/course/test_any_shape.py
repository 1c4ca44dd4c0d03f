"""Lesson any_shape: which tile the host chooses, and the answers of one that no small shape gets."""

from __future__ import annotations

import json

import pytest

from checks.forks import run
from gemm_lessons.course.folder import packaged_course
from gemm_lessons.gemm.shapes import Shape

LESSON = packaged_course().lesson("any_shape")


@pytest.mark.parametrize(
    ("size", "layout", "tile"),
    [
        (4095, "NN", (64, 128, 8, 4)),
        (4095, "NT", (128, 128, 8, 2)),
        (4095, "TN", (64, 128, 8, 4)),
        (4095, "TT", (128, 64, 8, 4)),
        (4097, "NN", (64, 128, 8, 4)),
        (4097, "TN", (96, 128, 12, 3)),
        (4097, "TT", (96, 128, 12, 3)),
        (4100, "TN", (64, 128, 8, 4)),
        (1023, "TT", (64, 128, 8, 2)),
    ],
)
def test_which_tile_is_chosen(size: int, layout: str, tile: tuple[int, ...]) -> None:
    """Rows and columns of a block, rows of a thread, blocks on a multiprocessor."""
    chosen = LESSON.at(Shape(size, size, size, layout=layout)).tile.defines
    assert tuple(chosen[name] for name in ("BM", "BN", "TM", "BLOCKS_PER_SM")) == tile


def test_checks_have_blocks_of_96_rows_and_the_mirrored_tile() -> None:
    """A kernel with 8 x 8 sums written into it passed otherwise, and was wrong where the host asks for 12 x 8; one with
    BN = 128 at large TT."""
    tiles = {tuple(LESSON.at(shape).tile.defines[name] for name in ("BM", "BN")) for shape in LESSON.shapes.check}
    assert tiles == {(64, 128), (96, 128), (128, 64)}


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["TN", pytest.param("TT", marks=pytest.mark.long)])
def test_blocks_of_96_rows_answer_rightly(layout: str) -> None:
    """One row of blocks instead of two: two waves become one."""
    shape = Shape(65, 33797, 9, layout=layout)
    assert LESSON.at(shape).tile.defines["BM"] == 96
    done = run(["run", "any_shape", "--solution", "--layout", layout, "--shape", "65,33797,9", "--json"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["verdict"] == "passed"
