"""Pictures of real numbers: what is written on them, and that the same points give the same file."""

from __future__ import annotations

import importlib.util
import itertools
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.readings import FOLDER
from gemm_lessons.commands.points import Point, grouped, read
from gemm_lessons.course.folder import CommandError, WriteError
from gemm_lessons.engine.hardware.sheets import find_gpu
from gemm_lessons.engine.records.errors import KitError
from gemm_lessons.report import plot

POINTS = read(FOLDER / "gpu" / "bench_h200.csv")
ESTIMATES = [
    replace(point, kind="estimated", gpu="H200", of_cublas=None) for point in POINTS if point.series != "cuBLAS"
]
H200 = find_gpu("h200")
KERNELS = sorted({point.series for point in POINTS} - {"cuBLAS"})
TYPES = dict.fromkeys(KERNELS, "fp32")
FEW = [point for point in POINTS if point.series in ("cuBLAS", KERNELS[-1])]


def words(points: list[Point]) -> list[str]:
    from matplotlib.text import Text

    figure = plot.figure_of(points, H200)
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def test_measurements_name_gpu_library_and_every_kernel() -> None:
    found = words(POINTS)
    assert "Measured on NVIDIA H200: medians, M = N = K, L2 cold. cuBLAS 13.1.0, driver 580.159.04, 2026-11-21" in found
    assert "Share of cuBLAS in the same run" in found
    first, last = KERNELS[0], KERNELS[-1]
    for name in (first.replace("_", " "), last.replace("_", " "), "cuBLAS"):
        assert found.count(name) == 2, "once in each of the two panels over sizes"
    assert {first[:2], last[:2]} <= set(found), "points of the roofline"
    assert any(text.startswith("fp32 peak 66.9 TFLOP/s") for text in found)
    assert any(text.startswith("shared memory and L1: 33.5 TB/s") for text in found)


def test_estimates_say_that_nothing_was_timed() -> None:
    found = words(ESTIMATES)
    assert found.count("cuBLAS") == 0
    assert any("nothing was timed" in text for text in found)
    assert "Share of the data sheet's peak, estimated" in found
    assert not any("Measured" in text for text in found)


@pytest.mark.parametrize("suffix", plot.FORMATS)
def test_files(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "deep" / f"picture{suffix}"
    plot.draw(grouped(FEW, TYPES), path, H200)
    start = path.read_bytes()[:5]
    if suffix == ".svg":
        root = ElementTree.parse(path).getroot()
        assert root.tag.endswith("svg")
        plot.draw(grouped(FEW, TYPES), tmp_path / "again.svg", H200)
        assert (tmp_path / "again.svg").read_bytes() == path.read_bytes()
    else:
        assert start == {".png": b"\x89PNG\r", ".pdf": b"%PDF-"}[suffix]


@pytest.mark.parametrize(
    "points",
    [
        [POINTS[0]],  # one point
        [replace(point, flop_per_byte=None) for point in POINTS],
        [point for point in POINTS if point.series == "cuBLAS"],
    ],
)
def test_little_to_draw_is_drawn(points: list[Point]) -> None:
    for gpu in (H200, None):
        assert plot.figure_of(points, gpu).axes


def test_nothing_to_draw(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="nothing to plot"):
        plot.draw([], tmp_path / "x.svg", H200)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError):
        plot.draw(grouped(POINTS[:9], TYPES), tmp_path / "file" / "x.png", None)


def test_what_drawing_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    plot.need_matplotlib(Path("x.SVG"))
    with pytest.raises(CommandError, match=r"ends in \.svg, \.png, \.pdf"):
        plot.need_matplotlib(Path("x.gif"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(KitError, match=r"gemm-lessons\[plot\]"):
        plot.need_matplotlib(Path("x.svg"))


@given(st.lists(st.floats(0, 100), max_size=12).map(sorted))
def test_names_are_spread_out(heights: list[float]) -> None:
    placed = plot.spread_out(heights, 5.0, 100.0)
    assert all(after - before >= 5.0 - 1e-9 for before, after in itertools.pairwise(placed))
    assert all(height <= 100.0 for height in placed)
    if all(after - before >= 5.0 for before, after in itertools.pairwise(heights)):
        assert placed == heights
