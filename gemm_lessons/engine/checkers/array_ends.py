"""Accesses past the end of the intended array, inside the block's shared or the thread's local memory.

Such an address is valid, so neither the hardware nor compute-sanitizer reports it: the access reaches the next array.
``ptx/provenance.py`` derives the intended array from the code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gemm_lessons.engine.checkers.collector import Example, FindingCollector, Key, Names
from gemm_lessons.engine.checkers.epochs import Epoch, Windows
from gemm_lessons.engine.checkers.static_analysis import own_arrays
from gemm_lessons.engine.compiler.diagnostics import plain_name
from gemm_lessons.engine.events import Batch, Boundary, LaunchInfo, Observer, Record, SharedArray, Touch
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.facts import Location, PastEnd

CHECKED = "array_ends"  # key of Touch.memo


class ArrayEnds:
    """Checks each distinct touch once. For a uniform epoch, the first block is enough."""

    def __init__(
        self,
        collector: FindingCollector,
        names: Names,
        windows: Windows,
        shared: Sequence[SharedArray],
        arrays: Mapping[int, str],
        own: Mapping[int, SharedArray],
    ) -> None:
        self._collector, self._names = collector, names
        self._padded, self._stride = windows.padded, windows.shared
        places = {array.name: array for array in shared}
        self._arrays = {
            "shared": {index: places[name] for index, name in arrays.items() if name in places},
            "local": own,
        }
        self._clean: set[Epoch] = set()

    def epoch(self, batch: Batch, epoch: Epoch) -> None:
        """Check the touches that have not been checked yet."""
        if epoch in self._clean:
            return
        if len(self._clean) > 4096:
            self._clean.clear()
        self._clean.add(epoch)
        for touch in epoch.touches():
            arrays = self._arrays.get(touch.access.space)
            if arrays and CHECKED not in touch.memo:
                touch.memo[CHECKED] = True
                array = arrays.get(touch.access.index)
                if array is not None:
                    self._check(batch, touch, array, self._padded if epoch.uniform else touch.addresses.size)

    def _check(self, batch: Batch, touch: Touch, array: SharedArray, lanes: int) -> None:
        access = touch.access
        addresses = touch.addresses[:lanes]
        if access.space == "shared":
            addresses = addresses % self._stride  # of whichever block of a cluster
        outside = _outside(touch, addresses, array)
        if not outside.any():
            return
        lane = int(outside.argmax())
        offset = int(addresses[lane])
        place = offset - array.offset
        key = Key("out_of_array", "warning", access.line, None, access.file, array.name)
        who = (self._names.actor(batch, lane, access),)

        def example() -> Example:
            if access.space == "local":
                variable, _, start = array.name.partition("+")
                facts = PastEnd(None, variable, int(start or 0))
                return Example("local", Location("local", "", place, array.size), who, facts)
            there = Location("shared", plain_name(array.name), place, array.size)
            return Example("shared", there, who, PastEnd(self._names.shared(offset)))

        self._collector.add(key, example, int(np.count_nonzero(outside)) * (touch.addresses.size // lanes))


class OwnArrays(Observer):
    """Observer of one launch. ``past``: whether an access to local memory missed its array. Finding only that out is
    cheap."""

    def __init__(self) -> None:
        self.past = False
        self._own: Mapping[int, SharedArray] = {}

    def begin(self, launch: LaunchInfo) -> None:
        """Set up for a launch. See ``events.Observer``, also for the methods below."""
        self._own = own_arrays(launch.kernel)

    def epoch(self, batch: Batch, records: Sequence[Record], boundary: Boundary) -> None:
        """Check every touch of local memory once."""
        for record in records:
            if type(record) is Touch and record.access.space == "local" and CHECKED not in record.memo:
                record.memo[CHECKED] = True
                array = self._own.get(record.access.index)
                self.past |= array is not None and bool(_outside(record, record.addresses, array).any())


def _outside(touch: Touch, addresses: Array, array: SharedArray) -> Array:
    """Return which of the first lanes, whose ``addresses`` are given, are active and access bytes outside of
    ``array``."""
    outside: Array = (addresses < array.offset) | (addresses > array.offset + array.size - touch.access.width)
    return outside if touch.active is None else outside & touch.active[: addresses.size]
