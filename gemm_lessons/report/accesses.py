"""Show the memory requests of one source line: lanes by bank of shared memory, sectors of global memory."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from gemm_lessons.engine.costs.banks import BANKS, SECTOR, WARP, WORD
from gemm_lessons.engine.pictures.accesses import Cell, Request, bank_map
from gemm_lessons.engine.records.metrics import TABLED
from gemm_lessons.view.record import Place, Side

MOST = 4  # maximum pictures of one line
SHORT = {metric: short.replace("_", " ") for short, metric in TABLED.items()}
TURNS = "123456789abcdefghijklmnopqrstuvw"


def show_line(console: Console, side: Side, line: int) -> None:
    """Print the line, its counters, and a picture of every kind of request."""
    row = side.row
    console.print(Text.assemble((f"{row.path}:{line}  ", "quiet"), (row.source_line(line), "bold")), soft_wrap=True)
    for count in side.counts:
        if count.line == line:
            best = f", {count.ideal:,} at best" if count.ideal != count.value else ""
            console.print(Text(f"  {SHORT.get(count.metric, count.metric)}: {count.value:,}{best}", style="quiet"))
    requests = side.requests_of(line)
    for request in requests[:MOST]:
        console.print()
        console.print(Text(heading(request), style="bold"))
        times = f"{request.times} such requests of block 0, by {_numbered(request.instructions, 'machine instruction')}"
        console.print(Text(f"{times}; the first: {request.text}", style="quiet"))
        if request.space == "shared":
            _banks(console, request)
        else:
            _sectors(console, request, next((it for it in side.places if it.name == request.array), None))
    if len(requests) > MOST:
        console.print(Text(f"\n{len(requests) - MOST} more kinds of requests", style="quiet"))


def heading(request: Request) -> str:
    """Describe a request: ``load from Bs, 16 bytes a lane, warp 0: 8 wavefronts, 4 would do``."""
    way = {"load": "load from", "store": "store to", "atomic": "atomic on", "copy": "copy"}[request.effect]
    if request.effect == "copy":
        way = "copy from" if request.space == "global" else "copy to"
    unit = "wavefront" if request.space == "shared" else "sector"
    rest = "as few as possible" if request.cost <= request.ideal else f"{request.ideal} would do"
    array = request.array or f"{request.space} memory"
    width = "a row of a matrix for each lane" if request.is_matrix else f"{request.width} bytes a lane"
    return f"{way} {array}, {width}, warp {request.warp}: {_numbered(request.cost, unit)}, {rest}"


def _numbered(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("s" if count != 1 else "")


def _banks(console: Console, request: Request) -> None:
    drawn = bank_map(request)
    console.print(Text("  bank   " + "".join(f"{bank:<8}" for bank in range(0, BANKS, 8)), style="quiet"))
    for lane in range(WARP):
        if lane and lane % drawn.group == 0:
            console.print(Text(f"         {'-' * BANKS}", style="quiet"))
        line = Text(f"lane {lane:>2}  ", style="quiet")
        cells = {cell.bank: cell for cell in drawn.lanes[lane]}
        for bank in range(BANKS):
            line.append(*_mark(cells.get(bank)))
        if drawn.lanes[lane]:
            line.append(f"  {request.array or 'byte'} {_word(request.lanes[lane])}", style="quiet")
        console.print(line)
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
    """Return ``[3, 64]``, the row and column of the element at a byte offset, or the byte offset itself."""
    if place is None or byte < 0:
        return f" byte {byte}"
    line, inside = divmod(byte // place.element_bytes, place.leading)
    return f"[{line}, {inside}]" if place.order == "row" else f"[{inside}, {line}]"


def _lanes(lanes: list[int]) -> str:
    if len(lanes) == 1:
        return f"lane {lanes[0]}"
    if lanes[-1] - lanes[0] == len(lanes) - 1:
        return f"lanes {lanes[0]} to {lanes[-1]}"
    shown = ", ".join(str(lane) for lane in lanes[:4])
    return f"lanes {shown}{', ...' if len(lanes) > 4 else ''}"
