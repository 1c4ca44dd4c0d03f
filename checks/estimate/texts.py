"""The sentences that quote tables of ESTIMATE.md: which file has each, and their figures filled in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from checks.versions import ROOT

PAGE = ROOT / "lessons/common/ESTIMATE.md"
SENTENCES = {
    "gemm_lessons/docs/numbers.md": (
        "all lessons are off by {median} in the median and by {largest} at most, over {times} times. Of {edits} slow "
        "edits of the solutions, {told} can be told from the reference; their speeds are off by {points} points in the "
        "median and by {most} at most."
    ),
    "gemm_lessons/report/table.py": (
        "references are off by {median} in the median, the speeds of their slow edits by {points} points."
    ),
    "README.md": ("references are off by {rounded} in the median, their slow edits by {rounded_points} points"),
}


def figures(page: str) -> Mapping[str, str]:
    """The figures of the sentences, from the page's tables."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines()]
    [(_, times, median, largest)] = [row for row in rows if row[:1] == ["all lessons"]]
    [(_, shares, points, most, _)] = [row for row in rows if row[:1] == ["all"]]
    told, _, edits = shares.partition(" of ")
    found = {
        "times": times,
        "median": median,
        "largest": largest,
        "told": told,
        "edits": edits,
        "points": points,
        "most": most,
    }
    return found | {"rounded": f"{float(median.rstrip('%')):.0f}%", "rounded_points": f"{float(points):.0f}"}


def renewed(text: str, sentence: str, found: Mapping[str, str]) -> str:
    """``text`` with the figures of ``sentence`` in it; its lines break where they did."""
    names = re.findall(r"{(\w+)}", sentence)
    pattern = re.sub(r"\\{\w+\\}", r"([\\d.]+%?)", re.escape(sentence)).replace(r"\ ", r"\s+")
    [match] = re.finditer(pattern, text)
    for number, name in reversed(list(enumerate(names, 1))):
        text = text[: match.start(number)] + found[name] + text[match.end(number) :]
    return text


def write() -> None:
    """Renew every sentence from the page as it is."""
    found = figures(PAGE.read_text())
    for name, sentence in SENTENCES.items():
        path = Path(ROOT / name)
        path.write_text(renewed(path.read_text(), sentence, found))
