"""PTX text -> frozen records (``Module``, ``Kernel``, ``Instruction``). First step of the simulator; runs nothing.

What NVRTC prints and what inline assembly adds: one statement a line or several, ``.loc`` directives for source lines,
``.reg``/``.shared``/``.local``/``.const``/``.global`` declarations, labels, guards, ``{}`` vectors, ``[base+offset]``.
Names belong to the braces that they are declared in: those of inner braces get the scope's number, ``t@3``. Text in
comments and strings is taken out first (``lexer.py``).
Source of the syntax: NVIDIA, "PTX ISA", release 8.x/9.x, chapters 4 and 5.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cache, cached_property, lru_cache, partial
from typing import TypeVar

from gemm_lessons.compiler.toolkit import is_toolkit_header
from gemm_lessons.errors import UnsupportedKernel
from gemm_lessons.frozen import dataclass
from gemm_lessons.simulator.program.lexer import plain
from gemm_lessons.simulator.program.opcodes import Opcode, row_of


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


Operand = Register | Immediate | Symbol | Address | Vector | PredicatePair


@dataclass(frozen=True)
class SourceLine:
    """Where an instruction comes from. ``inlined_at`` is the call site when the code was inlined."""

    file: str
    line: int
    inlined_at: SourceLine | None = None

    @property
    def places(self) -> list[tuple[str, int]]:
        """Files and lines that code was inlined from, innermost first."""
        outer = self.inlined_at.places if self.inlined_at else []
        return [(self.file, self.line), *outer] if self.line else outer


def _mentioned(operand: Operand) -> frozenset[str]:
    """The registers that an operand names. It keeps them: what is written alike is one object for many instructions."""
    known: frozenset[str] | None = operand.__dict__.get("_mentioned")
    if known is None:
        known = operand.__dict__["_mentioned"] = frozenset(registers_in(operand))
    return known


def registers_in(operand: Operand | None) -> Iterator[str]:
    """Names of the registers that an operand mentions."""
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
        """Everything that is known of the opcode."""
        return row_of(self.opcode, self.modifiers[0] if self.modifiers else "")

    @property
    def full_opcode(self) -> str:
        """``ld.global.v4.f32``."""
        return ".".join((self.opcode, *self.modifiers))

    @cached_property
    def mentioned(self) -> tuple[frozenset[str], ...]:
        """The registers that each operand names; found once, every analysis of a kernel asks for them."""
        return tuple([_mentioned(operand) for operand in self.operands])


def places_before(instructions: Sequence[Instruction]) -> list[tuple[str, int]]:
    """Where the last of the instructions comes from, innermost first, and then where those before it do: the compiler
    names only one call site of code that was inlined more than once."""
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
    problem: str = ""  # why it cannot be used; only a kernel that names it is refused


@dataclass(frozen=True)
class AddressOf:
    """Bytes of a variable's initial value that are the address of another: ``size`` bytes at ``offset``, which are
    those of the address from byte ``shift`` on."""

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
    """One ``.entry``: straight list of instructions, labels as indices into it, declared registers and variables."""

    name: str
    parameters: tuple[KernelParameter, ...]
    instructions: tuple[Instruction, ...]
    labels: Mapping[str, int]
    registers: Mapping[str, str]  # name -> declared type: pred, b16, b32, f32, b64, f64 ...
    variables: tuple[Variable, ...]
    target: str
    branch_targets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # brx.idx tables
    directives: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)  # shapes: maxntid, reqntid ...
    by_warps: bool = False  # which lane of a warp touches which of its bytes is up to the compiler (``wmma``)


@dataclass(frozen=True)
class Module:
    """All kernels and device functions of one PTX file and its module-level variables.

    A function is a ``Kernel`` whose parameters are the returned ones followed by the passed ones.
    """

    kernels: Mapping[str, Kernel]
    functions: Mapping[str, Kernel]
    variables: tuple[Variable, ...]
    target: str
    parameters: Mapping[str, tuple[KernelParameter, ...]]  # of both, for whoever does not ask what they do


class PtxSyntaxError(UnsupportedKernel):
    """The PTX is not of the form that this parser reads; names the statement."""


SIZES: Mapping[str, int] = {
    "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4, "s32": 4,
    "f32": 4, "f16x2": 4, "bf16x2": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16,
}  # fmt: skip

MOST_REGISTERS = 1 << 20  # of one declaration
MOST_BYTES = {"global": 1 << 30, "const": 1 << 30, "shared": 1 << 20, "local": 1 << 20}  # of one variable
MOST_ALIGNMENT = 1 << 20
MOST_PARAMETER_BYTES = 32764  # "CUDA C++ Programming Guide", kernel parameters since CUDA 12.1

_FILE = re.compile(r'\.file\s+(\d+)\s+"(\d+)"')
_SECTION = re.compile(r"\.section\s+[\w.$]+\s*\{")
_LOC = re.compile(
    r"\.loc\s+(\d+)\s+(\d+)\s+\d+"
    r"(?:\s*,\s*function_name\s+[\w$.]+(?:\s*\+\s*\d+)?\s*,\s*inlined_at\s+(\d+)\s+(\d+)\s+\d+)?"
)
_BLANK = re.compile(r"\s+")
_LABEL = re.compile(r"(%?[\w$]+)\s*:(?!:)")
_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*\(([^)]*)\)([^{]*)\{", re.S)
_FUNCTION = re.compile(r"\.func\s+(?:\(([^)]*)\)\s*)?([\w$]+)\s*\(([^)]*)\)[^;{]*([;{])", re.S)
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)(?:\s+\.ptr\b[^,]*?)?\s+([\w$]+)(?:\[(\d+)\])?\s*(?:,|$)", re.S
)
_VARIABLE = re.compile(
    r"(?:\.(?:visible|extern|weak|common)\s+)*\.(shared|local|const|global)\s+(?:\.attribute\([^)]*\)\s*)?"
    r"(?:\.align\s+(\d+)\s+)?(?:\.(v[24])\s+)?\.(\w+)\s+([\w$]+)((?:\[\d*\])*)\s*(?:=\s*(.*))?$",
    re.S,
)
_SHAPE = re.compile(r"\.(maxntid|reqntid|reqnctapercluster)\s+(\d+(?:\s*,\s*\d+){0,2})")
_POINTER = re.compile(
    r"(?:(0[xX][fF0]+)\s*\()?\s*(?:generic\s*\(\s*)?([A-Za-z_$][\w$]*)\s*(?:([+-])\s*(\w+))?\s*\)*\s*"
    r"(?:([+-])\s*(\w+))?\s*\)?$"
)
_REGISTER = re.compile(r"\.reg\s*\.(\w+)\s+(.*)$", re.S)
_NUMBERED = re.compile(r"(%?[\w$]+)<(\d+)>$")
_GUARD = re.compile(r"@\s*(!?)\s*(%?[\w$]+)\s+")
_ADDRESS = re.compile(r"\[\s*([%\w$.@]+)\s*(?:([+-])\s*(-?\w+))?\s*\]$")
_SINGLE = re.compile(r"0[fF][0-9a-fA-F]{8}$")
_DOUBLE = re.compile(r"0[dD][0-9a-fA-F]{16}$")
_CUT = re.compile(r"\[[^\]]*,")  # a comma between brackets
_NUMBER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?$")
_DECIMAL = re.compile(r"-?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?$")
_SYMBOL = re.compile(r"([A-Za-z_$][\w$]*)\s*(?:([+-])\s*(\w+))?$")
_NAME = re.compile(r"[%\w$][\w$.]*")


@lru_cache(maxsize=8)
def parse(text: str) -> Module:
    """Read a whole PTX file. Raises ``PtxSyntaxError`` on a statement that it does not know how to read."""
    text, strings = plain(text)
    files = {number: strings[int(name)] for number, name in _FILE.findall(text)}
    text = _without_sections(text)
    target = re.search(r"\.target\s+(\w+)", text)
    name_of_target = target.group(1) if target else ""
    readers: tuple[dict[str, Callable[[], Kernel]], dict[str, Callable[[], Kernel]]] = {}, {}
    heads: dict[str, Callable[[], tuple[KernelParameter, ...]]] = {}
    outside: list[str] = []
    position = 0
    entries = [(m, m[1], m[2], m[3], readers[0]) for m in _ENTRY.finditer(text)]
    defined = [(m, m[2], f"{m[1] or ''},{m[3]}", "", readers[1]) for m in _FUNCTION.finditer(text) if m[4] == "{"]
    for match, name, parameters, between, table in sorted([*entries, *defined], key=lambda item: item[0].start()):
        outside.append(text[position : match.start()])
        position = _closing_brace(text, match.end())
        body = text[match.end() : position - 1]
        heads[name] = partial(_parameters, parameters)
        table[name] = partial(_read, body, files, name, parameters, between, name_of_target)
    outside.append(text[position:])
    variables = tuple(v for chunk in outside for v in _module_variables(chunk))
    return Module(_Lazily(readers[0]), _Lazily(readers[1]), variables, name_of_target, _Lazily(heads))


def _read(body: str, files: Mapping[str, str], name: str, parameters: str, between: str, target: str) -> Kernel:
    kernel = _Body(body, files).kernel(name, _parameters(parameters), target)
    return replace(kernel, directives=dict(_directives(between)))


Part = TypeVar("Part")


class _Lazily(Mapping[str, Part]):
    """Kernels by name, each read when it is asked for: what one of them holds never hinders another."""

    def __init__(self, readers: Mapping[str, Callable[[], Part]]) -> None:
        self._readers = readers
        self._known: dict[str, Part] = {}

    def __getitem__(self, name: str) -> Part:
        if name not in self._known:
            self._known[name] = self._readers[name]()
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)


def _without_sections(text: str) -> str:
    """``text`` without debugging information, which is data."""
    while match := _SECTION.search(text):
        text = text[: match.start()] + text[_closing_brace(text, match.end()) :]
    return text


def _closing_brace(text: str, position: int) -> int:
    depth = 1
    for match in re.compile(r"[{}]").finditer(text, position):
        depth += 1 if match.group() == "{" else -1
        if depth == 0:
            return match.end()
    raise PtxSyntaxError("a kernel body is not closed")


def _directives(text: str) -> Iterator[tuple[str, tuple[int, int, int]]]:
    """``.maxntid 256, 1, 1`` and its kin, between a kernel's head and its body."""
    for name, numbers in _SHAPE.findall(text):
        x, y, z = [*map(int, numbers.split(",")), 1, 1][:3]
        yield name, (x, y, z)


def _module_variables(chunk: str) -> Iterator[Variable]:
    for statement in chunk.split(";"):
        match = re.search(r"(?:\.(?:visible|extern|weak|common)\s+)*\.(?:shared|const|global)\s.*$", statement, re.S)
        if match is None:
            continue
        text = match.group().strip()
        try:
            yield _variable(text)
        except PtxSyntaxError as error:
            declared = text.partition("=")[0].partition("[")[0].split()
            yield Variable(declared[-1], declared[0].lstrip("."), 1, 0, problem=str(error))


def _variable(statement: str) -> Variable:
    match = _VARIABLE.match(statement)
    if match is None or match[4] not in SIZES:
        raise PtxSyntaxError(f"declaration not understood: {statement[:100]}")
    space, align, vector, kind, name, dimensions, initial = match.groups()
    element = SIZES[kind]
    size = element * (int(vector[1]) if vector else 1)
    for dimension in re.findall(r"\[(\d*)\]", dimensions):
        size *= int(dimension or 0)
    if size > MOST_BYTES[space] or int(align or 1) not in range(1, MOST_ALIGNMENT + 1):
        raise PtxSyntaxError(f"{name} has {size:,} bytes{f' at {align}' if align else ''}, more than can be held")
    data, pointers = _initial(initial, element) if initial else (b"", ())
    if len(data) > size:
        raise PtxSyntaxError(f"more values than the variable holds: {statement[:100]}")
    return Variable(name, space, int(align or element), size, data, kind, pointers)


def _initial(text: str, element: int) -> tuple[bytes, tuple[AddressOf, ...]]:
    """The bytes of ``{1, 2}`` or ``7``, and which of them are addresses: ``generic(a)+4``, ``0xFF00(generic(a))``."""
    data = b""
    pointers: list[AddressOf] = []
    for item in _split(re.sub(r"[{}]", " ", text)):
        if match := _POINTER.match(item):
            mask = int(match[1], 16) if match[1] else (1 << 8 * element) - 1
            addend = _signed(match[3] or match[5], match[4] or match[6])
            shift = ((mask & -mask).bit_length() - 1) // 8
            size = (mask.bit_length() + 7) // 8 - shift
            if size > element:
                raise PtxSyntaxError(f"initial value not understood: {item[:100]}")
            pointers.append(AddressOf(len(data), match[2], addend, size, shift))
            data += bytes(element)
            continue
        value = _parse_operand(item)
        if not isinstance(value, Immediate):
            raise PtxSyntaxError(f"initial value not understood: {item[:100]}")
        data += (value.value & (1 << 8 * element) - 1).to_bytes(element, "little")
    return data, tuple(pointers)


def _parameters(text: str) -> tuple[KernelParameter, ...]:
    result: list[KernelParameter] = []
    offset = 0
    found = _PARAMETER.findall(text.strip(" \n\t,"))
    if len(found) != text.count(".param") or any(
        kind not in SIZES or int(align or 1) not in range(1, MOST_ALIGNMENT + 1) for align, kind, _, _ in found
    ):
        raise PtxSyntaxError(f"parameters not understood: {' '.join(text.split())[:200]}")
    for align_text, kind, name, count in found:
        size = SIZES[kind] * int(count or 1)
        if size > MOST_PARAMETER_BYTES:
            raise PtxSyntaxError(f"parameter {name} has {size:,} bytes, more than a launch can pass")
        align = int(align_text or SIZES[kind])
        offset = -(-offset // align) * align
        result.append(KernelParameter(name, kind, offset, size, align))
        offset += size
    return tuple(result)


class _Scope:
    """The names declared between one pair of braces: what is written in the text -> its name in the ``Kernel``."""

    def __init__(self, number: int, outer: _Scope | None) -> None:
        self.number = number
        self.outer = outer
        self.registers: dict[str, str] = {}
        self.symbols: dict[str, str] = {}  # labels, variables, parameters of calls

    def unique(self, name: str) -> str:
        """The name of a symbol of this scope among all of the kernel's."""
        return f"{name}@{self.number}" if self.outer is not None else name

    def declare(self, registers: list[str]) -> list[str]:
        """Enter registers of one declaration and give their names in the kernel, which tell them from symbols."""
        bare = self.outer is None and all(register.startswith("%") for register in registers[:1])
        names = registers if bare else [f"{register}@{self.number}" for register in registers]
        self.registers.update(zip(registers, names, strict=True))
        return names

    def register(self, name: str) -> str | None:
        """The register that ``name`` means here."""
        if name in self.registers:
            return self.registers[name]
        return self.outer.register(name) if self.outer is not None and name not in self.symbols else None

    def symbol(self, name: str) -> str:
        """The symbol that ``name`` means here; unchanged when it is of the module."""
        if name in self.symbols:
            return self.symbols[name]
        return self.outer.symbol(name) if self.outer is not None else name


class _Body:
    """Reads one kernel body, statement by statement."""

    def __init__(self, text: str, files: Mapping[str, str]) -> None:
        self.text = text
        self.inlined: dict[tuple[str, int], SourceLine] = {}  # what was inlined, by the place it came from
        self.files = files
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.registers: dict[str, str] = {}
        self.variables: list[Variable] = []
        self.branch_targets: dict[str, tuple[str, ...]] = {}
        self.scope = self.root = _Scope(0, None)
        self.plain_names = True  # registers mean what is written
        self.scopes = 1
        self.inner: list[tuple[int, _Scope]] = []  # instructions (positions) inside of inner braces
        self.tables: list[tuple[str, Sequence[str], _Scope]] = []  # of brx.idx: name, labels as written

    def kernel(self, name: str, parameters: tuple[KernelParameter, ...], target: str) -> Kernel:
        source: SourceLine | None = None
        text, position = self.text, 0
        pending_label = ""
        while position < len(text):
            character = text[position]
            if blank := _BLANK.match(text, position):
                position = blank.end()
            elif text.startswith((".loc ", ".loc\t"), position):
                match = _LOC.match(text, position)
                if match is None:
                    raise PtxSyntaxError(f".loc not understood: {text[position : position + 80]}")
                source = self._source(match)
                position = match.end()
            elif character == "{":
                self.scope = _Scope(self.scopes, self.scope)
                self.scopes += 1
                position += 1
            elif character == "}":
                if self.scope.outer is None:
                    raise PtxSyntaxError("a brace is closed that was not opened")
                self.scope = self.scope.outer
                position += 1
            elif label := _LABEL.match(text, position):
                pending_label = self.scope.symbols[label.group(1)] = self.scope.unique(label.group(1))
                self.labels[pending_label] = len(self.instructions)
                position = label.end()
            else:
                end = text.find(";", position)
                if end < 0:
                    raise PtxSyntaxError(f"statement not closed: {text[position : position + 80]}")
                statement = " ".join(text[position:end].split())
                try:
                    self._statement(statement, source, pending_label)
                except PtxSyntaxError as error:
                    places = [*(source.places if source else ()), *places_before(self.instructions)]
                    line = places[0][1] if places else None
                    raise PtxSyntaxError(f"{error}, in `{statement[:200]}`", line, places) from error
                position = end + 1
        self._resolve_symbols()
        return Kernel(
            name, parameters, tuple(self.instructions), self.labels, self.registers, tuple(self.variables), target,
            self.branch_targets,
        )  # fmt: skip

    def _source(self, match: re.Match[str]) -> SourceLine:
        file, line, outer_file, outer_line = match.groups()
        outer = SourceLine(self.files.get(outer_file, ""), int(outer_line)) if outer_file else None
        if outer is not None:  # the call site may have been inlined itself: then it was named last before
            outer = self.inlined.get((outer.file, outer.line), outer)
        source = SourceLine(self.files.get(file, ""), int(line), outer)
        if outer is not None:
            place = source.file, source.line
            source = outer if is_toolkit_header(source.file) else source
            self.inlined[place] = source
        return source

    def _statement(self, statement: str, source: SourceLine | None, label: str) -> None:
        if not statement:
            return
        if statement[0] != ".":
            self._instruction(statement, source)
        elif statement.startswith(".reg"):
            self._declare(statement)
        elif statement.startswith(".branchtargets"):
            self.tables.append((label, [x.strip() for x in statement.split(None, 1)[1].split(",")], self.scope))
        elif statement.startswith(".param"):  # the values of a call: ``inline.py``
            name = re.split(r"\[", statement)[0].split()[-1]
            self.scope.symbols[name] = self.scope.unique(name)
        elif statement.startswith((".pragma", ".callprototype", ".calltargets")):
            return
        else:
            variable = _variable(statement)
            unique = self.scope.symbols[variable.name] = self.scope.unique(variable.name)
            self.variables.append(replace(variable, name=unique))

    def _declare(self, statement: str) -> None:
        match = _REGISTER.match(statement)
        if match is None or match[1] not in (*SIZES, "pred"):
            raise PtxSyntaxError(f"register declaration not understood: {statement[:100]}")
        kind, names = match.groups()
        for item in names.split(","):
            numbered = _NUMBERED.match(item.strip())
            if numbered and int(numbered[2]) > MOST_REGISTERS:
                raise PtxSyntaxError(f"more registers than anybody needs: {statement[:100]}")
            written = [f"{numbered[1]}{i}" for i in range(int(numbered[2]))] if numbered else [item.strip()]
            unique = self.scope.declare(written)
            self.registers.update(dict.fromkeys(unique, kind))
            self.plain_names &= unique == written

    def _instruction(self, statement: str, source: SourceLine | None) -> None:
        guard: Register | None = None
        negated = False
        rest = statement
        if match := _GUARD.match(statement):
            negated = match.group(1) == "!"
            guard = Register(self._register(match.group(2)))
            rest = statement[match.end() :]
        head, _, tail = rest.partition(" ")
        opcode, modifiers, row = _parse_head(head)
        operands = tuple([self._operand(item) for item in _split(tail)]) if tail else ()
        if self.scope is not self.root:
            self.inner.append((len(self.instructions), self.scope))
        made = Instruction(len(self.instructions), opcode, modifiers, operands, guard, negated, source, statement + ";")
        made.__dict__["row"] = row  # as if it had been asked for: it will be
        self.instructions.append(made)

    def _register(self, name: str) -> str:
        return self.scope.register(name) or name

    def _operand(self, text: str) -> Operand:
        if self.plain_names:
            return _parse_operand(text)
        return _parse_operand(_NAME.sub(lambda m: self._register(m.group()), text))

    def _resolve_symbols(self) -> None:
        """Labels may be used before they are declared, so symbols find their scope when the whole body is read."""
        for position, scope in self.inner:
            instruction = self.instructions[position]
            operands = tuple(_resolved(operand, scope) for operand in instruction.operands)
            self.instructions[position] = replace(instruction, operands=operands)
        for name, labels, scope in self.tables:
            self.branch_targets[name] = tuple(scope.symbol(label) for label in labels)


def _resolved(operand: Operand, scope: _Scope) -> Operand:
    if isinstance(operand, Symbol):
        return Symbol(scope.symbol(operand.name), operand.offset)
    if isinstance(operand, Address) and isinstance(operand.base, Symbol):
        return Address(Symbol(scope.symbol(operand.base.name), operand.base.offset), operand.offset)
    if isinstance(operand, Vector):
        return Vector(tuple(None if e is None else _resolved(e, scope) for e in operand.elements))
    return operand


@lru_cache(maxsize=2000)
def _parse_head(text: str) -> tuple[str, tuple[str, ...], Opcode]:
    """``ld.shared::cta.f32`` -> ``ld``, its modifiers, and what is known of it."""
    opcode, *modifiers = text.replace("::", "__").split(".")
    return opcode, tuple(modifiers), row_of(opcode, modifiers[0] if modifiers else "")


def _split(text: str) -> list[str]:
    """Split at commas outside brackets."""
    parts = text.split(",")
    if "{" not in text and "(" not in text and not _CUT.search(text):
        return [part.strip() for part in parts]
    whole: list[str] = []
    depth = 0
    for part in parts:
        if depth:
            whole[-1] += f",{part}"
        else:
            whole.append(part)
        depth += sum(map(part.count, "{[(")) - sum(map(part.count, "}])"))
    return [part.strip() for part in whole]


def _number(text: str) -> int:
    digits = text.rstrip("U")
    if not re.match(r"-?0\d", digits):
        return int(digits, 0)
    if re.search("[89]", digits):
        raise PtxSyntaxError(f"number not understood: {text}")
    return int(digits, 8)


@lru_cache(maxsize=20000)
def _parse_operand(text: str) -> Operand:
    if _SINGLE.match(text):
        return Immediate(int(text[2:], 16), is_float=True)
    if _DOUBLE.match(text):
        return Immediate(int(text[2:], 16), is_float=True, is_double=True)
    if _NUMBER.match(text):
        return Immediate(_number(text))
    if text == "WARP_SZ":
        return Immediate(32)
    if _DECIMAL.match(text):
        bits = int.from_bytes(struct.pack("<d", float(text)), "little")
        return Immediate(bits, is_float=True, is_double=True)
    if text.startswith(("{", "(")):
        inner = text[1:-1].strip()
        items = list(_split(inner)) if inner else []
        return Vector(tuple(None if item == "_" else _parse_operand(item) for item in items))
    if text.startswith("[") and text.endswith("}]"):  # [texture or surface, {coordinates}]
        parts = [_parse_operand(part) for part in _split(text[1:-1])]
        if len(parts) != 2 or not isinstance(parts[1], Vector):
            raise PtxSyntaxError(f"coordinates not understood: {text}")
        return Vector((parts[0], *parts[1].elements))
    if text.startswith("["):
        match = _ADDRESS.match(text)
        if match is None:
            raise PtxSyntaxError(f"address not understood: {text}")
        base, sign, offset = match.groups()
        number = _signed(sign, offset)
        if _NUMBER.match(base):
            return Address(None, _number(base) + number)
        return Address(Register(base) if _is_register(base) else Symbol(base), number)
    if text.startswith("!"):
        return PredicatePair(Register(text[1:]), negated=True)
    if "|" in text:
        first, second = (None if item.strip() == "_" else Register(item.strip()) for item in text.split("|"))
        return PredicatePair(first, second)
    if _is_register(text):
        return Register(text)
    if match := _SYMBOL.match(text):
        return Symbol(match.group(1), _signed(match.group(2), match.group(3)))
    raise PtxSyntaxError(f"operand not understood: {text}")


def _signed(sign: str | None, offset: str | None) -> int:
    """The offset of an address: ``+8``, ``+-8``, ``-8``, or none."""
    if not offset:
        return 0
    if not _NUMBER.match(offset):
        raise PtxSyntaxError(f"offset not understood: {offset}")
    return -_number(offset) if sign == "-" else _number(offset)


def _is_register(text: str) -> bool:
    return text.startswith("%") or "@" in text


@cache
def register_width(declared: str) -> int | str:
    """Bits of a declared register type, or ``pred``."""
    if declared == "pred":
        return "pred"
    return max(16, 8 * SIZES[declared])  # an 8-bit register lives in the low half of a 16-bit one
