"""Estimate, on PTX, the counters that gates need if a kernel's machine code cannot be followed.

ptxas changes the order of instructions and their number, but hardly how the work is divided among threads, how many
products there are, and whether anything is computed between a load and the store of its value to shared memory:

- The threads' shares of the work are estimated by the bytes that they read, without polls of cooperative groups.
- A load counts as waited for if its thread, before its next store to shared memory, reads fewer than ``ENOUGH`` bytes
  from there, whose products could hide the load; a copy by ``cp.async``, if it does so before the wait for the copy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from gemm_lessons.engine.events import WARP, AsyncGroup, Batch, Boundary, LaunchInfo, Observer, Record, Touch
from gemm_lessons.engine.ptx.fragments import product_form
from gemm_lessons.engine.ptx.records import Instruction
from gemm_lessons.engine.records.arrays import Array

ENOUGH = 64  # bytes per thread: the operands of a few products
OPERATIONS: Mapping[str, int] = {"fma": 2, "mad": 2, "mul": 1, "add": 1, "sub": 1}
FLOATS = frozenset(("f32", "f64"))
ASYNCHRONOUS = ("mbarrier", "wgmma")
DOT_PRODUCTS = frozenset(("dp4a", "dp2a"))


class RoughCounts(Observer):
    """Observes one launch and counts it roughly."""

    def begin(self, launch: LaunchInfo) -> None:
        """Set up for a launch."""
        self._instructions, self._grid = launch.kernel.instructions, launch.grid
        self._lanes = launch.lanes
        self._of_groups = next((it for it in launch.shared_arrays if it.zeroed), None)  # barriers of cooperative groups
        self._executed = np.zeros(len(self._instructions), np.int64)
        self._most = self._read = self._waited = 0  # bytes: of the busiest thread, of all, waited for

    def begin_batch(self, batch: Batch) -> None:
        """Start new blocks: nothing is in flight."""
        every = np.zeros((5, self._lanes), np.int64)
        self._of_lane, self._work, self._loaded, self._since, self._copied = every
        self._groups: list[tuple[Array, Array]] = []  # bytes of each committed group, and the work before

    def epoch(self, batch: Batch, records: Sequence[Record], boundary: Boundary) -> None:
        """Process the records in order."""
        for record in records:
            if type(record) is Touch and record.access.is_counted:
                self._touch(record)
            elif type(record) is AsyncGroup:
                self._group(record)

    def _touch(self, touch: Touch) -> None:
        access, lanes = touch.access, slice(None) if touch.active is None else touch.active
        if access.effect == "load" and not self._waits(touch, lanes):
            self._of_lane[lanes] += access.width
        if access.space == "shared" and access.effect == "load":
            self._work[lanes] += access.width
        elif access.space == "shared" and access.effect == "store":
            self._settle(self._loaded[lanes], self._since[lanes], self._work[lanes])
            self._loaded[lanes] = 0
        elif access.space == "global" and access.effect == "load":
            self._loaded[lanes] += access.width
            self._since[lanes] = self._work[lanes]
        elif access.space == "global" and access.effect == "copy":
            self._of_lane[lanes] += access.width
            self._copied[lanes] += access.width

    def _waits(self, touch: Touch, lanes: Array | slice) -> bool:
        """Return whether a load polls a barrier of cooperative groups; how often it does depends on timing."""
        if self._of_groups is None or touch.access.space != "shared":
            return False
        at = touch.addresses[lanes] - self._of_groups.offset
        return bool(((at >= 0) & (at < self._of_groups.size)).all())

    def _group(self, mark: AsyncGroup) -> None:
        lanes = slice(None) if mark.lanes is None else mark.lanes
        if mark.kind == "commit":
            copied = np.zeros_like(self._copied)
            copied[lanes] = self._copied[lanes]
            self._copied[lanes] = 0
            self._groups.append((copied, self._work.copy()))
            return
        for copied, before in self._groups[: len(self._groups) - max(0, mark.pending)]:
            self._settle(copied[lanes], before[lanes], self._work[lanes])
            copied[lanes] = 0

    def _settle(self, moved: Array, before: Array, now: Array) -> None:
        self._waited += int(moved[now - before < ENOUGH].sum())

    def end_batch(self, batch: Batch, executions: Array, lane_executions: Array) -> None:
        """Add the bytes read and instructions executed by these blocks."""
        self._executed += lane_executions
        self._most = max(self._most, int(self._of_lane.max(initial=0)))
        self._read += int(self._of_lane.sum())

    def result(self) -> dict[str, int]:
        """Return the estimates by short name; none for kernels with mbarriers, bulk copies or ``wgmma``."""
        if any(it.row.name.startswith(ASYNCHRONOUS) or "bulk" in it.modifiers[:3] for it in self._instructions):
            return {}
        counts: Counter[str] = Counter()
        for instruction, number in zip(self._instructions, self._executed.tolist(), strict=True):
            for name, each in _of(instruction).items():
                counts[name] += each * number
        share = self._most * self._grid.threads * self._grid.blocks / max(1, self._read)  # busiest / average thread
        total = int(self._executed.sum())
        products = counts["operations"] // 2 + counts["tensor_products"] // WARP
        return {
            "thread_instructions": total,
            "thread_instructions_if_equal": int(total * share),
            "products_if_equal": int(products * share),
            "useful_operations_if_equal": int(2 * products * share),
            "operations": counts["operations"],
            "dot_products": counts["dot_products"] // WARP,
            "tensor_products": counts["tensor_products"] // WARP,
            "global_bytes_waited_for": self._waited,
        }


def _of(instruction: Instruction) -> Mapping[str, int]:
    """Return what each lane that executes an instruction adds to the counts."""
    if (form := product_form(instruction)) is not None:
        return {"tensor_products": form.c.rows * form.c.cols * form.a.cols}
    if instruction.opcode in DOT_PRODUCTS:
        return {"dot_products": 1}
    if FLOATS & {*instruction.modifiers}:
        return {"operations": OPERATIONS.get(instruction.opcode, 0)}
    return {}
