"""Pictures of tiles in shared memory, beside the swizzle's own formula; copies of a cluster, beside its launch."""

from __future__ import annotations

import pytest

from checks.simulator.test_wgmma import COMMON, ROLES_SHARED, roles_arguments, roles_source
from gemm_lessons.course.folder import packaged_course
from gemm_lessons.devices.simulated import Simulated
from gemm_lessons.engine import compile as compile_kernel
from gemm_lessons.engine.hardware.sheets import GPUS
from gemm_lessons.engine.pictures.tiles import Share, TileNotes, Tiles
from gemm_lessons.engine.records.launch import Grid
from gemm_lessons.engine.simulator import Simulator
from gemm_lessons.report.view import picture_lines, share_lines
from gemm_lessons.running.pipeline import RunRequest, run_lesson
from gemm_lessons.view import Side, side_of

LINE, CHUNK, ELEMENT = 128, 16, 2  # bytes


@pytest.fixture(scope="module")
def side() -> Side:
    """Lesson clusters: A is K-major, B is transposed, and two blocks share tiles."""
    course, gpu = packaged_course(), GPUS["h200"]
    lesson = course.lesson("clusters")
    path = course.solution(lesson)
    assert path
    outcome = run_lesson(RunRequest(course, lesson, path, Simulated(), gpu, seed=1, beside=False))
    return side_of(outcome, outcome.kernel, gpu, 0)


def test_a_swizzled_tile_with_k_in_rows(side: Side) -> None:
    a, _ = side.tiles.pictures
    assert (a.name, a.transposed, a.start) == ("A", False, 0)
    for place, chunk in enumerate(a.chunks):
        row, position = divmod(place, LINE // CHUNK)
        k = (position ^ row % 8) * CHUNK // ELEMENT  # of the tile: a product reads 16 of them
        assert (chunk.row, chunk.product * 16 + chunk.first) == (row, k)


def test_a_transposed_tile(side: Side) -> None:
    _, b = side.tiles.pictures
    assert (b.name, b.transposed) == ("B", True)
    for place, chunk in enumerate(b.chunks):
        k, position = divmod(place, LINE // CHUNK)
        assert (chunk.product, chunk.row, chunk.first) == (0, k, (position ^ k % 8) * CHUNK // ELEMENT)


def test_a_picture_as_text(side: Side) -> None:
    text = picture_lines(side.tiles.pictures[0])
    assert max(map(len, text)) <= 80
    assert text[4].split() == ["+128", "0:1,8", "0:1,0", "1:1,8", "1:1,0", "2:1,8", "2:1,0", "3:1,8", "3:1,0"]
    line = side.tiles.pictures[0].line
    assert "wgmma" in side.row.source_line(line)
    assert {it.line for it in side.tiles.pictures} == {line}


def test_a_cluster_shares_tiles(side: Side) -> None:
    own = [it for it in side.tiles.shares if it.to == (it.issuer,)]
    shared = [it for it in side.tiles.shares if it.to == (0, 1)]
    assert {it.issuer for it in own} == {it.issuer for it in shared} == {0, 1}
    assert all("map_A" in side.row.source_line(it.line) for it in own)
    assert all("map_B" in side.row.source_line(it.line) for it in shared)
    assert share_lines(side.tiles.shares)[-1].endswith("blocks 0, 1")
    assert not share_lines(own), "each block copies for itself"
    assert not share_lines([])


def observed(source: str, m: int = 128) -> Tiles:
    given, _, _ = roles_arguments(m, 64, 192)
    kernel = compile_kernel(source, "k", arch="sm_90a", include_dirs=[COMMON])
    grid = Grid((1, m // 128, 1), (384, 1, 1), ROLES_SHARED)
    notes = TileNotes()
    compiled = kernel._compiled
    arguments = kernel._given(Simulator(), compiled, given, {})[0]
    Simulator().observe(compiled, grid, arguments, notes)
    return notes.result(compiled.path)


def test_a_tile_without_the_right_swizzle_looks_wrong() -> None:
    """The descriptor decides where a product looks, whatever the copy did."""
    source = roles_source()
    plain = observed(source.replace("| 1ull << 62", ""))
    swizzled = observed(source)
    first = {it.name: it.chunks[:10] for it in swizzled.pictures}
    for name in "AB":
        rows = [(chunk.row, chunk.first) if chunk else None for chunk in first[name]]
        assert rows[:2] == [(0, 0), (0, 8)]
        assert rows[8:10] == [(1, 8), (1, 0)]
        found = next(it for it in plain.pictures if it.name == name).chunks
        assert [(chunk.row, chunk.first) if chunk else None for chunk in found[:10]] != rows
    assert swizzled.shares == tuple(Share(it.line, 0, it.size, (0,)) for it in swizzled.shares)
