"""The gain of a passing kernel: its speed / the first measured lesson's, and / cuBLAS's.

On the GPU of ``lessons/measured/h200.json`` a run compares with these measured speeds of the course's solutions.
"""

from __future__ import annotations

import json
from pathlib import Path

from gemm_lessons.course import Course, packaged_course
from gemm_lessons.engine.records import dataclass
from gemm_lessons.gemm import astuple
from gemm_lessons.running.outcome import RunOutcome

FILE = Path("measured") / "h200.json"
GPU, STORED_CUBLAS, STORED_TYPE = "H200", "cublas", "float32"
WAY = "cold"  # A and B are not in the L2 cache: as run and bench measure


@dataclass(frozen=True)
class Gain:
    """``times`` the speed of ``before``, another kernel; None where there is nothing to compare with. ``measured``:
    whether the learner's kernel was measured; else it is estimated. The other speed is measured where ``of_cublas`` is
    known."""

    measured: bool
    gpu: str
    before: str = ""
    times: float | None = None
    of_cublas: float | None = None


def gain_of(course: Course, outcome: RunOutcome, reference: bool = False) -> Gain | None:
    """Return the gain of the learner's own kernel in a lesson of the course; with ``reference``, also of that one."""
    mine = outcome.kernel.label in ("your kernel", *["reference"] * reference) and outcome.lesson.name in course.names
    data = load_measured()
    first = next((name for name in course.names if data.knows(name)), course.names[0])
    return gain_over(outcome, first, data) if mine and outcome.verdict.kind == "passed" else None


def gain_over(outcome: RunOutcome, first: str, data: Measured) -> Gain | None:
    """Return the gain of a kernel with a time. ``first`` is the course's first measured lesson.

    On the GPU of ``data``, at one of its sizes, a kernel in it, or one of cuBLAS's type there, is compared with
    ``data``; otherwise with the previous lesson's solution beside it in the table.
    """
    lesson, speed = outcome.lesson, outcome.kernel.speed
    time = speed.measured or speed.estimate
    if time is None:
        return None
    size, *others = dict.fromkeys(astuple(outcome.estimate_shape))
    here = GPU in outcome.device_name if outcome.device_kind == "gpu" else outcome.gpu == GPU
    own = data.of(lesson.name, size) if here and not others else None
    base, cublas = data.of(first, size), data.of(STORED_CUBLAS, size)
    is_measured = speed.measured is not None
    if here and not others and base and cublas:
        fraction = speed.fraction_of_cublas if is_measured else time.gflops / 1e3 / cublas
        if lesson.name == first or (own is None and {it.element.name for it in lesson.data.factors} == {STORED_TYPE}):
            return Gain(is_measured, GPU, of_cublas=fraction)
        if own is not None:
            return Gain(is_measured, GPU, first, time.gflops / 1e3 / base, fraction)
    for row in outcome.rows:
        other = row.speed.measured or row.speed.estimate
        if row.role == "previous" and other is not None:
            return Gain(is_measured, outcome.gpu, row.label, time.gflops / other.gflops, speed.fraction_of_cublas)
    if speed.fraction_of_cublas is None:
        return None
    return Gain(is_measured, outcome.gpu, of_cublas=speed.fraction_of_cublas)


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
            {
                (numbered.get(row["kernel"], row["kernel"]), row["size"]): float(row[WAY]["tflops"])
                for row in raw["rows"]
            }
        )
    except (OSError, ValueError, KeyError, TypeError):
        return Measured({})
