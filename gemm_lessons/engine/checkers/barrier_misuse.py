"""Barriers that threads reach in a way the programming model forbids, or in a way that hides a mistake.

Measured with compute-sanitizer on an H200: synccheck reports a warp that arrives in pieces ("divergent thread(s) in
warp") and threads of a block that wait at different barriers ("divergent thread(s) in block"). Both are errors although
the kernel passes. Synccheck does not report threads that have exited before the barrier; they are a warning here.
"""

from __future__ import annotations

import numpy as np

from gemm_lessons.engine.checkers.collector import Example, FindingCollector, Key, Names
from gemm_lessons.engine.events import Batch, Irregular
from gemm_lessons.engine.records.facts import Details, Ended
from gemm_lessons.engine.records.findings import Severity


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
