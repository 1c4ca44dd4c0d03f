"""Record ``timeline``'s simulation: the state of every warp at each clock, and what it waits for.

    Trace --_Recorder (a Multiprocessor that records)--> Recording: states by warp, loads in flight

Between two of its instructions a warp first waits for the arithmetic before (``fixed``, as ptxas wrote), then for
results or a barrier, then until its unit is free (``math`` of arithmetic, ``queue`` of accesses to memory), then until
its scheduler selects it (``turn``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from gemm_lessons.engine.estimate.items import GROUPS, MEMORY, Item, Step, Stream, streams_of
from gemm_lessons.engine.estimate.timeline import Multiprocessor, by_rank, run
from gemm_lessons.engine.hardware.sheets import GpuSpec
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.sass.operands import Decoded
from gemm_lessons.engine.sass.trace import Signal, Touch, Trace, Traffic

# global, shared, result: waits for a load from global or shared memory, or for another slow instruction.
State = Literal["issue", "fixed", "turn", "math", "queue", "global", "shared", "result", "barrier"]
NOTHING = -1


@dataclass(frozen=True)
class Spell:
    """``warp`` is in one state from clock ``start`` to ``end``.

    ``place``: the instruction that issues, or waits to issue; ``cause``: the one whose result it waits for (indices of
    the code, -1: none).
    """

    warp: int
    start: float
    end: float
    state: State
    place: int
    cause: int = NOTHING


@dataclass(frozen=True)
class Flight:
    """A load from global memory in flight."""

    warp: int
    start: float
    end: float
    place: int


@dataclass(frozen=True)
class Recording:
    """A simulation from the launch to the last instruction. Warps are numbered block by block.

    The states are in the order of their ends, those of one warp without gaps.
    """

    code: tuple[Decoded, ...]
    clocks: float
    warps: int
    warps_per_block: int
    schedulers: int
    spells: tuple[Spell, ...]
    flights: tuple[Flight, ...]


def record(trace: Trace, blocks: int, gpu: GpuSpec) -> Recording:
    """Simulate the first ``blocks`` of a trace and record the states; of clusters, those of the first block of each."""
    ranks = by_rank(streams_of(trace, blocks * trace.cluster, gpu), trace)
    recorder, *others = [_Recorder(streams, trace.warps_per_block, gpu) for streams in ranks]
    played = run([recorder, *others])
    streams = ranks[0]
    return Recording(
        trace.code,
        played.clocks,
        len(streams),
        trace.warps_per_block,
        gpu.schedulers,
        tuple(recorder.spells),
        tuple(recorder.flights),
    )


@dataclass
class _Wait:
    """The waits of a warp's next instruction: until ``free`` for the arithmetic, until ``ready`` for ``state``."""

    free: float = 0.0
    ready: float = 0.0
    state: State = "result"
    cause: int = NOTHING


class _Recorder(Multiprocessor):
    """Records before each step what it is about to change. It changes nothing itself."""

    def __init__(self, streams: Sequence[tuple[Stream, Sequence[Step]]], warps_per_block: int, gpu: GpuSpec) -> None:
        super().__init__([stream.of(warp) for stream, warp in streams], warps_per_block, gpu)
        self.spells: list[Spell] = []
        self.flights: list[Flight] = []
        count = len(streams)
        self._paths = [[index for index, _ in warp] for _, warp in streams]
        self._starts = [stream.places for stream, _ in streams]
        self._written = [0.0] * count  # end of a warp's last recorded state
        self._waits = [_Wait() for _ in range(count)]
        # For each entry of a scoreboard: the instruction that made it, and the state of a warp that waits for it.
        self._makers: list[list[list[tuple[int, State]]]] = [[[] for _ in range(GROUPS + 1)] for _ in range(count)]
        self._acting: dict[int, tuple[int, Item, Touch | None]] = {}
        self._meeting: dict[int, int] = {}  # warps at a barrier, and the instruction there
        self._now = (0, 0.0)

    def _place(self, warp: int, at: int) -> int:
        """Return the first instruction of item ``at`` of the warp."""
        starts = self._starts[warp]
        return self._paths[warp][starts[at]] if at < len(starts) else NOTHING

    def _write(self, warp: int, end: float, state: State, place: int, cause: int = NOTHING) -> None:
        start = self._written[warp]
        if end > start:
            self.spells.append(Spell(warp, start, end, state, place, cause))
            self._written[warp] = end

    def _ready(self, warp: int, time: float) -> float:
        self._sign(warp)
        if (barrier := self._meeting.pop(warp, None)) is not None:
            self._write(warp, time, "barrier", barrier)
        state, cause = self._awaited(warp)
        ready = super()._ready(warp, time)
        for board, makers in zip(self.boards[warp], self._makers[warp], strict=True):
            if not board:
                makers.clear()
        self._waits[warp] = _Wait(time, ready, state, cause)
        return ready

    def _sign(self, warp: int) -> None:
        """Return the newest entries of the warp's scoreboards, with their instructions."""
        if warp not in self._acting:
            return
        place, item, touch = self._acting[warp]
        for number in {item.sets, item.reads, 0} - {None}:
            assert number is not None
            board, makers = self.boards[warp][number], self._makers[warp][number]
            if len(board) > len(makers):
                state: State = "queue" if number == item.reads and number != item.sets else _state_of(item, touch)
                makers += [(place, state)] * (len(board) - len(makers))

    def _awaited(self, warp: int) -> tuple[State, int]:
        """Return the longest wait of the warp's next item."""
        stream, at = self.streams[warp], self.position[warp]
        if at >= len(stream):
            return "result", NOTHING
        item = stream[at][0]
        numbers = (*item.waits, *([item.at_most[0]] if item.at_most else ()))
        boards, makers = self.boards[warp], self._makers[warp]
        entries = [pair for number in numbers for pair in zip(boards[number], makers[number], strict=True)]
        if not entries:
            return "result", NOTHING
        place, state = max(entries, key=lambda entry: entry[0])[1]
        return state, place

    def _execute(self, time: float, scheduler: int, warp: int) -> bool:
        at = self.position[warp]
        item, touch = self.streams[warp][at]
        place, wait = self._place(warp, at), self._waits[warp]
        self._write(warp, min(wait.free, time), "fixed", place)
        self._write(warp, min(wait.ready, time), wait.state, place, wait.cause)
        unit: State = "queue" if item.unit == MEMORY else "math"
        self._write(warp, min(self.units[scheduler][item.unit], time), unit, place)
        self._write(warp, time, "turn", place)
        self._write(warp, time + item.slots, "issue", place)
        self._acting[warp] = (place, item, touch)
        self._now = (warp, time)
        return super()._execute(time, scheduler, warp)

    def _arrive(self, warp: int, time: float, after: float, named: Signal | None = None) -> bool:
        self._meeting[warp] = self._acting[warp][0]
        return super()._arrive(warp, time, after, named)

    def _meet_cluster(self, warp: int, after: float) -> None:
        self._meeting[warp] = self._acting[warp][0]
        super()._meet_cluster(warp, after)

    def _copied(self, box: Traffic, barrier: int, time: float, scheduler: int, warp: int) -> bool:
        released = super()._copied(box, barrier, time, scheduler, warp)
        self.flights.append(Flight(warp, time, self.port + self.box, self._acting[warp][0]))
        return released

    def _fetched(self, touch: Traffic, start: float) -> float:
        done = super()._fetched(touch, start)
        if touch.load:
            warp, time = self._now
            self.flights.append(Flight(warp, time, done, self._acting[warp][0]))
        return done


def _state_of(item: Item, touch: Touch | None) -> State:
    if isinstance(touch, Signal):
        return "barrier"
    if item.name == "LDGDEPBAR":  # the copies before it, which bypass the registers
        return "global"
    if touch is None:
        return "result"
    return "global" if touch.space == "global" else "shared"
