"""Variables without a first value: found where they are read, and no secret of how many blocks run at once."""

from __future__ import annotations

import numpy as np
import pytest

from checks.simulator.conftest import Run
from gemm_lessons.device import Launched

HEAD = """extern "C" __global__ void k(const float *a, float *c, int n)
{
    const int t = threadIdx.x, g = blockIdx.x * blockDim.x + t;
"""
SUM = "for (int i = 0; i < n; ++i) acc += a[i];"
SOME_LANES = """float v;
asm volatile("{ .reg .f32 f; .reg .pred p; setp.lt.s32 p, %1, 8; @p mov.f32 f, 0f40000000; BETWEEN }"
: "=f"(v) : "r"(t)); c[g] = v;"""
# body, from line 4 on; how many threads of 64 read what has no value
BODIES = {
    "no first value": (f"float acc;\n{SUM}\nc[g] = acc;", 64),
    "first value": (f"float acc = 0;\n{SUM}\nc[g] = acc;", 0),
    "set in the loop": ("float acc;\nfor (int i = 0; i < n; ++i) { acc = a[i]; c[g] = acc; }", 0),
    "set and used under one condition": (
        "float v; if (t < n) v = a[t];\n__syncthreads();\nif (t < n) c[g] = v * 2; else c[g] = 1;", 0),
    "set by some lanes": (SOME_LANES.replace("BETWEEN", "add.f32 %0, f, f;"), 56),
    "set by some lanes, read by these": (
        SOME_LANES.replace("BETWEEN", "mov.f32 %0, 0f00000000; @p add.f32 %0, f, f;"), 0),
    "handed on": (SOME_LANES.replace("BETWEEN", "{ .reg .f32 h; mov.f32 h, f; add.f32 %0, h, h; }"), 56),
    "vote": ("const int any = __syncthreads_or(a[t] > 3);\nif (t == 0) c[0] = any;", 0),
}  # fmt: skip


def launch(run: Run, body: str, blocks: int = 1, block_limit: int | None = None) -> tuple[np.ndarray, Launched]:
    a = np.arange(64, dtype=np.float32)
    a.setflags(write=False)
    out = np.zeros(64 * blocks, np.float32)
    return out, run(f"{HEAD}{body}\n}}", blocks, 64, [a, out, 8], block_limit=block_limit)


@pytest.mark.parametrize(("body", "threads"), BODIES.values(), ids=BODIES)
def test_reads_of_what_has_no_value_are_found(run: Run, body: str, threads: int) -> None:
    out, launched = launch(run, body)
    found = [finding for finding in launched.findings if finding.kind == "unset"]
    assert [(finding.count, finding.line) for finding in found] == ([(threads, 5)] if threads else [])
    assert np.isnan(out).sum() == threads
    if threads:
        assert (
            f"line 5 reads a variable that thread {64 - threads} in block 0 has not given a value" in found[0].message
        )


def test_the_result_does_not_depend_on_how_many_blocks_run_at_once(run: Run) -> None:
    body, _ = BODIES["no first value"]
    together, first = launch(run, body, 6)
    for block_limit in (1, 4):
        alone, second = launch(run, body, 6, block_limit)
        assert together.tobytes() == alone.tobytes()
        assert first.findings == second.findings
    assert [finding.count for finding in first.findings] == [6 * 64]
