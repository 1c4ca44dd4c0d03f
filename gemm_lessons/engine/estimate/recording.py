"""Record ``timeline``'s simulation: the state of every warp at each clock, and the instruction for which it waits.

    Trace --_Recorder (a Multiprocessor that records)--> Recording: states by warp, loads in flight, hand-overs

Between two instructions a warp first waits for its previous arithmetic (``fixed``, as ptxas encoded), then for
results or a barrier, then until its unit is free (``math`` of arithmetic, ``queue`` of accesses to memory), then until
its scheduler selects it (``turn``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from gemm_lessons.engine.estimate.items import ASYNCHRONOUS, GROUPS, MEMORY, TENSOR, Item, Step, Stream, streams_of
from gemm_lessons.engine.estimate.timeline import Multiprocessor, by_rank, run
from gemm_lessons.engine.hardware.sheets import GpuSpec
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.sass.operands import Decoded
from gemm_lessons.engine.sass.trace import Signal, Touch, Trace, Traffic

# global, shared, product, result: waits for a load from global or shared memory, for asynchronous products, or for
# another slow instruction.
State = Literal["issue", "fixed", "turn", "math", "queue", "global", "shared", "product", "result", "barrier"]
NOTHING = -1
OTHER_BLOCK = -1  # instead of a warp


@dataclass(frozen=True)
class StateSpan:
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
class LoadInFlight:
    """A load from global memory, or a copy of a box, in flight."""

    warp: int
    start: float
    end: float
    place: int


@dataclass(frozen=True)
class UnitWork:
    """A unit works for ``warp`` while the warp continues: a tensor core multiplies, or TMA copies a box. ``barrier``:
    the address of the mbarrier that the copy reports to."""

    unit: Literal["tensor", "box", "box out"]
    warp: int
    start: float
    end: float
    place: int
    barrier: int = NOTHING


@dataclass(frozen=True)
class HandOver:
    """A phase of the mbarrier at address ``barrier`` completes at clock ``over``, and ``warp`` passes its wait for it
    at ``passed``. The wait began at ``asked``, in instruction ``place``.

    ``giver`` completes the phase by instruction ``given``: a warp that arrives or, for a ``copy``, the warp that issued
    it. ``OTHER_BLOCK``: a warp of another block of the cluster, by an instruction that is not recorded.
    """

    barrier: int
    over: float
    giver: int
    given: int
    copy: bool
    warp: int
    asked: float
    passed: float
    place: int


@dataclass(frozen=True)
class Recording:
    """A simulation from the launch to the last instruction. Warps are numbered block by block.

    The states are in the order of their ends, those of one warp without gaps. ``cut``: without most iterations of a
    long loop.
    """

    code: tuple[Decoded, ...]
    clocks: float
    warps: int
    warps_per_block: int
    schedulers: int
    spans: tuple[StateSpan, ...]
    flights: tuple[LoadInFlight, ...]
    work: tuple[UnitWork, ...] = ()
    hand_overs: tuple[HandOver, ...] = ()
    cut: bool = False


def record(trace: Trace, blocks: int, gpu: GpuSpec, asked: float = 0.0) -> Recording:
    """Simulate the first ``blocks`` of a trace and record the states; of a cluster, those of its first block."""
    ranks = by_rank(streams_of(trace, blocks * trace.cluster, gpu), trace)
    recorder, *others = [_Recorder(streams, trace.warps_per_block, gpu, asked) for streams in ranks]
    played = run([recorder, *others])
    streams = ranks[0]
    return Recording(
        trace.code,
        played.clocks,
        len(streams),
        trace.warps_per_block,
        gpu.schedulers,
        tuple(recorder.spans),
        tuple(recorder.flights),
        tuple(recorder.work),
        tuple(recorder.hand_overs),
    )


@dataclass
class _Wait:
    """The waits of a warp's next instruction: until ``free`` for the arithmetic, until ``ready`` for ``state``."""

    free: float = 0.0
    ready: float = 0.0
    state: State = "result"
    cause: int = NOTHING


class _Recorder(Multiprocessor):
    """Records the effects of each step of the simulation, without changing them."""

    def __init__(
        self, streams: Sequence[tuple[Stream, Sequence[Step]]], warps_per_block: int, gpu: GpuSpec, asked: float
    ) -> None:
        super().__init__([stream.of(warp) for stream, warp in streams], warps_per_block, gpu, asked=asked)
        self.spans: list[StateSpan] = []
        self.flights: list[LoadInFlight] = []
        self.work: list[UnitWork] = []
        self.hand_overs: list[HandOver] = []
        count = len(streams)
        self._paths = [[index for index, _ in warp] for _, warp in streams]
        self._starts = [stream.places for stream, _ in streams]
        self._written = [0.0] * count  # end of a warp's last recorded state
        self._waits = [_Wait() for _ in range(count)]
        # For each entry of a scoreboard: the instruction that made it, and the state of a warp that waits for it.
        self._makers: list[list[list[tuple[int, State]]]] = [[[] for _ in range(GROUPS + 1)] for _ in range(count)]
        self._acting: dict[int, tuple[int, Item, Touch | None]] = {}
        self._meeting: dict[int, int] = {}  # warps that wait at a barrier -> the instruction there
        self._now = (0, 0.0)
        # Of this multiprocessor: the warp and instruction that execute now, None while another one executes.
        self._issuing: tuple[int, int] | None = None
        # By mbarrier: the last arrival of the current phase (clock, warp, instruction), and the last copy to it.
        self._arrivals: dict[tuple[int, int], tuple[float, int, int]] = {}
        self._copies: dict[tuple[int, int], tuple[int, int]] = {}
        # The complete phases: the clock, the warp and instruction that completed it, whether by a copy.
        self._phases: dict[tuple[int, int], list[tuple[float, tuple[int, int], bool]]] = {}

    def _place(self, warp: int, at: int) -> int:
        """Return the first instruction of item ``at`` of the warp."""
        starts = self._starts[warp]
        return self._paths[warp][starts[at]] if at < len(starts) else NOTHING

    def _write(self, warp: int, end: float, state: State, place: int, cause: int = NOTHING) -> None:
        start = self._written[warp]
        if end > start:
            self.spans.append(StateSpan(warp, start, end, state, place, cause))
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
        """Note the instruction, and the state of a waiting warp, for each new entry of the warp's scoreboards."""
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
        """Return the state and the cause of the longest wait of the warp's next item."""
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

    def execute(self, time: float, scheduler: int, warp: int) -> bool:
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
        self._issuing = warp, place
        free = self.units[scheduler][TENSOR]
        released = super().execute(time, scheduler, warp)
        if item.unit == ASYNCHRONOUS:
            self.work.append(UnitWork("tensor", warp, max(free, time), self.units[scheduler][TENSOR], place))
        self._issuing = None
        return released

    def _signalled(self, item: Item, signal: Signal, time: float, warp: int) -> bool:
        key = warp // self.warps_per_block, signal.barrier
        if signal.kind == "awaited" and key in self.phases:
            over = self.phases[key].since(signal.parity, time)
            if over is not None:
                self._handed(key, over, warp, time, max(time, over))
        return super()._signalled(item, signal, time, warp)

    def _wake(self, key: tuple[int, int]) -> bool:
        over = self.phases[key].over
        arrival = self._arrivals.pop(key, None)
        copy = self._copies.pop(key, None)
        if copy is not None and (arrival is None or arrival[0] < over):
            self._phases.setdefault(key, []).append((over, copy, True))
        elif arrival is not None:
            self._phases.setdefault(key, []).append((over, arrival[1:], False))
        for warp, _, after in self.asleep.get(key, ()):
            self._handed(key, over, warp, self._written[warp], max(after, over))
        return super()._wake(key)

    def _handed(self, key: tuple[int, int], over: float, warp: int, asked: float, passed: float) -> None:
        """Record that the warp has waited for the phase that completed at ``over``; not for the phase before the first,
        which nothing completes."""
        completed = next((it for it in reversed(self._phases.get(key, ())) if it[0] == over), None)
        if completed is not None:
            _, (giver, given), copy = completed
            place = self._acting[warp][0]
            self.hand_overs.append(HandOver(key[1], over, giver, given, copy, warp, asked, passed, place))

    def arrived(self, key: tuple[int, int], threads: int, announced: int, time: float) -> bool:
        """Record the last arrival."""
        if key not in self._arrivals or self._arrivals[key][0] <= time:
            self._arrivals[key] = time, *(self._issuing or (OTHER_BLOCK, NOTHING))
        return super().arrived(key, threads, announced, time)

    def received(self, key: tuple[int, int], count: int, time: float) -> bool:
        """Record the copy whose bytes arrive."""
        self._copies[key] = self._issuing or (OTHER_BLOCK, NOTHING)
        return super().received(key, count, time)

    def brought(self, key: tuple[int, int], box: Traffic, time: float, latency: float) -> bool:
        """Record the TMA's work on a box."""
        warp, place = self._issuing or (OTHER_BLOCK, NOTHING)
        woken = super().brought(key, box, time, latency)
        self.work.append(UnitWork("box", warp, time, self.port + latency, place, key[1]))
        return woken

    def _copied_out(self, box: Touch | None, time: float, scheduler: int, warp: int) -> None:
        super()._copied_out(box, time, scheduler, warp)
        self.work.append(UnitWork("box out", warp, time, self.read_out[warp], self._acting[warp][0]))

    def _arrive(self, warp: int, time: float, after: float, named: Signal | None = None) -> bool:
        self._meeting[warp] = self._acting[warp][0]
        return super()._arrive(warp, time, after, named)

    def _meet_cluster(self, warp: int, after: float) -> None:
        self._meeting[warp] = self._acting[warp][0]
        super()._meet_cluster(warp, after)

    def _copied(self, box: Traffic, barrier: int, time: float, scheduler: int, warp: int) -> bool:
        released = super()._copied(box, barrier, time, scheduler, warp)
        self.flights.append(LoadInFlight(warp, time, self.port + self.box, self._acting[warp][0]))
        return released

    def _fetched(self, touch: Traffic, start: float) -> float:
        done = super()._fetched(touch, start)
        if touch.load:
            warp, time = self._now
            self.flights.append(LoadInFlight(warp, time, done, self._acting[warp][0]))
        return done


def _state_of(item: Item, touch: Touch | None) -> State:
    if isinstance(touch, Signal):
        return "barrier"
    if item.unit == ASYNCHRONOUS:
        return "product"
    if item.name == "LDGDEPBAR":  # the copies before it, which bypass the registers
        return "global"
    if touch is None or touch.space == "local":
        return "result"
    return "global" if touch.space == "global" else "shared"
