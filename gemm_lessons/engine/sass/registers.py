"""What reading its operands costs a multiply-add: register banks, and what ptxas has them keep (``.reuse``).

    FFMA R65, R37.reuse, R43, R67    R37 stays beside the unit: the next instruction need not read it again there

Registers lie in two banks, odd and even. An instruction reads two of each at once; where all three operands lie in one
bank it takes a clock more, unless one of them was kept by the instruction before, in the same place. Who takes which
register, and what is kept, ptxas decides, not the hardware. Source: Jia et al., "Dissecting the NVIDIA Volta GPU
Architecture via Microbenchmarking" (2018), section 3.5.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gemm_lessons.engine.sass.operands import Decoded, MachineRegister

REUSE = ".reuse"


def reuse_flags(d: Decoded) -> int:
    """Operands that a multiply-add keeps."""
    return d.text.count(REUSE) if d.name == "FFMA" else 0


def conflicts(code: Sequence[Decoded]) -> tuple[int, ...]:
    """Clocks that each multiply-add loses; 0 of other instructions."""
    return tuple(max(0, max(banks) - 2) for banks in reads(code))


def reads(code: Sequence[Decoded]) -> tuple[tuple[int, int], ...]:
    """Registers of each bank that a multiply-add reads, without those that were kept; none of other instructions."""
    return tuple(_reads(code))


def _reads(code: Sequence[Decoded]) -> Iterator[tuple[int, int]]:
    kept: dict[int, int] = {}
    for d in code:
        if d.name != "FFMA":
            kept = {}
            yield 0, 0
            continue
        banks: tuple[set[int], set[int]] = (set(), set())
        keep: dict[int, int] = {}
        texts = re.split(r",\s*", d.text)[1:]
        for place, (operand, text) in enumerate(zip(d.operands[1:], texts, strict=False)):
            if isinstance(operand, MachineRegister) and operand.file == "R" and operand.number is not None:
                if kept.get(place) != operand.number:
                    banks[operand.number % 2].add(operand.number)
                if REUSE in text:
                    keep[place] = operand.number
        yield len(banks[0]), len(banks[1])
        kept = keep
