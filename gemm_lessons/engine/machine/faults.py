"""Accesses out of bounds or misaligned: the array that was meant, the distance, the thread, and how many others."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from gemm_lessons.engine.compiler.diagnostics import plain_name
from gemm_lessons.engine.events import Access
from gemm_lessons.engine.machine.memory import RANK_SHIFT, Allocation, GlobalMemory
from gemm_lessons.engine.machine.state import Fault, State
from gemm_lessons.engine.ptx.records import Instruction
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.facts import Location, Memory, Missed, Misuse
from gemm_lessons.engine.records.frozen import dataclass

NULL_PAGE = 1 << 16  # bytes; an address below this is a null pointer plus an index


@dataclass(frozen=True)
class AccessFaults:
    """Creates the ``Fault`` of one memory instruction. ``arrays``: name -> (offset, bytes) of the shared or local
    arrays. ``intended_array`` returns the shared array from which the code computes the address, or None."""

    state: State
    memory: GlobalMemory
    instruction: Instruction
    access: Access
    arrays: Mapping[str, tuple[int, int]]
    intended_array: Callable[[], str | None]

    def window(self, addresses: Array, lanes: Array | None, bad: Array, size: int) -> Fault:
        """Return the fault of an access outside a block's shared or a thread's local memory of ``size`` bytes."""
        position = int(np.flatnonzero(bad)[0])
        offset = int(addresses[position])
        if self.access.space == "local":
            return self._fault("out_of_bounds", "local", Location("local", "", offset, size), lanes, position, bad)
        state = self.state
        if state.cluster > 1:
            lane = position if lanes is None else int(lanes[position])
            own, rank = int(state.rank_bits[lane]) >> RANK_SHIFT, offset >> RANK_SHIFT
            there = offset - (rank << RANK_SHIFT) - state.shared_origin
            if rank != own and 0 <= there <= size - self.access.width:
                case = "other block" if 0 <= rank < state.cluster else "no block"
                facts = Misuse(self.instruction.full_opcode, value=rank, limit=state.cluster)
                return Fault("illegal_access", case, self.instruction, state.actor(lane, self.instruction), facts)
            offset = there if 0 <= rank < state.cluster else offset - (own << RANK_SHIFT) - state.shared_origin
        else:
            offset -= state.shared_origin
        name = self.intended_array() or self._below(offset)
        start, length = self.arrays.get(name, (0, size))
        place = Location("shared", plain_name(name), offset - start, length)
        window = size if (start, length) != (0, size) else None
        return self._fault("out_of_bounds", "array", place, lanes, position, bad, window)

    def buffer(self, addresses: Array, lanes: Array | None, bad: Array) -> Fault:
        """Return the fault of an access outside every allocation in global memory."""
        position = int(np.flatnonzero(bad)[0])
        address = int(addresses[position])
        allocation = self.memory.find(address)
        if allocation is None:
            case = "null" if 0 <= address < NULL_PAGE else "nowhere"
            place = Location("global", "", address & (2**64 - 1))
            return self._fault("out_of_bounds", case, place, lanes, position, bad)
        return self._fault("out_of_bounds", "array", _in(allocation, address), lanes, position, bad)

    def no_constant(self, addresses: Array, lanes: Array | None, allocation: Allocation) -> Fault:
        """Return the fault of a constant load (``ld.const``) from a buffer: constant memory has its own addresses."""
        bad = np.ones(addresses.shape, np.bool_)
        place = _in(allocation, int(addresses[0]))
        return self._fault("illegal_access", "constant load", place, lanes, 0, bad)

    def misaligned(self, addresses: Array, lanes: Array | None) -> Fault:
        """Return the fault of an address that is not a multiple of the access's width."""
        bad = (addresses & (self.access.width - 1)) != 0
        position = int(np.flatnonzero(bad)[0])
        address = int(addresses[position])
        if self.access.space == "shared" and self.state.cluster > 1:
            address %= self.state.shared_stride  # of whichever block of the cluster
        space: Memory = self.access.space if self.access.space in ("shared", "local") else "global"
        if self.access.space == "global" and (allocation := self.memory.find(address)) is not None:
            return self._fault("misaligned", "buffer", _in(allocation, address), lanes, position, bad)
        name = (self.intended_array() if self.access.space == "shared" else None) or self._below(address)
        start, size = self.arrays.get(name, (0, 0))
        place = Location(space, plain_name(name), address - start, size)
        return self._fault("misaligned", "window", place, lanes, position, bad)

    def _fault(
        self, kind: str, case: str, place: Location, lanes: Array | None, position: int, bad: Array,
        window: int | None = None,
    ) -> Fault:  # fmt: skip
        lane = position if lanes is None else int(lanes[position])
        who = self.state.actor(lane, self.instruction, self.access.effect, self.access.width)
        others = int(np.count_nonzero(bad)) - 1
        return Fault(kind, case, self.instruction, who, Missed(others or None, window), place)

    def _below(self, offset: int) -> str:
        """Return the name of the last array that starts at or before an offset of the window, or ""."""
        starts = {start: name for name, (start, _) in self.arrays.items() if start <= max(offset, 0)}
        return starts[max(starts)] if starts else ""


def _in(allocation: Allocation, address: int) -> Location:
    return Location("global", allocation.name, address - allocation.base, allocation.size)
