"""Errors of lesson ozaki and cuBLAS in fp64: what the tables of ozaki have beside their times.

The exact answer is a sum in NumPy's long double, of 64 bits, for ``SIDE`` rows and columns. An error is the largest
|C - exact| / (|A| |B|), in units of 2^-53. Inputs are standard normal, their magnitudes (``positive``), or normal
numbers times powers of two from 2^-20 to 2^20 (``wide``): the smallest of a row lose bits.
"""

from __future__ import annotations

from typing import Any

from checks.course.bench import Bench, Call
from gemm_lessons.gemm.shapes import Shape

TABLES = ("ozaki", "slow_edits_ozaki")
SIDE = 128
CASES = ("", "_positive", "_wide")
RANGE = 20  # binary orders of magnitude, either way
UNIT = 2.0**-53
MOST = 50.0  # units that a kernel of the lesson may be off, except for ``wide`` inputs


def add_errors(rows: list[dict[str, Any]], bench: Bench) -> None:
    """Add ``error``, ``error_positive`` and ``error_wide`` to each row. Raise ``AssertionError`` for a wrong answer."""
    for problem in bench.table.problems():
        for case in CASES:
            for name, error in errors_of(bench, problem.shape, case).items():
                for row in rows:
                    if (row["kernel"], row["size"]) == (f"{name} {problem.shape.layout}", problem.size):
                        row[f"error{case}"] = float(f"{error:.3g}")


def errors_of(bench: Bench, shape: Shape, case: str) -> dict[str, float]:
    """Return the error of every call."""
    np, cupy = bench.np, bench.cupy
    a, b, c = bench.given("float64", shape)
    for it in (a, b):
        if case == "_positive":
            it[...] = cupy.abs(it)
        if case == "_wide":
            it *= 2.0 ** cupy.random.randint(-RANGE, RANGE + 1, it.shape, dtype=cupy.int32).astype("float64")
    left, right = (cupy.asnumpy(it[:SIDE]).astype(np.longdouble) for it in (a, b))
    exact, magnitude = left @ right.T, abs(left) @ abs(right).T
    calls: dict[str, Call] = {bench.table.library("float64"): bench.library("float64", a, b, c, shape.layout)}
    calls |= {name: bench.kernel(name, a, b, c, shape.layout) for name in bench.names("float64", shape)}
    found = {}
    for name, call in calls.items():
        if name in bench.wrong:
            continue
        c.fill(np.nan)
        call()
        error = float((abs(cupy.asnumpy(c[:SIDE, :SIDE]) - exact) / magnitude).max() / UNIT)
        found[name] = error
        right = error <= MOST or name not in bench.lessons or (case == "_wide" and np.isfinite(error))
        assert right, f"{name} {shape}{case}: {error} units"
    return found
