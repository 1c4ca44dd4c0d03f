"""``malloc`` and ``free`` of a kernel: a part of global memory that a launch allocates from its start on.

A GPU keeps allocated memory for the next launch; here each launch has a new heap. Memory that a thread frees is reused
only for the same thread's requests of that size, so that no other thread touches it.
"""

from __future__ import annotations

import numpy as np

from gemm_lessons.engine.machine.memory import ALIGNMENT
from gemm_lessons.engine.machine.state import State
from gemm_lessons.engine.ptx.cfg import acting
from gemm_lessons.engine.ptx.records import Kernel, Symbol, Variable
from gemm_lessons.engine.records.arrays import Array

NAME = "the heap of malloc"
FUNCTIONS = ("malloc", "free")
BYTES = 8 << 20  # of one launch, the default of the driver
_STEP = 16  # bytes: the alignment of addresses that malloc returns


def heap_of(kernel: Kernel) -> list[Variable]:
    """Return the variable that holds the heap of a kernel, if it allocates or frees memory."""
    called = [i.operands[0] for i in acting(kernel) if i.opcode == "call"]
    uses = any(isinstance(operand, Symbol) and operand.name in FUNCTIONS for operand in called)
    return [Variable(NAME, "global", ALIGNMENT, BYTES)] if uses else []


class Heap:
    """The heap of one launch, from the address ``base`` on."""

    def __init__(self, state: State, base: int) -> None:
        self._state, self._base = state, base
        self._used = 0
        self._taken: dict[int, int] = {}  # address -> size of allocated memory
        self._freed: dict[tuple[int, int], list[int]] = {}  # thread and size -> addresses

    def allocate(self, sizes: Array, lanes: Array) -> Array:
        """Return an address for each of the ``lanes``; 0 if a size is 0, or larger than the rest of the heap."""
        wanted = np.broadcast_to(sizes, self._state.lanes)[lanes].tolist()
        return np.array(
            [self._address(lane, size) for lane, size in zip(lanes.tolist(), wanted, strict=True)], np.int64
        )

    def _address(self, lane: int, wanted: int) -> int:
        size = -(-wanted // _STEP) * _STEP
        known = self._freed.get((self._thread(lane), size))
        if known:
            address = known.pop()
        elif 0 < size <= BYTES - self._used:
            address = self._base + self._used
            self._used += size
        else:
            return 0
        self._taken[address] = size
        return address

    def release(self, addresses: Array, lanes: Array) -> int | None:
        """Free memory. Return the first lane whose address was not allocated, or None."""
        given = np.broadcast_to(addresses, self._state.lanes)[lanes].tolist()
        for lane, address in zip(lanes.tolist(), given, strict=True):
            size = self._taken.pop(address, 0)
            if size:
                self._freed.setdefault((self._thread(lane), size), []).append(address)
            elif address:
                return int(lane)
        return None

    def _thread(self, lane: int) -> int:
        return int(self._state.batch.thread(lane))
