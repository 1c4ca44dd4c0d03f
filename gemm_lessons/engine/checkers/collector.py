"""What the checkers found, deduplicated by source lines, in the words shown to the learner."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

from gemm_lessons.engine.compiler.diagnostics import plain_name
from gemm_lessons.engine.events import Access, Batch, LaunchInfo
from gemm_lessons.engine.machine.mbarriers import barrier_name
from gemm_lessons.engine.machine.state import position
from gemm_lessons.engine.records.findings import Finding, Severity
from gemm_lessons.engine.records.frozen import dataclass

RANK = {"error": 0, "warning": 1, "note": 2}
MOST = 50  # findings that one launch reports
SAME = {"block_order": "race"}  # kinds that are compared with each other
FOLLOWS_FROM = {"exited_before_barrier": "divergent_barrier"}  # left out when the cause is reported


@dataclass(frozen=True)
class Key:
    """One finding per key. ``other`` is the line of the second access, in ``other_file`` where that is another one;
    ``detail`` tells two kinds of message apart."""

    kind: str
    severity: Severity
    line: int | None
    other: int | None
    file: str
    detail: str = ""
    other_file: str = ""

    @classmethod
    def between(cls, kind: str, severity: Severity, first: Access | None, later: Access, detail: str) -> Key:
        """Of two accesses."""
        line, file = (first.line, first.file) if first and first.line else (None, later.file)
        return cls(kind, severity, line, later.line, file, detail, later.file if later.file != file else "")

    @property
    def places(self) -> str:
        """Which line is of which file, where a message about two lines does not tell."""
        if not self.other_file:
            return ""
        return f" (line {self.line} is of {Path(self.file).name}, line {self.other} of {Path(self.other_file).name})"


class Names:
    """Threads, blocks, arrays and lines by the names that a learner knows."""

    def __init__(self, launch: LaunchInfo) -> None:
        self._launch = launch
        self._padded = -(-launch.grid.threads // 32) * 32

    def thread(self, lane: int) -> str:
        """``thread (1, 0)`` of a lane in its batch (or of lane in block)."""
        return f"thread {position(lane % self._padded, self._launch.grid.block)}"

    def same_block(self, lane: int) -> slice:
        """All lanes of a lane's block, in its batch."""
        first = lane // self._padded * self._padded
        return slice(first, first + self._padded)

    def block(self, batch: Batch, lane: int) -> str:
        """``block (0, 1)`` of a lane of a batch."""
        return self.block_number(batch.first_block + lane // self._padded)

    def block_number(self, block: int) -> str:
        """``block (0, 1)`` of a linear block number."""
        return f"block {position(block, self._launch.grid.grid)}"

    def shared(self, offset: int) -> str:
        """``As, byte 64 of 4096`` of an offset in the block's window."""
        for array in self._launch.shared_arrays:
            if array.offset <= offset < array.offset + array.size:
                return f"{plain_name(array.name)}, byte {offset - array.offset} of {array.size}"
        return f"shared memory, byte {offset}"

    def mbarrier(self, offset: int) -> str:
        """``the mbarrier full[1]`` at an offset in the block's window."""
        return barrier_name({array.name: (array.offset, array.size) for array in self._launch.shared_arrays}, offset)

    def buffer(self, address: int) -> str:
        """``C, byte 64 of 4096`` of a global address."""
        for name, start, size in self._launch.buffers:
            if start <= address < start + size:
                return f"{plain_name(name)}, byte {address - start} of {size}"
        return f"global address 0x{address:x}"


def line(access: Access | int | None) -> str:
    """``line 9``, or ``an unknown line``."""
    number = access.line if isinstance(access, Access) else access
    return f"line {number}" if number else "an unknown line"


class Ledger:
    """Counts findings; the message is made for the first of each kind only."""

    def __init__(self) -> None:
        self._found: dict[Key, Finding] = {}

    def add(self, key: Key, message: Callable[[], str], count: int = 1) -> None:
        """Count ``count`` more of ``key``."""
        known = self._found.get(key)
        if known is not None:
            self._found[key] = dataclasses.replace(known, count=known.count + count)
            return
        self._found[key] = Finding(
            key.kind, key.severity, message() + key.places, key.line, key.other, count=count, file=key.file,
            detail=key.detail, other_file=key.other_file,
        )  # fmt: skip

    def downgrade(self, chosen: Callable[[Key], bool], severity: Severity, message: Callable[[str], str]) -> None:
        """Turn findings into less severe ones, with their message changed."""
        for key in [key for key in self._found if chosen(key)]:
            found = self._found.pop(key)
            changed = dataclasses.replace(found, severity=severity, message=message(found.message))
            self._found[dataclasses.replace(key, severity=severity)] = changed

    def _cured_by_a_barrier(self, key: Key) -> bool:
        """A warp's own race whose lines meet a race between warps: the barrier that is missing there orders both."""
        return (key.kind, key.severity) == ("race", "warning") and any(
            (other.kind, other.severity, other.detail) == ("race", "error", key.detail)
            and (other.line == key.line or other.other == key.other)
            for other in self._found
        )

    def result(self) -> Sequence[Finding]:
        """Most severe first; without what a more severe finding about the same lines, or its cause, says already."""
        worst: dict[tuple[str, frozenset[int | None]], int] = {}
        for key in self._found:
            place = SAME.get(key.kind, key.kind), frozenset((key.line, key.other))
            worst[place] = min(worst.get(place, RANK[key.severity]), RANK[key.severity])
        kinds = {key.kind for key in self._found}
        kept = [
            finding
            for key, finding in self._found.items()
            if RANK[key.severity] == worst[SAME.get(key.kind, key.kind), frozenset((key.line, key.other))]
            and FOLLOWS_FROM.get(key.kind) not in kinds
            and not self._cured_by_a_barrier(key)
        ]
        kept.sort(key=lambda finding: (RANK[finding.severity], finding.line or 0))
        return tuple(kept[:MOST])
