"""What the course's own solutions reach on a GPU: ``lessons/measured/h200.json``, as far as a run compares with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gemm_lessons.course.folder import packaged_course
from gemm_lessons.engine.records.frozen import dataclass

FILE = Path("measured") / "h200.json"
GPU = "H200"
WAY = "cold"  # nothing of A and B in the L2 cache: what run and bench measure


@dataclass(frozen=True)
class Measured:
    """TFLOP/s by kernel (a lesson's name, or ``cublas``) and size M = N = K."""

    tflops: dict[tuple[str, int], float]

    def of(self, kernel: str, size: int) -> float | None:
        """TFLOP/s, None where that was not measured."""
        return self.tflops.get((kernel, size))


def load_measured() -> Measured:
    """The package's measurements; none where its file cannot be read or says something else."""
    try:
        course = packaged_course()
        raw = json.loads((course.lessons_dir / FILE).read_text(encoding="utf-8"))
        numbered = {name[3:]: name for name in course.names}  # the file has names without numbers, which may move
        return Measured(
            {(numbered.get(row["kernel"], row["kernel"]), row["size"]): _tflops(row) for row in raw["rows"]}
        )
    except (OSError, ValueError, KeyError, TypeError):
        return Measured({})


def _tflops(row: dict[str, Any]) -> float:
    return float(row[WAY]["tflops"])
