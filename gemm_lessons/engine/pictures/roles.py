"""The timeline by role: the work of producers, consumers, tensor cores and TMA, and how they hand stages over.

    Recording --roles_of--> Roles: warps by role, work of the asynchronous units, hand-overs through mbarriers

A role is a run of neighbouring warps whose instructions do the same kind of work; a warpgroup that multiplies together
is one role.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from gemm_lessons.engine.compiler.diagnostics import plain_name
from gemm_lessons.engine.estimate.items import BOX, BOX_OUT, GROUPED, PRODUCTS, WARPS_OF_GROUP
from gemm_lessons.engine.estimate.recording import NOTHING, OTHER_BLOCK, Recording, UnitWork
from gemm_lessons.engine.machine.memory import shared_origin
from gemm_lessons.engine.machine.phases import BYTES
from gemm_lessons.engine.pictures.timeline import lines_of
from gemm_lessons.engine.records.frozen import dataclass

if TYPE_CHECKING:
    from gemm_lessons.engine.compiler.compile import Compiled

COPIES = ("LDGSTS", "UBLKCP", BOX)
MOST_ROWS = 8  # barriers whose copies have rows of their own
ANOTHER = -1  # instead of a role: a thread of another block of the cluster
# (multiplies, copies into shared memory, copies boxes out of it) -> the name of such a role.
NAMES: Mapping[tuple[bool, bool, bool], str] = {
    (True, False, False): "consumer",
    (True, False, True): "consumer",
    (False, True, False): "producer",
    (False, True, True): "producer",
    (False, False, True): "store",
    (False, False, False): "other",
    (True, True, False): "worker",
    (True, True, True): "worker",
}


@dataclass(frozen=True)
class Role:
    """Warps ``first`` to ``last`` of a block."""

    name: str
    first: int
    last: int


@dataclass(frozen=True)
class UnitSpan:
    """Clocks in which a unit works for a role of a block; ``line`` issued the work (0: of no line)."""

    start: float
    end: float
    block: int
    role: int
    line: int


@dataclass(frozen=True)
class UnitRow:
    """The work of one unit: the tensor core of the first scheduler, TMA's copies to one barrier, its stores."""

    name: str
    unit: str
    spans: tuple[UnitSpan, ...]


@dataclass(frozen=True)
class RoleHandOver:
    """A phase of ``barrier`` completed at clock ``over``, by an arrival of role ``giver`` in line ``given`` or by a
    ``copy`` that it issued there. Role ``taker`` waited for the phase in ``line`` from ``asked`` to ``passed``."""

    block: int
    barrier: str
    over: float
    giver: int
    given: int
    copy: bool
    taker: int
    asked: float
    passed: float
    line: int

    @property
    def waited(self) -> float:
        """Return the clocks for which the role waited until the phase completed."""
        return max(0.0, self.over - self.asked)


@dataclass(frozen=True)
class Roles:
    """Roles of each block's warps, rows of the units, and hand-overs in the order of their ends."""

    roles: tuple[Role, ...]
    units: tuple[UnitRow, ...]
    passed: tuple[RoleHandOver, ...]


def barrier_names(compiled: Compiled) -> Mapping[int, str]:
    """Return the names of 8-byte words of static shared arrays, by address: ``full[2]``."""
    origin, names = shared_origin(compiled.arch), {}
    for mangled, offset, size in compiled.shared_layout:
        name = plain_name(mangled)
        for place in range(size // BYTES):
            names[origin + offset + place * BYTES] = f"{name}[{place}]" if size > BYTES else name
    return names


def roles_of(recording: Recording, path: str, names: Mapping[int, str]) -> Roles | None:
    """Return the timeline by role, None for a kernel without mbarriers. ``path``: the file whose lines are shown;
    ``names``: of mbarriers, by address."""
    if not recording.hand_overs:
        return None
    roles = _roles(recording)
    each = recording.warps_per_block
    of_warp = {warp: number for number, role in enumerate(roles) for warp in range(role.first, role.last + 1)}
    lines = lines_of(recording, path)

    def line(place: int) -> int:
        return 0 if place == NOTHING else lines[place]

    def role(warp: int) -> int:
        return ANOTHER if warp == OTHER_BLOCK else of_warp[warp % each]

    def span(work: UnitWork) -> UnitSpan:
        return UnitSpan(work.start, work.end, max(0, work.warp) // each, role(work.warp), line(work.place))

    first = {role.first for role in roles}
    products = [it for it in recording.work if it.unit == "tensor" and it.warp % each in first]
    passed: dict[tuple[int, int, float, int], RoleHandOver] = {}
    for it in recording.hand_overs:
        block, taker = it.warp // each, role(it.warp)
        key = block, it.barrier, it.over, taker
        before = passed.get(key)
        asked = min(it.asked, before.asked) if before else it.asked
        passed[key] = RoleHandOver(
            block, _name(it.barrier, names), it.over, role(it.giver), line(it.given), it.copy, taker, asked,
            max(it.passed, before.passed) if before else it.passed, line(it.place),
        )  # fmt: skip
    rows = [
        *_copies([it for it in recording.work if it.unit == "box"], names, span),
        UnitRow("TMA out", "box out", tuple(span(it) for it in recording.work if it.unit == "box out")),
        UnitRow("tensor core", "tensor", tuple(_joined(map(span, products)))),
    ]
    return Roles(
        roles,
        tuple(row for row in rows if row.spans),
        tuple(sorted(passed.values(), key=lambda it: (it.passed, it.over))),
    )


def _name(barrier: int, names: Mapping[int, str]) -> str:
    return names.get(barrier, f"mbarrier at {barrier:#x}")


def _roles(recording: Recording) -> tuple[Role, ...]:
    """Return the roles of block 0's warps; the warps of other blocks have the same."""
    each = recording.warps_per_block
    executed: list[set[str]] = [set() for _ in range(each)]
    for span in recording.spans:
        if span.warp < each:
            executed[span.warp].add(recording.code[span.place].name)
    kinds = [
        (not names.isdisjoint((*PRODUCTS, *GROUPED)), not names.isdisjoint(COPIES), BOX_OUT in names)
        for names in executed
    ]
    grouped = [not names.isdisjoint(GROUPED) for names in executed]
    for first in range(0, each, WARPS_OF_GROUP):  # the work of any of its warps counts for the whole warpgroup
        group = range(first, min(first + WARPS_OF_GROUP, each))
        if any(grouped[warp] for warp in group):
            together = tuple(any(kinds[warp][i] for warp in group) for i in range(3))
            for warp in group:
                kinds[warp], grouped[warp] = (together[0], together[1], together[2]), True
    keys = [(kinds[warp], warp // WARPS_OF_GROUP if grouped[warp] else NOTHING) for warp in range(each)]
    found = [list(warps) for _, warps in groupby(range(each), keys.__getitem__)]
    names = [NAMES[kinds[warps[0]]] for warps in found]
    return tuple(
        Role(f"{name} {names[:i].count(name)}" if names.count(name) > 1 else name, warps[0], warps[-1])
        for i, (name, warps) in enumerate(zip(names, found, strict=True))
    )


def _copies(
    work: Sequence[UnitWork], names: Mapping[int, str], span: Callable[[UnitWork], UnitSpan]
) -> Iterator[UnitRow]:
    """Yield a row for each barrier that copies report to, or one row for all if there are many barriers."""
    barriers = sorted({it.barrier for it in work})
    if len(barriers) > MOST_ROWS:
        yield UnitRow("TMA", "box", tuple(_joined(span(it) for it in work)))
        return
    for barrier in barriers:
        mine = (span(it) for it in work if it.barrier == barrier)
        yield UnitRow(f"TMA {_name(barrier, names)}", "box", tuple(_joined(mine)))


def _joined(spans: Iterable[UnitSpan]) -> list[UnitSpan]:
    """Join spans of one role and block that overlap or follow each other within a clock."""
    joined: list[UnitSpan] = []
    for it in sorted(spans, key=lambda it: (it.block, it.role, it.start)):
        last = joined[-1] if joined else None
        if last and (last.block, last.role) == (it.block, it.role) and it.start <= last.end + 1:
            joined[-1] = UnitSpan(last.start, max(last.end, it.end), it.block, it.role, last.line)
        else:
            joined.append(it)
    return sorted(joined, key=lambda it: it.start)
