"""The data of findings: an example (threads and memory), and one record of further facts for each family of findings.

``engine/report/templates.toml`` has their sentences. ``case`` selects the sentence of a record.

Other rooms define the facts of their own findings (a buffer after a launch, a report of a GPU's driver).
"""

from __future__ import annotations

from typing import Literal

from gemm_lessons.engine.records.frozen import dataclass

Memory = Literal["global", "shared", "local"]
Does = Literal["", "load", "store", "atomic", "copy"]
Coordinates = tuple[int, ...]  # of a thread or a block: as many as the launch has dimensions


@dataclass(frozen=True)
class Location:
    """A byte of memory: of an array, by its source name, ``size`` bytes long.

    Without a name, the offset counts from the start of the block's shared or the thread's local memory, or is an
    address in global memory.
    """

    space: Memory
    array: str
    byte: int
    size: int = 0

    @property
    def before(self) -> int:
        """Return the bytes before the start of the array."""
        return -self.byte

    @property
    def past(self) -> int:
        """Return the bytes past the array's last one, from 0."""
        return self.byte - self.size


@dataclass(frozen=True)
class Actor:
    """An example thread and its action: an access of ``width`` bytes, or (effect "") something else."""

    thread: Coordinates
    block: Coordinates
    line: int | None = None
    effect: Does = ""
    width: int = 0
    called: tuple[str, int] | None = None  # ``Kernel.called_in`` of the access


@dataclass(frozen=True)
class Details:
    """No further facts."""


@dataclass(frozen=True)
class Race(Details):
    """Unordered accesses. ``same_value``: all store the same value; ``rounded``: values that differ by rounding."""

    same_value: bool = False
    rounded: bool = False


@dataclass(frozen=True)
class InFlight(Details):
    """A ``cp.async`` read too early. ``most``: a wait that covers it may leave at most so many groups pending."""

    most: int | None = None


@dataclass(frozen=True)
class Mbarrier:
    """An mbarrier by its array, and its index there if not alone, or its offset there (``inside``) if the array has
    more than mbarriers; without an array, its offset in shared memory. ``block``: if that is not the thread's own."""

    array: str = ""
    index: int | None = None
    byte: int | None = None
    inside: int | None = None
    block: Coordinates | None = None


@dataclass(frozen=True)
class OfMbarrier(Details):
    """A bulk copy that reports to an mbarrier."""

    mbarrier: Mbarrier


@dataclass(frozen=True)
class LastWait(OfMbarrier):
    """An access that has not seen a bulk copy arrive, although its thread waited at the mbarrier, in line ``waited``,
    for the end of ``phase`` (-1: the phase before the first)."""

    phase: int
    waited: int | None = None


@dataclass(frozen=True)
class LeftRunning(Details):
    """Products that still run because the last wait, in line ``waited``, leaves the ``pending`` newest groups."""

    pending: int
    waited: int | None = None


@dataclass(frozen=True)
class Elements:
    """Neighbours in a row of a tensor map's array: columns ``col`` to ``last`` of ``row``."""

    tensor: str
    row: int
    col: int
    last: int


@dataclass(frozen=True)
class DescriptorFix:
    """A change after which a descriptor fits its copy (``case``): the value given, and one that fits, in bytes."""

    case: str
    value: int = 0
    limit: int = 0


@dataclass(frozen=True)
class Misread(Details):
    """A product that takes the bytes at ``byte`` of a box for other elements of ``factor`` (A or B) than the copy has
    put there. ``held``: what is there, if anything; ``meant``: what the descriptor takes it for."""

    factor: str
    byte: int
    held: Elements | None
    meant: Elements
    causes: tuple[DescriptorFix, ...] = ()


@dataclass(frozen=True)
class PartOfK:
    """The k of one factor of a product: columns, or rows (``axis``), of a tensor map's array, and the copy's line."""

    tensor: str
    axis: str
    first: int
    last: int
    line: int | None


@dataclass(frozen=True)
class OtherK(Details):
    """A product whose factors have different k, or k of an earlier product. ``moved``, ``moved_other``: bytes from the
    descriptors of the first product of the same rows of the same boxes."""

    left: PartOfK
    right: PartOfK
    moved: int | None = None
    moved_other: int | None = None


@dataclass(frozen=True)
class Missed(Details):
    """Accesses outside of their memory.

    ``others``: number of other threads that do the same. ``window``: bytes of a block's shared memory, if it has more
    than the array.
    """

    others: int | None = None
    window: int | None = None


@dataclass(frozen=True)
class PastEnd(Details):
    """Accesses past the end of an array that stay inside of the same memory, and the place that they ``hit``.

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
    """An invalid use of an instruction: its operand, the value given and allowed, the place in an image or tensor."""

    opcode: str = ""
    name: str = ""
    value: int = 0
    limit: int = 0
    at: tuple[int, ...] = ()


@dataclass(frozen=True)
class ArrivedAgain:
    """Why a phase has no room for an arrival (``case``): in ``line``, a thread arrives that has arrived in the same
    phase before, in ``before``. ``unwaited``: an array of mbarriers at which threads arrive, in ``other_line``, but for
    which none waits."""

    case: str
    mbarrier: Mbarrier
    phase: int
    line: int | None
    before: int | None
    unwaited: str = ""
    other_line: int | None = None


@dataclass(frozen=True)
class MbarrierMisuse(OfMbarrier):
    """An invalid operation on an mbarrier: the value given, the values allowed, and the likely cause."""

    opcode: str
    value: int = 0
    limit: int = 0
    cause: ArrivedAgain | None = None


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
    block: Coordinates = ()


@dataclass(frozen=True)
class Came:
    """Arrivals or bytes (``case``) that one line contributed to a phase of an mbarrier."""

    case: str
    value: int
    line: int | None


@dataclass(frozen=True)
class Missing:
    """Pending arrivals or bytes (``case``) of a phase, and those that came. ``due``: lines that arrive at ``array``."""

    case: str
    value: int
    limit: int = 0
    came: tuple[Came, ...] = ()
    due: tuple[int, ...] = ()
    array: str = ""


@dataclass(frozen=True)
class Threads:
    """Threads of one block: a single one, all from ``first`` to ``last``, or some of them (``case``)."""

    case: str
    count: int
    first: Coordinates
    last: Coordinates
    block: Coordinates


@dataclass(frozen=True)
class AtMbarrier:
    """Threads that wait for the end of a phase of an mbarrier."""

    case: str
    who: Threads
    mbarrier: Mbarrier
    phase: int
    missing: tuple[Missing, ...]
    line: int | None = None


@dataclass(frozen=True)
class Cause:
    """The likely cause of a hang (``case``): threads, an mbarrier and its phase, a line. ``index``: its instruction."""

    case: str
    mbarrier: Mbarrier
    who: Threads
    phase: int
    line: int | None = None
    came: tuple[Came, ...] = ()
    expected: int = 0
    index: int = -1


@dataclass(frozen=True)
class UnawaitedCause:
    """The likely cause of a hang (``case``): threads arrive at the mbarriers of ``array``, in ``line``, but no thread
    waits for them. ``index``: an instruction that arrives."""

    case: str
    array: str
    line: int | None
    index: int


@dataclass(frozen=True)
class BarrierCause:
    """The likely cause of a hang at named barrier ``number`` of a block (``case``). ``who``: threads that wait there,
    or that should have arrived. The barrier expects ``expected`` threads, ``count`` have arrived; threads wait in
    ``line`` or ``other_line``. ``index``: an instruction that waits."""

    case: str
    who: Threads
    number: int
    expected: int
    count: int
    line: int | None = None
    other_line: int | None = None
    index: int = -1


@dataclass(frozen=True)
class RegisterCause:
    """The likely cause of a hang at a ``setmaxnreg.inc`` (``case``): warps request ``wanted`` registers per thread and
    own ``owned``; they need ``needed`` from the block's pool, which has ``free``. ``other_line``: of a
    ``setmaxnreg.dec`` that other warps have not reached. ``index``: an instruction that waits."""

    case: str
    who: Threads
    wanted: int
    owned: int
    needed: int
    free: int
    line: int | None = None
    other_line: int | None = None
    index: int = -1


@dataclass(frozen=True)
class Link:
    """Threads in ``line`` wait for those in ``other_line``; if these are equal, ``who`` wait for ``other``."""

    case: str
    line: int | None
    other_line: int | None
    who: Threads | None = None
    other: Threads | None = None


@dataclass(frozen=True)
class Hang(Details):
    """Threads that wait at barriers that can no longer complete; ``more``: descriptions left out.

    ``cycle``: the threads of each link wait for those of the next one, and those of the last for those of the first.
    """

    waiting: tuple[AtMbarrier | AtBarrier, ...]
    cause: Cause | BarrierCause | RegisterCause | UnawaitedCause | None = None
    more: int | None = None
    cycle: tuple[Link, ...] = ()

    @property
    def hit(self) -> str:
        """The array of mbarriers at which a line arrived that names another one; empty if none."""
        if isinstance(self.cause, Cause) and self.cause.case == "cause other array":
            return self.cause.mbarrier.array
        return ""


@dataclass(frozen=True)
class Endless(Details):
    """An endless loop: the instruction limit of a launch, or the number of ``others`` in the loop; its
    ``last_line``, where it is known by its lines."""

    budget: int = 0
    others: int | None = None
    last_line: int | None = None


@dataclass(frozen=True)
class Stopped(Details):
    """The reason why a kernel stopped itself, if its source or a function of CUDA's gives one."""

    reason: str = ""
    text: str = ""


@dataclass(frozen=True)
class Quoted(Details):
    """A message from elsewhere, such as a driver. ``advice``: how to raise the time or memory limit."""

    text: str
    advice: str = ""


@dataclass(frozen=True)
class Refusal:
    """A reason (``case``) why no GPU would launch a grid: the value or sizes given, and their limits."""

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
