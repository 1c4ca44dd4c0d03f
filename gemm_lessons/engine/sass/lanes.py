"""The registers of all lanes of a batch of blocks, and the fetch of operands.

A register holds one value per lane, or one for all (shape (1,)); most indices of a GEMM loop stay uniform for long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from gemm_lessons.engine.compiler.sass import width_of
from gemm_lessons.engine.events import WARP
from gemm_lessons.engine.machine.special import (
    NAMES,
    PLACES,
    PLACES_90,
    PLACES_100,
    blocks_at,
    of_blocks,
    of_launch,
    of_threads,
)
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.launch import Grid
from gemm_lessons.engine.sass.flow import GENERIC, results
from gemm_lessons.engine.sass.operand_fetch import FALSE, HALF, TRUE, ZERO, Fetch, Sources, is_uniform
from gemm_lessons.engine.sass.operands import (
    Constant,
    Decoded,
    MachineImmediate,
    MachineRegister,
    Memory,
    Operand,
    Special,
    Uncountable,
    copy_condition,
)

SCALES = {"": 1, "U32": 1, "X4": 4, "X8": 8, "X16": 16}  # factors of an address register
UNKNOWN = -1  # key used instead of a bank's number
STACK_TOP = 1 << 20  # bytes of local memory below the stack pointer
# Upper halves of generic addresses of local and of shared memory; those of global memory are below both.
LOCAL_HIGH, SHARED_HIGH = 0x7FFF_E000, 0x7FFF_F000
SHARED_WINDOW = 1 << 24  # bytes of addresses for each block of a cluster


@dataclass(frozen=True)
class DriverConstants:
    """Byte offsets of what the driver writes into constant bank 0, below the parameters; source: ptxas's output.

    ``windows``: generic addresses of byte 0 of shared memory (below sm_90) and of local memory, and their upper halves.
    ``descriptors``: on which no address depends, as on the grid's barrier. ``parameters``: where machine code finds the
    address of its parameters, since sm_90.
    """

    places: Mapping[str, int]
    stack_pointer: int
    windows: tuple[tuple[int, int], ...]
    descriptors: tuple[tuple[int, int], ...]
    parameters: int

    @classmethod
    def of(cls, target: str) -> DriverConstants:
        """Return those of a compute capability."""
        if target.startswith(("sm_10", "sm_12")):
            return cls(PLACES_100, 0x37C, ((0x2F8, LOCAL_HIGH),), ((0x358, 0x360),), 0x348)
        places = {**PLACES, **PLACES_90} if target.startswith("sm_90") else PLACES
        descriptors = (0x44, 0x4C), (0x118, 0x120), (0x208, 0x210)
        return cls(places, 0x28, ((0x18, SHARED_HIGH), (0x20, LOCAL_HIGH)), descriptors, 0x198)


@dataclass(frozen=True)
class Geometry:
    """Blocks ``first`` to ``first + blocks`` of a grid, cluster by cluster, each padded to whole warps.

    ``chosen``: the places of other blocks, which are not neighbours.
    """

    grid: Grid
    first: int
    blocks: int
    by_warps: bool = False  # for the second opinion: the lane within a warp is ignored
    chosen: tuple[int, ...] = ()

    @property
    def padded(self) -> int:
        """Threads per block, rounded up to whole warps."""
        return -(-self.grid.threads // WARP) * WARP

    @property
    def lanes(self) -> int:
        """Return the number of lanes, with padding."""
        return self.blocks * self.padded

    def alive(self) -> Array:
        """Return which lanes are threads."""
        return np.tile(np.arange(self.padded) < self.grid.threads, self.blocks)

    def special(self, name: str) -> Array:
        """Return ``SR_TID.X`` and the like, uint32. Raise ``Uncountable`` for an unknown one."""
        known = NAMES.get(name, "")
        if name == "SR_SWINHI":
            return np.array([SHARED_HIGH], np.uint32)
        if name == "SRZ" or (known == "%cluster_ctarank" and self.grid.cluster is None):
            return ZERO
        by_thread = of_threads(np.arange(self.padded, dtype=np.int64), self.grid)
        if known in by_thread:
            return np.tile(by_thread[known], self.blocks)
        places = np.array(self.chosen or range(self.first, self.first + self.blocks))
        by_block = of_blocks(blocks_at(places, self.grid), self.grid)
        if known in by_block:
            values = by_block[known]
            return values if self.blocks == 1 else np.repeat(values, self.padded)
        raise Uncountable(f"special register {name}")


class Lanes:
    """Registers, constant banks, and the active lanes (``mask``; None: all lanes alive)."""

    def __init__(self, geometry: Geometry, constants: dict[int, bytes]) -> None:
        self.geometry = geometry
        self.constants = constants
        self.registers: dict[str, Array] = {}
        self.mask: Array | None = None
        self.alive: Callable[[], Array] = geometry.alive  # lanes that have not exited

    def present(self) -> Array:
        """Return the active lanes."""
        alive = self.alive()
        return alive if self.mask is None else alive & self.mask

    # -- reading ------------------------------------------------------------------------------------------------------

    def guard(self, d: Decoded) -> Fetch | None:
        """Fetch the guard of ``d``; None if it has none."""
        return None if d.guard is None else self.fetcher(d.guard)

    def reading(self, d: Decoded) -> Fetch | None:
        """Fetch whether a lane of the cp.async ``d`` reads, or writes zeros; None if all lanes read."""
        condition = copy_condition(d)
        return None if condition is None else self.fetcher(condition)

    def copied(self, d: Decoded) -> tuple[Fetch, Fetch | None]:
        """Fetch the source address of a cp.async, and how many of its last bytes are zeros instead (None: always 0).

        With ZFILL, that number is added to the address, whose bits below the width are otherwise 0.
        """
        source = next(operand for operand in reversed(d.operands) if isinstance(operand, Memory))
        address = self.address(source, "global")
        if not d.has("ZFILL"):
            return address, None
        below = np.array(width_of(d.source.opcode) - 1, np.int64)
        return lambda: address() & ~below, lambda: address() & below

    def sources(self, d: Decoded) -> Sources:
        """Return the source operands of ``d``, ready to be fetched."""
        return Sources.of(d, self, results(d)[1])

    def fetcher(self, operand: Operand) -> Fetch:
        """Fetch an operand as uint32 (negation is an integer's), or as bool for a predicate."""
        if isinstance(operand, MachineRegister):
            return self._signed(self._register(operand), operand)
        if isinstance(operand, MachineImmediate) and not operand.is_float:
            value = np.array([operand.bits], np.uint32)
            return lambda: value
        if isinstance(operand, Constant):
            return self._signed(self.constant(operand, 4), operand)
        return _unknown(operand)

    def term(self, operand: Operand) -> Fetch:
        """Like ``fetcher``, but a value equal for all lanes has no axis: NumPy then needs a third of the time."""
        fetch = self.fetcher(operand)
        if is_uniform(operand):

            def one() -> Array:
                value = fetch()
                return value.reshape(()) if value.size == 1 else value

            return one
        known = isinstance(operand, MachineImmediate) and not operand.is_float
        if isinstance(operand, Constant):
            known = operand.index is None and not (operand.absolute or operand.suffix)
        if not known:
            return fetch
        value = fetch().reshape(())
        return lambda: value

    def _register(self, register: MachineRegister) -> Fetch:
        registers, name = self.registers, register.shifted(0)
        if register.is_predicate:
            if not name:
                value = FALSE if register.negated else TRUE
                return lambda: value
            if register.negated:
                return lambda: ~registers.get(name, FALSE)
            return lambda: registers.get(name, FALSE)
        if not name:
            return lambda: ZERO
        if register.suffix not in ("", "64", "U32"):
            return _unknown(register)
        return lambda: registers.get(name, ZERO)

    @staticmethod
    def _signed(fetch: Fetch, operand: MachineRegister | Constant) -> Fetch:
        if isinstance(operand, MachineRegister) and operand.is_predicate:
            return fetch
        if operand.absolute:
            return _unknown(operand)
        if operand.inverted:
            return lambda: ~fetch()
        return (lambda: -fetch()) if operand.negated else fetch

    def pair(self, operand: Operand) -> Fetch:
        """Fetch an operand as uint64: two registers, or two words of a constant bank."""
        if isinstance(operand, MachineRegister) and not operand.is_predicate:
            if operand.number is None:
                return lambda: ZERO.astype(np.uint64)
            if operand.negated or operand.inverted or operand.absolute:
                return _unknown(operand)
            registers, low, high = self.registers, operand.shifted(0), operand.shifted(1)
            return lambda: (
                registers.get(low, ZERO).astype(np.uint64) | registers.get(high, ZERO).astype(np.uint64) << HALF
            )
        if isinstance(operand, MachineImmediate) and not operand.is_float:
            wide = np.array([operand.upper << 32 | operand.bits], np.uint64)
            return lambda: wide
        if isinstance(operand, Constant) and not (operand.negated or operand.absolute or operand.inverted):
            return self.constant(operand, 8)
        return _unknown(operand)

    def constant(self, operand: Constant, width: int) -> Fetch:
        """Fetch ``width`` bytes of a constant bank, as unsigned integers. Raise ``Uncountable`` for unknown ones."""
        if operand.suffix:
            return _unknown(operand)
        data = self.constants.get(operand.bank)
        if data is None:
            raise Uncountable(f"constant bank {operand.bank}")
        kind = np.dtype(f"u{width}")
        if operand.index is None:
            if operand.bank == 0 and any(self.constants.get(UNKNOWN, b"")[operand.offset : operand.offset + width]):
                raise Uncountable(f"constant bank 0 at {operand.offset:#x}")
            if operand.offset + width > len(data):
                raise Uncountable(f"constant bank {operand.bank} at {operand.offset:#x}")
            value = np.frombuffer(data, np.uint8)[operand.offset : operand.offset + width].copy().view(kind)
            return lambda: value
        index = self.fetcher(operand.index)
        padded = np.frombuffer(data.ljust(-(-len(data) // 8) * 8 + 8, b"\0"), np.uint8)

        def gather() -> Array:
            at = np.minimum(index().astype(np.int64) + operand.offset, len(data))
            return np.ascontiguousarray(padded[at[:, None] + np.arange(width)]).view(kind).reshape(-1)

        return gather

    def address(self, memory: Memory, space: str, *, ranked: bool = False) -> Fetch:
        """Fetch an address operand as int64.

        In global memory a lone register is the low half of 64 bits. In shared memory the upper bits name a block of the
        cluster: the own block, since accesses to others are generic. They are kept if ``ranked``.
        """
        terms: list[Fetch] = []
        wide = space in ("global", GENERIC)
        within = space == "shared" and self.geometry.grid.cluster and not ranked
        bits = SHARED_WINDOW - 1 if within else 0xFFFFFFFF
        for register in memory.registers:
            if register.number is None:
                continue
            if register.suffix == "64" or (wide and not register.suffix):
                pair = self.pair(register)
                terms.append(lambda pair=pair: pair().view(np.int64))  # type: ignore[misc]
            else:
                if register.suffix not in SCALES:
                    raise Uncountable(f"unknown address {memory}")
                bare = MachineRegister(register.file, register.number)
                word = self.term(bare) if terms else self.fetcher(bare)
                terms.append(_scaled(word, SCALES[register.suffix]))
        offset, low = np.array(memory.offset, np.int64), np.array(bits, np.int64)
        if not terms:
            whole = (offset if wide else offset & low).reshape(1)
            return lambda: whole
        first, *others = terms
        moved = memory.offset != 0

        def total() -> Array:
            result = first()
            for term in others:
                result = result + term()
            if moved:
                result = result + offset
            return result if wide else result & low

        return total

    def generic(self, memory: Memory) -> tuple[Fetch, Fetch, Fetch, Fetch | None]:
        """For a generic address: fetch which lanes access shared memory of their own block, which access global memory,
        their addresses in shared memory, and which access shared memory of other blocks of their cluster."""
        total = self.address(memory, GENERIC)
        if self.geometry.grid.cluster is None:
            return (
                lambda: total() >> 32 == SHARED_HIGH,
                lambda: total() >> 32 < LOCAL_HIGH,
                lambda: total() & 0xFFFFFFFF,
                None,
            )
        own = (SHARED_HIGH << 32) // SHARED_WINDOW + self.geometry.special("SR_CgaCtaId").astype(np.int64)
        return (
            lambda: total() // SHARED_WINDOW == own,
            lambda: total() >> 32 < LOCAL_HIGH,
            lambda: total() & SHARED_WINDOW - 1,
            lambda: (total() >> 32 == SHARED_HIGH) & (total() // SHARED_WINDOW != own),
        )

    # -- writing ------------------------------------------------------------------------------------------------------

    def active(self, guard: Fetch | None) -> tuple[bool, Array | None]:
        """Return (any, mask) of the active lanes whose guard holds. mask None: all lanes alive."""
        if guard is None:
            return True, self.mask
        truth = guard()
        if truth.size == 1:
            return truth.item(), self.mask  # also without an axis: from `term`, or its negation
        return True, truth if self.mask is None else truth & self.mask

    def write(self, name: str, value: Array, mask: Array | None) -> None:
        """Set a register for the lanes of ``mask`` (None: all lanes alive)."""
        if not name:
            return
        if mask is None:
            self.registers[name] = value
        else:
            old = self.registers.get(name, FALSE if value.dtype == np.bool_ else ZERO)
            if old.size == mask.size and old.dtype == value.dtype:
                joined = old.copy()
                np.copyto(joined, value, where=mask)
                self.registers[name] = joined
            else:
                self.registers[name] = np.where(mask, value, old)


def _scaled(word: Fetch, scale: int) -> Fetch:
    if scale == 1:
        return lambda: word().astype(np.int64)
    factor = np.array(scale, np.int64)
    return lambda: word().astype(np.int64) * factor


def _unknown(operand: Operand) -> Callable[[], Array]:
    def refuse() -> Array:
        raise Uncountable(f"unknown operand {operand.name if isinstance(operand, Special) else operand}")

    return refuse


def launch_constants(
    grid: Grid, parameter_offset: int, parameters: bytes, target: str, *, boxes_only: bool = False
) -> dict[int, bytes]:
    """Return constant bank 0 of a launch: its shape, the stack pointer and the parameters.

    Key ``UNKNOWN`` marks the bytes whose value is not known here. ``boxes_only``: the address of the parameters leads
    to tensor maps alone, so that any value will do.
    """
    bank = bytearray(parameter_offset + len(parameters) + 8)
    unknown = bytearray(b"\1" * parameter_offset)
    values = of_launch(grid, 0, target)
    driver = DriverConstants.of(target)
    stack = driver.stack_pointer
    for name, place in driver.places.items():
        bank[place : place + 4] = int(values[name]).to_bytes(4, "little")
        unknown[place : place + 4] = bytes(4)
    bank[stack : stack + 4] = STACK_TOP.to_bytes(4, "little")
    for window, high in driver.windows:
        bank[window : window + 8] = (high << 32).to_bytes(8, "little")
    for start, end in (*((it, it + 8) for it, _ in driver.windows), (stack, stack + 4), *driver.descriptors):
        if end <= parameter_offset:
            unknown[start:end] = bytes(end - start)
    if boxes_only:
        unknown[driver.parameters : driver.parameters + 8] = bytes(8)
    bank[parameter_offset : parameter_offset + len(parameters)] = parameters
    return {0: bytes(bank), UNKNOWN: bytes(unknown)}
