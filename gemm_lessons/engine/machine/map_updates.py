"""``tensormap.replace`` and ``tensormap.cp_fenceproxy``: a kernel builds a tensor map, or changes one.

    tensormap.replace         writes one field of a map in shared or global memory
    tensormap.cp_fenceproxy   a warp copies a map from shared to global memory, for the TMA to see

``fence.proxy.tensormap`` orders both before the TMA's reads (``checkers/map_proxy.py``). Source: NVIDIA, "PTX ISA" 9.0,
9.7.9.28 and 9.7.9.25.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gemm_lessons.engine.events import EVERY_MAP, WARP, MapAccess, Space
from gemm_lessons.engine.machine.bulk import BulkSide
from gemm_lessons.engine.machine.map_bytes import FIELDS, MARK
from gemm_lessons.engine.machine.mbarriers import bind_async_fence
from gemm_lessons.engine.machine.memory import SHARED_WINDOW, WINDOW_SIZE
from gemm_lessons.engine.machine.state import Fault
from gemm_lessons.engine.machine.transfers import Binding
from gemm_lessons.engine.ptx.cfg import unsupported
from gemm_lessons.engine.ptx.records import Immediate
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.facts import Misuse
from gemm_lessons.engine.records.launch import TENSOR_MAP_SIZE

CONSTANT = frozenset({"elemtype", "interleave_layout", "swizzle_mode", "fill_mode"})  # fields set by an immediate
COPY = ("cp_fenceproxy", "global", "shared__cta", "tensormap__generic", "release")


class _Maps:
    """Maps in memory, as bytes (lanes, 128), by their addresses."""

    def __init__(self, binding: Binding, space: Space | None) -> None:
        self._space = space
        self._state, self._memory = binding.state, binding.memory
        self._sides = {name: BulkSide(binding, name, "store") for name in ("shared", "global")}
        self._access = self._sides["global"].access(TENSOR_MAP_SIZE)

    def places(self, addresses: Array, lanes: Array) -> tuple[NDArray[np.uint8], Array]:
        """Return the memory of these lanes' maps, and the offset of each map in it. Raise ``Fault``."""
        state, shared = self._state, self._space == "shared"
        if self._space is None:
            shared = bool(((addresses >= SHARED_WINDOW) & (addresses < SHARED_WINDOW + WINDOW_SIZE)).all())
            addresses = addresses - SHARED_WINDOW if shared else addresses
        side = self._sides["shared" if shared else "global"]
        side.aligned(addresses, lanes, TENSOR_MAP_SIZE, TENSOR_MAP_SIZE)
        if shared:
            offsets, bad = state.in_shared(addresses, lanes, TENSOR_MAP_SIZE, False)
            if bad.any():
                raise side.faults(TENSOR_MAP_SIZE).window(addresses, lanes, bad, state.shared_bytes)
            return state.shared, np.asarray(state.lane_block[lanes] * state.shared_stride + offsets)
        memory = self._memory.layout.memory
        offsets, inside = memory.offsets(addresses, TENSOR_MAP_SIZE)
        if not inside.all():
            raise side.faults(TENSOR_MAP_SIZE).buffer(addresses, lanes, ~inside)
        side.is_tracked(addresses)
        return self._memory.memory_of("global"), offsets

    def note(self, lanes: Array, addresses: Array, *kinds: Literal["write", "release", "acquire"]) -> None:
        """Record operations of lanes on maps in global memory."""
        for kind in kinds:
            self._state.trace.append(MapAccess(kind, lanes, addresses, self._access))

    def note_replaced(self, lanes: Array, addresses: Array) -> None:
        """Record a replaced field, if the map is in global memory."""
        if self._space == "shared":
            return
        there = (addresses < SHARED_WINDOW) | (addresses >= SHARED_WINDOW + WINDOW_SIZE)
        there |= self._space == "global"
        if there.any():
            self.note(lanes[there], addresses[there], "write")


def bind_tensor_map(binding: Binding) -> Callable[[], None]:
    """Bind ``tensormap``. Raise ``UnsupportedKernel`` for an unknown form."""
    words = binding.instruction.modifiers
    if words[:2] == ("replace", "tile"):
        return _bind_replace(binding)
    if words[: len(COPY)] == COPY and words[-2:] == ("sync", "aligned") and len(words) == len(COPY) + 3:
        return _bind_copy(binding)
    raise unsupported(binding.instruction)


def _bind_replace(binding: Binding) -> Callable[[], None]:
    state, instruction = binding.state, binding.instruction
    name, *rest = instruction.modifiers[2:]
    spaces = [word for word in rest if word.partition("__")[0] in ("global", "shared")]
    if name not in FIELDS or rest[len(spaces) :] not in (["b1024", "b32"], ["b1024", "b64"]):
        raise unsupported(instruction)
    start, size, count = FIELDS[name]
    target, *ordinals, given = instruction.operands
    ordinal = ordinals[0] if ordinals else Immediate(0)
    if len(ordinals) != (count > 1) or not isinstance(ordinal, Immediate) or not 0 <= ordinal.value < count:
        raise unsupported(instruction)
    if name in CONSTANT and not isinstance(given, Immediate):
        raise unsupported(instruction)
    value = binding.value(given, "u64" if rest[-1] == "b64" else "u32")
    maps = _Maps(binding, None if not spaces else "shared" if spaces[0].startswith("shared") else "global")
    address_of = binding.addresses(target)
    field = start + ordinal.value * size + np.arange(size)

    def run(lanes: Array) -> None:
        addresses = address_of(lanes)
        memory, first = maps.places(addresses, lanes)
        maps.note_replaced(lanes, addresses)
        values = np.full(lanes.size, value) if np.ndim(value) == 0 else value[lanes]
        for lane, at, number in zip(lanes.tolist(), first.tolist(), values.tolist(), strict=True):
            mark = memory[at : at + len(MARK)]
            if mark.tobytes() != MARK:
                if memory[at : at + TENSOR_MAP_SIZE].any():
                    facts = Misuse(instruction.full_opcode)
                    raise Fault("illegal_access", "no map", instruction, state.actor(lane, instruction), facts)
                mark[:] = np.frombuffer(MARK, np.uint8)
            if int(number) >= 1 << 8 * size:
                facts = Misuse(instruction.full_opcode, name, int(number))
                raise Fault("illegal_access", "map field", instruction, state.actor(lane, instruction), facts)
            memory[at + field] = np.frombuffer(int(number).to_bytes(size, "little"), np.uint8)

    return binding.for_lanes(run)


def _bind_copy(binding: Binding) -> Callable[[], None]:
    state, instruction = binding.state, binding.instruction
    target, source, size = instruction.operands
    if size != Immediate(TENSOR_MAP_SIZE):
        raise unsupported(instruction)
    writing, reading = _Maps(binding, "global"), _Maps(binding, "shared")
    to, of, chosen = binding.addresses(target), binding.addresses(source), binding.lanes()
    step = np.arange(TENSOR_MAP_SIZE)

    def run() -> None:
        lanes = state.lane_numbers(chosen())
        _, first = np.unique(lanes // WARP, return_index=True)
        lanes = lanes[first]  # a warp copies one map
        if lanes.size:
            memory, begin = reading.places(of(lanes), lanes)
            addresses = to(lanes)
            there, places = writing.places(addresses, lanes)
            writing.note(lanes, addresses, "write", "release")
            there[places[:, None] + step] = memory[begin[:, None] + step]

    return run


def bind_proxy_fence(binding: Binding) -> Callable[[], None]:
    """Bind ``fence.proxy``. Raise ``UnsupportedKernel`` for an unknown form."""
    state, instruction = binding.state, binding.instruction
    if instruction.modifiers[1:2] != ("tensormap__generic",):
        return bind_async_fence(binding)
    _, _, kind, *scope = instruction.modifiers
    if kind not in ("release", "acquire") or len(scope) != 1 or len(instruction.operands) != 2 * (kind == "acquire"):
        raise unsupported(instruction)
    maps, chosen = _Maps(binding, "global"), binding.lanes()
    if kind == "acquire" and instruction.operands[1] != Immediate(TENSOR_MAP_SIZE):
        raise unsupported(instruction)
    address_of = binding.addresses(instruction.operands[0]) if kind == "acquire" else None

    def run() -> None:
        lanes = state.lane_numbers(chosen())
        if lanes.size and address_of is None:
            maps.note(lanes, np.full(lanes.size, EVERY_MAP), "release")
        elif lanes.size and address_of is not None:
            maps.note(lanes, address_of(lanes), "acquire")

    return run
