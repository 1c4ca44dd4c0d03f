"""Races in global memory: within a block, between blocks; and reads of fresh buffers.

Blocks run in any order and at the same time. Accesses of two blocks to the same bytes, one of them a write, are
unordered; ``synchronising_accesses`` lists the exceptions. Block barriers order the threads of one block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gemm_lessons.engine.checkers.collector import Example, FindingCollector, Key, Names
from gemm_lessons.engine.checkers.epochs import Windows
from gemm_lessons.engine.checkers.shadow import Shadow, Visitors
from gemm_lessons.engine.events import WARP, Access, Barrier, Batch, Boundary, LaunchInfo, Phase, Placed, Record
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.facts import Location, Race
from gemm_lessons.engine.records.findings import Severity
from gemm_lessons.engine.records.frozen import dataclass

LOADS_PER_CALL = 256  # loads that are checked in one NumPy call
NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Protocol:
    """How threads may be ordered other than by ``__syncthreads``, as far as the kernel's code tells.

    ``handshake``: fences with atomics or volatile accesses, by which one block may pass data to another.
    ``warp_sync``: ``__syncwarp`` or warp instructions, which may order the threads of a warp.
    ``strong``, ``observed`` (``observed_reads``), ``block_scoped``, ``optimistic``: instruction indices
    from the functions of ``synchronising_accesses``.
    """

    handshake: bool
    warp_sync: bool
    strong: frozenset[int]
    observed: frozenset[int]
    block_scoped: frozenset[int]
    optimistic: frozenset[int]


# Kinds of visits: accesses other than plain stores. ``block_scoped`` ones are atomic only in their own block.
READING = ("weak", "optimistic", "strong")
UPDATING = ("atomic", "block_scoped")


@dataclass(frozen=True)
class Visit:
    """One execution of an access within one buffer: granule by granule, the thread and the time."""

    access: Access
    number: int  # position of the access among those seen
    start: int  # first byte of the buffer
    shadow: Shadow
    cell: Array
    thread: Array
    epoch: Array

    @property
    def reads(self) -> bool:
        """Return whether the access uses the value written before."""
        return self.access.effect in ("load", "atomic")


class _Messages:
    """The times at which blocks released their writes, and last acquired the writes that others released."""

    def __init__(self) -> None:
        self.released: dict[int, list[int]] = {}
        self.acquired: dict[int, int] = {}

    def passed(self, writer: Array, time: Array, reader: Array) -> Array:
        """Return whether block ``writer`` released after ``time``, and block ``reader`` acquired later."""
        result = np.zeros(writer.shape, np.bool_)
        for block in np.unique(writer).tolist():
            mine = writer == block
            times = np.array([*self.released.get(block, []), NEVER])
            signalled = times[np.searchsorted(times, time[mine], side="right")]
            last = np.array([self.acquired.get(other, -1) for other in reader[mine].tolist()])
            result[mine] = signalled <= last
        return result


def _placed_lanes(rows: Sequence[Placed]) -> tuple[Array, Array]:
    """Return the lanes that access memory in these records, one after the other, and their addresses."""
    lanes = [row.touch.active_lanes for row in rows]
    addresses = [row.touch.addresses[lane] + row.base for row, lane in zip(rows, lanes, strict=True)]
    return np.concatenate(lanes), np.concatenate(addresses)


class GlobalRaces:
    """Tracks reads and writes of the buffers that the kernel writes."""

    def __init__(
        self,
        collector: FindingCollector,
        names: Names,
        windows: Windows,
        granule: int,
        launch: LaunchInfo,
        protocol: Protocol,
    ) -> None:
        self._cluster = windows.cluster  # blocks of a cluster, which its barrier and mbarriers of other blocks order
        self._handshake = protocol.handshake or self._cluster > 1
        self._cluster_of: dict[int, int] = {}  # block -> cluster
        self._collector, self._names = collector, names
        self._lanes, self._padded, self._granule, self._protocol = windows.lanes, windows.padded, granule, protocol
        self._buffers, self._fresh = launch.buffers, launch.fresh
        self._starts = np.array([start for _, start, _ in self._buffers], np.int64)
        self._shadows: dict[int, Shadow] = {}
        self._numbers: dict[int, int] = {}  # instruction -> position in _accesses
        self._accesses: list[Access] = []
        self._seen: set[tuple[int, int]] = set()  # (touch, base) of this epoch; repeats change nothing
        self._held: list[Placed] = []
        self._epoch = np.zeros(0, np.int32)
        self._time = 0
        self._flags, self._phases = _Messages(), _Messages()  # by atomics and volatile accesses; in a cluster
        self.suspects: set[tuple[int, int]] = set()  # pairs of racing plain stores, for ``SameValue``

    def begin_batch(self, batch: Batch) -> None:
        """Start new blocks. The shadow stays: blocks of different batches are not ordered either."""
        if self._cluster > 1:
            order = enumerate(batch.numbers[: batch.blocks].tolist(), batch.place)
            self._cluster_of |= {number: place // self._cluster for place, number in order}
        self._epoch = np.ones(self._lanes // self._padded, np.int32)
        self._forget_repeats()

    def records(self, batch: Batch, records: Sequence[Record], boundary: Boundary) -> None:
        """Process ``records``: all but the touches, in order."""
        alone = len(self._epoch) == 1 and not self._handshake
        loads: list[Placed] = []  # loads of one block, with only loads between them
        rows: list[Placed] = []  # of boxes that TMA copies from here, or stores

        def catch_up() -> None:
            self._loaded(batch, loads)
            self._copied(batch, rows)

        for record in records:
            if type(record) is Placed:
                key = (id(record.touch), record.base)
                if key not in self._seen:
                    self._seen.add(key)
                    self._held.append(record)  # keeps the identity of its touch from being reused
                    if alone and record.touch.access.effect == "load" and record.touch.active is None:
                        loads.append(record)
                    elif record.touch.access.is_bulk and record.touch.access.effect in ("copy", "store"):
                        one, other = rows[-1].touch.access if rows else None, record.touch.access
                        # In either order: bulk copies that both read, or are of one instruction.
                        if one and not (one is other or one.effect == other.effect == "copy"):
                            catch_up()
                        rows.append(record)
                    else:
                        catch_up()
                        self._placed(batch, record)
                if self._protocol.handshake:
                    catch_up()
                    self._signal(batch, record)
            elif type(record) is Barrier and record.kind in ("block", "named"):
                catch_up()
                self._barrier(record)
            elif type(record) is Phase and record.kind == "wait":  # counts for its whole block, as a named barrier does
                catch_up()
                self._epoch[np.unique(record.lanes // self._padded)] += 1
                self._forget_repeats()
            if type(record) is Phase and self._cluster > 1:
                catch_up()
                self._meet(batch, record)
            if len(loads) >= LOADS_PER_CALL:
                self._loaded(batch, loads)
        catch_up()
        if boundary == "barrier":
            self._epoch += 1
        if boundary == "barrier" or len(self._held) > 4096:
            self._forget_repeats()

    def _meet(self, batch: Batch, mark: Phase) -> None:
        """Note which blocks arrive at mbarriers or the barrier of their cluster, or see a phase complete."""
        self._time += 1
        for block in batch.numbers[np.unique(mark.lanes // self._padded)].tolist():
            if mark.kind in ("arrive", "sent"):
                self._phases.released.setdefault(block, []).append(self._time)
            elif mark.kind == "wait":
                self._phases.acquired[block] = self._time

    def _signal(self, batch: Batch, placed: Placed) -> None:
        """Note which blocks may have released data, or acquired it."""
        self._time += 1
        touch = placed.touch
        if touch.access.index in self._protocol.strong:
            lanes = slice(None) if touch.active is None else touch.active
            blocks = batch.numbers[np.unique(np.arange(touch.addresses.size)[lanes] // self._padded)]
            for block in blocks.tolist():
                if touch.access.effect != "load":
                    self._flags.released.setdefault(block, []).append(self._time)
                if touch.access.index in self._protocol.observed:
                    self._flags.acquired[block] = self._time

    def _released_to(self, writer: Array, time: Array, reader: Array) -> Array:
        """Return whether block ``writer`` released after its write at ``time``, and block ``reader`` acquired later.

        The check is lenient: any two atomics may pair, and those of one instruction count as simultaneous. So may any
        arrival and any wait in a cluster.
        """
        passed = self._flags.passed(writer, time, reader)
        if self._cluster > 1:
            passed |= self._phases.passed(writer, time, reader) & self._same_cluster(writer, reader)
        return passed

    def _same_cluster(self, blocks: Array, others: Array) -> Array:
        one, other = ([self._cluster_of.get(it, -1) for it in some.tolist()] for some in (blocks, others))
        return np.asarray(np.array(one, np.int64) == np.array(other, np.int64))

    def _forget_repeats(self) -> None:
        self._seen.clear()
        self._held.clear()

    def _barrier(self, mark: Barrier) -> None:
        """Count a named barrier for its whole block: better to miss a race than to report a correct warp pipeline."""
        blocks: Any = mark.blocks
        if blocks is None and mark.lanes is not None:
            blocks = mark.lanes.reshape(-1, self._padded).any(axis=1)
        self._epoch += 1 if blocks is None else blocks
        self._forget_repeats()

    def unstored(self, name: str, width: int) -> int:
        """Count the elements of ``width`` bytes in buffer ``name`` of which no store, copy or atomic reached a byte."""
        number = next(i for i, (known, _, _) in enumerate(self._buffers) if known == name)
        count = self._buffers[number][2] // width
        if number not in self._shadows:
            return count
        blank: Array = ~self._shadows[number].written(slice(None))
        if self._granule > width:
            blank = np.repeat(blank, self._granule // width)[:count]
        elif self._granule < width:
            blank = np.logical_and.reduce(blank.reshape(-1, width // self._granule), axis=1)
        return int(np.count_nonzero(blank))

    @property
    def stored(self) -> frozenset[str]:
        """Return the buffers that a store or an atomic reached."""
        written = (number for number, it in self._shadows.items() if it.written(slice(None)).any())
        return frozenset(self._buffers[number][0] for number in written)

    # -- one access ---------------------------------------------------------------------------------------------------

    def last_writer(self, address: int) -> int | None:
        """Return the thread that last stored at an address by a plain store, or None."""
        buffer = int(np.searchsorted(self._starts, address, side="right")) - 1
        shadow = self._shadows.get(buffer)
        cell = (address - int(self._starts[buffer])) // self._granule if shadow is not None else 0
        if shadow is None or cell >= shadow.writer.size or not shadow.writer[cell]:
            return None
        return int(shadow.writer[cell]) - 1

    def _placed(self, batch: Batch, placed: Placed) -> None:
        touch = placed.touch
        lane = touch.active_lanes
        address = touch.addresses[lane] + placed.base
        first, last = np.searchsorted(self._starts, (address.min(), address.max()), side="right").tolist()
        if first == last:
            self._in_buffer(batch, touch.access, first - 1, lane, address)
        else:
            which = np.searchsorted(self._starts, address, side="right") - 1
            for buffer in np.unique(which).tolist():
                here = which == buffer
                self._in_buffer(batch, touch.access, buffer, lane[here], address[here])

    def _copied(self, batch: Batch, rows: list[Placed]) -> None:
        """Check the rows of boxes: all rows of one access at once if there is nothing to report for any of them."""
        for access in dict.fromkeys(row.touch.access for row in rows):
            mine = [row for row in rows if row.touch.access is access]
            quietly = self._stored_quietly if access.effect == "store" else self._copied_quietly
            if len(mine) == 1 or not quietly(batch, access, mine):
                for row in mine:
                    self._placed(batch, row)
        rows.clear()

    def _stored_quietly(self, batch: Batch, access: Access, rows: Sequence[Placed]) -> bool:
        """Check stored rows at once if they do not overlap and are the first accesses there. Else return False."""
        lane, address = _placed_lanes(rows)
        if np.diff(np.sort(address)).min() < access.width:
            return False
        low, high = int(address.min()), int(address.max()) + access.width
        buffer = int(np.searchsorted(self._starts, low, side="right")) - 1
        _, start, size = self._buffers[buffer]
        shadow = self._shadow(buffer)
        if low < start or high > start + size or shadow.visitors:
            return False
        cell = (address - start) // shadow.granule
        if shadow.writer[cell[:, None] + np.arange(access.width // shadow.granule)].any():
            return False
        self._in_buffer(batch, access, buffer, lane, address)
        return True

    def _copied_quietly(self, batch: Batch, access: Access, rows: Sequence[Placed]) -> bool:
        """Check the rows at once if nothing has been stored there. Return False, without any effect, otherwise."""
        lane, address = _placed_lanes(rows)
        found = self._quiet_buffer(address, access.width)
        if found is None:
            return False
        buffer, start, shadow = found
        low, high = int(address.min()) - start, int(address.max()) + access.width - start
        if shadow.writer[low // shadow.granule : high // shadow.granule].any():
            return False
        order = np.argsort(lane, kind="stable")  # as ``note`` requires
        self._in_buffer(batch, access, buffer, lane[order], address[order])
        return True

    def _loaded(self, batch: Batch, loads: list[Placed]) -> None:
        """Check several consecutive loads of one block: at once if there is nothing to report for any of them."""
        if len(loads) == 1 or not self._loaded_quietly(batch, loads):
            for placed in loads:
                self._placed(batch, placed)
        loads.clear()

    def _loaded_quietly(self, batch: Batch, loads: Sequence[Placed]) -> bool:
        """Check the loads at once if they differ only in address and no other thread has stored or updated there.

        Return False, without any effect, otherwise.
        """
        if not loads:
            return True
        accesses = {placed.touch.access: None for placed in loads}
        ways = {(access.width, self._how(access)) for access in accesses}
        address = np.array([placed.touch.addresses for placed in loads])
        address += np.array([placed.base for placed in loads])[:, None]
        found = self._quiet_buffer(address, max(width for width, _ in ways))
        if len(ways) > 1 or found is None:
            return False
        _, start, shadow = found
        ((width, how),) = ways
        cell = (address - start) // shadow.granule
        if (count := width // shadow.granule) > 1:
            cell = (cell[:, :, None] + np.arange(count)).reshape(len(loads), -1)
        lane = np.repeat(np.arange(address.shape[1]), count)
        thread = (batch.thread(lane) + 1).astype(np.int32)
        writer = shadow.writer[cell]
        if ((writer != 0) & (writer != thread)).any():
            return False
        number = np.array([self._number(placed.touch.access) for placed in loads], np.int16)
        visitors = self._visitors(shadow, how)
        visitors.access[cell] = number[:, None]  # for duplicate granules, the last assignment remains
        # One after the other in the order of the threads, as ``note`` requires.
        order = cell.T.reshape(-1)
        epoch = np.full(order.shape, self._epoch[0])
        visitors.note(visitors.access[order], order, np.repeat(thread, len(loads)), epoch, self._padded)
        return True

    def _quiet_buffer(self, address: Array, width: int) -> tuple[int, int, Shadow] | None:
        """Return the one buffer accessed, its start and shadow; None for several, a fresh one or one with atomics."""
        low, high = int(address.min()), int(address.max()) + width
        buffer = int(np.searchsorted(self._starts, low, side="right")) - 1
        _, start, size = self._buffers[buffer]
        shadow = self._shadow(buffer)
        if low < start or high > start + size or shadow.fresh or shadow.visitors.keys() & set(UPDATING):
            return None
        return buffer, start, shadow

    def _in_buffer(self, batch: Batch, access: Access, buffer: int, lane: Array, address: Array) -> None:
        shadow = self._shadow(buffer)
        cell = (address - self._buffers[buffer][1]) // shadow.granule
        thread = (batch.thread(lane) + 1).astype(np.int32)
        epoch = self._epoch[lane // self._padded]
        count = access.width // shadow.granule
        if count > 1:
            cell = (cell[:, None] + np.arange(count)).reshape(-1)
            thread, epoch = np.repeat(thread, count), np.repeat(epoch, count)
        visit = Visit(access, self._number(access), self._buffers[buffer][1], shadow, cell, thread, epoch)
        self._check_writers(visit)
        for how, apart_only in self._racing_visits(access):
            if how in shadow.visitors:
                self._check_visitors(visit, how, apart_only)
        if access.effect == "store":
            self._write(visit)
        else:
            self._visit(visit)

    def _shadow(self, buffer: int) -> Shadow:
        shadow = self._shadows.get(buffer)
        if shadow is None:
            name, _, size = self._buffers[buffer]
            shadow = self._shadows[buffer] = Shadow(size, self._granule, name in self._fresh)
            if self._handshake:
                shadow.writer_time = np.zeros(shadow.writer.size, np.int64)
        return shadow

    def _number(self, access: Access) -> int:
        if access.index not in self._numbers:
            self._numbers[access.index] = len(self._accesses)
            self._accesses.append(access)
        return self._numbers[access.index]

    def _visitors(self, shadow: Shadow, how: str) -> Visitors:
        if how not in shadow.visitors:
            shadow.visitors[how] = Visitors(shadow.writer.size, self._handshake)
        return shadow.visitors[how]

    def _how(self, access: Access) -> str:
        protocol = self._protocol
        if access.effect == "atomic":
            return "block_scoped" if access.index in protocol.block_scoped else "atomic"
        if access.index in protocol.strong:
            return "strong"
        return "optimistic" if access.index in protocol.optimistic else "weak"

    def _racing_visits(self, access: Access) -> Sequence[tuple[str, bool]]:
        """Return the kinds of visits that race with ``access``, and for each whether only visits of other blocks do."""
        how = self._how(access)
        if access.effect == "store":
            others = READING[:2] if how == "strong" else (*READING, *UPDATING)
            return [(other, False) for other in others]
        return {
            "weak": [("atomic", False), ("block_scoped", False)],
            "optimistic": [],
            "strong": [("block_scoped", True)],
            "atomic": [("weak", False), ("block_scoped", True)],
            "block_scoped": [("weak", False), ("block_scoped", True), ("atomic", True)],
        }[how]

    def _check_writers(self, visit: Visit) -> None:
        shadow, cell, thread = visit.shadow, visit.cell, visit.thread
        if shadow.fresh and visit.reads:
            blank = ~shadow.written(cell)
            if blank.any():
                self._report_fresh(visit, blank)
        writer = shadow.writer[cell]
        bad = (writer != 0) & (writer != thread)
        if not bad.any():
            return
        if visit.access.index in self._protocol.strong:
            bad &= ~shadow.writer_strong[cell]
        apart = self._block(writer) != self._block(thread)
        bad &= apart | (shadow.writer_epoch[cell] == visit.epoch)
        if self._handshake and bad.any():
            bad[bad] = ~self._released_to(
                self._block(writer[bad]), shadow.writer_time[cell[bad]], self._block(thread[bad])
            )
        if bad.any():
            self._report(visit, bad, shadow.writer_access[cell], writer)

    def _check_visitors(self, visit: Visit, how: str, apart_only: bool) -> None:
        visitors, cell, thread = visit.shadow.visitors[how], visit.cell, visit.thread
        mine = self._block(thread)
        low, high = visitors.low[cell], visitors.high[cell]
        apart = (high != 0) & ((self._block(low) != mine) | (self._block(high) != mine))
        recent_low, recent_high = visitors.recent_low[cell], visitors.recent_high[cell]
        now = (visitors.epoch[cell] == visit.epoch) & (self._block(recent_high) == mine) & (not apart_only)
        now &= (recent_low != thread) | (recent_high != thread)
        if visitors.blocks is not None and visitors.threads is not None:
            if how in UPDATING and apart.any():
                other, time = visitors.blocks.of_others(cell[apart], mine[apart] + 1)
                apart[apart] = (other == 0) | ~self._released_to(other - 1, time, mine[apart])
            elif how in READING and self._protocol.handshake:  # when a reader in another block finished is unknown
                apart[:] = False
            elif how in READING:
                apart &= ~(self._same_cluster(self._block(low), mine) & self._same_cluster(self._block(high), mine))
            if now.any():  # threads of one block may take turns by a lock
                _, time = visitors.threads.of_others(cell[now], thread[now])
                now[now] = ~self._released_to(mine[now], time, mine[now])
        visitor = np.where(self._block(low) != mine, low, high)
        visitor = np.where(apart, visitor, np.where(recent_low != thread, recent_low, recent_high))
        bad = apart | now
        if bad.any():
            self._report(visit, bad, visitors.access[cell], visitor)

    def _write(self, visit: Visit) -> None:
        shadow, cell, thread = visit.shadow, visit.cell, visit.thread
        strong = visit.access.index in self._protocol.strong
        shadow.writer[cell] = thread
        shadow.writer_epoch[cell] = visit.epoch
        shadow.writer_access[cell] = visit.number
        shadow.writer_strong[cell] = strong
        if shadow.writer_time.size:
            shadow.writer_time[cell] = self._time
        winner = shadow.writer[cell]
        overwritten = winner != thread
        if overwritten.any() and not strong:  # several threads of this instruction
            self._report(visit, overwritten, np.full(cell.shape, visit.number), winner)

    def _visit(self, visit: Visit) -> None:
        cell, thread = visit.cell, visit.thread
        how = self._how(visit.access)
        visitors = self._visitors(visit.shadow, how)
        visitors.note(visit.number, cell, thread, visit.epoch, self._padded)
        if visitors.blocks is not None and visitors.threads is not None:
            visitors.threads.note(cell, thread, self._time)
            visitors.blocks.note(cell, (self._block(thread) + 1).astype(np.int32), self._time)
        if how == "block_scoped":  # blocks of this instruction
            highest = visitors.recent_high[cell]
            apart = self._block(highest) != self._block(thread)
            if apart.any():
                self._report(visit, apart, np.full(cell.shape, visit.number), highest)

    def _block(self, thread: Array) -> Array:
        return (thread - 1) // self._padded

    # -- findings ------------------------------------------------------------------------------------------------------

    def _report_fresh(self, visit: Visit, blank: Array) -> None:
        cell, thread, access = visit.cell[blank], visit.thread[blank], visit.access
        address = visit.start + int(cell[0]) * visit.shadow.granule
        key = Key("uninitialised", "error", access.line, None, access.file, "global")
        who = self._names.actor_of(int(thread[0]) - 1, access)
        self._collector.add(
            key, lambda: Example("global", self._names.buffer(address), (who,)), int(np.unique(thread).size)
        )  # fmt: skip

    def _report(self, visit: Visit, bad: Array, earlier: Array, other: Array) -> None:
        """Report the ``bad`` elements as races of access ``earlier`` by thread ``other`` with the current access."""
        later = visit.access
        earlier, other, cell, thread = earlier[bad], other[bad], visit.cell[bad], visit.thread[bad]
        apart = self._block(other) != self._block(thread)
        same_warp = (other - 1) // WARP == (thread - 1) // WARP
        for number in np.unique(earlier).tolist():
            first = self._accesses[number]
            for across_blocks, in_warp in ((True, False), (False, False), (False, True)):
                chosen = (earlier == number) & (apart == across_blocks) & (same_warp == in_warp)
                if in_warp and self._protocol.warp_sync and first.index != later.index:
                    continue  # may be ordered by warp instructions
                if chosen.any():
                    at = int(chosen.argmax())
                    place = self._names.buffer(visit.start + int(cell[at]) * visit.shadow.granule)
                    pair = int(other[at]) - 1, int(thread[at]) - 1
                    self._add(first, later, place, pair, across_blocks, in_warp, int(np.count_nonzero(chosen)))

    def _add(
        self,
        first: Access,
        later: Access,
        place: Location,
        pair: tuple[int, int],
        across_blocks: bool,
        in_warp: bool,
        count: int,
    ) -> None:
        """Add a race. ``pair``: threads of the grid; ``across_blocks``: of two blocks; ``in_warp``: of one warp."""
        both_write = "load" not in (first.effect, later.effect) and "copy" not in (first.effect, later.effect)
        if first.effect == later.effect == "store":
            self.suspects.add((first.index, later.index))
        severity: Severity = "error"
        kind = "race"
        if across_blocks and not both_write:
            kind, case = "block_order", "one line" if first.line == later.line else "two lines"
        elif across_blocks:
            case = "global blocks"
        elif first.index == later.index and both_write:
            case = "global owner"
        elif in_warp:
            severity, case = "warning", "global warp"
        else:
            case = "global order"
        key = Key.between(kind, severity, first, later, f"global {first.effect} {later.effect}")
        actors = self._names.actor_of(pair[0], first), self._names.actor_of(pair[1], later)
        self._collector.add(key, lambda: Example(case, place, actors, Race()), count)
