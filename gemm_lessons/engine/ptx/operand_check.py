"""Checks that instructions have the operands that their opcodes take.

PTX from the compiler passes the assembler's check. Other PTX is refused here, by line, so that later steps may rely on
the operands.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from gemm_lessons.engine.ptx.cfg import line_of
from gemm_lessons.engine.ptx.opcodes import row_of
from gemm_lessons.engine.ptx.records import (
    Address,
    Immediate,
    Instruction,
    Kernel,
    Operand,
    PredicatePair,
    Register,
    Symbol,
    Vector,
    places_before,
)
from gemm_lessons.engine.records.errors import UnsupportedKernel
from gemm_lessons.engine.semantics import table as semantics
from gemm_lessons.engine.semantics.operation import DTYPES

_LETTERS = {Register: "r", Immediate: "i", Symbol: "s", Address: "a", Vector: "v", PredicatePair: "p"}


def check(kernel: Kernel) -> Kernel:
    """Return the kernel. Raise ``UnsupportedKernel`` for the first instruction whose operands do not fit."""
    for instruction in kernel.instructions:
        if not _fits(instruction, kernel.registers):
            text = f"unsupported operands: {instruction.full_opcode} in `{instruction.text[:200]}`"
            places = places_before(kernel.instructions[: instruction.index + 1])
            raise UnsupportedKernel(text, line_of(instruction), places)
    return kernel


def _fits(instruction: Instruction, registers: Mapping[str, str]) -> bool:
    if instruction.guard is not None and registers.get(instruction.guard.name) != "pred":
        return False
    operands = instruction.operands
    negated = bool(operands) and isinstance(operands[0], PredicatePair) and operands[0].negated
    kinds = tuple(map(type, operands))
    return _kinds_fit(instruction.opcode, instruction.modifiers, kinds, negated) and _vectors_fit(instruction)


@lru_cache(maxsize=4096)
def _kinds_fit(opcode: str, modifiers: tuple[str, ...], kinds: tuple[type[Operand], ...], negated: bool) -> bool:
    """Return whether the operand kinds fit the opcode. Memoised for instructions that differ in registers only."""
    letters = "".join(_LETTERS[kind] for kind in kinds)
    if (shape := row_of(opcode, modifiers[0] if modifiers else "").shape) is not None:
        return shape.fullmatch(letters) is not None
    if letters[:1] not in ("r", "p"):
        return True  # unsupported or without effect; handled elsewhere
    operation = semantics.lookup(opcode, modifiers, 2 if letters[0] == "p" else 1)
    if operation is None:
        return True
    return not negated and len(letters) - 1 == len(operation.sources) and not {"a", "v"} & set(letters)


def _vectors_fit(instruction: Instruction) -> bool:
    row, modifiers = instruction.row, instruction.modifiers
    if row.shape is None:  # an operation of ``semantics``, which has no vectors
        return True
    vectors = [operand for operand in instruction.operands if isinstance(operand, Vector)]
    if row.effect == "call" or (not vectors and row.vector in ("", "any")):
        return True
    if not all(e is None or isinstance(e, (Register, Immediate)) for v in vectors for e in v.elements):
        return False
    if row.vector in ("v", "x"):
        count = next((int(m[1:]) for m in modifiers if m[:1] == row.vector and m[1:].isdigit()), 1)
        parts = [len(v.elements) for v in vectors]
        return parts == [count] * (count > 1 or row.vector == "x") and _complete(instruction)
    if row.vector == "cut":
        bits = 8 * DTYPES[modifiers[-1]]().itemsize if modifiers and modifiers[-1] in DTYPES else 0
        bits = 128 if modifiers == ("b128",) else bits
        parts = [len(v.elements) for v in vectors]
        cuts = all(it in (2, 4, 8) and bits // it >= 8 for it in parts)
        return bits > 0 and len(vectors) < 2 and cuts and _complete(instruction)
    return row.vector == "any" or not vectors


def _complete(instruction: Instruction) -> bool:
    """Return whether source vectors have no gaps: ``_`` is allowed only in targets."""
    written: tuple[Operand, ...] = instruction.operands[:1] if instruction.row.writes else ()
    read = [o for o in instruction.operands if not any(o is w for w in written)]
    return not any(e is None for o in read if isinstance(o, Vector) for e in o.elements)
