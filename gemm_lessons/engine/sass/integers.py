"""Semantics of the integer, logic and predicate instructions of the machine code, on NumPy arrays.

Values are uint32 arrays (bool for predicates) of shape (1,), equal for all lanes, or (lanes,). An instruction with a
PTX counterpart uses the PTX table's function. Sums with carries, funnel shifts and 64-bit comparisons in halves have no
counterpart. NVIDIA documents the names ("CUDA Binary Utilities"), not the arithmetic: each form is tested against the
PTX that ptxas compiles to it, and against a GPU (checks/simulator/test_machine_forms.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.sass.flow import results
from gemm_lessons.engine.sass.operand_fetch import (
    FALSE,
    HALF,
    LOW,
    ZERO,
    Compute,
    Fetch,
    Rules,
    Sources,
    Values,
    by_ptx,
    carries_written,
    either,
    is_false,
    is_true,
    is_zero,
    split,
    unknown,
    words_of,
)
from gemm_lessons.engine.sass.operands import Constant, MachineImmediate, MachineRegister, Operand, unknown_form
from gemm_lessons.engine.semantics import bits
from gemm_lessons.engine.semantics.comparisons import COMBINE, INTEGER

SIGNED = {"": "s32", "U32": "u32"}
WIDE_INTEGERS = {"S64": "s64", "U64": "u64"}
COMPARED = {**SIGNED, **WIDE_INTEGERS}
JOIN = {"AND": "and", "OR": "or", "XOR": "xor"}
COMPARE = {name.upper(): name for name in ("lt", "le", "gt", "ge", "eq", "ne")}


def _flag(s: Sources, *names: str) -> bool:
    return any(name in s.d.modifiers for name in names)


def _u64(value: Array) -> Array:
    return value.astype(np.uint64)


def _s64(value: Array) -> Array:
    return value.view(np.int32).astype(np.int64)


def _move(s: Sources) -> Compute:
    (wide,) = s.choose({"": "", "64": "64"})
    s.expect(1)
    if wide:
        return words_of(s.pair(0))
    source = s.word(0)
    return lambda: (source(),)


# -- sums, with carries ------------------------------------------------------------------------------------------------


def _sum(terms: Sequence[Fetch]) -> Compute:
    """Return the sum of at most three words."""
    if len(terms) == 1:
        only = terms[0]
        return lambda: (only(),)
    if len(terms) == 2:
        a, b = terms
        return lambda: (a() + b(),)
    if len(terms) == 3:
        a, b, c = terms
        return lambda: (a() + b() + c(),)
    return lambda: (ZERO,)


def _addend(s: Sources, position: int) -> Fetch:
    """Fetch as uint64 for sums with carry: negation is ``~x + 1``, so ``a - b`` carries when there is no borrow."""
    fetch = s.word(position)
    if s.words[position].negated:
        return lambda: np.uint64(1 << 32) - _u64(-fetch())
    return lambda: _u64(fetch())


def _add3(s: Sources) -> Compute:
    s.choose({"": "", "64": "64"}, {"": "", "X": "X"})
    extended = _flag(s, "X")
    s.expect(3, len(s.truths) if extended else 0)
    written = carries_written(s)
    if _flag(s, "64"):
        if extended or any(results(s.d)[0][2:]):
            raise unknown_form(s.d)
        return _add_pairs(s, written)
    if extended and (not 1 <= len(s.truths) <= 2 or any(o.negated for o in s.words)):
        raise unknown_form(s.d)
    if not written and not extended:
        return _sum(s.terms(0, 1, 2))
    terms = s.terms(0, 1, 2)
    if written == 1 and not extended and len(terms) == 2 and not any(o.negated for o in s.words):
        first, second = terms

        def two() -> Values:
            augend = first()
            low = augend + second()
            return low, low < augend

        return two
    parts = [_addend(s, i) for i in range(3)]

    def compute() -> Values:
        total = parts[0]() + parts[1]() + parts[2]()
        for carry in s.truths:
            total = total + carry().astype(np.uint64)
        low, high = split(total)
        return (low, *(high >= n for n in range(1, written + 1)))

    return compute


def _add(s: Sources) -> Compute:
    """IADD: the sum of two words, or of two pairs (64), with a carry (X); since compute capability 10."""
    s.choose({"": "", "64": "64"}, {"": "", "X": "X"})
    extended, wide, written = _flag(s, "X"), _flag(s, "64"), carries_written(s)
    s.expect(2, extended)
    if not (wide or extended or written):
        return _sum(s.terms(0, 1))
    if wide:
        return _add_pairs(s, written)
    parts = [_addend(s, i) for i in range(2)]

    def compute() -> Values:
        total = parts[0]() + parts[1]()
        if extended:
            total = total + s.truths[0]().astype(np.uint64)
        low, high = split(total)
        return (low, *([high > 0] * written))

    return compute


def _add_pairs(s: Sources, written: int) -> Compute:
    """Return the sum of pairs; -b is ~b + 1, so that ``a - b`` carries when there is no borrow."""
    terms = [_pair_of(s, i) for i in range(len(s.words)) if not is_zero(s.words[i]) or s.words[i].negated]
    minus = sum(o.negated for o in s.words)
    if len(terms) > 2 or minus > 1:
        raise unknown_form(s.d)
    one = np.array(minus, np.uint64)

    def compute() -> Values:
        total = terms[0]() if terms else ZERO.astype(np.uint64)
        over = FALSE
        for added in (*(it() for it in terms[1:]), one, *(it().astype(np.uint64) for it in s.truths)):
            total = total + added
            over = over | (total < added)
        return (*split(total), *([over] * written))

    return compute


def _pair_of(s: Sources, position: int) -> Fetch:
    """Fetch a pair, inverted where the operand is inverted or negated."""
    operand = s.words[position]
    if s.plain(position):
        return s.pair(position)
    if operand.absolute or not isinstance(operand, (MachineRegister, Constant)):
        raise unknown_form(s.d)
    pair = s.reader.pair(replace(operand, negated=False, inverted=False))
    return lambda: ~pair()


def _add2(s: Sources) -> Compute:
    (packed,) = s.choose({"": "", "16x2": "16x2"})
    s.expect(2)
    if packed:
        return words_of(by_ptx(s.d, "add.u16x2", _plain(s, 0), _plain(s, 1)))
    return _sum(s.terms(0, 1))


def _plain(s: Sources, position: int) -> Fetch:
    """Fetch a source that must not be negated, because integer negation would be wrong here."""
    if not s.plain(position):
        raise unknown_form(s.d)
    return s.word(position)


def _multiply_add(s: Sources) -> Compute:
    # IADD, MOV and SHL only name the purpose of the product.
    s.choose({"": "", "IADD": "", "MOV": "", "SHL": ""}, SIGNED, {"": "", "WIDE": "", "HI": ""}, {"": "", "X": ""})
    s.expect(3, 1 if _flag(s, "X") else 0)
    if _flag(s, "WIDE", "HI"):
        return _multiply_add_wide(s)
    if carries_written(s):
        raise unknown_form(s.d)
    factors, addends = s.terms(0, 1), s.terms(2)
    if _flag(s, "X"):
        if any(o.negated for o in s.words):
            raise unknown_form(s.d)
        carry = s.truths[0]
        addends = [s.reader.term(s.words[2])] if addends else []
        addends.append(lambda: carry().astype(np.uint32))
    if len(factors) < 2:
        return _sum(addends)
    a, b = factors
    if not addends:
        return lambda: (a() * b(),)
    rest = _sum(addends)
    return lambda: (a() * b() + rest()[0],)


def _multiply_add_wide(s: Sources) -> Compute:
    signed, written = not _flag(s, "U32"), carries_written(s)
    addend = s.words[2]
    if isinstance(addend, MachineImmediate) and addend.bits:  # sign- or zero-extended? Never seen
        raise unknown_form(s.d)
    minus = addend.negated and not (written or s.truths or _flag(s, "HI"))
    if not s.plain(0) or not s.plain(1) or not (minus or s.plain(2)) or (signed and written and not _flag(s, "HI")):
        raise unknown_form(s.d)
    a, b = s.word(0), s.word(1)
    if minus and isinstance(addend, (MachineRegister, Constant)):
        bare = s.reader.pair(replace(addend, negated=False))
        return words_of(by_ptx(s.d, "mad.wide.s32" if signed else "mad.wide.u32", a, b, lambda: -bare()))
    c = s.pair(2)
    if not written and not _flag(s, "X", "HI"):
        return words_of(by_ptx(s.d, "mad.wide.s32" if signed else "mad.wide.u32", a, b, c))
    carry = s.truths[0] if s.truths else None

    def wide() -> Values:
        product = (_s64(a()) * _s64(b())).view(np.uint64) if signed else _u64(a()) * _u64(b())
        wanted = c()
        total = product + wanted
        over = total < wanted
        if carry is not None:
            bumped = total + carry().astype(np.uint64)
            over = over | (bumped < total)
            total = bumped
        low, high = split(total)
        return (*((high,) if _flag(s, "HI") else (low, high)), *([over] * written))

    return wide


def _lea(s: Sources) -> Compute:
    """(a << shift) + b; with HI, the upper word of the 64-bit shift (of sign-extended ``a``: SX32)."""
    s.choose({"": "", "HI": ""}, {"": "", "X": ""}, {"": "", "SX32": ""})
    high, extended, sign = _flag(s, "HI"), _flag(s, "X"), _flag(s, "SX32")
    s.expect(3 + (high and not sign), 1 if extended else 0)
    if (sign and not high) or ((high or extended) and not s.plain(0)) or (extended and s.words[1].negated):
        raise unknown_form(s.d)
    written = carries_written(s)
    carry = s.truths[0] if extended else None
    a, b, minus = s.word(0), _addend(s, 1), s.words[0].negated
    upper = s.word(2) if high and not sign else None
    shift = s.constant(len(s.words) - 1) & 31
    if not (high or extended or written or minus or s.words[1].negated):
        places = np.array(shift, np.uint32)
        if is_zero(s.words[1]):
            return lambda: (a() << places,)
        word = s.word(1)
        return lambda: ((a() << places) + word(),)

    def compute() -> Values:
        if not high:
            moved = _u64(a() << np.uint32(shift))  # shifting and negating commute
            if minus:
                moved = np.where(moved == 0, np.uint64(1 << 32), moved)  # but -0 carries
        elif upper is None:
            moved = ((_s64(a()) << np.int64(shift)) >> np.int64(32)).view(np.uint64) & LOW
        else:
            moved = (((_u64(upper()) << HALF) | _u64(a())) << np.uint64(shift)) >> HALF
        total = moved + b()
        if carry is not None:
            total = total + carry().astype(np.uint64)
        low, over = split(total)
        return (low, *([over != 0] * written))

    return compute


# -- bits --------------------------------------------------------------------------------------------------------------


def _logic(s: Sources) -> Compute:
    """LOP3.LUT: also whether any bit is set, combined with a predicate."""
    s.choose({"LUT": ""}, {"": "", "PAND": ""})
    written = carries_written(s)
    s.expect(4, len(s.truths))
    if len(s.truths) > 1 or (written and not s.truths) or written > 1:
        raise unknown_form(s.d)
    if any(o.negated or o.absolute for o in s.words):
        raise unknown_form(s.d)
    a, b, c = s.word(0), s.word(1), s.word(2)
    table = s.constant(3)
    if not written:
        if any(isinstance(o, MachineRegister) and o.number is not None for o in s.words[:2]):
            a, b = (s.reader.term(o) for o in s.words[:2])
        logic = bits.logic(table)
        return lambda: (logic(a(), b(), c()),)
    other, join = s.truths[0], np.logical_and if _flag(s, "PAND") else np.logical_or

    def compute() -> Values:
        value = bits.lut(table, a(), b(), c())
        return join(value != 0, other()), value

    return compute


def _predicate_logic(s: Sources) -> Compute:
    """PLOP3.LUT of predicates, or of the sign bits of registers."""
    s.choose({"LUT": ""})
    operands = s.d.operands[s.written :]
    if len(operands) != 5:
        raise unknown_form(s.d)
    a, b, c = (_truth(s, operand) for operand in operands[:3])
    tables = [s.constant(len(s.words) - 2), s.constant(len(s.words) - 1)]
    return lambda: tuple(bits.lut(table, a(), b(), c()) for table in tables)


def _truth(s: Sources, operand: Operand) -> Fetch:
    if not isinstance(operand, MachineRegister) or not (operand.is_predicate or operand.suffix == "SIGN"):
        raise unknown_form(s.d)
    if operand.is_predicate:
        return s.reader.fetcher(operand)
    word = s.reader.fetcher(MachineRegister(operand.file, operand.number))
    if operand.negated or operand.inverted or operand.absolute:
        raise unknown_form(s.d)
    return lambda: word() >> np.uint32(31) != 0


def _shift(s: Sources) -> Compute:
    """SHF: the low or the high word of a 64-bit shift of ``high:low``; U32 and S32 shift at most 32 bits."""
    s.choose({"L": "", "R": ""}, {"": "", "W": ""}, {"U32": "", "S32": "", "U64": "", "S64": ""}, {"": "", "HI": ""})
    s.expect(3)
    low, amount, high = _plain(s, 0), _plain(s, 1), _plain(s, 2)
    left, upper = _flag(s, "L"), _flag(s, "HI")
    wide, signed, wrap = _flag(s, "U64", "S64"), _flag(s, "S32", "S64"), _flag(s, "W")
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
        return (split(moved)[1 if upper else 0],)

    return compute


def _permute(s: Sources) -> Compute:
    (mode,) = s.choose({"": "", **{name.upper(): f".{name}" for name in bits.PERMUTATIONS}})
    s.expect(3)
    return words_of(by_ptx(s.d, f"prmt.b32{mode}", _plain(s, 0), _plain(s, 2), _plain(s, 1)))


def _one(name: str, **modifiers: str) -> Callable[[Sources], Compute]:
    """Return the rule of an instruction with one source. ``name``: PTX name with a placeholder for the modifier."""

    def rule(s: Sources) -> Compute:
        (chosen,) = s.choose(modifiers or {"": ""})
        s.expect(1)
        source = s.word(0)
        if s.words[0].negated or s.words[0].absolute:
            raise unknown_form(s.d)
        return words_of(by_ptx(s.d, name.format(chosen), source))

    return rule


def _leading(s: Sources) -> Compute:
    """FLO: position of the highest 1 bit (signed: of the highest bit unlike the sign); all ones if there is none."""
    code, from_top = s.choose(SIGNED, {"": "", "SH": ".shiftamt"})
    s.expect(1)
    operand = s.words[0]
    if carries_written(s) or operand.negated or operand.absolute:
        raise unknown_form(s.d)
    return words_of(by_ptx(s.d, f"bfind{from_top}.{code}", s.word(0)))


def _bit_mask(s: Sources) -> Compute:
    """BMSK start, length: ``length`` ones from bit ``start``."""
    (wrap,) = s.choose({"": "clamp", "W": "wrap"})
    s.expect(2)
    return words_of(by_ptx(s.d, f"bmsk.{wrap}.b32", _plain(s, 0), _plain(s, 1)))


def _sign_extend(s: Sources) -> Compute:
    wrap, code = s.choose({"": "clamp", "W": "wrap"}, SIGNED)
    s.expect(2)
    return words_of(by_ptx(s.d, f"szext.{wrap}.{code}", _plain(s, 0), _plain(s, 1)))


# -- comparison and selection ------------------------------------------------------------------------------------------


def _compare(s: Sources) -> Compute:
    comparison, code, join, extended = s.choose(COMPARE, COMPARED, JOIN, {"": "", "EX": "EX"})
    s.expect(2, 2 if extended else 1)
    compare, combine = INTEGER[comparison], COMBINE[join]
    wide = code.endswith("64")
    a, b, other = *((s.pair(0), s.pair(1)) if wide else (_plain(s, 0), _plain(s, 1))), s.truths[0]
    if isinstance(s.words[0], MachineRegister) and not wide:
        b = s.reader.term(s.words[1])
    signed, kind = code[0] == "s" and comparison not in ("eq", "ne"), np.int64 if wide else np.int32
    equal_counts = comparison in ("le", "ge", "eq")
    lower = s.truths[1] if extended else None
    simple = join == "and" and not extended and is_true(s.d.operands[-1])
    opposite = bool(results(s.d)[0][-1])  # whether the second result is used

    def compute() -> Values:
        x, y = a(), b()
        if signed:
            x, y = x.view(kind), y.view(kind)
        truth = compare(x, y, None)
        if simple:
            return truth, (~truth if opposite else truth)
        if lower is not None:  # 64-bit comparison: if the high words are equal, the low words decide
            equal = x == y
            if comparison == "ne":
                truth = truth | lower()
            else:
                truth = ((truth & ~equal) if equal_counts else truth) | (equal & lower())
        third = other()
        return combine(truth, third), combine(~truth, third)

    return compute


def _select(s: Sources) -> Compute:
    (wide,) = s.choose({"": "", "64": "64"})
    s.expect(2, 1)
    fetch = s.pair if wide else s.word
    a, b, condition = fetch(0), fetch(1), s.truths[0]
    return words_of(lambda: np.where(condition(), a(), b()))


PACKED_INTEGERS = {"": "s32", "S32": "s32", "U32": "u32", "S16x2": "s16x2", "U16x2": "u16x2"}


def _extreme(s: Sources) -> Compute:
    """VIMNMX, IMNMX. Since compute capability 10 they name two predicates as results; none was ever seen used."""
    (wide,) = s.choose(WIDE_INTEGERS) if _flag(s, *WIDE_INTEGERS) else [""]
    code, relu = (wide, "") if wide else s.choose(PACKED_INTEGERS, {"": "", "RELU": ".relu"})
    s.expect(2, 2 if wide else 1)
    named = [it.shifted(0) for it in s.d.operands[: s.written] if isinstance(it, MachineRegister) and it.is_predicate]
    if any(named) or (wide and not is_false(s.d.operands[-1])):
        raise unknown_form(s.d)
    a, b = (s.pair(0), s.pair(1)) if wide else (s.word(0), s.word(1))
    if code.endswith("x2"):
        a, b = _plain(s, 0), _plain(s, 1)
    found = words_of(either(s.truths[0], *(by_ptx(s.d, f"{o}{relu}.{code}", a, b) for o in ("min", "max"))))
    if not named:
        return found
    unused = [FALSE] * len(named)
    return lambda: (*unused, *found()) if wide else (*found(), *unused)


def _extreme_of_three(s: Sources) -> Compute:
    """VIMNMX3: the minimum or maximum of three numbers."""
    code, relu = s.choose({"": "s32", "U32": "u32"}, {"": "", "RELU": ".relu"})
    s.expect(3, 1)
    a, b, c = s.word(0), s.word(1), s.word(2)

    def of_three(operation: str) -> Fetch:
        return by_ptx(s.d, f"{operation}{relu}.{code}", by_ptx(s.d, f"{operation}.{code}", a, b), c)

    return words_of(either(s.truths[0], *map(of_three, ("min", "max"))))


def _add_extreme(s: Sources) -> Compute:
    """VIADDMNMX: the minimum or maximum of a + b and c."""
    code, relu = s.choose({"": "s32", "U32": "u32"}, {"": "", "RELU": ".relu"})
    s.expect(3, 1)
    a, b, c = s.word(0), s.word(1), _plain(s, 2)

    def total() -> Array:
        return a() + b()

    return words_of(either(s.truths[0], *(by_ptx(s.d, f"{o}{relu}.{code}", total, c) for o in ("min", "max"))))


def _difference(s: Sources) -> Compute:
    """VABSDIFF: the distance of a and b, plus c."""
    (code,) = s.choose(SIGNED)
    s.expect(3)
    return words_of(by_ptx(s.d, f"sad.{code}", _plain(s, 0), _plain(s, 1), _plain(s, 2)))


def _dot_product(s: Sources) -> Compute:
    """IDP: products of four bytes, or of two halves and two bytes, added to the third operand."""
    d = s.d
    s.expect(3)
    a, b, c = _plain(s, 0), _plain(s, 1), _plain(s, 2)
    if len(d.modifiers) == 3 and d.modifiers[0] == "4A" and set(d.modifiers[1:]) <= {"S8", "U8"}:
        kinds = [m[0].lower() + "32" for m in d.modifiers[1:]]
        return words_of(by_ptx(d, f"dp4a.{kinds[0]}.{kinds[1]}", a, b, c))
    if d.modifiers in [("2A", h, x + "16", y + "8") for h in ("LO", "HI") for x in "SU" for y in "SU"]:
        kinds = [m[0].lower() + "32" for m in d.modifiers[2:]]
        return words_of(by_ptx(d, f"dp2a.{d.modifiers[1].lower()}.{kinds[0]}.{kinds[1]}", a, b, c))
    raise unknown(d)


def _pack(s: Sources) -> Compute:
    """I2IP: two integers, saturated and put side by side, with the low bits of the third operand above them."""
    s.expect(3)
    kind, *others = s.d.modifiers
    if kind not in ("S8", "U8", "S16", "U16") or others != ["S32", "SAT"]:
        raise unknown(s.d)
    sources = [_plain(s, i) for i in range(2 if kind.endswith("16") else 3)]
    return words_of(by_ptx(s.d, f"cvt.pack.sat.{kind.lower()}.s32{'.b32' * (len(sources) == 3)}", *sources))


_UNIFORM: dict[str, Any] = {
    "MOV": _move, "IADD3": _add3, "IMAD": _multiply_add, "LEA": _lea, "LOP3": _logic, "PLOP3": _predicate_logic,
    "SHF": _shift, "ISETP": _compare, "SEL": _select, "PRMT": _permute, "POPC": _one("popc.b32"), "FLO": _leading,
    "BREV": _one("brev.b32"), "BMSK": _bit_mask, "SGXT": _sign_extend,
}  # fmt: skip
TABLE: Rules = {
    **_UNIFORM, **{"U" + name: rule for name, rule in _UNIFORM.items()},
    "IADD": _add, "VIADD": _add2, "VIMNMX": _extreme, "IMNMX": _extreme, "VIADDMNMX": _add_extreme,
    "VIMNMX3": _extreme_of_three, "IABS": _one("abs.s32"),
    "VABSDIFF": _difference, "IDP": _dot_product, "I2IP": _pack,
}  # fmt: skip
