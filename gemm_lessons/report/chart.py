"""Draw a small line chart as SVG for the site: speed over size, with one lesson highlighted.

It uses the page's colours, so it follows light and dark mode. ``plot`` draws the large pictures of ``bench``.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

from gemm_lessons.report.plot import spread_out

Line = Sequence[tuple[int, float]]  # (size, TFLOP/s), sizes ascending

WIDE, HIGH = 480, 340  # that a phone can show
LEFT, RIGHT, TOP, BOTTOM = 36, 92, 26, 40
STEPS = (1, 2, 5, 10, 20, 50, 100, 200)
GAP = 14  # pixels between names at the right end


def chart(series: Mapping[str, Line], chosen: str, title: str) -> str:
    """Draw all ``series``, with ``chosen`` in the foreground (empty: none) and names at the ends of their lines."""
    sizes = sorted({size for line in series.values() for size, _ in line})
    top = max(speed for line in series.values() for _, speed in line)

    def x(size: int) -> float:
        return LEFT + (WIDE - LEFT - RIGHT) * math.log(size / sizes[0]) / math.log(sizes[-1] / sizes[0])

    def y(speed: float) -> float:
        return HIGH - BOTTOM - (HIGH - BOTTOM - TOP) * speed / top

    parts = [f'<text x="{LEFT}" y="14">TFLOP/s</text>']
    step = next(step for step in STEPS if top / step <= 7)
    for speed in range(0, int(top) + 1, step):
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDE - RIGHT}" y1="{y(speed):.1f}" y2="{y(speed):.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(speed) + 4:.1f}" text-anchor="end">{speed}</text>')
    for size in sizes:
        parts.append(f'<text x="{x(size):.1f}" y="{HIGH - BOTTOM + 18}" text-anchor="middle">{size}</text>')
    parts.append(f'<text x="{(LEFT + WIDE - RIGHT) / 2}" y="{HIGH - 4}" text-anchor="middle">M = N = K</text>')
    ends = {name: y(line[-1][1]) for name, line in series.items()}
    ordered = sorted(ends, key=lambda name: -ends[name])
    heights = spread_out([HIGH - ends[name] for name in ordered], GAP, HIGH - GAP)
    ends = {name: HIGH - height for name, height in zip(ordered, heights, strict=True)}
    for name in sorted(series, key=lambda name: name == chosen):
        points = " ".join(f"{x(size):.1f},{y(speed):.1f}" for size, speed in series[name])
        kind = "chosen" if name == chosen else "cublas" if name == "cuBLAS" else "other"
        parts.append(f'<polyline class="{kind}" points="{points}"/>')
        parts.append(f'<text class="{kind}" x="{WIDE - RIGHT + 6}" y="{ends[name] + 4:.1f}">{html.escape(name)}</text>')
    told = "; ".join(f"{name} {line[-1][1]:.1f} at {line[-1][0]}" for name, line in series.items())
    label = html.escape(f"{title}. {told}", quote=True)
    return f'<svg class="chart" viewBox="0 0 {WIDE} {HIGH}" role="img" aria-label="{label}">{"".join(parts)}</svg>'
