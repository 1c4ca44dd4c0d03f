"""``cp.async.bulk.tensor`` in tiles, and its reduction: boxes of one to five dimensions by a tensor map.

In loads, elements of a box outside the array are filled with zeros and count as arrived bytes. In stores they are left
out, and no coordinate may be negative. Source: NVIDIA, "PTX ISA" 9.0, 9.7.9.27.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gemm_lessons.engine.events import NOTHING, Boxed, Effect, MapAccess, Moved
from gemm_lessons.engine.machine.access import access_of
from gemm_lessons.engine.machine.bulk import (
    HINT,
    INTO,
    MULTICAST,
    UNIT,
    BulkSide,
    Destinations,
    Reduction,
    read,
    reduction,
    report,
    report_together,
    sectors,
)
from gemm_lessons.engine.machine.maps import PlacedTensorMap
from gemm_lessons.engine.machine.mbarriers import OPERATION_EFFECT, barriers_of
from gemm_lessons.engine.machine.memory import PARAMETERS
from gemm_lessons.engine.machine.state import Fault
from gemm_lessons.engine.machine.transfers import Binding, MemoryBinder
from gemm_lessons.engine.ptx.cfg import unsupported
from gemm_lessons.engine.ptx.records import Address, Operand, Register, Symbol, Vector
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.facts import Misuse
from gemm_lessons.engine.records.launch import TENSOR_MAP_SIZE

DIMENSIONS = ("1d", "2d", "3d", "4d", "5d")
MAP_ALIGNMENT, SHARED_ALIGNMENT = 64, 128  # bytes


def bind_tensor_copy(binding: Binding) -> Callable[[], None]:
    """Bind ``cp.async.bulk.tensor`` and ``cp.reduce.async.bulk.tensor``. Raise ``UnsupportedKernel``."""
    instruction = binding.instruction
    words = tuple(word for word in instruction.modifiers if word not in (HINT, "tile"))
    if words[:1] == ("reduce",):
        words, reduces = words[1:], True
    else:
        reduces = False
    if words[:3] != ("async", "bulk", "tensor") or "".join(words[3:4]) not in DIMENSIONS:
        raise unsupported(instruction)
    dims, form = int(words[3][0]), words[4:]
    if form[:1] in (("shared__cluster",), ("shared__cta",)) and form[1:] in (INTO, (*INTO, MULTICAST)) and not reduces:
        return _into_shared(binding, dims)
    if form == ("global", "shared__cta", "bulk_group") and not reduces:
        return _out_of_shared(binding, dims, "")
    if reduces and len(form) == 4 and set(form) > {"global", "shared__cta", "bulk_group"}:
        (name,) = set(form) - {"global", "shared__cta", "bulk_group"}
        return _out_of_shared(binding, dims, name)
    raise unsupported(instruction)


class Boxes:
    """The operand ``[map, {coordinates}]``: the boxes of the lanes that copy."""

    def __init__(self, binding: Binding, operand: Operand, dims: int) -> None:
        instruction = binding.instruction
        if not isinstance(operand, Vector) or len(operand.elements) != dims + 1:
            raise unsupported(instruction)
        first, *places = operand.elements
        self._state, self._memory, self._instruction = binding.state, binding.memory, instruction
        self._stores = isinstance(instruction.operands[0], Vector)
        if not isinstance(first, (Register, Symbol)):
            raise unsupported(instruction)
        self._map = binding.addresses(Address(first))
        self._places = [binding.value(place, "s32") for place in places]
        self._access = access_of(instruction, "global", "load", TENSOR_MAP_SIZE, Address(None))

    def __call__(self, lanes: Array) -> Iterator[tuple[PlacedTensorMap, Array, Array]]:
        """Yield, per tensor map: the map, its lanes, and the coordinates of their boxes (dims, n). Raise ``Fault``."""
        addresses = self._map(lanes)
        corner = np.array([np.full(lanes.size, p) if np.ndim(p) == 0 else p[lanes] for p in self._places], np.int64)
        for address in np.unique(addresses).tolist():
            here = addresses == address
            found = self._state.maps.get(self._memory.layout.memory, address)
            if found is None or address % MAP_ALIGNMENT or len(found.box) != len(corner):
                raise self._no_map(found, int(lanes[int(here.argmax())]))
            self._check_extent(found, int(lanes[int(here.argmax())]))
            self._check_start(found, lanes[here], corner[:, here])
            if self._is_in_buffer(address):
                self._state.trace.append(MapAccess("use", lanes[here], addresses[here], self._access))
            yield found, lanes[here], corner[:, here]

    def _is_in_buffer(self, address: int) -> bool:
        """Return whether the map is in global memory and not a parameter of the kernel."""
        allocation = self._memory.layout.memory.find(address)
        return allocation is not None and allocation.name != PARAMETERS

    def _check_extent(self, found: PlacedTensorMap, lane: int) -> None:
        """Raise ``Fault`` if the map covers more than the memory at its address, as one that a kernel builds may."""
        allocation = self._memory.layout.memory.find(found.base)
        left = 0 if allocation is None else allocation.base + allocation.size - found.base
        if left < found.extent:
            sizes = {"name": found.name, "value": max(0, left), "limit": found.extent}
            raise self._fault("illegal_access", "map extent", lane, **sizes)

    def _check_start(self, found: PlacedTensorMap, lanes: Array, corner: Array) -> None:
        """Raise ``Fault`` for a box that does not begin at a multiple of 16 bytes of a row, and for a stored one with a
        negative coordinate: both are illegal instructions on an H200, the first with elements of 1 to 8 bytes and every
        swizzle. A loaded box may begin before the array."""
        before = (corner < 0).any(axis=0) & self._stores
        if before.any():
            position = int(before.argmax())
            at = tuple(corner[:, position].tolist())
            raise self._fault("illegal_access", "box", int(lanes[position]), name=found.name, at=at)
        first = corner[0]
        odd = first * found.element % UNIT != 0
        if not odd.any():
            return
        position = int(odd.argmax())
        begins = int(first[position]) * found.element
        raise self._fault("misaligned", "box", int(lanes[position]), name=found.name, value=begins, limit=UNIT)

    def _no_map(self, found: PlacedTensorMap | None, lane: int) -> Fault:
        if found is None:
            return self._fault("illegal_access", "no map", lane)
        if len(found.box) != len(self._places):
            sizes = {"value": len(found.box), "limit": len(self._places)}
            return self._fault("illegal_access", "map dimensions", lane, name=found.name, **sizes)
        return self._fault("illegal_access", "map alignment", lane, limit=MAP_ALIGNMENT)

    def _fault(self, kind: str, case: str, lane: int, **more: Any) -> Fault:
        facts = Misuse(self._instruction.full_opcode, **more)
        return Fault(kind, case, self._instruction, self._state.actor(lane, self._instruction), facts)


def _into_shared(binding: Binding, dims: int) -> Callable[[], None]:
    state, memory, instruction = binding.state, binding.memory, binding.instruction
    target, box, barrier, *more = instruction.operands
    target_of = binding.addresses(target)
    boxes = Boxes(binding, box, dims)
    barriers = barriers_of(binding, barrier, OPERATION_EFFECT, traced=False)
    destinations = Destinations(binding, barriers, more[0] if MULTICAST in instruction.modifiers else None)
    shared, global_side = (BulkSide(binding, "shared", "copy"), BulkSide(binding, "global", "copy"))
    chosen = binding.lanes()

    def run() -> None:
        for one, lanes, corner in boxes(state.lane_numbers(chosen())):
            places = target_of(lanes)
            shared.aligned(places, lanes, one.bytes, SHARED_ALIGNMENT)
            offset, inside = one.elements(corner)
            _trace_global(global_side, one, lanes, offset, inside)
            arena, window = (it.view(f"u{one.element}") for it in (memory.memory_of("global"), state.shared))
            if inside.all():
                data = arena[_in_arena(memory, one, offset.reshape(-1))].reshape(offset.shape)
            else:
                data = np.zeros(offset.shape, arena.dtype)
                data[inside] = arena[_in_arena(memory, one, offset[inside])]
            moved = _moved(one, offset, inside)
            earlier = len(state.in_flight)
            for here, there, cell in destinations(lanes, places):
                flat = shared.place_shared(there, lanes[here], one.bytes)
                window[_by_element(one, there, flat)] = data[here].reshape(-1)
                moved = destinations.received(moved, _moved(one, offset[here], inside[here]).sectors)
                report(state, barriers, lanes[here], cell, one.bytes, moved)
                if state.tiles:
                    pieces = _by_piece(one, there, flat)
                    state.trace.append(Boxed(shared.access(one.bytes), one.shape, corner[:, here], pieces, flat))
                moved = NOTHING  # global memory is read once
            report_together(state, earlier)

    return run


def _out_of_shared(binding: Binding, dims: int, name: str) -> Callable[[], None]:
    state, memory, instruction = binding.state, binding.memory, binding.instruction
    box, source, *_ = instruction.operands
    source_of = binding.addresses(source)
    boxes = Boxes(binding, box, dims)
    effect: Effect = "atomic" if name else "store"
    shared, global_side = (BulkSide(binding, "shared", "load"), BulkSide(binding, "global", effect))
    clipped = BulkSide(binding, "shared", "load", is_clipped=True)
    chosen = binding.lanes()
    reductions: dict[str, Reduction] = {}

    def run() -> None:
        for one, lanes, corner in boxes(state.lane_numbers(chosen())):
            places = source_of(lanes)
            shared.aligned(places, lanes, one.bytes, SHARED_ALIGNMENT)
            offset, inside = one.elements(corner)
            flat = (shared if inside.all() else clipped).place_shared(places, lanes, one.bytes)
            read(state, lanes, _moved(one, offset, inside, bool(name)))
            _trace_global(global_side, one, lanes, offset, inside)
            arena, window = (it.view(f"u{one.element}") for it in (memory.memory_of("global"), state.shared))
            data = window[_by_element(one, places, flat)].reshape(offset.shape)[inside]
            index = _in_arena(memory, one, offset[inside])
            if not name:
                arena[index] = data
                continue
            if one.kind not in reductions:
                reductions[one.kind] = reduction(instruction, name, one.kind)
            dtype = reductions[one.kind].dtype
            reductions[one.kind].updates.apply(arena.view(dtype), index, [data.view(dtype)])

    return run


def _in_arena(memory: MemoryBinder, one: PlacedTensorMap, offset: Array) -> Array:
    """Return the indices in the arena, in elements, of the elements at ``offset`` of a map's array. All strides of maps
    are multiples of an element, and arrays are aligned."""
    if not memory.layout.memory.is_whole:
        return memory.layout.memory.offsets(one.base + offset, one.element)[0] // one.element
    start, _ = memory.layout.memory.offsets(np.array([one.base]), 1)
    return np.asarray((start[0] + offset) // one.element)


def _by_element(one: PlacedTensorMap, places: Array, flat: Array) -> Array:
    """Return the indices in all blocks' shared memory, in elements, of the elements of all boxes."""
    step = np.arange(0, one.bytes, one.element)
    addresses = one.swizzled(places[:, None] + step) - places[:, None] + flat[:, None]
    return np.asarray(addresses.reshape(-1) // one.element)


def _by_piece(one: PlacedTensorMap, places: Array, flat: Array) -> Array:
    """Return the 16-byte pieces of all blocks' shared memory that hold the boxes, (n, pieces), in the array's order."""
    step = np.arange(0, one.bytes, UNIT)
    return np.asarray((one.swizzled(places[:, None] + step) - places[:, None] + flat[:, None]) // UNIT)


def _moved(one: PlacedTensorMap, offset: Array, inside: Array, reduces: bool = False) -> Moved:
    """Return the bytes and sectors of global memory that boxes move: their rows inside the array."""
    first, good = offset.reshape(-1, one.box[0]), inside.reshape(-1, one.box[0])
    if good.all():
        moving = sectors(one.base + first[:, 0], one.box[0] * one.element)
        return Moved(len(offset), good.size * one.element, moving, reduces)
    count = good.sum(axis=1)
    begin = one.base + first[np.arange(len(first)), good.argmax(axis=1)]
    there = count > 0
    moving = sectors(begin[there], count[there] * one.element)
    return Moved(len(offset), int(count.sum()) * one.element, moving, reduces)


def _trace_global(global_side: BulkSide, one: PlacedTensorMap, lanes: Array, offset: Array, inside: Array) -> None:
    """Append a box's touches of global memory to the trace, row by row, if the memory is tracked."""
    row = one.box[0]
    first, good = offset.reshape(lanes.size, -1, row), inside.reshape(lanes.size, -1, row)
    if not global_side.is_tracked(np.array([one.base])):
        return
    if good.all():
        for begin in (first[:, :, 0] + one.base).T:
            global_side.trace_global(begin, lanes, row * one.element)
        return
    for number in range(first.shape[1]):
        count = good[:, number].sum(axis=1)
        begin = first[:, number][np.arange(lanes.size), good[:, number].argmax(axis=1)] + one.base
        for length in np.unique(count[count > 0]).tolist():
            here = count == length
            global_side.trace_global(begin[here], lanes[here], length * one.element)
