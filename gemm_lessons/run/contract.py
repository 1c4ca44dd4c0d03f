"""The contract that scripts rely on: a run's outcome as the JSON object of ``gemm-lessons run --json``.

The keys are documented in README.md; ``SCHEMA`` changes when one changes its meaning or goes away.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gemm_lessons.run.pipeline import Row, RunOutcome, ShapeResult

SCHEMA = "gemm-lessons/run/1"

EXIT_PASSED = 0
EXIT_NOT_PASSED = 1
EXIT_WRONG_COMMAND = 2
EXIT_BROKEN = 3
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells have it

JSON = None | bool | int | float | str | list["JSON"] | Mapping[str, "JSON"]


def exit_code(outcome: RunOutcome) -> int:
    """0 when the kernel passed, 1 when it did not."""
    return EXIT_PASSED if outcome.verdict.kind == "passed" else EXIT_NOT_PASSED


def as_json(outcome: RunOutcome) -> dict[str, JSON]:
    """The outcome of the kernel that was asked for. NaN and infinities, which JSON cannot hold, become ``null``."""
    row = outcome.kernel
    return {
        "schema": SCHEMA,
        "lesson": outcome.lesson.name,
        "kernel": row.path,
        "device": {"kind": outcome.device_kind, "name": outcome.device_name},
        "verdict": row.verdict.kind,
        "shapes": [_shape(result) for result in row.shapes],
        "compile": _compile(row),
        "time_us": _number(row.time_us),
        "gflops": _number(row.gflops),
        "fraction_of_cublas": _number(row.fraction_of_cublas),
        "estimate": None
        if row.estimate is None
        else {
            "gpu": row.estimate.gpu,
            "time_us": _number(row.estimate.time_us),
            "gflops": _number(row.estimate.gflops),
            "limiter": row.estimate.limiter,
        },
        "counters": dict(row.counters.totals) if row.counters else {},
        "lines": [
            {
                "line": count.line,
                "source": row.source_line(count.line),
                "metric": count.metric,
                "value": count.value,
                "ideal": count.ideal,
            }
            for count in (row.counters.lines if row.counters else ())
        ],
        "findings": [
            {
                "kind": finding.kind,
                "severity": finding.severity,
                "line": finding.line,
                "message": finding.message,
                "count": finding.count,
            }
            for finding in row.findings
        ],
        "gates": [
            {"name": gate.name, "limit": gate.limit, "value": _number(gate.value), "passed": gate.passed}
            for gate in row.gates
        ],
        "hints": list(row.hints),
    }


def _shape(result: ShapeResult) -> JSON:
    judged = result.judgement
    return {
        "m": result.shape.m,
        "n": result.shape.n,
        "k": result.shape.k,
        "verdict": result.kind,
        "max_error": _number(judged.max_error) if judged else None,
        "tolerance": _number(judged.tolerance) if judged else None,
    }


def _compile(row: Row) -> JSON:
    resources = row.resources
    return {
        "arch": row.arch,
        "registers": resources.registers if resources else None,
        "shared_bytes": resources.shared_bytes if resources else None,
        "spill_bytes": resources.spill_bytes if resources else None,
        "occupancy": row.occupancy.fraction if row.occupancy else None,
        "diagnostics": [{"line": found.line, "message": found.message} for found in row.diagnostics],
    }


def _number(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
