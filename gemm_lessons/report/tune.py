"""Show a search for tile sizes: a table of the best, and the reasons why others were left out.

With ``--model``: the bounds on tile sizes; with ``--plot``: every candidate in the order of its time.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gemm_lessons.commands import TileCandidate, TuneRequest, Tuning
from gemm_lessons.course import Lesson, shown, writing
from gemm_lessons.gemm import OTHER_REGISTERS, TileModel
from gemm_lessons.report.console import headed_table, plain_table
from gemm_lessons.report.table import duration, tera

SHOWN = 10
OWN = "*"  # after the rank of the lesson's own sizes


def show_tuning(console: Console, request: TuneRequest, tuning: Tuning) -> None:
    """Print the ten fastest and the lesson's own sizes, then notes."""
    measured = bool(tuning.measured)
    where = request.device.name if measured else request.gpu.name
    what = "measured: medians, L2 cold" if measured else "ESTIMATES: nothing was timed, L2 warm"
    console.print(Text(f"{request.lesson.name} at {request.shape} on {where}", style="bold"))
    console.print(Text(what, style="quiet"))
    best = tuning.ranked[:SHOWN]
    rows = [*enumerate(best, 1)]
    if tuning.own in tuning.ranked and tuning.own not in best:
        rows.append((tuning.ranked.index(tuning.own) + 1, tuning.own))
    varied = [name for name in tuning.own.sizes if len({it.sizes[name] for _, it in rows}) > 1]
    if rows:
        console.print(_table(rows, varied, tuning, measured))
    for text, style in _words(request, tuning, varied if rows else list(tuning.own.sizes)):
        console.print(Text(text, style=style))


def _table(rows: list[tuple[int, TileCandidate]], varied: list[str], tuning: Tuning, measured: bool) -> Table:
    table = headed_table()
    table.add_column("", justify="right")
    for name in varied:
        table.add_column(_short(name), justify="right")
    for name in ("regs", "fit", "time", "TFLOP/s", *(("cuBLAS", "estimate") if measured else ())):
        table.add_column(name, justify="right", no_wrap=True)
    if not measured:
        table.add_column("limiter", no_wrap=True)
    for place, it in rows:
        tuned = it.tuned
        mark = f"{place}{OWN if it == tuning.own else ' '}"
        cells = [mark, *(f"{it.sizes[name]}" for name in varied), f"{tuned.registers}", f"{tuned.blocks_per_sm}"]
        if measured:
            share = "-" if tuned.of_cublas is None else f"{tuned.of_cublas:.0%}"
            cells += [duration(tuned.time_us), tera(tuned.gflops), share, duration(tuned.estimate_us)]
        else:
            cells += [duration(tuned.estimate_us), tera(tuned.estimate_gflops), tuned.limiter]
        table.add_row(*cells, style="bold" if it == tuning.own else None)
    return table


def _short(name: str) -> str:
    """Abbreviate a name for a column of two digits: ``BLOCKS_PER_SM`` becomes ``BPS``."""
    words = name.split("_")
    return name if len(name) <= 5 else "".join(word[0] for word in words)


def _words(request: TuneRequest, tuning: Tuning, varied: list[str]) -> list[tuple[str, str]]:
    said: list[tuple[str, str]] = []
    long = [name for name in varied if _short(name) != name]
    if long:
        said.append((", ".join(f"{_short(name)}: {name}" for name in long) + ".", "quiet"))
    own, ranked = tuning.own, tuning.ranked
    if same := [f"{name} = {size}" for name, size in own.sizes.items() if name not in varied]:
        said.append((f"All of these: {', '.join(same)}.", "quiet"))
    if own.tuned.why_not:
        said.append((f"The lesson's own sizes ({own.text}) are left out: {own.tuned.why_not}.", "doubt"))
    elif ranked:
        ours, fastest = (_time(it, tuning) for it in (own, ranked[0]))
        gain = "are the fastest" if ranked[0] == own else f"take {ours / fastest - 1:.1%} longer than the fastest"
        said.append((f"The lesson's own sizes ({OWN}) {gain}.", ""))
    if tuning.place is not None:
        said.append(
            (f"The estimate ranked the fastest of {len(tuning.measured)} measured in place {tuning.place}.", "")
        )
    whys = [it.tuned.why_not for it in tuning.candidates if it.tuned.why_not]
    reasons = Counter(re.sub(r"\d[\d,]*", "N", why) for why in whys)  # without numbers, to count equal ones together
    said.append(("regs: registers per thread. fit: blocks per multiprocessor.", "quiet"))
    said.append((f"{len(tuning.candidates)} candidates, {len(ranked)} of them right.", "quiet"))
    said += [(f"  {count:4} left out: {reason}", "quiet") for reason, count in reasons.most_common()]
    said += [(note, "doubt") for note in tuning.notes]
    if request.csv is not None:
        again = f"; {tuning.reused} were there already" if tuning.reused else ""
        said.append((f"kept in {shown(request.csv)}{again}.", "quiet"))
    return said


def _time(candidate: TileCandidate, tuning: Tuning) -> float:
    tuned = candidate.tuned
    return (tuned.time_us if tuning.measured and tuned.time_us is not None else tuned.estimate_us) or 1.0


NEAREST = 2  # the next larger thread tile is this many times as wide


def show_model(console: Console, lesson: Lesson, model: TileModel) -> None:
    """Print the limits of the GPU, the resulting bounds on a tile, and the lesson's sizes."""
    gpu, word = model.gpu, model.word
    console.print(Text(f"{lesson.name} on {gpu.name}: square tiles that its data sheet allows", style="bold"))
    rows = plain_table()
    rate = f"{gpu.sms} x {model.lanes} lanes x 2 x {gpu.clock_hz / 1e9:.2f} GHz = {model.flops / 1e12:.3g} TFLOP/s"
    rows.add_row("rate", rate)
    rows.add_row("DRAM", f"{_rate(gpu.dram_bytes_per_s)}; rate * {word} / bn: bn >= {model.least_block:.1f}")
    rows.add_row(
        "shared memory", f"{_rate(model.shared_bytes_per_s)}; rate * {word} / rx: rx >= {model.least_thread:.2f}"
    )
    side = model.thread
    if side is None:
        wanted = next(it for it in (1, 2, 4, 8, 16, 32, 64) if it >= model.least_thread * 0.999)
        rows.add_row("registers", f"{wanted} x {wanted} takes {model.registers(wanted)} of {model.most_registers}")
        rows.add_row("so", "no square tile: shared memory needs larger tiles than registers can hold")
    else:
        larger = side * NEAREST
        rows.add_row(
            "registers",
            f"{side} x {side} takes {model.registers(side)}, {larger} x {larger} {model.registers(larger)}, of"
            f" {gpu.registers_per_thread} less {OTHER_REGISTERS}",
        )
        shared = model.shared_bytes(model.depth) / 1024
        rows.add_row("so", f"{side} x {side} by a thread, {model.block} x {model.block} by a block")
        rows.add_row(
            "", f"bk = {model.depth}: {shared:.0f} of {gpu.shared_bytes_per_block / 1024:.0f} KiB, two buffers"
        )
    console.print(rows)
    own = ", ".join(f"{name} = {size}" for name, size in lesson.tile.sizes) or "none"
    console.print(Text(f"The lesson's own: {own}", style="quiet"))
    console.print(Text("From the data sheet alone: nothing was compiled, counted or timed.", style="quiet"))


def _rate(bytes_per_s: float) -> str:
    return f"{bytes_per_s / 1e12:.3g} TB/s"


def draw_tuning(request: TuneRequest, tuning: Tuning, path: Path) -> None:
    """Draw into a file whose suffix decides the format. Raises ``WriteError``."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from gemm_lessons.report.plot import FAINT, GREEN, HUES, STYLE

    ranked = tuning.ranked
    with rc_context(STYLE):
        figure = Figure(figsize=(8, 4.5), layout="constrained")
        axes = figure.add_subplot()
        places = range(1, len(ranked) + 1)
        estimated = [(it.tuned.estimate_gflops or 0.0) / 1e3 for it in ranked]
        axes.plot(places, estimated, ".", color=HUES[2], label=f"estimated for {request.gpu.name}")
        if measured := tuning.measured:
            times = [(it.tuned.gflops or 0.0) / 1e3 for it in measured]
            axes.plot(range(1, len(measured) + 1), times, "o", color=GREEN, label=f"measured on {request.device.name}")
        if tuning.own in ranked:
            axes.axvline(ranked.index(tuning.own) + 1, color=FAINT, linewidth=1, label="the lesson's own sizes")
        axes.set(xlabel="candidates, the fastest first", ylabel="TFLOP/s", ylim=(0, None))
        axes.set_title(f"{request.lesson.name} at {request.shape}")
        axes.grid(axis="y")
        axes.legend(frameon=False)
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, dpi=110, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
