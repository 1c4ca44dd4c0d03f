"""Explains a hang: which threads wait at which instruction and for what, which arrivals and bytes came, and the likely
cause.

The threads of one cluster are described; those that wait in the same instruction for the same barrier, together. The
history of its mbarriers shows which threads arrived before and how many bytes copies brought.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gemm_lessons.engine.compiler.diagnostics import plain_name
from gemm_lessons.engine.events import WARP
from gemm_lessons.engine.machine.barriers import Barriers
from gemm_lessons.engine.machine.early_arrivals import without_waits
from gemm_lessons.engine.machine.mbarrier_waits import PhaseWaits
from gemm_lessons.engine.machine.mbarriers import is_arrival, is_wait, mbarrier_at, reports_bytes
from gemm_lessons.engine.machine.phase_history import What
from gemm_lessons.engine.machine.phases import BYTES
from gemm_lessons.engine.machine.source_lines import SourceLines
from gemm_lessons.engine.machine.state import Fault, State, coordinates
from gemm_lessons.engine.machine.wait_cycles import Following, Waiters, cycle_of
from gemm_lessons.engine.ptx.provenance import provenance
from gemm_lessons.engine.ptx.records import Instruction, Kernel
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.facts import (
    AtBarrier,
    AtMbarrier,
    BarrierCause,
    Came,
    Cause,
    Hang,
    Link,
    Mbarrier,
    Missing,
    RegisterCause,
    Threads,
    UnawaitedCause,
)
from gemm_lessons.engine.records.frozen import dataclass

MOST = 6  # descriptions of waiting threads, at most
MOST_DUE = 3  # lines that arrive at an mbarrier, at most


@dataclass(frozen=True, eq=False)
class _Wait:
    """Lanes that wait in one instruction for the end of a phase of one mbarrier."""

    lanes: Array
    cell: int
    index: int


class HangReport:
    """The report on one batch in which no lane can run."""

    def __init__(
        self,
        state: State,
        kernel: Kernel,
        arrays: Mapping[str, tuple[int, int]],
        stalls: PhaseWaits,
        barriers: Barriers,
    ) -> None:
        self._state, self._kernel, self._arrays = state, kernel, arrays
        self._code = kernel.instructions
        self._stalls, self._barriers = stalls, barriers
        size = state.padded * state.cluster
        stuck = (stalls.held | barriers.waiting) & state.alive
        first = int(stuck.argmax())
        self._cluster = np.arange(first // size * size, (first // size + 1) * size)
        self._stuck = stuck
        self._names = provenance(kernel, frozenset(arrays))  # instruction -> shared array
        self._lines = SourceLines(kernel)

    def fault(self) -> Fault:
        """Return the fault."""
        waits = self._waits()
        found = [self._at_mbarrier(wait) for wait in waits]
        there: list[AtMbarrier | AtBarrier] = [*found, *self._barriers.described(self._cluster, self._lines.line)]
        cycle = tuple(self._cycle(waits))
        cause: Cause | BarrierCause | RegisterCause | UnawaitedCause | None = self._cause(waits)
        if cause is None and not cycle:
            cause = next(self._barrier_causes(unknown=False), None)
        if cause is None:
            cause = next(self._unawaited(), None)
        lane = int(self._cluster[self._stuck[self._cluster]][0])
        index = self._waits_in(lane)
        instruction = self._code[index if cause is None else cause.index]
        facts = Hang(tuple(there[:MOST]), cause, max(0, len(there) - MOST) or None, cycle)
        fault = Fault("deadlock", "hang", instruction, self._state.actor(lane, instruction), facts)
        if (place := self._lines.place(instruction.index)) is not None:
            fault.finding = dataclasses.replace(fault.finding, file=place.file, line=place.line)
        return fault

    def _waits_in(self, lane: int) -> int:
        """Return the instruction in which a lane waits."""
        return int(self._stalls.at[lane]) if self._stalls.held[lane] else self._barriers.place(lane)

    # -- waiting threads -----------------------------------------------------------------------------------------------

    def _waits(self) -> list[_Wait]:
        lanes = self._cluster[(self._stalls.held & self._state.alive)[self._cluster]]
        at = self._stalls.at[lanes]
        lines = np.array([self._lines.line(index) or 0 for index in at.tolist()])
        keys = np.stack((lanes // self._state.padded, lines, self._stalls.cell[lanes]))
        found, first, which = np.unique(keys, axis=1, return_index=True, return_inverse=True)
        which = which.reshape(-1)
        return [_Wait(lanes[which == n], int(found[2, n]), int(at[first[n]])) for n in range(found.shape[1])]

    def _at_mbarrier(self, wait: _Wait) -> AtMbarrier:
        phases, cell = self._state.phases, wait.cell
        phase = int(phases.phase[cell])
        left, pending = int(phases.bytes[cell]), int(phases.pending[cell])
        missing = []
        if pending:
            came = self._came(cell, phase, "arrived")
            array, due = ("", ()) if came else self._due(cell)
            case = "missing arrivals due" if due else "missing arrivals"
            missing.append(Missing(case, pending, int(phases.expected[cell]), came, due, array))
        announced, reported = (self._came(cell, phase, what) for what in ("announced", "reported"))
        if left:
            case = "missing bytes" if left > 0 else "missing expect_tx"
            missing.append(Missing(case, abs(left), came=(*announced, *reported)))
        line = self._lines.line(wait.index)
        return AtMbarrier(
            "waiting mbarrier", self._threads(wait.lanes), self._mbarrier(cell), phase, tuple(missing), line
        )

    def _due(self, cell: int) -> tuple[str, tuple[int, ...]]:
        """Return the array of an mbarrier, and the few lines that arrive there; no lines if they are not known."""
        name, lines = self._array(cell), set()
        for instruction in filter(is_arrival, self._code):
            found = self._names.get(instruction.index)
            if found is None or (found == name and self._lines.line(instruction.index) is None):
                return name, ()
            if found == name:
                lines.add(self._lines.line(instruction.index) or 0)
        return plain_name(name), tuple(sorted(lines)) if len(lines) <= MOST_DUE else ()

    def _came(self, cell: int, phase: int | range, what: Any) -> tuple[Came, ...]:
        """Return the arrivals or bytes that came in a phase, or in several, by source line."""
        sums: Counter[int | None] = Counter()
        for event, here in self._state.history.at(cell, what):
            now = here[np.isin(event.phase[here], phase)]
            if now.size:
                sums[self._lines.line(event.index)] += int(event.amount[now].sum())
        return tuple(Came(f"came {what}", amount, line) for line, amount in sums.items())

    def _threads(self, lanes: Array) -> Threads:
        state = self._state
        numbers = lanes % state.padded
        ends = (coordinates(int(number), state.grid.block) for number in (numbers.min(), numbers.max()))
        first, last = ends
        block = coordinates(int(state.block_numbers[int(lanes[0]) // state.padded]), state.grid.grid)
        row = numbers.size == int(numbers.max() - numbers.min()) + 1
        case = "threads one" if numbers.size == 1 else "threads row" if row else "threads some"
        return Threads(case, int(numbers.size), first, last, block)

    def _mbarrier(self, cell: int) -> Mbarrier:
        return mbarrier_at(self._arrays, cell * BYTES % self._state.shared_stride)

    # -- causes -------------------------------------------------------------------------------------------------------

    def _cycle(self, waits: Sequence[_Wait]) -> Iterator[Link]:
        """Yield the links of a cycle of threads that wait for each other."""
        groups = [self._waiting_at(wait) for wait in waits]
        no_lanes = np.zeros(0, np.int64)
        for lanes, index, number, _ in self._barriers.waiting_at_barriers(self._cluster):
            others = self._cluster[~np.isin(self._cluster, lanes)]
            groups.append(Waiters(lanes, index, no_lanes, self._barriers.arriving_instructions(number, others)))
        groups += [
            Waiters(*it, no_lanes, frozenset(self._barriers.of_clusters))
            for it in self._barriers.at_clusters(self._cluster)
        ]
        cycle = cycle_of(groups, self._following.reaches)
        for group, other in zip(cycle, [*cycle[1:], *cycle[:1]], strict=True):
            lines = self._lines.line(group.index), self._lines.line(other.index)
            if lines[0] == lines[1]:
                yield Link("link of one line", *lines, self._threads(group.lanes), self._threads(other.lanes))
            else:
                yield Link("link", *lines)

    def _waiting_at(self, wait: _Wait) -> Waiters:
        phase = int(self._state.phases.phase[wait.cell])
        came = [self._arrived(wait.cell, it) for it in range(max(0, phase - 1), phase + 1)]
        if self._state.phases.pending[wait.cell]:  # lanes that arrived in the phase before, but not in this one
            came = [came[0][~np.isin(came[0], came[-1])] if phase else np.zeros(0, np.int64)]
            helps = [i.index for i in self._arrivals_at(wait.cell)]
        else:
            helps = [i.index for i in self._code if reports_bytes(i)]
        return Waiters(wait.lanes, wait.index, np.concatenate(came), frozenset(helps))

    @functools.cached_property
    def _following(self) -> Following:
        return Following(self._kernel)

    def _barrier_causes(self, unknown: bool = True) -> Iterator[BarrierCause]:
        """Find barriers for part of a block that too few threads reach. ``unknown``: barriers whose numbers no register
        held yet may be the same one."""
        state = self._state
        meetings = list(self._barriers.waiting_at_barriers(self._cluster))
        for lanes, index, number, expected in meetings:
            block = int(lanes[0]) // state.padded
            there = [it for it in meetings if it[2] == number and int(it[0][0]) // state.padded == block]
            came = np.concatenate([it[0] for it in there])
            count = len(np.unique(came // WARP)) * WARP + self._barriers.signalled(block, number)
            lines = sorted({self._lines.line(it[1]) or 0 for it in there})
            if not expected or count >= expected:
                continue
            ended = np.flatnonzero((state.lane_block == block) & state.exists & ~state.alive)
            others = self._elsewhere(block, came)
            facts = {"number": number, "expected": expected, "count": count, "line": lines[0], "index": index}
            if len(lines) > 1:
                yield BarrierCause("cause shared barrier", self._threads(came), **facts, other_line=lines[1])
            elif self._may_come(number, others, unknown):
                continue
            elif (partners := self._barriers.users(number, others)).size:
                elsewhere = self._lines.line(self._waits_in(int(partners[0])))
                yield BarrierCause("cause partner waits", self._threads(partners), **facts, other_line=elsewhere)
            elif ended.size >= expected - count:
                before = self._barriers.met(number, ended)
                if before.all():
                    yield BarrierCause("cause came before", self._threads(ended), **facts)
                else:
                    signalled = np.isin(ended, self._barriers.users(number, ended))
                    absent = ended[~before & ~signalled] if not signalled.all() else ended[~before]
                    other = self._arrives_too(number, lines[0]) if signalled.any() else None
                    yield BarrierCause("cause never came", self._threads(absent), **facts, other_line=other)
            else:
                yield BarrierCause("cause barrier count", self._threads(came), **facts)

    def _arrives_too(self, number: int, line: int) -> int | None:
        """Return another line in which threads arrive at the barrier of this number; None if there is not just one."""
        found = self._barriers.arriving_instructions(number, self._cluster, unknown=False)
        others = {self._lines.line(index) for index in found} - {line}
        return next(iter(others)) if len(others) == 1 else None

    def _elsewhere(self, block: int, came: Array) -> Array:
        """Return the waiting lanes of a block that are not among those that ``came``."""
        waiting = np.flatnonzero((self._state.lane_block == block) & self._stuck)
        return waiting[~np.isin(waiting, came)]

    def _whole_blocks(self) -> Iterator[BarrierCause]:
        """Find barriers of a whole block that some of its threads cannot reach."""
        for lanes, index, number, expected in self._barriers.waiting_at_barriers(self._cluster):
            others = self._elsewhere(int(lanes[0]) // self._state.padded, lanes)
            if expected or not others.size or self._may_come(number, others):
                continue
            lines = self._lines.line(index), self._lines.line(self._waits_in(int(others[0])))
            facts = number, self._state.threads, int(lanes.size), *lines, index
            yield BarrierCause("cause whole block", self._threads(others), *facts)

    def _may_come(self, number: int, lanes: Array, unknown: bool = True) -> bool:
        """Return whether waiting ``lanes`` may arrive at this barrier later. ``unknown``: see ``_barrier_causes``."""
        places = np.array([self._waits_in(lane) for lane in lanes.tolist()], np.int64)
        return any(
            self._following.reaches(
                place, self._barriers.arriving_instructions(number, lanes[places == place], unknown)
            )
            for place in np.unique(places).tolist()
        )

    def _register_causes(self) -> Iterator[RegisterCause]:
        """Find warps that request more registers than the block's pool has."""
        state, pool = self._state, self._barriers.pool
        for lanes, index in self._barriers.waiting_for_registers(self._cluster):
            block, warps = int(lanes[0]) // state.padded, np.unique(lanes // WARP)
            mine = lanes[lanes // state.padded == block]
            wanted = pool.wanted(index)
            others = self._cluster[self._stuck[self._cluster] & (self._cluster // state.padded == block)]
            places = {self._waits_in(lane) for lane in others[~np.isin(others, mine)].tolist()}
            gives = [i.index for i in pool.requests.values() if "dec" in i.modifiers]
            later = next((it for it in gives for at in places if self._following.reaches(at, frozenset((it,)))), None)
            yield RegisterCause(
                "cause registers" if later is None else "cause registers later",
                self._threads(mine),
                wanted,
                int(pool.owned[warps[0]]),
                sum(pool.needs(warp, wanted) for warp in warps.tolist() if warp * WARP // state.padded == block),
                int(pool.free[block]),
                self._lines.line(index),
                None if later is None else self._lines.line(later),
                index,
            )

    def _cause(self, waits: Sequence[_Wait]) -> Cause | BarrierCause | RegisterCause | None:
        """Return the most likely cause, or None."""
        if (registers := next(self._register_causes(), None)) is not None:
            return registers
        if barriers := list(self._barrier_causes()):
            return next((it for it in barriers if it.case == "cause partner waits"), barriers[0])
        for find in (
            self._several_phases,
            self._other_array,
            self._repeated,
            self._bytes,
            self._no_arrival,
            self._one_block,
            self._first_wait,
            self._overtaken,
            self._skipped,
            self._count,
        ):
            cause = next(find(waits), None)
            if cause is not None:
                return cause
        return next(self._ended(waits), None) or next(self._whole_blocks(), None)

    def _several_phases(self, waits: Sequence[_Wait]) -> Iterator[Cause]:
        """Find a warp whose threads arrive together and end several phases, so that no thread can wait for each."""
        for wait in waits:
            for event, here in self._state.history.at(wait.cell, "arrived"):
                warps = event.lanes[here] // WARP
                for warp in np.unique(warps):
                    mine = here[warps == warp]
                    phases = np.unique(event.phase[mine])
                    if phases.size > 1:
                        expected = int(self._state.phases.expected[wait.cell])
                        lanes, first = event.lanes[mine], int(phases[0])
                        yield self._of("cause several phases", wait.cell, event.index, lanes, first, (), expected)

    def _other_array(self, waits: Sequence[_Wait]) -> Iterator[Cause]:
        """Find arrivals of lines that name another array of mbarriers: their index is outside of that array."""
        for wait in waits:
            array = self._array(wait.cell)
            for event, here in self._state.history.at(wait.cell, "arrived"):
                if self._names.get(event.index, array) != array:
                    yield self._of("cause other array", wait.cell, event.index, event.lanes[here], 0)

    def _repeated(self, waits: Sequence[_Wait]) -> Iterator[Cause]:
        """Find threads that have passed a wait for the same phase twice, because the parity did not change."""
        before: dict[tuple[int, int], int] = {}
        for event in self._state.history.events("waited"):
            for lane, cell, phase in zip(event.lanes.tolist(), event.cell.tolist(), event.phase.tolist(), strict=True):
                if before.get((lane, cell)) == phase and self._cluster[0] <= lane <= self._cluster[-1]:
                    yield self._of("cause parity", cell, event.index, np.array([lane]), phase)
                before[lane, cell] = phase

    def _overtaken(self, waits: Sequence[_Wait]) -> Iterator[Cause]:
        """Find mbarriers of which two phases ended where a thread waited for one, by arrivals of all of its users."""
        for wait in waits:
            phase, expected = (int(it[wait.cell]) for it in (self._state.phases.phase, self._state.phases.expected))
            unseen = range(self._seen(wait) + 1, phase)
            if len(unseen) > 1 and not self._state.history.forgets:
                lanes = [self._arrived(wait.cell, it) for it in unseen]
                case = "cause overtaken" if len(np.unique(np.concatenate(lanes))) > expected else "cause again"
                came = self._came(wait.cell, unseen, "arrived")
                yield self._of(case, wait.cell, wait.index, wait.lanes, phase, came, expected)

    def _skipped(self, waits: Sequence[_Wait]) -> Iterator[Cause]:
        """Find threads that wait for the end of a phase, but have not waited for the phase before."""
        for wait in waits:
            phase = int(self._state.phases.phase[wait.cell])
            if phase - 1 > self._seen(wait) >= 0:
                yield self._of("cause skipped", wait.cell, wait.index, wait.lanes, phase)

    def _seen(self, wait: _Wait) -> int:
        """Return the newest phase of an mbarrier that a waiting thread has seen end; -1 if none."""
        lane, seen = int(wait.lanes[0]), -1
        for event, here in self._state.history.at(wait.cell, "waited"):
            if lane in event.lanes[here]:
                seen = int(event.phase[here][event.lanes[here] == lane][0])
        return seen

    def _bytes(self, waits: Sequence[_Wait]) -> Iterator[Cause]:
        """Find phases in which copies brought more or fewer bytes than expect_tx announced."""
        for wait in waits:
            left, phase = int(self._state.phases.bytes[wait.cell]), int(self._state.phases.phase[wait.cell])
            announced, reported = (self._came(wait.cell, phase, what) for what in ("announced", "reported"))
            if not left or self._follows(wait, "reported" if left > 0 else "announced"):
                continue
            if left > 0 and not reported and self._copies_follow(wait):
                continue
            if announced and reported:
                case = "cause too few bytes" if left > 0 else "cause too many bytes"
            else:
                case = "cause no expect_tx" if left < 0 else "cause no copy"
            came = (*announced, *reported)
            line = next((it.line for it in came), None)
            index = next((i.index for i in self._code if self._lines.line(i.index) == line), wait.index)
            yield self._of(case, wait.cell, index, wait.lanes, phase, came)

    def _follows(self, wait: _Wait, what: What) -> bool:
        """Return whether a thread that announced or brought bytes in an earlier phase has not done so in this one, and
        waits elsewhere, such as the producer of another block."""
        phase, events = int(self._state.phases.phase[wait.cell]), list(self._state.history.at(wait.cell, what))
        before = {lane for event, here in events for lane in event.lanes[here[event.phase[here] < phase]].tolist()}
        now = {lane for event, here in events for lane in event.lanes[here[event.phase[here] == phase]].tolist()}
        late = np.array(sorted(before - now), np.int64)
        return bool((self._stuck[late] & ~(self._stalls.held[late] & (self._stalls.cell[late] == wait.cell))).any())

    def _copies_follow(self, wait: _Wait) -> bool:
        """Return whether copies may follow: a thread that announced bytes waits elsewhere, and issued none since."""
        if not any(reports_bytes(i) for i in self._code):
            return False
        phase = int(self._state.phases.phase[wait.cell])
        announcing: Array = np.zeros(0, np.int64)
        for event in self._state.history.events("announced", "reported"):
            if event.what == "announced":
                here = (event.cell == wait.cell) & (event.phase == phase)
                announcing = np.union1d(announcing, event.lanes[here])
            elif np.isin(event.lanes, announcing).any():
                return False
        here = self._stalls.held[announcing] & (self._stalls.cell[announcing] == wait.cell)
        return bool((self._stuck[announcing] & ~here).any())

    def _no_arrival(self, waits: Sequence[_Wait]) -> Iterator[Cause]:
        """Find mbarriers at which no instruction of the kernel arrives."""
        arriving = [i for i in self._code if is_arrival(i)]
        if not all(i.index in self._names for i in arriving):
            return
        for wait in waits:
            if self._state.phases.pending[wait.cell] and not self._arrivals_at(wait.cell):
                phase = int(self._state.phases.phase[wait.cell])
                yield self._of("cause no arrival", wait.cell, wait.index, wait.lanes, phase)

    def _one_block(self, waits: Sequence[_Wait]) -> Iterator[Cause]:
        """Find mbarriers without arrivals, where threads have arrived at that of another block of the cluster."""
        state, stride = self._state, self._state.shared_stride // BYTES
        for wait in waits:
            own = wait.cell // stride
            first = own // state.cluster * state.cluster
            others = [
                wait.cell + (block - own) * stride for block in range(first, first + state.cluster) if block != own
            ]
            arrived = [cell for cell in others if any(state.history.at(cell, "arrived"))]
            if state.phases.pending[wait.cell] and arrived and not self._history_of(wait.cell):
                yield self._of("cause one block", wait.cell, wait.index, wait.lanes, 0)

    def _arrivals_at(self, cell: int) -> list[Instruction]:
        """Return the instructions that may arrive at an mbarrier of the same array."""
        name = self._array(cell)
        return [i for i in self._code if is_arrival(i) and self._names.get(i.index, name) == name]

    def _array(self, cell: int) -> str:
        """Return the shared array that an mbarrier is in."""
        offset = cell * BYTES % self._state.shared_stride
        return next((it for it, (start, size) in self._arrays.items() if start <= offset < start + size), "")

    def _first_wait(self, waits: Sequence[_Wait]) -> Iterator[Cause]:
        """Find a producer whose first wait for an empty stage blocks, while the consumers wait for its first copy."""
        fresh = [wait for wait in waits if not self._history_of(wait.cell) and not self._state.phases.phase[wait.cell]]
        if len({wait.cell for wait in fresh}) < 2:
            return
        for wait in fresh:
            following = self._code[wait.index + 1 :]
            until = next((n for n, i in enumerate(following) if is_wait(i)), len(following))
            words = [{i.row.effect, *i.modifiers} for i in following[:until]]
            if any("expect_tx" in it or {"copy", "bulk"} <= it for it in words):
                yield self._of("cause first wait", wait.cell, wait.index, wait.lanes, 0)

    def _history_of(self, cell: int) -> bool:
        return any(True for _ in self._state.history.at(cell, "arrived", "announced", "reported"))

    def _count(self, waits: Sequence[_Wait]) -> Iterator[Cause]:
        """Find mbarriers at which fewer threads arrive than mbarrier.init expects, as in the phase before."""
        state = self._state
        for wait in waits:
            phase, expected = int(state.phases.phase[wait.cell]), int(state.phases.expected[wait.cell])
            came = self._came(wait.cell, phase, "arrived")
            if not came or not state.phases.pending[wait.cell]:
                continue
            before, now = (self._arrived(wait.cell, number) for number in (phase - 1, phase))
            if phase and not np.isin(before, now).all():
                continue
            blocks = {int(lane) // state.padded for lane in now.tolist()}
            case = "cause count"
            if (
                len(blocks) < state.cluster
                and expected % state.cluster == 0
                and expected > sum(it.value for it in came)
            ):
                case = "cause remote"
            if case == "cause remote" or not self._others_may_arrive(wait, now):
                yield self._of(case, wait.cell, wait.index, now, phase, came, expected)

    def _others_may_arrive(self, wait: _Wait, arrived: Array) -> bool:
        """Return whether a warp of which no thread has arrived waits for something else first. Threads that wait in
        the same place as one that has arrived are past the arrival, too."""
        stalls, waiting = self._stalls, self._cluster[self._stuck[self._cluster]]
        places = stalls.cell * len(self._code) + stalls.at
        past = np.isin(places[waiting], places[arrived[self._stuck[arrived] & stalls.held[arrived]]])
        here = past | (stalls.cell[waiting] == wait.cell)
        elsewhere = waiting[~(stalls.held[waiting] & here)]
        arrivals = frozenset(i.index for i in self._arrivals_at(wait.cell))
        elsewhere = elsewhere[[self._following.reaches(self._waits_in(lane), arrivals) for lane in elsewhere.tolist()]]
        return not np.isin(elsewhere // WARP, arrived // WARP).all()

    def _ended(self, waits: Sequence[_Wait]) -> Iterator[Cause]:
        """Find mbarriers where the threads that arrived in the phase before, but not in this one, have ended."""
        state = self._state
        for wait in waits:
            phase = int(state.phases.phase[wait.cell])
            lanes = self._arrived(wait.cell, phase - 1)
            lanes = lanes[~np.isin(lanes, self._arrived(wait.cell, phase))]
            if phase and lanes.size and not state.alive[lanes].any():
                line = self._came(wait.cell, phase - 1, "arrived") or self._came(wait.cell, phase - 1, "announced")
                yield self._of("cause ended", wait.cell, wait.index, lanes, phase, line)

    def _unawaited(self) -> Iterator[UnawaitedCause]:
        """Find mbarriers at which threads arrive but for which no line waits, so that a role does not keep its turn."""
        for name, index in without_waits(self._kernel, self._names):
            yield UnawaitedCause("cause unawaited", plain_name(name), self._lines.line(index), index)

    def _arrived(self, cell: int, phase: int) -> Array:
        """Return the lanes that arrived in a phase, or announced bytes for it."""
        found = [
            event.lanes[here[event.phase[here] == phase]]
            for event, here in self._state.history.at(cell, "arrived", "announced")
        ]
        return np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)

    def _of(
        self, case: str, cell: int, index: int, lanes: Array, phase: int, came: tuple[Came, ...] = (), expected: int = 0
    ) -> Cause:
        line = self._lines.line(index)
        return Cause(case, self._mbarrier(cell), self._threads(lanes), phase, line, came, expected, index)
