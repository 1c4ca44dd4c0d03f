"""The result of a launch on any device: counters, findings, a fault, and the kernel's output.

Verdicts, hints, estimates and reports read only these records, so they do not depend on the device.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from gemm_lessons.engine.records.findings import Finding
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.metrics import COUNTED

KNOWN = frozenset(COUNTED.values())  # Nsight Compute's names, and the simulator's own


@dataclass(frozen=True)
class LineCount:
    """One counter of one source line, the sum over the launch.

    ``metric`` is Nsight Compute's name. ``ideal`` is the smallest value that the same instructions could have, or None.
    """

    line: int
    metric: str
    value: int
    ideal: int | None = None
    file: str = ""


@dataclass(frozen=True)
class Conflict:
    """The worst bank conflict of one source line, as an example to show.

    ``store`` tells stores from loads; ``width`` is the bytes of a lane's access. ``ways`` is wavefronts per ideal
    wavefront of the worst access; ``lanes`` collide on ``bank`` with different words; ``addresses`` are their byte
    offsets in shared memory, in the order of ``lanes``. ``excess_wavefronts`` is what all conflicts of the line cost.
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


class NotCounted(KeyError):
    """A counter exists but has no value for this launch. The message says why."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True)
class Counters:
    """What one launch did, counted. A counter that was not counted is absent; 0 means that it was counted and nothing
    happened.

    ``counters[name]`` and ``counters.get(name)`` take short names (``"global_load_sectors"``) and the long ones of
    Nsight Compute (``"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"``); ``records/metrics.py`` lists both. ``totals``
    has those that were counted, by their long names. ``lines`` are counters by source line, ``conflicts`` the worst
    bank conflict of each line, ``opcodes`` the warp instructions executed, by PTX opcode.

    ``inexact``: long name -> why Nsight Compute may count otherwise. ``uncounted``: short name -> why the counter is
    absent, or no gate may rely on it. ``at_least``: long name -> lower bound of a counter that is absent. ``obstacle``:
    why the machine code could not be followed. The totals are then counted on the PTX, and those that only machine code
    has are absent; ``rough`` has estimates of some of them, by short name.
    """

    totals: Mapping[str, int] = field(default_factory=dict)
    lines: Sequence[LineCount] = ()
    conflicts: Sequence[Conflict] = ()
    opcodes: Mapping[str, int] = field(default_factory=dict)
    inexact: Mapping[str, str] = field(default_factory=dict)
    uncounted: Mapping[str, str] = field(default_factory=dict)
    at_least: Mapping[str, int] = field(default_factory=dict)
    rough: Mapping[str, int] = field(default_factory=dict)
    obstacle: str = ""  # with its line

    def __getitem__(self, name: str) -> int:
        """Return the total of a counter. Raise ``NotCounted``, and ``KeyError`` for an unknown name."""
        value = self.get(name)
        if value is None:
            raise NotCounted(f"{name} was not counted: {self.why_absent(name)}")
        return value

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self.totals)

    def of_all_blocks(self, blocks: int, counted: int) -> Counters:
        """Extrapolate the totals of ``counted`` blocks to a launch of ``blocks`` blocks. Maxima, and the sums if every
        thread did as much as the busiest one, are those of the launch already."""
        totals, at_least = (
            {
                name: value if name.endswith((".max", "_if_equal.sum")) else round(value * blocks / counted)
                for name, value in values.items()
            }
            for values in (self.totals, self.at_least)
        )
        rough = {
            name: value if name.endswith("_if_equal") else round(value * blocks / counted)
            for name, value in self.rough.items()
        }
        return Counters(
            totals,
            inexact=self.inexact,
            uncounted=self.uncounted,
            at_least=at_least,
            rough=rough,
            obstacle=self.obstacle,
        )

    def with_total(self, name: str, value: int) -> Counters:
        """Return the counters with one more total."""
        return replace(self, totals={**self.totals, _long(name): value})

    def get(self, name: str) -> int | None:
        """Return the total of a counter; None if it was not counted. Raise ``KeyError`` for an unknown name."""
        return self.totals.get(_long(name))

    def why_absent(self, name: str) -> str:
        """Return why a counter has no total; empty if it has one."""
        long = _long(name)
        if long in self.totals:
            return ""
        short = next(short for short, known in COUNTED.items() if known == long)
        nothing = "the launch did not end, or ran without counting"
        return self.uncounted.get(short) or self.obstacle or nothing

    def numbers(self) -> dict[str, float]:
        """Return every counter by its short name; NaN for those that were not counted."""
        return {short: self.totals.get(long, math.nan) for short, long in COUNTED.items()}

    @property
    def parts(self) -> dict[str, int]:
        """Return ``at_least`` by short names."""
        return {short: self.at_least[long] for short, long in COUNTED.items() if long in self.at_least}


def _long(name: str) -> str:
    long = COUNTED.get(name, name)
    if long not in KNOWN:
        raise KeyError(f"no counter is called {name!r}; records/metrics.py lists their names")
    return long


@dataclass(frozen=True)
class Printed:
    """The kernel's output, by block and thread: the text of the first ``shown`` of ``calls`` calls of ``printf``."""

    text: str
    shown: int
    calls: int


@dataclass(frozen=True)
class Launched:
    """The outcome of one launch.

    ``counters``: what it did; empty when it did not end, or ran without counting. ``findings``: races, uninitialised
    reads and other mistakes that did not stop it. ``fault``: what stopped it early, or None. ``time_us``: measured on a
    GPU, in microseconds; None on the simulator. ``printed``: the output of ``printf``, on the simulator alone; None
    when the kernel printed nothing. ``stored``: the buffers that a store or an atomic reached, if it was checked.
    """

    counters: Counters
    findings: Sequence[Finding] = ()
    fault: Finding | None = None
    time_us: float | None = None  # measured on a GPU; always None on the simulator
    printed: Printed | None = None  # on the simulator alone
    unstored: Mapping[str, int] = field(default_factory=dict)  # output -> elements never stored to, if requested
    stored: frozenset[str] = frozenset()

    @property
    def lines(self) -> Sequence[LineCount]:
        """The counters of every source line."""
        return self.counters.lines


@dataclass(frozen=True)
class SampledBlocks:
    """The outcome of some blocks of a launch, with all blocks of their clusters: ``blocks`` in all. ``touched``: buffer
    -> the numbers of the pages that they touched (n,), and the bytes of these pages afterwards (n, ``launch.PAGE``).
    ``stored``: the buffers that are outputs or were stored into. ``dependent``: why these blocks say
    nothing about the launch: a block depends on others, or does more than its share. ``counters``, if requested, are
    those of a launch whose blocks all do what these did on average."""

    touched: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    blocks: int = 0
    fault: Finding | None = None
    dependent: str = ""
    counters: Counters = field(default_factory=Counters)
    stored: frozenset[str] = frozenset()


@dataclass(frozen=True)
class RareBlocks:
    """Blocks of a launch that execute the kernel differently from most: one of each class but the largest, the
    smallest class first. ``odd``: those of them that no edge of a matrix or of a band of tiles explains. ``usual``: a
    block of the largest class, if there are others."""

    every: tuple[int, ...] = ()
    odd: tuple[int, ...] = ()
    usual: tuple[int, ...] = ()

    def some(self, most: int) -> tuple[int, ...]:
        """Return the blocks of at most so many of the smallest classes, and of the largest one, sorted."""
        return tuple(sorted((*self.every[:most], *self.usual)))


def in_a_row(launches: Sequence[Launched]) -> Launched:
    """Combine consecutive launches: their counts are added; the fault is that of the last."""
    if len(launches) == 1:
        return launches[0]
    findings = [finding for launched in launches for finding in launched.findings]
    all_printed = [launched.printed for launched in launches if launched.printed is not None]
    printed = Printed(
        "".join(it.text for it in all_printed), sum(it.shown for it in all_printed), sum(it.calls for it in all_printed)
    )
    counters = added([launched.counters for launched in launches])
    stored = frozenset[str]().union(*(it.stored for it in launches))
    return Launched(counters, findings, launches[-1].fault, printed=printed if all_printed else None, stored=stored)


def added(counters: Sequence[Counters]) -> Counters:
    """Add counters. A counter that only some of the launches have is absent from the sum."""
    opcodes: Counter[str] = Counter()
    lines: dict[tuple[str, int, str], LineCount] = {}
    counted = [{**one.at_least, **one.totals} for one in counters]
    sums = {
        name: max(values) if name.endswith(".max") else sum(values)
        for name in counted[0]
        if all(name in one for one in counted)
        for values in [[one[name] for one in counted]]
    }
    whole = set.intersection(*(set(one.totals) for one in counters))
    for one in counters:
        opcodes.update(one.opcodes)
        for line in one.lines:
            key = (line.file, line.line, line.metric)
            before = lines.get(key)
            lines[key] = line if before is None else _sum_of(before, line)
    return Counters(
        {name: value for name, value in sums.items() if name in whole},
        tuple(lines.values()),
        tuple(conflict for one in counters for conflict in one.conflicts),
        dict(opcodes),
        {name: why for one in counters for name, why in one.inexact.items()},
        {name: why for one in counters for name, why in one.uncounted.items()},
        {name: value for name, value in sums.items() if name not in whole},
        _rough_sums(counters),
        next((one.obstacle for one in counters if one.obstacle), ""),
    )


def _rough_sums(counters: Sequence[Counters]) -> dict[str, int]:
    """Return the sums of the counters that some launches have as estimates, and all others exactly or as estimates."""
    known = [
        {**one.rough, **{short: int(number) for short, number in one.numbers().items() if not math.isnan(number)}}
        for one in counters
    ]
    every = {name for one in counters for name in one.rough}
    return {name: sum(one[name] for one in known) for name in every if all(name in one for one in known)}


def _sum_of(a: LineCount, b: LineCount) -> LineCount:
    ideal = None if a.ideal is None or b.ideal is None else a.ideal + b.ideal
    return replace(a, value=a.value + b.value, ideal=ideal)
