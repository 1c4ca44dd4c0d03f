"""The typed records through which the machine reports memory accesses and barriers to its observers.

    in    machine    per executed memory instruction one Touch; per barrier, copy or fence one record
    state trace      list of Record, in program order, of one batch (blocks that run in lockstep)
          Touch      addresses int64 (lanes,), active bool (lanes,) or None; lanes are block-major
          Access     the static instruction: index, space, effect, width in bytes, source line
    out   observers  Observer.epoch(batch, records, boundary)  -->  Counters, Findings

The machine runs many blocks in lockstep (a batch). Each time a memory instruction executes it appends one ``Touch`` to
the batch's trace: the instruction, and the addresses of all its lanes. Touches are interned: the same instruction with
the same addresses gives the same object, so an observer analyses a touch once and multiplies by its number of
occurrences. The trace is handed over at every barrier of the whole batch (an epoch) and at the end of the batch.

Observers never change what the machine does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gemm_lessons.engine.records.frozen import dataclass

if TYPE_CHECKING:
    from gemm_lessons.engine.ptx.records import Kernel
    from gemm_lessons.engine.records.launch import Argument, Grid

# texture, remote (shared memory of other blocks of the cluster): in machine code only
Space = Literal["global", "shared", "local", "param", "const", "texture", "remote"]
Effect = Literal["load", "store", "atomic", "copy"]

WARP = 32
EVERY_MAP = -1  # address, in ``MapAccess``
CLUSTER = -8  # offset, in ``Phase``, of the barrier of a cluster, which is in no memory


@dataclass(frozen=True, eq=False)
class Access:
    """One memory instruction of the kernel (static). ``width`` is bytes per lane, all vector elements together."""

    index: int  # position in kernel.instructions
    space: Space
    effect: Effect
    width: int
    line: int | None
    file: str
    text: str  # the PTX, for messages
    base: str = ""  # base register (or symbol) of the address as written, for width merging
    offset: int = 0  # immediate byte offset of the address as written
    whole: int = 0  # of a ``cp.async`` that reads less than it writes: bytes that it writes
    is_async: bool = False  # the shared-memory side of cp.async: visible after its wait
    is_matrix: bool = False  # ldmatrix, stmatrix: active lanes are those that supply a row's address (16 bytes)
    is_bulk: bool = False  # cp.async.bulk: one lane's copy of ``width`` bytes, by the async proxy
    is_mbarrier: bool = False  # an mbarrier object
    is_clipped: bool = False  # of a stored box, whose bytes outside the array are read but not used
    is_product: bool = False  # a tile that wgmma reads by the async proxy, a chunk of 16 bytes by each lane
    header: str = ""  # the CUDA header whose function the line calls, if it is that function's access

    @property
    def is_counted(self) -> bool:
        """Return whether the load and store units execute the access: it is counted, and both engines see it."""
        return not (self.is_bulk or self.is_mbarrier or self.is_product)


class Touch:
    """One execution of an ``Access`` by every lane of a batch, interned by its addresses.

    Lanes are block-major: lane = block_in_batch * padded_threads + thread; blocks are padded to whole warps.
    ``addresses`` int64 (lanes,): byte offsets in the block's shared window or in the thread's local memory. Windows of
    a cluster's blocks follow one another, so that other blocks are before and after the own window. For global
    memory they are relative: the true address is a multiple of 128 higher (``Placed`` holds it where it matters), which
    is all that sectors and alignment need. Addresses of inactive lanes are undefined. ``active`` is bool (lanes,), or
    None if every lane was active. ``memo`` is scratch space for observers, one key each. ``bases``, for global memory:
    the multiples of 128 of every execution since an observer last cleared them.

    Products read several chunks of their tiles by one lane. Their ``addresses`` (n,) are of the lanes ``chunk_lanes``
    (n,), which is None for all other accesses.
    """

    __slots__ = ("access", "active", "addresses", "bases", "chunk_lanes", "memo")

    def __init__(
        self,
        access: Access,
        addresses: np.ndarray[Any, Any],
        active: np.ndarray[Any, Any] | None,
        chunk_lanes: np.ndarray[Any, Any] | None = None,
    ) -> None:
        self.access = access
        self.addresses = addresses
        self.active = active
        self.chunk_lanes = chunk_lanes
        self.bases: list[int] = []
        self.memo: dict[str, Any] = {}

    @property
    def active_lanes(self) -> np.ndarray[Any, Any]:
        """Return the numbers of the lanes that took part, of products once for each chunk."""
        if self.chunk_lanes is not None:
            return self.chunk_lanes
        return np.arange(self.addresses.size) if self.active is None else np.flatnonzero(self.active)

    def of_own_block(self, window: int) -> np.ndarray[Any, Any] | None:
        """Return the active lanes that access their own block's shared memory. ``window``: its bytes."""
        if self.access.space != "shared":
            return self.active
        inside = (self.addresses >= 0) & (self.addresses < window)
        if self.active is None:
            return None if inside.all() else inside
        return self.active & inside


@dataclass(frozen=True, eq=False)
class Barrier:
    """Threads that synchronise at a barrier. ``blocks`` bool (blocks_in_batch,), None = all blocks; ``lanes`` bool
    (lanes,) when only part of a block takes part (named barriers, ``__syncwarp``), else None. ``groups`` uint32
    (lanes,), for a ``__syncwarp`` that not all living threads of a warp join: the lanes that each lane waits for, a bit
    per lane. ``arrive``: ``lanes`` signalled at named barrier ``number`` and continued; a later ``named`` of that
    number is the barrier they signalled."""

    kind: Literal["block", "named", "warp", "arrive"]
    blocks: np.ndarray[Any, Any] | None = None
    lanes: np.ndarray[Any, Any] | None = None
    line: int | None = None
    number: int = 0
    groups: np.ndarray[Any, Any] | None = None


@dataclass(frozen=True, eq=False)
class Irregular:
    """A barrier in ``line``, reached in a way that the programming model forbids or that hides an error.

    divergent: ``lanes`` of a warp arrived first, ``others`` of the same warp later, in ``other_line``. ended:
    ``others`` of the block have ended. places: ``others`` of the block wait at a different barrier, in
    ``other_line``. counts: ``others`` expect a different number of threads. warp: ``others`` are named by the member
    mask of a warp instruction of ``lanes``, but do not take part. Masks are bool (lanes,). Recorded once per
    instruction and batch.
    """

    kind: Literal["divergent", "ended", "places", "counts", "warp"]
    lanes: np.ndarray[Any, Any]
    others: np.ndarray[Any, Any]
    line: int | None = None
    other_line: int | None = None
    file: str = ""


@dataclass(frozen=True, eq=False)
class Placed:
    """Follows a global ``Touch`` whose true addresses matter, such as a store: they are addresses + base."""

    touch: Touch
    base: int


@dataclass(frozen=True, eq=False)
class AsyncGroup:
    """Groups of ``cp.async`` by ``lanes`` (None = all): a commit, or a wait that leaves the ``pending`` newest groups
    in flight (0: all groups so far have arrived; -1: uncommitted copies too)."""

    kind: Literal["commit", "wait"]
    pending: int = 0
    lanes: np.ndarray[Any, Any] | None = None
    line: int | None = None


@dataclass(frozen=True, eq=False)
class Phase:
    """An operation of ``lanes`` (n,) on the mbarriers at ``offsets`` (n,) of shared memory, in line ``line``, by the
    instruction of that ``index`` where it is known. Offsets count from the first block of the lanes' cluster; windows
    of its blocks follow one another. ``CLUSTER``: the barrier of the cluster.

    init: they initialise them. arrive: they arrive in ``phases`` (n,). sent: they send bytes to these. wait:
    they have seen ``phases`` complete (-1: the phase before the first). vain: they have seen that ``phases`` are not
    complete. copies: ``phases`` complete only after all copies that these lanes have issued by ``cp.async`` have
    arrived. parity: ``phases`` are parities that are tested, and not 0 or 1. ``total``: lanes of a batch.
    """

    kind: Literal["init", "arrive", "sent", "wait", "vain", "copies", "parity"]
    lanes: np.ndarray[Any, Any]
    offsets: np.ndarray[Any, Any]
    phases: np.ndarray[Any, Any]
    total: int
    line: int | None = None
    index: int | None = None


@dataclass(frozen=True)
class Moved:
    """Number of copies of all lanes from or to global memory, and the bytes and 32-byte sectors of it that they move.
    ``reduces``: the copies also read them. ``multicast``: sectors that blocks receive of copies for several blocks."""

    copies: int = 0
    bytes: int = 0
    sectors: int = 0
    reduces: bool = False
    multicast: int = 0


NOTHING = Moved()


@dataclass(frozen=True, eq=False)
class Bulk:
    """Follows the ``Touch`` of shared memory by a bulk copy of ``lanes`` (n,). A copy to shared memory will report to
    the mbarriers at ``offsets`` (n,), see ``Landed``. A copy from shared memory (``offsets`` None) is complete when
    the group that the lane commits next is complete. ``moved``: its traffic. ``reads``: the copy reads the bytes, and
    is complete when it reports to the mbarrier. A product's tiles (``Access.is_product``) are read until the group of
    products that the warpgroup commits next is complete."""

    touch: Touch
    lanes: np.ndarray[Any, Any]
    offsets: np.ndarray[Any, Any] | None = None
    moved: Moved = NOTHING
    reads: bool = False


@dataclass(frozen=True, eq=False)
class Landed:
    """The bytes of ``bulk`` have arrived for ``phases`` (n,) of its mbarriers; who sees these end may read them."""

    bulk: Bulk
    phases: np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class BulkGroup:
    """Groups of bulk copies, or of ``products`` (``wgmma``), by ``lanes`` (None = all): a commit, or a wait after which
    the ``pending`` newest groups may still read shared memory."""

    kind: Literal["commit", "wait"]
    pending: int = 0
    lanes: np.ndarray[Any, Any] | None = None
    line: int | None = None
    products: bool = False


@dataclass(frozen=True, eq=False)
class ProxyFence:
    """``lanes`` (None = all) order their earlier accesses, or those of mbarriers only, before later bulk copies."""

    lanes: np.ndarray[Any, Any] | None = None
    only_mbarriers: bool = False


@dataclass(frozen=True, eq=False)
class MapAccess:
    """``lanes`` (n,) write the tensor maps at ``addresses`` (n,) of global memory, copy boxes by them (``use``), or
    fence their proxy: a ``release`` of all maps (``EVERY_MAP``) or of these, an ``acquire`` of these."""

    kind: Literal["write", "release", "acquire", "use"]
    lanes: np.ndarray[Any, Any]
    addresses: np.ndarray[Any, Any]
    access: Access


@dataclass(frozen=True)
class BoxShape:
    """The array that a tensor map describes, and its box. ``sizes``, ``strides`` (bytes) and ``box``: innermost
    dimension first; ``element`` and ``swizzle`` in bytes."""

    name: str
    element: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int


@dataclass(frozen=True, eq=False)
class Boxed:
    """Follows the ``Touch`` of shared memory by a tensor copy, if requested (``Setting.tiles``):
    ``access`` has copied boxes from ``corner`` (dimensions, n) to the ``pieces`` (n, pieces of a box) of 16 bytes of
    all blocks' shared memory, in the order of the array. ``starts`` (n,): where the boxes begin, in bytes."""

    access: Access
    shape: BoxShape
    corner: np.ndarray[Any, Any]
    pieces: np.ndarray[Any, Any]
    starts: np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class ReadTile:
    """A tile that products read: the descriptor of each warpgroup, (n,), and how the instruction takes it."""

    descriptors: np.ndarray[Any, Any]
    rows: int  # of A, or columns of B
    k: int
    size: int  # bytes of an element
    transposed: bool


@dataclass(frozen=True, eq=False)
class TilesRead:
    """Precedes the touches of the products ``access`` by the warpgroups of the lanes ``first`` (n,), if requested
    (``Setting.tiles``): the tiles of A (None: in registers) and of B. ``origin``: the address of a block's shared
    memory."""

    access: Access
    first: np.ndarray[Any, Any]
    tiles: tuple[ReadTile | None, ReadTile]
    origin: int


@dataclass(frozen=True, eq=False)
class Stored:
    """The values that a watched store wrote (``Setting.watched``): ``values`` uint8 (n, width) by ``lanes`` (n,), of
    instruction ``index``. It is next to the ``Touch`` (shared: before it) or ``Placed`` (global: after it) of that
    store."""

    index: int
    lanes: np.ndarray[Any, Any]
    values: np.ndarray[Any, Any]


Record = (
    Touch | Placed | Barrier | Irregular | AsyncGroup | Phase | Bulk | Landed | BulkGroup | ProxyFence | MapAccess
    | Boxed | TilesRead | Stored
)  # fmt: skip


@dataclass(frozen=True)
class Batch:
    """The blocks that run in lockstep now. ``numbers`` (blocks,) are their linear indices in the grid (x fastest).
    Blocks run cluster by cluster; ``place`` is that of the first one in this order."""

    place: int
    numbers: np.ndarray[Any, Any]
    blocks: int
    threads: int  # real threads per block
    padded_threads: int  # threads per block rounded up to whole warps
    generation: int  # number of earlier batches

    def thread(self, lane: np.ndarray[Any, Any] | int) -> Any:
        """Return the number in the grid of a lane's thread, where blocks are padded to whole warps."""
        block = lane // self.padded_threads
        return lane + (self.numbers[block] - block) * self.padded_threads


@dataclass(frozen=True)
class LaunchInfo:
    """The launch, as observers see it before the first instruction runs."""

    kernel: Kernel
    grid: Grid
    shared_arrays: Sequence[SharedArray] = field(default=())
    shared_bytes: int = 0
    buffers: Sequence[tuple[str, int, int]] = ()  # name, true start address, bytes
    fresh: frozenset[str] = frozenset()  # buffers that are uninitialised
    lanes: int = 0  # lanes of a batch, the length of every Touch's arrays
    local_bytes: int = 0  # local memory of a thread
    arguments: Sequence[Argument] = ()
    parameters: bytes = b""  # the parameter block


@dataclass(frozen=True)
class SharedArray:
    """The place of one ``__shared__`` array in the block's window (bytes), or of a thread's own array in local
    memory. ``zeroed``: first bytes in which a block finds zeros."""

    name: str
    offset: int
    size: int
    zeroed: int = 0


# Why a batch's records are handed over: all threads met at a barrier; every thread ended; or the trace grew long and
# the epoch continues; or a fault stopped them.
Boundary = Literal["barrier", "end", "none", "fault"]


class Observer:
    """Observes one launch. ``begin`` is called before the launch, ``begin_batch`` and ``end_batch`` around a batch.

    None of them does anything here.
    """

    def begin(self, launch: LaunchInfo) -> None:
        """Receive the launch before it starts."""

    def begin_batch(self, batch: Batch) -> None:
        """Receive a batch of new blocks before it starts."""

    def epoch(self, batch: Batch, records: Sequence[Record], boundary: Boundary) -> None:
        """Receive the ``records`` since the last call, in program order."""

    def end_batch(self, batch: Batch, executions: np.ndarray[Any, Any], lane_executions: np.ndarray[Any, Any]) -> None:
        """Receive the counts of a batch. ``executions[i]``: warps that executed instruction i in this batch (with at
        least one lane whose guard predicate is true); ``lane_executions[i]``: lanes that did."""
