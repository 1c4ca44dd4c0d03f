"""What the conversions and the common float32 instructions compute: only for kernels whose control depends on them.

Integer division goes through ``MUFU.RCP``, an approximation on hardware; ptxas' sequence corrects its last bits, so the
rounded reciprocal used here leads to the same quotient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gemm_lessons.simulator.machinecode.integers import JOIN, Array, Compute, Fetch, Sources, Values
from gemm_lessons.simulator.machinecode.operands import Immediate
from gemm_lessons.simulator.machinecode.uncountable import Uncountable


def _single(s: Sources, position: int) -> Fetch:
    """A source as float32. Literals of float instructions are float32 already."""
    fetch = s.word(position)
    return lambda: fetch().view(np.float32)


def _bits(value: Array) -> Values:
    return (np.ascontiguousarray(value, dtype=np.float32).view(np.uint32),)


def _add(s: Sources) -> Compute:
    a, b = _single(s, 0), _single(s, 1)
    return lambda: _bits(a() + b())


def _multiply(s: Sources) -> Compute:
    a, b = _single(s, 0), _single(s, 1)
    return lambda: _bits(a() * b())


def _fused(s: Sources) -> Compute:
    a, b, c = _single(s, 0), _single(s, 1), _single(s, 2)
    return lambda: _bits((a().astype(np.float64) * b() + c()).astype(np.float32))


def _extreme(s: Sources) -> Compute:
    a, b, smaller = _single(s, 0), _single(s, 1), s.predicates[-1]
    return lambda: _bits(np.where(smaller(), np.fmin(a(), b()), np.fmax(a(), b())))


def _select(s: Sources) -> Compute:
    a, b, condition = s.word(0), s.word(1), s.predicates[-1]
    return lambda: (np.where(condition(), a(), b()),)


_ORDERED: Mapping[str, Callable[[Array, Array], Array]] = {
    "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal, "EQ": np.equal,
    "NE": lambda a, b: (a < b) | (a > b),
}  # fmt: skip


def _compare(s: Sources) -> Compute:
    name = s.d.modifiers[0]
    join = JOIN[next((m for m in s.d.modifiers if m in JOIN), "AND")]
    a, b, other = _single(s, 0), _single(s, 1), s.predicates[0]
    unordered = name.endswith("U") and name != "U" and name[:-1] in _ORDERED
    base = name[:-1] if unordered else name
    if base not in _ORDERED and name not in ("NUM", "NAN"):
        raise Uncountable(f"unknown instruction {s.d.text}")

    def compute() -> Values:
        x, y = a(), b()
        nan = np.isnan(x) | np.isnan(y)
        truth = nan if name == "NAN" else ~nan if name == "NUM" else _ORDERED[base](x, y)
        truth = truth | nan if unordered else truth
        return join(truth, other()), join(~truth, other())

    return compute


_FUNCTIONS: Mapping[str, Callable[[Array], Array]] = {
    "RCP": lambda x: np.float32(1) / x, "RSQ": lambda x: np.float32(1) / np.sqrt(x), "SQRT": np.sqrt,
    "EX2": np.exp2, "LG2": np.log2, "SIN": np.sin, "COS": np.cos, "TANH": np.tanh,
}  # fmt: skip


def _function(s: Sources) -> Compute:
    name = s.d.modifiers[0]
    if name not in _FUNCTIONS:
        raise Uncountable(f"unknown instruction {s.d.text}")
    a = _single(s, 0)
    return lambda: _bits(_FUNCTIONS[name](a()))


def _from_integer(s: Sources) -> Compute:
    d = s.d
    if d.has("F64", "F16", "U8", "S8", "U16", "S16", "BF16"):
        raise Uncountable(f"unknown instruction {d.text}")
    wide = d.has("U64", "S64")
    a = s.pair(0) if wide else s.word(0)
    signed: type[np.signedinteger[Any]] = np.int64 if wide else np.int32
    unsigned = d.has("U32", "U64")

    def compute() -> Values:
        exact = (a() if unsigned else a().view(signed)).astype(np.longdouble)
        near = exact.astype(np.float32)
        if d.has("RP"):
            near = np.where(near < exact, np.nextafter(near, np.float32(np.inf)), near)
        elif d.has("RM"):
            near = np.where(near > exact, np.nextafter(near, np.float32(-np.inf)), near)
        elif d.has("RZ"):
            near = np.where(np.abs(near) > np.abs(exact), np.nextafter(near, np.float32(0)), near)
        return _bits(near)

    return compute


def _to_integer(s: Sources) -> Compute:
    d = s.d
    if d.has("F64", "S64", "F16"):
        raise Uncountable(f"unknown instruction {d.text}")
    a = _single(s, 0)
    rounding = next((f for name, f in _ROUNDING.items() if d.has(name)), np.rint)
    low, high = (0, 2**32 - 1) if d.has("U32") else (-(2**31), 2**31 - 1)

    def compute() -> Values:
        value = rounding(a().astype(np.float64))
        if d.has("U64"):
            pair = np.clip(np.nan_to_num(value, nan=0.0), 0, 1.8446744073709550e19).astype(np.uint64)
            return pair.astype(np.uint32), (pair >> np.uint64(32)).astype(np.uint32)
        return (np.clip(np.nan_to_num(value, nan=0.0), low, high).astype(np.int64).astype(np.uint32),)

    return compute


_ROUNDING: Mapping[str, Callable[[Array], Array]] = {"TRUNC": np.trunc, "FLOOR": np.floor, "CEIL": np.ceil}


def _division_check(s: Sources) -> Compute:
    """FCHK: does a division need its slow path? Only known where both numbers are far from the ends of the range."""
    a, b = s.word(0), s.word(1)

    def compute() -> Values:
        exponents = [(value() >> np.uint32(23)) & np.uint32(255) for value in (a, b)]
        for exponent, zero_allowed in zip(exponents, (True, False), strict=True):
            usual = (exponent >= 64) & (exponent <= 190)
            if not (usual | (zero_allowed & (exponent == 0))).all():
                raise Uncountable("a division near the ends of the range of float")
        return (np.zeros(1, np.bool_),)

    return compute


def _half_constant(s: Sources) -> Compute:
    """HFMA2 of zeros and two literals: how ptxas writes a constant on the half-precision pipe."""
    operands = [source.operand for source in s.words]
    literals = operands[2:]
    if len(operands) != 4 or not all(isinstance(o, Immediate) for o in literals):
        raise Uncountable(f"unknown form {s.d.text}")
    if any(getattr(o, "number", 0) is not None for o in operands[:2]):
        raise Uncountable(f"unknown form {s.d.text}")
    high, low = (
        int(np.float16(o.value if o.is_float else 0.0).view(np.uint16)) for o in literals if isinstance(o, Immediate)
    )
    value = np.array([high << 16 | low], np.uint32)
    return lambda: (value,)


TABLE: Mapping[str, Callable[[Sources], Compute]] = {
    "FADD": _add, "FMUL": _multiply, "FFMA": _fused, "FMNMX": _extreme, "FSEL": _select, "FSETP": _compare,
    "MUFU": _function, "I2F": _from_integer, "I2FP": _from_integer, "F2I": _to_integer, "FCHK": _division_check,
    "HFMA2": _half_constant,
}  # fmt: skip
