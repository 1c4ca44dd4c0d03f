"""``cp.async.bulk`` and ``cp.reduce.async.bulk``: one thread copies many bytes between global and shared memory, or
to shared memory of another block of the cluster.

The bytes move at once, but a copy to shared memory reports to its mbarrier only when no lane can continue without it.
``checkers/bulk_copies.py`` checks from the trace (``events.Bulk``, ``Landed``, ``BulkGroup``) when threads may access
the bytes. Addresses and sizes are multiples of 16 bytes. Source: NVIDIA, "PTX ISA" 9.0, 9.7.9.25.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemm_lessons.engine.events import NOTHING, Access, Bulk, BulkGroup, Effect, Landed, Moved, Placed, Space, Touch
from gemm_lessons.engine.machine.access import LINE, access_of, reaches_cluster, touch_by
from gemm_lessons.engine.machine.atomics import Updates, operation_of
from gemm_lessons.engine.machine.faults import AccessFaults
from gemm_lessons.engine.machine.mbarriers import OPERATION_EFFECT, Mbarriers, barriers_of
from gemm_lessons.engine.machine.memory import RANK_SHIFT
from gemm_lessons.engine.machine.phases import BYTES, MbarrierMisused
from gemm_lessons.engine.machine.state import Fault, State
from gemm_lessons.engine.machine.transfers import Binding
from gemm_lessons.engine.ptx.cfg import line_of, unsupported
from gemm_lessons.engine.ptx.records import SIZES, Address, Immediate, Instruction, Operand
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.errors import UnsupportedKernel
from gemm_lessons.engine.records.facts import Misuse

Guard = Callable[[], Array | None]

UNIT, SECTOR = 16, 32  # bytes
INTO = ("global", "mbarrier__complete_tx__bytes")  # modifiers after the target space
OUT_OF = ("global", "shared__cta", "bulk_group")
BETWEEN = ("shared__cluster", "shared__cta", "mbarrier__complete_tx__bytes")
MULTICAST = "multicast__cluster"
HINT = "L2__cache_hint"
MEMOISED_TOUCHES = 512  # memoised touches per instruction


class BulkSide:
    """One of the two memories of a copy, with its records for the trace. Sizes are known only at run time."""

    def __init__(
        self, binding: Binding, space: Space, effect: Effect, is_product: bool = False,
        reaches: bool | None = None, is_clipped: bool = False,
    ) -> None:  # fmt: skip
        self.state, self.memory, self.instruction = binding.state, binding.memory, binding.instruction
        self._access = dataclasses.replace(
            access_of(self.instruction, space, effect, UNIT, Address(None)),
            is_bulk=True,
            is_product=is_product,
            is_clipped=is_clipped,
        )
        self._reaches = reaches_cluster(self.instruction) if reaches is None else reaches
        self._by_size: dict[int, Access] = {}
        self._touches: dict[tuple[int, bytes, bytes], Touch] = {}

    def access(self, size: int) -> Access:
        """Return the access of ``size`` bytes."""
        if size not in self._by_size:
            self._by_size[size] = dataclasses.replace(self._access, width=size)
        return self._by_size[size]

    def faults(self, size: int, multiple: int = 0) -> AccessFaults:
        """Return the faults of an access of ``size`` bytes. ``multiple``: the alignment, if it is not ``size``."""
        access = self.access(size)
        if multiple:
            access = dataclasses.replace(access, width=multiple)
        layout = self.memory.layout
        return AccessFaults(self.state, layout.memory, self.instruction, access, layout.shared, lambda: None)

    def touch(self, addresses: Array, lanes: Array, size: int) -> Touch:
        """Return the record of lanes (n,) that access ``size`` bytes each, memoised by addresses."""
        key = size, addresses.tobytes(), lanes.tobytes()
        found = self._touches.get(key)
        if found is None:
            found = touch_by(self.access(size), addresses, lanes, self.state.lanes)
            self._memoise(key, found)
        return found

    def _memoise(self, key: tuple[int, bytes, bytes], touch: Touch) -> None:
        if len(self._touches) >= MEMOISED_TOUCHES:
            self._touches.clear()
        self._touches[key] = touch

    def aligned(self, addresses: Array, lanes: Array, size: int, multiple: int = UNIT) -> None:
        """Raise ``Fault`` if an address is not a multiple of ``multiple``."""
        if (addresses & (multiple - 1)).any():
            if self._access.space == "shared":  # the rank and the origin are multiples of every alignment
                addresses = addresses % (1 << RANK_SHIFT) - self.state.shared_origin
            raise self.faults(size, multiple).misaligned(addresses, lanes)

    def place_shared(self, addresses: Array, lanes: Array, size: int) -> Array:
        """Return where ``size`` bytes begin in all blocks' shared memory. Raise ``Fault``. Record the touch."""
        state, offsets = self.state, self.offsets(addresses, lanes, size)
        state.trace.append(self.touch(offsets, lanes, size))
        return np.asarray(state.lane_block[lanes] * state.shared_stride + offsets)

    def offsets(self, addresses: Array, lanes: Array, size: int) -> Array:
        """Return how far ``addresses`` are from the start of each lane's own shared memory. Raise ``Fault``."""
        offsets, bad = self.state.in_shared(addresses, lanes, size, self._reaches)
        if bad.any():
            raise self.faults(size).window(addresses, lanes, bad, self.state.shared_bytes)
        return offsets

    def read_chunks(self, offsets: Array, lanes: Array) -> None:
        """Record a product's reads of ``UNIT`` bytes at ``offsets`` (n,), by ``lanes`` (n,), until its group ends."""
        key = UNIT, offsets.tobytes(), lanes.tobytes()
        touch = self._touches.get(key)
        if touch is None:
            touch = Touch(self.access(UNIT), offsets, None, lanes)
            self._memoise(key, touch)
        self.state.trace.append(touch)
        read(self.state, lanes, NOTHING)

    def place_global(self, addresses: Array, lanes: Array, size: int) -> Array:
        """Return the arena's units that each lane's ``size`` bytes are in, (lanes, units). Raise ``Fault``. Append a
        touch to the trace if the memory is tracked."""
        memory, step = self.memory.layout.memory, np.arange(0, size, UNIT)
        if memory.is_whole:
            offsets, inside = memory.offsets(addresses, size)
            units = offsets[:, None] + step
        else:  # neighbouring pages may be anywhere
            units, of_each = memory.offsets(addresses[:, None] + step, UNIT)
            inside = np.asarray(of_each.all(axis=1))
        if not inside.all():
            raise self.faults(size).buffer(addresses, lanes, ~inside)
        if self.is_tracked(addresses):
            self.trace_global(addresses, lanes, size)
        return units // UNIT

    def is_tracked(self, addresses: Array) -> bool:
        """Return whether an allocation at these addresses is tracked because the kernel writes it. A side that writes
        marks it as tracked. Raise ``Fault``."""
        writing = self._access.effect != "copy"
        watched = False
        for one in self.memory.layout.memory.touched(addresses):
            if writing and one.constant:
                raise Fault("illegal_access", "constant store", self.instruction, facts=Misuse(name=one.name))
            one.tracked |= writing
            watched |= one.tracked
        return watched

    def trace_global(self, addresses: Array, lanes: Array, size: int) -> None:
        """Append the touch of addresses inside their allocations to the trace."""
        base = int(addresses[0]) // LINE * LINE
        touch = self.touch(addresses - base, lanes, size)
        self.state.trace += (touch, Placed(touch, base))


class Destinations:
    """The blocks of the cluster into whose shared memory copies go: the block of the address or, with ``multicast``,
    each block that a mask names, at the same offset."""

    def __init__(self, binding: Binding, barriers: Mbarriers, mask: Operand | None) -> None:
        self._state, self._instruction = binding.state, binding.instruction
        self._barriers = barriers
        self._mask = None if mask is None else binding.value(mask, "u16")

    def __call__(self, lanes: Array, places: Array) -> Iterator[tuple[Array, Array, Array]]:
        """Yield, per block: positions of lanes that copy to it, addresses, cells of mbarriers. Raise ``Fault``."""
        state, cell = self._state, self._barriers.of(lanes)
        if self._mask is None:
            yield np.arange(lanes.size), places, cell
            return
        mask = np.broadcast_to(self._mask if self._mask.ndim == 0 else self._mask[lanes], lanes.shape).astype(np.int64)
        absent = mask >> state.cluster != 0
        if absent.any():
            lane = int(lanes[absent.argmax()])
            facts = Misuse(self._instruction.full_opcode, value=int(mask[absent.argmax()]), limit=state.cluster)
            who = state.actor(lane, self._instruction)
            raise Fault("illegal_access", "multicast", self._instruction, who, facts)
        window = state.shared_stride // BYTES  # cells
        for rank in range(state.cluster):
            here = np.flatnonzero(mask >> rank & 1)
            if here.size:
                there = cell[here] + (rank - cell[here] // window % state.cluster) * window
                yield here, places[here] % (1 << RANK_SHIFT) + (rank << RANK_SHIFT), there

    def received(self, moved: Moved, sectors: int) -> Moved:
        """Return ``moved`` with the sectors that one of several destinations receives."""
        return moved if self._mask is None else dataclasses.replace(moved, multicast=sectors)


def bind_bulk(binding: Binding) -> Callable[[], None]:
    """Bind ``cp.async.bulk`` (not tensor) and its groups. Raise ``UnsupportedKernel``."""
    state, instruction, guard = binding.state, binding.instruction, binding.guard
    words = instruction.modifiers[2:]
    if words[:1] in (("commit_group",), ("wait_group",)):
        return _group(state, instruction, guard)
    if words[:1] == ("prefetch",):
        return lambda: None
    form = tuple(word for word in words if word != HINT)
    if form[:1] in (("shared__cluster",), ("shared__cta",)) and form[1:] in (INTO, (*INTO, MULTICAST)):
        return _bind_into_shared(binding)
    if form == BETWEEN:
        return _bind_between_blocks(binding, None)
    if form == OUT_OF:
        return _bind_out_of_shared(binding, None)
    raise unsupported(instruction)


def bind_bulk_reduction(binding: Binding) -> Callable[[], None]:
    """Bind ``cp.reduce.async.bulk`` from shared memory, to global or another block's. Raise ``UnsupportedKernel``."""
    instruction = binding.instruction
    words = tuple(word for word in instruction.modifiers[3:] if word != HINT)
    if words[4:] in (("noftz", "f16"), ("noftz", "bf16")):
        words = (*words[:4], words[5])
    if words[:3] == BETWEEN and len(words) == 5:
        return _bind_between_blocks(binding, reduction(instruction, *words[3:]))
    if instruction.modifiers[1:3] != ("async", "bulk") or words[:3] != OUT_OF or len(words) != 5:
        raise unsupported(instruction)
    return _bind_out_of_shared(binding, reduction(instruction, *words[3:]))


@dataclasses.dataclass(frozen=True)
class Reduction:
    """What ``cp.reduce`` does to each element in global memory."""

    updates: Updates
    dtype: np.dtype[Any]


def reduction(instruction: Instruction, name: str, kind: str) -> Reduction:
    """Return the reduction ``name`` on type ``kind``. Raise ``UnsupportedKernel`` for one that is not supported."""
    operation = operation_of(name, kind) if kind in SIZES else None
    if operation is None or name in ("exch", "cas"):
        raise unsupported(instruction)
    updates = Updates(name, kind, _keeping_nans(operation) if kind == "f64" else operation)
    return Reduction(updates, updates.dtype)


def _keeping_nans(operation: Callable[..., Array]) -> Callable[..., Array]:
    """Return the operation as an H200 reduces doubles: it keeps the bits of a NaN, of the added one if both are."""

    def apply(old: Array, given: Array) -> Array:
        return np.where(np.isnan(given), given, np.where(np.isnan(old), old, operation(old, given)))

    return apply


def _bind_into_shared(binding: Binding) -> Callable[[], None]:
    state, memory, instruction, value = binding.state, binding.memory, binding.instruction, binding.value
    target, source, size, barrier, *more = instruction.operands
    target_of, source_of = binding.addresses(target), binding.addresses(source)
    sizes = value(size, "u32")
    barriers = barriers_of(binding, barrier, OPERATION_EFFECT, traced=False)
    destinations = Destinations(binding, barriers, more[0] if MULTICAST in instruction.modifiers else None)
    shared, global_side = (BulkSide(binding, "shared", "copy"), BulkSide(binding, "global", "copy"))
    chosen = binding.lanes()
    arena, window = _units(memory.memory_of("global")), _units(state.shared)

    def run() -> None:
        for lanes, count in by_size(state, instruction, chosen, sizes):
            addresses, places = source_of(lanes), target_of(lanes)
            global_side.aligned(addresses, lanes, count)
            shared.aligned(places, lanes, count)
            units = global_side.place_global(addresses, lanes, count)
            step = np.arange(count // UNIT)
            moved = Moved(lanes.size, lanes.size * count, sectors(addresses, count))
            earlier = len(state.in_flight)
            for here, there, cell in destinations(lanes, places):
                flat = shared.place_shared(there, lanes[here], count)
                window[flat[:, None] // UNIT + step] = arena[units[here]]
                moved = destinations.received(moved, sectors(addresses[here], count))
                report(state, barriers, lanes[here], cell, count, moved)
                moved = NOTHING  # global memory is read once
            report_together(state, earlier)

    return run


def _bind_out_of_shared(binding: Binding, reduction: Reduction | None) -> Callable[[], None]:
    state, memory, instruction, value = binding.state, binding.memory, binding.instruction, binding.value
    target, source, size, *_ = instruction.operands
    target_of, source_of = binding.addresses(target), binding.addresses(source)
    sizes = value(size, "u32")
    effect: Effect = "atomic" if reduction else "store"
    shared, global_side = (BulkSide(binding, "shared", "load"), BulkSide(binding, "global", effect))
    chosen = binding.lanes()
    arena, window = _units(memory.memory_of("global")), _units(state.shared)

    def run() -> None:
        for lanes, count in by_size(state, instruction, chosen, sizes):
            addresses, places = target_of(lanes), source_of(lanes)
            global_side.aligned(addresses, lanes, count)
            shared.aligned(places, lanes, count)
            flat = shared.place_shared(places, lanes, count)
            read(state, lanes, Moved(lanes.size, lanes.size * count, sectors(addresses, count), reduction is not None))
            units = global_side.place_global(addresses, lanes, count)
            moved = window[flat[:, None] // UNIT + np.arange(count // UNIT)]
            if reduction is None:
                arena[units] = moved
                continue
            each = UNIT // reduction.dtype.itemsize
            index = units[..., None] * each + np.arange(each)
            given = np.ascontiguousarray(moved).view(reduction.dtype).reshape(-1)
            reduction.updates.apply(memory.memory_of("global").view(reduction.dtype), index.reshape(-1), [given])

    return run


def _bind_between_blocks(binding: Binding, reduction: Reduction | None) -> Callable[[], None]:
    """Bind a copy from the block's own shared memory to that of a block of its cluster."""
    state, instruction = binding.state, binding.instruction
    target, source, size, barrier, *_ = instruction.operands
    target_of, source_of = binding.addresses(target), binding.addresses(source)
    sizes = binding.value(size, "u32")
    barriers = barriers_of(binding, barrier, OPERATION_EFFECT, traced=False)
    reading, writing = BulkSide(binding, "shared", "load", reaches=False), BulkSide(binding, "shared", "copy")
    chosen = binding.lanes()
    window = _units(state.shared)

    def run() -> None:
        for lanes, count in by_size(state, instruction, chosen, sizes):
            places, to = source_of(lanes), target_of(lanes)
            reading.aligned(places, lanes, count)
            writing.aligned(to, lanes, count)
            step = np.arange(count // UNIT)
            moved = window[reading.place_shared(places, lanes, count)[:, None] // UNIT + step]
            cell = barriers.of(lanes)
            report(state, barriers, lanes, cell, 0, reads=True)
            flat = writing.place_shared(to, lanes, count)
            if reduction is None:
                window[flat[:, None] // UNIT + step] = moved
            else:
                width = reduction.dtype.itemsize
                index = flat[:, None] // width + np.arange(count // width)
                given = np.ascontiguousarray(moved).view(reduction.dtype).reshape(-1)
                reduction.updates.apply(state.shared.view(reduction.dtype), index.reshape(-1), [given])
            report(state, barriers, lanes, cell, count)

    return run


def sectors(begin: Array, length: Array | int) -> int:
    """Return the number of 32-byte sectors of pieces of global memory, counted per piece."""
    return int(((begin + length - 1) // SECTOR - begin // SECTOR + 1).sum())


def report(
    state: State, barriers: Mbarriers, lanes: Array, cell: Array, count: int, moved: Moved = NOTHING,
    reads: bool = False,
) -> None:  # fmt: skip
    """Schedule the report of ``count`` bytes per lane to the mbarriers at ``cell``, for the copy whose touch was traced
    last. The report happens as late as possible, so that a thread that does not wait never sees the phase complete by
    luck. ``reads``: the touch is of the bytes that the copy reads."""
    touch = state.trace[-1]
    assert isinstance(touch, Touch)
    bulk = Bulk(touch, lanes, barriers.offsets(cell), moved, reads)

    def land() -> None:
        np.subtract.at(state.phases.flying, cell, count)
        try:
            phases = state.phases.announce(cell, np.full(cell.size, -count))
        except MbarrierMisused as problem:
            raise barriers.misused(problem, lanes, cell) from None
        state.history.note("reported", barriers.instruction.index, lanes, cell, phases, count)
        state.trace.append(Landed(bulk, phases))

    try:
        state.phases.check(cell)
    except MbarrierMisused as problem:
        raise barriers.misused(problem, lanes, cell) from None
    np.add.at(state.phases.flying, cell, count)
    state.trace.append(bulk)
    state.in_flight.append(land)


def report_together(state: State, earlier: int) -> None:
    """Let a multicast report to all its destinations at once. ``earlier``: reports in flight before it."""
    reports = state.in_flight[earlier:]

    def land() -> None:
        for one in reports:
            one()

    if len(reports) > 1:
        state.in_flight[earlier:] = [land]


def read(state: State, lanes: Array, moved: Moved) -> None:
    """Record that the copy or product whose touch was traced last reads shared memory until its group is done."""
    touch = state.trace[-1]
    assert isinstance(touch, Touch)
    state.trace.append(Bulk(touch, lanes, None, moved))


def by_size(state: State, instruction: Instruction, chosen: Callable[[], Array | None], sizes: Any) -> Any:
    """Yield the executing lanes by the number of bytes that each copies. Raise ``Fault`` or ``UnsupportedKernel``."""
    lanes = state.lane_numbers(chosen())
    if not lanes.size:
        return
    counts = np.full(lanes.size, sizes, np.int64) if np.ndim(sizes) == 0 else sizes[lanes].astype(np.int64)
    odd = counts % UNIT != 0
    if odd.any():
        first = int(odd.argmax())
        facts = Misuse(instruction.full_opcode, value=int(counts[first]), limit=UNIT)
        raise Fault("misaligned", "bulk", instruction, state.actor(int(lanes[first]), instruction), facts)
    if (counts == 0).any():
        raise UnsupportedKernel(f"a bulk copy of no bytes: {instruction.text}", line_of(instruction))
    for count in np.unique(counts).tolist():
        yield lanes[counts == count], count


def _units(memory: NDArray[np.uint8]) -> Array:
    return memory.view(np.uint64).reshape(-1, UNIT // 8)


def _group(state: State, instruction: Instruction, guard: Guard | None) -> Callable[[], None]:
    line = line_of(instruction)
    commit = instruction.modifiers[2] == "commit_group"
    pending = 0
    if not commit:
        number = instruction.operands[0] if instruction.operands else None
        if not isinstance(number, Immediate) or not set(instruction.modifiers[3:]) <= {"read"}:
            raise unsupported(instruction)
        pending = number.value

    def run() -> None:
        mask = state.active if guard is None else guard()
        lanes = None if mask is None else mask.copy()
        state.trace.append(BulkGroup("commit" if commit else "wait", pending, lanes, line))

    return run
