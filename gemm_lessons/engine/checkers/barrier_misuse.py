"""Barriers that threads reached in a way the programming model forbids, or that hides a mistake.

Measured with compute-sanitizer on an H200: synccheck reports a warp that arrives in pieces ("divergent thread(s) in
warp") and threads of a block that meet at different barriers ("divergent thread(s) in block"), both errors although the
kernel passes; it does not report threads that have ended before the barrier, which is a warning here.
"""

from __future__ import annotations

import numpy as np

from gemm_lessons.engine.checkers.collector import Key, Ledger, Names, line
from gemm_lessons.engine.events import Batch, Irregular


def irregular(ledger: Ledger, names: Names, batch: Batch, record: Irregular) -> None:
    """Report one irregular barrier."""
    lane, other = int(record.lanes.argmax()), int(record.others.argmax())
    count = int(np.count_nonzero(record.lanes))
    here = f"{names.thread(lane)} of {names.block(batch, lane)}"
    if record.kind == "divergent":
        other_line = record.other_line if record.other_line != record.line else None
        key = Key("divergent_barrier", "error", record.line, other_line, record.file, record.kind)
        text = (
            f"a warp reaches its barrier in pieces: {here} waits in {line(record.line)} before"
            f" {names.thread(other)} has come to {line(record.other_line)}; every thread of the block must reach the"
            " same __syncthreads() together, so move it out of the branch or loop"
        )
    elif record.kind == "places":
        key = Key("divergent_barrier", "error", record.line, record.other_line, record.file, record.kind)
        text = (
            f"threads of one block wait at different barriers: {here} in {line(record.line)},"
            f" {names.thread(other)} in {line(record.other_line)}; move one __syncthreads() out of the branches"
        )
    elif record.kind == "counts":
        key = Key("barrier_count", "error", record.line, None, record.file, record.kind)
        text = f"threads that meet at one barrier expect different numbers of threads ({here}, {names.thread(other)})"
    elif record.kind == "warp":
        key = Key("divergent_warp", "warning", record.line, None, record.file, record.kind)
        text = (
            f"{names.thread(other)} does not take part with {here} in {line(record.line)}, though the member mask names"
            " it or the whole warp must: all of them must execute the same instruction together"
        )
    else:
        ended = int(np.count_nonzero(record.others[names.same_block(other)]))
        key = Key("exited_before_barrier", "warning", record.line, None, record.file, record.kind)
        text = (
            f"{ended} thread{'s' * (ended > 1)} of {names.block(batch, other)} ({names.thread(other)} first) returned"
            f" before the barrier in {line(record.line)} that others wait at: guard the accesses, not the whole thread"
        )
    ledger.add(key, lambda: text, count)
