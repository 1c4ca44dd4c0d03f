"""Find the races whose threads write the same value: they are harmless and only worth a note.

A race whose values differ only by rounding is a warning: for example, every thread has added the sum of a warp in
another order.

Touches carry no values. After racing stores are found, the launch runs once more and records the values of these
stores. Each stored value is compared with what another thread stored there since the last barrier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gemm_lessons.engine.events import Barrier, Batch, Boundary, LaunchInfo, Observer, Placed, Record, Stored, Touch
from gemm_lessons.engine.records.arrays import Array

MOST_ULPS = 8  # largest distance of two results of one sum in different orders
# Range of biased exponents of usual numbers; small integers, read as floats, have lower ones.
PLAUSIBLE = {4: (64, 190), 8: (896, 1150)}
MANTISSA = {4: 23, 8: 52}


def _close(one: Array, other: Array, size: int) -> Array:
    """Return which floats, as bytes (n, size), are usual numbers that differ only in their last bits."""
    a, b = (np.ascontiguousarray(it).view(f"i{size}").reshape(-1) for it in (one, other))
    low, high = PLAUSIBLE[size]
    powers = [(it >> MANTISSA[size]) & ((1 << 8 * size - 1 - MANTISSA[size]) - 1) for it in (a, b)]
    usual = (np.minimum(*powers) >= low) & (np.maximum(*powers) <= high)
    return np.asarray(usual & ((a < 0) == (b < 0)) & (np.abs(a - b) <= MOST_ULPS))


class _Bytes:
    """Per byte: the last value, its thread, its instruction and its time."""

    def __init__(self, count: int) -> None:
        self.value = np.zeros(count, np.uint8)
        self.writer = np.zeros(count, np.int64)  # thread + 1
        self.access = np.zeros(count, np.int32)
        self.epoch = np.zeros(count, np.int64)


class SameValue(Observer):
    """Observer of the second run. ``kinds``: the type that each of the stores has in PTX.

    ``differing``: pairs of stores (instruction indices) of which two threads stored different bytes at one address;
    ``rounded``: those whose values differed by rounding. A pair may be in both.
    """

    def __init__(self, suspects: set[tuple[int, int]], kinds: Mapping[int, str]) -> None:
        self._watched = {index for pair in suspects for index in pair}
        self._kinds = kinds
        self.rounded: set[tuple[int, int]] = set()
        self.differing: set[tuple[int, int]] = set()
        self._memory: dict[tuple[str, int], _Bytes] = {}
        self._epoch = 1

    def begin(self, launch: LaunchInfo) -> None:
        """Set up for a launch. See ``events.Observer``, also for the methods below."""
        self._launch = launch
        self._starts = np.array([start for _, start, _ in launch.buffers], np.int64)

    def begin_batch(self, batch: Batch) -> None:
        """Start new blocks, with new shared memory."""
        self._memory = {key: memory for key, memory in self._memory.items() if key[0] == "global"}
        self._epoch += 1

    def epoch(self, batch: Batch, records: Sequence[Record], boundary: Boundary) -> None:
        """Compare what was stored."""
        values: Stored | None = None
        placed: Placed | None = None
        for record in records:
            if isinstance(record, Stored):
                values = record
            elif isinstance(record, Placed) and record.touch.access.index in self._watched:
                placed = record
            elif isinstance(record, Touch) and record.access.space == "shared" and values is not None:
                self._shared(batch, record, values)
                values = None
            elif isinstance(record, Barrier) and record.kind in ("block", "named"):
                self._epoch += 1
            if placed is not None and values is not None:
                self._global(batch, placed, values)
                placed = values = None
        if boundary == "barrier":
            self._epoch += 1

    def _shared(self, batch: Batch, touch: Touch, stored: Stored) -> None:
        size = max(1, self._launch.shared_bytes)
        memory = self._memory.get(("shared", 0))
        if memory is None:
            memory = self._memory["shared", 0] = _Bytes(size * (touch.addresses.size // batch.padded_threads))
        lane = stored.lanes
        where = lane // batch.padded_threads * size + touch.addresses[lane]
        self._compare(memory, where, lane, stored, same_epoch=True)

    def _global(self, batch: Batch, placed: Placed, stored: Stored) -> None:
        lane = stored.lanes
        address = placed.touch.addresses[lane] + placed.base
        which = np.searchsorted(self._starts, address, side="right") - 1
        for buffer in np.unique(which).tolist():
            _, start, size = self._launch.buffers[buffer]
            memory = self._memory.get(("global", buffer))
            if memory is None:
                memory = self._memory["global", buffer] = _Bytes(size)
            here = which == buffer
            part = Stored(stored.index, lane[here], stored.values[here])
            thread = batch.thread(lane[here])
            self._compare(memory, address[here] - start, thread, part, same_epoch=False)

    def _compare(self, memory: _Bytes, where: Array, thread: Array, stored: Stored, same_epoch: bool) -> None:
        width = stored.values.shape[1]
        place = (where[:, None] + np.arange(width)).reshape(-1)
        value = stored.values.reshape(-1)
        writer = np.repeat(thread + 1, width)
        conflict = (memory.writer[place] != 0) & (memory.writer[place] != writer) & (memory.value[place] != value)
        if same_epoch:
            conflict &= memory.epoch[place] == self._epoch
        self._note(stored.index, conflict, memory.value[place], value, memory.access[place])
        memory.value[place], memory.writer[place] = value, writer
        memory.access[place], memory.epoch[place] = stored.index, self._epoch
        kept = memory.value[place]  # threads of this instruction
        self._note(stored.index, kept != value, kept, value, memory.access[place])

    def _note(self, index: int, conflict: Array, before: Array, value: Array, stores: Array) -> None:
        """Note the stores whose bytes ``before`` differ from ``value``, which ``index`` stored."""
        if not conflict.any():
            return
        size = {"f32": 4, "b32": 4, "f64": 8, "b64": 8}.get(self._kinds[index])
        far = conflict
        if size is not None:
            close = _close(before.reshape(-1, size), value.reshape(-1, size), size)
            far = conflict & ~np.repeat(close, size)
        for other in np.unique(stores[conflict]).tolist():
            found = self.differing if far[stores == other].any() else self.rounded
            found.add((other, index))
