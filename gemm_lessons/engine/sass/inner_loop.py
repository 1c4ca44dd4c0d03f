"""Register-file reads of the multiply-adds of an inner loop, from the machine code.

``three`` and ``bank`` are percent of the loop's multiply-adds: those that read three registers, and those that read
exactly two, both in one bank; an operand that the previous instruction kept (``.reuse``) is not read again. ``other``:
other instructions per 100 multiply-adds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gemm_lessons.engine.compiler.sass import SassInstruction
from gemm_lessons.engine.sass import registers
from gemm_lessons.engine.sass.operands import decode

THREE, BANK, OTHER = "three", "bank", "other"


def inner_loops(lines: Sequence[SassInstruction]) -> list[tuple[int, int]]:
    """Return the loops that contain no other one, each as its first instruction and the one after its last."""
    at = {label: number for number, one in enumerate(lines) for label in one.labels}
    loops: list[tuple[int, int]] = []
    for number, one in enumerate(lines):
        target = re.search(r"\.L_x_\d+", one.text) if one.opcode.startswith("BRA") else None
        if target and at.get(target[0], number) < number:
            loops.append((at[target[0]], number + 1))
    return [(a, b) for a, b in loops if not any(a <= c and d <= b and (a, b) != (c, d) for c, d in loops)]


def reads(lines: Sequence[SassInstruction]) -> dict[str, float]:
    """Return the three numbers of the innermost loop with most multiply-adds; without a loop, of the whole kernel."""
    code = [decode(number, one) for number, one in enumerate(lines)]
    inner = [code[a:b] for a, b in inner_loops(lines)]
    best = max(inner, key=lambda body: sum(it.name == "FFMA" for it in body), default=code)
    banks = [
        registers_read for one, registers_read in zip(best, registers.reads(best), strict=True) if one.name == "FFMA"
    ]
    three, bank = sum(sum(it) == 3 for it in banks), sum(sorted(it) == [0, 2] for it in banks)
    share = 100 / max(1, len(banks))
    found = {THREE: three * share, BANK: bank * share, OTHER: (len(best) - len(banks)) * share}
    return {name: round(value, 1) for name, value in found.items()}
