"""What only some findings know: one record for each family. ``engine/report/templates.py`` has their sentences.

Rooms that find something of their own (a buffer after a launch, what a GPU's driver tells) have records of their own.
"""

from __future__ import annotations

from gemm_lessons.engine.records.examples import Location
from gemm_lessons.engine.records.frozen import dataclass


@dataclass(frozen=True)
class Details:
    """Nothing more."""


@dataclass(frozen=True)
class Race(Details):
    """Of threads that nothing orders. ``same_value``: they only ever store the same."""

    same_value: bool = False


@dataclass(frozen=True)
class InFlight(Details):
    """Of a ``cp.async`` that is read too early: the most groups that a wait may leave, were it to cover it."""

    most: int | None = None


@dataclass(frozen=True)
class Mbarrier:
    """An mbarrier by its array, and its position there if it is not alone; without one, its offset in shared memory."""

    array: str = ""
    index: int | None = None
    byte: int | None = None


@dataclass(frozen=True)
class OfMbarrier(Details):
    """Of a bulk copy that reports to an mbarrier."""

    mbarrier: Mbarrier


@dataclass(frozen=True)
class Missed(Details):
    """Of accesses outside of their memory: how many ``others`` do the same, and the bytes of shared memory that a block
    has, where they are more than the array."""

    others: int | None = None
    window: int | None = None


@dataclass(frozen=True)
class PastEnd(Details):
    """Of accesses past the end of an array, inside of the same memory: what they ``hit``. A thread's own array is known
    by where it starts in a ``variable`` of the PTX."""

    hit: Location | None = None
    variable: str = ""
    start: int = 0


@dataclass(frozen=True)
class PastAll(Missed):
    """Of accesses past all of a thread's own arrays: which of them may have been meant."""

    candidates: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ended(Details):
    """How many threads of a block had ended before others came to a barrier."""

    ended: int


@dataclass(frozen=True)
class FromLane(Details):
    """The lane that a shuffle reads."""

    lane: int


@dataclass(frozen=True)
class Misuse(Details):
    """An instruction, used as it may not be: what it names, the number that it was given and the one that it may have,
    where in an image or a tensor it goes."""

    opcode: str = ""
    name: str = ""
    value: int = 0
    limit: int = 0
    at: tuple[int, ...] = ()


@dataclass(frozen=True)
class MbarrierMisuse(OfMbarrier):
    """An operation on an mbarrier that may not be: a number that it was given, and what that may be."""

    opcode: str
    value: int = 0
    limit: int = 0


@dataclass(frozen=True)
class NamedBarrier(Details):
    """A barrier by its number, and how many threads are to meet there."""

    number: int
    threads: int


@dataclass(frozen=True)
class AtBarrier:
    """Threads of a block that wait at a barrier, or have ended (``case``)."""

    case: str
    count: int = 0
    threads: int = 0
    number: int = 0
    line: int | None = None
    expected: int | None = None
    ended: int = 0


@dataclass(frozen=True)
class Deadlock(Details):
    """Who waits where while nobody can come any more."""

    waiting: tuple[AtBarrier, ...]


@dataclass(frozen=True)
class Missing:
    """What a phase of an mbarrier still misses: arrivals, or bytes."""

    case: str
    value: int
    limit: int = 0


@dataclass(frozen=True)
class Starved(OfMbarrier):
    """So many threads wait for the end of a phase."""

    threads: int
    phase: int
    missing: tuple[Missing, ...]


@dataclass(frozen=True)
class Endless(Details):
    """Of a loop without an end: the instructions that a launch may execute, or how many ``others`` are in it."""

    budget: int = 0
    others: int | None = None


@dataclass(frozen=True)
class Stopped(Details):
    """Why a kernel stopped itself, if its source or a function of CUDA's says so."""

    reason: str = ""
    text: str = ""


@dataclass(frozen=True)
class Quoted(Details):
    """What another part of the kit, or a driver, has to say; ``advice`` is how to have more time or memory."""

    text: str
    advice: str = ""


@dataclass(frozen=True)
class Refusal:
    """A reason why no GPU would launch a grid: a number or sizes, and what they may be."""

    case: str
    value: int = 0
    limit: int = 0
    name: str = ""
    axis: str = ""
    sizes: tuple[int, ...] = ()
    wanted: tuple[int, ...] = ()
    static: int = 0
    registers: int = 0
    arch: str = ""


@dataclass(frozen=True)
class Refused(Details):
    """All such reasons."""

    reasons: tuple[Refusal, ...]


@dataclass(frozen=True)
class NoRoom(Details):
    """What a block needs, and what a GPU's multiprocessor has."""

    gpu: str
    threads: int
    registers: int
    most_registers: int
    shared: int
    most_shared: int
