"""What each lesson promises on an H200, held to the stored measurements.

A limit that is missed is listed as missed, and has to be taken off that list when it is reached.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from math import prod
from typing import Any, NamedTuple

import pytest

from checks.course.measure import ROOT

MMA_SYNC = 646  # TFLOP/s that mma.sync reaches on registers, halves with sums in floats
TORCH_INT8 = {4096: 788, 8192: 891}  # TOP/s of torch._int_mm, B transposed
LAYOUTS = ("NN", "NT", "TN", "TT")


class Limit(NamedTuple):
    """``kernel`` is to have at least so many ``percent`` of the speed of another kernel of the same size in the same
    file (``of``), or of a rate in TFLOP/s."""

    file: str
    kernel: str
    size: int | str
    of: str | float
    percent: float
    way: str = "cold"

    @property
    def name(self) -> str:
        return f"{self.kernel}, {self.size}, {self.way}: {self.percent:g}% of {self.of}"


def limits() -> Iterator[Limit]:
    for way in ("warm", "cold"):
        for size, least in {1024: 90, 2048: 90, 4096: 95, 8192: 90}.items():
            yield Limit("h200", "double_buffer", size, "cublas", least, way)
            yield Limit("h200", "double_buffer", size, "warp_tile", 100, way)
    yield Limit("h200_layouts", "any_shape NN", 4096, "double_buffer NN", 97)
    for layout in LAYOUTS:
        for size in (4096, 4095, 4097, 2047, 1000, 1023):
            yield Limit("h200_layouts", f"any_shape {layout}", size, f"cublas {layout}", 90 if size != 4097 else 100)
    yield Limit("h200_epilogues", "epilogue", 4096, "any_shape", 98)
    yield Limit("h200_epilogues", "epilogue", 4096, "cublas fused", 95)
    yield Limit("h200_epilogues", "epilogue", 64, "any_shape then kernel", 170)
    yield Limit("h200_two_warps", "two_warps", 512, "double_buffer", 130)
    yield Limit("h200_two_warps", "two_warps", 768, "double_buffer", 130)
    yield Limit("h200_two_warps", "two_warps", 4096, "cublas", 75)
    for size in (4096, 8192):
        yield Limit("h200_types", "dgemm", size, "loop float64", 92)
        yield Limit("h200_types", "dp4a", size, "loop int8", 75)
    for shape in ("128x128x8192", "256x256x16384", "512x512x8192", "64x4096x4096"):
        yield Limit("h200_split", "split_k", shape, "cublas", 95)
        yield Limit("h200_split", "split_k atomics", shape, "cublas", 95)
        yield Limit("h200_split", "split_k", shape, "any_shape", 300)
    for size, once in {1536: 37.7, 3072: 45.2}.items():  # what cuBLAS once reached there
        yield Limit("h200_split", "split_k", size, "cublas", 105)
        yield Limit("h200_split", "split_k", size, once, 105)
    for size in (1024, 1536, 2048, 3072, 4096, 6144, 8192):
        yield Limit("h200_squares", "beat_cublas", size, "cublas", 100)
    for size in (4096, 6144, 8192):
        yield Limit("h200_squares", "beat_cublas tma", size, "cublas", 105)
    for size in (4096, 8192):
        yield Limit("h200_halves", "tensor_cores", size, "cublas", 30)
        yield Limit("h200_halves", "async_copy", size, "cublas", 45)
        yield Limit("h200_mma", "mma", size, "cublas float16", 62)
        yield Limit("h200_mma", "mma tma", size, MMA_SYNC, 75)
        yield Limit("h200_mma", "mma bf16", size, "cublas bfloat16", 62)
        yield Limit("h200_mma", "mma tf32_tma", size, "cublas tf32", 65)
        yield Limit("h200_mma", "mma int8_tma", size, TORCH_INT8[size], 110)
        yield Limit("h200_mma", "mma fp64", size, "cublas float64", 95)
        yield Limit("h200_mma", "mma fp32_by_tf32", size, "cublas float32", 150)


MISSED = {
    "epilogue, 64, cold: 170% of any_shape then kernel",
    "dgemm, 4096, cold: 92% of loop float64",
    "dgemm, 8192, cold: 92% of loop float64",
    "mma tf32_tma, 8192, cold: 65% of cublas tf32",
}


@cache
def measured(file: str) -> dict[tuple[str, int | str], dict[str, Any]]:
    rows = json.loads((ROOT / "lessons" / "measured" / f"{file}.json").read_text())["rows"]
    return {(row["kernel"], row["size"]): row for row in rows}


@pytest.mark.parametrize("limit", [*limits()], ids=lambda limit: limit.name)
def test_a_limit_is_reached_or_listed_as_missed(limit: Limit) -> None:
    found = measured(limit.file)
    reached = found[limit.kernel, limit.size][limit.way]["tflops"]
    other = limit.of
    if isinstance(other, str):
        other = found[other, limit.size if (other, limit.size) in found else 0][limit.way]["tflops"]
    assert (reached >= limit.percent / 100 * other) == (limit.name not in MISSED), f"{100 * reached / other:.1f}%"


def test_what_is_missed_is_a_limit() -> None:
    assert {limit.name for limit in limits()} >= MISSED


def test_beat_cublas_is_faster_than_cublas_on_the_whole() -> None:
    found = measured("h200_squares")
    sizes = [size for kernel, size in found if kernel == "beat_cublas"]
    ratios = [found["cublas", n]["cold"]["median_us"] / found["beat_cublas", n]["cold"]["median_us"] for n in sizes]
    assert prod(ratios) ** (1 / len(ratios)) >= 1.04
