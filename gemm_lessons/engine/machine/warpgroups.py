"""``wgmma``: four warps multiply two tiles, of which shared memory holds one or both, and add the product to registers.

    wgmma.fence         orders registers before the products; without effect on values
    wgmma.mma_async     D += A B: D in registers, B in shared memory, A in either
    wgmma.commit_group  the products since the last commit are one group
    wgmma.wait_group N  only the N newest groups may still run

The product is computed when it is issued. The checkers find from the trace (``events.Bulk``, ``BulkGroup``) accesses to
its tiles while it may be in flight. A descriptor gives the layout of a tile (64 bits; bytes are in units of 16):

    bits 0-13 start   16-29 leading offset   32-45 stride   49-51 base offset   62-63 swizzle: none, 128, 64, 32 bytes

A tile consists of atoms of 8 rows (of 8 k, if transposed) of one swizzle width each; without swizzle, of 16 bytes. If
a row holds k, the stride leads to the next 8 rows, and, without swizzle, the leading offset to the next 16 bytes of a
row. If the tile is transposed and has a swizzle, the stride leads to the next 8 of k, the leading offset to the next
atom of rows; without a swizzle, the reverse. The swizzle exchanges chunks of 16 bytes by bits of their address.
Source: NVIDIA, "PTX ISA" 9.0, 9.7.15, and the answers of an H200 (checks/readings/simulator/wgmma.json).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from gemm_lessons.engine.events import WARP, BulkGroup, ReadTile, TilesRead
from gemm_lessons.engine.machine.access import access_of
from gemm_lessons.engine.machine.bulk import BulkSide
from gemm_lessons.engine.machine.matrices import whole_warps
from gemm_lessons.engine.machine.product_tally import FLOAT_SUMS
from gemm_lessons.engine.machine.transfers import Binding
from gemm_lessons.engine.ptx.cfg import line_of, unsupported
from gemm_lessons.engine.ptx.fragments import fragment_of
from gemm_lessons.engine.ptx.records import Address, Immediate, Instruction, Register, Vector, elements_of
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.errors import UnsupportedKernel
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.semantics.matrix_products import STORED, multiply_async, negated

ROWS, WARPS = 64, 4  # of a warpgroup's product; of a warpgroup
QUARTER = ROWS // WARPS  # rows of a warp
CHUNK, K_BYTES, ATOM = 16, 32, 8  # bytes; bytes of a row that one product reads; rows of an atom
SWIZZLE = (16, 128, 64, 32)  # bytes, by the two highest bits of a descriptor; 16: none
UNITS = 0x3FFF  # mask of a descriptor's fields
TYPES = {
    ("f32", "f16", "f16"), ("f16", "f16", "f16"), ("f32", "bf16", "bf16"), ("f32", "tf32", "tf32"),
    *((d, a, b) for d in ("f32", "f16") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")),
    *(("s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8")),
}  # fmt: skip
TRANSPOSABLE = ("f16", "bf16")


@dataclass(frozen=True)
class AsyncProduct:
    """The parts of ``wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16`` and its immediate operands."""

    n: int
    k: int
    types: tuple[str, str, str]  # of D, of A, of B
    saturate: bool
    negated: tuple[bool, bool]
    transposed: tuple[bool, bool]  # A, B

    @property
    def size(self) -> int:
        """Return the bytes of an element of A or B."""
        return K_BYTES // self.k


def form_of(instruction: Instruction) -> AsyncProduct:
    """Return the form of a ``wgmma.mma_async``. Raise ``UnsupportedKernel``."""
    words = list(instruction.modifiers)
    saturate = words[-1] == "satfinite"
    words = words[: -1 if saturate else None]
    found = re.fullmatch(r"m64n(\d+)k(\d+)", words[3]) if len(words) == 7 else None
    if found is None or words[:3] != ["mma_async", "sync", "aligned"]:
        raise unsupported(instruction)
    n, k, types = int(found[1]), int(found[2]), (words[4], words[5], words[6])
    if types not in TYPES or k * _size(types[1]) != K_BYTES or (saturate and types[0] != "s32"):
        raise unsupported(instruction)
    allowed = range(8, 257, 8) if types[0] != "s32" else (8, 16, 24, *range(32, 257, 16))
    if n not in allowed:
        raise unsupported(instruction)
    first = instruction.operands[1]
    in_registers = isinstance(first, Vector)
    numbers = [operand.value for operand in instruction.operands[4:] if isinstance(operand, Immediate)]
    signs = 0 if types[0] == "s32" else 2
    transposes = 0 if types[1] not in TRANSPOSABLE else 1 if in_registers else 2
    if len(instruction.operands) != 4 + signs + transposes or len(numbers) != signs + transposes:
        raise unsupported(instruction)
    low = [number & 0xFFFFFFFF for number in numbers[:signs]]
    if not set(low) <= {1, 0xFFFFFFFF} or not set(numbers[signs:]) <= {0, 1}:
        raise unsupported(instruction)
    transposed = [False] * (2 - transposes) + [number == 1 for number in numbers[signs:]]
    minus = [it != 1 for it in low] or [False, False]
    return AsyncProduct(n, k, types, saturate, (minus[0], minus[1]), (transposed[0], transposed[1]))


def _size(kind: str) -> int:
    return int(np.dtype(STORED[kind]).itemsize)


def bind_warpgroup(binding: Binding) -> Callable[[], None]:
    """Bind any ``wgmma``. Raise ``UnsupportedKernel``."""
    instruction = binding.instruction
    what = instruction.modifiers[0] if instruction.modifiers else ""
    if what == "mma_async" and "sp" not in instruction.modifiers:
        return _bind_product(binding)
    if what not in ("fence", "commit_group", "wait_group") or instruction.modifiers[1:] != ("sync", "aligned"):
        raise unsupported(instruction)
    present = whole_warps(binding.state, instruction, binding.guard, "matrices")
    if what == "fence":
        return present
    return _bind_group(binding, what == "commit_group", present)


def _bind_group(binding: Binding, commit: bool, present: Callable[[], Any]) -> Callable[[], None]:
    state, instruction = binding.state, binding.instruction
    line, pending = line_of(instruction), 0
    if not commit:
        number = instruction.operands[0] if instruction.operands else None
        if not isinstance(number, Immediate):
            raise unsupported(instruction)
        pending = number.value

    def run() -> None:
        warps = present()
        if warps is not None:
            lanes = None
            if not isinstance(warps, slice):
                lanes = np.repeat(warps, WARP)
            state.trace.append(BulkGroup("commit" if commit else "wait", pending, lanes, line, products=True))

    return run


class _Tile:
    """A factor in shared memory: its elements, and the records of their reads."""

    def __init__(self, binding: Binding, form: AsyncProduct, number: int) -> None:
        self._state, self._instruction = binding.state, binding.instruction
        operand = binding.instruction.operands[1 + number]
        if not isinstance(operand, Register):
            raise unsupported(binding.instruction)
        self._value = np.broadcast_to(binding.value(operand, "u64"), (binding.state.lanes,))
        self._kind = STORED[form.types[1 + number]]
        self._rows = (ROWS, form.n)[number]
        self._k, self._size = form.k, form.size
        self._transposed = form.transposed[number]

    def descriptors(self, warps: Array) -> Array:
        """Return the descriptor of each warp: that of its first lane."""
        return np.asarray(self._value.reshape(-1, WARP)[warps, 0])

    def read(self, descriptors: Array) -> ReadTile:
        """Return the record of a read by these descriptors."""
        return ReadTile(descriptors, self._rows, self._k, self._size, self._transposed)

    def places(self, descriptors: Array) -> Array:
        """Return the address of each chunk of each group's tile, (group, chunk)."""
        places = np.empty((len(descriptors), self._rows * K_BYTES // CHUNK), np.int64)
        layouts = descriptors >> np.uint64(CHUNK)
        for layout in dict.fromkeys(layouts.tolist()):
            here = layouts == layout
            if layout >> 33 & 7:
                raise UnsupportedKernel(
                    f"a descriptor with a base offset: {self._instruction.text}", line_of(self._instruction)
                )
            start = (descriptors[here] & np.uint64(UNITS)).astype(np.int64) * CHUNK
            places[here] = chunk_places(start, layout, self._rows, self._k, self._size, self._transposed)
        return places

    def elements(self, groups: Array, places: Array) -> Array:
        """Return (group, row, k) as stored. ``groups``: lanes (group, 32 or 128); ``places``: (group, chunk)."""
        state, count = self._state, len(groups)
        flat = state.lane_block[groups[:, :1]] * state.shared_stride + places - state.shared_origin
        chunks = state.shared.view(np.uint64).reshape(-1, CHUNK // 8)[flat // CHUNK].view(self._kind)
        if not self._transposed:
            return np.asarray(chunks.reshape(count, self._rows, self._k))
        by_k = chunks.reshape(count, -1, self._k, CHUNK // self._size)  # (group, 8 rows, k, row)
        return np.ascontiguousarray(by_k.swapaxes(2, 3)).reshape(count, self._rows, self._k)


def _trace_reads(binding: Binding, side: BulkSide, groups: Array, tiles: Sequence[Array]) -> None:
    """Record that products read tiles, (group, chunk) each, a chunk by a lane of the warp after the one that most
    likely wrote the chunk. Raise ``Fault``. ``groups``: lanes (group, 32 or 128)."""
    state, lanes = binding.state, np.roll(groups, -WARP, axis=1)
    reading, offsets = [], []
    for places in tiles:
        by = lanes[:, np.arange(places.shape[1]) % lanes.shape[1]]
        flat = by.reshape(-1)
        found = side.offsets(places.reshape(-1) + state.rank_bits[flat], flat, CHUNK)
        reading.append(by)
        offsets.append(found.reshape(places.shape))
    side.read_chunks(np.concatenate(offsets, axis=1).reshape(-1), np.concatenate(reading, axis=1).reshape(-1))


def chunk_places(start: Array, layout: int, rows: int, k: int, size: int, transposed: bool) -> Array:
    """Return the address of each 16-byte chunk of tiles at ``start`` (n,), (n, chunks), as ``_chunks`` orders them."""
    offsets, mask = _chunks(layout, rows, k, size, transposed)
    address = start[:, None] + offsets
    return np.asarray(address ^ (address >> 7 & mask) * CHUNK)


@cache
def _chunks(layout: int, rows: int, k: int, size: int, transposed: bool) -> tuple[Array, int]:
    """Return the offset of each chunk of 16 bytes from the start, before the swizzle, and the mask of the swizzle.
    ``layout``: a descriptor without its 16 lowest bits. Chunks are in the order of rows, or of 8 rows and k."""
    leading, stride = (layout & UNITS) * CHUNK, (layout >> 16 & UNITS) * CHUNK
    width = SWIZZLE[layout >> 46]
    if not transposed:
        row, chunk = np.arange(rows)[:, None], np.arange(K_BYTES // CHUNK)[None]
        along = chunk * (leading if width == CHUNK else CHUNK)
        offsets = row % ATOM * width + row // ATOM * stride + along
    else:
        chunk, depth = np.arange(rows * size // CHUNK)[:, None], np.arange(k)[None]
        per_atom = width // CHUNK
        strip, step = (stride, leading) if width == CHUNK else (leading, stride)
        offsets = chunk % per_atom * CHUNK + chunk // per_atom * strip + depth % ATOM * width + depth // ATOM * step
    return offsets.reshape(-1), width // CHUNK - 1


def _bind_product(binding: Binding) -> Callable[[], None]:
    state, instruction, guard, value = binding.state, binding.instruction, binding.guard, binding.value
    form = form_of(instruction)
    target, first = instruction.operands[:2]
    rows = np.array([_row(binding, element) for element in elements_of(target)])
    file = state.files[32].view(np.uint32).reshape(len(state.files[32]), -1, WARP)
    stored = STORED[form.types[0]]
    sums = fragment_of("c", QUARTER, form.n, 8 * _size(form.types[0]))
    if len(rows) != sums.registers:
        raise unsupported(instruction)
    right = _Tile(binding, form, 1)
    left = None if isinstance(first, Vector) else _Tile(binding, form, 0)
    fragment = fragment_of("a", QUARTER, form.k, 8 * form.size)
    held = [np.broadcast_to(value(it, "b32"), (state.lanes,)).reshape(-1, WARP) for it in elements_of(first)]
    if left is None and len(held) != fragment.registers:
        raise unsupported(instruction)
    adds = np.broadcast_to(value(instruction.operands[3], "pred"), (state.lanes,)).reshape(-1, WARP)
    present = whole_warps(state, instruction, guard, "matrices")
    every = np.arange(state.lanes // WARP)
    tally = state.tally if form.types[0] in FLOAT_SUMS else None
    access = access_of(instruction, "shared", "load", CHUNK, Address(None))
    side = BulkSide(binding, "shared", "load", is_product=True)

    def product(warps: Array, before: Array) -> Array:
        whole = _together(warps, state.padded // WARP, [tile for tile in (left, right) if tile is not None])
        height = ROWS if whole else QUARTER
        heads = warps[:: WARPS if whole else 1]
        lanes = (warps[:, None] * WARP + np.arange(WARP)).reshape(len(heads), -1)
        if state.tiles:
            tiles = (None if left is None else left.read(left.descriptors(heads)), right.read(right.descriptors(heads)))
            state.trace.append(TilesRead(access, lanes[:, 0], tiles, state.shared_origin))
        right_places = right.places(right.descriptors(heads))
        left_places = None if left is None else left.places(left.descriptors(heads))
        _trace_reads(binding, side, lanes, [it for it in (right_places, left_places) if it is not None])
        b = right.elements(lanes, right_places).swapaxes(1, 2)
        if left is None or left_places is None:
            a = fragment.matrix(np.stack([register[warps] for register in held], axis=1), STORED[form.types[1]])
        else:
            a = left.elements(lanes, left_places)
            if not whole:
                rank = warps % (state.padded // WARP) % WARPS
                a = a.reshape(len(heads), WARPS, QUARTER, form.k)[np.arange(len(heads)), rank]
        a = negated(form.types[1], a, form.negated[0]).reshape(len(heads), height, form.k)
        b = negated(form.types[2], b, form.negated[1])
        with np.errstate(all="ignore"):
            return multiply_async(
                form.types, a, b, before.reshape(len(heads), height, form.n), saturate=form.saturate
            ).reshape(before.shape)

    def run() -> None:
        executing = present()
        if executing is None:
            return
        warps = every[executing]
        held_sums = np.ascontiguousarray(file[rows[:, None], warps].swapaxes(0, 1))
        held_sums[~adds[warps, 0]] = 0
        if tally:
            after = tally.add(held_sums.view(stored), form.k).view(held_sums.dtype)
        else:
            after = sums.spread(product(warps, sums.matrix(held_sums, stored)))
        file[rows[:, None], warps] = after.swapaxes(0, 1)

    return run


def _row(binding: Binding, element: Any) -> int:
    """Return the row of a register in the file of 32-bit registers."""
    width, row = binding.state.rows.get(element.name, (0, 0)) if isinstance(element, Register) else (0, 0)
    if width != 32:
        raise unsupported(binding.instruction)
    return row


def _together(warps: Array, per_block: int, tiles: list[_Tile]) -> bool:
    """Return whether the warps are whole warpgroups that name the same tiles, as they should."""
    rank = warps % per_block
    if len(warps) % WARPS or (rank[::WARPS] % WARPS).any():
        return False
    if any((np.diff(it.reshape(-1, WARPS), axis=1) != 1).any() for it in (warps, rank)):
        return False
    named = (tile.descriptors(warps).reshape(-1, WARPS) for tile in tiles)
    return all(bool((it == it[:, :1]).all()) for it in named)
