"""Finds whether a kernel uses the addresses of its buffers for more than accesses.

An address plus an offset is an address. The difference of two addresses is not, nor are the low bits that all
allocations have in common.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from gemm_lessons.engine.ptx.cfg import reads, writes
from gemm_lessons.engine.ptx.records import (
    Address,
    Immediate,
    Instruction,
    Kernel,
    Register,
    Symbol,
    Variable,
    Vector,
    registers_in,
)
from gemm_lessons.engine.records.frozen import dataclass

COMMON = 256  # bytes: every allocation begins at a multiple
MOVES = ("mov", "cvta", "add", "sub", "mad", "selp")  # an address and an offset give an address
Kind = Literal["addresses", "values", "differences"]
COPIES = ("used", "untracked", "ignored")  # of ``Opcode.undefined``: a result comes from memory, if there is one


@dataclass(frozen=True)
class AddressUses:
    """``compared``: an instruction (index) that compares an address with a number other than 0, or None. ``matters``:
    an address may decide a branch or reach memory."""

    compared: int | None
    matters: bool


def address_uses(kernel: Kernel, variables: Sequence[Variable]) -> AddressUses:
    """Return how a kernel uses the addresses that its parameters, its variables and its module's ``variables`` give."""
    every = (*kernel.variables, *variables)
    inside = frozenset(it.name for it in every if it.space in ("shared", "local"))  # of a block or thread, not a buffer
    given = _given(kernel, inside)
    plain = _holders(kernel, given, frozenset(), "addresses")
    held, derived = _holders(kernel, given, plain, "values"), _holders(kernel, given, plain, "differences")
    compared, matters = None, False
    for instruction in kernel.instructions:
        how, found = instruction.row.undefined, reads(instruction) & derived
        if not found:
            continue
        accessed = set(_accessed(instruction))
        if how == "compared":
            matters = True
            if compared is None and _with_number(instruction, held):
                compared = instruction.index
        elif how in ("chosen", "shuffled", "voted", "multiplied", "untracked") or (how == "used" and found - accessed):
            matters = True
    return AddressUses(compared, matters)


def _accessed(instruction: Instruction) -> Iterator[str]:
    """Yield the registers that hold the addresses an instruction accesses. Those of tensor maps and the handles of
    textures are included; they precede the coordinates."""
    for operand in instruction.operands:
        if isinstance(operand, Address):
            yield from registers_in(operand)
    if instruction.row.effect == "image" or "tensor" in instruction.modifiers:
        for place in [it for it in instruction.operands[instruction.row.writes :] if isinstance(it, Vector)][:1]:
            yield from registers_in(place.elements[0])


def _given(kernel: Kernel, inside: frozenset[str]) -> frozenset[str]:
    """Return the registers that get the address of a buffer or a variable, but not of those ``inside``."""
    pointers = {parameter.name for parameter in kernel.parameters if parameter.size == 8}
    held: set[str] = set()
    for instruction in kernel.instructions:
        if instruction.opcode == "ld" and "param" in instruction.modifiers:
            gives = not pointers.isdisjoint(_named(instruction))
        else:
            gives = instruction.opcode in ("mov", "cvta") and not inside.issuperset(_named(instruction))
        if gives:
            held |= writes(instruction)
    return frozenset(held)


def _holders(kernel: Kernel, given: frozenset[str], plain: frozenset[str], which: Kind) -> frozenset[str]:
    """Return the registers that may hold an address of global memory. With "values", also those of values computed from
    an address; with "differences", also those of the difference of two. ``given``: the registers to begin with;
    ``plain``: those that hold addresses."""
    held = set(given)
    others = [it for it in kernel.instructions if it.row.undefined not in COPIES]
    growing = bool(held)
    while growing:
        before = len(held)
        rest = []
        for instruction in others:
            if _gives(instruction, held, plain, which):
                held |= writes(instruction)
            else:
                rest.append(instruction)
        others = rest
        growing = len(held) > before
    return frozenset(held)


def _named(instruction: Instruction) -> Iterator[str]:
    """Yield the variables and parameters that an instruction names."""
    for operand in instruction.operands[1:]:
        base = operand.base if isinstance(operand, Address) else operand
        if isinstance(base, Symbol):
            yield base.name


def _gives(instruction: Instruction, held: set[str], plain: frozenset[str], which: Kind) -> bool:
    if held.isdisjoint(reads(instruction)) or instruction.row.undefined == "compared":
        return False
    sources = instruction.operands[1:]
    if instruction.opcode == "sub" and which != "differences":
        names = [it.name if isinstance(it, Register) else "" for it in sources]
        return names[1] not in held if which == "addresses" else not all(name in plain for name in names)
    if which == "addresses":
        return instruction.opcode in MOVES
    if instruction.opcode == "and":
        return not any(isinstance(it, Immediate) and 0 <= it.value < COMMON for it in sources)
    return True


def _with_number(instruction: Instruction, held: frozenset[str]) -> bool:
    """Return whether an address is compared with a value that is neither an address nor 0."""
    sides = instruction.operands[1:3]
    addresses = [isinstance(it, Register) and it.name in held for it in sides]
    zero = any(isinstance(it, Immediate) and it.value == 0 for it in sides)
    return any(addresses) and not all(addresses) and not zero
