"""Draw tiles in shared memory as text: which bytes products read, and which blocks of a cluster get a copy."""

from __future__ import annotations

from collections.abc import Sequence

from gemm_lessons.engine.machine.warpgroups import CHUNK
from gemm_lessons.engine.pictures.tiles import Chunk, Share, TilePicture

LINE = 128  # bytes of a line of a picture


def picture_lines(picture: TilePicture) -> list[str]:
    """Return the heading, 8 lines of 128 bytes, and what a cell says."""
    index = "column" if picture.name == "B" else "row"
    row, along = ("k", index) if picture.transposed else (index, "k")
    array = picture.array or "shared memory"
    lines = [
        f"{picture.name} of {picture.form}, line {picture.line}",
        f"from byte {picture.start:,} of {array}",
        " " * 11 + "".join(f"{byte:<8}" for byte in range(0, LINE, CHUNK)).rstrip(),
    ]
    for at in range(0, len(picture.chunks), LINE // CHUNK):
        cells = picture.chunks[at : at + LINE // CHUNK]
        text = "".join(f"{_cell(cell):<8}" for cell in cells).rstrip()
        lines.append(f"  +{at * CHUNK:<8}{text}")
    return [*lines, f"0:3,8: product 0 of this line reads {row} 3, {along} 8 and up there; -: not read"]


def _cell(cell: Chunk | None) -> str:
    return "-" if cell is None else f"{cell.product}:{cell.row},{cell.first}"


def share_lines(shares: Sequence[Share]) -> list[str]:
    """Return a table of the copies of a cluster; nothing where each block copies for itself."""
    if all(it.to == (it.issuer,) for it in shares):
        return []
    rows = [("line", "issued by", "bytes", "for")]
    for it in shares:
        to = f"blocks {', '.join(map(str, it.to))}" if len(it.to) > 1 else f"block {it.to[0]}"
        rows.append((str(it.line or "-"), f"block {it.issuer}", f"{it.size:,}", to))
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    return [f"{row[0]:>{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]}" for row in rows]
