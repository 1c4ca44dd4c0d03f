"""Bytes moved by the async proxy, and the obstacles to counting kernels with mbarriers.

These copies bypass the load and store unit. Nsight Compute's counters of loads, stores and wavefronts leave them out,
and no counter of shared memory includes ``red.async`` (measured on an H200); the sums over every kind of access
(``records.metrics.TOTALS``) include them. They are counted on PTX, because machine code makes each copy exactly once.
The number of polls of an mbarrier depends on timing, and so does the number of tries to get registers (setmaxnreg.inc).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from gemm_lessons.engine.counters.overlap import Overlap
from gemm_lessons.engine.events import WARP, Boundary, Bulk, LaunchInfo, Phase, Record, Touch
from gemm_lessons.engine.machine.warpgroups import form_of
from gemm_lessons.engine.ptx.cfg import line_of
from gemm_lessons.engine.ptx.dead_products import PRODUCT, dead_products
from gemm_lessons.engine.ptx.records import Instruction, Kernel

SECTOR = 32  # bytes
POLLED = ("warp_instructions", "instructions")
ASKED = "how often a warp asks for registers until it has them depends on time"


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
