"""PTX text -> frozen records (``Module``, ``Kernel``, ``Instruction``). First step of the simulator; runs nothing.

Only the syntax that NVRTC prints is read: one statement a line or several, ``.loc`` directives for source lines,
``.reg``/``.shared``/``.local``/``.const``/``.global`` declarations, labels, guards, ``{}`` vectors, ``[base+offset]``.
Source of the syntax: NVIDIA, "PTX ISA", release 8.x/9.x, chapters 4 and 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Register:
    """``%r12``, ``%p3``, ``%tid.x``; special registers keep their dotted name."""

    name: str


@dataclass(frozen=True)
class Immediate:
    """An integer (Python int) or the raw bits of a float: ``0f3F800000`` -> bits 0x3F800000, is_float."""

    value: int
    is_float: bool = False


@dataclass(frozen=True)
class Symbol:
    """The address of a variable (``mov.u32 %r1, As``) or a label, plus a byte offset."""

    name: str
    offset: int = 0


@dataclass(frozen=True)
class Address:
    """``[base+offset]``; base is a register, a symbol, or None for an absolute address."""

    base: Register | Symbol | None
    offset: int = 0


@dataclass(frozen=True)
class Vector:
    """``{%f1, %f2}``; ``_`` elements are None."""

    elements: tuple[Operand | None, ...]


@dataclass(frozen=True)
class PredicatePair:
    """``%p1|%p2`` (setp, shfl) or a negated source predicate ``!%p1`` (second None, negated True)."""

    first: Register | None
    second: Register | None = None
    negated: bool = False


Operand = Register | Immediate | Symbol | Address | Vector | PredicatePair


@dataclass(frozen=True)
class SourceLine:
    """Where an instruction comes from. ``inlined_at`` is the call site when the code was inlined."""

    file: str
    line: int
    inlined_at: SourceLine | None = None


@dataclass(frozen=True)
class Instruction:
    """``@!%p1 ld.global.v4.f32 {...}, [%rd1+16];`` -> opcode ``ld``, modifiers ``("global", "v4", "f32")``."""

    index: int
    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Register | None
    guard_negated: bool
    source: SourceLine | None
    text: str

    @property
    def full_opcode(self) -> str:
        return ".".join((self.opcode, *self.modifiers))


@dataclass(frozen=True)
class Variable:
    """A ``.shared``/``.local``/``.const``/``.global`` declaration. ``size`` 0: extern (dynamic) shared memory."""

    name: str
    space: str
    align: int
    size: int
    initial: bytes = b""


@dataclass(frozen=True)
class Parameter:
    """One kernel parameter at byte ``offset`` of the parameter block. ``type`` such as ``u64``, or ``b8`` for structs."""

    name: str
    type: str
    offset: int
    size: int
    align: int


@dataclass(frozen=True)
class Kernel:
    """One ``.entry``: straight list of instructions, labels as indices into it, declared registers and variables."""

    name: str
    parameters: tuple[Parameter, ...]
    instructions: tuple[Instruction, ...]
    labels: Mapping[str, int]
    registers: Mapping[str, str]  # name -> declared type: pred, b16, b32, f32, b64, f64 ...
    variables: tuple[Variable, ...]
    target: str
    branch_targets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # brx.idx tables
