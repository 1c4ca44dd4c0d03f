"""SVG drawings for the page of grades: a histogram and stacked bars, in the page's colours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

WIDE, HIGH = 420, 170
LEFT, TOP, BOTTOM = 30, 16, 34
GAP = 4


def histogram(counts: Sequence[int], unit: str) -> str:
    """Draw a histogram of 0 to 100% with equal bins, each with its count above."""
    most = max([*counts, 1])
    step = (WIDE - LEFT) / len(counts)
    floor = HIGH - BOTTOM
    parts = [f'<line class="grid" x1="{LEFT}" x2="{WIDE}" y1="{floor}" y2="{floor}"/>']
    for i, count in enumerate(counts):
        x, high = LEFT + i * step, (floor - TOP) * count / most
        if count:
            parts.append(
                f'<rect class="column" x="{x + GAP / 2:.1f}" y="{floor - high:.1f}" width="{step - GAP:.1f}" '
                f'height="{high:.1f}"/>'
            )
            parts.append(f'<text x="{x + step / 2:.1f}" y="{floor - high - 4:.1f}" text-anchor="middle">{count}</text>')
        if i % 2 == 0:
            parts.append(f'<text x="{x:.1f}" y="{floor + 14}" text-anchor="middle">{100 * i // len(counts)}%</text>')
    parts.append(f'<text x="{WIDE}" y="{floor + 14}" text-anchor="end">100%</text>')
    parts.append(f'<text x="{(LEFT + WIDE) / 2}" y="{HIGH - 4}" text-anchor="middle">{unit}</text>')
    told = ", ".join(f"{100 * i // len(counts)}%: {count}" for i, count in enumerate(counts) if count)
    label = f"How many students have what part of all points, from {told}"
    return f'<svg class="histogram" viewBox="0 0 {WIDE} {HIGH}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def bar(parts: Mapping[str, int], of: int) -> str:
    """Draw one stacked bar; the name of a part is its CSS class."""
    x, made = 0.0, []
    for name, count in parts.items():
        wide = 100 * count / of if of else 0
        if count:
            made.append(f'<rect class="{name}" x="{x:.2f}" y="0" width="{wide:.2f}" height="10"/>')
        x += wide
    label = ", ".join(f"{name} {count}" for name, count in parts.items() if count)
    return (
        f'<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label="{label}">'
        f"{''.join(made)}</svg>"
    )
