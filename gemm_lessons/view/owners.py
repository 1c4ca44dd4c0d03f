"""The owner of each element of the answer: the thread of block 0 that stores it."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemm_lessons.engine.pictures import Stores
from gemm_lessons.engine.records import dataclass
from gemm_lessons.gemm import BufferLayout

Array = NDArray[Any]
NO_THREAD = -1


@dataclass(frozen=True)
class Owners:
    """The part of the answer that block 0 stores: from element (row, col), this many rows and columns.

    ``runs``: for each row, (number of elements, thread) from left to right; thread -1 means that no thread stores them.
    ``twice``: elements that more than one thread stores.
    """

    buffer: str
    row: int
    col: int
    cols: int
    runs: tuple[tuple[tuple[int, int], ...], ...]
    twice: int

    @property
    def count(self) -> int:
        """Count the elements that the block stores."""
        return sum(length for line in self.runs for length, thread in line if thread != NO_THREAD)

    def thread(self, row: int, col: int) -> int:
        """Return the thread that stores element (row, col) of the answer."""
        for length, thread in self.runs[row - self.row]:
            if col - self.col < length:
                return thread
            col -= length
        return NO_THREAD


def owners(stores: Stores, layout: BufferLayout, base: int) -> Owners | None:
    """Return the owners in the matrix at ``base``; None if the block stores none of it or it is not one matrix."""
    size = layout.element.size
    if layout.batch != 1 or layout.dimensions != 2 or size < 1:
        return None
    owner = np.full(layout.lines * layout.leading, NO_THREAD, np.int64)
    twice = np.zeros(owner.shape, np.bool_)
    for (addresses, threads), width in zip(stores.parts, stores.widths, strict=True):
        for element in range(max(1, width // size)):
            places = (addresses - base) // size + element
            inside = (places >= 0) & (places < owner.size)
            where, who = places[inside], threads[inside]
            twice[where[(owner[where] != NO_THREAD) & (owner[where] != who)]] = True
            owner[where] = who
            twice[where[owner[where] != who]] = True  # of two lanes of one instruction, the last one wins
    matrix = layout.matrix(owner.reshape(layout.lines, layout.leading))
    rows, cols = np.flatnonzero((matrix != NO_THREAD).any(1)), np.flatnonzero((matrix != NO_THREAD).any(0))
    if not rows.size:
        return None
    part = matrix[rows[0] : rows[-1] + 1, cols[0] : cols[-1] + 1]
    runs = tuple(tuple((len(list(same)), thread) for thread, same in groupby(line)) for line in part.tolist())
    return Owners(layout.name, int(rows[0]), int(cols[0]), part.shape[1], runs, int(twice.sum()))
