"""Barriers of a block: ``bar.sync``, ``bar.arrive``, ``bar.red`` (``__syncthreads_count/_and/_or``), numbered 0 to 15.

A thread that arrives either waits (sync, red) or only signals (arrive). A barrier completes when every living thread
of the block has arrived or, with a thread count, when that many threads have arrived; ended threads count as arrived
with their warp. Measured on an H200: a thread count that is not a multiple of 32 is an illegal instruction; a barrier
hangs if fewer threads arrive than it expects; a barrier that only the living threads reach, in any order, completes.
Irregular arrivals (part of a warp, ended threads, two instructions) are recorded for the checkers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np

from gemm_lessons.engine.events import WARP, Barrier, Irregular
from gemm_lessons.engine.machine.clusters import ClusterBarriers, check
from gemm_lessons.engine.machine.register_pool import RegisterPool
from gemm_lessons.engine.machine.state import Fault, State, coordinates
from gemm_lessons.engine.ptx import cfg
from gemm_lessons.engine.ptx.cfg import line_of
from gemm_lessons.engine.ptx.records import Immediate, Instruction, Kernel, Operand, PredicatePair, Register
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.errors import UnsupportedKernel
from gemm_lessons.engine.records.facts import AtBarrier, NamedBarrier
from gemm_lessons.engine.records.frozen import dataclass

COUNT = 16  # barriers per block
OF_CLUSTER, OF_REGISTERS = -1, -2  # instead of a thread count: the barrier of the cluster, the pool of registers


def is_plain(instruction: Instruction) -> bool:
    """Return whether the instruction is ``__syncthreads()``: barrier 0 for the whole block."""
    return (
        cfg.is_barrier(instruction)
        and not {"red", "arrive"} & set(instruction.modifiers)
        and len(instruction.operands) == 1
        and instruction.operands[0] == Immediate(0)
    )


@dataclass(frozen=True)
class _Spec:
    """A decoded barrier instruction. ``number``, ``threads`` (0: the whole block) and ``vote`` are scalars or rows of
    lanes. ``operand``: the number as written."""

    instruction: Instruction
    waits: bool
    operand: str
    number: Any
    threads: Any
    vote: Array | None = None
    negated: bool = False
    combine: Literal["popc", "and", "or", ""] = ""
    target: Array | None = None


def _threads_that_count(lanes: Array, alive: Array) -> Array:
    """Return, per warp, the threads that count as arrived once ``lanes`` have: ended threads of their warps, too."""
    warps = lanes.reshape(-1, WARP)
    missing = (alive.reshape(-1, WARP) & ~warps).sum(axis=1)
    return np.where(warps.any(axis=1), WARP - missing, 0)


class Barriers:
    """The lanes that wait at barriers in the current batch. ``waiting``: bool (lanes,)."""

    def __init__(self, state: State, kernel: Kernel, registers: int) -> None:
        self.state = state
        self.pool = RegisterPool(state, kernel, registers)
        self._specs = {i.index: self._spec(i) for i in cfg.acting(kernel) if cfg.is_barrier(i)}
        self.of_clusters = {i.index: i for i in cfg.acting(kernel) if cfg.is_cluster_barrier(i)}
        for instruction in self.of_clusters.values():
            check(instruction)
        self._clusters = ClusterBarriers(state)
        self.begin()

    def begin(self) -> None:
        """Reset for a new batch."""
        lanes = self.state.lanes
        self._clusters.begin()
        self.pool.begin()
        self.waiting = np.zeros(lanes, np.bool_)
        self._signals: dict[int, Array] = {}  # barrier number -> threads that have signalled, per block
        self._at = np.full(lanes, -1, np.int32)  # instruction at which each lane arrived last
        self._number = np.full(lanes, -1, np.int32)
        self._threads = np.zeros(lanes, np.int64)
        self._arrival = np.zeros(lanes, np.int64)  # lanes that arrived together have the same number
        self._arrivals = 0
        self._noted: set[int] = set()  # barriers whose ended threads were recorded
        self._used: dict[tuple[str, int], Array] = {}  # operand and number of the barrier -> lanes that arrived by it

    # -- decoding -----------------------------------------------------------------------------------------------------

    def _spec(self, instruction: Instruction) -> _Spec:
        operands = list(instruction.operands)
        modifiers = instruction.modifiers
        if "red" not in modifiers:
            number, threads = (*operands, Immediate(0))[:2] if operands else (Immediate(0), Immediate(0))
            waits, values = "arrive" not in modifiers, (self._value(number), self._value(threads))
            return _Spec(instruction, waits, str(number), *values)
        combine = next((word for word in ("popc", "and", "or") if word in modifiers), None)
        target, number, *middle, vote = operands
        predicate = vote.first if isinstance(vote, PredicatePair) else vote
        if combine is None or not isinstance(target, Register) or not isinstance(predicate, Register):
            raise UnsupportedKernel(f"unsupported PTX: {instruction.text}", line_of(instruction))
        return _Spec(
            instruction,
            True,
            str(number),
            self._value(number),
            self._value(middle[0]) if middle else 0,
            self.state.row(predicate.name, "pred"),
            isinstance(vote, PredicatePair) and vote.negated,
            combine,
            self.state.row(target.name, "u32" if combine == "popc" else "pred"),
        )

    def _value(self, operand: Operand) -> Any:
        if isinstance(operand, Immediate):
            return operand.value
        if isinstance(operand, Register):
            return self.state.row(operand.name, "u32")
        raise UnsupportedKernel(f"barrier operand not supported: {operand}")

    # -- arriving -----------------------------------------------------------------------------------------------------

    def arrive(self, barrier: Instruction, lanes: Array, alive: Array) -> None:
        """Let ``lanes`` execute ``barrier``. Lanes that wait stay in ``waiting`` until ``release``. Raise ``Fault``."""
        state = self.state
        if barrier.index in self.of_clusters:
            self._wait(barrier, self._clusters.execute(barrier, lanes), -1, OF_CLUSTER)
            return
        if barrier.index in self.pool.requests:
            self._wait(barrier, self.pool.execute(barrier, lanes), -1, OF_REGISTERS)
            return
        spec = self._specs[barrier.index]
        number = np.broadcast_to(spec.number, (state.lanes,))
        threads = np.broadcast_to(spec.threads, (state.lanes,)).astype(np.int64)
        wrong = lanes & ((number >= COUNT) | (threads % WARP != 0))
        if wrong.any():
            lane = int(np.flatnonzero(wrong)[0])
            facts = NamedBarrier(int(number[lane]), int(threads[lane]))
            raise Fault("barrier_count", "number", barrier, state.actor(lane, barrier), facts)
        for one in np.unique(number[lanes]).tolist():
            used = self._used.setdefault((spec.operand, one), np.zeros(state.lanes, np.bool_))
            used |= lanes & (number == one)
        if not spec.waits:
            self._signal(barrier, lanes, number, alive)
            return
        self._wait(barrier, lanes, number[lanes], threads[lanes])

    def _wait(self, barrier: Instruction, lanes: Array, number: Any, threads: Any) -> None:
        self.waiting |= lanes
        self._at[lanes] = barrier.index
        self._number[lanes] = number
        self._threads[lanes] = threads
        self._arrivals += 1
        self._arrival[lanes] = self._arrivals

    def _irregular(
        self, kind: Literal["divergent", "ended", "places", "counts"], lanes: Array, others: Array,
        barrier: Instruction, other: Instruction | None = None,
    ) -> None:  # fmt: skip
        file = barrier.source.file if barrier.source else ""
        place = line_of(other) if other is not None else None
        self.state.trace.append(Irregular(kind, lanes, others, line_of(barrier), place, file))

    def _signal(self, barrier: Instruction, lanes: Array, number: Array, alive: Array) -> None:
        for one in np.unique(number[lanes]).tolist():
            mine = lanes & (number == one)
            signals = self._signals.setdefault(one, np.zeros(self.state.blocks, np.int64))
            signals += _threads_that_count(mine, alive).reshape(self.state.blocks, -1).sum(axis=1)
            self.state.trace.append(Barrier("arrive", None, mine, line_of(barrier), one))

    def note_ended(self, barrier: Instruction, lanes: Array, alive: Array) -> None:
        """Record, once per barrier and batch, that threads of the waiting blocks have ended."""
        if barrier.index in self._noted:
            return
        state = self.state
        waiting = np.repeat(lanes.reshape(state.blocks, -1).any(axis=1), state.padded)
        ended = waiting & state.exists & ~alive
        if ended.any():
            self._noted.add(barrier.index)
            concerned = np.repeat(ended.reshape(state.blocks, -1).any(axis=1), state.padded)
            self._irregular("ended", lanes & concerned, ended, barrier)

    # -- releasing ----------------------------------------------------------------------------------------------------

    def release(self, alive: Array, hand_over: Callable[[], None]) -> bool:
        """Release all lanes whose barrier is complete. Return False if no barrier is. Call ``hand_over`` if every block
        completed; otherwise append a ``Barrier`` record to the trace."""
        state = self.state
        if self.of_clusters and self._release_clusters(alive):
            return True
        if self.pool.requests and self._release_registers():
            return True
        kernel_wide = self._whole_blocks(alive)
        if kernel_wide.any():
            released = np.repeat(kernel_wide, state.padded) & self.waiting
            first = self._specs[int(self._at[released.argmax()])].instruction
            if not self._record_divergence(released):
                self._record_places(released)
            self.note_ended(first, released, alive)
            self._combine(released)
            if (kernel_wide == alive.reshape(state.blocks, -1).any(axis=1)).all():
                hand_over()
            else:
                state.trace.append(Barrier("block", kernel_wide.copy(), None, line_of(first)))
            self.waiting &= ~released
            return True
        return self._release_counted(alive)

    def _release_clusters(self, alive: Array) -> bool:
        waiting = self.waiting & (self._threads == OF_CLUSTER)
        if not waiting.any():
            return False
        first = self.of_clusters[int(self._at[waiting.argmax()])]
        released = self._clusters.complete(waiting, alive, line_of(first))
        self.waiting &= ~released
        return bool(released.any())

    def _release_registers(self) -> bool:
        waiting = self.waiting & (self._threads == OF_REGISTERS)
        granted = self.pool.grant(waiting, self._at)
        self.waiting &= ~granted
        return bool(granted.any())

    def _whole_blocks(self, alive: Array) -> Array:
        """Return the mask of blocks whose living threads all reached one barrier that expects the whole block."""
        state = self.state
        here = (self.waiting & (self._threads == 0)).reshape(state.blocks, -1)
        living = alive.reshape(state.blocks, -1)
        number = self._number.reshape(state.blocks, -1)
        low = np.where(living, number, COUNT).min(axis=1)
        high = np.where(living, number, -1).max(axis=1)
        some = self.waiting.reshape(state.blocks, -1).any(axis=1)
        complete: Array = ((here & living) == living).all(axis=1) & some & (low == high)
        return complete

    def _release_counted(self, alive: Array) -> bool:
        """Release barriers with a thread count, by block and number. Blocks at the same barrier share one."""
        state = self.state
        met: dict[tuple[int, int | None], Array] = {}
        keys = np.unique((state.lane_block * COUNT + self._number)[self.waiting & (self._threads > 0)])
        for key in keys.tolist():
            block, number = divmod(key, COUNT)
            here = (state.lane_block == block) & self.waiting & (self._number == number) & (self._threads > 0)
            need = int(self._threads[here.argmax()])
            first = self._specs[int(self._at[here.argmax()])].instruction
            if (self._threads[here] != need).any():
                self._irregular("counts", here, here & (self._threads != need), first)
            # Count signals first, then whole warps in order until the count is reached.
            signals = self._signals.get(number)
            signalled = 0 if signals is None else int(signals[block])
            total = np.cumsum(_threads_that_count(here, alive)) + signalled
            reached = np.flatnonzero((total >= need) & here.reshape(-1, WARP).any(axis=1))
            if not reached.size or (total[reached[0]] > need and not signalled):
                continue
            waiting = here & np.repeat(np.arange(state.warps) <= reached[0], WARP)
            if signals is not None:
                signals[block] -= need - (total[reached[0]] - signalled)
            self._record_divergence(waiting)
            self._combine(waiting)
            place = number, line_of(first)
            met[place] = met[place] | waiting if place in met else waiting
            self.waiting &= ~waiting
        state.trace += [Barrier("named", None, lanes, line, number) for (number, line), lanes in met.items()]
        return bool(met)

    def _combine(self, released: Array) -> None:
        """Combine the votes of each block for ``bar.red`` and write the result to every thread's register."""
        state = self.state
        places = [self._specs[int(index)] for index in np.unique(self._at[released])]
        if not any(spec.combine for spec in places):
            return
        votes = np.zeros(state.lanes, np.bool_)
        for spec in places:
            here = released & (self._at == spec.instruction.index)
            if spec.vote is not None:
                votes[here] = spec.vote[here] != spec.negated
        yes = (votes & released).reshape(state.blocks, -1).sum(axis=1)
        all_of = released.reshape(state.blocks, -1).sum(axis=1)
        for spec in places:
            if spec.target is None:
                continue
            result = {"popc": yes, "and": yes == all_of, "or": yes > 0}[spec.combine]
            here = released & (self._at == spec.instruction.index)
            np.copyto(spec.target, np.repeat(result, state.padded).astype(spec.target.dtype), where=here)
            target = spec.instruction.operands[0]
            if isinstance(target, Register) and target.name in state.versions:
                state.versions[target.name] += 1

    def _record_divergence(self, released: Array) -> bool:
        """Record a warp whose threads arrived in several parts at different barriers. Return whether there is one.

        At one barrier, parts of a warp meet before it: ptxas puts WARPSYNC.ALL there."""
        state = self.state
        came = np.where(released, self._arrival, -1).reshape(-1, WARP)
        last = came.max(axis=1)
        at = self._at.reshape(-1, WARP)
        there = np.where(came == last[:, None], at, -1).max(axis=1)
        split = ((came != last[:, None]) & (came >= 0) & (at != there[:, None])).any(axis=1)
        if not split.any():
            return False
        warp = slice(int(split.argmax()) * WARP, int(split.argmax() + 1) * WARP)
        late = released & (self._arrival == last[int(split.argmax())])
        early = released & ~late
        inside = np.zeros(state.lanes, np.bool_)
        inside[warp] = True
        first = self._specs[int(self._at[(early & inside).argmax()])].instruction
        second = self._specs[int(self._at[(late & inside).argmax()])].instruction
        if first.index not in state.noted:
            state.noted.add(first.index)
            self._irregular("divergent", early & inside, late & inside, first, second)
        return True

    def _record_places(self, released: Array) -> None:
        """Record threads of a block that completed a ``__syncthreads()`` (barrier 0) at different instructions."""
        state = self.state
        at = np.where(released, self._at, -1).reshape(state.blocks, -1)
        high = at.max(axis=1)
        other = released & (self._at != np.repeat(high, state.padded)) & (self._number == 0)
        if other.any():
            block = int(state.lane_block[other.argmax()])
            mine = (state.lane_block == block) & released
            rest = mine & other
            first = self._specs[int(high[block])].instruction
            second = self._specs[int(self._at[rest.argmax()])].instruction
            self._irregular("places", mine & ~other, rest, first, second)

    # -- deadlock -----------------------------------------------------------------------------------------------------

    def place(self, lane: int) -> int:
        """Return the instruction at which a lane waits."""
        return int(self._at[lane])

    def waiting_at_barriers(self, lanes: Array) -> Iterator[tuple[Array, int, int, int]]:
        """Yield the lanes that wait at barriers in the blocks of ``lanes`` (n,), by block, instruction and number:
        waiting lanes, instruction, number of the barrier, threads that it expects (0: the whole block)."""
        for block in np.unique(lanes // self.state.padded).tolist():
            waiting = self.waiting & (self.state.lane_block == block) & (self._threads >= 0)
            for here, index, number in self._places(waiting):
                yield np.flatnonzero(here), index, number, int(self._threads[here.argmax()])

    def _places(self, waiting: Array) -> Iterator[tuple[Array, int, int]]:
        """Yield the ``waiting`` lanes by instruction and number of the barrier, with both."""
        for index, number in np.unique(np.stack((self._at, self._number))[:, waiting], axis=1).T.tolist():
            yield waiting & (self._at == index) & (self._number == number), index, number

    def at_clusters(self, lanes: Array) -> Iterator[tuple[Array, int]]:
        """Yield lanes that wait for their cluster's barrier in the blocks of ``lanes``, and the instruction."""
        for block in np.unique(lanes // self.state.padded).tolist():
            waiting = self.waiting & (self.state.lane_block == block) & (self._threads == OF_CLUSTER)
            for here, index, _ in self._places(waiting):
                yield np.flatnonzero(here), index

    def waiting_for_registers(self, lanes: Array) -> Iterator[tuple[Array, int]]:
        """Yield the lanes among ``lanes`` (n,) that wait for registers, by instruction."""
        waiting = lanes[self.waiting[lanes] & (self._threads[lanes] == OF_REGISTERS)]
        for index in np.unique(self._at[waiting]).tolist():
            yield waiting[self._at[waiting] == index], index

    def signalled(self, block: int, number: int) -> int:
        """Return how many threads of a block have arrived at a barrier without waiting."""
        signals = self._signals.get(number)
        return 0 if signals is None else int(signals[block])

    def met(self, number: int, lanes: Array) -> Array:
        """Return which of ``lanes`` (n,) waited last at the barrier of this number."""
        met: Array = (self._at[lanes] >= 0) & (self._number[lanes] == number)
        return met

    def arriving_instructions(self, number: int, lanes: Array, unknown: bool = True) -> frozenset[int]:
        """Return the instructions by which ``lanes`` (n,) arrive at the barrier of this number, or may do so. A
        register that held only other numbers for these lanes is assumed not to hold this one. ``unknown``: a register
        that held none yet may hold it."""
        found = set()
        for index, spec in self._specs.items():
            used = [one for (operand, one), by in self._used.items() if operand == spec.operand and by[lanes].any()]
            may_be = number in used or (unknown and not used)
            if spec.number == number if isinstance(spec.number, int) else may_be:
                found.add(index)
        return frozenset(found)

    def users(self, number: int, lanes: Array) -> Array:
        """Return those of ``lanes`` (n,) that have arrived at the barrier of this number."""
        used = [by[lanes] for (_, one), by in self._used.items() if one == number]
        return lanes[np.any(used, axis=0)] if used else lanes[:0]

    def described(self, lanes: Array, line_of: Callable[[int], int | None]) -> Iterator[AtBarrier]:
        """Yield descriptions of the threads that wait at barriers in the blocks of ``lanes`` (n,), block by block, and
        of how many threads of each block have ended. ``line_of``: instruction -> the line to name."""
        state = self.state
        for block in np.unique(lanes // state.padded).tolist():
            own = state.lane_block == block
            waiting = self.waiting & own
            of_block = coordinates(int(state.block_numbers[block]), state.grid.grid) if state.cluster > 1 else ()
            for here, index, number in self._places(waiting):
                first, count = int(here.argmax()), int(np.count_nonzero(here))
                case = "waiting cluster" if index in self.of_clusters else "waiting here"
                if index in self.pool.requests:
                    case, number = "waiting registers", self.pool.wanted(index)
                expected = max(0, int(self._threads[first])) or None
                yield AtBarrier(case, count, state.threads, number, line_of(index), expected, block=of_block)
            ended = int(np.count_nonzero(own & state.exists & ~state.alive))
            if ended and waiting.any():
                yield AtBarrier("waiting ended", ended=ended)
