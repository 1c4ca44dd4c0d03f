"""Decide the branch in divisions of float64 from dividend and divisor, without computing the quotient.

ptxas computes a quotient by a dozen multiply-adds and then tests whether it is accurate (``FSETP.GT |quotient|,
2**-1022``, on upper halves); if not, it calls a subroutine. In most kernels only this branch depends on the quotient,
and where both numbers are far from the ends of the range the outcome is known. So the comparison reads dividend and
divisor. If the outcome is unknown, ``Undecided`` is raised, and the launch is counted again with every step computed.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np

from gemm_lessons.engine.records.arrays import Array
from gemm_lessons.engine.sass.flow import Listing, results
from gemm_lessons.engine.sass.operand_fetch import Compute, Sources
from gemm_lessons.engine.sass.operands import Decoded, MachineImmediate, MachineRegister, Operand, Uncountable, decode

DECIDED = "DIVISION"  # replaces the modifiers of a comparison that reads dividend and divisor
KEPT_ABOVE = 1.469367938527859385e-39  # the float32 with the bits of the upper half of 2**-1022
# Biased exponents of float64 between which no step of a division over- or underflows and the quotient is normal.
LEAST, MOST = 1023 - 400, 1023 + 400
# Labels of functions that ptxas adds, and of those that finish a division, reciprocal or square root of float32.
FUNCTION, SLOW_PATHS = "$__internal", ("div_rn_noftz_f32_slowpath", "rcp_rn_f32_slowpath", "sqrt_rn_f32_slowpath")
SIZE = np.uint64((1 << 63) - 1)
FRACTION_BITS = np.uint64(52)
JUMPS = frozenset("BRA BRX JMP EXIT RET CALL BSYNC BREAK BAR WARPSYNC KILL".split())


class Undecided(Uncountable):
    """The magnitudes of dividend and divisor do not decide whether a division takes its slow path."""


def shortened(program: Listing) -> Listing:
    """Return the code in which the comparisons of divisions read dividend and divisor, if the code shows both."""
    if not any(d.name == "MUFU" and d.has("RCP64H") for d in program.code):
        return program
    code = list(program.code)
    values = _Values()
    for d in program.code:
        if d.source.labels or (d.index and program.code[d.index - 1].name in JUMPS):
            values = _Values()
        pair = values.division(d)
        if pair is not None:
            code[d.index] = replace(d, modifiers=(DECIDED,), operands=(*d.operands[:2], *pair))
        values.step(d)
    return Listing(tuple(code), program.labels)


def _is_slow(label: str) -> bool:
    return any(name in label for name in SLOW_PATHS)


def may_be_slow(code: Sequence[Decoded]) -> bool:
    """Return whether the code has a division, reciprocal or square root of float32 with a slow path."""
    return any(d.name == "CALL" and _is_slow(d.text) for d in code)


def without_slow_paths(program: Listing) -> Listing:
    """Return the code whose divisions, reciprocals and square roots of float32 never take their slow path: FCHK is
    false, a branch around the call is always taken, and the function is empty."""
    code = list(program.code)
    functions = sorted({index for name, index in program.labels.items() if name.startswith(FUNCTION)})
    slow = [index for name, index in program.labels.items() if _is_slow(name)]
    ends = [next((other for other in functions if other > first), len(code)) for first in slow]
    around = {_branch_before(code, d.index) for d in code if d.name == "CALL" and _is_slow(d.text)}
    for d in program.code:
        if d.name == "FCHK":
            opcode = "ISETP.NE.AND"
            text = d.text.replace(d.source.opcode, opcode).partition(",")[0] + ", PT, RZ, RZ, PT"
        elif d.index in around:
            opcode, text = d.source.opcode, d.text.partition(" ")[2]
        elif any(first <= d.index < end for first, end in zip(slow, ends, strict=True)):
            opcode = text = "EXIT"
        else:
            continue
        code[d.index] = decode(d.index, replace(d.source, opcode=opcode, text=text))
    return Listing(tuple(code), program.labels)


def _branch_before(code: Sequence[Decoded], call: int) -> int:
    """Return the branch around a call of a slow path: the last one before it, with a guard."""
    found = next(index for index in range(call - 1, -1, -1) if code[index].name in JUMPS)
    if code[found].name != "BRA" or code[found].guard is None or not code[found].text.startswith("@"):
        raise Uncountable(f"no branch around {code[call].text}")
    return found


def decide(s: Sources) -> Compute:
    """Return whether the quotient is kept: yes far from the range's ends, no for 0 / x. Raise ``Undecided``."""
    dividend, divisor = s.pair(0), s.pair(1)

    def compute() -> tuple[Array, Array]:
        a, b = dividend() & SIZE, divisor() & SIZE
        zero = a == 0
        known = (_ordinary(a) | zero) & _ordinary(b)
        if not known.all() and (~known & s.reader.present()).any():
            raise Undecided("a division near the ends of the range of double")
        return ~zero, zero

    return compute


def _ordinary(bits: Array) -> Array:
    exponent = bits >> FRACTION_BITS
    return (exponent >= LEAST) & (exponent <= MOST)


class _Values:
    """Value numbering of straight-line code: registers with equal numbers hold equal values."""

    def __init__(self) -> None:
        self._held: dict[str, int] = {}
        self._numbers: dict[Hashable, int] = {}
        self._expressions: list[Hashable] = []

    def _number(self, expression: Hashable) -> int:
        number = self._numbers.setdefault(expression, len(self._numbers))
        if number == len(self._expressions):
            self._expressions.append(expression)
        return number

    def _word(self, name: str) -> int:
        return self._held[name] if name in self._held else self._number(("before", name))

    def _pair(self, register: MachineRegister) -> int:
        low, high = (self._expressions[self._word(register.shifted(i))] for i in (0, 1))
        if isinstance(low, tuple) and high == ("high", low[1]) and low[0] == "low":
            return int(low[1])
        return self._number(("pair", low, high))

    def _double(self, operand: Operand) -> tuple[int, bool] | None:
        """Return a source of a double instruction: its value, and whether it is negated."""
        if isinstance(operand, MachineImmediate) and operand.is_float:
            return self._number(("literal", operand.value)), False
        if not isinstance(operand, MachineRegister) or operand.number is None or operand.absolute or operand.inverted:
            return None
        return self._pair(operand), operand.negated

    def step(self, d: Decoded) -> None:
        """Process an instruction."""
        made = self._made(d) if d.guard is None else None
        try:
            names = results(d)[0]
        except Uncountable:  # its results are unknown
            self._held = {}
            self._numbers, self._expressions = {("past", d.index): 0}, [("past", d.index)]
            return
        for place, name in enumerate(names):
            if made is None:
                held: Hashable = ("made", d.index, place)
            else:
                held = ("low" if place == 0 else "high", made) if len(names) == 2 else self._expressions[made]
            if name:
                self._held[name] = self._number(held)

    def _made(self, d: Decoded) -> int | None:
        """Return the value of an instruction that belongs to a division, else None."""
        plain = [o for o in d.operands if isinstance(o, MachineRegister)]
        if d.name == "MUFU" and d.modifiers == ("RCP64H",) and len(plain) == 2 and not _signed(plain[1]):
            return self._number(("seed", self._word(plain[1].shifted(0))))
        if d.name == "FFMA" and not d.modifiers and len(plain) == 4 and not any(map(_signed, plain)):
            zero, divisor, quotient = plain[1:]
            if zero.number is None:
                return self._number(("kept", self._word(divisor.shifted(0)), self._word(quotient.shifted(0))))
        if d.modifiers or d.name not in ("DFMA", "DMUL"):
            return None
        sources = [self._double(operand) for operand in d.operands[1:]]
        known = [source for source in sources if source is not None]
        if len(known) < len(sources):
            return None
        (a, minus_a), (b, minus_b), *rest = known
        return self._number((d.name, minus_a != minus_b, *sorted((a, b)), *rest))

    def division(self, d: Decoded) -> tuple[Operand, Operand] | None:
        """Return the registers of dividend and divisor if ``d`` tests whether their quotient is kept."""
        if d.name != "FSETP" or d.modifiers != ("GT", "AND") or d.guard is not None or len(d.operands) != 5:
            return None
        size, limit, also = d.operands[2:]
        if not isinstance(size, MachineRegister) or not size.absolute or size.negated or size.inverted:
            return None
        if not isinstance(limit, MachineImmediate) or not limit.is_float or limit.value != KEPT_ABOVE:
            return None
        if not isinstance(also, MachineRegister) or also.number is not None or also.negated:
            return None
        return self._operands_of(self._expressions[self._word(size.shifted(0))])

    def _operands_of(self, kept: Hashable) -> tuple[Operand, Operand] | None:
        if not isinstance(kept, tuple) or kept[0] != "kept":
            return None
        pairs = [
            MachineRegister(file, number, suffix="64")
            for file, number in {(name.rstrip("0123456789"), int(name.lstrip("RU"))) for name in self._doubles()}
        ]
        quotient = self._expressions[kept[2]]
        if not isinstance(quotient, tuple) or quotient[0] != "high":
            return None
        for divisor in pairs:
            if self._word(divisor.shifted(1)) == kept[1]:
                for dividend in pairs:
                    if self._number(self._quotient(dividend, divisor, kept[1])) == quotient[1]:
                        return dividend, divisor
        return None

    def _doubles(self) -> set[str]:
        """Return the even registers written or read here: they may be the low half of a double."""
        names = {*self._held, *(e[1] for e in self._expressions if isinstance(e, tuple) and e[0] == "before")}
        return {name for name in names if name.startswith(("R", "UR")) and int(name.lstrip("RU")) % 2 == 0}

    def _quotient(self, dividend: MachineRegister, divisor: MachineRegister, upper: int) -> Hashable:
        """Return the expression that ptxas computes for dividend / divisor, while the two registers hold them."""
        a, b, one = self._pair(dividend), self._pair(divisor), (self._number(("literal", 1.0)), False)
        seed = self._number(("seed", upper))
        pairs = [e for e in self._expressions if isinstance(e, tuple) and e[0] == "pair"]
        starts = [e for e in pairs if self._numbers.get(e[2], -1) == seed]
        for start in starts:
            x = self._number(start)
            e = self._fma(b, x, one, minus=True)
            x = self._fma(x, self._fma(e, e, (e, False)), (x, False))
            x = self._fma(x, self._fma(b, x, one, minus=True), (x, False))
            q = self._number(("DMUL", False, *sorted((x, a))))
            rest = self._fma(b, q, (a, False), minus=True)
            found = ("DFMA", False, *sorted((x, rest)), (q, False))
            if found in self._numbers:
                return found
        return ("none",)

    def _fma(self, a: int, b: int, c: tuple[int, bool], minus: bool = False) -> int:
        return self._number(("DFMA", minus, *sorted((a, b)), c))


def _signed(register: MachineRegister) -> bool:
    return register.negated or register.absolute or register.inverted
