"""Parse the text of a machine instruction into typed operands and its guard.

The syntax is that of ``nvdisasm`` ("CUDA Binary Utilities", instruction set reference for Volta to Blackwell).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from gemm_lessons.engine.records.frozen import dataclass
from gemm_lessons.engine.records.regex import regex

if TYPE_CHECKING:
    from gemm_lessons.engine.compiler.sass import SassInstruction


class Uncountable(Exception):
    """The kernel's machine code cannot be followed. The message gives the obstacle."""


@dataclass(frozen=True)
class MachineRegister:
    """``-R4.64``, ``!UP0``, ``RZ``. ``number`` is None for RZ, URZ (always 0) and PT, UPT (always true)."""

    file: str  # "R", "UR", "P", "UP", "B"
    number: int | None
    negated: bool = False  # -R4, or !P0
    inverted: bool = False  # ~R4
    absolute: bool = False
    suffix: str = ""  # "64", "U32", "X4", "H0_H0", "B1" ...

    @property
    def is_predicate(self) -> bool:
        """Return whether it is a predicate."""
        return self.file in ("P", "UP")

    def shifted(self, by: int) -> str:
        """Return the name of the register ``by`` places further; "" for constant registers."""
        return f"{self.file}{self.number + by}" if self.number is not None else ""


class WithoutSign:
    """An operand that has no sign or complement of its own."""

    negated = inverted = absolute = False


@dataclass(frozen=True)
class MachineImmediate(WithoutSign):
    """An integer as 32 bits, or a float literal (``is_float``: ``value``) whose type the instruction decides.

    ``upper``: its upper 32 bits, where an instruction takes 64.
    """

    bits: int
    is_float: bool = False
    value: float = 0.0
    upper: int = 0


@dataclass(frozen=True)
class Constant:
    """``c[0x0][0x210]``, ``c[0x3][R2+0x10]``."""

    bank: int
    offset: int
    index: MachineRegister | None = None
    negated: bool = False
    absolute: bool = False
    inverted: bool = False
    suffix: str = ""  # "H0_H0" ...


@dataclass(frozen=True)
class Memory(WithoutSign):
    """``desc[UR4][R2.64+UR6+0x10]``: the sum of the registers and the offset."""

    registers: tuple[MachineRegister, ...]
    offset: int


@dataclass(frozen=True)
class Target(WithoutSign):
    """A label or function name of a branch."""

    name: str


@dataclass(frozen=True)
class Special(WithoutSign):
    """``SR_TID.X``, or a word that names no register (``PR``)."""

    name: str


Operand = MachineRegister | MachineImmediate | Constant | Memory | Target | Special

_REGISTER = regex(r"(U?[RP])(Z|T|\d+)((?:\.\w+)*)$|(B)(\d+)$")
_CONSTANT = regex(r"cx?\[(0x[0-9a-f]+|UR\d+)\]\[([^\]]*)\]((?:\.\w+)*)$")
# Since compute capability 10: uniform twins of instructions whose rules depend on their operands alone, and new names.
_SAME = {f"U{name}": name for name in "FADD FMUL FFMA FMNMX FSEL FSETP I2F I2FP F2I F2F F2FP FRND VIMNMX IABS".split()}
_SAME |= {"LDCU": "ULDC", "CREDUX": "REDUX"}
_CUT = regex(r"[\[({].*,.*[\])}]")  # there may be a comma inside of brackets
_FLOAT = regex(r"[+-]?(INF|QNAN|SNAN|\d+(\.\d*)?(e[+-]?\d+)?)$", re.IGNORECASE)


def _split(text: str) -> Iterator[str]:
    """Split at top-level commas."""
    if not _CUT.search(text):
        parts = [part.strip() for part in text.split(",")]
        yield from parts if parts[-1] else parts[:-1]
        return
    depth, start = 0, 0
    for position, letter in enumerate(text):
        if letter in "[({":
            depth += 1
        elif letter in "])}":
            depth -= 1
        elif letter == "," and depth == 0:
            yield text[start:position].strip()
            start = position + 1
    if text[start:].strip():
        yield text[start:].strip()


@lru_cache(maxsize=4096)  # a kernel uses the same few hundred operands again and again
def parse_operand(text: str) -> Operand:
    """Parse one operand. An unknown form becomes ``Special``, which is rejected when its value is needed. Raise
    ``Uncountable`` for a constant bank in a register and for unknown addresses."""
    text = text.partition(" `")[0] if not text.startswith("`") else text  # RET names its function after the register
    if text.startswith("`("):
        return Target(text[2:-1])
    if text.startswith(("SR_", "SRZ", "PR")):
        return Special(text)
    if "[" in text and not re.match(r"[-~|]*cx?\[", text):
        return _memory(text[text.rindex("[") + 1 : text.rindex("]")])
    body = text
    negated = body.startswith(("-", "!"))
    inverted = body.startswith("~")
    body = body.removeprefix("-").removeprefix("!").removeprefix("~")
    absolute = body.startswith("|")
    body = re.sub(r"\|(.*)\|", r"\1", body).replace(".reuse", "")
    if match := _REGISTER.match(body):
        if match[4]:
            return MachineRegister("B", int(match[5]))
        number = None if match[2] in "ZT" else int(match[2])
        return MachineRegister(match[1], number, negated, inverted, absolute, match[3].removeprefix("."))
    if match := _CONSTANT.match(body):
        if match[1].startswith("U"):
            raise Uncountable(f"constant bank in a register: {text}")
        terms = [t for t in match[2].split("+") if t]
        offset = sum(int(t, 16) for t in terms if t.startswith(("0x", "-0x")))
        registers = [parse_operand(t) for t in terms if not t.startswith(("0x", "-0x"))]
        index = registers[0] if registers else None
        if len(registers) > 1 or not (index is None or isinstance(index, MachineRegister)):
            raise Uncountable(f"unknown operand {text}")
        return Constant(int(match[1], 16), offset, index, negated, absolute, inverted, match[3].removeprefix("."))
    if re.match(r"0x[0-9a-f]+$", body):
        value = int(body, 16)
        signed = -value if negated else ~value if inverted else value
        return MachineImmediate(signed & 0xFFFFFFFF, upper=signed >> 32 & 0xFFFFFFFF)
    if match := _FLOAT.match(text):
        word = match[1].upper()
        size = float("nan") if "NAN" in word else float(word.lower())
        return MachineImmediate(0, True, -size if text.startswith("-") else size)
    return Special(text)


def _memory(inside: str) -> Memory:
    offset = 0
    registers: list[MachineRegister] = []
    for term in re.findall(r"[+-]?[^+-]+", inside):
        if re.match(r"[+-]?0x", term):
            offset += int(term, 16)
            continue
        operand = parse_operand(term.removeprefix("+"))
        if not isinstance(operand, MachineRegister):
            raise Uncountable(f"unknown address [{inside}]")
        registers.append(operand)
    return Memory(tuple(registers), offset)


@dataclass(frozen=True)
class Decoded:
    """One decoded machine instruction. ``index``: position in the kernel; ``name``: opcode up to the first dot."""

    index: int
    name: str
    modifiers: tuple[str, ...]
    guard: MachineRegister | None
    operands: tuple[Operand, ...]
    source: SassInstruction

    @property
    def text(self) -> str:
        """The text that the disassembler prints."""
        return self.source.text

    def has(self, *modifiers: str) -> bool:
        """Return whether the opcode carries any of these modifiers."""
        return any(m in self.modifiers for m in modifiers)


def unknown_form(d: Decoded) -> Uncountable:
    """Return the exception for an instruction that is known, but not in this form."""
    return Uncountable(f"unknown form {d.text}")


def decode(index: int, instruction: SassInstruction) -> Decoded:
    """Decode an instruction. Raise ``Uncountable`` if the text cannot be parsed."""
    text = instruction.text
    guard: MachineRegister | None = None
    if text.startswith("@"):
        word, text = text.split(None, 1)
        operand = parse_operand(word[1:])
        if not isinstance(operand, MachineRegister):
            raise Uncountable(f"unknown guard {word}")
        guard = operand
    opcode, _, rest = text.partition(" ")
    name, *modifiers = opcode.split(".")
    name = _SAME.get(name, name)
    if name == "BRX":  # a register and an offset, with no comma between
        rest = rest.replace(" -", ", -")
    return Decoded(index, name, tuple(modifiers), guard, tuple(parse_operand(o) for o in _split(rest)), instruction)


def is_taken_as_reading(d: Decoded) -> bool:
    """Return whether the profiler counts the wavefronts of a cp.async past L1 as if all its lanes read. It
    overlooks the predicate P0, whose number in the instruction is 0. Its sectors are right."""
    return "BYPASS" in d.modifiers and d.operands[-1] == MachineRegister("P", 0)


def copy_condition(d: Decoded) -> MachineRegister | None:
    """Return the predicate by which a lane of a cp.async reads or writes zeros; None: reads. Raise ``Uncountable``."""
    last = d.operands[-1]
    if isinstance(last, Memory):
        return None
    if not isinstance(last, MachineRegister) or not last.is_predicate or last is not d.operands[2]:
        raise unknown_form(d)
    return last
