"""Find the instructions whose inputs depend on values that machine code is not followed for.

These values are the sums of tensor cores, and what ldmatrix loads. Stored data and guards may depend on them without
consequence for any address or branch.
"""

from __future__ import annotations

from gemm_lessons.engine.sass.flow import MATRIX, Listing, mask, reads, results, stored
from gemm_lessons.engine.sass.operands import Decoded


class UnknownValues:
    """Registers that may hold an unknown value before each instruction."""

    def __init__(self, program: Listing) -> None:
        self._bits: dict[str, int] = {}
        code, after = program.code, program.after
        written = [mask(self._bits, results(d)[0]) for d in code]
        read = [mask(self._bits, reads(d)) for d in code]
        self._before = [0] * len(code)
        todo = [d.index for d in code if is_unknown(d)]
        while todo:
            index = todo.pop()
            state, d = self._before[index], code[index]
            if is_unknown(d) or read[index] & state:
                state |= written[index]
            elif d.guard is None:
                state &= ~written[index]
            for successor in after[index]:
                if state & ~self._before[successor]:
                    self._before[successor] |= state
                    todo.append(successor)

    def guards(self, d: Decoded) -> bool:
        """Return whether an unknown value decides if ``d`` is executed."""
        return d.guard is not None and bool(self._before[d.index] & mask(self._bits, [d.guard.shifted(0)]))

    def is_stored(self, d: Decoded) -> bool:
        """Return whether the store ``d`` may store an unknown value."""
        return d.name == "STSM" or bool(self._before[d.index] & mask(self._bits, stored(d)))


def is_unknown(d: Decoded) -> bool:
    """Return whether the result of ``d`` is not computed from machine code."""
    return d.name in MATRIX or d.name == "LDSM"
