"""Points of a benchmark made of the measurements stored with the course: all lessons, as a GPU would give them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from gemm_lessons.commands.points import CUBLAS, Point, type_of
from gemm_lessons.course.folder import packaged_course
from gemm_lessons.gemm.shapes import Shape

COURSE = packaged_course()
SIZES = (128, 256, 512, 1024, 2048, 4096, 8192)
FILES = (
    "h200", "h200_halves", "h200_mma", "h200_types", "h200_split", "h200_two_warps", "h200_squares", "h200_hopper",
    "h200_roles", "h200_persistent", "h200_clusters",
)  # fmt: skip
LIBRARIES = {"cublas float16": "fp16", "cublas bfloat16": "bf16", "cublas float64": "fp64", "cublas int8": "int8"}
# the type of a file's plain "cublas"; else fp32
PLAIN = {"h200_halves": "fp16", "h200_roles": "bf16", "h200_persistent": "bf16",
         "h200_clusters": "bf16"}  # fmt: skip
FLOP_PER_BYTE = {  # about those that the simulator counts, for the places on a roofline
    "naive": 0.015, "coalesced": 0.25, "block_tile": 0.31, "thread_column": 0.62, "thread_tile": 1.2,
    "vector_loads": 1.4, "bank_conflicts": 2.1, "warp_tile": 2.6, "double_buffer": 2.6, "dgemm": 1.6, "dp4a": 7.8,
    "tensor_cores": 14.0, "async_copy": 23.0, "mma": 23.0, "split_k": 2.6, "two_warps": 2.0, "beat_cublas": 3.8,
    "wgmma": 32.0, "roles": 43.0, "persistent": 43.0, "clusters": 64.0,
}  # fmt: skip


def types() -> dict[str, str]:
    """Return the number type of every lesson, by name."""
    return {name: type_of(COURSE.lesson(name).data) for name in COURSE.names}


def points(gpu: str = "NVIDIA H200") -> list[Point]:
    """Return every solution and cuBLAS in its number types, at the sizes that were measured."""
    names = {name[3:]: name for name in COURSE.names}
    found: dict[tuple[str, str, int], Point] = {}
    for file in FILES:
        raw = json.loads((COURSE.lessons_dir / "measured" / f"{file}.json").read_text(encoding="utf-8"))
        for row in raw["rows"]:
            library = LIBRARIES.get(row["kernel"]) or (PLAIN.get(file, "fp32") if row["kernel"] == "cublas" else "")
            series = CUBLAS if library else names.get(row["kernel"])
            if series is None or "cold" not in row or row.get("size") not in SIZES:
                continue
            found.setdefault((series, library, row["size"]), _point(gpu, series, library, row, raw))
    return list(found.values())


def _point(gpu: str, series: str, library: str, row: Mapping[str, object], raw: Mapping[str, str]) -> Point:
    size, cold = row["size"], row["cold"]
    assert isinstance(size, int)
    assert isinstance(cold, Mapping)
    gflops = 1e3 * cold["tflops"]
    return Point(
        date=raw["date"],
        kind="measured",
        gpu=gpu,
        series=series,
        kernel=library or "0" * 12,
        shape=Shape(size, size, size),
        time_us=2 * size**3 / gflops / 1e3,
        q1_us=None,
        q3_us=None,
        launches=100,
        gflops=gflops,
        of_cublas=cold.get("percent_of_cublas", 100) / 100,
        limiter="",
        flop_per_byte=None if library else FLOP_PER_BYTE.get(series[3:], 2.6),
        clock_mhz=1980,
        driver=raw["driver"],
        cublas=raw["cublas"],
        compiler=raw["compiler"],
    )
