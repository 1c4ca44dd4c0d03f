"""``setmaxnreg``: warps give registers back to a pool of their block, or wait until it has as many as they request.

A block starts with an empty pool. Each warp has the registers of the launch, which the compiler has chosen; without
its machine code, see ``declared``. Source: NVIDIA, "PTX ISA" 9.0, 9.7.19.5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gemm_lessons.engine.events import WARP
from gemm_lessons.engine.machine.matrices import whole_warps
from gemm_lessons.engine.machine.state import Fault, State
from gemm_lessons.engine.ptx.cfg import acting, moves_registers, unsupported
from gemm_lessons.engine.ptx.records import Immediate, Instruction, Kernel
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.facts import Misuse

FILE, MOST = 65536, 255  # registers of a multiprocessor, of a thread
LEAST, LARGEST, UNIT = 24, 256, 8  # operands that setmaxnreg accepts
WARPS = 4  # of a warpgroup


def declared(kernel: Kernel) -> int:
    """Return a thread's registers at launch as the PTX declares them, else 0: ptxas then ignores ``setmaxnreg``."""
    if "maxnreg" in kernel.directives:
        return kernel.directives["maxnreg"][0] // UNIT * UNIT
    threads = kernel.directives.get("reqntid") or kernel.directives.get("maxntid")
    if threads is None or "minnctapersm" not in kernel.directives:
        return 0
    x, y, z = threads
    return min(MOST, FILE // (x * y * z * kernel.directives["minnctapersm"][0])) // UNIT * UNIT


class RegisterPool:
    """The registers of a batch: those of a thread of each warp (``owned``), and each block's pool (``free``).

    ``at_launch``: registers of a thread; 0 if unknown, and nothing is counted.
    """

    def __init__(self, state: State, kernel: Kernel, at_launch: int) -> None:
        self._state, self.at_launch = state, at_launch
        self.requests = {i.index: i for i in acting(kernel) if moves_registers(i)}
        self._numbers = {index: _number(i) for index, i in self.requests.items()}
        self._lanes: Array | None = None  # lanes that execute now
        self._whole: dict[int, Callable[[], Any]] = {
            index: whole_warps(state, i, lambda: self._lanes, "matrices") for index, i in self.requests.items()
        }
        self.begin()

    def begin(self) -> None:
        """Reset for a new batch."""
        state = self._state
        self.owned = np.full(state.lanes // WARP, self.at_launch, np.int64)
        self.free = np.zeros(state.blocks, np.int64)
        self._executed = {index: np.zeros(self.owned.size, np.int64) for index in self.requests}

    def wanted(self, index: int) -> int:
        """Return the registers that a thread has after instruction ``index``."""
        return self._numbers[index]

    def execute(self, instruction: Instruction, lanes: Array) -> Array:
        """Let ``lanes`` execute a ``setmaxnreg``. Return the lanes that wait for registers. Raise ``Fault``."""
        index, count = instruction.index, self._numbers[instruction.index]
        self._lanes = lanes
        self._whole[index]()
        warps = lanes.reshape(-1, WARP).any(axis=1)
        self._executed[index] += warps
        if not self.at_launch:
            return np.zeros_like(lanes)
        gives = "dec" in instruction.modifiers
        wrong = warps & (self.owned < count if gives else self.owned > count)
        if wrong.any():
            first = int(wrong.argmax())
            facts = Misuse(instruction.full_opcode, value=count, limit=int(self.owned[first]))
            who = self._state.actor(first * WARP, instruction)
            raise Fault("register_pool", "dec" if gives else "inc", instruction, who, facts)
        if not gives:
            return lanes
        for warp in np.flatnonzero(warps).tolist():
            self._change(warp, count)
        return np.zeros_like(lanes)

    def grant(self, waiting: Array, at: Array) -> Array:
        """Give registers to ``waiting`` lanes, at instructions ``at`` (lanes,), while they last. Return which."""
        granted = np.zeros(self.owned.size, np.bool_)
        for warp in np.flatnonzero(waiting.reshape(-1, WARP).any(axis=1)).tolist():
            count = self._numbers[int(at[warp * WARP])]
            if self.needs(warp, count) <= self.free[self._block(warp)]:
                self._change(warp, count)
                granted[warp] = True
        return waiting & np.repeat(granted, WARP)

    def needs(self, warp: int, count: int) -> int:
        """Return how many registers a warp needs from the pool to have ``count`` a thread."""
        return int(count - self.owned[warp]) * WARP

    def _change(self, warp: int, count: int) -> None:
        self.free[self._block(warp)] -= self.needs(warp, count)
        self.owned[warp] = count

    def _block(self, warp: int) -> int:
        return warp * WARP // self._state.padded

    def check_end(self) -> None:
        """Raise ``Fault`` if part of a warpgroup has executed a ``setmaxnreg`` more often than the rest."""
        state = self._state
        exists = np.asarray(state.exists.reshape(-1, WARP).any(axis=1))
        for index, executed in self._executed.items():
            for block in range(state.blocks):
                first = block * (state.padded // WARP)
                for start in range(first, first + state.padded // WARP, WARPS):
                    group = np.arange(start, min(start + WARPS, first + state.padded // WARP))
                    times = executed[group][exists[group]]
                    if times.size and times.min() != times.max():
                        less = int(group[times.argmin()])
                        instruction = self.requests[index]
                        facts = Misuse(instruction.full_opcode, value=less - first)
                        who = state.actor(int(group[times.argmax()]) * WARP, instruction)
                        raise Fault("register_pool", "part", instruction, who, facts)


def _number(instruction: Instruction) -> int:
    """Return the operand. Raise ``UnsupportedKernel``: ptxas accepts no other form."""
    known = instruction.modifiers in (("inc", "sync", "aligned", "u32"), ("dec", "sync", "aligned", "u32"))
    number = instruction.operands[0] if len(instruction.operands) == 1 else None
    if not known or not isinstance(number, Immediate):
        raise unsupported(instruction)
    if not LEAST <= number.value <= LARGEST or number.value % UNIT:
        raise unsupported(instruction, f"the number of registers is a multiple of {UNIT} from {LEAST} to {LARGEST}")
    return int(number.value)
