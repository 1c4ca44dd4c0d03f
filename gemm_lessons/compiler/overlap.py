"""Does arithmetic hide the global loads? Read off the machine code: what stands between a load and its first use.

A load does not stall the thread that issues it; the first instruction that needs the value does. Double buffering is
worth something only if the arithmetic of one tile stands in between, and whether it does is the compiler's last word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gemm_lessons.compiler.sass import SassInstruction

_REGISTER = re.compile(r"\bR(\d+)\b")
_LABEL = re.compile(r"`\((\.L_x_\d+)\)")


def ffma_behind_loads(code: Sequence[SassInstruction]) -> int:
    """The fewest FFMA between a global load and the first instruction that names a register which it fills.

    Over all loads from global memory inside loops, in the order of the machine code, round the innermost loop at most
    once; 0 when no loop loads from global memory.
    """
    counts = [
        _ffma_until_use(code, position, first, last)
        for position, instruction in enumerate(code)
        if instruction.opcode.startswith("LDG")
        for first, last in _innermost_loop(code, position)
    ]
    return min(counts, default=0)


def _innermost_loop(code: Sequence[SassInstruction], position: int) -> Iterator[tuple[int, int]]:
    """First and last position of the smallest loop around ``position``, if there is one."""
    labels = {label: i for i, instruction in enumerate(code) for label in instruction.labels}
    loops = []
    for last, instruction in enumerate(code):
        target = _LABEL.search(instruction.text)
        # A branch to itself is how ptxas pads the end of a kernel, not a loop.
        if target and "BRA" in instruction.opcode and labels.get(target[1], last) < last:
            loops.append((labels[target[1]], last))
    around = [(last - first, first, last) for first, last in loops if first <= position <= last]
    if around:
        yield min(around)[1:]


def _ffma_until_use(code: Sequence[SassInstruction], position: int, first: int, last: int) -> int:
    loaded = _REGISTER.search(code[position].text)
    if loaded is None:
        return 0
    start = int(loaded[1])
    filled = {f"{start + i}" for i in range(max(1, code[position].width // 4))}
    ffma = 0
    for instruction in (*code[position + 1 : last + 1], *code[first:position]):
        if filled & set(_REGISTER.findall(instruction.text)):
            break
        ffma += instruction.opcode.startswith("FFMA")
    return ffma
