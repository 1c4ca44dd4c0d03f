"""Measure lesson split_k beside any_shape and cuBLAS: where ``lessons/measured/h200_split.json`` comes from.

    python -m checks.course.split compile DIR        # here: machine code of every kernel that is chosen
    python -m checks.course.split run DIR lessons/measured/h200_split.json     # on a machine with the GPU and cupy

Small and skinny shapes, and squares whose tiles do not fill whole waves; ``size`` of a line is M = N = K, or
``128x128x8192``. Everything else is as in ``measure``. ``split_k`` chooses between ``split_k slices``, as many for each
tile, and ``split_k stream-K``; in ``split_k atomics`` pieces are added up by atomics, clearing C included; ``narrow``:
one float at a time; in ``one team`` nobody shares the pieces of a tile's element.
"""

from __future__ import annotations

import hashlib
import statistics
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from checks.course.kernel import Kernel
from checks.course.measure import (
    COLD,
    ROOT,
    SPIN_CLOCKS,
    Bench,
    Call,
    compile_kernels,
    machine,
    show,
    spread,
    write,
)
from gemm_lessons.commands.bench import label
from gemm_lessons.course.folder import Course
from gemm_lessons.course.pitfalls import resized, with_edits
from gemm_lessons.course.tiles import typed
from gemm_lessons.gemm.shapes import Shape

SKINNY = ((128, 128, 8192), (256, 256, 16384), (512, 512, 8192), (64, 4096, 4096))
SQUARES = (512, 768, 1024, 1536, 2048, 3072)
SHAPES = tuple(Shape(*sizes) for sizes in (*SKINNY, *((n, n, n) for n in SQUARES)))
ROUNDS = 31
FEW = 15  # above a millisecond
AGAIN = 20  # products of the same inputs, whose answers are compared bit by bit
ANY, SPLIT = "any_shape", "split_k"
NARROW = "for (int e = 0; e < WIDTH_C; e++) atomicAdd(&c(row, col + e), acc[i][j + e]); if (false) atomic_add<4>(c"
VARIANTS: dict[str, tuple[str, dict[str, int], tuple[tuple[str, str], ...]]] = {  # type, tile sizes, edits
    SPLIT: ("", {}, ()),
    f"{SPLIT} slices": ("slices", {}, ()),
    f"{SPLIT} stream-K": ("stream_k", {}, ()),
    f"{SPLIT} atomics": ("atomics", {}, ()),
    f"{SPLIT} narrow atomics": ("atomics", {}, (("atomic_add<WIDTH_C>(c", NARROW),)),
    f"{SPLIT} one team": ("", {"TEAMS": 1, "ADDERS": 64}, ()),
    f"{SPLIT} 64x64": ("", {"BN": 64, "BK": 16, "WN": 32, "TN": 4, "BLOCKS_PER_SM": 4}, ()),
}


def kernels() -> list[Kernel]:
    course = Course(ROOT)
    lesson = course.lesson(SPLIT)
    variants = []
    for name, (type_, tile, edits) in VARIANTS.items():
        source = with_edits(lesson.solution_path.read_text(), edits, name)
        variants.append(Kernel(name, resized(typed(lesson, type_) if type_ else lesson, tile), source))
    return [Kernel.solution(course.lesson(ANY)), *variants]


def run(folder: Path, target: Path) -> None:
    bench = Hidden(folder)
    bench.settle()
    rows: list[dict[str, Any]] = []
    for shape in SHAPES:
        found = one(bench, shape)
        rows += found
        print(label(shape), end="  ")
        show({**row, "warm": row[COLD]} for row in found)
        write(target, about(bench), rows)


class Hidden(Bench):
    """A bench that hides two launches and cuBLAS's as well: a kernel spins behind the fill."""

    spins: ClassVar[Mapping[str, int]] = {**Bench.spins, COLD: 2 * SPIN_CLOCKS}


def about(bench: Bench) -> dict[str, str]:
    return {
        "command": "python -m checks.course.split compile DIR; python -m checks.course.split run DIR FILE",
        **machine(bench),
        "what": "C = A B, fp32, standard normal inputs, small and skinny shapes and squares; every answer compared with"
        " float64 before timing.",
        "how": "CUDA events around all launches of a product, median over the repeats, hidden behind a fill of 128 MiB,"
        " so that L2 is cold, and a kernel that spins. percent_of_cublas is against cuBLAS of the same shape. answers:"
        f" how many different ones, to the bit, the same inputs gave in {AGAIN} products.",
    }


def one(bench: Bench, shape: Shape) -> list[dict[str, Any]]:
    """The lines of one shape."""
    a, b = bench.random(shape.m, shape.k), bench.random(shape.k, shape.n)
    c = bench.cupy.empty((shape.m, shape.n), bench.cupy.float32)
    calls = {name: bench.call(name, a, b, c) for name in ("cublas", ANY, *VARIANTS)}
    double = bench.cupy.float64
    bench.compare(calls, c, bench.cupy.matmul(a.astype(double), b.astype(double)), shape)
    operations = 2e-6 * shape.m * shape.n * shape.k
    rounds = ROUNDS if operations < 5e4 else FEW
    times = bench.times(calls, c, (COLD,), dict.fromkeys(calls, rounds))
    base = statistics.median(times["cublas", COLD])
    size = shape.m if label(shape).isdigit() else label(shape)
    rows = []
    for name in calls:
        here = spread(times[name, COLD])
        median = here["median_us"]
        rate = {"tflops": round(operations / median, 3), "percent_of_cublas": round(100 * base / median, 2)}
        timed = here | rate | {"answers": answers(bench, calls[name], c)}
        rows.append({"kernel": name, "size": size, "repeats": rounds, COLD: timed})
    return rows


def answers(bench: Bench, call: Call, c: Any) -> int:
    """How many different ones the same inputs give."""
    found = set()
    for _ in range(AGAIN):
        call()
        found.add(hashlib.sha256(bench.cupy.asnumpy(c).tobytes()).hexdigest())
    return len(found)


if __name__ == "__main__":
    if sys.argv[1] == "compile":
        compile_kernels(Path(sys.argv[2]), kernels(), SHAPES)
    else:
        run(Path(sys.argv[2]), Path(sys.argv[3]))
