"""Addresses that the lanes of a warp request, instruction by instruction, in one block of a launch.

The addresses are those of the machine code, which the counters count: ``Simulator.follow`` executes it once more and
reports every access. Executions that are equal, or shifted by a multiple of 128 bytes, are one ``Request``.

For machine code that cannot be followed, ``observe`` takes the addresses of the PTX instead.

``bank_map`` tells which bank serves which lane of a request to shared memory, and in which turn. Lanes are served in
groups that together request at most 128 bytes (``costs/banks.py``). In each group, a bank gives one word per wavefront
to all lanes that request that word; lanes that request another word wait for the next turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from gemm_lessons.engine.compiler.diagnostics import plain_name
from gemm_lessons.engine.costs import banks
from gemm_lessons.engine.costs.banks import BANKS, WORD
from gemm_lessons.engine.costs.tally import kind_of
from gemm_lessons.engine.events import WARP, Access, Batch, Boundary, Effect, LaunchInfo, Observer, Record, Touch
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.frozen import dataclass, picked
from gemm_lessons.engine.records.launch import Argument, Grid, HostVariable
from gemm_lessons.engine.simulator import Simulator

if TYPE_CHECKING:
    from gemm_lessons.engine.compiler.compile import Compiled

BLOCK = 0  # the block of the grid that is followed
PERIOD = BANKS * WORD  # bytes after which banks and sectors repeat


@dataclass(frozen=True)
class Request:
    """A request of one warp's lanes.

    ``lanes``: the byte of ``array`` at which each lane begins, None for an inactive lane; ``start``: the byte of the
    block's shared memory at which the array begins (0 for global memory). ``cost`` and ``ideal`` are wavefronts of
    shared memory, sectors of global memory. ``times``: executions by the block's warps that are equal to this one, of
    ``instructions`` machine instructions; ``text`` is the first of them.
    """

    file: str
    line: int
    space: Literal["shared", "global"]
    effect: Effect
    is_matrix: bool
    width: int  # bytes per lane
    text: str
    array: str
    start: int
    warp: int
    lanes: tuple[int | None, ...]
    cost: int
    ideal: int
    times: int = 1
    instructions: int = 1


@dataclass
class Stores:
    """Stores to global memory in order of execution: bytes and the thread that wrote them."""

    parts: list[tuple[Array, Array]] = field(default_factory=list)  # first bytes, one row for each lane; threads
    widths: list[int] = field(default_factory=list)

    def add(self, addresses: Array, active: Array, width: int) -> None:
        """Add a store; ``addresses`` and ``active`` are by warp and lane of the block."""
        threads = np.arange(addresses.size).reshape(addresses.shape)
        self.parts.append((addresses[active].copy(), threads[active]))
        self.widths.append(width)


@dataclass(frozen=True)
class Touched:
    """Accesses of the block's machine code. ``requests`` are in the order of lines; the most wasteful first."""

    requests: tuple[Request, ...]
    stores: Stores  # to global memory
    bases: Mapping[str, int]  # addresses where buffers begin


def follow(
    compiled: Compiled, grid: Grid, arguments: Sequence[Argument], symbols: Sequence[HostVariable] = ()
) -> Touched:
    """Follow block 0. Raise ``Uncountable`` when the machine code cannot be followed, and ``UnsupportedKernel``."""
    notes = _Notes()
    launch, origin = Simulator().follow(compiled, grid, arguments, range(BLOCK, BLOCK + 1), notes.watch, symbols)
    bases = {name: base for name, base, _ in launch.buffers}
    return Touched(notes.requests(launch, origin), notes.stores, bases)


def observe(
    compiled: Compiled, grid: Grid, arguments: Sequence[Argument], symbols: Sequence[HostVariable] = ()
) -> Touched:
    """Run block 0 as PTX, for machine code that cannot be followed: ptxas may merge its accesses. Raise
    ``UnsupportedKernel``."""
    observer = _PtxNotes()
    Simulator().observe(compiled, grid, arguments, observer, symbols)
    launch, notes = observer.launch, observer.notes
    return Touched(notes.requests(launch, 0), notes.stores, {name: base for name, base, _ in launch.buffers})


class _PtxNotes(Observer):
    """Notes what the first block's lanes access."""

    def begin(self, launch: LaunchInfo) -> None:
        """Remember the launch."""
        self.launch, self.notes = launch, _Notes()

    def epoch(self, batch: Batch, records: Sequence[Record], boundary: Boundary) -> None:
        """Note the accesses of the first block, if it is in this batch."""
        own = slice(batch.padded_threads)
        for record in records if batch.place == BLOCK else ():
            if not isinstance(record, Touch) or not record.access.is_counted:
                continue
            if record.access.space not in ("shared", "global"):
                continue
            base = record.bases[0] if record.bases else 0
            active = record.of_own_block(self.launch.shared_bytes)
            mine = np.ones(batch.padded_threads, np.bool_) if active is None else active[own]
            self.notes.watch(record.access, record.addresses[own] + base, mine, 0)


@dataclass
class _Seen:
    """Equal executions of one instruction."""

    access: Access
    warp: int
    lanes: tuple[int | None, ...]  # addresses as in the machine code
    cost: int
    ideal: int
    times: int = 0


@dataclass
class _Notes:
    """Collects every access in order of execution."""

    seen: dict[tuple[int, str, bytes], _Seen] = field(default_factory=dict)
    stores: Stores = field(default_factory=Stores)

    def watch(self, access: Access, addresses: Array, active: Array | None, first: int) -> None:
        """Record an access; see ``sass.Watch``. Textures are counted but not drawn: their addresses are unknown."""
        if access.space == "texture":
            return
        rows = addresses.reshape(-1, WARP)
        taking_part = np.ones(rows.shape, np.bool_) if active is None else active.reshape(-1, WARP)
        if access.space == "global" and access.effect == "store":
            self.stores.add(rows, taking_part, access.width)
        for warp, (row, mask) in enumerate(zip(rows, taking_part, strict=True)):
            if not mask.any():
                continue
            begin = int(row[mask][0])
            shape = np.where(mask, row - begin, -1 << 40)
            key = (access.index, access.space, shape.tobytes() + bytes([begin % PERIOD]))
            found = self.seen.get(key)
            if found is None:
                lanes = tuple(int(at) if takes else None for at, takes in zip(row, mask, strict=True))
                found = self.seen[key] = _Seen(access, warp, lanes, *_cost(access, row, mask))
            found.times += 1

    def requests(self, launch: LaunchInfo, origin: int) -> tuple[Request, ...]:
        """Return the requests with the names of arrays; equal instructions of one line are merged."""
        merged: dict[tuple[object, ...], Request] = {}
        instructions: dict[tuple[object, ...], set[int]] = {}
        for one in self.seen.values():
            if one.access.line is None:
                continue
            request = _request(one, launch, origin)
            first = next(at for at in request.lanes if at is not None)
            shape = tuple(None if at is None else at - first for at in request.lanes)
            place = (request.file, request.line, request.space, request.effect, request.width, request.array)
            key = (*place, shape, request.cost)
            instructions.setdefault(key, set()).add(one.access.index)
            before = merged.get(key, replace(request, times=0))
            merged[key] = replace(before, times=before.times + request.times, instructions=len(instructions[key]))
        return tuple(sorted(merged.values(), key=lambda it: (it.file, it.line, it.ideal - it.cost, -it.times)))


def _cost(access: Access, row: Array, mask: Array) -> tuple[int, int]:
    """Return the wavefronts or sectors of one warp's access, and their ideal number."""
    rows, active = row[None, :], None if mask.all() else mask[None, :]
    if access.space == "shared":
        cost, ideal = banks.wavefronts(rows, active, access.width, kind_of(access))
    else:
        cost = banks.sectors(rows, active, access.width)
        ideal = banks.ideal_sectors(np.array([np.count_nonzero(mask)]), access.width)
    return int(cost[0]), int(ideal[0])


def _request(one: _Seen, launch: LaunchInfo, origin: int) -> Request:
    access = one.access
    first = next(at for at in one.lanes if at is not None)
    if access.space == "shared":
        inside = (it for it in launch.shared_arrays if it.offset <= first - origin < it.offset + it.size)
        array = next(inside, None)
        name, start, base = (plain_name(array.name), array.offset, origin + array.offset) if array else ("", 0, origin)
    else:
        nearest = min(launch.buffers, key=lambda it: max(it[1] - first, first - it[1] - it[2] + 1, 0), default=None)
        name, base = (nearest[0], nearest[1]) if nearest else ("", 0)
        start = 0
    assert access.line is not None
    return Request(
        **picked(access, "file line effect is_matrix width text"),
        **picked(one, "warp cost ideal times"),
        space="shared" if access.space == "shared" else "global",
        array=name,
        start=start,
        lanes=tuple(None if at is None else at - base for at in one.lanes),
    )


@dataclass(frozen=True)
class Cell:
    """One word that a lane requests. ``turn`` numbers, from 1, the different words that the group requests from this
    bank; ``again``: an earlier lane requested the same word, and one access serves both lanes."""

    bank: int
    turn: int
    again: bool


@dataclass(frozen=True)
class BankMap:
    """Cells by lane (none for an inactive lane). ``group``: lanes that are served together; ``turns``: by group."""

    lanes: tuple[tuple[Cell, ...], ...]
    group: int
    turns: tuple[int, ...]

    @property
    def joined(self) -> int:
        """Return the wavefronts if neighbouring groups could not share one: the sum of all turns."""
        return sum(self.turns)


def bank_map(request: Request) -> BankMap:
    """Return the map of a request to shared memory."""
    words = max(1, request.width // WORD)
    group = max(1, min(WARP, WARP // words))
    lanes: list[tuple[Cell, ...]] = []
    turns = []
    for first in range(0, WARP, group):
        wanted: list[list[int]] = [[] for _ in range(BANKS)]
        for at in request.lanes[first : first + group]:
            cells = []
            for word in range(words) if at is not None else ():
                assert at is not None
                place = (request.start + at) // WORD + word
                there = wanted[place % BANKS]
                again = place in there and request.effect != "atomic"
                if not again:
                    there.append(place)
                turn = there.index(place) + 1 if again else len(there)
                cells.append(Cell(place % BANKS, turn, again))
            lanes.append(tuple(cells))
        turns.append(max(map(len, wanted)))
    return BankMap(tuple(lanes), group, tuple(turns))
