"""What the integer, logic and predicate instructions of the machine code compute, on NumPy arrays.

Values are uint32 arrays (bool for predicates) of shape (1,), the same for all lanes, or (lanes,). Each entry of
``TABLE`` takes an instruction and its operands' fetchers and gives a function that returns one value per register
written. NVIDIA documents the names ("CUDA Binary Utilities") but not the arithmetic; what is here was learnt from
ptxas' expansions of PTX whose meaning is documented, and is tested by running both (checks/counters).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemm_lessons.simulator.machinecode.operands import Decoded, Immediate, Operand, Register
from gemm_lessons.simulator.machinecode.uncountable import Uncountable

Array = NDArray[Any]
Values = tuple[Array, ...]
Fetch = Callable[[], Array]
Compute = Callable[[], Values]

TRUE = np.ones(1, np.bool_)
FALSE = np.zeros(1, np.bool_)
ZERO = np.zeros(1, np.uint32)
LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)


@dataclass(frozen=True)
class Source:
    """One source operand: how to fetch it as 32 bits (or as a predicate), and as a pair of registers."""

    operand: Operand
    fetch: Fetch
    fetch_pair: Fetch

    @property
    def is_predicate(self) -> bool:
        """Is it a truth value?"""
        return isinstance(self.operand, Register) and self.operand.is_predicate


class Sources:
    """The source operands of one instruction, words apart from predicates."""

    def __init__(self, d: Decoded, sources: Sequence[Source]) -> None:
        self.d = d
        self.words = [s for s in sources if not s.is_predicate]
        self.predicates = [s.fetch for s in sources if s.is_predicate]

    def word(self, position: int) -> Fetch:
        """uint32, with the operand's minus or tilde applied."""
        return self._at(position).fetch

    def pair(self, position: int) -> Fetch:
        """uint64 of two registers."""
        return self._at(position).fetch_pair

    def constant(self, position: int) -> int:
        """An operand that must be an immediate."""
        operand = self._at(position).operand
        if not isinstance(operand, Immediate):
            raise Uncountable(f"unknown form {self.d.text}")
        return operand.bits

    def _at(self, position: int) -> Source:
        if position >= len(self.words):
            raise Uncountable(f"unknown form {self.d.text}")
        return self.words[position]


def _u64(value: Array) -> Array:
    return value.astype(np.uint64)


def _s64(value: Array) -> Array:
    return value.view(np.int32).astype(np.int64)


def _split(value: Array) -> tuple[Array, Array]:
    """A uint64 as low and high uint32."""
    return (value & LOW).astype(np.uint32), (value >> HALF).astype(np.uint32)


def _move(s: Sources) -> Compute:
    source = s.word(0)
    return lambda: (source(),)


def _addends(s: Sources, position: int) -> Fetch:
    """As uint64 for sums with carry: minus is ``~x + 1``, so that ``a - b`` carries when there is no borrow."""
    operand, fetch = s.words[position].operand, s.word(position)
    if isinstance(operand, Register) and operand.negated:
        return lambda: np.uint64(1 << 32) - _u64(-fetch())
    return lambda: _u64(fetch())


def _add3(s: Sources) -> Compute:
    carries = s.predicates if s.d.has("X") else []
    written = _carry_count(s.d)
    if not written and not carries:
        a, b, c = s.word(0), s.word(1), s.word(2)
        return lambda: (a() + b() + c(),)
    parts = [_addends(s, i) for i in range(3)]

    def compute() -> Values:
        total = parts[0]() + parts[1]() + parts[2]()
        for carry in carries:
            total = total + carry().astype(np.uint64)
        low, high = _split(total)
        return (low, *(high >= n for n in range(1, written + 1)))

    return compute


def _carry_count(d: Decoded) -> int:
    count = 0
    for operand in d.operands[1:]:
        if not (isinstance(operand, Register) and operand.is_predicate and not operand.negated):
            break
        count += 1
    return count


def _add2(s: Sources) -> Compute:
    a, b = s.word(0), s.word(1)
    return lambda: (a() + b(),)


def _multiply_add(s: Sources) -> Compute:
    d = s.d
    a, b = s.word(0), s.word(1)
    signed = not d.has("U32")
    if d.has("WIDE", "HI"):
        c = s.pair(2)
        written = _carry_count(d)
        carry = s.predicates[-1] if d.has("X") else None

        def wide() -> Values:
            product = (_s64(a()) * _s64(b())).view(np.uint64) if signed else _u64(a()) * _u64(b())
            addend = c()
            total = product + addend
            over = total < addend
            if carry is not None:
                bumped = total + carry().astype(np.uint64)
                over = over | (bumped < total)
                total = bumped
            low, high = _split(total)
            return (high,) if d.has("HI") else (low, high, *([over] * written))

        return wide
    c = s.word(2)
    if d.has("X"):
        carry_in = s.predicates[-1]
        return lambda: (a() * b() + c() + carry_in().astype(np.uint32),)
    if d.has("MOV") and _is_zero(s.words[0].operand):
        return lambda: (c(),)
    return lambda: (a() * b() + c(),)


def _is_zero(operand: Operand) -> bool:
    return isinstance(operand, Register) and operand.number is None


def _lea(s: Sources) -> Compute:
    d = s.d
    written = _carry_count(d)
    carry = s.predicates[-1] if d.has("X") else None
    a, b = s.word(0), _addends(s, 1)
    shift = s.constant(len(s.words) - 1) & 31
    upper: Fetch | None = None
    if d.has("HI"):
        upper = None if d.has("SX32") else s.word(2)

    def compute() -> Values:
        if not d.has("HI"):
            moved = _u64(a() << np.uint32(shift))
        elif upper is None:
            moved = ((_s64(a()) << np.int64(shift)) >> np.int64(32)).view(np.uint64) & LOW
        else:
            moved = (((_u64(upper()) << HALF) | _u64(a())) << np.uint64(shift)) >> HALF
        total = moved + b()
        if carry is not None:
            total = total + carry().astype(np.uint64)
        low, high = _split(total)
        return (low, *([high != 0] * written))

    return compute


def lut(table: int, a: Array, b: Array, c: Array) -> Array:
    """Bitwise function of three values: bit ``4a + 2b + c`` of ``table`` (a = 0xF0, b = 0xCC, c = 0xAA)."""
    common: Mapping[int, Callable[[], Array]] = {
        0xC0: lambda: a & b, 0xFC: lambda: a | b, 0x3C: lambda: a ^ b, 0x33: lambda: ~b, 0x0F: lambda: ~a,
        0x30: lambda: a & ~b, 0x96: lambda: a ^ b ^ c, 0xFE: lambda: a | b | c, 0x80: lambda: a & b & c,
        0xF8: lambda: a | (b & c), 0xC8: lambda: b & (a | c), 0xEA: lambda: (a & b) | c,
    }  # fmt: skip
    if table in common:
        return common[table]()
    result = a & ~a & b & c  # zeros of the joint shape
    for index in range(8):
        if table >> index & 1:
            result = result | ((a if index & 4 else ~a) & (b if index & 2 else ~b) & (c if index & 1 else ~c))
    return result


def _logic(s: Sources) -> Compute:
    d = s.d
    a, b, c = s.word(0), s.word(1), s.word(2)
    table = s.constant(3)
    first = d.operands[0]
    with_predicate = isinstance(first, Register) and first.is_predicate
    other = s.predicates[-1] if s.predicates else (lambda: FALSE)
    both = d.has("PAND")

    def compute() -> Values:
        value = lut(table, a(), b(), c())
        if not with_predicate:
            return (value,)
        truth = value != 0
        return (truth & other() if both else truth | other(), value)

    return compute


def _predicate_logic(s: Sources) -> Compute:
    if len(s.predicates) != 3:
        raise Uncountable(f"unknown form {s.d.text}")
    a, b, c = s.predicates
    tables = [s.constant(0), s.constant(1)]
    return lambda: tuple(lut(table, a(), b(), c()) for table in tables)


def _shift(s: Sources) -> Compute:
    d = s.d
    low, amount, high = s.word(0), s.word(1), s.word(2)
    left = "L" in d.modifiers
    wide = d.has("U64", "S64")
    upper = d.has("HI")
    signed = d.has("S32", "S64")
    wrap = d.has("W")
    limit = 63 if wide else 31

    def count() -> Array:
        value = amount()
        return value & np.uint32(limit) if wrap else np.minimum(value, np.uint32(limit + 1))

    def compute() -> Values:
        n = count().astype(np.uint64)
        if not left and upper and not wide:  # plain right shift of the high word
            word = high()
            if signed:
                return ((_s64(word) >> np.minimum(n, 31).astype(np.int64)).astype(np.uint32),)
            return ((_u64(word) >> n).astype(np.uint32),)
        if left and not upper and not wide:
            return (((_u64(low()) << n) & LOW).astype(np.uint32),)
        both = (_u64(high()) << HALF) | _u64(low())
        if left:
            moved = np.where(n >= 64, np.uint64(0), both << np.minimum(n, np.uint64(63)))
        elif signed:
            moved = (both.view(np.int64) >> np.minimum(n, np.uint64(63)).astype(np.int64)).view(np.uint64)
        else:
            moved = np.where(n >= 64, np.uint64(0), both >> np.minimum(n, np.uint64(63)))
        return (_split(moved)[1 if upper else 0],)

    return compute


COMPARE: Mapping[str, Callable[[Array, Array], Array]] = {
    "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal, "EQ": np.equal, "NE": np.not_equal,
}  # fmt: skip
JOIN: Mapping[str, Callable[[Array, Array], Array]] = {
    "AND": np.logical_and, "OR": np.logical_or, "XOR": np.logical_xor,
}  # fmt: skip


def _compare(s: Sources) -> Compute:
    d = s.d
    comparison, join = d.modifiers[0], next((m for m in d.modifiers if m in JOIN), "AND")
    if comparison not in COMPARE:
        raise Uncountable(f"unknown instruction {d.text}")
    compare, combine = COMPARE[comparison], JOIN[join]
    a, b = s.word(0), s.word(1)
    signed = not d.has("U32")
    extended = s.predicates[-1] if d.has("EX") else None
    other = s.predicates[0]

    def compute() -> Values:
        x, y = a(), b()
        if signed:
            x, y = x.view(np.int32), y.view(np.int32)
        truth = compare(x, y)
        if extended is not None:  # the high words of 64 bits: equal ones leave it to the low words
            lower = extended()
            equal = x == y
            truth = (truth | lower) if comparison == "NE" else (truth & ~equal) | (equal & lower)
        third = other()
        return combine(truth, third), combine(~truth, third)

    return compute


def _select(s: Sources) -> Compute:
    a, b, condition = s.word(0), s.word(1), s.predicates[-1]
    return lambda: (np.where(condition(), a(), b()),)


def _extreme(s: Sources) -> Compute:
    a, b, smaller = s.word(0), s.word(1), s.predicates[-1]
    kind: Any = np.uint32 if s.d.has("U32") else np.int32

    def compute() -> Values:
        x, y = a().view(kind), b().view(kind)
        return (np.where(smaller(), np.minimum(x, y), np.maximum(x, y)).view(np.uint32),)

    return compute


def _absolute(s: Sources) -> Compute:
    a = s.word(0)
    return lambda: (np.abs(_s64(a())).astype(np.uint32),)


def _permute(s: Sources) -> Compute:
    a, selector, c = s.word(0), s.word(1), s.word(2)
    if s.d.modifiers:
        raise Uncountable(f"unknown instruction {s.d.text}")

    def compute() -> Values:
        both = (_u64(c()) << HALF) | _u64(a())
        choice = selector()
        result = ZERO
        for byte in range(4):
            nibble = (choice >> np.uint32(4 * byte)) & np.uint32(15)
            place = (nibble & np.uint32(7)).astype(np.uint64) * np.uint64(8)
            picked = ((both >> place) & np.uint64(255)).astype(np.uint32)
            sign = np.where(picked & np.uint32(0x80), np.uint32(255), np.uint32(0))
            result = result | (np.where(nibble & np.uint32(8), sign, picked) << np.uint32(8 * byte))
        return (result,)

    return compute


def _count_bits(s: Sources) -> Compute:
    a = s.word(0)
    return lambda: (np.bitwise_count(a()).astype(np.uint32),)


def _leading(s: Sources) -> Compute:
    """FLO: position of the highest one (of the highest bit that is not the sign); all ones when there is none."""
    a = s.word(0)
    signed, from_top = not s.d.has("U32"), s.d.has("SH")

    def compute() -> Values:
        value = a()
        if signed:
            value = np.where(value >> np.uint32(31), ~value, value)
        exponent = np.frexp(value.astype(np.float64))[1] - 1
        place = 31 - exponent if from_top else exponent
        return (np.where(value == 0, -1, place).astype(np.int64).astype(np.uint32),)

    return compute


def _reverse(s: Sources) -> Compute:
    a = s.word(0)

    def compute() -> Values:
        value = a()
        for shift, bits in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF), (16, 0x0000FFFF)):
            n, mask = np.uint32(shift), np.uint32(bits)
            value = ((value >> n) & mask) | ((value & mask) << n)
        return (value,)

    return compute


def _bit_mask(s: Sources) -> Compute:
    """BMSK start, length: ``length`` ones from bit ``start``."""
    start, length = s.word(0), s.word(1)

    def compute() -> Values:
        ones = (np.uint64(1) << np.minimum(_u64(length()), np.uint64(32))) - np.uint64(1)
        return (((ones << np.minimum(_u64(start()), np.uint64(32))) & LOW).astype(np.uint32),)

    return compute


def _sign_extend(s: Sources) -> Compute:
    a, bits = s.word(0), s.word(1)
    unsigned = s.d.has("U32")

    def compute() -> Values:
        away = np.uint32(32) - np.minimum(bits(), np.uint32(32))
        moved = (_u64(a()) << away.astype(np.uint64)) & LOW
        if unsigned:
            return ((moved >> away.astype(np.uint64)).astype(np.uint32),)
        return ((_s64(moved.astype(np.uint32)) >> away.astype(np.int64)).astype(np.uint32),)

    return compute


def _dot_product(s: Sources) -> Compute:
    """IDP.4A: four byte products added to the third operand."""
    d = s.d
    a, b, c = s.word(0), s.word(1), s.word(2)
    if "4A" not in d.modifiers:
        raise Uncountable(f"unknown instruction {d.text}")
    kinds = [m for m in d.modifiers if m in ("S8", "U8")]

    def compute() -> Values:
        x, y = a(), b()
        total = _s64(c())
        for byte in range(4):
            parts = []
            for value, kind in zip((x, y), kinds, strict=True):
                eight = ((value >> np.uint32(8 * byte)) & np.uint32(255)).astype(np.int64)
                parts.append(eight - 256 * (eight > 127) if kind == "S8" else eight)
            total = total + parts[0] * parts[1]
        return (total.astype(np.uint32),)

    return compute


TABLE: Mapping[str, Callable[[Sources], Compute]] = {
    "MOV": _move, "UMOV": _move, "R2UR": _move, "IADD3": _add3, "UIADD3": _add3, "VIADD": _add2, "IADD": _add2,
    "IMAD": _multiply_add, "UIMAD": _multiply_add, "LEA": _lea, "ULEA": _lea, "LOP3": _logic, "ULOP3": _logic,
    "PLOP3": _predicate_logic, "UPLOP3": _predicate_logic, "SHF": _shift, "USHF": _shift, "ISETP": _compare,
    "UISETP": _compare, "SEL": _select, "USEL": _select, "VIMNMX": _extreme, "IMNMX": _extreme, "IABS": _absolute,
    "PRMT": _permute, "UPRMT": _permute, "POPC": _count_bits, "UPOPC": _count_bits, "FLO": _leading, "UFLO": _leading,
    "BREV": _reverse, "UBREV": _reverse, "BMSK": _bit_mask, "UBMSK": _bit_mask, "SGXT": _sign_extend,
    "USGXT": _sign_extend, "IDP": _dot_product,
}  # fmt: skip
