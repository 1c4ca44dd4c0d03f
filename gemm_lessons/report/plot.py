"""Plot a benchmark: a panel of speed over size for each number type, and a roofline with every kernel as a point.

Every panel has its labels at the ends of its lines, in a gutter as wide as they are. All places are computed in inches
before anything is drawn, so nothing overlaps. It uses matplotlib, an optional extra, for scales, ticks, text metrics
and three file formats; our own code for these would be longer than this module. No other module imports matplotlib.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from gemm_lessons.commands import Group, Line, Point, is_square, label
from gemm_lessons.course import CommandError, writing
from gemm_lessons.devices import install_extra
from gemm_lessons.engine import KitError
from gemm_lessons.engine.hardware import Peak, peaks
from gemm_lessons.engine.records import dataclass
from gemm_lessons.report.table import kernel_name, tera

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gemm_lessons.engine import GpuSpec
    from gemm_lessons.gemm import Shape

FORMATS = (".svg", ".png", ".pdf")
INK, FAINT, GRID = "#222222", "#666666", "#e6e6e6"
GREEN = "#5a8f00"  # measured, in plots of a search
HUES = ("#5e3c99", "#3f5fb0", "#2b83ba", "#1a9e96", "#4d9f3c", "#b59a00", "#e07b00", "#d7301f")
# Lessons from first to last: a ramp that also darkens, so that grey prints keep the order; and markers in turn.
LIGHTEST, DARKEST = 0.22, 1.0  # of the colour map
MARKERS = "os^Dvp"
STYLE: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # part of matplotlib, so the picture is the same on every machine
    "font.size": 11,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titleweight": "bold",
    "axes.titlesize": 13,
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
INCH = 72  # points
DPI = 100
WIDE, LOWEST = 16.0, 9.0  # inches: a slide; higher with many number types
EDGE, HEAD = 0.3, 1.05  # inches: around the picture; for its title
LEFT, BOTTOM, TOP = 0.75, 0.75, 0.5  # inches around the axes of a panel: ticks, their labels, the panel's title
SMALL, SMALLER = 10.5, 9.5  # points: labels; their headers and the names of peaks
ROW = 15.0  # points from one label to the next
LEADER = 0.3  # inches from the axes to the labels
SPACE = 0.12  # inches between columns of labels
NEAR = 2.2  # a peak is drawn in a panel if it is at most so many times the highest speed
BEYOND = 4.0  # the roofline's axis ends at so many times the intensity of the last bend
CROWD = 40.0  # points: a number is written away from points that are nearer
BESIDE = 14  # points from a point of the roofline to its number
ABOVE = 18.0  # points above the highest peak of a panel, for its name
MARK = 7.0  # points: radius around a point of the roofline that labels avoid


Rectangle = tuple[float, float, float, float]  # left, bottom, right, top in points


@dataclass(frozen=True)
class Box:
    """A rectangle of the picture, in inches from its lower left corner."""

    left: float
    bottom: float
    width: float
    height: float


@dataclass(frozen=True)
class Label:
    """A label at the end of a line: its columns, and the point that it belongs to, in data coordinates."""

    columns: tuple[str, ...]
    x: float
    y: float
    colour: Any
    bold: bool = False


def need_matplotlib(path: Path) -> None:
    """Raise ``CommandError`` for a suffix that is not in ``FORMATS``, ``KitError`` if matplotlib is missing."""
    if path.suffix.lower() not in FORMATS:
        raise CommandError(f"--plot {path}: name a file that ends in {', '.join(FORMATS)}")
    if importlib.util.find_spec("matplotlib") is None:
        raise KitError(f"--plot needs matplotlib: {install_extra('plot')}")


def draw(groups: Sequence[Group], path: Path, gpu: GpuSpec | None) -> None:
    """Draw the groups into a file whose suffix decides the format. ``gpu`` gives the roofs; None omits them.

    Raises ``WriteError``, and ``CommandError`` if there is nothing to draw.
    """
    if not any(group.points for group in groups):
        raise CommandError("there is nothing to plot: no lesson could be measured or estimated")
    figure = figure_of(groups, gpu)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        from matplotlib import rc_context

        with rc_context(STYLE):
            figure.savefig(path, dpi=110, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)


def figure_of(groups: Sequence[Group], gpu: GpuSpec | None) -> Figure:
    """Return the figure: the largest group on the left, the others in the middle, the roofline on the right."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    full = [replace(it, lines=tuple(line for line in it.lines if line.points)) for it in groups if it.points]
    main = max(full, key=lambda group: len(group.lines))
    others = [group for group in full if group is not main]
    colours = {(group.title, line.name): colour for group in full for line, colour in _colours(group)}
    with rc_context(STYLE):
        high = max(LOWEST, HEAD + EDGE + 2.4 * len(others))
        figure = Canvas(figsize=(WIDE, high), dpi=DPI)
        FigureCanvasAgg(figure)  # measures text; the file's own format comes with savefig
        _header(figure, full)
        points = _roofline_points(full)
        share = (0.37, 0.31, 0.32) if others else (0.56, 0.0, 0.44)
        if not points:
            share = (0.58, 0.42, 0.0) if others else (1.0, 0.0, 0.0)
        first, second, third = (part * (WIDE - 2 * EDGE) for part in share)
        room = high - HEAD - EDGE
        _speed(figure, Box(EDGE, EDGE, first, room), main, colours, gpu)
        for i, group in enumerate(others):
            each = room / len(others)
            _speed(figure, Box(EDGE + first, EDGE + room - (i + 1) * each, second, each), group, colours, gpu)
        if points:
            _roofline(figure, Box(EDGE + first + second, EDGE, third, room), full, points, colours, gpu)
    return figure


def _header(figure: Figure, groups: Sequence[Group]) -> None:
    points = [point for group in groups for point in group.points]
    first, high = points[0], figure.get_figheight()
    sizes = "M = N = K" if _square(points) else "M x N x K"
    if first.kind == "estimated":
        title, facts = f"Estimates for {first.gpu}: nothing was timed", [sizes, "L2 warm"]
    else:
        versions = [f"cuBLAS {first.cublas}"] * bool(first.cublas) + [f"driver {first.driver}"] * bool(first.driver)
        title = f"Measured on {first.gpu}"
        facts = ["medians", sizes, "L2 cold", *versions, max(point.date for point in points)]
    for text, drop, size, colour, weight in (
        (title, 0.3, 19, INK, "bold"),
        (", ".join(facts), 0.72, 12, FAINT, "normal"),
    ):
        place = (EDGE + 0.05) / WIDE, 1 - drop / high
        figure.text(*place, text, fontsize=size, color=colour, fontweight=weight, va="center", gid=f"title-{size}")


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


def spread_out(heights: Sequence[float], gap: float, top: float, bottom: float = -math.inf) -> list[float]:
    """Move ascending heights as little as possible, ``gap`` apart, at most ``top``, at least ``bottom`` if they fit."""
    crowds: list[list[float]] = []  # neighbours that move together, centred on the mean of their original heights
    for height in heights:
        crowds.append([height])
        while len(crowds) > 1 and _around(crowds[-2], gap)[-1] + gap > _around(crowds[-1], gap)[0]:
            crowds[-2:] = [crowds[-2] + crowds[-1]]
    placed = [height for crowd in crowds for height in _around(crowd, gap)]
    lowest = bottom
    for i, height in enumerate(placed):
        placed[i] = max(height, lowest)
        lowest = placed[i] + gap
    limit = top
    for i in reversed(range(len(placed))):
        placed[i] = min(placed[i], limit)
        limit = placed[i] - gap
    return placed


def _colours(group: Group) -> list[tuple[Line, Any]]:
    """Return each line with its colour: the ramp for kernels, black for cuBLAS."""
    from matplotlib import colormaps

    ramp = colormaps["viridis_r"]
    kernels = [line for line in group.lines if not line.is_cublas]
    found = []
    for i, line in enumerate(kernels):
        place = i / (len(kernels) - 1) if len(kernels) > 1 else 0.6
        found.append((line, ramp(LIGHTEST + (DARKEST - LIGHTEST) * place)))
    return found + [(line, INK) for line in group.lines if line.is_cublas]


def _width(text: str, size: float = SMALL, weight: str = "normal") -> float:
    """Return the width of a text in inches."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    if not text:
        return 0.0
    font = FontProperties(family=STYLE["font.sans-serif"], weight=weight)
    return float(TextPath((0, 0), text, size=size, prop=font).get_extents().x1) / INCH


def _axes(figure: Figure, box: Box, gutter: float, title: str) -> Any:
    """Add axes that leave room for their ticks, title and labels inside the box."""
    high = figure.get_figheight()
    width, height = box.width - LEFT - gutter, box.height - BOTTOM - TOP
    axes = figure.add_axes(
        ((box.left + LEFT) / WIDE, (box.bottom + BOTTOM) / high, max(width, 0.5) / WIDE, height / high)
    )
    axes.set_title(title, x=-0.5 / max(width, 0.5), pad=14)
    axes.grid(True)
    return axes


def _gutter(labels: Sequence[Label], headers: Sequence[str]) -> tuple[list[float], float]:
    """Return the widths of the columns of labels, and of all of them with the leader lines, in inches."""
    widths = [
        max(_width(header, SMALLER), *(_width(it.columns[i], weight="bold" if it.bold else "normal") for it in labels))
        for i, header in enumerate(headers)
    ]
    return widths, LEADER + sum(widths) + SPACE * len(widths)


def _label_ends(axes: Any, labels: Sequence[Label], widths: Sequence[float], headers: Sequence[str] = ()) -> None:
    """Write labels right of the axes, at the heights of their points or moved apart, with thin leader lines."""
    if not labels:
        return
    figure = axes.figure
    to_points = INCH / DPI
    right = axes.transAxes.transform((1, 0))[0] * to_points
    low, high = (axes.transAxes.transform((0, at))[1] * to_points for at in (0, 1))
    ordered = sorted(labels, key=lambda it: it.y)
    at = [axes.transData.transform((it.x, it.y)) * to_points for it in ordered]
    step = min(ROW, (high - low) / max(len(ordered) - 1, 1))
    heights = spread_out([float(y) for _, y in at], step, high, low)
    starts = [right + LEADER * INCH + (sum(widths[:i]) + i * SPACE) * INCH for i in range(len(widths))]
    size = min(SMALL, step / ROW * SMALL)

    def write(columns: Sequence[str], height: float, name: str, **style: Any) -> None:
        for i, text in enumerate(columns):
            x = starts[i] + (widths[i] * INCH if i else 0)
            axes.annotate(
                text, (0, 0), xytext=(x, height), textcoords="figure points", va="center_baseline",
                ha="right" if i else "left", annotation_clip=False, gid=f"label-{name}-{i}", **style,
            )  # fmt: skip

    for it, (x, y), height in zip(ordered, at, heights, strict=True):
        knee = right + 0.06 * INCH
        path = [(x, y), (max(x, knee), y), (starts[0] - 12, height), (starts[0] - 4, height)]
        xs, ys = ([place[i] / INCH / size_ for place in path] for i, size_ in ((0, WIDE), (1, figure.get_figheight())))
        from matplotlib.lines import Line2D

        leader = Line2D(xs, ys, transform=figure.transFigure, color=it.colour, linewidth=0.8, zorder=1)
        figure.add_artist(leader)
        name = f"{axes.get_title(loc='left').split(',')[0]}-{it.columns[0]}".replace(" ", "_")
        write(it.columns, height, name, fontsize=size, color=INK, fontweight="bold" if it.bold else "normal")
    if headers:
        write(headers, high + 0.2 * INCH, "header", fontsize=SMALLER, color=FAINT)


def _speed(figure: Figure, box: Box, group: Group, colours: Mapping[Any, Any], gpu: GpuSpec | None) -> None:
    """Draw speed over size: one line per kernel, and the peaks of the number type that are near."""
    points, at = group.points, _places(group.points)
    square, measured = _square(points), points[0].kind == "measured"
    unit = "TOP/s" if all(of.startswith("int") for of in group.types) else "TFLOP/s"
    labels = []
    for line in group.lines:
        last = line.points[max(line.points, key=lambda shape: at[shape])]
        share = "" if last.of_cublas is None or line.is_cublas else f"{last.of_cublas:.0%}"
        columns = (
            (kernel_name(line.name), _three(last.gflops / 1e3), share)
            if measured
            else (kernel_name(line.name), _three(last.gflops / 1e3))
        )
        colour = colours[group.title, line.name]
        labels.append(Label(columns, at[last.shape], last.gflops / 1e3, colour, line.is_cublas))
    largest = max(at, key=lambda shape: at[shape])
    headers = ("", f"at {label(largest)}" if square else "last", "of cuBLAS")[: len(labels[0].columns)]
    widths, gutter = _gutter(labels, headers)
    axes, width = _axes(figure, box, gutter, f"{group.title}, {unit}"), max(box.width - LEFT - gutter, 0.5)
    for i, line in enumerate(group.lines):
        own = sorted(line.points, key=lambda shape: at[shape])
        colour = colours[group.title, line.name]
        axes.plot(
            [at[shape] for shape in own], [line.points[shape].gflops / 1e3 for shape in own],
            linestyle=(0, (5, 2)) if line.is_cublas else "-", color=colour, linewidth=2.4 if line.is_cublas else 1.7,
            marker=None if line.is_cublas else MARKERS[i % len(MARKERS)], markersize=5, zorder=3, clip_on=False,
            markerfacecolor=colour if measured else "white",
        )  # fmt: skip
    places = list(at.values())
    if square:
        axes.set_xscale("log", base=2)
        axes.set_xlim(places[0] / 1.12, places[-1] * (1.0 if len(places) > 1 else 1.12))
        every = max(1, math.ceil(len(places) * 0.52 / width))
        shown = list(reversed(list(at)))[::every]
        axes.set_xticks([at[shape] for shape in shown], list(map(label, shown)))
    else:
        axes.set_xlim(0.7, len(places) + (0.3 if len(places) == 1 else 0.0))
        every = max(1, math.ceil(len(places) * 0.4 / width))  # inches between slanted names
        axes.set_xticks(places[::-every], list(map(str, list(at)[::-every])), rotation=20, ha="right", fontsize=8)
    axes.minorticks_off()
    axes.set_xlabel("M = N = K" if square else "M x N x K")
    fastest = max(point.gflops for point in points) / 1e3
    near = [it for it in _peaks(gpu, group.types) if it.flops_per_s / 1e12 <= NEAR * fastest]
    above = 1 - ABOVE / ((box.height - BOTTOM - TOP) * INCH)
    axes.set_ylim(0, max(1.06 * fastest, *(it.flops_per_s / 1e12 / above for it in near), 0.0))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    for peak in near:
        height = peak.flops_per_s / 1e12
        value = _three(height)
        axes.axhline(height, color=FAINT, linewidth=1.2, linestyle=":", zorder=1)
        names = (f"peak of {peak.unit}, {value}", f"peak {value}")
        axes.annotate(
            next((it for it in names if _width(it, SMALLER) < width - 0.1), names[-1]), (0, height), xytext=(6, 3),
            xycoords=("axes fraction", "data"), textcoords="offset points", fontsize=SMALLER, color=FAINT, va="bottom",
            gid=f"peak-{group.title}-{peak.unit}",
        )  # fmt: skip
    _label_ends(axes, labels, widths, headers=headers)


def _peaks(gpu: GpuSpec | None, types: Sequence[str]) -> list[Peak]:
    """Return the peaks of the number types; equal ones once, with both names."""
    found: list[Peak] = []
    for peak in [it for of in types for it in peaks(gpu, of)] if gpu else []:
        like = next((it for it in found if math.isclose(it.flops_per_s, peak.flops_per_s, rel_tol=0.01)), None)
        if like is None:
            found.append(peak)
        elif peak.unit != like.unit:
            found[found.index(like)] = replace(like, unit=_both(like.unit, peak.unit))
    return found


def _both(first: str, second: str) -> str:
    """Return ``fp16, bf16 tensor cores`` for two names with the same end."""
    kind = " tensor cores"
    if first.endswith(kind) and second.endswith(kind):
        return f"{first.removesuffix(kind)}, {second}"
    return f"{first}, {second}"


def _short(unit: str) -> str:
    """Return ``fp32, fp64`` for ``fp32 units, fp64 tensor cores``."""
    return ", ".join(part.split()[0] for part in unit.split(", "))


def _roofline_points(groups: Sequence[Group]) -> list[tuple[Group, Line, Point]]:
    """Return each kernel at the largest shape of all."""
    shapes = {point.shape for group in groups for point in group.points}
    largest = max(shapes, key=lambda shape: shape.m * shape.n * shape.k)
    found = [(group, line, line.points.get(largest)) for group in groups for line in group.lines]
    return [(group, line, point) for group, line, point in found if point is not None and point.flop_per_byte]


def _roofline(
    figure: Figure,
    box: Box,
    groups: Sequence[Group],
    shown: Sequence[tuple[Group, Line, Point]],
    colours: Mapping[Any, Any],
    gpu: GpuSpec | None,
) -> None:
    """Draw each kernel at the largest shape: speed over operations per byte of the path to shared memory and L1."""
    shape = shown[0][2].shape
    types = [of for group in groups if any(it is group for it, _, _ in shown) for of in group.types]
    roofs = _peaks(gpu, types)
    libraries = [
        (line, line.points[shape])
        for group in groups
        for line in group.lines
        if line.is_cublas and shape in line.points
    ]
    xs = [point.flop_per_byte or 1.0 for _, _, point in shown]
    ys = [point.gflops / 1e3 for _, _, point in shown]
    slope = gpu.sms * gpu.bytes_per_clock * gpu.clock_hz / 1e12 if gpu else None  # TB/s
    heights = [it.flops_per_s / 1e12 for it in roofs]
    left, right = min(xs) / 2.2, max(xs) * 2.0
    if slope and heights:
        right = max(right, BEYOND * max(heights) / slope)
    levels = [
        ((f"{it.unit} {_three(height)}", f"{_short(it.unit)} {_three(height)}"), height)
        for it, height in zip(roofs, heights, strict=True)
    ]
    libraries = libraries if len(groups) == 1 else []  # beside the kernels of its own type it is in their panel
    for line, point in libraries:
        name = f"{line.name} {_three(point.gflops / 1e3)}"
        levels.append(((name, name), point.gflops / 1e3))
    at = label(shape) if is_square(shape) else str(shape)
    axes = _axes(figure, box, 0.15, f"Roofline at {at}, TFLOP/s")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("operations per byte of shared memory and L1")
    axes.set_xlim(left, right)
    axes.set_ylim(min(ys) / 2.0, 2.0 * max([*ys, *heights]))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}" if value >= 1 else f"1/{1 / value:g}")
    taken: list[Rectangle] = []
    _label_levels(axes, levels, slope, taken)
    if slope:
        top = max(heights, default=max(ys))
        knee = top / slope
        axes.plot([left, knee], [left * slope, top], color=INK, linewidth=1.8, zorder=2)
        _label_slope(
            axes, f"shared, L1: {slope:.1f} TB/s", (left, left * slope), (knee, top), zip(xs, ys, strict=True), taken
        )
        for height in heights:
            axes.plot([height / slope, right], [height, height], color=INK, linewidth=1.8, zorder=2)
    for _, point in libraries:
        axes.axhline(point.gflops / 1e3, color=FAINT, linestyle=(0, (5, 2)), linewidth=1.2, zorder=1)
    measured = shown[0][2].kind == "measured"
    kinds = {group.title: MARKERS[i % len(MARKERS)] for i, group in enumerate(groups)}
    for group, line, point in shown:
        colour = colours[group.title, line.name]
        axes.plot(
            point.flop_per_byte, point.gflops / 1e3, kinds[group.title], color=colour, markersize=8, zorder=4,
            markerfacecolor=colour if measured else "white", markeredgewidth=1.8,
        )  # fmt: skip
    _label_points(axes, [(line.name, x, y) for (_, line, _), x, y in zip(shown, xs, ys, strict=True)], taken)


def _three(value: float) -> str:
    """Format TFLOP/s with three digits."""
    return f"{value:.0f}" if value >= 99.95 else tera(1e3 * value)


def _label_levels(
    axes: Any, levels: Sequence[tuple[tuple[str, str], float]], slope: float | None, taken: list[Rectangle]
) -> None:
    """Write the names of horizontal lines above their right ends, moved apart where lines are close. Each has a long
    name and a short one, for a line that is too short. The highest may stand out on the left."""
    to_points = INCH / DPI
    right, top = axes.transAxes.transform((1, 1)) * to_points
    ordered = sorted(levels, key=lambda it: it[1])
    lowest, last = axes.get_xlim()
    ends = [axes.transData.transform((last, y))[1] * to_points for _, y in ordered]
    heights = spread_out([y + 3 for y in ends], SMALLER + 4, top - SMALLER)
    for i, ((names, level), height) in enumerate(zip(ordered, heights, strict=True)):
        start = axes.transData.transform((max(level / slope, lowest) if slope else lowest, level))[0] * to_points
        room = right - start - 8 if i < len(ordered) - 1 else math.inf
        text = names[0] if _width(names[0], SMALLER) * INCH < room else names[1]
        axes.annotate(
            text, (0, 0), xytext=(right - 2, height), textcoords="figure points", ha="right", va="baseline",
            xycoords="figure points", fontsize=SMALLER, color=INK, gid=f"level-{text}", annotation_clip=False,
        )  # fmt: skip
        taken.append((right - 2 - _width(text, SMALLER) * INCH, height - 3, right, height + SMALLER))
        taken.append((start, ends[i] - 1, right, ends[i] + 1))


def _label_slope(
    axes: Any,
    text: str,
    start: tuple[float, float],
    end: tuple[float, float],
    points: Iterable[tuple[float, float]],
    taken: list[Rectangle],
) -> None:
    """Write along the slanted roof, at the lowest place without a point in the way."""
    to_points = INCH / DPI
    (x0, y0), (x1, y1) = axes.transData.transform([start, end]) * to_points
    length = math.hypot(x1 - x0, y1 - y0)
    along, up = (x1 - x0) / length, (y1 - y0) / length
    marks = [axes.transData.transform(point) * to_points for point in points]
    wide = _width(text, SMALLER) * INCH

    def squares(first: float) -> list[Rectangle]:
        """Return small rectangles that cover the text if it begins ``first`` points up the roof."""
        found, at = [], first
        while at <= first + wide:
            x, y = x0 + at * along - 9 * up, y0 + at * up + 9 * along
            found.append((x - 6, y - 6, x + 6, y + 6))
            at += 10
        return found

    def free(first: float) -> bool:
        around = [(x - 6, y - 6, x + 6, y + 6) for x, y in marks]
        return not any(_overlap(one, other) for one in squares(first) for other in (*around, *taken))

    places = [12.0 + 6 * i for i in range(int(max(length - wide - 12, 0) // 6) + 1)]
    first = next(filter(free, places), places[0])
    axes.annotate(
        text, (0, 0), xytext=(x0 + first * along - 4 * up, y0 + first * up + 4 * along), textcoords="figure points",
        xycoords="figure points", rotation=math.degrees(math.atan2(up, along)), rotation_mode="anchor", ha="left",
        va="baseline", color=INK, fontsize=SMALLER, gid="slope", annotation_clip=False,
    )  # fmt: skip
    taken += squares(first)
    count = int(length // 4)
    roof = ((x0 + (x1 - x0) * i / count, y0 + (y1 - y0) * i / count) for i in range(count + 1))
    taken += [(x - 1, y - 1, x + 1, y + 1) for x, y in roof]


def _label_points(axes: Any, points: Sequence[tuple[str, float, float]], taken: list[Rectangle]) -> None:
    """Write each point's number beside it, away from its neighbours, at the nearest place that is free."""
    to_points = INCH / DPI
    left, bottom = axes.transAxes.transform((0, 0)) * to_points
    right, top = axes.transAxes.transform((1, 1)) * to_points
    at = [axes.transData.transform((x, y)) * to_points for _, x, y in points]
    marks = [(x - MARK, y - MARK, x + MARK, y + MARK) for x, y in at]
    taken += marks
    for (name, _, _), (x, y) in sorted(zip(points, at, strict=True), key=lambda it: it[0][0]):
        text = name[:2] if name[:2].isdigit() else kernel_name(name)
        wide, high = _width(text, weight="bold") * INCH + 2, SMALL + 2
        near = [(a, b) for a, b in at if 0 < math.hypot(a - x, b - y) < CROWD]
        away = math.atan2(y - fmean([b for _, b in near]), x - fmean([a for a, _ in near])) if near else -math.pi / 2
        turns = sorted(
            (turn * math.pi / 8 for turn in range(-8, 8)), key=lambda turn: abs(math.remainder(turn - away, math.tau))
        )
        places = ((distance, turn) for distance in range(BESIDE, 140, 4) for turn in turns)
        for distance, turn in places:
            cx, cy = x + distance * math.cos(turn), y + distance * math.sin(turn)
            rect = (cx - wide / 2, cy - high / 2, cx + wide / 2, cy + high / 2)
            inside = left <= rect[0] and rect[2] <= right and bottom <= rect[1] and rect[3] <= top
            if not inside or any(_overlap(rect, other) for other in taken):
                continue
            steps = [(x + (cx - x) * i / 12, y + (cy - y) * i / 12) for i in range(1, 12)]
            others = [it for it in marks if not (it[0] < x < it[2] and it[1] < y < it[3])]
            if distance < 100 and any(_overlap((a, b, a, b), other) for a, b in steps for other in others):
                continue
            taken.append(rect)
            arrow = {"arrowstyle": "-", "color": FAINT, "linewidth": 0.8, "shrinkA": 1, "shrinkB": 4}
            axes.annotate(
                text, (x, y), xycoords="figure points", xytext=(cx, cy), textcoords="figure points", ha="center",
                va="center", fontsize=SMALL, fontweight="bold", gid=f"number-{name}", zorder=5,
                arrowprops=None if distance == BESIDE else arrow, annotation_clip=False,
            )  # fmt: skip
            break


def _overlap(a: Rectangle, b: Rectangle) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
