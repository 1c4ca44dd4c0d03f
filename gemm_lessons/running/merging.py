"""Findings of several launches: one for each place, and one for the races that one barrier would fix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gemm_lessons.engine import Finding


def merged(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Merge findings of several launches, one for each kind and pair of lines: keep the first example, add counts."""
    by_place: dict[tuple[object, ...], Finding] = {}
    for finding in findings:
        seen = by_place.get(place(finding))
        by_place[place(finding)] = replace(seen, count=seen.count + finding.count) if seen else finding
    return tuple(by_place.values())


def of_one_barrier(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Merge races that one barrier would fix into one finding. In a race of stores with later loads, all lines of the
    stores precede all lines of the loads. In a race of loads with later stores, all lines of the loads follow those of
    the stores, which belong to the next iteration."""
    groups: list[list[Finding]] = []
    for finding in findings:
        fitting = (group for group in groups if _one_barrier([*group, finding]))
        if (group := next(fitting, None)) is not None:
            group.append(finding)
        else:
            groups.append([finding])
    for group in groups:  # written before a barrier and read after it, and in the next iteration the other way round
        back = next((it for it in groups if it and it is not group and _pairs(it) == _pairs(group, swapped=True)), [])
        if group and group[0].kind == "race" and group[0].effects.startswith("shared"):
            group += back
            back.clear()
    return tuple(_together(group) for group in groups if group)


def _pairs(group: Sequence[Finding], swapped: bool = False) -> set[tuple[object, ...]]:
    """Return both lines of each finding of a group, with the fields that distinguish kinds of race."""
    if swapped:
        return {(it.kind, it.severity, it.file, it.other_line, it.line) for it in group}
    return {(it.kind, it.severity, it.file, it.line, it.other_line) for it in group}


def _one_barrier(group: Sequence[Finding]) -> bool:
    kinds = {(it.kind, it.severity, it.effects, it.file) for it in group}
    first, then = [it.line for it in group if it.line], [it.other_line for it in group if it.other_line]
    if len(kinds) > 1 or len(first) + len(then) < 2 * len(group):
        return False
    effects = group[0].effects
    return (effects == "shared store load" and max(first) < min(then)) or (
        effects == "shared load store" and min(first) > max(then)
    )


def _together(group: Sequence[Finding]) -> Finding:
    if len(group) == 1:
        return group[0]
    also = {frozenset((it.line, it.other_line)): (it.line, it.other_line) for it in reversed(group)}
    del also[frozenset((group[0].line, group[0].other_line))]
    return replace(group[0], also=tuple(reversed(also.values())), count=sum(it.count for it in group))


def place(finding: Finding) -> tuple[object, ...]:
    """Return the fields by which findings of two launches are one."""
    return finding.kind, finding.severity, finding.file, finding.line, finding.other_line
