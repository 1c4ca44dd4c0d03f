"""Comparison and selection of PTX: setp, set, selp, slct, testp.

Plain float comparisons are false when either side is NaN; those ending in ``u`` are true.
Source: NVIDIA, "PTX ISA" 9.0, 9.7.6 and 9.7.7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gemm_lessons.engine.semantics import floats
from gemm_lessons.engine.semantics.operation import DTYPES, Array, Function, Operation, Plain, Table, in_halves

Compare = Callable[[Array, Array, Any], Any]  # ufunc-like: (a, b, out)
Combine = Callable[..., Any]  # of the result and a predicate


def _inverted(ufunc: Callable[..., Any]) -> Compare:
    def compare(a: Array, b: Array, out: Array | None = None) -> Array:
        result: Array = np.logical_not(ufunc(a, b), out)
        return result

    return compare


def _either(first: Callable[..., Any], second: Callable[..., Any]) -> Compare:
    def compare(a: Array, b: Array, out: Array | None = None) -> Array:
        result: Array = np.logical_or(first(a, b), second(a, b), out)
        return result

    return compare


def _unordered(a: Array, b: Array, out: Array | None = None) -> Array:
    return np.logical_or(np.isnan(a), np.isnan(b), out)


INTEGER: dict[str, Compare] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
UNSIGNED: dict[str, Compare] = {"lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal}
FLOAT: dict[str, Compare] = {
    **INTEGER,
    "ne": _either(np.less, np.greater),
    "equ": _inverted(_either(np.less, np.greater)),
    "neu": np.not_equal,
    "ltu": _inverted(np.greater_equal),
    "leu": _inverted(np.greater),
    "gtu": _inverted(np.less_equal),
    "geu": _inverted(np.less),
    "num": _inverted(_unordered),
    "nan": _unordered,
}
COMBINE: dict[str, Combine] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def _flushed(compare: Compare) -> Compare:
    def function(a: Array, b: Array, out: Array | None = None) -> Array:
        result: Array = compare(floats.flush(a), floats.flush(b), out)
        return result

    return function


def _of_bf16(compare: Compare) -> Compare:
    def function(a: Array, b: Array, out: Array | None = None) -> Array:
        result: Array = compare(floats.widen_bf16(a), floats.widen_bf16(b), out)
        return result

    return function


def comparisons() -> dict[str, tuple[str, Compare]]:
    """Return the type code and comparison of ``lt.ftz.f32`` and similar names. A combining operation comes between."""
    found: dict[str, tuple[str, Compare]] = {}
    for code in ("b16", "b32", "b64"):
        found |= {f"{name}.{code}": (code, INTEGER[name]) for name in ("eq", "ne")}
    for code in ("u16", "u32", "u64"):
        found |= {f"{name}.{code}": (code, compare) for name, compare in (INTEGER | UNSIGNED).items()}
    for code in ("s16", "s32", "s64"):
        found |= {f"{name}.{code}": (code, compare) for name, compare in INTEGER.items()}
    for name, compare in FLOAT.items():
        for code in ("f16", "f32", "f64"):
            found[f"{name}.{code}"] = (code, compare)
        for code in ("f16", "f32"):
            found[f"{name}.ftz.{code}"] = (code, _flushed(compare))
        found[f"{name}.bf16"] = ("bf16", _of_bf16(compare))
    return found


# ---- setp ----


def _setp(compare: Compare, combine: Callable[..., Any] | None) -> Function:
    if combine is None and isinstance(compare, np.ufunc):
        return Plain(compare)
    if combine is None:

        def plain(out: Array, a: Array, b: Array) -> None:
            compare(a, b, out)

        return plain

    def combined(out: Array, a: Array, b: Array, c: Array) -> None:
        combine(compare(a, b, None), c, out)

    return combined


def _setp_pair(compare: Compare, combine: Callable[..., Any] | None) -> Function:
    """Return the form with two destinations: the comparison and its negation, each combined with ``c``."""

    def function(p: Array, q: Array, a: Array, b: Array, *c: Array) -> None:
        met = compare(a, b, None)
        opposite = np.logical_not(met)
        if combine is not None:
            met, opposite = combine(met, c[0]), combine(opposite, c[0])
        np.copyto(p, met)
        np.copyto(q, opposite)

    return function


def _setp_halves(compare: Compare, dtype: Any, combine: Callable[..., Any] | None) -> Function:
    """Return the form for packed pairs: the first destination compares the low halves, the second the high ones."""

    def function(p: Array, q: Array, a: Array, b: Array, *c: Array) -> None:
        x, y = (np.ascontiguousarray(np.broadcast_to(s, p.shape)).view(dtype) for s in (a, b))
        met = compare(x, y, None).reshape(-1, 2)
        for out, half in ((p, met[:, 0]), (q, met[:, 1])):
            np.copyto(out, half if combine is None else combine(half, c[0]))

    return function


# ---- set ----


def _set(compare: Compare, combine: Callable[..., Any] | None, result: str) -> Function:
    true = {"u32": 0xFFFFFFFF, "s32": -1, "f32": 1.0, "f16": 1.0, "bf16": 0x3F80, "u16": 0xFFFF, "s16": -1}[result]
    yes = DTYPES[result](true)
    no = DTYPES[result](0)

    def function(out: Array, a: Array, b: Array, *c: Array) -> None:
        met = compare(a, b, None)
        np.copyto(out, np.where(met if combine is None else combine(met, c[0]), yes, no))

    return function


# ---- selection ----


def _slct(ftz: bool) -> Function:
    """Return a function that selects ``a`` where ``c >= 0``, so -0.0 selects a and NaN selects b."""

    def function(out: Array, a: Array, b: Array, c: Array) -> None:
        np.copyto(out, np.where(np.greater_equal(floats.flush(c) if ftz else c, 0), a, b))

    return function


def _testp(test: str, dtype: Any) -> Function:
    smallest = floats.SMALLEST_NORMAL[np.dtype(dtype)]
    tests: dict[str, Callable[[Array], Any]] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda a: ~np.isnan(a),
        "notanumber": np.isnan,
        "normal": lambda a: np.isfinite(a) & ((np.abs(a) >= smallest) | (a == 0)),  # zero is normal, also on hardware
        "subnormal": lambda a: (np.abs(a) < smallest) & (a != 0),
    }
    chosen = tests[test]

    def function(out: Array, a: Array) -> None:
        np.copyto(out, chosen(a))

    return function


def _combined() -> Iterator[tuple[str, str, str, str, Compare, Combine | None]]:
    """Yield every comparison, alone and combined with a predicate: the parts of its name, its type, its functions."""
    for name, (code, compare) in comparisons().items():
        operator, rest = name.split(".", 1)
        yield operator, "", rest, code, compare, None
        for combination, combine in COMBINE.items():
            yield operator, f".{combination}", rest, code, compare, combine


def table() -> Table:
    """Return every setp with one destination, every selection and test, by full name."""
    entries: Table = {}
    for operator, middle, rest, code, compare, combine in _combined():
        sources = (code, code, "pred") if combine else (code, code)
        entries[f"setp.{operator}{middle}.{rest}"] = Operation(("pred",), sources, _setp(compare, combine))
    for code in ("b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"):
        entries[f"selp.{code}"] = Operation(
            (code,), (code, code, "pred"), lambda out, a, b, p: np.copyto(out, np.where(p, a, b))
        )
        entries[f"slct.{code}.s32"] = Operation((code,), (code, code, "s32"), _slct(False))
        entries[f"slct.{code}.f32"] = Operation((code,), (code, code, "f32"), _slct(False))
        entries[f"slct.ftz.{code}.f32"] = Operation((code,), (code, code, "f32"), _slct(True))
    for test in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
        for code in ("f32", "f64"):
            entries[f"testp.{test}.{code}"] = Operation(("pred",), (code,), _testp(test, DTYPES[code]))
    return entries


def sets() -> Table:
    """Return every set by full name. It has more forms than all other instructions, and compilers seldom emit it."""
    entries: Table = {}
    for operator, middle, rest, code, compare, combine in _combined():
        sources = (code, code, "pred") if combine else (code, code)
        results = [code, "u16", "s16"] if code in ("f16", "bf16") else ["f32"]
        results += ["u32", "s32"]
        for result in results:
            full = f"set.{operator}{middle}.{rest.removesuffix(code)}{result}.{code}"
            entries[full] = Operation((result,), sources, _set(compare, combine, result))
        if code in ("f16", "bf16") and not combine:
            packed, raw = code + "x2", DTYPES[code]
            prefix = f"set.{operator}.{rest.removesuffix(code)}"
            entries[f"{prefix}{packed}.{packed}"] = Operation(
                (packed,), (packed, packed), in_halves(_set(compare, None, code), raw)
            )
            # Masks of the packed form have all ones or all zeros in each half.
            for result, half in (("u32", "u16"), ("s32", "s16")):
                mask = in_halves(_set(compare, None, half), raw, DTYPES[half])
                entries[f"{prefix}{result}.{packed}"] = Operation((result,), (packed, packed), mask)
    return entries


def pairs() -> Table:
    """Return the forms of setp with two destinations ``p|q``, under the same names."""
    entries: Table = {}
    for operator, middle, rest, code, compare, combine in _combined():
        more = ("pred",) if combine else ()
        if code not in ("f16", "bf16"):
            operation = Operation(("pred", "pred"), (code, code, *more), _setp_pair(compare, combine))
            entries[f"setp.{operator}{middle}.{rest}"] = operation
        if code in ("f16", "bf16"):
            packed = code + "x2"
            function = _setp_halves(compare, DTYPES[code], combine)
            full = f"setp.{operator}{middle}.{rest}x2"
            entries[full] = Operation(("pred", "pred"), (packed, packed, *more), function)
    return entries
