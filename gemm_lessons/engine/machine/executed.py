"""Counts how often each instruction was executed, by warps and by lanes.

An instruction without a guard is executed as often as its basic block. The lanes of a guarded instruction are counted
at the end of the block, or just before the instruction if the block overwrites the guard. A branch counts for all lanes
that execute its block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gemm_lessons.engine.events import Batch, LaunchInfo, Observer
from gemm_lessons.engine.machine.decode import Op, both
from gemm_lessons.engine.machine.prepared import Program
from gemm_lessons.engine.machine.state import State
from gemm_lessons.engine.ptx.schedule import Single, Step
from gemm_lessons.engine.records.arrays import Array

Guard = tuple[int, Array, bool]  # instruction index, the predicate's row, whether it is negated


class ExecutionCounts:
    """Execution counts of one batch. ``warps`` and ``lanes``: int64 (instructions,). ``block_warps`` and
    ``block_lanes``: counts per basic block that ``sum_up`` adds to its instructions. ``guards``: per basic block, the
    guards counted at its end."""

    def __init__(self, program: Program, state: State) -> None:
        self.program, self.state = program, state
        self.warps, self.lanes = (np.zeros(len(program.kernel.instructions), np.int64) for _ in range(2))
        self.block_warps, self.block_lanes = ([0] * len(program.blocks) for _ in range(2))
        self.guards: list[list[Guard]] = [
            [(i.index, state.row(i.guard.name, "pred"), i.guard_negated) for i in instructions if i.guard is not None]
            for instructions in program.guarded
        ]

    def begin(self) -> None:
        """Reset the counts for a new batch."""
        self.warps[:] = 0
        self.lanes[:] = 0

    def count_before(self, step: Step) -> Iterator[Op]:
        """Yield the operation that counts an instruction before it runs, if its block overwrites its guard."""
        if not isinstance(step, Single) or step.instruction.index not in self.program.overwritten_guards:
            return
        guard, state = step.instruction.guard, self.state
        assert guard is not None
        one = (step.instruction.index, state.row(guard.name, "pred"), step.instruction.guard_negated)
        yield both(lambda: self.count_guards([one], state.active))

    def count_guards(self, guards: Sequence[Guard], active: Array | None) -> None:
        """Count the ``active`` lanes (None: all) whose guard predicate is true."""
        for index, predicate, negated in guards:
            mask = ~predicate if negated else predicate
            if active is not None:
                mask = mask & active
            self.lanes[index] += np.count_nonzero(mask)
            self.warps[index] += warps_of(mask)

    def sum_up(self) -> None:
        """Add the counts of basic blocks to their unguarded instructions, and reset them."""
        for counts, of_blocks in ((self.warps, self.block_warps), (self.lanes, self.block_lanes)):
            counts += np.array([*of_blocks, 0])[self.program.counted_by]
            of_blocks[:] = [0] * len(of_blocks)


def warps_of(lanes: Array) -> int:
    """Return the number of warps with at least one lane in ``lanes``, a mask."""
    return int(np.count_nonzero(np.packbits(lanes).view(np.uint32)))


class LaneCounts(Observer):
    """Observer that adds up how many lanes executed each instruction, (instructions,)."""

    def begin(self, launch: LaunchInfo) -> None:
        """Set up for a launch. See ``events.Observer``, also for the other methods."""
        self.lanes = np.zeros(len(launch.kernel.instructions), np.int64)

    def end_batch(self, batch: Batch, executions: Array, lane_executions: Array) -> None:
        """Add the counts of a batch."""
        self.lanes += lane_executions
