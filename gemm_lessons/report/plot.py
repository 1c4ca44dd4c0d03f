"""Plot a benchmark: speed over size, fraction of cuBLAS, and a roofline with every lesson as a point.

It uses matplotlib, an optional extra, for scales, ticks, text metrics and three file formats; our own code for these
would be longer than this module. No other module imports matplotlib.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from gemm_lessons.commands.bench import CUBLAS, WAVEFRONT_BYTES, Point, is_square, label
from gemm_lessons.course.folder import CommandError, WriteError
from gemm_lessons.engine.records.errors import KitError
from gemm_lessons.engine.records.extras import install_extra

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gemm_lessons.engine.hardware.sheets import GpuSpec
    from gemm_lessons.gemm.shapes import Shape

FORMATS = (".svg", ".png", ".pdf")
INK, FAINT, GRID = "#222222", "#777777", "#e6e6e6"
GREEN = "#5a8f00"  # cuBLAS
# Lessons from first to last: hues from violet through blue and green to red, dark enough on white.
HUES = ("#5e3c99", "#3f5fb0", "#2b83ba", "#1a9e96", "#4d9f3c", "#b59a00", "#e07b00", "#d7301f")
STYLE: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # part of matplotlib, so the picture is the same on every machine
    "font.size": 10,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titleweight": "bold",
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "text.color": INK,
    "svg.hashsalt": "gemm-lessons",  # makes the file reproducible
}


def need_matplotlib(path: Path) -> None:
    """Raise ``CommandError`` for an unsupported file format, ``KitError`` if matplotlib is missing."""
    if path.suffix.lower() not in FORMATS:
        raise CommandError(f"--plot {path}: name a file that ends in {', '.join(FORMATS)}")
    if importlib.util.find_spec("matplotlib") is None:
        raise KitError(f"--plot needs matplotlib: {install_extra('plot')}")


def draw(points: Sequence[Point], path: Path, gpu: GpuSpec | None) -> None:
    """Draw the points into a file whose suffix decides the format. ``gpu`` gives the roofs; None omits them.

    Raises ``WriteError``, and ``CommandError`` if there is nothing to draw.
    """
    if not points:
        raise CommandError("there is nothing to plot: no lesson could be measured or estimated")
    figure = figure_of(points, gpu)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        from matplotlib import rc_context

        with rc_context(STYLE):
            figure.savefig(path, dpi=110, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
    except OSError as error:
        raise WriteError(path, error) from None


def figure_of(points: Sequence[Point], gpu: GpuSpec | None) -> Figure:
    """Return the figure: two panels over shapes on the left, the roofline on the right."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    colours = _colours(points)
    with rc_context(STYLE):
        figure = Canvas(figsize=(13.5, 8.4), layout="constrained")
        FigureCanvasAgg(figure)  # places text; the file's own format comes with savefig
        panels = figure.add_gridspec(2, 2, width_ratios=(1, 1.05))
        _speed(figure.add_subplot(panels[0, 0]), points, colours, gpu)
        _share(figure.add_subplot(panels[1, 0]), points, colours, gpu)
        _roofline(figure.add_subplot(panels[:, 1]), points, colours, gpu)
        figure.suptitle(_title(points), x=0.012, ha="left", fontsize=13, fontweight="bold")
    return figure


def _title(points: Sequence[Point]) -> str:
    first = points[0]
    sizes = "M = N = K" if _square(points) else "M x N x K"
    if first.kind == "estimated":
        return f"Estimates for {first.gpu}; nothing was timed. {sizes}, L2 warm"
    versions = f"cuBLAS {first.cublas}, driver {first.driver}" if first.driver else f"cuBLAS {first.cublas}"
    return f"Measured on {first.gpu}: medians, {sizes}, L2 cold. {versions}, {max(point.date for point in points)}"


def _square(points: Sequence[Point]) -> bool:
    return all(is_square(point.shape) for point in points)


def _places(points: Sequence[Point]) -> dict[Shape, float]:
    """Return the positions of shapes on the axis: squares at their size, other shapes one after the other."""
    shapes = list(dict.fromkeys(point.shape for point in points))
    return {it: it.m for it in sorted(shapes)} if _square(points) else {it: i + 1 for i, it in enumerate(shapes)}


def _around(crowd: Sequence[float], gap: float) -> list[float]:
    """Return the positions of a group of names: a single one unchanged, several ``gap`` apart around their mean."""
    if len(crowd) == 1:
        return list(crowd)
    return [fmean(crowd) + (i - (len(crowd) - 1) / 2) * gap for i in range(len(crowd))]


def _colours(points: Sequence[Point]) -> dict[str, Any]:
    names = sorted({point.series for point in points if point.series != CUBLAS})
    from matplotlib.colors import LinearSegmentedColormap

    scale = LinearSegmentedColormap.from_list("lessons", HUES)
    return {name: scale(i / max(len(names) - 1, 1)) for i, name in enumerate(names)} | {CUBLAS: GREEN}


def _lines(axes: Any, points: Sequence[Point], colours: Mapping[str, Any], value: Any) -> None:
    """Draw one line per series with its name at the right end; names that would overlap are moved apart."""
    ends = []
    at, square = _places(points), _square(points)
    for name, colour in colours.items():
        own = sorted((point for point in points if point.series == name), key=lambda point: at[point.shape])
        if not own:
            continue
        style = "--" if own[0].kind == "estimated" else "-"
        xs, ys = [at[point.shape] for point in own], [value(point) for point in own]
        width = 2.4 if name == CUBLAS else 1.6
        axes.plot(xs, ys, style, color=colour, linewidth=width, marker="o", markersize=3.5, zorder=3)
        ends.append((ys[-1], xs[-1], _label(name), colour))
    sizes = list(at.values())
    if square:
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, list(map(label, at)))
    else:
        axes.set_xticks(sizes, list(map(str, at)), rotation=25, ha="right", fontsize=8)
    axes.minorticks_off()
    axes.set_xlabel("size: M = N = K" if square else "shape: M x N x K")
    axes.grid(True)
    if ends and square:
        axes.set_xlim(sizes[0] / 1.15, sizes[-1] * (sizes[-1] / sizes[0]) ** 0.24 * 1.1)
    elif ends:
        axes.set_xlim(0.7, len(sizes) * 1.24 + 0.3)
    if ends:
        _name_ends(axes, ends)


def _name_ends(axes: Any, ends: Sequence[tuple[float, float, str, Any]]) -> None:
    axes.figure.canvas.draw()  # fixes the scales, so that pixel positions are known
    low, high = (axes.transAxes.transform((0, at))[1] for at in (0, 1))
    ordered = sorted(ends)
    at = [axes.transData.transform((x, y))[1] for y, x, _, _ in ordered]
    heights = spread_out(at, (high - low) / 17, high)
    for (y, x, text, colour), here, there in zip(ordered, at, heights, strict=True):
        axes.annotate(
            text, (x, y), xytext=(14, (there - here) * 72 / axes.figure.dpi), textcoords="offset points",
            color=colour, fontsize=8.5, va="center", fontweight="bold",
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 2,
                        "relpos": (0, 0.5)},
        )  # fmt: skip


def spread_out(heights: Sequence[float], gap: float, top: float) -> list[float]:
    """Move ascending heights up or down as little as possible, so that they are ``gap`` apart and at most ``top``."""
    crowds: list[list[float]] = []  # neighbours that move together, centred on the mean of their original heights
    for height in heights:
        crowds.append([height])
        while len(crowds) > 1 and _around(crowds[-2], gap)[-1] + gap > _around(crowds[-1], gap)[0]:
            crowds[-2:] = [crowds[-2] + crowds[-1]]
    placed = [height for crowd in crowds for height in _around(crowd, gap)]
    limit = top
    for i in reversed(range(len(placed))):
        placed[i] = min(placed[i], limit)
        limit = placed[i] - gap
    return placed


def _label(name: str) -> str:
    return name.replace("_", " ")


def _speed(axes: Any, points: Sequence[Point], colours: Mapping[str, Any], gpu: GpuSpec | None) -> None:
    axes.set_yscale("log")
    speeds = [point.gflops for point in points] + ([gpu.fp32_flops_per_s / 1e9] if gpu else [])
    axes.set_ylim(min(speeds) / 1.6, max(speeds) * 1.6)
    axes.set_title("Speed")
    axes.set_ylabel("TFLOP/s, log scale")
    if gpu is not None:
        peak = gpu.fp32_flops_per_s / 1e9
        sizes = _places(points).values()  # the line ends where the names of the other series begin
        axes.plot([min(sizes) / 1.15, max(sizes)], [peak, peak], color=FAINT, linewidth=1, linestyle=":")
        axes.annotate(
            f"fp32 peak of the data sheet, {peak / 1e3:.1f}", (0, peak), xycoords=("axes fraction", "data"),
            xytext=(6, -4), textcoords="offset points", color=FAINT, fontsize=8, va="top",
        )  # fmt: skip
    _lines(axes, points, colours, lambda point: point.gflops)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value / 1e3:g}")


def _share(axes: Any, points: Sequence[Point], colours: Mapping[str, Any], gpu: GpuSpec | None) -> None:
    """Draw percent of cuBLAS if it was measured, else percent of the data sheet's peak."""
    shares = [point for point in points if point.of_cublas is not None]
    if shares:
        axes.set_title("Share of cuBLAS in the same run")
        axes.set_ylabel("percent of cuBLAS")
        _lines(axes, shares, colours, lambda point: 100 * point.of_cublas)
    elif gpu is not None:
        axes.set_title("Share of the data sheet's peak, estimated")
        axes.set_ylabel("percent of the fp32 peak")
        _lines(axes, points, colours, lambda point: 100e9 * point.gflops / gpu.fp32_flops_per_s)
    axes.set_ylim(bottom=-2)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0f}%")


def _roofline(axes: Any, points: Sequence[Point], colours: Mapping[str, Any], gpu: GpuSpec | None) -> None:
    """Draw each lesson at its largest size: speed over operations per byte of the path to shared memory and L1."""
    largest = max((point.shape for point in points), key=lambda shape: shape.m * shape.n * shape.k)
    shown = [point for point in points if point.shape == largest and point.flop_per_byte]
    shown.sort(key=lambda point: point.series)
    estimated = points[0].kind == "estimated"
    what = f"{label(largest) if _square(points) else largest}{', estimated' if estimated else ''}"
    axes.set_title(f"Roofline at {what}")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("operations per byte that wavefronts move between SM and shared memory or L1")
    axes.set_ylabel("TFLOP/s")
    axes.grid(True)
    if not shown:
        axes.text(0.5, 0.5, "no counters at this shape", transform=axes.transAxes, ha="center", color=FAINT)
        return
    xs = [point.flop_per_byte or 1.0 for point in shown]
    ys = [point.gflops for point in shown]
    left, right = min(xs) / 2.2, max(xs) * 3
    if gpu is not None:
        peak = gpu.fp32_flops_per_s / 1e9
        slope = gpu.sms * WAVEFRONT_BYTES * gpu.clock_hz / 1e9  # GB/s
        knee = peak / slope
        right = max(right, knee * 6)
        axes.plot([left, knee, right], [left * slope, peak, peak], color=INK, linewidth=1.8, zorder=2)
        axes.fill_between([left, knee, right], [left * slope, peak, peak], 1, color="#f6f7f9", zorder=0)
        axes.text(right / 1.05, peak * 1.06, f"fp32 peak {peak / 1e3:.1f} TFLOP/s", ha="right", color=INK, fontsize=9)
        ys = [*ys, peak]
        axes.set_ylim(min(ys) / 2.5, peak * 1.8)
        axes.set_xlim(left, right)
        angle = _angle(axes, left, knee, slope)
        middle = math.sqrt(left * knee)
        axes.text(
            middle, middle * slope * 1.1, f"shared memory and L1: {slope / 1e3:.1f} TB/s", rotation=angle,
            rotation_mode="anchor", ha="center", color=INK, fontsize=9,
        )  # fmt: skip
    cublas = next((point for point in points if point.series == CUBLAS and point.shape == largest), None)
    if cublas is not None:
        axes.axhline(cublas.gflops, color=GREEN, linestyle="--", linewidth=1.4)
        axes.text(
            left * 1.08, cublas.gflops * 1.05, f"cuBLAS {cublas.gflops / 1e3:.1f} TFLOP/s", color=GREEN, fontsize=9
        )
    axes.plot(
        [point.flop_per_byte for point in shown],
        [point.gflops for point in shown],
        color=FAINT, linewidth=0.8, linestyle=":", zorder=3,
    )  # fmt: skip
    for above, point in enumerate(shown):
        axes.scatter(
            point.flop_per_byte, point.gflops, s=260, color=[colours[point.series]], edgecolor="white", zorder=4 + above
        )
        axes.text(
            point.flop_per_byte, point.gflops, point.series[:2], color="white", ha="center", va="center", fontsize=8.5,
            fontweight="bold", zorder=4.5 + above,
        )  # fmt: skip
    names = [f"{_label(point.series)}   {point.gflops / 1e3:.2f} TFLOP/s" for point in shown]
    axes.text(
        0.985, 0.03, "\n".join(names), transform=axes.transAxes, ha="right", va="bottom", fontsize=8.5, linespacing=1.5,
        bbox={"facecolor": "white", "edgecolor": GRID, "boxstyle": "round,pad=0.6"},
    )  # fmt: skip
    axes.yaxis.set_major_formatter(lambda value, _: f"{value / 1e3:g}")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}" if value >= 1 else f"1/{1 / value:g}")


def _angle(axes: Any, left: float, knee: float, slope: float) -> float:
    """Return the angle of the slanted roof on the page, in degrees."""
    axes.figure.canvas.draw()
    (x0, y0), (x1, y1) = axes.transData.transform([(left, left * slope), (knee, knee * slope)])
    return math.degrees(math.atan2(y1 - y0, x1 - x0))
