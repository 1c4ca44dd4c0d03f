"""Register bank conflicts of multiply-adds, and the operands that ptxas keeps in the reuse cache (``.reuse``).

    FFMA R65, R37.reuse, R43, R67    R37 stays in the reuse cache: the next instruction need not read it again

Registers are in two banks, odd and even. An instruction reads two of each bank at once. If all three operands are in
one bank it takes one more clock, unless the previous instruction kept one of them at the same operand position. ptxas,
not the hardware, assigns registers and decides what is kept. Source: Jia et al., "Dissecting the NVIDIA Volta GPU
Architecture via Microbenchmarking" (2018), section 3.5. A bank of an H200 delivers one register per clock, and what is
kept is lost when the scheduler takes another warp (checks/readings/estimate/reuse_h200.json).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gemm_lessons.engine.sass.operands import Decoded, MachineRegister

REUSE = ".reuse"


def reuse_flags(d: Decoded) -> int:
    """Return the operands that a multiply-add keeps."""
    return d.text.count(REUSE) if d.name == "FFMA" else 0


def conflicts(code: Sequence[Decoded]) -> tuple[int, ...]:
    """Return the clocks that each multiply-add loses; 0 for other instructions."""
    return tuple(max(0, max(banks) - 2) for banks in reads(code))


def reads(code: Sequence[Decoded]) -> tuple[tuple[int, int], ...]:
    """Return the registers of each bank that a multiply-add reads, without those kept; none for other instructions."""
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
        texts = d.text.split(",")[1:]
        for place, (operand, text) in enumerate(zip(d.operands[1:], texts, strict=False)):
            if isinstance(operand, MachineRegister) and operand.file == "R" and operand.number is not None:
                if kept.get(place) != operand.number:
                    banks[operand.number % 2].add(operand.number)
                if REUSE in text:
                    keep[place] = operand.number
        yield len(banks[0]), len(banks[1])
        kept = keep
