"""Instruction caches of a multiprocessor: when a warp has the code that it executes next.

    cache    holds ``code_bytes`` in lines; of the lines with one place, the least recently used one leaves
    port     brings a line from the next cache every ``code_line`` clocks, for all warps
    warp     asks for the next line when it begins one, and has it ``code_latency`` clocks after the port, of which the
             warps of a scheduler hide a part for each other

Only a loop that is longer than the cache misses it again and again; other code is taken to be there. The next cache
holds 128 KB, which no loop of the course exceeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gemm_lessons.engine.hardware.pipes import Pipes
from gemm_lessons.engine.sass.inner_loop import inner_loops

if TYPE_CHECKING:
    from gemm_lessons.engine.sass.operands import Decoded

INSTRUCTION, LINE = 16, 128  # bytes
EACH = LINE // INSTRUCTION  # instructions of a line
WAYS = 4  # lines with one place: loops of 32 to 40 KB miss it more and more (fetching_h200.json)
NO_LINE = -1


def lines_of(code: Sequence[Decoded], pipes: Pipes) -> dict[int, int]:
    """Return the lines of code by the instructions with which warps begin them. There are none if the loops without
    another one in them fit into the instruction cache, or if its size is not known."""
    if not 0 < pipes.code_bytes < len(code) * INSTRUCTION:
        return {}
    loops = inner_loops([it.source for it in code])
    if all((end - start) * INSTRUCTION <= pipes.code_bytes for start, end in loops):
        return {}
    return {place: place // EACH for place in (*range(0, len(code), EACH), *(start for start, _ in loops))}


class InstructionCache:
    """The code that a multiprocessor holds, and the port that brings more of it.

    ``warps`` execute it in all, ``resident`` of each scheduler at once.
    """

    def __init__(self, pipes: Pipes, warps: int, resident: float) -> None:
        self.sets: list[dict[int, float]] = [{} for _ in range(max(1, int(pipes.code_bytes) // LINE // WAYS))]
        self.port = 0.0  # free from
        self.taken, self.latency = pipes.code_line, pipes.code_latency / max(resident, 1.0)
        self.begun = [0.0] * warps  # when each of them began its last line

    def have(self, warp: int, line: int, time: float) -> float:
        """Return when the warp, which needs a line at ``time``, has it."""
        held = self.sets[line % len(self.sets)]  # line -> when it is there, the least recently used one first
        there = held.pop(line, None)
        if there is None:
            self.port = max(self.port, self.begun[warp]) + self.taken
            there = self.port + self.latency
            if len(held) == WAYS:
                del held[next(iter(held))]
        held[line] = there
        self.begun[warp] = max(time, there)
        return self.begun[warp]
