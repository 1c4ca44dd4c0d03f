"""Launch lesson any_shape on random shapes between guard zones: right values, and nothing else read or written.

python -m checks.course.guard compile DIR          # here: machine code of every kernel for small shapes
python -m checks.course.guard run DIR [COUNT]      # on a machine with a GPU and cupy
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import product
from math import gcd
from pathlib import Path
from random import Random
from typing import Any

from checks.course.bench import Bench, tile_of
from checks.course.kernel import Kernel
from checks.course.measure import compile_kernels
from checks.course.tables import Table, Variant
from checks.usage import help_if_asked
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.course.pitfalls import resized
from gemm_lessons.gemm.data import LAYOUTS
from gemm_lessons.gemm.shapes import Shape

ANY = "any_shape"
TABLE = Table("guard", "", "", {}, variants=(Variant(ANY),))
MOST = 700  # of M, N and K
EDGES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 63, 64, 65, 127, 128, 129, 255, 256, 257)
ZONE = 256  # floats before and after each matrix
COUNT = 1000
SEED = 20261122


def kernels() -> list[Kernel]:
    """Every kernel that the host chooses for small shapes: all layouts, all widths of access to A, B and C."""
    base = TABLE.kernels()[0]
    cases = product(LAYOUTS, (1, 2, 4), (1, 2, 4), (1, 2, 4))
    return [
        Kernel(ANY, chosen(base.lesson, Shape(4, 4, 4, layout=layout), widths), base.source)
        for layout, *widths in cases
    ]


def chosen(lesson: Lesson, shape: Shape, widths: Sequence[int]) -> Lesson:
    """The lesson as the host would choose it at this shape if these were the widest accesses to A, B and C."""
    return resized(lesson, dict(zip(("WIDTH_A", "WIDTH_B", "WIDTH_C"), widths, strict=True))).at(shape)


def run(folder: Path, count: int) -> None:
    """Launch ``count`` random shapes, layouts, leading dimensions and offsets in memory."""
    bench, random = Bench(TABLE, folder), Random(SEED)
    for number in range(count):
        sizes = [random.choice(EDGES) if number % 4 == 0 else random.randint(1, MOST) for _ in range(3)]
        layout = random.choice(LAYOUTS)
        gaps = [random.choice((0, 0, 1, 2, 3, 4, 8)) for _ in range(3)]
        offsets = [random.choice((0, 0, 0, 1, 2, 3)) for _ in range(3)]
        launch(bench, Shape(*sizes, layout=layout), gaps, offsets)
    print(f"{count} shapes from 1 to {MOST} right, nothing written outside C")


def launch(bench: Bench, shape: Shape, gaps: Sequence[int], offsets: Sequence[int]) -> None:
    """Launch once and check C. NaN fills the gaps between lines and the zones around the matrices: a sum that reads it
    is NaN. ``gaps`` and ``offsets``: floats, of A, B and C. Raises ``AssertionError``."""
    cupy, (m, n, k) = bench.cupy, (shape.m, shape.n, shape.k)
    lines = [(k, m) if shape.layout[0] == "T" else (m, k), (n, k) if shape.layout[1] == "T" else (k, n), (m, n)]
    zones = [
        cupy.full(2 * ZONE + rows * (length + gap), cupy.nan, cupy.float32)
        for (rows, length), gap in zip(lines, gaps, strict=True)
    ]
    a, b, c = (
        zone[ZONE + offset :][: rows * (length + gap)].reshape(rows, length + gap)
        for zone, (rows, length), gap, offset in zip(zones, lines, gaps, offsets, strict=True)
    )
    left, right = a[:, : lines[0][1]], b[:, : lines[1][1]]
    left[...], right[...] = bench.normal(*left.shape), bench.normal(*right.shape)

    held = [gcd(4, offset, line[1], line[1] + gap) for line, gap, offset in zip(lines, gaps, offsets, strict=True)]
    lesson = chosen(bench.lessons[ANY], shape, held)
    grid, function = lesson.grids(shape)[0], bench.modules[ANY, tile_of(lesson)].get_function(lesson.launches[0].entry)
    leading = (a.shape[1], b.shape[1], c.shape[1])
    function(grid.grid, grid.block, (a, b, c, *map(bench.np.int32, (m, n, k, *leading))))

    reference: Any = bench.product("float32", left, right, shape.layout)
    error = float(cupy.abs(c[:, :n] - reference).max())
    assert error <= 2**-24 * 8 * k, f"{shape} {gaps} {offsets}: error {error}"
    c[:, :n] = cupy.nan
    assert bool(cupy.isnan(zones[2]).all()), f"{shape} {gaps} {offsets}: written outside C"


if __name__ == "__main__":
    help_if_asked(__doc__)
    where = Path(sys.argv[2])
    if sys.argv[1] == "compile":
        compile_kernels(TABLE, kernels(), where)
    else:
        run(where, int(sys.argv[3]) if len(sys.argv) > 3 else COUNT)
