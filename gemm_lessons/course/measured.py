"""Measured speeds of the course's solutions on a GPU: the part of ``lessons/measured/h200.json`` that runs compare
with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gemm_lessons.course.folder import packaged_course
from gemm_lessons.engine.records.frozen import dataclass

FILE = Path("measured") / "h200.json"
GPU, STORED_CUBLAS = "H200", "cublas"
WAY = "cold"  # A and B are not in the L2 cache: as run and bench measure


@dataclass(frozen=True)
class Measured:
    """TFLOP/s by kernel (a lesson's name, or ``cublas``) and size M = N = K."""

    tflops: dict[tuple[str, int], float]

    def of(self, kernel: str, size: int) -> float | None:
        """Return TFLOP/s, None where there is no measurement."""
        return self.tflops.get((kernel, size))

    def knows(self, kernel: str) -> bool:
        """Tell whether a kernel was measured at any size."""
        return any(name == kernel for name, _ in self.tflops)


def load_measured() -> Measured:
    """Return the package's measurements; empty where its file cannot be read or is malformed."""
    try:
        course = packaged_course()
        raw = json.loads((course.lessons_dir / FILE).read_text(encoding="utf-8"))
        numbered = {name[3:]: name for name in course.names}  # the file's names have no numbers, which may change
        return Measured(
            {(numbered.get(row["kernel"], row["kernel"]), row["size"]): _tflops(row) for row in raw["rows"]}
        )
    except (OSError, ValueError, KeyError, TypeError):
        return Measured({})


def _tflops(row: dict[str, Any]) -> float:
    return float(row[WAY]["tflops"])
