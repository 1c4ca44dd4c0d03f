"""Memory contents at the end of a block, from which a caller sees how far an unfinished kernel has got."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from gemm_lessons.engine.events import Batch, Boundary, LaunchInfo, Observer, Placed, Record, Touch
from gemm_lessons.engine.machine.machine import Machine
from gemm_lessons.engine.machine.memory import POISON
from gemm_lessons.engine.records.findings import Finding
from gemm_lessons.engine.records.frozen import dataclass

UNWRITTEN = int.from_bytes(bytes([POISON] * 4), "little")  # an unwritten word


@dataclass(frozen=True)
class FinalMemory:
    """The first block of a launch after its last instruction, in 32-bit words. Arrays have their names in PTX.

    ``own`` (threads, words): the variable that holds a thread's local arrays. ``registers`` (threads,): all 32-bit
    registers. ``loads``: lines of the kernel's file that read arguments in global memory. ``loaded``: bytes that the
    kernel reads there.
    """

    findings: tuple[Finding, ...]
    fault: Finding | None
    shared: Mapping[str, NDArray[np.uint32]]
    own: Mapping[str, NDArray[np.uint32]]
    registers: Sequence[NDArray[np.uint32]]
    loads: frozenset[int]
    loaded: int


def collect(machine: Machine, findings: Sequence[Finding], fault: Finding | None, loads: Loads) -> FinalMemory:
    """Collect the final memory of a machine that ran one block."""
    state, threads = machine.state, machine.grid.threads
    shared = {name: _words(state.shared[start : start + size]) for name, (start, size) in machine.layout.shared.items()}
    local = state.local[: state.lanes * state.local_stride] if state.local_bytes else state.local[:0]
    lanes = local.reshape(-1, state.local_stride)[:threads]
    own = {name: _words(lanes[:, start : start + size]) for name, (start, size) in machine.layout.local.items()}
    registers = [row[:threads].copy() for row in state.files[32]]
    return FinalMemory(tuple(findings), fault, shared, own, registers, frozenset(loads.lines), loads.bytes)


def _words(data: NDArray[np.uint8]) -> NDArray[np.uint32]:
    whole = data.shape[-1] // 4 * 4
    return np.ascontiguousarray(data[..., :whole]).view(np.uint32)


class Loads(Observer):
    """Observer that collects the lines of ``path`` that read the buffers ``arguments``, and counts the bytes read.

    Other global memory holds constants of the compiler: unoptimised code copies ``= {}`` of a member from there.
    """

    def __init__(self, path: str, arguments: Iterable[str]) -> None:
        self._path = path
        self._arguments = frozenset(arguments)
        self._others: list[range] = []
        self.lines: set[int] = set()
        self.bytes = 0

    def begin(self, launch: LaunchInfo) -> None:
        """Set up for a launch. See ``events.Observer``, also for the methods below."""
        buffers = launch.buffers
        self._others = [range(start, start + size) for name, start, size in buffers if name not in self._arguments]

    def epoch(self, batch: Batch, records: Sequence[Record], boundary: Boundary) -> None:
        """Collect the global loads of an epoch."""
        for record, following in zip_longest(records, records[1:]):
            if isinstance(record, Touch):
                access = record.access
                if access.space != "global" or access.effect != "load" or self._is_other(following):
                    continue
                lanes = record.addresses.size if record.active is None else int(record.active.sum())
                self.bytes += lanes * access.width
                if access.line and access.file == self._path:
                    self.lines.add(access.line)

    def _is_other(self, following: Record | None) -> bool:
        """Return whether a touch is of memory other than an argument. ``following``: the record after the touch."""
        if not isinstance(following, Placed):  # the touch is of an input that is only read
            return False
        touch = following.touch
        lane = 0 if touch.active is None else int(touch.active.argmax())
        address = following.base + int(touch.addresses[lane])
        return any(address in other for other in self._others)
