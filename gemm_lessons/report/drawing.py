"""Convert an ASCII drawing to SVG: lines become strokes, arrows get heads, words stay text at their position.

    +-----+         `-`, `+`, `<`, `v` and the like are strokes only as parts of lines: `k0 += BK`, `M - 1`, `a->b`
    |  B  |---->    and `0-3` stay words. Box-drawing characters are strokes by their Unicode names, `##` is a filled
    +-----+         area, and all else is text.

It uses the page's colours (``site.css``), so it follows light and dark mode; it shrinks to the width of a phone.
"""

from __future__ import annotations

import html
import re
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import groupby

from gemm_lessons.engine.records import dataclass

WIDE, HIGH = 8, 17  # pixels of a character
BASE = 12.5  # pixels from the top of a row to the baseline
STEP = {"u": (-1, 0), "d": (1, 0), "l": (0, -1), "r": (0, 1)}
FACING = {"u": "d", "d": "u", "l": "r", "r": "l"}
HEADS = {"<": "l", ">": "r", "^": "u", "v": "d"}
BOX = {"UP": "u", "DOWN": "d", "LEFT": "l", "RIGHT": "r", "VERTICAL": "ud", "HORIZONTAL": "lr"}

Cell = tuple[int, int]  # row, column


@dataclass(frozen=True)
class Strokes:
    """Strokes by cell: arms of lines (of ``u d l r``), directions of arrow heads, slopes, and filled areas."""

    lines: dict[Cell, str]
    heads: dict[Cell, str]
    slopes: dict[Cell, str]
    fills: frozenset[Cell]

    def __contains__(self, cell: object) -> bool:
        return any(cell in kind for kind in (self.lines, self.heads, self.slopes, self.fills))


def rows_of(text: str) -> list[str]:
    """Return the drawing's rows without their common margin."""
    return textwrap.dedent(text.expandtabs()).strip("\n").split("\n")


def strokes(rows: list[str]) -> Strokes:
    """Find the strokes of a drawing."""
    at = {(y, x): char for y, row in enumerate(rows) for x, char in enumerate(row) if char != " "}
    lines = {cell: "ud" if char == "|" else _box(char) for cell, char in at.items() if char == "|" or _box(char)}
    heads: dict[Cell, str] = {}
    for y, row in enumerate(rows):
        for run in re.finditer(r"<?-+>?", row):
            if _is_line(row, run):
                lines |= {(y, x): "lr" for x in range(*run.span())}
                heads |= {(y, x): HEADS[row[x]] for x in range(*run.span()) if row[x] in HEADS}
    for cell, char in at.items():
        stem = {"^": "d", "v": "u"}.get(char)
        alone = not any((cell[0], cell[1] + by) in at for by in (-2, -1, 1, 2))
        if stem and alone and (char == "^" or FACING[stem] in lines.get(_to(cell, stem), "")):
            heads[cell] = HEADS[char]
    lines |= {cell: FACING[to] for cell, to in heads.items()}
    joints = [cell for cell, char in at.items() if char == "+" and _met(lines, cell, "lr")]
    lines |= dict.fromkeys(joints, "")
    lines |= {it: "".join({*arms, *_met(lines, it, "udlr")}) for it, arms in lines.items() if it not in heads}
    slopes = {(y, x): char for (y, x), char in at.items() if char in "/\\" and _continues(at, y, x)}
    fills = {(y, x) for y, row in enumerate(rows) for run in re.finditer("##+", row) for x in range(*run.span())}
    return Strokes(lines, heads, slopes, frozenset(fills))


def drawing(text: str) -> str:
    """Return the drawing as an SVG element. Screen readers get its words."""
    rows = rows_of(text)
    found = strokes(rows)
    words = list(_words(rows, found))
    lines = "".join(f"M{x:g} {y:g}L{x2:g} {y2:g}" for x, y, x2, y2 in _segments(found))
    heads = "".join(_head(found, cell, to) for cell, to in found.heads.items())
    texts = "".join(
        f'<text x="{x * WIDE}" y="{y * HIGH + BASE}" textLength="{len(word) * WIDE}">{html.escape(word)}</text>'
        for (y, x), word in words
    )
    wide, high = max(map(len, rows)) * WIDE, len(rows) * HIGH
    told = html.escape("; ".join(word for _, word in words), quote=True)
    return (
        f'<svg class="drawing" width="{wide}" viewBox="0 0 {wide} {high}" role="img" aria-label="Drawing: {told}">'
        f'{_areas(found)}<path class="line" d="{lines}"/><path class="head" d="{heads}"/>{texts}</svg>'
    )


def _box(char: str) -> str:
    """Return the arms of a box-drawing character."""
    name = unicodedata.name(char, "")
    if not name.startswith("BOX DRAWINGS") or "DIAGONAL" in name:
        return ""
    return "".join(arms for word, arms in BOX.items() if word in name.split())


def _is_line(row: str, run: re.Match[str]) -> bool:
    """Return whether dashes are a line, and not a minus, a range, C's arrow, ``i--`` or a command's option."""
    before, after = row[: run.start()][-1:], row[run.end() :][:1]
    hangs, holds = bool(re.match(r"[\w)\]]", before)), bool(re.match(r"\w", after))
    if run[0] == "-":
        return (before == "+" and not holds) or (after == "+" and not hangs)
    if run[0] in ("->", "<-"):
        return not (hangs and holds)
    if run[0] == "--" and holds:  # a line continues after its label: --NVRTC-->
        return not hangs and bool(re.match(r"\w(?:[\w ]*\w)?--", row[run.end() :]))
    return run[0] != "--" or not hangs or bool(re.match(r"[|+]", after))


def _to(cell: Cell, arm: str) -> Cell:
    return cell[0] + STEP[arm][0], cell[1] + STEP[arm][1]


def _met(lines: dict[Cell, str], cell: Cell, arms: str) -> str:
    """Return those of ``arms`` at which the neighbour has an arm towards this cell."""
    return "".join(arm for arm in arms if FACING[arm] in lines.get(_to(cell, arm), ""))


def _continues(at: dict[Cell, str], y: int, x: int) -> bool:
    lean = 1 if at[y, x] == "/" else -1
    return at[y, x] in (at.get((y - 1, x + lean)), at.get((y + 1, x - lean)))


def _segments(found: Strokes) -> Iterator[tuple[float, float, float, float]]:
    """Yield the line segments, with connected cells of one row or column merged into one stroke."""
    across = {(y, 2 * x + (arm == "r")) for (y, x), arms in found.lines.items() for arm in arms if arm in "lr"}
    down = {(x, 2 * y + (arm == "d")) for (y, x), arms in found.lines.items() for arm in arms if arm in "ud"}
    for y, begin, end in _runs(across):
        yield begin * WIDE / 2, (y + 0.5) * HIGH, end * WIDE / 2, (y + 0.5) * HIGH
    for x, begin, end in _runs(down):
        yield (x + 0.5) * WIDE, begin * HIGH / 2, (x + 0.5) * WIDE, end * HIGH / 2
    for (y, x), char in found.slopes.items():
        left, right = (y + 1, y) if char == "/" else (y, y + 1)
        yield x * WIDE, left * HIGH, (x + 1) * WIDE, right * HIGH


def _runs(halves: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Yield (line, first, one past the last) of each run without a gap."""
    for (line, _), group in groupby(enumerate(sorted(halves)), lambda it: (it[1][0], it[1][1] - it[0])):
        run = [half for _, (_, half) in group]
        yield line, run[0], run[-1] + 1


def _head(found: Strokes, cell: Cell, to: str) -> str:
    """Return a triangle at the far edge of its cell, or at the line beyond it."""
    (down, right), (y, x) = STEP[to], cell
    crossing = "ud" if to in "lr" else "lr"
    reach = 1.0 if set(crossing) & set(found.lines.get(_to(cell, to), "")) else 0.5
    tip_x, tip_y = (x + 0.5 + right * reach) * WIDE, (y + 0.5 + down * reach) * HIGH
    back_x, back_y = tip_x - right * 8, tip_y - down * 8
    return (
        f"M{tip_x:g} {tip_y:g}L{back_x + down * 4:g} {back_y + right * 4:g}"
        f"L{back_x - down * 4:g} {back_y - right * 4:g}Z"
    )


def _areas(found: Strokes) -> str:
    """Return the filled areas, each extended to the surrounding lines."""
    parts = []
    for y, begin, end in _runs(found.fills):
        left, right = (0.5 * ((y, it) in found.lines) for it in (begin - 1, end))
        over, under = (0.5 * ((it, begin) in found.lines) for it in (y - 1, y + 1))
        parts.append(
            f'<rect class="area" x="{(begin - left) * WIDE:g}" y="{(y - over) * HIGH:g}" '
            f'width="{(end - begin + left + right) * WIDE:g}" height="{(1 + over + under) * HIGH:g}"/>'
        )
    return "".join(parts)


def _words(rows: list[str], found: Strokes) -> Iterator[tuple[Cell, str]]:
    """Yield the remaining text by position; words separated by single blanks stay together."""
    for y, row in enumerate(rows):
        rest = "".join(" " if (y, x) in found else char for x, char in enumerate(row))
        yield from (((y, run.start()), run[0]) for run in re.finditer(r"\S+(?: \S+)*", rest))
