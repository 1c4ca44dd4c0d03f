"""Threads that spin until another thread changes memory: a lock, a flag, the preceding block.

The machine runs the lanes at the smallest basic block first, so a spinning lane would starve the lane that it waits
for. A batch spins if its whole state, memory included, is the same as one iteration earlier, because it would then
repeat forever. The lanes that ran in that iteration are held until others have run: first other warps, because the
threads of a warp wait for each other where their branches join, then the other lanes of their own warps. If no lane
can run, the blocks that have not started yet must be added (``MoreBlocks``); if there are none, the kernel hangs. The
first check is early where the threads of a batch have diverged, and some are in a loop that may wait.
Loops that also count their iterations never return to the same state. Their lanes are held when the instruction budget
is used up, a few times. Kernels that do not spin run unchanged, and kernels without a loop around a lock or a flag
are not checked at all.

``LoopSearch`` finds the loop that a batch is in when its budget is used up. The batch runs on for a while, and the
registers are sampled. The basic blocks that have run meanwhile, and the edges between them, are the loop; a branch that
leaves it is its condition. If all registers that decide it are the same in each sample, the loop's counter does not
change.
"""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from gemm_lessons.engine.events import WARP
from gemm_lessons.engine.machine.memory import GlobalMemory
from gemm_lessons.engine.machine.state import State
from gemm_lessons.engine.ptx import synchronising_accesses
from gemm_lessons.engine.ptx.cfg import Block, reads, writes
from gemm_lessons.engine.ptx.opcodes import NOTHING_TO_DO
from gemm_lessons.engine.ptx.records import Instruction, Kernel
from gemm_lessons.engine.records.arrays import Array

FIRST_CHECK = 2048  # instructions of a batch before the first check
NEXT_CHECK = 512  # instructions between checks after lanes were held
PATIENCE = 8  # executions of a block that may wait before a check, however few the instructions
LONGEST_ITERATION = 2048  # instructions of the longest iteration that is detected
MAX_HOLDS = 16  # how often a loop that never repeats its state is held when the budget is used up
# Residency of a large GPU: 132 multiprocessors of 2,048 threads and 32 blocks. More blocks cannot wait for each other.
RESIDENT_THREADS, RESIDENT_BLOCKS = 132 * 2048, 132 * 32
SAMPLES = 9
PART = 160  # a sample is taken after this part of the budget, and a little later each time
LATER = 1009  # instructions: a prime, so that samples are in other iterations and at other places of them


class MoreBlocks(Exception):
    """The blocks of a batch wait for blocks that have not started: every batch needs ``blocks`` blocks."""

    def __init__(self, blocks: int) -> None:
        super().__init__(f"{blocks} blocks must run at the same time")
        self.blocks = blocks


def waiting_blocks(kernel: Kernel, blocks: Sequence[Block]) -> frozenset[int]:
    """Return the numbers of the blocks in loops that have a strong read, a fence or a pause and may wait."""
    strong = synchronising_accesses.strong(kernel)

    def waits(block: Block) -> bool:
        return any(
            (i.index in strong and i.row.effect != "store") or i.row.effect in ("fence", "pause")
            for i in block.instructions
        )

    loops = synchronising_accesses.loops(blocks)
    return frozenset(block.number for loop in loops for block in loop if waits(block))


def resident(grid_blocks: int, padded: int) -> int:
    """Return the number of blocks of ``padded`` threads that a GPU may hold at once."""
    return min(grid_blocks, RESIDENT_BLOCKS, max(1, RESIDENT_THREADS // padded))


@dataclass
class _StateComparison:
    """The search for a repeated state. ``snapshot`` is the batch at block ``number`` with lanes ``active``; lanes
    ``ran`` and blocks ``visited`` have run since. ``arena``: global memory one iteration later."""

    number: int
    active: Array
    snapshot: _Snapshot
    ran: Array
    visited: set[int]
    left: int = LONGEST_ITERATION
    steps: int = 0
    arena: Array | None = None


class SpinDetector:
    """Divides the instruction budget of a batch into parts, and checks between them whether lanes spin."""

    def __init__(self, state: State, memory: GlobalMemory, blocks: Sequence[Block], waits: bool, budget: int) -> None:
        self._state, self._memory, self._blocks, self._waits, self._budget = state, memory, blocks, waits, budget
        self.lanes = np.zeros(state.lanes, np.bool_)  # lanes that were found to spin
        self.held = self.lanes  # lanes that may not run now: the warps of ``lanes``, or only ``lanes``
        self.any_held = False  # whether any lane is held
        self.progressed = False  # whether a lane has run since lanes were held
        self.proven = True  # whether all of ``lanes`` would spin forever
        self._used = self._given = 0  # instructions executed before the current part; instructions of the part
        self._visits, self._patience = 0, PATIENCE  # executions of waiting blocks since the last check; before the next
        self._watch: _StateComparison | None = None
        self._seen: set[bytes] = set()  # digests of the batch whenever all lanes were held

    def begin(self) -> int:
        """Reset for a new batch. Return how many instructions it may execute before ``check``."""
        self._release()
        self._watch = None
        self._seen.clear()
        self._left, self._holds_left, self._part = self._budget, MAX_HOLDS, FIRST_CHECK
        self._used = 0
        self._visits, self._patience = 0, PATIENCE
        return self._next_part()

    def used(self, balance: int) -> int:
        """Return the number of instructions that the batch has executed. It never decreases."""
        return self._used + self._given - balance

    def _settle(self, balance: int) -> None:
        self._left -= self._given - balance
        self._used = self.used(balance)
        self._given = 0

    def _next_part(self) -> int:
        self._given = min(self._part, self._left) if self._waits else self._left
        return self._given

    def waited(self, balance: int) -> int:
        """Note that lanes execute a block that may wait. Return the rest of the part (``balance``): 0 to check now."""
        if self._watch is not None:
            return balance
        self._visits += 1
        if self._visits < self._patience:
            return balance
        self._visits = 0
        self._settle(balance)
        return 0

    def check(self, number: int, active: Array, balance: int, waiting: Array, stalled: bool) -> tuple[int, bool] | None:
        """Check for spinning after lanes ``active`` have run block ``number`` and used up the part. ``balance`` is the
        remainder, below 0. Lanes that are ``stalled`` wait for an mbarrier: they do not spin. Return the next part and
        whether lanes were held; None when the whole budget is used up."""
        self._settle(balance)
        watch = self._watch
        if self._left < 0:
            ran = watch.ran | active if watch else active
            others = self._state.alive & ~waiting & ~self.held & ~ran
            if not self._waits or not self._holds_left or not others.any():
                return None
            self._holds_left -= 1
            self._left = self._budget // MAX_HOLDS
            self._hold(ran)
            self.proven = False
            return 0, True
        if stalled:
            self._watch = None
            return self._next_part(), False
        if watch is None:
            self._watch = _StateComparison(number, active.copy(), self._snapshot(waiting), active.copy(), {number})
            return 0, False
        watch.ran |= active
        watch.visited.add(number)
        watch.left += balance
        watch.steps += 1
        if number == watch.number and np.array_equal(active, watch.active) and self._same(watch, waiting):
            arena = self._memory.arena
            if watch.arena is not None and np.array_equal(watch.arena, arena):
                self._hold(watch.ran)
                return 0, True
            watch.arena = arena.copy()  # copied only now: it may be large, and few loops get this far
        if watch.left < 0:
            self._watch = None
            self._part *= 2
            self._patience *= 2
            return self._next_part(), False
        if watch.steps & (watch.steps - 1) == 0:  # restart the comparison here (R. Brent's cycle detection)
            watch.number, watch.active = number, active.copy()
            watch.snapshot, watch.arena = self._snapshot(waiting), None
            watch.ran, watch.visited = active.copy(), {number}
        return 0, False

    def wake(self, alive: Array, waiting: Array, balance: int) -> bool:
        """Release held lanes because no lane can run; ``check`` then runs after the next block. Return False if the
        batch has been in this state before and no lane can run."""
        self._settle(balance)
        self._watch = None
        if self.progressed:
            digest = hashlib.blake2b(digest_size=16)
            for part in (*self._parts(waiting), *self._state.files.values(), self._memory.arena):
                digest.update(part.view(np.uint8).data)
            if digest.digest() not in self._seen:
                self._seen.add(digest.digest())
                self._release()
                return True
        if self.held is self.lanes:
            return False
        self.held = self.lanes
        return bool((alive & ~waiting & ~self.held).any())

    def _release(self) -> None:
        self.lanes[:] = False
        self.held = self.lanes
        self.any_held = self.progressed = False
        self.proven = True

    def _hold(self, lanes: Array) -> None:
        self.lanes |= lanes
        self.held = np.repeat(self.lanes.reshape(-1, WARP).any(axis=1), WARP)
        self.progressed = self.any_held  # lanes held before may continue, because these have run since
        self.any_held = True
        self._watch = None
        self._part, self._patience = NEXT_CHECK, PATIENCE

    def _parts(self, waiting: Array) -> tuple[Array, ...]:
        """Return the arrays that determine the next steps, except registers and global memory."""
        state = self._state
        return state.position, waiting, state.carry, state.shared, state.local

    def _snapshot(self, waiting: Array) -> _Snapshot:
        registers = {width: file.copy() for width, file in self._state.files.items()}
        return _Snapshot(registers, tuple(part.copy() for part in self._parts(waiting)))

    def _same(self, watch: _StateComparison, waiting: Array) -> bool:
        """Return whether what the visited blocks depend on is unchanged. A counter that decides nothing is ignored."""
        before = watch.snapshot
        if not all(np.array_equal(a, b) for a, b in zip(before.rest, self._parts(waiting), strict=True)):
            return False
        for name in _deciding_registers(tuple(self._blocks[number] for number in sorted(watch.visited))):
            place = self._state.rows.get(name)
            if place is not None:
                width, row = place
                if not np.array_equal(before.registers[width][row], self._state.files[width][row]):
                    return False
        return True


@dataclass
class _Snapshot:
    """A copy of the registers by width, and of ``SpinDetector._parts``."""

    registers: dict[int | str, Array]
    rest: tuple[Array, ...]


@functools.cache
def _deciding_registers(blocks: tuple[Block, ...]) -> frozenset[str]:
    """Return the registers that determine the branches, addresses and stored values of ``blocks``."""
    wanted: set[str] = set()
    computing: list[Instruction] = []
    for instruction in (i for block in blocks for i in block.instructions):
        if instruction.guard is not None:
            wanted.add(instruction.guard.name)
        if instruction.row.computes or instruction.row.effect in NOTHING_TO_DO:
            computing.append(instruction)
        else:
            wanted |= reads(instruction)
    growing = True
    while growing:
        more = set().union(*(reads(i) for i in computing if writes(i) & wanted)) - wanted
        wanted |= more
        growing = bool(more)
    return frozenset(wanted)


@dataclass(frozen=True)
class Found:
    """A loop by the ``branch`` that leaves it, or, where none does or several do, by its lines: from that of an
    instruction, ``branch``, to ``last_line``. ``case``: "same values" if its condition compares the same values each
    time, "no exit" if no branch leaves it, else "in a loop"."""

    case: str
    branch: Instruction
    last_line: int | None = None


class LoopSearch:
    """The search for the loop in which lane ``lane`` is. ``counts``: warps that have executed each basic block."""

    def __init__(self, state: State, kernel: Kernel, blocks: Sequence[Block], budget: int, lane: int) -> None:
        self._state, self._kernel, self._blocks, self.lane = state, kernel, blocks, lane
        self._part = budget // PART
        self._counts: list[list[int]] = []
        self._registers: list[dict[str, int]] = []

    def sample(self, counts: Sequence[int]) -> int:
        """Take a sample. Return after how many instructions the next one is due; 0 after the last one."""
        self._counts.append([*counts])
        lanes = ((name, self._state.lanes_of(name)[self.lane]) for name in self._state.rows)
        self._registers.append({name: hash(value.tobytes()) for name, value in lanes})
        taken = len(self._counts)
        return self._part + taken * LATER if taken < SAMPLES else 0

    def found(self, running: int) -> Found | None:
        """Return what is known of the outermost loop around block ``running``; None if no loop has run twice."""
        counts = np.array(self._counts)
        ran = _loop_with(
            running, [block for block in self._blocks if counts[-1, block.number] > counts[0, block.number]]
        )
        if not ran:
            return None
        # Blocks that have not run may be in the loop, too: an if, or the end of an unrolled loop.
        first = min(ran)
        whole = _loop_with(first, self._blocks[first:])
        exits = [block.terminator for block in ran.values() if not {*block.successors} <= whole.keys()]
        if len(exits) != 1:
            return _by_lines("in a loop" if exits else "no exit", ran.values())
        (decides,) = exits
        if decides is None or decides.guard is None:
            return None
        return Found("same values" if self._stays(decides.guard.name) else "in a loop", decides)

    def _stays(self, predicate: str) -> bool:
        """Return whether all that a predicate is computed from is the same in each sample."""
        made = [it for it in self._kernel.instructions if predicate in writes(it)]
        names = {name for it in made for name in reads(it)} & self._registers[0].keys()
        return all(sample[name] == self._registers[0][name] for sample in self._registers for name in names)


def _loop_with(number: int, blocks: Sequence[Block]) -> dict[int, Block]:
    """Return the outermost loop of these blocks that has block ``number``; empty if there is none."""
    loops = ({block.number: block for block in loop} for loop in synchronising_accesses.loops(blocks))
    return next((loop for loop in loops if number in loop), {})


def _by_lines(case: str, loop: Iterable[Block]) -> Found | None:
    """Return the lines of a loop, in the file that most of them are of."""
    sourced = [it for block in loop for it in block.instructions if it.source is not None and it.source.line]
    if not sourced:
        return None
    [(file, _)] = Counter(it.source.file for it in sourced if it.source is not None).most_common(1)
    lines = {it.source.line: it for it in sourced if it.source is not None and it.source.file == file}
    return Found(case, lines[min(lines)], max(lines) if len(lines) > 1 else None)
