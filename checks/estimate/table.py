"""Predicted against measured: ``python -m checks.estimate.table``; ``--write`` renews lessons/common/ESTIMATE.md
and the texts that quote it.

The lessons' solutions on an H200 (``lessons/measured/h200.json``), and two published tables for a P100 and a V100
(``articles.py``). Nothing is fitted to a single kernel. An error is predicted over measured, less one; where a table
prints two decimals, the measured time is the one of all that it may stand for which is nearest.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import math
import re
import statistics
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from checks.course.kernel import Kernel
from checks.course.tables import solutions
from checks.course.tables import tables as listed
from checks.estimate import texts
from checks.estimate.articles import ARTICLES, Article
from checks.estimate.ladder import page_tables
from checks.estimate.matrices import CASES, MEASURED, QUEUED_US
from checks.estimate.texts import PAGE
from gemm_lessons.authoring.numbers import table_of
from gemm_lessons.commands.points import shape_of
from gemm_lessons.course.folder import Course
from gemm_lessons.course.lesson import Lesson
from gemm_lessons.course.lesson_toml import load_lesson
from gemm_lessons.engine.compiler.compile import disassemble_ahead
from gemm_lessons.engine.estimate.chip import LAUNCH_US
from gemm_lessons.engine.estimate.launch import NotEstimated
from gemm_lessons.engine.hardware.occupancy import occupancy_of
from gemm_lessons.engine.hardware.sheets import GPUS, pipes_of
from gemm_lessons.gemm.profile import profile_of
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.gemm.time_model import Estimate, Estimator, estimate_at
from gemm_lessons.running.estimating import estimator_of, subject_of

ROOT = Path(__file__).parents[2]
TABLE = re.compile(r"<!-- estimate: (\w+) -->\n.*?<!-- /estimate -->", re.DOTALL)
SIZES = (512, 1024, 2048, 4096)  # that the aims are for; the others are printed
OTHERS = (
    ("h200_epilogues.json", "cold", ("epilogue",)),  # the sizes are K's
    ("h200_warm.json", "warm", ("dgemm", "dp4a")),
    ("h200_halves.json", "warm", ("tensor_cores", "async_copy")),
    ("h200_warm.json", "warm", ("mma", "precision bf16", "precision tf32", "precision int8", "precision fp64")),
    ("h200_squares.json", "warm", ("beat_cublas", "beat_cublas tma")),
)
BY_TMA = ("mma tma", "precision tf32_tma", "precision int8_tma")  # tiles come through tensor maps, blocks stay
ORDERED = (512, 1024, 2048, 4096, 8192)  # at which the order of lessons is looked at
VARIED = f"{len(listed()['variants'].variants)} variants of the lessons"
EDITED = {it.name for it in listed()["variants"].variants if it.edits or it.pitfall}
FIRST = 10  # by estimate, among which the fastest should be
FAR = 0.40  # an error above this is too large
# Part of an estimate -> its column on the page. The last is the whole time, waiting included.
UNITS = {
    "fp32": "multiply-adds",
    "issue": "instructions",
    "shared": "shared memory",
    "l1": "L1 requests",
    "l2": "L2",
    "dram": "DRAM",
    "latency": "one played through",
}


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


def lessons(sizes: Collection[int] = ()) -> Iterator[Compared]:
    """Every solution at these sizes, or at every measured one; the time of launching is hidden."""
    stored = json.loads((ROOT / "lessons/measured/h200.json").read_text())["rows"]
    rows = [row for row in stored if not sizes or row["size"] in sizes]
    kernels = solutions()
    shapes: dict[str, list[Shape]] = {}
    for row in rows:
        shapes.setdefault(row["kernel"], []).append(Shape(row["size"], row["size"], row["size"]))
    timed = [it for it in kernels if it.name in shapes]
    disassemble_ahead(chosen.compiled() for it in timed for chosen in it.chosen(shapes[it.name]))
    for kernel in kernels:
        for row, estimate in estimated(kernel, rows):
            yield Compared("H200", kernel.name, row["size"], row["warm"]["median_us"], 0.0, hidden(estimate))


def variants() -> Iterator[Compared]:
    """Every variant of a solution that was measured."""
    rows = json.loads((ROOT / "lessons/measured/h200_variants.json").read_text())["rows"]
    for kernel in listed()["variants"].kernels():
        for row, estimate in estimated(kernel, rows):
            yield Compared("H200", kernel.name, row["size"], row["warm"]["median_us"], 0.0, hidden(estimate))


def estimated(kernel: Kernel, rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], Estimate]]:
    """The rows of this kernel, each with the estimate for its size. A row's ``side`` is M = N; else M = N = K."""
    mine = [row for row in rows if row["kernel"] == kernel.name]
    if kernel.lesson.data.maps or len(kernel.lesson.launches) > 1:
        yield from of_several_launches(kernel, mine)
        return
    shapes = [shape_of(str(row["size"])) for row in mine]
    shapes = [
        replace(it, m=row.get("side", it.m), n=row.get("side", it.n)) for it, row in zip(shapes, mine, strict=True)
    ]
    gpu, profiles = GPUS["h200"], {}
    for row, shape in zip(mine, shapes, strict=True):
        [fixed] = kernel.chosen([shape])  # by the host, for this size
        lesson = replace(fixed.lesson, choices=())
        if lesson.tile.sizes not in profiles:
            compiled, launch = replace(fixed, lesson=lesson).compiled(), lesson.grids(shape)[0]
            resident = occupancy_of(compiled.resources, launch.threads, launch.dynamic_shared, gpu).blocks_per_sm
            profiles[lesson.tile.sizes] = profile_of(subject_of(lesson, compiled), resident)
        profile = profiles[lesson.tile.sizes]
        yield row, estimate_at(profile, shape, lesson.grids(shape)[0].grid, gpu)


def hidden(estimate: Estimate) -> Estimate:
    """The estimate for a launch that was queued after another kernel."""
    return replace(estimate, time_us=estimate.time_us - LAUNCH_US + QUEUED_US)


def typed(others: Sequence[tuple[str, str, tuple[str, ...]]] = OTHERS) -> Iterator[Compared]:
    """Lessons after any_shape, of other types or with an epilogue. ``others``: file, way of timing, kernels."""
    course = Course(ROOT)
    for file, way, names in others:
        rows = json.loads((ROOT / "lessons/measured" / file).read_text())["rows"]
        for name in names:
            lesson, _, type_ = name.partition(" ")
            found = course.lesson(lesson)
            if type_:
                found = load_lesson(found.directory, type_)
            if file == "h200_epilogues.json":
                rows = [{**row, "side": listed()["epilogues"].side} for row in rows]
            for row, estimate in estimated(replace(Kernel.solution(found), name=name), rows):
                yield Compared("H200", name, row["size"], row[way]["median_us"], 0.0, hidden(estimate))


def by_tma() -> Iterator[Compared]:
    """The types of lessons mma and precision with tensor maps."""
    return typed([("h200_warm.json", "warm", BY_TMA)])


def splits() -> Iterator[Compared]:
    """Lesson split_k and its variant with atomics at small and skinny shapes, with a cold L2."""
    rows = json.loads((ROOT / "lessons/measured/h200_split.json").read_text())["rows"]
    skinny = [row for row in rows if isinstance(row["size"], str)]
    found = Course(ROOT).lesson("split_k")
    for name in ("split_k", "split_k atomics"):
        lesson = load_lesson(found.directory, name.partition(" ")[2])
        for row, estimate in estimated(replace(Kernel.solution(lesson), name=name), skinny):
            label, shape = f"{name} {row['size']}", shape_of(row["size"])
            yield Compared("H200", label, shape.k, row["cold"]["median_us"], 0.0, hidden(estimate))


def of_several_launches(
    kernel: Kernel, rows: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[Mapping[str, Any], Estimate]]:
    """The same for a lesson with tensor maps or several launches. Raise ``NotEstimated``, with the reason."""
    for row in rows:
        shape = shape_of(str(row["size"]))
        [chosen] = kernel.chosen([shape])
        launches = [replace(chosen, lesson=one).compiled() for one in by_launch(chosen.lesson)]
        estimator = estimator_of(chosen.lesson, launches, GPUS["h200"], shape)
        if not isinstance(estimator, Estimator):
            raise NotEstimated(estimator)
        yield row, estimator.at(shape, GPUS["h200"])


def by_launch(lesson: Lesson) -> list[Lesson]:
    """For each launch of the lesson, the lesson with that launch alone."""
    return [replace(lesson, launches=(launch,)) for launch in lesson.launches]


def articles(rows: Sequence[Article] = ARTICLES) -> Iterator[Compared]:
    """Every row of the published tables."""
    disassemble_ahead(row.compiled for row in rows)
    for row in rows:
        for size, time in row.times_us.items():
            estimate = estimate_at(row.profile, row.shape(size), row.blocks(size), row.gpu)
            yield Compared(row.gpu.name, row.name, size, time, row.precision_us, estimate)


def matrices() -> Iterator[Compared]:
    """Our own kernels for tensor cores, fp64 and packed bytes, with splits and ragged edges (``matrices.py``)."""
    times = {(row["kernel"], *row["shape"]): row["median_us"] for row in json.loads(MEASURED.read_text())["rows"]}
    cases = {case.name: case for case in CASES}
    for (name, *shape), time in times.items():
        m, n, k = shape
        launches = cases[name].estimate((m, n, k))
        whole = replace(launches[0], time_us=sum(hidden(one).time_us for one in launches))
        yield Compared("H200", name, m, time, 0.0, whole)


Runs = Mapping[tuple[str, int], Mapping[int, tuple[float, float]]]


@cache
def repeated() -> Runs:
    """(kernel, size) -> run -> the deciles of its times. In a run all kernels are timed in turn, on one GPU."""
    found: dict[tuple[str, int], dict[int, tuple[float, float]]] = {}
    for row in json.loads((ROOT / "lessons/measured/h200_order.json").read_text())["rows"]:
        times = row["warm"]["p10_us"], row["warm"]["p90_us"]
        found.setdefault((row["kernel"], row["size"]), {})[row["run"]] = times
    return found


def order_of(a: str, b: str, size: int, runs: Runs) -> int:
    """-1 if ``a`` is faster in every run, 1 if ``b`` is; 0 if their deciles overlap in some run, or runs disagree."""
    first, second = runs.get((a, size), {}), runs.get((b, size), {})
    signs = {
        -1 if first[run][1] < second[run][0] else 1 if second[run][1] < first[run][0] else 0
        for run in first.keys() & second.keys()
    }
    return signs.pop() if len(signs) == 1 else 0


def out_of_order(found: Sequence[Compared], size: int, runs: Runs | None = None) -> list[tuple[str, str]]:
    """Pairs of kernels whose estimated order contradicts all measured runs."""
    here, runs = [one for one in found if one.size == size], repeated() if runs is None else runs
    return [
        (a.kernel, b.kernel)
        for a, b in itertools.combinations(here, 2)
        if (order := order_of(a.kernel, b.kernel, size, runs))
        and order * (a.estimate.time_us - b.estimate.time_us) <= 0
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


# -- the page of the course --------------------------------------------------------------------------------------------


def _table(head: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    return table_of([str(cell) for cell in head], [[str(cell) for cell in row] for row in rows])


def searches() -> str:
    """Table of searches by ``gemm-lessons tune NN --csv FILE --measure 200``: where the fastest tile was ranked."""
    rows = []
    for path in sorted(MEASURED.parent.glob("tune_*.csv")):
        with path.open(newline="") as file:
            ranked = sorted(
                (it for it in csv.DictReader(file) if it["estimate_us"]), key=lambda it: float(it["estimate_us"])
            )
        times = [float(it["time_us"]) if it["time_us"] else math.inf for it in ranked]
        fastest = min(times)
        timed = sum(time < math.inf for time in times)
        behind = min(times[:FIRST]) / fastest - 1
        rows.append([path.stem.partition("_")[2], len(ranked), timed, times.index(fastest) + 1, f"{behind:.1%}"])
    head = [
        "lesson",
        "right",
        "measured",
        "place of the fastest",
        f"the fastest of the first {FIRST}, slower by",
    ]
    return _table(head, rows)


def _errors(found: Sequence[Compared]) -> str:
    """Table of errors: a row for each kernel, a column for each size."""
    sizes = sorted({one.size for one in found})
    rows = []
    for kernel in dict.fromkeys(one.kernel for one in found):
        by_size = {one.size: f"{one.error:+.1%}" for one in found if one.kernel == kernel}
        rows.append([kernel, *(by_size.get(size, "") for size in sizes)])
    return _table(["kernel", *sizes], rows)


def unfitted() -> list[Compared]:
    """The lessons, estimated without the constants that were fitted to them."""
    gpu = GPUS["h200"]
    plain = replace(gpu, pipes=replace(pipes_of(gpu), replay=0.0, request=1.2))
    with patch.object(sys.modules[__name__], "GPUS", {"h200": plain}):
        return list(lessons())


def gains(found: Sequence[Compared], size: int) -> dict[tuple[str, str], tuple[float, float]]:
    """(lesson, next lesson) -> how many times faster the next one is: estimated, measured."""
    at_size = [one for one in found if one.size == size]
    return {
        (before.kernel, after.kernel): (
            before.estimate.time_us / after.estimate.time_us,
            before.measured_us / after.measured_us,
        )
        for before, after in itertools.pairwise(at_size)
    }


def tables(
    ours: Sequence[Compared],
    behind: Sequence[Compared],
    varied: Sequence[Compared],
    theirs: Sequence[Compared],
    others: Sequence[Compared],
    boxes: Sequence[Compared],
) -> dict[str, str]:
    """The page's tables by name."""
    whole = {"lessons to any_shape": [one for one in ours if one.size in SIZES], "later lessons": list(behind)}
    whole["all lessons"] = [one for part in whole.values() for one in part]
    whole["lesson mma by TMA"] = list(boxes)
    sums = [
        [name, len(part), f"{statistics.median(far := [abs(one.error) for one in part]):.1%}", f"{max(far):.1%}"]
        for name, part in whole.items()
    ]
    large = [one for one in ours if one.size == SIZES[-1]]
    units = [
        [one.kernel, *(f"{one.estimate.parts[unit] / 1e3:.2f}" for unit in UNITS), f"{one.measured_us / 1e3:.2f}"]
        for one in large
    ]
    parts = {
        f"{VARIED}, H200": varied,
        f"of these, {len(EDITED)} edits of the source": [one for one in varied if one.kernel in EDITED],
        f"{len(CASES)} kernels for other units, H200": others,
    } | {
        f"article, {gpu}": [one for one in theirs if one.table == gpu]
        for gpu in dict.fromkeys(one.table for one in theirs)
    }
    lines = []
    for name, part in parts.items():
        far = [abs(one.error) for one in part]
        beyond = sum(error > FAR for error in far)
        lines.append([name, len(part), f"{statistics.median(far):.1%}", f"{max(far):.1%}", beyond])
    ways = []
    for way, found in (("with the fitted numbers", ours), ("without", unfitted())):
        judged = [one for one in found if one.size in SIZES]
        far = [abs(one.error) for one in judged]
        wrong = sum(len(out_of_order(found, size)) for size in ORDERED)
        ways.append([way, f"{statistics.median(far):.1%}", f"{max(far):.1%}", wrong])
    return {
        "unfitted": _table(
            [f"H200, {SIZES[0]} to {SIZES[-1]}", "median error", "largest", "pairs in wrong order"], ways
        ),
        "units": _table(["kernel", *UNITS.values(), "measured"], units),
        "gains": _table(
            [f"step, at {SIZES[-1]}", "estimated", "measured", "estimated / measured"],
            [
                [f"{before} to {after}", f"{guess:.2f}", f"{truth:.2f}", f"{guess / truth - 1:+.1%}"]
                for (before, after), (guess, truth) in gains(ours, SIZES[-1]).items()
            ],
        ),
        "lessons": _errors(ours),
        "behind": _errors([*behind, *boxes]),
        "searches": searches(),
        "all": _table(["H200", "times", "median error", "largest"], sums),
        "others": _table(["kernels", "times", "median error", "largest", f"above {FAR:.0%}"], lines),
        **page_tables(),
    }


def rewritten(text: str, found: Mapping[str, str]) -> str:
    """``text`` with the tables in ``found`` replaced, by name."""
    return TABLE.sub(
        lambda it: f"<!-- estimate: {it[1]} -->\n{found[it[1]]}<!-- /estimate -->" if it[1] in found else it[0], text
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m checks.estimate.table", description=__doc__)
    parser.add_argument("--write", action="store_true", help="fill the tables of ESTIMATE.md in")
    given = parser.parse_args()
    ours, behind, varied = list(lessons()), list(typed()), list(variants())
    theirs, others, boxes = list(articles()), list(matrices()), list(by_tma())
    if given.write:
        PAGE.write_text(rewritten(PAGE.read_text(), tables(ours, behind, varied, theirs, others, boxes)))
        texts.write()
        return
    show(ours)
    show(behind)
    print(f"H200, lessons behind any_shape: {summary(behind)}")
    show(boxes)
    print(f"H200, lesson mma by TMA: {summary(boxes)}")
    judged = [one for one in ours if one.size in SIZES]
    print(f"H200, {SIZES[0]} to {SIZES[-1]}: {summary(judged)}")
    for size in ORDERED:
        wrong = [f"{a} and {b}" for a, b in out_of_order(ours, size)]
        print(f"H200, order at {size}: {'; '.join(wrong) or 'right'}")
    show(varied)
    print(f"H200, {VARIED}: {summary(varied)}")
    few = list(splits())
    show(few)
    print(f"H200, small and skinny shapes: {summary(few)}")
    show(others)
    print(f"H200, kernels for other units: {summary(others)}")
    for table in dict.fromkeys(one.table for one in theirs):
        part = [one for one in theirs if one.table == table]
        show(part)
        print(f"{table}: {summary(part)}")
    print(f"both articles: {summary(theirs)}")


if __name__ == "__main__":
    main()
