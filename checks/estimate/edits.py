"""Slow edits of the solutions, estimated beside measured.

    python -m checks.estimate.edits [LESSON ...]
    python -m checks.estimate.edits --write           into lessons/common/ESTIMATE.md, and the texts that quote it

The speed of an edit is reference time / edit time, both from the same run. The estimate tells an edit if the estimated
and the measured speed are on the same side of 1, or both within ``SAME`` of it, and differ by at most ten points.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from checks.course.tables import ROOT, STORED, Table, tables
from checks.estimate import texts
from checks.estimate.table import estimated, hidden, rewritten
from checks.usage import help_if_asked
from gemm_lessons.authoring.numbers import table_of
from gemm_lessons.course.folder import Course
from gemm_lessons.engine.estimate.launch import NotEstimated

TABLES = tuple(name for name in tables() if name.startswith("slow_edits"))
SAME = 0.02  # speeds within this of 1 count as equal to the reference
NEAR = 0.10  # largest difference of the two speeds


@dataclass(frozen=True)
class Edit:
    """One edit at one size. Speeds are fractions of the reference's. ``refusal``: why there is no estimate."""

    lesson: str
    name: str
    size: str
    measured: float
    estimate: float = math.nan
    refusal: str = ""

    @property
    def near(self) -> bool:
        """Whether the two speeds are near each other."""
        return abs(self.measured - self.estimate) <= NEAR

    @property
    def told(self) -> bool:
        """Whether the estimate tells this edit from the reference."""
        measured, estimate = self.measured - 1, self.estimate - 1
        return self.near and (max(abs(measured), abs(estimate)) <= SAME or measured * estimate > 0)


def edits(table: Table, wanted: Collection[str] = ()) -> Iterator[Edit]:
    """Every edit of a table, of these lessons or of all."""
    layout = f" {table.layouts[0]}" if table.layouts else ""
    stored = json.loads((STORED / table.file).read_text())["rows"]
    rows = [{**row, "kernel": row["kernel"].removesuffix(layout), "size": f"{row['size']}{layout}"} for row in stored]
    times: dict[tuple[str, str], tuple[float, float]] = {}
    refused: dict[tuple[str, str], tuple[float, str]] = {}
    for kernel in table.kernels():
        lesson = kernel.name.split()[0]
        if wanted and lesson not in wanted:
            continue
        try:
            for row, found in estimated(kernel, rows):
                times[kernel.name, row["size"]] = row["warm"]["median_us"], hidden(found).time_us
        except NotEstimated as problem:
            for row in (it for it in rows if it["kernel"] == kernel.name):
                refused[kernel.name, row["size"]] = row["warm"]["median_us"], str(problem)
    for (name, size), (measured, estimate) in times.items():
        lesson, _, edit = name.partition(" ")
        reference = times[lesson, size]
        if edit:
            yield Edit(lesson, edit, size, reference[0] / measured, reference[1] / estimate)
    for (name, size), (measured, why) in refused.items():
        lesson, _, edit = name.partition(" ")
        yield Edit(lesson, edit, size, times[lesson, size][0] / measured, refusal=why)


def page_table(found: Sequence[Edit]) -> str:
    """A row for each lesson, and one for all."""
    groups = {name: [it for it in found if it.lesson == name] for name in dict.fromkeys(it.lesson for it in found)}
    rows = []
    for name, group in {**groups, "all": list(found)}.items():
        known = [it for it in group if not it.refusal]
        off = [100 * abs(it.measured - it.estimate) for it in known]
        worst = max(known, key=lambda it: abs(it.measured - it.estimate))
        speeds = "" if name == "all" else f"{worst.name}: {worst.measured:.0%}, estimated {worst.estimate:.0%}"
        told = f"{sum(it.told for it in group)} of {len(group)}"
        rows.append([name, told, f"{statistics.median(off):.1f}", f"{max(off):.0f}", speeds])
    return table_of(["edits of", "told", "points apart, median", "largest", "which"], rows)


def judged(found: Sequence[Edit]) -> str:
    """What the edits have that are not told."""
    refused = [it for it in found if it.refusal]
    missed = [it for it in found if not (it.told or it.refusal)]
    side = [it for it in missed if it.near]
    level = [it for it in side if abs(it.measured - 1) <= SAME]
    others, told = len(found) - len(level), sum(it.told for it in found)
    text = (
        f"Of the {len(missed)} that it does not tell, {len(missed) - len(side)} are more than ten points apart, and "
        f"{len(side)} are nearer but on different sides of 1. In {len(level)} of these, the measured speed is within "
        f"2% of 1, as far as two runs of one measurement differ; without them, the estimate tells {told} of {others} "
        f"({told / others:.0%})."
    )
    text += "".join(f" {it.lesson} {it.name} is not estimated: {it.refusal}." for it in refused)
    return "\n" + "\n".join(textwrap.wrap(text, 118)) + "\n"


def all_edits(lessons: Iterable[str] = ()) -> list[Edit]:
    """The edits of these lessons or of all, as the course orders them."""
    order = [name[3:] for name in Course(ROOT).names]
    wanted = frozenset(lessons)
    return sorted(
        (it for name in TABLES for it in edits(tables()[name], wanted)), key=lambda it: order.index(it.lesson)
    )


def main() -> None:
    found = all_edits(it for it in sys.argv[1:] if it != "--write")
    if "--write" in sys.argv:
        texts.PAGE.write_text(rewritten(texts.PAGE.read_text(), {"edits": page_table(found) + judged(found)}))
        texts.write()
        return
    for it in found:
        print(f"{it.lesson:16}{it.name:44}{it.measured:8.1%}{it.estimate:8.1%}  {'' if it.told else '<-'}")
    off = [abs(it.measured - it.estimate) for it in found if not it.refusal]
    print(
        f"{sum(it.told for it in found)} of {len(found)} told; points between the two speeds: "
        f"{100 * statistics.median(off):.1f} in the median, {100 * max(off):.0f} at most{judged(found)}"
    )


if __name__ == "__main__":
    help_if_asked(__doc__)
    main()
