"""A tiny course for the tests that drive the real binary, and what they need to do so."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

KERNEL = """\
extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    const int row = blockIdx.y * BM + threadIdx.x / BN;
    const int col = blockIdx.x * BN + threadIdx.x % BN;
    float acc = 0.0f;
BODY
    if (row < M && col < N)
        C[row * N + col] = acc;
}
"""
STUB = KERNEL.replace("BODY\n", "    // TODO(1): add up the K products,\n    // for threads inside C only.\n")
SUM = """\
    // TODO(1): add up the K products,
    // for threads inside C only.
    if (row < M && col < N)
        for (int k = 0; k < K; k++)
            acc += A[row * K + k] * B[k * N + col];
"""
SOLUTION = KERNEL.replace("BODY\n", SUM)
WITH_BARRIER = KERNEL.replace("BODY\n", SUM + "    __syncthreads();\n")
TOML = """\
title = "The {what} lesson"
idea = "Everything about the {what} idea."

[tile]
BM = 4
BN = 8

[launch]
grid = ["ceil_div(N, BN)", "ceil_div(M, BM)"]
block = ["BM * BN"]

[kernel]
entry = "gemm"
parameters = ["A", "B", "C", "M", "N", "K"]

[shapes]
multiple_of = {{ M = 1, N = {n}, K = 1 }}
check = [[9, 16, 5], [1, 8, 1]]
count = [8, 16, 4]
{gate}
[[todo]]
number = 1
hints = ["a nudge", "more [than] a nudge", "nearly the code"]
"""
GATE = """
[[gates]]
name = "barriers"
value = "barriers"
at_least = 1
why = "This lesson is about barriers."
"""
TEXT = """\
# The {what} lesson

A text with `code` and a table:

| a | b |
|---|---|
| 1 | 2 |

<!-- from: stub.cu -->
```cuda
float acc = 0.0f;
```
"""


def write_course(root: Path) -> Path:
    """Write lessons 01_first and 02_second; the second requires a barrier, and N in multiples of 8."""
    for name, gate, n, solution in (("01_first", "", 1, SOLUTION), ("02_second", GATE, 8, WITH_BARRIER)):
        folder = root / "lessons" / name
        folder.mkdir(parents=True)
        what = name[3:]
        (folder / "lesson.toml").write_text(TOML.format(what=what, gate=gate, n=n))
        (folder / "stub.cu").write_text(STUB)
        (folder / "solution.cu").write_text(solution)
        (folder / "README.md").write_text(TEXT.format(what=what))
    (root / "lessons" / "common").mkdir()
    return root


@dataclass(frozen=True)
class Ran:
    """Exit code, stdout and stderr of a process."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]
BINARY = [sys.executable, "-m", "gemm_lessons"]


def environment(**more: str) -> dict[str, str]:
    plain = {
        k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "GEMM_LESSONS_DEBUG")
    }
    return {**plain, "TERM": "xterm-256color", **more}
