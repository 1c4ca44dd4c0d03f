"""Pages of a buffer too large to keep whole: a page is made when a launch first touches it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.launch import PAGE, Pages

Lanes = Array

SHIFT, MASK = PAGE.bit_length() - 1, PAGE - 1  # a division by ``PAGE``, and its remainder


class OutOfPages(Exception):
    """A launch has touched more of a buffer than its ``Pages`` allow."""


class PageTable:
    """Where the touched pages of a buffer of ``size`` bytes are in the arena, from ``offset`` on."""

    def __init__(self, pages: Pages, size: int, offset: int) -> None:
        self._pages, self._offset = pages, offset
        self._ahead = np.array([0, *pages.ahead], np.int64)
        self._places = np.zeros(-(-size // PAGE), np.int64)  # from 1 on; 0: none. Unused parts take no memory
        self._numbers = np.empty(pages.most, np.int64)  # of pages, in order of their places
        self._count = 0

    def offsets(self, relative: Lanes, arena: NDArray[np.uint8]) -> Lanes:
        """Return the arena's offset of each byte offset into the buffer; make new pages. Raise ``OutOfPages``."""
        numbers = relative >> SHIFT
        places = self._places.take(numbers)
        if not places.all():
            self._make(numbers[places == 0], arena)
            places = self._places.take(numbers)
        result: Lanes = (places << SHIFT) + (relative & MASK) + (self._offset - PAGE)
        return result

    def _once(self, numbers: Lanes) -> Lanes:
        """Return each of these numbers once. Their pages have no place yet."""
        order = np.arange(numbers.size)
        self._places[numbers] = order
        result: Lanes = numbers[self._places[numbers] == order]
        self._places[result] = 0
        return result

    def _make(self, numbers: Lanes, arena: NDArray[np.uint8]) -> None:
        numbers = self._once(numbers)
        if self._ahead.size > 1:
            more = ((numbers * PAGE)[:, None] + self._ahead).reshape(-1) // PAGE
            more = more[more < self._places.size]
            numbers = self._once(more[self._places[more] == 0])
        first = self._count
        self._count += numbers.size
        if self._count > self._pages.most:
            raise OutOfPages
        self._numbers[first : self._count] = numbers
        self._places[numbers] = np.arange(first, self._count) + 1
        start = self._offset + first * PAGE
        arena[start : start + numbers.size * PAGE] = self._pages.make(numbers).reshape(-1)

    @property
    def touched(self) -> Lanes:
        """Return the numbers of the pages made so far, touched or made ahead, (n,)."""
        return self._numbers[: self._count]

    def contents(self, arena: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the bytes of the pages of ``touched``, (n, ``PAGE``)."""
        return arena[self._offset : self._offset + self._count * PAGE].reshape(-1, PAGE)
