"""PTX as frozen records: ``Module``, ``Kernel``, ``Instruction``, operands. ``parser.py`` reads them from text.

Source of the syntax: NVIDIA, "PTX ISA", release 8.x/9.x, chapters 4 and 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import cache, cached_property

from gemm_lessons.engine.ptx.opcodes import Opcode, row_of
from gemm_lessons.engine.records.errors import UnsupportedKernel
from gemm_lessons.engine.records.frozen import dataclass


@dataclass(frozen=True)
class Register:
    """``%r12``, ``%p3``, ``%tid.x``; special registers keep their dotted name."""

    name: str


@dataclass(frozen=True)
class Immediate:
    """An integer (Python int) or the raw bits of a float: ``0f3F800000`` -> bits 0x3F800000, is_float.

    ``is_double``: the 64 bits of ``0d3FF0000000000000`` or of a decimal, which an instruction on float32 rounds.
    """

    value: int
    is_float: bool = False
    is_double: bool = False


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


# Special registers that change while a kernel runs.
CLOCKS = frozenset("%clock %clock_hi %clock64 %globaltimer %globaltimer_lo %globaltimer_hi".split())

Operand = Register | Immediate | Symbol | Address | Vector | PredicatePair


def elements_of(operand: Operand) -> tuple[Operand | None, ...]:
    """Return the elements of a vector, or the operand itself as the only element."""
    return operand.elements if isinstance(operand, Vector) else (operand,)


@dataclass(frozen=True)
class SourceLine:
    """The source line of an instruction. ``inlined_at`` is the call site if the code was inlined.

    ``header``: the CUDA header whose function the line calls, if the instruction belongs to that function.
    """

    file: str
    line: int
    inlined_at: SourceLine | None = None
    header: str = field(default="", compare=False)

    @property
    def places(self) -> list[tuple[str, int]]:
        """Return the file and line of the code, then of each call that it was inlined at, innermost first."""
        outer = self.inlined_at.places if self.inlined_at else []
        return [(self.file, self.line), *outer] if self.line else outer


def _mentioned(operand: Operand) -> frozenset[str]:
    """Return the registers that an operand names. The result is memoised, because equal operands share one object."""
    known: frozenset[str] | None = operand.__dict__.get("_mentioned")
    if known is None:
        known = operand.__dict__["_mentioned"] = frozenset(registers_in(operand))
    return known


def registers_in(operand: Operand | None) -> Iterator[str]:
    """Yield the names of the registers in an operand."""
    if isinstance(operand, Register):
        yield operand.name
    elif isinstance(operand, Address):
        yield from registers_in(operand.base)
    elif isinstance(operand, Vector):
        for element in operand.elements:
            yield from registers_in(element)
    elif isinstance(operand, PredicatePair):
        yield from registers_in(operand.first)
        yield from registers_in(operand.second)


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

    @cached_property
    def row(self) -> Opcode:
        """Return the opcode's row of ``opcodes.py``."""
        return row_of(self.opcode, self.modifiers[0] if self.modifiers else "")

    def numbered(self, index: int) -> Instruction:
        """Return the instruction at another place in its kernel."""
        return Instruction(
            index, self.opcode, self.modifiers, self.operands, self.guard, self.guard_negated, self.source, self.text
        )

    @property
    def full_opcode(self) -> str:
        """Return the opcode with its modifiers, such as ``ld.global.v4.f32``."""
        return ".".join((self.opcode, *self.modifiers)).replace("__", "::")

    @property
    def mentioned(self) -> tuple[frozenset[str], ...]:
        """Return the registers that each operand names, memoised in the operand."""
        return tuple([_mentioned(operand) for operand in self.operands])


def places_before(instructions: Sequence[Instruction]) -> list[tuple[str, int]]:
    """Return the source lines of the last instruction, innermost first, then those of the instructions before it: the
    compiler names only one call site of code that was inlined more than once."""
    return [place for i in reversed(instructions) if i.source for place in i.source.places]


@dataclass(frozen=True)
class Variable:
    """A ``.shared``/``.local``/``.const``/``.global`` declaration. ``size`` 0: extern (dynamic) shared memory.

    ``type`` such as ``f32``; ``b8`` for arrays and structs.
    """

    name: str
    space: str
    align: int
    size: int
    initial: bytes = b""
    type: str = "b8"
    pointers: tuple[AddressOf, ...] = ()
    problem: str = ""  # why it cannot be used; only kernels that name it are refused


@dataclass(frozen=True)
class AddressOf:
    """A variable's address in another's initial value: ``size`` bytes at ``offset``, from its byte ``shift`` on."""

    offset: int
    symbol: str
    addend: int
    size: int
    shift: int = 0


@dataclass(frozen=True)
class KernelParameter:
    """One parameter at byte ``offset`` of the parameter block. ``type`` such as ``u64``; ``b8`` for structs."""

    name: str
    type: str
    offset: int
    size: int
    align: int


@dataclass(frozen=True)
class Kernel:
    """An ``.entry`` or ``.func``: instructions, labels as indices of instructions, declared registers and variables."""

    name: str
    parameters: tuple[KernelParameter, ...]
    instructions: tuple[Instruction, ...]
    labels: Mapping[str, int]
    registers: Mapping[str, str]  # name -> declared type: pred, b16, b32, f32, b64, f64 ...
    variables: tuple[Variable, ...]
    target: str
    branch_targets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # brx.idx tables
    directives: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)  # launch bounds: maxntid, reqntid ...
    by_warps: bool = False  # the compiler chooses which lane of a warp accesses which byte (``wmma``)

    def called_in(self, instruction: Instruction) -> tuple[str, int] | None:
        """Return the line of the kernel's body that calls the function that the instruction was inlined from, and in
        front of it its file if that is another one, else "". None for an instruction of the body itself, lambdas
        included."""
        places = instruction.source.places if instruction.source else []
        if len(places) < 2:
            return None
        (file, line), (outer, calling) = places[0], places[-1]
        return None if file == outer and self.has_line(file, line) else ("" if file == outer else outer, calling)

    def has_line(self, file: str, line: int) -> bool:
        """Return whether a line belongs to the kernel itself, lambdas included."""
        return line in self._body.get(file, ())

    @cached_property
    def _body(self) -> Mapping[str, range]:
        """Return file -> the range of the kernel's own lines, which include its call sites."""
        found: dict[str, range] = {}
        for it in self.instructions:
            for file, line in (it.source.places if it.source else [])[-1:]:
                known = found.get(file, range(line, line + 1))
                found[file] = range(min(known.start, line), max(known.stop, line + 1))
        return found


@dataclass(frozen=True)
class Module:
    """All kernels and device functions of one PTX file and its module-level variables.

    A function is a ``Kernel`` whose parameters are the returned ones followed by the passed ones.
    """

    kernels: Mapping[str, Kernel]
    functions: Mapping[str, Kernel]
    variables: tuple[Variable, ...]
    target: str
    parameters: Mapping[str, tuple[KernelParameter, ...]]  # of kernels and functions, known without parsing them


class PtxSyntaxError(UnsupportedKernel):
    """The PTX has a form that this parser does not read. The message names the statement."""


SIZES: Mapping[str, int] = {
    "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4, "s32": 4,
    "f32": 4, "f16x2": 4, "bf16x2": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16,
}  # fmt: skip


@cache
def register_width(declared: str) -> int | str:
    """Return the width in bits of a declared register type, or "pred"."""
    if declared == "pred":
        return "pred"
    return max(16, 8 * SIZES[declared])  # an 8-bit register is the low half of a 16-bit one
