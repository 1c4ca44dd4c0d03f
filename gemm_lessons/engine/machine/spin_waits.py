"""Threads that wait in a loop until another thread changes memory: a lock, a flag, the block that comes before.

The machine runs the lanes at the smallest basic block first, so a lane that spins would starve the very lane it waits
for. Spinning is recognised by what it is: the whole batch, memory included, is as it was one round earlier, so that it
would be so for ever. The lanes that ran in that round are then left aside until others have moved: first other warps,
since on a GPU the threads of a warp wait for each other where their branches join, then the rest of their own. Where
nobody is left, the blocks that have not started yet must be brought in (``MoreBlocks``), and where there are none, the
kernel hangs. Loops that also count their rounds never come back to the same state: they are left aside when the
instruction budget is used up, a few times. A kernel that needs none of this runs as if this module did not exist; one
without a loop around a lock or a flag is not even looked at.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemm_lessons.engine.events import WARP
from gemm_lessons.engine.machine.memory import GlobalMemory
from gemm_lessons.engine.machine.state import State
from gemm_lessons.engine.ptx import synchronising_accesses as meant_to_meet
from gemm_lessons.engine.ptx.cfg import Block, reads, writes
from gemm_lessons.engine.ptx.opcodes import NOTHING_TO_DO
from gemm_lessons.engine.ptx.records import Instruction, Kernel

Array = NDArray[Any]

FIRST = 2048  # instructions of a batch before anybody asks whether it spins
LATER = 512  # the same, once spinning has been seen and the next round was none
ROUND = 2048  # the longest round of a loop that is followed, in instructions
TURNS = 16  # how often a loop that never repeats itself is left aside when the budget is used up
# What a large GPU holds at once: 132 multiprocessors of 2,048 threads and 32 blocks. More cannot wait for each other.
RESIDENT_THREADS, RESIDENT_BLOCKS = 132 * 2048, 132 * 32


class MoreBlocks(Exception):
    """The blocks of a batch wait for blocks that have not started: the launch needs ``blocks`` in every batch."""

    def __init__(self, blocks: int) -> None:
        super().__init__(f"{blocks} blocks must run at the same time")
        self.blocks = blocks


def may_wait(kernel: Kernel, blocks: Sequence[Block]) -> bool:
    """Whether a loop of the kernel reads what other threads may change meanwhile."""
    strong = meant_to_meet.strong(kernel)

    def waits(block: Block) -> bool:
        return any(
            (i.index in strong and i.row.effect != "store") or i.row.effect in ("fence", "pause")
            for i in block.instructions
        )

    return any(waits(block) for loop in meant_to_meet.loops(blocks) for block in loop)


def resident(grid_blocks: int, padded: int) -> int:
    """Blocks of ``padded`` threads that may be on a GPU at once."""
    return min(grid_blocks, RESIDENT_BLOCKS, max(1, RESIDENT_THREADS // padded))


@dataclass
class _Watch:
    """The batch as it was at block ``number`` with lanes ``active``, who has ``ran`` and which blocks were ``visited``
    since. ``arena``: global memory one round later."""

    number: int
    active: Array
    picture: _Picture
    ran: Array
    visited: set[int]
    left: int = ROUND
    steps: int = 0
    arena: Array | None = None


class Spinning:
    """Hands out the instruction budget of a batch in parts, and sees between them whether anybody gets anywhere."""

    def __init__(self, state: State, memory: GlobalMemory, blocks: Sequence[Block], waits: bool, budget: int) -> None:
        self._state, self._memory, self._blocks, self._waits, self._budget = state, memory, blocks, waits, budget
        self.aside = np.zeros(state.lanes, np.bool_)  # lanes that spin
        self.held = self.aside  # lanes that may not run now: with whole warps, or only those
        self.anyone = False  # is aside
        self.moved = False  # somebody has run since
        self.proven = True  # that all who are aside would spin for ever
        self._used = self._given = 0  # instructions executed before the part that was handed out last; those of it
        self._watch: _Watch | None = None
        self._seen: set[bytes] = set()  # the batch each time when everybody was aside

    def begin(self) -> int:
        """A new batch. Returns how many instructions it may execute before ``check``."""
        self._release()
        self._watch = None
        self._seen.clear()
        self._left, self._turns, self._part = self._budget, TURNS, FIRST
        self._used = 0
        return self._next_part()

    def used(self, balance: int) -> int:
        """The instructions that the batch has executed: a number that only grows."""
        return self._used + self._given - balance

    def _settle(self, balance: int) -> None:
        self._left -= self._given - balance
        self._used = self.used(balance)
        self._given = 0

    def _next_part(self) -> int:
        self._given = min(self._part, self._left) if self._waits else self._left
        return self._given

    def check(self, number: int, active: Array, balance: int, waiting: Array) -> tuple[int, bool] | None:
        """Lanes ``active`` have run block ``number``, and the part is used up (``balance`` is what is left of it, below
        0). Returns the next part and whether lanes were put aside; None when the whole budget is used up."""
        self._settle(balance)
        watch = self._watch
        if self._left < 0:
            ran = watch.ran | active if watch else active
            others = self._state.alive & ~waiting & ~self.held & ~ran
            if not self._waits or not self._turns or not others.any():
                return None
            self._turns -= 1
            self._left = self._budget // TURNS
            self._put_aside(ran)
            self.proven = False
            return 0, True
        if watch is None:
            self._watch = _Watch(number, active.copy(), self._picture(waiting), active.copy(), {number})
            return 0, False
        watch.ran |= active
        watch.visited.add(number)
        watch.left += balance
        watch.steps += 1
        if number == watch.number and np.array_equal(active, watch.active) and self._same(watch, waiting):
            arena = self._memory.arena
            if watch.arena is not None and np.array_equal(watch.arena, arena):
                self._put_aside(watch.ran)
                return 0, True
            watch.arena = arena.copy()  # only now: it may be large, and most loops never come so far
        if watch.left < 0:
            self._watch = None
            self._part *= 2
            return self._next_part(), False
        if watch.steps & (watch.steps - 1) == 0:  # from here on it may repeat itself (R. Brent's cycle finding)
            watch.number, watch.active = number, active.copy()
            watch.picture, watch.arena = self._picture(waiting), None
            watch.ran, watch.visited = active.copy(), {number}
        return 0, False

    def wake(self, alive: Array, waiting: Array, balance: int) -> bool:
        """Nobody can run, some because they are aside: let others try, for no instructions before the next ``check``.
        False when it has been like this before and nobody is left."""
        self._settle(balance)
        self._watch = None
        if self.moved:
            digest = hashlib.blake2b(digest_size=16)
            for part in (*self._parts(waiting), *self._state.files.values(), self._memory.arena):
                digest.update(part.view(np.uint8).data)
            if digest.digest() not in self._seen:
                self._seen.add(digest.digest())
                self._release()
                return True
        if self.held is self.aside:
            return False
        self.held = self.aside
        return bool((alive & ~waiting & ~self.held).any())

    def _release(self) -> None:
        self.aside[:] = False
        self.held = self.aside
        self.anyone = self.moved = False
        self.proven = True

    def _put_aside(self, lanes: Array) -> None:
        self.aside |= lanes
        self.held = np.repeat(self.aside.reshape(-1, WARP).any(axis=1), WARP)
        self.moved = self.anyone  # who was aside before may go on: these have run since
        self.anyone = True
        self._watch = None
        self._part = LATER

    def _parts(self, waiting: Array) -> tuple[Array, ...]:
        """What decides what happens next, but for registers and global memory."""
        state = self._state
        return state.position, waiting, state.carry, state.shared, state.local

    def _picture(self, waiting: Array) -> _Picture:
        registers = {width: file.copy() for width, file in self._state.files.items()}
        return _Picture(registers, tuple(part.copy() for part in self._parts(waiting)))

    def _same(self, watch: _Watch, waiting: Array) -> bool:
        """Whether all that the visited blocks look at is as it was: a counter of rounds alone does not matter."""
        before = watch.picture
        if not all(np.array_equal(a, b) for a, b in zip(before.rest, self._parts(waiting), strict=True)):
            return False
        for name in _decisive(tuple(self._blocks[number] for number in sorted(watch.visited))):
            place = self._state.rows.get(name)
            if place is not None:
                width, row = place
                if not np.array_equal(before.registers[width][row], self._state.files[width][row]):
                    return False
        return True


@dataclass
class _Picture:
    """Registers by width, and ``Spinning._parts``."""

    registers: dict[int | str, Array]
    rest: tuple[Array, ...]


@functools.cache
def _decisive(blocks: tuple[Block, ...]) -> frozenset[str]:
    """Registers that decide where threads go in ``blocks``, which addresses they use and what they store."""
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
