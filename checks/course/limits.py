"""The speed that each lesson has to reach on an H200, beside the speed that was measured.

    python -m checks.course.limits                    # of the stored files, lessons/measured
    python -m checks.course.limits DIR/measured       # of new ones, from ``python -m checks.course.measure run DIR``

A kernel is compared only with what was measured in the same table, hence in the same process.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from checks.course.tables import COLD, SOLUTIONS, STORED, WARM, tables

MMA_SYNC = 646  # TFLOP/s that mma.sync reaches on registers, halves with sums in floats
TORCH_INT8 = {4096: 788, 8192: 891}  # TOP/s of torch._int_mm, B transposed, when the limit was set
LAYOUTS = ("NN", "NT", "TN", "TT")
SQUARES = (1024, 1536, 2048, 3072, 4096, 6144, 8192)


class Limit(NamedTuple):
    """``kernel`` has to reach at least ``percent`` of the speed of ``of``: another kernel of the same size in the same
    table, or a rate in TFLOP/s. ``aim``: desired, not required. ``way``: of timing, see ``measure``."""

    table: str
    kernel: str
    size: int | str
    of: str | float
    percent: float
    way: str = COLD
    aim: bool = False

    @property
    def name(self) -> str:
        aim = " (aim)" if self.aim else ""
        return f"{self.kernel}, {self.size}, {self.way}: {self.percent:g}% of {self.of}{aim}"

    def reached(self, folder: Path = STORED) -> float:
        """Percent. Raises ``OSError`` if the table was not measured, ``KeyError`` if it lacks the kernel or size."""
        found = measured(self.table, folder)
        other = self.of
        if isinstance(other, str):
            other = found[other, self.size if (other, self.size) in found else 0][self.way]["tflops"]
        return float(100 * found[self.kernel, self.size][self.way]["tflops"] / other)


def limits() -> Iterator[Limit]:
    """The limits of all lessons."""
    for way in (WARM, COLD):
        for size, least in {1024: 90, 2048: 90, 4096: 95, 8192: 90}.items():
            yield Limit(SOLUTIONS, "double_buffer", size, "cublas", least, way)
            yield Limit(SOLUTIONS, "double_buffer", size, "warp_tile", 100, way)
    yield Limit("layouts", "any_shape NN", 4096, "double_buffer NN", 97)
    for layout in LAYOUTS:
        for size in (4096, 4095, 4097, 2047, 1000, 1023):
            yield Limit("layouts", f"any_shape {layout}", size, f"cublas {layout}", 90 if size != 4097 else 100)
    yield Limit("epilogues", "epilogue", 4096, "any_shape", 98)
    yield Limit("epilogues", "epilogue", 4096, "cublas fused", 95)
    yield Limit("epilogues", "epilogue", 64, "any_shape then kernel", 170)
    yield Limit("two_warps", "two_warps", 512, "double_buffer", 130)
    yield Limit("two_warps", "two_warps", 768, "double_buffer", 130)
    yield Limit("two_warps", "two_warps", 4096, "cublas", 75)
    for size in (4096, 8192):
        yield Limit("types", "dgemm", size, "loop float64", 92)
        yield Limit("types", "dp4a", size, "loop int8", 75)
        yield Limit("pairs", "dp4a halves", size, "loop float16 8x8", 75)
    for size in (4096, 8192):
        yield Limit("halves", "tensor_cores", size, "cublas", 30)
        yield Limit("halves", "async_copy", size, "cublas", 45)
        yield Limit("mma", "mma", size, "cublas float16", 62)
        yield Limit("mma", "mma tma", size, "cublas float16", 77, aim=True)
        yield Limit("mma", "mma tma", size, MMA_SYNC, 75)
        yield Limit("mma", "mma tma", size, MMA_SYNC, 90, aim=True)
        yield Limit("mma", "precision bf16", size, "cublas bfloat16", 62)
        yield Limit("mma", "precision tf32_tma", size, "cublas tf32", 65)
        yield Limit("mma", "precision int8_tma", size, TORCH_INT8[size], 110)
        yield Limit("mma", "precision int8_tma", size, "torch int8 TN", 110)
        yield Limit("mma", "precision int8_tma", size, TORCH_INT8[size], 135, aim=True)
        yield Limit("mma", "precision fp64", size, "cublas float64", 95)
        yield Limit("mma", "precision fp32_by_tf32", size, "cublas float32", 150)
        yield Limit("mma", "precision", size, "cublas float32", 300, aim=True)
    yield Limit("ragged_floats", "ragged_mma NN", 4096, "mma NN", 85)
    for layout in LAYOUTS:
        for size in (4095, 4097):
            yield Limit("ragged", f"ragged_mma {layout}", size, f"cublas {layout}", 100)
        yield Limit("ragged", f"ragged_mma {layout}", 4096, f"cublas {layout}", 56)
        if layout != "NN":  # mma.sync alone, with products and nothing else, reaches 76%
            yield Limit("ragged", f"ragged_mma {layout}", 4096, f"cublas {layout}", 80)
    for size, least in {2048: 78, 4096: 80, 8192: 76, 16384: 60}.items():
        yield Limit("hopper", "wgmma", size, "cublas bfloat16", least, WARM)
    for size, least in {2048: 82, 4096: 86, 8192: 86, 16384: 75}.items():
        yield Limit("roles", "roles", size, "cublas", least, WARM)
    for size, least in {2048: 93, 4096: 97, 8192: 98, 16384: 96}.items():
        yield Limit("persistent", "persistent", size, "cublas", least, WARM)
    for size, least in {2048: 97, 4096: 99, 8192: 101, 16384: 99}.items():
        yield Limit("clusters", "clusters", size, "cublas", least, WARM)
    for size, desired in {2048: 101, 4096: 103, 8192: 105, 16384: 105}.items():
        yield Limit("clusters", "clusters", size, "cublas", desired, WARM, aim=True)
    for size, least in {2048: 110, 4096: 99, 8192: 102, 16384: 98}.items():
        yield Limit("fp8", "fp8 fast", size, "torch fp8", least, WARM)
        yield Limit("fp8", "fp8 unscaled uniform", size, "fp8 fast", 92, WARM)  # promotion alone, as in cublasLt
        yield Limit("fp8", "fp8", size, "fp8 fast", 92, WARM, aim=True)  # with a scale for each row
        yield Limit("int8", "fp8 int8", size, "torch int8", 140, WARM)
        yield Limit("int8", "fp8 int8", size, "torch int8", 150, WARM, aim=True)
        yield Limit("tf32", "fp8 tf32", size, "cublas", 100, WARM)
        yield Limit("tf32", "fp8 tf32", size, "cublas", 105, WARM, aim=True)
    for size in (4096, 8192, 16384):
        yield Limit("fp8", "fp8 fast", size, "torch fp8", 105, WARM, aim=True)
    for size in (4096, 8192):
        yield Limit("ozaki", "ozaki NT", size, "cublas NT", 100, WARM)
        yield Limit("ozaki", "ozaki NT", size, "cublas NT", 120, WARM, aim=True)
    for shape in ("128x128x8192", "256x256x16384", "512x512x8192", "64x4096x4096"):
        yield Limit("split", "split_k", shape, "cublas", 95)
        yield Limit("split", "split_k atomics", shape, "cublas", 95)
        yield Limit("split", "split_k", shape, "any_shape", 300)
    for size, once in {1536: 37.7, 3072: 45.2}.items():  # what cuBLAS once reached there
        yield Limit("split", "split_k", size, "cublas", 105)
        yield Limit("split", "split_k", size, once, 105)
    for size in SQUARES:
        yield Limit("squares", "beat_cublas", size, "cublas", 100)
    for size in (4096, 6144, 8192):
        yield Limit("squares", "beat_cublas tma", size, "cublas", 105)
    yield Limit("squares", "beat_cublas tma", 4096, "cublas", 110, aim=True)


MEAN = 104.0  # percent of cuBLAS, the geometric mean of ``SQUARES``


def mean_of_squares(folder: Path = STORED) -> float:
    """Geometric mean of ``beat_cublas`` over cuBLAS, in percent."""
    ratios = [Limit("squares", "beat_cublas", size, "cublas", 100).reached(folder) / 100 for size in SQUARES]
    return float(100 * prod(ratios) ** (1 / len(ratios)))


@cache
def measured(table: str, folder: Path = STORED) -> dict[tuple[str, int | str], dict[str, Any]]:
    """A table's rows by kernel and size. Raises ``OSError`` if it was not measured."""
    rows = json.loads((folder / tables()[table].file).read_text())["rows"]
    return {(row["kernel"], row["size"]): row for row in rows}


def table(folder: Path) -> Table:
    """Every limit and what was reached; tables that ``folder`` lacks are left out."""
    made = Table("kernel", "size", "of", "L2", "asked %", "reached %", "")
    for limit in limits():
        try:
            reached = limit.reached(folder)
        except OSError:
            continue
        short = "" if reached >= limit.percent else "aim, missed" if limit.aim else "missed"
        asked = f"{limit.percent:g}" + (" aim" if limit.aim else "")
        made.add_row(limit.kernel, str(limit.size), str(limit.of), limit.way, asked, f"{reached:.1f}", short)
    if (folder / tables()["squares"].file).exists():
        mean = mean_of_squares(folder)
        short = "" if mean >= MEAN else "missed"
        made.add_row("beat_cublas", "mean of all", "cublas", COLD, f"{MEAN:g}", f"{mean:.1f}", short)
    return made


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m checks.course.limits", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=STORED, help="of measured files; lessons/measured")
    Console(width=100).print(table(parser.parse_args().folder))
