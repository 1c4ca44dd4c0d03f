"""Typed operands of one machine instruction, and access to the table of PTX semantics.

Every modifier and operand of an instruction must be consumed. An unconsumed one raises ``Uncountable``, because
ignoring it would give a wrong result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.sass.operands import (
    Constant,
    Decoded,
    MachineImmediate,
    MachineRegister,
    Operand,
    Uncountable,
    unknown_form,
)
from gemm_lessons.engine.semantics import floats
from gemm_lessons.engine.semantics import table as semantics
from gemm_lessons.engine.semantics.operation import DTYPES, Operation

Values = tuple[Array, ...]
Fetch = Callable[[], Array]
Compute = Callable[[], Values]
Choice = Mapping[str, str]  # modifier ("" for none) -> its PTX name

TRUE = np.ones(1, np.bool_)
FALSE = np.zeros(1, np.bool_)
ZERO = np.zeros(1, np.uint32)
# Without an axis: NumPy combines these with lanes in half the time of a scalar and a third of shape (1,).
LOW = np.array(0xFFFFFFFF, np.uint64)
HALF = np.array(32, np.uint64)
SIGNS = {np.dtype(f"u{size}"): np.array(1 << (8 * size - 1), f"u{size}") for size in (2, 4, 8)}


class Reader(Protocol):
    """Source of register values: ``lanes.Lanes``."""

    def present(self) -> Array:
        """Return the active lanes. Values of other lanes are meaningless."""

    def fetcher(self, operand: Operand) -> Fetch:
        """Fetch the operand as uint32 (bool for a predicate), negated as an integer."""

    def term(self, operand: Operand) -> Fetch:
        """Like ``fetcher``; a value known to be equal for all lanes has no axis."""

    def pair(self, operand: Operand) -> Fetch:
        """Fetch uint64 from two registers or two words of a constant bank, without a sign."""


def is_zero(operand: Operand) -> bool:
    """Return whether the operand is RZ, which reads as 0."""
    if not isinstance(operand, MachineRegister) or operand.number is not None or operand.is_predicate:
        return False
    return not (operand.inverted or operand.absolute)


def is_uniform(operand: Operand) -> bool:
    """Return whether the operand is a uniform register (one per warp)."""
    return isinstance(operand, MachineRegister) and operand.file == "UR"


def is_true(operand: Operand) -> bool:
    """Return whether the operand is PT."""
    if not isinstance(operand, MachineRegister) or operand.number is not None:
        return False
    return operand.is_predicate and not operand.negated


def is_false(operand: Operand) -> bool:
    """Return whether the operand is !PT."""
    return isinstance(operand, MachineRegister) and operand.negated and is_true(replace(operand, negated=False))


def unknown(d: Decoded) -> Uncountable:
    """Return the exception for an instruction of unknown semantics."""
    return Uncountable(f"unknown instruction {d.text}")


def split(value: Array) -> tuple[Array, Array]:
    """Split a uint64 into low and high uint32."""
    return value.astype(np.uint32), (value >> HALF).astype(np.uint32)


@dataclass(frozen=True)
class Sources:
    """The sources of an instruction: words, and separately predicates."""

    d: Decoded
    reader: Reader
    words: tuple[Operand, ...]
    truths: tuple[Fetch, ...]
    written: int  # operands that name results

    @staticmethod
    def of(d: Decoded, reader: Reader, written: int) -> Sources:
        """Return the operands after the first ``written``."""
        listed = d.operands[written:]
        predicates = [o for o in listed if isinstance(o, MachineRegister) and o.is_predicate]
        words = tuple(o for o in listed if not (isinstance(o, MachineRegister) and o.is_predicate))
        return Sources(d, reader, words, tuple(reader.fetcher(p) for p in predicates), written)

    def expect(self, words: int, truths: int = 0) -> None:
        """Raise ``Uncountable`` if the numbers of sources differ."""
        if (len(self.words), len(self.truths)) != (words, truths):
            raise unknown_form(self.d)

    def choose(self, *groups: Choice) -> list[str]:
        """For each group, return the PTX name of the one modifier that the instruction carries."""
        left = list(self.d.modifiers)
        chosen = []
        for group in groups:
            found = next((m for m in left if m in group), "")
            if found:
                left.remove(found)
            elif "" not in group:
                raise unknown(self.d)
            chosen.append(group[found])
        if left:
            raise unknown(self.d)
        return chosen

    def word(self, position: int) -> Fetch:
        """Fetch uint32, negated or inverted as the operand says."""
        return self.reader.fetcher(self.words[position])

    def terms(self, *positions: int) -> list[Fetch]:
        """Fetch the words among ``positions`` other than RZ, in the form that NumPy combines fastest."""
        words = [w for w in (self.words[i] for i in positions) if not is_zero(w)]
        if all(isinstance(w, (MachineImmediate, Constant)) or is_uniform(w) for w in words):
            return [self.reader.fetcher(w) for w in words]
        return [self.reader.term(w) for w in words]

    def pair(self, position: int) -> Fetch:
        """Fetch uint64 from two registers, without a sign."""
        return self.reader.pair(self.words[position])

    def constant(self, position: int) -> int:
        """Return the bits of an operand that must be an integer immediate."""
        operand = self.words[position]
        if not isinstance(operand, MachineImmediate) or operand.is_float:
            raise unknown_form(self.d)
        return operand.bits

    def plain(self, position: int) -> bool:
        """Return whether the operand's bits are used as they are."""
        operand = self.words[position]
        return not (operand.negated or operand.inverted or operand.absolute)

    def of_sizes(self) -> Sources:
        """Return sources |a|, |b| without the absolute value, for XORSIGN, which uses signs and sizes separately."""
        if not all(o.absolute and not o.negated for o in self.words):
            raise unknown_form(self.d)
        bare = tuple(replace(o, absolute=False) for o in self.words if isinstance(o, (MachineRegister, Constant)))
        return replace(self, words=bare)

    def number(self, position: int, code: str, suffix: bool = False) -> Fetch:
        """Fetch raw bits of a floating-point source of PTX type ``code``, with negation and absolute value applied.

        A NaN of f64 keeps its sign, as on an H200; other types lose it anyway. 16-bit formats come from the low half,
        or from the half that the operand names when ``suffix`` allows it.
        """
        operand = self.words[position]
        raw = DTYPES["b" + str(8 * np.dtype(DTYPES[code]).itemsize)]
        if isinstance(operand, MachineImmediate) and operand.is_float:
            if operand.value != operand.value and code != "f32":  # the disassembler does not say which NaN
                return _refuse(Uncountable(f"a NaN of unknown bits in {self.d.text}"))
            value = literal(operand, code)
            return lambda: value
        if not isinstance(operand, (MachineRegister, Constant)):
            bits = self.word(position)
            if code == "f64":  # hexadecimal: the upper half
                return lambda: bits().astype(np.uint64) << HALF
            return lambda: bits().astype(raw)
        if operand.inverted:
            raise unknown_form(self.d)
        half = 0
        if suffix and operand.suffix in HALVES:
            half = HALVES[operand.suffix]
            operand = replace(operand, suffix="")
        bare = replace(operand, negated=False, absolute=False)
        if code == "f64":
            return _signed_double(self.reader.pair(bare), operand.negated, operand.absolute)
        fetch = self.reader.fetcher(bare)
        return signed(fetch, raw, half, operand.negated, operand.absolute)

    def halves(self, position: int, code: str) -> Fetch:
        """Fetch a packed source as uint16 (2 * lanes,), low halves at even indices, signs applied."""
        operand = self.words[position]
        if not isinstance(operand, (MachineRegister, Constant)) or operand.inverted or operand.suffix not in PACKED:
            raise unknown_form(self.d)
        order = PACKED[operand.suffix]
        fetch = self.reader.fetcher(replace(operand, negated=False, absolute=False, suffix=""))
        absolute = operand.absolute
        minus = SIGNS[np.dtype(np.uint16)]
        signs = np.array([minus if operand.negated != ("N" in operand.suffix) else 0, minus if operand.negated else 0],
                         np.uint16)  # fmt: skip

        def both() -> Array:
            pairs = np.ascontiguousarray(fetch()).view(np.uint16).reshape(-1, 2)[:, order]
            if absolute:
                pairs = pairs & ~SIGNS[pairs.dtype]
            return (pairs ^ signs).reshape(-1)

        return both


HALVES = {"H0_H0": 0, "H1_H1": 16, "H0": 0, "H1": 16}
# Which half of an operand is the lower one, and which the upper one. NVIDIA names the upper one first; N negates.
PACKED: Mapping[str, list[int]] = {
    "": [0, 1], "H1_H0": [0, 1], "H0_H0": [0, 0], "H1_H1": [1, 1], "H0_NH1": [1, 0],
}  # fmt: skip


def signed(fetch: Fetch, raw: Any, shift: int, negated: bool, absolute: bool) -> Fetch:
    """Return a float's bits, shifted down by ``shift``, truncated to ``raw``, absolute value and negation applied."""
    sign = SIGNS[np.dtype(raw)]

    def value() -> Array:
        bits = fetch()
        bits = (bits >> bits.dtype.type(shift) if shift else bits).astype(raw, copy=False)
        if absolute:
            bits = bits & ~sign
        return bits ^ sign if negated else bits

    return value


def _signed_double(fetch: Fetch, negated: bool, absolute: bool) -> Fetch:
    if not (negated or absolute):
        return fetch
    change = signed(fetch, np.uint64, 0, negated, absolute)

    def value() -> Array:
        bits = fetch()
        return np.where(np.isnan(bits.view(np.float64)), bits, change())

    return value


def literal(operand: MachineImmediate, code: str) -> Array:
    """Return a decimal literal as raw bits."""
    if code == "bf16":
        return floats.narrow_bf16(np.array([operand.value]))
    with np.errstate(all="ignore"):
        value = np.array([operand.value]).astype(DTYPES[code])
    if code == "f32" and operand.value != operand.value:
        value.view(np.uint32)[0] = floats.NAN_BITS["f32"]
    return value.view(f"u{value.itemsize}")


def _refuse(obstacle: Uncountable) -> Fetch:
    def refuse() -> Array:
        raise obstacle

    return refuse


def operation_of(d: Decoded, name: str) -> Operation:
    """Return the table's entry for a PTX instruction. Raise ``Uncountable`` if there is none."""
    opcode, *modifiers = name.split(".")
    operation = semantics.lookup(opcode, tuple(modifiers))
    if operation is None:
        raise unknown(d)
    return operation


def by_ptx(d: Decoded, name: str, *fetches: Fetch) -> Fetch:
    """Apply PTX instruction ``name`` to the sources: raw bits of its one result."""
    operation = operation_of(d, name)
    types = [np.dtype(DTYPES[code]) for code in operation.sources]
    result = np.dtype({"u8": np.uint32, "s8": np.int32}.get(operation.result[0], DTYPES[operation.result[0]]))
    raw = result if result == np.bool_ else np.dtype(f"u{result.itemsize}")
    function = operation.function

    sources = list(zip(fetches, types, strict=True))

    def compute() -> Array:
        values, lanes = [], 1
        for fetch, kind in sources:
            value = fetch()
            if value.dtype != kind and value.dtype.itemsize == kind.itemsize:
                value = value.view(kind)
            lanes = max(lanes, value.size)
            values.append(value)
        out = np.empty(lanes, result)
        function(out, *[value if value.size == lanes else value.reshape(()) for value in values])
        return out if result == raw else out.view(raw)

    return compute


def words_of(fetch: Fetch) -> Compute:
    """Split a result into the registers that hold it: 64 bits are two, 16 bits the low half of one."""

    def compute() -> Values:
        value = fetch()
        if value.dtype.itemsize == 8:
            return split(value)
        return (value.astype(np.uint32, copy=False),)

    return compute


def either(condition: Fetch, yes: Fetch, no: Fetch) -> Fetch:
    """Select ``yes`` where the condition holds, else ``no``. Compute only one if the condition is uniform."""

    def compute() -> Array:
        truth = condition()
        if truth.size == 1:
            return yes() if truth[0] else no()
        return np.where(truth, yes(), no())

    return compute


Rule = Callable[[Sources], Compute]
Rules = Mapping[str, Rule]


def carries_written(s: Sources) -> int:
    """Return the predicates written after the register: ``IADD3 R0, P0, P1, ...``."""
    return sum(isinstance(o, MachineRegister) and o.is_predicate for o in s.d.operands[: s.written])
