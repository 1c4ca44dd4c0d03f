"""Global memory: threads that write the same bytes, blocks that read what other blocks write, reads of fresh buffers.

Blocks run in any order and at the same time, so two blocks that touch the same bytes, one of them writing, are never
ordered (``meant_to_meet`` says which may meet all the same). Threads of one block are ordered by the block's barriers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemm_lessons.simulator.checkers.ledger import Key, Ledger, Names, line
from gemm_lessons.simulator.events import WARP, Access, Barrier, Batch, Boundary, Placed, Record

Array = NDArray[Any]
BIG = np.iinfo(np.int32).max
NEVER = np.iinfo(np.int64).max
VERBS = {"load": "read", "store": "written", "atomic": "updated", "copy": "read by cp.async"}


@dataclass(frozen=True)
class Protocol:
    """What the kernel's code says about how its threads may be ordered other than by ``__syncthreads``.

    ``handshake``: it has memory fences and atomics (or volatile accesses), by which blocks may hand data to each other.
    ``warp_sync``: it has ``__syncwarp`` or warp instructions, by which the threads of a warp may be ordered.
    ``strong`` and ``optimistic`` instructions (indices): see ``meant_to_meet``.
    """

    handshake: bool
    warp_sync: bool
    strong: frozenset[int]
    optimistic: frozenset[int]


class _Shadow:
    """Who touched each granule of one buffer. Threads are numbered through the grid, from 1; 0 is nobody."""

    def __init__(self, size: int, granule: int, fresh: bool) -> None:
        count = -(-size // granule)
        self.granule = granule
        self.fresh = fresh
        self.writer = np.zeros(count, np.int32)
        self.writer_epoch = np.zeros(count, np.int32)
        self.writer_access = np.zeros(count, np.int16)
        self.writer_strong = np.zeros(count, np.bool_)
        self.writer_atomic = np.zeros(count, np.bool_)
        self.writer_time = np.zeros(0, np.int64)  # only where blocks may hand data to each other
        self.readers: dict[str, _Readers] = {}  # by how they read: weak, strong, optimistic


class _Readers:
    """Lowest and highest reading thread: ever, and since the last barrier of its block; the ``last`` one with its
    ``time``, and the ``time_before`` of the last that was another one."""

    def __init__(self, count: int) -> None:
        self.low = np.full(count, BIG, np.int32)
        self.high = np.zeros(count, np.int32)
        self.recent_low = np.full(count, BIG, np.int32)
        self.recent_high = np.zeros(count, np.int32)
        self.epoch = np.full(count, -1, np.int32)
        self.access = np.zeros(count, np.int16)
        self.last = np.zeros(count, np.int32)
        self.time = np.zeros(count, np.int64)
        self.time_before = np.zeros(count, np.int64)

    def note_time(self, cell: Array, thread: Array, time: int) -> None:
        """``thread`` reads ``cell`` at ``time``."""
        another = self.last[cell] != thread
        self.time_before[cell[another]] = self.time[cell[another]]
        self.last[cell] = thread
        self.time[cell] = time
        self.time_before[cell[self.last[cell] != thread]] = time  # several threads at once

    def time_of_others(self, cell: Array, thread: Array) -> Array:
        """When a thread other than ``thread`` last read ``cell``."""
        return np.where(self.last[cell] == thread, self.time_before[cell], self.time[cell])


class GlobalRaces:
    """Follows the reads and writes of buffers that the kernel writes."""

    def __init__(
        self,
        ledger: Ledger,
        names: Names,
        padded: int,
        buffers: Sequence[tuple[str, int, int]],
        fresh: frozenset[str],
        granule: int,
        protocol: Protocol,
    ) -> None:
        self._ledger, self._names, self._padded = ledger, names, padded
        self._buffers, self._fresh, self._granule, self._protocol = buffers, fresh, granule, protocol
        self._starts = np.array([start for _, start, _ in buffers], np.int64)
        self._shadows: dict[int, _Shadow] = {}
        self._numbers: dict[int, int] = {}  # instruction -> position in _accesses
        self._accesses: list[Access] = []
        self._seen: set[tuple[int, int]] = set()  # (touch, base) of this epoch; repeats change nothing
        self._held: list[Placed] = []
        self._epoch = np.zeros(0, np.int32)
        self._time = 0
        self._signals: dict[int, list[int]] = {}  # block -> times of its atomics and volatile accesses
        self.suspects: set[tuple[int, int]] = set()  # pairs of plain stores that race: do they store the same?

    def begin_batch(self, lanes: int) -> None:
        """New blocks. The shadow stays: blocks of different batches are not ordered either."""
        self._epoch = np.ones(lanes // self._padded, np.int32)
        self._forget_repeats()

    def records(self, batch: Batch, records: Sequence[Record], boundary: Boundary) -> None:
        """``records``: all but the touches, in order."""
        for record in records:
            if type(record) is Placed:
                key = (id(record.touch), record.base)
                if key not in self._seen:
                    self._seen.add(key)
                    self._held.append(record)  # keeps the identity of its touch from being reused
                    self._placed(batch, record)
                if self._protocol.handshake:
                    self._signal(batch, record)
            elif type(record) is Barrier and record.kind in ("block", "named"):
                self._barrier(record)
        if boundary == "barrier":
            self._epoch += 1
        if boundary == "barrier" or len(self._held) > 4096:
            self._forget_repeats()

    def _signal(self, batch: Batch, placed: Placed) -> None:
        """Note which blocks may have told others how far they are, or heard of it."""
        self._time += 1
        touch = placed.touch
        if touch.access.index in self._protocol.strong:
            lanes = slice(None) if touch.active is None else touch.active
            blocks = np.unique(np.arange(touch.addresses.size)[lanes] // self._padded) + batch.first_block
            for block in blocks.tolist():
                self._signals.setdefault(block, []).append(self._time)

    def _handed_over(self, writer: Array, time: Array, reader: Array) -> Array:
        """Whether block ``writer`` signalled after it wrote at ``time``, and block ``reader`` took notice after that.

        Lenient: any atomic counts for any other, and those of one instruction for simultaneous.
        """
        result = np.zeros(writer.shape, np.bool_)
        for block in np.unique(writer).tolist():
            mine = writer == block
            times = np.array([*self._signals.get(block, []), NEVER])
            signalled = times[np.searchsorted(times, time[mine], side="right")]
            last = np.array([self._signals.get(other, [-1])[-1] for other in reader[mine].tolist()])
            result[mine] = signalled <= last
        return result

    def _forget_repeats(self) -> None:
        self._seen.clear()
        self._held.clear()

    def _barrier(self, mark: Barrier) -> None:
        """A named barrier counts for its whole block: rather miss a race than accuse a pipeline of warps."""
        blocks: Any = mark.blocks
        if blocks is None and mark.lanes is not None:
            blocks = mark.lanes.reshape(-1, self._padded).any(axis=1)
        self._epoch += 1 if blocks is None else blocks
        self._forget_repeats()

    # -- one access ---------------------------------------------------------------------------------------------------

    def _placed(self, batch: Batch, placed: Placed) -> None:
        touch = placed.touch
        lane = np.arange(touch.addresses.size) if touch.active is None else np.flatnonzero(touch.active)
        address = touch.addresses[lane] + placed.base
        which = np.searchsorted(self._starts, address, side="right") - 1
        first = int(which[0])
        if (which == first).all():
            self._in_buffer(batch, touch.access, first, lane, address)
        else:
            for buffer in np.unique(which).tolist():
                here = which == buffer
                self._in_buffer(batch, touch.access, buffer, lane[here], address[here])

    def _in_buffer(self, batch: Batch, access: Access, buffer: int, lane: Array, address: Array) -> None:
        name, start, size = self._buffers[buffer]
        shadow = self._shadows.get(buffer)
        if shadow is None:
            shadow = self._shadows[buffer] = _Shadow(size, self._granule, name in self._fresh)
            if self._protocol.handshake:
                shadow.writer_time = np.zeros(shadow.writer.size, np.int64)
        cell = (address - start) // shadow.granule
        count = access.width // shadow.granule
        if count > 1:
            cell = (cell[:, None] + np.arange(count)).reshape(-1)
            lane = np.repeat(lane, count)
        thread = (lane + (batch.first_block * self._padded + 1)).astype(np.int32)
        epoch = self._epoch[lane // self._padded]
        number = self._numbers.get(access.index)
        if number is None:
            number = self._numbers[access.index] = len(self._accesses)
            self._accesses.append(access)
        self._check_writers(shadow, access, buffer, cell, thread, epoch)
        if access.effect in ("store", "atomic"):
            for how in self._may_not_meet(access):
                if how in shadow.readers:
                    self._check_readers(shadow, shadow.readers[how], access, buffer, cell, thread, epoch)
            self._write(shadow, access, number, buffer, cell, thread, epoch)
        else:
            self._read(shadow, access, number, cell, thread, epoch)

    def _how(self, access: Access) -> str:
        if access.index in self._protocol.strong:
            return "strong"
        return "optimistic" if access.index in self._protocol.optimistic else "weak"

    def _may_not_meet(self, access: Access) -> Sequence[str]:
        """Readings that race with a write by ``access``."""
        if access.effect == "atomic":
            return ("weak",)
        return ("weak", "optimistic") if self._how(access) == "strong" else ("weak", "optimistic", "strong")

    def _check_writers(
        self, shadow: _Shadow, access: Access, buffer: int, cell: Array, thread: Array, epoch: Array
    ) -> None:
        writer = shadow.writer[cell]
        if shadow.fresh and access.effect in ("load", "atomic") and not writer.all():
            blank = writer == 0
            self._report_fresh(access, buffer, shadow, cell[blank], thread[blank])
        bad = (writer != 0) & (writer != thread)
        if not bad.any():
            return
        how = self._how(access)
        if how != "weak":
            bad &= ~(shadow.writer_strong if how == "strong" else shadow.writer_atomic)[cell]
        apart = self._block(writer) != self._block(thread)
        bad &= apart | (shadow.writer_epoch[cell] == epoch)
        if self._protocol.handshake and bad.any():
            bad[bad] = ~self._handed_over(
                self._block(writer[bad]), shadow.writer_time[cell[bad]], self._block(thread[bad])
            )
        if bad.any():
            earlier = shadow.writer_access[cell[bad]]
            self._report(shadow, earlier, writer[bad], access, buffer, cell[bad], thread[bad])

    def _check_readers(
        self, shadow: _Shadow, readers: _Readers, access: Access, buffer: int, cell: Array, thread: Array, epoch: Array
    ) -> None:
        mine = self._block(thread)
        low, high = readers.low[cell], readers.high[cell]
        # Where blocks hand data to each other, when a reader has finished cannot be told.
        apart = (
            (high != 0) & ((self._block(low) != mine) | (self._block(high) != mine)) & (not self._protocol.handshake)
        )
        reader = np.where(self._block(low) != mine, low, high)
        recent_low, recent_high = readers.recent_low[cell], readers.recent_high[cell]
        now = (readers.epoch[cell] == epoch) & (self._block(recent_high) == mine)
        now &= (recent_low != thread) | (recent_high != thread)
        if self._protocol.handshake and now.any():  # threads of one block may take turns by a lock
            time = readers.time_of_others(cell[now], thread[now])
            now[now] = ~self._handed_over(mine[now], time, mine[now])
        reader = np.where(apart, reader, np.where(recent_low != thread, recent_low, recent_high))
        bad = apart | now
        if bad.any():
            self._report(shadow, readers.access[cell[bad]], reader[bad], access, buffer, cell[bad], thread[bad])

    def _write(
        self, shadow: _Shadow, access: Access, number: int, buffer: int, cell: Array, thread: Array, epoch: Array
    ) -> None:
        atomic = access.effect == "atomic"
        shadow.writer[cell] = thread
        shadow.writer_epoch[cell] = epoch
        shadow.writer_access[cell] = number
        shadow.writer_atomic[cell] = atomic
        shadow.writer_strong[cell] = access.index in self._protocol.strong
        if shadow.writer_time.size:
            shadow.writer_time[cell] = self._time
        if access.index not in self._protocol.strong:
            winner = shadow.writer[cell]
            lost = winner != thread
            if lost.any():  # several threads of this very instruction
                earlier = np.full(int(np.count_nonzero(lost)), number)
                self._report(shadow, earlier, winner[lost], access, buffer, cell[lost], thread[lost])

    def _read(self, shadow: _Shadow, access: Access, number: int, cell: Array, thread: Array, epoch: Array) -> None:
        how = self._how(access)
        readers = shadow.readers.get(how)
        if readers is None:
            readers = shadow.readers[how] = _Readers(shadow.writer.size)
        low, high = readers.recent_low[cell], readers.recent_high[cell]
        same = (readers.epoch[cell] == epoch) & (self._block(high) == self._block(thread))
        # Threads ascend: of entries for the same granule the last assigned is the maximum, reversed the minimum.
        readers.recent_high[cell] = np.maximum(np.where(same, high, 0), thread)
        readers.recent_low[cell[::-1]] = np.minimum(np.where(same, low, BIG), thread)[::-1]
        readers.high[cell] = np.maximum(readers.high[cell], thread)
        readers.low[cell[::-1]] = np.minimum(readers.low[cell], thread)[::-1]
        readers.epoch[cell] = epoch
        readers.access[cell] = number
        if self._protocol.handshake:
            readers.note_time(cell, thread, self._time)

    def _block(self, thread: Array) -> Array:
        return (thread - 1) // self._padded

    # -- words --------------------------------------------------------------------------------------------------------

    def _report_fresh(self, access: Access, buffer: int, shadow: _Shadow, cell: Array, thread: Array) -> None:
        address = self._buffers[buffer][1] + int(cell[0]) * shadow.granule
        key = Key("uninitialised", "error", access.line, None, access.file, "global")
        who = self._who(int(thread[0]))
        self._ledger.add(
            key,
            lambda: f"{self._names.buffer(address)}: read by {who} in {line(access)} before anybody has written it",
            int(np.unique(thread).size),
        )

    def _who(self, thread: int) -> str:
        number = thread - 1
        return f"{self._names.thread(number)} of {self._names.block_number(number // self._padded)}"

    def _report(
        self, shadow: _Shadow, earlier: Array, other: Array, later: Access, buffer: int, cell: Array, thread: Array
    ) -> None:
        apart = self._block(other) != self._block(thread)
        same_warp = (other - 1) // WARP == (thread - 1) // WARP
        for number in np.unique(earlier).tolist():
            first_access = self._accesses[number]
            for far, near in ((True, False), (False, False), (False, True)):
                chosen = (earlier == number) & (apart == far) & (same_warp == near)
                if near and self._protocol.warp_sync and first_access.index != later.index:
                    continue  # may be ordered by what the warp does together
                count = int(np.count_nonzero(chosen))
                if count:
                    first = int(chosen.argmax())
                    address = self._buffers[buffer][1] + int(cell[first]) * shadow.granule
                    self._add(first_access, later, far, near, address, int(other[first]), int(thread[first]), count)

    def _add(
        self, first: Access, later: Access, far: bool, near: bool, address: int, other: int, thread: int, count: int
    ) -> None:
        both_write = "load" not in (first.effect, later.effect) and "copy" not in (first.effect, later.effect)
        if first.effect == later.effect == "store":
            self.suspects.add((first.index, later.index))
        head = (
            f"{self._names.buffer(address)}: {VERBS[first.effect]} by {self._who(other)} in {line(first)} and"
            f" {VERBS[later.effect]} by {self._who(thread)} in {line(later)}"
        )
        kind = "block_order" if far and not both_write else "race"
        if far:
            key = Key(kind, "error", first.line, later.line, later.file, f"global {first.effect} {later.effect}")
            same = both_write or first.line == later.line
            end = "let one block own the element, or use an atomic" if same else "split the work into two launches"
            text = f"{head}; blocks run in any order and at the same time: {end}"
        elif first.index == later.index and both_write:
            key = Key(kind, "error", first.line, later.line, later.file, f"global {first.effect} {later.effect}")
            text = f"{head}; give every thread an element of its own"
        elif near:
            key = Key(kind, "warning", first.line, later.line, later.file, f"global {first.effect} {later.effect}")
            text = f"{head}, threads of one warp with no __syncwarp() between them"
        else:
            key = Key(kind, "error", first.line, later.line, later.file, f"global {first.effect} {later.effect}")
            text = f"{head}, with no __syncthreads() between them"
        self._ledger.add(key, lambda: text, count)
