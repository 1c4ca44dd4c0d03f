"""MUFU: functions that the hardware approximates. Their last bits are known for Hopper alone; their error is bounded.

A result that depends on such a value is certain only if it is the same for every value within the bound. So a launch
that uses one for an address or a branch is counted again with all values shifted up or down, and must give the same
counts (``sass.count``). Division passes this test: ptxas corrects the last bits of the quotient.
"""

from __future__ import annotations

import numpy as np

from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.sass.flow import Listing, results
from gemm_lessons.engine.sass.operand_fetch import HALF, Compute, Fetch, Rules, Sources, by_ptx, unknown
from gemm_lessons.engine.sass.operands import MachineImmediate, MachineRegister, Operand
from gemm_lessons.engine.semantics import special_functions

# Errors of these functions: units in the last place, and absolute.
REACH: dict[str, tuple[int, float]] = {
    "RCP": (1, 0.0), "RSQ": (1, 0.0), "SQRT": (1, 0.0), "EX2": (2, 0.0), "LG2": (1, 1e-6), "SIN": (0, 5e-7),
    "COS": (0, 5e-7), "TANH": (0, 1e-5), "RCP64H": (1, 0.0), "RSQ64H": (1, 0.0),
}  # fmt: skip
HALVES = {"EX2": {"F16": "ex2.approx.f16", "BF16": "ex2.approx.ftz.bf16"},
          "TANH": {"F16": "tanh.approx.f16", "BF16": "tanh.approx.bf16"}}  # fmt: skip
PTX = {
    "RCP": "rcp.approx.ftz.f32", "RSQ": "rsqrt.approx.ftz.f32", "SQRT": "sqrt.approx.ftz.f32",
    "EX2": "ex2.approx.ftz.f32", "LG2": "lg2.approx.ftz.f32", "TANH": "tanh.approx.f32",
}  # fmt: skip


def division_seeds(program: Listing) -> frozenset[int]:
    """Return the reciprocals of integer divisions: ptxas rounds them up, truncates the quotient and corrects it."""
    found = set()
    for d in program.code:
        if d.name == "MUFU" and d.modifiers == ("RCP",) and isinstance(d.operands[1], MachineRegister):
            source = d.operands[1].shifted(0)
            before = next((e for e in reversed(program.code[: d.index]) if source in results(e)[0]), None)
            if before is not None and before.name == "I2F" and before.has("RP"):
                found.add(d.index)
    return frozenset(found)


def _function(s: Sources) -> Compute:
    d, approximation = s.d, s.reader.approximation
    s.expect(1)
    name, *half = d.modifiers
    if name not in REACH or len(half) > 1 or (half and half[0] not in HALVES.get(name, {})):
        raise unknown(d)
    if half:
        code = half[0].lower()
        value = by_ptx(d, HALVES[name][half[0]], s.number(0, code, suffix=True))
        name = half[0]
    elif name.endswith("64H"):
        value = _upper(s, name)
    elif name in ("SIN", "COS"):
        value = _of_turns(s, quadrants=int(name == "COS"))
    else:
        value = by_ptx(d, PTX[name], s.number(0, "f32"))
    exempt = d.index in approximation.exempt

    def compute() -> tuple[Array, ...]:
        bits = value()
        if exempt:
            return (bits,)
        approximation.used = True
        bits = _shifted(bits, name, approximation.shift) if approximation.shift else bits
        return (bits.astype(np.uint32, copy=False),)

    return compute


def _upper(s: Sources, name: str) -> Fetch:
    """Return the upper half of a float64's reciprocal or reciprocal square root, from its upper half."""
    literal = _upper_of_literal(s.words[0])
    word = s.number(0, "f32") if literal is None else literal  # the sign bit is that of a float32
    ptx = {"RCP64H": "rcp.approx.ftz.f64", "RSQ64H": "rsqrt.approx.ftz.f64"}[name]
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


FORMATS = {"F16": (10, 0x1F), "BF16": (7, 0xFF), "RCP64H": (20, 0x7FF), "RSQ64H": (20, 0x7FF)}  # fraction, exponent


def _shifted(bits: Array, name: str, shift: int) -> Array:
    """Shift each normal value by its error bound. Its bits decide the direction, so that neighbours move apart."""
    steps, absolute = REACH.get(name, (1, 0.0))
    fraction, top = FORMATS.get(name, (23, 0xFF))
    kind = bits.dtype.type
    way = np.where(bits.astype(np.uint32) * np.uint32(0x9E3779B1) >> np.uint32(31), shift, -shift)
    exponent = bits >> kind(fraction) & kind(top)
    moved = (bits.astype(np.int64) + way * steps).astype(kind)
    if absolute:
        value = bits.view(np.float32)
        further = (value + np.float32(absolute) * way).astype(np.float32)
        moved = np.where(np.abs(moved.view(np.float32) - value) < absolute, further.view(np.uint32), moved)
        return np.where(exponent == top, bits, moved)
    return np.where((exponent == 0) | (exponent == top), bits, moved)


TABLE: Rules = {"MUFU": _function}
