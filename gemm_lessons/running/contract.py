"""The JSON contract with scripts: a run's outcome as the object that ``gemm-lessons run --json`` prints.

``docs/json.md`` documents the keys; ``SCHEMA`` changes when a key changes its meaning or is removed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from gemm_lessons.engine.records import picked
from gemm_lessons.gemm import LAYOUTS

if TYPE_CHECKING:
    from gemm_lessons.judging import ShapeResult
    from gemm_lessons.running.outcome import Row, RunOutcome

SCHEMA = "gemm-lessons/run/1"

EXIT_PASSED = 0
EXIT_NOT_PASSED = 1
EXIT_WRONG_COMMAND = 2
EXIT_BROKEN = 3
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells have it

JSON = None | bool | int | float | str | list["JSON"] | Mapping[str, "JSON"]


def exit_code(outcome: RunOutcome) -> int:
    """Return 0 when the kernel passed, 1 when it did not."""
    return EXIT_PASSED if outcome.verdict.kind == "passed" else EXIT_NOT_PASSED


def as_json(outcome: RunOutcome) -> dict[str, JSON]:
    """Return the outcome of the kernel under test. NaN and infinities, which JSON lacks, become ``null``."""
    row, checked, speed = outcome.kernel, outcome.kernel.checked, outcome.kernel.speed
    measured, counters = speed.measured, checked.counters
    return {
        "schema": SCHEMA,
        "lesson": outcome.lesson.name,
        "kernel": row.path,
        "device": {"kind": outcome.device_kind, "name": outcome.device_name},
        "verdict": checked.verdict.kind,
        "shapes": [_shape(result) for result in checked.shapes],
        "compile": _compile(row),
        "time_us": _number(measured.time_us) if measured else None,
        "gflops": _number(measured.gflops) if measured else None,
        "fraction_of_cublas": _number(speed.fraction_of_cublas),
        "estimate": None
        if speed.estimate is None
        else {
            "gpu": speed.estimate.gpu,
            "time_us": _number(speed.estimate.time_us),
            "gflops": _number(speed.estimate.gflops),
            "limiter": speed.estimate.limiter,
            "basis": speed.estimate.basis or None,
        },
        "no_estimate": speed.refused or None,
        "counters": dict(counters.totals) if counters else {},
        "lines": [
            {
                "line": count.line,
                "source": row.source_line(count.line, count.file),
                **picked(count, "metric value ideal"),
            }
            for count in (counters.lines if counters else ())
        ],
        "findings": [picked(finding, "kind severity line message count") for finding in checked.findings],
        "gates": [
            {
                **picked(gate, "id name limit"),
                "value": _number(gate.value),
                "passed": gate.passed,
                "note": gate.note or None,
                "integrity": gate.integrity,
                **_hidden(gate.hidden),
            }
            for gate in checked.gates
        ],
        "hints": list(row.hints),
    }


def _shape(result: ShapeResult) -> JSON:
    judged = result.judgement
    layout: dict[str, JSON] = {"layout": result.shape.layout} if result.shape.layout != LAYOUTS[0] else {}
    return {
        **picked(result.shape, "m n k"),
        **layout,
        "verdict": result.kind,
        "max_error": _number(judged.max_error) if judged else None,
        "tolerance": _number(judged.tolerance) if judged else None,
        **_hidden(result.hidden),
    }


def _hidden(hidden: bool) -> dict[str, JSON]:
    """Return the key ``hidden``, which only graded runs have."""
    return {"hidden": True} if hidden else {}


def _compile(row: Row) -> JSON:
    built = row.built
    resources, occupancy = (built.resources, built.occupancy) if built else (None, None)
    return {
        "arch": built.arch if built else "",
        "registers": resources.registers if resources else None,
        "shared_bytes": built.shared_bytes if built else None,
        "spill_bytes": resources.spill_bytes if resources else None,
        "occupancy": occupancy.fraction if occupancy else None,
        "diagnostics": list(_diagnostics(row)),
    }


def _diagnostics(row: Row) -> Iterator[dict[str, JSON]]:
    """Yield the compiler's diagnostics, after the error of a kernel that compiled but does not match the lesson."""
    from gemm_lessons.judging import CompileFailed

    verdict, found = row.verdict, row.diagnostics
    if isinstance(verdict, CompileFailed) and not any(it.severity == "error" for it in found):
        yield {"line": None, "message": verdict.message}
    for it in found:
        yield {"line": it.line, "message": it.message}


def _number(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
