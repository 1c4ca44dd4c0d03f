"""A failing program made small: fewer lines, fewer blocks, as long as it fails the same way."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from checks.simulator.property.comparison import check
from checks.simulator.property.programs import Case


def symptom(problem: str) -> str:
    """What kind of failure it is: ``optimised != plain: findings``."""
    return ":".join(problem.split(":")[:2]).split(",")[0]


def fails(case: Case, wanted: str) -> bool:
    """Whether ``case`` still shows ``wanted``. A program that deletions made racy proves nothing."""
    ran = check(case)
    return symptom(ran.problem) == wanted and (case.sort != "values" or not ran.race)


def shrink(case: Case) -> Case:
    """The smallest failing program that deleting lines and blocks leads to."""
    wanted = symptom(check(case).problem)
    smaller = True
    while smaller:
        smaller = False
        for candidate in _candidates(case):
            if fails(candidate, wanted):
                case, smaller = candidate, True
                break
    return case


def _candidates(case: Case) -> Iterator[Case]:
    """Large pieces first. After a success the search starts again, so pieces that are needed are soon left alone."""
    for grid in ((1, 1, 1), (2, 1, 1)):
        if grid[0] < case.blocks:
            yield dataclasses.replace(case, grid=grid)
    size = len(case.body) // 2
    while size:
        for start in range(0, len(case.body), size):
            body = case.body[:start] + case.body[start + size :]
            yield dataclasses.replace(case, body=body)
        size //= 2
