"""The line of the kernel's file to name for an instruction that waits, arrives or copies.

Such instructions are often in a short function that several lines call. The line of the call tells them apart.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Mapping

from gemm_lessons.engine.machine.mbarriers import is_arrival, is_wait, reports_bytes
from gemm_lessons.engine.ptx.records import Instruction, Kernel, SourceLine

SHORT = 4  # lines, at most, of a function whose call is named in place of its own line


class SourceLines:
    """The lines of one kernel's instructions."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel, self._code = kernel, kernel.instructions

    def line(self, index: int) -> int | None:
        """Return the line of the place that ``place`` returns; None if there is none."""
        place = self.place(index)
        return place.line if place is not None else None

    def place(self, index: int) -> SourceLine | None:
        """Return the place in the kernel's file that executes an instruction. Of a short function it is the line that
        calls it: functions that wait or arrive are called from several lines. A lambda of the kernel that does so in
        several lines, such as to request a tile, is named by its own lines."""
        place = self._code[index].source
        if place is None or not place.places:
            return None
        file = place.places[-1][0]
        while place.inlined_at is not None and (
            not place.line or place.file != file or self._is_short(place, place.inlined_at)
        ):
            place = place.inlined_at
        return place

    def _is_short(self, place: SourceLine, call: SourceLine) -> bool:
        """Return whether the function of ``place`` is short, and not a lambda with several waits or arrivals."""
        several = len(self._steps_of[call]) > 1 and self._kernel.has_line(place.file, place.line)
        return len(self._lines_of[call]) <= SHORT and not several

    @functools.cached_property
    def _lines_of(self) -> Mapping[SourceLine, set[int]]:
        """Return the place of a call -> the lines of the function that was inlined there."""
        return _lines_by_call(self._code)

    @functools.cached_property
    def _steps_of(self) -> Mapping[SourceLine, set[int]]:
        """Return the place of a call -> the lines of that function that wait, arrive or copy."""
        return _lines_by_call([it for it in self._code if is_arrival(it) or is_wait(it) or reports_bytes(it)])


def _lines_by_call(code: Iterable[Instruction]) -> Mapping[SourceLine, set[int]]:
    found: defaultdict[SourceLine, set[int]] = defaultdict(set)
    for place in {instruction.source for instruction in code}:
        here = place
        while here is not None and here.inlined_at is not None:
            found[here.inlined_at].add(here.line)
            here = here.inlined_at
    return found
