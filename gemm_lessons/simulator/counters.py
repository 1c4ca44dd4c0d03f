"""Counts what a launch did: an observer of the PTX machine that turns touches into ``device.Counters``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gemm_lessons.device import METRICS, Conflict, Counters, LineCount
from gemm_lessons.simulator import banks
from gemm_lessons.simulator.events import WARP, Access, Barrier, Batch, Boundary, Launch, Record, SharedArray, Touch

if TYPE_CHECKING:
    from gemm_lessons.compiler import Compiled

Array = NDArray[Any]
KEY = "counters"
VECTOR = 16  # bytes per lane of a 128-bit access


@dataclass(frozen=True)
class Shot:
    """What one touch costs, all its warps together. ``cost`` and ``ideal``: wavefronts (shared) or sectors (global)."""

    warps: int
    lanes: int
    cost: int
    ideal: int
    worst: tuple[int, int] = (0, 0)  # warp with the most excess wavefronts, and its excess


def shot(access: Access, addresses: Array, active: Array | None) -> Shot:
    """Analyse one execution of a memory instruction. ``addresses`` and ``active`` hold whole warps, flat."""
    rows = addresses.reshape(-1, WARP)
    mask = None if active is None else active.reshape(-1, WARP)
    if mask is not None:
        some = mask.any(axis=1)
        if not some.all():
            where = np.flatnonzero(some)
            if len(where) == 0:
                return Shot(0, 0, 0, 0)
            rows, mask = rows[where], mask[where]
        else:
            where = None
    else:
        where = None
    lanes = rows.size if mask is None else int(np.count_nonzero(mask))
    if access.space == "shared":
        cost, ideal = banks.wavefronts(rows, mask, access.width, access.effect == "store")
        excess = cost - ideal
        warp = int(excess.argmax())
        worst = (warp if where is None else int(where[warp]), int(excess[warp]))
        return Shot(len(rows), lanes, int(cost.sum()), int(ideal.sum()), worst)
    taking_part = np.full(len(rows), WARP) if mask is None else np.count_nonzero(mask, axis=1)
    return Shot(
        len(rows),
        lanes,
        int(banks.sectors(rows, mask, access.width).sum()),
        int(banks.ideal_sectors(taking_part, access.width).sum()),
    )


@dataclass
class Tally:
    """The sums of one memory instruction over a launch, and its worst touch."""

    access: Access
    warps: int = 0
    lanes: int = 0
    cost: int = 0
    ideal: int = 0
    worst_excess: int = 0
    worst: tuple[Array, Array | None] | None = None  # addresses and mask of one warp

    def add(self, one: Shot, times: int, addresses: Array, active: Array | None) -> None:
        """``one`` happened ``times`` times, at these addresses (whole warps, flat)."""
        self.warps += one.warps * times
        self.lanes += one.lanes * times
        self.cost += one.cost * times
        self.ideal += one.ideal * times
        if one.worst[1] > self.worst_excess:
            lanes = slice(one.worst[0] * WARP, (one.worst[0] + 1) * WARP)
            self.worst_excess = one.worst[1]
            self.worst = (addresses[lanes].copy(), None if active is None else active[lanes].copy())


@dataclass
class Sums:
    """Everything counted so far, ready to be made into ``Counters``."""

    tallies: dict[int, Tally] = field(default_factory=dict)
    opcodes: Counter[str] = field(default_factory=Counter)
    ffma: int = 0
    barriers: int = 0
    blocks: int = 0


class CounterObserver:
    """One launch's counters, from the PTX machine's events."""

    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled
        self.sums = Sums()
        self._names: list[str] = []
        self._ffma: list[int] = []
        self._arrays: Sequence[SharedArray] = ()
        self._barriers = 0

    def begin(self, launch: Launch) -> None:
        """See ``events.Observer``, also for the three methods below."""
        self._names = [instruction.full_opcode for instruction in launch.kernel.instructions]
        self._ffma = [i for i, name in enumerate(self._names) if name.startswith("fma.") and name.endswith(".f32")]
        self._arrays = launch.shared_arrays

    def begin_batch(self, batch: Batch) -> None:
        """A new set of blocks starts."""
        self._barriers = 0

    def epoch(self, batch: Batch, records: Sequence[Record], boundary: Boundary) -> None:
        """Analyse each distinct touch once and multiply by how often it came."""
        counted = Counter(record for record in records if type(record) is Touch)
        for touch, times in counted.items():
            access = touch.access
            if access.space not in ("shared", "global"):
                continue
            one = touch.memo.get(KEY)
            if one is None:
                one = touch.memo[KEY] = shot(access, touch.addresses, touch.active)
            tally = self.sums.tallies.get(id(access))
            if tally is None:
                tally = self.sums.tallies[id(access)] = Tally(access)
            tally.add(one, times, touch.addresses, touch.active)
        self._barriers += boundary == "barrier"
        self._barriers += sum(1 for record in records if type(record) is Barrier and record.kind == "block")

    def end_batch(self, batch: Batch, executions: Array, lane_executions: Array) -> None:
        """Add the batch's opcode mix, FFMA and barriers."""
        for name, warps in zip(self._names, executions.tolist(), strict=True):
            if warps:
                self.sums.opcodes[name] += warps
        self.sums.ffma += int(lane_executions[self._ffma].sum()) if self._ffma else 0
        self.sums.barriers = max(self.sums.barriers, self._barriers)
        self.sums.blocks += batch.blocks

    def result(self) -> Counters:
        """The counters of the launch so far."""
        return counters(self.sums, self._arrays)


def counters(sums: Sums, arrays: Sequence[SharedArray]) -> Counters:
    """Sums -> totals by Nsight's names, lines, and the worst bank conflict of every line."""
    totals = dict.fromkeys(METRICS.values(), 0)
    lines: dict[tuple[str, int, str], list[int]] = {}
    for tally in sums.tallies.values():
        access = tally.access
        verb = "load" if access.effect == "load" else "store"
        _add(totals, f"{access.space}_{verb}_instructions", tally.warps)
        _add(totals, f"{access.space}_{verb}_bytes", tally.lanes * access.width)
        if access.width == VECTOR:
            _add(totals, f"{access.space}_instructions_128", tally.warps)
        if access.space == "shared":
            _add(totals, "shared_wavefronts", tally.cost)
            _add(totals, "shared_wavefronts_ideal", tally.ideal)
            _line(lines, access, "shared_wavefronts", tally.cost, tally.ideal)
            _line(lines, access, f"shared_{verb}_instructions", tally.warps, tally.warps)
        else:
            _add(totals, f"global_{verb}_requests", tally.warps)
            _add(totals, f"global_{verb}_sectors", tally.cost)
            _line(lines, access, f"global_{verb}_sectors", tally.cost, tally.ideal)
            _line(lines, access, f"global_{verb}_requests", tally.warps, tally.warps)
    _add(totals, "ffma", sums.ffma)
    _add(totals, "barriers", sums.barriers)
    _add(totals, "blocks", sums.blocks)
    _add(totals, "instructions", sum(sums.opcodes.values()))
    return Counters(
        totals=totals,
        lines=tuple(
            LineCount(line, METRICS[short], value, ideal, file)
            for (file, line, short), (value, ideal) in sorted(lines.items())
        ),
        conflicts=conflicts(sums, arrays),
        opcodes=dict(sums.opcodes.most_common()),
    )


def _add(totals: dict[str, int], short: str, value: int) -> None:
    totals[METRICS[short]] += value


def _line(lines: dict[tuple[str, int, str], list[int]], access: Access, short: str, value: int, ideal: int) -> None:
    if access.line is not None:
        entry = lines.setdefault((access.file, access.line, short), [0, 0])
        entry[0] += value
        entry[1] += ideal


def conflicts(sums: Sums, arrays: Sequence[SharedArray]) -> tuple[Conflict, ...]:
    """The worst bank conflict of each source line and direction, most wasted wavefronts first."""
    grouped: dict[tuple[str, int, bool], list[Tally]] = {}
    for tally in sums.tallies.values():
        if tally.worst is not None and tally.access.line is not None:
            key = (tally.access.file, tally.access.line, tally.access.effect != "load")
            grouped.setdefault(key, []).append(tally)
    found = [_conflict(line, store, file, tallies, arrays) for (file, line, store), tallies in grouped.items()]
    return tuple(sorted(found, key=lambda conflict: -conflict.excess_wavefronts))


def _conflict(line: int, store: bool, file: str, tallies: list[Tally], arrays: Sequence[SharedArray]) -> Conflict:
    tally = max(tallies, key=lambda one: one.worst_excess)
    assert tally.worst is not None
    addresses, active = tally.worst
    example = banks.collision(addresses, active, tally.access.width)
    first = example.addresses[0]
    return Conflict(
        line=line,
        store=store,
        width=tally.access.width,
        ways=len(example.lanes),
        bank=example.bank,
        lanes=example.lanes,
        addresses=example.addresses,
        excess_wavefronts=sum(one.cost - one.ideal for one in tallies),
        array=next((plain_name(a.name) for a in arrays if a.offset <= first < a.offset + a.size), ""),
        file=file,
    )


def plain_name(mangled: str) -> str:
    """A shared array's name as written: ``_ZZ4tileILi8EEvPKfE2As`` -> ``As``. Unmangled names stay."""
    match = re.search(r"E(\d+)(\w+?)(?:_\d+)?$", mangled) if mangled.startswith("_Z") else None
    return match[2][: int(match[1])] if match else mangled
