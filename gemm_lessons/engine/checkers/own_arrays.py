"""Check only whether any thread indexes past the end of one of its local arrays, which is cheap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gemm_lessons.engine.checkers.static_analysis import own_arrays
from gemm_lessons.engine.events import Batch, Boundary, LaunchInfo, Observer, Record, SharedArray, Touch

CHECKED = "own_arrays"  # key of Touch.memo


class OwnArrays(Observer):
    """Observer of one launch. ``past``: whether an access to local memory missed its array, as ``ArrayEnds`` says."""

    def __init__(self) -> None:
        self.past = False
        self._own: Mapping[int, SharedArray] = {}

    def begin(self, launch: LaunchInfo) -> None:
        """Set up for a launch. See ``events.Observer``, also for the methods below."""
        self._own = own_arrays(launch.kernel)

    def epoch(self, batch: Batch, records: Sequence[Record], boundary: Boundary) -> None:
        """Check every touch of local memory once."""
        for record in records:
            if type(record) is not Touch or record.access.space != "local" or CHECKED in record.memo:
                continue
            record.memo[CHECKED] = True
            array = self._own.get(record.access.index)
            if array is not None and _is_past(record, array):
                self.past = True


def _is_past(touch: Touch, array: SharedArray) -> bool:
    last = array.offset + array.size - touch.access.width
    outside = (touch.addresses < array.offset) | (touch.addresses > last)
    if touch.active is not None:
        outside = outside & touch.active
    return bool(outside.any())
