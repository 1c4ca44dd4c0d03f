"""Memory contents, for the few kernels whose addresses or branches depend on loaded data.

Some bytes are not followed: those that copies by the async proxy, stmatrix and other blocks of a cluster write
(``Unfollowed``), and those that get unknown values. In a kernel with such bytes, threads also wait for each other at
mbarriers, which machine code does not follow. A load then has a known value only if each byte of shared memory that it
reads has one value in the whole kernel.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gemm_lessons.engine.compiler.sass import width_of
from gemm_lessons.engine.events import Access
from gemm_lessons.engine.machine.memory import POISON, RESERVED_SHARED, GlobalMemory
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.sass.flow import COPIES, LOADS, MEMORY, STORES, results
from gemm_lessons.engine.sass.lanes import STACK_TOP, Lanes
from gemm_lessons.engine.sass.operand_fetch import Fetch
from gemm_lessons.engine.sass.operands import Decoded, MachineRegister, Memory, Uncountable, unknown_form

NARROW = {"U8": np.uint8, "S8": np.int8, "U16": np.uint16, "S16": np.int16}


WRITTEN, LOADED, CHANGED = np.uint8(1), np.uint8(2), np.uint8(4)  # a byte's history
OTHERS = -1  # wrote a byte of global memory, or it is not known who did
SPILLED = "addresses or branches depend on unknown values in local memory"
UNCERTAIN = "addresses or branches depend on shared memory that changes, or that copies, stmatrix or other blocks write"


@dataclass(frozen=True)
class Unfollowed:
    """Bytes written by other means than the block's own stores, as the PTX machine executed them.

    ``shared``: bool (bytes of a block's shared memory, from address 0 on,), of any block. ``ranges`` of global memory:
    the first address, and the one after the last.
    """

    shared: Array
    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class _Window:
    """One memory as bytes. Lane i's address a is byte ``starts[i] + a``, for a from ``low`` to ``high``."""

    data: Array
    starts: Array
    low: int
    high: int


@dataclass(frozen=True)
class MemoryBounds:
    """The memories of a block: global memory, and ``shared_bytes`` from ``shared_origin`` on."""

    memory: GlobalMemory
    shared_origin: int
    shared_bytes: int

    def left(self, access: Access, addresses: Array) -> bool:
        """Return whether one of the ``addresses`` leaves its memory or is misaligned."""
        if (addresses & (access.width - 1) != 0).any():
            return True
        if access.space == "global":
            return not self.memory.holds(addresses, access.width)
        used = addresses - self.shared_origin
        return bool(((used < 0) | (used > self.shared_bytes - access.width)).any())


class StoredHere(Uncountable):
    """An address or a branch depends on global memory that the kernel itself has stored."""


class Store:
    """Global memory of a launch; shared and local memory of the current batch. ``own_stores``: a thread reads what it
    has itself stored in global memory."""

    def __init__(
        self,
        memory: GlobalMemory,
        shared_bytes: int,
        local_bytes: int,
        unfollowed: Unfollowed | None = None,
        own_stores: bool = False,
    ) -> None:
        self.memory, self._own_stores = memory, own_stores
        self._global = memory.arena.copy() if own_stores else memory.arena
        # Who has stored each byte of global memory: a lane, counted from 1 on over all batches, or others.
        self._writers = np.zeros(memory.arena.size, np.int32)
        self._lanes_before = self._lanes = 0
        self._unfollowed = unfollowed
        for first, end in unfollowed.ranges if unfollowed is not None else ():
            begin, inside = memory.offsets(np.array([first], np.int64), end - first)
            if not inside.all():
                raise Uncountable("an address outside every buffer")
            self._writers[begin[0] : begin[0] + end - first] = OTHERS
        self.shared_bytes = -(-shared_bytes // 16) * 16 + RESERVED_SHARED
        self.local_bytes = -(-local_bytes // 16) * 16 + 16
        self._windows: dict[str, _Window] = {}

    def begin(self, lanes: Lanes) -> None:
        """Start a new batch of blocks: fresh shared and local memory."""
        geometry = lanes.geometry
        self._lanes_before, self._lanes = self._lanes, self._lanes + geometry.lanes
        block = np.arange(geometry.lanes, dtype=np.int64) // geometry.padded
        lane = np.arange(geometry.lanes, dtype=np.int64)
        shared, local = self.shared_bytes, self.local_bytes
        self._windows = {
            "shared": _Window(np.full(geometry.blocks * shared, POISON, np.uint8), block * shared, 0, shared),
            "local": _Window(
                np.full(geometry.lanes * local, POISON, np.uint8),
                lane * local - (STACK_TOP - local),
                STACK_TOP - local,
                STACK_TOP,
            ),
        }
        self._spoilt = np.zeros(self._windows["local"].data.size, np.bool_)  # unknown bytes of local memory
        if self._unfollowed is not None:
            each = np.zeros(shared, np.uint8)
            others = self._unfollowed.shared[:shared]
            each[: others.size] = np.where(others, CHANGED, 0)
            self._history = np.tile(each, geometry.blocks)

    def step(
        self, d: Decoded, lanes: Lanes, alive: Callable[[], Array], is_unknown: bool = False
    ) -> Callable[[], None]:
        """Return a function that executes one load, store or copy. Raise ``Uncountable`` for an unknown form.

        ``is_unknown``: the value that is stored is not known.
        """
        operand = next(o for o in d.operands if isinstance(o, Memory))
        space = MEMORY[d.name]
        address = lanes.address(operand, space)
        guard = lanes.guard(d)
        width = width_of(d.source.opcode)
        if d.name in COPIES:
            move = self._copy(d, lanes, width)
        elif d.name in LOADS:
            move = self._load(d, lanes, space, width)
        elif space == "global" and not any(results(d)[0]) and not (self._own_stores and d.name in STORES):
            move = self._mark(d, lanes, width)
        elif is_unknown and (space == "local" or self._unfollowed is not None):
            move = self._spoil(space, width)
        elif d.name in STORES and not is_unknown:
            move = self._save(d, lanes, space, width)
        elif d.name.startswith("ATOM"):
            raise Uncountable("addresses or branches depend on what an atomic returns, so on the order of threads")
        else:
            raise Uncountable(f"addresses depend on {d.text}")

        def execute() -> None:
            some, mask = lanes.active(guard)
            if some:
                active = np.flatnonzero(alive() if mask is None else mask & alive())
                if len(active):
                    move(np.broadcast_to(address(), (lanes.geometry.lanes,))[active], active)

        return execute

    def _mark(self, d: Decoded, lanes: Lanes, width: int) -> Callable[[Array, Array], None]:
        """Mark stores and reductions to global memory without executing them."""

        def move(addresses: Array, active: Array) -> None:
            places = self._places("global", addresses, active, width)[1]
            self._writers[places[:, None] + np.arange(width)] = OTHERS

        return move

    def _places(self, space: str, addresses: Array, active: Array, width: int) -> tuple[Array, Array]:
        """Return the bytes of a memory, and where each active lane's access starts."""
        if space == "global":
            places, inside = self.memory.offsets(addresses, width)
            if not inside.all():
                raise Uncountable("an address outside every buffer")
            return self._global, places
        window = self._windows[space]
        if ((addresses < window.low) | (addresses + width > window.high)).any():
            raise Uncountable(f"an address outside {space} memory")
        return window.data, window.starts[active] + addresses

    def _load(self, d: Decoded, lanes: Lanes, space: str, width: int) -> Callable[[Array, Array], None]:
        names = results(d)[0]
        kind = next((NARROW[m] for m in d.modifiers if m in NARROW), None)
        if d.name == "LDSM":
            raise Uncountable(f"addresses depend on {d.text}")

        def move(addresses: Array, active: Array) -> None:
            loaded = self._read(space, addresses, active, width)
            words = loaded.view(np.uint32) if kind is None else loaded.view(kind).astype(np.int64).astype(np.uint32)
            mask = np.zeros(lanes.geometry.lanes, np.bool_)
            mask[active] = True
            for column, name in enumerate(names):
                value = np.zeros(lanes.geometry.lanes, np.uint32)
                value[active] = words[:, column]
                lanes.write(name, value, mask)

        return move

    def _read(self, space: str, addresses: Array, active: Array, width: int) -> Array:
        """Return bytes: one row per active lane."""
        data, places = self._places(space, addresses, active, width)
        every = places[:, None] + np.arange(width)
        if space == "global":
            writers = self._writers[every]
            mine = (self._lanes_before + active + 1)[:, None] if self._own_stores else 0
            if ((writers != 0) & (writers != mine)).any():
                raise StoredHere("addresses depend on data that the kernel itself stored in global memory")
        if space == "local" and self._spoilt[every].any():
            raise Uncountable(SPILLED)
        if space == "shared" and self._unfollowed is not None:
            if ((self._history[every] & (WRITTEN | CHANGED)) != WRITTEN).any():
                raise Uncountable(UNCERTAIN)
            self._history[every] |= LOADED
        return np.ascontiguousarray(data[every])

    def _put(self, space: str, addresses: Array, active: Array, values: Array) -> None:
        """Store the bytes ``values``, a row per active lane."""
        data, places = self._places(space, addresses, active, values.shape[1])
        every = places[:, None] + np.arange(values.shape[1])
        if space == "shared" and self._unfollowed is not None:
            changes = (self._history[every] & WRITTEN != 0) & (data[every] != values)
            self._change(every, np.where(changes, WRITTEN | CHANGED, WRITTEN))
        if space == "global":
            self._writers[every] = (self._lanes_before + active + 1)[:, None]
        if space == "local":
            self._spoilt[every] = False
        data[every] = values

    def _change(self, every: Array, history: Array | np.uint8) -> None:
        if (history & CHANGED & np.where(self._history[every] & LOADED, CHANGED, 0)).any():
            raise Uncountable(UNCERTAIN)
        self._history[every] |= history

    def _spoil(self, space: str, width: int) -> Callable[[Array, Array], None]:
        """Store unknown values in shared or local memory."""

        def move(addresses: Array, active: Array) -> None:
            every = self._places(space, addresses, active, width)[1][:, None] + np.arange(width)
            if space == "local":
                self._spoilt[every] = True
            else:
                self._change(every, CHANGED)

        return move

    def _copy(self, d: Decoded, lanes: Lanes, width: int) -> Callable[[Array, Array], None]:
        """Execute cp.async at once: the checkers report reads before the wait."""
        (address, zeros), reading = lanes.copied(d), lanes.reading(d)

        def move(addresses: Array, active: Array) -> None:
            copied = np.zeros((lanes.geometry.lanes, width), np.uint8)
            reads = active if reading is None else active[np.broadcast_to(reading(), len(copied))[active]]
            sources = np.broadcast_to(address(), len(copied))
            missing = np.broadcast_to(np.int64(0) if zeros is None else zeros(), len(copied))
            for less in np.unique(missing[reads]).tolist():
                here = reads[missing[reads] == less]
                copied[here, : width - less] = self._read("global", sources[here], here, width - less)
            self._put("shared", addresses, active, copied[active])

        return move

    def _save(self, d: Decoded, lanes: Lanes, space: str, width: int) -> Callable[[Array, Array], None]:
        register = d.operands[-1]
        if not isinstance(register, MachineRegister) or d.name == "STSM":
            raise unknown_form(d)
        count = max(1, width // 4)
        fetchers: list[Fetch] = [
            lanes.fetcher(MachineRegister(register.file, None if register.number is None else register.number + i))
            for i in range(count)
        ]

        def move(addresses: Array, active: Array) -> None:
            words = np.stack([np.broadcast_to(f(), (lanes.geometry.lanes,))[active] for f in fetchers], axis=1)
            self._put(space, addresses, active, np.ascontiguousarray(words).view(np.uint8)[:, :width])

        return move
