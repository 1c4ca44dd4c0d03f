"""Texture fetches over linear memory, in machine code: ``TLD.LZ R6, R4, R9, UR4, 0x0, 1D, 0x7``.

R9 is the texel index from 0; UR4 is the lower half of the texture object; 0x7 selects among four channels (all if
omitted). The first two selected go to R4 and R5, the others to R6 and R7. A fetch beyond the last texel returns zeros
and touches no memory. Machine code does not say where a texture is: ``Texels`` gives it for each object.

Before compute capability 9.0 the object is among the kernel's parameters, at word 0x58 of the constant bank in
``TLD.SCR.LZ R6, R4, R9, 0x0, 0x58, 1D, 0x7``, or is in a register: R11 in ``TLD.SCR.B.LZ R6, R4, R9, R11, 1D, 0x7``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

import numpy as np

from gemm_lessons.engine.costs.banks import LANES_OF_A_REQUEST
from gemm_lessons.engine.events import WARP
from gemm_lessons.engine.machine.images import HANDLES
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.launch import Argument, Texture
from gemm_lessons.engine.sass.operand_fetch import Fetch
from gemm_lessons.engine.sass.operands import (
    Constant,
    Decoded,
    MachineImmediate,
    MachineRegister,
    Operand,
    Special,
    Uncountable,
)

FETCHES = frozenset(("TLD",))
EVERY_CHANNEL = 0xF
WORD = 4  # bytes of a channel
LOW = 0xFFFFFFFF
APART = 44  # bits: distance of textures, each at a multiple of a line, as hardware demands


@dataclass(frozen=True)
class Texels:
    """A texture over linear memory: its first byte, number of texels, bytes per texel."""

    start: int
    count: int
    size: int


NOTHING = Texels(0, 0, 0)


def texels_of(arguments: Iterable[Argument]) -> dict[int, Texels]:
    """Return the supported textures of a launch, by the lower halves of their objects."""
    found = {}
    for position, argument in enumerate(arguments):
        if isinstance(argument, Texture) and argument.is_linear and argument.array.itemsize == WORD:
            size = WORD * argument.channels
            found[(HANDLES + position) & LOW] = Texels((position + 1) << APART, argument.array.nbytes // size, size)
    return found


def _operands(d: Decoded) -> tuple[MachineRegister, MachineRegister, Operand, int]:
    """Return the destinations, the texture object and the channel mask. Raise ``Uncountable`` for any other form."""
    handle: Operand | None = None
    where, others = d.operands[:3], d.operands[3:]
    match d.modifiers, others:
        case ("LZ",), (MachineRegister() as handle, MachineImmediate(bits=0), Special("1D"), *mask):
            pass
        case ("SCR", "B", "LZ"), (MachineRegister() as handle, Special("1D"), *mask):
            pass
        case ("SCR", "LZ"), (MachineImmediate(bits=0), MachineImmediate() as word, Special("1D"), *mask):
            handle = Constant(0, WORD * word.bits)
        case _:
            mask = []
    channels = mask[0] if len(mask) == 1 else MachineImmediate(EVERY_CHANNEL)
    plain = [it for it in (*where, handle) if isinstance(it, MachineRegister) and not (it.negated or it.suffix)]
    known = len(plain) == 3 + isinstance(handle, MachineRegister) and len(mask) < 2
    if handle is None or not known or not isinstance(channels, MachineImmediate):
        raise Uncountable(f"textures and surfaces are not followed: {d.text}")
    return plain[0], plain[1], handle, channels.bits


def fetched(d: Decoded) -> int:
    """Return the bytes that a fetch loads per lane."""
    return WORD * _operands(d)[3].bit_count()


def filled(d: Decoded) -> tuple[str, ...]:
    """Return the registers that a fetch writes."""
    rest, first, _, mask = _operands(d)
    wanted = mask.bit_count()
    names = [first.shifted(i) for i in range(min(wanted, 2))]
    return tuple(names + [rest.shifted(i) for i in range(wanted - 2)])


def addressed(
    d: Decoded, fetcher: Callable[[Operand], Fetch], active: Fetch, textures: Mapping[int, Texels]
) -> tuple[Fetch, Fetch]:
    """Fetch the addresses of a texture fetch, and which of them are inside.

    ``fetcher`` reads an operand, lane by lane. ``active``: the active lanes; registers of other lanes are meaningless.
    """
    _, _, which, _ = _operands(d)
    brings, coordinate, handle = fetched(d), fetcher(d.operands[2]), fetcher(which)

    def of_each(what: Callable[[Array, Texels], Array]) -> Array:
        x, objects, here = np.broadcast_arrays(coordinate().view(np.int32).astype(np.int64), handle(), active())
        found = np.zeros_like(what(x, NOTHING))
        for one in np.unique(objects[here]):
            texels = textures.get(int(one))
            if texels is None or texels.size != brings or brings not in LANES_OF_A_REQUEST:
                raise Uncountable(f"no texture over plain memory whose texels are what is fetched: {d.text}")
            found = np.where(objects == one, what(x, texels), found)
        return found

    addresses = partial(of_each, lambda x, texels: texels.start + x * texels.size)
    return addresses, partial(of_each, lambda x, texels: (x >= 0) & (x < texels.count))


def textures_of(addresses: Array, active: Array | None, padded: int) -> set[tuple[int, int]]:
    """Return the (warp of a block of ``padded`` lanes, texture) pairs of an access."""
    lanes = np.arange(addresses.size) if active is None else np.flatnonzero(active)
    warps = padded // WARP
    return {
        divmod(int(it), warps)[::-1] for it in np.unique((addresses[lanes] >> APART) * warps + lanes % padded // WARP)
    }
