"""Lesson fp8 beside libraries: tables fp8, int8 and tf32. cuBLAS multiplies fp8 through cublasLt alone, which PyTorch
calls.

    torch fp8        torch._scaled_mm with use_fast_accum: cublasLt, a scale for each matrix, sums in the tensor core
    torch promoted   the same without use_fast_accum: cublasLt promotes its sums
    torch int8       torch._int_mm
    cublas           gemmEx in tf32

All take A by rows and B by columns, and scales of 1. The spinning kernel that hides a launch is longer than in other
tables: PyTorch takes longer to launch. Errors are stored for normal and for positive numbers.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from checks.course.bench import Bench, Call, in_a_row, kind_of, row_of
from checks.course.tables import WARM, Problem

# The row that percents are of, by table.
LIBRARY = {"fp8": "torch fp8", "slow_edits_fp8": "torch fp8", "int8": "torch int8", "tf32": "cublas"}
PROMOTED = "torch promoted"
ALLOWED = {"int8": 0.0, "tf32": 2e-4}  # relative errors; tf32 loses most if all numbers are positive
UNSCALED = 128  # k and columns that have one scale


def measure(bench: Bench) -> list[dict[str, Any]]:
    """The rows of every size."""
    bench.settle()
    return [row for problem in bench.table.problems() for row in measure_problem(bench, problem)]


def measure_problem(bench: Bench, problem: Problem) -> list[dict[str, Any]]:
    """The rows of one size."""
    size = problem.shape.m
    a, b, c = given(bench, problem.kind, size)
    calls = calls_of(bench, problem, a, b, c)
    library = LIBRARY[bench.table.name]
    errors = {f"error{case}": errors_of(bench, problem, case) for case in ("", "_positive")}
    in_a_row([*calls.values()])  # the first launch of each takes longer
    rounds = dict.fromkeys(calls, bench.table.rounds[str(problem.size)])
    times = bench.times(calls, c, rounds)
    rows = []
    for name in calls:
        row = row_of(name, problem, rounds[name], times, library)
        rows.append(row | {case: found[name] for case, found in errors.items()} | bench.resources.get(name, {}))
    print(size, *(f"{row['kernel']} {row[WARM]['percent_of_cublas']}" for row in rows), sep="  ", flush=True)
    return rows


def given(bench: Bench, kind: str, size: int, case: str = "") -> tuple[Any, Any, Any]:
    """A by rows and B by columns, and C. Floats are normal ones, or their magnitudes; those of fp8 and C are bytes."""
    torch = import_module("torch")
    if kind in ALLOWED:
        a, b = (bench.drawn(kind, size, size) for _ in range(2))
        if case and kind == "tf32":
            a, b = abs(a), abs(b)
        return a, b, bench.empty(kind, size, size)
    drawn = (torch.randn(size, size, device="cuda") for _ in range(2))
    narrow = ((abs(it) if case else it).to(torch.float8_e4m3fn) for it in drawn)
    a, b = (bench.cupy.from_dlpack(it.view(torch.uint8)) for it in narrow)
    return a, b, bench.cupy.empty((size, size), "uint16")


def calls_of(bench: Bench, problem: Problem, a: Any, b: Any, c: Any) -> dict[str, Call]:
    """Calls by name: the library's products, then the kernels of the type."""
    torch, cupy, size = import_module("torch"), bench.cupy, problem.shape.m
    left, right, out = (torch.from_dlpack(it) for it in (a, b, c))
    if problem.kind == "tf32":
        calls = {LIBRARY["tf32"]: bench.library("tf32", a, b, c, "NT")}
    elif problem.kind == "int8":
        calls = {LIBRARY["int8"]: lambda: torch._int_mm(left, right.t(), out=out)}
    else:
        left, right = (it.view(torch.float8_e4m3fn) for it in (left, right))
        out, one = out.view(torch.bfloat16), torch.ones((), device="cuda")

        def scaled(fast: bool) -> None:
            torch._scaled_mm(
                left, right.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=fast, out=out
            )

        calls = {LIBRARY["fp8"]: lambda: scaled(True), PROMOTED: lambda: scaled(False)}
    scales = {
        "scale_A": cupy.ones((size // UNSCALED, size), "float32"),
        "scale_B": cupy.ones((size // UNSCALED, size // UNSCALED), "float32"),
    }
    names = [name for name, lesson in bench.lessons.items() if kind_of(lesson) == problem.kind]
    return calls | {name: bench.kernel(name, a, b, c, "NT", scales) for name in names}


def errors_of(bench: Bench, problem: Problem, case: str) -> dict[str, float]:
    """The relative error of every call in the Frobenius norm, against float64. Raises ``AssertionError`` for an error
    above ``ALLOWED`` or, in fp8, above the rounding of C to bf16 where sums are promoted."""
    torch, size = import_module("torch"), problem.shape.m
    a, b, c = given(bench, problem.kind, size, case)
    left, right = (torch.from_dlpack(it) for it in (a, b))
    if problem.kind not in ALLOWED:
        left, right = (it.view(torch.float8_e4m3fn) for it in (left, right))
    exact = bench.cupy.from_dlpack(left.double() @ right.double().t())
    found = {}
    for name, call in calls_of(bench, problem, a, b, c).items():
        error = bench.error(call, c, exact)
        forgets = "fast" in name or name == LIBRARY["fp8"]
        assert error <= ALLOWED.get(problem.kind, 1.0 if forgets else 0.004), f"{name} {size}: {error}"
        found[name] = float(f"{error:.3g}")
    return found
