"""Facts of single families of findings, one record for each. ``engine/report/templates.py`` has their sentences.

Rooms with findings of their own (a buffer after a launch, a report of a GPU's driver) have records of their own.
"""

from __future__ import annotations

from gemm_lessons.engine.records.examples import Location
from gemm_lessons.engine.records.frozen import dataclass


@dataclass(frozen=True)
class Details:
    """No further facts."""


@dataclass(frozen=True)
class Race(Details):
    """Unordered accesses. ``same_value``: the threads only ever store the same value; ``rounded``: values that differ
    by rounding."""

    same_value: bool = False
    rounded: bool = False


@dataclass(frozen=True)
class InFlight(Details):
    """A ``cp.async`` read too early: the most groups that a wait that covers it may leave pending."""

    most: int | None = None


@dataclass(frozen=True)
class Mbarrier:
    """An mbarrier by its array, and its index there if not alone; without an array, its offset in shared memory."""

    array: str = ""
    index: int | None = None
    byte: int | None = None


@dataclass(frozen=True)
class OfMbarrier(Details):
    """A bulk copy that reports to an mbarrier."""

    mbarrier: Mbarrier


@dataclass(frozen=True)
class Missed(Details):
    """Accesses outside of their memory.

    ``others``: number of other threads that do the same. Also the bytes of shared memory of a block, where it has more
    than the array.
    """

    others: int | None = None
    window: int | None = None


@dataclass(frozen=True)
class PastEnd(Details):
    """Accesses past the end of an array, inside of the same memory: what they ``hit``.

    A local array is identified by its start in a ``variable`` of the PTX.
    """

    hit: Location | None = None
    variable: str = ""
    start: int = 0


@dataclass(frozen=True)
class PastAll(Missed):
    """Accesses past all local arrays of a thread: the arrays that may have been intended."""

    candidates: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ended(Details):
    """Number of threads of a block that had exited before others reached a barrier."""

    ended: int


@dataclass(frozen=True)
class FromLane(Details):
    """The source lane of a shuffle."""

    lane: int


@dataclass(frozen=True)
class Misuse(Details):
    """An invalid use of an instruction: its operand, the value given and that allowed, place in an image or tensor."""

    opcode: str = ""
    name: str = ""
    value: int = 0
    limit: int = 0
    at: tuple[int, ...] = ()


@dataclass(frozen=True)
class MbarrierMisuse(OfMbarrier):
    """An invalid operation on an mbarrier: the value given, and the values allowed."""

    opcode: str
    value: int = 0
    limit: int = 0


@dataclass(frozen=True)
class NamedBarrier(Details):
    """A named barrier: its number, and the number of threads expected."""

    number: int
    threads: int


@dataclass(frozen=True)
class AtBarrier:
    """Threads of a block that wait at a barrier, or have exited (``case``)."""

    case: str
    count: int = 0
    threads: int = 0
    number: int = 0
    line: int | None = None
    expected: int | None = None
    ended: int = 0


@dataclass(frozen=True)
class Deadlock(Details):
    """Threads that wait at barriers that can no longer complete."""

    waiting: tuple[AtBarrier, ...]


@dataclass(frozen=True)
class Missing:
    """Pending arrivals or bytes of a phase of an mbarrier."""

    case: str
    value: int
    limit: int = 0


@dataclass(frozen=True)
class Starved(OfMbarrier):
    """The number of threads that wait for a phase to complete."""

    threads: int
    phase: int
    missing: tuple[Missing, ...]


@dataclass(frozen=True)
class Endless(Details):
    """An endless loop: the instruction limit of a launch, or the number of ``others`` in the loop."""

    budget: int = 0
    others: int | None = None


@dataclass(frozen=True)
class Stopped(Details):
    """The reason why a kernel stopped itself, if its source or a function of CUDA's gives one."""

    reason: str = ""
    text: str = ""


@dataclass(frozen=True)
class Quoted(Details):
    """A message of another part of the kit, or of a driver. ``advice``: how to raise the time or memory limit."""

    text: str
    advice: str = ""


@dataclass(frozen=True)
class Refusal:
    """A reason why no GPU would launch a grid: a number or sizes, and the limits."""

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
    """All reasons why no GPU would launch a grid."""

    reasons: tuple[Refusal, ...]


@dataclass(frozen=True)
class NoRoom(Details):
    """The resources that a block needs, and those of a GPU's multiprocessor."""

    gpu: str
    threads: int
    registers: int
    most_registers: int
    shared: int
    most_shared: int
