"""Which bits of a result are undefined when some bits of its sources are: one rule per kind of instruction.

A rule takes each source as a value and a mask of its undefined bits, and returns the masks of the results. A result bit
computed from defined bits alone is defined (``false && unset`` is false, ``unset & 0xff00`` has a defined low byte).
Where an exact answer would be expensive, rules are conservative: they mark more bits as undefined, never fewer. The
method is that of memory checkers for machine code (J. Seward, N. Nethercote: "Using Valgrind to detect undefined value
errors with bit-precision", 2005).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gemm_lessons.engine.ptx.records import Instruction
from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.semantics import table as semantics
from gemm_lessons.engine.semantics.operation import DTYPES, Operation


class Source(NamedTuple):
    """One operand of all lanes: its value as the instruction reads it, and a mask of its undefined bits (bool for a
    predicate, else unsigned and as wide as the value)."""

    value: Any
    undefined: Array


Rule = Callable[[Sequence[Source]], Sequence[Array]]


def rule_of(instruction: Instruction, operation: Operation) -> Rule:
    """Return the rule for an instruction from the table of ``semantics``."""
    row = instruction.row
    whole = all(code[0] in "usb" and code[1:].isdigit() for code in (*operation.result, *operation.sources))
    logical = set(operation.result) | set(operation.sources) == {"pred"} or whole
    if row.undefined == "moved" and whole and "sat" not in instruction.modifiers:
        return _moves(operation, row.moved)
    if row.undefined == "bitwise" and logical:
        return _bitwise(row.name)
    if row.undefined == "compared":
        return _comparison(instruction, operation)
    if row.undefined == "chosen":
        return _selection
    if row.undefined == "upwards" and whole and not {"hi", "sat", "cc"} & set(instruction.modifiers):
        return _product(operation) if row.name in ("mul", "mad") else _upwards(operation)
    if len(operation.result) == 1 and operation.result[0].endswith("x2"):
        return _halves
    return _any_source(operation)


def unsigned(array: Any) -> Any:
    """Return the raw bits of values; predicates stay bool."""
    array = np.asarray(array)
    return array if array.dtype == np.bool_ else array.view(f"u{array.dtype.itemsize}")


def any_undefined(sources: Sequence[Source]) -> Array:
    """Return the lanes in which any bit of any source is undefined."""
    result: Any = np.False_
    for source in sources:
        result = result | (source.undefined != 0)
    return np.asarray(result)


def spread(lanes: Array, code: str) -> Array:
    """Return a mask with all bits of a result of type ``code`` in ``lanes``, and none elsewhere."""
    if code == "pred":
        return lanes
    dtype = np.dtype(f"u{np.dtype(DTYPES[code]).itemsize}")
    return np.where(lanes, np.array(np.iinfo(dtype).max, dtype), np.array(0, dtype))


def _any_source(operation: Operation) -> Rule:
    def rule(sources: Sequence[Source]) -> Sequence[Array]:
        return [spread(any_undefined(sources), code) for code in operation.result]

    return rule


def _halves(sources: Sequence[Source]) -> Sequence[Array]:
    """Return the mask for packed pairs: each half depends on that half of 32-bit sources, and all of narrower ones."""
    result: Any = np.uint32(0)
    for source in sources:
        if source.undefined.dtype.itemsize == 4:
            for half in (0xFFFF, 0xFFFF0000):
                result = result | np.where(source.undefined & np.uint32(half), np.uint32(half), np.uint32(0))
        else:
            result = result | spread(source.undefined != 0, "b32")
    return [result]


def _moves(operation: Operation, moved: Sequence[int]) -> Rule:
    """Return the rule of instructions that move bits, undefined ones too. Sign extension copies the top bit."""
    code = operation.result[0]

    def rule(sources: Sequence[Source]) -> Sequence[Array]:
        lanes = max((np.size(s.undefined) for s in sources), default=1)
        result = np.zeros(lanes, DTYPES[code])
        masks = [
            np.broadcast_to(source.undefined, (lanes,)).view(DTYPES[kind]) if place in moved else source.value
            for place, (source, kind) in enumerate(zip(sources, operation.sources, strict=True))
        ]
        operation.function(result, *masks)
        how = [source for place, source in enumerate(sources) if place not in moved]
        return [unsigned(result) | spread(any_undefined(how), code)]

    return rule


def _upwards(operation: Operation) -> Rule:
    """Return the rule for sums: all bits from the lowest undefined bit up, as carries only move up."""
    dtype = np.dtype(f"u{np.dtype(DTYPES[operation.result[0]]).itemsize}")

    def rule(sources: Sequence[Source]) -> Sequence[Array]:
        result = np.zeros(1, dtype)
        for source in sources:
            result = result | source.undefined.astype(dtype)
        return [_and_above(result)]

    return rule


def _and_above(mask: Any) -> Any:
    """Return a mask with all bits from the lowest one up."""
    return mask | (np.zeros(1, mask.dtype) - mask)


def _product(operation: Operation) -> Rule:
    """Return the rule for products: the other factor moves undefined bits up by its trailing zeros. If it is no power
    of two, or the product is added to another number, all bits above the lowest of these become undefined, too."""
    dtype = np.dtype(DTYPES[operation.result[0]])
    bits, number = f"u{dtype.itemsize}", f"i{dtype.itemsize}"
    signed = operation.sources[0][0] == "s"

    def rule(sources: Sequence[Source]) -> Sequence[Array]:
        result: Any = np.zeros(1, bits)
        for one, other in (sources[:2], sources[1::-1]):
            mask = one.undefined.view(f"i{one.undefined.dtype.itemsize}") if signed else one.undefined
            factor = np.where(other.undefined == 0, np.asarray(other.value).astype(number), -1).view(bits)
            power = factor & (np.zeros(1, bits) - factor)
            moved = mask.astype(number).view(bits) * power
            result = result | np.where(factor == power, moved, _and_above(moved))
        if len(sources) > 2:
            result = _and_above(result | sources[2].undefined.astype(bits))
        return [result]

    return rule


def _possible_values(source: Source) -> tuple[Array, Array]:
    """Return the bits that may be 0 and the bits that may be 1."""
    value = unsigned(source.value)
    return np.invert(value) | source.undefined, value | source.undefined


def _bitwise(opcode: str) -> Rule:
    """Return the rule for bitwise logic: a bit is undefined if it may be 0 as well as 1."""

    def rule(sources: Sequence[Source]) -> Sequence[Array]:
        zero, one = _possible_values(sources[0])
        if opcode == "not":
            return [zero & one]
        if opcode == "lop3":
            return [_table(sources[:3], int(np.ravel(sources[3].value)[0]))]
        other_zero, other_one = _possible_values(sources[1])
        if opcode == "and":
            return [(zero | other_zero) & (one & other_one)]
        if opcode == "or":
            return [(zero & other_zero) & (one | other_one)]
        return [sources[0].undefined | sources[1].undefined]

    return rule


def _table(sources: Sequence[Source], code: int) -> Array:
    """Return the mask for ``lop3``: bit 4a + 2b + c of ``code`` is the result for bits a, b, c."""
    can = [_possible_values(source) for source in sources]
    results: list[Any] = [np.uint32(0), np.uint32(0)]
    for term in range(8):
        possible = can[0][term >> 2] & can[1][term >> 1 & 1] & can[2][term & 1]
        results[code >> term & 1] = results[code >> term & 1] | possible
    return np.asarray(results[0] & results[1])


def _selection(sources: Sequence[Source]) -> Sequence[Array]:
    """Return the mask for ``selp``. An undefined choice makes the bits undefined in which the two sources differ."""
    first, second, choice = sources
    open_bits = first.undefined | second.undefined | (unsigned(first.value) ^ unsigned(second.value))
    chosen = np.where(choice.value, first.undefined, second.undefined)
    return [np.where(choice.undefined, open_bits, chosen)]


def _comparison(instruction: Instruction, operation: Operation) -> Rule:
    """Return the rule for ``setp``, also combined with a predicate that may decide alone."""
    combine = next((word for word in ("and", "or", "xor") if word in instruction.modifiers[1:]), None)
    plain = semantics.lookup("setp", tuple(m for m in instruction.modifiers if m != combine))
    equality = instruction.modifiers[0] in ("eq", "ne") and operation.sources[0][0] in "usb"
    if plain is None:  # packed operands: two comparisons, two results
        return _any_source(operation)

    def rule(sources: Sequence[Source]) -> Sequence[Array]:
        a, b = sources[:2]
        unknown = any_undefined((a, b))
        if equality:  # a difference in a defined bit decides
            both = np.invert(a.undefined | b.undefined)
            unknown = unknown & ((unsigned(a.value) ^ unsigned(b.value)) & both == 0)
        if combine is None:
            return [unknown] * len(operation.result)
        value = np.zeros(np.size(unknown) if np.ndim(unknown) else 1, np.bool_)
        plain.function(value, a.value, b.value)
        other = Source(sources[2].value, sources[2].undefined)
        pairs = [Source(value, unknown), Source(np.invert(value), unknown)][: len(operation.result)]
        return [_bitwise(combine)([pair, other])[0] for pair in pairs]

    return rule
