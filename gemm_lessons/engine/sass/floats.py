"""Semantics of the machine code's floating-point instructions: functions of the PTX table under other names.

Only kernels whose addresses or branches depend on floats need them. ``functions.py`` approximates ``MUFU``.
"""

from __future__ import annotations

import numpy as np

from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.sass import divisions
from gemm_lessons.engine.sass.operand_fetch import (
    TRUE,
    Choice,
    Compute,
    Fetch,
    Rule,
    Rules,
    Sources,
    Values,
    by_ptx,
    either,
    literal,
    operation_of,
    unknown,
    words_of,
)
from gemm_lessons.engine.sass.operands import MachineImmediate, Uncountable, unknown_form
from gemm_lessons.engine.semantics import table as semantics
from gemm_lessons.engine.semantics.arithmetic import SCALED
from gemm_lessons.engine.semantics.division import takes_slow_path
from gemm_lessons.engine.semantics.operation import DTYPES

FTZ: Choice = {"": "", "FTZ": ".ftz"}
MODE: Choice = {"": ".rn", "RM": ".rm", "RP": ".rp", "RZ": ".rz"}
SAT: Choice = {"": "", "SAT": ".sat"}
JOIN: Choice = {"AND": ".and", "OR": ".or", "XOR": ".xor"}
COMPARE: Choice = {
    name.upper(): name
    for name in ("lt", "le", "gt", "ge", "eq", "ne", "ltu", "leu", "gtu", "geu", "equ", "neu", "num", "nan")
}


SCALE: Choice = {"": "", **{name.upper(): f".{name}" for name in SCALED}}


def _arithmetic(opcode: str, count: int) -> Rule:
    """Return the rule of float32 add, mul or fma with ``count`` sources."""

    def rule(s: Sources) -> Compute:
        ftz, mode, sat, scale = s.choose(FTZ, MODE, SAT, SCALE)
        rounding = "" if scale and mode == ".rn" else mode
        s.expect(count)
        return words_of(
            by_ptx(s.d, f"{opcode}{scale}{rounding}{ftz}{sat}.f32", *(s.number(i, "f32") for i in range(count)))
        )

    return rule


def _double(opcode: str, count: int) -> Rule:
    def rule(s: Sources) -> Compute:
        (mode,) = s.choose(MODE)
        s.expect(count)
        return words_of(by_ptx(s.d, f"{opcode}{mode}.f64", *(s.number(i, "f64") for i in range(count))))

    return rule


NAN: Choice = {"": "", "NAN": ".NaN"}
XORSIGN: Choice = {"": "", "XORSIGN": ".xorsign.abs"}


def _extreme(s: Sources) -> Compute:
    """FMNMX: the minimum if the predicate holds, else the maximum."""
    ftz, nan, xorsign = s.choose(FTZ, NAN, XORSIGN)
    s.expect(2, 1)
    s = s.of_sizes() if xorsign else s
    a, b = s.number(0, "f32"), s.number(1, "f32")
    return words_of(either(s.truths[0], *(by_ptx(s.d, f"{o}{ftz}{nan}{xorsign}.f32", a, b) for o in ("min", "max"))))


def _select(s: Sources) -> Compute:
    s.choose()
    s.expect(2, 1)
    if any(isinstance(o, MachineImmediate) and o.value != o.value for o in s.words):
        raise Uncountable(f"a NaN of unknown bits in {s.d.text}")
    a, b, condition = s.number(0, "f32"), s.number(1, "f32"), s.truths[0]
    return lambda: (np.where(condition(), a(), b()),)


def _pair_by_ptx(s: Sources, name: str, *fetches: Fetch) -> Compute:
    """Compare by PTX instruction ``name``, with two results, each combined with the third source."""
    opcode, *modifiers = name.split(".")
    operation = semantics.lookup(opcode, tuple(modifiers), results=2)
    if operation is None:
        raise unknown(s.d)
    kind, other, function = np.dtype(DTYPES[operation.sources[0]]), s.truths[0], operation.function

    def compute() -> Values:
        values = [*(fetch().view(kind) for fetch in fetches), other()]
        lanes = max(value.size for value in values)
        p, q = np.empty(lanes, np.bool_), np.empty(lanes, np.bool_)
        function(p, q, *(value if value.size == lanes else value[0] for value in values))
        return p, q

    return compute


def _compare(s: Sources) -> Compute:
    if s.d.modifiers == (divisions.DECIDED,):
        return divisions.decide(s)
    comparison, ftz, join = s.choose(COMPARE, FTZ, JOIN)
    s.expect(2, 1)
    return _pair_by_ptx(s, f"setp.{comparison}{join}{ftz}.f32", s.number(0, "f32"), s.number(1, "f32"))


def _compare_double(s: Sources) -> Compute:
    if s.d.modifiers in (("MIN", "AND"), ("MAX", "AND")):
        return _choose_double(s)
    comparison, join = s.choose(COMPARE, JOIN)
    s.expect(2, 1)
    return _pair_by_ptx(s, f"setp.{comparison}{join}.f64", s.number(0, "f64"), s.number(1, "f64"))


def _choose_double(s: Sources) -> Compute:
    """DSETP.MIN, DSETP.MAX: whether the first is selected (-0 < +0, a number beats NaN), and whether both are NaN."""
    s.expect(2, 1)
    if s.truths[0]() is not TRUE:
        raise unknown_form(s.d)
    a, b, least = s.number(0, "f64"), s.number(1, "f64"), s.d.has("MIN")

    def compute() -> Values:
        x, y = a().view(np.float64), b().view(np.float64)
        none = np.isnan(x) & np.isnan(y)
        sooner = (x < y) if least else (x > y)
        first_zero = np.signbit(x) & ~np.signbit(y) if least else ~np.signbit(x) & np.signbit(y)
        return sooner | (x == y) & first_zero | np.isnan(y) & ~none, none

    return compute


def _set(s: Sources) -> Compute:
    """FSET: 1.0 or 0.0 (BF), else all bits set or none."""
    result, comparison, ftz, join = s.choose({"": "u32", "BF": "f32"}, COMPARE, FTZ, JOIN)
    s.expect(2, 1)
    name = f"set.{comparison}{join}{ftz}.{result}.f32"
    return words_of(by_ptx(s.d, name, s.number(0, "f32"), s.number(1, "f32"), s.truths[0]))


# -- pairs of 16-bit floats --------------------------------------------------------------------------------------------

FORMAT: Choice = {"": "f16", "BF16_V2": "bf16"}
MMA: Choice = {"": "", "MMA": ""}  # which pipe computes it


def _packed(s: Sources, code: str, count: int) -> list[Fetch]:
    """Return ``count`` packed sources. Two literals form one source; the first is the upper half."""
    found: list[Fetch] = []
    position = 0
    while position < len(s.words):
        operand = s.words[position]
        if isinstance(operand, MachineImmediate):
            both = s.words[position : position + 2]
            if len(both) < 2 or not all(
                isinstance(o, MachineImmediate) and o.is_float and o.value == o.value for o in both
            ):
                raise unknown_form(s.d)
            value = np.concatenate([literal(o, code) for o in reversed(both) if isinstance(o, MachineImmediate)])
            found.append(lambda value=value: value)  # type: ignore[misc]
            position += 2
        else:
            found.append(s.halves(position, code))
            position += 1
    if len(found) != count:
        raise unknown_form(s.d)
    return found


def _by_halves(s: Sources, name: str, fetches: list[Fetch], truth: Fetch | None = None) -> Fetch:
    """Apply a 16-bit PTX instruction to both halves: raw results (2 * lanes,), low halves at even indices."""
    operation = operation_of(s.d, name)
    kinds = [np.dtype(DTYPES[code]) for code in operation.sources]
    result = np.dtype(DTYPES[operation.result[0]])

    def compute() -> Array:
        values = [fetch() for fetch in fetches]
        if truth is not None:
            values.append(np.repeat(truth(), 2))
        size = max(value.size for value in values)
        out = np.empty(size, result)
        operation.function(out, *(np.resize(v, size).view(kind) for v, kind in zip(values, kinds, strict=True)))
        return out

    return compute


def _joined(halves: Fetch) -> Compute:
    """Return packed results as registers."""
    return lambda: (halves().view(np.uint32),)


def _packed_arithmetic(opcode: str, count: int) -> Rule:
    """HADD2, HMUL2, HFMA2. HADD2.F32 makes a float32 of half-precision sources."""
    rounding = ".rn" if opcode == "fma" else ""

    def rule(s: Sources) -> Compute:
        if opcode == "add" and s.d.modifiers == ("F32",):
            return _add_in_single(s)
        code, _, ftz, sat, relu = s.choose(FORMAT, MMA, FTZ, SAT, {"": "", "RELU": ".relu"})
        sources = _packed(s, code, count)
        s.expect(len(s.words), 0)
        return _joined(_by_halves(s, f"{opcode}{rounding}{ftz}{sat}{relu}.{code}", sources))

    return rule


def _add_in_single(s: Sources) -> Compute:
    s.expect(2)
    wide = [by_ptx(s.d, "cvt.f32.f16", s.number(i, "f16", suffix=True)) for i in range(2)]
    return words_of(by_ptx(s.d, "add.rn.f32", *wide))


def _packed_extreme(s: Sources) -> Compute:
    code, ftz, nan, xorsign = s.choose(FORMAT, FTZ, NAN, XORSIGN)
    s.expect(2, 1)
    s = s.of_sizes() if xorsign else s
    sources = [s.halves(0, code), s.halves(1, code)]
    least, most = (_by_halves(s, f"{o}{ftz}{nan}{xorsign}.{code}", sources) for o in ("min", "max"))
    return words_of(either(s.truths[0], lambda: least().view(np.uint32), lambda: most().view(np.uint32)))


def _packed_set(s: Sources) -> Compute:
    code, floating, comparison, ftz, join = s.choose(FORMAT, {"": "", "BF": "BF"}, COMPARE, FTZ, JOIN)
    s.expect(2, 1)
    name = f"set.{comparison}{join}{ftz}.{code if floating else 'u16'}.{code}"
    return _joined(_by_halves(s, name, [s.halves(0, code), s.halves(1, code)], s.truths[0]))


def _packed_compare(s: Sources) -> Compute:
    """HSETP2: the first predicate compares the low halves, the second the high halves."""
    code, comparison, ftz, join = s.choose(FORMAT, COMPARE, FTZ, JOIN)
    s.expect(2, 1)
    both = _by_halves(s, f"setp.{comparison}{join}{ftz}.{code}", [s.halves(0, code), s.halves(1, code)], s.truths[0])

    def compute() -> Values:
        pairs = both().reshape(-1, 2)
        return pairs[:, 0].copy(), pairs[:, 1].copy()

    return compute


def _division_check(s: Sources) -> Compute:
    """FCHK: whether a division needs its slow path."""
    s.choose()
    s.expect(2)
    a, b = s.number(0, "f32"), s.number(1, "f32")
    return lambda: (takes_slow_path(a(), b()),)


TABLE: Rules = {
    "FADD": _arithmetic("add", 2), "FMUL": _arithmetic("mul", 2), "FFMA": _arithmetic("fma", 3), "FMNMX": _extreme,
    "FSEL": _select, "FSETP": _compare, "FSET": _set, "FCHK": _division_check,
    "DADD": _double("add", 2), "DMUL": _double("mul", 2), "DFMA": _double("fma", 3), "DSETP": _compare_double,
    "HADD2": _packed_arithmetic("add", 2), "HMUL2": _packed_arithmetic("mul", 2),
    "HFMA2": _packed_arithmetic("fma", 3), "HMNMX2": _packed_extreme, "HSET2": _packed_set,
    "HSETP2": _packed_compare,
}  # fmt: skip
