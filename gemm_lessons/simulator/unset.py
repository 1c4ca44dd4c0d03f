"""Registers that are read before anything was written into them: a variable of the source without a first value.

Two steps. ``suspects`` reads off the code which registers some path from the kernel's start reaches unwritten; in most
kernels none is, and nothing below costs anything. Of suspects the machine tracks lane by lane what has been written,
since paths that the code allows are often taken by nobody (``if (inside) v = ...; if (inside) use(v);``). A plain move
hands the question on: it is the compiler's, where two paths meet.

What an unset register holds is not defined. Here every batch of blocks starts with all its bits set, as memory does
(``memory.POISON``), so that the result does not depend on what an earlier batch left there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemm_lessons.device import Finding
from gemm_lessons.simulator.cfg import Block, line_of, reads, registers_in, writes
from gemm_lessons.simulator.decode import Op, Run, both
from gemm_lessons.simulator.ptx import Instruction, Kernel, Register
from gemm_lessons.simulator.schedule import Single, Step
from gemm_lessons.simulator.state import State

Array = NDArray[Any]

HANDLED = frozenset({"bar", "barrier", "call"})


def suspects(kernel: Kernel, blocks: Sequence[Block]) -> frozenset[str]:
    """Registers that may hold nothing yet when they are read or moved. Those that barriers and calls deal with are left
    out: what they write and what they read is not told apart here."""
    declared = frozenset(kernel.registers)
    handled = {n for i in kernel.instructions if i.opcode in HANDLED for o in i.operands for n in registers_in(o)}
    successors = [[*([b.fallthrough] if b.fallthrough is not None else []), *b.targets] for b in blocks]
    known: list[frozenset[str] | None] = [None] * len(blocks)  # set on every path to the block's start
    known[0] = frozenset()
    found: dict[int, set[str]] = {}
    work = [0]
    while work:
        number = work.pop()
        after = set(known[number] or ())
        found[number] = set()
        for instruction in blocks[number].instructions:
            read = reads(instruction) & declared
            found[number] |= read - after
            source = _moved(instruction)
            if source in declared and source not in after:
                after -= writes(instruction)
                found[number] |= writes(instruction) & declared
            elif instruction.guard is None:
                after |= writes(instruction)
        for successor in successors[number]:
            before = known[successor]
            meet = frozenset(after) if before is None else before & after
            if meet != before:
                known[successor] = meet
                work.append(successor)
    return frozenset().union(*found.values()) - handled


def _moved(instruction: Instruction) -> str | None:
    """The register that a plain move copies."""
    if instruction.opcode != "mov" or len(instruction.operands) != 2 or instruction.guard is not None:
        return None
    source = instruction.operands[1]
    return source.name if isinstance(source, Register) and isinstance(instruction.operands[0], Register) else None


class Unset:
    """Follows the suspects of one launch."""

    def __init__(self, state: State, suspected: frozenset[str]) -> None:
        self._state = state
        self._set = {name: np.zeros(state.lanes, np.bool_) for name in sorted(suspected) if name in state.rows}
        self._found: dict[int, tuple[Instruction, str, int]] = {}  # by instruction: one thread, and how many

    def begin(self) -> None:
        """Fresh blocks: nothing is set."""
        for name, is_set in self._set.items():
            is_set[:] = False
            width, row = self._state.rows[name]
            lanes = self._state.files[width][row]
            lanes[:] = False if width == "pred" else np.iinfo(lanes.dtype).max

    def around(self, step: Step, operations: list[Op]) -> list[Op]:
        """The operations of a step, with what has to be looked at before and noted after it."""
        if not self._set:
            return operations
        instructions = (step.instruction,) if isinstance(step, Single) else step.instructions
        before = [both(look) for instruction in instructions for look in self._looks(instruction)]
        after = [both(note) for instruction in instructions for note in self._notes(instruction)]
        return [*before, *operations, *after]

    def findings(self) -> list[Finding]:
        """One warning for each line that read what nobody had set."""
        by_line: dict[tuple[int | None, str], Finding] = {}
        for instruction, thread, count in self._found.values():
            line, file = line_of(instruction), instruction.source.file if instruction.source else ""
            if (line, file) in by_line:
                continue
            place = f"line {line}" if line else "an unknown line"
            text = (
                f"{place} reads a variable that {thread} has not given a value: it holds whatever its register held"
                " before"
            )
            by_line[line, file] = Finding("unset", "warning", text, line, count=count, file=file)
        return list(by_line.values())

    def _looks(self, instruction: Instruction) -> Iterator[Run]:
        names = sorted(reads(instruction) & self._set.keys())
        if not names or _moved(instruction) is not None:
            return
        tracked = [self._set[name] for name in names]

        def look() -> None:
            blank = ~np.logical_and.reduce(tracked)
            if not blank.any():
                return
            blank &= self._lanes(instruction)
            count = int(np.count_nonzero(blank))
            if count:
                _, thread, before = self._found.get(
                    instruction.index, (instruction, self._state.describe(int(blank.argmax())), 0)
                )
                self._found[instruction.index] = instruction, thread, before + count

        yield look

    def _notes(self, instruction: Instruction) -> Iterator[Run]:
        source = _moved(instruction)
        for name in sorted(writes(instruction) & self._set.keys()):
            target, origin = self._set[name], self._set.get(source or "")

            def note(target: Array = target, origin: Array | None = origin) -> None:
                lanes = self._lanes(instruction)
                np.copyto(target, True if origin is None else origin, where=lanes)

            yield note

    def _lanes(self, instruction: Instruction) -> Array:
        """Lanes that execute an instruction now."""
        state = self._state
        active = state.alive if state.active is None else state.active
        if instruction.guard is None:
            return active
        lanes: Array = active & (state.row(instruction.guard.name, "pred") != instruction.guard_negated)
        return lanes
