"""What every device returns from a launch: counters, findings, a fault, and what the kernel printed.

Verdicts, hints, estimates and reports read only these records, so they never ask which device ran.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from gemm_lessons.engine.records.findings import Finding
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.metrics import COUNTED


@dataclass(frozen=True)
class LineCount:
    """One counter of one source line. ``ideal`` is the smallest value that the same instructions could have."""

    line: int
    metric: str
    value: int
    ideal: int | None = None
    file: str = ""


@dataclass(frozen=True)
class Conflict:
    """The worst bank conflict of one source line, as an example to show.

    ``ways`` is wavefronts per ideal wavefront of the worst access; ``lanes`` collide on ``bank`` with different
    words; ``addresses`` are their byte offsets in shared memory, in the order of ``lanes``.
    """

    line: int
    store: bool
    width: int
    ways: int
    bank: int
    lanes: tuple[int, ...]
    addresses: tuple[int, ...]
    excess_wavefronts: int
    array: str = ""
    file: str = ""


@dataclass(frozen=True)
class Counters:
    """What one launch did, counted. ``totals`` is keyed by the long metric names of ``COUNTED``."""

    totals: Mapping[str, int] = field(default_factory=dict)
    lines: Sequence[LineCount] = ()
    conflicts: Sequence[Conflict] = ()
    opcodes: Mapping[str, int] = field(default_factory=dict)  # PTX opcode -> executed warp instructions
    inexact: Mapping[str, str] = field(default_factory=dict)  # metric name -> why Nsight Compute may count otherwise
    uncounted: Mapping[str, str] = field(default_factory=dict)  # short name of a counter -> why no gate trusts it
    obstacle: str = ""  # why the machine code could not be counted, with its line: then no gate trusts a number

    def get(self, short: str) -> int:
        """The total of a counter by its short name in ``COUNTED`` (0 when it was not counted)."""
        return self.totals.get(COUNTED[short], 0)


@dataclass(frozen=True)
class Printed:
    """What a kernel printed, by block and thread: the text of the first ``shown`` of ``calls`` calls of ``printf``."""

    text: str
    shown: int
    calls: int


@dataclass(frozen=True)
class Launched:
    """The outcome of one launch. ``fault`` ended it early; ``findings`` did not."""

    counters: Counters
    findings: Sequence[Finding] = ()
    fault: Finding | None = None
    time_us: float | None = None  # measured on a GPU; always None on the simulator
    printed: Printed | None = None  # on the simulator alone
    unstored: Mapping[str, int] = field(default_factory=dict)  # output -> elements never stored to, if asked for


def in_a_row(launches: Sequence[Launched]) -> Launched:
    """Launches that followed each other, as one: counts are added, the fault that ended them is that of the last."""
    if len(launches) == 1:
        return launches[0]
    findings = [finding for launched in launches for finding in launched.findings]
    told = [launched.printed for launched in launches if launched.printed is not None]
    printed = Printed("".join(it.text for it in told), sum(it.shown for it in told), sum(it.calls for it in told))
    counters = _added([launched.counters for launched in launches])
    return Launched(counters, findings, launches[-1].fault, printed=printed if told else None)


def _added(counters: Sequence[Counters]) -> Counters:
    totals: dict[str, int] = {}
    opcodes: Counter[str] = Counter()
    lines: dict[tuple[str, int, str], LineCount] = {}
    for one in counters:
        for name, value in one.totals.items():
            seen = totals.get(name, 0)
            totals[name] = max(seen, value) if name.endswith(".max") else seen + value
        opcodes.update(one.opcodes)
        for line in one.lines:
            key = (line.file, line.line, line.metric)
            before = lines.get(key)
            lines[key] = line if before is None else _sum_of(before, line)
    return Counters(
        totals,
        tuple(lines.values()),
        tuple(conflict for one in counters for conflict in one.conflicts),
        dict(opcodes),
        {name: why for one in counters for name, why in one.inexact.items()},
        {name: why for one in counters for name, why in one.uncounted.items()},
        next((one.obstacle for one in counters if one.obstacle), ""),
    )


def _sum_of(a: LineCount, b: LineCount) -> LineCount:
    ideal = None if a.ideal is None or b.ideal is None else a.ideal + b.ideal
    return replace(a, value=a.value + b.value, ideal=ideal)
