"""``gemm-lessons tune --model``: show the bounds on tile sizes line by line."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gemm_lessons.course.lesson import Lesson
from gemm_lessons.gemm.tile_model import OTHER_REGISTERS, TileModel

NEAREST = 2  # the next larger thread tile is this many times as wide


def show_model(console: Console, lesson: Lesson, model: TileModel) -> None:
    """Print the limits of the GPU, the resulting bounds on a tile, and the lesson's sizes."""
    gpu, word = model.gpu, model.word
    console.print(Text(f"{lesson.name} on {gpu.name}: square tiles that its data sheet allows", style="bold"))
    rows = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    rate = f"{gpu.sms} x {model.lanes} lanes x 2 x {gpu.clock_hz / 1e9:.2f} GHz = {model.flops / 1e12:.3g} TFLOP/s"
    rows.add_row("rate", rate)
    rows.add_row("DRAM", f"{_rate(gpu.dram_bytes_per_s)}; rate * {word} / bn: bn >= {model.least_block:.1f}")
    rows.add_row(
        "shared memory", f"{_rate(model.shared_bytes_per_s)}; rate * {word} / rx: rx >= {model.least_thread:.1f}"
    )
    side = model.thread
    if side is None:
        wanted = next(it for it in (1, 2, 4, 8, 16, 32, 64) if it >= model.least_thread * 0.999)
        rows.add_row("registers", f"{wanted} x {wanted} takes {model.registers(wanted)} of {model.most_registers}")
        rows.add_row("so", "no square tile: shared memory asks for more than registers hold")
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
