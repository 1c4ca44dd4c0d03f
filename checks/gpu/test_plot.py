"""Pictures of real numbers: what is written on them, and that the same points give the same file."""

from __future__ import annotations

import importlib.util
import itertools
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.gpu import stored_points
from checks.readings import FOLDER
from gemm_lessons.commands.points import CUBLAS, Point, grouped, read
from gemm_lessons.course.folder import CommandError, WriteError
from gemm_lessons.engine.hardware.sheets import find_gpu
from gemm_lessons.engine.records.errors import KitError
from gemm_lessons.gemm.shapes import Shape
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

    figure = plot.figure_of(grouped(points, TYPES), H200)
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def test_measurements_name_gpu_library_and_every_kernel() -> None:
    found = words(POINTS)
    assert "Measured on NVIDIA H200" in found
    assert "medians, M = N = K, L2 cold, cuBLAS 13.1.0, driver 580.159.04, 2026-11-21" in found
    assert "of cuBLAS" in found
    for name in KERNELS:
        assert found.count(name.replace("_", " ")) == 1, "at the end of its line"
        assert found.count(name[:2]) == 1, "at its point of the roofline"
    assert found.count("cuBLAS") == 1
    assert {"fp32 units 66.9", "peak of fp32 units, 66.9", "shared, L1: 33.5 TB/s"} <= set(found)


def test_estimates_say_that_nothing_was_timed() -> None:
    found = words(ESTIMATES)
    assert not any("cuBLAS" in text for text in found)
    assert "Estimates for H200: nothing was timed" in found
    assert not any("Measured" in text for text in found)


def test_each_number_type_has_a_panel_and_its_roofs() -> None:
    figure = plot.figure_of(grouped(stored_points.points(), stored_points.types()), H200)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == [
        "fp32, TFLOP/s",
        "fp16, bf16, TFLOP/s",
        "int8, TOP/s",
        "fp64, TFLOP/s",
        "Roofline at 8192, TFLOP/s",
    ]
    roofline = {text.get_text() for text in figure.axes[-1].texts}
    assert {"int8 tensor cores 1898", "fp16, bf16 949", "dp4a 134", "fp32, fp64 66.9", "fp64 units 33.5"} <= roofline
    for name in stored_points.COURSE.names:
        at_8192 = any(it.series == name and it.shape.m == 8192 for it in ALL)
        assert (name[:2] in roofline) is at_8192


def scaled(points: list[Point], top: float) -> list[Point]:
    """Return the points with cuBLAS's highest fp32 speed at ``top`` GFLOP/s."""
    factor = top / max(it.gflops for it in points if it.series == CUBLAS)
    return [replace(it, gflops=it.gflops * factor, gpu="NVIDIA H100 80GB HBM3") for it in points]


ALL = stored_points.points()
OF_ALL = stored_points.types()
CORE = {name: of for name, of in OF_ALL.items() if name <= "10"}
OF_CORE = [it for it in ALL if it.series in CORE or it.kernel == "fp32"]
GUESSED = [replace(it, kind="estimated", of_cublas=None) for it in ALL if it.series != CUBLAS]
BF16 = [replace(it, kernel="bf16", gflops=1.01 * it.gflops) for it in ALL if it.kernel == "fp16"]
TF32 = [replace(it, series="40_tf32", gflops=it.gflops / 2) for it in ALL if it.series == "15_mma"]
PICTURES = {
    "all": (ALL, OF_ALL),
    "estimates": (GUESSED, OF_ALL),
    "first nine": (OF_CORE, CORE),
    "of an H100": (scaled(OF_CORE, 50e3), CORE),
    "more types": ([*ALL, *BF16, *TF32], {**OF_ALL, "40_tf32": "tf32"}),
    "one type of one lesson": ([it for it in ALL if it.series == "15_mma"], {"15_mma": "fp16"}),
    "one size": ([it for it in ALL if it.shape.m == 4096], OF_ALL),
    "a learner's": (
        [replace(it, series=f"{it.series} (yours)") if it.series != CUBLAS else it for it in ALL],
        {f"{name} (yours)": of for name, of in OF_ALL.items()},
    ),
    "other shapes": (
        [replace(it, shape=Shape(128, it.shape.n, 8192)) for it in ALL],
        OF_ALL,
    ),
}

Rectangle = tuple[float, float, float, float]
SVG, LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"


def numbers(text: str) -> list[float]:
    return [float(it) for it in re.findall(r"-?\d+(?:\.\d+)?", text)]


def rectangles(path: Path) -> tuple[dict[str, Rectangle], Rectangle]:
    """Return the rectangle of every upright text of an SVG file by its id, and that of the picture."""
    root = ElementTree.parse(path).getroot()
    glyphs = {it.get("id"): numbers(it.get("d", "")) for it in root.iter(f"{SVG}path") if it.get("id")}
    found = {}
    for group in root.iter(f"{SVG}g"):
        inner = group.find(f"{SVG}g[@transform]")
        if inner is None or not inner.findall(f"{SVG}use") or "rotate" in inner.get("transform", ""):
            continue
        x, y, scale = numbers(inner.get("transform", ""))[:3]
        xs, ys = [], []
        for use in inner.findall(f"{SVG}use"):
            at = numbers(use.get("transform", "translate(0 0)"))[0]
            outline = glyphs[use.get(LINK, "")[1:]]  # in units of 1/64 of the font's
            xs += [x + scale * (at + it / 64) for it in outline[::2]]
            ys += [y - scale * it / 64 for it in outline[1::2]]
        if xs:
            found[group.get("id", "")] = (min(xs), min(ys), max(xs), max(ys))
    return found, (0, 0, *numbers(root.get("viewBox", ""))[2:])  # type: ignore[return-value]


def overlap(a: Rectangle, b: Rectangle) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


@pytest.mark.parametrize("picture", PICTURES)
def test_no_text_overlaps_another_or_the_edge(tmp_path: Path, picture: str) -> None:
    points, types = PICTURES[picture]
    plot.draw(grouped(points, types), tmp_path / "x.svg", H200)
    texts, page = rectangles(tmp_path / "x.svg")
    labels = [name for name in texts if name.startswith("label-")]
    for name in {it.series for it in points} - {CUBLAS}:
        assert sum(text.endswith(f"-{name.replace(' ', '_')}-0") for text in labels) == 1, name
    crossing = [(a, b) for a, b in itertools.combinations(texts, 2) if overlap(texts[a], texts[b])]
    assert crossing == []
    for name, (left, top, right, bottom) in texts.items():
        assert page[0] <= left < right <= page[2], name
        assert page[1] <= top < bottom <= page[3], name


def test_the_texts_of_a_picture_are_measured(tmp_path: Path) -> None:
    """The twin of the check: two labels at one place are found."""
    figure = plot.figure_of(grouped(OF_CORE, CORE), H200)
    first, second = [text for text in figure.axes[0].texts if (text.get_gid() or "").endswith("-0")][:2]
    second.set_position(first.get_position())
    figure.savefig(tmp_path / "x.svg")
    texts, _ = rectangles(tmp_path / "x.svg")
    assert overlap(texts[str(first.get_gid())], texts[str(second.get_gid())])


def test_colours_keep_their_order_in_grey() -> None:
    from matplotlib.colors import to_rgb

    [group] = grouped(OF_CORE, CORE)
    greys = [
        sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), to_rgb(it), strict=True)) for _, it in plot._colours(group)
    ]
    kernels = greys[:-1]
    assert kernels == sorted(kernels, reverse=True)
    assert all(before - after > 0.02 for before, after in itertools.pairwise(kernels))


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
        assert plot.figure_of(grouped(points, TYPES), gpu).axes


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
    with pytest.raises(KitError, match=r"pip install .*matplotlib"):
        plot.need_matplotlib(Path("x.svg"))


@given(st.lists(st.floats(0, 100), max_size=12).map(sorted))
def test_names_are_spread_out(heights: list[float]) -> None:
    placed = plot.spread_out(heights, 5.0, 100.0)
    assert all(after - before >= 5.0 - 1e-9 for before, after in itertools.pairwise(placed))
    assert all(height <= 100.0 for height in placed)
    if all(after - before >= 5.0 for before, after in itertools.pairwise(heights)):
        assert placed == heights
    inside = plot.spread_out(heights, 5.0, 100.0, 0.0)
    assert all(after - before >= 5.0 - 1e-9 for before, after in itertools.pairwise(inside))
    assert all(-1e-9 <= height <= 100.0 for height in inside), "twelve fit"
