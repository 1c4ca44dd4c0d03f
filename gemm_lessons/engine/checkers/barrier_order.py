"""Barriers that threads reach in a way the programming model forbids, or in a way that hides a mistake.

Measured with compute-sanitizer on an H200: synccheck reports a warp that arrives in pieces ("divergent thread(s) in
warp") and threads of a block that wait at different barriers ("divergent thread(s) in block"). Both are errors although
the kernel passes. Synccheck does not report threads that have exited before the barrier; they are a warning here.

A named barrier that warps of two roles share needs an order, or arrivals of one role may complete the other's barrier:
a warp that did not take part in a barrier's last phase must not arrive before that phase is complete: its vector clock
must include every arrival of the phase. Clocks are those of ``warp_clocks``. Barrier numbers at which threads arrive
without waiting (``bar.arrive``) are not checked: there, the warps of two phases differ by design.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemm_lessons.engine.checkers.collector import Example, FindingCollector, Key, Names
from gemm_lessons.engine.events import WARP, Barrier, Batch, Irregular
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.facts import Details, Ended, NamedBarrier
from gemm_lessons.engine.records.findings import Severity


@dataclass(frozen=True)
class SharedBarrier:
    """A named barrier of two roles: the lines of two phases, and a lane of each."""

    number: int
    lines: tuple[int | None, int | None]
    lanes: tuple[int, int]

    def report(self, collector: FindingCollector, names: Names, batch: Batch) -> None:
        """Add the finding."""
        earlier, later = self.lines
        first, second = (names.actor(batch, lane, line=line) for lane, line in zip(self.lanes, self.lines, strict=True))
        key = Key("barrier_count", "error", later, earlier if earlier != later else None, "", f"roles {self.number}")
        collector.add(key, lambda: Example("roles", None, (second, first), NamedBarrier(self.number, 0)))


class BarrierOrder:
    """The last phase of each named barrier: (blocks, warps), the clock of each warp that took part; 0: others."""

    def __init__(self, places: Array) -> None:
        self._places = places  # (blocks, warps): each warp's position in a clock
        self._last: dict[int, Array | None] = {}  # by number; None: some threads do not wait there
        self._lines: dict[int, int | None] = {}
        self.found: dict[tuple[int, int | None], SharedBarrier] = {}  # by number and line

    def meet(self, mark: Barrier, participants: Array, clocks: Array, own: Array) -> None:
        """Note a barrier of the warps ``participants`` (blocks, warps); with ``bar.arrive`` they do not wait.
        ``clocks``: vector clock of each warp before the barrier; ``own``: its own entry."""
        last = self._last.get(mark.number, np.zeros_like(own))
        if mark.kind == "arrive" or last is None:
            self._last[mark.number] = None
            return
        blocks, warps = own.shape
        known = np.take_along_axis(clocks, np.broadcast_to(self._places[:, None], (blocks, warps, warps)), axis=2)
        early: Array = participants & (last == 0) & (known < last[:, None]).any(axis=2)
        if early.any():
            block, warp = np.argwhere(early)[0].tolist()
            there = int(last[block].argmax())
            lanes = (block * warps + there) * WARP, (block * warps + warp) * WARP
            lines = self._lines[mark.number], mark.line
            self.found.setdefault((mark.number, mark.line), SharedBarrier(mark.number, lines, lanes))
        self._last[mark.number] = np.where(
            participants.any(axis=1, keepdims=True), np.where(participants, own, 0), last
        )
        self._lines[mark.number] = mark.line


def irregular(collector: FindingCollector, names: Names, batch: Batch, record: Irregular) -> None:
    """Report one irregular barrier."""
    lane, other = int(record.lanes.argmax()), int(record.others.argmax())
    count = int(np.count_nonzero(record.lanes))
    actors = names.actor(batch, lane, line=record.line), names.actor(batch, other, line=record.other_line)
    other_line, facts = None, Details()
    severity: Severity = "error"
    if record.kind == "divergent":
        kind, case = "divergent_barrier", "warp"
        other_line = record.other_line if record.other_line != record.line else None
    elif record.kind == "places":
        kind, case, other_line = "divergent_barrier", "places", record.other_line
    elif record.kind == "counts":
        kind, case = "barrier_count", "expected"
    elif record.kind == "warp":
        kind, case, severity = "divergent_warp", "", "warning"
    else:
        kind, case, severity = "exited_before_barrier", "", "warning"
        facts = Ended(int(np.count_nonzero(record.others[names.same_block(other)])))
    key = Key(kind, severity, record.line, other_line, record.file, record.kind)
    collector.add(key, lambda: Example(case, None, actors, facts), count)
