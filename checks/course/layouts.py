"""Measure any_shape in every layout beside cuBLAS: where ``lessons/measured/h200_layouts.json`` comes from.

    python -m checks.course.layouts compile DIR                # here: machine code of every kernel that is chosen
    python -m checks.course.layouts run DIR lessons/measured/h200_layouts.json    # on a machine with the GPU and cupy
    python -m checks.course.layouts compile-small DIR          # here: machine code of every kernel for small shapes
    python -m checks.course.layouts guard DIR [COUNT]          # there: random shapes between guard zones

Everything else is as in ``measure``. A kernel's name ends with its layout: ``any_shape TN``, ``cublas TN``.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import gcd
from pathlib import Path
from random import Random
from typing import Any

from checks.course.kernel import Kernel
from checks.course.measure import COLD, ROOT, Bench, compile_kernels, machine, show, spread, write
from gemm_lessons.course.folder import Course
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.course.pitfalls import resized
from gemm_lessons.gemm.data import LAYOUTS
from gemm_lessons.gemm.shapes import Shape, Tile

ROUNDS = {1000: 41, 1023: 41, 1024: 41, 2047: 21, 2048: 21, 4095: 11, 4096: 11, 4097: 11}
BEFORE, ANY = "double_buffer", "any_shape"
MOST = 700  # of M, N and K between guard zones
EDGES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 63, 64, 65, 127, 128, 129, 255, 256, 257)
ZONE = 256  # floats before and after each matrix
COUNT = 1000
SEED = 20261122


def kernels() -> list[Kernel]:
    course = Course(ROOT)
    return [Kernel.solution(course.lesson(name)) for name in (BEFORE, ANY)]


def shapes() -> list[Shape]:
    """All that is measured."""
    return [Shape(4096, 4096, 4096), *(Shape(n, n, n, layout=layout) for n in ROUNDS for layout in LAYOUTS)]


def small() -> list[Kernel]:
    """Every kernel that the host chooses for small shapes: all layouts, all widths."""
    base = Kernel.solution(Course(ROOT).lesson(ANY))
    found = []
    for layout, *widths in product(LAYOUTS, (1, 2, 4), (1, 2, 4), (1, 2, 4)):
        shape = Shape(4, 4, 4, layout=layout)
        sizes = chosen(base.lesson, shape, widths)
        found.append(replace(base, lesson=base.lesson.at(shape).with_tile(Tile(tuple(sizes.items())))))
    return found


def chosen(lesson: Lesson, shape: Shape, widths: Sequence[int]) -> Mapping[str, int]:
    """What the host would choose at this shape if these were the widest accesses to A, B and C."""
    return resized(lesson, dict(zip(("WIDTH_A", "WIDTH_B", "WIDTH_C"), widths, strict=True))).at(shape).tile.defines


def run(folder: Path, target: Path) -> None:
    bench = Bench(folder)
    bench.warm_up()
    rows: list[dict[str, Any]] = []
    for n, rounds in ROUNDS.items():
        for layout in LAYOUTS:
            found = square(bench, n, layout, rounds)
            rows += found
            print(n, end="  ")
            show({**row, "warm": row[COLD]} for row in found)
    about = {
        "command": "python -m checks.course.layouts compile DIR; python -m checks.course.layouts run DIR FILE",
        **machine(bench),
        "what": "C = A B, fp32, square, A and B in every layout (T: given as its transpose), no gaps between lines."
        " Same problem as h200.json.",
        "how": "CUDA events around one launch, median over the repeats, hidden behind a fill of 128 MiB, so that L2 is"
        " cold. percent_of_cublas is against cuBLAS of the same size and layout.",
    }
    write(target, about, rows)


def square(bench: Bench, n: int, layout: str, rounds: int) -> list[dict[str, Any]]:
    """The lines of one size and layout."""
    shape = Shape(n, n, n, layout=layout)
    names = [name for name in (BEFORE, ANY) if bench.lessons[name].shapes.refusal(shape) is None]
    a, b, c = bench.random(n, n), bench.random(n, n), bench.random(n, n)
    calls = {name: bench.call(name, a, b, c, layout) for name in ("cublas", *names)}
    left, right = (it.T if letter == "T" else it for it, letter in zip((a, b), layout, strict=True))
    double = bench.cupy.float64
    bench.compare(calls, c, bench.cupy.matmul(left.astype(double), right.astype(double)), shape)
    times = bench.times(calls, c, (COLD,), dict.fromkeys(calls, rounds))
    base = statistics.median(times["cublas", COLD])
    rows = []
    for name in calls:
        here = spread(times[name, COLD])
        rate = {
            "tflops": round(shape.m * shape.n * shape.k * 2e-6 / here["median_us"], 3),
            "percent_of_cublas": round(100 * base / here["median_us"], 2),
        }
        rows.append({"kernel": f"{name} {layout}", "size": n, "repeats": rounds, COLD: here | rate})
    return rows


def guard(folder: Path, count: int) -> None:
    """Random shapes, layouts, leading dimensions and places in memory: right values, and nothing else written."""
    bench, random = Bench(folder), Random(SEED)
    for number in range(count):
        sizes = [random.choice(EDGES) if number % 4 == 0 else random.randint(1, MOST) for _ in range(3)]
        layout = random.choice(LAYOUTS)
        gaps = [random.choice((0, 0, 1, 2, 3, 4, 8)) for _ in range(3)]
        offsets = [random.choice((0, 0, 0, 1, 2, 3)) for _ in range(3)]
        one(bench, Shape(*sizes, layout=layout), gaps, offsets)
    print(f"{count} shapes from 1 to {MOST} right, nothing written outside C")


def one(bench: Bench, shape: Shape, gaps: Sequence[int], offsets: Sequence[int]) -> None:
    """One launch. Between lines and around the matrices lie NaN, which spoil what reads them."""
    cupy, (m, n, k) = bench.cupy, (shape.m, shape.n, shape.k)
    lines = [(k, m) if shape.layout[0] == "T" else (m, k), (n, k) if shape.layout[1] == "T" else (k, n), (m, n)]
    whole, inner = [], []
    for (rows, length), gap, offset in zip(lines, gaps, offsets, strict=True):
        zone = cupy.full(2 * ZONE + rows * (length + gap), cupy.nan, cupy.float32)
        whole.append(zone)
        inner.append(zone[ZONE + offset :][: rows * (length + gap)].reshape(rows, length + gap))
    for matrix, (rows, length) in zip(inner[:2], lines, strict=False):
        matrix[:, :length] = bench.random(rows, length)
    a, b, c = inner
    lesson = bench.lessons[ANY]
    held = [gcd(4, offset, line[1], line[1] + gap) for line, gap, offset in zip(lines, gaps, offsets, strict=True)]
    sizes = chosen(lesson, shape, held)
    grid, function = lesson.at(shape).grids(shape)[0], bench.functions[ANY][tuple(sorted(sizes.items()))]
    function(grid.grid, grid.block, (a, b, c, *map(bench.np.int32, (m, n, k, a.shape[1], b.shape[1], c.shape[1]))))
    left, right = (
        (it[:, : line[1]].T if letter == "T" else it[:, : line[1]]).astype(cupy.float64)
        for it, line, letter in zip((a, b), lines, shape.layout, strict=False)
    )
    error = float(cupy.abs(c[:, :n] - left @ right).max())
    assert error <= 2**-24 * 8 * k, f"{shape} {gaps} {offsets}: error {error}"
    c[:, :n] = cupy.nan
    assert bool(cupy.isnan(whole[2]).all()), f"{shape} {gaps} {offsets}: written outside C"


if __name__ == "__main__":
    if sys.argv[1] == "compile":
        compile_kernels(Path(sys.argv[2]), kernels(), shapes())
    elif sys.argv[1] == "compile-small":
        compile_kernels(Path(sys.argv[2]), small(), [])
    elif sys.argv[1] == "guard":
        guard(Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else COUNT)
    else:
        run(Path(sys.argv[2]), Path(sys.argv[3]))
