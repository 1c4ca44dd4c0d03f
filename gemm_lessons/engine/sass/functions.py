"""MUFU: functions of the special function unit. Their values are Hopper's (``semantics/special_functions.py``)."""

from __future__ import annotations

import numpy as np

from gemm_lessons.engine.sass.operand_fetch import HALF, Compute, Fetch, Rules, Sources, by_ptx, unknown
from gemm_lessons.engine.sass.operands import MachineImmediate, Operand
from gemm_lessons.engine.semantics import special_functions

HALVES = {"EX2": {"F16": "ex2.approx.f16", "BF16": "ex2.approx.ftz.bf16"},
          "TANH": {"F16": "tanh.approx.f16", "BF16": "tanh.approx.bf16"}}  # fmt: skip
PTX = {
    "RCP": "rcp.approx.ftz.f32", "RSQ": "rsqrt.approx.ftz.f32", "SQRT": "sqrt.approx.ftz.f32",
    "EX2": "ex2.approx.ftz.f32", "LG2": "lg2.approx.ftz.f32", "TANH": "tanh.approx.f32",
}  # fmt: skip
UPPER = {"RCP64H": "rcp.approx.ftz.f64", "RSQ64H": "rsqrt.approx.ftz.f64"}


def _function(s: Sources) -> Compute:
    d = s.d
    s.expect(1)
    name, *half = d.modifiers
    if len(half) > 1 or (half and half[0] not in HALVES.get(name, {})):
        raise unknown(d)
    if half:
        value = by_ptx(d, HALVES[name][half[0]], s.number(0, half[0].lower(), suffix=True))
    elif name in UPPER:
        value = _upper(s, UPPER[name])
    elif name in ("SIN", "COS"):
        value = _of_turns(s, quadrants=int(name == "COS"))
    elif name in PTX:
        value = by_ptx(d, PTX[name], s.number(0, "f32"))
    else:
        raise unknown(d)
    return lambda: (value().astype(np.uint32, copy=False),)


def _upper(s: Sources, ptx: str) -> Fetch:
    """Return the upper half of a float64's reciprocal or reciprocal square root, from its upper half."""
    literal = _upper_of_literal(s.words[0])
    word = s.number(0, "f32") if literal is None else literal  # the sign bit is that of a float32
    function = by_ptx(s.d, ptx, lambda: word().astype(np.uint64) << HALF)
    return lambda: (function() >> HALF).astype(np.uint32)


def _upper_of_literal(operand: Operand) -> Fetch | None:
    """Return the upper half of a float64 that is written out: MUFU.RCP64H R3, 180. None for other operands."""
    if not isinstance(operand, MachineImmediate) or not operand.is_float:
        return None
    upper = (np.array([operand.value]).view(np.uint64) >> HALF).astype(np.uint32)
    return lambda: upper


def _of_turns(s: Sources, quadrants: int) -> Fetch:
    """Return sine or cosine of an angle in turns, to which ptxas has converted it."""
    fetch = s.number(0, "f32")
    return lambda: special_functions.sine_of_turns(np.atleast_1d(fetch()).view(np.float32), quadrants).view(np.uint32)


TABLE: Rules = {"MUFU": _function}
