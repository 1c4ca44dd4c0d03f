"""Tensor maps that a kernel writes: the TMA reads them through the tensormap proxy, so a write needs two fences.

The writing block releases the map (``fence.proxy.tensormap::generic.release``, or ``tensormap.cp_fenceproxy``, which
also writes it). Then a thread of the block that copies by the map acquires it
(``fence.proxy.tensormap::generic.acquire``). Which thread of a block executes a fence is not checked, nor the order of
the fence and the copy. Source: NVIDIA, "PTX ISA" 9.0, 9.7.13.4 (membar, fence).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gemm_lessons.engine.checkers.collector import Example, FindingCollector, Key, Names
from gemm_lessons.engine.events import EVERY_MAP, Access, Batch, MapAccess, Record


@dataclass
class _Written:
    """The last write of a map: its block, its instruction (None: plain stores), and the blocks that fenced after it."""

    block: int
    access: Access | None
    released: set[int] = field(default_factory=set)
    acquired: set[int] = field(default_factory=set)


class MapProxy:
    """Tracks the maps in global memory that a launch writes. ``writer``: who last stored at an address, or None."""

    def __init__(self, collector: FindingCollector, names: Names, writer: Callable[[int], int | None]) -> None:
        self._collector, self._names, self._writer = collector, names, writer
        self._written: dict[int, _Written] = {}
        self._plain = _Written(0, None)  # all fences of the launch, since the time of a plain store is not known

    def records(self, batch: Batch, records: Sequence[Record]) -> None:
        """Process the records in order."""
        for record in records:
            if type(record) is MapAccess:
                self._record(batch, record)

    def _record(self, batch: Batch, record: MapAccess) -> None:
        for lane, address in zip(record.lanes.tolist(), record.addresses.tolist(), strict=True):
            block = int(batch.thread(lane)) // batch.padded_threads
            if record.kind == "write":
                self._written[address] = _Written(block, record.access)
            elif record.kind == "use":
                self._use(batch, record.access, lane, address, block)
            else:
                for one in (self._plain, *(it for at, it in self._written.items() if address in (at, EVERY_MAP))):
                    (one.released if record.kind == "release" else one.acquired).add(block)

    def _use(self, batch: Batch, access: Access, lane: int, address: int, block: int) -> None:
        written = self._written.get(address)
        if written is None:
            thread = self._writer(address)
            if thread is None:
                return
            written = _Written(thread // batch.padded_threads, None, self._plain.released, self._plain.acquired)
        missing = "map release" if written.block not in written.released else "map acquire"
        if missing == "map acquire" and block in written.acquired:
            return
        key = Key.between("async_proxy", "error", written.access, access, missing)

        def example() -> Example:
            actor = self._names.actor(batch, lane, access)
            return Example(missing, self._names.buffer(address), (actor, actor))

        self._collector.add(key, example)
