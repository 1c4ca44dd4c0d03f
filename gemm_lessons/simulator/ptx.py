"""PTX text -> frozen records (``Module``, ``Kernel``, ``Instruction``). First step of the simulator; runs nothing.

Only the syntax that NVRTC prints is read: one statement a line or several, ``.loc`` directives for source lines,
``.reg``/``.shared``/``.local``/``.const``/``.global`` declarations, labels, guards, ``{}`` vectors, ``[base+offset]``.
Source of the syntax: NVIDIA, "PTX ISA", release 8.x/9.x, chapters 4 and 5.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache


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
        """``ld.global.v4.f32``."""
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
    parameters: tuple[Parameter, ...]
    instructions: tuple[Instruction, ...]
    labels: Mapping[str, int]
    registers: Mapping[str, str]  # name -> declared type: pred, b16, b32, f32, b64, f64 ...
    variables: tuple[Variable, ...]
    target: str
    branch_targets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # brx.idx tables
    directives: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)  # shapes: maxntid, reqntid ...


@dataclass(frozen=True)
class Module:
    """All kernels and device functions of one PTX file and its module-level variables.

    A function is a ``Kernel`` whose parameters are the returned ones followed by the passed ones.
    """

    kernels: Mapping[str, Kernel]
    functions: Mapping[str, Kernel]
    variables: tuple[Variable, ...]
    target: str


class PtxSyntaxError(Exception):
    """The PTX is not of the form that this parser reads; names the statement."""


SIZES: Mapping[str, int] = {
    "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4, "s32": 4,
    "f32": 4, "f16x2": 4, "bf16x2": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16,
}  # fmt: skip

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"', re.M)
_LOC = re.compile(
    r"\.loc\s+(\d+)\s+(\d+)\s+\d+(?:\s*,\s*function_name[^,\n]*,\s*inlined_at\s+(\d+)\s+(\d+)\s+\d+)?[^\n]*"
)
_LABEL = re.compile(r"([\w$.]+)\s*:(?!:)")
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
_REGISTER = re.compile(r"\.reg\s+\.(\w+)\s+(.*)$", re.S)
_NUMBERED = re.compile(r"(%?[\w$]+)<(\d+)>$")
_GUARD = re.compile(r"@(!?)(%?[\w$]+)\s+")
_ADDRESS = re.compile(r"\[\s*([%\w$.]+)\s*(?:\+\s*(-?\w+))?\s*\]$")
_NUMBER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|\d+)U?$")
_SYMBOL = re.compile(r"([\w$]+)(?:\+(\d+))?$")


def parse(text: str) -> Module:
    """Read a whole PTX file. Raises ``PtxSyntaxError`` on a statement that it does not know how to read."""
    files = dict(_FILE.findall(text))
    debug = text.find("\n\t.section")
    text = _COMMENT.sub(" ", text[:debug] if debug >= 0 else text)
    target = re.search(r"\.target\s+(\w+)", text)
    name_of_target = target.group(1) if target else ""
    kernels: dict[str, Kernel] = {}
    functions: dict[str, Kernel] = {}
    outside: list[str] = []
    position = 0
    entries = [(m, m[1], m[2], m[3], kernels) for m in _ENTRY.finditer(text)]
    defined = [(m, m[2], f"{m[1] or ''},{m[3]}", "", functions) for m in _FUNCTION.finditer(text) if m[4] == "{"]
    for match, name, parameters, between, table in sorted([*entries, *defined], key=lambda item: item[0].start()):
        outside.append(text[position : match.start()])
        position = _closing_brace(text, match.end())
        body = _Body(text[match.end() : position - 1], files)
        kernel = body.kernel(name, _parameters(parameters), name_of_target)
        table[name] = replace(kernel, directives=dict(_directives(between)))
    outside.append(text[position:])
    variables = tuple(v for chunk in outside for v in _module_variables(chunk))
    return Module(kernels, functions, variables, name_of_target)


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
        if match:
            yield _variable(match.group().strip())


def _variable(statement: str) -> Variable:
    match = _VARIABLE.match(statement)
    if match is None:
        raise PtxSyntaxError(f"declaration not understood: {statement[:100]}")
    space, align, vector, kind, name, dimensions, initial = match.groups()
    element = SIZES[kind]
    size = element * (int(vector[1]) if vector else 1)
    for dimension in re.findall(r"\[(\d*)\]", dimensions):
        size *= int(dimension or 0)
    return Variable(name, space, int(align or element), size, _initial(initial, element) if initial else b"")


def _initial(text: str, element: int) -> bytes:
    values = [_parse_operand(item.strip()) for item in text.strip().strip("{}").split(",")]
    mask = (1 << (8 * element)) - 1
    numbers = [v.value & mask if isinstance(v, Immediate) else 0 for v in values]
    return b"".join(number.to_bytes(element, "little") for number in numbers)


def _parameters(text: str) -> tuple[Parameter, ...]:
    result: list[Parameter] = []
    offset = 0
    for align_text, kind, name, count in _PARAMETER.findall(text.strip(" \n\t,")):
        size = SIZES[kind] * int(count or 1)
        align = int(align_text or SIZES[kind])
        offset = -(-offset // align) * align
        result.append(Parameter(name, kind, offset, size, align))
        offset += size
    return tuple(result)


class _Body:
    """Reads one kernel body, statement by statement."""

    def __init__(self, text: str, files: Mapping[str, str]) -> None:
        self.text = text
        self.files = files
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.registers: dict[str, str] = {}
        self.variables: list[Variable] = []
        self.branch_targets: dict[str, tuple[str, ...]] = {}
        self.scopes: list[dict[str, str]] = [{}]
        self.scope_count = 0

    def kernel(self, name: str, parameters: tuple[Parameter, ...], target: str) -> Kernel:
        source: SourceLine | None = None
        text, position = self.text, 0
        pending_label = ""
        while position < len(text):
            character = text[position]
            if character.isspace():
                position += 1
            elif text.startswith((".loc ", ".loc\t"), position):
                match = _LOC.match(text, position)
                if match is None:
                    raise PtxSyntaxError(f".loc not understood: {text[position : position + 80]}")
                source = self._source(match)
                position = match.end()
            elif character == "{":
                self.scopes.append({})
                self.scope_count += 1
                position += 1
            elif character == "}":
                self.scopes.pop()
                position += 1
            elif label := _LABEL.match(text, position):
                pending_label = label.group(1)
                self.labels[pending_label] = len(self.instructions)
                position = label.end()
            else:
                end = text.find(";", position)
                if end < 0:
                    raise PtxSyntaxError(f"statement not closed: {text[position : position + 80]}")
                self._statement(" ".join(text[position:end].split()), source, pending_label)
                position = end + 1
        return Kernel(
            name, parameters, tuple(self.instructions), self.labels, self.registers, tuple(self.variables), target,
            self.branch_targets,
        )  # fmt: skip

    def _source(self, match: re.Match[str]) -> SourceLine:
        file, line, outer_file, outer_line = match.groups()
        outer = SourceLine(self.files.get(outer_file, ""), int(outer_line)) if outer_file else None
        return SourceLine(self.files.get(file, ""), int(line), outer)

    def _statement(self, statement: str, source: SourceLine | None, label: str) -> None:
        if not statement:
            return
        if statement.startswith(".reg"):
            self._declare(statement)
        elif statement.startswith(".branchtargets"):
            self.branch_targets[label] = tuple(x.strip() for x in statement.split(None, 1)[1].split(","))
        elif statement.startswith((".param", ".pragma", ".callprototype")):
            return  # call sequences are reported when the call is decoded
        elif statement.startswith("."):
            self.variables.append(_variable(statement))
        else:
            self._instruction(statement, source)

    def _declare(self, statement: str) -> None:
        match = _REGISTER.match(statement)
        if match is None:
            raise PtxSyntaxError(f"register declaration not understood: {statement[:100]}")
        kind, names = match.groups()
        for name in names.split(","):
            numbered = _NUMBERED.match(name.strip())
            if numbered:
                prefix, count = numbered.groups()
                self.registers.update((f"{prefix}{i}", kind) for i in range(int(count)))
                continue
            plain = name.strip()
            unique = plain if len(self.scopes) == 1 else f"{plain}@{self.scope_count}"
            self.scopes[-1][plain] = unique
            self.registers[unique] = kind

    def _instruction(self, statement: str, source: SourceLine | None) -> None:
        guard: Register | None = None
        negated = False
        rest = statement
        if match := _GUARD.match(statement):
            negated = match.group(1) == "!"
            guard = Register(self._resolve(match.group(2)))
            rest = statement[match.end() :]
        head, _, tail = rest.partition(" ")
        opcode, *modifiers = head.replace("::", "__").split(".")
        operands = tuple(self._operand(item) for item in _split(tail)) if tail else ()
        self.instructions.append(
            Instruction(
                len(self.instructions), opcode, tuple(modifiers), operands, guard, negated, source, statement + ";"
            )
        )

    def _resolve(self, name: str) -> str:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return name

    def _operand(self, text: str) -> Operand:
        if len(self.scopes) == 1:
            return _parse_operand(text)
        return _parse_operand(re.sub(r"[%\w$]+", lambda m: self._resolve(m.group()), text))


def _split(text: str) -> Iterator[str]:
    """Split at commas outside brackets."""
    depth = start = 0
    for position, character in enumerate(text):
        if character in "{[(":
            depth += 1
        elif character in "}])":
            depth -= 1
        elif character == "," and depth == 0:
            yield text[start:position].strip()
            start = position + 1
    yield text[start:].strip()


def _number(text: str) -> int:
    return int(text.rstrip("U"), 0) if not re.match(r"-?0\d", text) else int(text.rstrip("U"), 8)


@lru_cache(maxsize=20000)
def _parse_operand(text: str) -> Operand:
    if text.startswith(("0f", "0F", "0d", "0D")):
        return Immediate(int(text[2:], 16), is_float=True)
    if _NUMBER.match(text):
        return Immediate(_number(text))
    if text.startswith(("{", "(")):
        inner = text[1:-1].strip()
        items = list(_split(inner)) if inner else []
        return Vector(tuple(None if item == "_" else _parse_operand(item) for item in items))
    if text.startswith("["):
        match = _ADDRESS.match(text)
        if match is None:
            raise PtxSyntaxError(f"address not understood: {text}")
        base, offset = match.groups()
        number = _number(offset) if offset else 0
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
        return Symbol(match.group(1), int(match.group(2) or 0))
    raise PtxSyntaxError(f"operand not understood: {text}")


def _is_register(text: str) -> bool:
    return text.startswith("%") or "@" in text
