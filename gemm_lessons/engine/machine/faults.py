"""The words for accesses that miss their memory: which array was meant, how far outside, who, how many."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemm_lessons.engine.compiler.diagnostics import plain_name
from gemm_lessons.engine.events import Access
from gemm_lessons.engine.machine.memory import Allocation, GlobalMemory
from gemm_lessons.engine.machine.state import Fault, State
from gemm_lessons.engine.ptx.cfg import line_of
from gemm_lessons.engine.ptx.records import Instruction
from gemm_lessons.engine.records.findings import OWN_ARRAY
from gemm_lessons.engine.records.frozen import dataclass

Array = NDArray[Any]

VERBS = {"load": "read", "store": "written", "atomic": "updated", "copy": "copied"}
NULL_PAGE = 1 << 16  # an address below this is an index into a null pointer


@dataclass(frozen=True)
class Misses:
    """Makes the ``Fault`` of one memory instruction. ``arrays``: name -> (offset, bytes) of the shared or local arrays;
    ``meant``: the shared array that the address was made from, if the code tells."""

    state: State
    memory: GlobalMemory
    instruction: Instruction
    access: Access
    arrays: Mapping[str, tuple[int, int]]
    meant: Callable[[], str | None]

    def window(self, addresses: Array, lanes: Array | None, bad: Array, size: int) -> Fault:
        """Outside of a block's shared or a thread's local memory of ``size`` bytes."""
        position = int(np.flatnonzero(bad)[0])
        offset = int(addresses[position])
        if self.access.space == "local":
            head = f"{OWN_ARRAY}s: byte {offset} of {size}"
            far = self._far(offset, size)
        else:
            name = self.meant() or self._below(offset)
            start, length = self.arrays.get(name, (0, size))
            head = f"{plain_name(name) or 'shared memory'}: byte {offset - start} of {length}"
            far = self._far(offset - start, length)
            if (start, length) != (0, size):
                far += f"; the block has {size} bytes of shared memory"
        return self._fault("out_of_bounds", head, far, lanes, position, bad)

    def buffer(self, addresses: Array, lanes: Array | None, bad: Array) -> Fault:
        """Outside of every buffer in global memory."""
        position = int(np.flatnonzero(bad)[0])
        address = int(addresses[position])
        allocation = self.memory.find(address)
        if allocation is None:
            null = ", an index into a null pointer" if 0 <= address < NULL_PAGE else ""
            head = f"address 0x{address & (2**64 - 1):x}"
            return self._fault("out_of_bounds", head, f"not in any buffer{null}", lanes, position, bad)
        offset = address - allocation.base
        head = f"{allocation.name}: byte {offset} of {allocation.size}"
        return self._fault("out_of_bounds", head, self._far(offset, allocation.size), lanes, position, bad)

    def no_constant(self, addresses: Array, lanes: Array | None, allocation: Allocation) -> Fault:
        """A constant load (``ld.const``) from a buffer: constant memory has addresses of its own."""
        bad = np.ones(addresses.shape, np.bool_)
        head = f"{allocation.name}: byte {int(addresses[0]) - allocation.base} of {allocation.size}"
        return self._fault("illegal_access", head, "it does not lie in constant memory", lanes, 0, bad)

    def misaligned(self, addresses: Array, lanes: Array | None) -> Fault:
        """Not at a multiple of the access's width."""
        width = self.access.width
        bad = (addresses & (width - 1)) != 0
        position = int(np.flatnonzero(bad)[0])
        address = int(addresses[position])
        if self.access.space == "global" and (allocation := self.memory.find(address)) is not None:
            place = f"{allocation.name}: byte {address - allocation.base} of {allocation.size}"
        else:
            name = (self.meant() if self.access.space == "shared" else None) or self._below(address)
            start = self.arrays.get(name, (0, 0))[0]
            place = f"{plain_name(name)}: byte {address - start}" if name else f"byte {address}"
        far = f"{'an' if width == 8 else 'a'} {width}-byte access needs an address that is a multiple of {width}"
        return self._fault("misaligned", place, far, lanes, position, bad)

    def _fault(self, kind: str, head: str, why: str, lanes: Array | None, position: int, bad: Array) -> Fault:
        lane = position if lanes is None else int(lanes[position])
        width = self.access.width
        others = int(np.count_nonzero(bad)) - 1
        more = f"; {others} more thread{'s' * (others > 1)} likewise" if others else ""
        line = line_of(self.instruction)
        where = f", line {line}" if line is not None else ""
        verb = VERBS[self.access.effect]
        message = f"{head}, {width} byte{'s' * (width > 1)} {verb} by {self.state.describe(lane)}{where}: {why}{more}"
        return Fault(kind, message, self.instruction)

    def _far(self, offset: int, size: int) -> str:
        width = self.access.width
        if offset < 0:
            return f"{-offset} bytes before its start"
        if offset < size:
            return f"its last {offset + width - size} bytes are past the end"
        return "just past its end" if offset == size else f"{offset - size} bytes past its end"

    def _below(self, offset: int) -> str:
        """The array in which, or behind the end of which, an offset of the window lies."""
        starts = {start: name for name, (start, _) in self.arrays.items() if start <= max(offset, 0)}
        return starts[max(starts)] if starts else ""
