"""Predicted against measured: ``python -m checks.estimate.table``.

The lessons' solutions on an H200 (``lessons/measured/h200.json``), and two published tables for a P100 and a V100
(``articles.py``). Nothing is fitted to a single kernel. An error is predicted over measured, less one; where a table
prints two decimals, the measured time is the one of all that it may stand for which is nearest.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from checks.estimate.articles import ARTICLES, Article
from gemm_lessons.course import Course
from gemm_lessons.estimate import Estimate, estimate_at
from gemm_lessons.gpus import GPUS
from gemm_lessons.lesson import Shape
from gemm_lessons.pipeline import Request, run_lesson
from gemm_lessons.simulator import Simulator

ROOT = Path(__file__).parents[2]
SIZES = (512, 1024, 2048, 4096)  # that the aims are for; the others are printed


@dataclass(frozen=True)
class Compared:
    """One kernel at one size."""

    table: str
    kernel: str
    size: int
    measured_us: float
    precision_us: float
    estimate: Estimate

    @property
    def error(self) -> float:
        """Predicted over the nearest time that the measured figure may stand for, less one."""
        low, high = self.measured_us - self.precision_us, self.measured_us + self.precision_us
        return self.estimate.time_us / min(max(self.estimate.time_us, low), high) - 1


def lessons() -> Iterator[Compared]:
    """Every solution at every measured size."""
    course = Course(ROOT)
    gpu = GPUS["h200"]
    rows = json.loads((ROOT / "lessons/measured/h200.json").read_text())["rows"]
    for name in course.names:
        lesson = course.lesson(name)
        request = Request(course, lesson, lesson.solution_path, Simulator(), gpu, beside=False)
        profile = run_lesson(request).kernel.profile
        assert profile is not None, name
        for row in rows:
            if row["kernel"] == name:
                shape = Shape(row["size"], row["size"], row["size"])
                x, y, _ = lesson.grid(shape).grid
                estimate = estimate_at(profile, shape, (x, y), gpu)
                yield Compared("H200", name, row["size"], row["median_us"], 0.0, estimate)


def articles(rows: Sequence[Article] = ARTICLES) -> Iterator[Compared]:
    """Every row of the published tables."""
    for row in rows:
        for size, time in row.times_us.items():
            estimate = estimate_at(row.profile, row.shape(size), row.blocks(size), row.gpu)
            yield Compared(row.gpu.name, row.name, size, time, row.precision_us, estimate)


def out_of_order(found: Sequence[Compared], size: int) -> list[tuple[str, str]]:
    """Pairs of kernels that the estimate puts in the other order than the measurement."""
    here = [one for one in found if one.size == size]
    return [
        (a.kernel, b.kernel)
        for at, a in enumerate(here)
        for b in here[at + 1 :]
        if (a.measured_us - b.measured_us) * (a.estimate.time_us - b.estimate.time_us) <= 0
    ]


def summary(found: Sequence[Compared]) -> str:
    """Median and largest error."""
    errors = [abs(one.error) for one in found]
    return f"median error {statistics.median(errors):.1%}, largest {max(errors):.1%}, of {len(errors)}"


def show(found: Sequence[Compared]) -> None:
    sizes = sorted({one.size for one in found})
    for kernel in dict.fromkeys(one.kernel for one in found):
        print(f"{found[0].table}  {kernel}")
        by_size = {one.size: one for one in found if one.kernel == kernel}
        for size in sizes:
            if one := by_size.get(size):
                print(
                    f"  {size:>6}  measured {one.measured_us:>12,.1f} us  estimated {one.estimate.time_us:>12,.1f} us"
                    f"  {one.error:>+7.1%}  {one.estimate.limiter}"
                )


def main() -> None:
    argparse.ArgumentParser(prog="python -m checks.estimate.table", description=__doc__).parse_args()
    ours, theirs = list(lessons()), list(articles())
    show(ours)
    judged = [one for one in ours if one.size in SIZES]
    print(f"H200, {SIZES[0]} to {SIZES[-1]}: {summary(judged)}")
    for size in SIZES:
        wrong = [f"{a} and {b}" for a, b in out_of_order(judged, size)]
        print(f"H200, order at {size}: {'; '.join(wrong) or 'right'}")
    for table in dict.fromkeys(one.table for one in theirs):
        part = [one for one in theirs if one.table == table]
        show(part)
        print(f"{table}: {summary(part)}")
    print(f"both articles: {summary(theirs)}")


if __name__ == "__main__":
    main()
