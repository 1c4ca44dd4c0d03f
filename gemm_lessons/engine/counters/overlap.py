"""Count bytes moved by the async proxy, and the overlap of bulk copies with products of warpgroups (``wgmma``) that is
possible whatever the timing.

``HappensBefore`` tells which products a thread knows to be issued, and which to be complete: its own warpgroup's, and
those of threads with which it has synchronised, and which copies have landed. Four counts follow:

- A copy, in bulk or by ``cp.async``, that reports to an mbarrier overlaps the products that the first waiting thread
  knows to be issued, without those that the issuer of the copy knew to be complete. The copy counts as waited for if
  these are less than a quarter of the products of an average K tile. A K tile is a phase that copies complete; a
  quarter, because four consumers may share a tile.
- A copy counts as after products if its warp has issued products before: the warp had to wait for them.
- A copy counts as alone if its issuer knows that its own copies to the mbarrier before have landed. So it has one K
  tile in flight at a time, and waits for memory once for each.
- A product starts on idle tensor cores if less work than its own size is in flight, as far as its warpgroup knows: of
  its own products, and of those of every other warpgroup, each of which has issued as many.

Products count by their size, M * N * K, so that a small one hides no large one. Those whose sums are never used do
not count: ptxas removes them.

Other products are not in the trace. In a kernel without ``wgmma``, the bytes that threads read from shared memory
count instead, in the order in which the simulator runs the threads: a copy counts as waited for if, while it is in
flight, threads read less than a quarter of the bytes of an average K tile.

Copies by the async proxy bypass the load and store unit. Nsight Compute's counters of loads, stores and wavefronts
leave them out, and no counter of shared memory includes ``red.async`` (measured on an H200); the sums over every kind
of access (``records.metrics.TOTALS``) include them. They are counted on PTX, because machine code makes each copy
exactly once. The number of polls of an mbarrier depends on timing, and so does the number of tries to get registers
(setmaxnreg.inc).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gemm_lessons.engine.checkers.happens_before import HappensBefore
from gemm_lessons.engine.events import (
    WARP,
    Barrier,
    Boundary,
    Bulk,
    BulkGroup,
    Landed,
    LaunchInfo,
    Phase,
    Record,
    Touch,
)
from gemm_lessons.engine.machine.warpgroups import form_of
from gemm_lessons.engine.ptx.cfg import line_of
from gemm_lessons.engine.ptx.dead_products import PRODUCT, dead_products
from gemm_lessons.engine.ptx.records import Instruction, Kernel
from gemm_lessons.engine.records.arrays import Array

WARPGROUP = 128  # lanes
ENOUGH = 4  # 1/4 of an average K tile's products hides a copy: those of one consumer, if four share the tile
SECTOR = 32  # bytes
POLLED = ("warp_instructions", "instructions")
ASKED = "how often a warp asks for registers until it has them depends on time"


@dataclass(eq=False)
class _Copy:
    """A copy that no thread waited for. ``complete``: products known to be complete; ``phase`` that it completes."""

    lane: int
    offset: int
    bytes: int
    complete: Array
    phase: int | None = None


@dataclass(eq=False)
class _Run:
    """The latest copies of a lane to one mbarrier: the last of them, and whether they are alone."""

    last: _Copy
    alone: bool


class Overlap:
    """Counts of one launch. ``sizes``: by instruction index, the sizes of the products whose sums are used."""

    def __init__(self, lanes: int, padded: int, cluster: int, sizes: Mapping[int, int]) -> None:
        self._lanes, self._padded = lanes, padded
        self._sizes = sizes
        self._bytes_read = 0  # from shared memory, in a kernel without products of warpgroups
        self._cluster, self._together = cluster, padded * cluster  # blocks and lanes of a cluster
        self._read_by = np.zeros(lanes // self._together, np.int64)  # the same bytes, by cluster
        self._groups = -(-padded // WARPGROUP)  # of a block
        self._totals: Counter[str] = Counter()
        self._issued = 0  # products
        self._tiles = 0  # phases that copies ended
        self._waited: Counter[int] = Counter()  # products that overlap a copy -> bytes of such copies

    @property
    def totals(self) -> Counter[str]:
        """The counts by their short names in ``records.metrics.TOTALS``."""
        work = self._issued if self._sizes else self._bytes_read
        enough = max(1, work / ENOUGH / max(1, self._tiles))
        bare = sum(moved for beside, moved in self._waited.items() if beside < enough)
        return self._totals + Counter({"global_bytes_waited_for": bare})

    def begin_batch(self) -> None:
        """Start new blocks: no product has been issued, and no copy."""
        self._order = HappensBefore(self._lanes, self._padded, self._cluster)
        self._together_groups = self._groups * self._cluster
        for number in range(2 * self._together_groups):  # of ``_known``, then of ``_done``
            self._order.number(("products", number))
        self._committed: dict[int, list[int]] = {}  # first lane of a warpgroup -> its products at each commit
        self._multiplied = np.zeros(self._lanes // WARP, np.bool_)  # warps
        self._copies: dict[Bulk, list[_Copy]] = {}  # in flight
        self._landed: list[_Copy] = []  # not waited for
        # Bytes that each lane has requested by cp.async and that belong to no phase yet; by warp, the products that
        # were complete before.
        self._loose = np.zeros(self._lanes, np.int64)
        self._latest: dict[int, _Run] = {}  # by lane
        self._before: list[Array | None] = [None] * (self._lanes // WARP)

    @property
    def _known(self) -> Array:
        """Return the total size of the products that each lane knows to be issued: (warpgroups of a cluster, lanes)."""
        return self._order.clocks[: self._together_groups]

    @property
    def _done(self) -> Array:
        """Return the total size of those that each lane knows to be complete, likewise."""
        return self._order.clocks[self._together_groups : 2 * self._together_groups]

    def follow(self, records: Sequence[Record], boundary: Boundary) -> None:
        """Process the records in order."""
        for record in records:
            kind = type(record)
            if kind is Barrier:
                self._order.meet(record)  # type: ignore[arg-type]
            elif kind is Phase:
                self._phase(record)  # type: ignore[arg-type]
            elif kind is Bulk and record.touch.access.is_product:  # type: ignore[union-attr]
                self._multiply(record)  # type: ignore[arg-type]
            elif kind is Bulk and record.offsets is not None:  # type: ignore[union-attr]
                self._copy(record)  # type: ignore[arg-type]
            elif kind is BulkGroup and record.products:  # type: ignore[union-attr]
                self._group(record)  # type: ignore[arg-type]
            elif kind is Landed:
                for copy, phase in zip(self._copies.pop(record.bulk), record.phases.tolist(), strict=True):  # type: ignore[union-attr]
                    copy.phase = phase
                    self._landed.append(copy)
            elif kind is Touch:
                self._read(record)  # type: ignore[arg-type]
        if boundary == "barrier":
            self._order.meet(None)

    def _phase(self, mark: Phase) -> None:
        if mark.kind == "init":
            for lane, offset in zip(mark.lanes.tolist(), mark.offsets.tolist(), strict=True):
                self._order.forget(("mbarrier", offset), lane // self._together)
        elif mark.kind in ("arrive", "wait"):
            self._order.phase(mark)
        if mark.kind == "copies":
            self._assign_copies(mark)
        if mark.kind == "wait":
            self._resolve(mark)

    def _assign_copies(self, mark: Phase) -> None:
        """Assign these lanes' copies by cp.async to a phase; those of one warp count as one copy."""
        for warp in np.unique(mark.lanes // WARP).tolist():
            its = mark.lanes // WARP == warp
            lanes, before = mark.lanes[its], self._before[warp]
            moved = int(self._loose[lanes].sum())
            if before is not None and moved:
                self._landed.append(
                    _Copy(int(lanes[0]), int(mark.offsets[its][0]), moved, before, int(mark.phases[its][0]))
                )
            self._loose[lanes] = 0
            self._before[warp] = None

    def _resolve(self, mark: Phase) -> None:
        """Count the products that overlap the copies that these lanes have waited for."""
        waiting = {
            (lane // self._together, offset): (lane, phase)
            for lane, offset, phase in zip(
                mark.lanes.tolist(), mark.offsets.tolist(), mark.phases.tolist(), strict=True
            )
        }
        left = []
        tiles = set()
        for copy in self._landed:
            lane, phase = waiting.get((copy.lane // self._together, copy.offset), (0, -1))
            assert copy.phase is not None
            if copy.phase > phase:
                left.append(copy)
            else:
                beside = np.maximum(self._at(self._known, lane) - copy.complete, 0).sum()
                self._waited[int(beside)] += copy.bytes
                tiles.add((copy.lane // self._together, copy.offset, copy.phase))
        self._landed = left
        self._tiles += len(tiles)

    def _copy(self, bulk: Bulk) -> None:
        assert bulk.offsets is not None
        each = bulk.moved.bytes // bulk.lanes.size
        self._after_products(bulk.lanes, each)
        self._copies[bulk] = [
            _Copy(lane, offset, each, self._at(self._done, lane))
            for lane, offset in zip(bulk.lanes.tolist(), bulk.offsets.tolist(), strict=True)
        ]
        for copy in self._copies[bulk]:
            before = self._latest.get(copy.lane)
            same = before is not None and before.last.offset == copy.offset
            alone = before is not None and (before.alone if same else self._has_landed(before.last))
            self._latest[copy.lane] = _Run(copy, alone)
            self._totals["global_bytes_copied_alone"] += each * alone

    def _has_landed(self, copy: _Copy) -> bool:
        """Tell whether the issuer of a copy knows that it has landed."""
        if copy.phase is None:
            return False
        return bool(self._order.number(("mbarrier", copy.offset))[copy.lane] > copy.phase)

    def _read(self, touch: Touch) -> None:
        access = touch.access
        if not self._sizes and access.is_counted and (access.space, access.effect) == ("shared", "load"):
            active = np.ones(self._lanes, np.bool_) if touch.active is None else touch.active
            read = access.width * active.reshape(-1, self._together).sum(axis=1)
            self._bytes_read += int(read.sum())
            self._read_by += read
        if (access.space, access.effect) == ("global", "copy") and access.is_counted:
            lanes = touch.active_lanes
            self._loose[lanes] += access.width
            for warp in np.unique(lanes // WARP).tolist():
                if self._before[warp] is None:
                    self._before[warp] = self._at(self._done, warp * WARP)
        if access.space == "global" and access.effect in ("load", "copy") and self._multiplied.any():
            self._after_products(touch.active_lanes, access.width)

    def _after_products(self, lanes: Array, width: int) -> None:
        self._totals["global_bytes_after_products"] += width * int(np.count_nonzero(self._multiplied[lanes // WARP]))

    def _multiply(self, bulk: Bulk) -> None:
        """Count a product of one or several warpgroups, each of which issues it once."""
        size = self._sizes.get(bulk.touch.access.index)
        if size is None:
            return
        self._multiplied[bulk.lanes // WARP] = True
        for first in self._warpgroups(bulk.lanes):
            group = self._group_of(first)
            own = self._known[group]
            if own[first] and self._all_idle(first, group, size):
                self._totals["products_on_idle_units"] += 1
            own[first : first + WARPGROUP] = own[first] + size
            self._issued += size

    def _all_idle(self, first: int, group: int, size: int) -> bool:
        own = self._known[group][first]
        if own - self._done[group][first] >= size:
            return False
        first_of_block = group - group % self._groups
        there = range(first_of_block, first_of_block + self._groups)
        others = [it for it in there if it != group and self._known[it].any()]
        known, done = ([int(of[it][first]) for it in others] for of in (self._known, self._done))
        return all(theirs >= own and theirs - over < size for theirs, over in zip(known, done, strict=True))

    def _group(self, mark: BulkGroup) -> None:
        """Note the products that a commit includes, or that a wait has seen complete."""
        lanes = np.arange(self._lanes) if mark.lanes is None else np.flatnonzero(mark.lanes)
        for first in self._warpgroups(lanes):
            group = self._group_of(first)
            committed = self._committed.setdefault(first, [0])
            if mark.kind == "commit":
                if first in lanes:
                    committed.append(int(self._known[group][first]))
                continue
            mine = lanes[(lanes >= first) & (lanes < first + WARPGROUP)]
            done = self._done[group]  # a wait that allows more pending groups takes nothing back
            done[mine] = np.maximum(done[mine], committed[max(len(committed) - 1 - mark.pending, 0)])

    def _warpgroups(self, lanes: Array) -> list[int]:
        """Return the first lanes of the warpgroups of these lanes."""
        block, thread = np.divmod(lanes, self._padded)
        first = block * self._padded + thread // WARPGROUP * WARPGROUP
        return list(np.flatnonzero(np.bincount(first)).tolist())

    def _group_of(self, lane: int) -> int:
        """Return the number of a lane's warpgroup in its cluster."""
        return lane % self._together // self._padded * self._groups + lane % self._padded // WARPGROUP

    def _at(self, numbers: Array, lane: int) -> Array:
        """Return the numbers of all warpgroups as a lane knows them; without products, bytes read by its cluster."""
        return numbers[:, lane].copy() if self._sizes else np.array([self._read_by[lane // self._together]])


class AsyncCounts:
    """Counts of one launch. ``obstacle``: why its machine code cannot be counted."""

    def __init__(self, launch: LaunchInfo | None) -> None:
        instructions = launch.kernel.instructions if launch is not None else ()
        waits = next((i for i in instructions if i.row.name in ("mbarrier.test_wait", "mbarrier.try_wait")), None)
        arrives = next((i for i in instructions if i.row.name.startswith("mbarrier.arrive")), None)
        by_mbarrier = ("bulk", "mbarrier")  # copies that report to an mbarrier, unlike groups of cp.async
        copies = any(i.row.effect == "copy" and any(it in i.modifiers[:3] for it in by_mbarrier) for i in instructions)
        multiplies = any(i.row.name == PRODUCT for i in instructions)
        self.anything = bool(waits or arrives or copies or multiplies)
        self._padded, self._cluster = 1, 1  # lanes of a block, blocks of a cluster
        self._overlap = None
        if launch is not None:
            self._padded = -(-launch.grid.threads // WARP) * WARP
            self._cluster = math.prod(launch.grid.cluster or (1,))
            if multiplies or copies:
                self._overlap = Overlap(launch.lanes, self._padded, self._cluster, _sizes(launch.kernel))
        # Bytes from the shared memory of one block of a cluster to the next, as ``state.State`` lays them out.
        self._window = -(-max(launch.shared_bytes if launch is not None else 0, 16) // 16) * 16
        self._totals: Counter[str] = Counter()
        self.obstacle = ""
        self.polls = "" if waits is None else _where("how often threads look at an mbarrier depends on time", waits)
        asks = next((i for i in instructions if i.row.name == "setmaxnreg" and "inc" in i.modifiers), None)
        self.uncounted: Mapping[str, str] = {
            **({} if asks is None else {"warp_instructions": _where(ASKED, asks)}),
            **(dict.fromkeys(POLLED, self.polls) if waits else {}),
            **({"barriers": _where("threads meet at mbarriers, too", arrives)} if arrives else {}),
        }
        self._vain: np.ndarray[tuple[int], np.dtype[np.bool_]] | None = None

    @property
    def totals(self) -> Mapping[str, int]:
        """The counts by their short names in ``records.metrics.TOTALS``."""
        return self._totals if self._overlap is None else self._totals + self._overlap.totals

    def begin_batch(self) -> None:
        """Start new blocks: no thread waits."""
        self._vain = None
        if self._overlap is not None:
            self._overlap.begin_batch()

    def follow(self, records: Sequence[Record], boundary: Boundary) -> None:
        """Process the records in order."""
        if self._overlap is not None:
            self._overlap.follow(records, boundary)
        for record in records:
            kind = type(record)
            if kind is Bulk:
                if not record.touch.access.is_product:  # type: ignore[union-attr]
                    self._copy(record)  # type: ignore[arg-type]
            elif kind is Phase:
                self._phase(record)  # type: ignore[arg-type]
            elif kind is Touch and self._vain is not None and not self.obstacle:
                self._check_polling(record)  # type: ignore[arg-type]

    def _copy(self, bulk: Bulk) -> None:
        """Count each lane's copy as one access."""
        moved, inside = bulk.moved, bulk.touch.access.width * bulk.lanes.size
        loads = bulk.offsets is not None and not bulk.reads
        self._totals["global_accesses"] += moved.copies
        self._totals["multicast_sectors"] += moved.multicast
        self._totals["shared_accesses"] += bulk.lanes.size
        self._totals["shared_bytes_written" if loads else "shared_bytes_read"] += inside
        for direction in ("read",) * (loads or moved.reduces) + ("written",) * (not loads):
            self._totals[f"global_bytes_{direction}"] += moved.bytes
            self._totals[f"global_sectors_{direction}"] += moved.sectors
        if bulk.touch.access.text.startswith("st.async"):
            warps = bulk.lanes // WARP
            block, offset = np.divmod(bulk.touch.addresses[bulk.lanes], self._window)
            self._totals["remote_store_requests"] += np.unique(warps).size
            sectors = np.unique(np.stack((warps, block, offset // SECTOR)), axis=1)
            self._totals["remote_store_sectors"] += sectors.shape[1]

    def _phase(self, mark: Phase) -> None:
        if mark.kind == "arrive" and self._cluster > 1:
            mbarrier = mark.offsets >= 0  # the barrier of the cluster is at CLUSTER
            elsewhere = mark.offsets // self._window != mark.lanes // self._padded % self._cluster
            self._totals["remote_arrivals"] += int(np.count_nonzero(mbarrier & elsewhere))
        if mark.kind not in ("wait", "vain"):
            return
        if self._vain is None:
            self._vain = np.zeros(mark.total, np.bool_)
        self._vain[mark.lanes] = mark.kind == "vain"

    def _check_polling(self, touch: Touch) -> None:
        """Note an obstacle: a thread whose poll failed did something other than poll again, and timing decides that."""
        assert self._vain is not None
        if touch.access.is_mbarrier:
            return
        lanes = slice(None) if touch.active is None and touch.chunk_lanes is None else touch.active_lanes
        if self._vain[lanes].any():
            where = touch.access.text + (f", line {touch.access.line}" if touch.access.line else "")
            self.obstacle = f"what threads do while they wait for an mbarrier depends on time: {where}"


def _sizes(kernel: Kernel) -> dict[int, int]:
    """Return the sizes of the products of warpgroups whose sums are used, by index, in multiples of 64 x 8 x 8."""
    dead = dead_products(kernel)
    forms = {it.index: form_of(it) for it in kernel.instructions if it.row.name == PRODUCT and it.index not in dead}
    return {index: form.n * form.k // 64 for index, form in forms.items()}


def _where(why: str, instruction: Instruction) -> str:
    line = line_of(instruction)
    return f"{why}: {instruction.full_opcode}{f', line {line}' if line else ''}"
