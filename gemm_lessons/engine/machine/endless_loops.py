"""The loop that a batch is in when its budget of instructions is used up.

The batch runs on for a while, and the registers are sampled. The basic blocks that have run meanwhile, and the edges
between them, are the loop; a branch that leaves it is its condition. If all registers that decide it are the same in
each sample, the loop's counter does not change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from gemm_lessons.engine.machine.state import State
from gemm_lessons.engine.ptx import synchronising_accesses
from gemm_lessons.engine.ptx.cfg import Block, reads, writes
from gemm_lessons.engine.ptx.records import Instruction, Kernel

SAMPLES = 9
PART = 160  # a sample is taken after this part of the budget, and a little later each time
LATER = 1009  # instructions: a prime, so that samples are in other iterations and at other places of them


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
