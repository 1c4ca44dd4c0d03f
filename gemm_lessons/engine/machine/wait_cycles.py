"""Finds a cycle of threads that wait for each other when no thread can run.

A group of threads waits for the groups that have arrived at its barrier before. If there are none, it waits for the
groups whose code can still reach an arrival.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from gemm_lessons.engine.ptx import cfg
from gemm_lessons.engine.ptx.records import Kernel
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.frozen import dataclass


@dataclass(frozen=True, eq=False)
class Waiters:
    """Lanes of one block that wait at one place, in instruction ``index``. ``came``: lanes that have arrived there
    before; ``arrivals``: the instructions that arrive there."""

    lanes: Array
    index: int
    came: Array
    arrivals: frozenset[int]


class Following:
    """The instructions that a thread may execute after one."""

    def __init__(self, kernel: Kernel) -> None:
        blocks = cfg.build(kernel)
        self._own = {i.index: block.number for block in blocks for i in block.instructions}
        self._inside = {block.number: [i.index for i in block.instructions] for block in blocks}
        self._next = {block.number: block.successors for block in blocks}

    def reaches(self, index: int, wanted: frozenset[int]) -> bool:
        """Return whether one of the ``wanted`` instructions may follow ``index``."""
        own = self._own[index]
        if any(it > index for it in self._inside[own] if it in wanted):
            return True
        seen: set[int] = set()
        left = list(self._next[own])
        while left:
            block = left.pop()
            if block not in seen:
                seen.add(block)
                left += self._next[block]
        return any(it in wanted for block in seen for it in self._inside[block])


def cycle_of(groups: Sequence[Waiters], reaches: Callable[[int, frozenset[int]], bool]) -> list[Waiters]:
    """Return the shortest cycle of groups, each of which waits for the next one; empty if there is none."""
    waits_for: defaultdict[int, list[int]] = defaultdict(list)
    for number, group in enumerate(groups):
        others = [other for other in range(len(groups)) if other != number]
        before = [other for other in others if np.isin(groups[other].lanes, group.came).any()]
        waits_for[number] = before or [o for o in others if reaches(groups[o].index, group.arrivals)]
    shortest: list[int] = []
    for start in range(len(groups)):
        paths = [[start]]
        seen = {start}
        while paths:
            path = paths.pop(0)
            if start in waits_for[path[-1]] and (not shortest or len(path) < len(shortest)):
                shortest = path
                break
            for other in waits_for[path[-1]]:
                if other not in seen:
                    seen.add(other)
                    paths.append([*path, other])
    return [groups[number] for number in shortest]
