"""NVRTC's log -> ``Diagnostic`` records in the learner's own file, line and column."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Diagnostic:
    """One message of the compiler. ``line`` and ``column`` count from 1; line 0: the compiler named none."""

    file: str
    line: int
    column: int | None
    severity: Literal["error", "warning"]
    message: str


_HEADER = re.compile(r"^(?P<file>.+?)\((?P<line>\d+)\): (?P<kind>catastrophic error|error|warning)[^:]*: (?P<text>.*)")
_CARET = re.compile(r"^\s+\^\s*$")


def parse_log(log: str, names: Mapping[str, str]) -> tuple[Diagnostic, ...]:
    """The messages of an NVRTC log, in order; ``names`` maps file names in the log to those to show."""
    found: list[Diagnostic] = []
    lines = log.splitlines()
    for index, line in enumerate(lines):
        if not (match := _HEADER.match(line)):
            continue
        column = None
        for later in lines[index + 1 : index + 12]:
            if _HEADER.match(later):
                break
            if _CARET.match(later):
                column = later.index("^") - 1
                break
        found.append(
            Diagnostic(
                names.get(match["file"], match["file"]),
                int(match["line"]),
                column,
                "warning" if match["kind"] == "warning" else "error",
                match["text"],
            )
        )
    return tuple(found)
