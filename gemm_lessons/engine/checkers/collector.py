"""Findings of the checkers, deduplicated by source lines."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from gemm_lessons.engine.compiler.diagnostics import plain_name
from gemm_lessons.engine.events import Access, Batch, LaunchInfo, Phase
from gemm_lessons.engine.machine.mbarriers import mbarrier_at
from gemm_lessons.engine.machine.state import coordinates
from gemm_lessons.engine.records.facts import Actor, Details, Location, Mbarrier
from gemm_lessons.engine.records.findings import Finding, Severity
from gemm_lessons.engine.records.frozen import dataclass

RANK = {"error": 0, "warning": 1, "note": 2}
MOST = 50  # largest number of findings per launch
SAME = {"block_order": "race"}  # kinds that are compared with each other
# Effect -> cause; the effect is left out when the cause is reported.
FOLLOWS_FROM = {"exited_before_barrier": "divergent_barrier"}
# Races of these cases lack a barrier. If threads skip barriers, the missing one may exist, but not for all threads.
UNORDERED = dict.fromkeys(("shared order", "shared stores", "shared next round"), "shared skipped")
SKIPPED = frozenset({"divergent_barrier", "exited_before_barrier"})


@dataclass(frozen=True)
class Key:
    """Identity of a finding.

    ``other``: line of the second access; ``other_file``: its file, if that is another one. ``detail`` separates two
    findings of one kind.
    """

    kind: str
    severity: Severity
    line: int | None
    other: int | None
    file: str
    detail: str = ""
    other_file: str = ""

    @classmethod
    def between(cls, kind: str, severity: Severity, first: Access | None, later: Access, detail: str) -> Key:
        """Return the key of a finding about two accesses."""
        line, file = (first.line, first.file) if first and first.line else (None, later.file)
        return cls(kind, severity, line, later.line, file, detail, later.file if later.file != file else "")


@dataclass(frozen=True)
class Example:
    """Example for a finding: its case, memory location, threads, and further facts."""

    case: str = ""
    place: Location | None = None
    actors: tuple[Actor, ...] = ()
    facts: Details = Details()


class Names:
    """Names of threads, blocks, arrays and mbarriers as the source shows them."""

    def __init__(self, launch: LaunchInfo) -> None:
        self._launch = launch
        self._padded = -(-launch.grid.threads // 32) * 32

    def actor(self, batch: Batch, lane: int, access: Access | None = None, line: int | None = None) -> Actor:
        """Return the thread of a batch's lane with ``access``, or, without one, with the source ``line``."""
        return self.actor_of(int(batch.thread(lane)), access, line)

    def actor_of(self, thread: int, access: Access | None = None, line: int | None = None) -> Actor:
        """Return the actor of a thread number in the grid, where blocks are padded to whole warps."""
        in_block = coordinates(thread % self._padded, self._launch.grid.block)
        block = coordinates(thread // self._padded, self._launch.grid.grid)
        if access is None:
            return Actor(in_block, block, line)
        return Actor(in_block, block, access.line, access.effect, access.width, self.called(access))

    def at_mbarrier(self, batch: Batch, lane: int, mark: Phase) -> tuple[Actor, str]:
        """Return the thread of a lane that arrives at an mbarrier or tests it, and the file of the line."""
        assert mark.index is not None
        source = self._launch.kernel.instructions[mark.index].source
        actor = dataclasses.replace(self.actor(batch, lane, line=mark.line), called=self.called(mark))
        return actor, source.file if source else ""

    def called(self, access: Access | Phase) -> tuple[str, int] | None:
        """Return the line that calls the function of an access (``Kernel.called_in``), if that is not the kernel."""
        assert access.index is not None
        kernel = self._launch.kernel
        return kernel.called_in(kernel.instructions[access.index])

    def same_block(self, lane: int) -> slice:
        """Return all lanes of a lane's block, within its batch."""
        first = lane // self._padded * self._padded
        return slice(first, first + self._padded)

    def shared(self, offset: int) -> Location:
        """Return the location of an offset in the block's shared window."""
        for array in self._launch.shared_arrays:
            if array.offset <= offset < array.offset + array.size:
                return Location("shared", plain_name(array.name), offset - array.offset, array.size)
        return Location("shared", "", offset)

    def mbarrier(self, offset: int) -> Mbarrier:
        """Return the mbarrier at an offset in the block's shared window."""
        return mbarrier_at({array.name: (array.offset, array.size) for array in self._launch.shared_arrays}, offset)

    def buffer(self, address: int) -> Location:
        """Return the location of a global address."""
        for name, start, size in self._launch.buffers:
            if start <= address < start + size:
                return Location("global", plain_name(name), address - start, size)
        return Location("global", "", address)


class FindingCollector:
    """Counts findings. An example is made only for the first finding of each key."""

    def __init__(self) -> None:
        self._found: dict[Key, Finding] = {}

    def add(self, key: Key, example: Callable[[], Example], count: int = 1) -> None:
        """Add ``count`` occurrences of ``key``."""
        known = self._found.get(key)
        if known is not None:
            self._found[key] = dataclasses.replace(known, count=known.count + count)
            return
        it = example()
        self._found[key] = Finding(
            key.kind, key.severity, it.case, key.line, key.other, count, key.file, key.other_file, it.place, it.actors,
            it.facts,
        )  # fmt: skip

    def downgrade(self, chosen: Callable[[Key], bool], severity: Severity, facts: Details | None = None) -> None:
        """Lower the severity of the chosen findings and attach ``facts``."""
        for key in [key for key in self._found if chosen(key)]:
            found = self._found.pop(key)
            changed = dataclasses.replace(found, severity=severity, facts=found.facts if facts is None else facts)
            self._found[dataclasses.replace(key, severity=severity)] = changed

    def drop(self, chosen: Callable[[Key], bool]) -> None:
        """Remove the chosen findings."""
        self._found = {key: finding for key, finding in self._found.items() if not chosen(key)}

    def _fixed_by_a_barrier(self, key: Key) -> bool:
        """Return whether a race within a warp is on the lines of a race between warps: one barrier orders both."""
        return (key.kind, key.severity) == ("race", "warning") and any(
            (other.kind, other.severity, other.detail) == ("race", "error", key.detail)
            and (other.line == key.line or other.other == key.other)
            for other in self._found
        )

    def result(self) -> Sequence[Finding]:
        """Return the findings, most severe first.

        A finding is left out if a more severe one about the same lines, or its cause, implies it. A divergent barrier
        precedes the races that it causes.
        """
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
            and not self._fixed_by_a_barrier(key)
        ]
        if not SKIPPED.isdisjoint(kinds):
            kept = [dataclasses.replace(it, case=UNORDERED.get(it.case, it.case)) for it in kept]
        kept.sort(key=lambda it: (RANK[it.severity], it.kind != "divergent_barrier", it.line or 0))
        return tuple(kept[:MOST])
