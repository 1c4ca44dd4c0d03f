"""How much of what is loaded from global memory arithmetic has a chance to hide.

A load does not stall the thread that issues it; the first instruction that names a register which it fills does, or the
wait for the group of a ``cp.async``. What a thread computes in between hides the latency. Followed along the way that
each thread takes through the machine code, so that only arithmetic counts that is executed, and every load does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from gemm_lessons.engine.costs.tally import Sums
from gemm_lessons.engine.sass.flow import ATOMICS, MATRIX, operand_registers, results
from gemm_lessons.engine.sass.operand_fetch import Array
from gemm_lessons.engine.sass.operands import Decoded, MachineImmediate

# Arithmetic, and how many floating-point operations each is.
OPERATIONS = {"FFMA": 2, "FMUL": 1, "FADD": 1, "DFMA": 2, "DMUL": 1, "DADD": 1}
ENOUGH = 128  # of such instructions hide a load: a quarter of the multiply-adds of a tile of lesson 09
# As many multiply-adds of a thread keep its warp's units busy as long: one of a tensor core takes 4 clocks or more, on
# every GPU so far.
HIDES = {**dict.fromkeys((*OPERATIONS, "IDP"), 1), **dict.fromkeys(MATRIX, 4)}


@dataclass(frozen=True)
class _Event:
    """In a stretch: a load, a commit of ``cp.async`` (``kind`` commit) or the wait for all groups but ``newest``.
    ``before``: arithmetic of the stretch up to here; ``until``: up to the first use in the same stretch, else -1."""

    kind: str
    before: int
    load: int = 0  # index of the instruction
    width: int = 0
    registers: frozenset[str] = frozenset()
    until: int = -1
    newest: int = 0


@dataclass(frozen=True)
class Passage:
    """What of a stretch matters here."""

    events: tuple[_Event, ...]
    first_use: dict[str, int]  # register -> arithmetic of the stretch before it is named
    arithmetic: int
    _known: dict[frozenset[str], int] = field(default_factory=dict)

    def before_use(self, registers: frozenset[str]) -> int:
        """Arithmetic of the stretch before any of ``registers`` is named; -1 if none is."""
        if registers not in self._known:
            places = [self.first_use[name] for name in registers if name in self.first_use]
            self._known[registers] = min(places, default=-1)
        return self._known[registers]


@dataclass
class _Pending:
    """A load that nobody has used yet, by the lanes of ``by``. ``since``: the arithmetic that they had executed then,
    one number while it is the same for all of them, else for each lane, -1 where none is."""

    width: int
    by: Array
    since: Array | int
    registers: frozenset[str] = frozenset()
    group: int = -1  # of a cp.async, once committed

    def lanes(self) -> Array:
        """``since`` of each lane."""
        return np.where(self.by, self.since, -1)


@dataclass
class Waiting:
    """Of one batch of blocks. ``active`` of a load is set, by whoever executes it, before ``follow`` is told."""

    lanes: int
    sums: Sums
    active: dict[int, Array] = field(default_factory=dict)
    _done: int = 0  # arithmetic that all lanes have executed
    _more: Array | None = None  # what each lane has executed beside
    _pending: dict[int, _Pending] = field(default_factory=dict)
    _copies: list[_Pending] = field(default_factory=list)
    _groups: int = 0

    def follow(self, passage: Passage, mask: Array | None) -> None:
        """The lanes of ``mask`` (None: all) have executed a stretch."""
        for number, load in list(self._pending.items()) if self._pending else ():
            before = passage.before_use(load.registers)
            if before >= 0 and self._use(load, before, mask):
                del self._pending[number]
        for event in passage.events:
            if event.kind == "load":
                self._load(event)
            elif event.kind == "copy":
                if (some := self.active.pop(event.load, None)) is not None:
                    self._copies.append(_Pending(event.width, some, self._now(event.before)))
            elif event.kind == "commit":
                for copy in self._copies:
                    copy.group = self._groups if copy.group < 0 else copy.group
                self._groups += 1
            else:
                ended = range(self._groups - event.newest)
                self._copies = [
                    copy for copy in self._copies if copy.group not in ended or not self._use(copy, event.before, mask)
                ]
        if mask is None:
            self._done += passage.arithmetic
        elif passage.arithmetic:
            self._more = np.zeros(self.lanes, np.int64) if self._more is None else self._more
            self._more[mask] += passage.arithmetic

    def _now(self, before: int) -> Array | int:
        """The arithmetic that each lane has executed, with ``before`` of this stretch."""
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
        if known is not None:  # of lanes that have gone another way
            pending.since = np.where(some, pending.since, known.lanes())
            pending.by = pending.since >= 0
        self._pending[event.load] = pending

    def _use(self, load: _Pending, before: int, mask: Array | None) -> bool:
        """The lanes of ``mask`` want what they loaded. Whether nobody is left."""
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


def passage_of(code: Sequence[Decoded], loads: Callable[[Decoded], int]) -> Passage:
    """Of straight-line code. ``loads``: the bytes that an instruction brings each lane from global memory, or 0."""
    named = [_named(d) for d in code]
    before, total = [], 0
    for d in code:
        before.append(total)
        if d.guard is None:  # a guarded one may be switched off
            total += HIDES.get(d.name, 0)
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
                before[i] for i in range(place + 1, len(code)) if filled & named[i] and not _instead(code, place, i)
            )
            events.append(_Event("load", before[place], d.index, loads(d), filled, next(later, -1)))
    return Passage(tuple(events), first_use, total)


def _instead(code: Sequence[Decoded], one: int, other: int) -> bool:
    """Whether two instructions stand under opposite guards, so that no thread executes both."""
    first, second = code[one].guard, code[other].guard
    if first is None or second is None or first.shifted(0) != second.shifted(0) or first.negated == second.negated:
        return False
    return not any(first.shifted(0) in results(d)[0] for d in code[one + 1 : other])


def _named(d: Decoded) -> frozenset[str]:
    """Every register that an instruction names, also as a part of a wide operand."""
    written, count = results(d)
    names = set(written)
    width = 4 if d.name.startswith("ST") or d.name in ATOMICS else 2 if d.name[0] == "D" or d.has("64", "WIDE") else 1
    for operand in d.operands[count:]:
        names.update(operand_registers(operand, width))
    return frozenset(filter(None, names))
