"""The memories of a launch: global allocations, per-block shared windows, per-thread local memory, parameters.

Addresses are virtual. A wrong index must never fall inside another allocation unnoticed, so each allocation has its own
slot of 64 GiB and its own offset within the slot. An index that is wrong by whole multiples of 4 GiB (because it
wrapped at 32 bits) or by whole slots therefore misses every allocation. Every allocation starts at a multiple of 256
bytes, as with CUDA's allocators. Shared and local memory have separate windows of generic addresses. A global or local
address used as a shared one, truncated to 32 bits or not, is outside every block's shared memory.

A buffer with ``Pages`` may be larger than this machine's memory: only the pages that a launch touches are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gemm_lessons.engine.machine.images import handle
from gemm_lessons.engine.machine.map_bytes import encoded
from gemm_lessons.engine.machine.paging import PageTable
from gemm_lessons.engine.ptx.records import Kernel, Variable
from gemm_lessons.engine.ptx.variables import initial_bytes
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.elements import in_native_order
from gemm_lessons.engine.records.launch import (
    PAGE,
    TENSOR_MAP_SIZE,
    Argument,
    Buffer,
    Pages,
    Pointer,
    Scalar,
    Surface,
    TensorMap,
    Texture,
    buffer_of,
    offset_of,
)

Lanes = Array

ALLOCATION_SPACING = 1 << 36
GLOBAL_BASE = 0x7000_4000_0000  # chosen so that the low half of a global address is never small
ELSEWHERE = 0x7F3A_9C00_0000  # another base, as a GPU's allocator may choose
GUARD = 1 << 20  # bytes between the offsets of two allocations within their slots
SHARED_WINDOW = 0x0100_0000_0000
RESERVED_SHARED = 1024  # bytes that the driver reserves at the start of a block's shared memory, from the H100 on
RANK_SHIFT = 24  # an address in shared memory has the rank of its block in the cluster from this bit on
LOCAL_WINDOW = 0x0200_8000_0000
WINDOW_SIZE = 1 << 32
ALIGNMENT = 256
PARAMETERS = "the parameters"  # the parameter block, where a kernel takes the address of a parameter
BLANK = 0xE5  # byte of unwritten memory if it is tracked whether it matters: no usual number has it in each byte
POISON = 0xFF  # byte of unwritten memory; as float32 a NaN, so that it never looks like a result


@dataclass
class Allocation:
    """``size`` bytes of global memory at virtual address ``base``; its bytes start at ``offset`` of the arena."""

    name: str
    base: int
    size: int
    offset: int
    tracked: bool  # an output, uninitialised, or written by the kernel: accesses are recorded with addresses
    constant: bool = False
    fresh: bool = False  # uninitialised: reading it before writing it is an error
    pages: PageTable | None = None  # it holds only pages that were touched


class GlobalMemory:
    """One arena of bytes that holds every allocation, 16-byte aligned so that it can be viewed at any width."""

    def __init__(self, buffers: Iterable[Buffer], variables: Iterable[Variable], *, placement: int = 0) -> None:
        """``placement``: 1 and 2 give other addresses, close to each other; 2 in the opposite order."""
        separate = _separate(buffers)
        self._first, self._spacing = GLOBAL_BASE, ALLOCATION_SPACING
        if placement:
            largest = max((it.array.size * it.array.itemsize for it in separate), default=1)
            self._first, self._spacing = ELSEWHERE // placement, 1 << max(21, largest.bit_length() + 1)
            separate = separate[:: 1 if placement == 1 else -1]
        self._guard = 0 if placement else GUARD
        self.allocations: list[Allocation] = []
        contents: list[tuple[Allocation, NDArray[np.uint8]]] = []
        self._buffers: list[tuple[Allocation, Buffer]] = []
        self._by_array: dict[int, Allocation] = {}
        self._phase = 0
        end = 0
        for buffer in separate:
            if buffer.pages is None:
                data = in_native_order(np.ascontiguousarray(buffer.array)).reshape(-1).view(np.uint8)
                allocation, end = self._allocate(buffer.name, data.size, end, buffer.output)
                contents.append((allocation, data))
            else:
                size = buffer.array.size * buffer.array.itemsize
                allocation, end = self._allocate(buffer.name, size, end, buffer.output, buffer.pages)
            allocation.fresh = not buffer.initialised
            allocation.tracked |= allocation.fresh
            self._buffers.append((allocation, buffer))
            self._by_array[id(buffer.array)] = allocation
        self.symbols: dict[str, Allocation] = {}
        placed = [*variables]
        for variable in placed:
            allocation, end = self._allocate(variable.name, variable.size, end, variable.space == "global")
            allocation.constant = variable.space == "const"
            self.symbols[variable.name] = allocation
        addresses = {name: allocation.base for name, allocation in self.symbols.items()}
        for variable in placed:
            data = np.frombuffer(initial_bytes(variable, addresses), np.uint8)
            contents.append((self.symbols[variable.name], data))
        count = -(-max(end, 16) // 16) * 2
        self.is_whole = all(allocation.pages is None for allocation in self.allocations)
        words = np.full(count, -1, np.int64) if self.is_whole else np.empty(count, np.int64)  # aligned for every type
        self.arena = words.view(np.uint8)
        for allocation, data in contents:
            self.arena[allocation.offset : allocation.offset + allocation.size] = data
        self._starts = np.array([a.base for a in self.allocations], np.int64)
        self._sizes = np.array([a.size for a in self.allocations], np.int64)
        self._offsets = np.array([a.offset for a in self.allocations], np.int64)

    def _allocate(
        self, name: str, size: int, end: int, tracked: bool, pages: Pages | None = None
    ) -> tuple[Allocation, int]:
        base = self._first + len(self.allocations) * self._spacing + self._phase
        allocation = Allocation(name, base, size, end, tracked)
        self.allocations.append(allocation)
        taken = -(-size // ALIGNMENT) * ALIGNMENT
        self._phase += (taken + self._guard) * bool(self._guard)
        if pages is None:
            return allocation, end + taken
        allocation.pages = PageTable(pages, size, end)
        return allocation, end + pages.most * PAGE

    def track(self, written: Iterable[Buffer]) -> None:
        """Stop tracking allocations that the kernel does not write, except uninitialised ones."""
        arrays = {id(buffer.array) for buffer in written}
        for allocation, buffer in self._buffers:
            allocation.tracked &= allocation.fresh or id(buffer.array) in arrays

    def fill(self, symbol: str, data: bytes) -> None:
        """Copy ``data`` to the start of a variable."""
        allocation = self.symbols[symbol]
        self.arena[allocation.offset : allocation.offset + len(data)] = np.frombuffer(data, np.uint8)

    def address_of(self, pointer: Buffer | Pointer) -> int:
        """Return the virtual address of a buffer's start, or the address that a pointer into a buffer holds."""
        return self._by_array[id(buffer_of(pointer).array)].base + offset_of(pointer)

    def find(self, address: int) -> Allocation | None:
        """Return the allocation whose slot contains ``address``, or None. It is most likely the intended one."""
        slot = (address - self._first + self._spacing // 2) // self._spacing
        return self.allocations[slot] if 0 <= slot < len(self.allocations) else None

    def offsets(self, addresses: Lanes, width: int) -> tuple[Lanes, Lanes]:
        """Return, per lane, the offset into the arena, and whether all ``width`` bytes are inside one allocation."""
        if not self.allocations:
            return np.zeros_like(addresses), np.zeros(addresses.shape, bool)
        slots, relative, inside = self._within(addresses, width)
        offsets: Lanes = self._offsets[slots] + relative
        for slot in () if self.is_whole else np.unique(slots[inside]).tolist():
            if (table := self.allocations[slot].pages) is not None:
                here = inside & (slots == slot)
                offsets[here] = table.offsets(relative[here], self.arena)
        return offsets, inside

    def holds(self, addresses: Lanes, width: int) -> bool:
        """Return whether all ``width`` bytes at each address are inside one allocation."""
        return bool(self.allocations) and bool(self._within(addresses, width)[2].all())

    def _within(self, addresses: Lanes, width: int) -> tuple[Lanes, Lanes, Lanes]:
        slots = self._slots(addresses)
        relative = addresses - self._starts[slots]
        return slots, relative, (relative >= 0) & (relative <= self._sizes[slots] - width)

    def touched(self, addresses: Lanes) -> list[Allocation]:
        """Return the allocations whose slots contain ``addresses``."""
        return [self.allocations[slot] for slot in np.unique(self._slots(addresses)).tolist()]

    def _slots(self, addresses: Lanes) -> Lanes:
        slots = (addresses - self._first + self._spacing // 2) // self._spacing
        clipped: Lanes = np.clip(slots, 0, len(self.allocations) - 1)
        return clipped

    def text_at(self, address: int) -> str:
        """Return the zero-terminated string at a virtual address, such as a message of ``assert``."""
        allocation = self.find(address)
        if allocation is None or not allocation.base <= address < allocation.base + allocation.size:
            return ""
        start = allocation.offset + address - allocation.base
        data = self.arena[start : allocation.offset + allocation.size].tobytes()
        return data.split(b"\0")[0].decode("utf-8", "replace")

    def touched_pages(self) -> dict[str, tuple[Lanes, NDArray[np.uint8]]]:
        """Return the numbers of the pages made so far, and their bytes, for each buffer in pages."""
        tables = [(it.name, it.pages) for it in self.allocations if it.pages is not None]
        return {name: (table.touched, table.contents(self.arena)) for name, table in tables}

    def stored_pages(self) -> frozenset[str]:
        """Return the tracked buffers in pages: outputs that the kernel may write, and all that it stored into."""
        return frozenset(it.name for it in self.allocations if it.pages is not None and it.tracked)

    def write_back(self) -> None:
        """Copy every output buffer's bytes back into its array, and those of inputs that the kernel stored into."""
        for allocation, buffer in self._buffers:
            if buffer.output or (allocation.tracked and buffer.array.flags.writeable):
                data = self.arena[allocation.offset : allocation.offset + allocation.size]
                native = buffer.array.dtype.newbyteorder("=")
                buffer.array[...] = data.view(native).reshape(buffer.array.shape)


def _separate(buffers: Iterable[Buffer]) -> list[Buffer]:
    """Return each array once, as an output if any of its buffers is one. Raise ``ValueError`` if two share memory."""
    once: dict[int, Buffer] = {}
    for buffer in buffers:
        known = once.get(id(buffer.array))
        if known is not None:
            once[id(buffer.array)] = replace(known, output=known.output or buffer.output)
            continue
        for other in once.values():
            if np.may_share_memory(buffer.array, other.array):
                raise ValueError(f"{other.name} and {buffer.name} share memory: pass one array, and Pointers into it")
        once[id(buffer.array)] = buffer
    return list(once.values())


def parameter_block(kernel: Kernel, arguments: Sequence[Argument], memory: GlobalMemory) -> bytes:
    """Return the kernel's parameters as bytes. Raise ``ValueError`` if the arguments do not fit the signature."""
    if len(arguments) != len(kernel.parameters):
        raise ValueError(f"{kernel.name} takes {len(kernel.parameters)} parameters, {len(arguments)} were given")
    block = bytearray(max((p.offset + p.size for p in kernel.parameters), default=0))
    for position, (parameter, argument) in enumerate(zip(kernel.parameters, arguments, strict=True)):
        if isinstance(argument, (Buffer, Pointer)):
            data = memory.address_of(argument).to_bytes(8, "little")
        elif isinstance(argument, Scalar):
            data = argument.value if isinstance(argument.value, bytes) else argument.value.tobytes()
        elif isinstance(argument, (Texture, Surface)):
            data = handle(position)
        elif isinstance(argument, TensorMap):
            placed = memory.symbols.get(map_name(position))
            data = map_in(memory, argument, position) if placed is None else placed.base.to_bytes(8, "little")
        else:
            raw = bytearray(argument.raw)
            for offset, pointer in argument.pointers.items():
                raw[offset : offset + 8] = memory.address_of(pointer).to_bytes(8, "little")
            data = bytes(raw)
        if len(data) != parameter.size:
            raise ValueError(
                f"parameter {argument.name} of {kernel.name} has {parameter.size} bytes, {len(data)} were given"
            )
        block[parameter.offset : parameter.offset + parameter.size] = data
    return bytes(block)


def maps_in_memory(kernel: Kernel, arguments: Sequence[Argument]) -> list[Variable]:
    """Return a variable for each tensor map whose parameter is a pointer."""
    given = enumerate(zip(kernel.parameters, arguments, strict=False))
    return [
        Variable(map_name(position), "const", TENSOR_MAP_SIZE, TENSOR_MAP_SIZE)
        for position, (parameter, argument) in given
        if isinstance(argument, TensorMap) and parameter.size == 8
    ]


def map_in(memory: GlobalMemory, given: TensorMap, position: int) -> bytes:
    """Return the bytes of the tensor map at ``position``; a traced one may have no pointer. Raise ``ValueError``."""
    address = 0 if given.pointer is None else memory.address_of(given.pointer)
    return encoded(given, address, position)


def map_name(position: int) -> str:
    """Return the name of the variable that holds the tensor map of argument number ``position``."""
    return f"tensor map {position}"


def shared_origin(target: str) -> int:
    """Return the address at which a block's own shared memory begins on ``target``, such as ``sm_90``. Kernels that
    exchange two buffers by an exclusive or of addresses depend on it."""
    return RESERVED_SHARED if int("0" + "".join(filter(str.isdigit, target))) >= 90 else 0


def layout(
    variables: Iterable[Variable], known: Mapping[str, int], start: int = 0
) -> tuple[dict[str, tuple[int, int]], int]:
    """Return the offset and size of each shared (or local) variable, and the total bytes.

    ``known`` offsets from the machine code take precedence; the other variables follow in declaration order, aligned.
    """
    placed: dict[str, tuple[int, int]] = {}
    end = start
    rest: list[Variable] = []
    for variable in variables:
        if variable.name in known:
            placed[variable.name] = (known[variable.name], variable.size)
            end = max(end, known[variable.name] + variable.size)
        else:
            rest.append(variable)
    for variable in sorted(rest, key=lambda v: v.size == 0):  # extern (dynamic) shared memory is placed last
        end = -(-end // variable.align) * variable.align
        placed[variable.name] = (end, variable.size)
        end += variable.size
    return placed, end
