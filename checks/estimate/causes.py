"""Splits the difference in time between an edit and its reference by cause, for pairs whose cause is known.

    python -m checks.estimate.causes [EDIT ...]
    python -m checks.estimate.causes --write          into lessons/common/ESTIMATE.md

The pairs were chosen first (``causes.toml``): an edit changes one thing, and both kernels were measured in one run, so
the measured difference is what that cause costs. A pair is told if the named cause has the largest share.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from checks.course.kernel import Kernel
from checks.course.tables import STORED, tables
from checks.estimate.edits import TABLES
from checks.estimate.table import by_launch, rewritten
from checks.estimate.texts import PAGE
from checks.usage import help_if_asked
from gemm_lessons.authoring.numbers import table_of
from gemm_lessons.engine.estimate.causes import Cause
from gemm_lessons.engine.hardware.sheets import GPUS
from gemm_lessons.gemm.shapes import Shape
from gemm_lessons.gemm.time_model import Estimator
from gemm_lessons.running.estimating import estimator_of

PAIRS: Mapping[str, Cause] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())["pairs"]
SIZE = 4096


@dataclass(frozen=True)
class Attributed:
    """A pair: microseconds that the edit takes longer, measured and estimated, and the latter by cause."""

    edit: str
    cause: Cause
    measured_us: float
    shares: Mapping[Cause, float]

    @property
    def estimated_us(self) -> float:
        """Return the estimated difference."""
        return sum(self.shares.values())

    @property
    def named_us(self) -> float:
        """Return the share of the cause that was named beforehand."""
        return self.shares[self.cause]

    @property
    def largest(self) -> Cause:
        """Return the cause with the largest share."""
        return max(self.shares, key=lambda it: self.shares[it])

    @property
    def told(self) -> bool:
        """Return whether the named cause has the largest share."""
        return self.largest == self.cause


def pairs(wanted: Sequence[str] = ()) -> Iterator[Attributed]:
    """Every pair, or those whose edit is named."""
    kernels: dict[str, Kernel] = {}
    times: dict[str, float] = {}
    for name in TABLES:
        table = tables()[name]
        kernels |= {it.name: it for it in table.kernels()}
        rows = json.loads((STORED / table.file).read_text())["rows"]
        times |= {row["kernel"]: row["warm"]["median_us"] for row in rows if row["size"] == SIZE}
    for edit, cause in PAIRS.items():
        if wanted and edit not in wanted:
            continue
        reference = edit.split()[0]
        slow, fast = (_shares(kernels[it]) for it in (edit, reference))
        yield Attributed(edit, cause, times[edit] - times[reference], {it: slow[it] - fast[it] for it in slow})


def _shares(kernel: Kernel) -> dict[Cause, float]:
    shape, gpu = Shape(SIZE, SIZE, SIZE), GPUS["h200"]
    [chosen] = kernel.chosen([shape])
    launches = [replace(chosen, lesson=one).compiled() for one in by_launch(chosen.lesson)]
    estimator = estimator_of(replace(chosen.lesson, choices=()), launches, gpu, shape)
    assert isinstance(estimator, Estimator), f"{kernel.name}: {estimator}"
    return estimator.shares_at(shape, gpu)


def page_table(found: Sequence[Attributed]) -> str:
    """A row for each pair."""
    rows = []
    for it in found:
        others = sorted((it.shares[name], name) for name in it.shares if name != it.cause)
        second = f"{others[-1][1]} {others[-1][0] / it.estimated_us:.0%}"
        rows.append(
            [
                it.edit, it.cause, f"{it.measured_us / 1e3:+.2f}", f"{it.estimated_us / 1e3:+.2f}",
                f"{it.named_us / 1e3:+.2f}", f"{it.named_us / it.estimated_us:.0%}", second,
            ]
        )  # fmt: skip
    columns = ["edit", "what it changes", "measured, ms", "estimated, ms", "of this cause, ms", "share", "next"]
    return table_of(columns, rows)


def main() -> None:
    found = list(pairs([it for it in sys.argv[1:] if it != "--write"]))
    if "--write" in sys.argv:
        PAGE.write_text(rewritten(PAGE.read_text(), {"causes": page_table(found)}))
        return
    print(page_table(found))
    for it in found:
        print(f"{it.edit}: " + ", ".join(f"{name} {us / 1e3:+.2f}" for name, us in it.shares.items() if abs(us) > 1))
    print(f"{sum(it.told for it in found)} of {len(found)} pairs: the largest share is that of what the edit changes")


if __name__ == "__main__":
    help_if_asked(__doc__)
    main()
