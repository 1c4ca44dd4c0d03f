"""Parses PTX text to records (``records.py``). First step of the simulator; runs nothing.

It reads the output of compilers and inline assembly: one or more statements per line, ``.loc`` directives for source
lines, ``.reg``/``.shared``/``.local``/``.const``/``.global`` declarations, labels, guards, ``{}`` vectors,
``[base+offset]``. Names are scoped to the braces in which they are declared; names in inner braces get the number of
their scope, ``t@3``. Comments and strings, which may contain text that looks like code, are removed first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import TypeVar

from gemm_lessons.engine.compiler.toolkit import is_toolkit_header
from gemm_lessons.engine.ptx.expansions import SELECTING, selected
from gemm_lessons.engine.ptx.opcodes import Opcode, row_of
from gemm_lessons.engine.ptx.operand_text import parse_operand, signed, split
from gemm_lessons.engine.ptx.records import (
    SIZES,
    Address,
    AddressOf,
    Immediate,
    Instruction,
    Kernel,
    KernelParameter,
    Module,
    Operand,
    PtxSyntaxError,
    Register,
    SourceLine,
    Symbol,
    Variable,
    Vector,
    places_before,
)
from gemm_lessons.engine.records.regex import regex

MAX_REGISTERS = 1 << 20  # per declaration

_TOKEN = regex(r'//[^\n]*|/\*.*?\*/|"((?:[^"\\]|\\.)*)"', re.S)
_FILE = regex(r'\.file\s+(\d+)\s+"(\d+)"')
_SECTION = regex(r"\.section\s+[\w.$]+\s*\{")
_LOC = regex(
    r"\.loc\s+(\d+)\s+(\d+)\s+\d+"
    r"(?:\s*,\s*function_name\s+[\w$.]+(?:\s*\+\s*\d+)?\s*,\s*inlined_at\s+(\d+)\s+(\d+)\s+\d+)?"
)
_BLANK = regex(r"\s+")
_LABEL = regex(r"(%?[\w$]+)\s*:(?!:)")
_ENTRY = regex(r"\.entry\s+([\w$]+)\s*(?:\(([^)]*)\))?([^;{]*)\{", re.S)
_FUNCTION = regex(r"\.func\s+(?:\(([^)]*)\)\s*)?([\w$]+)\s*(?:\(([^)]*)\))?[^;{]*([;{])", re.S)
_OUTSIDE = regex(  # text outside kernels and functions, up to the head of the next one
    r"(?:[\s\0]+|\.version\s+[\d.]+|\.target\s+\w+(?:\s*,\s*\w+)*|\.address_size\s+\d+|\.(?:file|loc)\s[^\n]*|@@\w[^\n]*"
    r"|\.(?:visible|extern|weak|common)\b|\.(?:func|entry)\b[^;{]*;"
    r"|\.(?:alias|pragma|global|const|shared|local|reg|tex|texref|samplerref|surfref)\b[^;]*;)*"
)
_REGISTER = regex(r"\.reg\s*(?:\.(v[24])\s*)?\.(\w+)\s+(.*)$", re.S)
ELEMENTS = "xyzw"  # names of the elements of a vector register
_NUMBERED = regex(r"(%?[\w$]+)<(\d+)>$")
_GUARD = regex(r"@\s*(!?)\s*(%?[\w$]+)\s+")
_HEAD_AND_OPERAND = regex(r"([\w.:]+)[{\[(%]")  # no space between them
_NAME = regex(r"[%\w$][\w$.]*")
MAX_BYTES = {"global": 1 << 30, "const": 1 << 30, "shared": 1 << 20, "local": 1 << 20}  # per variable
MOST_ALIGNMENT = 1 << 20
MAX_PARAMETER_BYTES = 32764  # "CUDA C++ Programming Guide", kernel parameters since CUDA 12.1

_PARAMETER = regex(
    r"\.param\s*(?:\.align\s+(\d+)\s*)?\.(\w+)(?:\s*\.ptr\b[^,]*?)?\s+([\w$]+)(?:\[(\d+)\])?\s*(?:,|$)", re.S
)
_VARIABLE = regex(
    r"(?:\.(?:visible|extern|weak|common)\s+)*\.(shared|local|const|global)\s+(?:\.attribute\([^)]*\)\s*)?"
    r"(?:\.align\s+(\d+)\s+)?(?:\.(v[24])\s+)?\.(\w+)\s+([\w$]+)((?:\s*\[\d*\])*)\s*(?:=\s*(.*))?$",
    re.S,
)
_SHAPE = regex(r"\.(maxntid|reqntid|maxnreg|minnctapersm|reqnctapercluster|maxclusterrank)\s+(\d+(?:\s*,\s*\d+){0,2})")
_POINTER = regex(
    r"(?:(0[xX][fF0]+)\s*\()?\s*(?:generic\s*\(\s*)?([A-Za-z_$][\w$]*)\s*(?:([+-])\s*(\w+))?\s*\)*\s*"
    r"(?:([+-])\s*(\w+))?\s*\)?$"
)


@lru_cache(maxsize=8)
def parse(text: str) -> Module:
    """Parse a PTX file, each kernel on its first use. Raise ``PtxSyntaxError`` for a statement that cannot be read."""
    text, strings = without_comments_and_strings(text)
    files = {number: strings[int(name)] for number, name in _FILE.findall(text)}
    text = _without_sections(text)
    if re.search(r"\.address_size\s+32\b", text):
        raise PtxSyntaxError("its addresses have 32 bits (.address_size 32), which is not supported: compile it for 64")
    target = re.search(r"\.target\s+(\w+)", text)
    name_of_target = target.group(1) if target else ""
    readers: tuple[dict[str, Callable[[], Kernel]], dict[str, Callable[[], Kernel]]] = {}, {}
    heads: dict[str, Callable[[], tuple[KernelParameter, ...]]] = {}
    outside: list[str] = []
    position = 0
    entries = [(m, m[1], m[2] or "", m[3], readers[0]) for m in _ENTRY.finditer(text)]
    defined = [(m, m[2], f"{m[1] or ''},{m[3] or ''}", "", readers[1]) for m in _FUNCTION.finditer(text) if m[4] == "{"]
    for match, name, parameters, between, table in sorted([*entries, *defined], key=lambda item: item[0].start()):
        outside.append(text[position : match.start()])
        position = _closing_brace(text, match.end())
        body = text[match.end() : position - 1]
        read = partial(_read, body, files, name, parameters, between, name_of_target)
        table[name] = partial(_refuse, name) if name in heads else read
        heads[name] = partial(parameters_of, parameters)
    outside.append(text[position:])
    for chunk in outside:
        known = _OUTSIDE.match(chunk)
        if known and (unknown := chunk[known.end() :]):
            raise PtxSyntaxError(f"not understood outside of kernels and functions: {unknown.splitlines()[0][:100]}")
    variables = tuple(v for chunk in outside for v in module_variables(chunk))
    return Module(_LazyMapping(readers[0]), _LazyMapping(readers[1]), variables, name_of_target, _LazyMapping(heads))


def _read(body: str, files: Mapping[str, str], name: str, parameters: str, between: str, target: str) -> Kernel:
    kernel = _Body(body, files).kernel(name, parameters_of(parameters), target)
    return replace(kernel, directives=dict(directives(between)))


def _refuse(name: str) -> Kernel:
    raise PtxSyntaxError(f"two bodies of one name: {name}")


Part = TypeVar("Part")


class _LazyMapping(Mapping[str, Part]):
    """Kernels by name, each parsed on first use, so that errors in one do not affect the others."""

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
    """Return ``text`` without debugging sections, which are data."""
    while match := _SECTION.search(text):
        text = text[: match.start()] + text[_closing_brace(text, match.end()) :]
    return text


def _closing_brace(text: str, position: int) -> int:
    depth = 1
    for match in re.compile(r"[{}]").finditer(text, position):
        depth += 1 if match.group() == "{" else -1
        if depth == 0:
            return match.end()
    raise PtxSyntaxError("a kernel body is not closed: is the file complete?")


class _Scope:
    """The names declared between one pair of braces: name in the text -> name in the ``Kernel``."""

    def __init__(self, number: int, outer: _Scope | None) -> None:
        self.number = number
        self.outer = outer
        self.registers: dict[str, str] = {}
        self.symbols: dict[str, str] = {}  # labels, variables, parameters of calls

    def unique(self, name: str) -> str:
        """Return the kernel-wide name of a symbol of this scope."""
        return f"{name}@{self.number}" if self.outer is not None else name

    def declare(self, registers: list[str]) -> list[str]:
        """Declare the registers of one declaration. Return their names, which differ from those of symbols."""
        bare = self.outer is None and all(register.startswith("%") for register in registers[:1])
        names = registers if bare else [f"{register}@{self.number}" for register in registers]
        self.registers.update(zip(registers, names, strict=True))
        return names

    def register(self, name: str) -> str | None:
        """Return the register that ``name`` means in this scope."""
        if name in self.registers:
            return self.registers[name]
        return self.outer.register(name) if self.outer is not None and name not in self.symbols else None

    def symbol(self, name: str) -> str:
        """Return the symbol that ``name`` means in this scope. A symbol of the module is returned unchanged."""
        if name in self.symbols:
            return self.symbols[name]
        return self.outer.symbol(name) if self.outer is not None else name


class _Body:
    """Parses one kernel body, statement by statement."""

    def __init__(self, text: str, files: Mapping[str, str]) -> None:
        self.text = text
        self.inlined: dict[tuple[str, int], SourceLine] = {}  # source lines of inlined code, by file and line
        self.files = files
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.registers: dict[str, str] = {}
        self.variables: list[Variable] = []
        self.branch_targets: dict[str, tuple[str, ...]] = {}
        self.scope = self.root = _Scope(0, None)
        self.plain_names = True  # register names in the text are those of the kernel
        self.vectors: dict[str, list[str]] = {}  # vector registers, each with the names of its elements
        self.scopes = 1
        self.inner: list[tuple[int, _Scope]] = []  # instructions (indices) inside inner braces
        self.tables: list[tuple[str, Sequence[str], _Scope]] = []  # branch tables of brx.idx: name, labels as written

    def kernel(self, name: str, parameters: tuple[KernelParameter, ...], target: str) -> Kernel:
        source: SourceLine | None = None
        text, position = self.text, 0
        pending_label = ""
        while position < len(text):
            if blank := _BLANK.match(text, position):
                position = blank.end()
                if position == len(text):
                    break
            character = text[position]
            if text.startswith((".loc ", ".loc\t"), position):
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
        if len(self.instructions) in self.labels.values():  # target of a branch assumed to be never taken
            self._instruction("ret", source)
        self._resolve_symbols()
        return Kernel(
            name, parameters, tuple(self.instructions), self.labels, self.registers, tuple(self.variables), target,
            self.branch_targets,
        )  # fmt: skip

    def _source(self, match: re.Match[str]) -> SourceLine:
        file, line, outer_file, outer_line = match.groups()
        outer = SourceLine(self.files.get(outer_file, ""), int(outer_line)) if outer_file else None
        if outer is not None:  # the call site may be inlined itself; its line then came just before
            outer = self.inlined.get((outer.file, outer.line), outer)
        source = SourceLine(self.files.get(file, ""), int(line), outer)
        if outer is not None:
            place = source.file, source.line
            if is_toolkit_header(source.file):  # the outermost header has the function that the user called
                source = replace(outer, header=outer.header or source.file)
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
        elif statement.startswith(".param"):  # parameters of a call, see ``inline.py``
            name = re.split(r"\[", statement)[0].split()[-1]
            self.scope.symbols[name] = self.scope.unique(name)
        elif statement.startswith((".pragma", ".callprototype", ".calltargets")):
            return
        else:
            declared = variable(statement)
            unique = self.scope.symbols[declared.name] = self.scope.unique(declared.name)
            self.variables.append(replace(declared, name=unique))

    def _declare(self, statement: str) -> None:
        match = _REGISTER.match(statement)
        if match is None or match[2] not in (*SIZES, "pred"):
            raise PtxSyntaxError(f"register declaration not understood: {statement[:100]}")
        vector, kind, names = match.groups()
        for item in names.split(","):
            numbered = _NUMBERED.match(item.strip())
            if numbered and int(numbered[2]) > MAX_REGISTERS:
                raise PtxSyntaxError(f"more registers than the kit supports: {statement[:100]}")
            written = [f"{numbered[1]}{i}" for i in range(int(numbered[2]))] if numbered else [item.strip()]
            if vector:
                elements = {name: [f"{name}.{it}" for it in ELEMENTS[: int(vector[1])]] for name in written}
                self.vectors.update(elements)
                written = [it for name in written for it in elements[name]]
            unique = self.scope.declare(written)
            self.registers.update(dict.fromkeys(unique, kind))
            self.plain_names &= unique == written

    def _instruction(self, statement: str, source: SourceLine | None) -> None:
        guard: Register | None = None
        negated = False
        rest = statement
        if statement[0] == "@" and (match := _GUARD.match(statement)):
            negated = match.group(1) == "!"
            guard = Register(self._register(match.group(2)))
            rest = statement[match.end() :]
        head, _, tail = rest.partition(" ")
        if (cut := _HEAD_AND_OPERAND.match(head)) is not None:
            head, tail = cut[1], rest[cut.end(1) :]
        opcode, modifiers, row = _parse_head(head)
        texts = split(tail) if tail else []
        if opcode in SELECTING:
            modifiers, texts = selected(opcode, modifiers, texts)
        if self.vectors:
            texts = [self._elements(item) for item in texts]
        operands = tuple(map(parse_operand if self.plain_names else self._operand, texts))
        if "{" in tail and row.vector in ("v", "cut"):
            operands = tuple([_unwrapped(operand) for operand in operands])
        if self.scope is not self.root:
            self.inner.append((len(self.instructions), self.scope))
        made = Instruction(len(self.instructions), opcode, modifiers, operands, guard, negated, source, statement + ";")
        made.__dict__["row"] = row  # fill the cached property now
        self.instructions.append(made)

    def _elements(self, text: str) -> str:
        """Return an operand with a vector register written as its elements: ``t`` is ``{t.x, t.y}``."""
        elements = self.vectors.get(text)
        return f"{{{', '.join(elements)}}}" if elements else text

    def _register(self, name: str) -> str:
        return self.scope.register(name) or name

    def _operand(self, text: str) -> Operand:
        return parse_operand(_NAME.sub(lambda m: self._register(m.group()), text))

    def _resolve_symbols(self) -> None:
        """Resolve symbols after the whole body is read, because labels may be used before they are declared."""
        for position, scope in self.inner:
            instruction = self.instructions[position]
            operands = tuple(_resolved(operand, scope) for operand in instruction.operands)
            self.instructions[position] = replace(instruction, operands=operands)
        for name, labels, scope in self.tables:
            self.branch_targets[name] = tuple(scope.symbol(label) for label in labels)


def _unwrapped(operand: Operand) -> Operand:
    """Return the only element of a vector of one: Triton writes ``{ %r1 }`` for one register, as assemblers allow."""
    if isinstance(operand, Vector) and len(operand.elements) == 1 and operand.elements[0] is not None:
        return operand.elements[0]
    return operand


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
    """Split ``ld.shared::cta.f32`` into ``ld``, its modifiers, and the opcode's row."""
    opcode, *modifiers = text.replace("::", "__").split(".")
    return opcode, tuple(modifiers), row_of(opcode, modifiers[0] if modifiers else "")


def without_comments_and_strings(text: str) -> tuple[str, list[str]]:
    """Return the text with a blank for each comment and ``"N"`` for string number N, and the strings as written."""
    strings: list[str] = []

    def replaced(match: re.Match[str]) -> str:
        if match.group(1) is None:
            return " "
        strings.append(match.group(1))
        return f'"{len(strings) - 1}"'

    return _TOKEN.sub(replaced, text), strings


def directives(text: str) -> Iterator[tuple[str, tuple[int, int, int]]]:
    """Yield the shapes in ``.maxntid 256, 1, 1`` and similar directives between a kernel's head and its body."""
    for name, numbers in _SHAPE.findall(text):
        x, y, z = [*map(int, numbers.split(",")), 1, 1][:3]
        yield name, (x, y, z)


def module_variables(chunk: str) -> Iterator[Variable]:
    """Yield the variables declared between kernels. One that cannot be held has the reason as its ``problem``."""
    for statement in chunk.split(";"):
        match = re.search(r"(?:\.(?:visible|extern|weak|common)\s+)*\.(?:shared|const|global)\s.*$", statement, re.S)
        if match is None:
            continue
        text = match.group().strip()
        try:
            yield variable(text)
        except PtxSyntaxError as error:
            declared = text.partition("=")[0].partition("[")[0].split()
            yield Variable(declared[-1], declared[0].lstrip("."), 1, 0, problem=str(error))


def variable(statement: str) -> Variable:
    """Return one declared variable. Raise ``PtxSyntaxError`` for one that cannot be read or is too large."""
    match = _VARIABLE.match(statement)
    if match is None or match[4] not in SIZES:
        raise PtxSyntaxError(f"declaration not understood: {statement[:100]}")
    space, align, vector, kind, name, dimensions, initial = match.groups()
    element = SIZES[kind]
    size = element * (int(vector[1]) if vector else 1)
    for dimension in re.findall(r"\[(\d*)\]", dimensions):
        size *= int(dimension or 0)
    if size > MAX_BYTES[space] or int(align or 1) not in range(1, MOST_ALIGNMENT + 1):
        raise PtxSyntaxError(f"{name} has {size:,} bytes{f' at {align}' if align else ''}, more than can be held")
    data, pointers = _initial(initial, element) if initial else (b"", ())
    if len(data) > size:
        raise PtxSyntaxError(f"more values than the variable holds: {statement[:100]}")
    return Variable(name, space, int(align or element), size, data, kind, pointers)


def _initial(text: str, element: int) -> tuple[bytes, tuple[AddressOf, ...]]:
    """Return the bytes of ``{1, 2}`` or ``7``, and addresses among them: ``generic(a)+4``, ``0xFF00(generic(a))``."""
    data = b""
    pointers: list[AddressOf] = []
    for item in split(re.sub(r"[{}]", " ", text)):
        if match := _POINTER.match(item):
            mask = int(match[1], 16) if match[1] else (1 << 8 * element) - 1
            addend = signed(match[3] or match[5], match[4] or match[6])
            shift = ((mask & -mask).bit_length() - 1) // 8
            size = (mask.bit_length() + 7) // 8 - shift
            if size > element:
                raise PtxSyntaxError(f"initial value not understood: {item[:100]}")
            pointers.append(AddressOf(len(data), match[2], addend, size, shift))
            data += bytes(element)
            continue
        value = parse_operand(item)
        if not isinstance(value, Immediate):
            raise PtxSyntaxError(f"initial value not understood: {item[:100]}")
        data += (value.value & (1 << 8 * element) - 1).to_bytes(element, "little")
    return data, tuple(pointers)


def parameters_of(text: str) -> tuple[KernelParameter, ...]:
    """Return the parameters of a kernel or function with consecutive offsets. Raise ``PtxSyntaxError``."""
    result: list[KernelParameter] = []
    offset = 0
    if ".reg" in text:
        raise PtxSyntaxError(f"parameters in registers (.reg) are not supported, use .param: {text[:100]}")
    found = _PARAMETER.findall(text.strip(" \n\t,"))
    if len(found) != text.count(".param") or any(
        kind not in SIZES or int(align or 1) not in range(1, MOST_ALIGNMENT + 1) for align, kind, _, _ in found
    ):
        raise PtxSyntaxError(f"parameters not understood: {' '.join(text.split())[:200]}")
    for align_text, kind, name, count in found:
        size = SIZES[kind] * int(count or 1)
        if size > MAX_PARAMETER_BYTES:
            raise PtxSyntaxError(f"parameter {name} has {size:,} bytes, more than a launch can pass")
        align = int(align_text or SIZES[kind])
        offset = -(-offset // align) * align
        result.append(KernelParameter(name, kind, offset, size, align))
        offset += size
    return tuple(result)
