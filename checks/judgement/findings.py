"""Findings as the simulator makes them, for the tests of the advice about them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gemm_lessons.engine.records.facts import Actor, Coordinates, Details, Location, Memory, Missed, PastEnd, Race
from gemm_lessons.engine.records.findings import Finding, Severity


def race(line: int, other: int | None, effects: str = "shared store store", **more: Any) -> Finding:
    """A race of threads 9 and 0 at the start of As or C. ``effects``: space, first access, second access."""
    space, first, second = effects.split()
    pair = Actor((9,), (0,), line, first, 4), Actor((0,), (0,), other, second, 4)  # type: ignore[arg-type]
    place = Location(space, "As" if space == "shared" else "C", 0, 8192)  # type: ignore[arg-type]
    it = Finding("race", "error", f"{space} order", line, other, place=place, actors=pair, facts=Race())
    return replace(it, **more)


def access(
    kind: str, array: str, byte: int, size: int, line: int, thread: int = 0, block: Coordinates = (0,)
) -> Finding:
    """A finding about one load of 4 bytes: an error for ``out_of_bounds``, which ends the kernel, else a warning."""
    space: Memory = "global" if len(array) == 1 else "shared"
    ends = kind == "out_of_bounds"
    case = "array" if ends else space
    facts = Missed() if ends else PastEnd(Location("shared", "Bs", 0, 8192)) if kind == "out_of_array" else Details()
    who = (Actor((thread,), block, line, "load", 4),)
    severity: Severity = "error" if ends else "warning"
    return Finding(kind, severity, case, line, place=Location(space, array, byte, size), actors=who, facts=facts)
