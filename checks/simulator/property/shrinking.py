"""A failing program made small: fewer lines, fewer blocks, as long as it fails the same way."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator

from checks.simulator.property.comparison import check
from checks.simulator.property.programs import Case

SECONDS = 30.0  # time limit of shrinking: deletions can leave a program that runs for long


def symptom(problem: str) -> str:
    """The kind of failure, such as ``optimised != plain: findings``."""
    return ":".join(problem.split(":")[:2]).split(",")[0]


def fails(case: Case, wanted: str) -> bool:
    """Whether ``case`` still fails with symptom ``wanted``. A program that deletions made racy does not count."""
    ran = check(case)
    return symptom(ran.problem) == wanted and (case.sort != "values" or not ran.race)


def shrink(case: Case, budget: float = SECONDS) -> Case:
    """The smallest failing program that deleting lines and blocks leads to within ``budget`` seconds."""
    end = time.monotonic() + budget
    wanted = symptom(check(case).problem)
    smaller = True
    while smaller:
        smaller = False
        for candidate in _candidates(case):
            if time.monotonic() > end:
                return case
            if fails(candidate, wanted):
                case, smaller = candidate, True
                break
    return case


def _candidates(case: Case) -> Iterator[Case]:
    """Yield smaller cases: fewer blocks, then without a piece of the body, large pieces first."""
    for grid in ((1, 1, 1), (2, 1, 1)):
        if grid[0] < case.blocks:
            yield dataclasses.replace(case, grid=grid)
    size = len(case.body) // 2
    while size:
        for start in range(0, len(case.body), size):
            body = case.body[:start] + case.body[start + size :]
            yield dataclasses.replace(case, body=body)
        size //= 2
