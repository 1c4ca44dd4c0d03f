"""Semantics of the machine code's conversions: PTX's ``cvt``, under other names."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.sass.floats import FTZ, MODE
from gemm_lessons.engine.sass.operand_fetch import Choice, Compute, Fetch, Rules, Sources, by_ptx, unknown, words_of
from gemm_lessons.engine.sass.operands import MachineRegister, unknown_form
from gemm_lessons.engine.semantics.conversions import is_exact

INTEGERS = {m: m.lower() for m in ("U8", "S8", "U16", "S16", "U32", "S32", "U64", "S64")}
FLOATS = {"F16": "f16", "BF16": "bf16", "F32": "f32", "F64": "f64"}
INTEGRAL: Choice = {"": ".rni", "FLOOR": ".rmi", "CEIL": ".rpi", "TRUNC": ".rzi"}


def _bits(s: Sources, code: str) -> Fetch:
    """Return the source as an integer of ``code``, taken from the byte or half that the operand names."""
    operand = s.words[0]
    if code.endswith("64"):
        return s.pair(0)
    if not s.plain(0):
        raise unknown_form(s.d)
    if isinstance(operand, MachineRegister) and operand.suffix in PARTS:
        size, shift = PARTS[operand.suffix]
        if size != int(code[1:]):
            raise unknown_form(s.d)
        fetch = s.reader.fetcher(replace(operand, suffix=""))
        return lambda: _cut(fetch() >> np.uint32(shift), code)
    fetch = s.word(0)
    return lambda: _cut(fetch(), code)


PARTS = {**{f"B{i}": (8, 8 * i) for i in range(4)}, "H0": (16, 0), "H1": (16, 16), "H0_H0": (16, 0), "H1_H1": (16, 16)}


def _cut(word: Array, code: str) -> Array:
    """Convert a register to the type that the PTX table expects; 8-bit integers keep 32 bits."""
    return word.astype(np.uint16) if code.endswith("16") else word


def _extended(fetch: Fetch, code: str) -> Compute:
    """Return an integer result in its register, with 16 bits sign- or zero-extended."""
    if code != "s16":
        return words_of(fetch)
    return lambda: (fetch().view(np.int16).astype(np.int32).view(np.uint32),)


def _from_integer(s: Sources) -> Compute:
    target, source, mode = s.choose({"": "f32", **FLOATS}, {"": "s32", **INTEGERS}, MODE)
    s.expect(1)
    return words_of(by_ptx(s.d, f"cvt{mode}.{target}.{source}", _bits(s, source)))


def _to_integer(s: Sources) -> Compute:
    """F2I. Without NTZ ("NaN to zero"), NaN sets the top bit, as ``cvt`` does when either side has 64 bits."""
    if s.d.modifiers[:1] == ("FTZ",) or not {"F16", "BF16", "F64"} & {*s.d.modifiers}:
        ftz, target, direction, to_zero = s.choose(FTZ, {"": "s32", **INTEGERS}, INTEGRAL, {"": "", "NTZ": "NTZ"})
        source = "f32"
    else:
        ftz = ""
        target, source, direction, to_zero = s.choose({"": "s32", **INTEGERS}, FLOATS, INTEGRAL, {"": "", "NTZ": "NTZ"})
    s.expect(1)
    if bool(to_zero) != (source != "f64" and not target.endswith("64")):
        raise unknown(s.d)
    value = s.number(0, source, suffix=True)
    if source == "bf16":
        ftz = ""
    return _extended(by_ptx(s.d, f"cvt{direction}{ftz}.{target}.{source}", value), target)


def _between_floats(s: Sources) -> Compute:
    """F2F.TO.FROM: the first type is the result's."""
    types = [m for m in s.d.modifiers if m in FLOATS]
    if len(types) != 2:
        raise unknown(s.d)
    _, _, ftz, mode = s.choose({types[0]: ""}, {types[1]: ""}, FTZ, MODE)
    s.expect(1)
    target, source = (FLOATS[m] for m in types)
    exact = is_exact(source, target)
    if exact and mode != ".rn":
        raise unknown(s.d)
    name = f"cvt{'' if exact else mode}{ftz}.{target}.{source}"
    return words_of(by_ptx(s.d, name, s.number(0, source, suffix=True)))


def _integral(s: Sources) -> Compute:
    """FRND: round to an integral value of the same format."""
    ftz, code, direction = s.choose(FTZ, {"": "f32", **FLOATS}, INTEGRAL)
    s.expect(1)
    return words_of(by_ptx(s.d, f"cvt{direction}{ftz}.{code}.{code}", s.number(0, code, suffix=True)))


def _packed(s: Sources) -> Compute:
    """F2FP: two float32 as a pair (the first is the upper half), or one as tf32."""
    relu, code, _, packing, mode = s.choose(
        {"": "", "RELU": ".relu"},
        {"F16": "f16", "BF16": "bf16", "TF32": "tf32"},
        {"": "", "F32": ""},
        {"PACK_AB": "AB", "MERGE_C": "C", "PACK_B": "B"},
        {"": ".rn", "RZ": ".rz"},
    )
    if code == "tf32":
        s.expect(1)
        if packing != "B":
            raise unknown(s.d)
        return words_of(by_ptx(s.d, f"cvt{mode}{relu}.tf32.f32", s.number(0, "f32")))
    s.expect(2)
    if packing == "AB":
        return words_of(by_ptx(s.d, f"cvt{mode}{relu}.{code}x2.f32", s.number(0, "f32"), s.number(1, "f32")))
    if packing != "C":
        raise unknown(s.d)
    low, old = by_ptx(s.d, f"cvt{mode}{relu}.{code}.f32", s.number(0, "f32")), s.word(1)
    return lambda: (low().astype(np.uint32) | (old() & np.uint32(0xFFFF0000)),)


def _clamped(s: Sources) -> Compute:
    """I2I.TO.FROM.SAT: an integer clamped to the range of a narrower type."""
    target, _, _ = s.choose({m: INTEGERS[m] for m in ("U8", "S8", "U16", "S16")}, {"S32": ""}, {"SAT": ""})
    s.expect(1)
    return _extended(by_ptx(s.d, f"cvt.sat.{target}.s32", _bits(s, "s32")), target)


TABLE: Rules = {
    "I2F": _from_integer, "I2FP": _from_integer, "F2I": _to_integer, "F2F": _between_floats, "FRND": _integral,
    "F2FP": _packed, "I2I": _clamped,
}  # fmt: skip
