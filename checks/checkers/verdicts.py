"""compute-sanitizer's verdicts on the suite, in the terms of our findings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from checks.checkers.manifest import Case, Severity
from checks.readings.checkers.renew import READINGS, TOOLS

HUNG = "deadlock"


@dataclass(frozen=True)
class Verdict:
    """One distinct report of one tool. ``kinds``: our kinds of finding that mean the same; ``lines`` that it names."""

    tool: str
    kinds: frozenset[str]
    severity: Severity
    lines: frozenset[int]
    message: str


@cache
def readings() -> Mapping[str, Any]:
    """The stored file: ``versions`` and ``verdicts`` by case and tool."""
    result: Mapping[str, Any] = json.loads(READINGS.read_text())
    return result


# racecheck prints this note for every warp whose lanes poll an mbarrier together, in right kernels, too.
POLLED = "(CUDA barrier operation)"
# The start (or a part) of a report -> our kinds.
MEANINGS: Sequence[tuple[str, frozenset[str]]] = (
    ("memcpy_async", frozenset({"async_in_flight"})),
    ("hazard detected", frozenset({"race", "async_in_flight"})),
    ("Race reported", frozenset({"race", "async_in_flight"})),
    ("Invalid __", frozenset({"out_of_bounds", "misaligned"})),
    ("Uninitialized", frozenset({"uninitialised"})),
    ("Missing init", frozenset({"mbarrier"})),
    ("Missing wait", frozenset({"mbarrier", "race"})),
    ("Unknown Error", frozenset({"mbarrier"})),
    ("Barrier error", frozenset({"divergent_barrier"})),
    ("Illegal instruction", frozenset({"barrier_count"})),
    ("Trace/breakpoint trap", frozenset({"trap"})),
)


def measured(case: Case) -> bool:
    """Whether there are readings of a kernel."""
    return case.name in readings()["verdicts"]


def verdicts(case: Case) -> list[Verdict]:
    """The reports of the four tools about a kernel. A kernel that hangs under a tool and without one is a deadlock."""
    found = []
    for tool in TOOLS:
        run = readings()["verdicts"][case.name][tool]
        if run["hung"] and readings()["verdicts"][case.name]["none"]["hung"]:
            found.append(Verdict(tool, frozenset({HUNG}), "error", frozenset(), "does not end"))
        polled = any(POLLED in report["message"] for report in run["reports"])
        for report in run["reports"]:
            if polled and report["message"].startswith("Info"):
                continue
            kinds = next(kinds for start, kinds in MEANINGS if start in report["message"])
            if kinds == {"out_of_bounds", "misaligned"}:
                kinds = frozenset({"misaligned" if "misaligned" in " ".join(report["also"]) else "out_of_bounds"})
            found.append(
                Verdict(tool, kinds, _severity(report["message"]), frozenset(report["lines"]), report["message"])
            )
    return found


def _severity(message: str) -> Severity:
    if message.startswith("Info"):
        return "note"
    return "warning" if message.startswith("Warning") else "error"


def hardware(case: Case) -> str:
    """What the kernel did on the GPU without any tool: ``ok``, ``hangs`` or the driver's error."""
    run = readings()["verdicts"][case.name]["none"]
    if run["hung"]:
        return "hangs"
    return run["failed"].rpartition("CUDA_ERROR_")[2].lower() or "ok"
