"""Select iterations of a long loop to leave out of a trace, so that the time of the whole follows from the rest.

    basic blocks in order of execution --cut--> Cut: a short trace, one with twice the iterations, and the rest's factor

A loop's time is linear in its iterations after the first few. So two traces are enough: the first iterations of every
run through the loop and its last one, once with twice as many. Of nested loops, the outermost is cut that then fits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.frozen import dataclass

KEPT = (64, 32, 16, 8, 4, 2, 1)  # iterations of each run in the short trace; as many as fit
FEW = 4  # an outer loop is cut to no fewer of them where an inner one can be cut instead


@dataclass(frozen=True)
class Cut:
    """``short`` and ``long``: for each step of the execution, whether that trace contains it. A quantity of the whole
    is that of the long trace + ``beyond`` * (long - short)."""

    short: Array
    long: Array
    beyond: float


def cut(blocks: Sequence[int], weights: Sequence[int], most: int) -> Cut | None:
    """Return how to cut an execution of basic ``blocks`` to at most ``most`` of the sum of ``weights``, its warp
    instructions by step. None: no loop is long enough."""
    steps, weight = np.array(blocks), np.array(weights)
    before = np.concatenate(([0], np.cumsum(weight)))
    found: list[tuple[bool, float, Cut]] = []
    back = np.flatnonzero(steps[1:] <= steps[:-1])
    for header in np.unique(steps[back + 1]):
        last = steps[back[steps[back + 1] == header]].max()
        outside = np.concatenate(([0], np.cumsum((steps < header) | (steps > last))))
        at = np.flatnonzero(steps == header)
        inside = np.flatnonzero(outside[at[1:]] == outside[at[:-1]])  # iterations that another follows
        if not inside.size:
            continue
        first, end = at[inside], at[inside + 1]
        new_run = np.concatenate(([True], inside[1:] != inside[:-1] + 1))
        starts = np.flatnonzero(new_run)
        number = np.arange(inside.size) - starts[np.cumsum(new_run) - 1]  # of the iteration, in its run
        size = before[end] - before[first]
        for kept in KEPT:
            rest, further = int(size[number >= 2 * kept].sum()), int(size[(number >= kept) & (number < 2 * kept)].sum())
            if not rest or before[-1] - rest > most:
                continue
            short, long = (_without(len(steps), first, end, number >= kept * times) for times in (1, 2))
            one = Cut(short, long, rest / further)
            found.append((kept >= FEW, float(size.mean()), one))
            break
    return max(found, key=lambda it: it[:2])[2] if found else None


def _without(steps: int, first: Array, end: Array, left_out: Array) -> Array:
    changes = np.zeros(steps + 1, np.int64)
    np.add.at(changes, first[left_out], 1)
    np.add.at(changes, end[left_out], -1)
    kept: Array = np.cumsum(changes)[:-1] == 0
    return kept
