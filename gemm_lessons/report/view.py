"""Show a view in the terminal: one line's memory requests or tiles, or the timeline by role.

A request is drawn as lanes by bank of shared memory or sectors of global memory, a tile as the bytes that products
read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from rich.console import Console
from rich.text import Text

from gemm_lessons.course import CommandError
from gemm_lessons.engine.costs import BANKS, SECTOR, WORD
from gemm_lessons.engine.hardware import WARP
from gemm_lessons.engine.pictures import CHUNK_BYTES, Cell, Chunk, Request, Share, TilePicture, bank_map
from gemm_lessons.engine.records import TABLED
from gemm_lessons.report.console import numbers, plain_table, words
from gemm_lessons.report.roles import show_roles, show_warps
from gemm_lessons.report.stalls import show_stalls
from gemm_lessons.view import Place, Side

MOST = 4  # maximum pictures of one line
MOST_LINES = 12  # of the table of requests
SHORT = {metric: short.replace("_", " ") for short, metric in TABLED.items()}
TURNS = "123456789abcdefghijklmnopqrstuvw"


def show_line(console: Console, side: Side, line: int) -> None:
    """Print the tiles that the line's products read, or the line with its counters and requests.

    Raises ``CommandError`` for a line that does not access memory.
    """
    if pictures := [it for it in side.tiles.pictures if it.line == line]:
        for picture in pictures:
            console.print("\n".join(picture_lines(picture)), soft_wrap=True, markup=False)
    elif side.requests_of(line) or any(count.line == line for count in side.counts):  # textures are only counted
        _show_requests(console, side, line)
    else:
        if why := side.missing.get("requests"):
            raise CommandError(why)
        lines = ", ".join(str(number) for number in sorted({request.line for request in side.requests}))
        raise CommandError(f"line {line} does not access memory" + (f"; these lines do: {lines}" if lines else ""))


def show_timeline(console: Console, side: Side) -> None:
    """Print the timeline by role, or by warp for a kernel without mbarriers, where the time goes, and the copies that
    blocks of a cluster share. Raises ``CommandError`` if there is no timeline."""
    if side.recording is None or side.timeline is None:
        raise CommandError(side.missing["timeline"])
    title = f"Block 0 on an {side.timeline.gpu} {side.played}, estimated"
    if side.roles is not None:
        show_roles(console, side.roles, side.recording, side.row.path, title)
    else:
        show_warps(console, side.timeline, side.recording, side.row.path, title)
    show_stalls(console, side.timeline, side.row)
    if shared := share_lines(side.tiles.shares):
        console.print("\n".join(["", "Copies of a cluster: who issues them, and for whom", *shared]), markup=False)


def show_requests(console: Console, side: Side) -> None:
    """Print the requests that waste most, one for each line and array."""
    worst: dict[tuple[object, ...], Request] = {}
    for it in side.requests:  # of a line, the most wasteful first
        worst.setdefault((it.file, it.line, it.space, it.effect, it.array), it)
    if not worst:
        return
    table = plain_table(numbers("line"), numbers("cost"), numbers("at best"), words("of a warp's request"), "source")
    for it in sorted(worst.values(), key=lambda it: ((it.ideal - it.cost) * it.times, it.line))[:MOST_LINES]:
        cost = Text(_numbered(it.cost, _unit(it)), "bad" if it.cost > it.ideal else "good")
        source = Text(side.row.source_line(it.line, it.file), no_wrap=True, overflow="ellipsis")
        where = str(it.line) if it.file == side.row.path else f"{PurePath(it.file).name}:{it.line}"
        table.add_row(where, cost, str(it.ideal), f"{_way(it)} {it.array or it.space}", source)
    console.print(Text("\nMemory requests by line, the most wasteful first; --line N draws them", style="bold"))
    console.print(table)
    for note in side.notes:
        console.print(Text(note, style="quiet"))
    if len(worst) > MOST_LINES:
        console.print(Text(f"{len(worst) - MOST_LINES} more", style="quiet"))


def _show_requests(console: Console, side: Side, line: int) -> None:
    """Print the line, its counters, and a picture of every kind of request."""
    row, requests = side.row, side.requests_of(line)
    file = requests[0].file if requests else row.path
    source = row.source_line(line, file)
    console.print(Text.assemble((f"{file}:{line}  ", "quiet"), (source, "bold")), soft_wrap=True)
    for count in side.counts:
        if count.line == line:
            best = f", {count.ideal:,} at best" if count.ideal != count.value else ""
            console.print(Text(f"  {SHORT.get(count.metric, count.metric)}: {count.value:,}{best}", style="quiet"))
    for request in requests[:MOST]:
        console.print()
        console.print(Text(heading(request), style="bold"))
        by = f"by {_numbered(request.instructions, 'instruction')}; the first: {request.text}"
        console.print(Text(f"{_numbered(request.times, 'such request')} of block 0, {by}", style="quiet"))
        if request.space == "shared":
            _banks(console, request)
        else:
            _sectors(console, request, next((it for it in side.places if it.name == request.array), None))
    if len(requests) > MOST:
        console.print(Text(f"\n{len(requests) - MOST} more kinds of requests", style="quiet"))


def heading(request: Request) -> str:
    """Describe a request: ``load from Bs, 16 bytes a lane, warp 0: 8 wavefronts, 4 would do``."""
    rest = "as few as possible" if request.cost <= request.ideal else f"{request.ideal} would do"
    array = request.array or f"{request.space} memory"
    width = "a row of a matrix for each lane" if request.is_matrix else f"{request.width} bytes a lane"
    return f"{_way(request)} {array}, {width}, warp {request.warp}: {_numbered(request.cost, _unit(request))}, {rest}"


def _way(request: Request) -> str:
    if request.effect == "copy":
        return "copy from" if request.space == "global" else "copy to"
    return {"load": "load from", "store": "store to", "atomic": "atomic on"}[request.effect]


def _unit(request: Request) -> str:
    return "wavefront" if request.space == "shared" else "sector"


def _numbered(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("s" if count != 1 else "")


def _banks(console: Console, request: Request) -> None:
    drawn = bank_map(request)
    console.print(Text("  bank   " + "".join(f"{bank:<8}" for bank in range(0, BANKS, 8)), style="quiet"))
    last = max(lane for lane in range(WARP) if drawn.lanes[lane])
    for lane in range(last + 1):
        if lane and lane % drawn.group == 0:
            console.print(Text(f"         {'-' * BANKS}", style="quiet"))
        line = Text(f"lane {lane:>2}  ", style="quiet")
        cells = {cell.bank: cell for cell in drawn.lanes[lane]}
        for bank in range(BANKS):
            line.append(*_mark(cells.get(bank)))
        if drawn.lanes[lane]:
            line.append(f"  {request.array or 'byte'} {_word(request.lanes[lane])}", style="quiet")
        console.print(line)
    if last + 1 < WARP:
        console.print(Text(f"{_lanes(list(range(last + 1, WARP)))}: inactive", style="quiet"))
    console.print(
        Text(
            "1: the bank's first word in this group of lanes; 2, 3, ...: another word of the same bank, a wavefront "
            "more; =: a word that a lane above asked for, too (no cost)",
            style="quiet",
        )
    )
    if drawn.joined > request.cost:
        console.print(
            Text(f"Neighbouring groups share wavefronts: {drawn.joined} would be {request.cost}.", style="quiet")
        )


def _mark(cell: Cell | None) -> tuple[str, str]:
    if cell is None:
        return ".", "quiet"
    if cell.again:
        return "=", "quiet"
    return TURNS[min(cell.turn, len(TURNS)) - 1], "good" if cell.turn == 1 else "bad"


def _word(at: int | None) -> str:
    return "-" if at is None else f"+{at}" if at % WORD else f"word {at // WORD}"


def _sectors(console: Console, request: Request, place: Place | None) -> None:
    """Print one line for each sector: which lanes access which of its words."""
    touched: dict[int, dict[int, list[int]]] = {}
    for lane, at in enumerate(request.lanes):
        for byte in range(at, at + request.width) if at is not None else ():
            touched.setdefault(byte // SECTOR, {}).setdefault(byte % SECTOR, []).append(lane)
    for sector in sorted(touched):
        used = touched[sector]
        lanes = sorted({lane for by in used.values() for lane in by})
        words = "".join("#" if any(word + i in used for i in range(WORD)) else "." for word in range(0, SECTOR, WORD))
        where = f"{request.array}{element(place, sector * SECTOR)}"
        console.print(
            Text.assemble(
                ("  sector at ", "quiet"), f"{where:<16}", (words, "good" if len(used) == SECTOR else "bad"),
                (f"  {len(used):>2} of {SECTOR} bytes, {_lanes(lanes)}", "quiet"),
            )
        )  # fmt: skip


def element(place: Place | None, byte: int) -> str:
    """Return ``[3, 64]``, the indices of the element at a byte offset, or the byte offset itself."""
    if place is None or byte < 0:
        return f" byte {byte}"
    rest, found = byte // place.element_bytes, {}
    for stride in sorted(place.strides, reverse=True):
        found[stride], rest = divmod(rest, stride)
    return str([found[stride] for stride in place.strides])


def _lanes(lanes: list[int]) -> str:
    if len(lanes) == 1:
        return f"lane {lanes[0]}"
    if lanes[-1] - lanes[0] == len(lanes) - 1:
        return f"lanes {lanes[0]} to {lanes[-1]}"
    shown = ", ".join(str(lane) for lane in lanes[:4])
    return f"lanes {shown}{', ...' if len(lanes) > 4 else ''}"


LINE = 128  # bytes of a line of a picture


def picture_lines(picture: TilePicture) -> list[str]:
    """Return the heading, 8 lines of 128 bytes each, and the meaning of a cell."""
    index = "column" if picture.name == "B" else "row"
    row, along = ("k", index) if picture.transposed else (index, "k")
    array = picture.array or "shared memory"
    lines = [
        f"{picture.name} of {picture.form}, line {picture.line}",
        f"from byte {picture.start:,} of {array}",
        " " * 11 + "".join(f"{byte:<8}" for byte in range(0, LINE, CHUNK_BYTES)).rstrip(),
    ]
    for at in range(0, len(picture.chunks), LINE // CHUNK_BYTES):
        cells = picture.chunks[at : at + LINE // CHUNK_BYTES]
        text = "".join(f"{_cell(cell):<8}" for cell in cells).rstrip()
        lines.append(f"  +{at * CHUNK_BYTES:<8}{text}")
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
