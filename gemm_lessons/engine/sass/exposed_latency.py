"""Estimate how much of the latency of global loads a thread's own arithmetic can hide.

A load does not stall the thread that issues it. The first instruction that uses one of its registers stalls, or the
wait for the group of a ``cp.async``. The useful arithmetic executed in between hides the latency (``useful_work``). It
is counted along each thread's path through the machine code, so it includes every load and only executed arithmetic.
Along the same path, the arithmetic from the first copy of a group to its last is counted: copies issued all at once
delay other loads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from gemm_lessons.engine.costs.tally import Sums
from gemm_lessons.engine.events import WARP
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.sass.flow import ATOMICS, operand_registers, results
from gemm_lessons.engine.sass.operands import Decoded, MachineImmediate

ENOUGH = 128  # multiply-adds that hide a load: a quarter of a thread's in a K tile with 8 x 8 elements and BK = 8


@dataclass(frozen=True)
class _Event:
    """An event in a basic block: a load, a commit of ``cp.async``, or a wait for all but the ``newest`` groups.

    ``before``: arithmetic of the block before the event. ``until``: arithmetic before the first use in this block, or
    -1.
    """

    kind: str
    before: int
    load: int = 0  # index of the instruction
    width: int = 0
    registers: frozenset[str] = frozenset()
    until: int = -1
    newest: int = 0


@dataclass(frozen=True)
class BlockEvents:
    """The loads, commits, waits and uses of a basic block, with its arithmetic."""

    events: tuple[_Event, ...]
    first_use: dict[str, int]  # register -> arithmetic of the block before its first use
    arithmetic: int
    _known: dict[frozenset[str], int] = field(default_factory=dict)

    def before_use(self, registers: frozenset[str]) -> int:
        """Return the arithmetic of the block before the first use of any of ``registers``, or -1 without a use."""
        if registers not in self._known:
            places = [self.first_use[name] for name in registers if name in self.first_use]
            self._known[registers] = min(places, default=-1)
        return self._known[registers]


@dataclass
class _Pending:
    """A load without a use so far, by the lanes of ``by``.

    ``since``: arithmetic executed at the load; one number if equal for all lanes, else per lane, -1 for other lanes.
    """

    width: int
    by: Array
    since: Array | int
    registers: frozenset[str] = frozenset()
    group: int = -1  # of a cp.async, once committed

    def lanes(self) -> Array:
        """Return ``since`` of each lane."""
        return np.where(self.by, self.since, -1)


@dataclass
class LatencyTracker:
    """Tracks the pending loads of one batch. The walker sets ``active`` of a load before it calls ``follow``."""

    lanes: int
    sums: Sums
    active: dict[int, Array] = field(default_factory=dict)
    _done: int = 0  # multiply-adds executed by all lanes
    _more: Array | None = None  # further multiply-adds, by lane
    _pending: dict[int, _Pending] = field(default_factory=dict)
    _copies: list[_Pending] = field(default_factory=list)
    _groups: int = 0

    def follow(self, events: BlockEvents, mask: Array | None) -> None:
        """Process a basic block that the lanes of ``mask`` (None: all) have executed."""
        for number, load in list(self._pending.items()) if self._pending else ():
            before = events.before_use(load.registers)
            if before >= 0 and self._use(load, before, mask):
                del self._pending[number]
        for event in events.events:
            if event.kind == "load":
                self._load(event)
            elif event.kind == "copy":
                if (some := self.active.pop(event.load, None)) is not None:
                    self._copies.append(_Pending(event.width, some, self._now(event.before)))
            elif event.kind == "commit":
                group = [copy for copy in self._copies if copy.group < 0]
                for copy in group:
                    copy.group = self._groups
                self._groups += 1
                if group:
                    self._count_span(group[0].lanes(), group[-1].lanes())
            else:
                ended = range(self._groups - event.newest)
                self._copies = [
                    copy for copy in self._copies if copy.group not in ended or not self._use(copy, event.before, mask)
                ]
        if mask is None:
            self._done += events.arithmetic
        elif events.arithmetic:
            self._more = np.zeros(self.lanes, np.int64) if self._more is None else self._more
            self._more[mask] += events.arithmetic

    def _count_span(self, first: Array, last: Array) -> None:
        """Add the arithmetic between the first and last copies of a group, for warps that computed before it."""
        starts = np.where(first > 0, first, np.iinfo(np.int64).max).reshape(-1, WARP).min(axis=1)
        spans = last.reshape(-1, WARP).max(axis=1) - starts
        self.sums.copy_groups += int(np.count_nonzero(spans >= 0))
        self.sums.copy_groups_span += int(spans[spans >= 0].sum())

    def _now(self, before: int) -> Array | int:
        """Return the multiply-adds that each lane has executed, including ``before`` of this block."""
        return self._done + before if self._more is None else self._more + (self._done + before)

    def _load(self, event: _Event) -> None:
        some = self.active.pop(event.load, None)
        if some is None:
            return
        if event.until >= 0:
            if event.until - event.before < ENOUGH:
                self.sums.waited_for += int(np.count_nonzero(some)) * event.width
            return
        pending = _Pending(event.width, some, self._now(event.before), event.registers)
        known = self._pending.get(event.load)
        if known is not None:  # of lanes on another path
            pending.since = np.where(some, pending.since, known.lanes())
            pending.by = pending.since >= 0
        self._pending[event.load] = pending

    def _use(self, load: _Pending, before: int, mask: Array | None) -> bool:
        """Record that the lanes of ``mask`` use their load. Return whether no lane is pending any more."""
        now = self._now(before)
        if mask is None and isinstance(now, int) and isinstance(load.since, int):
            if now - load.since < ENOUGH:
                self.sums.waited_for += int(np.count_nonzero(load.by)) * load.width
            return True
        since = load.lanes()
        here = since >= 0
        if mask is not None:
            here &= mask
        late = here & (now - since < ENOUGH)
        self.sums.waited_for += int(np.count_nonzero(late)) * load.width
        load.since = np.where(here, -1, since)
        load.by = load.since >= 0
        return not load.by.any()


def events_of(code: Sequence[Decoded], loads: Callable[[Decoded], int], hides: Sequence[int]) -> BlockEvents:
    """Return the events of straight-line code.

    ``loads``: bytes that an instruction loads per lane from global memory. ``hides``: by index of an instruction, the
    multiply-adds that take as long.
    """
    named = [_named(d) for d in code]
    before, total = [], 0
    for d in code:
        before.append(total)
        if d.guard is None:  # a guarded instruction may be predicated off
            total += hides[d.index]
    first_use: dict[str, int] = {}
    for names, arithmetic in zip(named, before, strict=True):
        for name in names:
            first_use.setdefault(name, arithmetic)
    events = []
    for place, d in enumerate(code):
        if d.name == "LDGSTS":
            events.append(_Event("copy", before[place], d.index, loads(d)))
        elif d.name == "LDGDEPBAR":
            events.append(_Event("commit", before[place]))
        elif d.name == "DEPBAR":
            bits = [operand.bits for operand in d.operands if isinstance(operand, MachineImmediate)]
            events.append(_Event("wait", before[place], newest=bits[0] if bits else 0))
        elif loads(d):
            filled = frozenset(filter(None, results(d)[0]))
            later = (
                before[i]
                for i in range(place + 1, len(code))
                if filled & named[i] and not _exclude_each_other(code, place, i)
            )
            events.append(_Event("load", before[place], d.index, loads(d), filled, next(later, -1)))
    return BlockEvents(tuple(events), first_use, total)


def _exclude_each_other(code: Sequence[Decoded], one: int, other: int) -> bool:
    """Return whether two instructions have opposite guards, so that no thread executes both."""
    first, second = code[one].guard, code[other].guard
    if first is None or second is None or first.shifted(0) != second.shifted(0) or first.negated == second.negated:
        return False
    return not any(first.shifted(0) in results(d)[0] for d in code[one + 1 : other])


def _named(d: Decoded) -> frozenset[str]:
    """Return every register that an instruction names, including parts of a wide operand."""
    written, count = results(d)
    names = set(written)
    width = 4 if d.name.startswith("ST") or d.name in ATOMICS else 2 if d.name[0] == "D" or d.has("64", "WIDE") else 1
    for place, operand in enumerate(d.operands[count:]):
        factor = d.has("WIDE") and place < 2  # one register each; the addend has two
        names.update(operand_registers(operand, 1 if factor else width))
    return frozenset(filter(None, names))
