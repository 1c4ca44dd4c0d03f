"""Memory instructions: bounds, alignment, gather and scatter, and the record of each access.

Addresses repeat. A shared load in a loop over K tiles has the same few address patterns in every iteration, and a
global load has the same pattern shifted by a constant. Bounds, alignment, the gather index and the observers' analysis
are therefore computed once per pattern and memoised; each execution only moves the data.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gemm_lessons.engine.events import Access, Effect, Placed, Space, Touch
from gemm_lessons.engine.machine.faults import AccessFaults
from gemm_lessons.engine.machine.memory import PARAMETERS, SHARED_WINDOW, WINDOW_SIZE, GlobalMemory, shared_origin
from gemm_lessons.engine.machine.state import Fault, State
from gemm_lessons.engine.ptx.cfg import line_of
from gemm_lessons.engine.ptx.provenance import provenance
from gemm_lessons.engine.ptx.records import SIZES, Address, Instruction, Kernel, Register, Symbol
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.errors import UnsupportedKernel
from gemm_lessons.engine.records.facts import Misuse
from gemm_lessons.engine.records.frozen import dataclass

IGNORED_MODIFIERS = frozenset(
    "weak volatile relaxed acquire release acq_rel sys gpu cta cluster ca cg cs lu cv wb wt nc mmio noftz".split()
)
MEMOISED_PATTERNS = 512  # per instruction; the oldest pattern is dropped first
LINE = 128  # bytes; touches of global memory keep addresses relative to a multiple of this


@dataclass(frozen=True)
class Layout:
    """Where variables are: shared and local offsets by name (offset, size), and the global memory."""

    kernel: Kernel
    memory: GlobalMemory
    shared: dict[str, tuple[int, int]]
    local: dict[str, tuple[int, int]]

    @property
    def shared_origin(self) -> int:
        """Return the address of offset 0 in ``shared``."""
        return shared_origin(self.kernel.target)

    def intended_array(self, instruction: Instruction) -> str | None:
        """Return the shared array of the address of ``instruction``, if the code shows it. For faults only."""
        return provenance(self.kernel, frozenset(self.shared)).get(instruction.index)

    def address(self, symbol: Symbol, instruction: Instruction) -> int:
        """Return the address of a variable in its own state space. Raise ``UnsupportedKernel`` for an unknown name."""
        if symbol.name in self.shared:
            return self.shared_origin + self.shared[symbol.name][0] + symbol.offset
        if symbol.name in self.local:
            return self.local[symbol.name][0] + symbol.offset
        if symbol.name in self.memory.symbols:
            return self.memory.symbols[symbol.name].base + symbol.offset
        for parameter in self.kernel.parameters:
            if parameter.name == symbol.name and PARAMETERS in self.memory.symbols:
                return self.memory.symbols[PARAMETERS].base + parameter.offset + symbol.offset
        raise UnsupportedKernel(f"unknown variable {symbol.name} in: {instruction.text}", line_of(instruction))


@dataclass(frozen=True)
class Form:
    """The parts of a memory opcode, ``ld.global.nc.v4.f32``: space ("" = generic), element type, elements per lane."""

    space: str
    kind: str
    elements: int

    @property
    def width(self) -> int:
        """Return the bytes per lane."""
        return SIZES[self.kind] * self.elements


def is_shared_or_local(instruction: Instruction) -> bool:
    """Return whether the instruction names shared or local memory."""
    return any(modifier.partition("__")[0] in ("shared", "local") for modifier in instruction.modifiers)


def reaches_cluster(instruction: Instruction) -> bool:
    """Return whether an instruction may access other blocks' shared memory: ``.shared::cluster``, or generic."""
    return not {"shared", "shared__cta"} & set(instruction.modifiers) or "shared__cluster" in instruction.modifiers


def form_of(instruction: Instruction) -> Form:
    """Return the form of a memory instruction. Raise ``UnsupportedKernel`` for an unknown modifier."""
    space, elements = "", 1
    *modifiers, kind = instruction.modifiers or ("",)
    for modifier in modifiers:
        if modifier.partition("__")[0] in ("global", "shared", "local", "const", "param"):
            space = modifier.partition("__")[0]
        elif modifier in ("v2", "v4", "v8"):
            elements = int(modifier[1:])
        elif modifier not in IGNORED_MODIFIERS and not modifier.startswith(("L1__", "L2__", "level")):
            raise UnsupportedKernel(f"unsupported PTX: {instruction.text}", line_of(instruction))
    if kind not in SIZES or kind == "b128":
        raise UnsupportedKernel(f"unsupported type in: {instruction.text}", line_of(instruction))
    return Form(space, kind, elements)


def access_of(instruction: Instruction, space: Space, effect: Effect, width: int, address: Address) -> Access:
    """Return the static record of a memory instruction, for events."""
    base = address.base.name if address.base is not None else ""
    source = instruction.source
    return Access(
        instruction.index, space, effect, width, line_of(instruction), source.file if source else "",
        instruction.text, base, address.offset, header=source.header if source else "",
    )  # fmt: skip


def touch_by(access: Access, addresses: Array, lanes: Array, total: int) -> Touch:
    """Return the touch of ``lanes`` (n,) of ``total`` at ``addresses`` (n,)."""
    full = np.zeros(total, np.int64)
    full[lanes] = addresses
    active = np.zeros(total, np.bool_)
    active[lanes] = True
    return Touch(access, full, active)


@dataclass
class _Placement:
    """The memoised result of one address pattern: the touch, the gather index and its lanes (None = all)."""

    touch: Touch
    index: Array
    lanes: Array | None


class SpaceAccess:
    """Resolves the addresses of one instruction in one space to gather indices in units of ``unit`` bytes."""

    def __init__(
        self,
        state: State,
        memory: GlobalMemory,
        instruction: Instruction,
        access: Access,
        unit: int,
        faults: AccessFaults,
    ) -> None:
        self.state = state
        self.memory = memory
        self.instruction = instruction
        self.access = access
        self.unit = unit
        self._unit_shift = unit.bit_length() - 1  # a power of two
        self.faults = faults
        self._reaches = reaches_cluster(instruction)
        self._shape = self._shape_lanes = b""  # of the last pattern: offsets from the first lane, lanes
        self._shape_index: Array = np.zeros(0, np.int64)
        self._shape_low = self._shape_high = 0
        self._touches: dict[int, Touch] = {}

    # -- shared and local: a window per block or per thread ------------------------------------------------------

    def window(self, addresses: Array, lanes: Array | None) -> _Placement:
        """Check ``addresses`` (int64) of ``lanes`` against the window and return their placement. Raise ``Fault``."""
        state, width = self.state, self.access.width
        shared = self.access.space == "shared"
        size = state.shared_bytes if shared else state.local_bytes
        given = addresses
        if shared:
            addresses, bad = state.in_shared(addresses, lanes, width, self._reaches)
            if np.count_nonzero(bad) and bool(((given >= SHARED_WINDOW) & (given < SHARED_WINDOW + WINDOW_SIZE)).all()):
                # A generic address in 64 bits: an address of shared memory is cut to 32 (PTX ISA 9.0, 6.4.1).
                given = given - SHARED_WINDOW
                addresses, bad = state.in_shared(given, lanes, width, self._reaches)
        else:
            bad = (addresses < 0) | (addresses > size - width)
        if np.count_nonzero(bad):
            raise self.faults.window(given, lanes, bad, size)
        if width > 1 and np.count_nonzero(addresses & (width - 1)):
            raise self.faults.misaligned(addresses, lanes)
        if shared:
            slots = state.lane_block if lanes is None else state.lane_block[lanes]
            flat = slots * state.shared_stride + addresses
        else:
            slots = state.lane_numbers(lanes)
            flat = slots * state.local_stride + addresses
        return _Placement(self._touch(addresses, lanes), flat // self.unit, lanes)

    def _touch(self, addresses: Array, lanes: Array | None) -> Touch:
        if lanes is None:
            return Touch(self.access, addresses, None)
        return touch_by(self.access, addresses, lanes, self.state.lanes)

    # -- global ---------------------------------------------------------------------------------------------------

    def place_global(self, addresses: Array, lanes: Array | None) -> tuple[Touch, Array]:
        """Check virtual ``addresses`` and record the touch. Return it and the arena index per lane. Raise ``Fault``."""
        first = addresses.item(0)
        shape = addresses - np.array(first)
        if not self._same_shape(shape, lanes):
            self._shape, self._shape_lanes = shape.tobytes(), b"" if lanes is None else lanes.tobytes()
            self._shape_low, self._shape_high = int(shape.min()), int(shape.max())
            self._shape_index = shape // self.unit
            self._touches = {}
        phase = first % LINE
        touch = self._touches.get(phase)
        if touch is None:
            if self.access.width > 1 and ((shape + phase) & (self.access.width - 1)).any():
                raise self.faults.misaligned(addresses, lanes)
            touch = self._touches[phase] = self._touch(shape + phase, lanes)
        allocation = self.memory.find(first)
        met = [] if allocation is None else [allocation]
        if (
            allocation is None
            or first + self._shape_low < allocation.base
            or first + self._shape_high + self.access.width > allocation.base + allocation.size
        ):
            offsets, inside = self.memory.offsets(addresses, self.access.width)
            if not inside.all():
                raise self.faults.buffer(addresses, lanes, ~inside)
            index, tracked = offsets // self.unit, True
            met = self.memory.touched(addresses)
        elif allocation.pages is not None:
            places = allocation.pages.offsets(addresses - allocation.base, self.memory.arena)
            index, tracked = places >> self._unit_shift, allocation.tracked
        else:
            # Exact, because the alignment check passed: `first` and the shape are multiples of the unit.
            index = self._shape_index + np.array((first - allocation.base + allocation.offset) // self.unit)
            tracked = allocation.tracked
        writing = self.access.effect in ("store", "atomic")
        for one in met:
            if self.access.space == "const" and not one.constant:
                raise self.faults.no_constant(addresses, lanes, one)
            if writing:
                if one.constant:
                    raise Fault("illegal_access", "constant store", self.instruction, facts=Misuse(name=one.name))
                one.tracked = True
        self.state.trace.append(touch)
        if self.state.counting:
            touch.bases.append(first - phase)
        if tracked or writing or self.state.placed:
            self.state.trace.append(Placed(touch, first - phase))
        return touch, index

    def _same_shape(self, shape: Array, lanes: Array | None) -> bool:
        return shape.tobytes() == self._shape and (b"" if lanes is None else lanes.tobytes()) == self._shape_lanes


def memoise_placement(
    state: State, address: Address, compute: Callable[[Array | None], Array], space: SpaceAccess
) -> Callable[[Array | None], _Placement]:
    """Memoise ``space.window``: a known pattern costs a look-up, or nothing if its base register is unchanged."""
    base = address.base.name if isinstance(address.base, Register) else None
    row = state.lanes_of(base) if base is not None else None
    known: dict[bytes, _Placement] = {}
    last: _Placement | None = None
    last_version = -1
    versions = state.versions

    def recall(lanes: Array | None) -> _Placement:
        nonlocal last, last_version
        version = versions[base] if base is not None else 0
        if lanes is None and last is not None and version == last_version:
            return last
        key = row.tobytes() if row is not None else b""
        if lanes is not None:
            key += lanes.tobytes()
        placement = known.get(key)
        if placement is None:
            placement = space.window(compute(lanes), lanes)
            if len(known) >= MEMOISED_PATTERNS:
                del known[next(iter(known))]
            known[key] = placement
        if lanes is None:
            last, last_version = placement, version
        return placement

    return recall
